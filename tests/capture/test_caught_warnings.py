"""`with warnings.catch_warnings():` inside a compiled function: part of the graph where nothing warns, else Python's own."""

import warnings

import dynascope
import pytest
import torch

X = torch.ones(2)


def silenced(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", category=UserWarning)
        warnings.filterwarnings("error", message="no .*", append=True)
        y = x.sin()
    return y + 1


def recorded(x):
    with warnings.catch_warnings(record=True) as log, warnings.catch_warnings():
        y = x.sin()
    log.append(3)
    return y + 1, log


def made_alone(x):
    return x.sin(), warnings.catch_warnings(record=True)._record


@pytest.mark.parametrize("program", [silenced, recorded, made_alone])
def test_where_nothing_warns_it_is_part_of_the_graph(program):
    before = list(warnings.filters)
    call = dynascope.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(call(X)) == repr(program(X))
    assert warnings.filters == before


def told(function):
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        result = function(X)
    return repr(result), [(str(each.message), each.category, each.lineno) for each in log]


def program_that_warns(x):
    y = x.cos()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("hidden", stacklevel=1)
        y = y.sin()
    warnings.warn("seen", stacklevel=1)
    return y + 1


def program_that_records(x):
    y = x.cos()
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        warnings.warn("kept", stacklevel=1)
    return y + 1, [str(each.message) for each in log]


def program_that_breaks(x):
    y = x.cos()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if y.sum() > 0:
            warnings.warn("hidden", stacklevel=1)
    return y + 1


def torch_warns(x):
    y = x.cos()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        z = torch.empty(3)
        torch.add(y, 1, out=z)
    return y + 1, z


@pytest.mark.may_break
@pytest.mark.parametrize("program", [program_that_warns, program_that_records, program_that_breaks, torch_warns])
def test_where_something_warns_python_enters_it(program):
    call = dynascope.compile(program, backend="eager")
    for _ in range(2):
        assert told(call) == told(program)


def test_registries_are_asked_anew():
    """Python says again what it said once where filters may have changed, and such a block changes them."""

    def say():
        warnings.warn("old", DeprecationWarning, stacklevel=1)

    def heard(block):
        with warnings.catch_warnings(record=True) as log:
            warnings.simplefilter("default")
            for _ in range(3):
                say()
                block(X)
        return len(log)

    call = dynascope.compile(silenced, backend="eager", fullgraph=True)
    call(X)
    assert heard(call) == heard(silenced) == 3
    assert heard(torch.sin) == 1


@pytest.mark.may_break
def test_a_filter_that_python_refuses():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("never")
        return x + 1

    for call in (program, dynascope.compile(program, backend="eager")):
        with pytest.raises((AssertionError, ValueError), match="invalid action"):
            call(X)
