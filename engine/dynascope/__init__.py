"""Dynascope: a compiler for PyTorch programs that can say what it did.

    import dynascope

    @dynascope.compile
    def f(x, y): ...

    print(dynascope.explain(f, x, y))

The names resolve on first use, so that `import dynascope` costs next to nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

_HOMES = {
    "compile": "dynascope.api",
    "explain": "dynascope.api",
    "disable": "dynascope.api",
    "reset": "dynascope.api",
    "list_backends": "dynascope.backends",
    "register_backend": "dynascope.backends",
    "config": "dynascope.configuration",
}

__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module 'dynascope' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
