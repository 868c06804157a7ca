"""torch.cond is one node. (For `scan`, `map` and `while_loop` see `test_repetitions.py`.)"""

import dynascope
import pytest
import torch
from torch import nn

X = torch.linspace(-1, 1, 6).view(2, 3)


def assert_same_with_gradients(function, *inputs, **options):
    def trained(call, x):
        x = x.clone().requires_grad_()
        result = call(x)
        parts = list(result.values()) if isinstance(result, dict) else [result] if isinstance(result, torch.Tensor) else list(result)
        sum(part.sum() for part in parts if part.requires_grad).backward()
        return [*(part.detach() for part in parts), x.grad]

    call = dynascope.compile(function, **options)
    for x in inputs:
        torch.testing.assert_close(trained(call, x), trained(function, x))


def test_one_graph_for_both_ways():
    layer = nn.Linear(3, 3)
    scale = torch.tensor(2.0)

    def function(x):
        y = x * 2
        z = torch.cond(y.sum() > 0, lambda x: (layer(x).sin(), x * scale), lambda x: (x.cos(), x + scale), (y,))
        return z[0] + 1, z[1] * y

    assert_same_with_gradients(function, X + 1, X - 1, X, fullgraph=True)
    assert len(dynascope.explain(function, X.clone().requires_grad_()).graphs) == 1


def test_structures_and_numbers():
    def function(x):
        found = torch.cond(x.mean() > 0, lambda a, b: {"one": a * b["c"]}, lambda a, b: {"one": a - b["c"]}, (x, {"c": x + 1}))
        plain = torch.cond(x.shape[0] > 1, torch.sin, torch.cos, (x,))
        of_list = torch.cond(x.mean() > 0, lambda a, b: a[0] * b, lambda a, b: a[0] - b, [[x], x + 1])
        return {"plain": plain, "list": of_list, **found}

    assert_same_with_gradients(function, X + 1, X - 1, fullgraph=True)


def test_several_sizes():
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x * x.shape[0], lambda x: x - 1, (x,)) + 1

    call = dynascope.compile(function, fullgraph=True, dynamic=True)
    for x in (torch.ones(3, 4), -torch.ones(5, 4), torch.ones(7, 2)):
        torch.testing.assert_close(call(x), function(x))


@pytest.mark.expects("foreign-call")
def test_what_hangs_on_the_condition_is_left_to_torch():
    seen = []

    def function(x):
        return torch.cond(x.sum() > 0, lambda x: x + len(seen.append(1) or [1]), lambda x: x - 1, (x,)) * 2

    with pytest.raises(RuntimeError):  # torch refuses it, in words of its compiler
        dynascope.compile(function)(X + 1)
