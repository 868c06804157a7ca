"""The graph being captured: nodes with the user's line on each, undone with the journal.

    graph.input("self_fc_weight", ...)            a placeholder
    graph.call("call_function", torch.add, ...)   one operation

`finish(outputs)` puts the placeholders first, removes what nothing uses, and makes the GraphModule. Nodes that write to
their arguments stay, used or not, and those that do something else besides (see `unused.py`).
"""

from __future__ import annotations

import keyword
import operator
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import field
from functools import lru_cache
from types import FunctionType
from typing import Any

import torch
from torch import fx

from dynascope.capture.histories import storage_of
from dynascope.capture.journal import Journal
from dynascope.capture.numbers_drawn_first import draw_first
from dynascope.capture.numbers_read_last import read_where_needed
from dynascope.capture.raising import is_written_over, overwrites_all, raises_unused, stops_device, values_read
from dynascope.capture.unused import may_go
from dynascope.dataclass import dataclass
from dynascope.guards.source import Source
from dynascope.meta_kernels.graph_modules import UnwrittenGraphModule, add_node, placeholder
from dynascope.report.span import UserFrame, UserStack
from dynascope.sizes import Size, apply, hint_of, roots_of
from dynascope.sizes.building import build, told_apart
from dynascope.sizes.expression import of_root
from dynascope.sizes.functions import power_in_graphs


@dataclass(frozen=True, slots=True, eq=False)
class CapturedGraph:
    """What the backend gets, and where its inputs are found when the compiled code starts.

    `written` are the inputs whose memory the graph writes to.
    """

    module: fx.GraphModule
    sources: tuple[Source, ...]
    example_inputs: tuple[Any, ...]
    written: tuple[int, ...] = ()
    freed: dict[int, str] = field(default_factory=dict)
    """Results whose history was freed inside, by their places, and what torch says where they are differentiated again."""

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
        self.arguments: dict[str, fx.Node] = {}
        self.kept: set[fx.Node] = set()
        self.setters: set[fx.Node] = set()
        self.has_inference = False
        """Whether anything was described in inference mode, be it taken back since."""
        self.left_out: dict[fx.Node, None] = {}
        self.numbers: dict[Any, fx.Node] = {}
        """What stands for each number that varies."""

    def input(self, name: str, source: Source, real: Any, example: Any, device: torch.device | None) -> fx.Node:
        node = placeholder(self.graph, _identifier(name))
        known = self.arguments.get(str(node.target))
        is_taken = known is not None and not known._erased  # `a.b` and `a_b` are two arguments, and `input` is `input_1` inside
        if is_taken or (node.name != node.target and node.target not in NOT_IN_TEXTS):
            node.target = node.name
        self.arguments[str(node.target)] = self.arguments[node.name] = node
        self._annotate(node, example, device)
        node.meta["read_as"] = source.expression()
        self.journal.append(self.placeholders, (node, source, real))
        return node

    def number_input(self, size: Size, source: Source) -> None:
        """A placeholder for a root: a number of the program's, or a tensor's size."""
        node = self.input(str(size), source, size.hint, size.hint, None)
        node.meta["size"] = size
        self._remember_number(size.expression, node)

    def number(self, size: Size) -> fx.Node:
        """The node that computes a number from the roots."""
        return build(size.expression, lambda root: self.numbers[of_root(root)], self._compute)

    def _compute(self, function: Callable[..., Any], arguments: tuple) -> fx.Node:
        key = function, told_apart(arguments)
        node = self.numbers.get(key)
        if node is None:
            node = self.call("call_function", function, arguments, {})
            operands = [a.meta["size"] if isinstance(a, fx.Node) else a for a in arguments]
            node.meta["size"] = apply(function, operands)
            self.describe(node, hint_of(node.meta["size"]), None)
            self._remember_number(key, node)
        return node

    def late_number(self, function: Callable[..., Any], arguments: tuple, example: Any) -> fx.Node:
        """What Python makes of numbers that the graph finds when it runs."""
        key = function, told_apart(arguments)
        node = self.numbers.get(key)
        if node is None:
            node = self.call("call_function", function, arguments, {})
            self.describe(node, example, None)
            node.meta["late"] = True
            self._remember_number(key, node)
        return node

    def late_root(self, node: fx.Node, size: Size) -> None:
        """The node gives a root its value."""
        self.describe(node, size.hint, None)
        node.meta["size"], node.meta["late"] = size, True
        self._remember_number(size.expression, node)

    def _remember_number(self, key: Any, node: fx.Node) -> None:
        self.numbers[key] = node
        self.journal.record(lambda: self.numbers.pop(key, None))

    def call(
        self, kind: str, target: Any, arguments: tuple, keywords: dict[str, Any], name: str | None = None
    ) -> fx.Node:
        target = power_in_graphs(arguments[0]) if target is operator.pow else target
        node = add_node(self.graph, kind, target, arguments, keywords, name)
        if any("late" in other.meta or "may_be_empty" in other.meta for other in node.all_input_nodes):
            node.meta["may_be_empty"] = True
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

    def last_operations(self) -> list[fx.Node]:
        """Operations whose result no other reads."""
        others = self.setters | self.left_out.keys()
        return [node for node in self.graph.nodes if not node.users and node.op != "placeholder" and node not in others]

    def left_over(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Operations that nothing needs. None beside numbers out of tensors: asked about other sizes, these would have to be known."""
        if any("late" in node.meta for node in self.graph.nodes):
            return []
        needed = {*outputs, *self.kept}
        return [node for node in self.last_operations() if node not in needed]

    def describe(self, node: fx.Node, example: Any, device: torch.device | None) -> None:
        """Says what a node computes, once that is known."""
        if torch.is_inference_mode_enabled():
            node.meta["in_inference"] = self.has_inference = True
        node.meta["example_value"] = example
        node.meta["device"] = device

    def keep(self, node: fx.Node) -> None:
        """The node writes to something: it stays even if nothing reads its result."""
        self.kept.add(node)
        self.journal.record(lambda: self.kept.discard(node))

    def counts_write(self, node: fx.Node) -> None:
        """The tensor counts as written once more, and so does what stands for it: graphs that run operator by operator have
        eager's versions."""
        if not node.meta["example_value"].is_inference():
            torch.autograd.graph.increment_version(node.meta["example_value"])
        counted = self.call("call_function", torch.autograd.graph.increment_version, (node,), {})
        self.describe(counted, None, None)
        self.keep(counted)

    def leave_out(self, nodes: Sequence[fx.Node]) -> None:
        """Nodes that another one does the work of: they are there while the program is followed, and leave at the end."""
        for node in nodes:
            self.left_out[node] = None
        self.journal.record(lambda: [self.left_out.pop(node, None) for node in nodes])

    def make_again(self, nodes: Sequence[fx.Node]) -> None:
        """What these nodes compute is not kept for the backward pass."""
        for node in nodes:
            node.meta["made_again"] = True

    def is_left_out(self, node: fx.Node) -> bool:
        return node in self.left_out

    def unread(self) -> list[fx.Node]:
        """Nodes whose result nothing reads so far."""
        return [node for node in self.graph.nodes if not node.users and node not in self.left_out]

    def still_read(self, outputs: Sequence[fx.Node]) -> fx.Node | None:
        """A node that is to leave, and cannot: what it does would be done twice, and something else reads what it gives."""
        read = {*outputs}
        for node in reversed(self.left_out):
            if node in read or any(user not in self.left_out for user in node.users):
                if node in self.kept or not may_go(node):
                    return node
        return None

    def _annotate(self, node: fx.Node, example: Any, device: torch.device | None) -> None:
        self.journal.record(lambda: self.graph.erase_node(node))
        node.meta["user_stack"] = stack = self.user_stack()
        node.meta["stack_trace"] = stack_text(stack)
        self.describe(node, example, device)

    def finish(
        self, outputs: Sequence[fx.Node], written: Collection[Source] = (), freed: dict[int, str] | None = None
    ) -> CapturedGraph | None:
        """The graph with these outputs; None when it would do nothing: then the outputs are inputs (`source_of`). `written` are
        the inputs that it writes to, `freed` the outputs without a history that can be differentiated."""
        freed = freed or {}
        self.graph.output(tuple(self._detached(node) if at in freed else node for at, node in enumerate(outputs)))
        for node in reversed(self.left_out):
            if not node.users:
                self.graph.erase_node(node)
        draw_first(self)
        read_where_needed(self)
        self._remove_unused()
        for node in self.kept:
            node.meta["kept"] = True
        if all(node.op in ("placeholder", "output") or node in self.setters for node in self.graph.nodes):
            return None
        used = self._used_placeholders()
        remaining = {node for node, _, _ in used}
        for node, _, _ in self.placeholders:
            if node not in remaining:
                self.graph.erase_node(node)
        self._placeholders_first([node for node, _, _ in used])
        module = UnwrittenGraphModule(torch.nn.Module(), self.graph)
        sources = tuple(source for _, source, _ in used)
        changed = tuple(index for index, source in enumerate(sources) if source in written)
        return CapturedGraph(module, sources, tuple(real for _, _, real in used), changed, freed)

    def _detached(self, node: fx.Node) -> fx.Node:
        detached = self.graph.call_method("detach", (node,))
        detached.meta = {**node.meta, "example_value": node.meta["example_value"].detach()}
        return detached

    def source_of(self, node: fx.Node) -> Source | None:
        """Where the program has what a placeholder stands for."""
        return next((source for placeholder, source, _ in self.placeholders if placeholder is node), None)

    def stops_device_after_check(self) -> bool:
        """Whether an operator behind a check of what a device's tensor holds would end all work on the device where it does not hold:
        the host hears of the check when such kernels are long under way."""
        nodes = list(self.graph.nodes)
        first = next((at for at, node in enumerate(nodes) if "checks_device" in node.meta), len(nodes))
        return any(map(stops_device, nodes[first:]))

    def raising(self, outputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Tensors that nothing needs, but whose operators can raise: the graph computes them for that."""
        needed = {*outputs, *self.kept}
        given = [node for node, _, _ in self.placeholders]
        read = {storage_of(node) for node in (*outputs, *given)}
        written_over: set[int | None] = set()  # memory all of which is written later, before anything reads it
        written_later: set[int | None] = set()
        found: list[fx.Node] = []
        for node in reversed(self.graph.nodes):
            if node in self.left_out:
                continue
            written = node.meta.get("writes", ())
            made = written or (node,)
            is_unread = not written_over.isdisjoint(map(storage_of, made))
            is_written_later = not written_later.isdisjoint(map(storage_of, made))
            written_later.update(map(storage_of, written))
            if (is_unread or is_written_over(node, {*needed, *found})) and raises_unused(node):
                found.append(self._for_its_error(node, made[0], is_written_later=True))
            elif node in needed:
                if is_unread:
                    continue
                if written and not any(storage_of(each) in read for each in written):
                    if raises_unused(node):
                        found.append(self._for_its_error(node, written[0], is_written_later))
                    elif node not in outputs and not any(user in needed for user in node.users):
                        continue  # so what it read is needed for its error alone, if at all
            elif raises_unused(node):
                results = [
                    each for each in (node, *node.users) if isinstance(each.meta.get("example_value"), torch.Tensor)
                ]
                if results:
                    found.append(self._for_its_error(results[0]))
                else:
                    self.kept.add(node)
            else:
                continue
            needed.update(values_read(node))
            read.update(map(storage_of, values_read(node)))
            own = set(map(storage_of, made))
            written_over.difference_update(set(map(storage_of, values_read(node))) - own)
            if overwrites_all(node):
                written_over.update(own)
        return found[::-1]

    def _for_its_error(self, node: fx.Node, written: fx.Node | None = None, is_written_later: bool = False) -> fx.Node:
        """What the node computes, or writes, through which nobody differentiates: it is there for its error. Of memory that is written
        later a copy says what was there."""
        result = written or node
        example = result.meta["example_value"]
        if example.requires_grad:
            node = result = self._behind(node, "detach", example.detach(), result)
        return self._behind(node, "clone", example.detach(), result) if is_written_later else result

    def _behind(self, node: fx.Node, method: str, example: torch.Tensor, of: fx.Node | None = None) -> fx.Node:
        """A method of what the node computes, or writes, called there. Its sizes may be numbers that are read off the node."""
        told = [user for user in node.users if "late" in user.meta and user.target == "size"]
        with self.graph.inserting_after(told[-1] if told else node):
            made = self.call("call_method", method, (of or node,), {})
        made.meta["user_stack"], made.meta["stack_trace"] = node.meta["user_stack"], node.meta["stack_trace"]
        self.describe(made, example, node.meta.get("device"))
        return made

    def _remove_unused(self) -> None:
        for node in reversed(self.graph.nodes):
            tells_sizes = [user for user in node.users if _only_tells_a_size(user)]
            is_unread = len(tells_sizes) == len(node.users) and not _only_tells_a_size(node)
            if node.op in ("output", "placeholder") or not is_unread or node in self.kept or not may_go(node):
                continue
            if not self._are_written_in(node, tells_sizes):
                self._erase(node)

    def _are_written_in(self, node: fx.Node, tells_sizes: list[fx.Node]) -> bool:
        """Whether sizes of another result are told by this one: how many are true in a mask is counted once."""
        told = {str(user.meta["size"]) for user in _with_users(tells_sizes) if "size" in user.meta}
        named = (other.meta["late_result"].names for other in self.graph.nodes if other is not node and "late_result" in other.meta)
        return bool(told) and any(not told.isdisjoint(names) for names in named)

    def _erase(self, node: fx.Node) -> None:
        for user in list(node.users):
            self._erase(user)
        self.graph.erase_node(node)

    def _used_placeholders(self) -> list[tuple[fx.Node, Source, Any]]:
        """Those that a node reads, and the numbers that their sizes are written in."""
        used = [entry for entry in self.placeholders if entry[0].users]
        extents = [
            extent for node, _, _ in used for extent in (*node.meta.get("sizes", ()), *node.meta.get("strides", ()))
        ]
        written_in = {of_root(root) for root in roots_of(extents)}
        return [
            entry
            for entry in self.placeholders
            if entry[0].users or ("size" in entry[0].meta and entry[0].meta["size"].expression in written_in)
        ]

    def _placeholders_first(self, placeholders: Sequence[fx.Node]) -> None:
        root = self.graph._root
        for node in reversed(placeholders):
            root.append(node)


def _with_users(nodes: list[fx.Node]) -> list[fx.Node]:
    return [*nodes, *(each for node in nodes for each in _with_users(list(node.users)))]


def _only_tells_a_size(node: fx.Node) -> bool:
    """Whether a number is there for the sizes that are written in it: it goes with the tensor that it is of."""
    if "late" not in node.meta:
        return False
    if node.target is operator.getitem:
        return bool(node.users) and all(map(_only_tells_a_size, node.users))
    return node.target == "size" and not node.users


def by_object(target: Callable[..., Any]) -> Callable[..., Any]:
    """The target as graphs may hold it: fx prints torch's functions by name, and the name may lead to another one by now.

    A program that replaces `F.relu` by a function of its own often calls the original from it.
    """
    name, module = getattr(target, "__name__", None), sys.modules.get(getattr(target, "__module__", None) or "")
    found = vars(module).get(name, target) if module is not None else target
    is_hidden = isinstance(target, FunctionType) and module is not None and name not in vars(module)  # `Tensor.__pow__`
    if not is_hidden and (
        found is target
        or not isinstance(found, FunctionType)
        or found.__globals__ is getattr(target, "__globals__", None)
    ):
        return target

    def original(*arguments: Any, **keywords: Any) -> Any:
        return target(*arguments, **keywords)

    original.__name__ = original.__qualname__ = str(name)
    return original


NOT_IN_TEXTS = frozenset({"input", "id", "type", "filter", "hash", "vars", "format", "object", "next", "iter", "map", "zip", "any", "all"})
"""Names that fx gives no node, and that no text of a graph asks for: an argument keeps them. Others (`device`, `slice`, `inf`) would hide
what the text means."""


def _identifier(name: str) -> str:
    made = re.sub(r"\W+", "_", name).strip("_") or "input"
    made = made if made.isidentifier() else f"input_{made}"  # an expression may begin with a number
    return f"{made}_" if keyword.iskeyword(made) else made


def stack_text(stack: UserStack) -> str:
    """As fx prints it: the innermost frame last."""
    return "\n".join(map(_frame_text, stack))


@lru_cache(maxsize=8192)
def _frame_text(frame: UserFrame) -> str:
    return f'  File "{frame.span.file}", line {frame.span.line}, in {frame.function}\n    {frame.span.source_line()}'
