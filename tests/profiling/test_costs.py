"""What a profiled program cost: every kernel and library call of ours is counted, and lines add up to the whole."""

import subprocess
import sys

import pytest
from dynascope.command.profile import profile_text
from dynascope.report.costs import beside_eager, costs, duration, line_costs
from dynascope.report.facts import (
    BesideEager,
    CompileReport,
    CostFact,
    EnvironmentFact,
    ExternFact,
    GraphFact,
    KernelFact,
    ProgramFact,
)
from dynascope.report.span import Span
from dynascope.report.store import read_report

PROGRAM = """\
import torch


@torch.compile
def step(x, w):
    y = torch.softmax(x @ w, -1)
    return (y * y).sum()


w = torch.randn(64, 64, requires_grad=True)
for _ in range(4):
    step(torch.randn(32, 64), w).backward()
"""


@pytest.mark.compiler
def test_every_kernel_and_library_call_is_counted(tmp_path):
    program, path = tmp_path / "model.py", tmp_path / "report.json"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "dynascope", "profile", "--json", str(path), str(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    report = read_report(path)
    counts = {cost.calls for cost in costs(report)}
    (graph,) = report.graphs
    assert len(counts) == 1 and counts.pop() == 4 and graph.beside_eager is not None
    assert all(kernel.cost is not None for kernel in report.kernels)
    assert all(extern.cost is not None for extern in graph.externs) and graph.externs
    assert sum(line_costs(report).values()) == pytest.approx(sum(cost.seconds for cost in costs(report)))
    assert {line for _, line in line_costs(report)} == {6, 7}
    assert "model.py:6" in result.stderr and "step: " in result.stderr and "mm (library), forward" in result.stderr


def report(*kernels, graph=None):
    environment = EnvironmentFact("3.11", "2.13", "0", "cpu", bandwidth=1e9)
    return CompileReport(ProgramFact("m.py"), environment, (), (graph or GraphFact("g0", 1, "dynascope"),), kernels)


def kernel(name, seconds, *lines, calls=2):
    spans = tuple(Span("m.py", line) for line in lines)
    return KernelFact(name, "k", "cpp", "forward", "g0", "", (), spans, (), 1000, 1000, cost=CostFact(calls, seconds))


def test_lines_and_bandwidth():
    made = report(kernel("k0", 8e-6, 1, 2), kernel("k1", 2e-6, 2))
    assert [(cost.name, cost.share, cost.bandwidth) for cost in costs(made)] == [
        ("k0 k", pytest.approx(0.8), pytest.approx(0.5)),
        ("k1 k", pytest.approx(0.2), pytest.approx(2.0)),
    ]
    assert line_costs(made) == {("m.py", 1): pytest.approx(4e-6), ("m.py", 2): pytest.approx(6e-6)}


def test_what_was_not_measured():
    assert costs(report()) == [] and line_costs(report()) == {} and beside_eager(report(), ["g0"]) is None
    measured = GraphFact("g0", 1, "dynascope", beside_eager=BesideEager(1.0, 2.0))
    assert beside_eager(report(graph=measured), ["g0", None]) == BesideEager(1.0, 2.0)
    extern = ExternFact("aten.mm.default", "forward", None, spans=(Span("m.py", 4),), cost=CostFact(1, 0.5))
    (cost,) = costs(report(graph=GraphFact("g0", 1, "dynascope", externs=(extern,))))
    assert (cost.name, cost.share, cost.bandwidth) == ("mm (library)", 1.0, None)


def test_durations():
    assert [duration(s) for s in (2.5, 0.0021, 3.4e-5)] == ["2.5 s", "2.1 ms", "34 µs"]


def test_no_line_is_wider_than_the_terminal_and_none_is_cut_in_its_name():
    names = [f"upsample_bilinear2d_of_the_decoder_{which}" for which in ("coarse", "fine")]
    spans = Span("m.py", 4), Span("m.py", 5)
    externs = [ExternFact(f"aten.{name}.vec", "forward", None, spans=spans, cost=CostFact(3, 0.5)) for name in names]
    found = profile_text(report(graph=GraphFact("g0", 1, "dynascope", externs=tuple(externs))), 70)
    assert all(len(line) <= 70 for line in found.splitlines()) and all(name in found for name in names)
    assert "forward for lines 4, 5: 3 x 167 ms" in " ".join(found.split())
    assert "\n" not in profile_text(report(), 70)
