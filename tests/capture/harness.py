"""A compiler of its own for the tests: capture, assemble, run the graph as it is.

f = compiled(function)
f(x)
f.graphs, f.operations, f.reasons
"""

import contextlib
import functools
from types import FunctionType

import dynascope
from dynascope import recording
from dynascope.capture import CaptureOptions, CodeRegion, Refused, assemble, capture
from dynascope.capture.reasons import InternalFailure
from dynascope.frame import hook
from dynascope.guards.source import FrameValues
from dynascope.meta_kernels.quiet_torch import without_compiler_imports
from dynascope.repeatable import repeatable


class Compilation:
    """What was compiled, over all regions of one function."""

    def __init__(self, options):
        self.options = options
        self.graphs = []
        self.captures = []
        self.refused = []

    @property
    def operations(self):
        return [graph.operations for graph in self.graphs]

    @property
    def reasons(self):
        return [captured.exit.reason for captured in self.captures if hasattr(captured.exit, "reason")]

    @property
    def codes(self):
        return [reason.code for reason in self.reasons]


class Table:
    """The entries of one code object, as the hook's EntryTable."""

    def __init__(self, code, region, compilation):
        self.code, self.region, self.compilation = code, region, compilation
        self.entries = []

    def bind(self, function):
        @functools.wraps(function)
        def dispatch(*arguments, **keywords):
            return self.call(function, arguments, keywords)

        return dispatch

    def call(self, function, arguments, keywords):
        values = frame_values(function, arguments, keywords)
        for guards, code in self.entries:
            if all(guard.holds(values) for guard in guards):
                return self.run(code, function, arguments, keywords)
        entry = self.compile(values)
        return self.run(entry, function, arguments, keywords)

    def compile(self, values):
        with without_compiler_imports():
            result = capture(self.region, values, self.compilation.options)
        reason = getattr(result, "reason", None) or getattr(result.exit, "reason", None)
        assert not isinstance(reason, InternalFailure), reason.message()
        if isinstance(result, Refused):
            self.compilation.refused.append(result)
            return self.code
        self.compilation.captures.append(result)
        if result.graph is not None:
            self.compilation.graphs.append(result.graph)
        for guard in result.guards:
            assert guard.holds(values), guard.describe()
        run, can_repeat = None, False
        if result.graph is not None:
            run, can_repeat = repeatable(result.graph, result.graph.module.forward, writes_inputs=True)
        code = assemble(result, run, self.make_table, can_repeat)
        self.entries.append((result.guards, code))
        return code

    def make_table(self, code, region):
        return Table(code, region, self.compilation)

    def run(self, code, function, arguments, keywords):
        made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
        made.__kwdefaults__ = function.__kwdefaults__
        result = hook.complete(functools.partial(made, *arguments, **keywords))
        return function(*arguments, **keywords) if result is hook.AS_WRITTEN else result


def frame_values(function, arguments, keywords):
    import builtins
    import inspect

    bound = inspect.signature(function, follow_wrapped=False).bind(*arguments, **keywords)
    bound.apply_defaults()
    cells = {}
    variables = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name, cell in variables.items():
        with contextlib.suppress(ValueError):
            cells[name] = cell.cell_contents
    return FrameValues(dict(bound.arguments), function.__globals__, vars(builtins), cells, variables)


def compiled(function, **options):
    compilation = Compilation(CaptureOptions(**options))
    table = Table(function.__code__, CodeRegion(function.__code__, function.__qualname__), compilation)
    dispatch = table.bind(function)
    dispatch.compilation = compilation
    dispatch.table = table
    for name in ("graphs", "captures", "refused"):
        setattr(dispatch, name, getattr(compilation, name))
    return dispatch


def graphs_of(function, **options):
    """The function compiled through the public interface, and the graphs that come of it, which run as they are."""
    made = []

    def counting(graph, inputs):
        made.append(graph)
        return graph.forward

    return dynascope.compile(function, backend=counting, **options), made


@contextlib.contextmanager
def recorded():
    """What a report would be made of."""
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        yield recorder
    finally:
        recording.use(before)
