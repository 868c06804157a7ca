"""What Python's operators and attributes of tensors lead to: torch's own, or something that the program put in its place.

assume(torch.Tensor)        the class is noted as it is now: replacing `torch.Tensor.__add__` later is seen
replaced()                  "torch.Tensor.__add__", where the program has replaced it already
"""

from __future__ import annotations

import types
from typing import Any

import torch

from dynascope.capture.places import is_own
from dynascope.capture.world import note_all
from dynascope.guards.world import expected, look_up

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
_OTHERS = ("neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge", "len", "iter", "getitem", "setitem", "bool",
           "contains", "hash", "int", "float", "index", "getattribute", "round", "reversed")  # fmt: skip
_ATTRIBUTES = ("shape", "dtype", "device", "ndim", "layout", "T", "mT", "H", "mH", "data", "real", "imag", "requires_grad",
               "is_leaf", "grad", "grad_fn", "itemsize", "nbytes", "is_cuda", "is_cpu", "is_meta", "is_sparse",
               "is_quantized", "is_nested", "names")  # fmt: skip
NAMES = (
    *(f"__{prefix}{name}__" for name in _BINARY for prefix in ("", "r", "i")),
    *(f"__{name}__" for name in _OTHERS),
    "__torch_function__",
    *_ATTRIBUTES,
)

_known: dict[type, dict[str, tuple[Any, Any]]] = {}


def assume(cls: type) -> None:
    """That the protocol of this tensor class stays as it is. What is expected of a name is made once for all captures."""
    known = _known.setdefault(cls, {})
    for name in NAMES:
        found = look_up(cls, name)
        if name not in known or known[name][0] is not found:
            known[name] = (found, expected(found))
    note_all(cls, {name: wanted for name, (_, wanted) in known.items()})


def replaced() -> str | None:
    """The first name of `torch.Tensor` that is not torch's own, with its class."""
    return next((f"torch.Tensor.{name}" for name in NAMES if is_the_users(look_up(torch.Tensor, name))), None)


def is_the_users(entry: Any) -> bool:
    if isinstance(entry, (staticmethod, classmethod)):
        entry = entry.__func__
    if isinstance(entry, property):
        entry = entry.fget
    return isinstance(entry, types.FunctionType) and is_own(entry.__globals__)
