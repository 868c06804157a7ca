"""Where the report of a run goes that nobody named a place for.

new_report_path("train.py")  ->  ~/.cache/dynascope/runs/20260102-030405-train-x1y2z3/report.json
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from dynascope.native.cache import cache_folder

KEPT = 20


def new_report_path(file: str) -> Path:
    """A folder of its own for each run, beside the cache; the newest are kept. Raises `OSError` where nothing can be written."""
    runs = cache_folder() / "runs"
    runs.mkdir(parents=True, exist_ok=True)
    for old in sorted(runs.iterdir())[: 1 - KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return Path(tempfile.mkdtemp(prefix=f"{stamp}-{Path(file).stem}-", dir=runs)) / "report.json"
