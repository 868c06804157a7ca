"""What code generation makes: kernels (text, arguments, launch facts) and the wrapper that runs them in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal

from dynascope.codegen.runnable import Unit
from dynascope.codegen.target import Target
from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent
from dynascope.report.facts import LineLink
from dynascope.schedule.groups import FusionGroup, Schedule

if TYPE_CHECKING:
    from dynascope.codegen.triton.kernel import TritonKernel


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel, as one step calls it: steps that compute the same share `name` and `text`, those of the first of them.
    `pointers` are buffers, then scalars, in the order of the argument array.

    C++: `extern "C" void name(void* const* p, long begin, long end)` runs parallel items begin to end of `items`.
    """

    name: str
    language: Literal["cpp", "triton"]
    text: str
    links: tuple[LineLink, ...]
    group: FusionGroup
    buffers: tuple[str, ...]
    scalars: tuple[str, ...]
    items: Extent
    work: Extent
    """Scalar operations, roughly; decides whether threads are worth it."""
    operations: Extent
    bytes_read: Extent
    bytes_written: Extent
    scratch_bytes: int = 0
    triton: TritonKernel | None = None
    """How to build and launch it, where `language` is triton."""
    share: str = ""
    """C++: the function `void share(void* const* p, long* items, double* work)` that says how much there is to do in a
    call, where that varies."""
    given: tuple[int | float, ...] = ()
    """C++: the numbers that this step passes behind the scalars, where one text serves steps of several sizes."""


@dataclass(frozen=True, slots=True)
class KernelModule:
    """A graph's generated code: kernels by step, the C++ translation units that hold them, and the Python wrapper."""

    schedule: Schedule
    kernels: tuple[Kernel | None, ...]
    units: tuple[Unit, ...]
    wrapper: str
    wrapper_links: tuple[LineLink, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)
    """What the wrapper refers to by name: operators, dtypes, devices."""
    empties_its_list: bool = False
    """Whether the wrapper takes its inputs in one list, which it empties."""
    target: Target = field(default_factory=Target)
    """What the kernels were written for, and are to be built for."""

    @property
    def source(self) -> str:
        """All of the C++."""
        return "\n".join(unit.text for unit in self.units)

    @property
    def distinct(self) -> tuple[Kernel, ...]:
        """Each kernel once, as its first step calls it."""
        return distinct(self.kernels)

    @property
    def served(self) -> dict[str, tuple[FusionGroup, ...]]:
        """The groups that each kernel runs, by its name."""
        found: dict[str, list[FusionGroup]] = {}
        for kernel in self.kernels:
            if kernel is not None:
                found.setdefault(kernel.name, []).append(kernel.group)
        return {name: tuple(groups) for name, groups in found.items()}


def distinct(kernels: Iterable[Kernel | None]) -> tuple[Kernel, ...]:
    """Of the kernels by step each once, as its first step calls it."""
    found: dict[str, Kernel] = {}
    for kernel in kernels:
        if kernel is not None:
            found.setdefault(kernel.name, kernel)
    return tuple(found.values())
