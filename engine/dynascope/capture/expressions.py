"""The user's own words for what a step does, from the text of its expression.

callee("np.add(b, 1)")      np.add
callee("table + 1")         table + 1
"""

from __future__ import annotations

import ast

from dynascope.report.syntax import parsed

LONGEST = 60


def callee(expression: str) -> str:
    """The function that a call expression calls; other expressions whole. Empty where there is no text."""
    try:
        tree = parsed(expression.strip(), mode="eval").body
    except SyntaxError:
        return shortened(expression)
    return shortened(ast.unparse(tree.func) if isinstance(tree, ast.Call) else expression)


def shortened(text: str) -> str:
    """On one line, and no longer than a message can bear."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
