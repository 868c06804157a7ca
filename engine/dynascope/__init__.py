"""Dynascope: a compiler for PyTorch programs that can say what it did.

    import dynascope

    @dynascope.compile
    def f(x, y): ...

    print(dynascope.explain(f, x, y))

The names resolve on first use, so that `import dynascope` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "compile": "dynascope.api",
    "explain": "dynascope.api",
    "disable": "dynascope.api",
    "reset": "dynascope.api",
    "list_backends": "dynascope.backends",
    "register_backend": "dynascope.backends",
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
    "compile",
    "config",
    "disable",
    "expected",
    "explain",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "maybe_mark_dynamic",
    "register_backend",
    "reset",
]

if TYPE_CHECKING:
    from dynascope.api import compile, disable, explain, reset
    from dynascope.backends import list_backends, register_backend
    from dynascope.capture.marks import mark_dynamic, mark_static, maybe_mark_dynamic
    from dynascope.configuration import config
    from dynascope.strictness import StrictError, expected


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'dynascope' has no attribute {name!r}")
    import importlib
    import sys

    if sys.version_info < (3, 11):  # noqa: UP036 (run from a checkout, where nobody asks pip)
        value = getattr(importlib.import_module("dynascope.unserved_python"), name)
        globals()[name] = value
        return value
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
