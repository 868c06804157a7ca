"""What is written in part is written into the memory of what it was before.

    a1 = a, with u written to rows 1:5          ->      u is stored to rows 1:5 of a, which is called a1 from then on
    the same, and a is returned, or an input    ->      a1 = copy of a; u is stored to rows 1:5 of a1

    with_shared_memory(program, steps)  ->  both, with one name for each memory

Only where nobody reads later what was written over, which the order of the steps tells: fusion puts who reads it before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dynascope.dataclass import dataclass
from dynascope.loops.index import Index, Symbol, affine
from dynascope.loops.nodes import Buffer, ExternCall, Load, LoopProgram, Store, views_in
from dynascope.loops.regions import region
from dynascope.schedule import memory
from dynascope.schedule.emission import finished
from dynascope.schedule.groups import FusionGroup, ScatterGroup, Step
from dynascope.schedule.nests import shaped
from dynascope.schedule.renaming import reading, renamed
from dynascope.schedule.versions import Access, Versions, note
from dynascope.sizes import is_constant

_NEW = """
    mm addmm bmm baddbmm convolution empty empty_like new_empty empty_strided new_empty_strided empty_permuted cumsum cumprod sort topk
    native_layer_norm index_select gather randn rand randn_like rand_like
"""
MAKES_NEW = frozenset(f"aten.{name}" for name in _NEW.split())
"""Library calls whose results are memory of their own, whatever their operands."""


def with_shared_memory(program: LoopProgram, steps: tuple[Step, ...]) -> tuple[LoopProgram, tuple[Step, ...]]:
    if not any(isinstance(step, FusionGroup) and step.bases for step in steps):
        return program, steps
    work = _Work(program, steps)
    found: list[Step] = []
    for number, step in enumerate(steps):
        if isinstance(step, FusionGroup):
            found += work.copies(number, step)
        found.append(step)
    named = tuple(_named(step, work.names) for step in found)
    return replace(program, outputs=tuple(renamed(output, work.names) for output in program.outputs)), named


@dataclass(frozen=True, slots=True)
class _Place:
    """What a step does to an element: where in the program, and where in the step's body."""

    step: int
    at: int
    access: Access


class _Work:
    """`names` has of each state of a memory the name that the memory got."""

    def __init__(self, program: LoopProgram, steps: tuple[Step, ...]) -> None:
        self.program, self.steps = program, steps
        self.names: dict[str, str] = {}
        self.versions = Versions(program.buffers)
        for step in steps:
            for result, base in getattr(step, "bases", ()):
                if result not in self.versions.memory:
                    note(self.versions, result, base)
        self.returned = {view.buffer for view in views_in(program.outputs)}
        self.viewed = {n for step in steps if isinstance(step, ExternCall) and memory.may_return_view(step) for n in memory.reads(step)}
        self.makers = {name: step for step in reversed(steps) for name in memory.makes(step)}
        self.reads: dict[str, list[_Place]] = {}
        self.writes: dict[str, list[_Place]] = {}
        for number, step in enumerate(steps):
            for at, access in _accesses(step, self.versions):
                places = self.writes if access.is_write else self.reads
                places.setdefault(access.buffer, []).append(_Place(number, at, access))

    def copies(self, number: int, step: FusionGroup) -> Iterator[FusionGroup]:
        """The copies that are made before a step, of what its results begin as."""
        for result, base in step.bases:
            if result in self.names:
                continue
            source = self.names.get(base, base)
            if self._takes(result, base, source):
                self.names[result] = source
                continue
            if base in step.writes:
                raise AssertionError(f"{step.name} makes {base} and {result}, and the one is needed beside the other")
            self.names[result] = result
            yield _copy(self.program.buffers[source], self.program.buffers[result], step)

    def _takes(self, result: str, base: str, source: str) -> bool:
        """Whether the memory of the base becomes the result's."""
        states = {name for name in self.versions.memory if self.names.get(name, name) == source}
        if self.program.buffers[source].role != "temporary" or states & (self.returned | self.viewed):
            return False
        if result in self.viewed or not self._is_own_memory(source):
            return False
        return all(self._is_over(place, result) for name in states for place in self.reads.get(name, ()))

    def _is_own_memory(self, name: str) -> bool:
        maker = self.makers.get(name)
        if not isinstance(maker, ExternCall):
            return maker is not None
        return str(getattr(maker.operator, "overloadpacket", "")) in MAKES_NEW

    def _is_over(self, place: _Place, result: str) -> bool:
        """Whether the result's writes leave alone what is read there, or come after it."""
        if place.access.buffer == result:
            return True
        writes = self.writes[result]
        if place.step < min(write.step for write in writes):
            return True
        return all(_is_before(place, write) or not place.access.meets(write.access) for write in writes)


def _is_before(read: _Place, write: _Place) -> bool:
    """Whether each iteration of one step reads an element before it writes that."""
    return read.step == write.step and read.at < write.at and read.access.index == write.access.index


def _accesses(step: Step, versions: Versions) -> Iterator[tuple[int, Access]]:
    if isinstance(step, ExternCall):
        yield from ((0, access) for access in versions.accesses(step))
        return
    group = step.group if isinstance(step, ScatterGroup) else step
    for at, op in enumerate(group.body):
        if isinstance(op, (Load, Store)) and op.buffer in versions.memory:
            is_write = isinstance(op, Store)
            yield at, Access(op.buffer, region(op.index, versions.buffers[op.buffer]), None if group.columns else op.index, is_write)
    if isinstance(step, ScatterGroup) and step.node.base in versions.memory:
        yield 0, Access(step.node.base, None, None, False)


def _copy(source: Buffer, result: Buffer, step: FusionGroup) -> FusionGroup:
    origin = next(op.origin for op in step.body if isinstance(op, Store) and op.buffer == result.name)
    loops = [(Symbol(f"i{d}", size), stride) for d, (size, stride) in enumerate(zip(result.sizes, result.strides, strict=True))]
    loops = [(symbol, stride) for symbol, stride in loops if not is_constant(symbol.extent, 1)]
    index: Index = affine(dict(loops))
    body = Load(source.dtype, (), origin, source.name, index), Store(result.dtype, (0,), origin, result.name, index)
    return finished(step.device, *shaped(body, tuple(symbol for symbol, _ in loops), ()))


def copied(step: Step) -> tuple[str, str] | None:
    """(source, result) of a step that only copies a whole buffer."""
    if not isinstance(step, FusionGroup) or len(step.body) != 2:
        return None
    first, second = step.body
    if isinstance(first, Load) and isinstance(second, Store) and first.guard is None and first.index == second.index and not step.parts:
        return first.buffer, second.buffer
    return None


def _named(step: Step, names: Mapping[str, str]) -> Step:
    """The step, with one name for each memory."""
    step = reading(step, names)
    if not isinstance(step, FusionGroup) or not any(name in names for name in step.writes):
        return step
    parts = {names[result] for result, _ in step.bases}
    return writing(replace(step, bases=()), names, parts)


def writing(group: FusionGroup, names: Mapping[str, str], parts: set[str]) -> FusionGroup:
    """The group, writing to other buffers, to some of them a part."""
    body = tuple(replace(op, buffer=names.get(op.buffer, op.buffer)) if isinstance(op, Store) else op for op in group.body)
    writes = tuple(dict.fromkeys(names.get(name, name) for name in group.writes))
    in_place = frozenset(writes) & frozenset(group.reads)
    return replace(group, body=body, writes=writes, in_place=in_place, parts=frozenset(parts), plain=None)
