"""One code object with two dictionaries of globals: what is compiled for one does not run for the other."""

import types

import torch
from dynascope.configuration import Options
from dynascope.pipeline import make_table

X = torch.arange(6.0).reshape(2, 3)
TEXT = """
def program(x):
    y = x * 2
    print(end="")
    return y + FACTOR

def writer(x):
    global LAST
    LAST = x + 1
    def inner():
        return FACTOR
    return inner

def outer(x, inlined):
    return inlined(x) + 1
"""


def functions(name):
    """The function of this name, twice, with globals of their own."""
    for factor in (2, 10):
        values = {"FACTOR": factor, "__name__": "shared"}
        exec(CODE, values)
        yield types.FunctionType(CODES[name], values, name)


CODE = compile(TEXT, "shared.py", "exec")
CODES = {each.co_name: each for each in CODE.co_consts if isinstance(each, types.CodeType)}


def test_globals_after_a_break():
    first, other = functions("program")
    table = make_table(first, Options(backend="eager"))
    for function in (first, other, first):
        torch.testing.assert_close(table.bind(function)(X), function(X))


def test_globals_written_and_of_functions_made_inside():
    first, other = functions("writer")
    table = make_table(first, Options(backend="eager"))
    for at, function in enumerate((first, other, first)):
        assert table.bind(function)(X + at)() == function.__globals__["FACTOR"]
        torch.testing.assert_close(function.__globals__["LAST"], X + at + 1)


def test_globals_of_an_inlined_function():
    outer = next(functions("outer"))
    compiled = make_table(outer, Options(backend="eager")).bind(outer)
    first, other = functions("program")
    for inlined in (first, other, first):
        torch.testing.assert_close(compiled(X, inlined), outer(X, inlined))
