"""Equal layers that were left out, written again from the one that stands for them.

    layers 0 1 2 3 . . . 10 11 are fused     ->     the steps of layer 2 again for 3 to 8, with other buffers

Where layers are equal, so are the steps of each, but for those near the ends. The window is the steps from the first of layer 2 to
the first of layer 3; from there on to the first of layer 10 they must be the same one layer later, or nothing is written and the
whole graph is lowered. Calls read no further back than a layer; so what holds nothing of layer 0 is the same for any layer.
Every buffer of a step must have been made before it: that is looked at, not assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from typing import Any

from torch import fx

from dynascope.loops.lower.graph import result_buffers
from dynascope.loops.lower.repeats import HEADS, Repeats
from dynascope.loops.nodes import (
    Argument,
    Body,
    Buffer,
    ExternCall,
    Load,
    LoopProgram,
    Node,
    Operation,
    Origin,
    Result,
    ScalarInput,
    ScatterNode,
    Store,
    TensorView,
)
from dynascope.schedule.groups import Border, Fused, FusionGroup, ScatterGroup, Step
from dynascope.schedule.inline_plan import numbers_of, views_in
from dynascope.schedule.memory import makes, reads

Lengthened = tuple[LoopProgram, tuple[Step, ...], tuple[Border, ...]]


def lengthened(program: LoopProgram, steps: tuple[Step, ...], borders: tuple[Border, ...]) -> Lengthened | None:
    """The program, its steps and borders with all layers; None where the layers' steps are not equal."""
    layers = _Layers(program)
    window = _window(layers, steps)
    if window is None:
        return None
    try:
        return _lengthened(layers, steps, borders, *window)
    except LookupError:
        return None  # one layer makes what another does not


def _lengthened(
    layers: _Layers, steps: tuple[Step, ...], borders: tuple[Border, ...], begin: int, end: int
) -> Lengthened | None:
    layers.name_copies()
    copies = [_Renaming(layers, by) for by in range(1, layers.missing + 1)]
    after = _Renaming(layers, layers.missing)
    all_steps = [*steps[:end]]
    for copy in copies:
        all_steps += map(copy.step, steps[begin:end])
    all_steps += map(after.step, steps[end:])
    whole = _whole_program(layers, copies, after)
    if not _is_complete(whole, all_steps):
        return None
    return whole, tuple(all_steps), _borders(layers, copies, borders)


class _Layers:
    """Which names belong to which layer. Layers are numbered as they were compiled: 0 to 3, and 4, 5 behind the gap."""

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.repeats: Repeats = program.repeats
        self.missing = self.repeats.missing
        self.made: dict[str, list[str]] = {}
        """The buffers and numbers that each call made."""
        self.home: dict[str, tuple[str, int]] = {}
        """For each of these the call, and its place among what that made."""
        for node in program.nodes:
            self._note(node.origin.node, _made_names(node))
        placeholders = [n for n in self.repeats.graph.graph.nodes if n.op == "placeholder"]
        given = zip(placeholders, program.inputs, strict=True)
        self.input_names = {node: value.name for node, value in given if isinstance(value, Buffer)}
        self.inputs = {name: node for node, name in self.input_names.items()}
        self.read_at_start = {
            self.input_names[node]: node for node in self.repeats.inputs_read(range(HEADS)) if node in self.input_names
        }

    def _note(self, call: str, names: Iterable[str]) -> None:
        made = self.made.setdefault(call, [])
        for name in names:
            self.home[name] = call, len(made)
            made.append(name)

    def number(self, call: str) -> int | None:
        """The layer that a call lies in."""
        number = self.repeats.repetition_of(call)
        return number if number is None or number < HEADS else number - self.missing

    def numbers_of(self, step: Step) -> set[int]:
        """The layers that a step computes something of."""
        return {n for n in (self.number(origin.node) for origin in _origins(step)) if n is not None}

    def name_copies(self) -> None:
        """Names for what the layers in the gap make, after those of their calls."""
        taken = set(self.program.buffers) | set(self.home)
        last = [call for call in self.made if self.repeats.repetition_of(call) == HEADS - 1]
        for call in last:
            for by in range(1, self.missing + 1):
                there = self.repeats.later(call, by).name
                names = []
                for name in self.made[call]:
                    new = name.replace(call, there, 1) if call in name else f"{name}_{there}"
                    while new in taken:
                        new += "_"
                    taken.add(new)
                    names.append(new)
                self._note(there, names)

    def later(self, name: str, by: int) -> str:
        """The name of what the same call makes so many layers later."""
        call, place = self.home[name]
        return self.made[self.repeats.later(call, by).name][place]

    def input_later(self, node: fx.Node, by: int) -> str:
        for _ in range(by):
            node = self.repeats.next_input[node]
        return self.input_names[node]

    def follows(self, one: str, other: str) -> bool:
        """Whether a buffer is to one layer what another is to the next that was compiled."""
        if one in self.home and other in self.home:
            (mine, place), (theirs, same_place) = self.home[one], self.home[other]
            return place == same_place and self.call_follows(mine, theirs)
        if one == other:
            return one not in self.read_at_start
        if one not in self.read_at_start:
            return False
        return other in self._inputs_after(self.read_at_start[one])

    def _inputs_after(self, node: fx.Node) -> list[str]:
        found = []
        for by in range(1, self.missing + 2):
            if node not in self.repeats.next_input:
                return found
            node = self.repeats.next_input[node]
            if by in (1, self.missing + 1):
                found.append(self.input_names[node])
        return found

    def call_follows(self, one: str, other: str) -> bool:
        mine, theirs = self.number(one), self.number(other)
        if mine is None or theirs is None:
            return one == other and mine is theirs
        places, period = self.repeats.places, self.repeats.period
        return theirs == mine + 1 and (places[other] - places[one]) % period == 0


def _made_names(node: Node) -> Iterator[str]:
    yield from (buffer.name for buffer in result_buffers(node))
    if isinstance(node, ExternCall):
        yield from (result.name for result in node.results if isinstance(result, ScalarInput))


def _window(layers: _Layers, steps: tuple[Step, ...]) -> tuple[int, int] | None:
    """Where the steps of the last layer but one before the gap begin and end, if the next layer's are the same."""
    first: dict[int, int] = {}
    for at, step in enumerate(steps):
        if numbers := layers.numbers_of(step):
            first.setdefault(min(numbers), at)
    if not all(number in first for number in range(HEADS - 2, HEADS + 1)):
        return None
    begin, end, beyond = (first[number] for number in range(HEADS - 2, HEADS + 1))
    if not begin < end < beyond or end - begin != beyond - end:
        return None
    if any(number >= HEADS for step in steps[:end] for number in layers.numbers_of(step)):
        return None
    if any(number == 0 for step in steps[begin:] for number in layers.numbers_of(step)):
        return None  # it holds a chain through all layers, such as a sum over them
    if not all(_same(layers, one, other) for one, other in zip(steps[begin:end], steps[end:beyond], strict=True)):
        return None
    return begin, end


def _group(step: Step) -> FusionGroup:
    return step.group if isinstance(step, ScatterGroup) else step  # type: ignore[return-value]


def _origins(step: Step) -> tuple[Origin, ...]:
    return (step.origin,) if isinstance(step, ExternCall) else _group(step).origins


_NAMES = {
    (Load, "buffer"), (Store, "buffer"), (Argument, "name"), (TensorView, "buffer"), (Buffer, "name"), (ScalarInput, "name"),
    (ScatterNode, "base"),
}  # fmt: skip
_OF_NO_KERNEL = {(FusionGroup, "name"), (FusionGroup, "plain"), (ExternCall, "name"), (ScatterNode, "name")}
_LISTS_OF_NAMES = {"reads", "writes", "scalars"}
_SETTLED_LATER = {"parts", "in_place"}


def _same(layers: _Layers, one: Any, other: Any) -> bool:
    """Whether two steps, or parts of them, differ in nothing but in the layer."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is Origin:
        return one.operator == other.operator and layers.call_follows(one.node, other.node)
    if kind in (tuple, list):
        return len(one) == len(other) and all(_same(layers, a, b) for a, b in zip(one, other, strict=True))
    if kind is dict:
        return one.keys() == other.keys() and all(_same(layers, one[key], other[key]) for key in one)
    if not _has_names(kind):
        return one is other or (one == other and repr(one) == repr(other))
    for field in fields(one):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if (kind, field.name) in _OF_NO_KERNEL:
            continue
        if (kind, field.name) in _NAMES:
            if not layers.follows(mine, theirs):
                return False
        elif kind is FusionGroup and field.name in _LISTS_OF_NAMES:
            if len(mine) != len(theirs) or not all(map(layers.follows, mine, theirs)):
                return False
        elif kind is FusionGroup and field.name == "bases":
            if len(mine) != len(theirs) or not all(map(layers.follows, chain.from_iterable(mine), chain.from_iterable(theirs))):
                return False
        elif kind is FusionGroup and field.name in _SETTLED_LATER:
            if mine or theirs:
                return False
        elif not _same(layers, mine, theirs):
            return False
    return True


def _has_names(kind: type) -> bool:
    return is_dataclass(kind) and issubclass(
        kind, (FusionGroup, ScatterGroup, ScatterNode, ExternCall, Operation, TensorView, Buffer, ScalarInput)
    )


class _Renaming:
    """What was written for the layers before the gap, so many layers later."""

    def __init__(self, layers: _Layers, by: int) -> None:
        self.layers, self.by = layers, by
        self.names: dict[str, str] = {}
        """Of what has been renamed so far."""
        self.origins: dict[str, Origin] = {}
        self.bodies: dict[int, tuple[Any, Any]] = {}
        """Groups that were cut from one body share it afterwards too."""

    def name(self, name: str) -> str:
        found = self.names.get(name)
        if found is None:
            layers = self.layers
            if name in layers.home:
                number = layers.repeats.repetition_of(layers.home[name][0])
                found = layers.later(name, self.by) if number is not None and number < HEADS else name
            elif name in layers.read_at_start:
                found = layers.input_later(layers.read_at_start[name], self.by)
            else:
                found = name
            self.names[name] = found
        return found

    def origin(self, origin: Origin) -> Origin:
        found = self.origins.get(origin.node)
        if found is None:
            number = self.layers.repeats.repetition_of(origin.node)
            found = origin
            if number is not None and number < HEADS:
                there = self.layers.repeats.later(origin.node, self.by)
                found = replace(origin, node=there.name, stack=tuple(there.meta.get("user_stack") or ()))
            self.origins[origin.node] = found
        return found

    def step(self, step: Step) -> Step:
        if isinstance(step, ExternCall):
            return self.node(step)  # type: ignore[return-value]
        if isinstance(step, ScatterGroup):
            return ScatterGroup(self._group(step.group), self.node(step.node))  # type: ignore[arg-type]
        return self._group(step)

    def _group(self, group: FusionGroup) -> FusionGroup:
        plain = group.plain
        if plain is not None:
            _, plain = self.bodies.setdefault(id(plain), (plain, (self._body(plain[0]), plain[1])))
        reads, writes, scalars = (tuple(map(self.name, names)) for names in (group.reads, group.writes, group.scalars))
        return replace(
            group,
            body=self._body(group.body),
            reads=reads,
            writes=writes,
            scalars=scalars,
            origins=tuple(map(self.origin, group.origins)),
            plain=plain,
            bases=tuple((self.name(result), self.name(base)) for result, base in group.bases),
        )

    def _body(self, body: Body) -> Body:
        return tuple(map(self._operation, body))

    def _operation(self, operation: Operation) -> Operation:
        origin = self.origin(operation.origin)
        if isinstance(operation, (Load, Store)):
            return replace(operation, origin=origin, buffer=self.name(operation.buffer))
        if isinstance(operation, Argument):
            return replace(operation, origin=origin, name=self.name(operation.name))
        return operation if origin is operation.origin else replace(operation, origin=origin)

    def node(self, node: Node) -> Node:
        origin = self.origin(node.origin)
        name = f"{node.name}_{origin.node}" if origin is not node.origin else node.name
        if isinstance(node, ExternCall):
            arguments, keywords, results = map(self.value, (node.arguments, node.keywords, node.results))
            return replace(node, name=name, arguments=arguments, keywords=keywords, results=results, origin=origin)
        if isinstance(node, ScatterNode):
            body, result = self._body(node.body), self.value(node.result)
            return replace(node, name=name, body=body, base=self.name(node.base), result=result, origin=origin)
        results = tuple(map(self._result, node.results))
        return replace(node, name=name, body=self._body(node.body), results=results, origin=origin)

    def _result(self, result: Result) -> Result:
        return replace(result, buffer=self.value(result.buffer), base=None if result.base is None else self.name(result.base))

    def value(self, value: Any) -> Any:
        """Operands and results, nested as they are."""
        if isinstance(value, TensorView):
            return replace(value, buffer=self.name(value.buffer))
        if isinstance(value, (Buffer, ScalarInput)):
            return replace(value, name=self.name(value.name))
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.value, value))
        if isinstance(value, dict):
            return {key: self.value(item) for key, item in value.items()}
        return value


def _whole_program(layers: _Layers, copies: list[_Renaming], after: _Renaming) -> LoopProgram:
    program, repeats = layers.program, layers.repeats
    numbers = [repeats.repetition_of(node.origin.node) for node in program.nodes]
    (first, last) = (min(at for at, n in enumerate(numbers) if n == HEADS - 1), _last(numbers))
    nodes = list(program.nodes[: last + 1])
    for copy in copies:
        nodes += map(copy.node, program.nodes[first : last + 1])
    nodes += map(after.node, program.nodes[last + 1 :])
    buffers = dict(program.buffers)
    for node in nodes:
        buffers.update({buffer.name: buffer for buffer in result_buffers(node)})
    outputs = tuple(
        _output(layers, copies, after, node, value)
        for node, value in zip(repeats.returned, program.outputs, strict=True)
    )
    return replace(program, nodes=tuple(nodes), outputs=outputs, buffers=buffers, repeats=None)


def _last(numbers: list[int | None]) -> int:
    return max(at for at, number in enumerate(numbers) if number == HEADS - 1)


def _output(layers: _Layers, copies: list[_Renaming], after: _Renaming, node: Any, value: Any) -> Any:
    """An output of a call before the gap is what it was; of one in it, and behind it, what it is so many layers later."""
    at = layers.repeats.places.get(node.name) if isinstance(node, fx.Node) else None
    if at is None:
        return value
    number = (at - layers.repeats.start) // layers.repeats.period
    if number < HEADS:
        return value
    return copies[number - HEADS].value(value) if number < HEADS + layers.missing else after.value(value)


def _borders(layers: _Layers, copies: list[_Renaming], borders: tuple[Border, ...]) -> tuple[Border, ...]:
    made: list[Border] = []
    for border in borders:
        made.append(border)
        if layers.repeats.repetition_of(border.consumer) == HEADS - 1:
            made += [_moved_border(layers, copy, border) for copy in copies]
    return tuple(made)


def _moved_border(layers: _Layers, copy: _Renaming, border: Border) -> Border:
    def moved(call: str) -> str:
        number = layers.repeats.repetition_of(call)
        return call if number is None or number >= HEADS else layers.repeats.later(call, copy.by).name

    producer, consumer = moved(border.producer), moved(border.consumer)
    if isinstance(border, Fused):
        return Fused(producer, consumer)
    words = {field.name: getattr(border.reason, field.name) for field in fields(border.reason)}  # type: ignore[arg-type]
    words = {name: moved(word) for name, word in words.items() if isinstance(word, str)}
    reason = replace(border.reason, **words)  # type: ignore[type-var]
    return replace(border, producer=producer, consumer=consumer, reason=reason, origin=copy.origin(border.origin))


def _is_complete(program: LoopProgram, steps: list[Step]) -> bool:
    """Whether each step finds what it reads, and the caller what is returned."""
    made = {given.name for given in program.inputs if given is not None} | set(program.constants)
    for step in steps:
        wanted = (*reads(step), *(numbers_of(step) if isinstance(step, ExternCall) else ()))
        if not made.issuperset(wanted):
            return False
        made.update(makes(step))
        if isinstance(step, ExternCall):
            made.update(result.name for result in step.results if isinstance(result, ScalarInput))
    return made.issuperset(view.buffer for view in views_in(program.outputs))
