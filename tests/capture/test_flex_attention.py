"""`flex_attention` is part of a graph, with torch's results, their layouts and gradients, however the mask and the scores are written."""

import dynascope
import pytest
import torch
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, create_mask, flex_attention

torch.manual_seed(0)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
TABLE, DOCUMENTS, SLOPES = torch.randn(4, 64), torch.randint(0, 3, (16,)).sort().values, torch.rand(4)


def causal(batch, head, row, column):
    return row >= column


def few_rows(batch, head, row, column):
    return row < 5


def same_document(batch, head, row, column):
    documents = DOCUMENTS.to(row.device)
    return documents[row] == documents[column]


def softly_capped(score, batch, head, row, column):
    return torch.tanh(score / 20) * 20


def sloped(score, batch, head, row, column):
    return score + SLOPES.to(score.device)[head] * (row - column)


def looked_up(score, batch, head, row, column):
    return score + TABLE.to(score.device)[head, row - column + 32]


def hidden(score, batch, head, row, column):
    return torch.where(row >= column, score, -float("inf"))


def mask_of(function, device, length=16):
    return create_block_mask(function, None, None, length, length, device=device)


def given(device, batch=2, dtype=torch.float32, transposed=False):
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        each = torch.randn(batch, 4, 16, 8, generator=generator).to(device, dtype)
        yield each.transpose(1, 2).contiguous().transpose(1, 2) if transposed else each


CASES = {
    "plain": {},
    "scaled": {"scale": 0.3},
    "causal": {"mask": causal},
    "rows without columns": {"mask": few_rows},
    "places in a table": {"mask": same_document},
    "capped": {"score_mod": softly_capped, "mask": causal},
    "sloped": {"score_mod": sloped},
    "scores of a table": {"score_mod": looked_up},
    "hidden by scores": {"score_mod": hidden},
    "changed, in rows without columns": {"score_mod": softly_capped, "mask": few_rows},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_one_graph_with_torchs_results(case, transposed, device):
    options = dict(CASES[case])
    mask = mask_of(options.pop("mask"), device) if "mask" in options else None
    compiled = dynascope.compile(
        lambda q, k, v: flex_attention(q, k, v, block_mask=mask, **options) * 2, fullgraph=True
    )
    for batch in (2, 3):
        q, k, v = given(device, batch, transposed=transposed)
        found, expected = compiled(q, k, v), flex_attention(q, k, v, block_mask=mask, **options) * 2
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert found.stride() == expected.stride()


MASKS = {
    "row >= column": (lambda b, h, i, j: i >= j, True),
    "column <= row": (lambda b, h, i, j: j <= i, True),
    "row <= column": (lambda b, h, i, j: i <= j, False),
    "head >= column": (lambda b, h, i, j: h >= j, False),
    "batch >= column": (lambda b, h, i, j: b >= j, False),
    "by documents": (lambda b, h, i, j: DOCUMENTS[i] >= DOCUMENTS[j], False),
    "and more": (lambda b, h, i, j: (i >= j) & (i < 9), False),
    "by a number": (lambda b, h, i, j: i >= 3, False),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_causal_mask_is_known_as_one(name):
    """Attention has a kernel for it that reads no mask."""
    function, is_causal = MASKS[name]
    mask, operands = mask_of(function, "cpu"), list(given("cpu"))
    explained = dynascope.explain(lambda q, k, v: flex_attention(q, k, v, block_mask=mask), *operands)
    torch.testing.assert_close(explained.result, flex_attention(*operands, block_mask=mask), rtol=1e-4, atol=1e-5)
    calls = [node for node in explained.graphs[0].graph.nodes if node.target is torch.nn.functional.scaled_dot_product_attention]
    assert [True in call.args for call in calls] == [is_causal]


@pytest.mark.parametrize("of_scores", [False, True])
def test_a_mask_made_inside(of_scores):
    def hides(*given):
        *scores, _, _, row, column = given
        return torch.where(row >= column, scores[0], -float("inf")) if scores else row >= column

    def made():
        function = (lambda s, b, h, i, j: hides(s, b, h, i, j)) if of_scores else (lambda b, h, i, j: hides(b, h, i, j))
        return create_mask(function, 2, 3, 5, 6, device="cpu")

    assert torch.equal(dynascope.compile(made, fullgraph=True)(), made())


@pytest.mark.parametrize("case", ["causal", "rows without columns", "sloped", "scores of a table", "capped"])
def test_gradients_are_those_of_the_formula(case):
    """Torch's own has none on a processor."""
    options = dict(CASES[case])
    mask, score_mod = options.pop("mask", None), options.get("score_mod")
    blocks = None if mask is None else mask_of(mask, "cpu")

    def formula(q, k, v):
        scores = q @ k.transpose(-2, -1) / 8**0.5
        places = torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")
        scores = scores if score_mod is None else score_mod(scores, *places)
        scores = scores if mask is None else scores.masked_fill(~mask(*places), -torch.inf)
        return torch._safe_softmax(scores, -1) @ v

    compiled = dynascope.compile(lambda q, k, v: flex_attention(q, k, v, block_mask=blocks, **options), fullgraph=True)
    outcomes = []
    for call in (compiled, formula):
        operands = [each.requires_grad_() for each in given("cpu")]
        result = call(*operands)
        outcomes.append((result.detach(), torch.autograd.grad(result.square().sum(), operands)))
    torch.testing.assert_close(*outcomes, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("case", ["causal", "sloped"])
def test_autocast_converts_what_is_given(case, dtype):
    options = dict(CASES[case])
    mask = mask_of(options.pop("mask"), "cpu") if "mask" in options else None

    def function(q, k, v):
        with torch.autocast("cpu", torch.bfloat16):
            return flex_attention(q, k, v, block_mask=mask, **options)

    operands = list(given("cpu", dtype=dtype))
    found, expected = dynascope.compile(function, fullgraph=True)(*operands), function(*operands)
    assert found.dtype == expected.dtype
    exact = flex_attention(*(each.double() for each in operands), block_mask=mask, **options)
    assert (found - exact).abs().max() <= 2 * (expected - exact).abs().max() + 1e-6


def test_fewer_heads_of_keys():
    mask = mask_of(causal, "cpu")
    for options in ({"block_mask": mask}, {"score_mod": sloped}):

        def function(q, k, v, options=options):
            return flex_attention(q, k[:, :2], v[:, :2], enable_gqa=True, **options)

        q, k, v = given("cpu")
        torch.testing.assert_close(dynascope.compile(function, fullgraph=True)(q, k, v), function(q, k, v))


def test_a_mask_that_is_given_and_lengths_that_vary():
    compiled = dynascope.compile(
        lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask), fullgraph=True, dynamic=True
    )
    for length in (16, 32, 48):
        q, k, v = (torch.randn(2, 4, length, 8) for _ in range(3))
        mask = mask_of(causal, "cpu", length)
        torch.testing.assert_close(compiled(q, k, v, mask), flex_attention(q, k, v, block_mask=mask))


def test_the_function_itself_is_compiled():
    """As most programs have it; the report says where it is written."""
    operands = list(given("cpu"))
    explained = dynascope.explain(flex_attention)(*operands, score_mod=sloped)
    torch.testing.assert_close(explained.result, flex_attention(*operands, score_mod=sloped))
    (graph,) = explained.report.graphs
    assert graph.kernels and explained.report.functions[0].span.file.endswith("flex_attention.py")


@pytest.mark.expects("foreign-call")
def test_what_is_left_to_torch():
    q, k, v = given("cpu")
    mask = mask_of(causal, "cpu", 32)
    with pytest.raises(ValueError):
        dynascope.compile(lambda: flex_attention(q, k, v, block_mask=mask))()
    with pytest.raises(ValueError):
        dynascope.compile(lambda: flex_attention(q, k[:, :2], v[:, :2]))()
    found = dynascope.compile(lambda: flex_attention(q, k, v, return_lse=True))()
    torch.testing.assert_close(found, flex_attention(q, k, v, return_lse=True))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("wanted", [AuxRequest(), AuxRequest(lse=True)], ids=str)
@pytest.mark.parametrize("case", ["plain", "causal", "rows without columns", "sloped"])
def test_statistics_beside_it(case, wanted, device):
    options = dict(CASES[case])
    mask = mask_of(options.pop("mask"), device) if "mask" in options else None

    def function(q, k, v):
        return flex_attention(q, k, v, block_mask=mask, return_aux=wanted, **options)

    operands = list(given(device))
    (found, statistics), (expected, others) = dynascope.compile(function, fullgraph=True)(*operands), function(*operands)
    assert type(statistics) is type(others)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert statistics.max_scores is None and (statistics.lse is None) == (others.lse is None)
    if wanted.lse:
        torch.testing.assert_close(statistics.lse, others.lse, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_through_the_logarithms(device):
    """As of attention with a sink: a weight that goes nowhere."""
    compiled = dynascope.compile(
        lambda q, k, v: flex_attention(q, k, v, score_mod=softly_capped, return_aux=AuxRequest(lse=True)), fullgraph=True
    )

    def formula(q, k, v):
        scores = torch.tanh(q @ k.transpose(-2, -1) / 8**0.5 / 20) * 20
        return scores.softmax(-1) @ v, scores.logsumexp(-1)

    gradients = []
    for call in (lambda *each: (lambda made: (made[0], made[1].lse))(compiled(*each)), formula):
        operands = [each.requires_grad_() for each in given(device)]
        result, logarithms = call(*operands)
        gradients.append(torch.autograd.grad((result * torch.sigmoid(logarithms)[..., None]).sum(), operands))
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)


def test_a_mask_of_blocks_made_inside():
    lengths = torch.tensor([16, 7])

    def function(q, k, v):
        mask = create_block_mask(lambda b, h, i, j: j < lengths[b], 2, None, 16, 16, device="cpu")
        return flex_attention(q, k, v, block_mask=mask)

    operands = list(given("cpu"))
    torch.testing.assert_close(dynascope.compile(function, fullgraph=True)(*operands), function(*operands), rtol=1e-4, atol=1e-5)
