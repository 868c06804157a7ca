"""All of torch's operators and modules through `dynascope.compile` with the default backend, against eager.

    PYTHONPATH=engine python bench/operator_suite.py                                       the CPU, two processes
    PYTHONPATH=engine python bench/operator_suite.py --device cuda --processes 15 --samples 5
    PYTHONPATH=engine python bench/operator_suite.py --dtypes float32,bool --kinds results,out --only add,nn.functional.pad
    PYTHONPATH=engine python bench/operator_suite.py --part 3/40 --seed 7                   every 40th unit from the third
    PYTHONPATH=engine python bench/operator_suite.py --processes 15 --seconds 600           what ten minutes allow, in an order drawn

A line for each failure as it is found, shortened; at the end a table by dtype and kind. A process that dies or does not
answer is a fatal failure of the unit that it was at. Exit code 1 if anything was wrong or fatal.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import os
import random
import sys
import time
import warnings
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "engine"), str(ROOT / "tests" / "differential")]

import torch  # noqa: E402
from operator_cases import DTYPES, KINDS, Unit, differences, units  # noqa: E402


def main() -> int:
    options = _options()
    dtypes = tuple(getattr(torch, name) for name in options.dtypes.split(",")) if options.dtypes else DTYPES
    part, parts = map(int, options.part.split("/"))
    todo = list(units(options.device, dtypes, tuple(options.kinds.split(",")), options.only))[part::parts]
    if options.seconds:
        random.Random(options.seed).shuffle(todo)
    print(f"{len(todo)} units, seed {options.seed}", flush=True)
    start, counts, failures, done = time.time(), collections.Counter(), [], 0
    for unit, outcome, lines in _run(todo, options):
        done += 1
        counts[unit.dtype, unit.kind, "checked"] += lines.count(None)
        for line in filter(None, lines):
            counts[unit.dtype, unit.kind, outcome] += 1
            failures.append((outcome, unit, line))
            print(f"{outcome} {unit.name} {_short(unit.dtype)} {unit.kind}: {line}", flush=True)
    _print_table(counts, done, time.time() - start)
    if options.out:
        rows = [[outcome, unit.name, _short(unit.dtype), unit.kind, line] for outcome, unit, line in failures]
        Path(options.out).write_text(json.dumps(rows, indent=0))
    return int(bool(failures))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--dtypes", default="", help="names separated by commas; all if empty")
    parser.add_argument("--kinds", default=",".join((*KINDS, "module")))
    parser.add_argument("--only", default="", help="names of operators or modules, separated by commas")
    parser.add_argument("--part", default="0/1", help="i/n: every n-th unit from the i-th")
    parser.add_argument("--samples", type=int, default=3, help="of each operator, dtype and kind")
    parser.add_argument("--seed", type=int, default=0, help="chooses samples and layouts")
    parser.add_argument("--seconds", type=float, default=0, help="no new unit is begun after them")
    parser.add_argument("--limit", type=float, default=120, help="seconds for a unit")
    parser.add_argument("--out", default="", help="a file for the failures, as JSON")
    return parser.parse_args()


# -- processes --------------------------------------------------------------------------------------------------------


class _Worker:
    """A process that answers units, and what it is at."""

    def __init__(self, context: Any, options: argparse.Namespace) -> None:
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, options.samples, options.seed), daemon=True)
        self.process.start()
        theirs.close()
        self.unit: Unit | None = None
        self.deadline = float("inf")

    def give(self, unit: Unit | None, limit: float) -> None:
        self.unit, self.deadline = unit, time.time() + limit if unit else float("inf")
        self.pipe.send(unit)


def _serve(pipe: Any, samples: int, seed: int) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    while (unit := pipe.recv()) is not None:
        try:
            lines = list(differences(unit, samples, seed))
        except Exception as error:
            lines = [f"the suite itself: {type(error).__name__}: {' '.join(str(error).split())[:160]}"]
        if not (stopped := _is_stopped(unit)):
            pipe.send((lines, True))
            continue
        # Eager stops the device too where inputs are wrong on purpose, or indices are too large for other sizes.
        pipe.send(([] if unit.kind in ("errors", "sizes") else [f"stops the device: {stopped}"], False))
        return


def _is_stopped(unit: Unit) -> str:
    """What stopped the GPU, which then serves this process no more."""
    if torch.device(unit.device).type != "cuda":
        return ""
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return str(error).split("\n")[0]
    return ""


def _run(todo: list[Unit], options: argparse.Namespace) -> Any:
    context = multiprocessing.get_context("spawn")
    left, end = collections.deque(todo), time.time() + (options.seconds or float("inf"))
    workers = [_Worker(context, options) for _ in range(min(options.processes, len(todo)))]
    for worker in workers:
        worker.give(left.popleft() if left else None, options.limit)
    while any(worker.unit for worker in workers):
        if time.time() > end:
            left.clear()
        ready = set(wait([worker.pipe for worker in workers if worker.unit], timeout=1))
        for position, worker in enumerate(workers):
            unit = worker.unit
            if unit is None:
                continue
            if worker.pipe in ready:
                try:
                    lines, serves = worker.pipe.recv()
                    yield unit, "wrong", lines
                    if not serves:
                        worker.process.join()
                        worker = workers[position] = _Worker(context, options)
                except (EOFError, OSError):
                    worker.process.join()
                    yield unit, "fatal", [f"the process ended with {worker.process.exitcode}"]
                    worker = workers[position] = _Worker(context, options)
            elif time.time() > worker.deadline:
                worker.process.kill()
                worker.process.join()
                yield unit, "fatal", [f"no answer within {options.limit:.0f} s"]
                worker = workers[position] = _Worker(context, options)
            else:
                continue
            worker.give(left.popleft() if left else None, options.limit)


# -- words ------------------------------------------------------------------------------------------------------------


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _print_table(counts: collections.Counter, total: int, seconds: float) -> None:
    kinds = [kind for kind in (*KINDS, "module") if any(key[1] == kind for key in counts)]
    print(f"\n{'checked/wrong/fatal':22s}" + "".join(f"{kind:>18s}" for kind in kinds))
    for dtype in (d for d in DTYPES if any(key[0] == d for key in counts)):
        cells = ("/".join(str(counts[dtype, kind, what]) for what in ("checked", "wrong", "fatal")) for kind in kinds)
        print(f"{_short(dtype):22s}" + "".join(f"{cell:>18s}" for cell in cells))
    sums = {what: sum(n for key, n in counts.items() if key[2] == what) for what in ("checked", "wrong", "fatal")}
    print(
        f"{total} units, {sums['checked']} comparisons right, {sums['wrong']} wrong, {sums['fatal']} fatal, {seconds:.0f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
