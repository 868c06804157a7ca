"""What stands for the engine in a Python that is too old for it: the program runs as it was written. Read by Pythons from 2.7 on.

    compile(function)       is the function, and says once why
    main()                  `dynascope run FILE ARGS` says why and becomes `python FILE ARGS`

The other names of `dynascope` are here too, and do nothing, so that a program that uses them runs.
"""

import json
import os
import sys
import warnings

__all__ = [
    "StrictError",
    "aot",
    "compare_captures",
    "compile",
    "config",
    "disable",
    "expected",
    "explain",
    "list_backends",
    "load_ipython_extension",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "optimize",
    "register_backend",
    "reset",
    "skip",
]

PYTHON = "dynascope: %s is Python %s; Dynascope " % (sys.executable, sys.version.split()[0])  # noqa: UP031
REMEDY = "Choose an interpreter of CPython 3.11 or later that has torch."
MESSAGE = PYTHON + "compiles from CPython 3.11 on: the program runs as it was written."
RUNS = MESSAGE + " " + REMEDY
NEEDS = PYTHON + "needs CPython 3.11 or later. " + REMEDY
USAGE = 2

# Options of `dynascope run` that take a word of their own. `tests/command/test_old_pythons.py` compares them with the parser's.
WITH_VALUES = frozenset(
    ["--device", "--backend", "--json", "--output-format", "--output", "--fail-on", "--timeout", "--events-fd", "--keep-fd"]
)
SAID = "DYNASCOPE_OLD_PYTHON_SAID"
_said = [True] if os.environ.pop(SAID, None) else []


def compile(target=None, **settings):
    if not _said:
        _said.append(True)
        warnings.warn(RUNS, stacklevel=2)
    return (lambda function: function) if target is None else target


def optimize(backend=None, **settings):
    return lambda target: compile(target)


def skip(target=None):
    return (lambda function: function) if target is None else target


def aot(target=None, **settings):
    return compile(target)


def disable(target=None, recursive=True):
    return (lambda function: function) if target is None else target


def register_backend(backend=None, name=None):
    return (lambda function: function) if backend is None else backend


def compare_captures(target, *arguments, **named):
    raise RuntimeError(NEEDS)


def explain(target, *arguments, **named):
    raise RuntimeError(NEEDS)


def list_backends():
    return []


def load_ipython_extension(shell):
    raise RuntimeError(NEEDS)


def reset():
    pass


def mark_dynamic(tensor, dim, min=None, max=None):
    pass


mark_static = maybe_mark_dynamic = mark_dynamic


class StrictError(RuntimeError):
    pass


class expected:
    def __init__(self, *codes, **settings):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


class Config:
    """Takes every setting, and gives back what was set."""


config = Config()


def main(words=None):
    """`run` runs the program, in this process's place. Every other command has nothing to say but the reason."""
    words = sys.argv[1:] if words is None else words
    program = program_of(words[1:]) if words[:1] == ["run"] else []
    sys.stderr.write((RUNS if program else NEEDS) + "\n")
    sys.stderr.flush()
    if not program:
        return USAGE if words[:1] == ["run"] else 1
    tell_editor(words)
    os.environ[SAID] = "1"
    os.execv(sys.executable, [sys.executable] + program)


def tell_editor(words):
    """As `report/events.py` would: the server then shows the reason, where it finds no report."""
    if "--events-fd" not in words[:-1]:
        return
    reason = {"code": "wrong-python", "severity": "error", "message": MESSAGE[len("dynascope: ") :], "remedy": REMEDY}
    event = json.dumps({"event": "problem", "explanation": dict(reason, span=None, stack=[])}) + "\n"
    try:  # noqa: SIM105 (Python 2.7 has no `suppress`)
        os.write(int(words[words.index("--events-fd") + 1]), event.encode())
    except (OSError, ValueError):
        pass


def program_of(words):
    """What Python is given to run it: the words less those of `dynascope run` itself. Empty where there is no program among them."""
    words, module = list(words), []
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in ("-m", "--module"):
            module = ["-m"]
        elif word in WITH_VALUES:
            del words[:1]
    if words[1:2] == ["--"]:
        del words[1]
    return module + words if words else []
