"""Changes in place between a region's call and its backward pass, where eager raises for them.

    y = region(x); y.add_(1); y.sum().backward()       y = exp(x): eager keeps y, and says that it was changed

Autograd counts the changes of what a compiled region saves. What eager would save besides is watched: by weak references, so
that nothing lives longer. The errors name autograd's functions as eager's do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
    function = f"{watched.function}{_suffix()}"
    place = "" if isinstance(watched.origin, InputItself) else f", which is output {watched.number} of {function},"
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
        region = f"{REGION}Backward" if _suffix() else REGION
        text = text.replace(f"output {output} of {region},", f"output {number} of {function}{_suffix()},")
    return RuntimeError(text).with_traceback(error.__traceback__)


@cache
def _suffix() -> str:
    """What such errors add to the name of autograd's function: `ExpBackward0` in torch 2.11, `Exp` in later ones."""
    with torch.enable_grad():
        result = torch.ones((), requires_grad=True).exp()
    with torch.no_grad():
        result.add_(1)
    try:
        result.backward()
    except RuntimeError as error:
        return "Backward0" if "ExpBackward0" in str(error) else ""
    return ""
