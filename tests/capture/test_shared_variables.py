"""Variables that functions share: bound, unbound, and unbound by `del`."""

import dynascope
import pytest
import torch
from harness import compiled
from test_outside_protocols import assert_same

X = torch.ones(2)


def outcomes(make, calls):
    """What each call gives, compiled and as it is: `make` gives a function, and one that is called after each call of it."""
    found = []
    for change in (lambda function: function, compiled):
        function, between = make()
        function, results = change(function), []
        for arguments in calls:
            try:
                results.append(function(X, *arguments))
            except NameError as error:
                results.append(str(error))
            results.append(between())
        found.append(results)
    assert_same(*found)
    return function


def told(read):
    try:
        return read()
    except NameError as error:
        return str(error)


def test_unbound_for_others_too():
    def make():
        y = 3

        def function(x, again):
            nonlocal y
            z = x * y
            del y
            if again:
                y = again  # noqa: F841 (it is the enclosing one)
            return z

        return function, lambda: told(lambda: y)

    function = outcomes(make, [(4,), (0,), (1,)])
    assert "foreign-call" not in function.compilation.codes


def test_bound_and_unbound_again():
    def make():
        y = 3
        del y

        def function(x):
            nonlocal y
            y = 5
            x = x + y
            del y
            return x

        return function, lambda: told(lambda: y)  # noqa: F821 (unbound is what is tried)

    outcomes(make, [(), ()])


def test_that_it_is_unbound_is_not_taken_for_granted():
    def make():
        y = 3
        del y

        def function(x):
            try:
                return x + y
            except NameError:
                return x - 1

        def fill():
            nonlocal y
            y = 5

        return function, fill

    outcomes(make, [(), (), ()])


def test_a_loop_that_breaks_unbinds_what_an_inner_function_reads():
    def program(x):
        found = []
        for k in range(3):
            part = x * k
            found.append((lambda: part)())  # noqa: F821
            found.append(part.sum().is_nonzero())
            del part
        return found

    call = compiled(program)
    for _ in range(2):
        assert_same(program(X), call(X))
    assert "foreign-call" not in call.compilation.codes


def test_the_functions_own_variable_that_is_unbound_behind_a_break():
    """Python says of it in other words, and with another error, than of one of an enclosing function."""

    def make():
        def function(x, bound):
            def inner():
                return y

            if bound:
                y = 1
            print("a break")
            try:
                return x + y, inner()
            except UnboundLocalError as error:
                y = 3
                print("another")
                return inner(), str(error)

        return function, lambda: None

    outcomes(make, [(True,), (False,), (False,), (True,)])


def test_the_functions_own_variable_that_is_unbound_ends_the_program():
    def function(x, count):
        found = [y := x * each for each in range(count)]
        return found, y

    each = compiled(function)
    assert_same(function(X, 2), each(X, 2))
    with pytest.raises(UnboundLocalError, match="local variable 'y'"):
        each(X, 0)


def counters():
    n = 0

    def count():
        nonlocal n
        n += 1
        return n

    return count, lambda: n


def counted(x, count, read):
    first = count()
    return x * read() + first


@pytest.mark.parametrize("together", [True, False], ids=["together first", "apart first"])
def test_functions_that_share_a_variable_at_some_calls_only(together):
    function = compiled(counted)
    for shared in (together, not together, together):
        results = []
        for called in (counted, function):
            count, read = counters()
            results.append(called(X, count, read if shared else counters()[1]))
        assert torch.equal(*results)


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_an_inner_function_writes_behind_a_break(backend):
    told = []

    def function(x):
        total = x.new_zeros(())
        count = 0

        def add(y):
            nonlocal total, count
            total = total + y.sum()
            count += 1
            told.append(count)
            return total * count

        first = add(x)
        print("first")
        second = add(x + 1)
        print("second", count)
        count += 10
        return first, second, add(x), total, count

    compiled_function = dynascope.compile(function, backend=backend)
    for start in (0.0, 2.0, 5.0):
        x = torch.arange(4.0) + start
        assert_same(compiled_function(x), function(x))
    assert told == [1, 2, 13] * 6
    assert {each.code for each in dynascope.explain(function)(X).break_reasons} == {"print-call"}
