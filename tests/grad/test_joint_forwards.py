"""Results that lead to one another: one forward graph, and a node of autograd's for each part."""

from __future__ import annotations

import threading

import dynascope
import pytest
import torch
from dynascope import graph_compiler
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


def cell(a, b, c):
    i, f, g, o = (a + b).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def norms(a, b, c):
    h = a + b
    return functional.layer_norm(h, (64,)), h, functional.layer_norm(h * 2 + 1, (64,))


def views(a, b, c):
    h = a * b
    turned = h.view(4, 2, 64).transpose(0, 1)
    return h, turned.sin(), (turned * 2).cos() + c.sum()


def pieces(a, b, c):
    """Of what the program gets as a whole, and of what it does not; of a constant."""
    h, other = (a @ b.T).relu(), a.exp() + torch.arange(64.0)
    loss = (h[:, :2] * other[:, 1::32]).sum()
    return loss, h, (loss * other.unbind(1)[3]).tanh(), other[:, :1] * loss


PROGRAMS = {each.__name__: each for each in (cell, norms, views, pieces)}


def inputs():
    torch.manual_seed(0)
    return [torch.randn(8, size, requires_grad=True) for size in (64, 64, 16)]


def joints(monkeypatch):
    """Which rows of parts were asked for one forward graph, and whether they have it."""
    found = []
    original = graph_compiler.joint_forward

    def asked(*given):
        found.append(original(*given))
        return found[-1]

    monkeypatch.setattr(graph_compiler, "joint_forward", asked)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients_of_each_result(name, monkeypatch):
    program, found = PROGRAMS[name], joints(monkeypatch)
    compiled = dynascope.compile(program)
    for of_result in range(len(program(*inputs()))):
        passes = []
        for function in (program, compiled):
            given = inputs()
            results = function(*given)
            retained = [result for result in results if not result.is_leaf]
            for result in retained:
                result.retain_grad()
            (results[of_result] * results[of_result].detach()).sum().backward(retain_graph=True)
            sum((result * result).sum() for result in results).backward()
            passes.append([*results, *(each.grad for each in (*given, *retained))])
        for ours, eagers in zip(passes[1], passes[0], strict=True):
            torch.testing.assert_close(ours, eagers)
            assert ours is None or ours.stride() == eagers.stride()
    assert found and None not in found


def turned(a, b, c):
    h = a @ b.T
    return h.T[1:].sin(), h, (h * 2 + c[:, :1]).unsqueeze(1).cos()


@pytest.mark.parametrize("program", [cell, norms, turned], ids=lambda program: program.__name__)
def test_results_and_gradients_where_sizes_vary(program, monkeypatch):
    found = joints(monkeypatch)
    compiled = dynascope.compile(program, dynamic=True)
    for rows in (8, 12, 3, 17):
        torch.manual_seed(rows)
        given = [torch.randn(rows, size, requires_grad=True) for size in (64, 64, 16)]
        passes = []
        for function in (program, compiled):
            results = function(*given)
            losses = [sum(each.sin().sum() for each in results), (results[0] * results[0]).sum()]
            gradients = [torch.autograd.grad(loss, given, retain_graph=True, allow_unused=True) for loss in losses]
            passes.append([*results, *gradients[0], *gradients[1]])
        for ours, eagers in zip(passes[1], passes[0], strict=True):
            torch.testing.assert_close(ours, eagers)
            assert ours is None or ours.stride() == eagers.stride()
    assert len(found) == 1 and None not in found


def test_a_cell_is_one_kernel_forward_and_two_backward():
    """What only the other part reads is written as the piece that it reads, and its gradient comes in as that piece."""
    given = [torch.randn(64, size, requires_grad=True) for size in (256, 256, 64)]
    (graph,) = dynascope.explain(cell)(*given).report.graphs
    phases = [step.phase for step in graph.steps]
    assert phases == ["forward", "backward", "backward"] and not graph.externs


def test_second_derivatives():
    def penalty(function):
        given = inputs()
        results = function(*given)
        first = torch.autograd.grad(sum(result.sum() for result in results), given, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), given)

    torch.testing.assert_close(penalty(dynascope.compile(cell)), penalty(cell))


def test_a_call_within_a_call_and_one_that_ends_early():
    compiled = dynascope.compile(cell)
    given = inputs()
    expected = cell(*given)
    compiled(*given)
    depth = []

    def pack(tensor):
        if not depth:
            depth.append(tensor)
            torch.testing.assert_close(compiled(*inputs()), expected)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        torch.testing.assert_close(compiled(*given), expected)

    class Ended(Exception):
        pass

    def refuse(tensor):
        raise Ended

    with pytest.raises(Ended), torch.autograd.graph.saved_tensors_hooks(refuse, refuse):
        compiled(*given)
    torch.testing.assert_close(compiled(*given), expected)


def test_under_checkpoint():
    def gradients(function):
        given = inputs()
        h, c = checkpoint(function, *given, use_reentrant=False)
        (h * c).sum().backward()
        return [each.grad for each in given]

    torch.testing.assert_close(gradients(dynascope.compile(cell)), gradients(cell))


def test_threads():
    compiled, given = dynascope.compile(cell), inputs()
    expected, wrong = cell(*given), []
    compiled(*given)

    def run():
        for _ in range(50):
            if not all(map(torch.allclose, compiled(*given), expected)):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_numbers_are_drawn_again_from_where_a_part_began():
    """By a part's own forward graph, so that a second derivative draws the same."""

    def dropped(x):
        h = functional.dropout(x * 2, 0.5)
        return h.sin(), h, functional.dropout(h.exp(), 0.5)

    def run(function):
        x = torch.linspace(-1, 1, 64, requires_grad=True)
        torch.manual_seed(3)
        results = function(x)
        (first,) = torch.autograd.grad(sum(result.square().sum() for result in results), x, create_graph=True)
        return results, torch.autograd.grad(first.sum(), x)

    torch.testing.assert_close(run(dynascope.compile(dropped)), run(dropped))
