"""Losses, norms and activations that kernels take over from operators of the library: eager's values, gradients and strides."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F

GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.randn(4, 6, 5, 8, generator=GENERATOR), torch.randn(4, 6, 5, 8, generator=GENERATOR)
CLASSES = torch.randint(0, 6, (4, 5, 8), generator=GENERATOR)
CLASSES[0, 0, :3] = -100


def losses(x, y):
    logits, share = x * 2, y.sigmoid()
    return (
        F.smooth_l1_loss(x, y, beta=0.5), F.smooth_l1_loss(x, y, reduction="none"), F.huber_loss(x, y, delta=0.6, reduction="sum"),
        F.binary_cross_entropy_with_logits(logits, share), F.soft_margin_loss(x, y.detach().sign()),
        F.kl_div(x, y.softmax(1), reduction="batchmean"),
        F.binary_cross_entropy_with_logits(logits, share, pos_weight=torch.full((8,), 2.0, dtype=x.dtype), reduction="none"),
        F.cross_entropy(x, CLASSES), F.cross_entropy(x, CLASSES, reduction="none"), F.nll_loss(x.log_softmax(1), CLASSES, reduction="sum"),
    )  # fmt: skip


def norms(x, y):
    return (
        x.norm(dim=1), x.norm(), torch.linalg.vector_norm(x, 1, dim=(1, 3), keepdim=True), torch.linalg.vector_norm(x, torch.inf, dim=-1),
        torch.linalg.vector_norm(x, 3, dim=-1), x.norm(0, dim=-1), F.normalize(x, dim=1), torch.dist(x, y), *torch.std_mean(x, 1),
        torch.where(y > 1, torch.nan, x).nansum(1), torch.count_nonzero(x > 0, 1), F.cosine_similarity(x, y, dim=1),
    )  # fmt: skip


def activations(x, y):
    at = torch.linspace(-4, 4, 33).to(x.dtype) + x.sum() * 0  # what is at the bounds too
    made = [f(at) for f in (F.elu, F.celu, F.selu, F.hardshrink, F.softshrink, F.hardsigmoid, F.hardswish, F.logsigmoid, torch.sinc)]
    return (
        *made, F.glu(x, 1), F.glu(x), F.prelu(x, torch.full((6,), 0.2, dtype=x.dtype)), torch.logit(x.sigmoid()), torch.logit(x, 0.1),
        torch.special.entr(x), torch.deg2rad(x), torch.rad2deg(x), torch.xlogy(x, y.abs()), torch.special.xlog1py(x, y.abs()),
        torch.logaddexp(x, y), torch.logaddexp2(x, y), torch.heaviside(x.detach().round(), y.detach()),
        torch.isposinf(x / 0), torch.isneginf(x / 0),
        torch.xlogy(torch.zeros(2, dtype=x.dtype), torch.tensor([0.0, torch.nan], dtype=x.dtype)), F.pixel_shuffle(x[:, :4], 2),
        F.pad(x, (3, 2, 1, 4), mode="reflect"), F.pad(x, (3, 2, 1, 4), mode="replicate"),
    )  # fmt: skip


def seen(function, x, y):
    x, y = (each.clone(memory_format=torch.preserve_format).requires_grad_() for each in (x, y))
    results = function(x, y)
    outputs = [result for result in results if result.requires_grad]
    generator = torch.Generator().manual_seed(0)
    tangents = [torch.randn(output.shape, generator=generator).to(output.dtype) for output in outputs]
    return [*results, *(g for g in torch.autograd.grad(outputs, [x, y], tangents, allow_unused=True) if g is not None)]


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", [losses, norms, activations], ids=lambda each: each.__name__)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_they_are_eagers(function, dtype, layout):
    x, y = (each.to(dtype).contiguous(memory_format=layout) for each in (X, Y))
    tolerance = {"rtol": 2e-6, "atol": 3e-6} if dtype is torch.float32 else {"rtol": 4e-2, "atol": 7e-2}
    for ours, wanted in zip(seen(dynascope.compile(function), x, y), seen(function, x, y), strict=True):
        assert ours.stride() == wanted.stride() and ours.requires_grad == wanted.requires_grad
        torch.testing.assert_close(ours, wanted, equal_nan=True, **tolerance)


@pytest.mark.compiler
def test_of_halves_too_an_operator_may_stay_the_librarys():
    """Without a bound there is no formula here, in either pass."""

    def losses_without_a_bound(x, y):
        return torch.ops.aten.smooth_l1_loss(x, y, 0, 0.0), x * y

    x, y = X.bfloat16(), Y.bfloat16()
    for ours, wanted in zip(seen(dynascope.compile(losses_without_a_bound), x, y), seen(losses_without_a_bound, x, y), strict=True):
        torch.testing.assert_close(ours, wanted)


def test_where_two_operands_lie_differently_the_first_says_how_losses_lie():
    x, y = torch.linspace(-1, 1, 20).view(4, 5).t(), torch.linspace(1, -1, 20).view(5, 4)
    function = lambda x, y: F.soft_margin_loss(x, y, reduction="none")  # noqa: E731
    for operands in ((x, y), (y, x)):
        ours, wanted = dynascope.compile(function)(*operands), function(*operands)
        torch.testing.assert_close(ours, wanted)
        assert ours.stride() == wanted.stride()
