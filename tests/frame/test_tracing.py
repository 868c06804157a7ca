"""Resume codes under a debugger: they rebuild the stack before RESUME, and what traces them sees only user lines."""

import sys

import pytest
from dynascope.frame.versions import KNOWS_FRAMES

from . import programs
from .stepping import Continuation, Stopped, outcome, resume_points, run_through, stop

pytestmark = pytest.mark.skipif(not KNOWS_FRAMES, reason="functions are compiled as a whole here")
TRACED = ["loops", "with_nested", "handlers", "super_shared", "comprehensions"]


@pytest.fixture
def tracing():
    """A debugger that looks at every frame and steps every line."""
    lines = []

    def trace(frame, event, _):
        if frame.f_code.co_filename == programs.__file__:
            lines.append((event, frame.f_code.co_name, frame.f_lineno))
            assert frame.f_locals is not None
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    yield lines
    sys.settrace(previous)


@pytest.mark.parametrize("name", TRACED)
def test_stopping_and_resuming_under_a_debugger(name, tracing):
    function, (arguments, *_) = programs.PROGRAMS[name]
    expected = outcome(lambda copied: function(*copied), arguments)
    for index in resume_points(function.__code__)[::5]:
        assert outcome(lambda copied, i=index: run_through(function, i, copied), arguments) == expected, index


def test_the_debugger_sees_the_resumed_line_first(tracing):
    function, arguments = programs.closures, (4,)
    index = resume_points(function.__code__)[-3]
    stopped = stop(function, index, arguments)
    assert isinstance(stopped, Stopped)
    continuation = Continuation(function.__code__, index, stopped, function.__globals__)
    tracing.clear()
    continuation.run()
    own = {line for _, name, line in tracing if name == "closures"}
    last = function.__code__.co_firstlineno + 10
    assert own and own <= {last - 1, last, last - 2}
