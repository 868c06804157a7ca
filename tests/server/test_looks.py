"""Runs that find out more: each line beside float64, and what each line costs."""

import pytest
import reports
from dynascope.report.facts import BesideEager, CheckFact, CostFact
from dynascope.report.span import Span
from dynascope_server.ide.documents import build
from dynascope_server.ide.file_facts import FileView, by_file
from dynascope_server.ide.findings_of_looks import found_out
from dynascope_server.ide.hovers import hover
from dynascope_server.ide.lenses import lenses
from dynascope_server.ide.line_map import LineMap
from editor_client import ROOT

pytestmark = pytest.mark.asyncio(loop_scope="session")
LINE = reports.SOFTMAX_LINE


def view_of(report):
    path = report.program.file
    return FileView(path, report, by_file(report)[path], LineMap(), path)


def measured(report):
    kernels = tuple(_with(kernel, cost=CostFact(10, 2e-5)) for kernel in report.kernels)
    graphs = tuple(_with(graph, beside_eager=BesideEager(0.0006, 0.0021)) for graph in report.graphs)
    environment = _with(report.environment, bandwidth=4.096e9)
    return _with(report, kernels=kernels, graphs=graphs, environment=environment)


def _with(value, **changes):
    return type(value)(**{name: getattr(value, name) for name in value.__dataclass_fields__} | changes)


async def test_costs_are_shown(report):
    view = view_of(measured(report))
    titles = [lens.act.title for lens in lenses(view.path, reports.PROGRAM, view, "idle")]
    assert any("ms → 600 µs · 50% of bandwidth" in title for title in titles), titles
    assert "10 × 2 µs, 50% of bandwidth" in hover(view, LINE, lambda address: "link")
    assert "## What costs most" in build(view.report, "summary.md").text


async def test_a_check_is_shown(report):
    span = Span(report.program.file, LINE)
    facts = (
        CheckFact("forward", "y", "value", 1e-7, 2e-3, True, span),
        CheckFact("forward", "x", "gradient", 1e-7, 1e-7, False, span),
    )
    view = view_of(_with(report, checks=facts))
    text = hover(view, LINE, lambda address: "link")
    assert "`y`: eager 1e-07, compiled 0.002 from float64, **differs**" in text and "gradient of `x`" in text
    assert found_out(view.report) == "1 value and 1 gradient compared, 1 of them differing"
    assert "## Beside float64" in build(view.report, "summary.md").text
    assert found_out(report) == ""


PROGRAM = """\
import torch


def backend(graph, inputs):
    for node in graph.graph.nodes:
        if node.target is torch.tanh:
            node.target = lambda x: torch.tanh(x) * 1.001
    graph.recompile()
    return graph.forward


@torch.compile(backend=backend)
def step(x):
    y = x * 2
    return torch.tanh(y)


step(torch.randn(16))
"""


@pytest.mark.compiler
async def test_a_wrong_line_is_marked(editor):
    cache = {"DYNASCOPE_CACHE_DIR": str(editor.folder / "cache"), "DYNASCOPE_STRICT": "0"}
    await editor.start(enginePath=str(ROOT / "engine"), environment=cache)
    path = editor.folder / "model.py"
    path.write_text(PROGRAM, encoding="utf-8")
    editor.open(path)
    end = await editor.run(path, {"look": "check"})
    assert "2 values and 0 gradients compared, 1 of them differing" in end["message"], (end, editor.printed("stderr"))
    assert [(d.code, d.range.start.line + 1) for d in editor.diagnostics(path)] == [("differs-more-than-eager", 15)]
    assert await editor.command("dynascope.compileAndRun", path.as_uri(), {"look": "else"}) is None
