"""A kernel in the making: its names, its tile, its text, and the finished TritonKernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from dynascope.codegen.triton.body import BodyPrinter, Names
from dynascope.codegen.triton.dtypes import SIGNATURE, SIXTEEN_BIT_FLOATS
from dynascope.codegen.triton.helpers import helper_texts
from dynascope.codegen.triton.kernel import ALIGNMENT, SHORT_VECTOR, TICKET_BYTES, Parameter, TritonKernel
from dynascope.codegen.triton.operations import PRECISIONS, Precision
from dynascope.codegen.triton.tile import Axis, Tile
from dynascope.codegen.triton.writer import KernelWriter
from dynascope.dataclass import dataclass
from dynascope.loops.dtypes import short_name
from dynascope.loops.index import Atom, Extent, Symbol
from dynascope.loops.nodes import Argument, Body, Buffer, Compute, Load, Operation, Reduce, Scan, Store
from dynascope.loops.operations import TABLE, TRANSCENDENTAL
from dynascope.loops.printing import size_list
from dynascope.report.facts import LineLink
from dynascope.schedule.groups import FusionGroup
from dynascope.schedule.passes import index_of
from dynascope.sizes import Size, is_constant, is_multiple, is_telling, known, leaves, product

_IMPORTS = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group with the buffers it touches; `body` is the group's, with its values in running order."""

    group: FusionGroup
    buffers: Mapping[str, Buffer]
    is_strict: bool = False
    """Whether every operation rounds as eager's."""

    @property
    def body(self) -> Body:
        return self.group.body

    @property
    def touched(self) -> tuple[Buffer, ...]:
        """Every buffer read or written, once."""
        return tuple(self.buffers[name] for name in dict.fromkeys((*self.group.reads, *self.group.writes)))

    @property
    def swept(self) -> list[Load | Store]:
        """What a sweep over the columns reads and writes: other elements at each."""
        columns = set(self.group.columns)
        return [o for o in self.body if isinstance(o, (Load, Store)) and not columns.isdisjoint(o.index.symbols)]

    @property
    def widest_itemsize(self) -> int:
        """Bytes of the widest element that a sweep over the columns touches."""
        return max((self.buffers[operation.buffer].dtype.itemsize for operation in self.swept), default=4)

    @property
    def precisions(self) -> tuple[Precision, ...]:
        """How near eager's each operation's result must be. Where it jumps, and with strict numerics, to the bit; where all that is kept is
        rounded to 16 bits, by operations that do not jump, off in its last places: it is then the same."""
        wanted: list[Precision] = ["exact" if self.is_strict else "coarse"] * len(self.body)
        for number, operation in reversed(list(enumerate(self.body))):
            asked: Precision = "exact"
            if isinstance(operation, Store):
                asked = "coarse" if self.buffers[operation.buffer].dtype in SIXTEEN_BIT_FLOATS else "near"
            elif isinstance(operation, Compute) and operation.name == "cast" and operation.dtype in SIXTEEN_BIT_FLOATS:
                asked = "coarse"
            elif isinstance(operation, (Compute, Reduce, Scan)) and not _jumps(operation, self.body):
                asked = wanted[number]
            for argument in operation.arguments:
                wanted[argument] = min(wanted[argument], asked, key=PRECISIONS.index)
        return tuple(wanted)

    @property
    def is_heavy(self) -> bool:
        """Whether transcendental functions are among what each element costs."""
        return any(isinstance(o, Compute) and TABLE[o.name].cost >= TRANSCENDENTAL for o in self.body)

    @property
    def bytes_read(self) -> Extent:
        product = self.group.product
        operands = () if product is None else product.buffers
        multiplied = sum(self.buffers[name].bytes for name in operands)
        return multiplied + sum(_bytes_moved(self.buffers[name], self.body, Load) for name in self.group.reads if name not in operands)

    @property
    def bytes_written(self) -> Extent:
        return sum(_bytes_moved(self.buffers[name], self.body, Store) for name in self.group.writes)


_STEPS = frozenset(
    [
        "floor",
        "ceil",
        "truncate",
        "round",
        "sign",
        "floor_divide",
        "remainder",
        "fmod",
        "truncate_divide",
        "is_nan",
        "is_infinite",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
    ]
)


def _jumps(operation: Operation, body: Body) -> bool:
    """Whether a small difference of a floating operand may become a large one."""
    if not isinstance(operation, Compute) or not any(body[a].dtype.is_floating_point for a in operation.arguments):
        return False
    return operation.name in _STEPS or (operation.name == "cast" and not operation.dtype.is_floating_point)


def _bytes_moved(buffer: Buffer, body: Body, kind: type) -> Extent:
    """At most the whole buffer, and no more than the loops can reach (slices, embeddings)."""
    reach: Extent = 0
    loops = _loops_of(body)
    for operation in body:
        if isinstance(operation, kind) and operation.buffer == buffer.name:
            symbols = operation.index.symbols.union(*(loops[value] for value in operation.index.loaded))
            reach = reach + product(symbol.extent for symbol in symbols)
    less = not is_constant(reach, 0) and known("<=", reach, buffer.elements)
    return (reach if less else buffer.elements) * buffer.dtype.itemsize


def _loops_of(body: Body) -> list[frozenset[Symbol]]:
    """Of each value the loops along which it varies, and those of reductions that it comes of."""
    found: list[frozenset[Symbol]] = []
    for operation in body:
        index = index_of(operation)
        own = frozenset() if index is None else index.symbols
        found.append(own.union(*(found[value] for value in operation.arguments)))
    return found


class Draft:
    """What the patterns write into."""

    def __init__(self, facts: GroupFacts, tile: Tile):
        self.facts = facts
        self.tile = tile
        self.writer = KernelWriter()
        self.names = Names()
        for axis in tile.axes:
            self.names.take(axis.name)
            self.names.take(axis.mask)
            for symbol in axis.symbols:
                self.names.take(symbol.name)
        self.names.take(facts.group.name)
        self.parameters = self._make_parameters()
        self.divisors = _divisors(facts, tile)
        self.printer = BodyPrinter(
            facts.body,
            tile,
            self.writer,
            self.names,
            {p.source: p.name for p in self.parameters},
            {name: buffer.dtype for name, buffer in facts.buffers.items()},
            facts.precisions,
            None if facts.group.product is None else facts.group.product.name,
        )

    def finish(self, programs: Extent, warps: int, stages: int = 1, scratch_bytes: int = 0) -> TritonKernel:
        """The kernel, launched as `programs` programs. `scratch_bytes` is what it needs behind the tickets."""
        group = self.facts.group
        parameters = list(self.parameters)
        if scratch_bytes:
            parameters.append(Parameter("workspace", "*u8", None))
        head = self._head(parameters)
        offset = head.count("\n")
        return TritonKernel(
            name=group.name,
            text=head + "".join(f"    {line}\n" if line else "\n" for line in self.writer.lines),
            parameters=tuple(parameters),
            grid=(programs, 1, 1),
            warps=warps,
            stages=stages,
            divisors=tuple(sorted((p.name, divisor) for p in parameters if (divisor := self._divisor_of(p)) > 1)),
            asserts=self.printer.asserts,
            workspace_bytes=TICKET_BYTES + scratch_bytes if scratch_bytes else 0,
            links=tuple(LineLink(link.line + offset, link.span) for link in self.writer.links),
            origins=group.origins,
            bytes_read=self.facts.bytes_read,
            bytes_written=self.facts.bytes_written,
            scalar_operations=_work(self.facts),
            numbers=group.numbers,
        )

    def _divisor_of(self, parameter: Parameter) -> int:
        if not parameter.is_pointer:
            return self.divisors.get(parameter.source, 1)
        return ALIGNMENT if parameter.source is None or self.facts.buffers[parameter.source].is_aligned else 1

    def _make_parameters(self) -> list[Parameter]:
        parameters = [
            Parameter(self.names.take(buffer.name), f"*{SIGNATURE[buffer.dtype]}", buffer.name)
            for buffer in self.facts.touched
        ]
        kinds = {o.name: SIGNATURE[o.dtype] for o in self.facts.body if isinstance(o, Argument)}
        for name, leaf in self.facts.group.numbers:
            # The launcher hands over 64 bits, of which a narrow parameter takes the lower 32.
            kinds.setdefault(name, "fp64" if leaf.kind is float else "i64" if self.tile.wide else "i32")
        numbers = [Parameter(self.names.take(name), kind, name) for name, kind in kinds.items()]
        self.tile.numbers.update({number.source: number.name for number in numbers})
        return parameters + numbers

    def _head(self, parameters: list[Parameter]) -> str:
        lines = [f"# {line}" for line in _summary(self.facts)]
        helpers = helper_texts(frozenset(self.printer.helpers))
        definition = f"@triton.jit\ndef {self.facts.group.name}({', '.join(p.name for p in parameters)}):\n"
        return "\n".join(lines) + "\n" + _IMPORTS + helpers + "\n\n" + definition


def _summary(facts: GroupFacts) -> list[str]:
    group = facts.group
    shape = f"{group.row_count} rows of {group.column_count}" if group.columns else f"{group.row_count} elements"
    lines = [f"{group.name}: {shape}; reads {_size(facts.bytes_read)}, writes {_size(facts.bytes_written)}"]
    for buffer in facts.touched:
        how = "/".join(w for w, names in (("read", group.reads), ("written", group.writes)) if buffer.name in names)
        lines.append(f"  {buffer.name}: {short_name(buffer.dtype)}{size_list(buffer.sizes)}, {how}")
    return lines


def _size(count: Extent) -> str:
    if isinstance(count, Size):
        return f"{count} bytes"
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def _divisors(facts: GroupFacts, tile: Tile) -> dict[str, int]:
    """Of the numbers by which memory is strided or where masks end along it, powers of two that they are multiples of now: whole vectors
    are then read and written. Not where these lie so whatever the number is (rows of 1024), nor of what makes no vector of four. Nothing is
    relied on: the launcher sees at each call whether they are."""
    names = {leaf: name for name, leaf in facts.group.numbers}
    steps = [step for _, step in _coefficients(facts.body)]
    ends = [axis.count for axis in tile.axes if axis.is_masked and _runs_along(axis, facts.body)]
    sizes = [each for each in (*steps, *ends) if isinstance(each, Size) and not is_multiple(each, ALIGNMENT)]
    found = {leaf: size.scope.size(leaf) for size in sizes for leaf in leaves(size.expression) if leaf.kind is int}
    divisors = {leaf: math.gcd(number.hint, ALIGNMENT) for leaf, number in found.items() if is_telling(number)}
    squared = {atom for size in sizes for monomial, _ in size.expression.terms for atom, exponent in monomial if exponent > 1}
    return {names[leaf]: divisor for leaf, divisor in divisors.items() if divisor >= SHORT_VECTOR or (divisor > 1 and leaf in squared)}


def _runs_along(axis: Axis, body: Body) -> bool:
    """Whether neighbours along it are neighbours in some memory."""
    return any(is_constant(factor, 1) and atom in axis.symbols for atom, factor in _coefficients(body))


def _coefficients(body: Body) -> Iterator[tuple[Atom, Extent]]:
    for operation in body:
        if isinstance(operation, (Load, Store)):
            yield from operation.index.terms


def _work(facts: GroupFacts) -> Extent:
    elements = facts.group.row_count * facts.group.column_count
    product = facts.group.product
    multiplied = 2 * elements * product.first.sizes[1] if product is not None else 0
    return multiplied + elements * sum(TABLE[operation.name].cost for operation in facts.body if isinstance(operation, Compute))
