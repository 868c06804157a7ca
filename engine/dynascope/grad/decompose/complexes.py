"""Arithmetic of complex numbers as that of their two parts, which kernels have types for.

    z * w        a, b = z.real, z.imag;  c, d = w.real, w.imag;  view_as_complex(stack([a * c - b * d, a * d + b * c], -1))

So a rotation of pairs (`view_as_complex(x) * turns`, `view_as_real`) is one kernel, on a GPU. On a processor the library's vectors of pairs
are several times as fast. What else is done with complex numbers is the library's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.shapes import broadcast, iterator_strides, promoted
from dynascope.grad.tape import Value, contiguous_strides
from dynascope.grad.views import apply_view
from dynascope.sizes import same

aten = torch.ops.aten
Parts = tuple[Any, Any]
REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}
DEVICES = {"cuda"}
FOLLOWED = frozenset([aten.view.default, aten.expand.default, aten.unsqueeze.default, aten.permute.default])
"""Views that are the same views of each part."""


def with_complexes(table: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """The decompositions of a program that has complex numbers. Operands that are all real are left to what stands in `table`."""
    return table | {target: _decomposition(rule, table.get(target)) for target, rule in RULES.items()}


def _decomposition(rule: Callable[..., Parts], otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
    def decompose(b: B, *operands: Any, **keywords: Any) -> Any:
        values = [each for each in operands if isinstance(each, Value)]
        dtype = promoted(operands[:2])
        if not dtype.is_complex:
            return NotImplemented if otherwise is None else otherwise(b, *operands, **keywords)
        devices = {each.device for each in values}
        if dtype not in REAL or len(devices) > 1 or values[0].device.type not in DEVICES or not values[0].layout.element_count:
            return NotImplemented
        sizes = broadcast(*(each.sizes for each in values))
        if not same(iterator_strides(sizes, values), contiguous_strides(sizes)):
            return NotImplemented
        made = rule(b, *(_parts(b, each, REAL[dtype]) for each in operands[:2]), **keywords)
        pair = [b.unsqueeze(b.expand(each, list(sizes)), len(sizes)) for each in made]
        return apply_view(b, aten.view_as_complex.default, b.op(aten.cat.default, pair, len(sizes)), ())

    return decompose


def _parts(b: B, operand: Any, dtype: torch.dtype) -> Parts:
    """A value's two parts, or a number's."""
    if not isinstance(operand, Value):
        return (operand.real, operand.imag) if isinstance(operand, complex) else (operand, 0.0)
    if not operand.dtype.is_complex:
        real = b.convert(operand, dtype)
        return real, 0.0
    real, imaginary = _views(b, operand)
    return b.convert(real, dtype), b.convert(imaginary, dtype)


def _views(b: B, operand: Value) -> tuple[Value, Value]:
    step = operand.step
    if step is not None and step.target in FOLLOWED:
        real, imaginary = _views(b, step.arguments[0])
        return b.op(step.target, real, *step.arguments[1:]), b.op(step.target, imaginary, *step.arguments[1:])
    is_made = step is not None and step.target is aten.view_as_complex.default
    pair = step.arguments[0] if is_made else apply_view(b, aten.view_as_real.default, operand, ())
    if pair.step is not None and pair.step.target is aten.cat.default and is_made:
        parts = [each.step for each in pair.step.arguments[0]]
        if len(parts) == 2 and all(step is not None and step.target is aten.unsqueeze.default for step in parts):
            return parts[0].arguments[0], parts[1].arguments[0]
    return b.select(pair, pair.rank - 1, 0), b.select(pair, pair.rank - 1, 1)


def _times(b: B, x: Any, y: Any) -> Any:
    if isinstance(x, Value):
        return b.mul(x, y)
    return b.mul(y, x) if isinstance(y, Value) else x * y


def _plus(b: B, x: Any, y: Any, sign: int = 1) -> Any:
    if isinstance(x, Value):
        return (b.add if sign > 0 else b.sub)(x, y)
    if not isinstance(y, Value):
        return x + sign * y
    return b.add(y if sign > 0 else b.neg(y), x)


def multiply(b: B, z: Parts, w: Parts) -> Parts:
    real = _plus(b, _times(b, z[0], w[0]), _times(b, z[1], w[1]), -1)
    return real, _plus(b, _times(b, z[0], w[1]), _times(b, z[1], w[0]))


def add(b: B, z: Parts, w: Parts, alpha: Any = 1, sign: int = 1) -> Parts:
    scale = complex(alpha)
    scaled = w if scale == 1 else multiply(b, w, (scale.real, scale.imag))
    return _plus(b, z[0], scaled[0], sign), _plus(b, z[1], scaled[1], sign)


def subtract(b: B, z: Parts, w: Parts, alpha: Any = 1) -> Parts:
    return add(b, z, w, alpha, -1)


def negate(b: B, z: Parts) -> Parts:
    return b.neg(z[0]), b.neg(z[1])


def conjugate(b: B, z: Parts) -> Parts:
    return z[0], b.neg(z[1])


RULES: dict[Any, Callable[..., Parts]] = {
    aten.mul.Tensor: multiply,
    aten.mul.Scalar: multiply,
    aten.add.Tensor: add,
    aten.add.Scalar: add,
    aten.sub.Tensor: subtract,
    aten.sub.Scalar: subtract,
    aten.neg.default: negate,
    aten._conj_physical.default: conjugate,
}
