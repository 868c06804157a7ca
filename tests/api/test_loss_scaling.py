"""A training step with a loss scaler, against eager: gradients that overflow, the scale that follows, and the step left out."""

import dynascope
import pytest
import torch
from dynascope.recording import Recorder, use
from torch import nn
from torch.optim import SGD, Adam, AdamW

DEVICES = [pytest.param("cpu", marks=pytest.mark.compiler), pytest.param("cuda", marks=pytest.mark.gpu)]
LOWER = {"cpu": torch.bfloat16, "cuda": torch.float16}
OPTIMIZERS = {
    "SGD": lambda parameters: SGD(parameters, 0.01, momentum=0.9),
    "SGD, fused": lambda parameters: SGD(parameters, 0.01, momentum=0.9, fused=True),
    "AdamW": lambda parameters: AdamW(parameters, 0.01),
    "AdamW, fused": lambda parameters: AdamW(parameters, 0.01, fused=True),
    "Adam, fused, amsgrad": lambda parameters: Adam(parameters, 0.01, fused=True, amsgrad=True, maximize=True),
}


def trained(make, compile, device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to(device)
    optimizer = make(model.parameters())
    scaler = torch.amp.GradScaler(device, init_scale=2.0**10, growth_interval=2)

    def step(x, factor):
        optimizer.zero_grad()
        with torch.autocast(device, LOWER[device]):
            loss = (model(x) * factor).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    step = compile(step)
    losses = [step(torch.randn(6, 8, device=device), factor) for factor in (1.0, 2.0, float("inf"), 1.0, 2.0, 1.0)]
    state = [each for kept in optimizer.state.values() for each in kept.values() if isinstance(each, torch.Tensor)]
    return [each.detach().clone() for each in (*losses, *model.parameters(), *state)], scaler.state_dict()


@pytest.mark.turns(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_scaled_step_is_eagers(name, device):
    expected, scale = trained(OPTIMIZERS[name], lambda step: step, device)
    recorder = Recorder()
    before = use(recorder)
    try:
        with dynascope.expected("data-dependent-value", "data-dependent-branch", required=False):
            found, found_scale = trained(OPTIMIZERS[name], dynascope.compile, device)
    finally:
        use(before)
    assert found_scale == scale and scale["scale"] != 2.0**10
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3, equal_nan=True)
    assert all(graph.kernels for graph in recorder.report().graphs)
