"""Strides of gradients, which `.grad` shows: eager's, for operands of every layout."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F

PROGRAMS = {
    "cast": lambda x: x.double(),
    "cast and more": lambda x: x.double().sin() * 2,
    "cast down": lambda x: x.to(torch.bfloat16),
    "rot90": lambda x: torch.rot90(x, 1, (-2, -1)),
    "rot90 back": lambda x: torch.rot90(x.sin(), -1, (-2, -1)),
    "rot180": lambda x: torch.rot90(x, 2, (-2, -1)),
    "flip": lambda x: x.flip(-1),
    "cat": lambda x: torch.cat([x, x * 2], -1),
    "cat of one": lambda x: torch.cat([x], 0),
    "stack": lambda x: torch.stack([x, x.sin()], 0),
    "transposed": lambda x: x.transpose(-1, -2).exp(),
    "sum": lambda x: x.sum(-1),
    "contiguous": lambda x: x.contiguous().sin(),
    "part": lambda x: x[..., 1:] * 2,
    "expanded": lambda x: x.unsqueeze(0).expand(2, *x.shape).sin(),
    "softmax": lambda x: x.softmax(-1),
    "batch norm": lambda x: F.batch_norm(x.reshape(x.shape[0], -1), None, None, training=True),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
}
LAYOUTS = {
    "contiguous": lambda: torch.linspace(0, 1, 12).view(3, 4),
    "transposed": lambda: torch.linspace(0, 1, 12).view(4, 3).t(),
    "permuted": lambda: torch.linspace(0, 1, 24).view(2, 3, 4).permute(2, 0, 1),
}


@pytest.mark.parametrize("dimension", range(5))
def test_strides_of_images_put_side_by_side(dimension):
    """Of a stack of channels-last images, but for the last dimension, each image is channels-last."""
    x, y = (torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last) for _ in range(2))
    compiled = dynascope.compile(lambda *tensors: torch.stack(tensors, dimension))
    for tensors in ((x, y), (x, y.contiguous()), (x[:1], y[:1])):
        ours, theirs = compiled(*tensors), torch.stack(tensors, dimension)
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_of_the_gradient(name, layout, is_leaf):
    program = PROGRAMS[name]

    def gradient(function):
        leaf = LAYOUTS[layout]().requires_grad_()
        x = leaf if is_leaf else leaf * 1
        y = function(x)
        tangent = torch.linspace(0, 1, y.numel(), dtype=y.dtype).view(y.shape)
        return torch.autograd.grad(y, x, tangent)[0]

    ours, theirs = gradient(dynascope.compile(program)), gradient(program)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    assert ours.stride() == theirs.stride()
