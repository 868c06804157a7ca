"""What one compilation made, for whoever accounts for it: `pipeline.py` fills it in, `account.py` reads it."""

from __future__ import annotations

import types

from dynascope.capture import Captured, CodeRegion, Refused
from dynascope.configuration import Options
from dynascope.dataclass import dataclass
from dynascope.frame import hook
from dynascope.graph_compiler import CompiledGraph
from dynascope.report.span import Span
from dynascope.why_again import Again


@dataclass(frozen=True)
class Compilation:
    """The artefacts of one compilation, kept only while a recorder wants to read them."""

    region: CodeRegion
    outcome: Captured | Refused
    graph: CompiledGraph | None
    seconds: dict[str, float]
    again: Again | None
    options: Options
    code: types.CodeType | None = None
    compiled_at: Span | None = None
    entry: hook.Entry | None = None
    trace: str = ""
