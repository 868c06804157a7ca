"""Test files of another torch than the one that runs: names that this one does not have are made up.

    execute(loader, module)      what such a name is for is skipped or fails, compiled or not
"""

from __future__ import annotations

import re
import sys
import types
from typing import Any


class Missing:
    """Called, asked for an attribute, or derived from, it is another of its kind; what it decorates stays as it is."""

    def __init__(self, *arguments: Any, **options: Any) -> None: ...

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if len(arguments) == 1 and not options and isinstance(arguments[0], types.FunctionType | type):
            return arguments[0]
        return Missing()

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing()

    def __mro_entries__(self, bases: tuple) -> tuple:
        return ()

    def __bool__(self) -> bool:
        return False


def execute(loader: Any, module: types.ModuleType) -> None:
    """Raises ImportError for what is not torch's."""
    while True:
        try:
            loader.exec_module(module)
        except ImportError as error:
            if not make_up(str(error)):
                raise
        else:
            return


def make_up(message: str) -> bool:
    """Whether what was missing is there from now on."""
    name = re.match(r"cannot import name '(\w+)' from '(torch[\w.]*)'", message)
    whole = re.match(r"No module named '(torch[\w.]*)'", message)
    if name is not None:
        setattr(sys.modules[name[2]], name[1], Missing())
    elif whole is not None:
        made = sys.modules[whole[1]] = types.ModuleType(whole[1])
        made.__path__ = []
        made.__getattr__ = lambda attribute: getattr(Missing(), attribute)  # type: ignore[method-assign]
    return bool(name or whole)
