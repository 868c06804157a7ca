"""Schedules as text: each step with its loops and body, the user's lines above, reasons at the borders."""

from __future__ import annotations

from collections.abc import Iterable

from dynascope.loops.index import Extent
from dynascope.loops.nodes import ExternCall
from dynascope.loops.printing import describe_loops, print_node, print_operation, source_comment
from dynascope.report.facts import LineLink
from dynascope.schedule.groups import FusionGroup, NotFused, ScatterGroup, Schedule
from dynascope.schedule.passes import arrange
from dynascope.sizes import Size


def print_schedule(schedule: Schedule) -> str:
    return print_schedule_with_links(schedule)[0]


def print_schedule_with_links(schedule: Schedule) -> tuple[str, tuple[LineLink, ...]]:
    lines: list[str] = []
    links: list[LineLink] = []
    says_bytes = bool(schedule.held) and not any(vary(buffer.sizes) for buffer in schedule.buffers.values())
    for number, step in enumerate(schedule.steps):
        if isinstance(step, ExternCall):
            _add(lines, links, print_node(step).splitlines(), step.origin)
        else:
            group = step.group if isinstance(step, ScatterGroup) else step
            _add_group(lines, links, group)
        if says_bytes:
            most = ", the most of all steps" if number == schedule.fullest_step else ""
            lines.append(f"# {schedule.held[number]} bytes held{most}")
        lines.append("")
    for border in schedule.borders:
        if isinstance(border, NotFused):
            lines.append(f"# {border.producer} | {border.consumer}: {border.reason.message()}")
    return "\n".join(lines) + "\n", tuple(links)


def vary(extents: Iterable[Extent]) -> bool:
    return any(isinstance(extent, Size) for extent in extents)


def print_group(group: FusionGroup) -> str:
    lines: list[str] = []
    _add_group(lines, [], group)
    return "\n".join(lines)


def _add_group(lines: list[str], links: list[LineLink], group: FusionGroup) -> None:
    columns = f" | {describe_loops(group.columns)}" if group.columns else ""
    lines.append(f"{group.name} = group({describe_loops(group.rows)}{columns})")
    arrangement = arrange(group.body, group.columns)
    previous = None
    for number, operation in enumerate(group.body):
        comment = source_comment(operation.origin)
        if comment != previous:
            lines.append(f"    {comment}")
            previous = comment
        where = f"{arrangement.levels[number]} {arrangement.passes[number]}" if group.columns else ""
        text = f"    {print_operation(number, operation):<60}{where}".rstrip()
        if operation.origin.span is not None:
            links.append(LineLink(len(lines) + 1, operation.origin.span))
        lines.append(text)


def _add(lines: list[str], links: list[LineLink], new: list[str], origin: object) -> None:
    if origin.span is not None:
        links.append(LineLink(len(lines) + 1, origin.span))
    lines.extend(new)
