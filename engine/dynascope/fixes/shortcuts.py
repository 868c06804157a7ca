"""A shortcut for where there is nothing to do: without it, what follows does nothing.

if mask.sum() == 0:              ->    (nothing)
    continue
out[mask] = expert(x[mask])            out[mask] = expert(x[mask])

That what follows gives the same where nothing is selected is for the proof to show: on a call that takes the shortcut.
"""

from __future__ import annotations

import ast

from dynascope.fixes.branches import deciding
from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.reporting import has_long_text, tells
from dynascope.fixes.source import Source, called_name, end_of, method_called

SLICES = ast.Slice | ast.Tuple | ast.Constant
TITLE = "Leave out the shortcut: what follows does as well with nothing"


def left_out(site: Site) -> Fix | None:
    """`if not mask.any(): return x[:0]`: only questions whether there is anything at all, which hold of one state alone."""
    source = site.source
    statement = deciding(site)
    indentation = source.indentation(statement) if statement is not None else None
    if statement is None or indentation is None or statement.orelse or not _asks_for_nothing(statement.test):
        return None
    *told, last = statement.body
    if not isinstance(last, ast.Return | ast.Continue) or not all(map(tells, told)) or source.indentation(last) is None:
        return None
    witness = (source.replaced(last, 'raise RuntimeError("the shortcut is taken")'),)
    if not told:
        return Fix(TITLE, (_removed(source, statement),), witness)
    torch, imports = source.torch
    asked = source.replaced(statement.test, f"not {torch}.compiler.is_compiling() and {source.text_of(statement.test)}")
    return Fix(TITLE, (*imports, asked, _removed(source, last)), witness)


def unguarded(site: Site) -> Fix | None:
    """`if len(rows): x[rows] = y[rows]` does as well without the question: the witness shows that some call found nothing."""
    source = site.source
    statement = deciding(site)
    indentation = source.indentation(statement) if statement is not None else None
    if statement is None or indentation is None or statement.orelse or not _asks_for_any(statement.test):
        return None
    first, last = statement.body[0], statement.body[-1]
    rows = [row.decode() for row in source.lines[first.lineno - 1 : last.end_lineno]]
    if source.indentation(first) is None or has_long_text(statement):
        return None
    inner = len(rows[0]) - len(rows[0].lstrip())
    text = "\n".join((indentation + row[inner:] if row.strip() else row) for row in rows).lstrip()
    stop = f'else:\n{indentation}    raise RuntimeError("there is nothing")'
    end = end_of(statement)
    witness = (Edit(*end, *end, f"\n{indentation}{stop}"),)
    return Fix("Leave out the question: with nothing it does nothing", (source.replaced(statement, text),), witness)


def elements_chosen(site: Site) -> Fix | None:
    """`if torch.isnan(w).any(): w[torch.isnan(w)] = 0`: without the question and into a new tensor, because what the old one is made of
    may want it for its gradient."""
    source = site.source
    statement = deciding(site)
    if statement is None or statement.orelse or not _asks_for_any(statement.test) or source.indentation(statement) is None:
        return None
    match statement.body:
        case [ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name), slice=mask)], value=value)] if not isinstance(mask, SLICES):
            torch, imports = source.torch
            text = f"{name} = {torch}.where({source.text_of(mask)}, {source.text_of(value)}, {name})"
            return Fix("Choose the elements with torch.where, without the question", (*imports, source.replaced(statement, text)))
    return None


def _removed(source: Source, statement: ast.stmt) -> Edit:
    """With its lines."""
    assert statement.end_lineno is not None  # it was parsed
    is_last = statement.end_lineno >= len(source.lines)
    line, column = (statement.end_lineno, len(source.lines[-1])) if is_last else (statement.end_lineno + 1, 0)
    return Edit(statement.lineno, 0, line, column, "")


def _asks_for_nothing(test: ast.expr) -> bool:
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_any(operand)
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]):
            return _is_count(left)
        case ast.Compare(left=left, ops=[ast.Lt()], comparators=[ast.Constant(value=1)]):
            return _is_count(left)
    return False


def _asks_for_any(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            return _is_count(left)
    return _is_any(test) or _is_count(test)


def _is_any(node: ast.expr) -> bool:
    found = method_called(node)
    return found is not None and found[1] == "any" and not found[2].keywords


def _is_count(node: ast.expr) -> bool:
    """`mask.sum()`, `len(rows)`, `rows.numel()`, `rows.shape[0]`, `torch.count_nonzero(mask)`, with `.item()` or without."""
    found = method_called(node)
    if found is not None and found[1] == "item":
        return _is_count(found[0])
    if found is not None and found[1] in ("sum", "numel", "size", "count_nonzero"):
        return True
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    return called_name(node) in ("len", "int")
