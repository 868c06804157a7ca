"""A value that stood on the stack at a break is named by the expression that gave it."""

import copy

import pytest
from dynascope.frame.instructions import decode
from dynascope.frame.resume import make_resume_code
from dynascope.frame.stack_depth import depths
from dynascope.frame.stack_names import in_users_words
from dynascope.frame.versions import KNOWS_FRAMES

pytestmark = pytest.mark.skipif(not KNOWS_FRAMES, reason="functions are compiled as a whole here")


def shifted(d):
    return d * 2 + d.sum()


def rest_after_the_product():
    instructions = decode(shifted.__code__)
    product = next(each for each in instructions if each.operation == "BINARY_OP")
    at = instructions[instructions.index(product) + 1]
    return make_resume_code(shifted.__code__, instructions, at, (), ["d"], ()).code


def test_what_follows_an_expression_follows_all_of_it():
    code = rest_after_the_product()
    assert in_users_words("`__stack0.wait()` waits for `__stack0`", code) == "`(d * 2).wait()` waits for `d * 2`"


def test_what_a_method_was_taken_from_is_the_object():
    assert in_users_words("`t.sum.__self__` and `run.__self__.hooks`", shifted.__code__) == "`t` and `run.__self__.hooks`"
    in_a_library = copy.deepcopy.__code__
    assert in_users_words("`forward_call.__self__.weight` has shape [4]", in_a_library) == "`self.weight` has shape [4]"
    assert in_users_words("`__stack0.sum.__self__.wait()`", rest_after_the_product()) == "`(d * 2).wait()`"


def kept(rows, k):
    return sum([(row + k).sum() for row in rows])


def test_what_a_comprehension_keeps_on_the_stack():
    """One of its own code has but the iterator that it was given there and its list; in the function's code (PEP 709) there is also what
    the name of its variable was before."""
    code = next((each for each in kept.__code__.co_consts if isinstance(each, type(kept.__code__))), kept.__code__)
    instructions = decode(code)
    added = next(each for each in instructions if each.operation == "BINARY_OP")
    at = instructions[instructions.index(added) + 1]
    names = [f"__stack{slot}" for slot in range(depths(instructions)[at])]
    rest = make_resume_code(code, instructions, at, (), names, ()).code
    told = [in_users_words(f"`{name}`", rest) for name in names]
    expected = ["`[... for row in rows] so far`", "`iter(rows)`", "`row + k`"]
    if code is kept.__code__:
        expected.insert(0, "`row`")
    assert told[-len(expected) :] == expected
