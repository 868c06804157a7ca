"""The tree beside the editor: what became of a program, each thing with the place or the document that it leads to."""

from dataclasses import replace

import pytest
import reports
from dynascope.report import facts
from dynascope_server.ide.documents import build
from dynascope_server.ide.file_facts import FileView, by_file
from dynascope_server.ide.graph_choices import graph_choices
from dynascope_server.ide.line_map import LineMap
from dynascope_server.ide.tree import tree

pytestmark = pytest.mark.asyncio(loop_scope="session")


def view_of(report):
    path = report.program.file
    return FileView(path, report, by_file(report)[path], LineMap(), path)


def every(nodes):
    for node in nodes:
        yield node
        yield from every(node.children)


async def test_functions_breaks_graphs_kernels_and_guards(report):
    function = next(node for node in tree(view_of(report)) if node.label == "forward")
    nodes = list(every(function.children))
    assert function.label == "forward" and "1 break" in function.description and "1 kernel" in function.description
    assert function.place.line == 8
    assert [node.place.line for node in nodes if node.icon == "debug-disconnect"] == [reports.BRANCH_LINE]
    kernel = next(node for node in nodes if node.icon == "symbol-method")
    assert kernel.label == "k0 softmax" and dict(kernel.act.detail) == {"kernel": "k0"}
    stages = [node.act.detail["stage"] for node in nodes if node.icon == "list-tree"]
    assert set(stages) == {text.stage for graph in report.graphs for text in graph.texts}
    assert any(node.icon == "shield" and node.children for node in nodes)


async def test_after_a_profile_the_dearest_comes_first(report):
    """By the time of the run, in kernels and library calls, also where a graph could not be run beside eager."""
    forward, graph, kernel = report.functions[0], report.graphs[0], report.kernels[0]
    cheap, dear = facts.CostFact(10, 1e-3), facts.CostFact(2, 9e-3)
    entry = replace(forward.entries[0], graph="g7")
    extern = facts.ExternFact("aten.mm", "forward", None, cost=facts.CostFact(1, 10e-3))
    report = replace(
        report,
        functions=(forward, replace(forward, identifier="f7", name="later", entries=(entry,))),
        graphs=(graph, replace(graph, identifier="g7", kernels=("k7", "k8"), externs=(extern,))),
        kernels=(
            replace(kernel, cost=dear),
            replace(kernel, identifier="k7", graph="g7", cost=cheap),
            replace(kernel, identifier="k8", graph="g7", cost=dear),
        ),
    )
    first, second = tree(view_of(report))
    assert [first.label, second.label] == ["later", "forward"]
    assert "20 ms (69%)" in first.description and "9 ms (31%)" in second.description
    assert [node.label for node in every(first.children) if node.icon == "symbol-method"] == ["k8 softmax", "k7 softmax"]


async def test_a_graph_made_in_parts_has_each_stage_once(report):
    """With the texts of all parts below each other, and their lines linked."""
    graph = report.graphs[0]
    head = "from __future__ import annotations\n\nimport torch\n"
    span = graph.texts[0].links[0].span
    parts = tuple(
        facts.StageText("joint", "python", f"{head}\n\ndef joint(x):\n    return x * {n}\n", (facts.LineLink(7, span),)) for n in (2, 3)
    )
    report = replace(report, graphs=(replace(graph, texts=(*graph.texts, *parts)), *report.graphs[1:]))
    view = view_of(report)
    for node in every(tree(view)):
        stages = [child.label for child in node.children if child.icon == "list-tree"]
        assert len(stages) == len(set(stages))
    assert [choice["stage"] for choice in graph_choices(view)].count("joint") == 1
    document = build(report, f"{graph.identifier}/joint.py")
    lines = document.text.splitlines()
    assert [lines[link.line - 1].strip() for link in document.links] == ["return x * 2", "return x * 3"]
    exec(compile(document.text, "joint.py", "exec"), {})


async def test_the_client_is_told_and_asks(editor):
    await editor.start(client={"virtualDocuments": True, "runState": True, "tree": True})
    path = editor.program()
    editor.open(path)
    assert (await editor.request("dynascope/tree", {"uri": path.as_uri()}))["nodes"] == []
    await editor.run(path)
    answer = await editor.request("dynascope/tree", {"uri": path.as_uri()})
    assert answer["program"] == path.as_uri()
    found = next(node for node in every_json(answer["nodes"]) if node["icon"] == "debug-disconnect")
    assert found["place"] == {"uri": path.as_uri(), "line": reports.BRANCH_LINE - 1} and found["act"] is None
    editor.edit(path, "# more\n" + reports.PROGRAM)
    moved = await editor.request("dynascope/tree", {"uri": path.as_uri()})
    found = next(node for node in every_json(moved["nodes"]) if node["icon"] == "debug-disconnect")
    assert found["place"]["line"] == reports.BRANCH_LINE


def every_json(nodes):
    for node in nodes:
        yield node
        yield from every_json(node["children"])
