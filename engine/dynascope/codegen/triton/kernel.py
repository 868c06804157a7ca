"""What the Triton generator makes: the text of one kernel and all that is needed to build and launch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent
from dynascope.loops.nodes import Origin
from dynascope.report.facts import KernelFact, LineLink, Phase
from dynascope.sizes import Expression, hint_of

ALIGNMENT = 16
"""Bytes. Pointers so aligned are read 16 bytes at a time; torch's allocator aligns to 512, views may not be."""
SHORT_VECTOR = 4
"""Elements that are worth reading together."""

Divisors = tuple[tuple[str, int], ...]
"""Of parameters, in order of their names: powers of two of which numbers are multiples, and addresses in bytes."""

MOST_TICKETS = 8192
TICKET_BYTES = 4 * MOST_TICKETS
"""At the start of every workspace: counters of finished programs, each set back to 0 by the program that ends last.
What follows is scratch. So all kernels of a stream share one workspace, one after another."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a kernel. `kind` is Triton's: `*fp32`, `*i1`, `i32`, `i64`, `fp64`. `source` is the buffer or the
    graph's number; None for the workspace, memory that is zero before the first launch."""

    name: str
    kind: str
    source: str | None

    @property
    def is_pointer(self) -> bool:
        return self.kind.startswith("*")


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """`text` is a whole Python module that defines `name`. `divisors` are told of the pointers that may be read widely, and of the numbers
    by which those are strided."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    grid: tuple[Extent, int, int]
    warps: int
    stages: int = 1
    divisors: Divisors = ()
    asserts: bool = False
    """The text has device assertions (index checks), which Triton drops unless told."""
    workspace_bytes: int = 0
    links: tuple[LineLink, ...] = ()
    origins: tuple[Origin, ...] = ()
    bytes_read: Extent = 0
    bytes_written: Extent = 0
    scalar_operations: Extent = 0
    numbers: tuple[tuple[str, Expression], ...] = ()
    """What the parameters that vary with sizes are, by their sources."""

    def without_alignment(self) -> TritonKernel:
        """The same kernel for pointers that lie anywhere."""
        return replace(self, divisors=())

    def with_divisors(self, of_sources: Mapping[str, int]) -> TritonKernel:
        """The same kernel where these numbers are multiples of no more than this; of 1, any."""
        most = {p.name: of_sources[p.source] for p in self.parameters if p.source in of_sources}
        told = ((name, min(divisor, most.get(name, divisor))) for name, divisor in self.divisors)
        return replace(self, divisors=tuple((name, divisor) for name, divisor in told if divisor > 1))


def kernel_fact(kernel: TritonKernel, identifier: str, graph: str, phase: Phase, path: str | None = None) -> KernelFact:
    """The kernel as the report shows it."""
    spans = tuple(dict.fromkeys(origin.span for origin in kernel.origins if origin.span is not None))
    return KernelFact(
        identifier=identifier,
        name=kernel.name,
        language="triton",
        phase=phase,
        graph=graph,
        text=kernel.text,
        links=kernel.links,
        spans=spans,
        operations=tuple(dict.fromkeys(origin.operator for origin in kernel.origins)),
        bytes_read=hint_of(kernel.bytes_read),
        bytes_written=hint_of(kernel.bytes_written),
        path=path,
    )
