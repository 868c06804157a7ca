"""The names of the C hook in Python, for machines with no C compiler: the same answers, a few microseconds later.

Frames cannot be watched from Python: only calls through a dispatcher reach compiled code. A GuardProgram here is a
callable over the call's values (`guards/check.py` gives it the predicates' own `holds`).
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

OPERATIONS: dict[str, int] = {}

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_KINDS = _VARIADIC | inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class _ThreadState(threading.local):
    suspended = 0
    followed = 0


_thread = _ThreadState()
_values_type: Callable[..., Any] = types.SimpleNamespace
_tracer_test: Callable[[], bool] = bool


class GuardProgram:
    """`check(values)` says whether an entry may serve a call with these values."""

    def __init__(self, parameter_count: int, check: Callable[[Any], bool]):
        self.parameter_count = parameter_count
        self.check = check


_uses = itertools.count(1)
"""Of all entries: the one used last has the highest `last_use`."""


class Entry:
    """Code with the original's parameters, and when it may run: for functions with these globals, if given."""

    def __init__(
        self,
        program: GuardProgram,
        code: types.CodeType,
        owner: Any = None,
        globals: dict | None = None,
        leaves: bool = False,
    ):
        self.program = program
        self.code = code
        self.owner = owner
        self.globals = globals
        self.hits = 0
        self.last_use = 0


AS_WRITTEN = object()


class TailCall:
    """What compiled code returns to be followed by another call in its place."""

    __slots__ = ("arguments", "callable")

    def __init__(self, callable: Callable[..., Any], arguments: tuple) -> None:
        self.callable, self.arguments = callable, arguments


def tail_call(callable: Callable[..., Any], /, *arguments: Any) -> TailCall:
    return TailCall(callable, arguments)


def complete(callable: Callable[..., Any], /, *arguments: Any) -> Any:
    return _followed(callable(*arguments))


def _followed(result: Any) -> Any:
    while type(result) is TailCall:
        callable, arguments = result.callable, result.arguments
        if type(callable) is Dispatcher:
            result = _run(callable.table, callable.__wrapped__, arguments, {})
        else:
            result = callable(*arguments)
    return result


class EntryTable:
    """The entries of one code object."""

    def __init__(self, code: types.CodeType, on_miss: Callable[..., Entry | None] | None = None):
        self.code = code
        self.on_miss = on_miss
        self.entries: tuple[Entry, ...] = ()
        self.given_up = False
        self.resumed = False

    def add(self, entry: Entry) -> None:
        if _shape(entry.code) != _shape(self.code):
            raise TypeError("an Entry whose code has the table's parameters and free variables is expected")
        self.entries = (*self.entries, entry)

    def remove(self, entry: Entry) -> None:
        self.entries = tuple(kept for kept in self.entries if kept is not entry)

    def clear(self) -> None:
        self.entries = ()

    def begin_again(self, on_miss: Callable[..., Entry | None] | None) -> None:
        self.entries, self.given_up, self.on_miss = (), False, on_miss

    def give_up(self) -> None:
        self.given_up = True
        self.entries = ()

    def bind(self, function: types.FunctionType) -> Dispatcher:
        if function.__code__ is not self.code:
            raise TypeError("a function that has the table's code is expected")
        return Dispatcher(self, function)

    def __call__(self, function: types.FunctionType, /, *arguments: Any, **keywords: Any) -> Any:
        return _followed(_run(self, function, arguments, keywords))


class Dispatcher:
    """What a compiled function is to its callers."""

    def __init__(self, table: EntryTable, function: types.FunctionType):
        functools.update_wrapper(self, function)
        self.table = table

    __class__ = property(lambda self: types.FunctionType)  # a function to whoever asks (`inspect.isfunction`)

    def __call__(self, /, *arguments: Any, **keywords: Any) -> Any:
        if _tracer_test():  # before all else: torch.compile reads these lines too
            return self.__wrapped__(*arguments, **keywords)
        return _followed(_run(self.table, self.__wrapped__, arguments, keywords))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)

    def __repr__(self) -> str:
        return f"<compiled {self.__wrapped__!r}>"

    def __copy__(self) -> Dispatcher:
        return self

    def __deepcopy__(self, memo: dict) -> Dispatcher:
        return self

    def __reduce__(self) -> str:
        return self.__wrapped__.__qualname__


class GatedMethod:
    """A method that calls what its object holds under one name, as long as the program that it holds lets it."""

    def __init__(self, program_name: str, target_name: str, otherwise: types.FunctionType):
        functools.update_wrapper(self, otherwise)
        self.names = (program_name, target_name)

    def __call__(self, instance: Any, /, *arguments: Any, **keywords: Any) -> Any:
        if _tracer_test():
            return self.__wrapped__(instance, *arguments, **keywords)
        program, target = (vars(instance).get(name) for name in self.names)
        if isinstance(program, GuardProgram) and target is not None and not _thread.suspended:
            if _program_holds(program, _values_type({"self": instance}, {}, {}, {}, {})):
                return target(*arguments, **keywords)
        return self.__wrapped__(instance, *arguments, **keywords)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


class LoadingCall:
    """Bytecode loads the arguments of compiled functions here."""


def watch(choose: Callable[[types.FunctionType], object]) -> None:
    """Nothing: frames cannot be watched without the C hook."""


def unwatch() -> None:
    """Nothing was watched."""


def forget(code: types.CodeType) -> None:
    """Nothing is remembered."""


def foreign_evaluator() -> bool:
    return False


def suspend() -> None:
    _thread.suspended += 1


def resume() -> None:
    _thread.suspended -= _thread.suspended > 0


def is_suspended() -> bool:
    return _thread.suspended > 0


def use_tracer_test(test: Callable[[], bool]) -> None:
    """Whether torch.compile reads this thread's frames: it then reads the program as it was written."""
    global _tracer_test
    _tracer_test = test


def use_values(values_type: Callable[..., Any]) -> None:
    global _values_type
    _values_type = values_type


def configure_tensors(*places: int) -> None:
    raise RuntimeError("there is no C hook to configure")


def try_probe(row: tuple) -> bool:
    raise RuntimeError("there is no C hook to probe with")


def _must_stay_plain(table: EntryTable) -> bool:
    """Each turn of a loop that breaks runs inside the last; a resumed region's original runs all turns that are left."""
    if not table.resumed:
        return False
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth > sys.getrecursionlimit() * 2 // 3


def _run(table: EntryTable, function: types.FunctionType, arguments: tuple, keywords: dict) -> Any:
    """What serves the call gives; what takes its place is for `_followed`."""
    result = _serving(table, function, arguments, keywords)(*arguments, **keywords)
    return function(*arguments, **keywords) if result is AS_WRITTEN else result


def followed_calls() -> int:
    return _thread.followed


def _is_followed() -> bool:
    """A debugger, a tracer or a profiler written in Python wants to see the program's own lines and calls."""
    if sys.gettrace() is None and not callable(sys.getprofile()) and not _interpreter_is_monitored():
        return False
    _thread.followed += 1
    return True


def _interpreter_is_monitored() -> bool:
    """By a debugger or coverage; CPython 3.12 and later."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        return False
    return any(monitoring.get_tool(tool) is not None for tool in (monitoring.DEBUGGER_ID, monitoring.COVERAGE_ID))


def _serving(table: EntryTable, function: types.FunctionType, arguments: tuple, keywords: dict) -> Callable[..., Any]:
    """The function that serves this call: an entry's, or the user's own."""
    if _thread.suspended or table.given_up or function.__code__ is not table.code or _must_stay_plain(table):
        return function
    if _is_followed():
        return function
    values = _values_of(function, arguments, keywords)
    entry = None if values is None else _select(table, function, values)
    return function if entry is None else _function_like(entry.code, function)


def _values_of(function: types.FunctionType, arguments: tuple, keywords: dict) -> Any:
    """None where Python would refuse the arguments: it then says so itself."""
    binder = types.FunctionType(_binding_code(function.__code__), {"locals": locals}, "", function.__defaults__)
    binder.__kwdefaults__ = function.__kwdefaults__
    try:
        bound = binder(*arguments, **keywords)
    except TypeError:
        return None
    cells = {}
    variables = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for name, cell in variables.items():
        try:
            cells[name] = cell.cell_contents
        except ValueError:
            continue
    return _values_type(bound, function.__globals__, function.__builtins__, cells, variables)


@functools.lru_cache(maxsize=1024)
def _binding_code(code: types.CodeType) -> types.CodeType:
    """A function with the same parameters that returns them: Python itself binds (inspect errs on 3.13.0)."""
    names = iter(code.co_varnames)
    positional = [next(names) for _ in range(code.co_argcount)]
    keyword_only = [next(names) for _ in range(code.co_kwonlyargcount)]
    rest = f"*{next(names)}" if code.co_flags & inspect.CO_VARARGS else "*"
    parts = [*positional[: code.co_posonlyargcount], *(["/"] if code.co_posonlyargcount else [])]
    parts += positional[code.co_posonlyargcount :]
    parts += [rest, *keyword_only] if keyword_only or rest != "*" else []
    parts += [f"**{next(names)}"] if code.co_flags & inspect.CO_VARKEYWORDS else []
    text = compile(f"def bind({', '.join(parts)}): return locals()", "<binding>", "exec")
    return next(constant for constant in text.co_consts if isinstance(constant, types.CodeType))


def _select(table: EntryTable, function: types.FunctionType, values: Any) -> Entry | None:
    for entry in table.entries:
        if (entry.globals is None or entry.globals is function.__globals__) and _program_holds(entry.program, values):
            entry.hits += 1
            entry.last_use = next(_uses)
            return entry
    if table.on_miss is None or sys.is_finalizing():
        return None
    suspend()
    try:
        made = table.on_miss(table, function, values)
        if made is not None:
            made.last_use = next(_uses)
        return made
    finally:
        resume()


def _program_holds(program: GuardProgram, values: Any) -> bool:
    suspend()
    try:
        return bool(program.check(values))
    except Exception:
        return False
    finally:
        resume()


def _function_like(code: types.CodeType, model: types.FunctionType) -> types.FunctionType:
    made = types.FunctionType(code, model.__globals__, model.__name__, model.__defaults__, model.__closure__)
    made.__kwdefaults__ = model.__kwdefaults__
    made.__qualname__ = model.__qualname__
    return made


def _shape(code: types.CodeType) -> tuple:
    return (code.co_argcount, code.co_kwonlyargcount, len(code.co_freevars), code.co_flags & _KINDS)
