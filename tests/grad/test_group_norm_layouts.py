"""Group norm of images that lie channels last: the CPU's results and gradients stay so."""

import dynascope
import pytest
import torch
from torch import nn
from torch.nn import functional

IMAGES = {
    "channels last": lambda: torch.randn(2, 4, 4, 6).to(memory_format=torch.channels_last),
    "one image": lambda: torch.randn(1, 4, 4, 4).to(memory_format=torch.channels_last),
    "volumes": lambda: torch.randn(2, 4, 3, 4, 6).to(memory_format=torch.channels_last_3d),
    "every second row": lambda: torch.randn(2, 4, 8, 6).to(memory_format=torch.channels_last)[:, :, ::2],
    "turned": lambda: torch.randn(2, 4, 6, 4).transpose(2, 3),
    "contiguous": lambda: torch.randn(2, 4, 4, 6),
    "rows": lambda: torch.randn(2, 6, 4).transpose(1, 2),
}


def strides(tensor):
    """Those of dimensions of one element say nothing."""
    return [stride for stride, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


@pytest.mark.turns(6)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", IMAGES)
def test_results_and_gradients_lie_as_eagers(name, dynamic):
    torch.manual_seed(0)
    norm = nn.GroupNorm(2, 4)
    compiled = dynascope.compile(lambda x: (norm(x), functional.group_norm(x.sin(), 2)), dynamic=dynamic)
    for images in (IMAGES[name](), torch.cat([IMAGES[name]()] * 2)):
        found = []
        for function in (compiled.__wrapped__, compiled):
            norm.zero_grad()
            x = images.detach().requires_grad_()
            results = function(x)
            torch.autograd.backward(results, [(each.detach() * 2).cos() for each in results])
            found.append((*results, x.grad, norm.weight.grad, norm.bias.grad))
        for ours, theirs in zip(*found[::-1], strict=True):
            assert strides(ours) == strides(theirs)
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_gradients_of_the_weights_alone():
    """Eager's own kernel ends the process here (torch 2.13), so the numbers are those of contiguous images."""
    norm, images = nn.GroupNorm(2, 4), torch.randn(2, 4, 4, 6)
    expected = torch.autograd.grad(norm(images).square().sum(), list(norm.parameters()))
    compiled = dynascope.compile(norm)
    found = torch.autograd.grad(
        compiled(images.to(memory_format=torch.channels_last)).square().sum(), list(norm.parameters())
    )
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)
