"""Symbolic execution of a function's bytecode: from a frame's values to a graph, guards, effects and an exit.

    captured = capture(CodeRegion(f.__code__, f.__qualname__), values, CaptureOptions())
    code = assemble(captured, backend(captured.graph.module, ...), make_table)

`capture` never raises for a program it cannot take: it answers `Refused`.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from dynascope.capture import plan, session
from dynascope.capture.exits import BreakExit, RaiseExit, Return, is_step_code
from dynascope.capture.graph import CapturedGraph
from dynascope.capture.region import CaptureOptions, CodeRegion
from dynascope.capture.session import Captured, Refused, without_function_modes
from dynascope.capture.standing_aside import hooks_of_the_program, modes_among, names_of_modes, reason_to_stand_aside
from dynascope.guards.source import FrameValues

MakeTable = Callable[[CodeType, CodeRegion], Any]


def capture(region: CodeRegion, values: FrameValues, options: CaptureOptions | None = None) -> Captured | Refused:
    """The region as far as it can be a graph, in the state that `values` show."""
    return session.run(region, values, options or CaptureOptions())


def assemble(
    captured: Captured,
    graph_callable: Any,
    make_table: MakeTable,
    repeatable: bool = True,
    stands_aside: Callable[[], bool] | None = None,
    holds: Callable[..., bool] | None = None,
) -> CodeType:
    """The code that stands for the region: inputs, graph, effects, exit. It may return what `frame.hook` calls a tail call.

    `graph_callable` takes the graph's inputs and gives a sequence of its outputs. `make_table(code, region)` gives the
    entry table of a region that goes on after a break; its `bind(function)` is called here or in the new code. `repeatable`
    says that a graph that raises has changed nothing: the region then runs as it was written. So it does where `stands_aside` says so,
    which is asked in calls with hooks on saved tensors. `holds(parameters, function)` asks the guards once more, when locks are taken.
    """
    return plan.write(captured.plan, captured.graph, graph_callable, make_table, repeatable, stands_aside, holds)


__all__ = [
    "BreakExit",
    "CaptureOptions",
    "Captured",
    "CapturedGraph",
    "CodeRegion",
    "RaiseExit",
    "Refused",
    "Return",
    "assemble",
    "capture",
    "hooks_of_the_program",
    "is_step_code",
    "modes_among",
    "names_of_modes",
    "reason_to_stand_aside",
    "without_function_modes",
]
