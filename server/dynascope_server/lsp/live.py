"""While the person types: edited functions are captured again on the calls that were kept when the program ran.

Nothing of the program is run. The calls of a program's last run are kept until it runs again, its results are cleared, the
setting is turned off, the workspace loses its trust, or the server goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dynascope.report.facts import CompileReport
from dynascope.report.json_format import from_json
from dynascope.report.reason import Explanation
from dynascope.report.span import Span

from dynascope_server.ide.absolute_files import absolute
from dynascope_server.ide.definitions import gone
from dynascope_server.ide.live import NOT_KNOWN, LiveReport, merged
from dynascope_server.kept_calls import Answer, KeptCalls, Key, is_served
from dynascope_server.session import Edited

if TYPE_CHECKING:
    from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.05
"""After the last key: capture takes a processor for itself."""


class Live:
    def __init__(self, server: DynascopeServer) -> None:
        self._server = server
        self._kept: dict[str, KeptCalls] = {}
        self._folders: dict[str, str] = {}
        self._following: dict[str, asyncio.Task] = {}

    def begin(self, program: str, folder: str) -> KeptCalls | None:
        """For a run that starts: where its calls will be kept. Those of the run before are over."""
        self.forget([program])
        if not (self._is_wanted and is_served()):
            return None
        self._folders[program] = folder
        self._kept[program] = KeptCalls(folder)
        return self._kept[program]

    def forget(self, programs: Iterable[str]) -> None:
        for program in list(programs):
            task, kept = self._following.pop(program, None), self._kept.pop(program, None)
            if task is not None:
                task.cancel()
            if kept is not None:
                kept.close()

    def close(self) -> None:
        self.forget(list(self._kept))

    def settings_changed(self) -> None:
        if not self._is_wanted:
            for program in list(self._kept):
                self.forget([program])
                if self._server.session.forget_live(program):
                    self._changed(program)

    def text_changed(self, path: str) -> None:
        """The newest text is what counts: a capture of an older one is not waited for."""
        for program in self._server.session.programs():
            if path in self._server.session.texts_of(program):
                self._follow_soon(program)

    def run_ended(self, program: str) -> None:
        """What was edited while it ran is followed now."""
        self._follow_soon(program)

    def _follow_soon(self, program: str) -> None:
        if program in self._kept:
            task = self._following.get(program)
            if task is not None:
                task.cancel()
            task = self._following[program] = asyncio.get_running_loop().create_task(self._follow(program))
            task.add_done_callback(_report_defect)

    @property
    def _is_wanted(self) -> bool:
        return self._server.settings.live and self._server.settings.trusted

    async def _follow(self, program: str) -> None:
        await asyncio.sleep(PAUSE_SECONDS)
        session = self._server.session
        if self._server.runs.activity(program) == "running":
            return
        edited = session.edited(program)
        if edited is None or not edited.functions:
            if session.forget_live(program):
                self._changed(program)
            return
        asked = {_key(edited, identifier): identifier for identifier in edited.functions}
        answers: list[Answer] = []
        async for more in self._kept[program].ask(asked.keys(), edited.texts):
            if any(answer.is_unreadable for answer in more):
                # What was known last stays.
                return
            answers += more
            if session.show_live(program, edited, self._merged(program, edited, asked, answers)):
                self._changed(program)

    def _changed(self, program: str) -> None:
        self._server.results_changed(program)
        self._server.run_states.live_changed(program)

    def _merged(self, program: str, edited: Edited, asked: dict[Key, str], answers: list[Answer]) -> LiveReport | None:
        folder, found, notes, lost = self._folders[program], {}, [], _gone(edited)
        for answer in sorted(answers, key=lambda answer: answer.number):
            identifier = asked[answer.key]
            if identifier in lost:
                continue
            if answer.report is not None:
                report = absolute(from_json(CompileReport, answer.report), folder)
                found.setdefault(identifier, []).append(report)
            else:
                notes.append(_note(answer.trouble, Span(*(answer.place or _place(edited, identifier)))))
        return merged(edited.report, edited.maps, edited.functions, found, tuple(dict.fromkeys(notes)), lost)


def _gone(edited: Edited) -> frozenset[str]:
    """The functions that are defined no more. Only of those whose first line is another now the text is asked."""
    suspects: dict[str, dict[str, str]] = {}
    for function in edited.report.functions:
        file, line = function.span.file, function.span.line
        if function.identifier in edited.functions and file in edited.maps and edited.maps[file].line(line) is None:
            suspects.setdefault(file, {})[function.identifier] = function.name
    return frozenset().union(*(gone(functions, edited.texts[file][1]) for file, functions in suspects.items()))


def _key(edited: Edited, identifier: str) -> Key:
    function = next(f for f in edited.report.functions if f.identifier == identifier)
    return function.name, function.span.file, function.span.line


def _place(edited: Edited, identifier: str) -> tuple[str, int]:
    """The function's first line, or what is left before it."""
    _, file, line = _key(edited, identifier)
    lines = edited.maps.get(file)
    above = (lines.line(number) for number in range(line, 0, -1)) if lines is not None else (line,)
    return file, next((number for number in above if number), 1)


def _note(message: str, span: Span) -> Explanation:
    return Explanation(NOT_KNOWN, "information", message, "Run the program again to see what it does now.", span)


def _report_defect(task: asyncio.Task) -> None:
    if not task.cancelled() and task.exception() is not None:
        logger.error("what was edited cannot be followed", exc_info=task.exception())
