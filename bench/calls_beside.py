"""Random calls of Python's own types and functions (`tests/capture/calls_of_python.py`): those that we break at and torch.compile does not.

    python bench/calls_beside.py --first 0 --seconds 120            printed
    python bench/calls_beside.py --first 0 --seconds 600 --write    counted in RESULTS.md as well

Calls that raise in Python are left out: what is said of an error is compared by `campaign.py calls`.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import dynascope
import torch
import torch._dynamo
from dynascope.command.explain import codes
from results import write_section
from torch._dynamo.utils import counters

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "capture"))

from calls_of_python import DEFECTS, MODULES, written  # noqa: E402

PROGRAM = "def inside(x):\n    y = x + 1\n    subject = {subject}\n    return y * 2, [{calls}], subject\n"


def program_of(seed: int) -> tuple[str, Any] | None:
    """None where a call raises."""
    subject, calls = written(seed)
    text, space = PROGRAM.format(subject=subject, calls=", ".join(calls)), dict(MODULES)
    exec(compile(text, f"<calls of seed {seed}>", "exec"), space)
    try:
        space["inside"](torch.ones(2))
    except Exception:
        return None
    return f"subject = {subject}; {'; '.join(calls)}", space["inside"]


def breaks_of_ours(function: Any) -> list[str]:
    with dynascope.expected(*set(codes()) - set(DEFECTS), required=False):
        report = dynascope.explain(dynascope.compile(function, backend="eager"))(torch.ones(2)).report
    entries = [entry for found in report.functions for entry in found.entries]
    return [f"{entry.reason.code}: {entry.reason.message}" for entry in entries if entry.reason is not None]


def breaks_of_peer(function: Any) -> int | None:
    """None where torch.compile raises."""
    torch._dynamo.reset()
    counters.clear()
    try:
        torch.compile(function, backend="eager")(torch.ones(2))
    except Exception:
        return None
    return sum(counters["graph_break"].values())


def main() -> None:
    warnings.simplefilter("ignore")
    end, seed, counts = time.monotonic() + arguments.seconds, arguments.first, collections.Counter()
    while time.monotonic() < end:
        found = program_of(seed)
        seed += 1
        if found is None:
            continue
        text, function = found
        ours, theirs = breaks_of_ours(function), breaks_of_peer(function)
        more = len(ours) - (theirs or 0)
        counts["raise under torch.compile" if theirs is None else "more" if more > 0 else "fewer" if more < 0 else "as many"] += 1
        if theirs is not None and more > 0:
            print(f"seed {seed - 1}: {text}\n    {len(ours)} and {theirs}: {'; '.join(ours)[:300]}", flush=True)
    kinds = ("as many", "fewer", "more", "raise under torch.compile")
    row = [f"from {arguments.first:,}", f"{counts.total():,}", *(f"{counts[kind]:,}" for kind in kinds)]
    print(row)
    if arguments.write:
        command = f"python bench/calls_beside.py --first {arguments.first} --seconds {arguments.seconds:g} --write"
        columns = ["seeds", "programs", "as many breaks", "fewer", "more", "raise under torch.compile"]
        note = "Random calls of Python's own types that do not raise in Python."
        write_section("Calls beside torch.compile", command, columns, [row], note)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    main()
