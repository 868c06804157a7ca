"""Methods that make a tensor a view of itself (`unsqueeze_`, `t_`), and orders of sets of texts."""

import pytest
import torch
from harness import compiled


def chained(x):
    y = x + 1
    alias, before = y, y.view(-1)
    y.unsqueeze_(0), y.transpose_(1, 2), y.squeeze_(), y.t_()
    before[0] = 7
    assert alias is y
    return y * 2, alias.shape, before


def written_after(x):
    y = x * 2
    y.t_()[0].mul_(3)
    y.swapdims_(0, 1).add_(1)
    return y


def kept_in_a_list(x):
    rows = [row.clone() for row in x]
    for row in rows:
        row.unsqueeze_(-1)
    return torch.cat(rows, 1)


PROGRAMS = [chained, written_after, kept_in_a_list]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_tensor_made_inside_becomes_its_own_view(program, requires_grad):
    def play(function):
        x = torch.linspace(0, 1, 12).view(3, 4).requires_grad_(requires_grad)
        result = function(x)
        first = result[0] if isinstance(result, tuple) else result
        if requires_grad:
            (first * torch.arange(first.numel()).view(first.shape)).sum().backward()
        return result, first.stride(), x.grad

    function = compiled(program)
    for _ in range(2):
        torch.testing.assert_close(play(function), play(program))
    assert len(function.graphs) == 1 and function.compilation.codes == []


def test_an_argument_is_left_to_python():
    def program(x):
        x.unsqueeze_(0)
        return x + 1

    x, y = torch.ones(3), torch.ones(3)
    torch.testing.assert_close(compiled(program)(x), program(y))
    assert x.shape == y.shape == (1, 3)


def test_a_leaf_that_requires_grad_refuses():
    def program(x):
        y = torch.ones(2, 3, requires_grad=True)
        y.t_()
        return y * x

    for function in (program, compiled(program)):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            function(torch.ones(1))


def test_sets_of_texts_are_in_the_order_of_python():
    names = ("weight", "bias", "scale", "shift", "gain")

    def program(x):
        seen = []
        for name in set(names) | {"weight", "other"}:
            seen.append(name)
            x = x * len(name) + 1
        return x, seen

    (found, order), (wanted, wanted_order) = compiled(program)(torch.ones(2)), program(torch.ones(2))
    assert order == wanted_order
    torch.testing.assert_close(found, wanted)


def test_a_functional_call_is_one_graph():
    linear = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    linear.register_module("tied", linear[0])

    def program(x):
        weights = {name: value * 2 for name, value in linear.named_parameters()}
        return torch.func.functional_call(linear, weights, (x,))

    linear.tied = torch.nn.Identity()
    function = compiled(program)
    torch.testing.assert_close(function(torch.ones(3, 4)), program(torch.ones(3, 4)))
    assert function.compilation.codes == []
