"""What CPython 3.14 has that earlier versions cannot even parse, and what it does in another way: against plain Python."""

import linecache
import sys
import threading
import warnings

import pytest
import torch
from harness import compiled
from test_programs import observe, same

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="CPython 3.14 and later")

NEW_SYNTAX = '''
def template(x, name):
    y = x * 2
    t = t"{name!r:>5} of {y.shape}"
    return y + 1, t.strings, [(i.value, i.expression, i.conversion, i.format_spec) for i in t.interpolations]


def template_with_tensor(x, name):
    t = t"{x + 1}"
    return t.interpolations[0].value * 2


def excepts_without_parentheses(x, key):
    try:
        x = x + {"other": 1}[key]
    except IndexError, KeyError:
        x = x * 2
    return x


def leaves_by_finally(x, name):
    for count in range(3):
        try:
            x = x + count
            if name == "it":
                raise ValueError
        finally:
            if count == 1:
                return x * 3
            continue


def of_any_type[T = int](x: T, name) -> T:
    return x + 1
'''


def program(name):
    namespace = {}
    file = f"<{name} of {__name__}>"
    linecache.cache[file] = len(NEW_SYNTAX), None, NEW_SYNTAX.splitlines(True), file
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # leaving a finally block warns
        exec(compile(NEW_SYNTAX, file, "exec"), namespace)
    return namespace[name]


def check(function, *arguments):
    dispatch = compiled(function)
    for _ in range(3):
        assert same(observe(dispatch, arguments), observe(function, arguments))
    assert dispatch.refused == []
    return dispatch


X = torch.arange(4.0)


@pytest.mark.parametrize("name", ["template", "template_with_tensor"])
def test_template_strings(name):
    check(program(name), X, "it")


@pytest.mark.parametrize("name", ["excepts_without_parentheses", "leaves_by_finally", "of_any_type"])
def test_new_syntax_is_captured_as_a_whole(name):
    assert len(check(program(name), X, "it").graphs) == 1


class Manager:
    """Swallows what it is told to."""

    def __init__(self, log, swallows=()):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, kind, value, traceback):
        self.log.append(("out", kind and kind.__name__))
        return kind is not None and issubclass(kind, self.swallows)


def with_statements(x, swallows):
    log = []
    for number in range(3):
        with Manager(log) as one, Manager(log, swallows):
            if number == 1:
                print("break", len(one.log))
            if number == 2:
                raise KeyError(number)
            x = x + number
    return x, log


def test_with_leaves_as_python_does():
    check(with_statements, X, (KeyError,))
    dispatch = compiled(with_statements)
    assert same(observe(dispatch, (X, ())), observe(with_statements, (X, ())))


LOCK = threading.Lock()


def with_a_c_object(x):
    y = x + 1
    with LOCK:
        y = y * 2
        print("break")
        y = y + LOCK.locked()
    return y, LOCK.locked()


def test_with_over_an_object_written_in_c():
    check(with_a_c_object, X)


def with_something_else(x, manager):
    try:
        with manager:
            return x
    except TypeError as error:
        return x + 1, str(error)


class OnlyAsynchronous:
    async def __aenter__(self):
        return self

    async def __aexit__(self, *arguments):
        return None


class OnlyEnters:
    def __enter__(self):
        return self


@pytest.mark.parametrize("manager", [3, OnlyAsynchronous(), OnlyEnters()], ids=["number", "asynchronous", "enters"])
def test_what_is_no_context_manager_is_refused_in_the_same_words(manager):
    check(with_something_else, X, manager)


def late_annotations(x):
    def inner(a: not_defined_yet, b: list[int] = 1) -> x.dtype:  # noqa: F821
        return a + b

    def other(a: int = 2):
        return a * x

    try:
        missing = inner.__annotations__
    except NameError as error:
        missing = type(error).__name__
    other.__annotations__["more"] = 1
    return inner(x), other(), missing, other.__annotations__, other


def test_annotations_are_evaluated_when_asked_for():
    dispatch = compiled(late_annotations)
    for _ in range(3):
        expected, found = late_annotations(X), dispatch(X)
        assert same(expected[:4], found[:4])
        assert found[4].__annotations__ == expected[4].__annotations__ == {"a": int, "more": 1}


def leaves_loops_early(x, rows):
    total = x
    for row in rows:
        for item in row:
            if item == 2:
                break
            total = total + item
        else:
            continue
        if all(each for each in row) and any(each > 2 for each in row):
            return total, tuple(each for each in row), row[1:], row[0:2], row[-1]
    return total


def test_loops_calls_and_slices():
    check(leaves_loops_early, X, [[1, 1, 0], [5, 2, 7], [1]])
    check(leaves_loops_early, X, [[1], [0, 3]])


def unpacks(x, given):
    arguments, keywords = [1, 2], {"c": 3}

    def add(a, b=5, *, c=7):
        return x + a * b - c

    return add(*arguments), add(*arguments, **keywords), add(*given), add(1, **keywords)


def test_calls_with_unpacked_arguments():
    check(unpacks, X, (4,))


def breaks_inside_calls_with_unpacked_arguments(x, arguments, keywords):
    return torch.add(x, *arguments) + torch.sub(*(x, x.sum().item()), **keywords)


def test_breaks_between_the_arguments_of_such_a_call():
    check(breaks_inside_calls_with_unpacked_arguments, X, (2,), {"alpha": 3})
    check(breaks_inside_calls_with_unpacked_arguments, X, (2,), {})
