"""The process that runs trials: torch and the engine are imported once, each trial is a fork of it.

It is asked in lines of JSON on its standard input and answers each in a line on its standard output:

    {"trial": {...}, "seconds": 30}        ->  {"code": 0}, {"code": -9}, or {"timed_out": true}
    {"compare": ["a.pt", "b.pt"]}          ->  {"calls": 2, "difference": 0.0, "why": ""}
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from dynascope.proving.trial import TORCHS_COMPILER, Trial, run

POLL_SECONDS = 0.005


def main() -> None:
    # Breaks are what is looked for here: none is an error.
    os.environ.pop("DYNASCOPE_STRICT", None)
    # Who asked decides when it is over: an interrupt in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    _load()
    answers.write(json.dumps({"ready": True}) + "\n")
    for line in sys.stdin:
        answers.write(json.dumps(_answer(json.loads(line))) + "\n")


def _load() -> None:
    """All that a trial needs, so that it begins at once; nothing that starts a thread or takes a device.

    What is imported when a first function is compiled and a first report read is imported by doing both.
    """
    import torch

    import dynascope
    from dynascope.api import Explanation
    from dynascope.backends import GraphCompilers
    from dynascope.frame import hook
    from dynascope.proving import results  # noqa: F401
    from dynascope.report.json_format import to_json

    if importlib.util.find_spec("numpy") is not None:
        importlib.import_module("numpy.random")
    hook.is_native()
    # Without a gradient: nothing of autograd or of a device may have begun here, where trials are forked from.
    explained = dynascope.explain(dynascope.compile(_first_program, backend=GraphCompilers()), torch.ones(2))
    assert isinstance(explained, Explanation)
    to_json(explained.report)
    dynascope.reset()


def _first_program(x: Any) -> Any:
    return (x * 2).sum()


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    if "compare" in request:
        from dynascope.proving.results import compared

        return dataclasses.asdict(compared(*(Path(path) for path in request["compare"])))
    trial = request["trial"]
    return _tried(Trial(**{**trial, "arguments": tuple(trial["arguments"])}), request["seconds"])


def _tried(trial: Trial, seconds: float) -> dict[str, Any]:
    asked_for = Path(f"{trial.printed}.{TORCHS_COMPILER}")
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            run(trial)
        finally:
            os._exit(70)
    try:
        answer = _waited(child, time.monotonic() + seconds)
    finally:
        # Also where this process is told to go in the middle of a trial.
        _end_family(child)
    # A program that names it imports it, which takes longer than most trials: the next one has it already.
    if asked_for.exists():
        importlib.import_module(TORCHS_COMPILER)
    return answer


def _waited(child: int, deadline: float) -> dict[str, Any]:
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return {"code": os.waitstatus_to_exitcode(status)}
        if os.getppid() == 1:
            break
        time.sleep(POLL_SECONDS)
    _end_family(child)
    os.waitpid(child, 0)
    return {"timed_out": True}


def _end_family(child: int) -> None:
    """What the program left running ends with it."""
    for kill in (lambda: os.killpg(child, signal.SIGKILL), lambda: os.kill(child, signal.SIGKILL)):
        try:
            kill()
        except (ProcessLookupError, PermissionError):
            continue


if __name__ == "__main__":
    main()
