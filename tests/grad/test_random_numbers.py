"""Random operators draw eager's numbers, for every layout and whether or not their result is used."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F

LAYOUTS = {
    "contiguous": lambda: torch.full((4, 8), 0.4),
    "transposed": lambda: torch.full((8, 4), 0.4).t(),
    "permuted": lambda: torch.full((2, 3, 4, 5), 0.4).permute(0, 3, 1, 2),
    "channels last": lambda: torch.full((2, 3, 4, 5), 0.4).contiguous(memory_format=torch.channels_last),
    "part": lambda: torch.full((6, 8), 0.4)[1:5, ::2],
    "expanded": lambda: torch.full((4, 1), 0.4).expand(4, 6),
    "scalar": lambda: torch.tensor(0.4),
    "long": lambda: torch.full((33, 70), 0.4).t(),
}
DRAWN = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout of a result": lambda x: F.dropout(x * 2, 0.3),
    "alpha dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "feature dropout": lambda x: F.dropout1d(x.reshape(1, 1, -1), 0.5),
    "bernoulli": lambda x: torch.bernoulli(x),
    "bernoulli p": lambda x: torch.bernoulli(x, 0.3),
    "rand_like": lambda x: torch.rand_like(x),
    "randn_like": lambda x: torch.randn_like(x),
    "randint_like": lambda x: torch.randint_like(x, 10),
    "normal of tensors": lambda x: torch.normal(x, x),
    "normal of a mean": lambda x: torch.normal(x, 2.0),
    "normal of a deviation": lambda x: torch.normal(1.0, x),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.3),
    "bernoulli_ by a tensor": lambda x: torch.empty_like(x).bernoulli_(x),
    "uniform_": lambda x: torch.empty_like(x).uniform_(-1, 2),
    "normal_": lambda x: torch.empty_like(x).normal_(1, 2),
    "exponential_": lambda x: torch.empty_like(x).exponential_(2),
    "geometric_": lambda x: torch.empty_like(x).geometric_(0.3),
    "cauchy_": lambda x: torch.empty_like(x).cauchy_(),
    "log_normal_": lambda x: torch.empty_like(x).log_normal_(),
    "random_": lambda x: torch.empty_like(x).random_(0, 9),
    "poisson": lambda x: torch.poisson(x * 4),
    "gumbel": lambda x: F.gumbel_softmax(x.reshape(1, -1)),
    "rrelu": lambda x: F.rrelu(x - 0.5, training=True),
    "randperm": lambda x: torch.randperm(x.numel()),
    "multinomial": lambda x: torch.multinomial(x.reshape(-1), 1),
    "in a part": lambda x: (y := x * 1, y[..., :1].bernoulli_(0.5) if y.dim() else y.bernoulli_(0.5))[0],
    "normal_ in a part": lambda x: (y := x * 1, y[..., ::2].normal_() if y.dim() else y.normal_())[0],
}


def run(function, make):
    torch.manual_seed(5)
    result = function(make())
    return result, torch.rand(3)


@pytest.mark.turns(6)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", DRAWN)
def test_the_numbers_of_eager(name, layout):
    make, draw = LAYOUTS[layout], DRAWN[name]

    def program(x):
        return draw(x) * 2

    (ours, after), (theirs, expected) = run(dynascope.compile(program), make), run(program, make)
    torch.testing.assert_close(ours, theirs)
    assert ours.stride() == theirs.stride()
    assert torch.equal(after, expected), "the generator is elsewhere than in eager"


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_and_not_used(name, backend):
    draw = DRAWN[name]

    def program(x):
        draw(x)
        return torch.rand(4) + x.sum()

    (ours, after), (theirs, expected) = (
        run(f, LAYOUTS["transposed"]) for f in (dynascope.compile(program, backend=backend), program)
    )
    torch.testing.assert_close(ours, theirs)
    assert torch.equal(after, expected)


def test_dropout_in_a_transformer_layer():
    def result(wrap):
        torch.manual_seed(0)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        y = wrap(layer)(torch.ones(2, 5, 8).cumsum(1))
        y.sum().backward()
        return [y, *(p.grad for p in layer.parameters())]

    for a, b in zip(result(dynascope.compile), result(lambda layer: layer), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
