"""What stands in the stack slots of a resumed region, in the user's words.

in_users_words("`__stack0` has shape [3]", code of the rest of `f(a.sort())`)   ->  "`a.sort()` has shape [3]"
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from types import CodeType

from dynascope.frame.instructions import Instruction, Position, decode
from dynascope.frame.resume import resume_origin
from dynascope.frame.stack_depth import depths
from dynascope.report.span import Span
from dynascope.report.syntax import SO_FAR, comprehension_loops, comprehension_source, formatted_part, statement_text
from dynascope.report.user_files import is_user_file

SLOT = re.compile(r"_*__stack(\d+)\b")
SLOT_AND_PARTS = re.compile(SLOT.pattern + r"(\[[^\]]*\]|\.\w+)*")
"""In a library's code, whose words say nothing to who called it."""
REDUCED = re.compile(r"(\.__reduce__\(\)(\[\d+\])*)+")
OF_METHOD = re.compile(r"\.\w+\.__self__\b")
"""What a method was taken from, as a part of the value `x.method`."""
OF_BOUND = re.compile(r"\b\w+\.__self__\b")
"""The same of a method that a library's function holds under a name of its own: to who called it that object is `self`."""
IN_BETWEEN = "a value in between"
"""What has no name in the program."""
PRIMARY = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.List, ast.Dict, ast.Set, ast.ListComp)
"""Expressions that `.name` can follow as they are."""
COLLECTS = ("BUILD_LIST", "BUILD_SET", "BUILD_MAP")
GIVEN = ".0"
"""The iterator that a comprehension which is a function of its own is called with."""
WITHOUT_RESULT = ("JUMP", "POP_", "STORE_", "DELETE_", "NOP", "END_", "RETURN_", "RAISE_", "RERAISE")
"""Beginnings of operations behind which the top of the stack is nothing that they have made."""


def in_users_words(text: str, code: CodeType) -> str:
    """Names of slots replaced by the expressions whose values they hold, and what an iterator is made of by the iterator; other text
    unchanged."""
    text = REDUCED.sub("", text)
    origin = resume_origin(code)
    if not is_user_file(code.co_filename if origin is None else origin.root.co_filename):
        return OF_BOUND.sub("self", OF_METHOD.sub("", SLOT_AND_PARTS.sub(IN_BETWEEN, text)))
    if origin is None or SLOT.search(text) is None:
        return OF_METHOD.sub("", text)
    instructions = decode(origin.root)
    depth = depths(instructions)

    def words(match: re.Match) -> str:
        producer = _producer(instructions, depth, origin.at, int(match[1]))
        named = (
            _loop_variable(instructions, producer) if producer is not None and producer.operation == "FOR_ITER" else ""
        )
        named = named or _of_comprehension(origin.root, producer) or _formatted(origin.root, instructions, producer)
        found = named or _text(origin.root, producer)
        if not found:
            return IN_BETWEEN
        return found if text[match.end() : match.end() + 1] not in (".", "[") or _is_primary(found) else f"({found})"

    return OF_METHOD.sub("", SLOT.sub(words, text))


def _is_primary(expression: str) -> bool:
    try:
        return isinstance(ast.parse(expression, mode="eval").body, PRIMARY)
    except SyntaxError:
        return True


def _producer(
    instructions: Sequence[Instruction], depth: dict[Instruction, int], at: int, slot: int
) -> Instruction | None:
    """The nearest instruction before `at` whose result was the top of the stack, in this slot."""
    for before in range(at - 1, -1, -1):
        found, behind = instructions[before], depth.get(instructions[before + 1])
        if behind is None or depth.get(found) is None:
            continue
        if found.operation == "SWAP" and _begins_comprehension(instructions, before):
            places = (behind - 1, behind - (found.argument or 0))
            slot = places[1 - places.index(slot)] if slot in places else slot
        elif behind == slot + 1 and not found.operation.startswith(WITHOUT_RESULT) and found.position is not None:
            return found
    return None


def _begins_comprehension(instructions: Sequence[Instruction], at: int) -> bool:
    """Whether a SWAP is one of those in `[name saved], [iterator], [list]`, which are on every way into the loop (PEP 709)."""
    above, before = instructions[at - 1].operation, instructions[at - 2].operation
    return above == "LOAD_FAST_AND_CLEAR" or (above in COLLECTS and before == "SWAP")


def _loop_variable(instructions: Sequence[Instruction], producer: Instruction) -> str:
    """The name that the loop gives its item, where it has one."""
    following = instructions[instructions.index(producer) + 1]
    return following.value if following.operation.startswith("STORE_") and isinstance(following.value, str) else ""


def _of_comprehension(code: CodeType, producer: Instruction | None) -> str:
    """What a comprehension has made so far, what it goes through, and since Python 3.12 (PEP 709) what its variable was before: all stand
    at the place of the whole."""
    if producer is None or producer.position is None:
        return ""
    at = _span(code, producer.position)
    if producer.operation == "LOAD_FAST_AND_CLEAR":
        return str(producer.value)
    if producer.operation in COLLECTS:
        loops = comprehension_loops(at)
        return SO_FAR.format(loops) if loops else ""
    is_iterator = producer.value == GIVEN or producer.operation == "GET_ITER"
    return f"iter({source})" if is_iterator and (source := comprehension_source(at)) else ""


def _formatted(code: CodeType, instructions: Sequence[Instruction], producer: Instruction | None) -> str:
    """One part of an f-string: before Python 3.12 all parts stand at the place of the whole."""
    if producer is None or producer.position is None or not producer.operation.startswith("FORMAT_"):
        return ""
    same = [each for each in instructions if each.operation == producer.operation and each.position == producer.position]
    return formatted_part(_span(code, producer.position), same.index(producer))


def _text(code: CodeType, producer: Instruction | None) -> str:
    if producer is None or producer.position is None:
        return ""
    return statement_text(_span(code, producer.position))


def _span(code: CodeType, at: Position) -> Span:
    return Span(code.co_filename, at.line, at.column, at.end_line, at.end_column)
