"""One operator of torch's database, or one module, in one dtype: everything it can be asked, compiled and not, compared.

    for failure in differences(unit, samples=3, seed=0): ...        unit = Unit("add", 0, torch.float32, "cpu", "in place")

Kinds: "results" (several samples in one program, laid out in several ways, with gradients), "in place", "out", "errors"
(`error_inputs`: the same exception and message), "sizes" (one function for a sample and then for others of other sizes), "autocast"
(results inside `torch.autocast` of the device), "module" (training and not: results, gradients, buffers). Values that are not close
are compared with float64: at most four times eager's own error.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import dynascope
import torch
from comparing import clone_all, leaves, no_defects, plain, same_layout, sharing
from operator_database import VARIANTS

DTYPES = (
    torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool,
    torch.complex64,
)  # fmt: skip
KINDS = ("results", "in place", "out", "errors", "sizes", "autocast")
UNINITIALISED = frozenset(
    [
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "resize_",
        "resize_as_",
    ]
)
"""Their contents mean nothing."""
CRASHES_AT_OTHER_SIZES = frozenset({"nn.functional.ctc_loss", "_segment_reduce.lengths", "linalg.ldl_solve"})
"""In eager: lengths and pivots that do not fit are read, or written by."""
TIMES_EAGER = 4.0


@dataclass(frozen=True, slots=True)
class Unit:
    """`index` is the place in the database; `name` is for people."""

    name: str
    index: int
    dtype: torch.dtype
    device: str
    kind: str


@dataclass(slots=True)
class Seen:
    """What a call did. `tensors` are (what, tensor)."""

    result: Any = None
    error: tuple[str, str] | None = None
    arguments: Any = None
    gradients: tuple[torch.Tensor | None, ...] = ()


def units(
    device: str, dtypes: tuple[torch.dtype, ...] = DTYPES, kinds: tuple[str, ...] = (*KINDS, "module"), only: str = ""
) -> Iterator[Unit]:
    """All of both databases, in their order."""
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    for index, info in enumerate(op_db):
        name = f"{info.name}.{info.variant_test_name}".rstrip(".")
        if only and not any(word == name or word == info.name for word in only.split(",")):
            continue
        for dtype in dtypes:
            if dtype in info.supported_dtypes(torch.device(device).type):
                yield from (Unit(name, index, dtype, device, kind) for kind in KINDS if kind in kinds)
    for index, info in enumerate(module_db):
        if "module" in kinds and (not only or info.name in only.split(",")):
            yield from (Unit(info.name, index, dtype, device, "module") for dtype in dtypes if dtype in info.dtypes)


def differences(unit: Unit, samples: int, seed: int) -> Iterator[str | None]:
    """A line for each difference, None for each comparison that found none."""
    choice = random.Random(f"{seed} {unit}")
    torch.manual_seed(seed)
    if unit.kind == "sizes":
        yield from () if unit.name in CRASHES_AT_OTHER_SIZES else _at_other_sizes(unit, samples, choice)
        return
    if unit.kind == "module":
        programs = _module_programs(unit, samples)
    else:
        from torch.testing._internal.common_methods_invocations import op_db

        programs = _PROGRAMS[unit.kind](op_db[unit.index], unit, samples, choice)
    for label, program, arguments in programs:
        yield from _compared(label, program, arguments, unit)


# -- what is run ------------------------------------------------------------------------------------------------------

Program = tuple[str, Callable, tuple]


def _samples(info: Any, unit: Unit, count: int, gradient: bool) -> list[Any]:
    found: list[Any] = []
    with suppress(Exception):
        for sample in info.sample_inputs(unit.device, unit.dtype, requires_grad=gradient):
            found.append(sample)
            if len(found) >= 4 * count:
                break
    return found


def _has_gradient(info: Any, unit: Unit) -> bool:
    return info.supports_autograd and unit.dtype in info.supported_backward_dtypes(torch.device(unit.device).type)


def _results(info: Any, unit: Unit, count: int, choice: random.Random) -> Iterator[Program]:
    found = _samples(info, unit, count, _has_gradient(info, unit))
    chosen = found[:1] + choice.sample(found[1:], min(count - 1, max(len(found) - 1, 0)))
    for name in ("plain", "noncontiguous", *choice.sample([v for v in VARIANTS if v != "plain"], 2)):
        laid_out = []
        for sample in chosen:
            with suppress(Exception):
                laid_out.append(sample.noncontiguous() if name == "noncontiguous" else VARIANTS[name](sample))
        laid_out = [sample for sample in laid_out if not _stops_the_device(info, _contents([sample]), unit)]
        if laid_out:
            yield name, _over_all(info.op), (_contents(laid_out),)


def _stops_the_device(info: Any, calls: list[tuple], unit: Unit) -> bool:
    """What raises on the CPU may be an assertion on a GPU, which ends the process."""
    if torch.device(unit.device).type == "cpu":
        return False
    error = _observed(_over_all(info.op), (_widened(_moved(calls, "cpu")),), unit, None).error
    return error is not None and "mplemented" not in "".join(error)


def _moved(value: Any, device: str) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(device)
    if isinstance(value, dict):
        return {key: _moved(item, device) for key, item in value.items()}
    return type(value)(_moved(item, device) for item in value) if type(value) in (list, tuple) else value


def _contents(samples: list[Any]) -> list[tuple]:
    return [((s.input, *s.args), dict(s.kwargs)) for s in samples]


def _over_all(operator: Callable) -> Callable:
    def program(calls: list[tuple]) -> list[Any]:
        return [operator(*arguments, **keywords) for arguments, keywords in calls]

    return program


def _autocast(info: Any, unit: Unit, count: int, choice: random.Random) -> Iterator[Program]:
    if not unit.dtype.is_floating_point:
        return
    found = _samples(info, unit, count, _has_gradient(info, unit))
    chosen = found[:1] + choice.sample(found[1:], min(count - 1, max(len(found) - 1, 0)))
    chosen = [sample for sample in chosen if not _stops_the_device(info, _contents([sample]), unit)]
    if chosen:
        yield "autocast", _under_autocast(_over_all(info.op), torch.device(unit.device).type), (_contents(chosen),)


def _under_autocast(program: Callable, device: str) -> Callable:
    def converting(calls: list[tuple]) -> list[Any]:
        with torch.autocast(device):
            return program(calls)

    return converting


def _in_place(info: Any, unit: Unit, count: int, choice: random.Random) -> Iterator[Program]:
    if info.inplace_variant is None:
        return
    found = _samples(info, unit, count, False)
    chosen = choice.sample(found, min(count, len(found)))
    for name in ("plain", choice.choice(["transposed", "holes"])):
        yield name, _over_all(info.inplace_variant), (_contents([VARIANTS[name](s) for s in chosen]),)


def _out(info: Any, unit: Unit, count: int, choice: random.Random) -> Iterator[Program]:
    if not info.supports_out:
        return
    found = _samples(info, unit, count, False)
    calls, turned = [], []
    for sample in choice.sample(found, min(count, len(found))):
        try:
            expected = info.op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        if not isinstance(expected, torch.Tensor) or expected.layout is not torch.strided:
            continue
        where = torch.zeros_like(expected, memory_format=torch.contiguous_format)
        arguments, keywords = (sample.input, *sample.args), dict(sample.kwargs)
        calls.append((arguments, {**keywords, "out": where}))
        other = VARIANTS["transposed"](_Single(where)).input
        with suppress(Exception):
            info.op(*arguments, **keywords, out=other)
            if torch.equal(other, expected):  # some kernels write the elements of such a tensor in another order
                turned.append((arguments, {**keywords, "out": torch.zeros_like(other)}))
    if calls:
        yield "out", _over_all(info.op), (calls,)
    if turned:
        yield "out transposed", _over_all(info.op), (turned,)


class _Single:
    """A sample of one tensor, for the variants."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.input = tensor

    def transform(self, change: Callable) -> _Single:
        return _Single(change(self.input))


def _errors(info: Any, unit: Unit, count: int, choice: random.Random) -> Iterator[Program]:
    """The database's error inputs have dtypes of their own: they are run with one dtype only."""
    supported = info.supported_dtypes(torch.device(unit.device).type)
    if info.error_inputs_func is None or unit.dtype != next(d for d in DTYPES if d in supported):
        return
    with suppress(Exception):
        for number, error in enumerate(info.error_inputs(torch.device(unit.device))):
            yield f"error {number}", _over_all(info.op), (_contents([error.sample_input]),)


def _at_other_sizes(unit: Unit, count: int, choice: random.Random) -> Iterator[str | None]:
    """Each sample, then the same with one of its sizes larger and smaller, through one function whose sizes vary."""
    from torch.testing._internal.common_methods_invocations import op_db

    info = op_db[unit.index]
    found = [
        each
        for each in _samples(info, unit, 2 * count, _has_gradient(info, unit))
        if _sizes_of((each.input, each.args))
    ]
    for number, sample in enumerate(choice.sample(found, min(count, len(found)))):
        size = choice.choice(_sizes_of((sample.input, sample.args)))
        program, contents = _over_all(info.op), _contents([sample])
        dynascope.reset()
        compiled = dynascope.compile(program, dynamic=True, options={"recompile_limit": 50})
        for other in (size, size + 3, size + 1, max(size - 1, 2), 2, 2 * size + 5):
            arguments = (_resized(contents, size, other),)
            if _stops_the_device(info, *arguments, unit):
                continue
            theirs = _observed(program, arguments, unit, None)
            try:
                with no_defects():
                    ours = _observed(program, arguments, unit, lambda _, compiled=compiled: compiled)
            except AssertionError as error:
                yield f"{number}: {size} to {other}: {_line(str(error))}"
                continue
            yield from _found(f"{number}: {size} to {other}", theirs, ours, program, arguments, unit)


def _sizes_of(value: Any) -> list[int]:
    return sorted({size for leaf in leaves(value) if leaf.layout is torch.strided for size in leaf.shape if size > 1})


def _resized(value: Any, size: int, other: int) -> Any:
    """With every dimension of that size of another: elements again from the first, or the last left out."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or size not in value.shape or size == other:
            return value
        resized = value.detach()
        for d, each in enumerate(value.shape):
            if each == size:
                resized = resized.index_select(d, torch.arange(other, device=value.device) % size)
        return resized.requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: _resized(item, size, other) for key, item in value.items()}
    return type(value)(_resized(item, size, other) for item in value) if type(value) in (list, tuple) else value


_PROGRAMS = {"results": _results, "in place": _in_place, "out": _out, "errors": _errors, "autocast": _autocast}


def _module_programs(unit: Unit, count: int) -> Iterator[Program]:
    from torch.testing._internal.common_modules import module_db

    info, device = module_db[unit.index], torch.device(unit.device)
    for training in (False, True):
        with suppress(Exception):
            inputs = info.module_inputs_func(
                info, device=device, dtype=unit.dtype, requires_grad=unit.dtype.is_floating_point, training=training
            )
            for number, given in zip(range(count), inputs, strict=False):
                module = info.module_cls(*given.constructor_input.args, **given.constructor_input.kwargs)
                module = module.to(device=device, dtype=unit.dtype).train(training)
                call = given.forward_input
                yield f"{'training' if training else 'evaluation'} {number}", module, (call.args, call.kwargs)


# -- how it is compared -----------------------------------------------------------------------------------------------


def _compared(label: str, program: Callable, arguments: tuple, unit: Unit) -> Iterator[str | None]:
    theirs = _observed(program, arguments, unit, None)
    if theirs.error is not None and unit.kind in ("results", "in place", "out", "autocast") and len(arguments[0]) > 1:
        for number, call in enumerate(arguments[0]):  # one that raises hides the others
            yield from _compared(f"{label} #{number}", program, ([call],), unit)
        return
    dynascope.reset()
    try:
        with no_defects():
            ours = _observed(program, arguments, unit, dynascope.compile)
    except AssertionError as error:
        yield f"{label}: {_line(str(error))}"
        return
    yield from _found(label, theirs, ours, program, arguments, unit)


def _observed(program: Callable, arguments: tuple, unit: Unit, compiler: Callable | None) -> Seen:
    """One call, with gradients of all that can be differentiated; a module is copied, its own tensors are arguments too."""
    seen = Seen()
    arguments = clone_all(_detached(arguments))
    if isinstance(program, torch.nn.Module):
        program = copy.deepcopy(program)
        own = [*program.parameters(), *program.buffers()]
        positional, keywords = arguments
    else:
        own, positional, keywords = [], arguments, {}
    function = program if compiler is None else compiler(program)
    torch.manual_seed(0)
    try:
        seen.result = function(*positional, **keywords)
    except Exception as error:
        seen.error = type(error).__name__, str(error).split("\nException raised from")[0].strip()
        return seen
    seen.arguments = [arguments, own]
    inputs = [leaf for leaf in (*leaves(arguments), *own) if leaf.requires_grad and leaf.is_leaf]
    outputs = [leaf for leaf in leaves(seen.result) if leaf.requires_grad and leaf.layout is torch.strided]
    if inputs and outputs:
        torch.manual_seed(1)
        weights = [torch.randn_like(output) for output in outputs]
        try:
            seen.gradients = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
        except Exception as error:
            seen.error = type(error).__name__, str(error).split("\nException raised from")[0].strip()
    return seen


def _detached(value: Any) -> Any:
    """Samples whose tensors have a history of their own as leaves."""
    if isinstance(value, torch.Tensor):
        return value if value.is_leaf else value.detach().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: _detached(item) for key, item in value.items()}
    return type(value)(map(_detached, value)) if type(value) in (list, tuple) else value


def _found(
    label: str, theirs: Seen, ours: Seen, program: Callable, arguments: tuple, unit: Unit
) -> Iterator[str | None]:
    if ours.error != theirs.error:
        yield f"{label}: raised {_error(ours.error)}; eager {_error(theirs.error)}"
        return
    if theirs.error is not None:
        yield None
        return
    if unit.name.split(".")[-1] not in UNINITIALISED and plain(ours.result) != plain(theirs.result):
        yield f"{label}: {_line(str(plain(ours.result)))}; eager {_line(str(plain(theirs.result)))}"
        return
    exact: list[Seen] = []
    for what in ("result", "arguments", "gradients"):
        mine, other = leaves(_listed(getattr(ours, what))), leaves(_listed(getattr(theirs, what)))
        if len(mine) != len(other):
            yield f"{label}: {what}: {len(mine)} tensors; eager {len(other)}"
            return
        for number, (a, b) in enumerate(zip(mine, other, strict=True)):
            text = (
                _difference(a.resolve_conj(), b.resolve_conj(), unit)
                if what == "gradients"
                else _difference(a, b, unit)
            )
            if text == "values" and _as_good(a, b, what, number, program, arguments, unit, exact):
                continue
            if text == "values" and not _is_repeatable(b, what, number, program, arguments, unit):
                continue
            if text is not None:
                yield f"{label}: {what}[{number}] {_values(a, b) if text == 'values' else text}"
                return
    if sharing_of(ours) != sharing_of(theirs):
        yield f"{label}: memory shared {sharing_of(ours)}; eager {sharing_of(theirs)}"
        return
    yield None


def sharing_of(seen: Seen) -> Any:
    return sharing(seen)  # type: ignore[arg-type]


def _listed(value: Any) -> Any:
    """Gradients that are not there count too."""
    return [torch.zeros(()) if item is None else item for item in value] if type(value) is tuple else value


def _difference(a: torch.Tensor, b: torch.Tensor, unit: Unit) -> str | None:
    facts = [
        ("dtype", a.dtype, b.dtype),
        ("size", tuple(a.shape), tuple(b.shape)),
        ("device", a.device, b.device),
        ("requires_grad", a.requires_grad, b.requires_grad),
        ("bits", (a.is_conj(), a.is_neg()), (b.is_conj(), b.is_neg())),
    ]
    for what, ours, eager in facts:
        if ours != eager:
            return f"{what} {ours}; eager {eager}"
    if not same_layout(a, b):
        return f"strides {a.stride()}; eager {b.stride()}"
    if unit.name.split(".")[-1] in UNINITIALISED:
        return None
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except AssertionError:
        return "values"
    return None


def _as_good(
    a: torch.Tensor,
    b: torch.Tensor,
    what: str,
    number: int,
    program: Callable,
    arguments: tuple,
    unit: Unit,
    exact: list,
) -> bool:
    """Whether ours is as near to what float64 gives as eager is, but for a factor."""
    if not (b.is_floating_point() or b.is_complex()):
        return False
    if isinstance(program, torch.nn.Module):
        program = copy.deepcopy(program).double()
    if not exact:
        exact.append(_observed(program, _widened(arguments), unit, None))
    truths = leaves(_listed(getattr(exact[0], what)))
    if exact[0].error is not None or number >= len(truths) or truths[number].shape != b.shape:
        return False
    truth = truths[number].detach()
    mine, other = (_distance(t.detach(), truth) for t in (a, b))
    return bool(mine <= TIMES_EAGER * other + torch.finfo(b.dtype).eps * truth.abs().nan_to_num(0, 0, 0).max())


def _is_repeatable(b: torch.Tensor, what: str, number: int, program: Callable, arguments: tuple, unit: Unit) -> bool:
    """Whether eager gives the same once more: some operators leave what they return unwritten."""
    again = leaves(_listed(getattr(_observed(program, arguments, unit, None), what)))
    return number < len(again) and _difference(again[number], b, unit) is None


def _distance(tensor: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    wide = tensor.to(truth.dtype)
    same = (wide == truth) | (wide.isnan() & truth.isnan())
    return torch.where(same, torch.zeros_like(wide), wide - truth).abs().nan_to_num(float("inf")).max()


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        wide = _widened(value.dtype)
        return value if wide is value.dtype else value.detach().to(wide).requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return torch.complex128 if value.is_complex else torch.float64 if value.is_floating_point else value
    if isinstance(value, dict):
        return {key: _widened(item) for key, item in value.items()}
    return type(value)(map(_widened, value)) if type(value) in (list, tuple) else value


def _values(a: torch.Tensor, b: torch.Tensor) -> str:
    a, b = a.detach(), b.detach()
    wrong = ~torch.isclose(a, b, equal_nan=True) if a.dtype != torch.bool else a != b
    return f"{_line(str(a[wrong][:3].tolist()))}; eager {_line(str(b[wrong][:3].tolist()))} ({int(wrong.sum())} of {a.numel()})"


def _error(error: tuple[str, str] | None) -> str:
    return "nothing" if error is None else f"{error[0]}: {_line(error[1])}"


def _line(text: str) -> str:
    return " ".join(text.split())[:160]
