"""Numbers that are computed from a tensor's number: tensors of the same precision do it, and one `.item()` at the end.

return 20 * math.log10(1 / math.sqrt(mse.item()))   ->   return (20 * torch.log10(1 / torch.sqrt(mse.double()))).item()

if mse == 0:                                        ->   return torch.where(mse == 0, 100.0, ...).item()
    return 100.0
return 20 * math.log10(1 / math.sqrt(mse.item()))
"""

from __future__ import annotations

import ast
import copy

from dynascope.fixes.branches import condition_of, deciding, numbers_of
from dynascope.fixes.conversions import MATH
from dynascope.fixes.fix import Fix, Site
from dynascope.fixes.source import called_name, method_called
from dynascope.fixes.words import words_of

ARITHMETIC = (ast.BinOp, ast.UnaryOp)


def computed_by_tensors(site: Site) -> Fix | None:
    """The largest expression around the place that only computes with numbers."""
    source = site.source
    torch, imports = source.torch
    found = None
    for node in (site.node, *source.above(site.node)):
        if not isinstance(node, ast.expr):
            break
        if isinstance(node, (*ARITHMETIC, ast.Call)) and _takes_out(node) and as_tensor(node, torch) is not None:
            found = node
    if found is None or method_called(found) is not None and called_name(found).partition(".")[0] != "math":
        return None
    tensor = as_tensor(found, torch)
    assert tensor is not None
    words = words_of(tensor)
    text = f"({words}).item()" if isinstance(tensor, ARITHMETIC) else f"{words}.item()"
    return Fix("Compute with tensors, and take the number out at the end", (*imports, source.replaced(found, text)))


def chosen_number(site: Site) -> Fix | None:
    """`if c: return a`, `return b`, of numbers, one of which is computed from a tensor's."""
    source = site.source
    statement = deciding(site)
    if statement is None or source.indentation(statement) is None:
        return None
    block = source.block(statement)
    rest = statement.orelse or block[block.index(statement) + 1 :]
    match statement.body, rest:
        case [ast.Return(value=ast.expr() as first)], [ast.Return(value=ast.expr() as second) as last]:
            torch, imports = source.torch
            sides = [as_tensor(side, torch) for side in (first, second)]
            if None in sides or not (_takes_out(first) or _takes_out(second)):
                return None
            words = [words_of(side) for side in sides if side is not None]
            text = f"return {torch}.where({words_of(condition_of(source, statement))}, {words[0]}, {words[1]}).item()"
            edit = source.replaced(statement, text, last)
            return Fix("Choose the number with torch.where, and take it out with .item()", (*imports, edit))
    return None


def chosen_number_expression(site: Site) -> Fix | None:
    """`hits / total if total > 0 else 1.0`, of numbers that were taken out of tensors before."""
    source, node = site.source, site.node
    found = next((n for n in (node, *source.above(node)) if isinstance(n, ast.IfExp)), None)
    function = source.function(node)
    if found is None or function is None or node not in ast.walk(found.test):
        return None
    torch, imports = source.torch
    doubles = _Doubles(torch, numbers_of(function))
    sides = [doubles.visited(as_tensor(side, torch)) for side in (found.body, found.orelse)]
    if None in sides or not doubles.count:
        return None
    words = [words_of(side) for side in sides if side is not None]
    text = f"{torch}.where({words_of(condition_of(source, found))}, {words[0]}, {words[1]}).item()"
    return Fix("Choose the number with torch.where, and take it out with .item()", (*imports, source.replaced(found, text)))


class _Doubles(ast.NodeTransformer):
    """Names of numbers as tensors of Python's precision."""

    def __init__(self, torch: str, names: set[str]) -> None:
        self.torch, self.names, self.count = torch, names, 0

    def visited(self, node: ast.expr | None) -> ast.expr | None:
        return None if node is None else self.visit(copy.deepcopy(node))

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id not in self.names:
            return node
        self.count += 1
        return ast.parse(f"{self.torch}.tensor({node.id}, dtype={self.torch}.float64)", mode="eval").body


def _takes_out(node: ast.expr) -> bool:
    """Whether a tensor's number is in it."""
    return any(_taken_from(each) is not None for each in ast.walk(node))


def _taken_from(node: ast.AST) -> ast.expr | None:
    found = method_called(node)
    if found is not None and found[1] == "item" and not found[2].args:
        return found[0]
    is_float = isinstance(node, ast.Call) and called_name(node) == "float" and len(node.args) == 1 and not node.keywords
    return node.args[0] if is_float and not isinstance(node.args[0], ast.Constant) else None  # type: ignore[union-attr]


def as_tensor(node: ast.expr, torch: str) -> ast.expr | None:
    """The expression with tensors of Python's precision in place of numbers that are taken out; None where it does something else."""
    tensor = _taken_from(node)
    if tensor is not None:
        return ast.Call(ast.Attribute(tensor, "double"), [], [])
    match node:
        case ast.Constant(value=float() | int()) if not isinstance(node.value, bool):
            return node
        case ast.Name() | ast.Attribute():
            return node
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as operator, operand=operand):
            inner = as_tensor(operand, torch)
            return None if inner is None else ast.UnaryOp(operator, inner)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow() as operator, right=right):
            sides = as_tensor(left, torch), as_tensor(right, torch)
            return None if sides[0] is None or sides[1] is None else ast.BinOp(sides[0], operator, sides[1])
        case ast.Call(args=[argument], keywords=[]) if called_name(node).removeprefix("math.") in MATH:
            inner = as_tensor(argument, torch)
            twin = MATH[called_name(node).removeprefix("math.")]
            if inner is None or not called_name(node).startswith("math.") or not _takes_out(argument):
                return None if inner is None or not called_name(node).startswith("math.") else node
            return ast.Call(ast.Attribute(ast.Name(torch), twin), [inner], [])
    return None
