"""A kernel in the making: its names, its tile, its text, and the finished TritonKernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dynascope.codegen.triton.body import BodyPrinter, Names
from dynascope.codegen.triton.dtypes import SIGNATURE, SIXTEEN_BIT_FLOATS
from dynascope.codegen.triton.helpers import helper_texts
from dynascope.codegen.triton.kernel import TICKET_BYTES, Parameter, TritonKernel
from dynascope.codegen.triton.tile import Tile
from dynascope.codegen.triton.writer import KernelWriter
from dynascope.loops.dtypes import short_name
from dynascope.loops.nodes import Argument, Body, Buffer, Compute, Load, Operation, Store
from dynascope.loops.operations import TABLE
from dynascope.report.facts import LineLink
from dynascope.schedule.groups import FusionGroup

_IMPORTS = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group with the buffers it touches; `body` is the group's, with its values in running order."""

    group: FusionGroup
    buffers: Mapping[str, Buffer]

    @property
    def body(self) -> Body:
        return self.group.body

    @property
    def touched(self) -> tuple[Buffer, ...]:
        """Every buffer read or written, once."""
        return tuple(self.buffers[name] for name in dict.fromkeys((*self.group.reads, *self.group.writes)))

    @property
    def widest_itemsize(self) -> int:
        """Bytes of the widest element that a sweep over the columns touches."""
        columns = set(self.group.columns)
        swept = [
            self.buffers[operation.buffer].dtype.itemsize
            for operation in self.body
            if isinstance(operation, (Load, Store)) and not columns.isdisjoint(operation.index.symbols())
        ]
        return max(swept, default=4)

    @property
    def is_coarse(self) -> bool:
        """Whether all that is kept is rounded to 16 bits, by operations that do not jump: an f32 result that is off in
        its last places is then the same."""
        kept = [self.buffers[operation.buffer].dtype for operation in self.body if isinstance(operation, Store)]
        return bool(kept) and SIXTEEN_BIT_FLOATS.issuperset(kept) and not any(map(_jumps, self.body))

    @property
    def bytes_read(self) -> int:
        return sum(_bytes_moved(self.buffers[name], self.body, Load) for name in self.group.reads)

    @property
    def bytes_written(self) -> int:
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


def _jumps(operation: Operation) -> bool:
    if not isinstance(operation, Compute):
        return False
    return operation.name in _STEPS or (operation.name == "cast" and not operation.dtype.is_floating_point)


def _bytes_moved(buffer: Buffer, body: Body, kind: type) -> int:
    """At most the whole buffer, and no more than the loops can reach (slices, embeddings)."""
    reach = 0
    for operation in body:
        if isinstance(operation, kind) and operation.buffer == buffer.name:
            steps = 1
            for symbol in operation.index.symbols():
                steps *= symbol.extent
            reach += steps
    return min(buffer.elements, reach or buffer.elements) * buffer.dtype.itemsize


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
        self._parameters = self._make_parameters()
        self.printer = BodyPrinter(
            facts.body,
            tile,
            self.writer,
            self.names,
            {p.source: p.name for p in self._parameters},
            {name: buffer.dtype for name, buffer in facts.buffers.items()},
            "coarse" if facts.is_coarse else "exact",
        )

    def finish(self, programs: int, warps: int, stages: int = 1, scratch_bytes: int = 0) -> TritonKernel:
        """The kernel, launched as `programs` programs. `scratch_bytes` is what it needs behind the tickets."""
        group = self.facts.group
        parameters = list(self._parameters)
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
            aligned=frozenset(parameter.name for parameter in parameters if parameter.is_pointer),
            asserts=self.printer.asserts,
            workspace_bytes=TICKET_BYTES + scratch_bytes if scratch_bytes else 0,
            links=tuple(LineLink(link.line + offset, link.span) for link in self.writer.links),
            origins=group.origins,
            bytes_read=self.facts.bytes_read,
            bytes_written=self.facts.bytes_written,
            scalar_operations=_work(self.facts),
        )

    def _make_parameters(self) -> list[Parameter]:
        parameters = [
            Parameter(self.names.take(buffer.name), f"*{SIGNATURE[buffer.dtype]}", buffer.name)
            for buffer in self.facts.touched
        ]
        kinds = {operation.name: operation.dtype for operation in self.facts.body if isinstance(operation, Argument)}
        return parameters + [Parameter(self.names.take(name), SIGNATURE[kinds[name]], name) for name in kinds]

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
        lines.append(f"  {buffer.name}: {short_name(buffer.dtype)}{list(buffer.sizes)}, {how}")
    return lines


def _size(count: int) -> str:
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def _work(facts: GroupFacts) -> int:
    elements = facts.group.row_count * max(facts.group.column_count, 1)
    return elements * sum(TABLE[operation.name].cost for operation in facts.body if isinstance(operation, Compute))
