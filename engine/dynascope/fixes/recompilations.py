"""What is compiled again because something varies, compiled once.

@torch.compile            ->  @torch.compile(dynamic=True)
self.calls = 0            ->  self.register_buffer("calls", torch.tensor(0), persistent=False)
"""

from __future__ import annotations

import ast
from typing import TypeGuard

from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.source import Source, called_name, dotted, end_of

NUMBERS = (int, float)


def sizes_vary(site: Site) -> Fix | None:
    """Where the function was given to the compiler: its sizes are numbers from the first call on."""
    change = site.finding.change
    edit = _with_dynamic(site.source, site.node)
    if change is None or change.cause != "size" or edit is None:
        return None
    return Fix("Compile for every size from the first call on (dynamic=True)", (edit,))


def number_in_a_buffer(site: Site) -> Fix | None:
    """A plain number of a module, changed from call to call. Not persistent: what is saved of the model stays as it is."""
    source, change = site.source, site.finding.change
    owner = next((node for node in source.above(site.node) if isinstance(node, ast.ClassDef)), None)
    if change is None or change.cause != "attribute" or owner is None or not change.expression.startswith("self."):
        return None
    name = change.expression.removeprefix("self.")
    found = [node for node in _initial(owner) if _sets_number(node, name)]
    if len(found) != 1:
        return None
    (statement,) = found
    torch, imports = source.torch
    text = f'self.register_buffer("{name}", {torch}.tensor({source.text_of(statement.value)}), persistent=False)'
    return Fix(f"Register `{change.expression}` as a buffer", (*imports, source.replaced(statement, text)))


def _with_dynamic(source: Source, node: ast.expr) -> Edit | None:
    if isinstance(node, ast.Call):
        last = max((*node.args, *(keyword.value for keyword in node.keywords)), key=end_of, default=None)
        named = any(keyword.arg in ("dynamic", None) for keyword in node.keywords)
        if named or called_name(node).rpartition(".")[2] != "compile" or isinstance(last, ast.GeneratorExp):
            return None
        line, column = end_of(node)
        # An argument may stand in parentheses of its own, which end somewhere before the call's.
        text = "dynamic=True" if last is None else _separated(source, last, (line, column - 1))
        return Edit(line, column - 1, line, column - 1, text)
    above = source.parent(node)
    is_decorator = isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef) and node in above.decorator_list
    if not is_decorator or dotted(node).rpartition(".")[2] != "compile":
        return None
    return source.replaced(node, f"{source.text_of(node)}(dynamic=True)")


def _separated(source: Source, last: ast.expr, end: tuple[int, int]) -> str:
    """What follows the last argument, which may have a comma behind it already."""
    (line, column), (last_line, last_column) = end_of(last), end
    rows = source.lines[line - 1 : last_line]
    rows[-1] = rows[-1][:last_column]
    rows[0] = rows[0][column:]
    words = [row.partition(b"#")[0].strip() for row in rows]
    has_comma = b"".join(words).endswith(b",")
    return "dynamic=True" if has_comma else ", dynamic=True"


def _initial(owner: ast.ClassDef) -> list[ast.stmt]:
    return [
        node
        for method in owner.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for node in ast.walk(method)
        if isinstance(node, ast.stmt)
    ]


def _sets_number(node: ast.stmt, name: str) -> TypeGuard[ast.Assign]:
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attribute)], value=ast.Constant(value=value)):
            return attribute == name and type(value) in NUMBERS
    return False
