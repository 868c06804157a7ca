"""An exception that is raised and handled inside and lives on: where it came through, as its traceback says it afterwards."""

import traceback

import pytest
import torch
from harness import compiled

X = torch.ones(2)


def refuse(text):
    raise ValueError(text)


def careful(function, *arguments):
    try:
        function(*arguments)
    except ValueError as error:
        return error


def through_another(text):
    return careful(refuse, text)


def passed_on(text):
    try:
        try:
            refuse(text)
        except ValueError:
            raise
        finally:
            text += "!"
    except ValueError as error:
        return error


def raised_again(text):
    try:
        careful_error = careful(refuse, text)
        raise careful_error
    except ValueError as error:
        return error


def in_words(text):
    try:
        try:
            refuse(text)
        except ValueError as error:
            raise RuntimeError("in other words") from error
    except RuntimeError as error:
        return error


def of_a_generator(text):
    def numbers():
        yield 1
        refuse(text)

    try:
        return sum(numbers())
    except ValueError as error:
        return error


def by_a_lookup(text):
    try:
        return {}[text]
    except KeyError as error:
        return error


MADE = [through_another, passed_on, raised_again, in_words, of_a_generator, by_a_lookup]


def entries(error):
    while error is not None:
        for entry in traceback.extract_tb(error.__traceback__):
            yield entry.filename, entry.name, entry.lineno, entry.line
        for frame, line in traceback.walk_tb(error.__traceback__):
            yield line - frame.f_code.co_firstlineno
        yield type(error), error.args
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("make", MADE)
def test_a_result_says_where_it_came_through(make):
    def program(x, text):
        return x + 1, make(text)

    fast = compiled(program)
    for text in ("one", "two"):
        assert list(entries(fast(X, text)[1])) == list(entries(make(text)))
    assert not fast.compilation.codes


NO_ATTRIBUTES = [("__traceback__", 5), ("__cause__", 5), ("__context__", "x"), ("__suppress_context__", "x"), ("args", 5)]


@pytest.mark.may_break
@pytest.mark.parametrize("name, value", NO_ATTRIBUTES)
def test_what_an_exception_does_not_take(name, value):
    def program(x):
        try:
            setattr(ValueError(), name, value)
        except TypeError as error:
            return x + 1, str(error)
        return x, "taken"

    assert compiled(program)(X)[1] == program(X)[1]


def test_kept_in_a_list():
    kept = []

    def program(x):
        for text in ("one", "two"):
            try:
                refuse(text)
            except ValueError as error:
                kept.append(error)
        return x * 2

    program(X)
    expected = [list(entries(error)) for error in kept]
    kept.clear()
    compiled(program)(X)
    assert [list(entries(error)) for error in kept] == expected


def test_read_after_the_handler():
    def program(x):
        try:
            refuse("one")
        except ValueError as error:
            where = error.__traceback__
        return x + 1, where.tb_lineno, where.tb_next.tb_lineno, where.tb_next.tb_frame.f_code.co_name, where is None

    assert compiled(program)(X)[1:] == program(X)[1:]


def test_alive_across_a_break(capsys):
    def program(x):
        try:
            refuse("one")
        except ValueError as error:
            last = error
        print("once more")
        return x + 1, [entry.name for entry in traceback.extract_tb(last.__traceback__)]

    assert compiled(program)(X)[1] == ["program", "refuse"]
    assert capsys.readouterr().out == "once more\n"


def test_one_that_nobody_raised_has_none():
    def program(x):
        return x + 1, ValueError("one")

    assert compiled(program)(X)[1].__traceback__ is None
