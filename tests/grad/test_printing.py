"""Printed graphs run, and show types and the user's lines."""

from __future__ import annotations

import random

import dynascope
import numpy
import pytest
import torch
import torch.nn.functional as F
from compare import compile_graph
from dynascope.grad.printing import print_graph
from dynascope.report.span import Span, UserFrame
from torch import fx


def traced():
    def program(x, w, b):
        return F.gelu(F.linear(x, w, b)) * torch.tensor([2.0, 3.0])

    graph = fx.symbolic_trace(program)
    for line, node in enumerate(graph.graph.nodes, 10):
        if node.op == "call_function":
            node.meta["user_stack"] = (UserFrame("program", Span(__file__, line)),)
            node.meta["stack_trace"] = f'  File "{__file__}", line {line}, in program\n    code'
    inputs = [torch.randn(4, 3), torch.randn(2, 3, requires_grad=True), torch.randn(2, requires_grad=True)]
    return compile_graph(graph, inputs)[0], inputs


def test_the_text_runs_and_gives_the_same():
    pair, inputs = traced()
    text, _ = print_graph(pair.forward)
    scope: dict[str, object] = {}
    exec(text, scope)
    for a, b in zip(scope["forward"](*inputs), pair.forward(*inputs), strict=True):
        assert torch.equal(a, b)


def test_types_and_places_are_shown():
    pair, _ = traced()
    text, links = print_graph(pair.forward)
    assert "w: f32[2, 3]" in text and "torch.ops.aten.addmm.default" in text and "# test_printing.py:" in text
    lines = text.splitlines()
    assert all(lines[link.line - 1].startswith("    ") for link in links) and links


def test_what_is_copied_carries_the_line_of_what_it_is_a_copy_of():
    graph = fx.symbolic_trace(lambda x: x[0].clone())
    for node in graph.graph.nodes:
        node.meta["user_stack"] = (UserFrame("program", Span(__file__, 7)),)
    made = compile_graph(graph, [torch.randn(2, 3)])[0].forward
    copy = next(node for node in made.graph.nodes if node.target is torch.ops.aten.clone.default)
    assert copy.meta["user_stack"][0].span.line == 7


def test_backward_nodes_carry_the_forward_line():
    pair, _ = traced()
    for module in (pair.forward, pair.backward):
        for node in module.graph.nodes:
            if node.op == "call_function":
                assert node.meta["user_stack"], node.format_node()
                assert isinstance(node.meta["val"], (torch.Tensor, tuple))
    assert all(n.meta["phase"] == "backward" for n in pair.backward.graph.nodes if n.op == "call_function")
    erf = next(n for n in pair.backward.graph.nodes if n.target is torch.ops.aten.erf.default)
    addmm = next(n for n in pair.forward.graph.nodes if n.target is torch.ops.aten.addmm.default)
    assert erf.meta["user_stack"] != addmm.meta["user_stack"]


DRAWS = "random.uniform(1, 2)", "own.gauss(0, 1)", "torch.from_numpy(numpy.random.rand(3))", "torch.from_numpy(new.normal(0, 1, 3))"


@pytest.mark.parametrize("drawn", DRAWS)
def test_what_python_and_numpy_draw_is_printed_as_python_that_runs(drawn):
    scope = {"random": random, "numpy": numpy, "torch": torch, "own": random.Random(1), "new": numpy.random.default_rng(1)}
    function = eval(f"lambda x: x * {drawn}", scope)
    text = dynascope.explain(function, torch.ones(3)).show("torch")
    made: dict[str, object] = {}
    exec(text, made)
    assert made["forward"](torch.ones(3))[0].shape == (3,) and "HostDraw(" in text
