"""A module that programs import on the way and seldom need is loaded when something of it is asked for that is not known before.

    defer("torch._dynamo", known={"graph_break": ..., "disable": ...})

The optimizers of torch import torch's compiler when they are made and at each step, for a mark and an empty function: with all that it
imports, that is a second and more of every training program's start. Until then a module stands in its place (PEP 562) that knows
these names; whatever else is asked of it, and whatever is imported below it, loads the real one.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def defer(name: str, known: Mapping[str, Any]) -> None:
    """`known` are attributes that the stand-in has. Does nothing where the module is loaded already."""
    if name not in sys.modules:
        sys.meta_path.insert(0, _Deferring(name, known))


class _Deferring(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, name: str, known: Mapping[str, Any]) -> None:
        self._name, self._known, self._searching = name, known, False

    def find_spec(self, fullname, path=None, target=None):
        if self._searching:
            return None
        if fullname == self._name:
            return self._stand_in()
        if fullname.startswith(self._name + ".") and self._name in sys.modules:
            self._load()
            return _AsItIs.spec(fullname)
        return None

    def _stand_in(self) -> importlib.machinery.ModuleSpec | None:
        self._searching = True
        try:
            real = importlib.util.find_spec(self._name)
        finally:
            self._searching = False
        if real is None:
            return None
        spec = importlib.machinery.ModuleSpec(self._name, self, origin=real.origin)
        spec.submodule_search_locations = real.submodule_search_locations
        return spec

    def exec_module(self, module: ModuleType) -> None:
        def __getattr__(name: str) -> Any:
            if name.startswith("__") and name != "__all__":  # what Python asks any module for
                raise AttributeError(f"module {self._name!r} has no attribute {name!r}")
            return getattr(self._load(), name)

        vars(module).update(self._known, __getattr__=__getattr__, __file__=module.__spec__ and module.__spec__.origin)

    def _load(self) -> ModuleType:
        """Python's own import, with its locks: whoever comes second waits for the first, or gets what is there."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            del sys.modules[self._name]
        return importlib.import_module(self._name)


class _AsItIs(importlib.abc.Loader):
    """Of a module that was loaded between the moment when Python looked for it and the one when it is to be made.

    Python would load it a second time, by the module's own specification: while it reads ours the module has none. A module of settings
    refuses to be given what it does not know, so that this is written where it keeps its attributes.
    """

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__
        vars(module)["__spec__"] = None

    @classmethod
    def spec(cls, name: str) -> importlib.machinery.ModuleSpec | None:
        module = sys.modules.get(name)
        return None if module is None else importlib.machinery.ModuleSpec(name, cls(module))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__spec__"] = self._spec
