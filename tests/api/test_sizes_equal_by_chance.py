"""Sizes that are equal at the first call and are no one number: as many heads as sentences, as many channels as images."""

import dynascope
import pytest
import torch
from dynascope import captured_graphs

pytestmark = pytest.mark.compiler


def rows(*sizes):
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(sum(sizes)), requires_grad=True)


def biased(q, k, v):
    """Four heads have a slope each."""
    n, slopes = q.shape[-2], torch.tensor([0.5, 0.25, 0.125, 0.0625])
    distance = torch.arange(n)[None] - torch.arange(n)[:, None]
    return (q @ k.transpose(-1, -2) + slopes[:, None, None] * distance).softmax(-1) @ v


def overlap(a, b):
    """Of boxes with four corners each."""
    low, high = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    return (high - low).clamp(min=0).prod(-1)


def scan(x, decay, gain):
    state = torch.zeros(x.shape[0], 4)
    for t in range(3):
        state = torch.exp(-decay) * state + gain * x[:, t, None]
    return state


def weighted(x, w):
    """Each row of the one belongs to one of the other, though they are counted in other dimensions, and there are four columns."""
    return (x * w[:, None]) @ torch.eye(4)


def pyramid(x):
    """Batches are two more than channels at the first call, and of no number that follows from them at any other."""
    halves = [x]
    while min(halves[-1].shape[-2:]) >= 6:
        halves.append(torch.nn.functional.avg_pool2d(halves[-1], 2))
    return sum(torch.nn.functional.interpolate(half, size=x.shape[-2:]) for half in halves)


PROGRAMS = {
    biased: ([tuple(rows(b, 4, n, 4) for _ in "qkv") for b, n in ((4, 7), (4, 9), (2, 9), (3, 16), (6, 5))], 1, 4),
    overlap: ([(rows(n, 4), rows(m, 4)) for n, m in ((4, 7), (4, 4), (5, 9), (2, 3))], 2, 4),
    scan: ([(rows(b, 3), rows(4), rows(4)) for b in (4, 5, 9, 2)], 1, 4),
    pyramid: ([(rows(b, 2, n, n),) for b, n in ((4, 7), (4, 8), (6, 9), (3, 10), (5, 8))], 2, 4),
    weighted: ([(rows(n, 4), rows(n)) for n in (4, 5, 7, 2)], 2, 5),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_only_what_must_be_a_constant_is_one(program, compilations, monkeypatch):
    calls, most, most_attempts = PROGRAMS[program]
    attempts, compile_graph = [], captured_graphs.compile_graph
    monkeypatch.setattr(captured_graphs, "compile_graph", lambda *given, **named: attempts.append(1) or compile_graph(*given, **named))
    compiled = dynascope.compile(program, dynamic=True)
    for tensors in calls:
        ours, wanted = compiled(*tensors), program(*tensors)
        torch.testing.assert_close(ours, wanted)
        gradients = (torch.autograd.grad(result.square().sum(), tensors, allow_unused=True) for result in (ours, wanted))
        torch.testing.assert_close(*gradients)
    assert len(compilations) <= most
    assert len(attempts) <= most_attempts
