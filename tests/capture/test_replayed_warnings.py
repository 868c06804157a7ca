"""`warnings.warn` of the program breaks nothing: said at each call, from the program's own lines, as filters say."""

import warnings

import dynascope
import pytest
import torch
import torch.nn.functional as F
from harness import compiled


def said(function, *arguments, calls=2, action="always"):
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter(action)
        results = [function(*arguments) for _ in range(calls)]
    return [(str(w.message), w.category, w.filename, w.lineno) for w in given], results


def inner(x):
    warnings.warn("inner", DeprecationWarning, stacklevel=2)
    warnings.warn(message="own line", category=RuntimeWarning, stacklevel=1)
    return x * 2


def two_levels(x):
    warnings.warn("first", stacklevel=1)
    y = inner(x) + 1
    warnings.warn("of the caller", stacklevel=2)
    return y


def beside_a_write(x, log):
    log.append(1)
    warnings.warn("after one", stacklevel=1)
    log.append(2)
    return x + len(log)


@pytest.mark.parametrize("action", ["always", "once", "default", "ignore"])
def test_said_as_by_eager(action):
    x = torch.ones(2)
    expected, _ = said(two_levels, x, action=action)
    globals().pop("__warningregistry__", None)
    dispatch = compiled(two_levels)
    found, results = said(dispatch, x, action=action)
    own = [each for each in expected if each[0] != "of the caller"]
    assert [each for each in found if each[0] != "of the caller"] == own
    assert sum(each[0] == "of the caller" for each in found) == sum(each[0] == "of the caller" for each in expected)
    assert all(torch.equal(result, x * 2 + 1) for result in results)
    assert dispatch.compilation.codes == [] and len(dispatch.graphs) == 1
    globals().pop("__warningregistry__", None)


def test_beside_other_effects():
    log = []
    found, results = said(compiled(beside_a_write), torch.ones(2), log, calls=1)
    assert [each[0] for each in found] == ["after one"] and log == [1, 2] and results[0].tolist() == [3, 3]


def test_where_a_filter_makes_an_error_of_it_the_call_raises():
    dispatch = compiled(two_levels)
    x = torch.ones(2)
    said(dispatch, x, calls=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="first"):
            dispatch(x)


def test_before_a_break():
    def function(x):
        warnings.warn("before", stacklevel=1)
        n = x.sum().item()
        warnings.warn("after", stacklevel=1)
        return x * n

    found, _ = said(compiled(function), torch.ones(2), calls=1)
    assert [each[0] for each in found] == ["before", "after"]


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_warnings_that_the_function_itself_looks_at(backend):
    def program(x, given):
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        first = len(given)
        F.mse_loss(x, torch.ones(3))
        return first, [each.category for each in given]

    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        found = dynascope.compile(program, backend=backend)(torch.ones(3, 1), given)
    assert found == (1, [DeprecationWarning, UserWarning])


def test_what_torch_warns_of_at_other_sizes_is_not_said():
    def function(x, out):
        return torch.add(x, 1, out=out), out.shape

    dispatch = dynascope.compile(function, backend="eager")
    with warnings.catch_warnings(record=True) as given, dynascope.expected("tensor-attribute"):
        warnings.simplefilter("always")
        for x, out in ((torch.ones(2), torch.empty(0)), (torch.ones(3), torch.empty(3)), (torch.ones(2, 2), torch.empty(2, 2))):
            dispatch(x, out)
    assert not given
