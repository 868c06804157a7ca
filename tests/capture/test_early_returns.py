"""A function that returns one mask or another, as a tensor decides, is part of the graph, as `MultivariateNormal` asks of its matrix."""

import dynascope
import pytest
import torch
from torch.distributions import Distribution, LKJCholesky, MultivariateNormal, Wishart

BACKENDS = ["eager", "dynascope"]
CALLS = [[1.0, 2.0], [-1.0, 2.0], [1.0, 7.0], [0.0, 3.0], [1.0, 2.0]]


@pytest.fixture(autouse=True)
def checks_are_made(monkeypatch):
    """torch's own compiler takes them out for the whole process."""
    monkeypatch.setattr(Distribution, "_validate_args", True)


def positive_or_small(x):
    positive = x > 0
    if not positive.all():
        return positive
    return x < 5


def small_if_any(x):
    small = x < 5
    if small.any():
        positive = x > 0
        return positive
    return small


def nested(x):
    mask = positive_or_small(x)
    return mask if mask.shape[0] > 2 else positive_or_small(x + 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("choose", [positive_or_small, small_if_any, nested])
def test_one_graph(choose, backend):
    def program(x):
        return torch.where(choose(x), x, -x)

    compiled = dynascope.compile(program, backend=backend, fullgraph=True)
    for values in CALLS:
        assert torch.equal(compiled(torch.tensor(values)), program(torch.tensor(values)))


def density(mean, matrix):
    normal = MultivariateNormal(mean, matrix)
    return normal.log_prob(mean + 1), normal.entropy()


def densities(mean, matrix):
    return (
        Wishart(torch.tensor(3.0), covariance_matrix=matrix).log_prob(torch.eye(2)),
        MultivariateNormal(mean, precision_matrix=matrix).log_prob(mean),
        LKJCholesky(2).log_prob(torch.eye(2)),
    )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [density, densities])
def test_distributions_of_matrices_are_one_graph(function, backend):
    compiled = dynascope.compile(function, backend=backend, fullgraph=True)
    for scale in (1.0, 2.0):
        given = torch.zeros(2, requires_grad=True), torch.eye(2) * scale
        torch.testing.assert_close(compiled(*given), function(*given))


@pytest.mark.parametrize("matrix", [[[-1.0, 0.0], [0.0, 1.0]], [[1.0, 0.5], [0.2, 1.0]]])
def test_a_matrix_that_is_none_of_these_is_refused_as_in_eager(matrix):
    compiled = dynascope.compile(density, backend="eager")
    compiled(torch.zeros(2), torch.eye(2))
    with pytest.raises(ValueError, match="PositiveDefinite"):
        compiled(torch.zeros(2), torch.tensor(matrix))
    compiled(torch.zeros(2), torch.eye(2))


def keeps_it(x, held):
    held["mask"] = positive = x > 0
    if not positive.all():
        return positive
    return x < 5


def changes_it(x, held):
    positive = x > 0
    if not positive.all():
        return positive
    positive &= x < 5
    return positive


def changes_another(x, held):
    positive = x > 0
    if not positive.all():
        return positive
    held["count"] += 1
    return x < 5


def appends(x, held):
    positive = x > 0
    if not positive.all():
        return positive
    held.setdefault("log", []).append(1)
    return x < 5


def draws(x, held):
    positive = x > 0
    if not positive.all():
        return positive
    return x < torch.rand(2) * 5


def looks_up(x, held):
    positive = x > 0
    if not positive.all():
        return positive
    return torch.arange(8)[x.long()] > 1


def checks(x, held):
    positive = x > 0
    if not positive.all():
        return positive
    assert (x != 9).all()
    return x < 5


def gives_what_it_is_given(x, held):
    return of_the_callers(x, held["given"])


def of_the_callers(x, positive):
    if not positive.all():
        return positive
    return positive & (x < 5)


@pytest.mark.expects("data-dependent-branch")
@pytest.mark.parametrize(
    "choose", [keeps_it, changes_it, changes_another, appends, draws, looks_up, checks, gives_what_it_is_given]
)
def test_what_can_be_told_is_left_to_python(choose):
    def program(x):
        held = {"count": torch.zeros(2), "given": x > 0}
        mask = choose(x, held)
        mask &= x != 2
        return torch.where(mask, x, -x), {name: each for name, each in held.items() if isinstance(each, torch.Tensor)}

    compiled = dynascope.compile(program, backend="eager")
    for values in CALLS:
        torch.manual_seed(0)
        expected = program(torch.tensor(values)), torch.rand(1)
        torch.manual_seed(0)
        torch.testing.assert_close((compiled(torch.tensor(values)), torch.rand(1)), expected)


@pytest.mark.expects("data-dependent-branch")
def test_an_error_that_is_caught_is_left_to_python():
    def choose(x):
        positive = x > 0
        if not positive.all():
            return positive
        return torch.linalg.inv(torch.diag(x - 1))[0] > 0.1

    def program(x):
        try:
            return choose(x)
        except RuntimeError:
            return x > 1

    compiled = dynascope.compile(program, backend="eager")
    for values in CALLS:
        assert torch.equal(compiled(torch.tensor(values)), program(torch.tensor(values)))


@pytest.mark.expects("foreign-call")
def test_a_transform_refuses_it_in_its_own_words():
    compiled = dynascope.compile(lambda x: torch.func.vmap(positive_or_small)(x), backend="eager")
    with pytest.raises(RuntimeError, match="data-dependent control flow"):
        compiled(torch.ones(3, 2))
