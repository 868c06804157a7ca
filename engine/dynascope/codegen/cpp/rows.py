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

from dynascope.codegen.cpp import sizes
from dynascope.codegen.cpp.names import identifier
from dynascope.codegen.cpp.nest import Nest
from dynascope.codegen.cpp.reductions import Accumulator, accumulator
from dynascope.codegen.cpp.types import ELEMENT, MEMORY
from dynascope.codegen.cpp.values import ValueWriter
from dynascope.codegen.kernels import Kernel
from dynascope.loops.index import Extent, Symbol
from dynascope.loops.nodes import Argument, Buffer, CheckIndex, Compute, Load, Operation, Reduce, Store
from dynascope.loops.operations import TABLE, TRANSCENDENTAL
from dynascope.loops.printing import describe_buffer
from dynascope.schedule.groups import FusionGroup
from dynascope.sizes import Size, degree_of, is_constant, known, nominal

MOST_SCRATCH = 65536
KEPT_COLUMNS = 8192
"""The longest row of varying length of which values are kept: a length of the program's, not a product of several."""
PARTS = 4
"""Accumulators of one short reduction: an addition takes four cycles, and two can start in each."""
SHORT_STEP = 16


class RowEmitter(ValueWriter):
    """A row at a time: the passes over its columns, one after the other."""

    def __init__(self, group: FusionGroup, name: str, buffers: dict[str, Buffer], nest: Nest) -> None:
        super().__init__(group, name, buffers, nest)
        self.kept: dict[int, str] = {}
        self.scratch_bytes = 0

    # -- the whole -------------------------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        self._header()
        self._open(f"void {self.name}(void* const* p, long begin, long end)")
        self._line(f"using namespace v{self.nest.lanes};")
        self._parameters()
        self._values(self._at_top())
        self._rows()
        self._close()
        count = self.group.row_count * self.group.column_count
        cost = sum(TABLE[op.name].cost for op in self.body if isinstance(op, Compute)) + len(self.body)
        operations = sum(isinstance(op, (Compute, Reduce)) for op in self.body) * count
        items, work = self._items(), cost * count
        varies = isinstance(items, Size) or isinstance(work, Size)
        if varies:
            self._share(items, work)
        return Kernel(
            self.name, "cpp", "\n".join(self.lines) + "\n", tuple(self.links), self.group, self.pointers,
            self.group.scalars, items, work, operations,
            *_bytes_moved(self.group, self.buffers), share=f"{self.name}_share" if varies else "",
        )  # fmt: skip

    def _share(self, items: Extent, work: Extent) -> None:
        """A second function, which the launcher asks how much there is to do."""
        self._open(f"void {self.name}_share(void* const* p, long* items, double* work)")
        self._scalars()
        self._line(f"*items = {sizes.text(items)};")
        self._line(f"*work = {sizes.text(work)};")
        self._close()

    def _items(self) -> Extent:
        """How many parallel items a call is divided into."""
        return self.nest.items

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
        self._scalars()
        if self.group.checks_indices:
            self._line(f"i64* error = (i64*)p[{len(self.pointers) + len(self.group.scalars)}];")

    def _scalars(self) -> None:
        kinds = scalar_kinds(self.group)
        for position, scalar in enumerate(self.group.scalars, len(self.pointers)):
            kind = "f64" if kinds[scalar] is float else "i64"
            self._line(f"const {kind} {identifier(scalar)} = *(const {kind}*)p[{position}];")

    def _rows(self) -> None:
        nest = self.nest
        if nest.blocked:
            self._all_rows(nest.outer)
            self._lane_loop(f"begin * {nest.lanes}", f"end * {nest.lanes}", clipped=True)
            return
        counts = len(nest.outer) > 1
        if counts:
            self._line("if (begin >= end) return;")
            self._lines_of(self._place(nest.outer, "begin", "long"))
        self._open("for (long item = begin; item < end; item++)")
        if not counts:
            self._lines_of(self._place(nest.outer, "item", "const long"))
        if nest.lane is not None and nest.lane_in_rows:
            self._values(self._at_item())
            self._lane_loop("0", sizes.text(nest.lane.extent), clipped=False)
        else:
            self._one_row()
        if counts:
            self._line(self._next_place())
        self._close()

    def _place(self, loops: tuple[Symbol, ...], item: str, kind: str) -> list[str]:
        """An item's place in these loops, the innermost first."""
        lines = []
        for symbol in loops[:0:-1]:
            extent = sizes.factor(symbol.extent)
            lines.append(f"{kind} {symbol} = {item} % {extent};")
            item = f"{item} / {extent}"
        return [*lines, *(f"{kind} {symbol} = {item};" for symbol in loops[:1])]

    def _next_place(self) -> str:
        """What leads to the next item's place: to divide by extents that vary costs as much as a short row does."""
        first, *others = self.nest.outer
        line = f"{first}++;"
        for symbol in others:
            line = f"if (++{symbol} == {sizes.text(symbol.extent)}) {{ {symbol} = 0; {line} }}"
        return line

    def _all_rows(self, outer: tuple[Symbol, ...]) -> None:
        for symbol in outer:
            self._line(f"for (long {symbol} = 0; {symbol} < {sizes.text(symbol.extent)}; {symbol}++)")
        self._open("")
        self._values(self._at_item())
        self._pending_close = True

    def _lane_loop(self, begin: str, end: str, clipped: bool) -> None:
        extent = sizes.text(self.nest.lane.extent)
        if clipped:
            self._line(f"const long last = {end} < {extent} ? {end} : {extent};")
            end = "last"
        closing, calls = self._open_lanes(begin, end)
        self._one_row()
        self._close(closing)
        self._lines_of(calls)
        if clipped:
            self._close()

    def _open_lanes(self, begin: str, end: str) -> tuple[str, list[str]]:
        """Opens a loop over the lanes; gives its end and the lines that follow it."""
        lane, lanes = self.nest.lane, self.nest.lanes
        if self.nest.ends_in_part:
            return self._open_steps(begin, end)
        counter = f"{lane}_at" if self.nest.overlaps else lane
        self._open(f"for (long {counter} = {begin}; {counter} < {end}; {counter} += {lanes})")
        if self.nest.overlaps:
            self._line(f"const long {lane} = {self._last_start(counter)};")
            self._line(f"const long again = {counter} - {lane};")
        self._count(self.nest.overlaps)
        return "}", []

    def _open_steps(self, begin: str, end: str) -> tuple[str, list[str]]:
        """The same where the last step may be of part of the lanes: a function of one step, so that the whole ones are compiled knowing
        that they are whole."""
        lane, lanes = self.nest.lane, self.nest.lanes
        at, step = f"{lane}_at", f"{lane}_step"
        self._open(f"const auto {step} = [&](const long {lane}, const long n) __attribute__((always_inline))")
        return "};", [
            f"long {at} = {begin};",
            f"for (; {at} + {lanes} <= {end}; {at} += {lanes}) {step}({at}, {lanes});",
            f"if ({at} < {end}) {step}({at}, {end} - {at});",
        ]

    def _last_start(self, counter: str) -> str:
        """The last step begins where all of its lanes are elements; it goes over some of them again."""
        last = self.nest.lane.extent - self.nest.lanes
        return f"{counter} < {last} ? {counter} : {last}"

    def _count(self, overlaps: bool) -> None:
        """How many lanes of a step are elements."""
        lane, lanes = self.nest.lane, self.nest.lanes
        if overlaps or self.nest.fills_lanes:
            self._line(f"const long n = {lanes};")
        else:
            rest = f"{sizes.text(lane.extent)} - {lane}"
            self._line(f"const long n = {rest} < {lanes} ? {rest} : {lanes};")

    # -- one row -----------------------------------------------------------------------------------------------------

    def _one_row(self) -> None:
        arrangement = self.nest.arrangement
        plan = keep_plan(self)
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
                self._lines_of(self._merged_parts(item, copies))
            self._lines_of(item.end)
            self.names[item.value] = item.name

    def _merged_parts(self, item: Accumulator, copies: int) -> list[str]:
        """Of rows whose length varies, only where they are so long that several parts were used."""
        lines = item.merged_parts(copies)
        if not lines or not isinstance(self.nest.columns[-1].extent, Size):
            return lines
        stride = self.nest.lanes if self.nest.columns[-1] == self.nest.lane else 1
        return [f"if ({sizes.text(self.nest.columns[-1].extent)} >= {copies * stride}) {{ {' '.join(lines)} }}"]

    def _copies(self, wanted: list[int], accumulators: list[Accumulator]) -> int:
        """How many parts each accumulator has: several where a short step would wait for the one before."""
        if not accumulators or not all(a.part.merge for a in accumulators) or not self.nest.columns:
            return 1
        last = self.nest.columns[-1]
        steps = nominal(last.extent) // (self.nest.lanes if last == self.nest.lane else 1)
        operations = [self.body[n] for n in wanted]
        work = sum(TABLE[op.name].cost for op in operations if isinstance(op, Compute))
        checks = any(isinstance(op, CheckIndex) for op in operations)
        short = work < TRANSCENDENTAL and len(wanted) <= SHORT_STEP and not checks
        return PARTS if short and steps >= 2 * PARTS else 1

    def _column_loops(self, accumulators: list[Accumulator], copies: int) -> list[tuple[str, list[str]]]:
        """Opens the loops over the columns; gives each one's end and the lines that follow it."""
        closings: list[tuple[str, list[str]]] = []
        for symbol in self.nest.columns[:-1]:
            self._open(f"for (long {symbol} = 0; {symbol} < {sizes.text(symbol.extent)}; {symbol}++)")
            closings.append(("}", []))
        if not self.nest.columns:
            return closings
        symbol = self.nest.columns[-1]
        first, end = "0", sizes.text(symbol.extent)
        block = _block(symbol == self.nest.lane)
        if any(a.flush for a in accumulators) and not known("<=", symbol.extent, block):
            self._open(f"for (long block = 0; block < {end}; block += {block})")
            self._line(f"const long stop = block + {block} < {end} ? block + {block} : {end};")
            closings.append(("}", []))
            first, end = "block", "stop"
        for item in accumulators:
            self._lines_of(item.open_block)
            if item.flush:
                self._lines_of(item.more_parts(copies))
        after = [
            line for item in accumulators if item.flush for line in (*self._merged_parts(item, copies), *item.flush)
        ]  # fmt: skip
        if copies > 1:
            loops = self._open_step(symbol, accumulators, copies, first, end)
            return [*closings, ("};", [*loops, *after])]
        if symbol != self.nest.lane:
            self._open(f"for (long {symbol} = {first}; {symbol} < {end}; {symbol}++)")
            return [*closings, ("}", after)]
        if not self.nest.ends_in_part:
            return [*closings, (self._open_lanes(first, end)[0], after)]
        self._open("")
        return [*closings, ("}", after), self._open_lanes(first, end)]

    def _open_step(
        self, symbol: Symbol, accumulators: list[Accumulator], copies: int, first: str, end: str
    ) -> list[str]:
        """Opens a function of one step; the lines that follow its end call it, on several parts in turn, then on one."""
        is_lane, at, step = symbol == self.nest.lane, f"{accumulators[0].name}_at", f"{accumulators[0].name}_step"
        stride = self.nest.lanes if is_lane else 1
        again = is_lane and self.nest.overlaps
        parts = "".join(f", {item.part.kind}& {item.part.name}" for item in accumulators)
        in_part = is_lane and self.nest.ends_in_part
        extra = ", const long again" if again else ", const long n" if in_part else ""
        self._open(f"const auto {step} = [&](const long {symbol}{extra}{parts}) __attribute__((always_inline))")
        if is_lane and not in_part:
            self._count(self.nest.overlaps)

        def call(place: str, number: int, repeated: str) -> str:
            own = "".join(f", {item.part.copy(number)}" for item in accumulators)
            return f"{step}({place}{', ' + repeated if again or in_part else ''}{own});"

        whole = str(stride) if in_part else "0"
        several = " ".join(call(f"{at} + {k * stride}" if k else at, k, whole) for k in range(copies))
        place = self._last_start(at) if again else at
        one = call(place, 0, f"{at} - ({place})")
        return [
            f"long {at} = {first};",
            f"for (; {at} + {copies * stride} <= {end}; {at} += {copies * stride}) {{ {several} }}",
            *(
                [
                    f"for (; {at} + {stride} <= {end}; {at} += {stride}) {call(at, 0, whole)}",
                    f"if ({at} < {end}) {call(at, 0, f'{end} - {at}')}",
                ]
                if in_part
                else [f"for (; {at} < {end}; {at} += {stride}) {one}"]
            ),
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

    # -- scratch -----------------------------------------------------------------------------------------------------

    def _right_side(self, number: int, operation: Operation) -> str:
        return self._kept_value(number) if number in self.kept else super()._right_side(number, operation)

    def _scratch_name(self, value: int) -> str:
        return f"kept_{self._name_of(value)}"

    def _scratch(self, value: int) -> None:
        per_lane = self._rows_at_once() if self.nest.lane_in_rows and self.nest.varies(value) else 1
        padded = _most_columns(self.group) + self.nest.lanes
        element = ELEMENT[self.body[value].dtype]
        self._line(f"{element} {self._scratch_name(value)}[{padded * per_lane}] __attribute__((aligned(64)));")

    def _scratch_place(self, value: int) -> str:
        terms, step = [], 1
        for symbol in reversed(self.nest.columns):
            terms.append(str(symbol) if is_constant(step, 1) else f"{sizes.factor(step)} * {symbol}")
            step = step * symbol.extent
        place = " + ".join(reversed(terms))
        if self.nest.lane_in_rows and self.nest.varies(value):
            place = f"({place}) * {self._rows_at_once()}{self._lane_place()}"
        return f"{self._scratch_name(value)} + {place}"

    def _rows_at_once(self) -> int:
        """How many rows share a scratch, where lanes run over rows."""
        return self.nest.lanes

    def _lane_place(self) -> str:
        """Where among them the lanes begin."""
        return ""

    def _keep(self, value: int) -> str:
        if self.nest.varies(value):
            count = "N" if self.nest.lane_in_rows else "n"
            return f"store({self._scratch_place(value)}, {self.names[value]}, {count});"
        return f"*({self._scratch_place(value)}) = {self.names[value]};"

    def _kept_value(self, value: int) -> str:
        if self.nest.varies(value):
            return f"load({self._scratch_place(value)}, {'N' if self.nest.lane_in_rows else 'n'})"
        return f"*({self._scratch_place(value)})"


def keep_plan(emitter: RowEmitter) -> dict[int, int]:
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


def _element_costs(emitter: RowEmitter) -> list[int]:
    """What computing each element-level value from memory takes, shared parts counted each time."""
    costs: list[int] = []
    for operation, level in zip(emitter.body, emitter.nest.arrangement.levels, strict=True):
        own = TABLE[operation.name].cost if isinstance(operation, Compute) else 0
        costs.append(own + sum(costs[a] for a in operation.arguments) if level == "element" else 0)
    return costs


def _fits(emitter: RowEmitter, value: int) -> bool:
    lanes = emitter._rows_at_once() if emitter.nest.lane_in_rows else 1
    size = (_most_columns(emitter.group) + emitter.nest.lanes) * 8 * lanes
    if emitter.scratch_bytes + size > MOST_SCRATCH * 2:
        return False
    count = emitter.group.column_count
    if degree_of(count) > 1 or not count <= _most_columns(emitter.group):  # areas soon outgrow it: compiled once more
        return False
    emitter.scratch_bytes += size
    return True


def _most_columns(group: FusionGroup) -> int:
    """The columns that a scratch row has room for. Of rows whose length varies, that they have no more is relied on."""
    return KEPT_COLUMNS if isinstance(group.column_count, Size) else group.column_count


def scalar_kinds(group: FusionGroup) -> dict[str, type]:
    """int or float, of each number that a kernel of the group receives."""
    kinds = {op.name: float if op.dtype.is_floating_point else int for op in group.body if isinstance(op, Argument)}
    return kinds | {name: leaf.kind for name, leaf in group.numbers}


def _block(is_lane: bool) -> int:
    """How many steps are added up before the sum goes into the wide total."""
    return 4096 if is_lane else 128


def _bytes_moved(group: FusionGroup, buffers: dict[str, Buffer]) -> tuple[Extent, Extent]:
    return sum(buffers[b].bytes for b in group.reads), sum(buffers[b].bytes for b in group.writes)
