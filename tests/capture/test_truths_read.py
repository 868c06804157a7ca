"""A truth that is read from a tensor is a number that only the run knows: it is kept, returned and checked in one graph."""

import dynascope
import pytest
import torch
from torch.nn import functional

BACKENDS = ["eager", "dynascope"]


def kept(x):
    ok, large = (x > 0).all().item(), bool((x > 1).any())
    return {"ok": ok, "large": large, "none": not x.any(), "is bool": isinstance(ok, bool)}, x * ok + (not x.any()), not large


@pytest.mark.parametrize("backend", BACKENDS)
def test_truths_are_kept_and_computed_with(backend):
    compiled = dynascope.compile(kept, fullgraph=True, backend=backend)
    for values in ([1.0, 2.0], [-1.0, 0.5], [0.0, 0.0], [float("nan"), 1.0]):
        x = torch.tensor(values)
        found, expected = compiled(x), kept(x)
        assert (found[0], found[2]) == (expected[0], expected[2])
        assert torch.equal(found[1].nan_to_num(9), expected[1].nan_to_num(9))


def by_torchs_checks(x, most):
    n = x.long().sum().item()
    torch._check_tensor_all(x < 50, lambda: "too large")
    torch._check_value(n != most, lambda: f"not {most}")
    return x + n


def by_branches(x, most):
    n = x.long().sum().item()
    if torch.isnan(x).any().item():
        raise FloatingPointError(f"after {most}")
    if n > most:
        raise ValueError(f"many: {n}")
    if not n >= -20:
        raise ValueError(f"few: {n}")
    if not bool((x < 50).all()):
        raise AssertionError("too large")
    return x * 2


def outcomes(function):
    given = []
    for values in ([1.0, 2.0], [60.0, -50.0], [float("nan"), 0.0], [30.0, 1.0], [-30.0, 1.0], [4.0, 4.0], [2.0, 2.0]):
        try:
            given.append(function(torch.tensor(values), 8).tolist())
        except (RuntimeError, ValueError, ArithmeticError, AssertionError) as error:
            given.append((type(error), str(error)))
    return given


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [by_torchs_checks, by_branches])
def test_branches_that_only_raise_are_checks(function, backend):
    assert outcomes(dynascope.compile(function, fullgraph=True, backend=backend)) == outcomes(function)


def test_what_is_written_after_it_was_read_is_not_asked_again():
    def function(x):
        found = x.any()
        ok = found.item()
        found.zero_()
        if not ok:
            raise ValueError("none")
        return found

    compiled = dynascope.compile(function, fullgraph=True, backend="eager")
    assert not compiled(torch.ones(2))
    with pytest.raises(ValueError, match="none"):
        compiled(torch.zeros(2))


def test_a_function_of_torch_that_looks_at_values_to_raise_is_part_of_the_graph():
    compiled = dynascope.compile(functional.gaussian_nll_loss, fullgraph=True, backend="eager")
    for rows in (2, 5):
        given = torch.randn(rows, 1), torch.randn(rows, 1), torch.rand(rows, 1)
        assert torch.equal(compiled(*given), functional.gaussian_nll_loss(*given))
    with pytest.raises(ValueError, match="negative"):
        compiled(*given[:2], -given[2])
