"""Which pointwise values are computed inside their consumers instead of being kept.

A value is inlined when only one node reads it or each a piece, or when computing it again costs less than reading it back. It is not
when the consumer would compute it many times over and it is expensive, nor when a library call or the caller reads it.
"""

from __future__ import annotations

from dataclasses import replace

from dynascope.dataclass import dataclass
from dynascope.loops.index import Index, Symbol, substitute
from dynascope.loops.inlining import has_reduction, symbols_at
from dynascope.loops.limits import limits_of
from dynascope.loops.nodes import (
    Argument,
    Buffer,
    CheckIndex,
    Compute,
    Constant,
    ExternCall,
    IndexValue,
    Load,
    LoopNode,
    LoopProgram,
    Node,
    ScalarInput,
    ScatterNode,
    views_in,
)
from dynascope.loops.operations import TABLE
from dynascope.schedule.versions import Versions, versions_of
from dynascope.sizes import is_constant, nominal, nominal_product

CHEAP_COST = 4
SMALL_SHARE = 8
REPEATED_COST = 8
REPEATED_TIMES = 8
REPEATED_LOADS = 12
"""Loads for each element of what is read at several computed places (one dimension of an interpolation after the other), of which no two
are the same: through memory it takes as many as it has itself, and one for each place."""
LANES_TIMES = 1.5
"""Lanes compute what they read under a guard also where they do not use it: parts of a concatenation. On a GPU that is dear where it is put
together from many places itself (gradients of rotated queries and keys, side by side), because each load is issued."""
MANY_PLACES = 4
"""Guarded reads for each element: windows, or parts of a concatenation."""
LONGEST_BODY = 400
"""A chain longer than this is cut, so that kernels stay compilable and readable."""


def inlined_buffers(program: LoopProgram) -> frozenset[str]:
    """Buffers that no kernel will store."""
    kept = buffers_seen_outside(program)
    readers = readers_of(program)
    weights: dict[str, Weight] = {}
    versions = versions_of(program)
    places = {node.name: place for place, node in enumerate(program.nodes)} if versions.memory else {}
    for node in program.nodes:
        if isinstance(node, LoopNode):
            weight = _weigh(node, weights, program.buffers, versions)
            if _inlines(node, kept, readers, weight) and _is_read_in_time(node, weight, readers, versions, places):
                weights[node.results[0].buffer.name] = weight
    return frozenset(weights)


@dataclass(frozen=True, slots=True)
class Weight:
    """What computing a value once more takes, with all that is inlined into it. Loads of what is much smaller than the
    value (a number a row, a parameter) do not count: they stay in the cache."""

    cost: int
    loads: int
    length: int
    places: int
    """How many reads are guarded."""
    checks: bool
    """Whether it may raise for an index: then each of its elements is computed somewhere."""
    maker: LoopNode
    passing: tuple[tuple[str, Index], ...] = ()
    """What it reads of memory that is written in parts, over the loops of its node."""


def _weigh(node: LoopNode, inlined: dict[str, Weight], buffers: dict[str, Buffer], versions: Versions) -> Weight:
    own = [op for op in node.body if isinstance(op, Load)]
    parts = [inlined[op.buffer] for op in own if op.buffer in inlined]
    large = [
        op
        for op in own
        if op.buffer not in inlined and nominal(buffers[op.buffer].elements) * SMALL_SHARE > iterations(node)
    ]
    return Weight(
        cost_of(node) + sum(part.cost for part in parts),
        len(large) + sum(part.loads for part in parts),
        len(node.body) + sum(part.length for part in parts),
        guarded_reads(node) + sum(part.places for part in parts),
        any(part.checks for part in parts) or node.device.type == "cpu" and any(isinstance(op, CheckIndex) for op in node.body),
        node,
        _passing(node, inlined, versions) if versions.memory else (),
    )


def _passing(node: LoopNode, inlined: dict[str, Weight], versions: Versions) -> tuple[tuple[str, Index], ...]:
    found: dict[tuple[str, Index], None] = {}
    for op in node.body:
        if not isinstance(op, Load):
            continue
        part = inlined.get(op.buffer)
        if part is not None and part.passing:
            found |= dict.fromkeys((name, _as_read_by(node, op, part, index)) for name, index in part.passing)
        elif op.buffer in versions.memory:
            found[op.buffer, op.index] = None
    return tuple(found)


def _as_read_by(node: LoopNode | ScatterNode, load: Load, weight: Weight, index: Index) -> Index:
    """An index over the loops of what is loaded, over those of the node that loads it."""
    symbols = symbols_at(weight.maker, weight.maker.results[0], load.index, limits_of(node.body, load.guard))
    return substitute(index, lambda atom: symbols.get(atom) if isinstance(atom, Symbol) else None)


def _is_read_in_time(
    node: LoopNode, weight: Weight, readers: dict[str, list[Node]], versions: Versions, places: dict[str, int]
) -> bool:
    """Whether all who would compute the value themselves run before something else is written where it reads; who writes there itself
    reads each element just before."""
    for reader in readers.get(node.results[0].buffer.name, ()) if weight.passing else ():
        if isinstance(reader, ExternCall):
            continue
        loads = [op for op in reader.body if isinstance(op, Load) and op.buffer == node.results[0].buffer.name]
        for load in loads:
            for name, index in weight.passing:
                there = _as_read_by(reader, load, weight, index)
                place, write = versions.last_moment(versions.read(name, there)) or (len(places), None)
                is_own = write is not None and places[reader.name] == place and there == write.index
                if places[reader.name] >= place and not is_own:
                    return False
    return True


def _inlines(node: LoopNode, kept: frozenset[str], readers: dict[str, list[Node]], weight: Weight) -> bool:
    buffer = node.results[0].buffer
    if has_reduction(node.body) or len(node.results) > 1 or node.bases or buffer.name in kept or weight.length > LONGEST_BODY:
        return False
    found = readers.get(buffer.name, [])
    using = [reader for reader in found if isinstance(reader, (LoopNode, ScatterNode))]
    if len(using) < len(found):
        return False
    if weight.checks and not any(_reads_all(reader, buffer) for reader in using):
        return False
    if weight.cost <= CHEAP_COST and weight.loads <= 1:
        return True
    if len(using) > 1:
        return _is_read_once(using, buffer)
    if not using or _is_widened_for_several(using[0], kept, readers):
        return False
    (reader,) = using
    places = _reads(reader, buffer)
    times = iterations(reader) * places / max(nominal(buffer.elements), 1)
    if weight.places >= MANY_PLACES and has_reduction(reader.body):
        return False
    is_long = times > REPEATED_TIMES or (times * weight.loads > REPEATED_LOADS and _is_scattered(reader, buffer))
    if places > 1 and weight.loads > 1 and is_long:
        return False
    is_dear = weight.cost >= REPEATED_COST if node.device.type == "cpu" else weight.places >= MANY_PLACES
    if is_dear and times > LANES_TIMES and _is_guarded(reader, buffer):
        return False
    return times <= REPEATED_TIMES or weight.cost < REPEATED_COST


def _is_read_once(using: list[LoopNode | ScatterNode], buffer: Buffer) -> bool:
    """Whether several read no more than there is, each a piece: inlined, nothing is computed twice and nothing goes through memory."""
    read = sum(iterations(reader) * _reads(reader, buffer) for reader in using)
    return read <= nominal(buffer.elements) and not any(has_reduction(each.body) or _is_guarded(each, buffer) for each in using)


def _is_widened_for_several(reader: LoopNode | ScatterNode, kept: frozenset[str], readers: dict[str, list[Node]]) -> bool:
    """Whether a value is only converted to a wider type, and that has several readers: they convert it themselves, and what goes through
    memory is the narrower."""
    computed = [op for op in reader.body if isinstance(op, Compute)]
    if isinstance(reader, ScatterNode):
        return False
    if len(computed) != 1 or computed[0].name != "cast" or len(reader.results) > 1 or reader.results[0].buffer.name in kept:
        return False
    (read,) = (reader.body[number] for number in computed[0].arguments)
    is_wider = isinstance(read, Load) and computed[0].dtype.itemsize > read.dtype.itemsize
    return is_wider and len(readers.get(reader.results[0].buffer.name, ())) > 1


def _reads(reader: LoopNode | ScatterNode, buffer: Buffer) -> int:
    """At how many places one iteration reads a buffer."""
    return sum(isinstance(op, Load) and op.buffer == buffer.name for op in reader.body)


def _is_scattered(reader: LoopNode | ScatterNode, buffer: Buffer) -> bool:
    """Whether the places where it is read are computed."""
    return all(op.index.loaded for op in reader.body if isinstance(op, Load) and op.buffer == buffer.name)


def _is_guarded(reader: LoopNode | ScatterNode, buffer: Buffer) -> bool:
    return all(op.guard is not None for op in reader.body if isinstance(op, Load) and op.buffer == buffer.name)


def _reads_all(reader: LoopNode | ScatterNode, buffer: Buffer) -> bool:
    """Whether a loop nest certainly reads every element. Under a guard it does where it goes beyond them (`cat`, `pad`)."""
    loads = [op for op in reader.body if isinstance(op, Load) and op.buffer == buffer.name and not op.index.loaded]
    least = nominal(buffer.elements)
    return any(
        nominal_product(symbol.extent for symbol in op.index.symbols) >= least + (op.guard is not None) for op in loads
    )


def guarded_reads(node: LoopNode) -> int:
    return sum(isinstance(op, Load) and op.guard is not None for op in node.body)


def loops_along_places(node: LoopNode) -> set[Symbol]:
    """The loops that go through the memory of the large things that it is put together from."""
    found: set[Symbol] = set()
    for operation in node.body:
        if isinstance(operation, Load) and operation.guard is not None:
            read = nominal_product(symbol.extent for symbol in operation.index.symbols)
            if read * SMALL_SHARE > iterations(node):
                found.update(*(Index((term,)).symbols for term in operation.index.terms if is_constant(term[1], 1)))
    return found


def cost_of(node: LoopNode) -> int:
    """What is computed of numbers alone (`1 / n` of a mean) costs no element anything: a kernel does so once."""
    cost, of_numbers = 0, set()
    for number, op in enumerate(node.body):
        is_number = isinstance(op, (Argument, Constant)) or (isinstance(op, IndexValue) and op.index.is_constant)
        if is_number or (isinstance(op, Compute) and of_numbers.issuperset(op.arguments)):
            of_numbers.add(number)
        elif isinstance(op, Compute):
            cost += TABLE[op.name].cost
    return cost


def iterations(node: LoopNode | ScatterNode) -> int:
    """How often the body runs; an estimate where sizes vary."""
    return nominal_product(loop.size for loop in node.loops)


def buffers_seen_outside(program: LoopProgram) -> frozenset[str]:
    """Buffers that the caller or a library call reads."""
    seen = {view.buffer for view in views_in(program.outputs)}
    for node in program.nodes:
        if isinstance(node, ExternCall):
            seen.update(view.buffer for view in views_in((node.arguments, node.keywords)))
        elif isinstance(node, ScatterNode):
            seen.add(node.base)
        else:
            seen.update(node.bases)
    return frozenset(seen)


def without_unused(program: LoopProgram) -> LoopProgram:
    """The program without loops whose results nobody reads. Library calls stay: they may have effects."""
    read = {view.buffer for view in views_in(program.outputs)}
    kept = []
    for node in reversed(program.nodes):
        if not isinstance(node, LoopNode) or any(result.buffer.name in read for result in node.results):
            kept.append(node)
            read.update(reads_of(node))
    return replace(program, nodes=tuple(reversed(kept)))


def readers_of(program: LoopProgram) -> dict[str, list[Node]]:
    """For each buffer, the nodes that read it, in order."""
    readers: dict[str, list[Node]] = {}
    for node in program.nodes:
        for buffer in reads_of(node):
            readers.setdefault(buffer, []).append(node)
    return readers


def reads_of(node: Node) -> tuple[str, ...]:
    """The buffers a node reads, each once, in order."""
    if isinstance(node, ExternCall):
        return tuple(dict.fromkeys(view.buffer for view in views_in((node.arguments, node.keywords))))
    loads = [op.buffer for op in node.body if isinstance(op, Load)]
    return tuple(dict.fromkeys((*((node.base,) if isinstance(node, ScatterNode) else node.bases), *loads)))


def numbers_of(node: Node) -> tuple[str, ...]:
    """The scalars that a node reads: the graph's inputs, or numbers that library calls made."""
    if isinstance(node, ExternCall):
        return tuple(dict.fromkeys(_scalars_in((node.arguments, node.keywords))))
    return tuple(dict.fromkeys(op.name for op in node.body if isinstance(op, Argument)))


def _scalars_in(value: object) -> list[str]:
    if isinstance(value, ScalarInput):
        return [value.name]
    if isinstance(value, (list, tuple)):
        return [name for item in value for name in _scalars_in(item)]
    return _scalars_in(list(value.values())) if isinstance(value, dict) else []
