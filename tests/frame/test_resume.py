"""A function stopped at any instruction and resumed does what the whole function does."""

import pytest
from dynascope.frame.instructions import decode
from dynascope.frame.resume import (
    ResumeRefusal,
    make_resume_code,
    refusal_to_resume,
    resume_origin,
)
from dynascope.frame.versions import KNOWS_FRAMES

from . import programs
from .stepping import Continuation, Stopped, outcome, resume_points, run_through, stop

pytestmark = pytest.mark.skipif(not KNOWS_FRAMES, reason="functions are compiled as a whole here")

CASES = [
    pytest.param(function, arguments, id=f"{name}-{number}")
    for name, (function, calls) in programs.PROGRAMS.items()
    for number, arguments in enumerate(calls)
]


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_every_instruction_is_a_resume_point(function, arguments):
    expected = outcome(lambda copied: function(*copied), arguments)
    for index in resume_points(function.__code__):
        got = outcome(lambda copied, index=index: run_through(function, index, copied), arguments)
        assert got == expected, f"{index}: {decode(function.__code__)[index]!r}"


def run_twice(function, first, second, arguments):
    """Stopped at `first`, resumed, stopped at the `second` instruction of the resume code, resumed again."""
    stopped = stop(function, first, arguments)
    if not isinstance(stopped, Stopped):
        return stopped
    continuation = Continuation(function.__code__, first, stopped, function.__globals__)
    points = resume_points(continuation.code)
    index = points[second % len(points)]
    stopped = continuation.stop_at(index)
    if not isinstance(stopped, Stopped):
        return stopped
    again = Continuation(continuation.code, index, stopped, function.__globals__)
    assert again.resume.root is function.__code__
    assert len(again.code.co_code) <= len(function.__code__.co_code) + 60
    return again.run()


@pytest.mark.parametrize(("function", "arguments"), CASES)
def test_a_resume_code_can_be_resumed(function, arguments):
    expected = outcome(lambda copied: function(*copied), arguments)
    points = resume_points(function.__code__)
    for number, first in enumerate(points[::3]):
        second = number * 7 + 3
        got = outcome(lambda copied, f=first, s=second: run_twice(function, f, s, copied), arguments)
        assert got == expected, (first, second)


def point(function, operation, nth=0):
    instructions = decode(function.__code__)
    return instructions, [i for i in instructions if i.operation == operation][nth]


def test_the_name_and_place_are_the_users():
    instructions, at = point(programs.Child.scale, "BINARY_OP")
    code = programs.Child.scale.__code__
    resume = make_resume_code(code, instructions, at, (), ["self", "x", "y"], ["__class__"])
    assert resume.code.co_name == "scale"
    assert resume.code.co_qualname == "Child.scale"
    assert (resume.code.co_filename, resume.code.co_firstlineno) == (code.co_filename, code.co_firstlineno)
    assert {line for *_, line in resume.code.co_lines()} == {at.line}
    assert resume_origin(resume.code).root is code and resume_origin(code) is None


def test_the_stack_parameters_do_not_keep_their_values():
    import gc
    import weakref

    class Thing:
        pass

    def function(make, check):
        return (make(), None)[1], check()

    instructions = decode(function.__code__)
    at = next(i for i in instructions if i.operation == "LOAD_CONST" and i.value is None)
    resume = make_resume_code(function.__code__, instructions, at, (), ["check"], ())
    thing = Thing()
    alive = weakref.ref(thing)
    from types import FunctionType

    def check():
        gc.collect()
        return alive() is None

    run = FunctionType(resume.code, globals())
    arguments = [thing, check]
    del thing
    result = run(arguments.pop(0), check)
    assert result == (None, True)


def generator():
    yield 1


async def coroutine():
    return 1


@pytest.mark.parametrize("function", [generator, coroutine])
def test_generators_are_refused_with_a_reason(function):
    instructions = decode(function.__code__)
    with pytest.raises(ResumeRefusal) as refused:
        make_resume_code(function.__code__, instructions, instructions[-1], (), (), ())
    assert function.__name__ in refused.value.reason.message() and refused.value.reason.remedy()


def test_class_bodies_are_refused():
    module = compile("x = 1", "m.py", "exec")
    assert refusal_to_resume(module).code == "break-in-class-body"
