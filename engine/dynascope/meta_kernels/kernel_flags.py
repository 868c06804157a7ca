"""The flags by which torch chooses its kernels: how attention is computed (`torch.nn.attention.sdpa_kernel`, `torch.backends.cuda`), and
what a GPU's libraries may do (`torch.backends.cudnn.flags`).

    before = now();  ...;  restore(before)
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch

_KERNELS = ("flash", "mem_efficient", "math", "cudnn", "overrideable", "fa3")
ATTENTION: dict[Callable[..., None], Callable[..., Any]] = {
    getattr(torch._C, f"_set_sdp_use_{kernel}"): getattr(torch._C, f"_get_{kernel}_sdp_enabled")
    for kernel in _KERNELS
    if hasattr(torch._C, f"_set_sdp_use_{kernel}") and hasattr(torch._C, f"_get_{kernel}_sdp_enabled")
}


def attention_order() -> tuple[int, ...]:
    """Which kernel of attention is asked first (`sdpa_kernel(..., set_priority=True)`)."""
    return tuple(torch._C._get_sdp_priority_order())


if hasattr(torch._C, "_set_sdp_priority_order"):
    ATTENTION[torch._C._set_sdp_priority_order] = attention_order
_SETTERS = filter(re.compile(r"(_cuda)?_set_(cudnn|cublas)_(?!\w*tf32)\w+").fullmatch, dir(torch._C))
"""Without the older ones that set a precision: where a program has set it by the newer ones, asking them raises."""
OF_GPU_LIBRARIES: dict[Callable[..., None], Callable[..., Any]] = {
    getattr(torch._C, name): getattr(torch._C, name.replace("_set_", "_get_"))
    for name in _SETTERS
    if hasattr(torch._C, name.replace("_set_", "_get_"))
}
"""Read where an operator of a GPU runs."""
OLDER_PRECISION = {
    getattr(torch._C, f"_set_{library}_allow_tf32"): getattr(torch._C, f"_get_{library}_allow_tf32")
    for library in ("cublas", "cudnn")
    if hasattr(torch._C, f"_set_{library}_allow_tf32")
}
"""What `torch.backends.cudnn.flags` sets beside others, mostly to what it is."""
PRECISION = ("cuda", "all")
"""Whose precision `_set_fp32_precision_setter` sets, where it is a GPU's."""
if hasattr(torch._C, "_set_fp32_precision_setter"):
    OF_GPU_LIBRARIES[torch._C._set_fp32_precision_setter] = torch._C._get_fp32_precision_getter
GETTER_OF = ATTENTION | OF_GPU_LIBRARIES
"""For each function that sets a flag the one that says what it is."""
_QUESTIONS = {
    (setter, *place): functools.partial(getter, *place)
    for setter, getter in GETTER_OF.items()
    for place in [PRECISION if "precision_setter" in setter.__name__ else ()]
}

Flags = tuple[Any, ...]


def now() -> Flags:
    return tuple(question() for question in _QUESTIONS.values())


def restore(flags: Flags) -> None:
    for setter, wanted in changes(now(), flags):
        setter(*wanted)


def changes(before: Flags, after: Flags) -> list[tuple[Callable[..., None], tuple]]:
    """The calls that make the flags `after` of `before`."""
    triples = zip(_QUESTIONS, before, after, strict=True)
    return [(setter, (*place, new)) for (setter, *place), old, new in triples if old != new]
