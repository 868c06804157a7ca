"""Groups with reductions: a tile of rows by columns, held, looped over, split among programs or gathered from them.

softmax, held           softmax, looped                          sum, split
x0 = tl.load(...)       for start in range(0, C, B):             for start in range(first, last, B):
max1 = tl.reduce(x0)        max1_lanes = larger(max1_lanes, x0)      sum1_lanes = sum1_lanes + x0
...                     max1 = tl.reduce(max1_lanes)             store the part; the last program adds up the parts
tl.store(...)           for start in range(0, C, B): ...
"""

from __future__ import annotations

from dataclasses import replace

from dynascope.codegen.target import DeviceModel
from dynascope.codegen.triton.draft import Draft, GroupFacts
from dynascope.codegen.triton.dtypes import SIXTEEN_BIT_FLOATS, TEXT
from dynascope.codegen.triton.kernel import TICKET_BYTES, TritonKernel
from dynascope.codegen.triton.online import has_finite_shift, is_of_exponentials, online_sums, sweeps_left
from dynascope.codegen.triton.operations import helpers_in
from dynascope.codegen.triton.pointwise import accesses, all_indices
from dynascope.codegen.triton.reductions import INDEXED, Rule, ScanRule, no_position, rule_for, scan_rule_for
from dynascope.codegen.triton.row_plan import RowPlan, choose_rows, choose_walk, power_of_two, stages_of
from dynascope.codegen.triton.tile import WIDE, Axis, Tile, flat_axes, needs_wide, place_axis
from dynascope.loops.nodes import Compute, Load, Operation, Reduce, Scan, Store
from dynascope.schedule.passes import Arrangement, arrange
from dynascope.sizes import Size, estimated, is_constant

_STEPS_WITHOUT_ENDS = 4
"""Of fewer steps a loop of their own is not worth its text."""


def emit_rows(facts: GroupFacts, device: DeviceModel) -> TritonKernel:
    arrangement = arrange(facts.body, facts.group.columns)
    sums = [operation for operation in facts.body if isinstance(operation, Store) and operation.mode == "sum"]
    if sums:
        programs = facts.buffers[sums[0].buffer].sizes[0]
        walk = choose_walk(facts, programs)
        return _RowKernel(facts, arrangement, walk, {}, stages_of(facts, walk, device), programs).emit()
    online = online_sums(facts.body, arrangement, facts.group.column_count)
    # What parts of a row find of exponentials is not brought together.
    stays = any(is_of_exponentials(facts.body, partner) for partner in online.values())
    sweeps = arrangement.pass_count if stays else sweeps_left(facts.body, arrangement, online)
    if any(isinstance(operation, Scan) for operation in facts.body):
        sweeps += 1  # parts of a row would each need what all before them come to
    plan = choose_rows(facts, arrangement, online, sweeps, device)
    early = {} if plan.mode == "held" else online
    return _RowKernel(facts, arrangement, plan, early, stages_of(facts, plan, device)).emit()


class _RowKernel:
    """One kernel in the making. `row` and `column` are the axes of its tile."""

    def __init__(
        self,
        facts: GroupFacts,
        arrangement: Arrangement,
        plan: RowPlan,
        online: dict[int, int],
        stages: int,
        walkers: int = 0,
    ):
        self.facts, self.arrangement, self.plan, self.online, self.walkers = facts, arrangement, plan, online, walkers
        self.stages = stages
        self.row = Axis("row", facts.group.rows, plan.row_block, plan.steps * walkers)
        self.column = Axis("column", facts.group.columns, plan.column_block, 0 if walkers else plan.steps * plan.parts)
        axes = (self.row, self.column)
        self.tile = Tile(axes, needs_wide(all_indices(facts), axes), flat=flat_axes(accesses(facts), axes))
        self.draft = Draft(facts, self.tile)
        self.printer, self.writer = self.draft.printer, self.draft.writer
        self.axis = self.tile.position("column")
        self.scratch_bytes = 0

    def emit(self) -> TritonKernel:
        ways = {"held": self._held, "looped": self._looped, "split": self._split, "gathered": self._gathered, "walked": self._walked}
        ways[self.plan.mode]()
        programs = self.walkers or self.row.blocks * self.plan.parts
        return self.draft.finish(programs, self.plan.warps, scratch_bytes=self.scratch_bytes)

    # ---- the ways ----

    def _held(self) -> None:
        self._place_rows("tl.program_id(0)")
        self.writer.write_all(place_axis(self.tile, self.column, "0"))
        for number, operation in enumerate(self.facts.body):
            self._value(number, operation)

    def _looped(self) -> None:
        self._place_rows("tl.program_id(0)")
        for number in range(self._pass_count()):
            self._row_values(number)
            if number and not self._has_work(number):
                continue
            self._sweep(number, "start")
            for reduce in self._reduces(number):
                lanes = self._lane_names(reduce)
                self._finish(reduce, lanes[0] if reduce in self._topped(number) else self._folded(reduce, lanes))
            for total in self._early(number):
                partner = self.printer.values[self.online[total]]
                self._finish(total, self._fold(total, self._settled(total, partner, self.tile.text(self.column.count))))
        self._row_values(self._pass_count())

    def _split(self) -> None:
        parts = self.plan.parts
        self._place_rows(f"tl.program_id(0) // {parts}")
        self._row_values(0)
        self.writer.write(f"part = {self._number(f'tl.program_id(0) % {parts}')}")
        self.writer.write(f"first = part * {self.tile.factor(self.plan.steps * self.plan.column_block)}")
        self._sweep(0, "first + start")
        found = [(reduce, self._folded_part(reduce, self._lane_names(reduce))) for reduce in self._reduces(0)]
        places = [place for reduce, part in found for place in self._leave_part(reduce, *part)]
        places += [place for total in self._early(0) for place in self._leave_part(total, *self._settled_part(total))]
        if not places:  # what would be added up along the row is one element of it
            return
        self.writer.write("# The program that finishes last combines the parts, in their order.")
        self.writer.write("tickets = workspace.to(tl.pointer_type(tl.int32)) + program")
        self.writer.write("tl.debug_barrier()")
        self.writer.write('finished = tl.atomic_add(tickets, 1, sem="acq_rel")')
        with self.writer.block(f"if finished == {parts - 1}:"):
            self.writer.write("tl.debug_barrier()")
            for reduce in self._reduces(0):
                names = self._read_parts(reduce, places)
                self._finish(reduce, self._folded(reduce, names))
            for total in self._early(0):
                self._combine_squares(total, places)
            for number in range(1, self._pass_count() + 1):
                self._row_values(number)
            self.writer.write("tl.store(tickets, 0)")

    def _gathered(self) -> None:
        """Each program holds a part of a row, or goes through it, and waits at each reduction for what the others of the row find in
        theirs. Those that it waits for have started or start next: programs are numbered in the order in which they start."""
        parts, programs = self.plan.parts, self.row.blocks * self.plan.parts
        is_held = is_constant(self.plan.steps, 1)
        self.writer.write("tickets = workspace.to(tl.pointer_type(tl.int32))")
        self.writer.write(f"number = {self._use(f'turn(tickets, {self.tile.text(programs)})')}")
        self._place_rows(f"number // {parts}")
        self.writer.write(f"part = {self._number(f'number % {parts}')}")
        self.writer.write("met = tickets + 1 + program")
        self.writer.write(f"first = part * {self.tile.factor(self.plan.steps * self.plan.column_block)}")
        if is_held:
            self.writer.write_all(place_axis(self.tile, self.column, "first"))
        meetings = 0
        for number in range(self._pass_count()):
            self._row_values(number, with_stores=False)
            if is_held:
                self.printer.emit(value for value in self._needed(number) if value not in self.printer.values)
            elif self._has_work(number):
                self._sweep(number, "first + start")
            if self._reduces(number):
                meetings += 1
                self._bring_together(number, is_held, f"meet(met, {meetings * parts})")
        self._row_values(self._pass_count(), with_stores=False)
        # What all have read may be written to only then.
        with self.writer.block(f"if {self._use(f'leaves_last(met, {(meetings + 1) * parts})')}:"):
            self.writer.write("tl.store(met, 0)")
            self.printer.emit(self._row_stores())

    def _bring_together(self, number: int, is_held: bool, meet: str) -> None:
        """What the parts of a row find in pass `number`."""
        reduces, early = self._reduces(number), self._early(number)
        places: list[tuple[int, str, str]] = []
        for reduce in reduces:
            lanes = self._blocks(reduce) if is_held else self._lane_names(reduce)
            names, folded = self._folded_part(reduce, lanes)
            places += self._leave_part(reduce, names, lanes[0] if not is_held and reduce in self._topped(number) else folded)
        for total in early:
            places += self._leave_part(total, *self._early_part(total, is_held))
        self.writer.write(self._use(meet))
        for reduce in reduces:
            self._finish(reduce, self._folded(reduce, self._read_parts(reduce, places)))
        for total in early:
            is_exponential = is_of_exponentials(self.facts.body, self.online[total])
            (self._combine_exponentials if is_exponential else self._combine_squares)(total, places)

    def _row_stores(self) -> list[int]:
        levels = self.arrangement.levels
        return [n for n, operation in enumerate(self.facts.body) if isinstance(operation, Store) and levels[n] == "row"]

    def _walked(self) -> None:
        """Neighbouring programs take neighbouring rows. What is the same for all rows is read once."""
        body, writer = self.facts.body, self.writer
        self.writer.write(f"program = {self._number('tl.program_id(0)')}")
        writer.write_all(place_axis(self.tile, self.column, "0"))
        shared = self._of_columns()
        self.printer.emit(shared)
        sums = [n for n, operation in enumerate(body) if isinstance(operation, Store) and operation.mode == "sum"]
        for number in sums:
            writer.write(f"{self.printer.name(number)}_lanes = tl.full({self.tile.shape}, 0, tl.float32)")
        with writer.block(f"for step in {self._range(self.tile.text(self.plan.steps))}:"):
            start = f"step * {self.walkers} + program"
            writer.write_all(place_axis(self.tile, self.row, start if self.row.block == 1 else f"({start}) * {self.row.block}"))
            for number, operation in enumerate(body):
                if number in sums:
                    self._add_row(number)
                elif number not in shared:
                    self._value(number, operation)
        for number in sums:
            self._leave_sum(number)

    def _of_columns(self) -> list[int]:
        """Values that no row has a part in."""
        found: list[int] = []
        for number, operation in enumerate(self.facts.body):
            depends = "row" in self.printer.axes[number] or isinstance(operation, (Reduce, Scan, Store))
            if not depends and all(argument in found for argument in operation.arguments):
                found.append(number)
        return found

    def _add_row(self, number: int) -> None:
        store: Store = self.facts.body[number]
        text = self.printer.spread(store.value, frozenset(("row", "column")))
        text = f"tl.where({self.row.mask}, {text}, 0)" if self.row.is_masked else text
        lanes = f"{self.printer.name(number)}_lanes"
        self.writer.write(f"{lanes} = {lanes} + {text}", store.origin)

    def _leave_sum(self, number: int) -> None:
        """In the program's row. The tile's rows are added up."""
        store: Store = self.facts.body[number]
        total = f"{self.printer.name(number)}_lanes"
        total = f"tl.sum({total}, 0, keep_dims=True)" if self.row.block > 1 else total
        width = self.tile.factor(self.facts.buffers[store.buffer].strides[0])
        masked = f", mask={self.column.mask}" if self.column.is_masked else ""
        place = f"{self.printer.at(store)} + program * {width}"
        self.writer.write(f"tl.store({place}, {total}{masked})", store.origin)

    # ---- pieces ----

    def _range(self, end: str, by: int = 1) -> str:
        """Of a loop, of which several steps are on their way where that pays."""
        numbers = ", ".join(("0", end, *([str(by)] if by != 1 else ())))
        return f"tl.range({numbers}, num_stages={self.stages})" if self.stages > 1 else f"range({numbers})"

    def _place_rows(self, program: str) -> None:
        self.writer.write(f"program = {self._number(program)}")
        start = (
            "0"
            if is_constant(self.row.blocks, 1)
            else "program"
            if self.row.block == 1
            else f"program * {self.row.block}"
        )
        if not is_constant(self.row.count, 1):
            self.writer.write_all(place_axis(self.tile, self.row, start))

    def _number(self, text: str) -> str:
        """One that positions are computed from, as wide as they are."""
        if not self.tile.wide:
            return text
        return f"({text}).to(tl.int64)" if " " in text else f"{text}.to(tl.int64)"

    def _pass_count(self) -> int:
        reduces = [p for o, p in zip(self.facts.body, self.arrangement.passes, strict=True) if isinstance(o, Reduce)]
        return max([self.arrangement.pass_count, *reduces])

    def _reduces(self, number: int) -> list[int]:
        """The reductions at the end of pass `number`."""
        return [
            n for n, operation in enumerate(self.facts.body)
            if isinstance(operation, Reduce) and self.arrangement.passes[n] == number + 1 and n not in self.online
        ]  # fmt: skip

    def _early(self, number: int) -> list[int]:
        """The online sums that run along with the reductions of pass `number`."""
        return [total for total, partner in self.online.items() if self.arrangement.passes[partner] == number + 1]

    def _has_work(self, number: int) -> bool:
        return bool(self._reduces(number) or self._needed(number))

    def _row_values(self, number: int, with_stores: bool = True) -> None:
        """What is computed once a row, before pass `number`."""
        levels, passes = self.arrangement.levels, self.arrangement.passes
        others = (Reduce,) if with_stores else (Reduce, Store)
        self.printer.emit(
            n for n, operation in enumerate(self.facts.body)
            if levels[n] == "row" and passes[n] == number and not isinstance(operation, others)
        )  # fmt: skip

    def _sweep(self, number: int, start: str) -> None:
        """One pass over this program's columns: its stores, and its reductions into a block of lanes each."""
        topped = self._topped(number)
        for reduce in (*self._early(number), *self._reduces(number)):
            for name, identity, kind in self._lanes(reduce):
                shape = self._row_shape() if reduce in topped else self.tile.shape
                self.writer.write(f"{name} = tl.full({shape}, {identity}, {kind})")
        for scan in self._scans(self._needed(number)):
            identity = self._scan_rule(scan).identity
            self.writer.write(f"{self.printer.name(scan)}_carry = tl.full({self._row_shape()}, {identity}, {self._kind(scan)})")
        block = self.plan.column_block
        end = self.tile.text(self.plan.steps * block)
        if not self._has_blocks_without_ends():
            self._steps(number, start, self._range(end, block))
            return
        whole, column, tile = f"whole_{number}", self.column, self.tile
        self.writer.write(f"{whole} = {self.tile.factor(column.count)} // {block} * {block}")
        self.column = replace(column, is_whole=True)
        self.tile = self.printer.tile = replace(tile, axes=(self.row, self.column))
        self._steps(number, start, self._range(whole, block))
        self.column, self.tile, self.printer.tile = column, tile, tile
        self._steps(number, start, f"range({whole}, {end}, {block})")

    def _has_blocks_without_ends(self) -> bool:
        """Whether a loop goes through the blocks before the last one without its mask: where columns vary, the last one may have an end.
        Not for tiles of several rows in which nothing is scanned, nor for parts of rows, where that was measured to win nothing."""
        is_looped = self.plan.mode == "looped" and (self.plan.row_block == 1 or any(isinstance(o, Scan) for o in self.facts.body))
        varies = self.column.is_masked and isinstance(self.column.count, Size)
        return is_looped and varies and estimated(self.plan.steps) >= _STEPS_WITHOUT_ENDS

    def _steps(self, number: int, start: str, steps: str) -> None:
        topped, needed = self._topped(number), self._needed(number)
        with self.writer.block(f"for start in {steps}:"):
            self.writer.write_all(place_axis(self.tile, self.column, start))
            for value in needed:
                if isinstance(self.facts.body[value], Scan):
                    self._scan(value, carries=True)
                else:
                    self.printer.emit([value])
            for total in self._early(number):
                self._join_early(total)
            for reduce in self._reduces(number):
                if reduce not in topped:
                    self._join(reduce)

    def _topped(self, number: int) -> set[int]:
        """Maxima of pass `number` that are kept for the whole row, beside a sum of exponentials."""
        return {self.online[t] for t in self._early(number) if is_of_exponentials(self.facts.body, self.online[t])}

    def _needed(self, number: int) -> list[int]:
        """Element-level values that pass `number` needs, those of earlier passes computed anew."""
        levels, passes, body = self.arrangement.levels, self.arrangement.passes, self.facts.body
        stores = [
            n for n, o in enumerate(body) if isinstance(o, Store) and levels[n] == "element" and passes[n] == number
        ]
        pending = stores + [body[reduce].arguments[0] for reduce in self._reduces(number)]
        needed: set[int] = set()
        while pending:
            value = pending.pop()
            if value not in needed and levels[value] == "element":
                needed.add(value)
                pending.extend(body[value].arguments)
        return sorted(needed)

    def _value(self, number: int, operation: Operation) -> None:
        """Of a row that is held."""
        if isinstance(operation, Reduce):
            self._reduce_held(number, operation)
        elif isinstance(operation, Scan):
            self._scan(number)
        else:
            self.printer.emit([number])

    # ---- scans ----

    def _scans(self, numbers: list[int]) -> list[int]:
        return [number for number in numbers if isinstance(self.facts.body[number], Scan)]

    def _scan(self, number: int, carries: bool = False) -> None:
        """Within a block of columns, and on from what the blocks before came to."""
        operation, name, rule = self.facts.body[number], self.printer.name(number), self._scan_rule(number)
        (argument,) = operation.arguments
        text = self.printer.spread(argument, frozenset(("row", "column")))
        text = f"tl.where({self.column.mask}, {text}, {rule.identity})" if self.column.is_masked else text
        if not carries:
            self.printer.assign(number, self._use(rule.scan.format(text, axis=self.axis)))
            return
        self.writer.write(f"{name}_element = {text}", operation.origin)
        scanned, whole = (form.format(f"{name}_element", axis=self.axis) for form in (rule.scan, rule.fold))
        self.printer.assign(number, self._use(rule.join.format(f"{name}_carry", scanned)))
        self.writer.write(f"{name}_carry = {self._use(rule.join.format(f'{name}_carry', self._kept(whole)))}", operation.origin)

    def _scan_rule(self, scan: int) -> ScanRule:
        return scan_rule_for(self.facts.body[scan].kind, self.facts.body[scan].dtype)

    def _kind(self, scan: int) -> str:
        return TEXT[self.facts.body[scan].dtype]

    def _row_shape(self) -> str:
        return f"[{self.row.block}, 1]" if len(self.tile.dimensions) > 1 else "[]"

    # ---- reductions ----

    def _rule(self, reduce: int) -> Rule:
        operation = self.facts.body[reduce]
        return rule_for(operation.kind, self.facts.body[operation.arguments[0]].dtype)

    def _use(self, expression: str) -> str:
        self.printer.helpers |= helpers_in(expression)
        return expression

    def _element(self, reduce: int) -> str:
        """The reduced value, as a whole block, with the identity in masked columns."""
        (argument,) = self.facts.body[reduce].arguments
        rule = self._rule(reduce)
        text = self._whole_element(reduce)
        if rule.type == "tl.int32" and self.facts.body[argument].dtype.itemsize == 1:
            text = f"{text}.to(tl.int32)"
        if not self.column.is_masked or self.printer.outside(argument) == rule.identity:
            return text
        return f"tl.where({self.column.mask}, {text}, {rule.identity})"

    def _whole_element(self, reduce: int) -> str:
        return self.printer.spread(self.facts.body[reduce].arguments[0], frozenset(("row", "column")))

    def _position(self, reduce: int) -> str:
        """The columns' numbers in the whole tile, past the end so large that they never win. Where the identity stands there they are as
        large as they are: if the row holds nothing else, its first column still is before them."""
        looping = [symbol for symbol in self.column.symbols if not is_constant(symbol.extent, 1)]
        flat = looping[0].name if len(looping) == 1 else "column"
        flat = f"{flat}.to({self._position_type()})" if self.tile.wide else flat
        flat = f"tl.broadcast_to({flat}, {self.tile.shape})"
        (argument,) = self.facts.body[reduce].arguments
        is_any = not self.column.is_masked or self.printer.outside(argument) == self._rule(reduce).identity
        return flat if is_any else f"tl.where({self.column.mask}, {flat}, {self._no_position()})"

    def _position_type(self) -> str:
        """Of the numbers of columns: few need 64 bits, and it takes long to compare those."""
        count = self.column.count
        return "tl.int64" if self.tile.wide and (isinstance(count, Size) or count >= WIDE) else "tl.int32"

    def _no_position(self) -> int:
        return no_position(self._position_type())

    def _reduce_held(self, reduce: int, operation: Reduce) -> None:
        if operation.kind in INDEXED:
            self._find_held(reduce, operation)
        else:
            self._finish(reduce, self._fold(reduce, self._element(reduce)))

    def _find_held(self, reduce: int, operation: Reduce) -> None:
        """With the whole row at hand: the extremum, then the first place where it stands. Cheaper than both at once."""
        name, block = self.printer.name(reduce), f"{self.printer.name(reduce)}_element"
        self.writer.write(f"{block} = {self._element(reduce)}", operation.origin)
        self.writer.write(f"{name}_value = {self._fold(reduce, block)}", operation.origin)
        # Where the extremum is a NaN, it equals nothing; and if any is, it is the extremum.
        places = f"tl.where(({block} == {name}_value) | ({block} != {block}), {self._position(reduce)}, {self._no_position()})"
        self.printer.assign(reduce, f"{self._kept(f'tl.min({places}, {self.axis})')}.to(tl.int64)", name)

    def _lanes(self, reduce: int) -> list[tuple[str, str, str]]:
        """The accumulators of a reduction: name, identity, type."""
        rule, name = self._rule(reduce), self.printer.name(reduce)
        lanes = [(f"{name}_lanes", rule.identity, rule.type)]
        if self.facts.body[reduce].kind in INDEXED:
            lanes.append((f"{name}_places", str(self._no_position()), self._position_type()))
        return lanes

    def _lane_names(self, reduce: int) -> list[str]:
        return [name for name, _, _ in self._lanes(reduce)]

    def _join(self, reduce: int) -> None:
        operation, names = self.facts.body[reduce], self._lane_names(reduce)
        element = self._element(reduce)
        if operation.kind in INDEXED:
            helper = f"{INDEXED[operation.kind]}({names[0]}, {names[1]}, {element}, {self._position(reduce)})"
            self.writer.write(f"{names[0]}, {names[1]} = {self._use(helper)}", operation.origin)
            return
        joined = self._use(self._rule(reduce).join.format(names[0], element))
        self.writer.write(f"{names[0]} = {joined}", operation.origin)

    def _join_early(self, total: int) -> None:
        is_exponential = is_of_exponentials(self.facts.body, self.online[total])
        (self._join_exponentials if is_exponential else self._join_squares)(total)

    def _join_exponentials(self, total: int) -> None:
        """Before a block's exponentials are added, the sums are scaled down by what the row's maximum has grown."""
        origin, name, maximum = self.facts.body[total].origin, self.printer.name(total), self.online[total]
        (top,) = self._lane_names(maximum)
        exp = self._exponential(maximum)
        self.writer.write(f"{name}_element = {self._element(maximum)}", origin)
        risen = self._rule(maximum).join.format(top, self._fold(maximum, f"{name}_element"))
        self.writer.write(f"{name}_rise = {self._use(risen)}", origin)
        base = self._base(total, f"{name}_rise")
        grown = f"{name}_lanes * {exp}({top} - {base}) + {exp}({name}_element - {base})"
        self.writer.write(f"{name}_lanes = {grown}", origin)
        self.writer.write(f"{top} = {name}_rise", origin)

    def _exponential(self, maximum: int) -> str:
        """Of what was rounded to 16 bits the sum of approximate exponentials is as good as the sum's own rounding."""
        return "tl.exp" if self._is_of_sixteen_bits(maximum) else "libdevice.exp"

    def _is_of_sixteen_bits(self, reduce: int) -> bool:
        operation = self.facts.body[self.facts.body[reduce].arguments[0]]
        if isinstance(operation, Load):
            return self.facts.buffers[operation.buffer].dtype in SIXTEEN_BIT_FLOATS
        is_cast = isinstance(operation, Compute) and operation.name == "cast"
        return is_cast and self.facts.body[operation.arguments[0]].dtype in SIXTEEN_BIT_FLOATS

    def _join_squares(self, total: int) -> None:
        """Before the sum's lanes move on: a lane has added up as many elements as there were steps."""
        origin, name, first = self.facts.body[total].origin, self.printer.name(total), self.online[total]
        (sums,) = self._lane_names(first)
        self.writer.write(f"{name}_steps = start // {self.plan.column_block}", origin)
        self.writer.write(f"{name}_rise = {self._whole_element(first)} - {sums} * (1.0 / tl.maximum({name}_steps, 1))", origin)
        grown = f"{name}_rise * {name}_rise * ({name}_steps / ({name}_steps + 1.0))"
        grown = f"tl.where({self.column.mask}, {grown}, 0)" if self.column.is_masked else grown
        self.writer.write(f"{name}_lanes = {name}_lanes + {grown}", origin)

    def _settled(self, total: int, partner: str, count: str) -> str:
        """The lanes of an online sum, all for the one maximum, or the one sum of so many elements, that `partner` names."""
        (lanes,) = self._lane_names(self.online[total])
        if is_of_exponentials(self.facts.body, self.online[total]):
            return self._where_infinite(total, partner, f"{self.printer.name(total)}_lanes")
        block = self.plan.column_block
        counts = f"(tl.maximum({count} - {self.tile.arange(self.column)}, 0) + {block - 1}) // {block}"
        return self._around(f"{self.printer.name(total)}_lanes", lanes, counts, f"{partner} / tl.maximum({count}, 1)")

    def _around(self, squares: str, sums: str, counts: str, mean: str) -> str:
        """Squares around means of their own, as squares around this one. The sums and the numbers of elements tell those."""
        self.writer.write(f"{squares}_counts = {counts}")
        self.writer.write(f"{squares}_apart = {sums} / tl.maximum({squares}_counts, 1) - {mean}")
        return f"{squares} + {squares}_counts * {squares}_apart * {squares}_apart"

    def _folded(self, reduce: int, names: list[str]) -> str:
        """The blocks of these names brought together."""
        kind = self.facts.body[reduce].kind
        return self._fold_indexed(kind, *names) if kind in INDEXED else self._fold(reduce, *names)

    def _fold(self, reduce: int, block: str) -> str:
        expression = self._rule(reduce).fold.format(block, axis=self.axis)
        return self._use(self._kept(expression))

    def _fold_indexed(self, kind: str, block: str, positions: str) -> str:
        helper = INDEXED[kind]
        self.printer.helpers.add(helper)
        return self._kept(f"tl.reduce(({block}, {positions}), {self.axis}, {helper})")

    def _kept(self, call: str) -> str:
        """A row's value keeps the column dimension, with size 1, where the tile has two."""
        return f"{call[:-1]}, keep_dims=True)" if len(self.tile.dimensions) > 1 else call

    def _finish(self, reduce: int, folded: str) -> None:
        """Name the result."""
        operation, name = self.facts.body[reduce], self.printer.name(reduce)
        if operation.kind in INDEXED:
            self.writer.write(f"{name}_value, {name} = {folded}", operation.origin)
            self.printer.assign(reduce, f"{name}.to(tl.int64)", name)
            return
        self.printer.assign(reduce, self._rule(reduce).finish.format(folded), name)

    # ---- parts of a reduction ----

    def _folded_part(self, reduce: int, blocks: list[str]) -> tuple[list[str], str]:
        names = [f"{self.printer.name(reduce)}_part"]
        if self.facts.body[reduce].kind in INDEXED:
            names.append(f"{self.printer.name(reduce)}_place")
        return names, self._folded(reduce, blocks)

    def _blocks(self, reduce: int) -> list[str]:
        """The elements that are reduced, with their places where these are asked for."""
        return [self._element(reduce), *([self._position(reduce)] if self.facts.body[reduce].kind in INDEXED else [])]

    def _settled_part(self, total: int) -> tuple[list[str], str]:
        """Squares around the mean of this part."""
        name = self.printer.name(total)
        self.writer.write(f"{name}_size = {self._elements_from('first')}")
        sums = f"{self.printer.name(self.online[total])}_part"
        return [f"{name}_part"], self._fold(total, self._settled(total, sums, f"{name}_size"))

    def _early_part(self, total: int, is_held: bool) -> tuple[list[str], str]:
        """The sum of exponentials under the maximum of this part, or of squares around its mean."""
        name, partner = self.printer.name(total), self.online[total]
        found, origin = f"{self.printer.name(partner)}_part", self.facts.body[total].origin
        if is_of_exponentials(self.facts.body, partner):
            held = f"{self._exponential(partner)}({self._element(partner)} - {self._base(total, found)})" if is_held else ""
            return [f"{name}_part"], self._fold(total, held or f"{name}_lanes")
        if not is_held:
            return self._settled_part(total)
        self.writer.write(f"{name}_size = {self._elements_from('first')}")
        self.writer.write(f"{name}_apart = {self._whole_element(partner)} - {found} / tl.maximum({name}_size, 1)", origin)
        squares = f"{name}_apart * {name}_apart"
        squares = f"tl.where({self.column.mask}, {squares}, 0)" if self.column.is_masked else squares
        return [f"{name}_part"], self._fold(total, squares)

    def _base(self, total: int, maximum: str) -> str:
        """What exponentials are taken from: while all are minus infinity, their distance from it is no number."""
        name = f"{self.printer.name(total)}_base"
        self.writer.write(f'{name} = tl.where({maximum} == float("-inf"), 0, {maximum})', self.facts.body[total].origin)
        return name

    def _combine_exponentials(self, total: int, places: list[tuple[int, str, str]]) -> None:
        (sums,) = self._read_parts(total, places)
        partner = self.online[total]
        maximum, maxima = self.printer.values[partner], f"{self.printer.name(partner)}_parts"
        scaled = f"{sums} * {self._exponential(partner)}({maxima} - {self._base(total, maximum)})"
        self._finish(total, self._where_infinite(total, maximum, self._fold(total, scaled)))

    def _where_infinite(self, total: int, maximum: str, sums: str) -> str:
        """The sums of exponentials where the maximum is infinite too: its distance from itself is no number."""
        if has_finite_shift(self.facts.body, total):
            return f'tl.where({maximum} == float("inf"), float("inf"), {sums})'
        return f'tl.where({maximum} == float("-inf"), float("nan"), {sums})'

    def _leave_part(self, reduce: int, names: list[str], folded: str) -> list[tuple[int, str, str]]:
        """Store what this program found; (reduction, type, first byte in the workspace) of each thing it carries."""
        self.writer.write(f"{', '.join(names)} = {folded}", self.facts.body[reduce].origin)
        left = []
        for part, (_, _, kind) in zip(names, self._lanes(reduce), strict=True):
            offset = self._reserve(8 if kind.endswith("64") else 4)
            pointer = f"(workspace + {offset}).to(tl.pointer_type({kind}))"
            self.writer.write(f"tl.store({self._place_of_part(pointer, 'part')}, {part})")
            left.append((reduce, kind, pointer))
        return left

    def _reserve(self, itemsize: int) -> int:
        offset = TICKET_BYTES + self.scratch_bytes
        self.scratch_bytes += -(-itemsize * self.plan.most_row_blocks * self.row.block * self.plan.parts // 16) * 16
        return offset

    def _read_parts(self, reduce: int, places: list[tuple[int, str, str]]) -> list[str]:
        """What every program left."""
        parts, vector = self.plan.parts, self._parts_vector()
        pointers = [pointer for owner, _, pointer in places if owner == reduce]
        names = []
        for pointer, (name, identity, _) in zip(pointers, self._lanes(reduce), strict=True):
            names.append(name.replace("_lanes", "_parts").replace("_places", "_part_places"))
            masked = "" if max(2, power_of_two(parts)) == parts else f", mask={vector} < {parts}, other={identity}"
            place = self._place_of_part(pointer, vector)
            # Another multiprocessor wrote them: not from this one's own cache.
            loaded = f'{names[-1]} = tl.load({place}{masked}, cache_modifier=".cg")'
            self.writer.write(loaded, self.facts.body[reduce].origin)
        return names

    def _place_of_part(self, pointer: str, part: str) -> str:
        row = "" if self.row.block == 1 else f" * {self.row.block} + {self.tile.arange(self.row)}"
        return f"{pointer} + (program * {self.plan.parts} + {part}){row}"

    def _parts_vector(self) -> str:
        vector = f"tl.arange(0, {max(2, power_of_two(self.plan.parts))})"
        return f"{vector}[None, :]" if len(self.tile.dimensions) > 1 else vector

    def _elements_from(self, first: str) -> str:
        """How many elements a part has that begins at this column."""
        size = self.tile.factor(self.plan.steps * self.plan.column_block)
        return f"tl.minimum(tl.maximum({self.tile.text(self.column.count)} - {first}, 0), {size})"

    def _combine_squares(self, total: int, places: list[tuple[int, str, str]]) -> None:
        (squares,) = self._read_parts(total, places)
        first, size = self.online[total], self.tile.factor(self.plan.steps * self.plan.column_block)
        counts = self._elements_from(f"{self._number(self._parts_vector())} * {size}")
        mean = f"{self.printer.values[first]} / {self.tile.factor(self.column.count)}"
        sums = f"{self.printer.name(first)}_parts"
        self._finish(total, self._fold(total, self._around(squares, sums, counts, mean)))
