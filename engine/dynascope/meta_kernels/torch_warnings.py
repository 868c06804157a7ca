"""What torch's functions warn of while they run on meta tensors, noted instead of said.

    with noted() as given:
        torch.nn.functional.upsample(x)
    given[0].message                 "`nn.functional.upsample` is deprecated ..."

Whether it is said, and when, is decided once it is known what becomes of the call. That torch warns of some things only once in a
process is suspended meanwhile, so that the program's own call still does.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def noted() -> Iterator[list[warnings.WarningMessage]]:
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            yield given
    finally:
        torch.set_warn_always(always)


def raises_errors() -> bool:
    """Whether the program has asked for warnings to be errors, of some kind at least."""
    return any(action == "error" for action, *_ in warnings.filters)
