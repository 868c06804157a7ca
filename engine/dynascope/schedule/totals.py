"""Reductions of a whole tensor, in two steps: parts, then the total of the parts. On the CPU so that threads can share the first,

    total = sum of x  [1048576]                   ->     parts = sums of 64 runs of 16384;   total = sum of parts

and on every device where what is added up was computed with reductions of rows, as part of the loops over these rows:

    y = softmax(x);  total = sum of y * log(y)    ->     y = softmax(x), parts = sums of rows of y * log(y);   total = sum of parts

The parts are the same whatever the number of threads, so the result is too. Sums of f32 are added up as f64 from there on on the CPU.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from dynascope.loops.body import BodyBuilder, instantiate
from dynascope.loops.index import Atom, Extent, Index, Loaded, Symbol, substitute, variable
from dynascope.loops.inlining import needed
from dynascope.loops.nodes import (
    Argument,
    Buffer,
    Compute,
    Constant,
    Load,
    Loop,
    LoopNode,
    LoopProgram,
    Node,
    Reduce,
    Result,
)
from dynascope.schedule.inline_plan import iterations
from dynascope.sizes import Size, estimated, is_constant, nominal, nominal_product, product, same

FEWEST_ELEMENTS = 1 << 17
FEWEST_IN_A_PART = 1 << 11
PARTS = 64
FEWEST_PARTS, MOST_PARTS = 8, 4096
FEWEST_ROWS = 512
"""That a total is divided by: fewer leave a GPU idle."""
KINDS = ("sum", "prod", "max", "min", "any", "all")


def with_split_totals(program: LoopProgram) -> LoopProgram:
    """The program with each such reduction split."""
    nodes: list[Node] = []
    buffers = dict(program.buffers)
    rows: dict[str, frozenset[Rows]] = {}
    for node in program.nodes:
        if isinstance(node, LoopNode):
            nodes.extend(_split(node, buffers, rows))
            rows |= dict.fromkeys((result.buffer.name for result in node.results), _rows(node, rows))
        else:
            nodes.append(node)
    return program if len(nodes) == len(program.nodes) else replace(program, nodes=tuple(nodes), buffers=buffers)


Rows = tuple[tuple[Extent, ...], tuple[Extent, ...]]
"""The sizes of the loops over rows and over the elements of one."""


def _rows(node: LoopNode, known: dict[str, frozenset[Rows]]) -> frozenset[Rows]:
    """The rows whose reductions it computes, or what it computes is computed of element by element."""
    over = [loop for loop in node.loops if not is_constant(loop.size, 1)]
    outer, inner = (tuple(loop.size for loop in over if loop.reduced == reduced) for reduced in (False, True))
    if inner:
        return frozenset({(outer, inner)} if outer else ())
    return frozenset().union(*(known.get(op.buffer, ()) for op in node.body if isinstance(op, Load)))


def _split(node: LoopNode, buffers: dict[str, Buffer], rows: dict[str, frozenset[Rows]]) -> tuple[LoopNode, ...]:
    reduce = _only_reduce(node)
    if reduce is None:
        return (node,)
    loops = _loops_over_rows(node, rows)
    if loops is None and node.device.type == "cpu" and iterations(node) >= FEWEST_ELEMENTS:
        loops = _loops(node)
    if loops is None:
        return (node,)
    parts = _parts(node, reduce, *loops, buffers)
    total = _total(node, reduce, parts.results[0].buffer)
    return parts, *_split(total, buffers, {})


def _loops_over_rows(node: LoopNode, rows: dict[str, frozenset[Rows]]) -> tuple[tuple[Loop, ...], dict[Symbol, Index]] | None:
    """The loops, of which those over rows are no longer reduced, where what it reads was computed with reductions of such rows."""
    found = frozenset().union(*(rows.get(op.buffer, ()) for op in node.body if isinstance(op, Load)))
    sizes = tuple(loop.size for loop in node.loops if not is_constant(loop.size, 1))
    for outer, inner in found:
        if not same(sizes, (*outer, *inner)) or estimated(product(outer)) < FEWEST_ROWS:
            continue
        if node.device.type == "cpu" and any(isinstance(size, Size) for size in sizes):
            continue
        left = len(outer)
        loops = []
        for loop in node.loops:
            is_row = left > 0 and not is_constant(loop.size, 1)
            left -= is_row
            loops.append(replace(loop, reduced=not is_row))
        return tuple(loops), {}
    return None


def _only_reduce(node: LoopNode) -> int | None:
    """The number of the one reduction; None where there are others, rows, or elements that are read again afterwards."""
    found = [n for n, op in enumerate(node.body) if isinstance(op, Reduce)]
    if (
        len(found) != 1
        or len(node.results) != 1
        or not all(loop.reduced or is_constant(loop.size, 1) for loop in node.loops)
    ):
        return None
    (reduce,) = found
    after = needed(node.body, [node.results[0].value])
    inside = set(needed(node.body, [reduce]))
    plain = all(isinstance(node.body[n], (Compute, Constant, Argument)) for n in after if n not in inside)
    shared = {a for n in after if n not in inside for a in node.body[n].arguments} & inside - {reduce}
    shared_plain = all(isinstance(node.body[n], (Constant, Argument)) for n in shared)
    return reduce if node.body[reduce].kind in KINDS and plain and shared_plain else None


def _loops(node: LoopNode) -> tuple[tuple[Loop, ...], dict[Symbol, Index]] | None:
    """The loops with one that is no longer reduced, and what the cut loop's variable is over them."""
    position = next(k for k, loop in enumerate(node.loops) if not is_constant(loop.size, 1))
    symbol = node.loops[position].symbol
    inner = nominal_product(loop.size for loop in node.loops[position + 1 :])
    if FEWEST_PARTS <= nominal(symbol.extent) <= MOST_PARTS and inner >= FEWEST_IN_A_PART // 2:
        return tuple(replace(loop, reduced=k != position) for k, loop in enumerate(node.loops)), {}
    if isinstance(symbol.extent, Size):
        return None
    divisors = [p for p in range(FEWEST_PARTS, MOST_PARTS + 1) if symbol.extent % p == 0]
    fitting = [p for p in divisors if symbol.extent // p * inner >= FEWEST_IN_A_PART]
    if not fitting:
        return None
    count = min(fitting, key=lambda p: abs(p - PARTS))
    outer, rest = Symbol(f"{symbol.name}_part", count), Symbol(f"{symbol.name}_rest", symbol.extent // count)
    cut = (Loop(outer, False), Loop(rest, True))
    loops = (*node.loops[:position], *cut, *node.loops[position + 1 :])
    return loops, {symbol: variable(outer) * rest.extent + variable(rest)}


def _parts(
    node: LoopNode, reduce: int, loops: tuple[Loop, ...], cut: dict[Symbol, Index], buffers: dict[str, Buffer]
) -> LoopNode:
    builder = BodyBuilder(node.origin)
    numbers: dict[int, int] = {}

    def moved(atom: Atom) -> Index | None:
        return variable(Loaded(numbers[atom.value], atom.extent)) if isinstance(atom, Loaded) else cut.get(atom)

    for value in needed(node.body, [reduce]):
        new = instantiate(node.body[value], numbers.__getitem__, lambda i: substitute(i, moved))
        numbers[value] = builder.append(new)
    value, dtype = numbers[reduce], node.body[reduce].dtype
    if node.body[reduce].kind == "sum" and dtype == torch.float32 and node.device.type == "cpu":
        dtype = torch.float64
        value = builder.append(Compute(dtype, (value,), node.origin, "cast"))
    name = f"{node.results[0].buffer.name}_parts"
    while name in buffers:
        name += "_"
    count, strides = 1, [0] * len(loops)
    for at in reversed(range(len(loops))):
        if not loops[at].reduced and not is_constant(loops[at].size, 1):
            count, strides[at] = count * loops[at].size, count
    buffer = buffers[name] = Buffer(name, dtype, node.device, (count,), (1,))
    return LoopNode(name, loops, builder.body, (Result(buffer, value, tuple(strides)),), node.origin)


def _total(node: LoopNode, reduce: int, parts: Buffer) -> LoopNode:
    builder = BodyBuilder(node.origin)
    loop = Loop(Symbol("c0", parts.sizes[0]), True)
    operation = node.body[reduce]
    part = builder.append(Load(parts.dtype, (), node.origin, parts.name, variable(loop.symbol)))
    total = builder.append(replace(operation, dtype=parts.dtype, arguments=(part,)))
    if parts.dtype != operation.dtype:
        total = builder.append(Compute(operation.dtype, (total,), node.origin, "cast"))
    numbers = {reduce: total}
    (result,) = node.results
    for value in _after(node, reduce):
        numbers[value] = builder.append(instantiate(node.body[value], numbers.__getitem__, lambda i: i))
    return LoopNode(
        node.name, (loop,), builder.body, (replace(result, value=numbers[result.value], strides=(0,)),), node.origin
    )


def _after(node: LoopNode, reduce: int) -> list[int]:
    """What the result needs, with the reduction as a leaf."""
    found, open_values = set(), [node.results[0].value]
    while open_values:
        value = open_values.pop()
        if value not in found and value != reduce:
            found.add(value)
            open_values.extend(node.body[value].arguments)
    return sorted(found)
