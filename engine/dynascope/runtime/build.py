"""From generated text to a callable.

    build(runnable, options) -> Built(call, notes)

C++ is built through `native.toolchain` (content-addressed, so a second process only loads it). What cannot be built runs
as the ATen operators it came from, and the notes say why.
"""

from __future__ import annotations

import ctypes
import linecache
import os
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch._C._dynamo.guards import _empty_strided_cpu, _reinterpret_tensor

from dynascope.codegen.cpp.flags import flags
from dynascope.codegen.runnable import Runnable, Unit
from dynascope.dataclass import dataclass
from dynascope.native.cache import unshared_folder
from dynascope.native.toolchain import build_shared_object
from dynascope.report.reason import Explanation
from dynascope.report.span import STACKS, UserStack
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


def build(runnable: Runnable, options: Any = None, stacks: Mapping[str, UserStack] = MappingProxyType({})) -> Built:
    """The running form of a kernel module. `stacks` are the places in the program of what has these names in the wrapper: an operator
    may raise there. Raises ToolchainError where its kernels cannot be built."""
    names: dict[str, Any] = dict(runnable.values)
    names[STACKS] = _stacks_of_operators(runnable.wrapper, stacks)
    names |= {
        "empty": _empty_strided_cpu, "empty_on": torch.empty_strided, "view": _reinterpret_tensor, "restrided": restrided,
        "laid_out": laid_out,
    }  # fmt: skip
    names |= runnable.constants
    folder = unshared_folder() if options is not None and not options.cache else None
    paths = _build_units(runnable, folder)
    libraries = {path: ctypes.CDLL(path) for path in paths.values()}
    names |= {kernel.name: launcher(libraries[paths[kernel.name]], kernel) for kernel in runnable.cpp}
    note = launcher_note() if runnable.units else None
    notes = () if note is None else (note.explain(),)
    if runnable.triton:
        from dynascope.runtime.cuda import cuda_names, cuda_notes

        names |= cuda_names(runnable.triton, folder)
        notes += cuda_notes(runnable.triton)
    timings = None
    if options is not None and options.profile:
        timings = Timings(any(isinstance(v, torch.device) and v.type == "cuda" for v in runnable.values.values()))
        names = timings.around(names, [*_kernel_names(runnable), *_operator_names(runnable)])
    function = _function(runnable, names)
    if not runnable.takes_list:
        return Built(function, paths, notes, timings)

    def call(*inputs: Any) -> tuple[Any, ...]:
        return function(list(inputs))

    call.with_list = function  # type: ignore[attr-defined]
    return Built(call, paths, notes, timings)


def _build_units(runnable: Runnable, folder: Path | None) -> dict[str, str]:
    """The shared object of each kernel. Units are built side by side, as many as there are processors."""

    def built(unit: Unit) -> str:
        told = flags(runnable.vector_bytes)
        return str(build_shared_object(unit.text, language="c++", flags=told, name=runnable.name, folder=folder))

    if len(runnable.units) < 2:
        paths = list(map(built, runnable.units))
    else:
        with ThreadPoolExecutor(min(len(runnable.units), os.cpu_count() or 1)) as threads:
            paths = list(threads.map(built, runnable.units))
    return {name: path for unit, path in zip(runnable.units, paths, strict=True) for name in unit.kernels}


def _kernel_names(runnable: Runnable) -> list[str]:
    return [kernel.name for kernel in runnable.cpp] + [launch.kernel.name for launch in runnable.triton]


def _operator_names(runnable: Runnable) -> list[str]:
    return [name for name in runnable.values if name.startswith("call_")]


def _stacks_of_operators(wrapper: str, stacks: Mapping[str, UserStack]) -> dict[str, UserStack]:
    """By what stands left of an operator's call: `a`, and `a_0, a_1` or `_, a_1` where it gives several results."""
    found = {}
    for line in wrapper.splitlines():
        left, call, _ = line.partition("= call_")
        known = (stacks[name] for name in left.replace(",", " ").split() if name in stacks)
        if call and (stack := next(known, None)) is not None:
            found[left.strip()] = stack
    return found


def _function(runnable: Runnable, names: dict[str, Any]) -> Callable[..., tuple[Any, ...]]:
    """The wrapper's function; its text can be read in tracebacks."""
    text = runnable.wrapper
    file = f"<dynascope wrapper {runnable.name} {zlib.crc32(text.encode()):x}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), names)
    return names[runnable.name]
