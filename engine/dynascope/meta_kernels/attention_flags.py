"""The flags by which torch chooses how attention is computed (`torch.nn.attention.sdpa_kernel`, `torch.backends.cuda`).

    before = now();  ...;  restore(before)
"""

from __future__ import annotations

from collections.abc import Callable

import torch

_KERNELS = ("flash", "mem_efficient", "math", "cudnn", "overrideable", "fa3")
GETTER_OF: dict[Callable[[bool], None], Callable[[], bool]] = {
    getattr(torch._C, f"_set_sdp_use_{kernel}"): getattr(torch._C, f"_get_{kernel}_sdp_enabled")
    for kernel in _KERNELS
    if hasattr(torch._C, f"_set_sdp_use_{kernel}") and hasattr(torch._C, f"_get_{kernel}_sdp_enabled")
}
"""For each function that sets a flag the one that says what it is."""

Flags = tuple[bool, ...]


def now() -> Flags:
    return tuple(getter() for getter in GETTER_OF.values())


def restore(flags: Flags) -> None:
    for setter, wanted in changes(now(), flags):
        setter(wanted)


def changes(before: Flags, after: Flags) -> list[tuple[Callable[[bool], None], bool]]:
    """The calls that make the flags `after` of those `before`."""
    return [(setter, new) for setter, old, new in zip(GETTER_OF, before, after, strict=True) if old != new]
