"""Notebooks and IPython: a cell whose `torch.compile` is ours, with the report below it.

    %load_ext dynascope

    %%dynascope
    model = torch.compile(model)
    model(x)

In a notebook the report is a page with the annotated cell, what broke and pictures of the graphs; in a terminal its text. An editor
that shows the notebook finds beside it where the report lies and what the cells were called, for lenses and hovers in the cells.
"""

from __future__ import annotations

import argparse
import asyncio
import linecache
import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dynascope import recording
from dynascope.dataclass import dataclass
from dynascope.report.facts import CompileReport
from dynascope.report.html_page import html_fragment
from dynascope.report.spoken_files import files_of, with_files
from dynascope.report.store import write_report
from dynascope.report.terminal import Page, report_text
from dynascope.report.user_files import is_user_file
from dynascope.report_folders import new_report_path

MAGIC = "dynascope"
NOTHING = "the cell calls nothing that is compiled, or only what an earlier cell compiled"
FOR_EDITORS = "application/vnd.dynascope.report+json"
"""The type of what is for an editor's eyes: notebooks keep it with the cell's output and show what else there is."""


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext dynascope` calls."""
    cells = Cells(shell)
    shell.register_magic_function(cells.run, "cell", MAGIC)


@dataclass(frozen=True, slots=True, repr=False)
class CellReport:
    """The last value of a cell, shown as a notebook or a terminal shows it."""

    report: CompileReport
    page: Page
    number: int
    for_editors: dict[str, Any]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": repr(self), "text/html": self._repr_html_(), FOR_EDITORS: self.for_editors}

    def __repr__(self) -> str:
        return report_text(self.report, self.page).strip("\n")

    def _repr_html_(self) -> str:
        return html_fragment(self.report, f"cell-{self.number}-")


def _number(shell: Any) -> int:
    """That of the cell that runs. Newer shells count on before they run it, and say in its result which it is."""
    result = getattr(getattr(shell, "displayhook", None), "exec_result", None)
    number = getattr(result, "execution_count", None)
    return number if isinstance(number, int) else shell.execution_count


class Cells:
    """Each cell is a file by its number, whose text `linecache` knows: so its lines have a place."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._texts: dict[str, str] = {}
        self._kernel = f"{os.getpid()}-{time.time_ns()}"

    def run(self, line: str, cell: str) -> None:
        """%%dynascope [--guards] [--annotate] [--quiet] [--backend NAME] [--dynamic] [--json PATH]"""
        options = _options(line)
        if options is None:
            return
        if _waits(self._shell, cell):
            print(f"%%{MAGIC}: no magic can run a cell that awaits something outside of functions. Leave that to a cell of its own.")
            return
        number = _number(self._shell)
        file = f"cell_{number}.py"
        recorder = recording.Recorder(file)
        recorder.program_asks(True)
        before = recording.use(recorder)
        try:
            with _served(_chosen(options)), self._named(file, line, cell):
                self._shell.run_cell(cell)
        finally:
            recording.use(before)
        report = self._in_cells(recorder.report())
        if options.json:
            write_report(report, Path(options.json))
        if not options.quiet:
            from IPython.display import display  # pyright: ignore[reportMissingImports]

            page = Page(guards=options.guards, annotate=options.annotate, nothing=NOTHING)
            display(CellReport(report, page, number, self._for_editors(report, file)))

    def _in_cells(self, report: CompileReport) -> CompileReport:
        """Cells without the magic are named by their numbers too, not as the kernel names their code."""
        known = getattr(self._shell.compile, "format_code_name", lambda name: None)
        names: dict[str, str] = {}
        for file in files_of(report):
            number = re.search(r"\d+", (known(file) or ("", ""))[1])
            if number is not None:
                names[file] = f"cell_{number[0]}.py"
                lines = linecache.getlines(file)
                linecache.cache[names[file]] = (sum(map(len, lines)), None, lines, names[file])
        return with_files(report, lambda file: names.get(file, file)) if names else report

    def _for_editors(self, report: CompileReport, file: str) -> dict[str, Any]:
        """Where the report lies, and the texts of the cells that it speaks of: a cell without the magic is found by its text."""
        try:
            path = new_report_path(file)
            write_report(report, path)
        except OSError:
            # Nothing can be kept: the page says the same.
            return {}
        names = {name for name in files_of(report) if is_user_file(name) and not os.path.exists(name)} | {file}
        texts = {name: self._texts.get(name) or "".join(linecache.getlines(name)) for name in sorted(names)}
        return {"kernel": self._kernel, "file": file, "report": str(path), "texts": texts}

    @contextmanager
    def _named(self, file: str, line: str, cell: str) -> Iterator[None]:
        """The cell's code says that it is of that file. The magic has a line in it, so that lines count as the notebook counts them."""
        text = f"# %%{MAGIC}\n{cell}"
        self._texts[file] = f"%%{MAGIC} {line}".rstrip() + f"\n{cell}"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        compiler = self._shell.compile
        ast_parse, cache = compiler.ast_parse, compiler.cache

        def parse(source: str, filename: str = file, symbol: str = "exec") -> Any:
            return ast_parse(f"\n{source}" if filename == file else source, filename, symbol)

        compiler.ast_parse, compiler.cache = parse, lambda *arguments, **settings: file
        try:
            yield
        finally:
            compiler.ast_parse, compiler.cache = ast_parse, cache


def _waits(shell: Any, cell: str) -> bool:
    """Whether the shell would wait for the cell in a loop of events that runs already, as a notebook's does."""
    try:
        asyncio.get_running_loop()
        return shell.should_run_async(cell, transformed_cell=shell.transform_cell(cell))
    except (AttributeError, RuntimeError, SyntaxError):
        return False


def _options(line: str) -> argparse.Namespace | None:
    parser = argparse.ArgumentParser(prog=f"%%{MAGIC}", exit_on_error=False, add_help=False)
    for name in ("--guards", "--annotate", "--quiet", "--dynamic"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("--backend")
    parser.add_argument("--json")
    try:
        options, unknown = parser.parse_known_args(shlex.split(line))
    except (argparse.ArgumentError, ValueError) as error:
        print(f"%%{MAGIC}: {error}")
        return None
    if unknown:
        print(f"%%{MAGIC}: {unknown[0]} is no option of this magic: {Cells.run.__doc__}")
        return None
    return options


def _chosen(options: argparse.Namespace) -> dict[str, Any]:
    chosen = {"dynamic": options.dynamic or None, "backend": options.backend}
    return {name: value for name, value in chosen.items() if value is not None}


@contextmanager
def _served(chosen: dict[str, Any]) -> Iterator[None]:
    """`torch.compile` is ours for the time of the cell. What it compiled then stays so."""
    import torch

    from dynascope import api
    from dynascope.capture.layers import note_registrations

    note_registrations()

    def compile(model: Any = None, **settings: Any) -> Any:
        return api.torch_compile(model, **{**settings, **chosen})

    before = torch.compile
    torch.compile = compile
    try:
        yield
    finally:
        if torch.compile is compile:
            torch.compile = before
