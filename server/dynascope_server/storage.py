"""The server's own folder: logs and reports of runs, documents written as files.

<storage>/runs/<file>-<digest>/<number>.log, <number>.json        <storage>/documents/<address>        <storage>/results/...
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from dynascope.report.process_folders import process_folder, remove_left_behind

from dynascope_server.ide.addresses import Address, owner_of, parse_path
from dynascope_server.results_store import ResultsStore

KEPT_RUNS = 10
PROBE_BYTES = 64 * 1024
READ_ONLY = 0o444
TEMPORARY = "dynascope-server-"


class Storage:
    def __init__(self, root: Path):
        self.root = root

    @property
    def results(self) -> ResultsStore:
        return ResultsStore(self.root)

    @property
    def documents(self) -> Path:
        return self.root / "documents"

    def new_run(self, file: str) -> tuple[Path, Path]:
        """Fresh paths for (log, report) of a run; the logs of old runs of the same file are removed."""
        folder = self.root / "runs" / owner_of(file)
        folder.mkdir(parents=True, exist_ok=True)
        numbers = sorted(int(path.stem) for path in folder.glob("*.log") if path.stem.isdigit())
        for old in numbers[: -KEPT_RUNS + 1]:
            for ending in (".log", ".json"):
                with suppress(OSError):
                    (folder / f"{old}{ending}").unlink()
        number = numbers[-1] + 1 if numbers else 1
        # Taken at once, so that two servers on one folder never share a number.
        while not _created(folder / f"{number}.log"):
            number += 1
        return folder / f"{number}.log", folder / f"{number}.json"

    def write_document(self, address: Address, text: str) -> Path:
        """The document as a read-only file at a path that says its address."""
        path = self.documents / address.path
        data = text.encode(errors="surrogatepass")
        if path.exists() and path.read_bytes() == data:
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, READ_ONLY)
        os.replace(temporary, path)
        return path

    def address_of(self, path: str) -> Address | None:
        """The inverse of `write_document`; None for files that are not ours."""
        try:
            return parse_path(Path(path).relative_to(self.documents).as_posix())
        except ValueError:
            return None


def open_storage(wanted: str | None, environment: Mapping[str, str]) -> Storage:
    """The wanted folder, else the cache folder; a private temporary folder where neither can be written."""
    remove_left_behind(TEMPORARY)
    root = Path(wanted).expanduser() if wanted else _default_root(environment)
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=root) as probe:
            # An empty file can be made on a full disk.
            probe.write(bytes(PROBE_BYTES))
            probe.flush()
            return Storage(root)
    except OSError:
        return Storage(process_folder(TEMPORARY))


def _default_root(environment: Mapping[str, str]) -> Path:
    if own := environment.get("DYNASCOPE_CACHE_DIR"):
        return Path(own) / "server"
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dynascope" / "server"


def _created(path: Path) -> bool:
    try:
        path.open("xb").close()
    except FileExistsError:
        return False
    return True
