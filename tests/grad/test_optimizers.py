"""An optimizer's step as a graph: parameters that require grad, changed in place without grad."""

from __future__ import annotations

import dynascope
import pytest
import torch
from compare import compile_graph
from torch import fx


def test_foreach_step_updates_parameters_in_place():
    graph = fx.Graph()
    p, q, g, h = (graph.placeholder(name) for name in "pqgh")
    graph.call_function(torch._foreach_mul_, ([p, q], 0.9))
    graph.call_function(torch._foreach_add_, ([p, q], [g, h]), {"alpha": -0.1})
    graph.output(())
    inputs = [torch.randn(3, requires_grad=True), torch.randn(2, requires_grad=True), torch.randn(3), torch.randn(2)]
    expected = [(p * 0.9 - 0.1 * g).detach() for p, g in zip(inputs[:2], inputs[2:], strict=True)]
    with torch.no_grad():
        pair, run = compile_graph(fx.GraphModule({}, graph), inputs)
        run(*inputs)
    assert pair.backward is None and [m.input for m in pair.mutations] == [0, 1]
    for parameter, wanted in zip(inputs[:2], expected, strict=True):
        assert torch.allclose(parameter, wanted) and parameter.is_leaf and parameter.requires_grad


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_writes_to_lists_are_counted(backend):
    """Autograd tells by them that what a backward pass reads was changed: a graph from before a step must raise after it."""

    def step(parameters, gradients):
        torch._foreach_mul_(parameters, 0.5)
        torch._foreach_addcmul_(parameters, gradients, gradients, value=0.1)
        torch._foreach_lerp_(parameters, gradients, 0.25)

    found = []
    for function in (step, dynascope.compile(step, backend=backend)):
        parameters = [torch.ones(3), torch.ones(2, 2)]
        weight = torch.ones(3, requires_grad=True)
        product = (weight * parameters[0]).sum()
        function(parameters, [torch.ones(3), torch.ones(2, 2)])
        with pytest.raises(RuntimeError, match="is at version 3; expected version 0"):
            product.backward()
        found.append([parameter._version for parameter in parameters])
    assert found[0] == found[1] == [3, 3]
