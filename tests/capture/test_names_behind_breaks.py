"""What a break left on the stack is an input of the next graph, and named by the expression that gave it."""

import dynascope
import numpy as np
import pytest
import torch

pytestmark = pytest.mark.may_break


def drawn(a, generator):
    a = a * 2
    return torch.from_numpy(generator.normal(size=a.shape[0])) + a


def test_an_input_is_named_by_its_expression():
    names = []

    def noting(graph, example_inputs):
        names.append([node.name for node in graph.graph.nodes if node.op == "placeholder"])
        return graph.forward

    dynascope.compile(drawn, backend=noting)(torch.ones(3), np.random.default_rng(0))
    assert names == [["a"], ["generator_normal_size_a_shape_0", "a"]]


def test_an_expression_that_begins_with_a_number():
    def halved(a):
        return 2 * a + (print(end="") or 1)

    assert torch.equal(dynascope.compile(halved, backend="eager")(torch.ones(3)), torch.full((3,), 3.0))


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_two_names_that_look_alike(backend):
    class Holder:
        pass

    holder = Holder()
    holder.a, holder.a_b = Holder(), torch.full((2,), 5.0)
    holder.a.b = torch.ones(2)
    compiled = dynascope.compile(lambda x: x * holder.a.b + holder.a_b, backend=backend)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 6.0))
