"""Models and training code as people write them, compiled by both, against eager: graphs, breaks, and whether all is equal.

    python bench/models.py [--family NAME ...] [-k PART_OF_A_NAME] [--rows FILE] [--kernels] [--write FILE ...]

Random weights, small configurations, nothing is downloaded; what is not installed is said and left out. Each program makes three
steps on each side on a copy of the same model: outputs, losses and gradients of each are compared with eager's, and parameters
and buffers after the last. Both sides run their graphs as they are (a counting backend), so that this is about capture alone.
`--kernels` is about ours with its own kernels instead, `--device cuda` about them on a GPU. No times. A portion's rows are kept
in a file; `--write` makes the section of RESULTS.md of all of them.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import functools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deciding_programs
import dynascope
import library_programs
import model_programs
import picture_programs
import sense_programs
import text_programs
import torch
import training_programs
from dynascope import recording
from model_programs import Program
from results import write_section
from torch import nn
from torch.utils._pytree import tree_map_only

_PROGRAMS = (
    model_programs, library_programs, text_programs, sense_programs, picture_programs, training_programs, deciding_programs
)  # fmt: skip
FAMILIES = {family.__name__.removeprefix("of_"): family for programs in _PROGRAMS for family in programs.FAMILIES}
COLUMNS = ["program", "our graphs", "breaks", "answer", "torch.compile's graphs", "breaks", "answer"]
KERNEL_COLUMNS = ["program", "graphs", "graphs without kernels", "breaks", "answer"]


@dataclasses.dataclass
class Outcome:
    graphs: int = 0
    breaks: int = 0
    answer: str = "equal"
    without_kernels: int = 0

    def words(self) -> list[str]:
        return [str(self.graphs), str(self.breaks), self.answer]


def tensors(output: Any) -> list[torch.Tensor]:
    if isinstance(output, torch.Tensor):
        return [output]
    if hasattr(output, "items"):
        return [found for value in output.values() for found in tensors(value)]
    if isinstance(output, (list, tuple)):
        return [found for value in output for found in tensors(value)]
    if dataclasses.is_dataclass(output):
        return [found for value in vars(output).values() for found in tensors(value)]
    layers = getattr(output, "layers", None)  # a cache of transformers
    return [found for layer in layers for found in tensors([layer.keys, layer.values])] if layers else []


def played(program: Program, compile: Callable[..., Any]) -> list[torch.Tensor]:
    """Outputs, losses and gradients of three steps, parameters and buffers after them."""
    torch.manual_seed(0)
    model = program.make().train(program.trains)
    model = copy.deepcopy(model).to(arguments.device)
    inputs = tree_map_only(torch.Tensor, lambda tensor: tensor.to(arguments.device), program.inputs)
    call = program.prepare(model, compile)
    optimizer = torch.optim.SGD([*model.parameters(), nn.Parameter(torch.zeros((), device=arguments.device))], 0.01)
    found: list[torch.Tensor] = []
    for at in range(3):
        torch.manual_seed(at)
        given = tensors(call(**copy.deepcopy(inputs)))
        found += [tensor.detach().clone() for tensor in given]
        losses = [tensor.float().square().mean() for tensor in given if tensor.requires_grad]
        if losses:
            loss = torch.stack(losses).sum()
            loss.backward()
            found += [loss.detach(), *(each.grad.clone() for each in model.parameters() if each.grad is not None)]
            optimizer.step()
            optimizer.zero_grad()
    found += [each.grad.clone() for each in model.parameters() if each.grad is not None]
    return found + [each.detach().clone() for each in (*model.parameters(), *model.buffers())]


def ours(program: Program, expected: list[torch.Tensor], backend: str) -> Outcome:
    recorder = recording.Recorder()
    before = recording.use(recorder)
    dynascope.reset()
    try:
        answer = compared(expected, lambda: played(program, functools.partial(dynascope.compile, backend=backend)))
    finally:
        recording.use(before)
    report = recorder.report()
    reasons = [entry.reason for function in report.functions for entry in function.entries if entry.reason is not None]
    bare = [graph for graph in report.graphs if not graph.kernels and not graph.externs]
    if arguments.verbose:
        for reason in dict.fromkeys((*report.notes, *reasons, *(note for graph in bare for note in graph.notes))):
            print(f"      [{reason.code}] {reason.span or ''} {reason.message}"[:300])
    return Outcome(len(report.graphs), len(reasons), answer, len(bare))


def theirs(program: Program, expected: list[torch.Tensor]) -> Outcome:
    import torch._dynamo as dynamo

    dynamo.reset()
    dynamo.utils.counters.clear()
    outcome = Outcome()

    def counting(module: Any, inputs: Any) -> Any:
        outcome.graphs += 1
        return module.forward

    outcome.answer = compared(expected, lambda: played(program, functools.partial(torch.compile, backend=counting)))
    outcome.breaks = sum(dynamo.utils.counters["graph_break"].values())
    return outcome


def compared(expected: list[torch.Tensor], play: Callable[[], list[torch.Tensor]]) -> str:
    try:
        found = play()
    except Exception as error:
        if arguments.verbose:
            print(f"      {type(error).__name__}: {error}"[:500])
        return f"{type(error).__name__}"
    if arguments.verbose and len(found) != len(expected):
        print(f"      {len(found)} tensors; eager {len(expected)}")
    far = [at for at, pair in enumerate(zip(found, expected, strict=False)) if not is_close(*pair)]
    for at in far[:3] if arguments.verbose else ():
        one, other = found[at], expected[at]
        print(f"      tensor {at}: {one.dtype} {list(one.shape)}; eager {other.dtype} {list(other.shape)}", end="")
        apart = (one.double() - other.double()).abs().max() if one.shape == other.shape else None
        print(f", apart by {apart:.3g} of {other.double().abs().max():.3g}" if apart is not None else "")
    return "DIFFERS" if far or len(found) != len(expected) else "equal"


def is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    near = 1e-2 if torch.bfloat16 in (one.dtype, other.dtype) else 1e-4
    same = one.dtype == other.dtype and one.shape == other.shape
    return same and torch.allclose(one, other, atol=near, rtol=near, equal_nan=True)


def programs() -> Iterator[Program]:
    for name in arguments.family or FAMILIES:
        try:
            yield from (program for program in FAMILIES[name]() if arguments.k in program.name)
        except ImportError as error:
            print(f"{name}: not installed here ({error})")


def run() -> list[list[str]]:
    played_by_eager: list[tuple[Program, list[torch.Tensor], Outcome]] = []
    rows: list[list[str]] = []
    for program in programs():
        try:
            expected = played(program, lambda function: function)
        except Exception as error:
            print(f"{program.name}: not run by plain torch ({type(error).__name__}: {error})"[:160])
            continue
        mine = ours(program, expected, "dynascope" if arguments.kernels else program.backend)
        print(f"{program.name}: ours", *mine.words(), mine.without_kernels, flush=True)
        played_by_eager.append((program, expected, mine))
        if arguments.kernels:
            rows.append([program.name, str(mine.graphs), str(mine.without_kernels), str(mine.breaks), mine.answer])
    if arguments.kernels:
        return rows
    for program, expected, mine in played_by_eager:  # torch's compiler patches torch.nn once it is imported
        other = theirs(program, expected) if not arguments.alone else Outcome()
        rows.append([program.name, *mine.words(), *other.words()])
        print("  ".join(rows[-1]), flush=True)
    return rows


def summary(rows: list[list[str]]) -> str:
    whole = sum(int(row[1]) <= int(row[4]) and int(row[2]) <= int(row[5]) for row in rows)
    equal = sum(row[3] == "equal" for row in rows)
    broken = [row for row in rows if int(row[5])]
    less = sum(int(row[2]) < int(row[5]) for row in broken)
    return (
        f"Of {len(rows)} programs {whole} have no more graphs and no more breaks than torch.compile; {equal} equal eager.\n"
        f"Of {len(broken)} where torch.compile breaks ours breaks less on {less}."
    )


def write(files: list[str]) -> None:
    rows = [row for file in files for row in json.loads(Path(file).read_text())]
    if arguments.kernels:
        bare = sum(int(row[2]) for row in rows)
        equal = sum(row[4] == "equal" for row in rows)
        note = f"{bare} graphs without kernels; {equal} of {len(rows)} programs equal eager."
        write_section("Models with kernels", "python bench/models.py --kernels", KERNEL_COLUMNS, rows, note)
    else:
        write_section("Models", "python bench/models.py", COLUMNS, rows, summary(rows))


def main() -> None:
    if arguments.write:
        return write(arguments.write)
    rows = run()
    if not arguments.kernels:
        print(summary(rows))
    if arguments.rows:
        Path(arguments.rows).write_text(json.dumps(rows))
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Graphs and breaks of models, ours beside torch.compile's.")
    parser.add_argument("--family", nargs="*", choices=FAMILIES, help="only these groups of programs")
    parser.add_argument("-k", default="", help="only programs with this in their name")
    parser.add_argument("--kernels", action="store_true", help="ours alone, with its own kernels")
    parser.add_argument("--rows", help="where the rows of this portion are kept")
    parser.add_argument("--write", nargs="*", metavar="ROWS", help="write the section of RESULTS.md of these portions")
    parser.add_argument("--device", default="cpu", help="where models and inputs are")
    parser.add_argument("--alone", action="store_true", help="leave torch.compile out")
    parser.add_argument("-v", "--verbose", action="store_true", help="say why graphs ended")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.backends.cudnn.allow_tf32 = False  # of what a library rounds to ten bits nothing close could be asked
    sys.exit(main())
