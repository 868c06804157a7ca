"""Making a program smaller, so that one that fails is brought down to what it fails for.

for candidate in smaller(program): ...      each with a statement, a clause, a method or a part of an expression less
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from random_python import Node, Program


def smaller(program: Program) -> Iterator[Program]:
    """Programs with a statement, a class's member, a clause or a part of an expression less; not all of them compile."""
    for body in smaller_block(program.body):
        yield replace(program, body=body)
    for at, node in enumerate(program.classes):
        for block in smaller_block(node.blocks[0]):
            changed = replace(node, blocks=(block,))
            yield replace(program, classes=(*program.classes[:at], changed, *program.classes[at + 1 :]))


def smaller_block(nodes: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    half = len(nodes) // 2
    if half > 1:
        yield nodes[half:]
        yield nodes[:half]
    for at in range(len(nodes)):
        yield (*nodes[:at], *nodes[at + 1 :])
    for at, node in enumerate(nodes):
        for block in node.blocks:
            yield (*nodes[:at], *block, *nodes[at + 1 :])
        for changed in (*smaller_node(node), *simpler_heads(node)):
            yield (*nodes[:at], changed, *nodes[at + 1 :])


def smaller_node(node: Node) -> Iterator[Node]:
    for at in range(1, len(node.heads)):
        if at < len(node.blocks):
            yield Node((*node.heads[:at], *node.heads[at + 1 :]), (*node.blocks[:at], *node.blocks[at + 1 :]))
    for at, block in enumerate(node.blocks):
        for changed in smaller_block(block):
            yield replace(node, blocks=(*node.blocks[:at], changed, *node.blocks[at + 1 :]))


def simpler_heads(node: Node) -> Iterator[Node]:
    for at, head in enumerate(node.heads):
        for text in simpler(head):
            yield replace(node, heads=(*node.heads[:at], text, *node.heads[at + 1 :]))


def simpler(text: str) -> Iterator[str]:
    """The text with a bracketed part, an operand or a statement of several on one line gone or plain."""
    if "; " in text and not text.startswith(("global", "nonlocal", "def ")):
        parts = text.split("; ")
        yield from ("; ".join(parts[:at] + parts[at + 1 :]) for at in range(len(parts)))
    for match in re.finditer(r"\w*(?:\.\w+)*\([^()]*\)|\([^()]*\)|\[[^\[\]]*\]", text):
        inside = match.group()
        for plain in ("1", "x", "l", inside[inside.find("(") + 1 : -1] if "(" in inside else ""):
            if plain and plain != inside and len(plain) < len(inside):
                yield text[: match.start()] + plain + text[match.end() :]
    for match in re.finditer(r"\w+ [-+*/%&|<>=!]+ (\w+)", text):
        if text[: match.start()].strip() or "=" not in match.group():
            yield text[: match.start()] + match.group(1) + text[match.end() :]
