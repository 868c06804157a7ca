"""Which loop nodes share a kernel.

    fuse(program) -> Schedule

1. Cheap and single-use pointwise values are inlined into their readers (`inline_plan`).
2. Each remaining node, in order, joins the group of one of its producers, or of a sibling that reads the same buffer,
   when one loop nest can run both (`spaces`), it reads the group's values at its own iteration, and no step between
   them must wait for one and run before the other.
   Where it reads of several groups, these become one under the same conditions.
3. Each group's members are written into one body (`emission`), and its loops split, ordered and merged (`nests`).
4. Sums down the columns of what an earlier step has at hand become parts of it (`row_sums`).
5. Reductions of few rows side by side, and what is computed of elements with them, become two steps (`few_rows`).
6. What is computed of inputs alone, or only becomes results, for tensors of one size, becomes one step (`inputs_together`,
   `results_together`).
7. What is written in parts is written into the memory of what it was before (`shared_memory`); what nobody reads of that is not made
   (`unread_starts`).
8. Products of matrices are added in place to what dies there (`added_products`).
9. Memory is planned over the steps (`memory`).

Of `mutations` (pairs of an input and the output that it becomes) those in a GPU's memory are written by kernels of their own,
after everything that allocates (`last_writes`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set
from dataclasses import field, replace
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.loops.body import BodyBuilder
from dynascope.loops.index import ZERO, Extent, Index, Symbol, renumbered, substitute, variable
from dynascope.loops.inlining import BodyWriter, symbols_at
from dynascope.loops.limits import limits_of
from dynascope.loops.lower import lower
from dynascope.loops.nodes import (
    ExternCall,
    Load,
    LoopNode,
    LoopProgram,
    Node,
    Result,
    ScatterNode,
)
from dynascope.report.reason import Reason
from dynascope.schedule import emission, memory
from dynascope.schedule.added_products import added_in_place
from dynascope.schedule.collectives import is_wait
from dynascope.schedule.few_rows import with_few_rows_apart
from dynascope.schedule.groups import Border, Fused, NotFused, Schedule, Step
from dynascope.schedule.inline_plan import (
    MANY_PLACES,
    buffers_seen_outside,
    guarded_reads,
    inlined_buffers,
    loops_along_places,
    numbers_of,
    reads_of,
    without_unused,
)
from dynascope.schedule.inputs_together import with_inputs_together
from dynascope.schedule.last_writes import Mutations, written_last
from dynascope.schedule.lengthening import lengthened
from dynascope.schedule.partial_units import PartialUnits
from dynascope.schedule.reasons import (
    ComputedInPieces,
    DifferentSpaces,
    ExternBorder,
    OtherElements,
    OtherReducedDimensions,
    ReducesGathered,
    Scattered,
    WouldWait,
    WrittenLast,
)
from dynascope.schedule.results_together import with_results_together
from dynascope.schedule.row_sums import with_row_sums
from dynascope.schedule.shared_memory import with_shared_memory
from dynascope.schedule.spaces import Piece, common_pieces, lay
from dynascope.schedule.tails import with_split_tails
from dynascope.schedule.totals import with_split_totals
from dynascope.schedule.unread_starts import without_unread_starts
from dynascope.schedule.versions import place_of
from dynascope.sizes import is_constant, product, same

LARGEST_GROUP_BODY = 1500
MOST_BUFFERS, MOST_ON_A_GPU = 250, 64
"""That one kernel reads or writes. Triton takes long over a large body: densenet121's gradients of a block's first features are sums over
what some twenty later layers make of each. With up to 250 buffers their kernels took most of the 17 s in which those of a training step
were built (64: 1.1 s), and ran no faster (H200)."""
SIBLINGS_LOOKED_AT = 8
MOST_READS_TOGETHER = 24
"""Places that one iteration of groups made one reads: more (windows of several poolings) leave a thread too few registers."""
COMPANY = 24
"""Buffers of a GPU's kernel that an update of something else still joins: each takes registers of its own."""


def fuse(program: LoopProgram, options: Any = None, mutations: Mutations = ()) -> Schedule:
    """Groups in running order, the borders between them with reasons, and the memory plan."""
    whole = None
    if program.repeats is not None:
        whole = lengthened(*_fused(program))
        program = program if whole else lower(program.repeats.graph, options=options, mutations=mutations)
    program, steps, borders = whole or _fused(program, mutations)
    program, steps, borders = with_few_rows_apart(*with_row_sums(program, steps), borders)
    steps = with_results_together(program, with_inputs_together(program, steps, mutations), mutations)
    program, steps = with_shared_memory(program, steps)
    return memory.plan(*added_in_place(program, without_unread_starts(program, steps)), borders)


def _fused(program: LoopProgram, mutations: Mutations = ()) -> tuple[LoopProgram, tuple[Step, ...], tuple[Border, ...]]:
    program = with_split_totals(with_split_tails(without_unused(program)))
    state = _FusionState(program, written_last(program, mutations))
    for node in program.nodes:
        state.place(node)
    ordered = state.ordered_units()
    stored = _stored(state)
    steps = tuple(step for unit in ordered for step in emission.steps_of(unit, stored))
    return program, steps, tuple(state.borders)


@dataclass(slots=True, eq=False)
class Unit:
    """A group under construction, or a node that stands alone; equal to itself only. Bit n of a mask stands for program
    node n."""

    pieces: tuple[Piece, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    members: list[tuple[LoopNode, dict[Symbol, Index]]] = field(default_factory=list)
    alone: Node | None = None
    buffers: set[str] = field(default_factory=set)
    mask: int = 0
    before: int = 0
    size: int = 0
    number: int = -1
    """Its place among the units; none before it is entered."""
    is_last: bool = False
    """Whether it only writes to inputs, after all others."""
    needs: set[Unit] = field(default_factory=set)
    """Units that must run before it, but for those that these need."""
    needed_by: set[Unit] = field(default_factory=set)

    @property
    def reduced(self) -> bool:
        return any(piece.reduced for piece in self.pieces)


class _FusionState:
    """Groups so far, who makes which buffer, and who must run before whom."""

    def __init__(self, program: LoopProgram, written_last: Set[str]) -> None:
        self.program, self.written_last = program, written_last
        self.inlined = inlined_buffers(program)
        self.parts = PartialUnits(program)
        self.makers: dict[str, tuple[LoopNode, Result]] = {}
        self.expanded: dict[str, LoopNode] = {}
        self.units: list[Unit] = []
        self.unit_of: dict[str, Unit] = {}
        """By the name of what it makes: a buffer, or a library call's number."""
        self.readers: dict[str, dict[Unit, None]] = {}
        self.bits: dict[str, int] = {}
        self.borders: list[Border] = []
        self.kept = buffers_seen_outside(program)
        self.symbol_count = 0
        self.merged: set[Unit] = set()
        """Those that others have taken in."""
        self.companions: dict[Any, Unit] = {}
        """The latest group of each company."""
        self.last_in_order: Unit | None = None
        """The latest library call of those that run in the order of the program."""

    # -- placing ---------------------------------------------------------------------------------------------------

    def place(self, node: Node) -> None:
        if isinstance(node, LoopNode):
            self._remember(node)
            if node.results[0].buffer.name in self.inlined:
                return
            node = self.expanded[node.name] = self._expand(node)
            self._place_loops(node)
        else:
            node = self._expand_scatter(node) if isinstance(node, ScatterNode) else node
            unit = Unit(alone=node, before=self._before(node))
            self._link(unit, self._makers_of(node))
            if isinstance(node, ExternCall) and _runs_in_order(node):
                if (last := self.last_in_order) is not None:
                    unit.before |= last.mask | last.before
                    self._link(unit, [last])
                self.last_in_order = unit
            self._found(unit, node)

    def _remember(self, node: LoopNode) -> None:
        for result in node.results:
            self.makers[result.buffer.name] = (node, result)

    def _place_loops(self, node: LoopNode) -> None:
        candidates = self._candidates(node)
        for unit, wanted in candidates:
            refusal = self._try_join(unit, node)
            if refusal is None:
                self._absorb(unit, node, [maker for maker, is_maker in candidates if is_maker and maker is not unit])
                return
            if wanted:
                self._note_refusal(unit, node, refusal)
        unit = self._new_unit(node)
        self._link(unit, self._makers_of(node))
        self._found(unit, node)
        if (company := self._company(node)) is not None:
            self.companions[company] = unit

    def _candidates(self, node: LoopNode) -> list[tuple[Unit, bool]]:
        """Groups that make what the node reads, latest first; then groups that read what it reads."""
        producers, siblings = [], []
        for buffer in reads_of(node):
            unit = self.unit_of.get(buffer)
            if unit is not None and unit not in producers:
                producers.append(unit)
            latest = list(islice(reversed(self.readers.get(buffer, {})), SIBLINGS_LOOKED_AT))
            for sibling in reversed(latest):
                if sibling not in siblings and sibling.alone is None:
                    siblings.append(sibling)
        producers.sort(key=lambda unit: unit.number, reverse=True)
        beside = self.companions.get(self._company(node))
        if beside is not None and (len(beside.buffers) < COMPANY or node.device.type == "cpu"):
            siblings.append(beside)
        return [(u, True) for u in producers] + [(u, False) for u in siblings if u not in producers]

    def _company(self, node: LoopNode) -> Any:
        """What nodes have in common that may share a kernel though they share no value: an optimizer's updates of parameters of one
        size, its counters of steps. None for all others."""
        if node.name in self.written_last:
            return node.device, _sizes(node)
        is_number = is_constant(product(_sizes(node)), 1) and node.kind == "pointwise"
        return (node.device, ()) if is_number and not self._before(node) else None

    def _found(self, unit: Unit, node: Node) -> None:
        """Enters a unit or a new member of it into the tables."""
        if unit.number < 0:
            unit.number = len(self.units)
            self.units.append(unit)
        bit = self.bits.setdefault(node.name, 1 << len(self.bits))
        unit.mask |= bit
        made, read = _made_by(node), reads_of(node)
        unit.buffers.update(made, read)
        self.parts.note(unit, node)
        for buffer in made:
            self.unit_of[buffer] = unit
        for buffer in read:
            self.readers.setdefault(buffer, {})[unit] = None

    def _before(self, node: Node) -> int:
        """Everything that must have run before a node."""
        mask = 0
        for unit in self._makers_of(node):
            mask |= unit.mask | unit.before
        return mask

    def _makers_of(self, node: Node) -> list[Unit]:
        """The units that make what a node reads, or that read what it writes over."""
        found = (self.unit_of.get(name) for name in (*reads_of(node), *numbers_of(node)))
        return [*(unit for unit in found if unit is not None), *self.parts.before(node)]

    def _link(self, unit: Unit, makers: Iterable[Unit]) -> None:
        for maker in makers:
            if maker is not unit:
                unit.needs.add(maker)
                maker.needed_by.add(unit)

    # -- joining ---------------------------------------------------------------------------------------------------

    def _try_join(self, unit: Unit, node: LoopNode) -> Reason | None:
        """Makes the node a member of a unit; the reason where it cannot be one."""
        producer = self._producer_in(unit, node)
        if unit.alone is not None:
            return _alone_reason(unit.alone, node)
        first = unit.members[0][0]
        if unit.is_last != (node.name in self.written_last):
            return WrittenLast(producer, node.origin.node)
        if first.origin.piece != node.origin.piece:
            return ComputedInPieces(producer, node.origin.node)
        if first.device != node.device or unit.size + len(node.body) > LARGEST_GROUP_BODY or _is_full(unit, node):
            return DifferentSpaces(producer, _sizes(first), node.origin.node, _sizes(node))
        if node.kind == "reduction" and any(map(_gathers, unit.members)):
            return ReducesGathered(producer, node.origin.node)
        before = self._before(node)
        if self._would_wait(unit, node):
            return WouldWait(producer, node.origin.node)
        fit = self._fit(unit, node)
        if isinstance(fit, str):
            if fit == "reduced":
                return OtherReducedDimensions(producer, node.origin.node)
            return DifferentSpaces(producer, _sizes(first), node.origin.node, _sizes(node))
        if not self._reads_own_elements(unit, node, fit) or not self._keeps_apart(unit, node, fit):
            return OtherElements(producer, node.origin.node)
        self._join(unit, node, fit, before)
        return None

    def _would_wait(self, unit: Unit, node: LoopNode) -> bool:
        """Whether something that the node needs itself needs this unit: then the two cannot be one step."""
        return any(maker is not unit and maker.before & unit.mask for maker in self._makers_of(node))

    def _join(self, unit: Unit, node: LoopNode, fit: _Fit, before: int) -> None:
        self._lay_over(unit, fit)
        unit.members.append((node, fit.new))
        unit.size += len(node.body)
        self._note_fused(unit, node)
        self._found(unit, node)
        self._link(unit, self._makers_of(node))
        unit.before |= before & ~unit.mask
        for other in _all_after(unit):
            other.before |= unit.before | unit.mask

    def _lay_over(self, unit: Unit, fit: _Fit) -> None:
        """The members' loops over the common space."""
        rewrite = dict(zip(unit.symbols, fit.old, strict=True))
        for position, (member, symbols) in enumerate(unit.members):
            moved = {s: substitute(i, lambda atom: rewrite.get(atom)) for s, i in symbols.items()}
            unit.members[position] = (member, moved)
        unit.pieces, unit.symbols = fit.pieces, fit.symbols

    def _absorb(self, unit: Unit, node: LoopNode, makers: list[Unit]) -> None:
        """Takes into the unit that a node has joined the others that it reads of, where one kernel can run both."""
        for other in makers:
            if self._makes_one(unit, other) and (both := self._together(unit, other)) is not None:
                self._merge(unit, other, both)
                self.borders.append(Fused(self._producer_in(unit, node), node.origin.node))

    def _makes_one(self, unit: Unit, other: Unit) -> bool:
        """Whether nothing but the shapes of their loops stands against it."""
        if other.alone is not None or unit.is_last or other.is_last or unit.size + other.size > LARGEST_GROUP_BODY:
            return False
        if self.parts.share_memory(unit, other):
            return False
        first, second = unit.members[0][0], other.members[0][0]
        if first.device != second.device or first.origin.piece != second.origin.piece:
            return False
        pairs = ((unit, other), (other, unit))
        if any(need is not b and need.before & b.mask for a, b in pairs for need in a.needs):
            return False
        members = (*unit.members, *other.members)
        if len(unit.buffers | other.buffers) > _most_buffers(first) or any(map(_gathers, members)):
            return False
        reads = {(op.buffer, op.index) for member, _ in members for op in member.body if isinstance(op, Load)}
        return len(reads) <= MOST_READS_TOGETHER

    def _together(self, unit: Unit, other: Unit) -> Unit | None:
        """A unit with the members of both, in the order of the program."""
        start, added = (unit, other) if unit.reduced or not other.reduced else (other, unit)
        both = Unit(start.pieces, start.symbols, list(start.members), size=start.size + added.size)
        for member, _ in added.members:
            fit = self._fit(both, member)
            if isinstance(fit, str):
                return None
            self._lay_over(both, fit)
            both.members.append((member, fit.new))
        both.members.sort(key=lambda member: self.bits[member[0].name])
        made = {r.buffer.name: (m, s, r) for m, s in both.members for r in m.results}
        return both if all(_reads_own(member, symbols, made, {}) for member, symbols in both.members) else None

    def _merge(self, unit: Unit, other: Unit, both: Unit) -> None:
        """`other` is no more: what it makes, `unit` makes."""
        unit.pieces, unit.symbols, unit.members, unit.size = both.pieces, both.symbols, both.members, both.size
        unit.buffers |= other.buffers
        for buffer in other.buffers:
            if self.unit_of.get(buffer) is other:
                self.unit_of[buffer] = unit
            if other in (readers := self.readers.get(buffer, {})):
                self.readers[buffer] = {(unit if reader is other else reader): None for reader in readers}
        unit.mask |= other.mask
        unit.before = (unit.before | other.before) & ~unit.mask
        for need in other.needs:
            need.needed_by.discard(other)
        self._link(unit, other.needs)
        for reader in other.needed_by:
            reader.needs.discard(other)
            self._link(reader, [unit])
        self.merged.add(other)
        self.parts.merge(unit, other)
        self.companions = {company: unit if each is other else each for company, each in self.companions.items()}
        for after in _all_after(unit):
            after.before |= unit.before | unit.mask

    def _fit(self, unit: Unit, node: LoopNode) -> _Fit | str:
        """The common space of a group and a node, or what stands against it: "sizes" or "reduced"."""
        total, own = product(p.size for p in unit.pieces), product(_sizes(node))
        rows = product(p.size for p in unit.pieces if not p.reduced)
        if same(own, total):
            return self._fit_elements(unit, node)
        if node.kind == "pointwise" and unit.reduced and same(own, rows):
            return self._fit_rows(unit, node)
        return "sizes"

    def _fit_elements(self, unit: Unit, node: LoopNode) -> _Fit | str:
        sizes = common_pieces(unit.pieces, _sizes(node))
        if sizes is None:
            return "sizes"
        symbols = self._new_symbols(sizes)
        old, new = lay(tuple(p.size for p in unit.pieces), symbols), lay(_sizes(node), symbols)
        theirs = {s for p, i in zip(unit.pieces, old, strict=True) if p.reduced for s in i.symbols}
        ours = {s for loop, i in zip(node.loops, new, strict=True) if loop.reduced for s in i.symbols}
        if theirs and ours and theirs != ours:
            return "reduced"
        if not theirs and ours and not unit.reduced and node.kind == "reduction":
            theirs = ours
        pieces = tuple(Piece(s.extent, s in theirs) for s in symbols)
        if node.kind == "reduction" and not ours and theirs:
            return "reduced"
        return _Fit(pieces, symbols, old, {loop.symbol: i for loop, i in zip(node.loops, new, strict=True)})

    def _fit_rows(self, unit: Unit, node: LoopNode) -> _Fit | str:
        """A pointwise node over the rows of a group with reductions."""
        row_pieces = tuple(p for p in unit.pieces if not p.reduced)
        sizes = common_pieces(row_pieces, _sizes(node))
        if sizes is None:
            return "sizes"
        symbols = self._new_symbols(sizes)
        laid = iter(lay(tuple(p.size for p in row_pieces), symbols))
        old, pieces, merged = [], [], []
        for piece, symbol in zip(unit.pieces, unit.symbols, strict=True):
            if piece.reduced:
                index, parts = variable(symbol), (symbol,)
            else:
                index = next(laid)
                parts = tuple(s for s in symbols if s in index.symbols)
            old.append(index)
            merged.extend(parts)
            pieces.extend(Piece(s.extent, piece.reduced) for s in parts)
        new = lay(_sizes(node), symbols)
        return _Fit(
            tuple(pieces), tuple(merged), tuple(old), {loop.symbol: i for loop, i in zip(node.loops, new, strict=True)}
        )

    def _reads_own_elements(self, unit: Unit, node: LoopNode, fit: _Fit) -> bool:
        """Whether each load of a member's result is of the element that the same iteration makes."""
        made = {r.buffer.name: (m, s, r) for m, s in unit.members for r in m.results}
        return _reads_own(node, fit.new, made, dict(zip(unit.symbols, fit.old, strict=True)))

    def _keeps_apart(self, unit: Unit, node: LoopNode, fit: _Fit) -> bool:
        """Whether what the unit and the node read and write of one memory are other elements, or each iteration's own."""
        rewrite = dict(zip(unit.symbols, fit.old, strict=True))

        def own(index: Index) -> Index:
            return substitute(index, lambda atom: fit.new.get(atom) if isinstance(atom, Symbol) else None)

        def there(member: Node, index: Index) -> Index:
            places = next(symbols for each, symbols in unit.members if each is member)
            over_unit = substitute(index, lambda atom: places.get(atom) if isinstance(atom, Symbol) else None)
            return substitute(over_unit, lambda atom: rewrite.get(atom) if isinstance(atom, Symbol) else None)

        return self.parts.go_together(unit, node, own, there, reduces=unit.reduced or node.kind == "reduction")

    def _new_unit(self, node: LoopNode) -> Unit:
        loops = [loop for loop in node.loops if not is_constant(loop.size, 1)]
        symbols = self._new_symbols(tuple(loop.size for loop in loops))
        places = {loop.symbol: variable(s) for loop, s in zip(loops, symbols, strict=True)}
        places |= {loop.symbol: ZERO for loop in node.loops if is_constant(loop.size, 1)}
        pieces = tuple(Piece(loop.size, loop.reduced) for loop in loops)
        is_last = node.name in self.written_last
        return Unit(pieces, symbols, [(node, places)], before=self._before(node), size=len(node.body), is_last=is_last)

    def _new_symbols(self, sizes: tuple[Extent, ...]) -> tuple[Symbol, ...]:
        first = self.symbol_count
        self.symbol_count += len(sizes)
        return tuple(Symbol(f"p{first + k}", size) for k, size in enumerate(sizes))

    # -- inlining --------------------------------------------------------------------------------------------------

    def _expand(self, node: LoopNode) -> LoopNode:
        """The node with every inlined value that it reads written into its body."""
        if not self._reads_inlined(node):
            return node
        builder = BodyBuilder(node.origin)
        numbers = self._writer(builder).write(node.body, {}, [r.value for r in node.results])
        results = tuple(replace(r, value=numbers[r.value]) for r in node.results)
        return LoopNode(node.name, node.loops, builder.body, results, node.origin)

    def _expand_scatter(self, node: ScatterNode) -> ScatterNode:
        if not self._reads_inlined(node):
            return node
        builder = BodyBuilder(node.origin)
        numbers = self._writer(builder).write(node.body, {}, [node.value, *node.index.loaded])
        index = renumbered(node.index, numbers.__getitem__)
        return replace(node, body=builder.body, value=numbers[node.value], index=index)

    def _reads_inlined(self, node: LoopNode | ScatterNode) -> bool:
        return any(isinstance(op, Load) and op.buffer in self.inlined for op in node.body)

    def _writer(self, builder: BodyBuilder) -> BodyWriter:
        def resolve(load: Load, flat: Index, guard: int | None) -> int | None:
            if load.buffer not in self.inlined:
                return None
            maker, result = self.makers[load.buffer]
            symbols = symbols_at(maker, result, flat, limits_of(builder.operations, guard))
            values = writer.write(maker.body, symbols, [result.value], guard, (place_of(maker, result), flat))
            return values[result.value]

        writer = BodyWriter(builder, resolve)
        return writer

    # -- order and borders -------------------------------------------------------------------------------------------

    def ordered_units(self) -> list[Unit]:
        """Units so that each runs after all that it needs; otherwise in the order of the program."""
        units = [unit for unit in self.units if unit not in self.merged]
        missing = {unit: len(unit.needs) for unit in units}
        ready = [(_turn(unit), unit.number) for unit in units if not unit.needs]
        heapify(ready)
        ordered = []
        while ready:
            unit = self.units[heappop(ready)[1]]
            ordered.append(unit)
            for other in unit.needed_by:
                missing[other] -= 1
                if not missing[other]:
                    heappush(ready, (_turn(other), other.number))
        return ordered

    def _producer_in(self, unit: Unit, node: Node) -> str:
        """The ATen node of the unit whose value the node reads."""
        for buffer in reads_of(node):
            if self.unit_of.get(buffer) is unit:
                maker = self.makers.get(buffer)
                return maker[0].origin.node if maker else unit.alone.origin.node
        return unit.members[0][0].origin.node if unit.members else unit.alone.origin.node

    def _note_fused(self, unit: Unit, node: LoopNode) -> None:
        self.borders.append(Fused(self._producer_in(unit, node), node.origin.node))

    def _note_refusal(self, unit: Unit, node: LoopNode, reason: Reason) -> None:
        self.borders.append(NotFused(self._producer_in(unit, node), node.origin.node, reason, node.origin))


def _turn(unit: Unit) -> float:
    """Its place in the program; of a wait, that of what is first to read its result."""
    if unit.is_last:
        return math.inf
    if not isinstance(unit.alone, ExternCall) or not is_wait(unit.alone.operator):
        return unit.number
    return max(unit.number, min((other.number for other in unit.needed_by), default=math.inf) - 0.5)


def _all_after(unit: Unit) -> set[Unit]:
    """What needs a unit, directly or not."""
    found: set[Unit] = set()
    pending = list(unit.needed_by)
    while pending:
        other = pending.pop()
        if other not in found:
            found.add(other)
            pending.extend(other.needed_by)
    return found


def _runs_in_order(call: ExternCall) -> bool:
    """Whether it draws random numbers, writes, or may do anything: others of its kind see that it ran before them."""
    operator = call.operator
    if is_wait(operator):
        return False
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace not in ("aten", "prims"):
        return True
    return operator._schema.is_mutable or torch.Tag.nondeterministic_seeded in operator.tags


@dataclass(frozen=True, slots=True)
class _Fit:
    """A common space: its pieces and symbols, the group's old symbols over them, and the new node's loops over them."""

    pieces: tuple[Piece, ...]
    symbols: tuple[Symbol, ...]
    old: tuple[Index, ...]
    new: dict[Symbol, Index]


def _reads_own(
    node: LoopNode,
    symbols: dict[Symbol, Index],
    made: dict[str, tuple[LoopNode, dict[Symbol, Index], Result]],
    rewrite: dict[Symbol, Index],
) -> bool:
    """Whether each load of what the same kernel makes is of the element that the same iteration makes. `rewrite` says what the
    symbols of those that made it are now."""
    for operation in node.body:
        if isinstance(operation, Load) and operation.buffer in made:
            member, places, result = made[operation.buffer]
            there = substitute(emission.result_index(member, result, places), lambda atom: rewrite.get(atom))
            here = substitute(operation.index, lambda atom: symbols.get(atom))
            if there != here or operation.guard is not None:
                return False
    return True


def _stored(state: _FusionState) -> frozenset[str]:
    """The buffers that some other step, or the caller, reads."""
    stored = set(state.kept)
    for buffer, units in state.readers.items():
        home = state.unit_of.get(buffer)
        if home is not None and any(unit is not home for unit in units):
            stored.add(buffer)
    return frozenset(stored)


def _is_full(unit: Unit, node: LoopNode) -> bool:
    most = _most_buffers(node)
    return len(unit.buffers) > most // 2 and len(unit.buffers.union(_made_by(node), reads_of(node))) > most


def _most_buffers(node: LoopNode) -> int:
    return MOST_BUFFERS if node.device.type == "cpu" else MOST_ON_A_GPU


def _gathers(member: tuple[LoopNode, dict[Symbol, Index]]) -> bool:
    """Whether each element is put together from many places, or on a GPU from such as lie along different loops: a tile of these is read
    across memory, and a reduction's tiles are not made for that."""
    node, _ = member
    return guarded_reads(node) >= MANY_PLACES or node.device.type != "cpu" and len(loops_along_places(node)) > 1


def _alone_reason(other: Node, node: LoopNode) -> Reason:
    if isinstance(other, ExternCall):
        return ExternBorder(other.origin.operator, "producer", other.why)
    return Scattered(other.origin.node, node.origin.node)


def _made_by(node: Node) -> tuple[str, ...]:
    if isinstance(node, LoopNode):
        return tuple(r.buffer.name for r in node.results)
    if isinstance(node, ScatterNode):
        return (node.result.name,)
    return tuple(r.name for r in node.results if r is not None)


def _sizes(node: LoopNode) -> tuple[Extent, ...]:
    return tuple(loop.size for loop in node.loops)
