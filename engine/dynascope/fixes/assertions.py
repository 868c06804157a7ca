"""A check of what a tensor holds becomes an operator of the graph.

assert (x >= 0).all(), "counts"    ->  torch._assert_async((x >= 0).all(), "counts")
if torch.isnan(y).any():           ->  torch._assert_async(torch.logical_not(torch.isnan(y).any()), "not a number")
    raise ValueError("not a number")
"""

from __future__ import annotations

import ast

from dynascope.fixes.branches import truth
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.source import Source, called_name
from dynascope.fixes.words import words_of


def asserted_in_graph(site: Site) -> Fix | None:
    source, statement = site.source, site.source.statement(site.node)
    torch, imports = source.torch
    if source.indentation(statement) is None:
        return None
    if isinstance(statement, ast.Assert):
        # `not` and `and` would ask for a truth of Python's.
        is_written = isinstance(statement.test, ast.BoolOp | ast.UnaryOp)
        condition = words_of(truth(statement.test, torch)) if is_written else source.text_of(statement.test)
        message = statement.msg
        error = "AssertionError"
    elif isinstance(statement, ast.If) and not statement.orelse and (raised := _raised(statement)) is not None:
        is_written = isinstance(statement.test, ast.BoolOp | ast.UnaryOp)
        test = words_of(truth(statement.test, torch)) if is_written else source.text_of(statement.test)
        operand = statement.test.operand if isinstance(statement.test, ast.UnaryOp) and isinstance(statement.test.op, ast.Not) else None
        condition = f"{torch}.logical_not({test})" if operand is None else words_of(truth(operand, torch))
        error, message = called_name(raised) or "error", next(iter(raised.args), None)
    else:
        return None
    words = (
        f", {_words(source, message)}"
        if message is not None
        else f", {_as_text(words_of(statement.test) if isinstance(statement, ast.Assert | ast.If) else '')}"
    )
    text = f"{torch}._assert_async({condition}{words})"
    other = f" (RuntimeError in place of {error})" if error != "RuntimeError" else ""
    return Fix(f"Check inside the graph{other}", (*imports, source.replaced(statement, text)))


def _raised(statement: ast.If) -> ast.Call | None:
    """`raise E("words")` alone in the branch."""
    match statement.body:
        case [ast.Raise(exc=ast.Call() as call)] if len(call.args) <= 1 and not call.keywords:
            return call
    return None


def _as_text(words: str) -> str:
    return f'"{words}"' if '"' not in words and "\\" not in words else repr(words)


def _words(source: Source, message: ast.expr) -> str:
    """Words are given before the check: what stands in them as a tensor's value would be taken out of it."""
    if isinstance(message, ast.JoinedStr):
        parts = [p.value for p in message.values if isinstance(p, ast.Constant) and isinstance(p.value, str)]
        return repr("".join(parts).strip())
    return source.text_of(message)
