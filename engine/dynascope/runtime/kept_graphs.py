"""What an earlier process made of a graph: with it a later one neither lowers nor fuses nor writes kernels, and imports none of that.

key = key_of(graph, options, mutations, takes_list)      None where the graph cannot be recognised
runnable = load(key) or ...                              None where nothing was kept, or what was is of no use
keep(key, runnable)                                      nothing where it cannot be said as text

A key says all that the stages read: the graph, the options and the machine that they are given, and the versions of torch, Triton,
Python and this package. A file is text, as the C++ and the machine code beside it are: whoever may write there is trusted
(`native/cache.py`). It is never needed: any can go at any time.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import fx

from dynascope.codegen.library_calls import fastest
from dynascope.codegen.runnable import CppLaunch, Launches, Runnable, TritonLaunch, Unit
from dynascope.native.cache import CacheError, cache_folder, is_own_file, mark_used, publish
from dynascope.runtime.graph_text import text_of
from dynascope.runtime.machine import this_machine
from dynascope.runtime.operator_texts import KINDS, NoText, operator_of, text_of_operator

FORMAT = 3
"""Raise it when the files' form changes."""
NAMED: dict[str, type] = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}
CONVOLVES = "convolution"
LITERALS = (type(None), bool, int, float, str)


def key_of(
    graph: fx.GraphModule,
    options: Any,
    mutations: Iterable[tuple[int, int]],
    takes_list: bool,
    beside: tuple[fx.GraphModule, tuple[tuple[int, int], ...]] | None = None,
    told: Callable[[fx.GraphModule], str | None] = text_of,
) -> str | None:
    """`beside` is the graph of the other pass, and what both share, where that has a say in how it lies. `told` says a graph as text."""
    text = told(graph)
    if beside is not None and text is not None and CONVOLVES in text:
        other = told(beside[0])
        text = None if other is None else f"{text}\n{other}\n{beside[1]} {torch.backends.cudnn.enabled}"
    if text is None:
        return None
    devices = {torch.device(device) for node in graph.graph.nodes if (device := node.meta.get("device")) is not None}
    target = this_machine(devices)
    models = sorted((str(device), repr(model)) for device, model in target.devices.items())
    facts = (FORMAT, versions(), target.vector_bytes, models, options.numerics, tuple(mutations), takes_list)
    return hashlib.sha256(f"{facts}\n{text}".encode()).hexdigest()[:32]


@functools.cache
def versions() -> tuple[str, ...]:
    """Of all whose text or behaviour decides what is made. Of this package the files, as they are now."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    digest = hashlib.sha256()
    for path, facts in sorted(_sources(Path(__file__).parents[1])):
        digest.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return str(torch.__version__), triton, sys.version, digest.hexdigest()


def _sources(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            yield from _sources(Path(entry.path))
        elif entry.name.endswith((".py", ".c", ".h")):
            yield entry.path, entry.stat()


def path_of(key: str) -> Path:
    return cache_folder() / "graphs" / f"{key}.json"


def load(key: str) -> Runnable | None:
    path = path_of(key)
    if not is_own_file(path):
        return None
    try:
        digest, _, text = path.read_bytes().partition(b"\n")
        if hashlib.sha256(text).hexdigest().encode() != digest:
            return None
        runnable = _read(json.loads(text))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ImportError):
        return None  # of another form, or it names what is not here: it is made anew
    mark_used(path)
    return runnable


def keep(key: str, runnable: Runnable) -> None:
    try:
        text = json.dumps(_written(runnable)).encode()
        publish(path_of(key), hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
    except (NoText, CacheError):
        return  # only the next process pays again


# ---- the text ----


def _written(runnable: Runnable) -> dict[str, Any]:
    if runnable.constants:
        raise NoText
    return {
        "name": runnable.name,
        "wrapper": runnable.wrapper,
        "values": {name: _value(runnable, name) for name in runnable.values},
        "units": [asdict(unit) for unit in runnable.units],
        "vector_bytes": runnable.vector_bytes,
        "takes_list": runnable.takes_list,
        "cpp": [asdict(launch) for launch in runnable.cpp],
        "triton": [_triton(launch) for launch in runnable.triton],
        "launches": asdict(runnable.launches) | {"device": None if runnable.launches.device is None else str(runnable.launches.device)},
    }


def _read(facts: dict[str, Any]) -> Runnable:
    values, operators = {}, {}
    for name, (kind, text) in facts["values"].items():
        values[name] = _meant(kind, text)
        if kind in KINDS:
            operators[name], values[name] = values[name], fastest(values[name])
    return Runnable(
        facts["name"],
        facts["wrapper"],
        values,
        operators,
        {},
        tuple(Unit(unit["text"], tuple(unit["kernels"])) for unit in facts["units"]),
        facts["vector_bytes"],
        facts["takes_list"],
        tuple(CppLaunch(**launch) for launch in facts["cpp"]),
        tuple(map(_triton_launch, facts["triton"])),
        _launches(facts["launches"]),
    )


def _launches(facts: dict[str, Any]) -> Launches:
    device = None if facts["device"] is None else torch.device(facts["device"])
    written, unused = tuple(facts["written"]), tuple(facts["unused"])
    return Launches(facts["obstacle"], facts["is_on_gpu"], device, written, unused)


def _value(runnable: Runnable, name: str) -> tuple[str, Any]:
    """What a name stands for, as its kind and a text. Raises `NoText` where that would mean something else when it is read."""
    value = runnable.operators.get(name, runnable.values[name])
    if name in runnable.operators:
        found = text_of_operator(value)
    elif isinstance(value, torch.device):
        found = "device", str(value)
    elif isinstance(value, LITERALS):
        return "literal", value  # JSON of Python's writes infinities and NaN
    else:
        kind = next((kind for kind, cls in NAMED.items() if isinstance(value, cls)), None)
        if kind is None:
            raise NoText
        found = kind, str(value).removeprefix("torch.")
    try:
        if _meant(*found) != value:
            raise NoText
    except (LookupError, AttributeError, ImportError) as error:
        raise NoText from error
    return found


def _meant(kind: str, text: Any) -> Any:
    if kind == "literal":
        return text
    if kind == "device":
        return torch.device(text)
    if kind in KINDS:
        return operator_of(kind, text)
    value = getattr(torch, text)
    if not isinstance(value, NAMED[kind]):
        raise AttributeError(text)
    return value


def _triton(launch: TritonLaunch) -> dict[str, Any]:
    kernel = launch.kernel
    if kernel.numbers or not all(isinstance(count, int) for count in kernel.grid):
        raise NoText
    return {
        "name": kernel.name,
        "text": kernel.text,
        "parameters": [[p.name, p.kind, p.source] for p in kernel.parameters],
        "grid": list(kernel.grid),
        "warps": kernel.warps,
        "stages": kernel.stages,
        "divisors": [list(each) for each in kernel.divisors],
        "asserts": kernel.asserts,
        "workspace_bytes": kernel.workspace_bytes,
        "slots": list(launch.slots),
        "device": str(launch.device),
    }


def _triton_launch(facts: dict[str, Any]) -> TritonLaunch:
    from dynascope.codegen.triton.kernel import Parameter, TritonKernel  # what programs on processors never load

    kernel = TritonKernel(
        name=facts["name"],
        text=facts["text"],
        parameters=tuple(Parameter(*each) for each in facts["parameters"]),
        grid=tuple(facts["grid"]),
        warps=facts["warps"],
        stages=facts["stages"],
        divisors=tuple((name, divisor) for name, divisor in facts["divisors"]),
        asserts=facts["asserts"],
        workspace_bytes=facts["workspace_bytes"],
    )
    return TritonLaunch(kernel, tuple(facts["slots"]), torch.device(facts["device"]))
