"""A number that is taken out of a tensor only to decide, and perhaps to compute what is chosen: it stays a tensor.

n = x.sum().item()         ->    n = x.sum()
if n > 1 and n < 9:              y = torch.where(torch.logical_and(n > 1, n < 9), x * 2, x - 1)
    y = x * 2
else:
    y = x - 1
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator
from dataclasses import replace

from dynascope.fixes.branches import deciding
from dynascope.fixes.edits import apply
from dynascope.fixes.fix import Fix, Kind, Site
from dynascope.fixes.source import Source, called_name, method_called

LOW_HALF = 0xFFFF
"""Of a float32: what bfloat16 does not have."""
SMALLEST = 2**-8
"""In float16 numbers become coarser further down."""


def numbers_left(kind: Kind, is_detached: bool) -> Kind:
    """The same choice with tensors in place of the numbers that decide; None where it asks none, or a number goes elsewhere too."""

    def made(site: Site) -> Fix | None:
        statement = deciding(site)
        taken = list(_taken(site.source, statement)) if statement is not None else []
        if statement is None or not taken:
            return None
        edits = tuple(site.source.replaced(taking, _tensor(site.source, statement, name, taking, is_detached)) for name, taking in taken)
        source = Source(apply(site.source.text, edits))
        node = _at_same_place(source, site.node)
        fix = kind(replace(site, source=source, node=node)) if node is not None else None
        return Fix(f"{fix.title}, and leave out .item()", (*edits, *fix.edits), fix.witness, fix.parts) if fix is not None else None

    return made


def _taken(source: Source, statement: ast.If) -> Iterator[tuple[str, ast.expr]]:
    """The names in the condition that a statement before has given a number of a tensor's, once, and that nothing else asks for."""
    function = source.function(statement)
    for name in dict.fromkeys(node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)):
        uses = [node for node in ast.walk(function or statement) if isinstance(node, ast.Name) and node.id == name]
        given = [source.statement(node) for node in uses if isinstance(node.ctx, ast.Store)]
        read = [node for node in uses if isinstance(node.ctx, ast.Load)]
        if function is None or len(given) != 1 or any(not _is_within(node, source, statement) for node in read):
            continue
        match given[0]:
            case ast.Assign(targets=[ast.Name()], value=value) if value.lineno == value.end_lineno and value.lineno < statement.lineno:
                if _tensor_of(value) is not None and given[0] in source.block(statement):
                    yield name, value


def _is_within(node: ast.AST, source: Source, statement: ast.If) -> bool:
    """In the choice, or in the statement that it ends with: the result where none was chosen."""
    block = source.block(statement)
    last = block[block.index(statement) : block.index(statement) + 2]
    return any(each in last for each in (node, *source.above(node)))


def _tensor_of(value: ast.expr) -> ast.expr | None:
    found = method_called(value)
    if found is not None and found[1] == "item" and not found[2].args:
        return found[0]
    if called_name(value) == "float" and isinstance(value, ast.Call) and len(value.args) == 1:
        return None if isinstance(value.args[0], ast.Constant) else value.args[0]
    return None


def _tensor(source: Source, statement: ast.If, name: str, taking: ast.expr, is_detached: bool) -> str:
    """Python's floats have 64 bits: so does the tensor, but where nothing is asked of it that fewer bits answer otherwise."""
    tensor = _tensor_of(taking)
    assert tensor is not None
    if is_detached:
        return f"{source.operand(tensor)}.detach().double()"
    nodes, asked = ast.walk(source.function(statement) or statement), set(ast.walk(statement.test))
    read = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)]
    is_only_asked = all(node in asked and _asks_alike(source.parent(node)) for node in read)
    return source.text_of(tensor) if is_only_asked else f"{source.operand(tensor)}.double()"


def _asks_alike(asking: ast.AST | None) -> bool:
    """A comparison with numbers that every type of float has."""
    match asking:
        case ast.Compare(left=left, comparators=others):
            return all(isinstance(side, ast.Name) or _is_exact(side) for side in (left, *others)) and any(map(_is_exact, (left, *others)))
        case ast.UnaryOp(op=ast.Not()) | ast.BoolOp() | ast.If():
            return True
    return False


def _is_exact(node: ast.expr) -> bool:
    """A number that is itself in bfloat16, in float16 and, where it is whole, in integers of 8 bits with a sign and without one."""
    value = node.value if isinstance(node, ast.Constant) else None
    if not isinstance(value, int | float) or isinstance(value, bool) or (value != 0 and not SMALLEST <= value < 2**7):
        return False
    packed = struct.pack("<f", value)
    return struct.unpack("<f", packed)[0] == value and not struct.unpack("<I", packed)[0] & LOW_HALF


def _at_same_place(source: Source, node: ast.expr) -> ast.expr | None:
    """What was edited stands on lines before it."""
    places = (each for each in ast.walk(source.tree) if type(each) is type(node))
    wanted = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return next((n for n in places if (n.lineno, n.col_offset, n.end_lineno, n.end_col_offset) == wanted), None)
