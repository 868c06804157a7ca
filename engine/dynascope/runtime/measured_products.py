"""Which products of matrices a kernel makes itself, with what follows them: what is faster on this machine, measured once.

    measured(schedule)  ->  the schedule in which the kernels that won multiply        mode="max-autotune"

The library's call with the kernel after it, and one kernel under several tilings, run on memory of the same layouts. What was found is
kept in the cache, by what is computed and the device's name: a later process asks nothing. What does not fit a device, or
its memory, does not win.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch._C._dynamo.guards import _reinterpret_tensor

from dynascope.codegen.identity import identity
from dynascope.codegen.library_calls import fastest
from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton.emit import emit_triton
from dynascope.codegen.triton.kernel import TritonKernel
from dynascope.loops.nodes import Buffer, ExternCall, TensorView
from dynascope.native.cache import CacheError, cache_folder, is_own_file, mark_used, publish, unshared_folder
from dynascope.native.toolchain import ToolchainError
from dynascope.runtime import kernel_workers
from dynascope.runtime.cubins import key_of, load, triton_version
from dynascope.runtime.cuda_launch import make_launcher, target_of
from dynascope.runtime.machine import this_machine
from dynascope.schedule.groups import FusionGroup, MatrixProduct, Schedule, Tiling
from dynascope.schedule.products import Candidate, candidates, with_products

FORMAT = 1
"""Part of every key: raise it when the kernels or the tilings change."""
TILINGS = (
    Tiling(128, 256, 64, 8, 3), Tiling(128, 128, 64, 8, 4), Tiling(128, 128, 64, 4, 4), Tiling(256, 128, 64, 8, 3),
    Tiling(128, 64, 64, 4, 4), Tiling(64, 128, 64, 4, 4), Tiling(64, 64, 64, 4, 5), Tiling(64, 32, 128, 4, 4),
    Tiling(32, 64, 128, 4, 4), Tiling(16, 128, 128, 4, 4), Tiling(16, 64, 128, 4, 5), Tiling(16, 32, 256, 4, 4),
)  # fmt: skip
GAIN = 0.97
"""Of the library's time: a kernel that takes longer stays out, for a measurement is not exact to more."""
ROUNDS, CALLS = 7, 5


def measured(schedule: Schedule, cache: bool = True) -> Schedule:
    """`cache` says whether what earlier processes found counts, and is kept."""
    folder = cache_folder() if cache else unshared_folder()
    won = [each for found in candidates(schedule) if (each := _winner(schedule, found, folder)) is not None]
    return with_products(schedule, won)


def _winner(schedule: Schedule, candidate: Candidate, folder: Path) -> Candidate | None:
    group = candidate.group
    assert group.product is not None
    path = folder / "triton" / "products" / f"{_key(schedule, candidate)}.json"
    tiling = _kept(path)
    if tiling is None:
        tiling = _measured(schedule, candidate, folder)
        with contextlib.suppress(CacheError):  # the next process measures again
            publish(path, json.dumps(tiling and asdict(tiling)).encode())
    return replace(candidate, group=_tiled(group, tiling)) if tiling else None


def _kept(path: Path) -> Tiling | bool | None:
    """False where the library won; None where nobody has measured."""
    if not is_own_file(path):
        return None
    try:
        found = json.loads(path.read_bytes())
        mark_used(path)
        return Tiling(**found) if found else False
    except (OSError, ValueError, TypeError):
        return None


def _key(schedule: Schedule, candidate: Candidate) -> str:
    device = torch.cuda.get_device_name(candidate.group.device)
    facts = FORMAT, device, torch.__version__, triton_version(), identity(candidate.group, schedule.buffers).key, TILINGS
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


def _measured(schedule: Schedule, candidate: Candidate, folder: Path) -> Tiling | bool:
    call, kernel = schedule.steps[candidate.call], schedule.steps[candidate.kernel]
    assert isinstance(call, ExternCall) and isinstance(kernel, FusionGroup) and candidate.group.product is not None
    device = kernel.device
    model = this_machine([device]).device(device)
    made = {
        tiling: emit_triton(_tiled(candidate.group, tiling), schedule.buffers, model)
        for tiling in TILINGS
        if _suits(tiling, candidate.group.product, model)
    }
    plain = emit_triton(kernel, schedule.buffers, model)
    _compile((plain, *made.values()), device, folder)
    try:
        with torch.no_grad():
            memory = {name: _filled(schedule.buffers[name]) for name in _touched(call, kernel)}
            best, limit = False, GAIN * _time(_by_library(call, plain, memory, device, folder))
            for tiling, text in made.items():
                taken = _time(_launching(text, memory, device, folder))
                if taken < limit:
                    best, limit = tiling, taken
            return best
    except torch.OutOfMemoryError:
        return False


def _tiled(group: FusionGroup, tiling: Tiling) -> FusionGroup:
    assert group.product is not None
    return replace(group, product=replace(group.product, tiling=tiling))


def _suits(tiling: Tiling, product: MatrixProduct, model: DeviceModel) -> bool:
    """Blocks about as large as the product or smaller, whose operands fit where a program keeps them."""
    rows, inner, columns = *product.first.sizes, product.second.sizes[1]
    stages = tiling.stages * tiling.inner * (tiling.rows + tiling.columns) * product.first.dtype.itemsize
    fits = all(block <= max(16, 2 * size - 1) for block, size in ((tiling.rows, rows), (tiling.columns, columns), (tiling.inner, inner)))
    is_wide = rows <= 64 or tiling.rows >= 64
    return fits and is_wide and stages <= model.shared_memory


def _touched(call: ExternCall, kernel: FusionGroup) -> dict[str, None]:
    views = [view.buffer for view in call.arguments if isinstance(view, TensorView)]
    return dict.fromkeys((*views, *kernel.reads, *kernel.writes))


def _filled(buffer: Buffer) -> torch.Tensor:
    """Numbers about one: zeros would let the device run cooler, and faster, than a program does."""
    tensor = torch.empty_strided(buffer.sizes, buffer.strides, dtype=buffer.dtype, device=buffer.device)
    return tensor.normal_() if buffer.dtype.is_floating_point else tensor.zero_()


def _compile(kernels: Sequence[TritonKernel], device: torch.device, folder: Path) -> None:
    """Side by side. What Triton refuses is found where it is launched."""
    target, version = target_of(device), triton_version()
    missing = {key: kernel for kernel in kernels if load(key := key_of(kernel, target, version), folder) is None}
    if missing:
        kernel_workers.compile_all(missing, target, folder)


def _by_library(
    call: ExternCall, kernel: TritonKernel, memory: dict[str, torch.Tensor], device: torch.device, folder: Path
) -> Callable[[], None]:
    (result,) = call.results
    assert result is not None
    operator = fastest(call.operator)
    operands = [_reinterpret_tensor(memory[view.buffer], view.sizes, view.strides, view.offset) for view in call.arguments]
    launch = make_launcher([kernel], _slots(kernel), device, folder)

    def run() -> None:
        memory[result.name] = operator(*operands)
        launch(*(memory[name] for name in _slots(kernel)))

    return run


def _launching(
    kernel: TritonKernel, memory: dict[str, torch.Tensor], device: torch.device, folder: Path
) -> Callable[[], None] | None:
    """None where it cannot be built or does not fit."""
    try:
        launch = make_launcher([kernel], _slots(kernel), device, folder)
    except (ToolchainError, RuntimeError):
        return None
    return functools.partial(launch, *(memory[name] for name in _slots(kernel)))


def _slots(kernel: TritonKernel) -> tuple[str, ...]:
    return tuple(parameter.source for parameter in kernel.parameters if parameter.source is not None)


def _time(run: Callable[[], Any] | None) -> float:
    """Milliseconds of a call: the median of several rounds, of several calls each."""
    if run is None:
        return float("inf")
    for _ in range(3):
        run()
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(CALLS):
            run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / CALLS)
    return sorted(times)[ROUNDS // 2]
