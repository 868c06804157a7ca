"""Compiled twice-called programs against plain Python: results, printed text, exceptions, and what they changed."""

import contextlib
import copy
import io
import types

import instruction_programs
import object_programs
import programs
import pytest
import torch
from harness import compiled
from outcomes import TABLE, outcome_of, words

CASES = programs.CASES + instruction_programs.CASES + object_programs.CASES
BY_NAME = {function.__name__: (function, arguments) for function, arguments in CASES}


@pytest.mark.parametrize("name", BY_NAME)
def test_program_does_what_python_does(name):
    assert words(three_calls(*BY_NAME[name])) == outcome_of(name), "if this is better, change outcomes.json"


def test_every_outcome_is_of_a_program():
    assert len(BY_NAME) == len(CASES)
    assert sorted({name for section in TABLE.values() for name in section} - BY_NAME.keys()) == []


def three_calls(function, arguments):
    """Each as Python's; what was compiled."""
    plain, captured = copy.deepcopy(arguments), copy.deepcopy(arguments)
    dispatch = compiled(function)
    for _ in range(3):
        programs.G = 1
        expected, expected_global = observe(function, plain), programs.G
        programs.G = 1
        assert same(observe(dispatch, captured), expected)
        assert same(captured, plain)
        assert expected_global == programs.G
    return dispatch.compilation


def observe(function, arguments):
    """What a call shows to the outside."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            result = ("returned", function(*arguments))
        except Exception as error:
            result = ("raised", type(error), str(error), type(error.__cause__))
    return result, text.getvalue(), torch.is_grad_enabled()


def same(one, other):
    if isinstance(one, torch.Tensor):
        equal = isinstance(other, torch.Tensor) and torch.equal(one, other)
        return equal and (one.dtype, one.requires_grad, one.stride()) == (
            other.dtype,
            other.requires_grad,
            other.stride(),
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, types.SimpleNamespace):
        return same(vars(one), vars(other))
    if (
        hasattr(one, "__dict__")
        and not isinstance(one, type)
        and type(one).__module__ in ("programs", "instruction_programs", "object_programs")
    ):
        return same(vars(one), vars(other))
    return one == other
