"""Entering Python functions: arguments go to parameters as Python binds them.

enter(machine, f, [a], {"key": b})   ->  the frame, about to run its first instruction
"""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import allowed_in_graph
from dynascope.capture.expressions import callee
from dynascope.capture.frames import Frame
from dynascope.capture.reasons import DebuggerCall, DisabledFunction, ForeignCall, GeneratorFunction, ShardedLayer
from dynascope.capture.signals import Break, Refusal
from dynascope.capture.values import ConstantValue, DictValue, FunctionValue, InstanceValue, TupleValue, Value
from dynascope.guards.guard import DictionaryKeysAre, IdentityIs
from dynascope.guards.source import AttributeSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

DEBUGGERS = frozenset({"pdb", "bdb", "ipdb", "ipdb.__main__", "IPython.core.debugger", "pudb", "debugpy", "pydevd"})
"""Modules whose functions look at the frame that calls them, and stop there."""

ASYNCHRONOUS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


ORIGINAL = "_torchdynamo_orig_callable"
DISABLED = "__dynascope_disable__", "_torchdynamo_disable"
"""What our `disable` and torch's leave on a function."""


def enter(machine: Machine, function: FunctionValue, arguments: list[Value], keywords: dict[str, Value]) -> Any:
    """The frame of the call."""
    inside = read_all_the_same(function) or patched_by_torch(machine, function)
    if inside is not None:
        return machine.call(inside, arguments, keywords)
    check_allowed(machine, function)
    check_no_sharding(machine, function, arguments)
    if function.object in machine.options.recorded:
        return allowed_in_graph.record(machine, function, arguments, keywords)
    slots = bind(machine, function, arguments, keywords)
    for name, cell in zip(function.code.co_freevars, function.closure, strict=True):
        slots[name] = cell
    return machine.enter(function, slots)


def disabled_by(function: Any) -> str | None:
    """By which word the program keeps it out of compilation, ours or torch's `disable` or `skip`; None where it does not. Torch's `skip`
    leaves the function as it is, with a mark; all others put one around it."""
    ours, torchs = (getattr(function, mark, False) for mark in DISABLED)
    if not ours and not torchs:
        return None
    return "skip" if ours == "skip" or not ours and not hasattr(function, ORIGINAL) else "disable"


def read_all_the_same(function: FunctionValue) -> Value | None:
    """What torch keeps out of its own compiler for reasons of its own, and can be read: the function inside its wrapper."""
    if function.globals is not vars(torch._compile):
        return None
    inside = next((cell.content for cell in function.closure if cell.name == "fn"), None)
    real = getattr(inside, "object", None)
    return inside if isinstance(real, types.FunctionType) and real.__module__.startswith("torch.optim.") else None


def patched_by_torch(machine: Machine, function: FunctionValue) -> Value | None:
    """The first use of torch's own compiler puts wrappers around functions of its optimizers, and of modules, which it counts:
    what was there before. A function that the program has compiled by it is read like the function it was made from."""
    place = function.globals.get("__name__")
    if place == "torch._dynamo.mutation_guard":
        return next((cell.content for cell in function.closure if cell.name in ("init", "setstate")), None)
    if place != "torch._dynamo.eval_frame" or function.source is None:
        return None
    original = getattr(function.object, ORIGINAL, None)
    if not isinstance(original, types.FunctionType | types.MethodType):
        return None
    if disabled_by(function.object) is not None and not original.__module__.startswith("torch.optim."):
        return None
    return machine.outside.realize(original, AttributeSource(function.source, ORIGINAL))


def check_allowed(machine: Machine, function: FunctionValue) -> None:
    if function.code.co_flags & ASYNCHRONOUS:
        raise Break(GeneratorFunction(function.name, "coroutine function"))
    if function.object is None:
        return
    if (mark := disabled_by(function.object)) is not None:
        raise Break(DisabledFunction(function.name, mark))
    if function.globals.get("__name__") in DEBUGGERS:
        raise Refusal(DebuggerCall(function.name))
    if function.globals is vars(torch._compile):
        raise Break(DisabledFunction(callee(machine.expression()) or function.name, by_torch=True))
    if not machine.options.inline(function.object):
        raise Break(ForeignCall(function.name, "it was excluded from capture"))


SHARDING = "torch.distributed.fsdp._fully_shard"


def check_no_sharding(machine: Machine, function: FunctionValue, arguments: list[Value]) -> None:
    """The hooks of `fully_shard` ask torch's compiler at each call to keep out of them: that is known without reading how they ask."""
    if not str(function.globals.get("__name__")).startswith(SHARDING) or function.code.co_name != "wrapper":
        return
    for argument in map(machine.realize, arguments):
        if isinstance(argument, InstanceValue) and issubclass(argument.cls, torch.nn.Module):
            raise Break(ShardedLayer(argument.cls.__name__.removeprefix("FSDP")))


def bind(
    machine: Machine, function: FunctionValue, arguments: list[Value], keywords: dict[str, Value]
) -> dict[str, Value]:
    code = function.code
    count, positional_only = code.co_argcount, code.co_posonlyargcount
    names = code.co_varnames
    wrong = False
    slots = dict(zip(names[:count], arguments, strict=False))
    keyword_only = names[count : count + code.co_kwonlyargcount]
    rest = count + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        slots[names[rest]] = TupleValue(tuple(arguments[count:]))
        rest += 1
    else:
        wrong = len(arguments) > count
    accepted = {*names[positional_only:count], *keyword_only}
    others: dict[str, Value] = {}
    for name, value in keywords.items():
        if name not in accepted:
            others[name] = value
        else:
            wrong |= name in slots
            slots[name] = value
    if code.co_flags & inspect.CO_VARKEYWORDS:
        slots[names[rest]] = DictValue({name: (ConstantValue(name), value) for name, value in others.items()})
    else:
        wrong |= bool(others)
    if function.object is not None and function.object.__kwdefaults__:
        machine.outside.check_unwritten(function.object.__kwdefaults__, f"{function.name}.__kwdefaults__")
    wrong |= not add_defaults(function, slots, names[:count], keyword_only)
    if wrong:
        guard_defaults(machine, function)
        raise machine.throw(TypeError, refusal_of(function, len(arguments), tuple(keywords)))
    return slots


def add_defaults(function: FunctionValue, slots: dict[str, Value], positional: tuple, keyword_only: tuple) -> bool:
    """Whether there is something for every parameter then."""
    first = len(positional) - len(function.defaults)
    for at, name in enumerate(positional):
        if name not in slots and at >= first:
            slots[name] = function.defaults[at - first]
    for name in keyword_only:
        if name not in slots and name in function.keyword_defaults:
            slots[name] = function.keyword_defaults[name]
    return all(name in slots for name in (*positional, *keyword_only))


def guard_defaults(machine: Machine, function: FunctionValue) -> None:
    """The call fails for want of defaults, which the function may be given later."""
    if function.source is None:
        return
    for name, found in (
        ("__defaults__", function.object.__defaults__),
        ("__kwdefaults__", function.object.__kwdefaults__),
    ):
        place = AttributeSource(function.source, name)
        if found is None:
            machine.guards.add(place, IdentityIs(None))
        elif name == "__kwdefaults__":
            machine.guards.add(place, DictionaryKeysAre(tuple(found)))


def refusal_of(function: FunctionValue, given: int, named: tuple[str, ...]) -> str:
    """What Python says of such a call: it is asked with a function of the same parameters, which does nothing."""
    nothing = (lambda: None).__code__
    code = function.code.replace(
        **{part: getattr(nothing, part) for part in ("co_code", "co_consts", "co_exceptiontable", "co_freevars", "co_cellvars")}
    )
    asked = types.FunctionType(code, {}, function.name, (None,) * len(function.defaults))
    asked.__qualname__ = function.name
    asked.__kwdefaults__ = dict.fromkeys(function.keyword_defaults)
    try:
        asked(*[None] * given, **dict.fromkeys(named))
    except TypeError as error:
        return str(error)
    raise Break(ForeignCall(function.name, "it was called with arguments that it does not take"))


__all__ = ["Frame", "enter"]
