"""What a function may change besides its arguments: what its names lead to, outside of it.

    calls = []; def f(x): calls.append(1); ...
    outside = Surroundings.of(f)
    before = outside.contents()     [[]]       outside.contents() == [[1]] after a call
    outside.restore(before)                    each run finds what the first one found
"""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

CONTAINERS = (list, dict, set)
PLAIN = (int, float, bool, str, bytes, type(None))


@dataclass(frozen=True)
class Surroundings:
    """Names of modules, by the dictionary that has them, and cells of closures."""

    names: tuple[tuple[dict[str, Any], str], ...] = ()
    cells: tuple[types.CellType, ...] = ()

    @classmethod
    def of(cls, function: Callable) -> Surroundings:
        target = function.forward if isinstance(function, nn.Module) else function
        names, cells = {}, {}
        for each in _followed(getattr(target, "__func__", target)):
            for name in _names(each.__code__):
                if _may_change(each.__globals__.get(name)) and name in each.__globals__:
                    names[id(each.__globals__), name] = (each.__globals__, name)
            for cell in each.__closure__ or ():
                if _may_change(_held(cell)):
                    cells[id(cell)] = cell
        return cls(tuple(names.values()), tuple(cells.values()))

    def _objects(self) -> list[Any]:
        return [names.get(name) for names, name in self.names] + [_held(cell) for cell in self.cells]

    def contents(self) -> list[tuple[Any, Any]]:
        """Each object as it is, with a copy of what it holds."""
        return [(each, _copied(each)) for each in self._objects()]

    def restore(self, before: list[tuple[Any, Any]]) -> None:
        """Of nested containers the outermost alone."""
        for (names, name), (each, held) in zip(self.names, before, strict=False):
            names[name] = _refilled(each, held)
        for cell, (each, held) in zip(self.cells, before[len(self.names) :], strict=True):
            cell.cell_contents = _refilled(each, held)


def is_changed(before: list[tuple[Any, Any]], after: list[tuple[Any, Any]]) -> bool:
    return any(not _equal(old, new) for (_, old), (_, new) in zip(before, after, strict=True))


def _followed(function: Any) -> Iterator[types.FunctionType]:
    """The function and those of its own module that it names."""
    pending, seen = [function], set()
    while pending:
        each = pending.pop()
        if isinstance(each, types.FunctionType) and each not in seen:
            seen.add(each)
            yield each
            own = (each.__globals__.get(name) for name in _names(each.__code__))
            pending += [other for other in own if getattr(other, "__globals__", None) is each.__globals__]


def _names(code: types.CodeType) -> set[str]:
    inner = [_names(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return set(code.co_names).union(*inner)


def _held(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _may_change(thing: Any) -> bool:
    return type(thing) in CONTAINERS or type(thing) in PLAIN or type(thing) is torch.Tensor


def _copied(thing: Any) -> Any:
    if isinstance(thing, torch.Tensor):
        return thing.detach().clone()
    try:
        return copy.deepcopy(thing)
    except Exception:
        return copy.copy(thing)


def _refilled(thing: Any, held: Any) -> Any:
    if isinstance(thing, list):
        thing[:] = held
    elif isinstance(thing, (dict, set)):
        thing.clear()
        thing.update(held)
    elif isinstance(thing, torch.Tensor):
        with torch.no_grad():
            thing.data.copy_(held)
    return thing


def _equal(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        if type(a) is not torch.Tensor:
            return True
        if a.device != b.device or a.dtype != b.dtype or a.shape != b.shape:
            return False
        return bool(((a == b) | ((a != a) & (b != b))).all())
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    return a == b if isinstance(a, (*PLAIN, set)) else True
