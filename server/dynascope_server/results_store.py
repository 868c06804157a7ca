"""The newest result of each program on disk, so that it is there again when a window is opened anew.

<storage>/results/<file>-<digest>.json     {"program", "report", "texts": {file: text as it was when the program ran}}
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dynascope_server.ide.addresses import owner_of

KEPT = 40


@dataclass(frozen=True, slots=True)
class StoredResult:
    program: str
    report: str
    """The path of the report; gone where its run was removed since."""
    folder: str
    """The folder that relative names in the report are relative to."""
    texts: dict[str, str]


class ResultsStore:
    def __init__(self, root: Path):
        self._folder = root / "results"

    def keep(self, result: StoredResult) -> None:
        """Raises `OSError` where the folder cannot be written."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{owner_of(result.program)}.json"
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(asdict(result)), encoding="utf-8", errors="surrogatepass")
        os.replace(temporary, path)
        for old in sorted(self._folder.glob("*.json"), key=lambda p: p.stat().st_mtime)[:-KEPT]:
            old.unlink(missing_ok=True)

    def forget(self, programs: Iterator[str] | list[str]) -> None:
        for program in programs:
            with suppress(OSError):
                (self._folder / f"{owner_of(program)}.json").unlink()

    def speaking_of(self, path: str) -> list[StoredResult]:
        """The results that a file is part of, oldest first, those with a report that is still there."""
        return [result for result in self._all() if path in result.texts and os.path.exists(result.report)]

    def _all(self) -> Iterator[StoredResult]:
        with suppress(OSError):
            for path in sorted(self._folder.glob("*.json"), key=lambda p: p.stat().st_mtime):
                with suppress(OSError, ValueError, TypeError):
                    yield StoredResult(**json.loads(path.read_text(encoding="utf-8", errors="surrogatepass")))
