"""What a program does with one score of attention, as steps that a kernel can write and torch can follow.

    lambda score, b, h, i, j: score + slopes[h] * (i - j)
    [index(table 0, head), subtract(row, column), multiply(0, 1), add(score, 2)]      results: 3, and its slope by the score: 1.0

A step's operation is named as in `loops.operations`. Its operands are places (by `PLACES`), earlier steps (by number), or numbers; all
are converted to the type in which it computes. The slope, the derivative by the score, is recorded as autograd makes it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dynascope.dataclass import dataclass

PLACES = ("batch", "head", "row", "column")
SCORE = "score"

Operand = str | int | tuple[float | int | bool]
"""A place or the score, the number of a step, or a number by itself."""

NAMES = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "floor_divide": "floor_divide",
    "remainder": "remainder",
    "fmod": "fmod",
    "pow": "pow",
    "maximum": "maximum",
    "minimum": "minimum",
    "fmax": "fmax",
    "fmin": "fmin",
    "atan2": "atan2",
    "neg": "negate",
    "abs": "absolute",
    "exp": "exp",
    "exp2": "exp2",
    "expm1": "expm1",
    "log": "log",
    "log2": "log2",
    "log1p": "log1p",
    "sqrt": "square_root",
    "rsqrt": "reciprocal_square_root",
    "reciprocal": "reciprocal",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "erf": "erf",
    "sin": "sin",
    "cos": "cos",
    "floor": "floor",
    "ceil": "ceil",
    "round": "round",
    "trunc": "truncate",
    "sign": "sign",
    "isnan": "is_nan",
    "isinf": "is_infinite",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "bitwise_not": "not",
    "__and__": "and",
    "__or__": "or",
    "__xor__": "xor",
    "logical_and": "and",
    "logical_or": "or",
    "logical_xor": "xor",
    "logical_not": "not",
    "where": "where",
}
"""Of torch's operators, those that are one operation on each element."""
LOGICAL = ("logical_and", "logical_or", "logical_xor", "logical_not")
OF_TORCH = {name: operator for operator, name in reversed(NAMES.items())}
SAME = ("alias", "clone", "detach", "expand", "lift_fresh", "view", "_unsafe_view", "squeeze", "unsqueeze")
FILLED = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
GIVEN = ("full", "full_like", "new_full", "scalar_tensor")
KINDS = (torch.float32, torch.int64, torch.int32, torch.bool)
"""In which steps compute."""
STORED = (*KINDS, torch.float16, torch.bfloat16, torch.int16, torch.int8, torch.uint8)
"""What tables may hold."""


class NotSteps(Exception):
    """It is more than operations on one score: the message says what."""


@dataclass(frozen=True, slots=True)
class Step:
    """`kind` is the type in which it computes, `dtype` of what it gives. `table` is what an `index` takes an item of."""

    operation: str
    operands: tuple[Operand, ...]
    kind: str
    dtype: str
    table: int = -1


@dataclass(frozen=True, slots=True)
class ScoreFunction:
    """Its first result, and, of what changes a score, the slope."""

    steps: tuple[Step, ...]
    results: tuple[Operand, ...]

    def depends(self, wanted: Sequence[Operand]) -> set[Operand]:
        """The steps, places and the score that these come of."""
        found, left = set(), list(wanted)
        while left:
            operand = left.pop()
            if isinstance(operand, tuple) or operand in found:
                continue
            found.add(operand)
            if isinstance(operand, int):
                left += self.steps[operand].operands
        return found

    def with_tables_from(self, first: int) -> ScoreFunction:
        """The same where its first table comes behind as many others."""
        steps = (replace(each, table=each.table + first) if each.operation == "index" else each for each in self.steps)
        return ScoreFunction(tuple(steps), self.results)

    def needed(self, wanted: Sequence[Operand]) -> list[int]:
        return sorted(each for each in self.depends(wanted) if isinstance(each, int))

    @property
    def indices(self) -> list[int]:
        """The steps that take items of tables: whether there are such items is asked even where nothing reads them."""
        return [number for number, each in enumerate(self.steps) if each.operation == "index"]


EVERYTHING = ScoreFunction((), ((True,),))
"""Of a mask that leaves nothing out."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Which scores count, and what they are changed to, if they are."""

    mask: ScoreFunction
    change: ScoreFunction | None

    def text(self) -> str:
        return json.dumps([_plain(self.mask), self.change and _plain(self.change)], separators=(",", ":"))


def _plain(function: ScoreFunction) -> list[Any]:
    steps = [[each.operation, each.operands, each.kind, each.dtype, each.table] for each in function.steps]
    return [steps, function.results]


def scores_of(text: str) -> Scores:
    mask, change = json.loads(text)
    return Scores(_read(mask), change and _read(change))


def _read(plain: Any) -> ScoreFunction:
    steps, results = plain
    read = (Step(name, _operands(operands), kind, dtype, table) for name, operands, kind, dtype, table in steps)
    return ScoreFunction(tuple(read), _operands(results))


def _operands(plain: Iterable[Any]) -> tuple[Operand, ...]:
    return tuple(tuple(each) if isinstance(each, list) else each for each in plain)


def recorded(
    function: Callable[..., Any], named: Sequence[str | None], tables: Sequence[torch.Tensor], changes: bool
) -> ScoreFunction:
    """The steps of a function of tensors without dimensions. `named` says of each argument which place or score it is, and None of the
    tables; with `changes` the slope is a result too. Raises NotSteps."""
    recorder = _Recorder()
    rest, given = iter(tables), []
    for name in named:
        dtype = torch.float32 if name == SCORE else torch.int64
        tensor = next(rest) if name is None else torch.empty((), dtype=dtype, device="meta", requires_grad=name == SCORE and changes)
        given.append(recorder.given(tensor, name))
    with torch.enable_grad(), recorder:
        result = function(*given)
        made = [recorder.operand(result)]
        if changes:
            slope = _slope(result, [each for each, name in zip(given, named, strict=True) if name == SCORE])
            made.append((0.0,) if slope is None else recorder.operand(slope))
    if changes and result.dtype != torch.float32:
        raise NotSteps(f"the changed score is {result.dtype}")
    if not changes and result.dtype != torch.bool:
        raise NotSteps(f"the mask is {result.dtype}")
    whole = ScoreFunction(tuple(recorder.steps), tuple(made))
    return _without_unused(whole)


def _slope(result: torch.Tensor, scores: Sequence[torch.Tensor]) -> torch.Tensor | None:
    if not result.requires_grad:
        return None
    (slope,) = torch.autograd.grad(result, scores, allow_unused=True)
    return slope


def _without_unused(function: ScoreFunction) -> ScoreFunction:
    kept = function.needed([*function.results, *function.indices])
    at = {old: new for new, old in enumerate(kept)}

    def renamed(operands: Sequence[Operand]) -> tuple[Operand, ...]:
        return tuple(at[each] if isinstance(each, int) else each for each in operands)

    steps = (replace(function.steps[number], operands=renamed(function.steps[number].operands)) for number in kept)
    return ScoreFunction(tuple(steps), renamed(function.results))


class _Recorder(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Step] = []
        self._operands: dict[int, Operand] = {}
        self._tables: dict[int, int] = {}
        self._alive: list[torch.Tensor] = []

    def given(self, tensor: torch.Tensor, name: str | None) -> torch.Tensor:
        self._alive.append(tensor)
        if name is None:
            self._tables[id(tensor)] = len(self._tables)
        else:
            self._operands[id(tensor)] = name
        return tensor

    def operand(self, value: Any) -> Operand:
        """Raises NotSteps for what is no number and was made by no step."""
        if not isinstance(value, torch.Tensor):
            if isinstance(value, (bool, int, float)):
                return (value,)
            raise NotSteps(f"an operand is {type(value).__name__}")
        if id(value) in self._operands:
            return self._operands[id(value)]
        if id(value) in self._tables and not value.dim():
            self._remember(value, self._step("index", (), value.dtype, value.dtype, self._tables[id(value)]))
            return self._operands[id(value)]
        if value.dim() or value.is_meta:
            raise NotSteps("it takes more than items of tensors")
        return (value.item(),)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        if name == "_to_copy" and kwargs.get("device") not in (None, torch.device("meta")):
            raise NotSteps("it moves tensors")
        result = func(*args, **kwargs)
        if not isinstance(result, torch.Tensor) or result.dim():
            raise NotSteps(f"{name} gives more than one number")
        if func._schema.is_mutable:
            name = name.removesuffix("_")  # what is written is known by its number from here on
        self._remember(result, self._made(name, args, kwargs, result.dtype))
        return result

    def _remember(self, result: torch.Tensor, operand: Operand) -> None:
        self._alive.append(result)
        self._operands[id(result)] = operand

    def _made(self, name: str, args: Sequence[Any], kwargs: dict[str, Any], dtype: torch.dtype) -> Operand:
        if name in FILLED:
            return (FILLED[name],)
        if name in GIVEN:
            value = args[-1] if name != "scalar_tensor" else args[0]
            return self.operand(value)
        if name in SAME:
            return self.operand(args[0])
        if name == "_to_copy":
            return self._step("cast", args[:1], _dtype_of(args[0]), dtype)
        if name == "index":
            return self._index(*args, dtype)
        if name == "div" and kwargs.get("rounding_mode") == "floor":
            name, kwargs = "floor_divide", {}
        if name in _WRITTEN_OUT and not kwargs:
            return _WRITTEN_OUT[name](self, dtype, *args)
        if name == "pow" and not dtype.is_floating_point:
            return self._integer_power(dtype, *args)
        if name in NAMES and (not kwargs or set(kwargs) == {"alpha"} and kwargs["alpha"] == 1):
            kind = torch.bool if name in LOGICAL else _kind(name, args, dtype)
            return self._step(NAMES[name], args, kind, dtype)
        raise NotSteps(f"{name} is no operation on one number")

    def _integer_power(self, dtype: torch.dtype, base: Any, exponent: Any) -> Operand:
        if exponent != 2 or isinstance(exponent, torch.Tensor) or dtype not in KINDS:
            raise NotSteps("it raises integers to a power")
        return self._step("multiply", (base, base), dtype, dtype)

    def _index(self, table: Any, places: Sequence[Any], dtype: torch.dtype) -> Operand:
        if id(table) not in self._tables or len(places) != table.dim() or any(each is None for each in places):
            raise NotSteps("it takes more than items of tensors")
        if any(_dtype_of(each) not in (torch.int64, torch.int32) for each in places):
            raise NotSteps("it takes items of tensors at what are no places")
        return self._step("index", places, torch.int64, dtype, self._tables[id(table)])

    def step(self, name: str, dtype: torch.dtype, *operands: Any) -> Operand:
        """Of operands that are said already."""
        return self.append(name, operands, dtype, dtype)

    def _step(self, name: str, args: Sequence[Any], kind: torch.dtype, dtype: torch.dtype, table: int = -1) -> Operand:
        return self.append(name, tuple(map(self.operand, args)), kind, dtype, table)

    def append(self, name: str, operands: tuple[Operand, ...], kind: torch.dtype, dtype: torch.dtype, table: int = -1) -> Operand:
        """The step's number. Raises NotSteps where no kernel computes in these types."""
        allowed = STORED if name == "index" else KINDS
        if kind not in KINDS and name != "cast" and name != "index" or dtype not in allowed:
            raise NotSteps(f"it computes in {kind}")
        if name == "cast" and kind not in STORED:
            raise NotSteps(f"it converts {kind}")
        if name == "index" and SCORE in ScoreFunction(tuple(self.steps), ()).depends(operands):
            raise NotSteps("which item of a tensor it takes depends on the score")
        self.steps.append(Step(name, operands, _text(kind), _text(dtype), table))
        return len(self.steps) - 1


def _tanh_backward(recorder: _Recorder, dtype: torch.dtype, tangent: Any, result: Any) -> Operand:
    tangent, result = recorder.operand(tangent), recorder.operand(result)
    square = recorder.step("multiply", dtype, result, result)
    return recorder.step("multiply", dtype, tangent, recorder.step("subtract", dtype, (1.0,), square))


def _sigmoid_backward(recorder: _Recorder, dtype: torch.dtype, tangent: Any, result: Any) -> Operand:
    tangent, result = recorder.operand(tangent), recorder.operand(result)
    rest = recorder.step("subtract", dtype, (1.0,), result)
    return recorder.step("multiply", dtype, tangent, recorder.step("multiply", dtype, rest, result))


def _clamp(recorder: _Recorder, dtype: torch.dtype, value: Any, least: Any = None, most: Any = None) -> Operand:
    operand = recorder.operand(value)
    if least is not None:
        operand = recorder.step("maximum", dtype, operand, recorder.operand(least))
    return operand if most is None else recorder.step("minimum", dtype, operand, recorder.operand(most))


def _relu(recorder: _Recorder, dtype: torch.dtype, value: Any) -> Operand:
    return _clamp(recorder, dtype, value, 0)


def _threshold_backward(recorder: _Recorder, dtype: torch.dtype, tangent: Any, value: Any, least: Any) -> Operand:
    compared = recorder.append("less_equal", (recorder.operand(value), (least,)), _dtype_of(value), torch.bool)
    return recorder.step("where", dtype, compared, (0.0,), recorder.operand(tangent))


def _reversed_subtraction(recorder: _Recorder, dtype: torch.dtype, first: Any, second: Any) -> Operand:
    return recorder.step("subtract", dtype, recorder.operand(second), recorder.operand(first))


_WRITTEN_OUT: dict[str, Callable[..., Operand]] = {
    "tanh_backward": _tanh_backward,
    "sigmoid_backward": _sigmoid_backward,
    "clamp": _clamp,
    "clamp_min": lambda recorder, dtype, value, least: _clamp(recorder, dtype, value, least),
    "clamp_max": lambda recorder, dtype, value, most: _clamp(recorder, dtype, value, None, most),
    "relu": _relu,
    "threshold_backward": _threshold_backward,
    "rsub": _reversed_subtraction,
}


def _kind(name: str, args: Sequence[Any], dtype: torch.dtype) -> torch.dtype:
    """Comparisons compute in what their operands have in common, all else in what it gives."""
    if dtype != torch.bool or name in ("where", "index"):
        return dtype
    common = _dtype_of(args[0])
    for each in args[1:]:
        common = torch.result_type(torch.empty((), dtype=common, device="meta"), each)
    return common


def _dtype_of(value: Any) -> torch.dtype:
    return value.dtype if isinstance(value, torch.Tensor) else torch.tensor(value).dtype


def _text(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def evaluated(function: ScoreFunction, given: dict[str, torch.Tensor], tables: Sequence[torch.Tensor]) -> list[Any]:
    """Its results by torch's operators, of places and scores that broadcast with one another."""
    values: list[Any] = []

    def value_of(operand: Operand) -> Any:
        if isinstance(operand, tuple):
            return operand[0]
        return values[operand] if isinstance(operand, int) else given[operand]

    for step in function.steps:
        kind, dtype = getattr(torch, step.kind), getattr(torch, step.dtype)
        operands = [value_of(each) for each in step.operands]
        if step.operation == "index":
            table = tables[step.table]
            values.append(table[tuple(torch.broadcast_tensors(*operands))] if operands else table)
            continue
        first = operands[:1] if step.operation == "where" else []
        operands = [*first, *(_converted(each, kind) for each in operands[len(first) :])]
        if step.operation == "cast":
            values.append(operands[0].to(dtype))
        else:
            values.append(getattr(torch.ops.aten, OF_TORCH[step.operation])(*operands))
    return [value_of(each) for each in function.results]


def _converted(value: Any, kind: torch.dtype) -> torch.Tensor:
    return value.to(kind) if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=kind)
