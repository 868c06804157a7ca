"""How a group's loops become C++ loops: which one runs in vector lanes, and where each value is computed.

choose(group, 64) for softmax over [64, 1000]  ->  lanes over c0, 16 of them; rows r0 in parallel
choose(group, 64) for a sum over rows          ->  lanes over r0; c0 runs inside
"""

from __future__ import annotations

import torch

from dynascope.codegen.cpp.expressions import COMPARISONS
from dynascope.codegen.cpp.types import ELEMENT, WIDE
from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent, Index, Symbol
from dynascope.loops.nodes import Compute, IndexValue, Load, Reduce, Store
from dynascope.schedule.groups import FusionGroup
from dynascope.schedule.passes import Arrangement, arrange, index_of
from dynascope.sizes import Size, blocks_of, is_constant, is_multiple, nominal, nominal_product, product

SHORTEST_LANES = 4
LONGEST_STEP = 4
"""Elements from one lane to the next, for which vectors are read whole and their lanes picked."""
IN_STEPS = 0.25
"""What that is worth beside elements side by side."""
FEW_ROWS = 8


@dataclass(frozen=True, slots=True)
class Nest:
    """`lane` is the loop run in lanes (None: no loop); `varies[n]` whether value n differs between lanes.

    `blocked` says that the lane loop itself is what threads share (there are hardly any other rows).
    """

    group: FusionGroup
    arrangement: Arrangement
    lane: Symbol | None
    lanes: int
    depends: tuple[frozenset[Symbol], ...]
    outer: tuple[Symbol, ...]
    columns: tuple[Symbol, ...]
    blocked: bool
    compared_places: frozenset[int]
    """Positions along the lanes that are only compared with what all lanes share: which lane it is tells, in 32 bits."""

    @property
    def lane_in_rows(self) -> bool:
        return self.lane in self.group.rows

    def varies(self, value: int) -> bool:
        return self.lane is not None and self.lane in self.depends[value]

    @property
    def overlaps(self) -> bool:
        """Whether the last step of the lane loop goes back over lanes of the step before, instead of doing part of the
        lanes. It writes them again, so nothing may be changed in place."""
        if self.lane is None or isinstance(self.lane.extent, Size):
            return False
        if self.lane.extent % self.lanes == 0 or self.lane.extent < self.lanes:
            return False
        adds = any(isinstance(op, Store) and op.mode == "add" for op in self.group.body)
        return not adds and not self.group.in_place

    @property
    def fills_lanes(self) -> bool:
        """Whether the lane loop's steps are all whole, for all sizes."""
        return is_multiple(self.lane.extent, self.lanes)

    @property
    def ends_in_part(self) -> bool:
        """Whether whole steps of the lane loop are followed by one of part of the lanes, for some sizes."""
        return self.has_whole_and_part and not self.overlaps

    @property
    def has_whole_and_part(self) -> bool:
        """Whether some steps of the lane loop are whole, and the last one may be of part of the lanes."""
        few = not isinstance(self.lane.extent, Size) and self.lane.extent < self.lanes
        return not self.fills_lanes and not few

    @property
    def items(self) -> Extent:
        """How many parallel items a kernel call is divided into."""
        if self.blocked:
            return blocks_of(self.lane.extent, self.lanes)
        return product(symbol.extent for symbol in self.outer)


def choose(group: FusionGroup, vector_bytes: int) -> Nest:
    depends = _dependencies(group)
    lane = _lane(group, depends)
    arrangement = arrange(group.body, group.columns)
    widest = 4
    compared = frozenset() if lane is None else _compared_places(group, lane, depends)
    places = _places_of_random(group) | compared
    for number, operation in enumerate(group.body):
        if lane is not None and lane in depends[number] and not isinstance(operation, Store) and number not in places:
            element = ELEMENT.get(operation.dtype, "f32")
            widest = 8 if operation.dtype in WIDE or element in ("f64", "i64") else widest
    outer = tuple(s for s in group.rows if s != lane)
    columns = tuple(s for s in group.columns if s != lane)
    if lane is not None and lane in group.columns:
        columns = (*columns, lane)
    blocked = lane in group.rows and _estimate(outer) < FEW_ROWS
    return Nest(group, arrangement, lane, vector_bytes // widest, depends, outer, columns, blocked, compared)


def _places_of_random(group: FusionGroup) -> frozenset[int]:
    """Index values that only random numbers read: of those, the first lane's is used, or each by itself."""
    random = [op for op in group.body if isinstance(op, Compute) and op.name == "random"]
    others = {a for op in group.body if op not in random for a in op.arguments}
    return frozenset(op.arguments[2] for op in random) - others


def _compared_places(group: FusionGroup, lane: Symbol, depends: tuple[frozenset[Symbol], ...]) -> frozenset[int]:
    body = group.body
    found = {
        number
        for number, op in enumerate(body)
        if isinstance(op, IndexValue)
        and op.dtype is torch.int64
        and is_constant(op.index.coefficient(lane), 1)
        and not appears_inside(op.index, lane)
        and not any(lane in depends[value] for value in op.index.loaded)
    }
    for op in body:
        for number in found.intersection(op.arguments):
            others = [argument for argument in op.arguments if argument != number]
            is_compared = isinstance(op, Compute) and op.name in COMPARISONS and len(others) == 1
            if not is_compared or lane in depends[others[0]] or body[others[0]].dtype is not torch.int64:
                found.discard(number)
    return frozenset(found)


def _dependencies(group: FusionGroup) -> tuple[frozenset[Symbol], ...]:
    depends: list[frozenset[Symbol]] = []
    columns = frozenset(group.columns)
    for operation in group.body:
        own: frozenset[Symbol] = frozenset().union(*(depends[a] for a in operation.arguments))
        index = index_of(operation)
        if index is not None:
            own |= index.symbols
        depends.append(own - columns if isinstance(operation, Reduce) else own)
    return tuple(depends)


def _lane(group: FusionGroup, depends: tuple[frozenset[Symbol], ...]) -> Symbol | None:
    """The loop along which most memory is contiguous."""
    loops = [s for s in (*group.rows, *group.columns) if not is_constant(s.extent, 1)]
    if not loops:
        return None
    inner = loops[-1]
    return max(loops, key=lambda s: (_score(group, depends, s), s == inner))


def _score(group: FusionGroup, depends: tuple[frozenset[Symbol], ...], symbol: Symbol) -> float:
    """What is read in whole vectors counts once for each of its elements, what is picked element by element as often as that is done, which
    is for all loops where something of each of them is computed with it."""
    score, levels = 0.0, arrange(group.body, group.columns).levels
    for number, operation in enumerate(group.body):
        if isinstance(operation, (Load, Store)) and symbol in operation.index.symbols | depends[number]:
            worth = _worth(operation.index, symbol, group, depends)
            loops = (*group.rows, *group.columns) if levels[number] == "element" else group.rows
            score += worth * _estimate(depends[number] if worth > 0 else loops)
    if nominal(symbol.extent) < SHORTEST_LANES:
        score = min(score * 0.1, score)
    return score


def _worth(index: Index, symbol: Symbol, group: FusionGroup, depends: tuple[frozenset[Symbol], ...]) -> float:
    """Whole vectors, such of which lanes are picked, or element by element."""
    if contiguous(index, symbol, group, depends):
        return 1.0
    return IN_STEPS if lane_step(index, symbol, depends) else -1.0


def lane_step(index: Index, symbol: Symbol, depends: tuple[frozenset[Symbol], ...]) -> int:
    """How far apart in memory neighbouring lanes are, where vectors are read and written whole and lanes picked; else 0."""
    if appears_inside(index, symbol) or any(symbol in depends[value] for value in index.loaded):
        return 0
    step = index.coefficient(symbol)
    return step if step.__class__ is int and 2 <= step <= LONGEST_STEP else 0  # type: ignore[operator, return-value]


def contiguous(index: Index, symbol: Symbol, group: FusionGroup, depends: tuple[frozenset[Symbol], ...]) -> bool:
    """Whether neighbouring lanes are neighbours in memory: coefficient 1, and the symbol nowhere else in the index."""
    if not is_constant(index.coefficient(symbol), 1):
        return False
    return not appears_inside(index, symbol) and not any(symbol in depends[v] for v in index.loaded)


def appears_inside(index: Index, symbol: Symbol) -> bool:
    """Whether a quotient or remainder in the index depends on the symbol."""
    return any(symbol in a.dividend.symbols for a, _ in index.terms if hasattr(a, "dividend"))


def _estimate(symbols: object) -> int:
    """How many elements these loops have, for weighing: the kernel is right whatever they have."""
    return nominal_product(symbol.extent for symbol in symbols)
