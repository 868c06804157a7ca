"""Graphs whose text is written when it is asked for are graphs to all who look."""

import copy
import pickle

import pytest
import torch
from dynascope.meta_kernels.graph_modules import UnwrittenGraphModule
from torch import fx


@pytest.fixture
def module():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.add, (x, 1)),))
    return UnwrittenGraphModule(torch.nn.Module(), graph, "f")


def test_nothing_is_written_before_it_is_asked_for(module):
    assert "_code" not in vars(module)
    assert "torch.add(x, 1)" in module.code and "_code" in vars(module)


def test_forward_is_the_function_itself(module):
    """`gm.forward` is what most backends in ten lines return: no call after the first may pay for the first."""
    forward = module.forward
    assert forward.__func__.__code__.co_varnames[:2] == ("self", "x")
    assert forward(torch.zeros(2))[0].tolist() == [1, 1] and module.forward == forward


@pytest.mark.parametrize(
    "ask",
    [
        lambda module: module(torch.zeros(2)),
        lambda module: type(module).forward(module, torch.zeros(2)),
        lambda module: copy.deepcopy(module)(torch.zeros(2)),
        lambda module: copy.copy(module)(torch.zeros(2)),
        lambda module: pickle.loads(pickle.dumps(module))(torch.zeros(2)),
        lambda module: fx.GraphModule(module, module.graph)(torch.zeros(2)),
        lambda module: fx.symbolic_trace(module)(torch.zeros(2)),
        lambda module: fx.Interpreter(module).run(torch.zeros(2)),
        lambda module: torch.jit.script(module)(torch.zeros(2)),
    ],
    ids=["call", "class", "deepcopy", "copy", "pickle", "plain", "traced", "interpreted", "scripted"],
)
def test_every_way_to_run_it(module, ask):
    assert ask(module)[0].tolist() == [1, 1]


def test_its_text_is_printed(module):
    assert "torch.add(x, 1)" in str(module) and "torch.add(x, 1)" in module.print_readable(print_output=False)


def test_changes_of_the_graph(module):
    """Before the text is written all are in it; afterwards `recompile` says when, as with any graph of fx."""
    node = next(node for node in module.graph.nodes if node.op == "call_function")
    node.args = (node.args[0], 2)
    assert module(torch.zeros(2))[0].tolist() == [2, 2]
    node.args = (node.args[0], 3)
    assert module(torch.zeros(2))[0].tolist() == [2, 2]
    assert "torch.add(x, 3)" in module.recompile().src
    assert module(torch.zeros(2))[0].tolist() == [3, 3]

