"""Which ATen operators a function of torch comes down to: it runs once on meta tensors, and what arrives is noted.

operators_called(F.embedding_bag, (i[4], w[5, 5], o[2]), {})     [aten._embedding_bag.default]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from dynascope.autograd_functions import HOLDS_GRAPH
from dynascope.capture.metadata import META
from dynascope.meta_kernels import autocast

TORCHS_OWN = frozenset({"aten", "prims", "prim", "quantized", "mkldnn", "onednn", "mkl", "rngprims", "dynascope"})
"""Namespaces of operators whose schemas say all that they do."""
PLACES = frozenset({"index", "indices", "target", "offsets"})
"""Operands by these names hold places in another one, which may be out of range."""


def operators_called(
    target: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> list[OpOverload] | None:
    """None where the call fails on meta tensors."""
    watch = _Watch()
    try:
        with watch, torch.no_grad(), autocast.suspended():
            target(*map(_on_meta, arguments), **{name: _on_meta(item) for name, item in keywords.items()})
    except Exception:
        return None
    return watch.called


def reads_places(operator: OpOverload) -> bool:
    return any(argument.name in PLACES for argument in operator._schema.arguments)


def _on_meta(value: Any) -> Any:
    """The argument with tensors of its own, which the call may change."""
    if isinstance(value, torch.Tensor):
        return torch.empty_like(value, device=META)
    if isinstance(value, torch.device):
        return META
    if type(value) in (list, tuple):
        return type(value)(map(_on_meta, value))
    return {name: _on_meta(item) for name, item in value.items()} if isinstance(value, dict) else value


class OnMeta(TorchDispatchMode):
    """What operators make, they make on meta."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if any(argument.name == "device" for argument in func._schema.arguments):
            kwargs["device"] = META
        if func is torch.ops.aten.lift_fresh.default:  # of what `torch.tensor` has made of numbers, where it was told to
            return torch.empty_like(args[0], device=META)
        return func(*args, **kwargs)


def inside_on_meta(target: Any) -> AbstractContextManager[Any]:
    """What a custom function's own graphs make, they make on meta; others are told by their arguments."""
    return OnMeta() if isinstance(target, HOLDS_GRAPH) else nullcontext()


class _Watch(OnMeta):
    def __init__(self) -> None:
        super().__init__()
        self.called: list[OpOverload] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.called.append(func)
        return super().__torch_dispatch__(func, types, args, kwargs)
