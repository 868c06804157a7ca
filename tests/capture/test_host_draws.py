"""Numbers from Python's and NumPy's own generators: eager's, in the program's order, in one graph."""

import random

import dynascope
import numpy as np
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.compiler
X = torch.linspace(-2, 2, 12).view(3, 4)


def of_python(x):
    return x * random.random() + random.uniform(1, 2), x * random.gauss(0, 1) + random.randint(0, 5) * x, random.random()


def of_numpy(x):
    row, places, order = np.random.rand(4), np.random.randint(0, 3, size=(2,)), np.random.permutation(3)
    shift = np.random.normal(0, 1, (4,)).astype(np.float32)
    return x * torch.from_numpy(row), x[places], x + torch.from_numpy(shift) * np.random.uniform(), x[order], x * np.random.beta(0.2, 0.2)


def mixed(x):
    first, row, second = torch.rand(3), np.random.rand(3), torch.randn(3)
    return first, torch.from_numpy(row), second * row.sum(), random.gauss(0, 1)


def shuffled(x):
    places = np.arange(6)
    np.random.shuffle(places)
    once = x.view(6, 2)[places[:3]]
    np.random.shuffle(places)
    return once, x.view(6, 2)[places], places


def nobody_reads(x):
    random.random(), np.random.rand(2), random.getrandbits(8)
    return x + 1


def what_raises_draws_once(x):
    factor = random.random() * np.random.rand()
    try:
        row = x[torch.tensor([7])]
    except IndexError:
        row = x[0]
    return row * factor


PROGRAMS = [of_python, of_numpy, mixed, shuffled, nobody_reads, what_raises_draws_once]


def seeded(function, *given, calls=3):
    torch.manual_seed(0), random.seed(0), np.random.seed(0)
    found = [function(*given) for _ in range(calls)]
    return found, random.random(), np.random.rand(), torch.rand(2)


def assert_alike(ours, theirs):
    if isinstance(theirs, (tuple, list)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_alike(one, other)
    elif isinstance(theirs, np.ndarray):
        np.testing.assert_array_equal(ours, theirs)
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs)
    else:
        assert type(ours) is type(theirs) and ours == pytest.approx(theirs)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_with_eagers_numbers(program):
    compiled = dynascope.compile(program)
    assert_alike(seeded(compiled, X), seeded(program, X))
    assert len(dynascope.explain(compiled)(X).graphs) == 1


def test_a_step_over_shuffled_batches():
    def steps(compile):
        torch.manual_seed(0)
        layer = nn.Linear(4, 2)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)

        def epoch(x):
            places, total = np.arange(6), 0.0
            np.random.shuffle(places)
            for at in range(0, 6, 3):
                loss = layer(x[places[at : at + 3]]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            return total

        return seeded(compile(epoch), torch.linspace(-1, 1, 24).view(6, 4)), list(layer.parameters())

    assert_alike(steps(lambda epoch: dynascope.compile(epoch, fullgraph=True)), steps(lambda epoch: epoch))


def test_bounds_that_vary():
    def program(x, n):
        return x[np.random.randint(0, min(n, 20), size=3)], random.randint(0, n), x * np.random.uniform(0, n)

    compiled, rows = dynascope.compile(program), torch.arange(30.0)
    for n in (3, 4, 5, 9):
        assert_alike(seeded(compiled, rows, n), seeded(program, rows, n))


@pytest.mark.expects("foreign-call")
def test_a_branch_on_a_number_that_was_drawn():
    def program(x):
        x = x * 2
        return x.flip(-1) if random.random() < 0.5 else x + 1

    assert_alike(seeded(dynascope.compile(program), X, calls=8), seeded(program, X, calls=8))


@pytest.mark.expects("foreign-call")
def test_no_graph_draws_for_python_alone():
    def program(x):
        return x.flip(-1) if random.random() < 0.5 else x + 1

    compiled = dynascope.compile(program)
    assert_alike(seeded(compiled, X, calls=8), seeded(program, X, calls=8))


@pytest.mark.expects("foreign-call")
def test_places_that_were_drawn_are_numbers_of_kernels():
    """A crop: known when the graph begins, its places have kernels for all of them."""

    def program(x):
        row, column = np.random.randint(0, 3), random.randint(0, 3)
        part = x[:, row : row + 4, column : column + 4]
        return part.mean((1, 2)), part * 2

    picture = torch.linspace(-1, 1, 128).view(2, 8, 8)
    assert_alike(seeded(dynascope.compile(program), picture, calls=6), seeded(program, picture, calls=6))


def test_what_generators_refuse_they_refuse_in_their_words():
    def program(x):
        return x * random.randint(5, 1)

    for function in (program, dynascope.compile(program)):
        with pytest.raises(ValueError, match="empty range"):
            function(X)


@pytest.mark.may_break
def test_generators_of_the_programs_own():
    def make():
        one, other, newer = random.Random(3), np.random.RandomState(1), np.random.default_rng(0)
        return lambda x: (x * one.random() + newer.random(), other.rand(), one.uniform(0, 1))

    assert_alike(seeded(dynascope.compile(make()), X), seeded(make(), X))


class Sampler:
    """Generators that the program keeps: in attributes, in globals."""

    def __init__(self, seed):
        self.rng, self.old, self.python = np.random.default_rng(seed), np.random.RandomState(seed), random.Random(seed)

    def numbers(self, x):
        x = x * self.rng.random() + self.rng.beta(0.4, 0.4) * x + self.old.uniform(1, 2)
        return x * self.python.gauss(0, 1), self.python.randint(0, 5) * x, self.rng.random()

    def rows(self, x):
        row, places, order = self.rng.standard_normal(4), self.rng.integers(0, 3, size=2), self.rng.permutation(3)
        return x * torch.from_numpy(row), x[places], x[order], x * torch.from_numpy(self.old.rand(4))

    def shuffled(self, x):
        places = np.arange(6)
        self.rng.shuffle(places)
        return x.view(6, 2)[places[:3]], places

    def what_raises_draws_once(self, x):
        factor = self.rng.random() * self.old.rand() * self.python.random()
        try:
            row = x[torch.tensor([7])]
        except IndexError:
            row = x[0]
        return row * factor


@pytest.mark.parametrize("name", ["numbers", "rows", "shuffled", "what_raises_draws_once"])
def test_generators_of_the_program(name):
    compiled = dynascope.compile(getattr(Sampler, name))
    ours, theirs = Sampler(3), Sampler(3)
    for _ in range(3):
        assert_alike(compiled(ours, X), getattr(theirs, name)(X))
    assert len(dynascope.explain(compiled)(ours, X).graphs) == 1


GENERATOR = np.random.default_rng(0)


def test_another_generator_takes_its_place(monkeypatch):
    def program(x):
        return x * GENERATOR.uniform(1, 2)

    compiled = dynascope.compile(program, fullgraph=True)
    for seed in (1, 2):
        results = []
        for function in (compiled, program):
            monkeypatch.setitem(globals(), "GENERATOR", np.random.default_rng(seed))
            results.append([function(X) for _ in range(2)])
        assert_alike(*results)


@pytest.mark.expects("foreign-call")
def test_a_generator_for_each_call_is_left_to_python():
    def program(x, rng):
        return x * rng.uniform(1, 2)

    compiled = dynascope.compile(program)
    for seed in range(12):
        assert_alike(compiled(X, np.random.default_rng(seed)), program(X, np.random.default_rng(seed)))


class Loaded(random.Random):
    def random(self):
        return 0.25


LOADED = Loaded(0)


@pytest.mark.parametrize("program", [lambda x: x * LOADED.random(), lambda x: x * LOADED.uniform(0, 2)], ids=["own", "inherited"])
def test_a_generator_of_the_programs_own_class(program):
    assert_alike(dynascope.compile(program, fullgraph=True)(X), program(X))


def over_tasks(weight, log):
    total = 0
    for _ in range(2):
        scale = random.uniform(1, 2)
        points = torch.rand(5) * scale + torch.from_numpy(np.random.rand(5))
        loss = (points * weight).sin().square().mean()
        (gradient,) = torch.autograd.grad(loss, weight, create_graph=True)
        total = total + (points * (weight - 0.1 * gradient)).sin().square().mean() * random.random()
    total.backward()
    return total.detach()


def drawn_by_what_was_drawn(weight, log):
    bound = random.randint(1, 9)
    points = torch.rand(5) * random.randint(0, bound) + random.random()
    return torch.autograd.grad((points * weight).sin().sum(), weight, create_graph=True)[0].detach()


def behind_an_operator_of_the_programs(weight, log):
    log.append(random.random())
    points = torch.ops.host_draws_test.scaled(weight.detach()) * random.random()
    return torch.autograd.grad((points * weight).sin().sum(), weight, create_graph=True)[0].detach()


@torch.library.custom_op("host_draws_test::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * random.random()


scaled.register_fake(lambda x: torch.empty_like(x))


def of_drawn_points(function, call):
    seed()
    weight, log = torch.linspace(0.5, 1, 5, dtype=torch.float64, requires_grad=True), []
    results = [call(weight, log) for _ in range(3)]
    return [*results, weight.grad if weight.grad is not None else weight.detach(), torch.tensor([*log, random.random(), np.random.rand()])]


def seed():
    random.seed(0), np.random.seed(0), torch.manual_seed(0)


def test_what_is_drawn_before_a_gradient_is_drawn_first():
    """One graph: no part of it ends at a number that Python draws."""
    found = of_drawn_points(over_tasks, dynascope.compile(over_tasks, fullgraph=True))
    for one, other in zip(found, of_drawn_points(over_tasks, over_tasks), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.may_break
@pytest.mark.parametrize("function", [drawn_by_what_was_drawn, behind_an_operator_of_the_programs], ids=lambda each: each.__name__)
def test_draws_keep_their_order_before_gradients(function):
    found = of_drawn_points(function, dynascope.compile(function))
    for one, other in zip(found, of_drawn_points(function, function), strict=True):
        torch.testing.assert_close(one, other)
