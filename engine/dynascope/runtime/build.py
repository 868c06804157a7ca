"""From generated text to a callable.

    build(module, options) -> Built(call, notes)

C++ is built through `native.toolchain` (content-addressed, so a second process only loads it). What cannot be built runs
as the ATen operators it came from, and the notes say why.
"""

from __future__ import annotations

import ctypes
import linecache
import os
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._C._dynamo.guards import _empty_strided_cpu, _reinterpret_tensor

from dynascope.codegen.cpp.unit import FLAGS, WIDEST
from dynascope.codegen.kernels import KernelModule, Unit
from dynascope.codegen.target import Target
from dynascope.native.cache import unshared_folder
from dynascope.native.toolchain import build_shared_object
from dynascope.report.reason import Explanation
from dynascope.runtime.launching import launcher, launcher_note
from dynascope.runtime.layouts import laid_out, restrided
from dynascope.runtime.timings import Timings


@dataclass(frozen=True, slots=True)
class Built:
    """`call(*flat inputs)` gives a tuple; `call.with_list`, where the wrapper is written so, takes them in a list that it empties.
    `paths` are the shared objects that C++ kernels are in, by their names; `notes` what
    went otherwise than planned."""

    call: Callable[..., tuple[Any, ...]]
    paths: dict[str, str]
    notes: tuple[Explanation, ...]
    timings: Timings | None = None
    """Where they were asked for."""


def build(module: KernelModule, options: Any = None) -> Built:
    """The running form of a kernel module. Raises ToolchainError where its kernels cannot be built."""
    names: dict[str, Any] = dict(module.values)
    names |= {
        "empty": _empty_strided_cpu, "empty_on": torch.empty_strided, "view": _reinterpret_tensor, "restrided": restrided,
        "laid_out": laid_out,
    }  # fmt: skip
    names |= module.schedule.program.constants
    folder = unshared_folder() if options is not None and not options.cache else None
    paths = _build_units(module, folder)
    libraries = {path: ctypes.CDLL(path) for path in paths.values()}
    names |= {k.name: launcher(libraries[paths[k.name]], k) for k in module.distinct if k.language == "cpp"}
    note = launcher_note() if module.units else None
    notes = () if note is None else (note.explain(),)
    if any(k.language == "triton" for k in module.distinct):
        from dynascope.runtime.cuda import cuda_names, cuda_notes

        names |= cuda_names(module, folder)
        notes += cuda_notes(module)
    timings = None
    if options is not None and options.profile:
        timings = Timings(any(isinstance(v, torch.device) and v.type == "cuda" for v in module.values.values()))
        names = timings.around(names, [*_kernel_names(module), *_operator_names(module)])
    function = _function(module, names)
    if not (module.empties_its_list and module.schedule.program.inputs):
        return Built(function, paths, notes, timings)

    def call(*inputs: Any) -> tuple[Any, ...]:
        return function(list(inputs))

    call.with_list = function  # type: ignore[attr-defined]
    return Built(call, paths, notes, timings)


def _build_units(module: KernelModule, folder: Path | None) -> dict[str, str]:
    """The shared object of each kernel. Units are built side by side, as many as there are processors."""

    def built(unit: Unit) -> str:
        name = module.schedule.program.name
        return str(build_shared_object(unit.text, language="c++", flags=flags(module.target), name=name, folder=folder))

    if len(module.units) < 2:
        paths = list(map(built, module.units))
    else:
        with ThreadPoolExecutor(min(len(module.units), os.cpu_count() or 1)) as threads:
            paths = list(threads.map(built, module.units))
    return {name: path for unit, path in zip(module.units, paths, strict=True) for name in unit.kernels}


def _kernel_names(module: KernelModule) -> list[str]:
    return [kernel.name for kernel in module.distinct]


def _operator_names(module: KernelModule) -> list[str]:
    return [name for name in module.values if name.startswith("call_")]


def flags(target: Target) -> tuple[str, ...]:
    return (*FLAGS, WIDEST) if target.vector_bytes == 64 else FLAGS


def _function(module: KernelModule, names: dict[str, Any]) -> Callable[..., tuple[Any, ...]]:
    """The wrapper's function; its text can be read in tracebacks."""
    name = module.schedule.program.name
    file = f"<dynascope wrapper {name} {zlib.crc32(module.wrapper.encode()):x}>"
    linecache.cache[file] = (len(module.wrapper), None, module.wrapper.splitlines(True), file)
    exec(compile(module.wrapper, file, "exec"), names)
    return names[name]
