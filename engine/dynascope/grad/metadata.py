"""The layouts of an operator's outputs: by a rule of ours, else by torch's meta kernel.

output_layouts(aten.mul.Tensor, (f32[4, 8], 2.0), {})  ->  [f32[4, 8]]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as replaced
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from dynascope.grad.reasons import DataDependentResult, DifferentiationRefused, OperatorFailed, VaryingNumberNeeded
from dynascope.grad.shapes import (
    ShapeMismatch,
    as_promoted,
    broadcast,
    channels_last_strides,
    common_device,
    contiguous_strides,
    floating,
    fresh,
    is_dense,
    iterator_strides,
    preserved_strides,
    promoted,
    reduced_sizes,
    wrap_dimension,
    wrap_dimensions,
)
from dynascope.grad.tape import (
    META,
    Layout,
    Value,
    elements_spanned,
    has_sizes,
    layout_of,
    leaves,
    names_of,
    numbers_at,
    replace,
    sizes_in,
)
from dynascope.meta_kernels.frozen import frozen, plain
from dynascope.meta_kernels.quiet_torch import without_compiler_imports
from dynascope.meta_kernels.undefined_results import with_undefined
from dynascope.sizes import Scope, hints_of, is_constant, known, same

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
    if has_sizes((arguments, keywords)):
        varying = next(sizes_in((arguments, keywords)))
        is_pointwise = torch.Tag.pointwise in target.tags  # of any number the results lie alike
        if is_pointwise and all(size.kind is float for size in sizes_in((arguments, keywords))):
            return layouts_by_torch(target, hints_of(arguments), hints_of(keywords))
        return _in_worlds(varying.scope, target, arguments, keywords)
    key = memory_key(target, arguments, keywords)
    known = _MEMORY.get(key) if key is not None else None
    if known is None:
        known = _ask_torch(target, arguments, keywords, list(leaves((arguments, keywords))))
        if key is not None:
            if len(_MEMORY) >= _MEMORY_LIMIT:
                _MEMORY.clear()
            _MEMORY[key] = known
    return list(known)


def _in_worlds(scope: Scope, target: Any, arguments: Any, keywords: Any) -> list[Layout | int | None]:
    """Torch's answers at several sizes, as one form each."""
    is_pointwise = torch.Tag.pointwise in target.tags
    floats = any(size.kind is float for size in sizes_in((arguments, keywords)))
    if scope.worlds is None or (floats and not is_pointwise):
        raise DifferentiationRefused(VaryingNumberNeeded(_name(target), names_of(sizes_in((arguments, keywords)))))
    answers = []
    for values in scope.worlds.values:
        answers.append(layouts_by_torch(target, numbers_at(arguments, values), numbers_at(keywords, values)))

    def form(numbers: Any) -> Any:
        found = scope.worlds.expression(tuple(numbers))
        if found is None:
            raise DifferentiationRefused(VaryingNumberNeeded(_name(target), names_of(sizes_in((arguments, keywords)))))
        return found

    def joined(parts: tuple) -> Any:
        first = parts[0]
        if not isinstance(first, Layout):
            return first if first is None else form(parts)
        sizes = tuple(form(column) for column in zip(*(part.sizes for part in parts), strict=True))
        if all(part.strides == contiguous_strides(part.sizes) for part in parts):  # long products are not searched for
            return Layout(sizes, contiguous_strides(sizes), first.dtype, first.device, first.is_sparse)
        strides = tuple(form(column) for column in zip(*(part.strides for part in parts), strict=True))
        return Layout(sizes, strides, first.dtype, first.device, first.is_sparse)

    return [joined(parts) for parts in zip(*answers, strict=True)]


_MEMORY: dict[Any, tuple[Layout | int | None, ...]] = {}
_MEMORY_LIMIT = 20_000


def memory_key(*parts: Any) -> Any:
    """An operator and its operands, and all else that the answer depends on; None where an argument cannot be compared."""
    try:
        key = (frozen(parts, _leaf), torch.get_default_dtype())
        hash(key)
    except TypeError:
        return None
    return key


def _leaf(data: Any) -> Any:
    return data.layout if isinstance(data, Value) else plain(data)


def _ask_torch(target: Any, arguments: Any, keywords: Any, operands: list[Any]) -> tuple[Layout | int | None, ...]:
    device = keywords.get("device") or common_device(operands)
    most = MOST_TRANSFORMED_BYTES if target in TRANSFORMS else MOST_MEASURED_BYTES
    if target in MEASURED and sum(map(_bytes_spanned, operands)) <= most:
        return _measured(target, arguments, keywords)
    if target in TRANSFORMS:
        return (_transformed(target, *arguments),)
    on_meta = dict(keywords, device=META) if "device" in keywords else keywords
    to_meta = lambda leaf: leaf.meta() if isinstance(leaf, Value) else leaf  # noqa: E731
    with _disable_current_modes():  # who asks may be recording, and the next time the answer is known: no step for it
        examples, named = replace(arguments, to_meta), replace(on_meta, to_meta)
        result = with_undefined(target._schema.name.removeprefix("aten::"), examples, named, call_meta_kernel(target, examples, named))
    outputs = result if isinstance(result, (tuple, list)) else (result,)
    described = tuple(_described(output, device) for output in outputs)
    return _as_iterated(target, operands, described)


def _as_iterated(target: Any, operands: list[Any], described: tuple[Any, ...]) -> tuple[Any, ...]:
    """Torch's references in Python lay out the results of pointwise operators in a way of their own; kernels do as TensorIterator."""
    if torch.Tag.pointwise not in target.tags or not operands:
        return described
    sizes = broadcast(*(operand.sizes for operand in operands))
    return tuple(
        replaced(layout, strides=iterator_strides(sizes, as_promoted(operands)))
        if isinstance(layout, Layout) and layout.sizes == sizes
        else layout
        for layout in described
    )


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


MEASURED = set(overloads("_fft_r2c _fft_c2r _fft_c2c _linalg_svd linalg_eig linalg_solve_triangular ldexp.Tensor"))
"""Their strides depend on which library does the work, or on torch's version: it is asked, once for each layout, with zeros."""
TRANSFORMS = set(overloads("_fft_r2c _fft_c2r _fft_c2c"))
"""Which dimension lies within which depends on the operand's strides, and not on how large it is."""
MOST_MEASURED_BYTES, MOST_TRANSFORMED_BYTES = 2**26, 2**16
FEW = 6


def _bytes_spanned(operand: Value) -> int:
    """From its first element to its last: a part of a large tensor needs as much memory, where it lies as it does."""
    layout = operand.layout.at_hand()
    return elements_spanned(layout.sizes, layout.strides) * layout.dtype.itemsize


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


def _transformed(target: Any, operand: Value, dimensions: Sequence[int], normalization: int, last: Any) -> Layout:
    """Of a transform that is too large to be tried: laid out as that of a small operand is. `last` is the length of a real result, and
    of a complex one whether half of it is enough."""
    sizes, small = list(operand.sizes), [min(size, FEW) for size in operand.sizes]
    few = last
    if target is aten._fft_c2r.default:  # of so many numbers half are there, and one
        few = min(last, FEW)
        sizes[dimensions[-1]], small[dimensions[-1]] = last, few // 2 + 1
    elif target is aten._fft_r2c.default and last:
        sizes[dimensions[-1]] = sizes[dimensions[-1]] // 2 + 1
    order = sorted(range(operand.rank), key=lambda d: (-operand.strides[d], d))
    tried = Value(Layout(tuple(small), _strides_in(order, small), operand.dtype, operand.device))
    (measured,) = _measured(target, (tried, dimensions, normalization, few), {})
    assert measured is not None and is_dense(measured.sizes, measured.strides)
    inner = sorted(range(operand.rank), key=lambda d: (-measured.strides[d], d))
    return replaced(measured, sizes=tuple(sizes), strides=_strides_in(inner, sizes))


def _strides_in(order: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Of dense memory with these dimensions from the outside in."""
    strides = dict(zip(order, contiguous_strides([sizes[d] for d in order]), strict=True))
    return tuple(strides[d] for d in range(len(sizes)))


def call_meta_kernel(target: Any, arguments: Any, keywords: Any) -> Any:
    """Run an operator on meta tensors, below autograd, at the sizes at hand. Any failure becomes a refusal."""
    arguments, keywords = hints_of(arguments), hints_of(keywords)
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
    given = [operand for operand in operands if operand is not None]
    return Layout(sizes, iterator_strides(sizes, given), dtype, common_device(values))


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
    return _pointwise(as_promoted((a, b)), promoted((a, b)))


@rule(aten.pow.Tensor_Scalar)
def _power_of_a_number(a: Value, b: Any) -> Layout:
    """Its kernel takes the exponent as a number, not as a tensor."""
    return _pointwise((a,), promoted((a, b)))


@rule(*overloads("div.Tensor", "div.Scalar", "atan2"))
def _dividing(a: Any, b: Any) -> Layout:
    dtype = floating(promoted((a, b)))
    return _pointwise(as_promoted((a, b), dtype), dtype)


@rule(*overloads("div.Tensor_mode", "div.Scalar_mode"))
def _dividing_by_mode(a: Any, b: Any, *, rounding_mode: str | None) -> Layout:
    dtype = promoted((a, b))
    dtype = dtype if rounding_mode else floating(dtype)
    return _pointwise(as_promoted((a, b), dtype), dtype)


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
    return _pointwise(as_promoted((a, b)), torch.bool)


@rule(aten.where.self)
def _where(condition: Value, a: Any, b: Any) -> Layout:
    return _pointwise((condition, *as_promoted((a, b))), promoted((a, b)))


@rule(*overloads("clamp", "clamp.Tensor"))
def _clamp(a: Value, low: Any = None, high: Any = None, **named: Any) -> Layout:
    bounds = [bound for bound in (low, high, named.get("min"), named.get("max")) if bound is not None]
    tensors = [bound for bound in bounds if isinstance(bound, Value)]
    return _pointwise(as_promoted((a, *tensors)), promoted((a, *bounds)))


def kept_strides(value: Value, memory_format: torch.memory_format | None) -> tuple[int, ...]:
    """The strides of a copy of `value` in `memory_format`; None preserves."""
    if memory_format is None or memory_format is torch.preserve_format:
        return preserved_strides(value)
    if memory_format is torch.contiguous_format:
        return contiguous_strides(value.sizes)
    return channels_last_strides(value.sizes)


@rule(aten.clone.default)
def _clone(a: Value, *, memory_format: Any = None) -> Layout:
    return Layout(a.sizes, kept_strides(a, memory_format), a.dtype, a.device)


@rule(aten._to_copy.default)
def _to_copy(a: Value, *, dtype: Any = None, device: Any = None, memory_format: Any = None, **_: Any) -> Layout:
    return Layout(a.sizes, kept_strides(a, memory_format), dtype or a.dtype, torch.device(device or a.device))


@rule(aten.constant_pad_nd.default)
def _padded(a: Value, pad: Sequence[int], value: Any = 0) -> Layout | list[Layout | int | None]:
    """Where nothing is added torch copies and keeps the order of memory; what lies in order does so either way. Of one channel the stride
    says which order is meant."""
    sizes = list(a.sizes)
    for number, added in enumerate(pad):
        sizes[-1 - number // 2] += added
    is_order_shown = a.rank in (4, 5) and known(">=", a.sizes[1], 2) and any(known(">=", size, 2) for size in a.sizes[2:])
    has_one_order = a.rank not in (4, 5) or is_order_shown
    lies_in_order = all(map(_is_stride, a.sizes, a.strides, contiguous_strides(a.sizes)))
    if has_one_order and lies_in_order and all(known(">=", size, 0) or size >= 0 for size in sizes):
        return fresh(sizes, a.dtype, a.device)
    return layouts_by_torch(aten.constant_pad_nd.default, (a, pad, value), {})


def _is_stride(size: Any, stride: Any, wanted: Any) -> bool:
    return is_constant(size, 1) or same(stride, wanted)


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


def reduces_nothing(dimensions: Any) -> bool:
    return isinstance(dimensions, (list, tuple)) and not dimensions


@rule(*overloads("any.dim", "any.dims", "all.dim", "all.dims"))
def _any(a: Value, dimensions: Any = None, keep: Any = False) -> Layout:
    """No dimensions are none here, where they are all of them for other reductions."""
    reduced = wrap_dimensions([dimensions] if isinstance(dimensions, int) else dimensions, a.rank)
    return fresh(
        a.sizes if reduces_nothing(dimensions) else reduced_sizes(a.sizes, reduced, keep),
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
def _coins(a: Value, *_: Any, **__: Any) -> Layout:
    return fresh(a.sizes, a.dtype, a.device)


@rule(*overloads("rand_like randn_like randint_like randint_like.low_dtype"))
def _random_like(
    a: Value, *_: Any, dtype: Any = None, device: Any = None, memory_format: Any = None, **__: Any
) -> Layout:
    return Layout(a.sizes, kept_strides(a, memory_format), dtype or a.dtype, torch.device(device or a.device))


def joined(tensors: Sequence[Value], dimension: int = 0) -> Layout:
    """The contiguous layout of tensors one after the other along a dimension."""
    kept = [t for t in tensors if t.sizes != (0,)] or list(tensors)
    dimension = wrap_dimension(dimension, kept[0].rank)
    sizes = list(kept[0].sizes)
    sizes[dimension] = sum(t.sizes[dimension] for t in kept)
    if any(
        t.sizes[:dimension] + t.sizes[dimension + 1 :] != (*sizes[:dimension], *sizes[dimension + 1 :]) for t in kept
    ):
        raise ShapeMismatch(f"sizes {[list(t.sizes) for t in tensors]} cannot be joined along dimension {dimension}")
    return fresh(sizes, promoted(tensors), common_device(tensors))
