"""A fusion group as a C++ function.

    void softmax(void* const* p, long begin, long end) {
      for (long r0 = begin; r0 < end; r0++) {
        F32 max1 = ...;
        for (long c0 = 0; c0 < 1000; c0 += N) { ... }
        ...

Values are computed where they first can be: once a call, once a row, once a pass of the columns. Element-level values
are computed again in each pass that needs them, except expensive ones, which a pass leaves in a scratch row.
"""

from __future__ import annotations

import re

import torch

from dynascope.codegen.cpp import expressions
from dynascope.codegen.cpp.names import identifier
from dynascope.codegen.cpp.nest import Nest, appears_inside, choose, contiguous
from dynascope.codegen.cpp.reductions import Accumulator, accumulator
from dynascope.codegen.cpp.types import ELEMENT, MEMORY, constant, vector
from dynascope.codegen.kernels import Kernel
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
from dynascope.loops.operations import TABLE, TRANSCENDENTAL
from dynascope.loops.printing import describe_buffer
from dynascope.report.facts import LineLink
from dynascope.schedule.groups import FusionGroup

MOST_SCRATCH = 65536
PARTS = 4
"""Accumulators of one short reduction: an addition takes four cycles, and two can start in each."""
SHORT_STEP = 16


def emit_kernel(group: FusionGroup, name: str, buffers: dict[str, Buffer], vector_bytes: int) -> Kernel:
    """The kernel of a group, named `name`, for vectors of `vector_bytes`."""
    return _Emitter(group, name, buffers, choose(group, vector_bytes)).kernel()


class _Emitter:
    """Lines so far, the name of each value, and what has been kept for later passes."""

    def __init__(self, group: FusionGroup, name: str, buffers: dict[str, Buffer], nest: Nest) -> None:
        self.group, self.name, self.buffers, self.nest = group, name, buffers, nest
        self.body = group.body
        self.lines: list[str] = []
        self.links: list[LineLink] = []
        self.depth = 0
        self.names: dict[int, str] = {}
        self.kept: dict[int, str] = {}
        self.scratch_bytes = 0
        self.comment = ""
        self.pointers = tuple(dict.fromkeys((*group.reads, *group.writes)))
        self.reserved = frozenset(map(identifier, (*self.pointers, *group.scalars)))

    # -- the whole -------------------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        self._header()
        self._open(f"void {self.name}(void* const* p, long begin, long end)")
        self._line(f"using namespace v{self.nest.lanes};")
        self._parameters()
        self._values(self._at_top())
        self._rows()
        self._close()
        count = self.group.row_count * max(self.group.column_count, 1)
        cost = sum(TABLE[op.name].cost for op in self.body if isinstance(op, Compute)) + len(self.body)
        operations = sum(isinstance(op, (Compute, Reduce)) for op in self.body) * count
        return Kernel(
            self.name, "cpp", "\n".join(self.lines) + "\n", tuple(self.links), self.group, self.pointers,
            self.group.scalars, self.nest.items, cost * count, operations,
            *_bytes_moved(self.group, self.buffers),
        )  # fmt: skip

    def _header(self) -> None:
        read, written = _bytes_moved(self.group, self.buffers)
        space = ", ".join(f"{s} < {s.extent}" for s in (*self.group.rows, *self.group.columns)) or "one element"
        self._line(f"// {self.name}: {space}")
        for buffer in self.pointers:
            use = "reads" if buffer in self.group.reads else "writes"
            self._line(f"//   {use} {buffer}: {describe_buffer(self.buffers[buffer])}")
        self._line(f"//   {read} bytes read, {written} written")

    def _parameters(self) -> None:
        for position, buffer in enumerate(self.pointers):
            kind = MEMORY[self.buffers[buffer].dtype]
            const = "" if buffer in self.group.writes else "const "
            restrict = "" if buffer in self.group.in_place else " __restrict__"
            self._line(f"{const}{kind}*{restrict} {identifier(buffer)} = ({const}{kind}*)p[{position}];")
        for position, scalar in enumerate(self.group.scalars, len(self.pointers)):
            kind = next(ELEMENT[op.dtype] for op in self.body if isinstance(op, Argument) and op.name == scalar)
            self._line(f"const {kind} {identifier(scalar)} = *(const {kind}*)p[{position}];")
        if self.group.checks_indices:
            self._line(f"i64* error = (i64*)p[{len(self.pointers) + len(self.group.scalars)}];")

    def _rows(self) -> None:
        nest = self.nest
        if nest.blocked:
            self._all_rows(nest.outer)
            self._lane_loop(f"begin * {nest.lanes}", f"end * {nest.lanes}", clipped=True)
            return
        self._open("for (long item = begin; item < end; item++)")
        rest = "item"
        for position in range(len(nest.outer) - 1, -1, -1):
            symbol = nest.outer[position]
            self._line(
                f"const long {symbol} = {rest};"
                if position == 0
                else f"const long {symbol} = {rest} % {symbol.extent};"
            )
            rest = f"{rest} / {symbol.extent}"
        if nest.lane is not None and nest.lane_in_rows:
            self._values(self._at_item())
            self._lane_loop("0", str(nest.lane.extent), clipped=False)
        else:
            self._one_row()
        self._close()

    def _all_rows(self, outer: tuple[Symbol, ...]) -> None:
        for symbol in outer:
            self._line(f"for (long {symbol} = 0; {symbol} < {symbol.extent}; {symbol}++)")
        self._open("")
        self._values(self._at_item())
        self._pending_close = True

    def _lane_loop(self, begin: str, end: str, clipped: bool) -> None:
        lane = self.nest.lane
        if clipped:
            self._line(f"const long last = {end} < {lane.extent} ? {end} : {lane.extent};")
            end = "last"
        self._open_lanes(begin, end)
        self._one_row()
        self._close()
        if clipped:
            self._close()

    def _open_lanes(self, begin: str, end: str) -> None:
        lane, lanes = self.nest.lane, self.nest.lanes
        counter = f"{lane}_at" if self.nest.overlaps else lane
        self._open(f"for (long {counter} = {begin}; {counter} < {end}; {counter} += {lanes})")
        if self.nest.overlaps:
            self._line(f"const long {lane} = {self._last_start(counter)};")
            self._line(f"const long again = {counter} - {lane};")
        self._count()

    def _last_start(self, counter: str) -> str:
        """The last step begins where all of its lanes are elements; it goes over some of them again."""
        last = self.nest.lane.extent - self.nest.lanes
        return f"{counter} < {last} ? {counter} : {last}"

    def _count(self) -> None:
        lane, lanes = self.nest.lane, self.nest.lanes
        if lane.extent % lanes == 0 or self.nest.overlaps:
            self._line(f"const long n = {lanes};")
        else:
            self._line(f"const long n = {lane.extent} - {lane} < {lanes} ? {lane.extent} - {lane} : {lanes};")

    # -- one row -----------------------------------------------------------------------------------------------------

    def _one_row(self) -> None:
        arrangement = self.nest.arrangement
        plan = _keep_plan(self)
        for number in range(arrangement.pass_count):
            self._values(self._row_values(number))
            self._pass(number, plan)
        self._values(self._row_values(None))

    def _pass(self, number: int, plan: dict[int, int]) -> None:
        reduces = [
            n
            for n, op in enumerate(self.body)
            if isinstance(op, Reduce) and self.nest.arrangement.passes[n] == number + 1
        ]
        wanted = self._pass_values(number)
        if not wanted and not reduces:
            return
        kept_here = [n for n, first in plan.items() if first == number]
        for value in kept_here:
            self._scratch(value)
        accumulators = [accumulator(n, self.body[n], self.body, self.nest, self._name_of(n)) for n in reduces]
        copies = self._copies(wanted, accumulators)
        for item in accumulators:
            self._lines_of(item.begin)
            if not item.flush:
                self._lines_of(item.more_parts(copies))
        names_before = dict(self.names)
        closings = self._column_loops(accumulators, copies)
        self._values(wanted)
        for value in kept_here:
            self._line(self._keep(value))
        for item in accumulators:
            self._lines_of(item.step(self.names[item.argument]))
        for brace, lines in reversed(closings):
            self._close(brace)
            self._lines_of(lines)
        self.names = names_before
        for value in kept_here:
            self.kept[value] = self._scratch_name(value)
        for item in accumulators:
            if not item.flush:
                self._lines_of(item.merged_parts(copies))
            self._lines_of(item.end)
            self.names[item.value] = item.name

    def _copies(self, wanted: list[int], accumulators: list[Accumulator]) -> int:
        """How many parts each accumulator has: several where a short step would wait for the one before."""
        if not accumulators or not all(a.part.merge for a in accumulators) or not self.nest.columns:
            return 1
        last = self.nest.columns[-1]
        steps = last.extent // self.nest.lanes if last == self.nest.lane else last.extent
        operations = [self.body[n] for n in wanted]
        work = sum(TABLE[op.name].cost for op in operations if isinstance(op, Compute))
        checks = any(isinstance(op, CheckIndex) for op in operations)
        short = work < TRANSCENDENTAL and len(wanted) <= SHORT_STEP and not checks
        return PARTS if short and steps >= 2 * PARTS else 1

    def _column_loops(self, accumulators: list[Accumulator], copies: int) -> list[tuple[str, list[str]]]:
        """Opens the loops over the columns; gives each one's end and the lines that follow it."""
        closings: list[tuple[str, list[str]]] = []
        for symbol in self.nest.columns[:-1]:
            self._open(f"for (long {symbol} = 0; {symbol} < {symbol.extent}; {symbol}++)")
            closings.append(("}", []))
        if not self.nest.columns:
            return closings
        symbol = self.nest.columns[-1]
        first, end = "0", str(symbol.extent)
        block = _block(symbol == self.nest.lane)
        if any(a.flush for a in accumulators) and symbol.extent > block:
            self._open(f"for (long block = 0; block < {symbol.extent}; block += {block})")
            self._line(f"const long stop = block + {block} < {symbol.extent} ? block + {block} : {symbol.extent};")
            closings.append(("}", []))
            first, end = "block", "stop"
        for item in accumulators:
            self._lines_of(item.open_block)
            if item.flush:
                self._lines_of(item.more_parts(copies))
        after = [
            line for item in accumulators if item.flush for line in (*item.merged_parts(copies), *item.flush)
        ]  # fmt: skip
        if copies > 1:
            loops = self._open_step(symbol, accumulators, copies, first, end)
            return [*closings, ("};", [*loops, *after])]
        if symbol == self.nest.lane:
            self._open_lanes(first, end)
        else:
            self._open(f"for (long {symbol} = {first}; {symbol} < {end}; {symbol}++)")
        return [*closings, ("}", after)]

    def _open_step(
        self, symbol: Symbol, accumulators: list[Accumulator], copies: int, first: str, end: str
    ) -> list[str]:
        """Opens a function of one step; the lines that follow its end call it, on several parts in turn, then on one."""
        is_lane, at, step = symbol == self.nest.lane, f"{accumulators[0].name}_at", f"{accumulators[0].name}_step"
        stride = self.nest.lanes if is_lane else 1
        again = is_lane and self.nest.overlaps
        parts = "".join(f", {item.part.kind}& {item.part.name}" for item in accumulators)
        extra = ", const long again" if again else ""
        self._open(f"const auto {step} = [&](const long {symbol}{extra}{parts}) __attribute__((always_inline))")
        if is_lane:
            self._count()

        def call(place: str, number: int, repeated: str) -> str:
            own = "".join(f", {item.part.copy(number)}" for item in accumulators)
            return f"{step}({place}{', ' + repeated if again else ''}{own});"

        several = " ".join(call(f"{at} + {k * stride}" if k else at, k, "0") for k in range(copies))
        place = self._last_start(at) if again else at
        one = call(place, 0, f"{at} - ({place})")
        return [
            f"long {at} = {first};",
            f"for (; {at} + {copies * stride} <= {end}; {at} += {copies * stride}) {{ {several} }}",
            f"for (; {at} < {end}; {at} += {stride}) {one}",
        ]  # fmt: skip

    # -- which values where ----------------------------------------------------------------------------------------

    def _at_top(self) -> list[int]:
        """Constants, scalar arguments and what follows from them alone."""
        return [n for n in range(len(self.body)) if self._free(n)]

    def _free(self, number: int) -> bool:
        operation = self.body[number]
        if self.nest.depends[number] or isinstance(operation, (Store, Reduce, Load, CheckIndex)):
            return False
        return self.nest.arrangement.levels[number] == "row" and all(self._free(a) for a in operation.arguments)

    def _at_item(self) -> list[int]:
        """Row values that are the same in every lane, where lanes run over rows and nothing is reduced before them."""
        nest = self.nest
        return [
            n for n, op in enumerate(self.body)
            if nest.arrangement.levels[n] == "row" and not nest.varies(n) and nest.arrangement.passes[n] == 0
            and not isinstance(op, (Reduce, Store))
        ]  # fmt: skip

    def _row_values(self, number: int | None) -> list[int]:
        """Row values that are ready before pass `number` (all that are left, for None)."""
        nest = self.nest
        return [
            n for n, op in enumerate(self.body)
            if nest.arrangement.levels[n] == "row" and not isinstance(op, Reduce)
            and (number is None or nest.arrangement.passes[n] <= number)
        ]  # fmt: skip

    def _pass_roots(self, number: int) -> list[int]:
        passes = self.nest.arrangement.passes
        roots = [
            op.arguments[0] for n, op in enumerate(self.body) if isinstance(op, Reduce) and passes[n] == number + 1
        ]
        stores = [
            n for n, op in enumerate(self.body)
            if isinstance(op, Store) and passes[n] == number and self.nest.arrangement.levels[n] == "element"
        ]  # fmt: skip
        return roots + stores

    def _pass_values(self, number: int) -> list[int]:
        """The element-level values to compute in a pass, those kept from earlier passes as leaves."""
        found: set[int] = set()
        open_values = list(self._pass_roots(number))
        while open_values:
            value = open_values.pop()
            if value in found or self.nest.arrangement.levels[value] == "row":
                continue
            found.add(value)
            if value not in self.kept:
                open_values.extend(self.body[value].arguments)
        return sorted(found)

    # -- values ------------------------------------------------------------------------------------------------------

    def _values(self, numbers: list[int]) -> None:
        for number in numbers:
            if number not in self.names:
                self._value(number)

    def _value(self, number: int) -> None:
        operation = self.body[number]
        self._source(operation)
        self.names[number] = self._name_of(number)
        if isinstance(operation, Store):
            self._line(self._store(number, operation))
        else:
            self._line(f"const {self._type(number)} {self.names[number]} = {self._right_side(number, operation)};")
        if operation.origin.span is not None:
            self.links.append(LineLink(len(self.lines), operation.origin.span))

    def _right_side(self, number: int, operation: Operation) -> str:
        if number in self.kept:
            return self._kept_value(number)
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
        source = self.body[operation.arguments[-1]].dtype
        if operation.name == "divide" and lanes and source == torch.float32 and self._is_row_value(operation.arguments[1]):
            return f"divided({self._operand(operation.arguments[0], lanes)}, {self.names[operation.arguments[1]]})"
        arguments = tuple(self._operand(a, lanes) for a in operation.arguments)
        return expressions.expression(operation, source, arguments, lanes)

    def _is_row_value(self, number: int) -> bool:
        """Whether many elements meet the same value."""
        return not self.nest.varies(number) and self.nest.lane is not None

    def _random(self, operation: Compute, lanes: bool) -> str:
        """Neighbours in the stream come from one call, which shares the work of four."""
        seed, offset, place = (self.names[a] for a in operation.arguments)
        source = self.body[operation.arguments[2]]
        nest = self.nest
        is_run = lanes and isinstance(source, IndexValue) and contiguous(source.index, nest.lane, self.group, nest.depends)
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
        test = ""
        if operation.guard is not None:
            test = f"if ({self._lane_value(operation.guard)}) "
            if contiguous(operation.index, self.nest.lane, self.group, self.nest.depends):
                whole = f"if (all_lanes({self.names[operation.guard]}) && n == N) return load({buffer} + {self._index(operation.index)}, n); "
                return f"[&] {{ {whole}{kind} t = {{}}; for (long k = 0; k < n; k++) {test}t[k] = {buffer}[{self._lane_index(operation.index)}]; return t; }}()"
        return f"[&] {{ {kind} t = {{}}; for (long k = 0; k < n; k++) {test}t[k] = {buffer}[{self._lane_index(operation.index)}]; return t; }}()"

    def _lane_value(self, number: int) -> str:
        return f"{self.names[number]}[k]" if self.nest.varies(number) else self.names[number]

    def _index_value(self, number: int, operation: IndexValue) -> str:
        if not self.nest.varies(number):
            return self._index(operation.index)
        lane, index = self.nest.lane, operation.index
        if not appears_inside(index, lane) and not any(self.nest.varies(v) for v in index.loaded()):
            factor = index.coefficient(lane)
            return f"splat(I64{{}}, {self._index(index)}) + iota64(){f' * {factor}l' if factor != 1 else ''}"
        return f"[&] {{ I64 t = {{}}; for (long k = 0; k < N; k++) t[k] = {self._lane_index(operation.index)}; return t; }}()"

    def _check(self, number: int, operation: CheckIndex) -> str:
        wraps = int(operation.wraps == "negative")
        options = f"{operation.extent}, {operation.dimension}, {wraps}, error"
        return (
            f"check_index({self.names[operation.arguments[0]]}, {options}{', n' if self.nest.varies(number) else ''})"
        )

    def _store(self, number: int, operation: Store) -> str:
        buffer, value = identifier(operation.buffer), operation.value
        lanes = self.nest.varies(number)
        text = self._operand(value, lanes)
        if operation.dtype == torch.bool:
            text = f"truth_byte({text})"
        sign = "+=" if operation.mode == "add" else "="
        if not lanes:
            return f"{buffer}[{self._index(operation.index)}] {sign} {text};"
        if operation.mode == "set" and contiguous(operation.index, self.nest.lane, self.group, self.nest.depends):
            return f"store({buffer} + {self._index(operation.index)}, {text}, n);"
        return f"{{ auto t = {text}; for (long k = 0; k < n; k++) {buffer}[{self._lane_index(operation.index)}] {sign} t[k]; }}"

    # -- scratch -----------------------------------------------------------------------------------------------------

    def _scratch_name(self, value: int) -> str:
        return f"kept_{self._name_of(value)}"

    def _scratch(self, value: int) -> None:
        per_lane = self.nest.lanes if self.nest.lane_in_rows and self.nest.varies(value) else 1
        padded = self.group.column_count + self.nest.lanes
        element = ELEMENT[self.body[value].dtype]
        self._line(f"{element} {self._scratch_name(value)}[{padded * per_lane}] __attribute__((aligned(64)));")

    def _scratch_place(self, value: int) -> str:
        terms, step = [], 1
        for symbol in reversed(self.nest.columns):
            terms.append(f"{step} * {symbol}" if step != 1 else str(symbol))
            step *= symbol.extent
        place = " + ".join(reversed(terms))
        if self.nest.lane_in_rows and self.nest.varies(value):
            place = f"({place}) * {self.nest.lanes}"
        return f"{self._scratch_name(value)} + {place}"

    def _keep(self, value: int) -> str:
        if self.nest.varies(value):
            count = "N" if self.nest.lane_in_rows else "n"
            return f"store({self._scratch_place(value)}, {self.names[value]}, {count});"
        return f"*({self._scratch_place(value)}) = {self.names[value]};"

    def _kept_value(self, value: int) -> str:
        if self.nest.varies(value):
            return f"load({self._scratch_place(value)}, {'N' if self.nest.lane_in_rows else 'n'})"
        return f"*({self._scratch_place(value)})"

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
                    text = f"(({self._index_text(atom.dividend, symbol, loaded)}) {sign} {atom.divisor})"
            parts.append(text if factor == 1 else f"{factor} * {text}")
        if index.constant or not parts:
            parts.append(str(index.constant))
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


def _keep_plan(emitter: _Emitter) -> dict[int, int]:
    """Expensive element-level values that a later pass needs again, by the pass that first computes them."""
    arrangement, body = emitter.nest.arrangement, emitter.body
    needed = [set(emitter._pass_values(k)) for k in range(arrangement.pass_count)]
    costs = _element_costs(emitter)
    plan: dict[int, int] = {}
    for later in range(1, arrangement.pass_count):
        open_values, seen = list(emitter._pass_roots(later)), set()
        while open_values:
            value = open_values.pop()
            if value in seen or arrangement.levels[value] == "row":
                continue
            seen.add(value)
            earlier = next((k for k in range(later) if value in needed[k]), None)
            if earlier is not None and costs[value] >= TRANSCENDENTAL and (value in plan or _fits(emitter, value)):
                plan.setdefault(value, earlier)
                continue
            open_values.extend(body[value].arguments)
    return plan


def _element_costs(emitter: _Emitter) -> list[int]:
    """What computing each element-level value from memory takes, shared parts counted each time."""
    costs: list[int] = []
    for operation, level in zip(emitter.body, emitter.nest.arrangement.levels, strict=True):
        own = TABLE[operation.name].cost if isinstance(operation, Compute) else 0
        costs.append(own + sum(costs[a] for a in operation.arguments) if level == "element" else 0)
    return costs


def _fits(emitter: _Emitter, value: int) -> bool:
    lanes = emitter.nest.lanes if emitter.nest.lane_in_rows else 1
    size = (emitter.group.column_count + emitter.nest.lanes) * 8 * lanes
    if emitter.scratch_bytes + size > MOST_SCRATCH * 2:
        return False
    emitter.scratch_bytes += size
    return True


def _block(is_lane: bool) -> int:
    """How many steps are added up before the sum goes into the wide total."""
    return 4096 if is_lane else 128


def _bytes_moved(group: FusionGroup, buffers: dict[str, Buffer]) -> tuple[int, int]:
    return sum(buffers[b].bytes for b in group.reads), sum(buffers[b].bytes for b in group.writes)
