"""A captured graph with numbers that only its run knows, or cut for other reasons, as a row of parts.

    m = x > 0; y = x[m]; y * 2 + y.shape[0]
    part 0, kernels      m = gt(x, 0)
    part 1, operators    y = getitem(x, m); u0 = y.size(0)
    part 2, kernels      add(mul(y, 2), u0)          for every u0 that keeps to what was relied on

Parts of kernels are graphs like any other, whose inputs have sizes that vary; autograd leads through all of them. What was relied
on about such a number is asked once it is known: where it is not so, the part runs operator by operator.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import torch
from torch import fx

from dynascope.autograd_functions import CustomFunction, gradients
from dynascope.capture.histories import storage_of
from dynascope.capture.raising import may_raise
from dynascope.capture.random_nodes import draws_numbers
from dynascope.dataclass import dataclass
from dynascope.grad.tape import numbers_at
from dynascope.meta_kernels.graph_modules import UnwrittenGraphModule, placeholder
from dynascope.meta_kernels.quiet_torch import without_compiler_imports
from dynascope.part_states import State, change, sets_state, states_of
from dynascope.sizes import Relation, Scope, Size, hint_of, roots_of
from dynascope.sizes.expression import of_root, text
from dynascope.sizes.relations import COMPARISONS
from dynascope.sizes.size import expression_of
from dynascope.sizes.worlds import Worlds


@dataclass(eq=False)
class Part:
    """`inputs` and `outputs` are nodes of the whole graph; `graph` takes and gives them in this order."""

    is_kernels: bool
    nodes: list[fx.Node]
    inputs: list[fx.Node] = field(default_factory=list)
    outputs: list[fx.Node] = field(default_factory=list)
    graph: Any = None
    copies: dict[fx.Node, fx.Node] = field(default_factory=dict)
    """The part's own node for each of the whole graph's."""
    compiled: Any = None
    conditions: tuple[Relation, ...] = ()
    states: Mapping[fx.Node, State] = field(default_factory=dict)
    """Torch's own state that each operation runs in."""

    @property
    def roots(self) -> list[str]:
        return [str(node.meta["size"]) for node in self.inputs if "size" in node.meta]


def has_late_numbers(graph: fx.GraphModule) -> bool:
    return any("late" in node.meta for node in graph.graph.nodes if node.op != "placeholder")


def parts_of(graph: fx.GraphModule, levels: dict[fx.Node, int] | None = None, ends: Collection[fx.Node] = ()) -> list[Part]:
    """In the order in which they run: by `levels` of all operations, or by what is late and by `ends`, with which parts end. Numbers that
    Python computes are computed in each part that needs them, floats of which something is late before: kernels take them as they are."""
    nodes = list(graph.graph.nodes)
    for node in nodes:
        size = node.meta.get("size")
        if is_computed_number(node) and size.kind is float and is_late_number(size):
            node.meta["size"], node.meta["late"] = late_root(size), True
    if levels is None:
        leave_gradients_to_autograd(nodes, ends)
        levels = levels_of(nodes, ends)
    levels = with_views_later(nodes, levels)
    parts = []
    for level in range(max(levels.values(), default=0) + 1):
        own = [node for node in levels if levels[node] == level]
        parts.append(Part(True, [node for node in own if not runs_apart(node)]))
        parts.append(Part(False, [node for node in own if runs_apart(node)]))
    results = results_of(graph)
    asked = [node for node in nodes if node.meta.get("kept", False)]  # whether they have an answer
    parts.append(Part(False, [node for node in dict.fromkeys([*results, *asked]) if is_computed_number(node)]))
    states = states_of(nodes)
    for part in parts:
        part.nodes, part.states = [node for node in part.nodes if not sets_state(node)], states
    parts = [part for part in parts if part.nodes]
    for part in parts:
        part.inputs = list(needed(part.nodes, nodes))
    for at, part in enumerate(parts):
        read = {node for later in parts[at + 1 :] for node in later.inputs} | set(results)
        part.outputs = [node for node in part.nodes if node in read or (is_late(node) and "size" in node.meta)]
    return parts


def is_late_number(size: Size) -> bool:
    return not size.scope.late.isdisjoint(root.name for root in roots_of([size]))


def late_root(size: Size) -> Size:
    """The same number, as one that nothing is known of."""
    name = next(name for at in itertools.count() if (name := f"u{at}") not in size.scope.roots)
    size.scope.late.add(name)
    return size.scope.root(name, size.hint)


def is_late(node: fx.Node) -> bool:
    return "late" in node.meta


def run_apart(node: fx.Node) -> None:
    """From now on the node, and what takes one of its results, is no part of kernels."""
    for each in (node, *(user for user in node.users if user.target is operator.getitem)):
        each.meta["apart"] = True


def runs_apart(node: fx.Node) -> bool:
    return is_late(node) or "apart" in node.meta


def is_computed_number(node: fx.Node) -> bool:
    """A number that Python computes of others."""
    return "size" in node.meta and node.op != "placeholder" and not is_late(node)


def levels_of(nodes: Sequence[fx.Node], ends: Collection[fx.Node] = ()) -> dict[fx.Node, int]:
    """Of all operations but the computed numbers. Those of a level run after the operators of the level before: each as early as
    it can, or, where something is written or drawn, one after the other. What is computed from one of the `ends` is of a later level."""
    keeps_order = any(map(is_ordered, nodes))
    levels: dict[fx.Node, int] = {}
    available: dict[fx.Node, int] = {}
    latest, has_passed_late = 0, False
    for node in nodes:
        read = node.all_input_nodes
        if node.op == "output":
            continue
        if node.op == "placeholder" or is_computed_number(node):
            available[node] = max((available[other] for other in read), default=0)
            continue
        if is_one_result(node) and read[0] in levels and not runs_apart(node):  # parts give tensors to each other
            levels[node] = levels[read[0]]
            available[node] = levels[node] + (node in ends or read[0] in ends)
            continue
        if runs_apart(node):
            level = max((available[other] - is_number_or_late(other) for other in read), default=0)
        else:
            level = max((available[other] for other in read), default=0)
        ends_level = runs_apart(node) or node in ends
        if keeps_order:
            latest = level = latest + (has_passed_late and not runs_apart(node))
            has_passed_late = ends_level
        levels[node] = max(level, 0)
        available[node] = levels[node] + ends_level
    return levels


def is_one_result(node: fx.Node) -> bool:
    """One of the several results of an operator."""
    return node.target is operator.getitem and not isinstance(node.all_input_nodes[0].meta.get("example_value"), torch.Tensor)


def with_views_later(nodes: Sequence[fx.Node], given: Mapping[fx.Node, int]) -> dict[fx.Node, int]:
    """A view is taken where it is first read: what one part hands to another is known for all sizes only where it is dense. One that
    gradients are taken of stays: what is computed from it is in a later part, so that autograd finds a way to it."""
    levels = dict(given)
    written = {storage for node in nodes for storage in map(storage_of, node.meta.get("writes", ()))}
    for node in reversed(levels):
        base = node.all_input_nodes[0] if node.all_input_nodes else None
        is_view = base is not None and storage_of(node) is not None and storage_of(node) == storage_of(base)
        if is_view and not runs_apart(node) and not is_ordered(node) and storage_of(node) not in written:
            readers = [user for user in node.users if not is_computed_number(user)]
            if readers and all(user in levels and user.target is not gradients for user in readers):
                levels[node] = max(levels[node], min(levels[user] for user in readers))
    return levels


def is_number_or_late(node: fx.Node) -> bool:
    return runs_apart(node) or is_computed_number(node)


def leave_gradients_to_autograd(nodes: Sequence[fx.Node], ends: Collection[fx.Node]) -> None:
    """Where gradients lead through several parts autograd takes them, between two parts: each part is a node to it."""
    for node in nodes:
        if node.target is gradients and not runs_apart(node):
            levels = levels_of(nodes, ends)
            if any(runs_apart(each) or levels.get(each) != levels[node] for each in differentiated(node)):
                run_apart(node)


def differentiated(node: fx.Node) -> Iterator[fx.Node]:
    """The operations that lead to what `gradients` differentiates, of those that autograd remembers."""
    pending, seen = list(node.all_input_nodes), set()
    while pending:
        each = pending.pop()
        if each in seen or each.op == "placeholder" or "size" in each.meta:
            continue
        seen.add(each)
        if _requires_grad(each):
            yield each
            pending += each.all_input_nodes


def is_ordered(node: fx.Node) -> bool:
    is_kept = node.meta.get("kept", False) and node.target is not torch._check and not is_computed_number(node)
    return is_kept or draws_numbers(node)


def needed(nodes: Iterable[fx.Node], order: Sequence[fx.Node]) -> Iterator[fx.Node]:
    """What the nodes read from outside, roots in place of computed numbers, in the order of the graph."""
    own, found, pending = set(nodes), set(), list(nodes)
    while pending:
        node = pending.pop()
        for other in node.all_input_nodes:
            if other in own or other in found:
                continue
            if is_computed_number(other):
                pending.append(other)
                own.add(other)
            else:
                found.add(other)
    return (node for node in order if node in found)


# A part as a graph of its own


def build(part: Part, whole: fx.GraphModule, roots: dict[Any, fx.Node], own: Collection[fx.Node] = ()) -> bool:
    """Makes the part's graph, which gives those of its results that are in `own` in memory of their own. False where a size is written in
    a number that the graph does not have."""
    is_known = True
    for node in part.inputs[:]:
        for extent in (*node.meta.get("sizes", ()), *node.meta.get("strides", ())):
            for root in roots_of([extent]) if isinstance(extent, Size) else ():
                if (given := roots.get(of_root(root))) is None:
                    is_known = False
                elif given not in part.inputs:
                    part.inputs.append(given)
    graph = fx.Graph()
    part.copies, results = {}, set(results_of(whole))
    for node in part.inputs:
        copy = part.copies[node] = placeholder(graph, node.name)
        copy.meta = dict(node.meta)

    def copied(node: fx.Node) -> fx.Node:
        if node not in part.copies:
            part.copies[node] = graph.node_copy(node, copied)
        return part.copies[node]

    state: State = {}
    for node in part.nodes:
        change(graph, state, part.states[node])
        state = part.states[node]
        copied(node)
    change(graph, state, {})
    ends = {node for node in part.outputs if not is_differentiated(node, part, results)}
    outputs = [_copied(graph, part.copies[node]) if node in own else part.copies[node] for node in part.outputs]
    graph.output(tuple(_detached(graph, copy) if node in ends else copy for node, copy in zip(part.outputs, outputs, strict=True)))
    part.graph = UnwrittenGraphModule(whole, graph)
    return is_known


def is_differentiated(node: fx.Node, part: Part, results: set[fx.Node]) -> bool:
    """Whether gradients may come back to what a part gives: not where only numbers are read out of it, or out of what is made of it."""
    if not part.is_kernels or node in results or not _requires_grad(node):
        return True
    pending, seen, own = list(node.users), {node}, set(part.nodes)
    while pending:
        user = pending.pop()
        if user in seen or user in own or "size" in user.meta:
            continue
        seen.add(user)
        if user.target is gradients:
            return True
        if _requires_grad(user):
            changed = list(_sharing(user, user.meta.get("writes", ())))
            if user in results or any(each in results or each.op == "placeholder" for each in changed):
                return True
            pending += itertools.chain(user.users, *(each.users for each in changed))
    return False


def _sharing(node: fx.Node, written: Iterable[Any]) -> Iterator[fx.Node]:
    """What shares memory with what the operation writes, read afterwards or not."""
    storages = {storage_of(each) for each in written}
    return (each for each in node.graph.nodes if storages and storage_of(each) in storages)


def _requires_grad(node: fx.Node) -> bool:
    """Also where nothing is known of what it gives."""
    found = node.meta.get("example_value")
    made = found if isinstance(found, (list, tuple)) else (found,)
    return any(getattr(each, "requires_grad", each is None) for each in made)


def _detached(graph: fx.Graph, node: fx.Node) -> fx.Node:
    detached = graph.call_method("detach", (node,))
    detached.meta = {**node.meta, "example_value": node.meta["example_value"].detach()}
    return detached


def pieces_of_nothing_else(part: Part, whole: fx.GraphModule) -> frozenset[fx.Node]:
    """Views that the part gives to others, of what nobody but these sees, and that are no more than what they are views of. In memory of
    their own they are all that is written, and their gradients come in as they are, not in zeros of the whole's size."""
    results = {storage_of(node) for node in results_of(whole)} | {storage_of(node) for node in part.inputs}
    sharing: dict[int, list[fx.Node]] = {}
    for node in part.outputs:
        storage = storage_of(node)
        if storage is not None and storage not in results:
            sharing.setdefault(storage, []).append(node)
    found: set[fx.Node] = set()
    for nodes in sharing.values():
        tensors = [node.meta["example_value"] for node in nodes]
        room = tensors[0].untyped_storage().nbytes()
        if all(each._is_view() for each in tensors) and sum(each.numel() * each.element_size() for each in tensors) <= room:
            found.update(nodes)
    return frozenset(found)


def lie_alone(node: fx.Node) -> None:
    """For the parts that are given it: it has memory of its own."""
    example = node.meta["example_value"]
    node.meta["example_value"] = example.detach().clone().requires_grad_(example.requires_grad)


def _copied(graph: fx.Graph, node: fx.Node) -> fx.Node:
    copied = graph.call_method("clone", (node,))
    copied.meta = {**node.meta, "example_value": node.meta["example_value"].clone()}
    return copied


def describe(part: Part, scope: Scope) -> None:
    """Says of what operators with late results give what it is for all sizes, asking at several."""
    worlds = None
    for node in part.nodes:
        if (given := handed_on(node)) is not None:
            _say_as(node, given)
        elif "apart" in node.meta and scope.roots and not is_gradient_of_fixed(node):
            node.meta["unknown"] = True
        late = node.meta.get("late_result")
        if late is None:
            continue
        worlds = worlds or Worlds(scope, of_floats=True)
        asked = worlds.values if worlds.are_enough else [scope.hints] if scope.pinned() >= scope.roots.keys() else []
        is_fixed = not late.names and not any({"size", "sizes", "late"} & other.meta.keys() for other in node.all_input_nodes)
        try:
            results = [_made(node, late, values) for values in (asked if scope.roots and not is_fixed else [{}])]
        except (RuntimeError, IndexError, ValueError):  # it takes none but certain sizes, which nothing relies on yet
            results = []
        if isinstance(node.meta.get("example_value"), torch.Tensor):
            _say(node, results, worlds)
            continue
        for item in node.users:
            if item.target is operator.getitem and "late" in item.meta:
                _say(item, [result[item.args[1]] for result in results], worlds)


def handed_on(node: fx.Node) -> fx.Node | None:
    """The operand that a custom function hands on as this result."""
    made, at = (node.args[0], node.args[1]) if node.target is operator.getitem else (node, 0)
    target = getattr(made, "target", None)
    places = target.hands_on if isinstance(target, CustomFunction) and target.returns_tuple == (made is not node) else None
    return None if places is None else made.args[places[at]]  # type: ignore[union-attr,index,return-value]


def _say_as(node: fx.Node, other: fx.Node) -> None:
    """It lies in the other's memory, wherever kernels have put that."""
    node.meta |= {kind: other.meta[kind] for kind in ("sizes", "strides", "unknown") if kind in other.meta}
    example, given = node.meta.get("example_value"), other.meta.get("example_value")
    if isinstance(example, torch.Tensor) and isinstance(given, torch.Tensor) and example.stride() != given.stride():
        node.meta["example_value"] = _laid_out(example, given.stride())


def is_gradient_of_fixed(node: fx.Node) -> bool:
    """Whether it is the gradient of what is as large at each call, and so is itself."""
    made: Any = node.args[0] if node.target is operator.getitem else None
    if made is None or made.target is not gradients:
        return False
    inputs, at = made.args[1], node.args[1]
    return "sizes" not in inputs[at].meta


def _made(node: fx.Node, late: Any, values: dict[str, Any]) -> Any:
    def at(other: fx.Node) -> Any:
        if "size" in other.meta:
            return numbers_at(other.meta["size"], values)
        example = other.meta["example_value"]
        if "sizes" not in other.meta:
            return example
        sizes = numbers_at(tuple(other.meta["sizes"]), values)
        if "strides" not in other.meta:  # how the result lies is asked when it is there
            return torch.empty(sizes, dtype=example.dtype, device="meta")
        return torch.empty_strided(sizes, numbers_at(tuple(other.meta["strides"]), values), dtype=example.dtype, device="meta")

    with torch.no_grad(), without_compiler_imports():
        return late.made(fx.map_arg(node.args, at), fx.map_arg(node.kwargs, at), values)


def _say(node: fx.Node, results: list[torch.Tensor], worlds: Worlds) -> None:
    if len(results) == 1:
        node.meta["sizes"], node.meta["strides"] = tuple(results[0].shape), results[0].stride()
        return
    sizes = tuple(map(worlds.expression, zip(*(each.shape for each in results), strict=True)))
    strides = tuple(map(worlds.expression, zip(*(each.stride() for each in results), strict=True)))
    if results and None not in (*sizes, *strides):
        node.meta["sizes"], node.meta["strides"] = sizes, strides
    else:
        node.meta["unknown"] = True


def describe_computed(part: Part) -> None:
    """The same of what kernels give, which differentiation has said: where it says nothing of the strides, memory is dense in the order
    in which it is now. Each tensor is asked for it when it is there."""
    for node in part.nodes:
        _take_over(node, part.copies[node])
    for node, result in zip(part.outputs, results_of(part.graph), strict=True):
        _take_over(node, result)
        example = node.meta.get("example_value")
        if not isinstance(example, torch.Tensor) or "size" in node.meta:
            continue
        if part.compiled is None and part.roots:
            node.meta["unknown"] = True
            continue
        if "sizes" in node.meta:
            node.meta.setdefault("strides", dense_strides(node.meta["sizes"], example.stride()))
        if "strides" in node.meta and (strides := tuple(map(hint_of, node.meta["strides"]))) != example.stride():
            node.meta["example_value"] = _laid_out(example, strides)


def _laid_out(example: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """A stand-in of the same memory, where kernels write the result in another order than capture took it to be in (what a convolution
    gives depends on the library that does the work)."""
    storage, offset = example.untyped_storage(), example.storage_offset()
    made = torch.empty(0, dtype=example.dtype, device=example.device).set_(storage, offset, example.shape, strides)
    return made.requires_grad_(example.requires_grad)


def dense_strides(sizes: Sequence[Any], now: Sequence[int]) -> tuple[Any, ...]:
    strides: list[Any] = list(now)
    step: Any = 1
    for dimension in sorted(range(len(sizes)), key=now.__getitem__):
        if hint_of(sizes[dimension]) != 1:
            strides[dimension] = step
            step = step * sizes[dimension]
    return tuple(strides)


def _take_over(node: fx.Node, copy: fx.Node) -> None:
    node.meta |= {kind: copy.meta[kind] for kind in ("sizes", "strides", "unknown") if kind in copy.meta}


def storages_outside(examples: Mapping[fx.Node, Any]) -> dict[int | None, int]:
    """Which storage the memory of a stand-in stands for: inputs without elements lie in one where their stand-ins do not. What overlaps
    differentiation finds itself."""
    tensors = ((node, each) for node, each in examples.items() if isinstance(each, torch.Tensor) and not each.numel())
    return {storage_of(node): each.untyped_storage()._cdata for node, each in tensors}


def writes_what_others_read(part: Part, outside: Mapping[int | None, int]) -> bool:
    """Whether a tensor from outside is written that another one from outside shares memory with."""

    def storage(node: fx.Node) -> int | None:
        own = storage_of(node)
        return outside.get(own, own)

    storages = [storage(node) for node in part.inputs]
    return any(storages.count(storage(node)) > 1 for node in written_in(part))


def written_in(part: Part) -> list[fx.Node]:
    """What a part is given and writes to."""
    return written_among(part, part.inputs)


def written_among(part: Part, nodes: Iterable[fx.Node]) -> list[fx.Node]:
    """Those of the nodes in whose memory a part writes, be it by way of a view that an earlier part has made."""
    written = {storage_of(each) for node in part.nodes for each in node.meta.get("writes", ())}
    return [node for node in nodes if storage_of(node) in written]


def writes_last(parts: Sequence[Part]) -> bool:
    """Whether the first part that writes is one of kernels, whatever it is given, and nothing that comes after it can raise, numbers
    that Python computes on the way among it."""
    writing = next((at for at, part in enumerate(parts) if any(node.meta.get("writes") for node in part.nodes)), None)
    if writing is None:
        return True
    compiled = parts[writing].compiled
    has_kernels = compiled is not None and not compiled.writes_inputs and check_of(parts[writing]) is None
    return has_kernels and not any(may_raise(node) for part in parts[writing + 1 :] for node in part.graph.graph.nodes)


# The whole again


def conditions_of(part: Part, scope: Scope) -> tuple[Relation, ...]:
    """What is relied on by now about numbers that the part is given, and no guard can be asked about."""
    own = set(part.roots)
    return tuple(
        relation
        for relation, _ in scope.log
        if scope.is_late(relation) and {root.name for root in relation.roots()} <= own
    )


class First(Protocol):
    """What computes all that the parts give, before the first of them. `end` is called whatever happens after `begin`."""

    @property
    def inputs(self) -> Sequence[fx.Node]: ...

    def begin(self, *inputs: Any) -> None: ...

    def end(self) -> None: ...


def joined(graph: fx.GraphModule, parts: Sequence[Part], first: First | None = None) -> Callable[..., tuple]:
    """Takes the graph's inputs and gives its outputs."""
    names = {node: f"v{at}" for at, node in enumerate(graph.graph.nodes)}
    given = [node for node in graph.graph.nodes if node.op == "placeholder"]
    environment: dict[str, Any] = {}
    lines = []
    for at, part in enumerate(parts):
        arguments = ", ".join(names[node] for node in part.inputs)
        run = f"operators_{at}"
        fits = check_of(part) if part.compiled is not None and first is None else None  # else nothing but kernels runs
        if part.compiled is None or fits is not None:
            environment[run] = part.graph.forward
        if part.compiled is not None:
            environment[f"kernels_{at}"], run = part.compiled.function, f"kernels_{at}"
            if fits is not None:
                environment[f"fits_{at}"] = fits
                run = f"(kernels_{at} if fits_{at}({arguments}) else operators_{at})"
        results = "".join(f"{names[node]}, " for node in part.outputs)
        lines.append(f"    {results and f'({results}) = '}{run}({arguments})")
    if first is not None:
        environment |= {"begin": first.begin, "end": first.end}
        begin = f"    begin({', '.join(names[node] for node in first.inputs)})"
        lines = [begin, "    try:", *(f"    {line}" for line in lines), "    finally:", "        end()"]
    head = f"def call({', '.join(names[node] for node in given)}):"
    lines = [head, *lines, f"    return ({''.join(f'{names[node]}, ' for node in results_of(graph))})"]
    exec(compile("\n".join(lines), "<parts of a graph>", "exec"), environment)
    return environment["call"]


def results_of(graph: fx.GraphModule) -> list[fx.Node]:
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    return list(output.args[0])


def check_of(part: Part) -> Callable[..., bool] | None:
    """Whether what the part is given is what its kernels rely on; None where the guards have asked already. What an earlier part
    gives is of other sizes than its kernels would give where that runs operator by operator."""
    names = [str(node.meta["size"]) if "size" in node.meta else f"t{at}" for at, node in enumerate(part.inputs)]
    environment: dict[str, Any] = {}
    asked = [_condition(relation, environment) for relation in part.conditions]
    for name, node in zip(names, part.inputs, strict=True):
        example = node.meta.get("example_value")
        if node.op == "placeholder" or "size" in node.meta or not isinstance(example, torch.Tensor):
            continue
        if "sizes" in node.meta:
            sizes, strides = (_tuple(node.meta[kind], environment) for kind in ("sizes", "strides"))
            asked.append(f"{name}.shape == {sizes} and {name}.stride() == {strides}")
        else:
            asked.append(f"{name}.shape == {_tuple(example.shape, environment)}")
            steps = zip(example.shape, example.stride(), strict=True)
            asked += [f"{name}.stride({at}) == {step}" for at, (size, step) in enumerate(steps) if size > 1]
    if not asked:
        return None
    environment |= {"is_same": COMPARISONS["is"]}
    source = f"def fits({', '.join(names)}):\n    try:\n        return {' and '.join(asked)}\n"
    exec(f"{source}    except ArithmeticError:\n        return False", environment)
    return environment["fits"]


def _condition(relation: Relation, environment: dict[str, Any]) -> str:
    left, right = text(relation.left, environment), text(relation.right, environment)
    words = f"is_same({left}, {right})" if relation.operator == "is" else f"({left} {relation.operator} {right})"
    return f"(not {words})" if relation.holds_not else words


def _tuple(extents: Iterable[Any], environment: dict[str, Any]) -> str:
    return f"({''.join(f'{text(expression_of(extent), environment)}, ' for extent in extents)})"
