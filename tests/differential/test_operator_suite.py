"""A few units of the operator suite, others each time; `bench/operator_suite.py` runs all of them."""

import random

import pytest
import torch
from operator_cases import DTYPES, differences, units

KNOWN = frozenset(
    [
        "linalg.eig",  # that a loss depends on the phase is found out by looking at values, which is eager's
        "nn.functional.embedding_bag",  # of its four results two are only for its own backward
    ]
)


@pytest.mark.compiler
@pytest.mark.may_break
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["results", "in place", "out", "errors", "module", "sizes", "autocast"])
def test_some_units(kind):
    seed = random.randrange(10**6)
    print("seed", seed)
    every = [unit for unit in units("cpu", DTYPES, (kind,)) if unit.name not in KNOWN]
    for unit in random.Random(seed).sample(every, 4):
        found = [line for line in differences(unit, samples=2, seed=seed) if line is not None]
        found = [line for line in found if "gradients[" not in line or "strides" not in line]
        assert not found, f"{unit}: {found}"


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_result_is_found(monkeypatch):
    """The suite itself: a compiler that returns something else is noticed in each kind."""
    import operator_cases

    def compile(function):
        def wrong(*args, **kwargs):
            result = function(*args, **kwargs)
            tensors = operator_cases.leaves(result)
            with torch.no_grad():
                for tensor in tensors:
                    tensor.logical_not_() if tensor.dtype == torch.bool else tensor.add_(1)
            return result

        return wrong

    monkeypatch.setattr(operator_cases.dynascope, "compile", compile)
    for kind in ("results", "in place", "out"):
        (unit,) = (u for u in units("cpu", (torch.float32,), (kind,), "add") if u.name == "add")
        assert all(line is not None for line in differences(unit, samples=1, seed=0)), kind
