"""Dynascope: a compiler for PyTorch programs that can say what it did.

    import dynascope

    @dynascope.compile
    def f(x, y): ...

    print(dynascope.explain(f, x, y))

The names resolve on first use, so that `import dynascope` costs next to nothing.
"""

import sys

# `typing` has it from Python 3.5 on, and this file is read by older ones too.
TYPE_CHECKING = False

__version__ = "0.1.0"

_HOMES = {
    "aot": "dynascope.api",
    "compile": "dynascope.api",
    "explain": "dynascope.api",
    "disable": "dynascope.api",
    "reset": "dynascope.api",
    "optimize": "dynascope.api",
    "skip": "dynascope.api",
    "list_backends": "dynascope.backends",
    "load_ipython_extension": "dynascope.notebook",
    "register_backend": "dynascope.backends",
    "compare_captures": "dynascope.captures",
    "config": "dynascope.configuration",
    "expected": "dynascope.strictness",
    "mark_dynamic": "dynascope.capture.marks",
    "mark_static": "dynascope.capture.marks",
    "maybe_mark_dynamic": "dynascope.capture.marks",
    "StrictError": "dynascope.strictness",
}

__all__ = [
    "StrictError",
    "__version__",
    "aot",
    "compare_captures",
    "compile",
    "config",
    "disable",
    "expected",
    "explain",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "optimize",
    "register_backend",
    "reset",
    "skip",
]

if TYPE_CHECKING:
    from dynascope.api import aot, compile, disable, explain, optimize, reset, skip
    from dynascope.backends import list_backends, register_backend
    from dynascope.capture.marks import mark_dynamic, mark_static, maybe_mark_dynamic
    from dynascope.captures import compare_captures
    from dynascope.configuration import config
    from dynascope.strictness import StrictError, expected


if sys.version_info < (3, 11):  # noqa: UP036 (run from a checkout or by an editor, where nobody asks pip)
    from dynascope.unserved_python import *  # noqa: F403


def __getattr__(name):
    if name not in _HOMES:
        raise AttributeError("module 'dynascope' has no attribute %r" % name)  # noqa: UP031
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)
