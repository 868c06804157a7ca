"""Random operators as functions of a seed that is drawn once a call, for `random="device"`.

    native_dropout(x, 0.1)   ->   u = uniform(seed, 0, x.shape); mask = u < 0.9; (x * mask * (1 / 0.9), mask)

`uniform` may run again wherever its numbers are needed, so the mask is not kept for the backward pass: the seed is.
Operators without a form here (multinomial, poisson, randint, ...) and calls with a generator of their own stay eager's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynascope.grad.build import StepBuilder as B
from dynascope.grad.metadata import kept_strides
from dynascope.grad.tape import Layout, Value, contiguous_strides
from dynascope.random_numbers import DRAW_SEED, UNIFORM
from dynascope.sizes import Size

aten = torch.ops.aten
MANTISSA_BITS = {torch.float16: 11, torch.bfloat16: 8}
"""Numbers with these many bits stay below 1 in the type."""
SINGLE = 24


def uniform(b: B, layout: Layout) -> Value:
    """f32 in [0, 1), of the sizes and strides of `layout`; a stream of its own."""
    seed = b.tape.seeds.get(layout.device)
    if seed is None:
        seed = b.tape.seeds[layout.device] = b.tape.write_number(DRAW_SEED, (layout.device,), 0)
    arguments = (seed, b.tape.streams, list(layout.sizes), list(layout.strides), layout.device)
    b.tape.streams += 1
    single = Layout(layout.sizes, layout.strides, torch.float32, layout.device)
    return b.tape.write(UNIFORM, arguments, {}, [single]).outputs[0]  # type: ignore[return-value]


def bernoulli_mask(b: B, layout: Layout, probability: float | Value) -> Value:
    """True with `probability`."""
    return b.compare("lt", uniform(b, layout), probability)


# -- dropout and coins ------------------------------------------------------------------------------------------------


def _native_dropout(b: B, x: Value, p: float, train: bool | None) -> Any:
    if train is False or not x.dtype.is_floating_point or isinstance(p, Size):
        return NotImplemented
    mask = bernoulli_mask(b, _like(x), 1.0 - p)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return b.mul(b.mul(x, b.convert(mask, x.dtype)), scale), mask


def _bernoulli(b: B, x: Value, *, generator: Any = None) -> Any:
    if generator is not None or not x.dtype.is_floating_point:
        return NotImplemented
    return b.convert(bernoulli_mask(b, _like(x), x), x.dtype)


def _bernoulli_by(b: B, x: Value, p: float | Value = 0.5, *, generator: Any = None) -> Any:
    if generator is not None or isinstance(p, Size):
        return NotImplemented
    return b.convert(bernoulli_mask(b, _like(x), p), x.dtype)


# -- uniform and normal numbers ---------------------------------------------------------------------------------------


def uniform_of(b: B, layout: Layout) -> Value:
    """Numbers in [0, 1) of `layout`'s dtype: as many bits as it holds without rounding up to 1."""
    if layout.dtype is torch.float64:
        high, low = (b.convert(uniform(b, layout), torch.float64) for _ in range(2))
        return b.add(high, b.mul(low, 2.0**-SINGLE))
    bits = MANTISSA_BITS.get(layout.dtype)
    if bits is None:
        return uniform(b, layout)
    whole = b.op(aten.floor.default, b.mul(uniform(b, layout), 2.0**bits))
    return b.convert(b.mul(whole, 2.0**-bits), layout.dtype)


def normal_of(b: B, layout: Layout) -> Value:
    """Box and Muller's transform of two streams, in f32 (f64 in f64)."""
    wide = torch.float64 if layout.dtype is torch.float64 else torch.float32
    first, second = (uniform_of(b, Layout(layout.sizes, layout.strides, wide, layout.device)) for _ in range(2))
    radius = b.sqrt(b.mul(b.log(b.add(b.neg(first), 1.0)), -2.0))
    angle = b.op(aten.cos.default, b.mul(second, 2.0 * math.pi))
    return b.convert(b.mul(radius, angle), layout.dtype)


def _sized(make: Callable[[B, Layout], Value]) -> Callable[..., Any]:
    def apply(b: B, sizes: Sequence[int], *, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
        layout = _layout(sizes, dtype or torch.get_default_dtype(), device or "cpu", rest)
        return NotImplemented if layout is None else make(b, layout)

    return apply


def _in_likeness(make: Callable[[B, Layout], Value]) -> Callable[..., Any]:
    def apply(b: B, x: Value, *, memory_format: Any = None, dtype: Any = None, device: Any = None, **rest: Any) -> Any:
        layout = _layout(x.sizes, dtype or x.dtype, device or x.device, rest, kept_strides(x, memory_format))
        return NotImplemented if layout is None else make(b, layout)

    return apply


def _between(b: B, x: Value, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
    """What `uniform_(low, high)` writes."""
    layout = _layout(x.sizes, x.dtype, x.device, {"generator": generator}, kept_strides(x, None))
    if layout is None or isinstance(low, Size) or isinstance(high, Size):
        return NotImplemented
    return b.add(b.mul(uniform_of(b, layout), high - low), low)


def _normal(b: B, x: Value, mean: float = 0.0, deviation: float = 1.0, *, generator: Any = None) -> Any:
    """What `normal_(mean, deviation)` writes."""
    layout = _layout(x.sizes, x.dtype, x.device, {"generator": generator}, kept_strides(x, None))
    if layout is None or isinstance(mean, Size) or isinstance(deviation, Size):
        return NotImplemented
    return b.add(b.mul(normal_of(b, layout), deviation), mean)


def _layout(sizes: Any, dtype: torch.dtype, device: Any, rest: dict[str, Any], strides: Any = None) -> Layout | None:
    """None where the call asks for what has no form here: another generator, a sparse layout, a dtype without loops."""
    if not dtype.is_floating_point or dtype.itemsize == 1 or rest.get("generator") is not None:
        return None
    if rest.get("layout") not in (None, torch.strided):
        return None
    sizes = tuple(sizes)
    return Layout(sizes, strides or contiguous_strides(sizes), dtype, torch.device(device))


def _like(x: Value) -> Layout:
    return Layout(x.sizes, kept_strides(x, None), x.dtype, x.device)


TABLE: dict[Any, Callable[..., Any]] = {
    aten.native_dropout.default: _native_dropout,
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli_by,
    aten.bernoulli.Tensor: _bernoulli_by,
    aten.rand.default: _sized(uniform_of),
    aten.randn.default: _sized(normal_of),
    aten.rand_like.default: _in_likeness(uniform_of),
    aten.randn_like.default: _in_likeness(normal_of),
    aten.uniform.default: _between,
    aten.normal_functional.default: _normal,
}
