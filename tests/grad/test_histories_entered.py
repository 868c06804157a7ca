"""What the inputs come from is entered by a backward pass only where a result leads there."""

from __future__ import annotations

import dynascope
import pytest
import torch


def ours_and_eagers(program, run):
    return [run(function) for function in (program, dynascope.compile(program, fullgraph=True))]


def program(x, other):
    return x.sin(), other > x


def test_a_function_without_a_derivative():
    def run(function):
        x = torch.ones(3, requires_grad=True)
        result, mask = function(x, x // 2)
        result.sum().backward()
        return x.grad, mask

    torch.testing.assert_close(*ours_and_eagers(program, run))


def test_hooks_and_what_was_freed():
    def run(function):
        x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
        other, seen = w.exp(), []
        other.register_hook(seen.append)
        other.sum().backward(retain_graph=True)
        result, _ = function(x, other)
        result.sum().backward()
        other.sum().backward()  # nothing of it was freed
        with pytest.raises(RuntimeError, match="second time"):
            other.sum().backward()
        function(x, other)[0].sum().backward()
        return len(seen), x.grad, w.grad

    torch.testing.assert_close(*ours_and_eagers(program, run))


def test_a_second_derivative_beside_a_write():
    def changed(x, other):
        other.detach().add_(1)
        return x.sin() * x

    def run(function):
        x, w = torch.linspace(0, 1, 3, requires_grad=True), torch.ones(3, requires_grad=True)
        other = w * 1
        (first,) = torch.autograd.grad(function(x, other).sum(), x, create_graph=True)
        first.sum().backward()
        return x.grad, other.detach()

    torch.testing.assert_close(*ours_and_eagers(changed, run))


def test_what_was_detached_is_no_base_of_others():
    """It requires grad from then on, and they do not."""

    def several(x):
        made = 1 / x
        turned = made.t().detach()
        return made[0], turned, turned[0]

    def run(function):
        part, turned, row = function(torch.ones(1, 1))
        turned.requires_grad_()
        return part.requires_grad, part._is_view(), turned._is_view()

    eagers, ours = ours_and_eagers(several, run)
    assert ours == eagers


@pytest.mark.expects("overlapping-inputs")
def test_another_view_of_what_is_written():
    """A write that records a history gives one to all views of the base."""

    def written(part, other, weight):
        part += weight
        return other * 2

    def run(function):
        x, weight = torch.ones(4, 2), torch.ones(2, 2, requires_grad=True)
        return function(x[:2], x[2:], weight).requires_grad, x.requires_grad

    eagers, ours = ours_and_eagers(written, run)
    assert ours == eagers == (True, True)


@pytest.mark.parametrize("accumulates", [False, True])
@pytest.mark.parametrize("enters", ["y", "h", "both", "grad"])
def test_gradients_taken_inside_after_a_result_that_others_are_computed_from(accumulates, enters):
    """Autograd's own pass goes through the parts; each is compiled, for all sizes."""

    def program(x, w, v):
        h = (x @ w).tanh()
        y = (h @ v).sin()
        if accumulates:
            y.sum().backward(retain_graph=True)
            return h, y
        return h, y, *torch.autograd.grad(y.sum(), (w, h), retain_graph=True)

    def play(function, rows):
        torch.manual_seed(rows)
        x, w, v = torch.randn(rows, 3), torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
        h, y, *found = function(x, w, v)
        h.retain_grad()
        if enters == "grad":
            found += torch.autograd.grad(y.sum(), h)
        for each in {"y": [y], "h": [h], "both": [y, h]}.get(enters, []):
            each.sum().backward(retain_graph=True)
        return [h, y, *found, h.grad, w.grad, v.grad]

    compiled = dynascope.compile(program)
    for rows in (2, 4, 5):
        torch.testing.assert_close(play(compiled, rows), play(program, rows))


def test_they_are_kernels():
    def program(x, w):
        h = (x @ w).tanh()
        y = h.sin() * 2
        (g,) = torch.autograd.grad(y.sum(), (w,), retain_graph=True)
        return h, y, g * 2

    explanation = dynascope.explain(program)(torch.ones(2, 3), torch.ones(3, 3, requires_grad=True))
    assert len(explanation.report.kernels) >= 3


def test_what_comes_after_gradients_inside_is_told_apart():
    """The pass of the second loss does not enter, and free, what the first results come from."""

    def after_gradients(x):
        row = x.unsqueeze(0)
        same = row.squeeze(0)
        torch.autograd.grad(same.square().sum(), same, create_graph=True)
        scores = row.log_softmax(-1)
        return scores.tanh(), scores, (x * x).sum()

    def run(function):
        leaf = torch.linspace(0, 1, 3, requires_grad=True)
        result, scores, loss = function(leaf[1:])
        loss.backward()
        (result.sum() + scores[0, 0]).backward()
        return leaf.grad

    torch.testing.assert_close(*ours_and_eagers(after_gradients, run))
