"""Ranks that no launcher of torch's started: by `subprocess` from the program, or one by one by a script. There is one report."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest
from dynascope.command import ranks as ranks_module
from dynascope.command.ranks import Ranks
from dynascope.command.reasons import ProgramError
from dynascope.command.spawned import Run, run_of
from dynascope.report.facts import CompileReport, EntryFact, EnvironmentFact, FunctionFact, ProgramFact
from dynascope.report.span import Span

pytestmark = pytest.mark.turns(3)

UNSTRICT = {**os.environ, "DYNASCOPE_STRICT": "0", "OMP_NUM_THREADS": "1"}

RANK = """
import os
import sys
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
shown = sorted(name for name in os.environ if name.startswith("DYNASCOPE_PROGRAM"))
print("rank", rank, sys.argv[1:], __name__, os.path.basename(__file__), os.environ.get("PYTHONPATH"), shown, flush=True)
dist.barrier()
dist.destroy_process_group()
"""

LAUNCHER = """
import os
import subprocess
import sys

how = {"cwd": sys.argv[2]}
if sys.argv[3] == "spawned":
    os.chdir(sys.argv[2])
    how = {"close_fds": False}
surroundings = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1], "LATER": "1"}
started = [
    subprocess.Popen([sys.executable, "-u", "rank.py", "--number", str(rank)], env={**surroundings, "RANK": str(rank)}, **how)
    for rank in range(2)
]
subprocess.run([sys.executable, "-c", "import sys; print('other', 'dynascope' in sys.modules)"], check=True)
sys.exit(max(process.wait() for process in started))
"""


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "launch.py").write_text(LAUNCHER)
    return tmp_path


def has_one_report(printed: str) -> bool:
    words = " ".join(printed.split())
    difference = "rank 0 has 1 graph, 0 breaks, 0 recompilations; rank 1 has 2 graphs, 0 breaks, 1 recompilation"
    return printed.count("Summary") == 1 and difference in words


@pytest.mark.compiler
@pytest.mark.parametrize("how", ["forked", "spawned"])
def test_ranks_that_the_program_starts_by_subprocess(folder, how):
    """Where it can, `subprocess` calls `posix_spawn`: from Python 3.13 on nearly always."""
    words = [sys.executable, "-m", "dynascope", "run", folder / "launch.py", free_port(), folder, how]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=UNSTRICT)
    assert done.returncode == 0 and has_one_report(done.stderr), done.stderr[-3000:]
    path = UNSTRICT.get("PYTHONPATH")
    ranks = [f"rank {rank} ['--number', '{rank}'] __main__ rank.py {path} []" for rank in range(2)]
    assert sorted(done.stdout.splitlines()) == ["other False", *ranks]


@pytest.mark.compiler
def test_ranks_that_are_started_one_by_one(folder):
    surroundings = {**UNSTRICT, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}
    words = [sys.executable, "-m", "dynascope", "run", folder / "rank.py"]
    started = [
        subprocess.Popen(words, env={**surroundings, "RANK": str(rank)}, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for rank in (1, 0)
    ]
    printed = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0] and has_one_report("".join(printed)), printed
    assert "Summary" in printed[1]


@pytest.fixture
def started(monkeypatch, tmp_path):
    def start(rank):
        monkeypatch.setattr(ranks_module, "cache_folder", lambda: tmp_path)
        for name, value in {"RANK": rank, "WORLD_SIZE": 3, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}.items():
            monkeypatch.setenv(name, str(value))
        for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"):
            monkeypatch.delenv(name, raising=False)
        return Ranks.here()

    return start


def test_only_ranks_that_have_begun_here_are_waited_for(started):
    second = started(1)
    assert second.prints_for_all()
    first = started(0)
    assert first.prints_for_all() and not second.prints_for_all()
    assert first._runs(1) and not first._runs(2)


def test_what_a_killed_run_left_is_no_rank(started):
    left = started(1)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    (left.folder / "1.begun").write_text(str(gone.pid))
    first = started(0)
    assert not first._runs(1) and first._is_over(1)
    left.hand_in(None)
    assert first._runs(1)
    left.begin()
    assert not (left.folder / "1.done").exists()


@pytest.mark.parametrize(
    "words, found",
    [
        (["train.py", "--rank", "0"], Run("train.py", ("--rank", "0"), False)),
        (["-uB", "-W", "ignore", "-Xdev", "train.py"], Run("train.py", (), False)),
        (["-m", "package.train", "x"], Run("package.train", ("x",), True)),
        (["-m", "dynascope", "run", "train.py"], None),
        (["-I", "train.py"], None),
        (["-c", "print()"], None),
        (["-"], None),
        ([], None),
    ],
)
def test_what_an_interpreter_runs(words, found):
    assert run_of(words) == found


def test_what_another_rank_raised_is_said_and_differences_stand_on_the_users_line(tmp_path):
    library = Span(f"{sys.prefix}/lib/python3.11/site-packages/torch/nn/modules/container.py", 248)
    entries = tuple(EntryFact(f"f0.e{number}", "function", library, "compiled", "return", f"g{number}") for number in range(2))
    reports = [
        CompileReport(
            ProgramFact("train.py", rank=rank, error=ProgramError("RuntimeError", "enough").explain(Span("train.py", 7)) if rank else None),
            EnvironmentFact("3.11", "2.13", "0", "cpu"),
            (FunctionFact("f0", "Sequential.forward", library, entries[: rank + 1], compiled_at=Span("train.py", 13)),),
        )
        for rank in range(2)
    ]
    for rank, report in enumerate(reports):
        Ranks(tmp_path / "ranks", rank, 2).hand_in(report)
    error, difference = Ranks(tmp_path / "ranks", 0, 2).together(reports[0]).notes
    assert error.message == "Rank 1 ended: RuntimeError: enough" and error.span.line == 7
    assert difference.code == "ranks-differ" and difference.span == Span("train.py", 13)


def test_the_error_of_the_rank_that_ended_first_comes_first(tmp_path):
    """The others' collectives fail because of it: such an error has less weight, and one of the program's own as much."""
    told = told_of(tmp_path, (2.5, "RuntimeError"), (2.0, "ValueError"), (2.7, "KeyError"))
    assert told.program.error.message == "Rank 1 ended: ValueError: x"
    assert [(note.severity, note.message) for note in told.notes] == [
        ("note", "Rank 0 ended after it: RuntimeError: x"),
        ("error", "Rank 2 ended: KeyError: x"),
    ]
    assert "It came after rank 1 had ended" in told.notes[0].remedy


def test_what_several_ranks_raise_is_said_once(tmp_path):
    told = told_of(tmp_path, (2.5, "ValueError"), (2.0, "ValueError"), (2.7, "ValueError"))
    assert told.program.error.message == "Ranks 0, 1 and 2 ended: ValueError: x" and not told.notes


def test_what_a_spawned_process_raised_is_named():
    """torch's own error begins with a line that says that it follows."""
    text = "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File ...\nKeyError: 'lost'\n"
    error = ProgramError("ProcessRaisedException", text)
    assert error.message() == "ProcessRaisedException: -- Process 1 terminated with the following error: KeyError: 'lost'"
    assert ProgramError("ValueError", "one\ntwo").message() == "ValueError: one ..." and ProgramError("E", "why:").message() == "E: why:"


def told_of(tmp_path, *ends):
    """Of ranks that ended after so many seconds with an error of such a kind."""
    reports = [
        CompileReport(
            ProgramFact("train.py", rank=rank, seconds=seconds, error=ProgramError(kind, "x").explain(Span("train.py", 7))),
            EnvironmentFact("3.11", "2.13", "0", "cpu"),
        )
        for rank, (seconds, kind) in enumerate(ends)
    ]
    for rank, report in enumerate(reports):
        Ranks(tmp_path / "ranks", rank, len(ends)).hand_in(report)
    return Ranks(tmp_path / "ranks", 0, len(ends)).together(reports[0])
