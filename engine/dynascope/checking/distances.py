"""How far a value is from what it should be, beside how far eager's is: whether compiled code is as right as eager's.

    of_eager, of_made = distance(eager, reference), distance(made, reference)      the reference is in float64
    differs_more(of_eager, of_made, made.dtype)                                    False: roundings
"""

from __future__ import annotations

import math

import torch

FACTOR = 4.0
"""How much further from float64 than eager compiled code may be: another order of additions is no defect."""
FACTOR_OF_NOISE = 100.0
NOISE = 0.01
"""What eager itself gets no better is made of roundings alone, as a sum is whose terms cancel."""
ROUNDINGS = 8
ROUNDINGS_OF_SUMS = 64
"""The same of types with many digits: a sum of some dozens of terms that cancel loses so much, whoever adds them up, and eager's is
sometimes right by luck. Of half types that much would be all."""
FEW_DIGITS = 1e-4


def differs_more(of_eager: float, of_made: float, dtype: torch.dtype) -> bool:
    """Whether what was made is further from the reference than roundings explain, eager being as far as it is."""
    if not (dtype.is_floating_point or dtype.is_complex):
        # What decides by a rounding, as `x > y` does, may be either; where eager is sure, so is compiled code.
        return of_made > of_eager
    factor, step = FACTOR if of_eager < NOISE else FACTOR_OF_NOISE, torch.finfo(dtype).eps
    return of_made > max(factor * of_eager, (ROUNDINGS if step > FEW_DIGITS else ROUNDINGS_OF_SUMS) * step)


def distance(value: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference of an element, by the largest element; infinite where one is NaN or infinite and the other not."""
    if value.shape != reference.shape:
        return math.inf
    if not value.numel():
        return 0.0
    kind = torch.complex128 if value.is_complex() else torch.float64
    a, b = value.detach().to("cpu", kind), reference.detach().to("cpu", kind)
    odd = ~torch.isfinite(a) | ~torch.isfinite(b)
    if not torch.equal(torch.nan_to_num(a[odd].abs(), 1.5), torch.nan_to_num(b[odd].abs(), 1.5)):
        return math.inf
    apart, size = (a - b)[~odd].abs(), b[~odd].abs()
    if not apart.numel() or not float(apart.max()):
        return 0.0
    return float(apart.max()) / max(float(size.max()), torch.finfo(torch.float32).tiny)
