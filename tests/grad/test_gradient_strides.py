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
    "one part": lambda x: torch.split(x, x.shape[0])[0],
    "whole slice": lambda x: torch.ops.aten.slice(x, 0, 0, x.shape[0]),
    "product": lambda x: (x + 1).prod(),
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


@pytest.mark.parametrize("sizes", [(0, 3, 4, 5), (2, 3, 4, 5)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_strides_of_convolutions_of_nothing(sizes, channels_last):
    like = torch.channels_last if channels_last else torch.contiguous_format
    x = torch.ones(sizes).contiguous(memory_format=like)
    weight = torch.ones(2, 3, 3, 3).contiguous(memory_format=like)
    ours, theirs = (f(x, weight) for f in (dynascope.compile(_convolved), _convolved))
    assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def _convolved(x, weight):
    return F.conv2d(x, weight, padding=1)


def test_what_holds_nothing_is_joined_with_anything():
    """A tensor of the one size 0 is left out; another of no elements must fit."""
    x = torch.ones(2, 3)
    for others in ((torch.empty(0),), (torch.empty(0), torch.empty(0)), (x, torch.empty(0)), (torch.empty(0, 3), x)):
        ours, theirs = dynascope.compile(_joined)(*others), _joined(*others)
        assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype
    with pytest.raises(RuntimeError, match="must match"):
        dynascope.compile(_joined)(x, torch.ones(2, 4))


def _joined(*tensors):
    return torch.cat(tensors) * 2


@pytest.mark.turns(6)
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


@pytest.mark.parametrize(
    "function",
    [torch.linalg.householder_product, torch.orgqr, lambda a, t: torch.ormqr(a[:, : len(t)], t, torch.eye(4))],
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_gradients_of_reflectors(function, is_transposed):
    """Written into zeros that are laid out as the operand, or not there where there is no reflector."""

    def gradients(called, reflectors):
        torch.manual_seed(0)
        a, scales = torch.randn(4, 4), torch.rand(reflectors).requires_grad_()
        a = (a.mT if is_transposed else a).requires_grad_()
        return torch.autograd.grad(called(a, scales).sum(), (a, scales), allow_unused=True)

    for reflectors in (4, 2, 0):
        for ours, theirs in zip(
            gradients(dynascope.compile(function), reflectors), gradients(function, reflectors), strict=True
        ):
            assert (ours is None) == (theirs is None)
            if theirs is not None:
                torch.testing.assert_close(ours, theirs)
                assert ours.stride() == theirs.stride()


def test_batch_norm_that_says_what_it_keeps_in_half_numbers():
    """On the CPU the statistics have the parameters' type."""

    def program(x, weight, mean, variance):
        return torch.ops.aten._batch_norm_with_update(x, weight, weight, mean, variance, 0.1, 1e-5)

    found = []
    for function in (program, dynascope.compile(program)):
        x = torch.linspace(-1, 1, 24).view(2, 3, 4).bfloat16().requires_grad_()
        results = function(x, *(torch.ones(3, dtype=torch.bfloat16) for _ in range(3)))
        (gradient,) = torch.autograd.grad(results[0].square().sum(), x)
        found.append((*results, gradient))
    for theirs, ours in zip(*found, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_gradient_of_one_element(name, layout):
    """Zeros but where the elements stand; also where none equals it any more, because it was changed through `.data`."""

    def program(x):
        y, z = getattr(x, name)(), getattr(torch, name)(x)
        z.data.mul_(0.5)
        return y, z

    found = []
    for function in (program, dynascope.compile(program)):
        x = LAYOUTS[layout]().requires_grad_()
        found.append([torch.autograd.grad(y, x, retain_graph=True)[0] for y in function(x)])
    for theirs, ours in zip(*found, strict=True):
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def test_a_tangent_in_another_order_that_nothing_leads_through():
    """The write goes to a view in another order of memory than its tangent."""

    def program(x):
        y = torch.empty_strided((2, 3), (1, 2)).fill_(2)
        z = y.unsqueeze(0)
        z.index_put_((torch.tensor([0, 0]),), x, accumulate=True)
        return z, y

    found = []
    for function in (program, dynascope.compile(program)):
        x = torch.ones(1, 3, requires_grad=True)
        y, _ = function(x)
        found.append(torch.autograd.grad(y, x, torch.arange(6.0).view(1, 2, 3))[0])
    assert torch.equal(*found)


@pytest.mark.parametrize("is_leaf", [True, False])
def test_views_of_what_is_detached_without_gradients(is_leaf):
    leaf = torch.ones(3, 5, requires_grad=True)
    x = leaf if is_leaf else leaf[2:]

    def program(x):
        y = x.detach()
        return y.expand(x.shape), y, x.detach()[0:]

    with torch.no_grad():
        ours, theirs = dynascope.compile(program)(x), program(x)
    assert [each.requires_grad for each in ours] == [each.requires_grad for each in theirs]


def test_the_name_of_an_activation_is_torch_s():
    """What eager keeps of it is found by its name."""

    def program(x):
        y = torch.nn.functional.silu(x)
        return y, torch.complex(y, y * y)

    found = []
    for function in (program, dynascope.compile(program)):
        x = torch.ones(3, requires_grad=True)
        y, z = function(x)
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="inplace") as raised:
            z.abs().sum().backward()
        found.append(str(raised.value).partition("is at version")[0])
    assert found[0] == found[1]


@pytest.mark.parametrize("sizes", [((2, 0, 4), (5, 0, 2)), ((0, 3, 4), (5, 3, 2)), ((2, 0, 4, 4), (5, 0, 2, 2))], ids=str)
def test_convolutions_of_no_channels(sizes):
    """torch gives no channels then, whatever the weight says."""
    convolve = F.conv1d if len(sizes[0]) == 3 else F.conv2d

    def run(function):
        x, weight = (torch.ones(each, requires_grad=True) for each in sizes)
        result = function(x, weight)
        result.sum().backward()
        return result, x.grad, weight.grad

    compiled = dynascope.compile(lambda x, weight: convolve(x, weight))
    for ours, theirs in zip(run(compiled), run(convolve), strict=True):
        assert (ours.shape, ours.stride()) == (theirs.shape, theirs.stride())
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("kind", ["as it is", "transposed in place", "channels last", "part of another"])
def test_strides_behind_an_input_that_is_written(kind):
    """What the input held before has no part in the gradient, not even as zeros that lie otherwise."""

    def program(x):
        x.mul_(2)
        return x + 1

    def strides(function):
        leaf = torch.linspace(0, 1, 24).view(1, 4, 3, 2).requires_grad_()
        x = leaf.transpose(1, 3) * 3
        if kind == "transposed in place":
            x = (leaf * 3).transpose_(1, 3)
        if kind == "channels last":
            x = (leaf * 3).contiguous(memory_format=torch.channels_last)
        if kind == "part of another":
            x = x[:, 1:]
        seen = []
        if not x._is_view():
            x.register_hook(lambda gradient: seen.append(gradient.stride()))
        version = x._version
        y = function(x)
        (gradient,) = torch.autograd.grad(y, leaf, torch.full_like(y, 2))
        return gradient.tolist(), gradient.stride(), seen, x._version - version, x.tolist()

    assert strides(dynascope.compile(program)) == strides(program)
