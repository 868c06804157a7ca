"""The graph being captured: nodes with the user's line on each, undone with the journal.

    graph.input("self_fc_weight", ...)            a placeholder
    graph.call("call_function", torch.add, ...)   one operation

`finish(outputs)` puts the placeholders first, removes what nothing uses, and makes the GraphModule. Nodes that write to
their arguments stay, used or not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import fx

from dynascope.capture.journal import Journal
from dynascope.guards.source import Source
from dynascope.report.span import UserFrame, UserStack


@dataclass(frozen=True, slots=True, eq=False)
class CapturedGraph:
    """What the backend gets, and where its inputs are found when the compiled code starts."""

    module: fx.GraphModule
    sources: tuple[Source, ...]
    example_inputs: tuple[Any, ...]

    @property
    def operations(self) -> int:
        return sum(node.op not in ("placeholder", "output") for node in self.module.graph.nodes)


class GraphBuilder:
    """The one mutable graph of a capture. `user_stack` says where the program is."""

    def __init__(self, journal: Journal, user_stack: Callable[[], UserStack]) -> None:
        self.journal = journal
        self.user_stack = user_stack
        self.graph = fx.Graph()
        self.placeholders: list[tuple[fx.Node, Source, Any]] = []
        self.kept: set[fx.Node] = set()
        self.setters: set[fx.Node] = set()

    def input(self, name: str, source: Source, real: Any, example: Any, device: torch.device | None) -> fx.Node:
        node = self.graph.create_node("placeholder", _identifier(name), (), {})
        self._annotate(node, example, device)
        self.journal.append(self.placeholders, (node, source, real))
        return node

    def call(
        self, kind: str, target: Any, arguments: tuple, keywords: dict[str, Any], name: str | None = None
    ) -> fx.Node:
        node = self.graph.create_node(kind, target, arguments, keywords, name)
        self.journal.record(lambda: self.graph.erase_node(node))
        node.meta["user_stack"] = stack = self.user_stack()
        node.meta["stack_trace"] = stack_text(stack)
        return node

    def set_state(self, function: Callable[..., Any], arguments: tuple) -> None:
        """A call that changes torch's own state, such as grad mode."""
        node = self.call("call_function", function, arguments, {})
        self.describe(node, None, None)
        self.keep(node)
        self.setters.add(node)

    def describe(self, node: fx.Node, example: Any, device: torch.device | None) -> None:
        """Says what a node computes, once that is known."""
        node.meta["example_value"] = example
        node.meta["device"] = device

    def keep(self, node: fx.Node) -> None:
        """The node writes to something: it stays even if nothing reads its result."""
        self.kept.add(node)
        self.journal.record(lambda: self.kept.discard(node))

    def _annotate(self, node: fx.Node, example: Any, device: torch.device | None) -> None:
        self.journal.record(lambda: self.graph.erase_node(node))
        node.meta["user_stack"] = stack = self.user_stack()
        node.meta["stack_trace"] = stack_text(stack)
        self.describe(node, example, device)

    def finish(self, outputs: Sequence[fx.Node]) -> CapturedGraph | None:
        """The graph with these outputs; None when it would do nothing."""
        self.graph.output(tuple(outputs))
        self._remove_unused()
        if all(node.op in ("placeholder", "output") or node in self.setters for node in self.graph.nodes):
            return None
        used = [(node, source, real) for node, source, real in self.placeholders if node.users]
        self._placeholders_first([node for node, _, _ in used])
        module = fx.GraphModule(torch.nn.Module(), self.graph)
        return CapturedGraph(module, tuple(source for _, source, _ in used), tuple(real for _, _, real in used))

    def _remove_unused(self) -> None:
        for node in reversed(self.graph.nodes):
            if node.op != "output" and not node.users and node not in self.kept:
                self.graph.erase_node(node)

    def _placeholders_first(self, placeholders: Sequence[fx.Node]) -> None:
        root = self.graph._root
        for node in reversed(placeholders):
            root.append(node)


def _identifier(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_") or "input"


def stack_text(stack: UserStack) -> str:
    """As fx prints it: the innermost frame last."""
    return "\n".join(map(_frame_text, stack))


@lru_cache(maxsize=8192)
def _frame_text(frame: UserFrame) -> str:
    return f'  File "{frame.span.file}", line {frame.span.line}, in {frame.function}\n    {frame.span.source_line()}'
