"""One answer: the edited functions take the place of those that ran, and the kept call is captured again.

It happens in a process that ends with the answer, so functions, globals and torch's state are changed as need be.
"""

from __future__ import annotations

import linecache
import re
import types
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dynascope import callers, looking, pipeline, recording
from dynascope.capture import BreakExit, Captured, CodeRegion, RaiseExit, Refused
from dynascope.capture.layers import renew_places
from dynascope.capture.reasons import ProgramRaises, TorchCallFails
from dynascope.frame import hook
from dynascope.live.moves import Moves
from dynascope.live.reasons import CallFailsAsEdited, RaisesAsEdited
from dynascope.live.renewing import Renewal, renew
from dynascope.reasons import KnownAfterARun
from dynascope.report.json_format import to_json
from dynascope.report.reason import Reason
from dynascope.report.span import Span

TAKEN = frozenset({"data-dependent-branch", "data-dependent-value", "print-call"})
"""Breaks behind which capture goes on: what Python does there is torch's or Python's own, not the program's."""
ON_VALUES = frozenset({"data-dependent-branch", "data-dependent-value"})
"""Of these, breaks behind which nobody knows whether a run comes there."""
MEANT = re.compile(r"raise\b")
"""A statement that is there to raise."""
SIDES = (0, 1)
REGIONS = 60
"""A loop that breaks at every turn is not followed for ever."""


def answered(
    state: Any, values: Any, functions: Mapping[str, list[types.FunctionType]], texts: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    moves = {file: Moves(file, old, new) for file, (old, new) in texts.items() if old != new}
    for file, (_, new) in texts.items():
        linecache.cache[file] = (len(new), None, new.splitlines(keepends=True), file)
    try:
        renewal = renew({file: (move.old, move.new) for file, move in moves.items()}, functions)
    except SyntaxError as error:
        return {"trouble": f"{error.msg} in line {error.lineno}", "unreadable": True}
    renew_places(renewal.code_of)
    callers.read_instead(lambda span: moves[span.file].span(span) if span.file in moves else span)
    recorder = _Recorder()
    recording.use(recorder)
    trouble = _captured(state, values, renewal, moves, recorder)
    if trouble:
        return {"trouble": trouble}
    for unknown in renewal.unknown_of(recorder.codes):
        return {"trouble": unknown.message, "file": unknown.file, "line": unknown.line}
    return {"report": to_json(recorder.report())}


class _Recorder(recording.Recorder):
    """Each region once. Ends the call where it would go on in the program's own code."""

    def __init__(self) -> None:
        super().__init__()
        self.codes: set[types.CodeType] = set()
        self.is_certain = True
        """The run of the same call comes here: no value of a tensor has decided so far. The other side of a branch begins behind it."""
        self._met: set[CodeRegion] = set()

    def compiled(self, compilation: Any, account_of: Any) -> None:
        region, outcome = compilation.region, compilation.outcome
        self.codes.add(region.root.code)
        if isinstance(outcome, Captured):
            self.codes.update(program.code for program in outcome.visited)
        if region not in self._met:
            self._met.add(region)
            ending = outcome.exit if isinstance(outcome, Captured) else None
            if self.is_certain and isinstance(ending, RaiseExit) and not ending.is_caught:
                raises = replace(ending, reason=_as_edited(ending.reason))
                compilation = replace(compilation, outcome=replace(outcome, exit=raises))
            super().compiled(compilation, account_of)
        if isinstance(outcome, Refused) or isinstance(outcome.exit, RaiseExit) or len(self._met) > REGIONS:
            raise looking.NotRun
        ending = outcome.exit
        self.is_certain &= not (isinstance(ending, BreakExit) and ending.reason.code in ON_VALUES)
        if isinstance(ending, BreakExit) and ending.reason.code not in TAKEN:
            note = KnownAfterARun(ending.span.text()).explain(ending.span, ending.stack)
            if note not in self._notes:
                self.problem(note)
            raise looking.NotRun


def _as_edited(reason: Reason) -> Reason:
    """An error to who edits, but what is written there to raise."""
    if isinstance(reason, TorchCallFails):
        return CallFailsAsEdited(reason.expression, reason.detail)
    if isinstance(reason, ProgramRaises) and not MEANT.match(reason.expression):
        return RaisesAsEdited(reason.exception, reason.expression, reason.words)
    return reason


def _captured(state: Any, values: Any, renewal: Renewal, moves: Mapping[str, Moves], recorder: _Recorder) -> str:
    """Why there is nothing, where there is nothing."""
    function = _function(state.region.code, values, renewal)
    if isinstance(function, str):
        return function
    arguments = _arguments(state.region.code, function, values.locals)
    if isinstance(arguments, str):
        return arguments
    asked_at = state.compiled_at
    if asked_at is not None and asked_at.file in moves:
        asked_at = moves[asked_at.file].span(asked_at)
    renewed = replace_state(state, CodeRegion(function.__code__, state.region.qualified_name), asked_at)
    table = pipeline.table_of(function.__code__, renewed)
    compiled = table.bind(function)
    while hook.is_suspended():
        hook.resume()
    for side in SIDES:
        with looking.contents(side):
            try:
                compiled(*arguments[0], **arguments[1])
            except looking.NotRun:
                continue
            except Exception:
                # Steps on tensors without contents may raise what the program would not.
                continue
    return "" if recorder.codes else "Nothing could be captured without a run."


def replace_state(state: Any, region: CodeRegion, asked_at: Span | None) -> Any:
    """The region's state with what was learnt of it in the run: which numbers and sizes vary."""
    options = replace(state.options, looks_only=True, strict=False, fullgraph=False)
    return replace(
        state,
        region=region,
        options=options,
        accepts=None,
        guards=[],
        entries=[],
        compiled_at=asked_at,
        stood_aside=set(),
    )


def _function(code: types.CodeType, values: Any, renewal: Renewal) -> types.FunctionType | str:
    new = renewal.code_of(code)
    if new is None:
        return f"`{code.co_qualname}` is not there any more."
    missing = [name for name in new.co_freevars if name not in values.cells]
    if missing:
        return f"`{missing[0]}` comes from the function around `{code.co_qualname}`: its value is known after a run."
    cells = tuple(types.CellType(values.cells[name]) for name in new.co_freevars)
    function = types.FunctionType(new, values.globals, code.co_name, None, cells)
    function.__qualname__ = code.co_qualname
    return function


def _arguments(code: types.CodeType, function: types.FunctionType, given: Mapping[str, Any]) -> tuple[list, dict] | str:
    """As the kept call gave them. A parameter that is new is known only where it has a default, which has been read."""
    new = function.__code__
    positional = new.co_varnames[: new.co_argcount]
    keywords = new.co_varnames[new.co_argcount : new.co_argcount + new.co_kwonlyargcount]
    for name in (*positional, *keywords):
        if name not in given:
            return f"`{name}` is a new parameter of `{code.co_qualname}`: what it is given is known after a run."
    rest = new.co_varnames[len(positional) + len(keywords) :]
    others, named = [], {}
    if new.co_flags & 4:
        others, rest = list(given.get(rest[0], ())), rest[1:]
    if new.co_flags & 8:
        named = dict(given.get(rest[0], {}))
    return [*(given[name] for name in positional), *others], {**{name: given[name] for name in keywords}, **named}
