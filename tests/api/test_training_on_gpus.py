"""Whole training steps on a GPU against eager, with every optimizer of torch: their counters of steps are numbers on the CPU."""

import copy

import dynascope
import pytest
import torch
from torch import nn
from torch.optim import ASGD, SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop, Rprop

pytestmark = pytest.mark.gpu

OPTIMIZERS = {
    **{each.__name__: each for each in (SGD, Adam, AdamW, NAdam, RAdam, Adagrad, Adadelta, Adamax, RMSprop, Rprop, ASGD)},
    "SGD with momentum": lambda parameters, lr: SGD(parameters, lr, momentum=0.9, nesterov=True),
    "Adam, amsgrad": lambda parameters, lr: Adam(parameters, lr, amsgrad=True, weight_decay=0.01),
    "Adam, one by one": lambda parameters, lr: Adam(parameters, lr, foreach=False),
    "AdamW, capturable": lambda parameters, lr: AdamW(parameters, lr, capturable=True),
    "AdamW, fused": lambda parameters, lr: AdamW(parameters, lr, fused=True),
}


def trained(make, compile):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).cuda()
    optimizer = make(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    step = compile(step)
    losses = [step(torch.randn(6, 8, device="cuda")) for _ in range(5)]
    state = [each for key in optimizer.state for each in optimizer.state[key].values() if isinstance(each, torch.Tensor)]
    return [copy.copy(each.detach()) for each in (*losses, *model.parameters(), *state)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_eagers(name):
    expected = trained(OPTIMIZERS[name], lambda step: step)
    found = trained(OPTIMIZERS[name], dynascope.compile)
    for one, other in zip(found, expected, strict=True):
        assert one.device == other.device
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
