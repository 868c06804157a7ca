"""The programs of the seed documents: as many graphs, with as many operations, as shown there."""

import sys

import numpy
import torch
import torch.nn.functional as F
from harness import compiled
from torch import nn


def operations(function, *calls):
    """Operations by graph, after every call gave what plain Python gives."""
    dispatch = compiled(function)
    for arguments in calls:
        torch.testing.assert_close(dispatch(*arguments), function(*arguments), rtol=0, atol=0)
    assert dispatch.refused == []
    return dispatch.compilation.operations


A, B = torch.ones(4), torch.arange(4)
ONES, MORE_ONES = torch.ones(2, 3), torch.ones(2, 3)


def test_simple():
    def foo_simple(a, b):
        return a + b

    dispatch = compiled(foo_simple)
    dispatch(A, B)
    graph = dispatch.graphs[0].module.graph
    assert [(node.op, node.name) for node in graph.nodes] == [
        ("placeholder", "a"),
        ("placeholder", "b"),
        ("call_function", "add"),
        ("output", "output"),
    ]


def test_branch_on_what_is_known():
    def foo_branching(a, b):
        if a.dtype is torch.float32:
            return a + b
        return a - b

    assert operations(foo_branching, (A, B), (A.double(), B), (A, B)) == [1, 1]


def test_loop_is_unrolled():
    def foo_loop(a):
        b = a
        for _ in range(3):
            b = b + a
        return b

    assert operations(foo_loop, (A,), (A,)) == [3]


def foo1(a, b):
    x = a + b
    if b.sum() < 0:
        x = x * -1
    return x


def test_branch_on_a_tensor():
    assert operations(foo1, (ONES, MORE_ONES), (ONES, -MORE_ONES), (ONES, MORE_ONES)) == [3, 1]


def foo2(a, b):
    x = a + b
    if b.sum() < 0:
        x = x * -1
    if a.sum() < 0:
        x = x * -2
    x = 2 * x
    return x


def test_two_branches_on_tensors():
    """Each way through the program is captured when it is first taken."""
    assert operations(foo2, (ONES, MORE_ONES)) == [3, 2, 1]
    assert operations(foo2, (ONES, MORE_ONES), (-ONES, MORE_ONES), (ONES, -MORE_ONES), (-ONES, -MORE_ONES)) == [
        3,
        2,
        1,
        2,
        3,
    ]


def test_foreign_function():
    def foo_foreign(a, b):
        a = a + 2
        b = torch.from_numpy(numpy.sinc(b))
        return a + b

    dispatch = compiled(foo_foreign)
    assert torch.equal(dispatch(A, B.numpy()), foo_foreign(A, B.numpy()))
    assert dispatch.compilation.operations == [1, 2]
    assert dispatch.compilation.codes == ["foreign-call"]


def test_functions_of_numpy_are_part_of_the_graph():
    def foo_foreign(a, b):
        a = a + 2
        b = torch.from_numpy(b)
        return a + b

    def foo_foreign2(a, b):
        a = a + 2
        b = numpy.add(b, 1)
        b = torch.from_numpy(b)
        return a + b

    def foo_foreign3(a, b):
        a = a + 2
        b = b + 1
        b = torch.from_numpy(b)
        return a + b

    for function, operations in ((foo_foreign, 3), (foo_foreign2, 5), (foo_foreign3, 5)):
        dispatch = compiled(function)
        assert torch.equal(dispatch(A, B.numpy()), function(A, B.numpy()))
        assert dispatch.compilation.operations == [operations]
        assert dispatch.compilation.codes == []


def test_network():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(128, 10)

        def forward(self, x):
            x = self.fc(x)
            x = F.relu(x)
            return x

    net = Net()
    dispatch = compiled(Net.forward)
    x = torch.randn(2, 128)
    assert torch.equal(dispatch(net, x), net(x))
    assert dispatch.compilation.operations == [2]
    names = [node.name for node in dispatch.graphs[0].module.graph.nodes if node.op == "placeholder"]
    assert names == ["x", "self_fc_weight", "self_fc_bias"]


def test_scalar_that_varies_becomes_an_input():
    from dynascope.guards.source import LocalSource

    def foo_easy(a, b):
        return a - b

    dispatch = compiled(foo_easy, symbolic=frozenset({LocalSource("b")}))
    for b in (3, 4, 5):
        assert torch.equal(dispatch(A, b), foo_easy(A, b))
    assert dispatch.compilation.operations == [1]


def test_nothing_of_torch_compile_is_imported():
    forbidden = {"torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "sympy"}
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; import torch; from harness import compiled\n"
        "f = compiled(lambda x: torch.softmax(x @ x, -1).mul_(x).sub_(1)); f(torch.ones(2, 2))\n"
        f"print(*sorted({forbidden!r} & set(sys.modules)))"
    )
    import subprocess

    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_branch_on_a_tensor_inside_a_loop():
    """The step's way in leads to the conversion to bool too, wherever the jump lies in the code."""

    def program(x):
        for i in [1, 2]:
            if x.sum() > i:
                return x * 2
        return x

    for start in (0.0, 0.3, 1.0):
        dispatch = compiled(program)
        x = torch.full((2, 3), start)
        assert torch.equal(dispatch(x), program(x))
