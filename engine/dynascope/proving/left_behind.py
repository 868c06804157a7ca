"""What a run leaves behind in the program's own names, containers and objects, as plain values and tensors that can be saved.

history, total = [0.5], 3          left_behind(...)  ->  {"history": ("list", [("float", 0.5)]), "total": ("int", 3)}
differing(before, after)           ->  ["history"], where another run left another list there
"""

from __future__ import annotations

import collections
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch

from dynascope.report.user_files import is_user_file

PLAIN_TYPES = frozenset((bool, int, float, complex, str, bytes, type(None)))
SEQUENCES = (list, tuple, collections.deque)
MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODULE_STATE = frozenset(vars(torch.nn.Module())) - {"training"}
"""What torch keeps of a module. Parameters are left to their gradients: an optimizer makes more of a difference in rounding."""
DEPTH = 8
VALUES_KEPT = 50_000
BYTES_KEPT = 64 * 1024 * 1024

Told = tuple[str, Any]


def left_behind(modules: Iterable[torch.nn.Module], objects: Iterable[object], functions: Iterable[Any]) -> dict[str, Told]:
    """`modules`, `objects`: what compiled functions were, or were called with. `functions`: what their closures hold is looked at."""
    teller = _Teller()
    found: dict[str, Told] = {}
    for prefix, names in _spaces(modules, objects, functions):
        for name, value in list(names.items()):
            told = None if name.startswith("__") else teller.told(value)
            if told is not None:
                found[prefix + name] = told
    return found


def differing(before: Mapping[str, Told], after: Mapping[str, Told], difference: Callable[[Any, Any], float | str]) -> list[str]:
    """Names of both runs whose values are not the same; `difference` compares two tensors or plain values."""
    both = before.keys() & after.keys()
    return [name for name in sorted(both) if _name_differs(before[name], after[name], difference)]


def _spaces(
    modules: Iterable[torch.nn.Module], objects: Iterable[object], functions: Iterable[Any]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    main = sys.modules["__main__"]
    yield "", vars(main)
    for name, module in sorted(sys.modules.items()):
        if module is not main and _is_own_module(module):
            yield f"{name}.", vars(module)
    for number, each in enumerate(modules):
        own = {name: value for name, value in vars(each).items() if name not in MODULE_STATE}
        # An attribute that an edit makes a buffer has the name that it had.
        yield f"{type(each).__name__} {number}.", {**own, **each._buffers}
    for number, each in enumerate(objects):
        yield f"{type(each).__name__} object {number}.", vars(each)
    for function in functions:
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        yield f"{function.__qualname__}:", {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def is_own_object(value: object) -> bool:
    """An instance of a class of the program's own, whose attributes are the program's."""
    if isinstance(value, type | types.ModuleType | torch.nn.Module | torch.Tensor):
        return False
    has_attributes = isinstance(getattr(value, "__dict__", None), dict)
    return has_attributes and _is_own_module(sys.modules.get(type(value).__module__))


def _is_own_module(module: types.ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and file.endswith(".py") and os.path.isfile(file) and is_user_file(file) and not file.startswith(OWN)


class _Teller:
    """What is told of a value: what it is as plain values, or None where nothing can be compared of it."""

    def __init__(self) -> None:
        self._bytes = 0
        self._values = 0
        self._above: set[int] = set()

    def told(self, value: Any, depth: int = 0) -> Told | None:
        self._values += 1
        if self._values > VALUES_KEPT or depth > DEPTH or id(value) in self._above:
            return None
        kind = type(value)
        if kind in PLAIN_TYPES:
            return kind.__name__, value
        if kind in (torch.Tensor, torch.nn.Parameter):
            return self._tensor(kind.__name__, value)
        if kind.__module__ == "numpy":
            return self._array(value)
        self._above.add(id(value))
        try:
            return self._inside(value, kind, depth + 1)
        finally:
            self._above.discard(id(value))

    def _inside(self, value: Any, kind: type, depth: int) -> Told | None:
        if kind in SEQUENCES:
            return kind.__name__, [self.told(each, depth) for each in value]
        if kind in MAPPINGS:
            return kind.__name__, [(self.told(key, depth), self.told(each, depth)) for key, each in value.items()]
        if is_own_object(value):
            return f"object {kind.__qualname__}", {name: self.told(each, depth) for name, each in vars(value).items()}
        return None

    def _tensor(self, kind: str, value: torch.Tensor) -> Told | None:
        self._bytes += value.numel() * value.element_size()
        if self._bytes > BYTES_KEPT or value.layout != torch.strided or value.is_meta:
            return None
        return kind, value.detach().cpu().clone()

    def _array(self, value: Any) -> Told | None:
        try:
            tensor = torch.from_numpy(sys.modules["numpy"].array(value))
        except (KeyError, TypeError, ValueError):
            return None
        told = self._tensor("", tensor)
        return None if told is None else (f"{type(value).__name__} {value.dtype}", told[1])


def _name_differs(a: Any, b: Any, difference: Callable[[Any, Any], float | str]) -> bool:
    """A number under a name of its own may become a tensor: that is what keeps it in the graph. Not among the items of a container."""
    tensors = [isinstance(each, tuple) and isinstance(each[1], torch.Tensor) for each in (a, b)]
    if a is not None and b is not None and tensors == [False, True] and isinstance(a[1], (bool, int, float)):
        return b[1].numel() != 1 or isinstance(difference(torch.tensor(float(a[1])), b[1].float().reshape(())), str)
    return _differs(a, b, difference)


def _differs(a: Any, b: Any, difference: Callable[[Any, Any], float | str]) -> bool:
    if a is None or b is None:
        # What could not be told of one of them says nothing.
        return False
    (kind, was), (other, now) = a, b
    if kind != other:
        return True
    if isinstance(was, torch.Tensor):
        return isinstance(difference(was, now), str)
    if isinstance(was, dict):
        # An object may have been given another attribute by the edit.
        return any(_name_differs(was[name], now[name], difference) for name in was.keys() & now.keys())
    if isinstance(was, list):
        return len(was) != len(now) or any(_pair_differs(*pair, difference) for pair in zip(was, now, strict=True))
    if isinstance(was, float):
        # Numbers that were taken out of tensors, which may differ in rounding as results may.
        return isinstance(difference(torch.tensor(was), torch.tensor(now)), str)
    return repr(was) != repr(now)


def _pair_differs(a: Any, b: Any, difference: Callable[[Any, Any], float | str]) -> bool:
    """An item, or a key with its value."""
    if isinstance(a, tuple) and isinstance(b, tuple) and not isinstance(a[0], str) and not isinstance(b[0], str):
        return any(_differs(x, y, difference) for x, y in zip(a, b, strict=True))
    return _differs(a, b, difference)
