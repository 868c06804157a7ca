"""A variance without degrees of freedom: torch warns of it at each call, at the program's line, and so it does compiled."""

import warnings

import dynascope
import pytest
import torch

ONE_ROW = {
    "std": lambda x: x.std(0),
    "std of all": lambda x: x[:, 0].std() * 2,
    "unbiased, by its place": lambda x: torch.var(x, 0, True),
    "both": lambda x: torch.var_mean(x, 0)[1],
    "a correction": lambda x: x.var(1, correction=2),
    "of nothing": lambda x: x[:0].std(0),
}
WITHOUT_A_WARNING = {
    "biased": lambda x: x.std(0, unbiased=False),
    "biased, by its place": lambda x: x.std(False),
    "no correction": lambda x: torch.var(x, 0, correction=0),
    "of several": lambda x: x.std(1),
}


def outcome(function):
    x = torch.arange(2.0)[None].requires_grad_()
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        results = [function(x) for _ in range(2)]
    return repr(results[1].tolist()), [(str(each.message), each.filename, each.lineno) for each in given]


@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("name", [*ONE_ROW, *WITHOUT_A_WARNING])
def test_torch_warns_as_often_as_it_does_uncompiled(name, backend):
    program = (ONE_ROW | WITHOUT_A_WARNING)[name]
    with dynascope.expected(*(["foreign-call"] if name in ONE_ROW else [])):
        mine = outcome(dynascope.compile(program, backend=backend))
    assert mine == outcome(program) and bool(mine[1]) == (name in ONE_ROW)
