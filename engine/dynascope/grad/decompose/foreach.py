"""`_foreach_*` operators, as optimizers use them: the single operator for each tensor of the list.

_foreach_mul([a, b], 2)  ->  mul(a, 2), mul(b, 2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B

aten = torch.ops.aten

SINGLE = {
    "_foreach_add": aten.add.Tensor,
    "_foreach_sub": aten.sub.Tensor,
    "_foreach_mul": aten.mul.Tensor,
    "_foreach_div": aten.div.Tensor,
    "_foreach_maximum": aten.maximum.default,
    "_foreach_minimum": aten.minimum.default,
    "_foreach_sqrt": aten.sqrt.default,
    "_foreach_rsqrt": aten.rsqrt.default,
    "_foreach_reciprocal": aten.reciprocal.default,
    "_foreach_neg": aten.neg.default,
    "_foreach_exp": aten.exp.default,
    "_foreach_abs": aten.abs.default,
    "_foreach_sign": aten.sign.default,
}
WITH_VALUE = {"_foreach_addcmul": aten.addcmul.default, "_foreach_addcdiv": aten.addcdiv.default}
NUMBER_FORMS = {aten.maximum.default: aten.clamp_min.default, aten.minimum.default: aten.clamp_max.default}


def _each(single: Any) -> Callable[..., Any]:
    def apply(b: B, tensors: list[Any], *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
        results = []
        for index, tensor in enumerate(tensors):
            own = [a[index] if isinstance(a, (list, tuple)) else a for a in arguments]
            is_number = bool(own) and isinstance(own[0], (int, float))
            results.append(b.op(NUMBER_FORMS.get(single, single) if is_number else single, tensor, *own, **keywords))
        return tuple(results)

    return apply


def _each_with_value(single: Any) -> Callable[..., Any]:
    def apply(b: B, tensors: list[Any], first: Any, second: Any, value: Any = 1) -> Any:
        if not isinstance(value, (int, float, list, tuple)):
            return NotImplemented
        values = value if isinstance(value, (list, tuple)) else [value] * len(tensors)
        rows = zip(tensors, first, second, values, strict=True)
        return tuple(b.op(single, t, one, two, value=v) for t, one, two, v in rows)

    return apply


def _lerp(b: B, tensors: list[Any], ends: list[Any], weight: Any) -> Any:
    if not isinstance(weight, (int, float)):
        return NotImplemented
    return tuple(b.op(aten.lerp.Scalar, t, end, weight) for t, end in zip(tensors, ends, strict=True))


def _power(b: B, tensors: list[Any], exponent: Any) -> Any:
    if not isinstance(exponent, (int, float)):
        return NotImplemented
    return tuple(b.op(aten.pow.Tensor_Scalar, t, exponent) for t in tensors)


def _overloads(name: str) -> list[Any]:
    packet = getattr(aten, name, None)
    return [getattr(packet, overload) for overload in packet.overloads() if "out" not in overload] if packet else []


TABLE: dict[Any, Callable[..., Any]] = {
    **{operator: _each(single) for name, single in SINGLE.items() for operator in _overloads(name)},
    **{operator: _each_with_value(single) for name, single in WITH_VALUE.items() for operator in _overloads(name)},
    aten._foreach_lerp.Scalar: _lerp,
    aten._foreach_pow.Scalar: _power,
}
