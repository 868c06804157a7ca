"""Processes that the program starts are served where they compile: each writes its report beside the program's.

    multiprocessing.get_context("spawn").Process(target=train)       by `multiprocessing`'s launcher
    subprocess.Popen([sys.executable, "train.py"], env={"RANK": "1", "WORLD_SIZE": "2", ...})       a rank: `train.py` under our engine

They get the way to the engine in their environment for the moment of the start; no variable of the program's shows it. Of what
`subprocess` starts these are ranks: Python files and modules, run by this interpreter, that have a `RANK` or join a process group.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dynascope.command.interception import after_import
from dynascope.command.ranks import children_folder
from dynascope.dataclass import dataclass

FLAGS = frozenset("bBdOqsuvx")
"""Letters of the interpreter's options after which it still looks at its environment."""
WITH_VALUE = ("-W", "-X")
JOINS_A_GROUP = b"init_process_group"

Environment = Callable[[dict[str, Any], dict[str, str] | None], dict[str, str]]
"""A child's environment variables: from its settings and what it would have had, or ours."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a command of the interpreter runs: a file, or a module by its name."""

    file: str
    arguments: tuple[str, ...]
    is_module: bool


def serve_spawned(settings: dict[str, Any], environment: Environment) -> None:
    folder = children_folder(Path(settings["report"]))
    if settings.get("spawned"):
        folder = Path(settings["report"]).parent

    def own_settings() -> dict[str, Any]:
        folder.mkdir(parents=True, exist_ok=True)
        report = str(folder / f"{time.monotonic_ns():020}-{uuid.uuid4().hex}.json")  # in the order of their starts
        return {**settings, "report": report, "events": None, "keep": None, "spawned": True}

    after_import("multiprocessing.popen_spawn_posix", lambda module: _serve_multiprocessing(module, own_settings, environment))
    after_import("subprocess", lambda module: _serve_subprocess(module, own_settings, environment))


def _serve_multiprocessing(module: Any, own_settings: Callable[[], dict], environment: Environment) -> None:
    resource_tracker = importlib.import_module("multiprocessing.resource_tracker")
    launch = module.Popen._launch

    def launched(popen: Any, process: Any) -> Any:
        # Started here, it does not see our variables: it is none of the program's processes, and ends after all of them.
        resource_tracker.ensure_running()
        before = dict(os.environ)
        os.environ.update(environment(own_settings(), None))
        try:
            return launch(popen, process)
        finally:
            for name in set(os.environ) - set(before):
                del os.environ[name]
            os.environ.update(before)

    module.Popen._launch = launched


def _serve_subprocess(module: Any, own_settings: Callable[[], dict], environment: Environment) -> None:
    """At the call that starts the process, which takes its environment as a list: what fails there is raised further up, so that no
    frame of ours is in the program's tracebacks."""
    if not hasattr(module, "_fork_exec"):
        return
    fork_exec = module._fork_exec
    # `os.posix_spawn` takes the environment as the program gave it: this is Python's own switch for the other way.
    module._USE_POSIX_SPAWN = False

    def served(command: Sequence, executables: Sequence, *others: Any) -> int:
        close_fds, pass_fds, folder, variables, *rest = others
        try:
            found = _variables(variables)
            rank = _rank(command, executables, folder, found)
            if rank is not None:
                own = {"file": rank.file, "arguments": list(rank.arguments), "module": rank.file if rank.is_module else None, "root": None}
                found = environment({**own_settings(), **own}, found)
                variables = [os.fsencode(name) + b"=" + os.fsencode(value) for name, value in found.items()]
        except (OSError, ValueError):
            # The program's process starts as it would have.
            pass
        return fork_exec(command, executables, close_fds, pass_fds, folder, variables, *rest)

    module._fork_exec = served


def _variables(given: Sequence[bytes] | None) -> dict[str, str]:
    if given is None:
        return dict(os.environ)
    return {name: value for name, _, value in (os.fsdecode(each).partition("=") for each in given)}


def _rank(command: Sequence, executables: Sequence, folder: Any, variables: dict[str, str]) -> Run | None:
    """What the process runs, where it is one of several that this interpreter runs."""
    words = [os.fsdecode(word) for word in command]
    found = run_of(words[1:]) if _is_this_interpreter(executables) else None
    if found is None:
        return None
    if variables.get("RANK", "").isdigit() and variables.get("WORLD_SIZE", "").isdigit():
        return found
    joins = not found.is_module and JOINS_A_GROUP in Path(os.fsdecode(folder or ""), found.file).read_bytes()
    return found if joins else None


def _is_this_interpreter(executables: Sequence) -> bool:
    """Of another virtual environment it may have no engine, though its file is the same in the end."""
    path = next((os.fsdecode(each) for each in executables if os.access(each, os.X_OK)), "")

    def place(path: str) -> tuple[str, str]:
        return os.path.realpath(os.path.dirname(path)), os.path.realpath(path)

    return place(path) == place(sys.executable)


def run_of(words: Sequence[str]) -> Run | None:
    """Of the interpreter's arguments. None where it runs neither file nor module, or does not look at its environment."""
    for number, word in enumerate(words):
        if number and words[number - 1] in WITH_VALUE:
            continue
        if word == "-m" and number + 1 < len(words):
            name = words[number + 1]
            is_ours = name.partition(".")[0] == "dynascope"
            return None if is_ours else Run(name, tuple(words[number + 2 :]), is_module=True)
        if not word.startswith("-"):
            return Run(word, tuple(words[number + 1 :]), is_module=False)
        if not word.startswith(WITH_VALUE) and not (word[1:] and FLAGS.issuperset(word[1:])):
            return None
    return None
