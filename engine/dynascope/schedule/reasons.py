"""Why two neighbouring operations do not share a kernel."""

from __future__ import annotations

from typing import ClassVar, Literal

from dynascope.dataclass import dataclass
from dynascope.loops.index import Extent
from dynascope.loops.printing import size_list
from dynascope.report.reason import Reason, Severity


@dataclass(frozen=True)
class ExternBorder(Reason):
    """One side is a library call."""

    code: ClassVar[str] = "extern-call"
    severity: ClassVar[Severity] = "information"
    operator: str
    side: Literal["producer", "consumer"]
    why: str

    def message(self) -> str:
        where = "makes this value" if self.side == "producer" else "reads this value"
        return f"{self.operator} {where}, and it runs as a library call ({self.why}), so the value goes through memory."

    def remedy(self) -> str:
        return f"Nothing to change if {self.operator} dominates the time; otherwise express it with elementwise operations and reductions."


@dataclass(frozen=True)
class DifferentSpaces(Reason):
    """The two iterate over different numbers of elements in a way that one loop nest cannot cover."""

    code: ClassVar[str] = "different-iteration-space"
    severity: ClassVar[Severity] = "information"
    producer: str
    producer_sizes: tuple[Extent, ...]
    consumer: str
    consumer_sizes: tuple[Extent, ...]

    def message(self) -> str:
        sizes = (
            f"{self.consumer} loops over {size_list(self.consumer_sizes)}, "
            f"{self.producer} over {size_list(self.producer_sizes)}"
        )
        return f"{sizes}: one kernel cannot run both."

    def remedy(self) -> str:
        return f"Give {self.consumer} a shape that {self.producer} has too, or reduce over the same dimensions in both."


@dataclass(frozen=True)
class OtherElements(Reason):
    """The consumer needs elements that another iteration makes."""

    code: ClassVar[str] = "reads-other-elements"
    severity: ClassVar[Severity] = "information"
    producer: str
    consumer: str

    def message(self) -> str:
        return (
            f"{self.consumer} reads elements of {self.producer} that another step of the loop makes, "
            f"so {self.producer} must be finished first."
        )

    def remedy(self) -> str:
        return f"Transposing or slicing after {self.consumer} instead of between the two lets them share a kernel."


@dataclass(frozen=True)
class OtherReducedDimensions(Reason):
    """Two reductions run over different dimensions."""

    code: ClassVar[str] = "reduces-other-dimensions"
    severity: ClassVar[Severity] = "information"
    producer: str
    consumer: str

    def message(self) -> str:
        return f"{self.consumer} reduces over other dimensions than {self.producer} does."

    def remedy(self) -> str:
        return f"Reducing over the same dimensions in both lets {self.consumer} run in the kernel of {self.producer}."


@dataclass(frozen=True)
class ComputedInPieces(Reason):
    """One of them belongs to a piece of work that is done before the other's."""

    code: ClassVar[str] = "computed-in-pieces"
    severity: ClassVar[Severity] = "information"
    producer: str
    consumer: str

    def message(self) -> str:
        return f"{self.producer} is computed for some rows after the other, and {self.consumer} is not of the same rows."

    def remedy(self) -> str:
        return "Nothing to change: what one piece needed is free before the next begins."


@dataclass(frozen=True)
class ReducesGathered(Reason):
    """A reduction would gather what it goes over from several places of memory, for each element, in each of its passes."""

    code: ClassVar[str] = "reduces-gathered"
    severity: ClassVar[Severity] = "information"
    producer: str
    consumer: str

    def message(self) -> str:
        return (
            f"Each element of {self.producer} is put together from several places, "
            f"and {self.consumer} goes over all of them: they are put together once, in memory."
        )

    def remedy(self) -> str:
        return "Nothing to change: as one kernel it would put them together again in each pass, with too few registers."


@dataclass(frozen=True)
class WouldWait(Reason):
    """Between the two lies a step that must run after one and before the other."""

    code: ClassVar[str] = "step-between"
    severity: ClassVar[Severity] = "information"
    producer: str
    consumer: str

    def message(self) -> str:
        return (
            f"{self.consumer} also needs a value that is made after {self.producer} by another kernel or library call."
        )

    def remedy(self) -> str:
        return f"Moving the call between {self.producer} and {self.consumer} before or after both lets them share a kernel."


@dataclass(frozen=True)
class Scattered(Reason):
    """Writes go to computed places."""

    code: ClassVar[str] = "scattered-writes"
    severity: ClassVar[Severity] = "information"
    producer: str
    consumer: str

    def message(self) -> str:
        return f"{self.producer} writes to places that its index decides, so all of it must be written before {self.consumer} reads."

    def remedy(self) -> str:
        return f"A gather (index_select, take_along_dim) in place of the scatter lets {self.consumer} share its kernel."


@dataclass(frozen=True)
class FewRows(Reason):
    """A reduction of few rows that lie side by side, and what is computed of each element with it, on a GPU."""

    code: ClassVar[str] = "few-rows"
    severity: ClassVar[Severity] = "information"
    producer: str
    consumer: str

    def message(self) -> str:
        return (
            f"{self.producer} reduces few rows that lie side by side, and {self.consumer} goes over all their elements again: "
            "two kernels, of which each fills the GPU."
        )

    def remedy(self) -> str:
        return "Nothing to change: the elements would be read twice in one kernel too."


@dataclass(frozen=True)
class WrittenLast(Reason):
    """One of them changes an input on a GPU, which waits until nothing allocates any more."""

    code: ClassVar[str] = "written-last"
    severity: ClassVar[Severity] = "information"
    producer: str
    consumer: str

    def message(self) -> str:
        return (
            f"{self.consumer} becomes an input's new value, which is written after everything that {self.producer} is part of: "
            "if the GPU's memory ends before, the input is as it was."
        )

    def remedy(self) -> str:
        return "Nothing to change: the update is a kernel of its own, without a copy."
