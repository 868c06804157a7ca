"""States of torch's generators, and draws from those that the program names: eager's numbers, in the program's order, in one graph."""

import dynascope
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.compiler
X = torch.linspace(-2, 2, 12).view(3, 4)
OUTSIDE = torch.Generator()


def forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        noise = torch.randn(3, 4)
    return x + noise, torch.rand(3)


def put_back(x):
    state = torch.get_rng_state()
    first = nn.functional.dropout(x, 0.5)
    torch.set_rng_state(state)
    return first, nn.functional.dropout(x, 0.5), torch.rand(2)


def made_inside(x):
    generator = torch.Generator().manual_seed(5)
    state = generator.get_state()
    first = torch.randn(x.shape, generator=generator)
    generator.set_state(state)
    return x + first, torch.randint(0, 9, (3,), generator=generator), torch.rand(2)


def of_all_kinds(x):
    generator = torch.Generator("cpu")
    generator.manual_seed(4)
    shares = x.softmax(-1)
    chosen = torch.multinomial(shares, 3, generator=generator), shares.multinomial(2, generator=generator)
    around = torch.normal(0.0, 1.0, (3,), generator=generator), torch.normal(x, 0.1, generator=generator)
    return *chosen, *around, torch.bernoulli(shares, generator=generator), torch.randperm(5, generator=generator)


def in_place(x):
    generator = torch.Generator().manual_seed(6)
    turned = torch.zeros(8, 4).t().normal_(generator=generator)
    numbers = torch.empty(5, dtype=torch.long).random_(0, 9, generator=generator)
    return torch.empty(4, 8).normal_(0, 2, generator=generator), x.clone().uniform_(-1, 1, generator=generator), turned, numbers


def from_outside(x):
    return x + torch.rand(3, 4, generator=OUTSIDE), torch.rand(2), x * torch.rand(3, 4, generator=OUTSIDE)


def read_beside_draws(x):
    before = torch.get_rng_state()
    y = x + torch.rand(3, 4)
    return y, before, torch.get_rng_state(), OUTSIDE.get_state()


PROGRAMS = [forked, put_back, made_inside, of_all_kinds, in_place, from_outside, read_beside_draws]


def seeded(function, *given, calls=3):
    torch.manual_seed(0), OUTSIDE.manual_seed(1)
    found = [function(*given) for _ in range(calls)]
    return found, torch.get_rng_state(), OUTSIDE.get_state()


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_one_graph_with_eagers_numbers(program):
    compiled = dynascope.compile(program, fullgraph=True)
    torch.testing.assert_close(seeded(compiled, X), seeded(program, X))


def test_a_seed_that_varies_costs_two_compilations(compilations):
    def sampled(x, seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            x = x * torch.rand(3, 4)
        return x + torch.randn(x.shape, generator=generator)

    compiled = dynascope.compile(sampled, fullgraph=True)
    for seed in range(6):
        torch.testing.assert_close(seeded(compiled, X, seed), seeded(sampled, X, seed))
    assert len(compilations) == 2


def test_gradients_go_past_the_draws():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.generator = nn.Linear(4, 4), torch.Generator().manual_seed(3)

        def forward(self, x):
            y = self.layer(x + torch.randn(x.shape, generator=self.generator)).tanh()
            return (y * torch.bernoulli(torch.full_like(y, 0.5), generator=self.generator)).sum()

    found = []
    for make in (lambda module: module, lambda module: dynascope.compile(module, fullgraph=True)):
        torch.manual_seed(0)
        module = Noisy()
        call = make(module)
        for _ in range(3):
            call(X).backward()
        found.append(module.layer.weight.grad)
    torch.testing.assert_close(*found)


def test_a_graph_that_raises_puts_the_generators_back():
    def looked_up(places):
        first = torch.rand(3, generator=OUTSIDE)
        torch.manual_seed(7)
        second = torch.rand(3)
        return X.view(-1)[places] + first + second

    compiled = dynascope.compile(looked_up, fullgraph=True)
    states = []
    for call in (looked_up, compiled):
        torch.manual_seed(0), OUTSIDE.manual_seed(1)
        found = [call(torch.tensor([1, 2, 3]))]
        with pytest.raises(IndexError):
            call(torch.tensor([1, 2, 30]))
        states.append((found, torch.get_rng_state(), OUTSIDE.get_state()))
    torch.testing.assert_close(*states)


def test_another_generator_at_the_place_is_drawn_from():
    class Holder:
        generator = torch.Generator()

    def sampled(x):
        return x + torch.rand(3, 4, generator=Holder.generator)

    compiled = dynascope.compile(sampled, fullgraph=True)
    for seed in (1, 2):
        Holder.generator = torch.Generator().manual_seed(seed)
        found = compiled(X)
        Holder.generator = torch.Generator().manual_seed(seed)
        torch.testing.assert_close(found, sampled(X))


def test_one_that_leaves_is_made_by_python():
    def given_back(x):
        generator = torch.Generator().manual_seed(2)
        return x * 2, generator

    compiled = dynascope.compile(given_back)
    with dynascope.expected("unrebuildable-value", "foreign-value"):
        found = [compiled(X) for _ in range(2)]
    assert found[0][1] is not found[1][1] and found[0][1].initial_seed() == 2


@pytest.mark.expects("foreign-value")
def test_an_argument_is_pythons():
    def sampled(x, generator):
        return x + torch.rand(3, 4, generator=generator)

    compiled = dynascope.compile(sampled)
    for seed in (1, 2):
        made = [call(X, torch.Generator().manual_seed(seed)) for call in (compiled, sampled)]
        torch.testing.assert_close(*made)


def test_a_seed_is_set_though_torchs_compiler_has_wrapped_the_function():
    kept_out = torch._disable_dynamo(torch.random.manual_seed)

    def sampled(x):
        kept_out(3)
        return x + torch.rand(3, 4)

    compiled = dynascope.compile(sampled, fullgraph=True)
    torch.testing.assert_close(seeded(compiled, X), seeded(sampled, X))
