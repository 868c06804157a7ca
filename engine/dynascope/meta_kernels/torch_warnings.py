"""What torch's functions warn of while they run on meta tensors, noted instead of said.

    with noted() as given:
        torch.nn.functional.upsample(x)
    given[0].message                 "`nn.functional.upsample` is deprecated ..."

Whether it is said, and when, is decided once it is known what becomes of the call. That torch warns of some things only once in a
process is suspended meanwhile, so that the program's own call still does.

`warnings.catch_warnings` would do more: after it, warnings that the program has shown once are shown again.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch

ALWAYS = ("always", None, Warning, None, 0)
OF_CONTEXTS = getattr(sys.flags, "context_aware_warnings", False)
"""Free-threaded builds from 3.14 on: filters belong to a context, and what is set here would not be read."""


@contextmanager
def noted() -> Iterator[list[warnings.WarningMessage]]:
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with (_caught if OF_CONTEXTS else _recorded)() as given:
            yield given
    finally:
        torch.set_warn_always(always)


@contextmanager
def _caught() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        yield given


@contextmanager
def _recorded() -> Iterator[list[warnings.WarningMessage]]:
    """What `catch_warnings` does, but for saying that the filters are others now."""
    module, filters = cast(Any, warnings), cast(list, warnings.filters)
    shown = module.showwarning, module._showwarnmsg_impl
    given: list[warnings.WarningMessage] = []
    module.showwarning, module._showwarnmsg_impl = module._showwarning_orig, given.append
    filters.insert(0, ALWAYS)
    try:
        yield given
    finally:
        if ALWAYS in filters:
            filters.remove(ALWAYS)
        module.showwarning, module._showwarnmsg_impl = shown


def raises_errors() -> bool:
    """Whether the program has asked for warnings to be errors, of some kind at least."""
    return any(action == "error" for action, *_ in warnings.filters)
