"""`with torch.device(...)` inside: the graph names the device where tensors are made."""

import contextlib

import dynascope
import pytest
import torch
from dynascope import compile
from harness import graphs_of
from torch import nn

X = torch.tensor([1.0, -2.0, 3.0])
DEVICE = torch.device("cpu")


def makes(x):
    with torch.device("cpu") as device:
        y = torch.ones(3) + torch.tensor([1.0, 2.0, 3.0]) + torch.arange(3)
        assert torch.get_default_device() == device
    return x + y, device


def nests(x):
    with x.device:
        with DEVICE:
            y = torch.zeros(3)
        z = torch.empty(3).fill_(2)
    return x + y + z


def leaves_by_an_error(x):
    try:
        with DEVICE:
            y = torch.full((3,), 2.0)
            raise ValueError("no")
    except ValueError as error:
        return x * y + len(str(error)) + torch.ones(3)


def in_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(DEVICE)
        y = torch.ones(3)
    return x + y


def draws(x):
    with DEVICE:
        layer = nn.Linear(3, 2)
    return layer(x).detach() + 1


@pytest.mark.parametrize("program", [makes, nests, leaves_by_an_error])
def test_is_one_graph(program):
    compiled, made = graphs_of(program, fullgraph=True)
    assert repr(compiled(X)) == repr(compiled(X)) == repr(program(X)) and len(made) == 1


@pytest.mark.may_break
@pytest.mark.parametrize("program", [in_a_stack, draws])
def test_as_in_eager(program):
    results = []
    for function in (program, compile(program)):
        torch.manual_seed(0)
        results.append(function(X))
    torch.testing.assert_close(*results)


def breaks_inside(x):
    with torch.device("meta"):
        before = torch.get_default_device()
        print(end="")
        behind = torch.get_default_device()
    return x + 1, before, behind, torch.ones(3).device


def test_a_break_inside_finds_the_mode_on():
    with dynascope.expected("foreign-value", "print-call"):
        compiled = compile(breaks_inside)
        for _ in range(2):
            assert repr(compiled(X)) == repr(breaks_inside(X))
    assert torch.get_default_device().type == "cpu"


@pytest.mark.gpu
def test_on_a_gpu():
    def program(x):
        with torch.device("cuda"):
            y = torch.ones(3)
        return x.cuda() + y, torch.ones(3) + x

    compiled, made = graphs_of(program, fullgraph=True)
    torch.testing.assert_close(compiled(X), program(X))
    assert len(made) == 1
