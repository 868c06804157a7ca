"""What stands for the engine in a Python that is too old for it: the program runs as it was written. For Python 3.7 and later.

compile(function) is function, and says once why
"""

import runpy
import sys
import warnings

REASON = (
    f"dynascope: {sys.executable} is Python {sys.version.split()[0]}; Dynascope compiles from CPython 3.11 on: the "
    "program runs as it was written. Choose an interpreter of CPython 3.11 or later that has torch."
)
_said = []


def compile(target=None, **settings):
    if not _said:
        _said.append(True)
        warnings.warn(REASON, stacklevel=2)
    return (lambda function: function) if target is None else target


def disable(target=None, recursive=True):
    return (lambda function: function) if target is None else target


def reset():
    pass


def main():
    """`dynascope run FILE ARGS` runs the file; every other command has nothing to say but the reason."""
    sys.stderr.write(REASON + "\n")
    _said.append(True)
    words = sys.argv[1:]
    if not words or words[0] != "run":
        return 1
    file = next((word for word in words[1:] if word.endswith(".py")), None)
    if file is None:
        return 2
    sys.argv[:] = words[words.index(file) :]
    runpy.run_path(file, run_name="__main__")
    return 0


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(REASON)
