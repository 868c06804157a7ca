"""Kernels of attention in tiles: scores are made, changed and left out where they are, a tile of rows and columns at a time.

    blocks      which tiles a mask leaves out, counts in part, counts whole
    lists       of each row of tiles the columns that count, and of each column the rows
    forward     result and ends (`tiled_attention.operators`), with a running maximum (Milakov and Gimelshein, "Online normalizer
                calculation for softmax")
    rows        the query's gradient, and of each row what its weights' gradients have in common
    columns     the gradients of key and value, of all heads that share them

The backward kernels make the weights again from the ends (Dao et al., "FlashAttention").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import torch

from dynascope.codegen.triton.dtypes import SIGNATURE, TEXT, typed_constant
from dynascope.codegen.triton.helpers import helper_texts
from dynascope.codegen.triton.kernel import ALIGNMENT, Parameter, TritonKernel
from dynascope.codegen.triton.operations import helpers_in, render, render_cast
from dynascope.codegen.triton.writer import KernelWriter
from dynascope.dataclass import dataclass
from dynascope.tiled_attention.functions import SCORE, Operand, ScoreFunction, Scores, Step

_IMPORTS = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"
LOG2E = 1.4426950408889634
NARROW = 1 << 23
"""Positions below it are 32 bits wide, and what is added of them, as long as it is below `WIDE`."""
WIDE, UNKNOWN = 1 << 31, 1 << 64
HALVES = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True)
class AttentionForm:
    """All that a kernel's text depends on. `inner` is the length of a query's row, `width` of a value's; `rows` and `columns` of a tile."""

    scores: Scores
    dtype: torch.dtype
    inner: int
    width: int
    tables: tuple[tuple[torch.dtype, int], ...]
    """Of each the type and how many dimensions."""
    rows: int
    columns: int
    warps: int
    stages: int
    is_narrow: bool
    """Whether there are fewer rows and columns than `NARROW`."""
    is_rounded: bool
    """Whether products of f32 may round their operands (TF32)."""

    @property
    def mask_varies(self) -> tuple[bool, bool]:
        """Whether the mask reads the batch, and the head."""
        found = self.scores.mask.depends([*self.scores.mask.results, *self.scores.mask.indices])
        return "batch" in found, "head" in found


def padded(size: int) -> int:
    return max(16, 1 << (size - 1).bit_length())


class _Kernel:
    """One kernel's text in the making."""

    def __init__(self, form: AttentionForm, name: str, pointers: dict[str, str], numbers: Sequence[str]):
        self.form, self.name = form, name
        self.writer = KernelWriter()
        self.helpers: set[str] = set()
        self.asserts = False
        self.pointers = dict(pointers)
        self.numbers = list(numbers)
        self._texts: dict[tuple[int, int], str] = {}
        """Of steps that are made before the tiles, by function and number."""
        self._made = 0
        for number, (dtype, dimensions) in enumerate(form.tables):
            self.pointers[f"table{number}"] = f"*{SIGNATURE[dtype]}"
            self.numbers += [f"table{number}_{what}{each}" for each in range(dimensions) for what in ("size", "stride")]

    def write(self, line: str) -> None:
        self.writer.write(line)

    def block(self, line: str) -> AbstractContextManager[None]:
        return self.writer.block(line)

    def prepare(self, given: dict[str, str], checks: bool = False) -> None:
        """Makes the steps that come of these places alone, which are the same for all tiles. `checks` as in `function`, of changes."""
        for function in filter(None, (self.form.scores.mask, self.form.scores.change)):
            texts = self._made_before(function)
            for number in function.needed([*function.results]):
                if number not in texts and all(isinstance(each, int) or each in given for each in function.depends([number])):
                    texts[number] = self._step(function, number, texts, given, checks and function is self.form.scores.change)
                    self._texts[id(function), number] = texts[number]

    def function(self, function: ScoreFunction, wanted: Sequence[Operand], given: dict[str, str], checks: bool) -> list[str]:
        """The wanted operands of it, as texts; `checks` whether an index that is out of range stops the kernel."""
        texts = self._made_before(function)
        for number in function.needed(wanted):
            if number not in texts:
                texts[number] = self._step(function, number, texts, given, checks)
        return [self._operand(function, each, None, texts, given) for each in wanted]

    def _made_before(self, function: ScoreFunction) -> dict[int, str]:
        return {number: text for (of, number), text in self._texts.items() if of == id(function)}

    def _step(self, function: ScoreFunction, number: int, texts: dict[int, str], given: dict[str, str], checks: bool) -> str:
        step, name = function.steps[number], f"v{self._made}"
        self._made += 1
        if step.operation == "index":
            self._index(name, step, [self._operand(function, each, None, texts, given) for each in step.operands], checks)
            return name
        dtype, kind = getattr(torch, step.dtype), getattr(torch, step.kind)
        narrow = self._is_narrow(function, number)
        kinds = (self._kind_of(step, place, kind, narrow) for place in range(len(step.operands)))
        operands = [self._operand(function, *each, texts, given) for each in zip(step.operands, kinds, strict=True)]
        if step.operation == "cast":
            text = render_cast(operands[0], kind, torch.int32 if narrow else dtype)
        else:
            text = render(step.operation, kind, operands, "near")
        self.helpers |= helpers_in(text)
        self.write(f"{name} = {text}")
        return name

    def _kind_of(self, step: Step, place: int, kind: torch.dtype, narrow: bool) -> torch.dtype | None:
        """What an operand is converted to; None where it comes as it is."""
        if step.operation == "where" and place == 0:
            return torch.bool
        if step.operation == "cast":
            return None
        return None if narrow else kind

    def _is_narrow(self, function: ScoreFunction, number: int) -> bool:
        """Whether a step of 64-bit integers surely fits into 32 bits, and so do its operands."""
        step = function.steps[number]
        sizes = [self._bound(function, each) for each in step.operands]
        if step.kind != "int64" or max(sizes) >= WIDE:
            return False
        return step.dtype == "bool" or (step.dtype == "int64" and self._bound(function, number) < WIDE)

    def _bound(self, function: ScoreFunction, operand: Operand) -> int:
        """What the operand is surely less than, without its sign."""
        if isinstance(operand, tuple):
            return abs(operand[0]) + 1 if isinstance(operand[0], int) else UNKNOWN
        if isinstance(operand, str):
            return NARROW if self.form.is_narrow and operand != SCORE else UNKNOWN
        step = function.steps[operand]
        if step.kind != "int64" or step.dtype != "int64":
            return UNKNOWN
        sizes = [self._bound(function, each) for each in step.operands]
        if step.operation in ("add", "subtract"):
            return sum(sizes)
        if step.operation in ("maximum", "minimum", "negate", "absolute"):
            return max(sizes)
        if step.operation == "multiply":
            return math.prod(sizes)
        if step.operation in ("floor_divide", "remainder") and isinstance(step.operands[1], tuple):
            return max(sizes) + 1
        return UNKNOWN

    def _operand(
        self, function: ScoreFunction, operand: Operand, kind: torch.dtype | None, texts: dict[int, str], given: dict[str, str]
    ) -> str:
        if isinstance(operand, tuple):
            (value,) = operand
            if kind is None:
                kind = torch.bool if isinstance(value, bool) else torch.float32 if isinstance(value, float) else torch.int32
            return typed_constant(value, kind)
        if isinstance(operand, str):
            text, dtype = given[operand], torch.float32 if operand == SCORE else torch.int64
        else:
            text, dtype = texts[operand], getattr(torch, function.steps[operand].dtype)
        if kind is None:
            return text
        return f"{text}.to(tl.int64)" if kind == dtype == torch.int64 else render_cast(text, dtype, kind)

    def _index(self, name: str, step: Step, places: list[str], checks: bool) -> None:
        pointer = f"table{step.table}"
        at = []
        for dimension, place in enumerate(places):
            size, valid = f"{pointer}_size{dimension}", f"{name}_valid{dimension}"
            self.write(f"{name}_at{dimension} = tl.where({place} < 0, {place} + {size}, {place})")
            self.write(f"{valid} = ({name}_at{dimension} >= 0) & ({name}_at{dimension} < {size})")
            if checks:
                self.write(f'tl.device_assert({valid}, "an index is out of range for a dimension of the tensor")')
                self.asserts = True
            at.append(f"tl.where({valid}, {name}_at{dimension}, 0).to(tl.int64) * {pointer}_stride{dimension}")
        stored = self.form.tables[step.table][0]
        address = " + ".join([pointer, *at])
        self.write(f"{name} = {render_cast(f'tl.load({address})', stored, getattr(torch, step.dtype))}")

    def finished(self, programs: int, aligned: frozenset[str], stages: int, warps: int | None = None) -> TritonKernel:
        parameters = [Parameter(name, kind, name) for name, kind in self.pointers.items()]
        parameters += [Parameter(name, "fp64" if name == "scale" else "i64", name) for name in self.numbers]
        head = _IMPORTS + helper_texts(frozenset(self.helpers))
        definition = f"@triton.jit\ndef {self.name}({', '.join(each.name for each in parameters)}):\n"
        return TritonKernel(
            name=self.name,
            text=head + "\n\n" + definition + "".join(f"    {line}\n" if line else "\n" for line in self.writer.lines),
            parameters=tuple(parameters),
            grid=(programs, 1, 1),
            warps=warps or self.form.warps,
            stages=stages,
            divisors=tuple(sorted((each.name, ALIGNMENT) for each in parameters if each.name in aligned)),
            asserts=self.asserts,
        )


def blocks_kernel(form: AttentionForm, programs: int, aligned: frozenset[str]) -> TritonKernel:
    """`codes[batch or 1, head or 1, rows of tiles, columns of tiles]`: 0 where nothing of a tile counts, 1 in part, 2 where all does."""
    kernel = _Kernel(form, "attention_blocks", {"codes": "*u8"}, ("row_count", "column_count", "row_blocks", "column_blocks", "mask_heads"))
    write = kernel.write
    write("program = tl.program_id(0)")
    write("column_block = program % column_blocks")
    write("row_block = program // column_blocks % row_blocks")
    write("head_at = (program // (column_blocks * row_blocks) % mask_heads).to(tl.int32)")
    write("batch_at = (program // (column_blocks * row_blocks * mask_heads)).to(tl.int32)")
    write(f"rows_at = (row_block * {form.rows}).to(tl.int32) + tl.arange(0, {form.rows})[:, None]")
    write(f"columns_at = (column_block * {form.columns}).to(tl.int32) + tl.arange(0, {form.columns})[None, :]")
    write("row_at = tl.minimum(rows_at, row_count - 1).to(tl.int32)")
    write("column_at = tl.minimum(columns_at, column_count - 1).to(tl.int32)")
    mask = form.scores.mask
    given = {"batch": "batch_at", "head": "head_at", "row": "row_at", "column": "column_at"}
    counts, *_ = kernel.function(mask, [*mask.results, *mask.indices], given, checks=True)
    write(f"counts = ({counts} & (columns_at < column_count)) & (tl.zeros([{form.rows}, {form.columns}], tl.int32) == 0)")
    write("any_counts = tl.max(tl.max(counts.to(tl.int32), 1), 0)")
    write("all_count = tl.min(tl.min(counts.to(tl.int32), 1), 0)")
    write("tl.store(codes + program, (any_counts + all_count).to(tl.uint8))")
    return kernel.finished(programs, aligned, 1, 4)


def lists_kernel(form: AttentionForm, lines: int, aligned: frozenset[str], most: int) -> TritonKernel:
    """`of_rows[mask, rows of tiles, 2, 1 + columns of tiles]`: how many tiles count in part, and which; then those that count whole.
    `of_columns` the same of columns. One program for each line."""
    pointers = {"codes": "*u8", "of_rows": "*i32", "of_columns": "*i32"}
    kernel = _Kernel(replace(form, tables=()), "attention_lists", pointers, ("row_blocks", "column_blocks"))
    write = kernel.write
    write("line = tl.program_id(0).to(tl.int64)")
    write("lines = row_blocks + column_blocks")
    write("mask, line = line // lines, line % lines")
    write("is_row = line < row_blocks")
    write("count = tl.where(is_row, column_blocks, row_blocks)")
    write("start = tl.where(is_row, line * column_blocks, line - row_blocks)")
    write("stride = tl.where(is_row, 1, column_blocks)")
    write(f"places = tl.arange(0, {padded(most)})")
    write("read = codes + mask * row_blocks * column_blocks + start + places * stride")
    write("found = tl.load(read, mask=places < count, other=0).to(tl.int32)")
    for name, code in (("partly", 1), ("wholly", 2)):
        write(f"{name} = (found == {code}).to(tl.int32)")
        write(f"{name}_at = tl.cumsum({name}, 0)")
        write(f"{name}_count = tl.sum({name}, 0)")
    for head, lists, own, own_count, length in (
        ("if is_row:", "of_rows", "line", "row_blocks", "column_blocks"),
        ("else:", "of_columns", "line - row_blocks", "column_blocks", "row_blocks"),
    ):
        with kernel.block(head):
            write(f"to = {lists} + (mask * {own_count} + {own}) * 2 * ({length} + 1)")
            write("tl.store(to, partly_count)")
            write("tl.store(to + partly_at, places, mask=partly == 1)")
            write(f"to += {length} + 1")
            write("tl.store(to, wholly_count)")
            write("tl.store(to + wholly_at, places, mask=wholly == 1)")
    return kernel.finished(lines, aligned, 1, 1 if most <= 1024 else 4)


def forward_kernel(form: AttentionForm, programs: int, aligned: frozenset[str]) -> TritonKernel:
    pointers = {**_elements(form, "query", "key", "value", "result"), "ends": "*fp32", "of_rows": "*i32"}
    kernel = _Kernel(form, "attention_forward", pointers, (*_COUNTS, *_strides("query", "key", "value", "result")))
    write = kernel.write
    _write_row_program(kernel, checks=True)
    write(f"queries = {_load(form, 'query', 'head', 'rows_at', form.inner, 'row_count')}")
    write(f'most = tl.full([{form.rows}], float("-inf"), tl.float32)')
    write(f"total = tl.zeros([{form.rows}], tl.float32)")
    write(f"made = tl.zeros([{form.rows}, {padded(form.width)}], tl.float32)")

    def step(is_partial: bool) -> None:
        count = "column_count" if is_partial else ""
        _write_columns(kernel)
        write(f"keys = {_load_tile(form, 'key', form.inner, count)}")
        write(f"scores = {_dot(form, 'queries', 'tl.trans(keys)')}")
        _write_changed(kernel, is_partial, "columns_across", is_slope_wanted=False, checks=True)
        write("higher = tl.maximum(most, tl.max(changed, 1))")
        write('safe = tl.where(higher == float("-inf"), 0.0, higher)')
        write("weights = tl.exp2(changed - safe[:, None])")
        write("less = tl.exp2(most - safe)")
        write("total = total * less + tl.sum(weights, 1)")
        write("made = made * less[:, None]")
        write(f"values = {_load_tile(form, 'value', form.width, count)}")
        write(f"made = {_dot(form, f'weights.to({TEXT[form.dtype]})', 'values', 'made')}")
        write("most = higher")

    _write_tiles(kernel, "of_rows", "row_block", "row_blocks", "column_blocks", step)
    write("total_or_one = tl.where(total == 0, 1.0, total)")
    write("made = made / total_or_one[:, None]")
    write(_store(form, "result", "made", "head", "rows_at", form.width, "row_count"))
    write('row_ends = tl.where(total == 0, float("inf"), most + tl.log2(total_or_one))')
    write(f"tl.store({_of_row('ends')}, row_ends, mask=row < row_count)")
    return kernel.finished(programs, aligned, form.stages)


def rows_kernel(form: AttentionForm, programs: int, aligned: frozenset[str]) -> TritonKernel:
    """`shared` is, of each row, the sum of what its weights and their gradients make: all of these are that much less."""
    pointers = {
        **_elements(form, "query", "key", "value", "result", "tangent", "query_gradient"),
        **dict.fromkeys(("ends", "shared"), "*fp32"),
        "of_rows": "*i32",
    }
    strided = _strides("query", "key", "value", "result", "tangent", "query_gradient")
    kernel = _Kernel(form, "attention_rows", pointers, (*_COUNTS, *strided))
    write = kernel.write
    _write_row_program(kernel)
    write(f"queries = {_load(form, 'query', 'head', 'rows_at', form.inner, 'row_count')}")
    write(f"tangents = {_load(form, 'tangent', 'head', 'rows_at', form.width, 'row_count')}")
    write(f"results = {_load(form, 'result', 'head', 'rows_at', form.width, 'row_count')}")
    write("of_all = tl.sum(results.to(tl.float32) * tangents.to(tl.float32), 1)")
    write(f"tl.store({_of_row('shared')}, of_all, mask=row < row_count)")
    write(f'row_ends = tl.load({_of_row("ends")}, mask=row < row_count, other=float("inf"))')
    write(f"made = tl.zeros([{form.rows}, {padded(form.inner)}], tl.float32)")

    def step(is_partial: bool) -> None:
        count = "column_count" if is_partial else ""
        _write_columns(kernel)
        write(f"keys = {_load(form, 'key', 'group', 'columns_down', form.inner, count)}")
        write(f"values = {_load(form, 'value', 'group', 'columns_down', form.width, count)}")
        write(f"scores = {_dot(form, 'queries', 'tl.trans(keys)')}")
        _write_changed(kernel, is_partial, "columns_across", is_slope_wanted=True)
        write("weights = tl.exp2(changed - row_ends[:, None])")
        write(f"of_weights = {_dot(form, 'tangents', 'tl.trans(values)')} - of_all[:, None]")
        _write_score_gradients(kernel, is_partial)
        write(f"made = {_dot(form, f'of_scores.to({TEXT[form.dtype]})', 'keys', 'made')}")

    _write_tiles(kernel, "of_rows", "row_block", "row_blocks", "column_blocks", step)
    write("made = made * scale")
    write(_store(form, "query_gradient", "made", "head", "rows_at", form.inner, "row_count"))
    return kernel.finished(programs, aligned, form.stages)


def columns_kernel(form: AttentionForm, programs: int, aligned: frozenset[str]) -> TritonKernel:
    pointers = {
        **_elements(form, "query", "key", "value", "tangent", "key_gradient", "value_gradient"),
        **dict.fromkeys(("ends", "shared"), "*fp32"),
        "of_columns": "*i32",
    }
    strided = _strides("query", "key", "value", "tangent", "key_gradient", "value_gradient")
    kernel = _Kernel(form, "attention_columns", pointers, (*_COUNTS, *strided))
    write, narrow = kernel.write, TEXT[form.dtype]
    _write_scale(kernel)
    write("program = tl.program_id(0)")
    write("block = (program % column_blocks).to(tl.int32)")
    write("group = program // column_blocks % (head_count // repeats)")
    write("batch = program // column_blocks // (head_count // repeats)")
    write("batch_at = batch.to(tl.int32)")
    write(f"columns_down = block * {form.columns} + tl.arange(0, {form.columns})[:, None]")
    write("column_at = tl.minimum(columns_down, column_count - 1).to(tl.int32)")
    write(f"keys = {_load(form, 'key', 'group', 'columns_down', form.inner, 'column_count')}")
    write(f"values = {_load(form, 'value', 'group', 'columns_down', form.width, 'column_count')}")
    write(f"of_keys = tl.zeros([{form.columns}, {padded(form.inner)}], tl.float32)")
    write(f"of_values = tl.zeros([{form.columns}, {padded(form.width)}], tl.float32)")

    def step(is_partial: bool) -> None:
        write(f"rows_down = block_of_rows * {form.rows} + tl.arange(0, {form.rows})[:, None]")
        write(f"row = block_of_rows * {form.rows} + tl.arange(0, {form.rows})")
        write("row_at = tl.minimum(row, row_count - 1).to(tl.int32)[None, :]")
        write(f"queries = {_load(form, 'query', 'head', 'rows_down', form.inner, 'row_count')}")
        write(f"tangents = {_load(form, 'tangent', 'head', 'rows_down', form.width, 'row_count')}")
        write(f'row_ends = tl.load({_of_row("ends")}, mask=row < row_count, other=float("inf"))')
        write(f"of_all = tl.load({_of_row('shared')}, mask=row < row_count, other=0.0)")
        write(f"scores = {_dot(form, 'keys', 'tl.trans(queries)')}")
        _write_changed(kernel, is_partial, "columns_down", is_slope_wanted=True)
        write("weights = tl.exp2(changed - row_ends[None, :])")
        write(f"of_values = {_dot(form, f'weights.to({narrow})', 'tangents', 'of_values')}")
        write(f"of_weights = {_dot(form, 'values', 'tl.trans(tangents)')} - of_all[None, :]")
        _write_score_gradients(kernel, is_partial)
        write(f"of_keys = {_dot(form, f'of_scores.to({narrow})', 'queries', 'of_keys')}")

    kernel.prepare({"batch": "batch_at", "column": "column_at"})
    with kernel.block("for repeat in range(0, repeats):"):
        write("head = group * repeats + repeat")
        write("head_at = head.to(tl.int32)")
        write("mask = batch * mask_batch_stride + head * mask_head_stride")
        kernel.prepare({"batch": "batch_at", "head": "head_at", "column": "column_at"})
        _write_tiles(kernel, "of_columns", "block", "column_blocks", "row_blocks", step, "block_of_rows")
    write("of_keys = of_keys * scale")
    write(_store(form, "key_gradient", "of_keys", "group", "columns_down", form.inner, "column_count"))
    write(_store(form, "value_gradient", "of_values", "group", "columns_down", form.width, "column_count"))
    return kernel.finished(programs, aligned, form.stages)


_COUNTS = (
    *("row_count", "column_count", "head_count", "repeats", "row_blocks", "column_blocks"),
    *("mask_batch_stride", "mask_head_stride", "scale"),
)
STRIDED = 3
"""How many dimensions may lie anywhere: the elements of a row lie beside one another."""


def _elements(form: AttentionForm, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, f"*{SIGNATURE[form.dtype]}")


def _strides(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_stride{dimension}" for name in names for dimension in range(STRIDED))


def _write_scale(kernel: _Kernel) -> None:
    kernel.write("scale = tl.cast(scale, tl.float32)")


def _write_row_program(kernel: _Kernel, checks: bool = False) -> None:
    """Which rows are this program's, and what comes of them. The last ones come first: under a causal mask they take longest."""
    form, write = kernel.form, kernel.write
    _write_scale(kernel)
    write("program = tl.program_id(0)")
    write("row_block = (row_blocks - 1 - program % row_blocks).to(tl.int32)")
    write("head = program // row_blocks % head_count")
    write("batch = program // row_blocks // head_count")
    write("group = head // repeats")
    write("mask = batch * mask_batch_stride + head * mask_head_stride")
    write("head_at = head.to(tl.int32)")
    write("batch_at = batch.to(tl.int32)")
    write(f"row = row_block * {form.rows} + tl.arange(0, {form.rows})")
    write("rows_at = row[:, None]")
    write("row_at = tl.minimum(rows_at, row_count - 1).to(tl.int32)")
    kernel.prepare({"batch": "batch_at", "head": "head_at", "row": "row_at"}, checks)


def _write_columns(kernel: _Kernel) -> None:
    columns = kernel.form.columns
    kernel.write(f"columns_down = block * {columns} + tl.arange(0, {columns})[:, None]")
    kernel.write(f"columns_across = block * {columns} + tl.arange(0, {columns})[None, :]")
    kernel.write("column_at = tl.minimum(columns_across, column_count - 1).to(tl.int32)")


def _write_tiles(
    kernel: _Kernel, lists: str, own: str, own_count: str, other_count: str, step: Callable[[bool], None], block: str = "block"
) -> None:
    """A loop over the tiles that count in part, and one over those that count whole."""
    for place, is_partial in enumerate((True, False)):
        kernel.write(f"tiles = {lists} + ((mask * {own_count} + {own}) * 2 + {place}) * ({other_count} + 1)")
        kernel.write("tile_count = tl.load(tiles)")
        with kernel.block("for number_of_tile in range(0, tile_count):"):
            kernel.write(f"{block} = tl.load(tiles + 1 + number_of_tile)")
            step(is_partial)


def _write_changed(kernel: _Kernel, is_partial: bool, columns: str, is_slope_wanted: bool, checks: bool = False) -> None:
    """`changed`, the logarithms of the weights to the base of two, and with a slope `slope`; where a tile counts in part, `counts`.
    `columns` is what the tile's columns are called as they lie there."""
    form, write = kernel.form, kernel.write
    given = {"batch": "batch_at", "head": "head_at", "row": "row_at", "column": "column_at", SCORE: "scores"}
    change = form.scores.change
    if change is None:
        write(f"changed = scores * (scale * {LOG2E})")
    else:
        write("scores = scores * scale")
        wanted = change.results if is_slope_wanted else change.results[:1]
        changed, *slope = kernel.function(change, wanted, given, checks)
        widened = "" if SCORE in change.depends(change.results[:1]) else " + tl.zeros_like(scores)"
        write(f"changed = {changed} * {LOG2E}{widened}")
        if slope:
            write(f"slope = {slope[0]}")
    if is_partial:
        mask = form.scores.mask
        (counts,) = kernel.function(mask, mask.results, given, checks=False)
        write(f"counts = {counts} & ({columns} < column_count)")
        write('changed = tl.where(counts, changed, float("-inf"))')


def _write_score_gradients(kernel: _Kernel, is_partial: bool) -> None:
    kernel.write("of_scores = weights * of_weights")
    if kernel.form.scores.change is not None:
        kernel.write("of_scores = of_scores * slope")
        if is_partial:
            kernel.write("of_scores = tl.where(counts, of_scores, 0.0)")  # a slope may be infinite where nothing counts


def _of_row(name: str) -> str:
    return f"{name} + (batch * head_count + head) * row_count + row"


def _place(form: AttentionForm, name: str, head: str, down: str, width: int, count: str) -> tuple[str, str]:
    """Where the rows `down` of a head lie, and which of them there are: less than `count`, or all where it is empty."""
    across = f"tl.arange(0, {padded(width)})[None, :]"
    first = f"{name} + batch * {name}_stride0 + {head} * {name}_stride1"
    masks = [f"({down} < {count})"] if count else []
    masks += [f"({across} < {width})"] if padded(width) != width else []
    return f"{first} + {down}.to(tl.int64) * {name}_stride2 + {across}", " & ".join(masks)


def _load(form: AttentionForm, name: str, head: str, down: str, width: int, count: str) -> str:
    place, mask = _place(form, name, head, down, width, count)
    return f"tl.load({place}, mask={mask}, other=0.0)" if mask else f"tl.load({place})"


def _load_tile(form: AttentionForm, name: str, width: int, count: str) -> str:
    """Of keys or values those of the tile `block`: where it begins is one number, and where its elements lie from there is the same for all
    tiles of a loop. It takes registers, which the backward kernels have none left of."""
    _, mask = _place(form, name, "group", "columns_down", width, count)
    first = f"{name} + batch * {name}_stride0 + group * {name}_stride1 + block.to(tl.int64) * {form.columns} * {name}_stride2"
    place = f"{first} + (tl.arange(0, {form.columns})[:, None].to(tl.int64) * {name}_stride2 + tl.arange(0, {padded(width)})[None, :])"
    return f"tl.load({place}, mask={mask}, other=0.0)" if mask else f"tl.load({place})"


def _store(form: AttentionForm, name: str, value: str, head: str, down: str, width: int, count: str) -> str:
    place, mask = _place(form, name, head, down, width, count)
    return f"tl.store({place}, {value}.to({TEXT[form.dtype]}), mask={mask})"


def _dot(form: AttentionForm, first: str, second: str, total: str = "") -> str:
    precision = "" if form.dtype in HALVES else f', input_precision="{"tf32" if form.is_rounded else "ieee"}"'
    return f"tl.dot({first}, {second}{f', {total}' if total else ''}{precision})"
