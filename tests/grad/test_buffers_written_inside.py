"""Buffers that a graph with gradients changes: kernels write them where they are, and autograd sees nothing of it."""

from __future__ import annotations

import copy

import dynascope
import pytest
import torch
from torch import nn


class Counting(nn.Module):
    """Buffers that the loss needs as they were, that it needs as they are, and that it does not need."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)
        for name in ("calls", "largest", "scale", "unread"):
            self.register_buffer(name, torch.ones(4))

    def forward(self, x):
        y = self.layer(x) * self.scale
        self.calls += 1
        with torch.no_grad():
            self.largest.copy_(torch.maximum(self.largest, y.amax(0)))
            self.unread.mul_(0.5)
        z = y * self.largest
        self.scale.add_(1)
        return z.tanh() + self.calls


def norms() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.BatchNorm1d(5), nn.Linear(5, 2))


@pytest.mark.compiler
@pytest.mark.parametrize("make", [norms, Counting])
def test_buffers_gradients_and_versions_are_eagers(make) -> None:
    torch.manual_seed(0)
    ours = make()
    eager = copy.deepcopy(ours)
    compiled = dynascope.compile(ours)
    places = [buffer.data_ptr() for buffer in ours.buffers()]
    ahead = [one._version - other._version for one, other in zip(ours.buffers(), eager.buffers(), strict=True)]
    for _ in range(3):
        x = torch.randn(7, 6)
        outcomes = []
        for function in (compiled, eager):
            result = function(x)
            try:
                result.square().sum().backward()
                outcomes.append((result, None))
            except RuntimeError as error:  # eager: what the backward pass needs was changed
                outcomes.append((result, str(error).split(" is at version")[0]))
        (result, error), (wanted, refusal) = outcomes
        torch.testing.assert_close(result, wanted)
        assert error == refusal
        for one, other, more in zip(ours.buffers(), eager.buffers(), ahead, strict=True):
            torch.testing.assert_close(one, other)
            assert one._version == other._version + more
        for one, other in zip(ours.parameters(), eager.parameters(), strict=True):
            torch.testing.assert_close(one.grad, other.grad)
    assert places == [buffer.data_ptr() for buffer in ours.buffers()]


@pytest.mark.compiler
def test_a_counter_is_counted_by_a_kernel() -> None:
    report = dynascope.explain(norms(), torch.randn(7, 6)).report
    wrapper = next(text.text for graph in report.graphs for text in graph.texts if text.stage == "wrapper-forward")
    assert "self_1_num_batches_tracked" in wrapper.splitlines()[-1]
