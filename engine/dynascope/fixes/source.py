"""A text with its syntax tree: what stands at a place, what is around it, and edits of it.

source = Source(text)
node = source.expression_at(span)
source.replaced(node, "x")  ->  Edit
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cached_property

from dynascope.fixes.edits import Edit
from dynascope.fixes.words import parsed, words_of
from dynascope.report.span import Span

CLOCKS = ("time.",)
"""Where what tells the time comes from."""
ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Tuple, ast.Dict)


FOR_TOOLS = re.compile(r"#\s*(?:noqa|type:|pyright:|pylint:|mypy:|ruff:|fmt:|pragma\b|nosec\b)", re.IGNORECASE)


class Source:
    def __init__(self, text: str) -> None:
        """Raises `SyntaxError` for a text that Python cannot read."""
        self.text = text
        self.tree = parsed(text)
        self.lines = text.encode().splitlines()
        self._parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def expression_at(self, span: Span) -> ast.expr | None:
        """The expression that is the place; the smallest around it where none is."""
        if span.column is None or span.end_column is None:
            return None
        first, last = (span.line, span.column), (span.last_line, span.end_column)
        around = [
            node
            for node in ast.walk(self.tree)
            # A field of a formatted text has a place of its own from Python 3.12 on; it is no expression by itself.
            if isinstance(node, ast.expr) and not isinstance(node, ast.FormattedValue)
            and (node.lineno, node.col_offset) <= first and last <= end_of(node)
        ]  # fmt: skip
        return min(around, key=_extent, default=None)

    def expression_in(self, span: Span) -> ast.expr | None:
        """The largest expression inside the place, which may be a statement."""
        if span.column is None or span.end_column is None:
            return None
        first, last = (span.line, span.column), (span.last_line, span.end_column)
        inside = [
            node
            for node in ast.walk(self.tree)
            if isinstance(node, ast.expr) and first <= (node.lineno, node.col_offset) and end_of(node) <= last
        ]
        return max(inside, key=_extent, default=None)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """What contains it, from the inside out."""
        at = self.parent(node)
        while at is not None:
            yield at
            at = self.parent(at)

    def statement(self, node: ast.AST) -> ast.stmt:
        return next(n for n in (node, *self.above(node)) if isinstance(n, ast.stmt))

    def function(self, node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        return next((n for n in self.above(node) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)), None)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that it is one of."""
        for _, value in ast.iter_fields(self._parents[statement]):
            if isinstance(value, list) and statement in value:
                return value
        return [statement]

    def text_of(self, node: ast.expr) -> str:
        """As it was written."""
        found = ast.get_source_segment(self.text, node)
        return words_of(node) if found is None else found

    def operand(self, node: ast.expr) -> str:
        """As it was written, in parentheses where something else may bind more tightly."""
        text = self.text_of(node)
        return text if isinstance(node, ATOMS) else f"({text})"

    def replaced(self, node: ast.stmt | ast.expr, text: str, last: ast.stmt | None = None) -> Edit:
        """Of statements (from one to the `last`) the comments that the text does not have stand above it."""
        indentation = self.indentation(node) if isinstance(node, ast.stmt) else None
        start, end = (node.lineno, node.col_offset), end_of(last or node)
        comments = [] if indentation is None else self._comments_within(start, end, text)
        return Edit(*start, *end, f"\n{indentation}".join([*comments, text]))

    def _comments_within(self, start: tuple[int, int], end: tuple[int, int], text: str) -> list[str]:
        """Not those for tools, which are about their lines."""
        found = [token.string for token in self._comments if start < token.start < end]
        return [each for each in found if each not in text and not FOR_TOOLS.match(each)]

    @cached_property
    def _comments(self) -> list[tokenize.TokenInfo]:
        """With columns in bytes."""
        made = tokenize.generate_tokens(io.StringIO(self.text).readline)
        found = (token for token in made if token.type == tokenize.COMMENT)
        return [token._replace(start=(token.start[0], len(token.line[: token.start[1]].encode()))) for token in found]

    def indentation(self, statement: ast.stmt) -> str | None:
        """None where something stands before it on its line, or another statement after it on its last."""
        before = self.lines[statement.lineno - 1][: statement.col_offset]
        line, column = end_of(statement)
        after = self.lines[line - 1][column:].strip()
        if before.strip() or (after and not after.startswith(b"#")):
            return None
        return before.decode()

    @cached_property
    def torch(self) -> tuple[str, tuple[Edit, ...]]:
        """What the text calls torch, and what must be added for that."""
        imports = [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        for node in imports:
            for alias in node.names if isinstance(node, ast.Import) else ():
                if alias.name == "torch":
                    return alias.asname or "torch", ()
        after = next((node for node in imports if not _is_future(node)), None)
        line = after.lineno if after is not None else end_of(imports[-1])[0] + 1 if imports else 1
        return "torch", (Edit(line, 0, line, 0, "import torch\n"),)

    def fresh(self, name: str, of_method: bool = False) -> str:
        """A name that the text does not use yet; of a method not for an attribute either."""
        used = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        used |= {node.arg for node in ast.walk(self.tree) if isinstance(node, ast.arg)}
        used |= {node.name for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        used |= {node.attr for node in ast.walk(self.tree) if of_method and isinstance(node, ast.Attribute)}
        names = (name, *(f"{name}_{number}" for number in range(2, len(used) + 3)))
        return next(candidate for candidate in names if candidate not in used)


def end_of(node: ast.stmt | ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None  # nodes that were parsed have both
    return node.end_lineno, node.end_col_offset


def called_name(node: ast.AST | None) -> str:
    """`torch.where` of `torch.where(...)`; empty for what is no call of a name."""
    return dotted(node.func) if isinstance(node, ast.Call) else ""


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def method_called(node: ast.AST | None) -> tuple[ast.expr, str, ast.Call] | None:
    """The object, the method and the call, of `x.sum()`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value, node.func.attr, node
    return None


def numpy_name(tree: ast.Module) -> str | None:
    """What the text calls NumPy, where it imports it."""
    aliases = (alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names)
    return next((alias.asname or alias.name for alias in aliases if alias.name == "numpy"), None)


def _extent(node: ast.expr) -> tuple[int, int]:
    line, column = end_of(node)
    return line - node.lineno, column - node.col_offset


def _is_future(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
