"""Every architecture of transformers, one of each family of timm and torchvision, those of torchaudio, and the layers of torch-geometric,
small and untrained: two steps of training through our kernels, the second one of another batch and length, against eager and float64.

    python bench/architectures.py --rows FILE [--library NAME] [--part 0/4] [--processes 2] [--seconds 120] [--budget 500] [--device cuda]
    python bench/architectures.py --write FILE ...          the section of RESULTS.md of all of them

Each in a process of its own. Results, gradients and buffers may err four times as much as eager's do. Where an activation has a kink,
rounding on one side of it moves a gradient: a model differs when it does so for each of three draws of inputs.
"""

from __future__ import annotations

import argparse
import collections
import copy
import dataclasses
import json
import os
import random
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dynascope
import numpy as np
import torch
from dynascope import recording
from dynascope.report.reason import Explanation
from results import write_section
from small_architectures import LIBRARIES, MOST_PARAMETERS, Given, NotTried
from torch import nn
from torch.utils._pytree import tree_map

CALLS = ((2, 9), (3, 17))
DRAWS = 3
ERROR, ROUNDING = 4, 2e-6


@dataclasses.dataclass
class Row:
    library: str
    name: str
    outcome: str
    graphs: int = 0
    breaks: int = 0
    without_kernels: int = 0
    details: str = ""
    why: list[str] = dataclasses.field(default_factory=list)
    """The reasons of the breaks, and the operators of the graphs without kernels."""


Tensors = dict[str, torch.Tensor]


def tensors_in(data: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(data, torch.Tensor):
        yield name, data
    elif isinstance(data, dict):
        for key, item in data.items():
            yield from tensors_in(item, f"{name}.{key}")
    elif isinstance(data, (list, tuple)):
        for at, item in enumerate(data):
            yield from tensors_in(item, f"{name}[{at}]")
    elif hasattr(data, "__dict__") and not isinstance(data, type):
        yield from tensors_in(vars(data), name)


def step(call: Any, model: nn.Module, arguments: dict[str, Any]) -> Tensors:
    """What a step gives: results, gradients of parameters, and buffers as they are then."""
    model.zero_grad()
    for seed in (torch.manual_seed, np.random.seed, random.seed):  # dropped layers are NumPy's draws
        seed(3)
    results = dict(tensors_in(call(**arguments), "result"))
    losses = [each.float().square().mean() for each in results.values() if each.requires_grad]
    if losses:
        torch.stack(losses).sum().backward()
    gradients = {f"gradient of {name}": each.grad for name, each in model.named_parameters() if each.grad is not None}
    return {name: each.detach().clone() for name, each in (results | gradients | dict(model.named_buffers())).items()}


def difference(ours: Tensors, eager: Tensors, exact: Tensors | None) -> str:
    """The first tensor that is not as eager's; empty where all are."""
    if ours.keys() != eager.keys():
        return f"only one side has {', '.join(sorted(ours.keys() ^ eager.keys())[:3])}"
    largest = max((float(each.abs().max()) for each in eager.values() if each.is_floating_point() and each.numel()), default=0.0)
    for name, theirs in eager.items():
        found = ours[name]
        if found.shape != theirs.shape or found.dtype != theirs.dtype or not torch.equal(found.isnan(), theirs.isnan()):
            return f"{name}: {found.dtype}{list(found.shape)}, eager {theirs.dtype}{list(theirs.shape)}"
        if name.startswith("result") and found.stride() != theirs.stride():
            return f"{name}: strides {found.stride()}, eager's {theirs.stride()}"
        if not found.is_floating_point() and not torch.equal(found, theirs):
            return f"{name}: other numbers"
        if not found.is_floating_point() or not found.numel():
            continue
        true, scale = (theirs if exact is None else exact[name]).double(), theirs.abs().max().double()
        usual = (theirs.double() - true).abs().max()
        error = (found.double() - true).abs().max()
        cancels = exact is not None and not true.any()  # the terms of its sums are as large as others
        allowed = ROUNDING * (largest if cancels else scale) if exact is not None else 1e-4 * scale + 1e-7 * largest
        if error > ERROR * usual + allowed + 1e-12:
            return f"{name}: error {error:.1e}, eager's {usual:.1e}, of {scale:.1e}"
    return ""


def compared(model: nn.Module, given: Given, device: str, seed: int) -> tuple[str, recording.Recorder]:
    """Raises `NotTried` where eager does not run it."""
    sides = [copy.deepcopy(model).to(device) for _ in range(2)]
    torch.manual_seed(seed)
    calls = [tree_map(lambda each: each.to(device), given(*call)) for call in CALLS]
    try:
        eager = [step(sides[0], sides[0], call) for call in calls]
    except Exception as error:
        raise NotTried(f"eager: {type(error).__name__}") from error
    try:
        double = copy.deepcopy(model).to(device).double()
        wide = [tree_map(lambda each: each.double() if each.is_floating_point() else each, call) for call in calls]
        exact: list[Tensors | None] = [step(double, double, call) for call in wide]
        if any(one is None or one.keys() != other.keys() for one, other in zip(exact, eager, strict=True)):
            exact = [None] * len(calls)
    except Exception:  # it converts something to float32
        exact = [None] * len(calls)
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(sides[1])
        ours = [step(compiled, sides[1], call) for call in calls]
    finally:
        recording.use(before)
    return next(filter(None, map(difference, ours, eager, exact)), ""), recorder


def tried(library: str, name: str, device: str) -> Row:
    torch.manual_seed(0)
    try:
        model, given = LIBRARIES[library][1](name)
    except Exception as error:
        return Row(library, name, "not tried", details=f"made small: {type(error).__name__}")
    if sum(each.numel() for each in model.parameters()) > MOST_PARAMETERS:
        return Row(library, name, "not tried", details="large")
    for module in model.train().modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.p = 0.0
    details = ""
    for seed in range(DRAWS):
        try:
            details, recorder = compared(model, given, device, seed)
        except NotTried as why:
            return Row(library, name, "not tried", details=str(why))
        except Exception as error:
            return Row(library, name, "raises", details=f"{type(error).__name__}: {error}"[:300])
        if not details:
            break
    report = recorder.report()
    breaks = [entry.reason for function in report.functions for entry in function.entries if entry.reason is not None]
    bare = [graph for graph in report.graphs if not graph.kernels and not graph.externs]
    why = [f"{reason.code}: {reason.message} at {place_of(reason)}" for reason in breaks]
    why += ["without kernels: " + ", ".join(value.operation for value in graph.values) for graph in bare]
    return Row(library, name, "differs" if details else "equal", len(report.graphs), len(breaks), len(bare), details, why)


def place_of(reason: Explanation) -> str:
    return "nowhere" if reason.span is None else f"{Path(reason.span.file).name}:{reason.span.line}"


def in_own_process(library: str, name: str, end: float) -> Row:
    left = min(arguments.seconds, end - time.monotonic())
    if left < 1:
        return Row(library, name, "not tried", details="no time was left")
    command = [sys.executable, __file__, "--here", library, name, "--device", arguments.device]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "critical"}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=left, env=alone)
    except subprocess.TimeoutExpired:
        if left < arguments.seconds:
            return Row(library, name, "not tried", details="no time was left")
        return Row(library, name, "time", details=f"{arguments.seconds:g} s were not enough")
    line = ended.stdout.rpartition("\nROW ")[2]
    return Row(**json.loads(line)) if ended.returncode == 0 else Row(library, name, "died", details=ended.stderr[-300:])


def write(files: list[Path]) -> None:
    found = [Row(**json.loads(line)) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    kinds = ("equal", "differs", "raises", "died", "time")
    rows = []
    for library in dict.fromkeys(row.library for row in found):
        of_it = [row for row in found if row.library == library]
        counts = collections.Counter(row.outcome for row in of_it)
        equal = [row for row in of_it if row.outcome == "equal"]
        broken, bare = sum(row.breaks > 0 for row in equal), sum(row.without_kernels > 0 for row in equal)
        rows.append([library, *(str(counts[kind]) for kind in kinds), str(broken), str(bare), str(counts["not tried"])])
    others = [f"- {row.library}, {row.name}: {row.outcome} {row.details}".rstrip() for row in found if row.outcome in kinds[1:]]
    note = "Two steps of training each, the second one of another batch and length. Not tried are what eager does not run so small,\n"
    note += "what is large, and what no time was left for.\n\n" + "\n".join(others)
    columns = ["library", *kinds, "with breaks", "with graphs without kernels", "not tried"]
    write_section("Architectures", "python bench/architectures.py --write FILE ...", columns, rows, note)


def main() -> None:
    if arguments.write:
        write(arguments.write)
        return
    if arguments.here:
        warnings.simplefilter("ignore")
        sys.stdout.write(f"\nROW {json.dumps(dataclasses.asdict(tried(*arguments.here, arguments.device)))}")
        return
    at, of = map(int, arguments.part.split("/"))
    names = [(library, name) for library in arguments.library or LIBRARIES for name in LIBRARIES[library][0]()][at::of]
    end = time.monotonic() + arguments.budget
    with ThreadPoolExecutor(arguments.processes) as pool, arguments.rows.open("w", encoding="utf-8") as rows:
        for row in pool.map(lambda each: in_own_process(*each, end), names):
            rows.write(json.dumps(dataclasses.asdict(row)) + "\n")
            rows.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append", choices=LIBRARIES)
    parser.add_argument("--part", default="0/1", help="every so many, from one on")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120, help="for one model")
    parser.add_argument("--budget", type=float, default=1e9, help="seconds for all of them")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--rows", type=Path, default=Path("architectures.rows"))
    parser.add_argument("--write", type=Path, nargs="+")
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    main()
