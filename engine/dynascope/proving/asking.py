"""The prover's other side: starts the process, gives it trials, and says what came of them. Imports no torch.

with Prover(sys.executable) as prover:
    before = prover.tried(program, {})                 Outcome(report=..., printed="...", code=0)
    after = prover.tried(program, {"model.py": text})
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.fixes.fix import Parts
from dynascope.proving.trial import Trial
from dynascope.report.facts import CompileReport
from dynascope.report.process_folders import process_folder
from dynascope.report.store import ReportUnreadable, read_report
from dynascope.report.user_files import is_user_file, shown_path

GRACE_SECONDS = 5.0
OWN = str(Path(__file__).parent.parent)


@dataclass(frozen=True, slots=True)
class Program:
    file: str
    arguments: tuple[str, ...] = ()
    device: str | None = None
    module: str | None = None
    """What Python runs it as, where it does only so, and the folder in which it is found."""
    root: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one set of texts: what was captured of it, and what it did uncompiled. `trouble` says why there is neither."""

    report: CompileReport | None
    results: Path
    printed: bytes
    code: int
    trouble: str = ""
    raised: str = ""
    """ "KeyError: 'name' at train.py:12", where an error ended the program as it is written."""


class Prover:
    """`seconds`: how long one run of the program may take; `limit` is the same for the runs that follow, and may be lowered."""

    def __init__(self, interpreter: str = sys.executable, seconds: float = 60.0) -> None:
        self.seconds = self.limit = seconds
        self._folder = process_folder("dynascope-proofs-")
        self._count = 0
        self.process = subprocess.Popen(
            [interpreter, "-m", "dynascope.proving.prover"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()

    def __enter__(self) -> Prover:
        return self

    def __exit__(self, kind: type | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self.process.terminate()
        try:
            self.process.communicate(timeout=GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def tried(
        self, program: Program, texts: Mapping[str, str], is_captured: bool = True, parts: tuple[tuple[str, Parts], ...] = ()
    ) -> Outcome:
        """The program as it is written first, then captured: what does not run as before is not captured. `parts` with their files."""
        self._count += 1
        place = self._folder / str(self._count)
        place.mkdir()
        report, results, printed = place / "report.json", place / "results.pt", place / "printed"
        told = tuple((file, each.function, each.compiled) for file, each in parts)
        trial = Trial(
            program.file,
            program.arguments,
            dict(texts),
            str(printed),
            results=str(results),
            device=program.device,
            parts=told,
            module=program.module,
            root=program.root,
        )
        plain = self._run(trial)
        if plain.get("timed_out"):
            return Outcome(None, results, b"", 124, f"it ran longer than {self.limit:g} s")
        if not results.exists():
            return Outcome(None, results, printed.read_bytes(), plain["code"], _last_words(printed))
        if not is_captured:
            return Outcome(None, results, printed.read_bytes(), plain["code"])
        captured = self._run(replace(trial, results=None, report=str(report), printed=str(place / "captured")))
        if captured.get("timed_out"):
            return Outcome(None, results, b"", 124, f"it ran longer than {self.limit:g} s")
        failed = place / "captured" if captured["code"] else printed
        trouble = "" if captured["code"] == plain["code"] else _last_words(failed)
        return Outcome(_report(report), results, printed.read_bytes(), plain["code"], trouble, raised(_errors(printed)))

    def compared(self, first: Outcome, second: Outcome) -> dict[str, Any]:
        return self._asked({"compare": [str(first.results), str(second.results)]})

    def _run(self, trial: Trial) -> dict[str, Any]:
        return self._asked({"trial": asdict(trial), "seconds": self.limit})

    def _asked(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ProverEnded(f"the process that proves fixes ended with code {self.process.wait()}")
        return json.loads(line)


class ProverEnded(RuntimeError):
    """The prover is gone, as where its interpreter has no torch."""


def _report(path: Path) -> CompileReport | None:
    try:
        return read_report(path)
    except (FileNotFoundError, ReportUnreadable):
        return None


def _last_words(printed: Path) -> str:
    lines = _errors(printed).strip().splitlines()
    return lines[-1] if lines else "it ended early"


def _errors(printed: Path) -> str:
    errors = Path(f"{printed}.errors")
    return errors.read_text(errors="replace") if errors.exists() else ""


def raised(errors: str) -> str:
    """What the last traceback ends with, and the innermost line of the user's that it leads through; "" without one."""
    _, begin, last = errors.rpartition("Traceback (most recent call last):")
    frames = list(re.finditer(r'^  File "(.+)", line (\d+)', last, re.MULTILINE))
    words = re.search(r"^[\w.]+(?:: .*)?$", last[frames[-1].end() :], re.MULTILINE) if begin and frames else None
    if words is None:
        return ""
    own = [frame for frame in frames if is_user_file(frame[1]) and not frame[1].startswith(OWN)]
    return words[0] + (f" at {shown_path(own[-1][1])}:{own[-1][2]}" if own else "")


def is_served() -> bool:
    """Trials are forks."""
    return hasattr(os, "fork")
