"""Whether a schedule keeps the promises of `groups.py`: what each kernel reads is there, what it writes it writes once, and memory that
one buffer took over from another is needed by nobody else.

    verify_schedule(schedule)                     raises Invalid

For tests, as `loops/verifying.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field

from dynascope.dataclass import dataclass
from dynascope.loops.index import Index, Symbol
from dynascope.loops.nodes import Argument, Body, Buffer, CheckIndex, ExternCall, Load, Operation, Reduce, Scan, Store
from dynascope.loops.regions import apart, region
from dynascope.loops.verifying import (
    POINTS,
    Invalid,
    distinct,
    points,
    value_at,
    verify_body,
    verify_views,
    views,
)
from dynascope.schedule.groups import Allocation, FusionGroup, ScatterGroup, Schedule, Step
from dynascope.schedule.last_writes import same_layout
from dynascope.schedule.memory import allocated_by, makes, may_return_view, reads
from dynascope.schedule.passes import arrange, index_of
from dynascope.sizes import hint_of


def verify_schedule(schedule: Schedule) -> None:
    """Raises Invalid."""
    for step in schedule.steps:
        if isinstance(step, ExternCall):
            verify_views((step.arguments, step.keywords), schedule.buffers, step.name)
        else:
            _verify_group(_group(step), schedule.buffers, is_scattered=isinstance(step, ScatterGroup))
    verify_views(schedule.outputs, schedule.buffers, "the result")
    _verify_coverage(schedule)
    _verify_memory(schedule)


def _group(step: FusionGroup | ScatterGroup) -> FusionGroup:
    return step.group if isinstance(step, ScatterGroup) else step


# -- one group


def _verify_group(group: FusionGroup, buffers: dict[str, Buffer], is_scattered: bool) -> None:
    symbols = (*group.rows, *group.columns)
    if len(set(symbols)) != len(symbols):
        raise Invalid(f"{group.name}: a loop stands twice among {', '.join(map(str, symbols))}")
    if 0 in (hint_of(symbol.extent) for symbol in symbols):
        return
    verify_body(group.body, symbols, buffers, group.name)
    for what, found, told in (
        ("reads", _read_by(group), set(group.reads)),
        ("writes", {op.buffer for op in group.body if isinstance(op, Store)}, set(group.writes)),
    ):
        if found != told:
            raise Invalid(f"{group.name} {what} {_named(found)} and is said to: {_named(told)}")
    numbers = {op.name for op in group.body if isinstance(op, Argument)}
    if not numbers <= set(group.scalars):
        raise Invalid(f"{group.name} takes {_named(numbers - set(group.scalars))}, which is not among its numbers")
    if group.checks_indices != any(isinstance(op, CheckIndex) for op in group.body):
        raise Invalid(f"{group.name}: checks_indices is {group.checks_indices}")
    _verify_levels(group)
    for name in set(group.reads) & set(group.writes):
        _verify_in_place(group, name, buffers)
    if not is_scattered:
        for store in group.body:
            if isinstance(store, Store) and store.mode == "set":
                _verify_once(group, store)


def _read_by(group: FusionGroup) -> set[str]:
    """Of a product that the kernel makes itself, its operands."""
    loaded = {op.buffer for op in group.body if isinstance(op, Load)}
    if group.product is None:
        return loaded
    return loaded - {group.product.name} | set(group.product.buffers)


def _named(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _verify_levels(group: FusionGroup) -> None:
    """What there is once for each element is neither written once a row nor left unreduced where nothing reduces."""
    if not group.columns:
        if any(isinstance(op, Reduce) for op in group.body):
            raise Invalid(f"{group.name} reduces, and has no columns")
        return
    inner = frozenset(group.columns)
    arrangement = arrange(group.body, group.columns)
    for number, op in enumerate(group.body):
        if isinstance(op, Scan) and group.device.type == "cpu":
            raise Invalid(f"{group.name}, %{number}: a scan on {group.device}")
        if isinstance(op, Store) and op.mode == "set":
            index = index_of(op)
            assert index is not None
            if arrangement.levels[op.value] == "element" and _covers(index, inner) is False:
                raise Invalid(f"{group.name}, %{number}: a value of each element is written to {op.buffer} once a row")


def _covers(index: Index, columns: frozenset[Symbol]) -> bool:
    counted = {symbol for symbol in columns if hint_of(symbol.extent) > 1}
    return counted <= index.symbols


def _verify_in_place(group: FusionGroup, name: str, buffers: dict[str, Buffer]) -> None:
    if name not in group.in_place:
        raise Invalid(f"{group.name} reads and writes {name}, and does not say so")
    stores = [n for n, op in enumerate(group.body) if isinstance(op, Store) and op.buffer == name]
    for number, op in enumerate(group.body):
        if not isinstance(op, Load) or op.buffer != name:
            continue
        for store in stores:
            if _are_apart(op, group.body[store], buffers[name]):
                continue
            if index_of(group.body[store]) != op.index:
                raise Invalid(f"{group.name}, %{number}: reads {name} at {op.index}, where another iteration writes")
            if number > store:
                raise Invalid(f"{group.name}, %{number}: reads {name} after it was written")


def _are_apart(load: Load, store: Operation, buffer: Buffer) -> bool:
    return isinstance(store, Store) and apart(region(load.index, buffer), region(store.index, buffer))


def _verify_once(group: FusionGroup, store: Store) -> None:
    """Two iterations do not write one place."""
    loops = _written_over(group.body, store, group.rows, group.columns)
    if _is_one_to_one(store.index, loops):
        return
    count = math.prod(hint_of(symbol.extent) for symbol in loops)
    if store.index.loaded or count > POINTS:
        return
    free = Index(tuple((symbol, 1) for symbol in loops))
    places = [value_at(store.index, values) for values in points(free)]
    if len(set(places)) != len(places):
        raise Invalid(f"{group.name} writes elements of {store.buffer} more than once: at {store.index}")


def _written_over(body: Body, store: Store, rows: tuple[Symbol, ...], columns: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
    inner = not frozenset(columns).isdisjoint(store.index.symbols)
    return (*rows, *columns) if inner else rows


def _is_one_to_one(index: Index, loops: Iterable[Symbol]) -> bool:
    """By strides: each is larger than all that the smaller ones reach together."""
    counted = {symbol for symbol in loops if hint_of(symbol.extent) > 1}
    if not all(isinstance(atom, Symbol) for atom, _ in index.terms) or not counted <= index.symbols:
        return False
    reach = 0
    for stride, extent in sorted((abs(hint_of(c)), hint_of(atom.extent)) for atom, c in index.terms):
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


# -- every element of a buffer


def _verify_coverage(schedule: Schedule) -> None:
    """What kernels make of a buffer, together, is all of it."""
    written: dict[str, int] = {}
    left_out = {name for step in schedule.steps if not isinstance(step, FusionGroup) for name in makes(step)}
    for step in schedule.steps:
        if not isinstance(step, FusionGroup):
            continue
        for op in step.body:
            if not isinstance(op, Store):
                continue
            if op.mode != "set" or op.index.loaded or op.buffer in step.parts:
                left_out.add(op.buffer)
            loops = _written_over(step.body, op, step.rows, step.columns)
            written[op.buffer] = written.get(op.buffer, 0) + math.prod(hint_of(symbol.extent) for symbol in loops)
    for name, count in written.items():
        buffer = schedule.buffers[name]
        if name not in left_out and buffer.role == "temporary" and count != distinct(buffer):
            raise Invalid(f"{count} elements of {name} are written, of {distinct(buffer)}")


# -- memory


@dataclass(slots=True)
class _Memory:
    """Which buffers are there before a step, which are gone, and what may still be seen through another tensor."""

    present: set[str]
    gone: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    """Whose memory is another buffer's by now."""
    seen_through: set[str] = field(default_factory=set)


def _verify_memory(schedule: Schedule) -> None:
    given = {i.name for i in schedule.program.inputs if isinstance(i, Buffer)} | set(schedule.program.constants)
    memory = _Memory(set(given))
    allocations: dict[int, list[Allocation]] = {}
    for allocation in schedule.allocations:
        allocations.setdefault(allocation.before, []).append(allocation)
    releases: dict[int, list[str]] = {}
    for number, name in schedule.releases:
        releases.setdefault(number, []).append(name)
    returned = {view.buffer for view in views(schedule.outputs)}
    for number, step in enumerate(schedule.steps):
        _verify_reads(step, memory)
        for allocation in allocations.get(number, ()):
            _verify_allocation(allocation, step, memory, schedule, returned, releases.get(number, []))
        _verify_writes(step, memory, schedule)
        for name in releases.get(number, ()):
            if name in returned or name in given or name not in memory.present | memory.taken:
                raise Invalid(f"{name} is released after {_title(step)}, and is still needed or never was there")
            memory.present.discard(name)
            memory.gone.add(name)
    missing = returned - memory.present
    if missing:
        raise Invalid(f"{_named(missing)} is returned, and not there at the end")


def _title(step: Step) -> str:
    return step.name if isinstance(step, ExternCall) else _group(step).name


def _verify_reads(step: Step, memory: _Memory) -> None:
    for name in reads(step):
        if name in memory.gone:
            raise Invalid(f"{_title(step)} reads {name}, whose memory was given away")
        if name not in memory.present:
            raise Invalid(f"{_title(step)} reads {name}, which nobody has made")
    if isinstance(step, ExternCall) and may_return_view(step):
        memory.seen_through.update(reads(step))


def _verify_writes(step: Step, memory: _Memory, schedule: Schedule) -> None:
    for name in allocated_by(step):
        if name not in memory.present and name not in memory.gone:
            raise Invalid(f"{_title(step)} writes {name}, for which there is no memory")
    if isinstance(step, ExternCall):
        memory.present.update(makes(step))


def _verify_allocation(
    allocation: Allocation, step: Step, memory: _Memory, schedule: Schedule, returned: set[str], dying: list[str]
) -> None:
    name, old = allocation.buffer, allocation.reuses
    if name in memory.present or name in memory.gone:
        raise Invalid(f"{name} is allocated twice")
    memory.present.add(name)
    if old is None:
        return
    one, other = schedule.buffers[name], schedule.buffers[old]
    is_base = isinstance(step, ScatterGroup) and step.node.base == old and old not in step.group.reads and old in dying
    if old in returned or old in memory.seen_through or old in memory.taken or not (old in memory.gone or is_base):
        raise Invalid(f"{name} takes the memory of {old}, which is needed after {_title(step)}")
    if not same_layout(one, other):
        raise Invalid(f"{name} takes the memory of {old}, which is laid out otherwise")
    memory.present.discard(old)
    memory.gone.add(old)
    memory.taken.add(old)
