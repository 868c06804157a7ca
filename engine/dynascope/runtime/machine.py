"""What this machine is, as generators are told.

    this_machine(devices)  ->  Target(vector_bytes=64, devices={cuda:0: DeviceModel(132, 2048)})
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

import torch

from dynascope.codegen.target import DeviceModel, Target


def this_machine(devices: Iterable[torch.device] = ()) -> Target:
    """With the figures of these devices, as far as they are GPUs that can be asked."""
    models = {device: model for device in set(devices) if (model := _model(device)) is not None}
    return Target(vector_bytes(), models)


@functools.cache
def _model(device: torch.device) -> DeviceModel | None:
    if device.type != "cuda" or not torch.cuda.is_available():
        return None
    facts = torch.cuda.get_device_properties(device)
    shared = getattr(facts, "shared_memory_per_block_optin", 48 * 1024)
    return DeviceModel(facts.multi_processor_count, facts.max_threads_per_multi_processor, shared)


@functools.cache
def vector_bytes() -> int:
    """The width of the processor's vectors."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((line for line in file if line.startswith("flags")), "").split()
    except OSError:
        flags = []
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= set(flags):
        return 64
    return 32 if "avx2" in flags else 16
