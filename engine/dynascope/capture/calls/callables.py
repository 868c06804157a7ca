"""Functions as values: partial, bound methods, the functions of `operator`."""

from __future__ import annotations

import functools
import inspect
import logging
import operator
import types
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents, python
from dynascope.capture.calls.arguments import Arguments, Keywords, in_order, is_none
from dynascope.capture.calls.pure import compute, value_of
from dynascope.capture.calls.registry import MEANINGS_OF_CODE, meaning, object_meaning
from dynascope.capture.protocols import items, operators
from dynascope.capture.protocols.classes import is_callable, lookup
from dynascope.capture.reasons import ForeignCall, ProgramRaises
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    CellValue,
    ConstantValue,
    DictValue,
    FunctionValue,
    InstanceValue,
    LazyValue,
    ListValue,
    MethodValue,
    NotConstant,
    PartialValue,
    SymbolicNumber,
    TupleValue,
    Value,
    boolean,
    constant_of,
)
from dynascope.dataclass import dataclass
from dynascope.guards.guard import IdentityIs
from dynascope.guards.source import AttributeSource, MadeSource
from dynascope.guards.state_calls import CallReturns, Remembers
from dynascope.report.user_files import is_user_file

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(functools.partial)
def partial_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    function = machine.realize(arguments[0])
    if not is_callable(function):
        raise machine.throw(TypeError, "the first argument must be callable")
    if isinstance(function, PartialValue):
        return PartialValue(function.function, (*function.arguments, *arguments[1:]), {**function.keywords, **keywords})
    return PartialValue(function, tuple(arguments[1:]), dict(keywords))


@meaning(types.MethodType)
def method_type(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return MethodValue(machine.realize(arguments[0]), machine.realize(arguments[1]))


@meaning(types.FunctionType.__get__)
def bound_function(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """What an attribute of an instance does with a function of its class, asked for by name."""
    function, instance = machine.realize(arguments[0]), machine.realize(arguments[1])
    if not isinstance(function, FunctionValue) or is_none(instance):
        raise Break(ForeignCall("__get__", "it binds no function to an object"))
    return MethodValue(function, instance)


@meaning(types.CellType)
def cell_type(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return CellValue(arguments[0] if arguments else None, "cell")


@meaning(typing.cast)
def cast_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return in_order(arguments, keywords, "typ", "val")[1]


def _getter(cls: type, python: Any) -> None:
    """`operator.itemgetter` and its like: one is made of constants, and called as the Python function that does the same."""

    @meaning(cls)
    def make(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        known = [constant_of(machine.known(each)) for each in arguments]
        if keywords or not known or any(type(each) not in GETTER_KEYS for each in known):
            raise Break(ForeignCall(f"operator.{cls.__name__}", "it is made of something that is no constant"))
        made = compute(machine, cls, tuple(known))
        return machine.outside.realize(made.value, MadeSource(made.value, cls, tuple(known)))

    @object_meaning(cls)
    def run(machine: Machine, thing: Any, arguments: Arguments, keywords: Keywords) -> Any:
        made_of = thing.__reduce__()
        if made_of[0] is not cls or len(arguments) != 1 or keywords:
            raise Break(ProgramRaises("TypeError", machine.expression()))
        return equivalents.enter(machine, python, [arguments[0], *map(value_of, made_of[1])])


GETTER_KEYS = (int, str, slice, type(None))
_getter(operator.itemgetter, equivalents.item_getter)
_getter(operator.attrgetter, equivalents.attribute_getter)
_getter(operator.methodcaller, equivalents.method_caller)


@meaning(functools.cached_property.__get__)
def cached_property(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return equivalents.enter(machine, equivalents.cached_property_, arguments, keywords)


@object_meaning(functools._lru_cache_wrapper)
def cached(machine: Machine, function: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """A function that remembers its results, called with constants: it is asked, as the program would ask it now.

    What it has to do for that it does once, for this call and all later ones, compiled or not. A guard asks it again at each call, as
    the program does: its cache may have been cleared. A result that is no constant is asked for again where the program keeps it,
    which gives the same object.
    """
    if is_of_library(function.object) and any(map(varies, (*arguments, *keywords.values()))):
        return run_again(machine, function, arguments, keywords)
    given = [machine.known(each) for each in (*arguments, *keywords.values())]
    known = [argument_of(machine, each) for each in given]
    if any(type(each) is NotConstant for each in known) or function.source is None:
        raise Break(ForeignCall(name_of_cached(function), "it is called with something that is no constant"))
    machine.guards.add(function.source, IdentityIs(function.object))
    count = len(arguments)
    named = dict(zip(keywords, known[count:], strict=True))
    found = compute(machine, function.object, tuple(known[:count]), named).value
    if not is_of_library(function.object) and all(map(is_remembered, known)):
        answer = (found, 0) if is_remembered(found) else (None, id(found))
        machine.guards.add(function.source, Remembers(tuple(known[:count]), named, *answer))
    if type(found) in REMEMBERED:
        return value_of(found)
    if any(isinstance(value, InstanceValue) for value in given[count:]):
        raise Break(ForeignCall(name_of_cached(function), "what it remembers is no constant"))
    make = functools.partial(function.object, **named) if named else function.object
    return machine.outside.realize(found, MadeSource(found, make, tuple(map(again, given[:count], known))))


def is_of_library(function: Any) -> bool:
    wrapped = getattr(function, "__wrapped__", None)
    return isinstance(wrapped, types.FunctionType) and not is_user_file(wrapped.__code__.co_filename)


def varies(value: Value) -> bool:
    """Whether a number in it is another at other calls, each of which would be remembered by itself."""
    value = value.realize() if isinstance(value, LazyValue) else value
    if isinstance(value, (ListValue, TupleValue)):
        return any(map(varies, value.items))
    return isinstance(value, SymbolicNumber)


def run_again(machine: Machine, function: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """A library's function with numbers that vary is run as if it did not remember: what it says of one number holds for that
    alone. It may write nothing, and what a library remembers it does not change."""
    machine.guards.add(function.source, IdentityIs(function.object))
    wrapped = machine.outside.realize(function.object.__wrapped__, AttributeSource(function.source, "__wrapped__"))
    before = written_until_now(machine)
    result = machine.call_now(wrapped, arguments, keywords)
    if written_until_now(machine) != before:
        raise Break(ForeignCall(name_of_cached(function), "it writes something, and remembers that it did"))
    return result


def written_until_now(machine: Machine) -> tuple[int, ...]:
    """Of what was there before the graph, or is torch's."""
    objects = [value for value in (*machine.written, *machine.rewritten) if value.source is not None]
    return tuple(map(len, (objects, machine.tensor_writes, machine.global_writes, machine.said)))


def single_dispatch(machine: Machine, function: FunctionValue, arguments: Arguments, keywords: Keywords) -> Any:
    """`functools.singledispatch`: the function that is registered for the class of the first argument, as a guard asks again. Where one
    was registered inside, the dispatch is followed: the function outside does not have it yet."""
    if not arguments:
        raise Break(ProgramRaises("TypeError", machine.expression()))
    registry = inspect.getclosurevars(function.object.dispatch).nonlocals["registry"]
    if any(value.object is registry for value in machine.written if isinstance(value, DictValue)):
        return python.enter(machine, function, arguments, keywords)
    cls = machine.realize(arguments[0]).python_type
    found = function.object.dispatch(cls)
    machine.guards.add_state(CallReturns(Dispatch(function.object.dispatch, cls), found))
    return machine.call(machine.outside.fixed(found, found.__qualname__), arguments, keywords)


@dataclass(frozen=True)
class Dispatch:
    """What is asked again: which function there is for a class."""

    dispatch: Callable[[type], Any]
    cls: type
    __name__ = "dispatch"

    def __call__(self) -> Any:
        return self.dispatch(self.cls)


MEANINGS_OF_CODE[functools.singledispatch(single_dispatch).__code__] = single_dispatch


def argument_of(machine: Machine, value: Value) -> Any:
    """The real argument, or NotConstant."""
    for find in (logger_of, owner_of):
        if (kept := find(machine, value)) is not None:
            return kept
    return lasting(value)


def logger_of(machine: Machine, value: Value) -> logging.Logger | None:
    """A logger, which stays while the process does: methods that say something once remember it. What they say comes now, so
    nothing may wait to be said."""
    if not isinstance(value, InstanceValue) or value.changed or machine.said or not issubclass(type(value.object), logging.Logger):
        return None
    if not isinstance(value.source, MadeSource):
        machine.guards.add(value.source, IdentityIs(value.object))
    return value.object


def owner_of(machine: Machine, value: Value) -> Any:
    """The object that a remembering method is of (`self`), which the method keeps alive: it is found by what it is, not by what it
    holds. Whatever the program has done so far is done later, and the method would not see it."""
    if not isinstance(value, InstanceValue) or value.object is None or value.source is None or isinstance(value.source, MadeSource):
        return None
    is_default = all(lookup(value.cls, name) is vars(object)[name] for name in ("__hash__", "__eq__"))
    if not is_default or value.changed or any(written_until_now(machine)):
        return None
    machine.guards.add(value.source, IdentityIs(value.object))
    return value.object


def lasting(value: Value) -> Any:
    """The real argument: a constant, or what another such call gave."""
    if isinstance(value, InstanceValue) and isinstance(value.source, MadeSource):
        return value.object
    known = constant_of(value)
    return known if type(known) is NotConstant or is_plain_key(known) else NotConstant(value)


def is_plain_key(known: Any) -> bool:
    if isinstance(known, tuple):
        return all(map(is_plain_key, known))
    return type(known) in REMEMBERED or isinstance(known, type)


def again(value: Value, known: Any) -> Any:
    return value if isinstance(value, InstanceValue) else known


def name_of_cached(function: Any) -> str:
    return getattr(function.object, "__qualname__", "the cached function")


REMEMBERED = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type)


def is_remembered(thing: Any) -> bool:
    """Whether it is a constant, of constants alone."""
    return all(map(is_remembered, thing)) if type(thing) in (tuple, frozenset) else type(thing) in REMEMBERED


@object_meaning(types.GenericAlias)
def alias(machine: Machine, thing: types.GenericAlias, arguments: Arguments, keywords: Keywords) -> Any:
    """`dict[str, int]()` makes what its class makes; what can have attributes remembers how it was called."""
    origin = machine.outside.fixed(thing.__origin__, thing.__origin__.__name__)
    if thing.__origin__.__dictoffset__:
        return equivalents.enter(machine, equivalents.construct_by_alias, [ConstantValue(thing), origin, *arguments], keywords)
    return machine.call(origin, arguments, keywords)


def _operator_function(function: Any, apply: Any) -> None:
    @meaning(function)
    def run(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        return apply(machine, *[machine.realize(each) for each in arguments])


for _symbol, _op in {**operators.OPERATORS, **operators.COMPARISONS}.items():
    _operator_function(_op.function, lambda machine, left, right, _op=_op: operators.apply(machine, _op, left, right))
for _op in operators.UNARY.values():
    _operator_function(_op.function, lambda machine, value, _op=_op: operators.unary(machine, _op, value))
_operator_function(operator.getitem, items.get)
_operator_function(operator.setitem, lambda machine, *parts: items.set(machine, *parts) or NONE)
_operator_function(operator.delitem, lambda machine, *parts: items.delete(machine, *parts) or NONE)
_operator_function(
    operator.contains, lambda machine, container, item: boolean(items.contains(machine, container, item))
)
_operator_function(operator.is_, lambda machine, left, right: boolean(operators.is_same(machine, left, right)))
_operator_function(operator.is_not, lambda machine, left, right: boolean(not operators.is_same(machine, left, right)))
