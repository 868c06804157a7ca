"""`F.ctc_loss`: part of the graph, forward and backward, whatever its lengths hold."""

import pytest
import torch
import torch.nn.functional as F
from dynascope import compile
from harness import graphs_of
from torch import nn

X = torch.randn(10, 3, 5)
TARGETS = torch.randint(1, 5, (3, 4))
LENGTHS = torch.tensor([10, 9, 7])


def of_module(x, targets, lengths):
    return nn.CTCLoss(zero_infinity=True)(x.log_softmax(-1), targets, lengths, torch.tensor([4, 2, 3]))


def by_sequence(x, targets, lengths):
    return F.ctc_loss(x.log_softmax(-1), targets, lengths, lengths // 3, reduction="none") * torch.arange(3)


def with_numbers(x, targets, lengths):
    sizes = (x.shape[0],) * x.shape[1]
    return F.ctc_loss(x.log_softmax(-1), targets, sizes, (3,) * x.shape[1], blank=4, reduction="sum") + x.mean()


def one_sequence(x, targets, lengths):
    return torch.ctc_loss(x[:, 0].log_softmax(-1), targets[0, :2], lengths[0], lengths[0] * 0 + 2, 0, 1)


@pytest.mark.compiler
@pytest.mark.parametrize("program", [of_module, by_sequence, with_numbers, one_sequence])
def test_forward_and_backward(program):
    compiled = compile(program, fullgraph=True)
    for x, lengths in ((X, LENGTHS), (X, LENGTHS - 1), (X[:8], LENGTHS - 2)):
        found = []
        for function in (program, compiled):
            leaf = x.clone().requires_grad_()
            result = function(leaf, TARGETS, lengths)
            result.sum().backward()
            found.append((result, leaf.grad))
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_the_gradient_lies_row_by_row(order):
    inverse = [order.index(dimension) for dimension in range(3)]
    x = X.permute(order).contiguous().permute(inverse).requires_grad_()
    program = lambda x: F.ctc_loss(x, TARGETS, LENGTHS, LENGTHS // 3)  # noqa: E731
    ours, wanted = (torch.autograd.grad(function(x), x)[0] for function in (compile(program), program))
    assert ours.stride() == wanted.stride()
    torch.testing.assert_close(ours, wanted)


def test_is_one_graph_and_raises_as_eager():
    def program(x, targets, lengths):
        return of_module(x * 2, targets, lengths) + 1

    compiled, made = graphs_of(program, fullgraph=True)
    assert torch.equal(compiled(X, TARGETS, LENGTHS), program(X, TARGETS, LENGTHS))
    assert torch.equal(compiled(X, TARGETS, LENGTHS - 1), program(X, TARGETS, LENGTHS - 1)) and len(made) == 1
    with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 10"):
        compiled(X, TARGETS, LENGTHS + 9)


def test_one_that_nobody_reads_raises_too():
    def program(x, targets, lengths):
        of_module(x, targets, lengths)
        return x + 1

    compiled = compile(program, fullgraph=True, backend="eager")
    assert torch.equal(compiled(X, TARGETS, LENGTHS), X + 1)
    with pytest.raises(RuntimeError, match="Expected input_lengths"):
        compiled(X, TARGETS, LENGTHS + 9)


def without_a_reduction(x, targets, lengths):
    return torch.ctc_loss(x.log_softmax(-1), targets, lengths, lengths // 3)


@pytest.mark.expects("missing-meta-kernel")
def test_what_torch_takes_for_the_reduction_is_its_own():
    torch.testing.assert_close(compile(without_a_reduction)(X, TARGETS, LENGTHS), without_a_reduction(X, TARGETS, LENGTHS))


@pytest.mark.expects("missing-meta-kernel")
def test_what_it_does_not_take_is_left_to_torch():
    with pytest.raises(RuntimeError):
        compile(lambda x: F.ctc_loss(x.half(), TARGETS, LENGTHS, LENGTHS // 3))(X)


@pytest.mark.expects("missing-meta-kernel")
@pytest.mark.parametrize("given", [(-2.0,), (1, 2, 3, 4, 5, 6, 7, 8)])
def test_a_call_with_other_arguments_is_refused_by_torch(given):
    compiled = compile(lambda x: torch.ctc_loss(x, *given), backend="eager")
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        compiled(torch.ones(2))


def test_what_each_loss_is_given_is_kept_for_its_gradient():
    layer, ends = nn.Linear(5, 5), torch.tensor([4, 2, 3])

    def program(x):
        loss = 0
        for _ in range(3):
            loss = loss + F.ctc_loss(-torch.relu(layer(x + loss)), TARGETS, LENGTHS, ends)
        return loss

    gradients = [torch.autograd.grad(function(X), layer.parameters()) for function in (program, compile(program))]
    torch.testing.assert_close(*gradients)
