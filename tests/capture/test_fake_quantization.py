"""Training with fake quantisation: one graph each, with eager's values, masks, gradients, layouts and statistics."""

import dynascope
import pytest
import torch
import torch.ao.quantization as quantization
from torch import nn

FUNCTIONS = {
    "per tensor": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x * 2, 0.1, 0, -8, 7) * 3,
    "of tensors": lambda x, s, z: torch.fake_quantize_per_tensor_affine(x * 2, s.detach()[0], z.detach()[0].int(), -8, 7) * 3,
    "per channel": lambda x, s, z: torch.fake_quantize_per_channel_affine(x * 2, s.detach(), z.detach().int(), 1, -8, 7) * 3,
    "learnt": lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x * 2, s[:1], z[:1], -8, 7, 1.0) * 3,
    "learnt per channel": lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x * 2, s, z, 1, -8, 7, 1.0) * 3,
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_gradients_and_layouts(name, backend, turned):
    function = FUNCTIONS[name]
    whole = dynascope.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        found = []
        for call in (function, whole):
            torch.manual_seed(0)
            x = torch.randn(3, 3, 4)
            x = (x.transpose(0, 2) if turned else x).requires_grad_()
            scale, zero = torch.full((3,), 0.1, requires_grad=True), torch.zeros(3, requires_grad=True)
            result = call(x, scale, zero)
            result.square().sum().backward()
            found.append((result, x.grad, scale.grad, zero.grad))
        for expected, actual in zip(*found, strict=True):
            torch.testing.assert_close(actual, expected)
            assert expected is None or actual.stride() == expected.stride()


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_statistics_that_the_first_call_makes_larger(backend):
    def step(x, least, most, scale, zero):
        on = torch.ones(1, dtype=torch.long)
        return torch.fused_moving_avg_obs_fake_quant(x * 2, on, on, least, most, scale, zero, 0.01, -8, 7, 0, True, True) + 1

    def statistics():
        return torch.empty(0), torch.empty(0), torch.ones(1), torch.zeros(1, dtype=torch.int32)

    dispatch = dynascope.compile(step, backend=backend)
    expected, found = statistics(), statistics()
    for at in range(3):
        x = torch.randn(4, 3)
        wanted = step(x, *expected)
        if at == 0:
            with dynascope.expected("foreign-call"):
                torch.testing.assert_close(dispatch(x, *found), wanted)
        else:
            torch.testing.assert_close(dispatch(x, *found), wanted)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_quantisation_aware_training(backend):
    def trained(compile):
        torch.manual_seed(0)
        layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()]
        model = nn.Sequential(quantization.QuantStub(), *layers, quantization.DeQuantStub(), nn.Flatten(), nn.Linear(144, 2))
        model.qconfig = quantization.get_default_qat_qconfig("fbgemm")
        model = quantization.prepare_qat(quantization.fuse_modules_qat(model.train(), [["1", "2", "3"]]))
        call, optimizer, losses = compile(model), torch.optim.SGD(model.parameters(), 0.01), []
        for at in range(3):
            torch.manual_seed(at)
            loss = nn.functional.cross_entropy(call(torch.randn(2, 3, 8, 8)), torch.tensor([0, 1]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return [*losses, *model.parameters(), *model.buffers()]

    expected = trained(lambda model: model)
    found = trained(lambda model: dynascope.compile(model, backend=backend))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
