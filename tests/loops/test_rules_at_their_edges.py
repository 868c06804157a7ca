"""Operators that become loops, with the arguments at which their rules part: offsets and paddings to either side, nothing to do,
scalars, holes in memory, numbers that a type cannot hold. The results, their dtypes and their strides are eager's."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ExternCall
from recording import record

torch.manual_seed(0)

X = torch.randn(4, 5)
CUBE = torch.randn(2, 3, 4)
NUMBERS = torch.tensor([-(2**31), -7, -1, 0, 1, 5, 2**31 - 1], dtype=torch.int32)
PLACES = torch.tensor([3, 0, 3, 1])

GROUPS = {
    "paddings": (
        lambda x: (
            F.pad(x, (1, 0)), F.pad(x, (0, 2)), F.pad(x, (0, 0, 3, 0)), F.pad(x, (2, 1, 0, 1), value=7.5), F.pad(x, (-1, 2)),
            F.pad(x, (-2, -1, 1, -2), value=-1.0), F.pad(x, (0, 0), value=2.0), F.pad(x, (1, 1, 1, 1), value=float("-inf")),
        ),
        (X,),
    ),
    "joined": (
        lambda x: (
            torch.cat([x, x * 2]), torch.cat([x, x[:, :1], x[:, 1:3] + 1], -1), torch.cat([x, x[:0], x], 0), torch.cat([x.int(), x]),
            torch.cat([torch.ones(0), x]), torch.stack([x, x + 1], 2), torch.cat([x[:1]] * 3),
        ),
        (X,),
    ),
    "diagonals": (
        lambda x: (
            x.diagonal() * 1, x.diagonal(1) * 1, x.diagonal(-2) * 1, x.diagonal(4) + 1, x.diagonal(-3) + 1, x.t().diagonal(1) * 2,
            x.tril(), x.tril(1), x.tril(-2), x.triu(), x.triu(3), x.triu(-1), x.tril(-9), x.triu(9),
        ),
        (X,),
    ),
    "diagonals of three dimensions": (
        lambda x: (x.diagonal(0, 1, 2) * 1, x.diagonal(1, 2, 0) * 1, x.diagonal(-1, -1, 0) * 2, x.diagonal(2, 0, -1) + 1),
        (CUBE,),
    ),
    "rearranged": (
        lambda x: (
            x.flip(0), x.flip(-1), x.flip(0, 2), x.flip(()), x.roll(1), x.roll(-1, 0), x.roll((2, -3), (1, 2)), x.roll(7, 2),
            x.repeat(2, 1, 3),
            x.repeat(2, 1, 1, 2), x.permute(2, 0, 1).reshape(4, 6), x.transpose(0, 1).reshape(-1), x.transpose(1, 2).reshape(2, 2, 6),
            x.unfold(2, 2, 1) * 1, x.unfold(1, 3, 2) * 1, x.repeat_interleave(2, 1), x.movedim(0, 2).contiguous(), x.select(1, -1) * 1,
        ),
        (CUBE,),
    ),
    "borders": (
        lambda x: (
            *(F.pad(x, (2, 1), mode=mode) for mode in ("reflect", "replicate")), F.pad(x, (0, 3), mode="reflect"),
            *(F.pad(x[None], (3, 0, 1, 2), mode=mode) for mode in ("reflect", "replicate")),
            *(F.pad(x[None, None], (3, 1, 0, 2, 1, 1), mode=mode) for mode in ("reflect", "replicate")),
            torch.ops.aten.reflection_pad1d_backward(F.pad(x, (2, 3)), x, [2, 3]),
            torch.ops.aten.reflection_pad2d_backward(F.pad(x, (3, 2, 0, 2)), x, [3, 2, 0, 2]),
            torch.ops.aten.reflection_pad3d_backward(F.pad(x[None], (0, 3, 1, 2, 1, 1)), x[None], [0, 3, 1, 2, 1, 1]),
        ),
        (CUBE,),
    ),
    "shuffled": (
        lambda x: (
            F.pixel_shuffle(x.reshape(2, 12, 1, 1), 2), F.pixel_shuffle(x.repeat(2, 3, 1)[:, :9, :, None], 3),
            F.pixel_unshuffle(x.reshape(2, 6, 2), 2),
            F.channel_shuffle(x.reshape(2, 6, 2), 3), F.channel_shuffle(x.reshape(1, 12, 1, 2), 2),
        ),
        (CUBE,),
    ),
    "parts": (
        lambda x: (
            *(part * 2 for part in x.split(2, 1)), *(part * 2 for part in x.split((1, 3, 1), -1)), *(part + 1 for part in x.chunk(3)),
            *(part + 1 for part in x.tensor_split(3, 1)), *(part + 1 for part in x.unbind(1)), x[1:-1, ::2] * 2, x[-3:, -2] * 2, x[5:] * 2,
            x.narrow(1, -2, 2) * 3, x.select_scatter(x[0], 0, -1), x.slice_scatter(x[:2, :], 0, 1, 4, 2), x.slice_scatter(x[:, :2], 1, -2),
        ),
        (X,),
    ),
    "read at places": (
        lambda x, at: (
            x[at], x[:, at], x[at, at], x[at[:, None], at], x[at - 4], x.index_select(0, at), x.index_select(-1, at),
            x.gather(0, at[None] % 4),
            x.gather(1, at[:, None] - at[:, None] % 2), F.embedding(at, x), F.embedding(at[:, None], x), x.take(at),
            x.index_select(1, at[:0]),
            x.t()[at], x[None][0, at], x[at, 1:3], x[2, at],
        ),
        (X, PLACES),
    ),
    "written at places": (
        lambda x, at: (
            x.index_add(0, at, x), x.index_add(1, at, x[:, :4], alpha=2), x.index_copy(1, at[:2], x[:, :2]), x.index_put((at,), x[0]),
            x.index_put((at, at), x[0, :4], accumulate=True), x.index_fill(0, at[:2], 3.0), x.scatter(0, at[None] % 4, 2.0),
            x.scatter(1, at[:, None], x[:, :1] + 1), x.scatter_add(0, at[None].expand(4, 4) % 4, x[:, :4] + 1),
            x.t().index_add(1, at, x.t()),
            (x > 0).index_put((at,), x[0] > 0), x[1:].index_put((at[1:2],), x[0]), x.double().index_add(0, at, x.double()),
        ),
        (X, PLACES),
    ),
    "shifts and bits": (
        lambda n: (
            n << 1, n >> 1, n << 30, n >> 30, n >> 31, n << 0, n >> 0, n >> 40, torch.bitwise_left_shift(n, n % 5), n.to(torch.uint8) >> 7,
            n.to(torch.uint8) << 6, n.long() << 33, n.long() >> 62, n.to(torch.int8) << 6, n & 6, n | -8, n ^ 1, ~n, (n > 0) & (n < 5),
            (n > 0) ^ (n < 5),
        ),
        (NUMBERS,),
    ),
    "whole numbers divided": (
        lambda n: (
            n // 3, n // -3, n % 3, n % -3, torch.fmod(n, 3), torch.fmod(n, -3), torch.div(n, 4, rounding_mode="trunc"), n / 4,
            n.float() // -2,
            torch.div(n.float(), 0.7, rounding_mode="floor"), n.float() % -2.5, torch.remainder(7, n | 1), torch.floor_divide(7, n | 1),
            n.abs(), -n, n.sign(), n * n, n.clamp(-1, 1), n.clamp(min=2), n.clamp(max=-2),
        ),
        (NUMBERS[1:],),
    ),
    "steps": (
        lambda x: (
            F.threshold(x, 0.1, 20.0), F.threshold((x * 4).int(), 1, -3), F.hardtanh(x, -0.5, 0.25), F.relu6(x * 9), F.leaky_relu(x, 0.3),
            F.elu(x, 0.7),
            F.celu(x, 1.3), F.selu(x), F.hardsigmoid(x * 4), F.hardswish(x * 4), F.softshrink(x, 0.3), F.hardshrink(x, 0.3),
            F.softplus(x, 2, 1), F.logsigmoid(x),
            F.gelu(x), F.gelu(x, approximate="tanh"), F.silu(x), F.mish(x), torch.where(x > 0, x, 2), torch.heaviside(x.round(), x),
            torch.copysign(x, -x * 0),
            torch.lerp(x, x * 2, 0.4), torch.lerp(x, x * 2, 0.6), torch.addcmul(x, x, x, value=0.5), torch.addcdiv(x, x, x + 9, value=-2),
            torch.rsub(x, 3, alpha=2),
        ),
        (X,),
    ),
    "numbers at their ends": (
        lambda x: (
            x.round(), x.trunc(), x.frac(), x.sign(), x.isnan(), x.isinf(), x.nan_to_num(), x.nan_to_num(1.0, 2.0, -3.0),
            torch.maximum(x, x.flip(0)), torch.minimum(x, x.flip(0)),
            torch.fmax(x, x.flip(0)), torch.fmin(x, x.flip(0)), x.clamp(-1, 1), x.clamp(min=0.5), x > 0, x == x, x != x, x <= 0.5,
            x.logical_not(), x.bool(), x.signbit(), x.relu(),
            torch.logaddexp(x, x), torch.xlogy(x, x), x.sgn(), x.pow(2), x.pow(-1), x.pow(0.5), x.pow(3), x.pow(-2), x.pow(0), x.sqrt(),
            x.rsqrt(), torch.hypot(x, x), x.square(),
        ),
        (torch.tensor([0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, float("inf"), -float("inf"), float("nan"), 1e-40, 3e38]),),
    ),
    "reduced": (
        lambda x: (
            x.sum(), x.sum(0), x.sum((0, 2)), x.sum(-1, keepdim=True), x.mean(1), x.mean(), x.amax(0), x.amin((1, 2)), x.max(1),
            x.min(-1, keepdim=True), x.argmax(), x.argmin(0),
            x.argmax(2, keepdim=True), x.prod(1), x.var(0), x.var((0, 1), correction=0), x.std(2, keepdim=True), x.all(0), x.any(),
            (x > 0).sum(1), (x > 9).any(2), x.norm(), x.norm(1, 0), x.norm(float("inf"), 2),
            x.logsumexp(1), x.softmax(0), x.log_softmax(-1), x.cumsum(1), x.cumsum(0), x.cumprod(2), x.count_nonzero(0),
            x.t().argmax() if x.dim() == 2 else x.transpose(0, 2).argmax(),
        ),
        (CUBE,),
    ),
    "reduced with ties": (
        lambda n: (
            n.argmax(), n.argmin(), n.argmax(0), n.argmin(1), n.max(0), n.min(1), n.t().argmax(), n.t().argmin(0), n.amax(1), n.sum(0),
            n.prod(1), n.cumsum(0), n.to(torch.int8).sum(), n.bool().sum(1),
            n.float().mean(0), n.double().argmax(1), n.bool().any(0), n.bool().all(1), n.float().median(1)[0], n[:, :1].argmax(1),
            n.flip(1).max(1),
        ),
        (torch.tensor([[2, 2, 0, 1], [0, 0, 2, 2], [1, 0, 0, 1]]),),
    ),
    "dtypes": (
        lambda x, n, half: (
            x + n, x * True, n / n, n + 0.5, half + 1 / 3, half * (1 / 3), half + n, half + x, half.float() + half, n * 2.5, n + True,
            (n > 1) + (n > 2), (n > 1) * 2, (n > 1) * 2.5, x.double() + x,
            half.sum(0), half.mean(), half.softmax(1), half.exp(), half - x[0, 0], n.sum(0), n.to(torch.uint8) * 3, n.to(torch.uint8) - 9,
            x.to(torch.int32), x.half() + half, torch.where(n > 1, half, x), n.float().half(), x.gt(n), n.eq(half),
        ),
        (torch.randn(3, 4), torch.arange(12).view(3, 4), torch.randn(3, 4).bfloat16()),
    ),
    "laid out otherwise": (
        lambda x: (
            x.t() + 1, x.t() + x.t().contiguous(), x[:, ::2] * 2, x[::2].exp(), x.expand(2, 4, 5) * 2, x.t().clone(), x[:, ::2].clone(),
            x[:1].expand(4, 5) + x, x.t().contiguous().t() * x, torch.full_like(x.t(), 3),
            torch.zeros_like(x[:, 1:3]), x[1:, 1:].t().float(), x.t().double(), x.t().sum(0), x.as_strided((3, 2), (1, 4), 2) * 2,
            x.unsqueeze(1) * x, x.reshape(5, 4).t().relu(), x.view(2, 2, 5).transpose(0, 1) + 1,
        ),
        (X,),
    ),
}  # fmt: skip
LEFT_TO_THE_LIBRARY = {
    "joined": {"ones", "stack"},
    "rearranged": {"roll"},
    "parts": {"mul", "slice_scatter"},
    "read at places": {"index_select", "take"},
    "written at places": {"index_add", "index_copy", "index_fill", "index_put", "scatter", "scatter_add"},
    "shifts and bits": {"__rshift__", "bitwise_left_shift"},
    "whole numbers divided": {"floor_divide", "fmod", "remainder"},
    "steps": {"heaviside", "log_sigmoid_forward", "rsub"},
    "numbers at their ends": {"logaddexp", "signbit", "xlogy"},
    "reduced": {"count_nonzero", "cumprod", "cumsum", "linalg_vector_norm"},
    "reduced with ties": {"cumsum", "median"},
}
"""Of an operator that stands here some calls at least; all others become loops."""


def flat(results):
    return [tensor for each in results for tensor in (each if isinstance(each, tuple) else (each,))]


@pytest.mark.compiler
@pytest.mark.parametrize("group", GROUPS)
def test_results_dtypes_and_strides_are_eagers(group):
    function, inputs = GROUPS[group]
    mine, eagers = (flat(each(*inputs)) for each in (dynascope.compile(function), function))
    for number, (one, other) in enumerate(zip(mine, eagers, strict=True)):
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride()), number
        is_half = one.dtype in (torch.float16, torch.bfloat16)
        limits = {"rtol": 1.6e-2, "atol": 1e-5} if is_half else {} if one.dtype.is_floating_point else {"rtol": 0, "atol": 0}
        torch.testing.assert_close(one, other, equal_nan=True, msg=lambda said, number=number: f"result {number}: {said}", **limits)
        if one.is_floating_point():
            assert torch.equal(one.signbit() & (one == 0), other.signbit() & (other == 0)), f"zeros of result {number}"


@pytest.mark.parametrize("group", GROUPS)
def test_they_become_loops(group):
    function, inputs = GROUPS[group]
    graph = lower(record(lambda *given: flat(function(*given)), list(inputs)))
    others = {node.operator._schema.name.removeprefix("aten::") for node in graph.nodes if isinstance(node, ExternCall)}
    assert others == LEFT_TO_THE_LIBRARY.get(group, set())


@pytest.mark.compiler
@pytest.mark.parametrize("operator", [torch._softmax_backward_data, torch._log_softmax_backward_data])
def test_a_gradient_of_another_type_is_what_the_library_refuses(operator):
    """On the CPU, with the library's own words; a GPU's kernel gives it."""
    rows = X.softmax(-1)
    compiled = dynascope.compile(lambda gradient, rows: operator(gradient, rows, -1, torch.float16))
    for function in (compiled, lambda gradient, rows: operator(gradient, rows, -1, torch.float16)):
        with pytest.raises(RuntimeError, match="expected scalar type Float but found Half"):
            function(X, rows)
