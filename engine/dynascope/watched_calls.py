"""Whether a call is worth compiling for, in a program that asks for no compilation."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from dynascope.reasons import PreparesData
from dynascope.report.reason import Reason

CALLS_WITHOUT_TENSORS = 4
"""A function that took no tensor in its first so many calls is left alone for good."""

LOADERS = "torch.utils.data."
CALLS_OF_LOADERS = 4
"""A function whose first so many calls came from a loader of data is left alone for good."""


class FirstCalls:
    """Those of a function that take tensors. What a `DataLoader` calls to read and collate its samples works on many small tensors of
    every size, in worker processes as well: it runs as it is written."""

    def __init__(self) -> None:
        self.without_tensors = self.of_loaders = 0

    def __call__(self, values: Any, give_up: Callable[[], None]) -> bool | Reason:
        if not takes_tensors(values):
            self.without_tensors += 1
            if self.without_tensors >= CALLS_WITHOUT_TENSORS:
                give_up()
            return False
        if not is_called_by_loader():
            return True
        self.of_loaders += 1
        if self.of_loaders >= CALLS_OF_LOADERS:
            give_up()
        return PreparesData()


def is_called_by_loader() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(LOADERS):
            return True
        frame = frame.f_back
    return False


def takes_tensors(values: Any) -> bool:
    """Whether some argument is a tensor, or a container with one."""
    return any(holds_tensor(value, depth=3) for value in values.locals.values())


def holds_tensor(value: Any, depth: int) -> bool:
    import torch

    if isinstance(value, torch.Tensor):
        return True
    if depth and isinstance(value, (list, tuple)):
        return any(holds_tensor(item, depth - 1) for item in value[:16])
    if depth and isinstance(value, dict):
        return any(holds_tensor(item, depth - 1) for item in list(value.values())[:16])
    return False
