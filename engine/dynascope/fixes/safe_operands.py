"""A choice whose sides may not be computed where they are not chosen: their operands are chosen too, and 1 where nobody reads them.

torch.where(n > 0, x / n, x)    ->    torch.where(n > 0, x / torch.where(n > 0, n, 1), x)

`torch.where` gives both of its sides a gradient, and zero times infinity is NaN: it matters where n is 0, though x / n is not chosen.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import replace

from dynascope.fixes.edits import Edit
from dynascope.fixes.fix import Fix, Kind, Site
from dynascope.fixes.source import dotted
from dynascope.fixes.words import parsed, words_of

TITLE = "with operands of 1 for the side that is not taken"
PARTIAL = frozenset(
    {"sqrt", "rsqrt", "log", "log2", "log10", "log1p", "acos", "asin", "acosh", "atanh", "pow", "reciprocal", "norm", "std", "logit"}
)
"""Functions with a point where they, or their derivatives, are not finite."""


def safely(kind: Kind) -> Kind:
    """The same choice, or None where no operand of it can be made safe."""

    def made(site: Site) -> Fix | None:
        fix = kind(site)
        torch = site.source.torch[0]
        edits = tuple(_edited(edit, torch) for edit in fix.edits) if fix is not None else ()
        return None if fix is None or edits == fix.edits else Fix(f"{fix.title}, {TITLE}", edits)

    return made


def where_needed(kind: Kind) -> Kind:
    """The choice with safe operands, where there is anything to be made safe, else as it is: what Python computes of numbers raises
    (`0.5 / total` of a total of 0), whatever is chosen then."""
    return lambda site: safely(kind)(site) or kind(site)


def _edited(edit: Edit, torch: str) -> Edit:
    """What is written may be several lines, and the part of one that is returned."""
    first, newline, others = edit.text.partition("\n")
    text = f"{first}{newline}{textwrap.dedent(others)}"
    try:
        tree = parsed(text)
    except SyntaxError:
        return edit
    choices = _Choices(torch)
    changed = choices.visit(tree)
    if not choices.count:
        return edit
    indentation = others[: len(others) - len(others.lstrip(" \t"))]
    return replace(edit, text=words_of(changed).replace("\n", f"\n{indentation}"))


class _Choices(ast.NodeTransformer):
    def __init__(self, torch: str) -> None:
        self.torch, self.count = torch, 0

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if dotted(node.func) != f"{self.torch}.where" or len(node.args) != 3:
            return node
        condition, first, second = node.args
        sides = _Operands(self.torch, condition, True), _Operands(self.torch, condition, False)
        node.args = [condition, sides[0].visit(first), sides[1].visit(second)]
        self.count += sides[0].count + sides[1].count
        return node


class _Operands(ast.NodeTransformer):
    def __init__(self, torch: str, condition: ast.expr, is_first: bool) -> None:
        self.torch, self.condition, self.is_first, self.count = torch, condition, is_first, 0

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        match node.op:
            case ast.Div() | ast.FloorDiv() | ast.Mod():
                node.right = self._chosen(node.right)
            case ast.Pow():
                node.left = self._chosen(node.left)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in PARTIAL:
            return node
        if dotted(node.func) in {f"{self.torch}.{name}" for name in PARTIAL}:
            node.args[:1] = [self._chosen(argument) for argument in node.args[:1]]
        else:
            node.func.value = self._chosen(node.func.value)
        return node

    def _chosen(self, operand: ast.expr) -> ast.expr:
        if isinstance(operand, ast.Constant):
            return operand
        self.count += 1
        sides = [operand, ast.Constant(1)]
        where = ast.Attribute(ast.Name(self.torch), "where")
        return ast.Call(where, [self.condition, *(sides if self.is_first else reversed(sides))], [])
