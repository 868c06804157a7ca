"""`numerics="strict"`: results and gradients are eager's to the last bit. And settings: which one counts, which is refused."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.configuration import Options
from torch import nn
from torch.nn import functional as F

STRICT = {"numerics": "strict"}
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SPECIAL = [0.0, -0.0, 1e-40, -1e-40, 3e38, -65504.0, float("inf"), -float("inf"), float("nan"), 0.1, -0.1, 1 / 3]

PROGRAMS = {
    "arithmetic": lambda x, y: (x * y + 1, x / y - x * 0.1, 2 - x, -x * 3, x - y, x / 3, 1 / y),
    "choices": lambda x, y: (torch.where(x > y, x, y / 3), x.relu() * y, x.clamp(-1, 0.5), x.masked_fill(y > 0, 0.3)),
    "roots and powers": lambda x, y: (x.sqrt(), x.abs().rsqrt() * y, x**2, y**3, x.abs() ** 0.5, x.reciprocal()),
    "functions": lambda x, y: (x.exp() * y, x.sigmoid() + y.tanh(), F.silu(x) * y, F.gelu(x), F.gelu(y, approximate="tanh")),
    "scaled sums": lambda x, y: (x.add(y, alpha=0.3), x.sub(y, alpha=3), x.addcmul(x, y, value=0.7), x.lerp(y, 0.3)),
    "conversions": lambda x, y: (x.to(torch.bfloat16).float() + y, x.double().to(torch.float16), y.float().to(x.dtype) * x),
    "reductions": lambda x, y: ((x * y).sum(), x.mean(0) * y, x.sum(1), y.var(0), x.amax(1), (x + y).prod(1), x.cumsum(0)),
    "normalizations": lambda x, y: (F.layer_norm(x * 2, (x.shape[1],), y[0], y[1]), (x + y).softmax(1), F.normalize(x)),
    "shapes": lambda x, y: (torch.cat([x * 2, y], 1), F.pad(x + y, (1, 2)), (x - y).flip(0).t().contiguous(), x[1:, ::2] * 3),
    "dropout": lambda x, y: (F.dropout(x, 0.3) * y, F.dropout(y) + x),
    "losses": lambda x, y: (F.mse_loss(x, y), F.cross_entropy(x, y.argmax(1)), F.smooth_l1_loss(x, y)),
    "matrices": lambda x, y: (F.linear(x, y * 2, y[:, 0]).relu() + 1, x @ y.t() * 0.5),
}


def given(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(2):
        values = torch.randn(33, 37, generator=generator, dtype=torch.float64)
        values.view(-1)[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=torch.float64)[torch.randperm(len(SPECIAL), generator=generator)]
        found.append(values.to(dtype).requires_grad_())
    return found


def run(function, inputs) -> list[torch.Tensor]:
    torch.manual_seed(3)
    results = function(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    loss = sum((result.float() * torch.rand(result.shape, generator=torch.Generator().manual_seed(5))).sum() for result in results)
    return [*results, *torch.autograd.grad(loss, inputs, allow_unused=True)]


def assert_same_bits(ours, eagers) -> None:
    """But for what a NaN holds beside being one."""
    for mine, theirs in zip(ours, eagers, strict=True):
        if theirs is None:
            assert mine is None
            continue
        assert mine.dtype == theirs.dtype and mine.stride() == theirs.stride()
        one, other = (tensor.detach().nan_to_num(1234.0, float("inf"), -float("inf")).flatten() for tensor in (mine, theirs))
        assert torch.equal(one.view(torch.uint8), other.view(torch.uint8))


@pytest.mark.turns(6)
@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_eagers_bits(name, dtype) -> None:
    ours = run(dynascope.compile(PROGRAMS[name], options=STRICT), given(dtype))
    assert_same_bits(ours, run(PROGRAMS[name], given(dtype)))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["arithmetic", "roots and powers", "scaled sums"])
def test_results_are_eagers_bits_on_a_gpu(name, dtype) -> None:
    """So many that a quotient which is off in the last place of float32 is rounded to another number of 16 bits somewhere."""
    generator = torch.Generator("cuda").manual_seed(0)
    inputs = [torch.randn(1 << 20, generator=generator, device="cuda").to(dtype) for _ in range(2)]
    ours, eagers = dynascope.compile(PROGRAMS[name], options=STRICT)(*inputs), PROGRAMS[name](*inputs)
    assert_same_bits(ours, eagers)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm, self.outer = nn.Linear(12, 20), nn.BatchNorm1d(20), nn.Linear(20, 5)
        self.attention, self.rows = nn.MultiheadAttention(12, 3, batch_first=True), nn.LayerNorm(12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.rows(x + self.attention(x[None], x[None], x[None])[0][0])
        return self.outer(F.dropout(F.gelu(self.norm(self.inner(x))), 0.2, self.training)).square().mean()


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_a_training_run_is_eagers(optimizer) -> None:
    def trained(compiled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = Network()
        updates = optimizer(model.parameters(), lr=0.01, weight_decay=0.1)
        forward = dynascope.compile(model, options=STRICT) if compiled else model
        losses = []
        for _ in range(4):
            updates.zero_grad()
            loss = forward(torch.randn(9, 12))
            loss.backward()
            updates.step()
            losses.append(loss)
        return [*losses, *model.parameters(), *model.buffers()]

    assert_same_bits(trained(True), trained(False))


def test_kernels_are_made_of_what_is_exact() -> None:
    explained = dynascope.explain(dynascope.compile(lambda x: (x * 2 + 1).exp(), options=STRICT), torch.ones(40))
    (kernel,) = explained.report.kernels
    assert "add" in kernel.name and "exp" not in kernel.name
    assert "to the last bit" in explained.show("loops")


def test_an_argument_counts_before_options_and_options_before_the_configuration(monkeypatch) -> None:
    from dynascope.api import _options

    config = dynascope.config
    before = config.mode, config.fullgraph
    try:
        config.mode, config.fullgraph = "max-autotune", True
        assert _options("dynascope", False, None, None, None).mode == "max-autotune"
        assert _options("dynascope", False, None, None, None).fullgraph is True
        assert _options("dynascope", False, None, None, {"mode": "reduce-overhead"}).mode == "reduce-overhead"
        assert _options("dynascope", False, None, "default", {"mode": "reduce-overhead"}).mode == "default"
        assert _options("dynascope", False, None, None, {"dynamic": True, "backend": "eager"}).backend == "eager"
    finally:
        config.mode, config.fullgraph = before


@pytest.mark.parametrize(
    "options",
    [{"mode": "fastest"}, {"numerics": "exact"}, {"random": "devise"}, {"dynamic": 1}, {"dynamic": "auto"}],
    ids=lambda options: next(iter(options)),
)
def test_a_value_that_no_setting_has_is_refused(options) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} is one of"):
        dynascope.compile(torch.relu, options=options)
    with pytest.raises(ValueError, match=f"{name} is one of"):
        setattr(dynascope.config, name, options[name])


@pytest.mark.parametrize(("name", "value", "words"), [
    ("recompile_limit", "8", "a whole number from 1 on"), ("recompile_limit", 0, "a whole number"), ("inline_limit", 2.5, "a whole number"),
    ("inline_limit", 0, "a whole number"), ("recompile_limit", True, "a whole number"), ("cache", "no", "True or False"),
    ("fullgraph", None, "True or False"), ("strict", "0", "True or False"), ("on_guards", 3, "something to call"),
])  # fmt: skip
def test_a_value_of_another_type_is_refused(name, value, words) -> None:
    with pytest.raises(ValueError, match=f"{name} is {words}"):
        dynascope.compile(torch.relu, options={name: value})
    with pytest.raises(ValueError, match=f"{name} is {words}"):
        setattr(dynascope.config, name, value)


@pytest.mark.parametrize("backend", ["eager", lambda graph, examples: graph.forward])
def test_settings_of_our_kernels_are_not_done_by_another_backend_and_that_is_said(backend) -> None:
    asked = {"mode": "max-autotune", "random": "device", "numerics": "strict"}
    x = torch.ones(3)
    for names in (["mode"], ["random", "numerics"], []):
        options = {name: asked[name] for name in names}
        report = dynascope.explain(dynascope.compile(lambda x: x.sin() + 1, backend=backend, options=options), x).report
        told = [note.message for graph in report.graphs for note in graph.notes] + [note.message for note in report.notes]
        assert len(told) == len(names)
        assert all(f'{name}="{asked[name]}"' in message for name, message in zip(names, told, strict=True))


@pytest.mark.parametrize("name", ["max_autotune", "triton.cudagraphs", "epilogue_fusion", "shape_padding"])
def test_settings_of_torchs_compiler_are_refused(name) -> None:
    with pytest.raises(ValueError, match="no setting"):
        dynascope.compile(torch.relu, options={name: True})


def test_the_settings_with_few_values_start_with_one_of_them() -> None:
    from dynascope.configuration import CHOICES

    assert all(getattr(Options(), name) in values for name, values in CHOICES.items())
