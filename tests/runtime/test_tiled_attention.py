"""Attention in tiles: its kernels give what all scores in memory give, and a graph on a GPU calls them."""

import ast
import contextlib
import types

import dynascope
import pytest
import torch
from dynascope.codegen.triton import attention
from dynascope.codegen.triton.helpers import HELPERS
from dynascope.runtime import tiled_attention as runtime
from dynascope.tiled_attention.functions import EVERYTHING, PLACES, SCORE, Scores, recorded
from dynascope.tiled_attention.operators import BACKWARD, FORWARD, tiled_attention

take = torch.ops.aten.index.Tensor
DOCUMENTS = torch.arange(400) // 37
SLOPES, TABLE = torch.rand(4), torch.randn(4, 800, generator=torch.Generator().manual_seed(0))
MASKS = {
    "all": None,
    "a window": (lambda b, h, i, j: (i >= j) & (i - j < 40),),
    "documents": (lambda b, h, i, j, documents: take(documents, [i]) == take(documents, [j]), DOCUMENTS),
    "by heads": (lambda b, h, i, j: (i >= j) | (h == 1),),
    "few rows": (lambda b, h, i, j: i < 3,),
}
CHANGES = {
    "none": None,
    "capped": (lambda s, b, h, i, j: torch.tanh(s / 20) * 20,),
    "sloped": (lambda s, b, h, i, j, slopes: s + take(slopes, [h]) * (i - j), SLOPES),
    "a table": (lambda s, b, h, i, j, table: s + take(table, [h, j - i]), TABLE),
    "hidden": (lambda s, b, h, i, j: torch.where(i >= j, s * s, -float("inf")),),
}
PAIRS = [("a window", "none"), ("documents", "a table"), ("by heads", "none"), ("few rows", "capped"), ("all", "sloped"), ("all", "hidden")]
SHAPES = [(2, 4, 2, 100, 133, 64, 64), (1, 4, 4, 33, 17, 24, 40), (1, 4, 1, 65, 130, 128, 128), (1, 4, 4, 40, 70, 256, 200)]


def scores_of(mask, change):
    tables, made = [], []
    for given, named, changes in ((MASKS[mask], PLACES, False), (CHANGES[change], (SCORE, *PLACES), True)):
        if given is None:
            made.append(None if changes else EVERYTHING)
            continue
        function, *own = given
        steps = recorded(function, [*named, *[None] * len(own)], [each.to("meta") for each in own], changes)
        made.append(steps.with_tables_from(len(tables)))
        tables += own
    return Scores(*made), tables


def operands(shape, dtype=torch.float32, transposed=False):
    batch, heads, groups, rows, columns, inner, width = shape
    generator = torch.Generator().manual_seed(1)
    for sizes in ((heads, rows, inner), (groups, columns, inner), (groups, columns, width)):
        each = torch.randn(batch, *sizes, generator=generator).to(dtype)
        yield each.transpose(1, 2).contiguous().transpose(1, 2) if transposed else each


@pytest.mark.parametrize(("mask", "change"), PAIRS)
def test_texts_are_python(mask, change):
    scores, tables = scores_of(mask, change)
    kinds = tuple((table.dtype, table.dim()) for table in tables)
    form = attention.AttentionForm(scores, torch.bfloat16, 24, 64, kinds, 64, 64, 4, 2, is_narrow=True, is_rounded=False)
    for make in (attention.blocks_kernel, attention.forward_kernel, attention.rows_kernel, attention.columns_kernel):
        kernel = make(form, 7, frozenset())
        (function,) = (each for each in ast.parse(kernel.text).body if isinstance(each, ast.FunctionDef) and each.name == kernel.name)
        names = {each.arg for each in function.args.args}
        names |= {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        read = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
        assert read - names <= {"tl", "triton", "libdevice", "range", "float", *HELPERS}


@pytest.mark.parametrize(("mask", "change"), PAIRS)
def test_all_scores_in_memory_and_the_formula(mask, change):
    """What runs where there are no kernels for it."""
    scores, tables = scores_of(mask, change)
    query, key, value = (each.double().requires_grad_() for each in operands((2, 4, 2, 10, 13, 8, 6)))
    places = torch.meshgrid(*map(torch.arange, (2, 4, 10, 13)), indexing="ij")
    made = query @ key.repeat_interleave(2, 1).transpose(-2, -1) * 0.3
    if CHANGES[change] is not None:
        made = CHANGES[change][0](made, *places, *CHANGES[change][1:])
    if MASKS[mask] is not None:
        made = made.masked_fill(~MASKS[mask][0](*places, *MASKS[mask][1:]), -torch.inf)
    expected = torch._safe_softmax(made, -1) @ value.repeat_interleave(2, 1)
    given = [each.detach().float().requires_grad_() for each in (query, key, value)]
    found, ends = tiled_attention(*given, tables, scores.text(), 0.3)
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    gradients = torch.autograd.grad(found.square().sum(), given, create_graph=True)
    wanted = torch.autograd.grad(expected.square().sum(), (query, key, value), create_graph=True)
    torch.testing.assert_close([each.double() for each in gradients], list(wanted), rtol=1e-4, atol=1e-4)
    again, wanted_again = (torch.autograd.grad(each[1].square().sum(), of)[0] for each, of in ((gradients, given), (wanted, [query])))
    torch.testing.assert_close(again.double(), wanted_again, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("mask", "is_kept"), [("a window", True), ("by heads", True), ("documents", False)])
def test_lists_of_tiles_are_made_once_where_a_mask_reads_places_alone(mask, is_kept, monkeypatch):
    launched, is_capturing = [], False
    monkeypatch.setattr(runtime, "make_launcher", lambda kernels, slots, device: lambda *given: launched.append(len(kernels)))
    monkeypatch.setattr(runtime, "_kept", [])
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: is_capturing)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *device: types.SimpleNamespace(synchronize=lambda: None))
    runtime._plan.cache_clear()
    scores, tables = scores_of(mask, "none")

    def launches():
        launched.clear()
        for _ in range(2):
            runtime._forward(*operands(SHAPES[0]), tables, scores.text(), 0.1)
        return launched

    try:
        is_capturing = True  # a recording's memory is its own
        assert launches() == [3, 3]
        is_capturing = False
        assert launches() == ([3, 1] if is_kept else [3, 3])
        runtime._plan.cache_clear()
        monkeypatch.setattr(runtime, "MOST_KEPT", sum(each.nbytes for each in runtime._kept))
        assert launches() == [3, 3]
    finally:
        runtime._plan.cache_clear()


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("mask", "change"), PAIRS)
def test_kernels(mask, change, shape, dtype):
    dynascope.compile(lambda x: x + 1)(torch.ones(1, device="cuda"))  # by then kernels are registered
    scores, tables = scores_of(mask, change)
    told = scores.text(), 0.125
    given = list(operands(shape, dtype, transposed=shape[3] % 2 == 1))
    exact = [each.float() for each in given]
    expected, logarithms = FORWARD(*exact, tables, *told)
    tangent = torch.randn(expected.shape, generator=torch.Generator().manual_seed(2)).to(dtype)
    wanted = [expected, *BACKWARD(tangent.float(), None, *exact, tables, expected, logarithms, *told)]
    there, tables = [each.cuda() for each in given], [each.cuda() for each in tables]
    result, logarithms = FORWARD(*there, tables, *told)
    found = [result, *BACKWARD(tangent.cuda(), None, *there, tables, result, logarithms, *told)]
    least = 1e-5 if dtype is torch.float32 else 2e-2
    for each, right in zip(found, wanted, strict=True):
        assert (each.cpu().float() - right).abs().max() <= least * right.abs().max() + 1e-5
    assert result.stride() == expected.stride()


@pytest.mark.gpu
def test_a_graph_calls_them():
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    slopes = SLOPES.cuda()
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 40), None, None, 256, 256)
    query, key, value = (torch.randn(2, 4, 256, 64, device="cuda", requires_grad=True) for _ in range(3))

    def function(query, key, value):
        return flex_attention(query, key, value, block_mask=mask, score_mod=lambda s, b, h, i, j: s + slopes[h] * (i - j))

    explained = dynascope.explain(function, query, key, value)
    assert tiled_attention in [node.target for node in explained.graphs[0].graph.nodes]
    torch.testing.assert_close(explained.result, function(query, key, value), rtol=1e-4, atol=1e-5)
    compiled = dynascope.compile(function, fullgraph=True)
    gradients = (torch.autograd.grad(call(query, key, value).square().sum(), (query, key, value)) for call in (compiled, function))
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
