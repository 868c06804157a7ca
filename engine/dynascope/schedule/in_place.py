"""New contents of inputs, written straight into the inputs' memory.

    x.mul_(2)             the graph returns mul, which is copied to x     ->     the kernel writes to x, and the graph returns x
    cache[:, pos] = k     the graph returns a copy of the cache, but for a part     ->     the kernel writes that part

    written_in_place(schedule, ((0, 0),))       output 0 is what input 0 is to hold

A kernel may write to an input where no step after it reads what was there, and where it reads each element before the same
iteration writes it. If something raises after the first write, the region runs once more as it was written: so nothing may raise
from there on, unless the program never reads what was there, and has written before it comes to what raises. Then writing
the same again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from dynascope.loops.index import Index
from dynascope.loops.lower.numbers import item_of
from dynascope.loops.nodes import Body, Buffer, CheckIndex, ExternCall, Load, Origin, Store, TensorView
from dynascope.loops.regions import apart, region
from dynascope.schedule import memory
from dynascope.schedule.emission import finished
from dynascope.schedule.groups import FusionGroup, ScatterGroup, Schedule, Step
from dynascope.schedule.inline_plan import views_in
from dynascope.schedule.last_writes import Mutations, same_memory, targets_of
from dynascope.schedule.nests import shaped
from dynascope.schedule.partial_writes import narrowed
from dynascope.schedule.passes import arrange
from dynascope.schedule.renaming import reading, renamed
from dynascope.schedule.shared_memory import copied, writing

# Library calls that raise for sizes and types only. Others look at values: a matrix is singular, a probability is negative.
_BY_SIZE = """
    mm addmm addmm_ bmm baddbmm baddbmm_ addmv mv dot convolution convolution_backward _scaled_dot_product_flash_attention_for_cpu
    native_batch_norm _native_batch_norm_legit native_dropout rand randn rand_like randn_like cumsum cumprod sort topk
    max_pool2d_with_indices _adaptive_avg_pool2d avg_pool2d upsample_bilinear2d upsample_nearest2d empty_like clone copy
    _to_copy cat constant_pad_nd _fft_r2c _fft_c2c _fft_c2r copy_
"""
NEVER_RAISES = frozenset(f"aten.{name}" for name in _BY_SIZE.split())


def written_in_place(schedule: Schedule, mutations: Sequence[tuple[int, int]]) -> Schedule:
    """The schedule in which those outputs that can be are their inputs."""
    targets = dict(_targets(schedule, mutations))
    if not targets:
        return schedule
    work = _Work(schedule)
    # The last first: a step that allocates nothing any more stands in nobody's way.
    for number in range(len(work.steps) - 1, -1, -1):
        if number < len(work.steps):
            work.rewrite(number, targets)
    if not work.names:
        return schedule
    program = replace(schedule.program, outputs=tuple(renamed(output, work.names) for output in schedule.outputs))
    return memory.plan(program, tuple(work.steps), schedule.borders)


def _targets(schedule: Schedule, mutations: Mutations) -> Iterator[tuple[str, Buffer]]:
    """(result, the input that it may be), as far as their memory tells."""
    made = {name for step in schedule.steps for name in memory.makes(step)}
    found = targets_of(mutations, schedule.program.inputs, schedule.outputs, schedule.buffers)
    return ((result, target) for result, target in found if target.name not in made)


class _Work:
    """The steps so far. Of a step that was rewritten, all later ones read the input instead of the result: `names` has that of each."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule, self.steps = schedule, list(schedule.steps)
        self.names: dict[str, str] = {}
        self.place = {node.origin.node: place for place, node in enumerate(schedule.program.nodes)}
        self._look()

    def _look(self) -> None:
        """Where buffers are read and made, and which steps may raise or allocate, by the numbers of the steps: a graph that writes many
        inputs asks for each of them."""
        self.readers: dict[str, set[int]] = {}
        self.makers: dict[str, set[int]] = {}
        self.checking: set[int] = set()
        self.looking_calls: set[int] = set()
        self.allocating: set[int] = set()
        for number in range(len(self.steps)):
            self._note(number)

    def _note(self, number: int) -> None:
        step, is_call = self.steps[number], isinstance(self.steps[number], ExternCall)
        made = memory.makes(step)
        for name in memory.reads(step):
            self.readers.setdefault(name, set()).add(number)
        for name in made:
            self.makers.setdefault(name, set()).add(number)
        if _raising(step):
            (self.looking_calls if is_call else self.checking).add(number)
        if is_call or any(self.schedule.buffers[name].role == "temporary" for name in made):
            self.allocating.add(number)

    def _put(self, number: int, step: Step) -> None:
        """Another step in place of one."""
        for name in memory.reads(self.steps[number]):
            self.readers[name].discard(number)
        for name in memory.makes(self.steps[number]):
            self.makers[name].discard(number)
        for numbers in (self.checking, self.looking_calls, self.allocating):
            numbers.discard(number)
        self.steps[number] = step
        self._note(number)

    def rewrite(self, number: int, targets: Mapping[str, Buffer]) -> None:
        step = self.steps[number]
        if isinstance(step, ExternCall):
            self._call(number, step, targets)
        elif isinstance(step, ScatterGroup):
            self._scatter(number, step, targets.get(step.node.result.name))
        elif not self._written_parts(number, step, targets) and not self._part(number, step, targets):
            for name in step.writes:
                if name in targets:
                    self._whole(number, self.steps[number], targets[name], name)

    def _written_parts(self, number: int, copy: FusionGroup, targets: Mapping[str, Buffer]) -> bool:
        """A copy of an input, of which steps write parts: they write these in the input, and the copy goes."""
        target, result = copied(copy) or ("", "")
        writers = sorted(self.makers.get(result, set()) - {number})
        if not writers or result not in targets or targets[result].name != target or not self._can_be_read(result, number):
            return False
        if not all(isinstance(step := self.steps[n], FusionGroup) and result in step.parts for n in writers):
            return False
        others = sorted(self.readers.get(target, set()) - {number})
        if not all(n < writers[0] or self._reads_elsewhere(n, target, result, writers) for n in others):
            return False
        if others or self.readers.get(result):
            if not self._nothing_raises_after(writers):
                return False
        elif self._raises_sooner(self._raising_from(writers[0]), [self._write_origin(n, result) for n in writers]):
            return False
        for n in writers:
            step = self.steps[n]
            assert isinstance(step, FusionGroup)
            self._put(n, writing(step, {result: target}, (step.parts - {result}) | {target}))
        self._rename({result: target})
        for n in writers:  # what read the result reads what it writes by now
            step = self.steps[n]
            assert isinstance(step, FusionGroup)
            self._put(n, replace(step, in_place=frozenset(step.reads) & frozenset(step.writes)))
        del self.steps[number]
        self._look()
        return True

    def _nothing_raises_after(self, writers: Sequence[int]) -> bool:
        """Whether inputs may be changed by these steps though what they held is read: nothing may raise any more."""
        first = writers[0]
        if self.checking or max(self.looking_calls, default=-1) > first:
            return False
        steps = [self.steps[n] for n in writers]
        allocating = (n for n, step in zip(writers, steps, strict=True) if isinstance(step, FusionGroup) and len(step.writes) > 1)
        last = max((*allocating, *self.allocating.difference(writers)), default=-1)
        is_many = any(isinstance(step, FusionGroup) and step.columns for step in steps)
        return all(s.device is None or s.device.type == "cpu" for s in steps) or not (is_many or last > first)

    def _reads_elsewhere(self, number: int, target: str, result: str, writers: Sequence[int]) -> bool:
        """Whether a step reads nothing of a target that the writers write over, but for each iteration its own element, before."""
        step, buffer = self.steps[number], self.schedule.buffers[target]
        for n in writers:
            writer = self.steps[n]
            assert isinstance(writer, FusionGroup)
            for at, op in enumerate(writer.body):
                if not isinstance(op, Store) or op.buffer != result:
                    continue
                written = region(op.index, buffer)
                for place, index in _places_read(step, target):
                    is_own = n == number and not writer.columns and index == op.index and place < at
                    if not is_own and (index is None or not apart(region(index, buffer), written)):
                        return False
        return True

    def _write_origin(self, number: int, result: str) -> Origin:
        step = self.steps[number]
        assert isinstance(step, FusionGroup)
        return next(op.origin for op in step.body if isinstance(op, Store) and op.buffer == result)

    def _part(self, number: int, group: FusionGroup, targets: Mapping[str, Buffer]) -> bool:
        """All that the group writes are parts of inputs. What is written is read by nobody else, or by nobody later."""
        if group.plain is None:
            return False
        body, rows = group.plain
        names = {op.buffer: targets[op.buffer].name for op in body if isinstance(op, Store) and op.buffer in targets}
        if len(names) != sum(isinstance(op, Store) for op in body):
            return False
        found = narrowed(body, rows, names)
        same_body = [n for n, step in enumerate(self.steps) if isinstance(step, FusionGroup) and step.plain is group.plain]
        if found is None or not all(self._can_be_read(name, same_body[-1]) for name in names):
            return False
        part = finished(group.device, *shaped(*found, ()))
        read = {name for name in names.values() if name in part.reads or self.readers.get(name, set()) - {*same_body}}
        if read:
            own = read.intersection(part.reads)
            if not all(reads_before(part, name, name) for name in own) or not self._ends_well(same_body[-1], part, read):
                return False
            part = replace(part, in_place=frozenset(own))
        else:
            writes = [op.origin for op in part.body if isinstance(op, Store)]
            if self._raises_sooner([part, *self._raising_from(same_body[-1] + 1)], writes):
                return False
        self._put(same_body[-1], part)
        for n in reversed(same_body[:-1]):
            del self.steps[n]
        if same_body[:-1]:
            self._look()
        self._rename(names)
        return True

    def _scatter(self, number: int, step: ScatterGroup, target: Buffer | None) -> None:
        if target is None or step.node.base != target.name or step.node.mode != "set":
            return
        result = step.node.result.name
        if self._is_written_over(result):
            return
        if target.name in step.group.reads or self._is_read_elsewhere(target.name, step) or not self._can_be_read(result, number):
            return
        if self._raises_sooner(self._raising_from(number), [step.node.origin]):
            return
        self._put(number, ScatterGroup(storing_to(step.group, result, target.name), replace(step.node, result=target)))
        self._rename({result: target.name})

    def _call(self, number: int, call: ExternCall, targets: Mapping[str, Buffer]) -> None:
        """A library call that makes a changed copy of an input: the one that changes the input."""
        made = [result.name for result in call.results if result is not None]
        changes = _in_place_twin(call)
        if changes is None or len(made) != 1 or made[0] not in targets:
            return
        (result,), target, first = made, targets[made[0]], call.arguments[0]
        is_whole = isinstance(first, TensorView) and first.buffer == target.name and same_memory(target, target, first)
        reads = [view.buffer for view in views_in((call.arguments, call.keywords))]
        if not is_whole or reads.count(target.name) != 1 or self._is_written_over(result) or not self._can_be_read(result, number):
            return
        if self._is_read_elsewhere(target.name, call):
            if not self._ends_well(number, call, {target.name}):
                return
        elif self._raises_sooner(self._raising_from(number + 1), [call.origin]):
            return
        self._put(number, replace(changes, results=(None,)))
        self._rename({result: target.name})

    def _whole(self, number: int, group: Step, target: Buffer, result: str) -> None:
        """Where the old contents are read: by nobody later, and nothing may raise any more."""
        if self._is_written_over(result):
            return
        if not isinstance(group, FusionGroup) or result in group.reads or not reads_before(group, target.name, result):
            return
        if self._can_be_read(result, number) and self._ends_well(number, group, {target.name}):
            self._put(number, storing_to(group, result, target.name))
            self._rename({result: target.name})

    def _ends_well(self, number: int, step: Step, targets: set[str]) -> bool:
        """Whether a step may change inputs whose old contents are read: by nobody later, and nothing may raise any more."""
        if self.checking or any(number < other for target in targets for other in self.readers.get(target, ())):
            return False
        if max(self.looking_calls, default=-1) > number:
            return False
        # Memory of a GPU ends sooner, and of many programs one may read what another has written.
        is_many = isinstance(step, FusionGroup) and bool(step.columns)
        return step.device is None or step.device.type == "cpu" or not (is_many or max(self.allocating, default=-1) > number)

    def _raises_sooner(self, steps: Sequence[Step], writes: Sequence[Origin]) -> bool:
        """Whether one of the steps may raise for what the program computes before these writes."""
        first = min(self.place.get(write.node, -1) for write in writes)
        return any(self.place.get(origin.node, -1) < first for step in steps for origin in _raising(step))

    def _raising_from(self, number: int) -> list[Step]:
        return [self.steps[other] for other in sorted(self.checking | self.looking_calls) if other >= number]

    def _is_written_over(self, result: str) -> bool:
        """Whether several steps write it, each a part."""
        return len(self.makers.get(result, ())) != 1

    def _is_read_elsewhere(self, name: str, own: Step) -> bool:
        return any(self.steps[number] is not own for number in self.readers.get(name, ()))

    def _can_be_read(self, result: str, number: int) -> bool:
        """Whether the steps after it can read an input in place of the result: not where one may hand on a view of it."""
        readers = [self.steps[other] for other in self.readers.get(result, ()) if other > number]
        return not any(
            isinstance(step, ScatterGroup) or (isinstance(step, ExternCall) and memory.may_return_view(step)) for step in readers
        )

    def _rename(self, names: Mapping[str, str]) -> None:
        self.names |= names
        for number in sorted({number for name in names for number in self.readers.get(name, ())}):
            self._put(number, reading(self.steps[number], names))


_SETS = frozenset(f"aten.{name}" for name in ("index_copy", "index_put", "scatter", "masked_fill", "masked_scatter"))
"""Library calls that put values into a copy of their first operand: to do it again changes nothing."""


def _in_place_twin(call: ExternCall) -> ExternCall | None:
    """The call that does to its first operand what this one does to a copy."""
    packet = getattr(call.operator, "overloadpacket", None)
    if call.operator is torch.ops.aten.slice_scatter.default:
        return _copy_to_slice(call)
    if str(packet) not in _SETS or (str(packet) == "aten.index_put" and len(call.arguments) > 3 and call.arguments[3]):
        return None
    twin = getattr(torch.ops.aten, f"{packet.__name__}_", None)
    overload = call.operator._overloadname
    if twin is None or overload not in twin.overloads() or "reduce" in overload or call.keywords:
        return None
    return replace(call, operator=getattr(twin, overload))


def _copy_to_slice(call: ExternCall) -> ExternCall | None:
    """`slice_scatter` with a step, as the copy to what the slice shows."""
    (base, values, *given), defaults = call.arguments, (0, None, None, 1)
    dimension, first, last, step = (*given, *defaults[len(given) :])
    extents = (*base.sizes, *base.strides, base.offset, *values.sizes)
    if call.keywords or not all(isinstance(number, int) for number in (dimension, step, *extents)):
        return None
    if not all(number is None or isinstance(number, int) for number in (first, last)):
        return None
    dimension %= len(base.sizes)
    places = range(base.sizes[dimension])[first:last:step]
    strides = tuple(stride * step if d == dimension else stride for d, stride in enumerate(base.strides))
    sizes = tuple(len(places) if d == dimension else size for d, size in enumerate(base.sizes))
    if sizes != values.sizes or not places:
        return None
    part = replace(base, sizes=sizes, strides=strides, offset=base.offset + places.start * base.strides[dimension])
    return replace(call, operator=torch.ops.aten.copy_.default, arguments=(part, values))


def _places_read(step: Step, name: str) -> Iterator[tuple[int, Index | None]]:
    """Where a step reads a buffer, and at which place of its body. None is anywhere."""
    if not isinstance(step, FusionGroup):
        yield 0, None
        return
    yield from ((at, op.index) for at, op in enumerate(step.body) if isinstance(op, Load) and op.buffer == name)


def _only_by_size(call: ExternCall) -> bool:
    return call.operator is item_of or str(getattr(call.operator, "overloadpacket", call.operator)) in NEVER_RAISES


def _raising(step: Step) -> list[Origin]:
    """What may raise in a step for what it reads. What a kernel finds on a GPU ends the process."""
    if isinstance(step, ExternCall):
        return [] if _only_by_size(step) else [step.origin]
    group = step if isinstance(step, FusionGroup) else step.group
    return [op.origin for op in group.body if isinstance(op, CheckIndex)] if group.device.type == "cpu" else []


def reads_before(group: FusionGroup, target: str, result: str) -> bool:
    """Whether each element of the target is read before its place is written, by the iteration that writes it, once."""
    if group.product is not None and target in group.product.buffers:
        return False
    stores = [n for n, op in enumerate(group.body) if isinstance(op, Store) and op.buffer == result]
    loads = [n for n, op in enumerate(group.body) if isinstance(op, Load) and op.buffer == target]
    if len(stores) != 1 or group.body[stores[0]].mode != "set":
        return False
    (store,) = stores
    if any(n > store or group.body[n].index != group.body[store].index for n in loads):
        return False
    arrangement = arrange(group.body, group.columns)
    if any(arrangement.levels[n] != arrangement.levels[store] for n in loads):
        return False
    return not loads or arrangement.pass_count < 2


def storing_to(group: FusionGroup, result: str, target: str) -> FusionGroup:
    """The group, writing to one buffer in place of another."""
    body: Body = tuple(
        replace(op, buffer=target) if isinstance(op, Store) and op.buffer == result else op for op in group.body
    )
    writes = tuple(target if name == result else name for name in group.writes)
    in_place = group.in_place | ({target} if target in group.reads else set())
    return replace(group, body=body, writes=writes, in_place=frozenset(in_place), plain=None)
