"""What the program changed outside, replayed after the graph ran.

    self.count += 1        ->   object.__setattr__(self, "count", 4)
    cache.append(x)        ->   cache.extend([x])

Nothing foreign runs between two of the program's own writes, so only the last state of each object is written, and in
the order in which objects were first written to.
"""

from __future__ import annotations

import collections
import itertools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.lock_uses import LockUse, uses_of
from dynascope.capture.protocols.contents import is_deque
from dynascope.capture.protocols.gradient_requirements import RequirementValue
from dynascope.capture.reconstruct import Rebuilder
from dynascope.capture.set_orders import can_be_made, make_changes
from dynascope.capture.torch_state import Call
from dynascope.capture.values import (
    DELETED,
    CellValue,
    ConstantValue,
    DataValue,
    DictValue,
    GeneratorValue,
    GradientValue,
    InferenceModeValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    MutableValue,
    SetValue,
    TurnValue,
    Value,
    ZipValue,
)
from dynascope.dataclass import dataclass
from dynascope.frame.suspended import finish
from dynascope.guards.iterators import OF_DICTIONARIES
from dynascope.guards.source import CellSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@dataclass(frozen=True, slots=True, eq=False)
class Effects:
    """All that must be written, and the calls that set torch's own state as the program left it."""

    objects: tuple[MutableValue, ...]
    globals: tuple[tuple[dict | type, str, Value], ...]
    """Names of modules, and of classes."""
    own_globals: dict
    state: tuple[Call, ...]
    said: tuple[Call, ...] = ()
    """The program's own warnings, what it logs, and the hooks that it puts on tensors, in order."""
    modes: tuple[Value, ...] = ()
    """Function modes that are on at the end, and were not at the start."""
    ended: int = 0
    """How many of those on at the start are off."""
    entered: InferenceModeValue | None = None
    """Inference mode that is on at the end, and was not at the start: made when all else is there."""
    locks: tuple[LockUse, ...] = ()
    leaves: tuple[Value, ...] = ()
    """Results that require grad from then on."""

    def values(self) -> Iterable[Value]:
        """What must exist before the first write."""
        yield from (use.lock for use in self.locks)
        yield from self.leaves
        for value in self.objects:
            yield value
            yield from WRITTEN[type(value)](value)
        for _, _, value in self.globals:
            yield value
        for _, arguments in (*self.state, *self.said):
            yield from (argument for argument in arguments if isinstance(argument, Value))
        yield from self.modes
        if self.entered is not None:
            yield self.entered

    def __bool__(self) -> bool:
        changes = self.objects or self.globals or self.state or self.said or self.modes or self.ended or self.locks
        return bool(changes or self.leaves) or self.entered is not None

    def describe(self) -> tuple[str, ...]:
        """In the user's words: what is written."""
        places = [value.source.expression() for value in self.objects]
        return (*places, *(name for _, name, _ in self.globals))


def effects_of(machine: Machine, state: tuple[Call, ...], modes: tuple[Value, ...] = (), ended: int = 0) -> Effects:
    written = [value for value in machine.written if value.source is not None]
    # An `enumerate` takes items of the iterator below it, which is then put where it belongs, before its dictionary changes.
    written.sort(key=replayed_at)
    return Effects(
        tuple(written),
        tuple((owner, name, value) for (_, name), (owner, value) in machine.global_writes.items()),
        machine.values.globals,
        state,
        tuple(machine.said),
        modes,
        ended,
        entered_at_end(machine),
        uses_of(machine.locks),
    )


def replayed_at(value: Value) -> int:
    return 0 if isinstance(value, ZipValue) else 1 if isinstance(value, (IteratorValue, TurnValue)) else 2


def entered_at_end(machine: Machine) -> InferenceModeValue | None:
    last = machine.inference_steps[-1] if machine.inference_steps else None
    return last.value if last is not None and last.enters else None


def replay(effects: Effects, rebuilder: Rebuilder) -> None:
    """Writes the instructions. Every value was prepared before."""
    for leaf in effects.leaves:
        call(rebuilder, torch.Tensor.requires_grad_, leaf)
    for value in effects.objects:
        WRITERS[type(value)](rebuilder, value)
    for value in rebuilder.beyond:
        rebuilder.call_constant(set_position_in, value, ConstantValue(value.position), value.items)
        rebuilder.builder.pop()
    for owner, name, value in effects.globals:
        rebuilder.load(value)
        if isinstance(owner, type):
            rebuilder.call_constant(type.__setattr__, ConstantValue(owner), ConstantValue(name), value)
            rebuilder.builder.pop()
            rebuilder.builder.pop()
        elif owner is effects.own_globals:
            rebuilder.builder.store_global(name)
        else:
            rebuilder.builder.load_constant(owner)
            rebuilder.builder.load_constant(name)
            rebuilder.builder.store_subscript()
    for function, arguments in (*effects.state, *effects.said):
        call(rebuilder, function, *arguments)
    for _ in range(effects.ended):
        call(rebuilder, torch._C._pop_torch_function_stack)
    for mode in effects.modes:
        rebuilder.call_constant(torch._C._push_on_torch_function_stack, mode)
        rebuilder.builder.pop()


def call(rebuilder: Rebuilder, function: Any, *arguments: Any) -> None:
    rebuilder.builder.load_function(function)
    for argument in arguments:
        if isinstance(argument, Value):
            rebuilder.load(argument)
        else:
            rebuilder.builder.load_constant(argument)
    rebuilder.builder.call(len(arguments))
    rebuilder.builder.pop()


def changed_tail(value: ListValue) -> list[Value] | None:
    """What was appended, when nothing else happened to the list."""
    if value.is_unread:
        return value.added
    before = value.original
    if len(value.items) >= len(before) and all(a is b for a, b in zip(before, value.items, strict=False)):
        return value.items[len(before) :]
    return None


def changes_of(value: DictValue) -> tuple[list[Value], list[tuple[Value, Value]]] | None:
    """The keys that went, though some are there again, and what was set: where these make of what it held what it holds. An iterator
    over it that the program still has then finds what it would have found. None where it was cleared, or the order is another."""
    before, gone = value.original, value.gone
    if gone is None or not gone.issuperset(before.keys() - value.items.keys()):
        return None
    staying = {key: None for key in before if key not in gone}
    if list(value.items)[: len(staying)] != list(staying):
        return None
    pairs = [pair for key, pair in value.items.items() if key not in staying or before[key][1] is not pair[1]]
    return [key for hashed, (key, _) in before.items() if hashed in gone], pairs


def written_to_list(value: ListValue) -> Iterable[Value]:
    tail = changed_tail(value) if value.is_unread or not is_deque(value) else None
    return value.items if tail is None else tail


def written_to_dictionary(value: DictValue) -> Iterable[Value]:
    gone, pairs = changes_of(value) or ([], list(value.items.values()))
    return [*gone, *(part for pair in pairs for part in pair)]


def write_list(rebuilder: Rebuilder, value: ListValue) -> None:
    builder = rebuilder.builder
    tail = changed_tail(value)
    if is_deque(value) and not value.is_unread:
        if value.rearranged or len(value.items) != len(value.original):
            rebuilder.fill_deque(value)
            return
        for at, (before, item) in enumerate(zip(value.original, value.items, strict=True)):
            if item is not before:
                rebuilder.call_constant(operator.setitem, value, ConstantValue(at), item)
                builder.pop()
        return
    if value.is_unread and any(value.taken):
        rebuilder.call_constant(take_off, value, *map(ConstantValue, value.taken))
        builder.pop()
    if value.instance is not None:
        # Whatever a subclass makes of `[]`.
        extend = collections.deque.extend if is_deque(value) else list.extend
        builder.load_function(extend if tail is not None else list.__setitem__)
        rebuilder.load(value)
        if tail is None:
            builder.load_constant(slice(None))
        builder.build_list(rebuilder.load_all(value.items if tail is None else tail))
        builder.call(2 if tail is not None else 3)
        builder.pop()
        return
    builder.build_list(rebuilder.load_all(value.items if tail is None else tail))
    rebuilder.load(value)
    if tail is None:
        builder.load_constant(slice(None))
        builder.store_subscript()
        return
    builder.swap(2)
    builder.extend_list()
    builder.pop()


def take_off(target: list | collections.deque, first: int, last: int) -> None:
    if isinstance(target, list):
        del target[:first]
        del target[len(target) - last :]
        return
    for _ in range(first):
        target.popleft()
    for _ in range(last):
        target.pop()


def write_dictionary(rebuilder: Rebuilder, value: DictValue) -> None:
    builder = rebuilder.builder
    changes = changes_of(value)
    if changes is None:
        rebuilder.call_constant(value.cls.clear, value)
        builder.pop()
    gone, pairs = changes or ([], list(value.items.values()))
    for key in gone:
        rebuilder.call_constant(value.cls.__delitem__, value, key)
        builder.pop()
    for key, item in pairs:
        if value.instance is not None:
            rebuilder.call_constant(value.cls.__setitem__, value, key, item)
            builder.pop()
            continue
        rebuilder.load(item)
        rebuilder.load(value)
        rebuilder.load(key)
        builder.store_subscript()


def write_set(rebuilder: Rebuilder, value: SetValue) -> None:
    """By the very changes, where they can be made again: its order follows from them."""
    builder = rebuilder.builder
    if value.done and can_be_made(value.done):
        builder.load_function(make_changes)
        rebuilder.load(value)
        builder.load_constant(value.done)
        builder.call(2)
        builder.pop()
        return
    builder.load_function(refill_set)
    rebuilder.load(value)
    builder.build_tuple(rebuilder.load_all(value.items.values()))
    builder.call(2)
    builder.pop()


def refill_set(target: set, items: tuple) -> None:
    """What stays is not touched: the order of a set follows from what came and went."""
    staying = {(type(item), item) for item in items}
    gone = [item for item in target if (type(item), item) not in staying]
    if len(gone) == len(target):
        target.clear()
    for item in gone:
        target.discard(item)
    target.update(items)


def write_instance(rebuilder: Rebuilder, value: InstanceValue) -> None:
    builder = rebuilder.builder
    for name, item in value.attributes.items():
        if item is DELETED or name in value.moved:
            builder.load_function(object.__delattr__)
            rebuilder.load(value)
            builder.load_constant(name)
            builder.call(2)
            builder.pop()
        if item is not DELETED:
            builder.load_function(object.__setattr__)
            rebuilder.load(value)
            builder.load_constant(name)
            rebuilder.load(item)
            builder.call(3)
            builder.pop()


def write_gradient(rebuilder: Rebuilder, value: GradientValue) -> None:
    rebuilder.load(value.content)
    rebuilder.load(value.tensor)
    rebuilder.builder.store_attribute("grad")


def write_data(rebuilder: Rebuilder, value: DataValue) -> None:
    rebuilder.load(value.content)
    rebuilder.load(value.tensor)
    rebuilder.builder.store_attribute("data")


def write_requirement(rebuilder: Rebuilder, value: RequirementValue) -> None:
    """Where it was changed back, it is what it was."""
    if value.content is value.tensor and not value.from_start:
        return
    rebuilder.builder.load_constant(value.wanted)
    rebuilder.load(value.tensor)
    rebuilder.builder.store_attribute("requires_grad")


def write_cell(rebuilder: Rebuilder, value: CellValue) -> None:
    """An empty cell may be emptied."""
    if value.content is None:
        rebuilder.load(value)
        rebuilder.builder.delete_attribute("cell_contents")
        return
    rebuilder.load(value.content)
    if isinstance(value.source, CellSource):
        rebuilder.builder.store_cell(value.source.name)
    else:
        rebuilder.load(value)
        rebuilder.builder.store_attribute("cell_contents")


def write_iterator(rebuilder: Rebuilder, value: IteratorValue) -> None:
    at_end = not isinstance(value.items, ListValue) and not value.items
    if at_end:
        rebuilder.call_constant(exhaust, value)
    elif value.cls in OF_DICTIONARIES:
        rebuilder.call_constant(leave, value, ConstantValue(len(value.items) - value.position))
    else:
        rebuilder.call_constant(set_position, value, ConstantValue(value.position))
        rebuilder.place_later(value)
    rebuilder.builder.pop()


def set_position(iterator: Any, position: int) -> None:
    iterator.__setstate__(position)


def set_position_in(iterator: Any, position: int, items: list) -> None:
    """Python puts an iterator no further than at the end of its list, which may have been longer when the item was taken."""
    missing = [None] * (position - len(items))
    list.extend(items, missing)
    iterator.__setstate__(position)
    if missing:
        list.__delitem__(items, slice(len(items) - len(missing), None))


def leave(iterator: Any, left: int) -> None:
    while iterator.__length_hint__() > left:
        next(iterator)


def exhaust(iterator: Any) -> None:
    collections.deque(iterator, maxlen=0)


def write_zip(rebuilder: Rebuilder, value: ZipValue) -> None:
    """A `zip` is where its parts are; an `enumerate` counts besides."""
    if value.cls is enumerate:
        rebuilder.call_constant(take, value, ConstantValue(value.parts[1].next - value.started))
        rebuilder.builder.pop()


def write_turns(rebuilder: Rebuilder, value: TurnValue) -> None:
    rebuilder.call_constant(take, value, ConstantValue(value.asked))
    rebuilder.builder.pop()


def write_generator(rebuilder: Rebuilder, value: GeneratorValue) -> None:
    rebuilder.call_constant(finish, value)
    rebuilder.builder.pop()


def take(iterator: Any, count: int) -> None:
    collections.deque(itertools.islice(iterator, count), maxlen=0)


WRITTEN = {
    IteratorValue: lambda value: (),
    TurnValue: lambda value: (),
    GeneratorValue: lambda value: (),
    ZipValue: lambda value: (),
    ListValue: written_to_list,
    DictValue: written_to_dictionary,
    SetValue: lambda value: value.items.values(),
    InstanceValue: lambda value: [item for item in value.attributes.values() if item is not DELETED],
    CellValue: lambda value: () if value.content is None else (value.content,),
    GradientValue: lambda value: (value.tensor, value.content),
    DataValue: lambda value: (value.tensor, value.content),
    RequirementValue: lambda value: (value.tensor,),
}
WRITERS = {
    IteratorValue: write_iterator,
    TurnValue: write_turns,
    GeneratorValue: write_generator,
    ZipValue: write_zip,
    ListValue: write_list,
    DictValue: write_dictionary,
    SetValue: write_set,
    InstanceValue: write_instance,
    CellValue: write_cell,
    GradientValue: write_gradient,
    DataValue: write_data,
    RequirementValue: write_requirement,
}
