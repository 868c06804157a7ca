"""Core ATen as prims: type promotion and broadcasting are steps of their own.

    add(f32[3], f16[3, 3])     convert_element_type(f16 -> f32), broadcast_in_dim([3] -> [3, 3]), prims.add

A rule gives the last step of an operator; operators without a rule (matrix products, convolutions) stay as they are, as there
is no prim for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.grad.metadata import overloads
from dynascope.grad.shapes import promoted, wrap_dimension, wrap_dimensions
from dynascope.grad.tape import Layout, Sizes, Step, Value, contiguous_strides
from dynascope.sizes import hint_of, same

aten, prims = torch.ops.aten, torch.ops.prims
Rule = Callable[..., Any]


def steps_in_prims(steps: Sequence[Step]) -> list[Step]:
    return [prim for step in steps for prim in _in_prims(step)]


def _in_prims(step: Step) -> list[Step]:
    """The steps that compute the very values of `step`; itself where no rule fits."""
    rule = RULES.get(step.target)
    if rule is None or not isinstance(step.outputs[0], Value):
        return [step]
    writer = _Writer(step, step.outputs[0].layout)
    try:
        made = rule(writer, *step.arguments, **step.keywords)
    except _NoPrims:
        return [step]
    if made is NotImplemented or not writer.steps or made.step is not writer.steps[-1]:
        return [step]
    writer.steps[-1].outputs = step.outputs
    return writer.steps


class _NoPrims(Exception):
    """The operator stays as it is: no prim does this to operands of these types."""


class _Writer:
    """The steps that stand for one. `result` is the layout of what it gives."""

    def __init__(self, step: Step, result: Layout) -> None:
        self.original, self.result = step, result
        self.steps: list[Step] = []

    def op(self, name: str, *arguments: Any, sizes: Sizes | None = None, dtype: Any = None, **keywords: Any) -> Value:
        sizes, dtype = self.result.sizes if sizes is None else sizes, dtype or self.result.dtype
        original = self.original
        step = Step(getattr(prims, name).default, arguments, keywords, original.origin, original.phase)
        value = Value(Layout(tuple(sizes), contiguous_strides(tuple(sizes)), dtype, self.result.device), step)
        step.outputs = (value,)
        self.steps.append(step)
        return value

    def converted(self, operand: Any, dtype: torch.dtype) -> Any:
        if not isinstance(operand, Value) or operand.dtype is dtype:
            return operand
        if operand.dtype.is_complex and not dtype.is_complex:
            raise _NoPrims  # it would keep the real part alone
        return self.op("convert_element_type", operand, dtype, sizes=operand.sizes, dtype=dtype)

    def broadcast(self, operand: Any, sizes: Sizes | None = None) -> Any:
        sizes = self.result.sizes if sizes is None else sizes
        if not isinstance(operand, Value) or same(operand.sizes, sizes):
            return operand
        return self.placed(operand, sizes, range(len(sizes) - operand.rank, len(sizes)))

    def placed(self, operand: Value, sizes: Sizes, dimensions: Sequence[int]) -> Value:
        return self.op("broadcast_in_dim", operand, list(sizes), list(dimensions), sizes=sizes, dtype=operand.dtype)

    def pointwise(self, name: str, *operands: Any, computed_in: torch.dtype | None = None) -> Value:
        """The prim on operands of one type and one shape."""
        dtype = computed_in or self.result.dtype
        return self.op(name, *(self.broadcast(self.converted(operand, dtype)) for operand in operands))


def _pointwise(name: str) -> Rule:
    return lambda w, *operands: w.pointwise(name, *operands)


def _compared(name: str) -> Rule:
    """Operands are promoted together, and the answer is bool."""
    return lambda w, a, b: w.pointwise(name, a, b, computed_in=promoted((a, b)))


def _scaled(name: str, is_swapped: bool = False) -> Rule:
    """`add`, `sub` and `rsub`, with the factor of the second operand."""

    def rule(w: _Writer, a: Any, b: Any, alpha: Any = 1) -> Any:
        if is_swapped:
            a, b = b, a
        if alpha != 1 and isinstance(b, Value):
            b = w.converted(b, w.result.dtype)
            b = w.op("mul", b, alpha, sizes=b.sizes)
        elif alpha != 1:
            return NotImplemented
        return w.pointwise(name, a, b)

    return rule


def _where(w: _Writer, condition: Value, a: Any, b: Any) -> Any:
    a, b = (w.broadcast(w.converted(operand, w.result.dtype)) for operand in (a, b))
    return w.op("where", w.broadcast(condition), a, b)


def _clamp(w: _Writer, a: Value, low: Any = None, high: Any = None) -> Any:
    """No number of the limits may be NaN: prims compare, and eager gives NaN everywhere."""
    made = w.converted(a, w.result.dtype)
    if low is not None:
        made = w.pointwise("maximum", made, low)
    return made if high is None else w.pointwise("minimum", made, high)


def _relu(w: _Writer, a: Value) -> Any:
    return w.op("where", w.op("le", a, 0, dtype=torch.bool), 0, a)


def _sigmoid(w: _Writer, a: Value) -> Any:
    made = w.op("exp", w.op("neg", w.converted(a, w.result.dtype)))
    return w.op("reciprocal", w.op("add", made, 1.0))


def _logical(name: str) -> Rule:
    def rule(w: _Writer, *operands: Any) -> Any:
        truths = [
            o if o.dtype is torch.bool else w.op("ne", o, 0, sizes=o.sizes, dtype=torch.bool) for o in operands
        ]
        return w.pointwise(name, *truths)

    return rule


def _is_nan(w: _Writer, a: Value) -> Any:
    return w.op("ne", a, a)


def _is_infinite(w: _Writer, a: Value) -> Any:
    return w.op("eq", w.op("abs", a, dtype=a.dtype), float("inf")) if a.dtype.is_floating_point else NotImplemented


def _absolute(w: _Writer, a: Value) -> Any:
    return w.op("abs", a)


def _of_real_numbers(name: str) -> Rule:
    return lambda w, a: NotImplemented if a.dtype.is_complex else w.pointwise(name, a)


def _square(w: _Writer, a: Value) -> Any:
    return w.pointwise("mul", a, a)


def _fraction(w: _Writer, a: Value) -> Any:
    return w.op("sub", a, w.op("trunc", a))


def _copied(w: _Writer, a: Value, **keywords: Any) -> Any:
    device = keywords.pop("device", None)
    given = {name for name, value in keywords.items() if value is not None}
    if given - {"dtype"} or a.dtype.is_complex != w.result.dtype.is_complex:
        return NotImplemented
    if device is not None and a.device != w.result.device:
        a = w.op("device_put", a, device, dtype=a.dtype)
    return w.converted(a, w.result.dtype)


def _cloned(w: _Writer, a: Value, **keywords: Any) -> Any:
    return w.op("clone", a, **keywords)


def _reduction(name: str) -> Rule:
    """The prim has no `keepdim`: a dimension of one element is put back by broadcasting."""

    def rule(w: _Writer, a: Value, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        return _reduced(w, name, w.converted(a, w.result.dtype), dims, keepdim)

    return rule


def _reduced(w: _Writer, name: str, a: Value, dims: Any, keepdim: bool, *rest: Any) -> Any:
    gone = _dimensions(a, dims)
    left = [dimension for dimension in range(a.rank) if dimension not in gone]
    sizes = tuple(a.sizes[dimension] for dimension in left)
    made = w.op(name, a, gone, *rest, sizes=sizes)
    return w.placed(made, w.result.sizes, left) if keepdim and gone else made


def _dimensions(a: Value, dims: Any) -> list[int]:
    if dims is None or dims == []:
        return list(range(a.rank))
    return sorted(wrap_dimensions(dims if isinstance(dims, (list, tuple)) else [dims], a.rank))


def _mean(w: _Writer, a: Value, dims: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    a, count = w.converted(a, w.result.dtype), 1
    for dimension in _dimensions(a, dims):
        count = count * a.sizes[dimension]
    return w.op("div", _reduced(w, "sum", a, dims, keepdim), count)


def _variance(w: _Writer, a: Value, dims: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return _reduced(w, "var", a, dims, keepdim, 1.0 if correction is None else float(correction))


def _reshaped(w: _Writer, a: Value, *_: Any) -> Any:
    if not w.result.sizes:
        return w.op("squeeze", a, list(range(a.rank)))  # the prim knows no shape without dimensions
    if same(a.layout.strides, contiguous_strides(a.sizes)):
        return w.op("reshape", a, list(w.result.sizes))
    return _regrouped(w, a)


def _regrouped(w: _Writer, a: Value) -> Any:
    """A view in steps that are views themselves: `reshape` copies, and operators that are no prims see how memory lies."""
    left = [size for size in a.sizes if not _is_one(size)]
    made = w.op("squeeze", a, [d for d, size in enumerate(a.sizes) if _is_one(size)], sizes=left) if len(left) < a.rank else a
    wanted = [d for d, size in enumerate(w.result.sizes) if not _is_one(size)]
    groups = _groups(left, [w.result.sizes[d] for d in wanted])
    if groups is None:
        return NotImplemented
    at = 0
    for old, new in groups:
        if len(old) > 1:
            sizes = (*made.sizes[:at], _product(old), *made.sizes[at + len(old) :])
            made = w.op("collapse_view", made, at, at + len(old) - 1, sizes=sizes)
        for number, outer in enumerate(new[:-1]):
            inner = _product(new[number + 1 :])
            made = w.op("split_dim", made, at, outer, sizes=(*made.sizes[:at], outer, inner, *made.sizes[at + 1 :]))
            at += 1
        at += 1
    return w.placed(made, w.result.sizes, wanted) if len(wanted) < len(w.result.sizes) or made is a else made


def _groups(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[list[Any], list[Any]]] | None:
    """Neighbouring sizes of both that have the same product, as few as can be; None where what varies does not show it."""
    found, old, new = [], list(old), list(new)
    while old and new:
        left, right = [old.pop(0)], [new.pop(0)]
        while not same((_product(left),), (_product(right),)):
            behind, rest = (left, old) if hint_of(_product(left)) < hint_of(_product(right)) else (right, new)
            if not rest:
                return None
            behind.append(rest.pop(0))
        found.append((left, right))
    return None if old or new else found


def _is_one(size: Any) -> bool:
    return type(size) is int and size == 1


def _product(sizes: Sequence[Any]) -> Any:
    product = sizes[0]
    for size in sizes[1:]:
        product = product * size
    return product


def _transposed(w: _Writer, a: Value, order: Any) -> Any:
    return w.op("transpose", a, [wrap_dimension(dimension, a.rank) for dimension in order])


def _exchanged(w: _Writer, a: Value, *dimensions: int) -> Any:
    order = list(range(a.rank))
    if a.rank > 1:
        first, second = (wrap_dimension(dimension, a.rank) for dimension in dimensions or (0, 1))
        order[first], order[second] = second, first
    return w.op("transpose", a, order)


def _expanded(w: _Writer, a: Value, *_: Any, **__: Any) -> Any:
    return w.placed(a, w.result.sizes, range(len(w.result.sizes) - a.rank, len(w.result.sizes)))


def _unsqueezed(w: _Writer, a: Value, dimension: int) -> Any:
    new = wrap_dimension(dimension, a.rank + 1)
    return w.placed(a, w.result.sizes, [d for d in range(a.rank + 1) if d != new])


def _squeezed(w: _Writer, a: Value, dimensions: Any) -> Any:
    gone = [d for d in _dimensions(a, dimensions) if type(a.sizes[d]) is int and a.sizes[d] == 1]
    return w.op("squeeze", a, gone)


def _joined(w: _Writer, tensors: Any, dimension: int = 0) -> Any:
    rank = len(w.result.sizes)
    if any(tensor.rank != rank for tensor in tensors):
        return NotImplemented  # what is empty and of one dimension is left out
    operands = [w.converted(tensor, w.result.dtype) for tensor in tensors]
    return w.op("cat", operands, wrap_dimension(dimension, rank))


def _filled(w: _Writer, sizes: Any, value: Any, **_: Any) -> Any:
    place = dict(dtype=w.result.dtype, device=w.result.device, requires_grad=False)
    made = w.op("full", list(sizes), value)
    made.step.keywords.update(place)  # type: ignore[union-attr]
    return made


def _by_name(*names: str) -> dict[Any, Rule]:
    """Operators that are called as their prims."""
    table = {}
    for operator in overloads(*names):
        table[operator] = _pointwise(operator._schema.name.removeprefix("aten::"))
    return table


RULES: dict[Any, Rule] = {
    **_by_name(
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh asinh acosh atanh tanh",
        "erf erfc reciprocal lgamma digamma neg sign floor ceil round trunc bitwise_not atan2 hypot nextafter",
        "mul.Tensor mul.Scalar maximum minimum fmax fmin fmod.Tensor fmod.Scalar remainder.Tensor remainder.Scalar",
        "bitwise_and.Tensor bitwise_and.Scalar bitwise_or.Tensor bitwise_or.Scalar bitwise_xor.Tensor bitwise_xor.Scalar",
        "pow.Tensor_Tensor pow.Tensor_Scalar pow.Scalar div.Tensor div.Scalar",
    ),
    **{
        operator: _compared(operator._schema.name.removeprefix("aten::"))
        for operator in overloads(
            *(f"{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar"))
        )
    },
    **dict.fromkeys(overloads("add.Tensor add.Scalar"), _scaled("add")),
    **dict.fromkeys(overloads("sub.Tensor sub.Scalar"), _scaled("sub")),
    **dict.fromkeys(overloads("rsub.Tensor rsub.Scalar"), _scaled("sub", is_swapped=True)),
    aten.erfinv.default: _pointwise("erf_inv"),
    aten.special_i0.default: _pointwise("bessel_i0"),
    aten.special_i1.default: _pointwise("bessel_i1"),
    aten.abs.default: _absolute,
    aten.sgn.default: _of_real_numbers("sign"),
    aten.isfinite.default: lambda w, a: w.op("isfinite", a),
    aten.signbit.default: lambda w, a: w.op("signbit", a),
    aten.isnan.default: _is_nan,
    aten.isinf.default: _is_infinite,
    aten.square.default: _square,
    aten.frac.default: _fraction,
    aten.relu.default: _relu,
    aten.sigmoid.default: _sigmoid,
    aten.logical_and.default: _logical("bitwise_and"),
    aten.logical_or.default: _logical("bitwise_or"),
    aten.logical_xor.default: _logical("bitwise_xor"),
    aten.logical_not.default: _logical("bitwise_not"),
    aten.where.self: _where,
    aten.clamp.default: _clamp,
    aten.clamp.Tensor: _clamp,
    aten._to_copy.default: _copied,
    aten.clone.default: _cloned,
    aten.sum.dim_IntList: _reduction("sum"),
    aten.sum.default: _reduction("sum"),
    aten.amax.default: _reduction("amax"),
    aten.amin.default: _reduction("amin"),
    aten.prod.dim_int: _reduction("prod"),
    aten.prod.default: _reduction("prod"),
    aten.mean.dim: _mean,
    aten.mean.default: _mean,
    aten.var.correction: _variance,
    aten.view.default: _reshaped,
    aten.permute.default: _transposed,
    aten.transpose.int: _exchanged,
    aten.t.default: _exchanged,
    aten.expand.default: _expanded,
    aten.unsqueeze.default: _unsqueezed,
    aten.squeeze.dims: _squeezed,
    aten.cat.default: _joined,
    aten.full.default: _filled,
}
