"""The layouts of an operator's outputs: by a rule of ours, else by torch's meta kernel.

output_layouts(aten.mul.Tensor, (f32[4, 8], 2.0), {})  ->  [f32[4, 8]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from dynascope.grad.reasons import DataDependentResult, DifferentiationRefused, OperatorFailed, VaryingNumberNeeded
from dynascope.grad.shapes import (
    ShapeMismatch,
    broadcast,
    common_device,
    contiguous_strides,
    floating,
    fresh,
    is_dense,
    iterator_strides,
    promoted,
    reduced_sizes,
    wrap_dimension,
    wrap_dimensions,
)
from dynascope.grad.tape import META, Layout, Number, Value, layout_of, leaves, replace
from dynascope.meta_kernels.quiet_torch import without_compiler_imports

aten = torch.ops.aten
Rule = Callable[..., Layout | list[Layout | None]]
RULES: dict[Any, Rule] = {}


def output_layouts(target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Layout | int | None]:
    """One layout for each output; a number that follows from sizes, as attention gives, stands itself.

    Raises `DifferentiationRefused` where the operator does not take these operands.
    """
    rule = RULES.get(target)
    if rule is None:
        return layouts_by_torch(target, arguments, keywords)
    try:
        layouts = rule(*arguments, **keywords)
    except ShapeMismatch as error:
        raise DifferentiationRefused(OperatorFailed(_name(target), str(error))) from None
    return layouts if isinstance(layouts, list) else [layouts]


def layouts_by_torch(target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Layout | int | None]:
    operands = list(leaves((arguments, keywords)))
    if any(isinstance(operand, Number) for operand in operands):
        raise DifferentiationRefused(VaryingNumberNeeded(_name(target)))
    key = _memory_key(target, arguments, keywords)
    known = _MEMORY.get(key) if key is not None else None
    if known is None:
        known = _ask_torch(target, arguments, keywords, operands)
        if key is not None:
            if len(_MEMORY) >= _MEMORY_LIMIT:
                _MEMORY.clear()
            _MEMORY[key] = known
    return list(known)


_MEMORY: dict[Any, tuple[Layout | int | None, ...]] = {}
_MEMORY_LIMIT = 20_000


def _memory_key(target: Any, arguments: Any, keywords: Any) -> Any:
    """All that torch's answer depends on; None where an argument cannot be compared."""
    try:
        key = (target, _frozen(arguments), _frozen(keywords), torch.get_default_dtype())
        hash(key)
    except TypeError:
        return None
    return key


def _frozen(data: Any) -> Any:
    if isinstance(data, Value):
        return data.layout
    if isinstance(data, (list, tuple)):
        return tuple(map(_frozen, data))
    if isinstance(data, dict):
        return tuple((name, _frozen(item)) for name, item in data.items())
    return (type(data), repr(data) if isinstance(data, float) else data)


def _ask_torch(target: Any, arguments: Any, keywords: Any, operands: list[Any]) -> tuple[Layout | int | None, ...]:
    device = keywords.get("device") or common_device(operands)
    if target in MEASURED and sum(operand.layout.byte_count for operand in operands) <= MOST_MEASURED_BYTES:
        return _measured(target, arguments, keywords)
    on_meta = dict(keywords, device=META) if "device" in keywords else keywords
    to_meta = lambda leaf: leaf.meta() if isinstance(leaf, Value) else leaf  # noqa: E731
    result = call_meta_kernel(target, replace(arguments, to_meta), replace(on_meta, to_meta))
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(_described(output, device) for output in outputs)


def _described(output: Any, device: torch.device) -> Layout | int | None:
    if isinstance(output, torch.Tensor):
        return layout_of(output, device)
    return output if type(output) is int else None


def overloads(*names: str) -> list[Any]:
    """`"add.Tensor exp"` -> [aten.add.Tensor, aten.exp.default]. Names that this torch lacks are left out."""
    found = []
    for name in " ".join(names).split():
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(aten, packet, None), overload or "default", None)
        if operator is not None:
            found.append(operator)
    return found


MEASURED = set(overloads("_fft_r2c _fft_c2r _fft_c2c _linalg_svd linalg_eig linalg_solve_triangular"))
"""Their strides depend on which library does the work: it is asked, once for each layout, with zeros."""
MOST_MEASURED_BYTES = 2**26


def _measured(target: Any, arguments: Any, keywords: Any) -> tuple[Layout | None, ...]:
    def zeros(leaf: Any) -> Any:
        if not isinstance(leaf, Value):
            return leaf
        return torch.empty_strided(leaf.sizes, leaf.strides, dtype=leaf.dtype, device=leaf.device).zero_()

    try:
        with _disable_current_modes(), torch.no_grad():
            result = target(*replace(arguments, zeros), **replace(keywords, zeros))
    except Exception as error:
        raise DifferentiationRefused(OperatorFailed(_name(target), f"{type(error).__name__}: {error}")) from error
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    return tuple(layout_of(output, output.device) for output in outputs)


def call_meta_kernel(target: Any, arguments: Any, keywords: Any) -> Any:
    """Run an operator on meta tensors, below autograd. Any failure becomes a refusal."""
    try:
        with torch._C._AutoDispatchBelowAutograd():
            return _run_on_meta(target, arguments, keywords)
    except DifferentiationRefused:
        raise
    except Exception as error:
        if torch.Tag.dynamic_output_shape in target.tags or torch.Tag.data_dependent_output in target.tags:
            raise DifferentiationRefused(DataDependentResult(_name(target))) from error
        raise DifferentiationRefused(OperatorFailed(_name(target), f"{type(error).__name__}: {error}")) from error


def _run_on_meta(target: Any, arguments: Any, keywords: Any) -> Any:
    """Torch's kernel for meta tensors. One written in Python calls other operators, which the rules here answer."""
    kernel = target.py_kernels.get(torch._C.DispatchKey.Meta)
    if kernel is None or target.is_view:
        return target(*arguments, **keywords)
    with without_compiler_imports(), _RulesFirst():
        return kernel(*arguments, **keywords)


class _RulesFirst(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        shape_rule = RULES.get(func)
        if shape_rule is None:
            return _run_on_meta(func, args, kwargs or {})
        to_value = lambda leaf: Value(layout_of(leaf, leaf.device)) if isinstance(leaf, torch.Tensor) else leaf  # noqa: E731
        layouts = shape_rule(*replace(args, to_value), **replace(kwargs or {}, to_value))
        if isinstance(layouts, list):
            return tuple(None if layout is None else Value(layout).meta() for layout in layouts)
        return Value(layouts).meta()


def _name(target: Any) -> str:
    return str(getattr(target, "name", lambda: target)()).replace("::", ".")


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    def register(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(targets, function))
        return function

    return register


def _pointwise(operands: Sequence[Any], dtype: torch.dtype) -> Layout:
    values = [operand for operand in operands if isinstance(operand, Value)]
    sizes = broadcast(*(value.sizes for value in values))
    return Layout(sizes, iterator_strides(sizes, values), dtype, common_device(values))


PROMOTING = overloads(
    "add.Tensor add.Scalar sub.Tensor sub.Scalar rsub.Tensor rsub.Scalar mul.Tensor mul.Scalar maximum minimum",
    "fmod.Tensor fmod.Scalar remainder.Tensor remainder.Scalar remainder.Scalar_Tensor floor_divide floor_divide.Scalar",
    "bitwise_and.Tensor bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar bitwise_xor.Tensor bitwise_xor.Scalar",
    "pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar fmax fmin",
    "bitwise_left_shift.Tensor bitwise_left_shift.Tensor_Scalar",
    "bitwise_right_shift.Tensor bitwise_right_shift.Tensor_Scalar",
)
FLOATING_UNARY = overloads(
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh",
    "sigmoid erf erfc erfinv reciprocal lgamma digamma special_i0 special_i1",
)
SAME_UNARY = overloads(
    "neg sign sgn floor ceil round trunc frac relu bitwise_not positive square",
)
COMPARISONS = overloads(
    *(f"{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")),
    "logical_and logical_or logical_xor logical_not isnan isinf isfinite signbit",
)


@rule(*PROMOTING)
def _promoting(a: Any, b: Any, *_: Any, **__: Any) -> Layout:
    return _pointwise((a, b), promoted((a, b)))


@rule(*overloads("div.Tensor", "div.Scalar", "atan2"))
def _dividing(a: Any, b: Any) -> Layout:
    return _pointwise((a, b), floating(promoted((a, b))))


@rule(*overloads("div.Tensor_mode", "div.Scalar_mode"))
def _dividing_by_mode(a: Any, b: Any, *, rounding_mode: str | None) -> Layout:
    dtype = promoted((a, b))
    return _pointwise((a, b), dtype if rounding_mode else floating(dtype))


@rule(*FLOATING_UNARY)
def _floating_unary(a: Value) -> Layout:
    return _pointwise((a,), floating(a.dtype))


@rule(*SAME_UNARY)
def _same_unary(a: Value, **_: Any) -> Layout:
    return _pointwise((a,), a.dtype)


@rule(aten.abs.default)
def _absolute(a: Value) -> Layout:
    return _pointwise((a,), a.dtype.to_real() if a.dtype.is_complex else a.dtype)


@rule(*COMPARISONS)
def _comparison(a: Any, b: Any = None) -> Layout:
    return _pointwise((a, b), torch.bool)


@rule(aten.where.self)
def _where(condition: Value, a: Any, b: Any) -> Layout:
    return _pointwise((condition, a, b), promoted((a, b)))


@rule(*overloads("clamp", "clamp.Tensor"))
def _clamp(a: Value, low: Any = None, high: Any = None, **named: Any) -> Layout:
    bounds = [bound for bound in (low, high, named.get("min"), named.get("max")) if bound is not None]
    return _pointwise((a, *bounds), promoted((a, *bounds)))


def kept_strides(value: Value, memory_format: torch.memory_format | None) -> tuple[int, ...]:
    """The strides of a copy of `value` in `memory_format`; None preserves."""
    if memory_format is None or memory_format is torch.preserve_format:
        return value.strides if is_dense(value.sizes, value.strides) else iterator_strides(value.sizes, [value])
    if memory_format is torch.contiguous_format:
        return contiguous_strides(value.sizes)
    return torch.empty(value.sizes, device=META, memory_format=memory_format).stride()


@rule(aten.clone.default)
def _clone(a: Value, *, memory_format: Any = None) -> Layout:
    return Layout(a.sizes, kept_strides(a, memory_format), a.dtype, a.device)


@rule(aten._to_copy.default)
def _to_copy(a: Value, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **_: Any) -> Layout:
    return Layout(a.sizes, kept_strides(a, memory_format), dtype or a.dtype, torch.device(device or a.device))


@rule(aten.full.default)
def _full(sizes: Sequence[int], value: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Layout:
    return fresh(sizes, dtype or promoted((value,)), torch.device(device or "cpu"))


@rule(aten.empty_like.default)
def _empty_like(a: Value, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **_: Any) -> Layout:
    return Layout(a.sizes, kept_strides(a, memory_format), dtype or a.dtype, torch.device(device or a.device))


@rule(aten.empty_strided.default)
def _empty_strided(sizes: Any, strides: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Layout:
    return Layout(tuple(sizes), tuple(strides), dtype or torch.get_default_dtype(), torch.device(device or "cpu"))


@rule(aten.empty_permuted.default)
def _empty_permuted(sizes: Any, order: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Layout:
    strides, step = [0] * len(sizes), 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= max(sizes[dimension], 1)
    return Layout(tuple(sizes), tuple(strides), dtype or torch.get_default_dtype(), torch.device(device or "cpu"))


@rule(*overloads("sum.dim_IntList", "mean.dim"))
def _sum(a: Value, dimensions: Any, keep: Any = False, *, dtype: Any = None) -> Layout:
    reduced = wrap_dimensions(dimensions, a.rank)
    accumulated = torch.int64 if not (a.dtype.is_floating_point or a.dtype.is_complex) else a.dtype
    return fresh(reduced_sizes(a.sizes, reduced, keep), dtype or accumulated, a.device)


@rule(*overloads("amax", "amin"))
def _extreme(a: Value, dimensions: Any = (), keep: Any = False) -> Layout:
    return fresh(reduced_sizes(a.sizes, wrap_dimensions(dimensions, a.rank), keep), a.dtype, a.device)


@rule(*overloads("any.dim", "any.dims", "all.dim", "all.dims"))
def _any(a: Value, dimensions: Any = None, keep: Any = False) -> Layout:
    return fresh(
        reduced_sizes(
            a.sizes, wrap_dimensions([dimensions] if isinstance(dimensions, int) else dimensions, a.rank), keep
        ),
        torch.uint8 if a.dtype == torch.uint8 else torch.bool,
        a.device,
    )


@rule(*overloads("argmax", "argmin"))
def _index_of_extreme(a: Value, dimension: Any = None, keep: Any = False) -> Layout:
    return fresh(
        reduced_sizes(a.sizes, wrap_dimensions(None if dimension is None else [dimension], a.rank), keep),
        torch.int64,
        a.device,
    )


@rule(aten.var_mean.correction)
def _var_mean(a: Value, dimensions: Any = None, *, correction: Any = None, keepdim: Any = False) -> list[Layout | None]:
    sizes = reduced_sizes(a.sizes, wrap_dimensions(dimensions, a.rank), keepdim)
    return [fresh(sizes, a.dtype.to_real(), a.device), fresh(sizes, a.dtype, a.device)]


@rule(aten.mm.default)
def _mm(a: Value, b: Value) -> Layout:
    if a.rank != 2 or b.rank != 2 or a.sizes[1] != b.sizes[0] or a.dtype != b.dtype:
        raise ShapeMismatch(f"mat1 {a.dtype}{list(a.sizes)} and mat2 {b.dtype}{list(b.sizes)} cannot be multiplied")
    return fresh((a.sizes[0], b.sizes[1]), a.dtype, a.device)


@rule(aten.addmm.default)
def _addmm(bias: Value, a: Value, b: Value, **_: Any) -> Layout:
    layout = _mm(a, b)
    if broadcast(bias.sizes, layout.sizes) != layout.sizes or bias.dtype != a.dtype:
        raise ShapeMismatch(f"bias {bias.dtype}{list(bias.sizes)} does not fit {a.dtype}{list(layout.sizes)}")
    return layout


@rule(aten.bmm.default)
def _bmm(a: Value, b: Value) -> Layout:
    if a.rank != 3 or b.rank != 3 or a.sizes[0] != b.sizes[0] or a.sizes[2] != b.sizes[1] or a.dtype != b.dtype:
        raise ShapeMismatch(f"batches {a.dtype}{list(a.sizes)} and {b.dtype}{list(b.sizes)} cannot be multiplied")
    return fresh((a.sizes[0], a.sizes[1], b.sizes[2]), a.dtype, a.device)


@rule(aten.convolution.default)
def _convolution(
    a: Value,
    weight: Value,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    extra: Any,
    groups: int,
) -> Layout:
    if a.rank != weight.rank or a.dtype != weight.dtype or a.rank < 3:
        raise ShapeMismatch(
            f"input {a.dtype}{list(a.sizes)} and weight {weight.dtype}{list(weight.sizes)} cannot be convolved"
        )
    inner = weight.sizes[0] if transposed else weight.sizes[1] * groups
    if inner != a.sizes[1]:
        raise ShapeMismatch(f"the input has {a.sizes[1]} channels, the weight {list(weight.sizes)} expects {inner}")
    each = lambda numbers: list(numbers) * (a.rank - 2) if len(numbers) == 1 else list(numbers)  # noqa: E731
    sizes = [a.sizes[0], weight.sizes[1] * groups if transposed else weight.sizes[0]]
    places = zip(a.sizes[2:], weight.sizes[2:], each(stride), each(padding), each(dilation), each(extra), strict=True)
    for size, kernel, step, pad, spread, more in places:
        reach = spread * (kernel - 1)
        sizes.append(
            (size - 1) * step - 2 * pad + reach + more + 1 if transposed else (size + 2 * pad - reach - 1) // step + 1
        )
    if min(sizes) < 0:
        raise ShapeMismatch(f"the kernel {list(weight.sizes)} is larger than the input {list(a.sizes)}")
    return Layout(tuple(sizes), _convolved_strides(sizes, (a, weight)), a.dtype, a.device)


def _convolved_strides(sizes: Sequence[int], operands: Sequence[Value]) -> tuple[int, ...]:
    """Channels last where an operand is, as the libraries do, which see one dimension as two."""
    if len(sizes) == 3:
        sizes = (*sizes[:2], 1, sizes[2])
        strides = _convolved_strides(sizes, [_with_height(operand) for operand in operands])
        return (*strides[:2], strides[3])
    like = {4: torch.channels_last, 5: torch.channels_last_3d}.get(len(sizes))
    if like is not None and any(_is_channels_last(operand) for operand in operands):
        return torch.empty(tuple(sizes), device=META, memory_format=like).stride()
    return contiguous_strides(tuple(sizes))


def _with_height(value: Value) -> Value:
    (batch, channels, width), (a, b, c), layout = value.sizes, value.strides, value.layout
    return Value(Layout((batch, channels, 1, width), (a, b, width * c, c), layout.dtype, layout.device))


def _is_channels_last(value: Value) -> bool:
    if value.rank not in (4, 5) or value.strides == contiguous_strides(value.sizes) or value.strides[1] != 1:
        return False
    order = [0, *range(2, value.rank), 1]
    moved = tuple(value.sizes[d] for d in order)
    return tuple(value.strides[d] for d in order) == contiguous_strides(moved)


@rule(aten.convolution_backward.default)
def _convolution_backward(
    gradient: Value, a: Value, weight: Value, bias_sizes: Any, *arguments: Any
) -> list[Layout | None]:
    mask = arguments[-1]
    make = lambda v: Layout(v.sizes, _convolved_strides(v.sizes, (a, weight)), v.dtype, v.device)  # noqa: E731
    return [
        make(a) if mask[0] else None,
        make(weight) if mask[1] else None,
        fresh(bias_sizes or (weight.sizes[0],), weight.dtype, weight.device) if mask[2] else None,
    ]


@rule(aten.embedding.default)
def _embedding(weight: Value, indices: Value, *_: Any, **__: Any) -> Layout:
    return fresh(indices.sizes + weight.sizes[1:], weight.dtype, weight.device)


@rule(aten.one_hot.default)
def _one_hot(index: Value, classes: int) -> Layout:
    return fresh((*index.sizes, classes), torch.int64, index.device)


@rule(aten.gather.default)
def _gather(a: Value, dimension: int, index: Value, **_: Any) -> Layout:
    return fresh(index.sizes, a.dtype, a.device)


@rule(*overloads("bernoulli.p"))
def _random_like(a: Value, *_: Any, **__: Any) -> Layout:
    return Layout(a.sizes, kept_strides(a, None), a.dtype, a.device)


@rule(*overloads("select_scatter", "slice_scatter", "diagonal_scatter"))
def _scatter_view(a: Value, *_: Any, **__: Any) -> Layout:
    return Layout(a.sizes, kept_strides(a, None), a.dtype, a.device)


@rule(aten.cat.default)
def _cat(tensors: Sequence[Value], dimension: int = 0) -> Layout:
    kept = [t for t in tensors if t.sizes != (0,)] or list(tensors)
    dimension = wrap_dimension(dimension, kept[0].rank)
    sizes = list(kept[0].sizes)
    sizes[dimension] = sum(t.sizes[dimension] for t in kept)
    if any(
        t.sizes[:dimension] + t.sizes[dimension + 1 :] != (*sizes[:dimension], *sizes[dimension + 1 :]) for t in kept
    ):
        raise ShapeMismatch(f"sizes {[list(t.sizes) for t in tensors]} cannot be joined along dimension {dimension}")
    layout = fresh(sizes, promoted(tensors), common_device(tensors))
    if all(not is_contiguous_value(t) for t in kept) and len(sizes) in (4, 5):
        like = torch.channels_last if len(sizes) == 4 else torch.channels_last_3d
        if all(t.meta().is_contiguous(memory_format=like) for t in kept):
            return Layout(
                layout.sizes, torch.empty(sizes, device=META, memory_format=like).stride(), layout.dtype, layout.device
            )
    return layout


def is_contiguous_value(value: Value) -> bool:
    return contiguous_strides(value.sizes) == value.strides
