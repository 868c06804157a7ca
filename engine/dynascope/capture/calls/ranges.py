"""Numbers that vary and that a call takes only where its type holds them.

    x.fill_(n)        n = 3, x of uint8        ->  `n <= 255` and `n >= -255` are relied on: for others torch raises

Torch's own operators are asked, with a number that no smaller type holds: an addition takes it, what fills a tensor does not. Only
where the number is an element to them: one that counts (a window of 2**62) is never tried.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from dynascope.capture.reasons import TorchCallFails
from dynascope.capture.signals import Break
from dynascope.capture.values import SymbolicNumber, Value
from dynascope.meta_kernels.torch_warnings import noted
from dynascope.sizes import fix

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

FAR = {int: 2**62, float: 1e300}
MOST_PLACES = 2**40
SMALL = 8
ELEMENTS = ("number", "float", "number]", "float]")
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
        if dtype is None or dtype in HOLD_ALL[number.size.kind] or dtype.is_complex:
            continue
        if _overflows(machine, target, arguments, named, at, FAR[number.size.kind]):
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

    def ask() -> None:
        with _OnlyElements(number):
            target(*apart, **by_name)

    try:
        with noted(), torch.no_grad(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
            machine.in_plain_mode(ask)
    except RuntimeError as error:
        return "without overflow" in str(error)
    except Exception:
        return False
    return False


class _OnlyElements(TorchFunctionMode):
    """Refuses a call that takes the number as anything but an element, by its schemas."""

    def __init__(self, number: Any) -> None:
        super().__init__()
        self.number = number

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given: list[tuple[Any, Any]] = [*enumerate(args), *(kwargs or {}).items()]
        for place, item in given:
            if _contains(item, self.number) and not _is_element(func, place):
                raise NotImplementedError
        with _OnlyElementsBelow(self.number) if hasattr(func, "__code__") else contextlib.nullcontext():
            return func(*args, **(kwargs or {}))


class _OnlyElementsBelow(TorchDispatchMode):
    """The same of the operators that a function of torch's in Python comes down to: it hands itself to a mode above them again."""

    def __init__(self, number: Any) -> None:
        super().__init__()
        self.number = number

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        taken = [*zip(func._schema.arguments, args, strict=False)]
        taken += [(each, named[each.name]) for each in func._schema.arguments if each.name in named]
        if any(_is_far(item) and not _is_of_elements(argument) for argument, item in taken):
            raise NotImplementedError
        return func(*args, **named)


def _is_far(item: Any) -> bool:
    """Whether it counts or places more than there is: it may have been made of the number."""
    if type(item) in (list, tuple):
        return any(map(_is_far, item))
    return type(item) in (int, float) and abs(item) > MOST_PLACES


def _contains(item: Any, number: Any) -> bool:
    if type(item) in (list, tuple):
        return any(_contains(each, number) for each in item)
    return type(item) is type(number) and item == number


def _is_element(function: Any, place: int | str) -> bool:
    """Whether some overload takes a number there, or Python's own arithmetic or assignment does."""
    name = getattr(function, "__name__", "")
    return name.startswith("__") or hasattr(function, "__code__") or place in _places_of_elements(name)


@functools.cache
def _places_of_elements(name: str) -> frozenset[int | str]:
    packet = getattr(torch.ops.aten, name, None)
    schemas = [getattr(packet, overload)._schema for overload in packet.overloads()] if packet is not None else []
    arguments = [(at, each) for schema in schemas for at, each in enumerate(schema.arguments)]
    taken = [(at, each.name) for at, each in arguments if _is_of_elements(each)]
    return frozenset(place for pair in taken for place in pair)


def _is_of_elements(argument: Any) -> bool:
    return str(argument.type).removeprefix("Optional[") in ELEMENTS


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
