"""`module.to(...)` inside: of what is there already nothing changes."""

import pytest
import torch
from harness import graphs_of
from torch import nn

X = torch.randn(2, 3)


def to_device(module, x):
    module.to(torch.device("cpu"))
    return module(x)


def to_both(module, x):
    return module.to("cpu", torch.float32, non_blocking=True)(x)


def to_type(module, x):
    return module.float()(x)


def own_data(module, x):
    module[0].weight.data = module[0].weight
    return module(x)


@pytest.mark.parametrize("move", [to_device, to_both, to_type, own_data])
def test_is_where_it_was(move):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    compiled, made = graphs_of(move, fullgraph=True)
    before = [*module.parameters(), *module.buffers()]
    found = [compiled(module, X) for _ in range(2)]
    after = [*module.parameters(), *module.buffers()]
    assert all(one is other for one, other in zip(before, after, strict=True)) and len(made) == 1
    torch.manual_seed(0)
    expected = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    for result in found:
        torch.testing.assert_close(result, expected(X))
    torch.testing.assert_close(module.state_dict(), expected.state_dict())
