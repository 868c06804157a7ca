"""A branch on Python's own truth and on a tensor's value: one is asked after the other, and the second is a choice.

if best is None or loss < best:     ->    if best is None:
    best = loss                               best = loss
                                          else:
                                              best = torch.where(loss < best, loss, best)
"""

from __future__ import annotations

import ast

from dynascope.fixes.branches import deciding, is_pythons_own
from dynascope.fixes.edits import apply, by_lines
from dynascope.fixes.fix import Fix, Kind, Site
from dynascope.fixes.reporting import has_long_text
from dynascope.fixes.source import Source

STEP = "    "


def asked_apart(kind: Kind) -> Kind:
    """What `kind` makes of the inner branch, where the two questions are asked one after the other."""

    def made(site: Site) -> Fix | None:
        source, statement = site.source, deciding(site)
        rows = _apart(source, statement) if statement is not None else None
        if statement is None or rows is None:
            return None
        text = apply(source.text, [source.replaced(statement, "\n".join(rows))])
        inner = Source(text)
        asked = _inner(inner, statement)
        fix = kind(Site(inner, site.finding, asked.test)) if asked is not None else None
        if fix is None or fix.witness:
            return None
        return Fix(f"{fix.title}, where Python's own question leaves it open", by_lines(source.text, apply(text, fix.edits)))

    return made


def _apart(source: Source, statement: ast.If) -> list[str] | None:
    """The lines of the same branch; the first without its indentation."""
    indentation = source.indentation(statement)
    questions = _questions(source, statement.test)
    if indentation is None or questions is None or has_long_text(statement):
        return None
    if any(source.indentation(block[0]) is None for block in (statement.body, statement.orelse) if block):
        return None
    if any(isinstance(each, ast.If) and _is_elif(source, each) for each in (statement, *statement.orelse)):
        return None
    first, second = questions
    then, otherwise = _rows(source, statement.body), _rows(source, statement.orelse)

    def block(rows: list[str], depth: int) -> list[str]:
        return [indentation + STEP * depth + row if row else row for row in rows]

    asked = [*block([f"if {second}:"], 1), *block(then, 2)]
    asked += [*block(["else:"], 1), *block(otherwise, 2)] if otherwise else []
    if isinstance(statement.test, ast.BoolOp) and isinstance(statement.test.op, ast.Or):
        return [f"if {first}:", *block(then, 1), *block(["else:"], 0), *asked]
    return [f"if {first}:", *asked, *([*block(["else:"], 0), *block(otherwise, 1)] if otherwise else [])]


def _is_elif(source: Source, statement: ast.If) -> bool:
    return source.lines[statement.lineno - 1][statement.col_offset :].startswith(b"elif")


def _questions(source: Source, test: ast.expr) -> tuple[str, str] | None:
    """What Python knows, and what is asked then."""
    if not isinstance(test, ast.BoolOp) or test.lineno != test.end_lineno:
        return None
    number = next((place for place, value in enumerate(test.values) if not is_pythons_own(value)), len(test.values))
    if not 0 < number < len(test.values):
        return None
    word = " or " if isinstance(test.op, ast.Or) else " and "
    parts = [source.operand(value) if isinstance(value, ast.BoolOp) else source.text_of(value) for value in test.values]
    return word.join(parts[:number]), word.join(parts[number:])


def _rows(source: Source, block: list[ast.stmt]) -> list[str]:
    if not block:
        return []
    rows = [row.decode() for row in source.lines[block[0].lineno - 1 : block[-1].end_lineno]]
    depth = block[0].col_offset
    return [row[depth:] if row.strip() else "" for row in rows]


def _inner(source: Source, outer: ast.If) -> ast.If | None:
    """The branch inside the one that begins where `outer` did."""
    found = next((n for n in ast.walk(source.tree) if isinstance(n, ast.If) and n.lineno == outer.lineno), None)
    blocks = (found.orelse, found.body) if found is not None else ()
    return next((block[0] for block in blocks if len(block) == 1 and isinstance(block[0], ast.If)), None)
