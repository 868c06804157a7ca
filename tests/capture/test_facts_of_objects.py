"""What a program asks of objects from outside: captured with one of them, called with others that answer otherwise."""

import enum
import types
import typing

import dynascope
import pytest
import torch
from test_outside_protocols import assert_same

X = torch.ones(2)


def function_with(**attributes):
    def function(y):
        return y + 1

    vars(function).update(attributes)
    return function


def has_it(given, x):
    return hasattr(given, "scale"), x * 2


def it_or_another(given, x):
    return given(x) * getattr(given, "scale", 7)


def it_where_there(given, x):
    try:
        return x * given.scale
    except AttributeError as error:
        return x, str(error)


@pytest.mark.parametrize("program", [has_it, it_or_another, it_where_there])
@pytest.mark.parametrize("first", [{}, {"scale": 5}], ids=["without", "with"])
def test_attributes_of_functions_of_one_code(program, first):
    compiled = dynascope.compile(program, backend="eager")
    for attributes in (first, {"scale": 5}, {}, {"scale": 6}, {}):
        given = function_with(**attributes)
        assert_same(program(given, X), compiled(given, X))


class Owner:
    def method(self):
        return 1


def of_a_method(given, x):
    kinds = isinstance(given, types.MethodType), isinstance(given, types.BuiltinMethodType)
    inside = [1]
    made = type(inside.append).__name__, type(x.add).__name__, type(inside.__len__).__name__
    return type(given).__name__, hasattr(given, "__func__"), kinds, made, given.__name__, x * 2


METHODS = [[1].append, {}.get, torch.ones(1).add, "a".__add__, Owner().method]


@pytest.mark.parametrize("given", METHODS, ids=lambda given: given.__qualname__)
def test_the_types_of_methods(given):
    assert_same(of_a_method(given, X), dynascope.compile(of_a_method, backend="eager")(given, X))


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


class Below(Owner):
    pass


def backwards(given, x):
    try:
        return [each.name for each in reversed(given)], x
    except TypeError as error:
        return str(error), x


def as_a_text(given, x):
    try:
        return repr(given), x
    except TypeError as error:
        return str(error), x


def a_tensors_method(given, x):
    try:
        return torch.Tensor.add(given, x)
    except TypeError as error:
        return str(error), x


def its_module(given, x):
    try:
        return given.__module__, x
    except AttributeError as error:
        return str(error), x


def what_it_says_of_itself(given, x):
    return given.__eq__(given) is NotImplemented, x


ASKED = [
    (backwards, Kind),
    (backwards, ...),
    (as_a_text, torch.ones(2, device="meta")),
    (a_tensors_method, 3),
    (its_module, int | str),
    (its_module, list[int]),
    (its_module, 3),
    (what_it_says_of_itself, super(Below, Below())),
]


@pytest.mark.may_break
@pytest.mark.parametrize(("program", "given"), ASKED, ids=[f"{program.__name__}-{type(given).__name__}" for program, given in ASKED])
def test_what_python_alone_knows_is_left_to_it(program, given):
    compiled = dynascope.compile(program, backend="eager")
    for _ in range(2):
        assert_same(program(given, X), compiled(given, X))


def which_it_allows(given, x):
    """As libraries check a field of a dataclass by its annotation."""
    kinds = typing.get_args(given)
    return x * (2 if int in kinds else 3), len(given.__parameters__), [each.__name__ for each in kinds]


def test_what_a_union_is_made_of():
    compiled = dynascope.compile(which_it_allows, backend="eager")
    for given in (int | None, int | None, str | int, list[int] | str):
        assert_same(which_it_allows(given, X), compiled(given, X))
