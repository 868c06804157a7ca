"""Python read and written again, with numbers and texts as the person wrote them.

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
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.lineno == node.end_lineno:
            written = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
            if isinstance(node, ast.JoinedStr) or _is_written_so(node.value, written):
                node.written = written  # type: ignore[union-attr]
    return tree


def _is_written_so(value: object, written: str) -> bool:
    """Not so inside of formatted texts: there a place may be that of the whole."""
    if type(value) in (int, float):
        return written[:1].isdigit() or written[:1] == "."
    if not isinstance(value, str) or not written.endswith(("'", '"')):
        return False
    try:
        return ast.literal_eval(written) == value
    except (SyntaxError, ValueError):
        return False


def words_of(node: ast.AST) -> str:
    """Also of what was put together from parts of texts."""
    made = _AsWritten().visit(copy.deepcopy(node))
    return ast.unparse(ast.fix_missing_locations(made))


class _AsWritten(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        written = getattr(node, "written", None)
        return node if written is None else ast.Name(written)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """What stands in its braces may be another now; its quotation marks stay. How a field is formatted is no text of its own."""
        is_doubled = getattr(node, "written", "").endswith('"')
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                part.value = self.visit(part.value)
        text = ast.unparse(ast.fix_missing_locations(node))
        is_free = text.startswith("f'") and '"' not in text and "\\" not in text
        return ast.Name(f'f"{text[2:-1]}"') if is_doubled and is_free else node
