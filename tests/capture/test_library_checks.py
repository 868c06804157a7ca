"""Checks in library code of what tensors hold are part of the graph; where one does not hold, the library's error is raised."""

import contextlib

import dynascope
import pytest
import torch
from torch import distributions

BACKENDS = ["eager", "dynascope"]
ENDS = ("data-dependent-branch", "data-dependent-value")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def validated(monkeypatch):
    """torch's compiler, once it is imported, turns the checks of all distributions off."""
    monkeypatch.setattr(distributions.Distribution, "_validate_args", True)


def likelihood(logits, scale, at):
    categories, normal = distributions.Categorical(logits=logits), distributions.Normal(logits, scale)
    divergence = distributions.kl_divergence(normal, distributions.Normal(0.0, 1.0))
    return categories.log_prob(at), categories.entropy(), normal.log_prob(logits + 1), divergence


def given(device, scale=0.5, at=1):
    logits = torch.linspace(-1, 1, 6, device=device).reshape(2, 3).requires_grad_()
    return logits, torch.full((2, 3), scale, device=device), torch.tensor([0, at], device=device)


def divergence(logits, scale, at):
    posterior = distributions.Normal(logits, scale)
    pixels = distributions.Bernoulli(logits=logits * scale)
    return distributions.kl_divergence(posterior, distributions.Normal(0.0, 1.0)) - pixels.log_prob((logits > 0).float()), at


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [likelihood, divergence])
def test_distributions_are_one_graph(function, backend, device):
    """On a device an index that does not fit ends all work there: one behind a check stays outside the check's graph."""
    is_split = device == "cuda" and function is likelihood
    compiled = dynascope.compile(function, fullgraph=not is_split, backend=backend)
    for scale in (0.5, 2.0):
        with dynascope.expected(*ENDS if is_split else (), required=False):
            expected, found = function(*given(device, scale)), compiled(*given(device, scale))
        torch.testing.assert_close(found, expected)
        assert [each.requires_grad for each in found] == [each.requires_grad for each in expected]


def test_a_check_that_names_what_is_wrong_before_it_raises():
    def likelihood_of_two(p):
        return distributions.Geometric(p).log_prob(torch.tensor(2.0))

    compiled, p = dynascope.compile(likelihood_of_two, fullgraph=True), torch.tensor([0.3, 0.4])
    torch.testing.assert_close(compiled(p), likelihood_of_two(p))
    with pytest.raises(ValueError, match="found invalid values"):
        compiled(torch.tensor([-0.3, 0.4]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrong", [dict(scale=-1.0), dict(at=7)])
def test_what_does_not_hold_is_raised(backend, wrong, device):
    compiled = dynascope.compile(likelihood, backend=backend)
    said = []
    with dynascope.expected(*ENDS if device == "cuda" else (), required=False):
        compiled(*given(device))
        for call in (likelihood, compiled):
            with pytest.raises(ValueError) as caught:
                call(*given(device, **wrong))
            said.append(str(caught.value))
        torch.testing.assert_close(compiled(*given(device)), likelihood(*given(device)))
    assert said[0] == said[1]


def test_a_check_that_is_caught_is_not_assumed():
    def checked(scale):
        try:
            return distributions.Normal(0.0, scale).log_prob(torch.ones(()))
        except ValueError:
            return torch.zeros(())

    compiled = dynascope.compile(checked, backend="eager")
    with dynascope.expected("data-dependent-branch"):
        for scale in (1.0, -1.0):
            assert torch.equal(compiled(torch.tensor(scale)), checked(torch.tensor(scale)))


def test_the_encoder_asks_what_hides_rows_in_vain_where_gradients_are_computed():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    compiled = dynascope.compile(encoder, backend="eager")
    x = torch.linspace(-1, 1, 48).reshape(2, 3, 8)
    for mask in ([[0, 0, 1], [0, 0, 0]], [[1, 0, 0], [0, 1, 0]]):
        mask = torch.tensor(mask).bool()
        assert torch.equal(compiled(x, src_key_padding_mask=mask), encoder(x, src_key_padding_mask=mask))


def test_an_import_called_by_its_name():
    def half_turn(x):
        return x * float(__import__("numpy").pi)

    compiled = dynascope.compile(half_turn, fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), half_turn(torch.ones(2)))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_below_a_context_manager_is_assumed(backend):
    """It hears of the error and lets it pass."""

    def draws(scale):
        with torch.no_grad(), torch.profiler.record_function("draw"):
            return distributions.Normal(0.0, scale).log_prob(torch.ones(()))

    compiled = dynascope.compile(draws, backend=backend, fullgraph=True)
    for scale in (1.0, 2.0):
        torch.testing.assert_close(compiled(torch.tensor(scale)), draws(torch.tensor(scale)))
    for call in (draws, compiled):
        with pytest.raises(ValueError, match="to satisfy the constraint"):
            call(torch.tensor(-1.0))
        assert torch.is_grad_enabled()


def test_a_manager_that_swallows_the_error_is_heeded():
    def checked(scale):
        result = torch.zeros(())
        with contextlib.suppress(ValueError):
            result = distributions.Normal(0.0, scale).log_prob(torch.ones(()))
        return result + 1

    compiled = dynascope.compile(checked, backend="eager")
    with dynascope.expected("data-dependent-branch", required=False):
        for scale in (1.0, -1.0, 2.0, -2.0):
            assert torch.equal(compiled(torch.tensor(scale)), checked(torch.tensor(scale)))


def test_a_check_that_is_caught_around_a_context_manager_is_not_assumed():
    def checked(scale):
        try:
            with torch.no_grad():
                return distributions.Normal(0.0, scale).log_prob(torch.ones(()))
        except ValueError:
            return torch.zeros(())

    compiled = dynascope.compile(checked, backend="eager")
    with dynascope.expected("data-dependent-branch"):
        for scale in (1.0, -1.0):
            assert torch.equal(compiled(torch.tensor(scale)), checked(torch.tensor(scale)))


LATER = """
import torch

def holds(valid):
    return bool(torch._is_all_true(valid))

def checked(x):
    if not holds(x > 0):
        raise ValueError(f"found {x.tolist()}")
    return x.log()

def counted(x):
    return 1 if holds(x > 0) else 2
"""


@pytest.fixture
def later():
    """Checks as torch 2.15 has them: a function tells its caller, who raises."""
    names = {"__name__": "torch.later", "__file__": torch.__file__}
    exec(compile(LATER, torch.__file__, "exec"), names)
    return names


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_that_a_function_of_the_library_answers(later, backend):
    compiled = dynascope.compile(lambda x: later["checked"](x) * 2, backend=backend, fullgraph=True)
    for x in (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])):
        torch.testing.assert_close(compiled(x), x.log() * 2)
    with pytest.raises(ValueError, match=r"found \[-1.0, 2.0\]"):
        compiled(torch.tensor([-1.0, 2.0]))


def test_an_answer_that_its_caller_goes_on_with_is_not_assumed(later):
    compiled = dynascope.compile(lambda x: x * later["counted"](x), backend="eager")
    with dynascope.expected("data-dependent-branch"):
        for values in ([1.0, 2.0], [-1.0, 2.0]):
            assert torch.equal(compiled(torch.tensor(values)), torch.tensor(values) * (1 if values[0] > 0 else 2))


class Prior(torch.nn.Module):
    """Who asks for `prior` hears of an AttributeError first, by `Module.__getattr__`; of what a check raises nobody does."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))

    @property
    def prior(self):
        return distributions.Normal(torch.zeros(2), self.scale)

    def forward(self, x):
        return self.prior.log_prob(x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_below_a_property_of_a_module_is_assumed(backend):
    prior = Prior()
    compiled = dynascope.compile(prior, backend=backend, fullgraph=True)
    x = torch.tensor([0.5, -0.5])
    torch.testing.assert_close(compiled(x), prior(x))
    with torch.no_grad():
        prior.scale.neg_()
    for call in (prior, compiled):
        with pytest.raises(ValueError, match="to satisfy the constraint"):
            call(x)
