"""`dynascope.aot`: functional graphs for people who write backends, with gradients as eager's."""

from __future__ import annotations

import dynascope
import pytest
import torch
from torch import nn
from torch.nn import functional as F


class Compiler:
    """Keeps every graph that it is given, and runs it as it is."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, example_inputs):
        names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
        assert len(names) == len(example_inputs)
        self.graphs.append(graph)
        return graph.forward

    def targets(self, number):
        return [str(node.target) for node in self.graphs[number].graph.nodes if node.op == "call_function"]


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64)).double()


def same_training(compiled, plain, x):
    result, expected = compiled(x), plain(x)
    torch.testing.assert_close(result, expected)
    parameters = list(plain.parameters())
    gradients = torch.autograd.grad(result.pow(2).sum(), parameters)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.pow(2).sum(), parameters))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("level", ["aten", "core", "prims"])
def test_each_level_trains_as_eager_does(level, dynamic):
    forward, backward, plain = Compiler(), Compiler(), model()
    compiled = dynascope.aot(
        plain, forward_compiler=forward, backward_compiler=backward, level=level, dynamic=dynamic, fullgraph=True
    )
    for batch in (8, 8) if not dynamic else (8, 5):
        same_training(compiled, plain, torch.randn(batch, 32, dtype=torch.float64))
    assert len(forward.graphs) == len(backward.graphs) == 1
    targets = forward.targets(0)
    assert ("aten.gelu.default" in targets) == (level == "aten")
    assert any(target.startswith("prims.") for target in targets) == (level == "prims")
    assert "addmm" in {node.name for node in backward.graphs[0].graph.nodes if node.op == "placeholder"}


def test_sizes_that_vary_are_symbols_to_compilers():
    compiler, plain = Compiler(), model()
    compiled = dynascope.aot(plain, forward_compiler=compiler, dynamic=True)
    same_training(compiled, plain, torch.randn(8, 32, dtype=torch.float64))
    for graph in compiler.graphs:
        nodes = {node.name: node for node in graph.graph.nodes}
        symbol = str(nodes["s0"].meta["val"])
        assert str(nodes["addmm"].meta["val"].shape) == f"torch.Size([{symbol}, 64])" and not symbol.isdigit()
        assert f'"f64[{symbol}, 64]"' in graph.print_readable(print_output=False)


def test_a_compiler_that_takes_a_size_for_a_constant_is_asked_for_each():
    def averaging(graph, example_inputs):
        count = int(example_inputs[-1].numel())
        return lambda *inputs: (inputs[-1].sum() / count,)

    compiled = dynascope.aot(lambda x: x.sum() / x.numel(), forward_compiler=averaging, dynamic=True)
    assert [compiled(torch.ones(size, 3)).item() for size in (8, 5, 9)] == [1.0, 1.0, 1.0]


def test_prims_have_promotion_and_broadcasting_as_steps():
    compiler = Compiler()
    a, b = torch.rand(3), torch.rand(3, 3, dtype=torch.half)
    compiled = dynascope.aot(lambda a, b: a + b, forward_compiler=compiler, level="prims")
    torch.testing.assert_close(compiled(a, b), a + b)
    assert sorted(compiler.targets(0)) == [
        "prims.add.default", "prims.broadcast_in_dim.default", "prims.convert_element_type.default",
    ]  # fmt: skip


def test_decompositions_are_torchs():
    aten, compiler, plain = torch.ops.aten, Compiler(), model()
    table = torch._decomp.get_decompositions([aten.gelu, aten.gelu_backward, aten.native_layer_norm])
    compiled = dynascope.aot(plain, forward_compiler=compiler, decompositions=table, dynamic=True)
    same_training(compiled, plain, torch.randn(8, 32, dtype=torch.float64))
    assert "aten.erf.default" in compiler.targets(0) and "aten.native_layer_norm.default" not in compiler.targets(0)
    assert "aten.gelu_backward.default" not in compiler.targets(1)


def test_what_the_program_writes_to_stays_outside_of_the_graph():
    compiler = Compiler()

    @dynascope.aot(forward_compiler=compiler, fullgraph=True)
    def step(x, w):
        x.mul_(2)
        return x[1:], F.relu(x @ w)

    x, w = torch.ones(3, 4), torch.randn(4, 2, requires_grad=True)
    tail, y = step(x, w)
    assert x.eq(2).all() and tail._base is x
    assert not any(target.endswith("_.Tensor") for target in compiler.targets(0))
    y.sum().backward()
    torch.testing.assert_close(w.grad, torch.autograd.grad(F.relu(torch.full((3, 4), 2.0) @ w).sum(), w)[0])


def test_without_compilers_graphs_run_operator_by_operator():
    plain = model()
    same_training(dynascope.aot(plain), plain, torch.randn(4, 32, dtype=torch.float64))


@pytest.mark.expects("backend-failed")
def test_a_compiler_that_raises():
    with dynascope.expected("backend-failed"), pytest.warns(UserWarning, match="division by zero"):
        compiled = dynascope.aot(lambda x: x + 1, forward_compiler=lambda graph, examples: 1 / 0)
        assert compiled(torch.ones(2)).eq(2).all()


def test_a_level_that_does_not_exist():
    with pytest.raises(ValueError, match="aten, core or prims, not 'fast'"):
        dynascope.aot(level="fast")


def test_levels_of_an_explanation():
    explanation = dynascope.explain(model(), torch.randn(8, 32, dtype=torch.float64))
    joint, prims = explanation.show("joint"), explanation.show("prims")
    assert "def joint(" in joint and "gelu_backward: f64[8, 64]" in joint and "prims.broadcast_in_dim" in prims
    assert "torch.ops.aten.gelu.default" in explanation.show("aten") and "erf" in explanation.show("core")


def test_decompositions_are_for_what_others_come_down_to_as_well():
    aten = torch.ops.aten
    graphs = []

    def compiler(graph, examples):
        graphs.append(graph)
        return graph.forward

    def variance_and_mean(x, dim=None, *, correction=None, keepdim=False):
        mean = aten.mean.dim(x, dim, True)
        return aten.mean.dim(aten.square.default(x - mean), dim, keepdim), mean

    model, x = torch.nn.LayerNorm(8), torch.randn(4, 8)
    for dynamic in (False, True):
        table = {aten.var_mean.correction: variance_and_mean}
        compiled = dynascope.aot(model, forward_compiler=compiler, decompositions=table, level="core", dynamic=dynamic)
        torch.testing.assert_close(compiled(x), model(x))
        assert aten.var_mean.correction not in {node.target for graph in graphs for node in graph.graph.nodes}


def test_a_decomposition_that_leads_back_to_its_operator():
    aten = torch.ops.aten
    table = {aten.gelu.default: lambda x, approximate="none": aten.gelu.default(x * 2, approximate=approximate)}
    compiled = dynascope.aot(torch.nn.functional.gelu, decompositions=table)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.nn.functional.gelu(torch.full((3,), 2.0)))


@pytest.mark.parametrize("given", [{"forward_compiler": 3}, {"backward_compiler": "eager"}], ids=str)
def test_what_is_no_compiler_is_refused_where_it_is_given(given):
    with pytest.raises(TypeError, match="a compiler is a callable"):
        dynascope.aot(torch.sin, **given)
