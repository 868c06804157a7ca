"""Torch's own state that a program changes while it is captured: grad mode, autocast, the flags by which it chooses kernels.

before = TorchState.now();  ...;  TorchState.now().since(before)     calls that make the same change again
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.meta_kernels import kernel_flags
from dynascope.meta_kernels.autocast import AutocastState

Call = tuple[Callable[..., Any], tuple]


@dataclass(frozen=True, slots=True)
class TorchState:
    grad_mode: bool
    autocast: AutocastState
    flags: kernel_flags.Flags

    @classmethod
    def now(cls) -> TorchState:
        return cls(torch.is_grad_enabled(), AutocastState.now(), kernel_flags.now())

    def restore(self) -> None:
        torch._C._set_grad_enabled(self.grad_mode)
        self.autocast.restore()
        kernel_flags.restore(self.flags)

    def since(self, before: TorchState) -> tuple[Call, ...]:
        """What turns `before` into this state."""
        return (*self.settings_since(before), *self.nesting_since(before))

    def settings_since(self, before: TorchState) -> tuple[Call, ...]:
        """The part of `since` that may be done twice."""
        calls: list[Call] = []
        if self.grad_mode != before.grad_mode:
            calls.append((torch._C._set_grad_enabled, (self.grad_mode,)))
        for mine, theirs in zip(self.autocast.devices, before.autocast.devices, strict=True):
            device, is_enabled, dtype = mine
            if is_enabled != theirs[1]:
                calls.append((torch.set_autocast_enabled, (device, is_enabled)))
            if dtype is not theirs[2]:
                calls.append((torch.set_autocast_dtype, (device, dtype)))
        if self.autocast.keeps_copies != before.autocast.keeps_copies:
            calls.append((torch.set_autocast_cache_enabled, (self.autocast.keeps_copies,)))
        calls += kernel_flags.changes(before.flags, self.flags)
        return tuple(calls)

    def nesting_since(self, before: TorchState) -> tuple[Call, ...]:
        """The part of `since` that counts, and must not be done twice."""
        change = self.autocast.nesting - before.autocast.nesting
        step = torch.autocast_increment_nesting if change > 0 else torch.autocast_decrement_nesting
        return ((step, ()),) * abs(change)
