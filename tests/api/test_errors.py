"""Errors of compiled code: what came before them has happened, what comes after has not, and they look as under plain Python.

Each program runs plain and compiled; compared are its exception with every frame and line of the traceback, its arguments
afterwards, and the state of the random generator.
"""

import copy
import inspect
import sys
import traceback
import types
import warnings

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.frame import hook

BACKENDS = pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])


def outcome(function, arguments):
    """What the call gives or raises, with the frames from the test's own on."""
    torch.manual_seed(3)
    try:
        result = ("gives", function(*arguments))
    except Exception as error:
        frames = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)[1:]]
        context = error.__context__
        result = ("raises", type(error), str(error), frames, None if context is None else (type(context), str(context)))
    return result, torch.rand(2).tolist()


def assert_same(function, *calls, backend="eager"):
    """The calls in turn, plain and compiled; the compiled function must have been compiled."""
    compiled = dynascope.compile(function, backend=backend)
    for arguments in calls:
        plain, captured = copy.deepcopy(arguments), copy.deepcopy(arguments)
        expected, got = outcome(function, plain), outcome(compiled, captured)
        assert repr(got) == repr(expected)
        assert repr(captured) == repr(plain)
    assert not compiled.table.given_up


GOOD, BAD = torch.tensor([0, 1, 2]), torch.tensor([0, 9, 1])
X = torch.tensor([1.0, 2.0, 3.0])


class Box:
    def __repr__(self):
        return f"Box({vars(self)})"


def appends_around(x, index, log):
    log.append("before")
    y = x.cos()[index]
    log.append("after")
    return y


def writes_in_place_before(x, index, log):
    x.mul_(2)
    log.append(1)
    x[0] = 7.0
    y = torch.arange(3.0)[index]
    x.add_(100)
    return y + x


def sets_attributes_before(x, index, log):
    log[0].before = x.shape
    y = x.sin()[index] * 2
    log[0].after = True
    return y


def draws_before(x, index, log):
    mask = torch.rand_like(x)
    y = torch.nn.functional.dropout(x, 0.5)[index]
    return y * mask


def breaks_before(x, index, log):
    log.append(x.sum().is_nonzero())
    y = x * 2
    log.append("between")
    return y[index]


def inner(x, index):
    y = x.exp()
    return y[index]


def calls_a_function(x, index, log):
    log.append("a")
    y = inner(x, index)
    log.append("b")
    return y


def catches(x, index, log):
    try:
        y = inner(x, index)
        log.append("unreached for a bad index")
    except IndexError as error:
        log.append(str(error))
        y = x
    finally:
        log.append("finally")
    return y * 3


def changes_the_grad_mode(x, index, log):
    with torch.no_grad():
        y = x.sin()[index]
    return y, torch.is_grad_enabled()


def raises_its_own(x, index, log):
    log.append(1)
    if index is not None:
        raise ValueError("mine", 3)
    return x


def keywords_and_rest(x, index, log, *rest, other=2, **more):
    log.append((rest, other, more))
    return x[index] * other


def result_that_nobody_reads(x, index, log):
    log.append(1)
    x.exp()[index]
    torch.nn.functional.embedding(index, torch.ones(3, 2)).sum()
    y = x.sin()[index]
    y = x * 2
    log.append(2)
    return y


def unused_before_an_error(x, index, log):
    y = x.exp()[index]  # noqa: F841 (that is the point)
    log.append(1)
    return log.missing


PROGRAMS = (
    appends_around,
    writes_in_place_before,
    sets_attributes_before,
    draws_before,
    breaks_before,
    calls_a_function,
)
PROGRAMS += (catches, changes_the_grad_mode, raises_its_own, keywords_and_rest)
PROGRAMS += (result_that_nobody_reads, unused_before_an_error)


@BACKENDS
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_an_error_when_the_graph_runs(program, backend):
    assert_same(program, (X, BAD, [Box()]), (X, GOOD, [Box()]), (X, BAD, [Box()]), backend=backend)


@BACKENDS
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_same_with_gradients(program, backend):
    x = X.clone().requires_grad_()
    calls = [(x * 1, index, [Box()]) for index in (BAD, GOOD, BAD)]
    compiled = dynascope.compile(program, backend=backend)
    for _, index, _ in calls:
        found = []
        for function in (program, compiled):
            log, own = [Box()], x * 1
            found.append((repr(outcome(function, (own, index, log))).partition("grad_fn")[0], repr(log), own.tolist()))
        assert found[0][::2] == found[1][::2]
        # What had a history cannot be written again, so that the call does not begin anew: effects come after the graph.
        assert found[0][1] == found[1][1] or program is writes_in_place_before and backend == "eager"
    assert not compiled.table.given_up


BAD_PLACES = {
    "zeros_like": lambda x, i: torch.zeros_like(x[i]),
    "new_ones": lambda x, i: x[i].new_ones(3),
    "isfinite of integers": lambda x, i: (x.long()[i] * 2).isfinite(),
    "isnan of integers": lambda x, i: x.long().gather(0, i).isnan().any(),
    "only its sizes": lambda x, i: x[i].shape,
    "written and not read": lambda x, i: (x[i].add_(1), x * 2)[1],
    "written by itself and not read": lambda x, i: [(y.mul_(y), x * 2)[1] for y in (x[i],)],
    "written over": lambda x, i: (x[i].zero_(), x * 2)[1],
}


@BACKENDS
@pytest.mark.parametrize("what", BAD_PLACES)
def test_what_is_made_only_for_its_sizes_raises_too(what, backend):
    assert_same(BAD_PLACES[what], (X, GOOD), (X, BAD), backend=backend)


VALUES_THAT_DO_NOT_FIT = {
    "setitem": lambda x, i, n: x.clone().__setitem__(i, torch.ones(n, 2)),
    "index_put": lambda x, i, n: x.index_put((i,), torch.ones(n, 2)),
    "accumulated": lambda x, i, n: x.index_put((i,), torch.ones(n, 2), accumulate=True),
}


@BACKENDS
@pytest.mark.parametrize("what", VALUES_THAT_DO_NOT_FIT)
def test_values_that_do_not_fit_their_places(what, backend):
    """Torch's meta kernels do not look; nor is it known of a number that varies."""
    calls = [(torch.zeros(4, 2), torch.tensor([0, 2]), n) for n in (2, 1, 3, 2, 4)]
    assert_same(VALUES_THAT_DO_NOT_FIT[what], *calls, backend=backend)


SETTINGS = {
    "dropout": lambda x, n: F.dropout(x, n),
    "celu, after numbers were drawn": lambda x, n: (F.dropout(x, 0.5), F.celu(x, alpha=1 - n))[1],
    "celu, unread": lambda x, n: (F.celu(x, alpha=1 - n), x + 1)[1],
}


@BACKENDS
@pytest.mark.parametrize("what", SETTINGS)
def test_settings_that_vary_and_are_refused(what, backend):
    """The error is the program's to catch, and what was drawn before it is drawn once."""

    def program(x, n):
        try:
            found = SETTINGS[what](x, n)
        except (ValueError, RuntimeError) as error:
            found = str(error)
        return found, torch.rand(2)

    compiled = dynascope.compile(program, backend=backend)
    for n in (0.25, 0.5, 0.75, 1.0, 1.5):
        torch.manual_seed(0)
        expected = program(torch.ones(3), n)
        torch.manual_seed(0)
        assert str(compiled(torch.ones(3), n)) == str(expected)


STATEMENTS = {
    "an unbound local": "z = z0.clone(); z0 = 1",
    "an unbound local alone": "z0",
    "an undefined name": "undefined_name + 1",
    "a missing attribute": "z.no_such_attribute",
    "a missing key": "{}[3]",
    "a division": "1 // (len(log) - len(log))",
    "a wrong call": "len(1, 2)",
    "a missing argument": "outcome()",
    "an assertion": "assert not log, log",
    "a type error": "'a' + 1",
    "a wrong shape": "z @ torch.ones(7)",
    "a wrong type": "torch.ones(2, dtype=torch.int64).mul_(torch.ones(2) * 0.5)",
    "unpacking": "a, b = log",
    "no context manager": "\n  with log: pass",
    "an import": "import no_such_module_anywhere",
    "a deleted local": "del z0",
}


@BACKENDS
@pytest.mark.parametrize("what", STATEMENTS)
@pytest.mark.parametrize("nested", [False, True])
def test_effects_before_an_error_found_while_capturing(what, nested, backend):
    bound = "\n  if not log: z0 = z\n" if "z0" in STATEMENTS[what] else "\n"
    body = (
        f" def g(z):{bound}  {STATEMENTS[what]}\n  return z\n return g(x)"
        if nested
        else (
            f" z = x{bound.replace('  if', ' if')} {STATEMENTS[what].replace(chr(10) + '  ', chr(10) + ' ')}\n return z"
        )
    )
    space = {"torch": torch, "outcome": outcome}
    exec(compile(f"def f(x, log):\n x.relu_(); log.append(1)\n{body}", "<a program>", "exec"), space)
    assert_same(space["f"], (X - 2, []), (X - 2, []), backend=backend)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_no_error_of_the_program(kind):
    """Nothing runs twice: what is no `Exception` passes."""
    runs = []

    def backend(graph, inputs):
        def run(*arguments):
            runs.append(1)
            raise kind

        return run

    def f(x, log):
        log.append(1)
        return x + 1

    log = []
    with pytest.raises(kind):
        dynascope.compile(f, backend=backend)(X, log)
    assert (runs, log) == ([1], [])


def test_a_backend_that_fails_when_it_runs_is_stood_in_for():
    def backend(graph, inputs):
        def run(*arguments):
            raise MemoryError("of the backend alone")

        return run

    def f(x, log):
        log.append(1)
        return x + 1

    log = []
    assert dynascope.compile(f, backend=backend)(X, log).tolist() == [2, 3, 4] and log == [1]


def test_each_frame_is_there_once_however_often_it_breaks():
    def who():
        print(end="")
        return [frame.function for frame in inspect.stack()[:3]], sys._getframe(1).f_lineno

    def f(x):
        names = [who()]
        print(end="")
        for _ in range(2):
            x = x + 1
            names.append(who())
        return names

    compiled = dynascope.compile(f, backend="eager")
    assert compiled(X)[1:] == f(X)[1:]
    assert compiled(X) == [
        (["who", "f", "test_each_frame_is_there_once_however_often_it_breaks"], line) for _, line in f(X)
    ]


def test_a_warning_names_the_line_that_it_is_about():
    def helper():
        warnings.warn("old", stacklevel=2)

    def f(x):
        x = x + 1
        helper()
        warnings.warn("mine", stacklevel=1)
        warnings.warn("caller's", stacklevel=2)
        return x

    compiled = dynascope.compile(f, backend="eager")
    found = []
    for function in (f, compiled, compiled):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            function(X)
        found.append([(str(each.message), each.filename, each.lineno) for each in given])
    assert found[0] == found[1] == found[2] and len(found[0]) == 3


def test_a_name_that_goes_away():
    module = types.ModuleType("a_module")
    exec("K = 2.0\n\ndef f(x):\n    y = x + 1\n    return y * K", vars(module))
    compiled = dynascope.compile(module.f, backend="eager")
    compiled(X)
    del module.K
    assert outcome(compiled, (X,)) == outcome(module.f, (X,))


def test_loops_that_break_need_no_deeper_stack():
    def f(x, n):
        depths = []
        for _ in range(n):
            x = x + 1
            depths.append(len(inspect.stack(0)))
        return depths

    compiled = dynascope.compile(f, backend="eager")
    assert len(set(compiled(X, 12))) == 1 and compiled(X, 12) == f(X, 12)


@pytest.mark.skipif(not hook.is_native(), reason="frames cannot be watched")
@pytest.mark.parametrize("follow", ["settrace", "setprofile"])
def test_a_debugger_sees_the_program_as_it_was_written(follow):
    def f(x):
        y = x * 2
        print(end="")
        return y + 1

    def events_of(function):
        events = []

        def look(frame, event, argument):
            if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "f":
                events.append((event, frame.f_lineno))
            return look

        before = getattr(sys, follow.replace("set", "get"))()
        getattr(sys, follow)(look)
        try:
            function(X)
        finally:
            getattr(sys, follow)(before)
        return events

    compiled = dynascope.compile(f, backend="eager")
    compiled(X)
    assert events_of(compiled) == events_of(f) != []


def test_the_lines_of_an_error_that_cannot_be_undone():
    """What had a history was written before the graph raised, operator by operator: the call cannot begin anew."""

    def inner(x, index):
        x = x + 1
        return (
            x * 2
        )[index]

    def program(x, index, matrix):
        x.mul_(2)
        y = inner(x, index)
        return y.sum() + torch.linalg.inv(matrix).sum()

    compiled, good, eye = dynascope.compile(program, backend="eager"), torch.tensor([0]), torch.eye(2)
    for index, matrix in ((good, eye), (BAD, eye), (good, torch.zeros(2, 2))):
        calls = [(X.clone().requires_grad_() * 1, index, matrix) for _ in range(2)]
        found = [outcome(function, call) for function, call in zip((program, compiled), calls, strict=True)]
        assert repr(found[0]).partition("grad_fn")[0] == repr(found[1]).partition("grad_fn")[0]
        assert calls[0][0].tolist() == calls[1][0].tolist()
        shown = [shown_of(function, index, matrix) for function in (program, compiled)]
        assert shown[0] == shown[1]


def shown_of(function, index, matrix):
    """The traceback as it is printed, from the program's own frame on."""
    try:
        function(X.clone().requires_grad_() * 1, index, matrix)
    except Exception:
        return traceback.format_exc().split(", in ", 2)[2]
    return ""
