"""Generators that were made inside and are alive across a break: how compiled code makes them again.

    (layer(x) for layer in layers)     the generator function called with what is left of its iterator
    map(f, items)                      `map` of what is left (`remade_iterators.py`)
    model.named_children()             a generator that begins at the `yield` where this one waits, with what its frame holds
                                       (`frame/suspended.py`); that of a `@contextmanager` is one of these

One that waits inside `except` is called again, and as many items taken as the program has taken. What would do something a second
time is not remade: the answer is None, and there is no break at this place.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from dynascope.capture.calls import equivalents
from dynascope.capture.remade_iterators import ITERATORS, Remade, remade_iterator
from dynascope.capture.values import (
    CellValue,
    DictValue,
    FunctionValue,
    GeneratorValue,
    InstanceValue,
    ListValue,
    MethodValue,
    NullValue,
    SetValue,
    TupleValue,
    Value,
    ZipValue,
)
from dynascope.frame.liveness import Liveness
from dynascope.frame.resume import CellContentParameter, CellParameter, LocalParameter, StackParameter
from dynascope.frame.shape import CodeShape
from dynascope.frame.suspended import make_suspended_code

VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def remade(generator: GeneratorValue) -> Remade | None:
    code = generator.frame.code
    if generator.finished:
        return None
    if code in equivalents.STAND_FOR:
        return remade_iterator(generator)
    if is_one_loop(generator):
        return Remade(generator.frame.function, (given(generator.frame.slots[".0"]),))
    if generator.started and (waiting := as_it_waits(generator)) is not None:
        return waiting
    return called_again(generator)


def as_it_waits(generator: GeneratorValue) -> Remade | None:
    """A function that gives a generator with the frame as it is now, and waits at its first item where this one does."""
    frame = generator.frame
    cells = {name: value for name, value in frame.slots.items() if isinstance(value, CellValue)}
    live = Liveness(frame.program.instructions, CodeShape.of(frame.code)).before(frame.instruction)
    bound = [name for name in frame.slots if name in live and name not in cells]
    nulls = [at for at, value in enumerate(frame.stack) if isinstance(value, NullValue)]
    resume = make_suspended_code(frame.code, frame.program.instructions, frame.instruction, nulls, bound, tuple(cells))
    if resume is None:
        return None
    function = FunctionValue(resume.code, frame.globals, frame.function.name)
    function.closure = tuple(cells[name] for name in resume.code.co_freevars)
    arguments: list[Value] = []
    for parameter in resume.parameters:
        match parameter:
            case StackParameter(position):
                arguments.append(frame.stack[position])
            case LocalParameter(name) | CellParameter(name):
                arguments.append(frame.slots[name])
            case CellContentParameter(name):
                if cells[name].content is None:
                    return None
                arguments.append(cells[name].content)
    return Remade(function, tuple(arguments), taken=1)


def called_again(generator: GeneratorValue) -> Remade | None:
    """The same call, after which as many items are taken."""
    code = generator.frame.code
    if code.co_flags & VARIADIC:
        return None
    positional = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    values = {name: given(generator.given[name]) for name in (*positional, *named)}
    if None in values.values():
        return None
    again = Remade(
        generator.frame.function,
        tuple(values[name] for name in positional),
        {name: values[name] for name in named},
        generator.taken,
    )
    if not generator.taken:
        return again
    closure = [cell.content for cell in generator.frame.function.closure]
    consumes = any(isinstance(value, ITERATORS) for value in (*values.values(), *closure))
    return None if consumes or not generator.quiet else again


def given(value: Value) -> Value | None:
    """An argument, which inner functions may share."""
    return value.content if isinstance(value, CellValue) else value


def is_one_loop(generator: GeneratorValue) -> bool:
    """A generator expression over one iterator has no other state than where that is."""
    code, program = generator.frame.code, generator.frame.program
    loops = sum(instruction.operation == "FOR_ITER" for instruction in program.instructions)
    return code.co_name == "<genexpr>" and loops == 1


def is_own_value(generator: GeneratorValue, value: Value) -> bool:
    """Whether an object was made by the generator itself, for a variable of its own: a second run makes its own again."""
    if value.source is not None or not any(value is each for each in generator.frame.slots.values()):
        return False
    return not holds([*generator.given.values(), *generator.frame.function.closure], value)


def holds(values: list[Value], wanted: Value) -> bool:
    """Whether an object can be reached through what was made inside."""
    return id(wanted) in all_held(values)


def all_held(values: Iterable[Value | None]) -> dict[int, Value]:
    """What can be reached through what was made inside, by identity."""
    pending, found = list(values), {}
    while pending:
        value = pending.pop()
        if value is not None and id(value) not in found:
            found[id(value)] = value
            pending += held_in(value)
    return found


def held_in(value: Value) -> list[Value]:
    if isinstance(value, CellValue):
        return [value.content]
    if isinstance(value, DictValue):
        return [part for pair in value.items.values() for part in pair]
    if isinstance(value, (ListValue, TupleValue)):
        return list(value.items)
    if isinstance(value, SetValue):
        return list(value.items.values())
    if isinstance(value, FunctionValue):
        return [*value.closure, *value.defaults, *value.keyword_defaults.values(), *value.attributes.values()]
    if isinstance(value, MethodValue):
        return [value.function, value.instance]
    if isinstance(value, GeneratorValue):
        return [value.frame.function, *value.frame.slots.values(), *value.frame.stack]
    if isinstance(value, ZipValue):
        return list(value.parts)
    return list(value.attributes.values()) if isinstance(value, InstanceValue) else []


def advanced(generator: Any, count: int) -> None:
    for _ in range(count):
        next(generator)
