"""Seed 001: people who write backends, on torch's own AOTAutograd, with our capture in front."""

import dynascope
import pytest
import torch
from torch import nn


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(32, 64)

    def forward(self, x):
        x = self.fc1(x)
        x = torch.nn.functional.gelu(x)
        return x


@pytest.fixture
def model():
    torch.manual_seed(0)
    return MLP()


def compiled_and_graphs(function, decompositions=None):
    from torch._functorch.aot_autograd import aot_module_simplified

    graphs = []

    def toy_backend(gm, sample_inputs):
        def my_compiler(gm, sample_inputs):
            graphs.append(gm)
            return gm.forward

        return aot_module_simplified(gm, sample_inputs, decompositions=decompositions, fw_compiler=my_compiler)

    return dynascope.compile(function, backend=toy_backend, dynamic=True), graphs


def targets(graph):
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def test_torch_ir(model):
    seen = []

    def toy_backend(gm, sample_inputs):
        seen.append((gm, len(sample_inputs)))
        return gm.forward

    compiled = dynascope.compile(model, backend=toy_backend, dynamic=True)
    x = torch.randn(8, 32)
    torch.testing.assert_close(compiled(x), model(x))
    ((graph, inputs),) = seen
    assert inputs == 4, "the size that varies, x, and two parameters"
    text = graph.print_readable(print_output=False)
    assert "x = self.fc1(x)" in text and "gelu" in text


def test_aten_ir_through_aot_autograd(model):
    compiled, graphs = compiled_and_graphs(model)
    x = torch.randn(8, 32)
    torch.testing.assert_close(compiled(x), model(x))
    assert "aten.addmm.default" in targets(graphs[0]) and "aten.gelu.default" in targets(graphs[0])


def test_decomposed_aten_ir(model):
    from torch._inductor.decomposition import decompositions

    compiled, graphs = compiled_and_graphs(model, decompositions.copy())
    x = torch.randn(8, 32)
    torch.testing.assert_close(compiled(x), model(x))
    assert "aten.erf.default" in targets(graphs[0]) and "aten.gelu.default" not in targets(graphs[0])


def test_prims_ir():
    prims = torch._decomp.get_decompositions([torch.ops.aten.add, torch.ops.aten.expand.default])

    def fn(a, b):
        return a + b

    compiled, graphs = compiled_and_graphs(fn, prims)
    a, b = torch.rand(3, dtype=torch.float), torch.rand(3, 3, dtype=torch.half)
    torch.testing.assert_close(compiled(a, b), fn(a, b))
    assert "prims.add.default" in targets(graphs[0])
