"""Operators of the program's own libraries (`torch.library`): what their schemas and registrations say.

    obstacle(operators, ...)        None, or why the operator cannot be part of a graph
    written(operators, ...)         the arguments that it changes, by its schema

Nothing of them runs while a program is captured but a kernel that was registered for meta tensors (`register_fake`): others
are the program's own code, with effects that would happen too often.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from dynascope.capture.operators_called import TORCHS_OWN


def own_operators(target: Any) -> tuple[OpOverload, ...]:
    """The overloads that a call of `target` may mean, if it is no operator of torch's own."""
    if isinstance(target, OpOverload):
        return () if target.namespace in TORCHS_OWN else (target,)
    if not isinstance(target, OpOverloadPacket):
        return ()
    overloads = tuple(getattr(target, name) for name in target.overloads())
    return tuple(overload for overload in overloads if overload.namespace not in TORCHS_OWN)


def obstacle(operators: tuple[OpOverload, ...], excluded: frozenset[OpOverload], needs_gradient: bool) -> str | None:
    """`excluded` are those that a later stage could not take; `needs_gradient` whether autograd records the call."""
    if any(operator in excluded for operator in operators):
        return (
            "its backward pass, or what it changes, cannot be recorded without running it, or a check may fail beside it, after which "
            "it would run again"
        )
    if not all(_has_kernel(operator, "Meta") for operator in operators):
        return "no kernel for meta tensors is registered for it (`torch.library.register_fake`)"
    if needs_gradient and not all(_has_derivative(operator) for operator in operators):
        return "no derivative is registered for it (`torch.library.register_autograd`), so that autograd looks inside"
    return None


def written(operators: tuple[OpOverload, ...], arguments: tuple, keywords: dict[str, Any]) -> Iterator[Any]:
    """The arguments that some overload's schema says are changed."""
    for operator in operators:
        for position, argument in enumerate(operator._schema.arguments):
            if argument.is_write:
                if position < len(arguments):
                    yield arguments[position]
                elif argument.name in keywords:
                    yield keywords[argument.name]


def _has_derivative(operator: OpOverload) -> bool:
    return any(_has_kernel(operator, key) for key in ("Autograd", "AutogradCPU", "AutogradCUDA"))


def _has_kernel(operator: OpOverload, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), key)
