"""Views that no history leads to: under no_grad and inference_mode they say that they require grad where what they show does,
and not where it was detached in between."""

from __future__ import annotations

import dynascope
import pytest
import torch

PROGRAMS = {
    "view": lambda x: x.t(),
    "detached, then viewed": lambda x: x.detach().t(),
    "detached, and a view of that": lambda x: (x.detach(), x.detach().view(-1)),
    "computed, then viewed": lambda x: (x * 2).t(),
    "view of a view": lambda x: (x, x.view(-1), x.view(-1)[1:]),
    "viewed, then detached": lambda x: (x.t().detach(), x.data.t()),
    "pieces": lambda x: x.split(1),
    "pieces of what was detached": lambda x: x.detach().unbind(),
    "written, then viewed": lambda x: (x.add_(1), x.t()),
    "written through detached views": lambda x: [x.detach().t().mul_(3), x.t()],
    "one memory twice": lambda x: (x.contiguous(), x.detach().contiguous()),
    "repeated": lambda x: (x.detach().expand(2, 3, 2), x.detach()[:, :1].squeeze()),
}
MODES = {
    "inference": (torch.inference_mode, torch.no_grad),
    "inference, gradients switched on": (torch.inference_mode, torch.enable_grad),
    "no gradients": (torch.no_grad, torch.no_grad),
}


def facts(result):
    tensors = result if isinstance(result, (list, tuple)) else (result,)
    return [(t.requires_grad, t.is_leaf, t.grad_fn is None, t.is_inference(), t.shape, t.stride()) for t in tensors]


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_views_say_that_they_require_grad_as_in_eager(name, mode, requires_grad):
    outer, inner = MODES[mode]

    def program(x):
        with inner():
            return PROGRAMS[name](x)

    found = []
    for function in (program, dynascope.compile(program)):
        x = torch.ones(3, 2, requires_grad=requires_grad)
        with outer():
            result = function(x)
        found.append((facts(result), facts(x), x._version))
    assert found[0] == found[1]


def unrecorded_view_of_a_computed_tensor(x):
    y = x.flip(0)
    with torch.no_grad():
        view = y.t()
    return view.clone() * 2


@pytest.mark.expects("output-alias")
def test_a_history_that_leads_nowhere_is_one():
    """Eager's result requires grad, and its backward pass gives nobody a gradient: no error, and none."""
    for function in (unrecorded_view_of_a_computed_tensor, dynascope.compile(unrecorded_view_of_a_computed_tensor)):
        x = torch.ones(2, 3, requires_grad=True)
        result = function(x)
        assert result.requires_grad and not result.is_leaf
        result.sum().backward()
        assert x.grad is None
