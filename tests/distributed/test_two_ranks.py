"""Two processes on gloo: compiled training is eager's over six steps, and a run of several processes has one report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch.distributed as dist
from dynascope import recording
from dynascope.command.ranks import Ranks, children_folder, differences_of, with_children
from dynascope.report.facts import (
    CompileReport,
    EntryFact,
    EnvironmentFact,
    FunctionFact,
    GraphFact,
    GuardFact,
    ProgramFact,
)
from dynascope.report.reason import Explanation
from dynascope.report.span import Span
from dynascope.report.store import write_report

pytestmark = pytest.mark.turns(3)
FOLDER = Path(__file__).parent
UNSTRICT = {**os.environ, "DYNASCOPE_STRICT": "0", "OMP_NUM_THREADS": "1"}


WRAPPED = ("ddp", "fsdp-by-block", "fsdp-whole", "tensor-parallel", "sequence-parallel", "pipeline")


@pytest.mark.compiler
def test_training_is_eagers():
    done = subprocess.run([sys.executable, FOLDER / "two_ranks.py", *WRAPPED], capture_output=True, text=True, check=False, env=UNSTRICT)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert tuple(row["kind"] for row in rows) == WRAPPED
    for row in rows:
        assert row["found"] == pytest.approx(row["expected"], rel=1e-5) and row["graphs"] > 0, row["kind"]
        assert row["breaks"] == 0 or row["kind"] == "fsdp-whole", row["kind"]


KINDS = ("plain", "tied", "checkpoint", "unused", "autocast", "views", "inside", "sizes", "accumulated")


@pytest.mark.compiler
def test_gradients_are_sent_while_the_backward_pass_runs():
    done = subprocess.run([sys.executable, FOLDER / "overlap.py", *KINDS], capture_output=True, text=True, check=False, env=UNSTRICT)
    assert done.returncode == 0, done.stderr[-3000:]
    found = {kind: rest for kind, *rest in map(json.loads, filter(None, done.stdout.splitlines()))}
    assert tuple(found) == KINDS
    for kind, ((expected, in_eager), (losses, happened)) in found.items():
        assert losses == pytest.approx(expected, rel=2e-2 if kind == "autocast" else 1e-4), kind
        assert sorted(happened) == sorted(in_eager), kind
        # Where autocast is switched on and off there is no cut.
        assert happened.index("sent") < happened.index("backward of 1" if kind == "autocast" else "backward of 2"), kind


PROGRAM = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

@torch.compile
def f(x):
    return torch.relu(x) * 2

f(torch.ones(3))
if rank == 1:
    f(torch.ones(3, 2))
dist.barrier()
if os.environ.get("ENDS") and rank == 1:
    raise ValueError("rank one is tired")
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def launched(program, **surroundings):
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "dynascope", "run", str(program)]
    cache = {"DYNASCOPE_CACHE_DIR": str(program.parent / "cache")}
    own = {**UNSTRICT, **cache, **surroundings}
    return subprocess.run([sys.executable, *launcher], capture_output=True, text=True, env=own, check=False)


@pytest.mark.compiler
def test_one_report_for_all_ranks_that_a_launcher_started(program):
    done = launched(program)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr.count("Summary") == 1 and "ranks-differ" in done.stderr
    words = " ".join(done.stderr.split())
    assert "rank 0 has 1 graph, 0 breaks, 0 recompilations; rank 1 has 2 graphs, 0 breaks, 1 recompilation" in words


@pytest.mark.compiler
def test_a_rank_that_dies_ends_the_run_with_its_traceback(program):
    done = launched(program, ENDS="1")
    assert done.returncode != 0 and "ValueError: rank one is tired" in done.stderr


ALONE = """
import os
import time
import torch
import torch.distributed as dist
import dynascope
from dynascope import ranks_apart

dist.init_process_group("gloo")

@dynascope.compile(dynamic=False)
def f(x):
    return torch.relu(x) * 2

for size in (3, 4):
    f(torch.ones(size))
dist.barrier()
time.sleep(1)  # what the other rank tells is written beside its program
assert len(ranks_apart._looking) == 1
ranks_apart._look(*ranks_apart._looking[0].args)
ranks_apart._looking.pop().cancel()
os.environ["DYNASCOPE_RANKS_PATIENCE"] = "0.1"
if dist.get_rank() == 1:
    f(torch.ones(5))
ranks_apart.wait()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.compiler
def test_a_rank_that_compiles_alone_says_so_while_the_program_runs(tmp_path):
    path = tmp_path / "alone.py"
    path.write_text(ALONE)
    done = launched(path, DYNASCOPE_RANKS_PATIENCE="600")
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("dynascope: alone.py")]
    assert "Rank 1 compiled `f` again, and rank 0 has not since" in line and "5" in line


def report(rank, *operations, exit="return", name="f", **facts):
    place = Span("train.py", 3)
    entries = tuple(
        EntryFact(f"f0.e{number}", "function", place, "compiled", exit, graph=f"g{number}", **facts) for number in range(len(operations))
    )
    graphs = tuple(GraphFact(f"g{number}", count, "dynascope") for number, count in enumerate(operations))
    function = FunctionFact("f0", name, place, entries)
    environment = EnvironmentFact("3.11", "2.13", "0.1", "cpu", None, None)
    return CompileReport(ProgramFact("train.py", rank=rank), environment, (function,), graphs)


def test_what_counts_as_a_difference():
    assert not list(differences_of([report(0, 4), report(1, 4)]))
    (other,) = differences_of([report(0, 4), report(1, 4, 4)])
    assert "rank 1 has 2 graphs" in other.message
    (broken,) = differences_of([report(0, 4), report(1, 4, exit="break")])
    assert "rank 1 has 1 graph, 1 break" in broken.message
    (same,) = differences_of([report(0, 4), report(1, 5)])
    assert "compiled `f` differently" in same.message
    causes = (GuardFact("k", "`k` is an int", "TypeIs"),), (GuardFact("k", "`k` is 2", "Equals"),)
    (told,) = differences_of([report(0, 4), report(1, 5, guards=causes[0])])
    assert told.message.endswith("Only on rank 1: `k` is an int.")
    again = Explanation("recompiled", "information", "`k` is 3, and was 2", "Leave it.")
    (told,) = differences_of([report(0, 4, guards=causes[1]), report(1, 5, guards=causes[0], recompiled=again)])
    assert told.message.endswith("Only on rank 1: `k` is 3, and was 2.")
    absent = list(differences_of([report(0, 4), report(1, 4, name="g")]))
    assert "rank 1 did not compile it" in absent[0].message and "rank 0 did not compile it" in absent[1].message


def test_reports_of_spawned_processes_are_put_together(tmp_path):
    path = tmp_path / "report.json"
    children_folder(path).mkdir()
    for rank in (1, 0):
        write_report(report(rank, *[4] * (rank + 1)), children_folder(path) / f"{rank}.json")
    own = replace(report(None), functions=(), graphs=())
    together = with_children(own, path)
    assert together.program == own.program and len(together.graphs) == 1 and together.notes[0].code == "ranks-differ"


@pytest.mark.compiler
@pytest.mark.parametrize(
    "words, found",
    [
        (["show", "kernels"], "_kernel(void* const* p"),
        (["check"], "4 gradients compared with float64. None differs"),
        (["profile"], "Sequential.forward: "),
        (["compare", "--backends", "eager"], "eager       equal"),
    ],
)
def test_what_only_spawned_ranks_compiled_is_looked_at(words, found):
    example = FOLDER.parents[1] / "examples" / "distributed.py"
    done = subprocess.run([sys.executable, "-m", "dynascope", *words, example], capture_output=True, text=True, check=False, env=UNSTRICT)
    printed = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 0 and " ".join(found.split()) in printed and "cannot be written" not in printed, printed[-3000:]


def test_ranks_wait_for_each_other(tmp_path):
    first, second = Ranks(tmp_path / "ranks", 0, 2), Ranks(tmp_path / "ranks", 1, 2)
    second.hand_in(report(1, 4, 4))
    first.hand_in(report(0, 4))
    assert [note.code for note in first.together(report(0, 4)).notes] == ["ranks-differ"]


def test_ranks_that_are_started_again_and_again_are_told_apart(tmp_path):
    """Those of the first start are not compared with those of the next, though each has left its group when its report is written."""
    path = tmp_path / "report.json"
    children_folder(path).mkdir()
    for at, (rank, sizes) in enumerate([(0, [4]), (1, [4]), (1, [4, 5]), (0, [4, 5])]):
        write_report(report(rank, *sizes), children_folder(path) / f"{at:03}.json")
    together = with_children(replace(report(0), functions=()), path)
    assert not together.notes and len(together.functions[0].entries) == 1


def test_what_only_a_later_start_compiled_is_named(tmp_path):
    path = tmp_path / "report.json"
    children_folder(path).mkdir()
    first, second = report(0, 4), report(0, 4)
    (function,) = second.functions
    second = replace(second, functions=(function, replace(function, name="evaluate", span=replace(function.span, line=90))))
    for at, each in enumerate([first, second]):
        write_report(each, children_folder(path) / f"{at:03}.json")
    (note,) = with_children(replace(report(0), functions=()), path).notes
    assert note.severity == "note" and "started ranks 2 times" in note.message and "not `evaluate` of later ones" in note.message


def test_a_process_keeps_its_rank_when_it_has_left_its_group():
    recorder = recording.Recorder()
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        recorder._note_rank()
    finally:
        dist.destroy_process_group()
    recorder.finish(0)
    assert recorder.report().program.rank == 0
