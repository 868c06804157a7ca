"""The machine that kernels are written for. Generators are told; none asks.

    Target(vector_bytes=64, devices={torch.device("cuda", 0): DeviceModel(132, 2048)})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import torch

from dynascope.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """The figures of a GPU that the choice of blocks depends on. The defaults are an H100's or H200's."""

    multiprocessors: int = 132
    threads: int = 2048
    """Resident at once on one multiprocessor."""
    shared_memory: int = 227 * 1024
    """Bytes that one program may take."""


@dataclass(frozen=True, slots=True)
class Target:
    """The defaults are a machine that nothing is known of: every processor has vectors of 16 bytes."""

    vector_bytes: int = 16
    devices: Mapping[torch.device, DeviceModel] = field(default_factory=dict)

    def device(self, device: torch.device) -> DeviceModel:
        return self.devices.get(device) or DeviceModel()
