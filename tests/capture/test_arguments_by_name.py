"""Arguments that are given by name: a meaning that reads its arguments by place does not leave them out."""

import inspect
import typing

import dynascope
import dynascope.capture.session
import pytest
import torch
from dynascope.capture.calls import registry

X = torch.tensor([1.0, 2.5])
CALLS = {
    "round": lambda x: (round(2.567, ndigits=1), round(-0.0, ndigits=1), round(number=2.5), round(ndigits=2, number=2.567)),
    "round to ten": lambda x: (round(1234, ndigits=-2), round(1234.5, ndigits=None)),
    "cast": lambda x: (typing.cast(val=x, typ=int), typing.cast(int, val=3)),
    "pow": lambda x: (pow(base=x, exp=2), pow(base=3, exp=2, mod=4)),
}


@pytest.mark.parametrize("name", CALLS)
def test_values(name):
    compiled = dynascope.compile(CALLS[name], backend="eager", fullgraph=True)
    assert str(compiled(X)) == str(CALLS[name](X))


NEVER_BY_NAME = {
    "note_nothing", "sum_of_numbers", "grad_impl", "grad_and_value_impl", "value_of_state", "other_attribute", "enter", "leave",
    "refused", "print_",
}  # fmt: skip
"""Meanings of what only the library or ours calls, by place; and what is left to Python whatever it is given."""


def test_every_meaning_reads_its_keywords():
    """Of functions whose parameters have names: a meaning without the word does not look at what is given by name."""
    deaf = set()
    for thing, function in {**registry.MEANINGS, **registry.CONSTRUCTORS}.items():
        try:
            parameters, source = inspect.signature(thing).parameters.values(), inspect.getsource(function)
        except (ValueError, TypeError, OSError):
            continue
        named = any(each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)
        if named and "keywords" not in source.partition(":\n")[2]:
            deaf.add(function.__name__)
    assert deaf - {"<lambda>"} <= NEVER_BY_NAME


@pytest.mark.parametrize("operation", [round, lambda x: round(x, 1), lambda x: divmod(x, 2), lambda x: divmod(7, x)])
def test_what_tensors_have_no_method_for(operation):
    def caught(x):
        try:
            return operation(x)
        except TypeError as error:
            return str(error), x * 2

    ours = dynascope.compile(caught, backend="eager")(X)
    assert str(ours) == str(caught(X))


def given(**named):
    return named


NO_MAPPINGS = {"list": [], "tuple": (), "text": "", "set": set(), "tensor": torch.ones(0), "generator": (each for each in ())}


@pytest.mark.parametrize("name", NO_MAPPINGS)
@pytest.mark.parametrize("operation", [lambda it: given(**it), lambda it: {**it}, lambda it: dict(a=1, **it)])
def test_what_is_no_mapping_is_refused_though_nothing_is_in_it(name, operation):
    def caught(it):
        try:
            return operation(it)
        except TypeError as error:
            return str(error)

    with dynascope.expected("foreign-value", required=False):
        assert dynascope.compile(caught, backend="eager")(NO_MAPPINGS[name]) == caught(NO_MAPPINGS[name])
