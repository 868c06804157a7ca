"""Bytecode as text to read: offsets, source lines, operands, jump labels, handlers.

    print(print_code(f.__code__))

      3   4:10   6  LOAD_GLOBAL          print (+ NULL)
          10:13  16  LOAD_FAST            x              | on error L1 (depth 0)

`print_side_by_side(original, rewritten)` puts two codes next to each other, for `dynascope show bytecode`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from types import CodeType

from dynascope.frame.instructions import Instruction, decode

LONGEST_OPERAND = 40
ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Another one in every run: two prints of the same code differ by what they are, not by where."""


def print_code(code: CodeType) -> str:
    """The whole code object: a heading, then a line for each instruction."""
    return "\n".join([heading(code), *instruction_lines(decode(code))])


def print_side_by_side(original: CodeType, rewritten: CodeType) -> str:
    """The original on the left, what runs instead on the right."""
    left = print_code(original).splitlines()
    right = print_code(rewritten).splitlines()
    width = max(map(len, left))
    pairs = zip_longest(left, right, fillvalue="")
    return "\n".join(f"{one:<{width}}  |  {other}".rstrip() for one, other in pairs)


def heading(code: CodeType) -> str:
    signature = f"{code.co_qualname}({', '.join(_parameters(code))})"
    parts = [f"{signature}  {code.co_filename}:{code.co_firstlineno}", f"stack {code.co_stacksize}"]
    parts += [f"cells {', '.join(code.co_cellvars)}"] if code.co_cellvars else []
    parts += [f"free {', '.join(code.co_freevars)}"] if code.co_freevars else []
    return " · ".join(parts)


def instruction_lines(instructions: Sequence[Instruction]) -> Iterator[str]:
    """One line each. The source line is shown where it changes; a jump's target has a label."""
    labels = _labels(instructions)
    line = None
    for instruction in instructions:
        shown = "" if instruction.line is None or instruction.line == line else str(instruction.line)
        line = instruction.line if instruction.line is not None else line
        label = f"{labels[instruction]}:" if instruction in labels else ""
        offset = "" if instruction.offset is None else str(instruction.offset)
        text = f"{shown:>5} {_columns(instruction):>7} {label:>4} {offset:>5}  {instruction.operation:<24}"
        text += f" {operand(instruction, labels)}"
        yield f"{text:<84}{_handler(instruction, labels)}".rstrip()


def operand(instruction: Instruction, labels: dict[Instruction, str]) -> str:
    if instruction.target is not None:
        return f"to {labels.get(instruction.target, '?')}"
    if instruction.operation == "LOAD_CONST":
        return _short(instruction.value)
    text = instruction.value if isinstance(instruction.value, str) else None
    if text is None and instruction.value is not None:
        text = (
            ", ".join(map(str, instruction.value)) if isinstance(instruction.value, tuple) else repr(instruction.value)
        )
    if text is None:
        text = "" if instruction.argument is None else str(instruction.argument)
    if instruction.keyword_names:
        text += f" (keywords {', '.join(instruction.keyword_names)})"
    return text + _variant(instruction)


def _variant(instruction: Instruction) -> str:
    if instruction.pushes_null:
        return " (+ NULL)"
    if instruction.is_method:
        return " (method)"
    return " (to bool)" if instruction.coerces_to_bool else ""


def _short(value: object) -> str:
    if isinstance(value, CodeType):
        return f"<code {value.co_name}>"
    text = ADDRESS.sub("", repr(value))
    return text if len(text) <= LONGEST_OPERAND else f"{text[: LONGEST_OPERAND - 3]}..."


def _labels(instructions: Sequence[Instruction]) -> dict[Instruction, str]:
    """L1, L2, ... for what is jumped to or handles exceptions, in order."""
    targets = {i.target for i in instructions if i.target is not None}
    targets |= {i.handler.target for i in instructions if i.handler is not None}
    return {i: f"L{number}" for number, i in enumerate((i for i in instructions if i in targets), 1)}


def _columns(instruction: Instruction) -> str:
    position = instruction.position
    if position is None or position.column is None:
        return ""
    return f"{position.column}:{position.end_column}"


def _handler(instruction: Instruction, labels: dict[Instruction, str]) -> str:
    handler = instruction.handler
    if handler is None:
        return ""
    offset = ", with offset" if handler.push_lasti else ""
    return f" | on error {labels[handler.target]} (depth {handler.depth}{offset})"


def _parameters(code: CodeType) -> Iterator[str]:
    plain = code.co_argcount + code.co_kwonlyargcount
    yield from code.co_varnames[:plain]
    rest = iter(code.co_varnames[plain:])
    if code.co_flags & inspect.CO_VARARGS:
        yield f"*{next(rest)}"
    if code.co_flags & inspect.CO_VARKEYWORDS:
        yield f"**{next(rest)}"
