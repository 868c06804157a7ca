"""A loss over many classes is computed for some rows after the other, and nothing that the program can see is another than before."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.grad import written_cross_entropy
from torch import nn

ROWS, FEATURES, CLASSES = 96, 16, 500
SPLIT = "aten.split_copy.Tensor"


@pytest.fixture(autouse=True)
def few_rows_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_cross_entropy, "FEWEST_BYTES", 0)
    monkeypatch.setattr(written_cross_entropy, "FEWEST_ROWS", {"cpu": 20})


def operands(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Hidden states, weights, targets, of which some are ignored."""
    torch.manual_seed(0)
    hidden = torch.randn(2, ROWS // 2, FEATURES, dtype=dtype, requires_grad=True)
    weight = torch.randn(CLASSES, FEATURES, dtype=dtype, requires_grad=True)
    target = torch.randint(0, CLASSES, (2, ROWS // 2))
    target[0, :5] = -100
    return [hidden, weight, target]


def plain(hidden, weight, target):
    logits = F.linear(hidden, weight)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), target.view(-1))


def by_product(hidden, weight, target):
    return F.cross_entropy((hidden @ weight.T).flatten(0, 1).float(), target.flatten(), reduction="sum")


def the_next_token(hidden, weight, target):
    shifted = torch.matmul(hidden, weight.t())[..., :-1, :].contiguous()
    return F.cross_entropy(shifted.view(-1, shifted.shape[-1]), target[..., 1:].reshape(-1), ignore_index=-100)


def first_rows(hidden, weight, target):
    return nn.CrossEntropyLoss()(F.linear(hidden, weight)[1], target[1]) * 3


def weights_by_features(hidden, weight, target):
    return F.cross_entropy(hidden.reshape(-1, FEATURES) @ weight.reshape(FEATURES, CLASSES), target.reshape(-1))


def frozen_weights(hidden, weight, target):
    return plain(hidden, weight.detach(), target)


def frozen_states(hidden, weight, target):
    return plain(hidden.detach(), weight, target)


def nothing_is_left(hidden, weight, target):
    return plain(hidden, weight, torch.full_like(target, -100)).nan_to_num(3.0)


def its_gradient_inside(hidden, weight, target):
    loss = plain(hidden * 2, weight, target)
    return loss + torch.autograd.grad(loss, weight)[0].square().sum()


class Model(nn.Module):
    """Embedding and last layer are one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.inner = nn.Embedding(CLASSES, FEATURES), nn.Linear(FEATURES, FEATURES)
        self.head = nn.Linear(FEATURES, CLASSES)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        logits = self.head(torch.tanh(self.inner(self.embedding(tokens))))
        return F.cross_entropy(logits[:, :-1].reshape(-1, CLASSES), tokens[:, 1:].reshape(-1))


PROGRAMS = {
    "plain": (plain, operands),
    "product, wide, sum": (by_product, operands),
    "the next token": (the_next_token, operands),
    "first rows": (first_rows, operands),
    "weights by features": (weights_by_features, operands),
    "frozen weights": (frozen_weights, operands),
    "frozen states": (frozen_states, operands),
    "nothing is left": (nothing_is_left, operands),
    "halves": (plain, lambda: operands(torch.bfloat16)),
    "halves, wide": (by_product, lambda: operands(torch.bfloat16)),
    "doubles": (plain, lambda: operands(torch.float64)),
    "no gradients": (plain, lambda: [each.detach() for each in operands()]),
    "model": (Model(), lambda: [operands()[2].clamp(min=0)]),
}


def is_in_pieces(function, *inputs) -> bool:
    report = dynascope.explain(function, *inputs).report
    return any(extern.operation == SPLIT for graph in report.graphs for extern in graph.externs)


def outcome(function, inputs) -> list[torch.Tensor]:
    parameters = [each for each in inputs if each.requires_grad]
    parameters += function.parameters() if isinstance(function, nn.Module) else []
    result = function(*inputs)
    if not result.requires_grad:
        return [result]
    return [result, *(each for each in torch.autograd.grad(result * 2, parameters, allow_unused=True) if each is not None)]


def assert_same(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for mine, eagers in zip(found, expected, strict=True):
        rough = {torch.bfloat16: 1e-2, torch.float32: 2e-6, torch.float64: 1e-12}[eagers.dtype]
        torch.testing.assert_close(mine, eagers, rtol=rough, atol=rough)
        assert mine.stride() == eagers.stride()


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_computed_in_pieces(name: str) -> None:
    function, make = PROGRAMS[name]
    assert is_in_pieces(function, *make())
    assert_same(outcome(dynascope.compile(function), make()), outcome(function, make()))


@pytest.mark.compiler
def test_under_autocast() -> None:
    def step(hidden, weight, target):
        with torch.autocast("cpu", torch.bfloat16):
            return plain(hidden, weight, target)

    assert is_in_pieces(step, *operands())
    for mine, eagers in zip(outcome(dynascope.compile(step), operands()), outcome(step, operands()), strict=True):
        torch.testing.assert_close(mine, eagers, rtol=1e-2, atol=1e-3)


@pytest.mark.compiler
def test_a_whole_step() -> None:
    """Logits that the model returns, which the step does not read, are not needed as a whole either."""

    class WithLogits(Model):
        def forward(self, tokens):
            logits = self.head(self.inner(self.embedding(tokens)))
            return logits, F.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    def trained(wrap) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = WithLogits()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def step(tokens):
            optimizer.zero_grad()
            _, loss = model(tokens)
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = wrap(step)
        tokens = operands()[2].clamp(min=0)
        return [*(step(tokens) for _ in range(3)), *(each.detach() for each in model.parameters())]

    assert_same(trained(dynascope.compile), trained(lambda step: step))
    assert is_in_pieces(lambda tokens: WithLogits()(tokens)[1], operands()[2].clamp(min=0))


@pytest.mark.compiler
def test_the_memory_of_all_scores_is_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pieces of four, scores and what leads to them, and the gradients."""
    monkeypatch.setattr(written_cross_entropy, "FEWEST_ROWS", {"cpu": ROWS // 4})
    (graph,) = dynascope.explain(plain, *operands()).report.graphs
    scores, weights = ROWS * CLASSES * 4, FEATURES * CLASSES * 4
    peak = max(memory.peak_bytes for memory in graph.memory)
    assert peak < scores / 2 + weights + scores / 8


@pytest.mark.compiler
def test_targets_out_of_range() -> None:
    hidden, weight, target = operands()
    target[1, 3] = CLASSES
    with pytest.raises(IndexError, match=f"Target {CLASSES} is out of bounds"):
        dynascope.compile(plain)(hidden, weight, target)


@pytest.mark.compiler
def test_what_eager_keeps_must_not_change() -> None:
    for function in (plain, dynascope.compile(plain)):
        hidden, weight, target = operands()
        loss = function(hidden, weight, target)
        with torch.no_grad():
            weight.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@pytest.mark.compiler
def test_it_may_be_differentiated_again() -> None:
    def penalty(function) -> list[torch.Tensor]:
        hidden, weight, target = operands()
        gradients = torch.autograd.grad(function(hidden, weight, target), (hidden, weight), create_graph=True)
        return list(torch.autograd.grad(sum(each.square().sum() for each in gradients), (hidden, weight)))

    def inside(hidden, weight, target):
        loss = plain(hidden, weight, target)
        return torch.autograd.grad(loss, hidden, create_graph=True)[0].square().sum()

    assert_same(penalty(dynascope.compile(plain)), penalty(plain))
    assert_same(outcome(dynascope.compile(inside), operands()), outcome(inside, operands()))


def returned_too(hidden, weight, target):
    logits = F.linear(hidden, weight).flatten(0, 1)
    return F.cross_entropy(logits, target.flatten()), logits


def smoothed(hidden, weight, target):
    return F.cross_entropy((hidden @ weight.T).flatten(0, 1), target.flatten(), label_smoothing=0.1)


def of_each(hidden, weight, target):
    return F.cross_entropy((hidden @ weight.T).flatten(0, 1), target.flatten(), reduction="none").mean()


def changed_between(hidden, weight, target):
    logits = hidden.detach() @ weight.T
    weight.detach().mul_(2)
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def without_history(hidden, weight, target):
    with torch.no_grad():
        logits = hidden @ weight.T
    return F.cross_entropy(logits.flatten(0, 1) * hidden.mean(), target.flatten())


def of_some_classes(hidden, weight, target):
    return F.cross_entropy((hidden @ weight.T)[..., 1:].flatten(0, 1), target.flatten().clamp(max=CLASSES - 2))


def of_float16(hidden, weight, target):
    return plain(hidden.half(), weight.half(), target)


def probabilities(hidden, weight, target):
    return F.cross_entropy(hidden[0] @ weight.T, torch.ones(ROWS // 2, CLASSES) / CLASSES)


def its_gradient_differentiated(hidden, weight, target):
    loss = plain(hidden, weight, target)
    return torch.autograd.grad(loss, hidden, create_graph=True)[0].square().sum()


AS_WRITTEN = [
    returned_too, smoothed, of_each, changed_between, without_history, of_some_classes, of_float16, probabilities,
    its_gradient_differentiated,
]  # fmt: skip


@pytest.mark.parametrize("function", AS_WRITTEN, ids=lambda function: function.__name__)
def test_what_cannot_be_computed_so_stays_as_written(function) -> None:
    assert not is_in_pieces(function, *operands())


def test_sizes_that_vary_and_strict_numerics() -> None:
    assert not is_in_pieces(dynascope.compile(plain, dynamic=True), *operands())
    assert not is_in_pieces(dynascope.compile(plain, options={"numerics": "strict"}), *operands())
