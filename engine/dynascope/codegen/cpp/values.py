"""The line of each value of a body: what it is computed from, where it is read, where it is written.

const F32 x_0 = load(the_x + 48 * r0 + c0, n);
const F32 exp_3 = exp_(subtract_2);
"""

from __future__ import annotations

import re

import torch

from dynascope.codegen.cpp import expressions, sizes
from dynascope.codegen.cpp.names import identifier
from dynascope.codegen.cpp.nest import Nest, appears_inside, contiguous, lane_step
from dynascope.codegen.cpp.types import ELEMENT, MEMORY, constant, vector
from dynascope.loops.index import Index, Loaded, Quotient, Remainder, Symbol
from dynascope.loops.nodes import (
    Argument,
    Buffer,
    CheckIndex,
    Compute,
    Constant,
    IndexValue,
    Load,
    Operation,
    Reduce,
    Store,
)
from dynascope.loops.readers import READERS
from dynascope.report.facts import LineLink
from dynascope.schedule.groups import FusionGroup
from dynascope.sizes import Size, is_constant


class ValueWriter:
    """Lines so far, and the name of each value."""

    def __init__(self, group: FusionGroup, name: str, buffers: dict[str, Buffer], nest: Nest) -> None:
        self.group, self.name, self.buffers, self.nest = group, name, buffers, nest
        self.body = group.body
        self.lines: list[str] = []
        self.links: list[LineLink] = []
        self.depth = 0
        self.names: dict[int, str] = {}
        self.together: dict[int, tuple[int, ...]] = {}
        """Stores that fill memory side by side, by each of them, in the order of memory."""
        self.comment = ""
        self.pointers = tuple(dict.fromkeys((*group.reads, *group.writes)))
        self.reserved = frozenset(map(identifier, (*self.pointers, *group.scalars)))

    # -- values ------------------------------------------------------------------------------------------------------

    def _values(self, numbers: list[int]) -> None:
        self._side_by_side(numbers)
        for number in numbers:
            if number not in self.names:
                self._value(number)

    def _value(self, number: int) -> None:
        operation = self.body[number]
        if number in self.nest.compared_places:
            self.names[number] = ""  # who compares it asks for the lane
            return
        self._source(operation)
        self.names[number] = self._name_of(number)
        if isinstance(operation, Store):
            self._line(self._store(number, operation))
        else:
            self._line(f"const {self._type(number)} {self.names[number]} = {self._right_side(number, operation)};")
        if operation.origin.span is not None:
            self.links.append(LineLink(len(self.lines), operation.origin.span))

    def _right_side(self, number: int, operation: Operation) -> str:
        match operation:
            case Constant():
                return constant(operation.value, operation.dtype)
            case Argument():
                return identifier(operation.name)
            case Load():
                return self._load(number, operation)
            case IndexValue():
                return self._index_value(number, operation)
            case CheckIndex():
                return self._check(number, operation)
            case Compute():
                return self._compute(number, operation)
        raise TypeError(type(operation).__name__)

    def _compute(self, number: int, operation: Compute) -> str:
        lanes = self.nest.varies(number)
        if operation.name == "random":
            return self._random(operation, lanes)
        if not self.nest.compared_places.isdisjoint(operation.arguments):
            return self._comparison_of_places(operation)
        source = self.body[operation.arguments[-1]].dtype
        if (
            operation.name == "divide"
            and lanes
            and source == torch.float32
            and self._is_row_value(operation.arguments[1])
        ):
            return f"divided({self._operand(operation.arguments[0], lanes)}, {self.names[operation.arguments[1]]})"
        arguments = tuple(self._operand(a, lanes) for a in operation.arguments)
        return expressions.expression(operation, source, arguments, lanes)

    def _comparison_of_places(self, operation: Compute) -> str:
        (place,) = self.nest.compared_places.intersection(operation.arguments)
        index = self.body[place].index  # type: ignore[union-attr]
        sides = tuple(
            "iota()" if a == place else f"splat(I32{{}}, lane_of({self.names[a]}, {self._index(index)}))" for a in operation.arguments
        )
        return expressions.expression(operation, torch.int32, sides, lanes=True)

    def _is_row_value(self, number: int) -> bool:
        """Whether many elements meet the same value."""
        return not self.nest.varies(number) and self.nest.lane is not None

    def _random(self, operation: Compute, lanes: bool) -> str:
        """Neighbours in the stream come from one call, which shares the work of four."""
        seed, offset, place = (self.names[a] for a in operation.arguments)
        source = self.body[operation.arguments[2]]
        nest = self.nest
        is_run = (
            lanes and isinstance(source, IndexValue) and contiguous(source.index, nest.lane, self.group, nest.depends)
        )
        return f"random_run({seed}, {offset}, {place}[0])" if is_run else f"random_({seed}, {offset}, {place})"

    def _operand(self, number: int, lanes: bool) -> str:
        """A value's name, spread over the lanes where the reader has lanes and it has not."""
        name = self.names[number]
        if lanes and not self.nest.varies(number):
            return f"splat({vector(ELEMENT[self.body[number].dtype])}{{}}, {name})"
        return name

    def _load(self, number: int, operation: Load) -> str:
        buffer = identifier(operation.buffer)
        if not self.nest.varies(number):
            read = self._from_memory(f"load({buffer} + {self._index(operation.index)})", operation.dtype)
            if operation.guard is None:
                return read
            return f"{self.names[operation.guard]} ? {read} : ({ELEMENT[operation.dtype]})0"
        guard = operation.guard
        if contiguous(operation.index, self.nest.lane, self.group, self.nest.depends) and (
            guard is None or not self.nest.varies(guard)
        ):
            read = self._from_memory(f"load({buffer} + {self._index(operation.index)}, n)", operation.dtype)
            kind = vector(ELEMENT[operation.dtype])
            return read if guard is None else f"{self.names[guard]} ? {read} : {kind}{{}}"
        return self._from_memory(self._gather(operation, buffer), operation.dtype)

    def _from_memory(self, read: str, dtype: torch.dtype) -> str:
        return f"truth({read})" if dtype == torch.bool else read

    def _gather(self, operation: Load, buffer: str) -> str:
        """Lane by lane, for elements that do not lie side by side, or are not all to be read."""
        kind = vector(MEMORY[operation.dtype])
        step = self._step(operation.index)
        if step and operation.guard is None:
            return f"every<{step}>({kind}{{}}, {buffer} + {self._index(operation.index)}, n)"
        test = "" if operation.guard is None else f"if ({self._lane_value(operation.guard)}) "
        read = f"{test}t[k] = {buffer}[{self._lane_index(operation.index)}];"
        lane_by_lane = f"{kind} t = {{}}; for (long k = 0; k < n; k++) {read} return t;"
        side_by_side = contiguous(operation.index, self.nest.lane, self.group, self.nest.depends)
        if operation.guard is not None and side_by_side:
            place = f"{buffer} + {self._index(operation.index)}"
            whole = f"if (all_lanes({self.names[operation.guard]}) && n == N) return load({place}, n); "
            return f"[&] {{ {whole}{lane_by_lane} }}()"
        return f"[&] {{ {lane_by_lane} }}()"

    def _lane_value(self, number: int) -> str:
        return f"{self.names[number]}[k]" if self.nest.varies(number) else self.names[number]

    def _index_value(self, number: int, operation: IndexValue) -> str:
        if not self.nest.varies(number):
            return self._index(operation.index)
        lane, index = self.nest.lane, operation.index
        if not appears_inside(index, lane) and not any(self.nest.varies(v) for v in index.loaded):
            step = index.coefficient(lane)
            steps = "" if is_constant(step, 1) else f" * {sizes.factor(step)}" + ("" if isinstance(step, Size) else "l")
            return f"splat(I64{{}}, {self._index(index)}) + iota64(){steps}"
        return f"[&] {{ I64 t = {{}}; for (long k = 0; k < N; k++) t[k] = {self._lane_index(operation.index)}; return t; }}()"

    def _check(self, number: int, operation: CheckIndex) -> str:
        mode = int(operation.wraps == "negative") + 2 * READERS.index(operation.reader)
        options = f"{sizes.text(operation.extent)}, {operation.dimension}, {mode}, error"
        return (
            f"check_index({self.names[operation.arguments[0]]}, {options}{', n' if self.nest.varies(number) else ''})"
        )

    def _store(self, number: int, operation: Store) -> str:
        """At a computed place only while all places were right: there eager writes nothing from the first wrong one on."""
        is_checked = any(isinstance(self.body[value], CheckIndex) for value in operation.index.loaded)
        return f"{'if (!error[0]) ' if is_checked else ''}{self._stored(number, operation)}"

    def _stored(self, number: int, operation: Store) -> str:
        buffer, value = identifier(operation.buffer), operation.value
        lanes = self.nest.varies(number)
        text = self._operand(value, lanes)
        if operation.dtype == torch.bool:
            text = f"truth_byte({text})"
        sign = "+=" if operation.mode == "add" else "="
        if not lanes:
            return f"{buffer}[{self._index(operation.index)}] {sign} {text};"
        if contiguous(operation.index, self.nest.lane, self.group, self.nest.depends):
            place = f"{buffer} + {self._index(operation.index)}"
            return f"store({place}, {text if operation.mode == 'set' else f'load({place}, n) + {text}'}, n);"
        if number in self.together:
            return self._interleaved(number, buffer)
        return f"{{ auto t = {text}; for (long k = 0; k < n; k++) {buffer}[{self._lane_index(operation.index)}] {sign} t[k]; }}"

    def _step(self, index: Index) -> int:
        return lane_step(index, self.nest.lane, self.nest.depends)

    def _side_by_side(self, numbers: list[int]) -> None:
        """Finds the stores of one block that fill memory together: all are written with the last. No load comes between one of them and
        that which is of an element that it wrote."""
        found: dict[tuple, list[int]] = {}
        for number in numbers:
            store = self.body[number]
            if isinstance(store, Store) and store.mode == "set" and not store.index.loaded and self.nest.varies(number):
                step = self._step(store.index)
                if step and store.index.constant.__class__ is int:
                    found.setdefault((store.buffer, store.index.terms, store.index.constant // step), []).append(number)
        for (_, _, block), stores in found.items():
            step = self._step(self.body[stores[0]].index)  # type: ignore[union-attr]
            places = sorted(stores, key=lambda n: self.body[n].index.constant)  # type: ignore[union-attr]
            constants = [self.body[n].index.constant for n in places]  # type: ignore[union-attr]
            if constants == [*range(block * step, block * step + step)]:
                self.together |= dict.fromkeys(stores, tuple(places))

    def _interleaved(self, number: int, buffer: str) -> str:
        stores = self.together[number]
        if number != max(stores):
            return "// with those beside it"
        first = self.body[stores[0]].index  # type: ignore[union-attr]
        values = (self._in_memory(self.body[n]) for n in stores)  # type: ignore[arg-type]
        return f"interleave({buffer} + {self._index(first)}, n, {', '.join(values)});"

    def _in_memory(self, store: Store) -> str:
        """The lanes that a store writes, as they lie in memory."""
        text = self._operand(store.value, lanes=True)
        return f"truth_byte({text})" if store.dtype == torch.bool else text

    # -- text --------------------------------------------------------------------------------------------------------

    def _index(self, index: Index) -> str:
        return self._index_text(index, lambda s: str(s), lambda v: self.names[v])

    def _lane_index(self, index: Index) -> str:
        lane = self.nest.lane
        symbol = lambda s: f"({s} + k)" if s == lane else str(s)  # noqa: E731
        return self._index_text(index, symbol, self._lane_value)

    def _index_text(self, index: Index, symbol: object, loaded: object) -> str:
        parts = []
        for atom, factor in index.terms:
            match atom:
                case Symbol():
                    text = symbol(atom)
                case Loaded():
                    text = loaded(atom.value)
                case Quotient() | Remainder():
                    sign = "/" if isinstance(atom, Quotient) else "%"
                    text = f"(({self._index_text(atom.dividend, symbol, loaded)}) {sign} {sizes.factor(atom.divisor)})"
            parts.append(text if is_constant(factor, 1) else f"{sizes.factor(factor)} * {text}")
        if not is_constant(index.constant, 0) or not parts:
            parts.append(sizes.text(index.constant))
        return " + ".join(parts)

    def _type(self, number: int) -> str:
        element = ELEMENT[self.body[number].dtype]
        return vector(element) if self.nest.varies(number) else element

    def _name_of(self, number: int) -> str:
        operation = self.body[number]
        match operation:
            case Compute():
                stem = operation.name.rstrip("_")
            case Reduce():
                stem = operation.kind
            case Load():
                stem = operation.buffer
            case _:
                stem = type(operation).__name__.lower()
        name = re.sub(r"\W", "_", f"{stem}_{number}")
        while any(other == name or other.startswith(f"{name}_") for other in self.reserved):
            name = f"{name}v"
        return name

    def _source(self, operation: Operation) -> None:
        span = operation.origin.span
        comment = f"// {span.quotation()}" if span is not None else f"// {operation.origin.operator}"
        comment = comment.replace("\\", "/")
        if comment != self.comment and not isinstance(operation, Constant):
            self.comment = comment
            self._line(comment)

    def _lines_of(self, lines: object) -> None:
        for line in lines:
            self._line(line)

    def _line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def _open(self, text: str) -> None:
        self._line(f"{text} {{".strip())
        self.depth += 1

    def _close(self, brace: str = "}") -> None:
        self.depth -= 1
        self._line(brace)
