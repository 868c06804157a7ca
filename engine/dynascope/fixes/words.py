"""Python read and written again, with numbers as the person wrote them.

words_of(parsed("x.clamp(1e-9, 1_000)").body[0].value)  ->  "x.clamp(1e-9, 1_000)", where `ast.unparse` gives 1e-09 and 1000
"""

from __future__ import annotations

import ast
import copy


def parsed(text: str) -> ast.Module:
    """Raises `SyntaxError` for a text that Python cannot read."""
    tree = ast.parse(text)
    lines = text.encode().split(b"\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.lineno == node.end_lineno:
            written = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
            if written[:1].isdigit() or written[:1] == ".":  # not so inside formatted texts, before Python 3.12
                node.written = written  # type: ignore[attr-defined]
    return tree


def words_of(node: ast.AST) -> str:
    """Also of what was put together from parts of texts."""
    made = _AsWritten().visit(copy.deepcopy(node))
    return ast.unparse(ast.fix_missing_locations(made))


class _AsWritten(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        written = getattr(node, "written", None)
        return node if written is None else ast.Name(written)
