"""What plain PyTorch refuses although its meta kernels do not: types an operator has no CPU kernel for, and writes to memory
that several elements share.

    check_types(torch.sub, "call_function", (f32[4], True), {})     "Subtraction with a bool tensor is not supported ..."
    writes_unevenly(expanded, ())                                   True

The types are tried once for each kind of call, on tensors of one element; the answer is the words of the error, or None. Only
torch's own operators are tried, and of those only what checks its operands: an operator of the program may do anything, and
kernels that follow offsets into other tensors, or exchange rows by a matrix factor's pivots, may reach anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import torch

from dynascope.meta_kernels.torch_warnings import noted

ABOUT_TYPES = re.compile(
    r"not implemented for|d ?type|scalar ?type|unsafe to autocast|can't be cast|\bbool|complex types"
    r"|negative integer powers|floating point",
    re.IGNORECASE,
)
"""Errors that would be the same for tensors of any size."""

_tried: dict[tuple, str | None] = {}
_UNCHECKED_OPERANDS = re.compile(r"offset|lengths|seq|_ptr|scale|zero_point|generator|pivot", re.IGNORECASE)
_PYTHON_NAMES = {
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "invert": "bitwise_not",
    "inv": "bitwise_not",
    "lshift": "__lshift__",
    "rshift": "__rshift__",
}
"""Functions of the module `operator` under torch's names for them."""


@cache
def is_harmless(target: Callable) -> bool:
    """Whether a function of torch may be run to see what it says of types."""
    packet = _operator(target)
    if packet is None or packet.__name__.startswith("_") and not packet.__name__.startswith("__"):
        return False
    schemas = [getattr(packet, name)._schema for name in packet.overloads()]
    return not any(_UNCHECKED_OPERANDS.search(argument.name) for schema in schemas for argument in schema.arguments)


def _operator(target: Callable) -> Any:
    """The operator that a function, a method or one of Python's own operators calls; None for what is not torch's."""
    if isinstance(target, torch._ops.OpOverload):
        target = target.overloadpacket
    if isinstance(target, torch._ops.OpOverloadPacket):
        return target if str(target).startswith("aten.") else None
    name, module = getattr(target, "__name__", ""), getattr(target, "__module__", None) or "torch"
    if module == "_operator":
        name = name.strip("_")
        name = _PYTHON_NAMES.get(name) or _PYTHON_NAMES.get(name.removeprefix("i")) or name
        candidates = (name, name.removeprefix("i"))
    elif module == "torch" or module.startswith("torch."):
        candidates = (name, name.removesuffix("_"), f"{name}_loss")
    else:
        candidates = ()
    return next((getattr(torch.ops.aten, name) for name in candidates if hasattr(torch.ops.aten, name)), None)


def check_types(target: Callable, arguments: tuple, keywords: dict[str, Any]) -> str | None:
    """Why the CPU refuses tensors and numbers of these types, if it does. Operands all of one float type are taken as fit,
    unless autocast makes others of them."""
    tensors = list(tensors_in((*arguments, *keywords.values())))
    lower = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
    if (
        not tensors
        or (lower is None and _are_usual(tensors, arguments) and not _is_for_integers(target))
        or not is_harmless(target)
    ):
        return None
    signature = (target, _kinds(arguments), tuple((name, _kinds((item,))) for name, item in keywords.items()), lower)
    if signature not in _tried:
        _tried[signature] = _try(target, arguments, keywords)
    return _tried[signature]


def _is_for_integers(target: Callable) -> bool:
    name = getattr(_operator(target), "__name__", "")
    return name.startswith("bitwise_") or name in ("__lshift__", "__rshift__", "gcd", "lcm")


def _are_usual(tensors: list[torch.Tensor], arguments: tuple) -> bool:
    dtype = tensors[0].dtype
    usual = dtype in (torch.float32, torch.float64) and all(tensor.dtype == dtype for tensor in tensors)
    return usual and not any(type(argument) in (bool, complex) for argument in arguments)


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def _kinds(values: Iterable[Any]) -> tuple:
    """What the answer can depend on: types and ranks of tensors, the values of everything else."""
    return tuple(
        (value.dtype, value.dim(), value.requires_grad)
        if isinstance(value, torch.Tensor)
        else (type(value), _kinds(value))
        if isinstance(value, (list, tuple))
        else (type(value), repr(value))
        for value in values
    )


def _try(target: Callable, arguments: tuple, keywords: dict[str, Any]) -> str | None:
    generator = torch.get_rng_state()
    try:
        with noted(), torch.no_grad():
            target(*map(_one_element, arguments), **{name: _one_element(item) for name, item in keywords.items()})
    except (RuntimeError, TypeError, IndexError) as error:
        text = str(error).strip().split("\n")[0]
        return text if ABOUT_TYPES.search(text) else None
    except Exception:
        return None
    finally:
        torch.set_rng_state(generator)
    return None


def _one_element(value: Any) -> Any:
    """The argument with each tensor as one element of it, 0 so that it is an index too."""
    if isinstance(value, torch.Tensor):
        return torch.zeros((1,) * value.dim(), dtype=value.dtype)
    if type(value) in (list, tuple):
        return type(value)(map(_one_element, value))
    return torch.device("cpu") if isinstance(value, torch.device) else value


def writes_unevenly(written: torch.Tensor, operands: Iterable[torch.Tensor]) -> bool:
    """Whether an element is written twice, or read as an operand's other element: PyTorch refuses, or the order decides."""
    if any(size > 1 and stride == 0 for size, stride in zip(written.shape, written.stride(), strict=True)):
        return True
    return any(_overlap_partly(written, operand) for operand in operands)


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.numel() > 0 and b.numel() > 0 and a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _overlap_partly(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a is b or not shares_memory(a, b):
        return False
    if (a.storage_offset(), a.shape, a.stride()) == (b.storage_offset(), b.shape, b.stride()):
        return False
    first, second = sorted((a, b), key=torch.Tensor.storage_offset)
    extent = sum((size - 1) * stride for size, stride in zip(first.shape, first.stride(), strict=True))
    return first.storage_offset() + extent >= second.storage_offset() and not _lie_side_by_side(first, second)


def _lie_side_by_side(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether in some dimension the second begins where the first has ended, and ends within the step of the next."""
    if first.stride() != second.stride():
        return False
    rest, outer = second.storage_offset() - first.storage_offset(), float("inf")
    for stride, length, other in sorted(zip(first.stride(), first.shape, second.shape, strict=True), reverse=True):
        if stride == 0:
            return False
        steps, rest = divmod(rest, stride)
        if steps >= length and (steps + other - 1) * stride < outer:
            return True
        outer = stride
    return False
