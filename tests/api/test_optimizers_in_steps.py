"""Whole training steps against eager, with every optimizer of torch. On a GPU their counters of steps are numbers on the CPU."""

import copy

import dynascope
import pytest
import torch
from dynascope.recording import Recorder, use
from torch import nn
from torch.optim import ASGD, SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, NAdam, RAdam, RMSprop, Rprop

DEVICES = [pytest.param("cpu", marks=pytest.mark.compiler), pytest.param("cuda", marks=pytest.mark.gpu)]
OPTIMIZERS = {
    **{each.__name__: each for each in (SGD, Adam, AdamW, NAdam, RAdam, Adagrad, Adadelta, Adamax, RMSprop, Rprop, ASGD)},
    "SGD with momentum": lambda parameters, lr: SGD(parameters, lr, momentum=0.9, nesterov=True),
    "Adam, amsgrad": lambda parameters, lr: Adam(parameters, lr, amsgrad=True, weight_decay=0.01),
    "Adam, one by one": lambda parameters, lr: Adam(parameters, lr, foreach=False),
    "AdamW, by lists": lambda parameters, lr: AdamW(parameters, lr, foreach=True),
    "AdamW, capturable": lambda parameters, lr: AdamW(parameters, lr, capturable=True),
    "AdamW, fused": lambda parameters, lr: AdamW(parameters, lr, fused=True),
    "Adam, fused, amsgrad": lambda parameters, lr: Adam(parameters, lr, fused=True, amsgrad=True, weight_decay=0.1),
    "SGD, fused": lambda parameters, lr: SGD(parameters, lr, weight_decay=0.1, fused=True),
    "SGD, fused, with momentum": lambda parameters, lr: SGD(parameters, lr, momentum=0.9, dampening=0.2, fused=True),
    "SGD, fused, nesterov": lambda parameters, lr: SGD(parameters, lr, momentum=0.9, nesterov=True, maximize=True, fused=True),
    "Adagrad, fused": lambda parameters, lr: Adagrad(parameters, lr, lr_decay=0.3, weight_decay=0.1, fused=True),
    "AdamW, fused, a rate in a tensor": lambda parameters, lr: AdamW(parameters, torch.tensor(lr), fused=True),
    "Adam, fused, a rate in a tensor": lambda parameters, lr: Adam(parameters, torch.tensor(lr), fused=True, weight_decay=0.1),
    "SGD, fused, a rate in a tensor": lambda parameters, lr: SGD(parameters, torch.tensor(lr), momentum=0.9, fused=True),
    "Adam, fused, maximize": lambda parameters, lr: Adam(parameters, lr, fused=True, maximize=True),
}


BREAKS = ("disabled-function", "data-dependent-branch", "data-dependent-value")
KEPT_OUT = {"ASGD": BREAKS, "RAdam": BREAKS}
"""PyTorch keeps their steps out of compiled code, or they decide by how many steps were made."""


def trained(make, compile, device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4)).to(device)
    optimizer = make(model.parameters(), lr=0.01)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    step = compile(step)
    losses = [step(torch.randn(6, 8, device=device)) for _ in range(5)]
    state = [each for key in optimizer.state for each in optimizer.state[key].values() if isinstance(each, torch.Tensor)]
    return [copy.copy(each.detach()) for each in (*losses, *model.parameters(), *state)]


@pytest.mark.turns(6)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_eagers(name, device):
    if device == "cpu" and name == "AdamW, capturable":
        pytest.skip("torch has it for accelerators alone")
    if device == "cuda" and name == "Adagrad, fused":
        pytest.skip("not every torch has it for GPUs")
    expected = trained(OPTIMIZERS[name], lambda step: step, device)
    with dynascope.expected(*KEPT_OUT.get(name, ()), required=False):
        found = trained(OPTIMIZERS[name], dynascope.compile, device)
    for one, other in zip(found, expected, strict=True):
        assert one.device == other.device
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [SGD, Adam, AdamW, Adagrad, Adadelta, Adamax, NAdam, RMSprop, Rprop])
def test_parameters_of_complex_numbers(make):
    """Optimizers write to their parts."""

    def stepped(compile):
        torch.manual_seed(0)
        parameters = [torch.randn(size, dtype=torch.complex64, requires_grad=True) for size in ((3, 4), (), (5,))]
        parameters[0] = parameters[0].detach().t().requires_grad_()
        optimizer = make(parameters, lr=0.1)
        step = compile(lambda: optimizer.step())
        for _ in range(3):
            optimizer.zero_grad()
            sum((each - 0.3j).abs().square().sum() for each in parameters).backward()
            step()
        return [each.detach() for each in parameters]

    torch.testing.assert_close(stepped(dynascope.compile), stepped(lambda step: step))


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: SGD(parameters, 0.1, momentum=0.9, weight_decay=0.1, foreach=True),
        lambda parameters: AdamW(parameters, 0.1, foreach=True),
        lambda parameters: Adadelta(parameters, 0.1, foreach=True),
        lambda parameters: RMSprop(parameters, 0.1, momentum=0.9, foreach=True),
        lambda parameters: NAdam(parameters, 0.1, weight_decay=0.1, decoupled_weight_decay=True, foreach=True),
    ],
)
def test_a_rate_that_changes_is_no_constant(make):
    """Lists of tensors that are written are given back: that says nothing of the numbers that they are written with."""
    parameters = [[nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 3))] for _ in range(2)]
    mine, theirs = map(make, parameters)
    step = dynascope.compile(lambda: mine.step(), backend="eager")
    recorder = Recorder()
    before = use(recorder)
    try:
        for at in range(6):
            for optimizer, run in ((mine, step), (theirs, theirs.step)):
                for group in optimizer.param_groups:
                    group["lr"] = 0.1 / (at + 1)
                    for each in group["params"]:
                        each.grad = torch.full_like(each, at - 2.5)
                run()
            torch.testing.assert_close(*parameters)
    finally:
        use(before)
    assert len(recorder.report().graphs) <= 3


@pytest.mark.parametrize("device", DEVICES)
def test_a_fused_step_of_halves(device):
    def of_halves(parameters, lr):
        parameters = list(parameters)
        for parameter in parameters:
            parameter.data = parameter.data.bfloat16()
        return AdamW(parameters, lr, fused=True)

    def trained_once(compile):
        torch.manual_seed(0)
        model = nn.Linear(8, 4).to(device)
        optimizer = of_halves(model.parameters(), 0.1)

        def step(x):
            model(x).square().mean().backward()
            optimizer.step()

        compile(step)(torch.randn(6, 8, device=device, dtype=torch.bfloat16))
        return [each.detach() for each in (*model.parameters(), *(v for s in optimizer.state.values() for v in s.values()))]

    for one, other in zip(trained_once(dynascope.compile), trained_once(lambda step: step), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-2, atol=1e-3)
