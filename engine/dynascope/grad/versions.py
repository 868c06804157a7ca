"""Changes in place between a region's call and its backward pass, where eager raises for them.

    y = region(x); y.add_(1); y.sum().backward()       y = exp(x): eager keeps y, and says that it was changed

Autograd counts the changes of what a compiled region saves. What eager would save besides is watched: by weak references, so
that nothing lives longer. The errors name autograd's functions as eager's do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynascope.grad.pair import GradPair, InputItself, Watched

REGION = "Region"
"""The name of a region's own node in torch's errors."""


def check_of(watched: tuple[Watched, ...]) -> Callable[[Any], None]:
    """`check(ctx.watched)`: raises eager's error if one of (weak reference, version) was changed since."""

    def check(seen: tuple[tuple[Any, int], ...]) -> None:
        for position, (reference, version) in enumerate(seen):
            tensor = reference()
            if tensor is not None and tensor._version != version:
                raise RuntimeError(_message(tensor, version, watched[position]))

    return check


def _message(tensor: torch.Tensor, version: int, watched: Watched) -> str:
    kind = f"{tensor.type()} {list(tensor.shape)}"
    place = (
        "" if isinstance(watched.origin, InputItself) else f", which is output {watched.number} of {watched.function},"
    )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind}]{place} is at version {tensor._version}; expected version {version} instead. Hint: enable anomaly "
        "detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )


def renamed(error: RuntimeError, pair: GradPair) -> RuntimeError:
    """The error, with autograd's functions in the place of the region."""
    text = str(error)
    for output, function, number in pair.kept_outputs:
        text = text.replace(f"output {output} of {REGION},", f"output {number} of {function},")
    return RuntimeError(text).with_traceback(error.__traceback__)
