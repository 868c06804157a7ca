"""What came, went or changed from torch 2.11 to 2.15 and programs can see: each as eager has it, on the torch that runs."""

import dynascope
import pytest
import torch
import torch.nn.functional as F

pytestmark = [pytest.mark.may_break, pytest.mark.filterwarnings("ignore")]

X = torch.linspace(-1, 2, 16).view(4, 4)
POSITIVE = X @ X.T + 4 * torch.eye(4)
PICTURE = torch.linspace(0, 1, 192).view(1, 3, 8, 8)
WEIGHT, CLASSES = torch.linspace(0, 1, 40).view(10, 4), torch.tensor([1, 3, 5, 7])
KEY = torch.tensor([1, 2], dtype=torch.uint64)


class Scaled(torch.autograd.Function):
    """`apply` is a class method written in Python, and in C from 2.14 on."""

    @staticmethod
    def forward(x, factor=2.0):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


class InOtherType(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_output_grad_dtype(torch.float64)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        assert gradient.dtype is torch.float64
        return gradient.to(torch.float32) * 2


class LooksAtBuffers(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (2 if ctx.input_grad_buffers[0] is None else 3)


def sets_data(x):
    x = x * 1
    x.data = x.data + 1
    return x * 2


def draws_safely(x):
    with torch.thread_safe_generator():
        return x + torch.rand(4)


PROGRAMS = {
    "a custom function": (lambda x: Scaled.apply(x), X),
    "a custom function, its default": (lambda x: Scaled.apply(x, 3.0) + Scaled.apply(x), X),
    "a gradient of another type": (lambda x: InOtherType.apply(x), X),
    "buffers of gradients": (lambda x: x * 5 + LooksAtBuffers.apply(x), X),
    "data": (sets_data, X),
    "cholesky": (lambda x: torch.cholesky(x), POSITIVE),
    "cholesky method": (lambda x: x.cholesky(), POSITIVE),
    "qr": (lambda x: torch.qr(x), POSITIVE),
    "polar": (lambda x: torch.linalg.polar(x), POSITIVE),
    "square root": (lambda x: torch.linalg.matrix_sqrth(x), POSITIVE),
    "names": (lambda x: x.names, X),
    "rename": (lambda x: x.rename("a", "b") * 2, X),
    "align": (lambda x: x.align_to("a"), X),
    "broadcast_shapes": (lambda x: torch.broadcast_shapes((4, 1), (1, 3))[1] * x, X),
    "foreach clone": (lambda x: torch._foreach_clone([x, x + 1]), X),
    "foreach mm": (lambda x: torch._foreach_mm([x, x], [x + 1, x]), X),
    "lanczos": (lambda x: F.interpolate(x, scale_factor=0.5, mode="lanczos", antialias=True), PICTURE),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bicubic"), PICTURE),
    "linear cross entropy": (lambda x: F.linear_cross_entropy(x, WEIGHT, CLASSES), X),
    "chunked": (lambda x: F.linear_cross_entropy(x, WEIGHT, CLASSES, options=torch.nn.LinearCrossEntropyOptions()), X),
    "keyed numbers": (lambda x: x + torch._philox_uniform_(torch.empty(4, 4), KEY), X),
    "safe numbers": (draws_safely, X),
    "pool of norm 0": (lambda x: F.lp_pool1d(x, 0.0, 2), X),
    "unravel": (lambda x: torch.unravel_index(torch.tensor([3, 5]), (0, 3)), X),
    "pairwise distance": (lambda x: torch.cdist(x, x + 1), X),
    "attention in groups": (lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], enable_gqa=True), X),
    "unpool": (lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), PICTURE),
    "decorated": (torch.no_grad()(lambda x: x * 2), X),
}  # fmt: skip


def outcome(function, given):
    """Results and gradients, or the error."""
    torch.manual_seed(0)
    leaf = given.clone().requires_grad_()
    try:
        result = function(leaf * 1)
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        tracked = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
        gradient = torch.autograd.grad([each.sum() for each in tracked], leaf) if tracked else ()
    except Exception as error:
        return type(error), str(error)
    return [*results, *gradient, torch.rand(1)]


@pytest.mark.compiler
@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name, backend):
    program, given = PROGRAMS[name]
    compiled = dynascope.compile(program, backend=backend)
    for _ in range(2):
        expected, found = outcome(program, given), outcome(compiled, given)
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            if isinstance(theirs, torch.Tensor):
                torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
            else:
                assert ours == theirs
