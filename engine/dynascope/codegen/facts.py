"""The report's facts about a compiled graph, read off its artefacts.

facts = graph_facts(module, graph="g0", phase="forward", first_kernel=3)
facts.kernels, facts.borders, facts.externs, facts.texts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from dynascope.codegen.kernels import Kernel, KernelModule
from dynascope.codegen.reasons import LibraryCall
from dynascope.dataclass import dataclass
from dynascope.loops.nodes import ExternCall, LoopProgram
from dynascope.loops.printing import describe_buffer, print_program_with_links
from dynascope.report.facts import (
    BorderFact,
    ExternFact,
    KernelFact,
    LineLink,
    MemoryFact,
    OperationFact,
    Phase,
    StageText,
    StepFact,
    TensorFact,
)
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserStack
from dynascope.report.user_files import user_places
from dynascope.schedule.groups import FusionGroup, NotFused, ScatterGroup, Schedule
from dynascope.schedule.memory import makes, reads
from dynascope.schedule.printing import print_schedule_with_links
from dynascope.sizes import hint_of

Places = Callable[[Span | None, UserStack], tuple[Span, ...]]
"""The user's places of a step."""

LANGUAGES = {"cpp": "cpp", "triton": "python"}


@dataclass(frozen=True, slots=True)
class CodeFacts:
    """What the report says of one graph's kernels, in one phase."""

    kernels: tuple[KernelFact, ...]
    borders: tuple[BorderFact, ...]
    externs: tuple[ExternFact, ...]
    texts: tuple[StageText, ...]


def graph_facts(
    module: KernelModule, graph: str, phase: Phase, first_kernel: int = 0, path: str | None = None
) -> CodeFacts:
    """`graph` is the graph's identifier in the report; kernels are numbered from `first_kernel`."""
    served = module.served
    kernels = tuple(
        kernel_fact(k, f"k{first_kernel + n}", graph, phase, path, groups=served[k.name])
        for n, k in enumerate(module.distinct)
    )
    return CodeFacts(
        kernels, border_facts(module.schedule), extern_facts(module.schedule, phase), stage_texts(module, phase)
    )


def kernel_fact(
    kernel: Kernel,
    identifier: str,
    graph: str,
    phase: Phase,
    path: str | None = None,
    places: Places = user_places,
    groups: tuple[FusionGroup, ...] = (),
) -> KernelFact:
    """`groups` are all that the kernel runs: its lines are those of the first, its places in the user's source those of all."""
    groups = groups or (kernel.group,)
    origins = [origin for group in groups for origin in group.origins]
    spans = tuple(dict.fromkeys(place for o in origins for place in places(o.span, o.stack)))
    operations = tuple(dict.fromkeys(o.operator for o in kernel.group.origins))
    return KernelFact(
        identifier, kernel.name, kernel.language, phase, graph, kernel.text, _links(kernel, groups), spans, operations,
        hint_of(kernel.bytes_read), hint_of(kernel.bytes_written), path, launches=len(groups),
    )  # fmt: skip


def _links(kernel: Kernel, groups: tuple[FusionGroup, ...]) -> tuple[LineLink, ...]:
    """From the text's lines to those of the first group, and of the groups that it serves as well."""
    also: dict[Span, dict[Span, None]] = {}
    for group in groups[1:]:
        for first, other in zip(groups[0].body, group.body, strict=True):
            one, two = first.origin.span, other.origin.span
            if one is not None and two is not None and one != two:
                also.setdefault(one, {})[two] = None
    more = [LineLink(link.line, span) for link in kernel.links for span in also.get(link.span, ())]
    return (*kernel.links, *more)


def border_facts(schedule: Schedule) -> tuple[BorderFact, ...]:
    places = _places(schedule.program)
    facts = []
    for border in schedule.borders:
        if isinstance(border, NotFused):
            explanation = border.reason.explain(border.origin.span, border.origin.stack)
            facts.append(BorderFact(border.producer, border.consumer, explanation, places.get(border.producer)))
    return tuple(facts)


def extern_facts(schedule: Schedule, phase: Phase, places: Places = user_places) -> tuple[ExternFact, ...]:
    return tuple(
        ExternFact(
            step.origin.operator, phase, step.origin.span, _why(step), places(step.origin.span, step.origin.stack)
        )
        for step in schedule.steps
        if isinstance(step, ExternCall)
    )


def memory_fact(schedule: Schedule, phase: Phase, places: Places = user_places) -> MemoryFact | None:
    """None where the graph makes nothing."""
    at = schedule.fullest_step
    if at is None:
        return None
    step = schedule.steps[at]
    group = step.group if isinstance(step, ScatterGroup) else step
    origin, name = (group.origin, group.origin.operator) if isinstance(group, ExternCall) else (group.origins[-1], group.name)
    spans = places(origin.span, origin.stack)
    return MemoryFact(phase, schedule.peak_bytes, name, spans[0] if spans else origin.span)


def step_facts(
    module: KernelModule,
    phase: Phase,
    identifiers: Mapping[str, str],
    places: Places = user_places,
    called: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[StepFact]:
    """`identifiers` of kernels in the report, by their names; `called`: by a buffer's name what the user calls it."""
    schedule = module.schedule
    for step, kernel in zip(schedule.steps, module.kernels, strict=True):
        group = step.group if isinstance(step, ScatterGroup) else step
        origins = (group.origin,) if isinstance(group, ExternCall) else group.origins
        operations = tuple(OperationFact(o.operator, next(iter(places(o.span, o.stack)), o.span)) for o in origins)
        written = tuple(_tensor(schedule, name, called) for name in makes(step))
        read = tuple(_tensor(schedule, name, called) for name in reads(step))
        identifier = identifiers.get(kernel.name) if kernel is not None else None
        yield StepFact(group.name, phase, operations, read, written, identifier)


def _tensor(schedule: Schedule, name: str, called: Mapping[str, str]) -> TensorFact:
    buffer = schedule.buffers[name]
    return TensorFact(name, describe_buffer(buffer), hint_of(buffer.bytes), buffer.role == "input", called.get(name, ""))


def _why(step: ExternCall) -> Explanation | None:
    if not step.why:
        return None
    return LibraryCall(step.origin.operator, step.why).explain(step.origin.span, step.origin.stack)


def stage_texts(module: KernelModule, phase: Phase) -> tuple[StageText, ...]:
    """Loops, groups and wrapper, printed."""
    loops, loop_links = print_program_with_links(module.schedule.program)
    groups, group_links = print_schedule_with_links(module.schedule)
    return (
        StageText(f"loops-{phase}", "plaintext", loops, loop_links),
        StageText(f"groups-{phase}", "plaintext", groups, group_links),
        StageText(f"wrapper-{phase}", "python", module.wrapper, module.wrapper_links),
    )


def _places(program: LoopProgram) -> dict[str, Span | None]:
    return {node.origin.node: node.origin.span for node in program.nodes}


def linked_lines(links: tuple[LineLink, ...], span: Span) -> tuple[int, ...]:
    """The generated lines that came from a line of the user's."""
    return tuple(link.line for link in links if link.span.file == span.file and link.span.line == span.line)
