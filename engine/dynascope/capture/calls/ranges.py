"""Numbers that vary and that a call takes only where its type holds them.

    x.fill_(n)        n = 3, x of uint8        ->  `n <= 255` and `n >= -255` are relied on: for others torch raises

Torch's own operators are asked, with a number that no smaller type holds: an addition takes it, what fills a tensor does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.reasons import TorchCallFails
from dynascope.capture.signals import Break
from dynascope.capture.values import SymbolicNumber, Value
from dynascope.sizes import fix

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

FAR = {int: 2**62, float: 1e300}
SMALL = 8
HOLD_ALL = {int: (torch.int64, torch.bool), float: (torch.float64, torch.bool)}


def keep_in_range(
    machine: Machine, target: Callable[..., Any], values: list[Value], keywords: dict[str, Value], examples: Any
) -> None:
    """`examples` are (arguments, keywords, result) on meta tensors."""
    arguments, named, result = examples
    varying: list[tuple[Any, Value]] = [*enumerate(values), *keywords.items()]
    for at, number in varying:
        if not isinstance(number, SymbolicNumber) or machine.sizes.is_late(number):
            continue
        dtype = _dtype_of((result, *arguments))
        if dtype is None or dtype in HOLD_ALL[number.python_type] or dtype.is_complex:
            continue
        if _overflows(machine, target, arguments, named, at, FAR[number.python_type]):
            _rely_on_range(machine, number, dtype)


def _dtype_of(examples: tuple[Any, ...]) -> torch.dtype | None:
    return next((example.dtype for example in examples if isinstance(example, torch.Tensor)), None)


def _overflows(machine: Machine, target: Callable[..., Any], arguments: Any, named: Any, at: Any, number: Any) -> bool:
    """Asked of small tensors of zeros on the CPU: kernels look at the number, meta tensors have none."""
    apart: list[Any] = [_small(each) for each in arguments]
    by_name = {key: torch.device("cpu") if key == "device" else _small(each) for key, each in named.items()}
    if isinstance(at, int):
        apart[at] = number
    else:
        by_name[at] = number
    try:
        with torch.no_grad(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
            machine.in_plain_mode(lambda: target(*apart, **by_name))
    except RuntimeError as error:
        return "without overflow" in str(error)
    except Exception:
        return False
    return False


def _small(example: Any) -> Any:
    if isinstance(example, torch.Tensor):
        return torch.zeros([min(size, SMALL) for size in example.shape], dtype=example.dtype, device="cpu")
    if type(example) in (list, tuple):
        return type(example)(map(_small, example))
    return example


def _rely_on_range(machine: Machine, number: SymbolicNumber, dtype: torch.dtype) -> None:
    if not math.isfinite(number.size.hint):
        fix(number.size)
        return
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    low = limits.min if limits.min < 0 else -limits.max
    if not (number.size <= limits.max and number.size >= low):
        raise Break(TorchCallFails(machine.expression(), f"{number.size.hint} is no {dtype}"))
