"""Reductions whose elements are hardly read: what is read is computed where it is read, and no matrix is written.

    logs = log_softmax(x)  [N, classes];   picked = logs[i, target[i]]
    ->  greatest, sums = rows of x  [N];   picked = x[i, target[i]] - greatest[i] - sums[i]

The node is split into its row values and a pointwise tail, which fusion then writes into its reader.
"""

from __future__ import annotations

from dataclasses import replace

from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.index import Atom, Index, Loaded, linear, substitute, variable
from dynascope.loops.inlining import needed
from dynascope.loops.nodes import Buffer, Load, Loop, LoopNode, LoopProgram, Node, Reduce, Result
from dynascope.schedule.inline_plan import buffers_seen_outside, cost_of, iterations, readers_of
from dynascope.schedule.passes import arrange
from dynascope.sizes import is_constant, nominal

FEWEST_ELEMENTS_A_READ = 8
MOST_ROW_VALUES = 4


def with_split_tails(program: LoopProgram) -> LoopProgram:
    """The program with every such node split."""
    kept, readers = buffers_seen_outside(program), readers_of(program)
    nodes: list[Node] = []
    buffers = dict(program.buffers)
    for node in program.nodes:
        if isinstance(node, LoopNode) and _hardly_read(node, kept, readers):
            nodes.extend(_split(node, buffers))
        else:
            nodes.append(node)
    return program if len(nodes) == len(program.nodes) else replace(program, nodes=tuple(nodes), buffers=buffers)


def _hardly_read(node: LoopNode, kept: frozenset[str], readers: dict[str, list[Node]]) -> bool:
    if node.kind != "reduction" or len(node.results) != 1:
        return False
    (result,) = node.results
    using = readers.get(result.buffer.name, [])
    if result.buffer.name in kept or len(using) != 1 or not isinstance(using[0], LoopNode):
        return False
    reads = sum(isinstance(op, Load) and op.buffer == result.buffer.name for op in using[0].body)
    return reads == 1 and iterations(using[0]) * FEWEST_ELEMENTS_A_READ <= nominal(result.buffer.elements)


def _split(node: LoopNode, buffers: dict[str, Buffer]) -> tuple[LoopNode, ...]:
    """Row values, then the tail; the node itself where the tail would need too many."""
    (result,) = node.results
    levels = arrange(node.body, tuple(loop.symbol for loop in node.loops if loop.reduced)).levels
    border = _border(node, levels)
    if levels[result.value] == "row" or not 0 < len(border) <= MOST_ROW_VALUES:
        return (node,)
    rows = tuple(_row_result(node, value, buffers) for value in border)
    tail = _tail(node, dict(zip(border, rows, strict=True)))
    if cost_of(tail) > cost_of(node):
        return (node,)
    buffers.update({row.buffer.name: row.buffer for row in rows})
    return replace(node, name=f"{node.name}_rows", results=rows), tail


def _border(node: LoopNode, levels: tuple[str, ...]) -> list[int]:
    """Row values that follow from a reduction and that element values on the way to the result read."""
    found, seen, open_values = set(), set(), [node.results[0].value]
    while open_values:
        value = open_values.pop()
        if value in seen:
            continue
        seen.add(value)
        if levels[value] == "row" and any(isinstance(node.body[n], Reduce) for n in needed(node.body, [value])):
            found.add(value)
        else:
            open_values.extend(node.body[value].arguments)
    return sorted(found)


def _row_result(node: LoopNode, value: int, buffers: dict[str, Buffer]) -> Result:
    strides, step = [], 1
    for loop in reversed(node.loops):
        strides.append(0 if loop.reduced or is_constant(loop.size, 1) else step)
        step = step if loop.reduced else step * loop.size
    strides.reverse()
    own, name = node.results[0].buffer, f"{node.results[0].buffer.name}_row{value}"
    while name in buffers:
        name += "_"
    rows = [(loop.size, stride) for loop, stride in zip(node.loops, strides, strict=True) if not loop.reduced]
    sizes = tuple(size for size, _ in rows)
    steps = tuple(1 if is_constant(stride, 0) else stride for _, stride in rows)
    return Result(Buffer(name, node.body[value].dtype, own.device, sizes, steps), value, tuple(strides))


def _tail(node: LoopNode, rows: dict[int, Result]) -> LoopNode:
    builder = BodyBuilder(node.origin)
    numbers: dict[int, int] = {}

    def renumbered(atom: Atom) -> Index | None:
        return variable(Loaded(numbers[atom.value], atom.extent)) if isinstance(atom, Loaded) else None

    symbols = [variable(loop.symbol) for loop in node.loops]
    for value in _without_rows(node, rows):
        operation = node.body[value]
        if value in rows:
            index = linear(symbols, rows[value].strides)
            numbers[value] = builder.append(Load(operation.dtype, (), operation.origin, rows[value].buffer.name, index))
        else:
            new = instantiate(operation, numbers.__getitem__, lambda i: substitute(i, renumbered))
            numbers[value] = builder.append(new)
    (result,) = node.results
    loops = tuple(Loop(loop.symbol, False) for loop in node.loops)
    return LoopNode(node.name, loops, builder.body, (replace(result, value=numbers[result.value]),), node.origin)


def _without_rows(node: LoopNode, rows: dict[int, Result]) -> list[int]:
    """The values of the tail: what the result needs, with the rows as leaves."""
    found, open_values = set(), [node.results[0].value]
    while open_values:
        value = open_values.pop()
        if value not in found:
            found.add(value)
            open_values.extend(() if value in rows else node.body[value].arguments)
    return sorted(found)
