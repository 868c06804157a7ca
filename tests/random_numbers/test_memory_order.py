"""Random operators draw eager's numbers in eager's order, whatever the layout of the tensor that they fill."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.compiler

LAYOUTS = {
    "contiguous": lambda: torch.rand(4, 6, 5),
    "transposed": lambda: torch.rand(5, 6, 4).permute(2, 1, 0),
    "middle-last": lambda: torch.rand(4, 5, 6).transpose(1, 2),
    "expanded": lambda: torch.rand(4, 1, 5).expand(4, 6, 5),
    "stepped": lambda: torch.rand(10, 6, 4).permute(2, 1, 0)[:, :, ::2],
    "offset": lambda: torch.rand(5, 7, 6)[1:, 1:, 1:],
    "empty": lambda: torch.rand(4, 0, 5),
    "long": lambda: torch.rand(300, 2, 7).transpose(0, 2),
}
LIKE = {
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint_like": lambda x: torch.randint_like(x, 2, 10),
    "rand_like contiguous": lambda x: torch.rand_like(x, memory_format=torch.contiguous_format),
    "bernoulli": lambda x: torch.bernoulli(x),
    "bernoulli of a number": lambda x: torch.bernoulli(x, 0.3),
    "normal": lambda x: (torch.normal(x, x + 1), torch.normal(x, 2.0), torch.normal(1.0, x + 1)),
    "normal broadcast": lambda x: torch.normal(x, (x + 1)[:1]),
    "poisson": lambda x: torch.poisson(x * 3),
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout of what is computed": lambda x: F.dropout((x * 2).transpose(0, 1), 0.3).relu() + 1,
    "dropout in place": lambda x: F.dropout(x.clone(), 0.3, inplace=True),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.3, training=True),
    "feature dropout": lambda x: F.dropout1d(x, 0.5),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True),
    "gumbel softmax": lambda x: F.gumbel_softmax(x + 1),
    "several": lambda x: (F.dropout(x), torch.rand(3), torch.rand_like(x.transpose(0, 2)), torch.randperm(5)),
}
FILLED = {
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "bernoulli_ of a tensor": lambda x: x.bernoulli_(torch.full_like(x, 0.5)),
    "normal_": lambda x: x.normal_(1, 2),
    "uniform_": lambda x: x.uniform_(1, 2),
    "exponential_": lambda x: x.exponential_(),
    "cauchy_": lambda x: x.cauchy_(),
    "log_normal_": lambda x: x.log_normal_(),
    "geometric_": lambda x: x.geometric_(0.3),
    "random_": lambda x: x.random_(),
    "random_ to": lambda x: x.random_(9),
    "random_ from": lambda x: x.random_(**{"from": 3, "to": 9}),
    "uniform_ from": lambda x: x.uniform_(**{"from": 1, "to": 2}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_tensors(layout: str) -> None:
    for name, program in LIKE.items():
        compare(name, program, LAYOUTS[layout])


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "expanded"])
def test_filled_tensors(layout: str) -> None:
    def all_at_once(x: torch.Tensor) -> tuple:
        return tuple(fill(x.clone()) for fill in FILLED.values())

    compare("filled", all_at_once, LAYOUTS[layout])


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "stepped", "offset"])
def test_the_argument_and_views_of_it(layout: str) -> None:
    def filled(x: torch.Tensor) -> torch.Tensor:
        x[:, 1:4].normal_()
        x[0].t().uniform_(2, 3)
        x.select(2, 1).bernoulli_(0.5)
        return x * 2

    compare("views", filled, LAYOUTS[layout])


def test_a_generator_of_its_own() -> None:
    def draws(compiled: bool) -> tuple:
        generator = torch.Generator().manual_seed(7)

        def program(x: torch.Tensor) -> torch.Tensor:
            return x.clone().normal_(generator=generator) + torch.rand(6, generator=generator)

        function = dynascope.compile(program) if compiled else program
        return function(torch.ones(4, 6)), function(torch.ones(4, 6)), generator.get_state()

    for ours, theirs in zip(draws(True), draws(False), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("batch_first", [True, False])
def test_transformer_layer_in_training(batch_first: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=batch_first)
    x, results = torch.rand(2, 5, 8), []
    for function in (layer, dynascope.compile(layer)):
        torch.manual_seed(1)
        layer.zero_grad()
        out = function(x)
        out.square().sum().backward()
        results.append([out.detach(), *(p.grad.clone() for p in layer.parameters()), torch.rand(1)])
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def compare(name: str, program, make) -> None:
    results = []
    for function in (program, dynascope.compile(program)):
        torch.manual_seed(5)
        x = make()
        torch.manual_seed(1)
        result = function(x)
        results.append([*(result if isinstance(result, tuple) else (result,)), x, torch.get_rng_state()])
    for theirs, ours in zip(*results, strict=True):
        assert theirs.dtype == ours.dtype, name
        assert theirs.stride() == ours.stride() or not theirs.numel() or 1 in theirs.shape, name
        torch.testing.assert_close(ours, theirs, msg=lambda text, name=name: f"{name}: {text}")
