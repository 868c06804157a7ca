"""Lines that edits made too long, broken as a formatter does: at a bracket, at its commas, at operators.

fitted(before, after)     y = torch.where(a > 0, some_name, another_name)   ->   y = torch.where(
                                                                                     a > 0, some_name, another_name
                                                                                 )

Too long is what is longer than the text's own longest line, which counts as 88 at least and 140 at most. What the lines say
stays the same: where Python would read another tree, or a line cannot be broken, it stays as it is.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import pairwise

from dynascope.dataclass import dataclass

LEAST = 88
MOST = 140
STEP = "    "
OPEN, CLOSE = "([{", ")]}"
WEAKEST_FIRST = (
    ("if", "else", "for"),
    ("or",),
    ("and",),
    ("==", "!=", "<", ">", "<=", ">=", "in", "is", "not"),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "//", "%", "@"),
)  # fmt: skip
"""What an expression is broken before, the weakest that it has. `not` counts as the beginning of `not in`."""
COMPARED = ("==", "!=", "<=", ">=")
INSIDE_OF_TEXTS = (getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "FSTRING_END", -1))
KEYWORDS = frozenset(("if", "else", "for", "or", "and", "in", "is", "not", "lambda"))
ASKING = ("return", "yield", "if", "elif", "while")
"""What an expression of a statement may stand behind, which can be put into parentheses as a whole."""


@dataclass(frozen=True, slots=True)
class _Style:
    """The most columns of a line, and by what the text goes in."""

    limit: int
    step: str


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    first: int
    last: int
    depth: int
    """Of brackets around it; an opening one and its closing one have the same."""
    is_operator: bool


def fitted(before: str, after: str) -> str:
    """`after` is `before` with edits made. Only lines that are not in `before` are broken."""
    style = _style(before)
    old, new = before.splitlines(), after.splitlines()
    made = [
        number
        for what, _, _, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if what != "equal"
        for number in range(start, end)
        if len(new[number]) > style.limit
    ]
    if not made:
        return after
    text = after
    for number in reversed(made):
        text = _with_line_broken(text, number, style)
    return text


def _style(text: str) -> _Style:
    lines = text.splitlines()
    first = next((line for line in lines if line[:1] in (" ", "\t") and line.strip()), STEP)
    step = first[: len(first) - len(first.lstrip())]
    return _Style(min(MOST, max(LEAST, *map(len, lines), 0)), step if len(step) <= len(STEP) else STEP)


def _with_line_broken(text: str, number: int, style: _Style) -> str:
    lines = text.splitlines(keepends=True)
    end = "\n" if lines[number].endswith("\n") else ""
    broken = _broken(lines[number].rstrip("\n"), style)
    if broken is None:
        return text
    made = "".join([*lines[:number], "\n".join(broken), end, *lines[number + 1 :]])
    return made if _says_the_same(text, made) else text


def _says_the_same(one: str, other: str) -> bool:
    try:
        return ast.dump(ast.parse(one)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError, RecursionError):
        return False


def _broken(line: str, style: _Style) -> list[str] | None:
    """The lines that stand for one; None where it has no place to be broken at."""
    indentation = line[: len(line) - len(line.lstrip())]
    words, comment = _without_comment(line.strip())
    if len(indentation) + len(words) <= style.limit:
        return None  # only its comment is too long
    tokens = _tokens(words)
    if tokens is None:
        return None
    made = _statement(words, tokens, indentation, style)
    if made is None:
        return None
    return [*made[:-1], f"{made[-1]}{comment}"]


def _without_comment(words: str) -> tuple[str, str]:
    for token in _read(words):
        if token.type == tokenize.COMMENT:
            return words[: token.start[1]].rstrip(), f"  {token.string}"
    return words, ""


def _statement(words: str, tokens: Sequence[_Token], indentation: str, style: _Style) -> list[str] | None:
    """A simple statement, or the head of a compound one: its expression is put into parentheses where it has operators of its
    own, else it is broken at its last brackets."""
    tail = ":" if words.endswith(":") else ""
    start = _expression_starts(tokens)
    body = words[start : len(words) - len(tail)].strip()
    parts = _tokens(body) if start else None
    if parts and (_weakest(parts) or any(part.depth == 0 and part.text == "," for part in parts)):
        return [f"{indentation}{words[:start].rstrip()} (", *_parts(body, indentation + style.step, style), f"{indentation}){tail}"]
    return _at_brackets(words, tokens, indentation, style)


def _expression_starts(tokens: Sequence[_Token]) -> int:
    """Behind the last `=` of an assignment, or the word that the statement begins with; 0 where there is neither."""
    given = [t for t in tokens if t.depth == 0 and t.is_operator and t.text.endswith("=") and t.text not in COMPARED]
    asking = tokens[0] if tokens and tokens[0].text in ASKING else None
    return given[-1].last if given else asking.last if asking is not None else 0


def _parts(words: str, indentation: str, style: _Style) -> list[str]:
    """What stands in brackets: on one line where it fits, else one element a line, else broken before its operators."""
    if len(indentation) + len(words) <= style.limit:
        return [f"{indentation}{words}"]
    tokens = _tokens(words)
    if tokens is None:
        return [f"{indentation}{words}"]
    top = [token for token in tokens if token.depth == 0]
    is_one = any(token.text in ("lambda", "for") for token in top)
    commas = [] if is_one else [token for token in top if token.text == ","]
    if commas:
        places = [0, *(comma.last for comma in commas), len(words)]
        elements = [words[one:other].strip().rstrip(",").rstrip() for one, other in pairwise(places)]
        return [row for each in filter(None, elements) for row in _element(each, indentation, style)]
    before = _weakest(tokens)
    if before:
        places = [0, *before, len(words)]
        pieces = [words[one:other].strip() for one, other in pairwise(places)]
        return [row for piece in pieces for row in _parts_of_piece(piece, indentation, style)]
    return _at_brackets(words, tokens, indentation, style) or [f"{indentation}{words}"]


def _element(words: str, indentation: str, style: _Style) -> Iterator[str]:
    rows = _parts(words, indentation, replace(style, limit=style.limit - 1))
    yield from rows[:-1]
    yield f"{rows[-1]},"


def _parts_of_piece(words: str, indentation: str, style: _Style) -> list[str]:
    """An operand with the operator before it: broken further at its brackets."""
    if len(indentation) + len(words) <= style.limit:
        return [f"{indentation}{words}"]
    tokens = _tokens(words)
    broken = None if tokens is None else _at_brackets(words, tokens, indentation, style)
    return broken or [f"{indentation}{words}"]


def _at_brackets(words: str, tokens: Sequence[_Token], indentation: str, style: _Style) -> list[str] | None:
    """At the last brackets that hold something and leave the line before them short enough."""
    outer = [token for token in tokens if token.depth == 0 and token.is_operator and token.text in OPEN]
    for opening in reversed(outer):
        closing = next(t for t in tokens if t.first > opening.first and t.depth == 0 and t.text in CLOSE and t.is_operator)
        inside = words[opening.last : closing.first].strip()
        first, last = f"{indentation}{words[: opening.last]}", f"{indentation}{words[closing.first :]}"
        if inside and len(first) <= style.limit and len(last) <= style.limit:
            return [first, *_parts(inside, indentation + style.step, style), last]
    return None


def _weakest(tokens: Sequence[_Token]) -> list[int]:
    """Where the weakest operators begin that stand outside of brackets; none where there are none, or a lambda hides what they bind."""
    top = [(token, before) for before, token in pairwise([None, *tokens]) if token is not None and token.depth == 0]
    if any(token.text == "lambda" for token, _ in top):
        return []
    for operators in WEAKEST_FIRST:
        found = [
            token.first
            for token, before in top
            if token.text in operators and before is not None and _ends_operand(before) and token.is_operator
        ]
        if found:
            return found
    return []


def _ends_operand(token: _Token) -> bool:
    """Before an operator of two sides: a sign has another operator, or nothing, before it."""
    return not token.is_operator or token.text in CLOSE


def _tokens(words: str) -> list[_Token] | None:
    """None where the line is not whole: something opened before it or stays open, or a text goes on."""
    made: list[_Token] = []
    depth = inside = 0
    for token in _read(words):
        if token.type in (tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            continue
        if token.start[0] != 1 or token.end[0] != 1 or token.type == tokenize.ERRORTOKEN:
            return None
        if token.type in INSIDE_OF_TEXTS:
            inside += 1 if token.type == INSIDE_OF_TEXTS[0] else -1
        is_operator = not inside and (token.type == tokenize.OP or token.string in KEYWORDS)
        if is_operator and token.string in CLOSE:
            depth -= 1
        if depth < 0:
            return None
        made.append(_Token(token.string, token.start[1], token.end[1], depth if not inside else depth + 1, is_operator))
        if is_operator and token.string in OPEN:
            depth += 1
    return made if not depth else None


def _read(words: str) -> list[tokenize.TokenInfo]:
    """As far as Python can read it."""
    found: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(words).readline):
            found.append(token)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass
    return found
