"""A failing program to its smallest: statements, results, inputs, calls and settings go while it fails the same way.

small = shrink(program, fails, seconds=60)      fails(program) -> the kind of failure, None where there is none
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tensor_programs import Call, Program


def shrink(program: Program, fails: Callable[[Program], str | None], seconds: float = 60.0) -> Program:
    """The smallest found in the time; `program` itself where it does not fail."""
    kind, end = fails(program), time.monotonic() + seconds
    if kind is None:
        return program
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(program):
            if time.monotonic() > end:
                return program
            if fails(candidate) == kind:
                program, smaller = candidate, True
                break
    return program


def _candidates(program: Program) -> Iterator[Program]:
    """Programs with one thing less, the largest cuts first. None has a call or result less than one."""
    for number in range(len(program.calls) if len(program.calls) > 1 else 0):
        yield replace(program, calls=_without(program.calls, number))
    half = len(program.body) // 2
    if half > 1:
        yield replace(program, body=program.body[half:])
        yield replace(program, body=program.body[:half])
    for number in reversed(range(len(program.body))):
        yield replace(program, body=program.body[:number] + program.body[_end_of_block(program.body, number) :])
        if program.body[number].endswith(":"):
            yield replace(program, body=_unwrapped(program.body, number))
    for number in range(len(program.results) if len(program.results) > 1 else 0):
        yield replace(program, results=_without(program.results, number))
    for number in range(len(program.inputs)):
        yield replace(program, inputs=_without(program.inputs, number))
    yield from _plainer(program)


def _plainer(program: Program) -> Iterator[Program]:
    for number in range(len(program.losses)):
        yield replace(program, losses=_without(program.losses, number))
    if program.clipped:
        yield replace(program, clipped=False)
    if program.steps:
        yield replace(program, steps=False)
    for number, call in enumerate(program.calls):
        for setting in ("rows", "mode", "n", "flag"):
            plain = replace(call, **{setting: getattr(Call(), setting)})
            if plain != call:
                yield replace(program, calls=(*program.calls[:number], plain, *program.calls[number + 1 :]))
    for number, (name, expression) in enumerate(program.inputs):
        if ", True" in expression:
            plain = (name, expression.replace(", True", ""))
            yield replace(program, inputs=(*program.inputs[:number], plain, *program.inputs[number + 1 :]))


def _without(items: tuple, number: int) -> tuple:
    return items[:number] + items[number + 1 :]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _end_of_block(body: tuple[str, ...], number: int) -> int:
    """After the statement, its block, and what continues it (`else`, `except`)."""
    end = number + 1
    while end < len(body) and (
        _indent(body[end]) > _indent(body[number])
        or _indent(body[end]) == _indent(body[number])
        and body[end].lstrip().startswith(("else", "except", "finally"))
    ):
        end += 1
    return end


def _unwrapped(body: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The block's statements without its head, up to what continues it."""
    end = number + 1
    while end < len(body) and _indent(body[end]) > _indent(body[number]):
        end += 1
    inside = tuple(line[4:] for line in body[number + 1 : end])
    return body[:number] + inside + body[_end_of_block(body, number) :]
