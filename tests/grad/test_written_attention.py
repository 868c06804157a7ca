"""Attention that a program writes out is the library's kernel, and nothing that the program can see is another than before."""

from __future__ import annotations

import math

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn

KEYS = 272


def operands(rank: int = 4, requires_grad: bool = True, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(0)
    shape = (2, 3, KEYS, 16) if rank == 4 else (6, KEYS, 16)
    return [torch.randn(shape, dtype=dtype, requires_grad=requires_grad) for _ in range(3)]


def causal(dtype: torch.dtype = torch.bool) -> torch.Tensor:
    return torch.ones(KEYS, KEYS, dtype=dtype).tril()


def padding(rows: int = 2) -> torch.Tensor:
    """Which keys are padding, one row of each batch: the first has none."""
    return torch.arange(KEYS)[None, None, None, :] >= torch.tensor([KEYS, 7][:rows]).view(-1, 1, 1, 1)


def plain(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v


def scaled_before(q, k, v):
    return torch.matmul((q * 0.25 @ k.mT).softmax(-1), v)


def masked_fill(q, k, v, mask):
    scores = torch.matmul(q, k.transpose(2, 3)) * 0.25
    return torch.matmul(F.softmax(scores.masked_fill(mask == 0, float("-inf")), dim=3), v)


def filled_with_a_low_number(q, k, v, mask):
    scores = (q @ k.transpose(2, 3)).masked_fill(mask == 0, torch.finfo(q.dtype).min)
    return F.dropout(F.softmax(scores, -1, dtype=torch.float32).to(q.dtype), 0.0) @ v


def chosen(q, k, v, mask):
    return torch.where(mask, 0.25 * (q @ k.transpose(2, 3)), -1e9).softmax(-1) @ v


def in_eval(q, k, v):
    return F.dropout(torch.softmax(q @ k.transpose(2, 3) / 4, -1), 0.1, training=False) @ v


def by_batches(q, k, v):
    return torch.bmm(F.softmax(torch.bmm(q, k.transpose(1, 2)) * 0.25, dim=-1), v)


def by_letters(q, k, v):
    weights = torch.einsum("b h i d, b h j d -> b h i j", q, k).mul(0.25).softmax(dim=-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.drop = nn.Linear(48, 144), nn.Linear(48, 48), nn.Dropout(0.0)
        self.register_buffer("bias", causal(torch.float32)[None, None])

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).split(width, dim=2)
        q, k, v = (each.view(batch, length, 3, width // 3).transpose(1, 2) for each in (q, k, v))
        weights = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        weights = self.drop(F.softmax(weights.masked_fill(self.bias[:, :, :length, :length] == 0, float("-inf")), dim=-1))
        return self.out((weights @ v).transpose(1, 2).contiguous().view(batch, length, width)) + x


PROGRAMS = {
    "plain": (plain, operands),
    "scaled before": (scaled_before, operands),
    "minus infinity": (masked_fill, lambda: [*operands(), causal(torch.float32)]),
    "padding": (masked_fill, lambda: [*operands(), ~padding()]),
    "lowest number": (filled_with_a_low_number, lambda: [*operands(), causal(torch.int64)]),
    "where": (chosen, lambda: [*operands(), causal()]),
    "evaluated": (in_eval, operands),
    "bmm": (by_batches, lambda: operands(3)),
    "one row for all": (masked_fill, lambda: [*operands(), padding()[1, 0, 0]]),
    "nothing is left": (masked_fill, lambda: [*operands(), torch.zeros(KEYS, dtype=torch.bool)]),
    "einsum": (by_letters, operands),
    "halves": (plain, lambda: operands(dtype=torch.bfloat16)),
    "no gradients": (masked_fill, lambda: [*operands(requires_grad=False), causal()]),
    "block": (Block(), lambda: [operands()[0].detach().reshape(2, KEYS, 48).requires_grad_()]),
}


def library_calls(function, *inputs) -> list[str]:
    report = dynascope.explain(function, *inputs).report
    return [extern.operation for graph in report.graphs for extern in graph.externs]


def is_fused(function, *inputs) -> bool:
    return any("attention" in each for each in library_calls(function, *inputs))


def outcome(function, inputs) -> list[torch.Tensor]:
    result = function(*inputs)
    wanted = [each for each in inputs if each.requires_grad]
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    if not wanted:
        return [result]
    torch.manual_seed(1)
    return [result, *torch.autograd.grad(result, [*wanted, *parameters], torch.randn_like(result))]


def assert_same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for mine, eagers in zip(found, expected, strict=True):
        rough = 2e-2 if mine.dtype is torch.bfloat16 else 2e-5
        torch.testing.assert_close(mine, eagers, rtol=rough, atol=rough, equal_nan=True)
        assert mine.stride() == eagers.stride()


@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_one_library_call(name: str) -> None:
    function, make = PROGRAMS[name]
    assert is_fused(function, *make())
    compiled = dynascope.compile(function)
    assert_same(outcome(compiled, make()), outcome(function, make()))


@pytest.mark.compiler
def test_rows_of_which_nothing_is_left() -> None:
    """NaN where minus infinity blocks them, and then all gradients that they lead to; equal weights where a number does."""
    mask = torch.ones(KEYS, KEYS, dtype=torch.bool)
    mask[3] = False
    for function in (masked_fill, chosen):
        inputs = [*operands(), mask]
        expected = outcome(function, inputs)
        assert is_fused(function, *inputs) and expected[0].isnan().any() == (function is not chosen)
        assert_same(outcome(dynascope.compile(function), inputs), expected)


@pytest.mark.compiler
def test_the_result_may_be_written_to() -> None:
    """The kernel keeps its result for its backward pass, a product does not."""

    def inside(q, k, v):
        y = plain(q, k, v)
        y += 1
        return y * y

    assert_same(outcome(dynascope.compile(inside), operands()), outcome(inside, operands()))
    found = []
    for function in (plain, dynascope.compile(plain)):
        inputs = operands()
        y = function(*inputs)
        y.mul_(2)
        found.append([y, *torch.autograd.grad(y.sum(), inputs)])
    assert_same(found[1], found[0])


@pytest.mark.compiler
def test_second_derivatives() -> None:
    """Of which the kernel has none."""

    def penalty(function):
        inputs = [each[:1, :1].detach().requires_grad_() for each in operands()]
        gradients = torch.autograd.grad(function(*inputs).square().sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in gradients), inputs)

    def inside(q, k, v):
        return torch.autograd.grad(plain(q, k, v).square().sum(), v, create_graph=True)[0].square().sum()

    for mine, eagers in zip(penalty(dynascope.compile(plain)), penalty(plain), strict=True):
        torch.testing.assert_close(mine, eagers, rtol=1e-4, atol=1e-4)
    for mine, eagers in zip(outcome(dynascope.compile(inside), operands()), outcome(inside, operands()), strict=True):
        torch.testing.assert_close(mine, eagers, rtol=1e-3, atol=1e-3)


def returned_too(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1), -1)
    return weights @ v, weights


def dropped(q, k, v):
    return F.dropout(torch.softmax(q @ k.transpose(-2, -1), -1), 0.1) @ v


def over_rows(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), -2) @ v


def scaled_behind_the_mask(q, k, v):
    return torch.softmax((q @ k.transpose(-2, -1) + torch.ones(KEYS)) * 0.5, -1) @ v


def filled_with_a_small_number(q, k, v):
    return torch.softmax((q @ k.transpose(-2, -1)).masked_fill(padding(), -1e4), -1) @ v


def other_letters(q, k, v):
    return torch.einsum("bhij,bhjd->bhid", torch.softmax(torch.einsum("bhid,bhjd->bhji", q, k), -1), v)


def rounded_weights(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1), -1).bfloat16().float() @ v


def few_keys(q, k, v):
    return plain(q, k[:, :, :200], v[:, :, :200])


def other_heads(q, k, v):
    return plain(q, k[:, :1], v[:, :1])


def wider_values(q, k, v):
    return plain(q, k, torch.cat((v, v), -1))


def scores_without_history(q, k, v):
    with torch.no_grad():
        scores = q @ k.transpose(-2, -1)
    return torch.softmax(scores, -1) @ v


def weights_without_history(q, k, v):
    scores = q @ k.transpose(-2, -1)
    with torch.no_grad():
        weights = torch.softmax(scores, -1)
    return weights @ v


def written_between(q, k, v):
    scores = q @ k.transpose(-2, -1)
    q.detach().mul_(2)
    return torch.softmax(scores, -1) @ v


def an_added_mask(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) + padding() * -1e9, -1) @ v


AS_WRITTEN = [
    other_letters, returned_too, dropped, over_rows, scaled_behind_the_mask, filled_with_a_small_number, few_keys, other_heads,
    wider_values, scores_without_history, an_added_mask, rounded_weights,
    weights_without_history, written_between,
]  # fmt: skip


@pytest.mark.parametrize("function", AS_WRITTEN, ids=lambda function: function.__name__)
def test_what_the_kernel_would_compute_otherwise_stays_as_written(function) -> None:
    assert not is_fused(function, *operands())


@pytest.mark.compiler
def test_what_is_read_late_may_be_written_before() -> None:
    def in_place(q, k, v):
        scores = q @ k.transpose(-2, -1)
        q.mul_(2)
        return torch.softmax(scores, -1) @ v

    assert_same([dynascope.compile(in_place)(*operands(requires_grad=False))], [in_place(*operands(requires_grad=False))])


def test_strict_numerics_and_a_kernel_that_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_fused(dynascope.compile(plain, options={"numerics": "strict"}), *operands())
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        assert not is_fused(plain, *operands())


@pytest.mark.compiler
def test_lengths_that_vary(compilations) -> None:
    compiled = dynascope.compile(plain, dynamic=True)
    for length in (280, 300, 50):
        inputs = [each[:, :, :length].detach() for each in (torch.cat((each, each), 2) for each in operands())]
        assert_same([compiled(*inputs)], [plain(*inputs)])
    assert len(compilations) == 1
