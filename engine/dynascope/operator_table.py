"""What becomes of each operator of ATen, read off the tables that the stages ask: there is no list of its own.

    describe(aten.add.Tensor)      lowered; layout by a rule over sizes
    describe(aten.gelu.default)    decomposed; layout of its own kernel's
    describe(aten.add_.Tensor)     as aten.add.Tensor; writes self
    describe(aten.nonzero.default) library, between the parts of a graph; how many elements depends on data

Effects, aliasing and whether sizes depend on data are said by the operator's schema and its tags.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dynascope.capture.calls.late_numbers import RULES as LATE
from dynascope.dataclass import dataclass
from dynascope.grad.build import APPLY
from dynascope.grad.decompose import CORE, randomness
from dynascope.grad.eager_layouts import LAYOUTS
from dynascope.grad.metadata import MEASURED
from dynascope.grad.metadata import RULES as LAYOUT_RULES
from dynascope.grad.mutations import MUTATIONS
from dynascope.grad.operators import traits
from dynascope.loops.lower.rules import ON_GPUS
from dynascope.loops.lower.rules import RULES as LOWERED

aten = torch.ops.aten


@dataclass(frozen=True)
class OperatorFact:
    """`way` is how it is computed, `layout` how its results' sizes and strides are known, `effects` what it does besides."""

    name: str
    way: str
    layout: str
    effects: tuple[str, ...] = ()

    def line(self) -> str:
        return f"{self.name:<52} {self.way:<44} {self.layout:<22} {', '.join(self.effects)}".rstrip()


def all_operators() -> Iterator[Any]:
    """Every overload of ATen that programs call: those with `out=` go by their plain forms."""
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        space, _, rest = name.partition("::")
        packet, _, overload = rest.partition(".")
        if space == "aten" and "out" not in overload.split("_"):
            try:
                yield getattr(getattr(aten, packet), overload or "default")
            except AttributeError:
                continue


def describe(operator: Any) -> OperatorFact:
    return OperatorFact(str(operator), way_of(operator), layout_of(operator), tuple(effects_of(operator)))


def way_of(operator: Any) -> str:
    """In the order in which a recording asks."""
    facts = traits(operator)
    if facts.kind == "reading":
        return "library, between the parts of a graph"
    if operator in MUTATIONS:
        return "new contents of what it writes"
    if facts.kind == "mutating":
        return f"as {facts.functional}" if facts.functional is not None else "graph runs operator by operator"
    if facts.kind in ("view", "same") or operator in APPLY:
        return "view"
    if facts.kind == "composite":
        return "decomposed by torch"
    if operator in CORE:
        return "decomposed"
    if operator in randomness.TABLE:
        return 'library; decomposed with random="device"'
    if operator in LOWERED:
        return "lowered on GPUs, else library" if operator in ON_GPUS else "lowered"
    if has_late_size(operator):
        return "library, between the parts of a graph" if name_of(operator) in LATE else "break"
    return "library"


def layout_of(operator: Any) -> str:
    if traits(operator).kind not in ("plain", "composite") or operator in APPLY:
        return ""
    if operator in LAYOUT_RULES:
        return "rule over sizes"
    if operator in LAYOUTS:
        return "rule of its kernel's"
    if operator in MEASURED:
        return "measured"
    if has_late_size(operator):
        return "found by the run"
    if torch.Tag.pointwise in operator.tags:
        return "as TensorIterator"
    has_meta = torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "Meta")
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeExplicitAutograd")
    return "meta kernel" if has_meta or is_composite or traits(operator).kind == "composite" else "none: operator refused"


def effects_of(operator: Any) -> Iterator[str]:
    writes = traits(operator).writes
    if writes:
        yield f"writes {', '.join(writes)}"
    if torch.Tag.nondeterministic_seeded in operator.tags:
        yield "draws random numbers"
    if has_late_size(operator):
        yield "sizes depend on data"
    if torch.Tag.data_dependent_output in operator.tags:
        yield "gives Python a value"
    if not operator._schema.returns:
        yield "is there to raise"


def has_late_size(operator: Any) -> bool:
    return torch.Tag.dynamic_output_shape in operator.tags and operator not in LOWERED


def name_of(operator: Any) -> str:
    """What programs call it by."""
    return operator._schema.name.removeprefix("aten::").removeprefix("_").rstrip("2")


def shown_operators(wanted: str = "") -> list[OperatorFact]:
    return [fact for fact in (describe(operator) for operator in all_operators()) if wanted in fact.name]


WAYS = {
    "lowered": "lowered",
    "decomposed": "decomposed",
    "library": "library",
    "view": "view",
    "as ": "as another that does not write",
    "new contents": "new contents of what they write",
    "graph runs": "operator by operator",
    "break": "break",
}
"""How a way begins, and what is counted under it: each operator once."""


def counts(facts: list[OperatorFact]) -> str:
    """`3 operators: 1 lowered, 2 library`"""
    told = {words: sum(fact.way.startswith(way) for fact in facts) for way, words in WAYS.items()}
    return f"{len(facts)} operator{'s' * (len(facts) != 1)}: {', '.join(f'{count} {words}' for words, count in told.items() if count)}"
