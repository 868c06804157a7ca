"""Calling torch's Python kernels without importing torch._dynamo and sympy.

Three spots of torch import them on first use, for programs that torch itself is tracing:
- `torch._compile._disable_dynamo` wraps nearly all of `torch._refs` and `torch._decomp`. It looks for a ready-made
  wrapper in the attribute `__dynamo_disable` of the function, so one is put there, and taken away afterwards.
- `torch.fx.experimental.symbolic_shapes` is asked about sizes in some forty places, though they are plain integers here:
  a stand-in that answers for plain numbers takes its place in `sys.modules` for the time of the call.
- `elementwise_dtypes` and `_maybe_broadcast` import sympy for symbolic operands, of which there are none here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._meta_registrations
import torch._prims_common as common
import torch._refs

_MARK = "__dynamo_disable"
_FAKE_TENSORS = logging.getLogger("torch._subclasses.fake_tensor")


@contextlib.contextmanager
def without_messages() -> Iterator[None]:
    """Fake tensors log what they refuse before they raise it: here that is an answer."""
    before, _FAKE_TENSORS.disabled = _FAKE_TENSORS.disabled, True
    try:
        yield
    finally:
        _FAKE_TENSORS.disabled = before


def compiler_is_loaded() -> bool:
    """Under `dynascope run` something else stands for `torch._dynamo` until it is needed: a module below it does not."""
    return "torch._dynamo.eval_frame" in sys.modules


@contextlib.contextmanager
def without_compiler_imports() -> Iterator[None]:
    """Torch's Python kernels run plainly inside. Nothing is changed where torch's compiler is loaded already."""
    if compiler_is_loaded() or common.elementwise_dtypes is _plain_elementwise_dtypes:
        yield
        return
    marked = [function for function in _wrapped_functions() if _MARK not in function.__dict__]
    replaced = [
        (common, "elementwise_dtypes", _plain_elementwise_dtypes),
        (torch._meta_registrations, "elementwise_dtypes", _plain_elementwise_dtypes),
        (torch._refs, "_maybe_broadcast", _plain_maybe_broadcast),
    ]
    originals = [getattr(module, name) for module, name, _ in replaced]
    for function in marked:
        setattr(function, _MARK, function)
    for module, name, plain in replaced:
        setattr(module, name, plain)
    sys.modules.setdefault(_SYMBOLIC, _PLAIN_SIZES)
    try:
        yield
    finally:
        if sys.modules.get(_SYMBOLIC) is _PLAIN_SIZES:
            del sys.modules[_SYMBOLIC]
        for (module, name, _), original in zip(replaced, originals, strict=True):
            setattr(module, name, original)
        for function in marked:
            function.__dict__.pop(_MARK, None)


@contextlib.contextmanager
def without_saved_tensors_hooks() -> Iterator[None]:
    """The program's `saved_tensors_hooks` (of checkpoint, of `save_on_cpu`) do not see what autograd keeps meanwhile."""
    hooks = []
    while (top := torch._C._autograd._top_saved_tensors_default_hooks(True)) is not None:
        torch._C._autograd._pop_saved_tensors_default_hooks()
        hooks.append(top)
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)


_SYMBOLIC = "torch.fx.experimental.symbolic_shapes"


def _plain_sizes() -> types.ModuleType:
    """What `symbolic_shapes` answers where all sizes are integers."""
    module = types.ModuleType(_SYMBOLIC)
    same = lambda condition, *_, **__: condition  # noqa: E731
    for name in (
        *("expect_true", "guard_or_false", "guard_or_true", "statically_known_true", "statically_known_false"),
        *("guard_bool", "guard_int", "guard_float", "guard_scalar", "guard_size_oblivious", "definitely_true"),
        *("size_hint", "optimization_hint", "guarding_hint_or_throw"),
    ):
        setattr(module, name, same)
    module.sym_not = lambda condition: not condition  # type: ignore[attr-defined]
    module.sym_and = lambda *conditions: all(conditions)  # type: ignore[attr-defined]
    module.sym_or = lambda *conditions: any(conditions)  # type: ignore[attr-defined]
    module.sym_eq = lambda a, b: tuple(a) == tuple(b) if isinstance(a, (tuple, list)) else a == b  # type: ignore[attr-defined]
    module.is_nested_int = lambda _: False  # type: ignore[attr-defined]
    module.is_symbolic = lambda _: False  # type: ignore[attr-defined]
    module.has_free_symbols = lambda _: False  # type: ignore[attr-defined]
    module.free_unbacked_symbols = lambda _: set()  # type: ignore[attr-defined]
    module.has_hint = lambda _: True  # type: ignore[attr-defined]
    module.has_guarding_hint = lambda _: True  # type: ignore[attr-defined]
    for name, answer in list(vars(module).items()):
        if isinstance(answer, types.FunctionType):
            setattr(module, name, _until_loaded(name, answer))
    module.__getattr__ = _from_the_real_one  # type: ignore[attr-defined]
    return module


def _until_loaded(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    """`plain` while the real module is not loaded: a module of torch that is first imported meanwhile keeps the function, and
    there are symbolic sizes only where the real one is.
    """

    @functools.wraps(plain)
    def answer(*arguments: Any, **keywords: Any) -> Any:
        real = sys.modules.get(_SYMBOLIC, _PLAIN_SIZES)
        return (plain if real is _PLAIN_SIZES else getattr(real, name))(*arguments, **keywords)

    return answer


def _from_the_real_one(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if sys.modules.get(_SYMBOLIC) is _PLAIN_SIZES:
        del sys.modules[_SYMBOLIC]
    return getattr(importlib.import_module(_SYMBOLIC), name)


_PLAIN_SIZES = _plain_sizes()
_maybe_broadcast, _elementwise_dtypes = torch._refs._maybe_broadcast, common.elementwise_dtypes


def _plain_maybe_broadcast(*operands: Any, preserve_cpu_scalar_tensors: bool = True) -> tuple[Any, ...]:
    if torch._refs._maybe_broadcast is not _plain_maybe_broadcast:  # called by a module that was first imported meanwhile
        return _maybe_broadcast(*operands, preserve_cpu_scalar_tensors=preserve_cpu_scalar_tensors)
    tensors = [operand for operand in operands if isinstance(operand, torch.Tensor)]
    if not tensors:
        return operands
    sizes = _broadcast([tuple(tensor.shape) for tensor in tensors])
    return tuple(operand.expand(sizes) if isinstance(operand, torch.Tensor) else operand for operand in operands)


def _broadcast(shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """`torch.broadcast_shapes` without its import of symbolic sizes. Raises `RuntimeError` where the shapes do not fit."""
    result = [1] * max(map(len, shapes))
    for shape in shapes:
        for position, size in enumerate(shape, len(result) - len(shape)):
            if size != 1 and result[position] not in (1, size):
                raise RuntimeError(f"sizes {' and '.join(str(list(s)) for s in shapes)} cannot be broadcast")
            if size != 1:
                result[position] = size
    return tuple(result)


_Kind = common.ELEMENTWISE_TYPE_PROMOTION_KIND


def _plain_elementwise_dtypes(*operands: Any, type_promotion_kind: Any) -> tuple[torch.dtype, torch.dtype]:
    """(dtype to compute in, dtype of the result), as torch._prims_common.elementwise_dtypes for concrete operands."""
    if common.elementwise_dtypes is not _plain_elementwise_dtypes:  # as above
        return _elementwise_dtypes(*operands, type_promotion_kind=type_promotion_kind)
    present = [operand for operand in operands if operand is not None]
    result = functools.reduce(_join, present[1:], present[0])
    dtype = result.dtype if isinstance(result, torch.Tensor) else _dtype_of_number(result)
    if type_promotion_kind is _Kind.ALWAYS_BOOL:
        return common.get_computation_dtype(dtype), torch.bool
    if type_promotion_kind is _Kind.INT_TO_FLOAT and not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    if type_promotion_kind is _Kind.BOOL_TO_LONG and dtype is torch.bool:
        return torch.int64, torch.int64
    computed = common.get_computation_dtype(dtype)
    if type_promotion_kind is _Kind.NO_OPMATH:
        return dtype, dtype
    if type_promotion_kind is _Kind.COMPLEX_TO_FLOAT and dtype.is_complex:
        return computed, dtype.to_real()
    return computed, dtype


def _join(a: Any, b: Any) -> torch.Tensor | int | float:
    """An operand that promotes with others as `a` and `b` together do."""
    tensors = [operand for operand in (a, b) if isinstance(operand, torch.Tensor)]
    if not tensors:
        return (
            a
            if isinstance(b, bool) or isinstance(a, complex) or (isinstance(a, float) and not isinstance(b, complex))
            else b
        )
    rank = max(min(tensor.dim(), 1) for tensor in tensors)
    return torch.empty((1,) * rank, dtype=torch.result_type(a, b), device="meta")


def _dtype_of_number(number: Any) -> torch.dtype:
    default = torch.get_default_dtype()
    return {bool: torch.bool, int: torch.int64, complex: complex_beside(default)}.get(type(number), default)


@functools.cache
def complex_beside(default: torch.dtype) -> torch.dtype:
    """The type of complex numbers while `default` is the default type. Where that is bfloat16, `to_complex()` says another one than
    torch computes in."""
    with torch._C._DisableTorchDispatch():  # a recording would take the question for an operator of the program's
        return torch.result_type(torch.zeros((), dtype=torch.int64), 1j)


@functools.cache
def _wrapped_functions() -> tuple[types.FunctionType, ...]:
    """Every function that `_disable_dynamo` wraps, among the kernels that torch registers and the references they call."""
    pending: list[Any] = []
    for table in torch._decomp.global_decomposition_table.values():
        pending += table.values()
    for name in (
        "torch._refs",
        "torch._refs.nn.functional",
        "torch._refs.special",
        "torch._refs.linalg",
        "torch._refs.fft",
    ):
        if name in sys.modules:
            pending += vars(sys.modules[name]).values()
    found: dict[int, types.FunctionType] = {}
    while pending:
        function = pending.pop()
        if isinstance(function, types.FunctionType) and id(function) not in found:
            found[id(function)] = function
            pending += _captured(function)
    return tuple(found.values())


def _captured(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # an empty cell
            yield cell.cell_contents
