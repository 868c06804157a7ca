"""A program seen with large sizes, called with small ones: what it clamps, refuses or does otherwise there is eager's."""

import dynascope
import pytest
import torch
import torch.nn.functional as F


def assigned(x):
    y = x.clone()
    y[5] = 1.0
    y[2:4] = torch.ones(2)
    return y


def nobody_reads(x):
    torch.ones(2, 3) @ x[:3]
    return x + 1


PROGRAMS = {
    "a size that a slice has cut": lambda x: x * x[:5].shape[0],
    "the parts of a slice": lambda x: x[:4].unbind()[3] * 2,
    "element": lambda x: x[5] * 2,
    "element from the end": lambda x: x[-6] * 2,
    "select": lambda x: x.select(0, 5) * 2,
    "slices": lambda x: x[2:7].sum() + x[-3:].mean() + x[1:-1].amax(),
    "narrow": lambda x: x.narrow(0, 2, 3) * 2,
    "expand": lambda x: x[:5].expand(2, 5) * 2,
    "assigned": assigned,
    "circular": lambda x: F.pad(x.view(1, 1, -1), (5, 5), mode="circular") * 2,
    "groups": lambda x: F.group_norm(x.view(1, -1, 1), 2) * 2,
    "three parts": lambda x: torch.stack([part.sum() for part in x.tensor_split(3)]),
    "windows": lambda x: x.unfold(0, 5, 1) * 2,
    "convolution": lambda x: F.conv1d(x.view(1, 1, -1), torch.ones(1, 1, 5)) * 2,
    "largest five": lambda x: x.topk(5)[0] * 2,
    "what nobody reads": nobody_reads,
}
LENGTHS = (12, 9, 8, 7, 6, 5, 4, 3, 2, 20)


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured(name):
    compare(name, "eager", LENGTHS, gradient=False)


@pytest.mark.compiler
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize("name", ["expand", "element", "assigned", "circular", "groups", "slices"])
def test_in_kernels(name, gradient):
    compare(name, "dynascope", (8, 4, 20), gradient)


@pytest.mark.compiler
def test_three_parts_of_as_many_rows_as_leave_another_remainder():
    compare("three parts", "dynascope", (4, 20), True)


def compare(name, backend, lengths, gradient):
    dynascope.reset()
    compiled = dynascope.compile(PROGRAMS[name], backend=backend, dynamic=True, options={"recompile_limit": 50})
    for length in lengths:
        values = torch.randn(length, generator=torch.Generator().manual_seed(length))
        with dynascope.expected("torch-call-fails", "program-raises", required=False):
            theirs, ours = (outcome(each, values.clone(), gradient) for each in (PROGRAMS[name], compiled))
        if isinstance(theirs, type) or isinstance(ours, type):
            assert ours is theirs, length
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4, msg=lambda text, at=length: f"{at}: {text}")


def outcome(function, x, gradient):
    x.requires_grad_(gradient)
    try:
        result = function(x)
    except dynascope.StrictError:
        raise
    except Exception as error:
        return type(error)
    if not (gradient and result.requires_grad):
        return result.detach(), None
    return result.detach(), torch.autograd.grad(result.square().sum(), x)[0]


def test_how_many_results_there_are_is_not_asked_where_it_is_always_the_same(monkeypatch):
    """Each question runs the graph at other sizes: with many numbers that vary this was most of the time."""
    from dynascope.capture.extents import Extents

    asked, keep = [], Extents._keep_above
    monkeypatch.setattr(Extents, "_keep_above", lambda self, node, read, found: asked.append(read) or keep(self, node, read, found))
    weight = torch.ones(4, requires_grad=True)

    @dynascope.compile(dynamic=True)
    def step(x):
        values, places = x.max(1)
        (gradient,) = torch.autograd.grad(((x * weight).sum(1) + values).square().mean(), weight)
        return gradient, places

    for rows in (5, 7):
        x = torch.randn(rows, 4)
        gradient, places = step(x)
        expected = torch.autograd.grad(((x * weight).sum(1) + x.max(1).values).square().mean(), weight)[0]
        torch.testing.assert_close(gradient, expected)
        assert torch.equal(places, x.argmax(1))
    assert len not in asked
