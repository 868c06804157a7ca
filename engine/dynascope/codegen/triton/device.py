"""What the generator knows of the device it writes for."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """The figures that the choice of blocks depends on. The defaults are an H100's or H200's."""

    multiprocessors: int = 132
    threads: int = 2048
    """Resident at once on one multiprocessor."""


@functools.cache
def device_model(device: torch.device) -> DeviceModel:
    if device.type != "cuda" or not torch.cuda.is_available():
        return DeviceModel()
    facts = torch.cuda.get_device_properties(device)
    return DeviceModel(facts.multi_processor_count, facts.max_threads_per_multi_processor)
