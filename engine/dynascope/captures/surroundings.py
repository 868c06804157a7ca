"""What a function may change besides its arguments: what its names lead to, outside of it, and the states of random numbers.

    calls = []; def f(x): calls.append(1); ...
    outside = Surroundings.of(f)
    before = outside.contents()     [[]]       outside.contents() == [[1]] after a call
    outside.restore(before)                    each run finds what the first one found
"""

from __future__ import annotations

import copy
import random
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

import torch
from torch import nn

from dynascope.dataclass import dataclass

TRAINED = (nn.Module, torch.optim.Optimizer)
CONTAINERS = (list, dict, set)
PLAIN = (int, float, bool, str, bytes, type(None))


@dataclass(frozen=True)
class Trained:
    """What a call or a training step changes: of a module the values and gradients of its tensors and what its attributes hold, of
    an optimizer its state."""

    tensors: dict[str, tuple[torch.Tensor, torch.Tensor | None]] = field(default_factory=dict)
    attributes: dict[str, dict[str, tuple[Any, Any]]] = field(default_factory=dict)
    """Of each module inside: by name the object and, where it is data, a copy of what it holds."""
    state: Any = None

    @classmethod
    def of(cls, thing: Any) -> Trained:
        if isinstance(thing, nn.Module):
            tensors = {name: (_copied(each), None if each.grad is None else _copied(each.grad)) for name, each in _tensors(thing).items()}
            return cls(tensors, {path: _attributes(each) for path, each in thing.named_modules()})
        return cls(state=copy.deepcopy(thing.state_dict()))

    def put_back(self, thing: Any) -> None:
        if self.state is not None:
            thing.load_state_dict(copy.deepcopy(self.state))
            return
        for path, module in thing.named_modules():
            held = self.attributes.get(path, {})
            for name in _attributes(module).keys() - held:
                del vars(module)[name]
            for name, (each, contents) in held.items():
                vars(module)[name] = _refilled(each, contents) if _is_data(each) else each
        for name, each in _tensors(thing).items():
            value, gradient = self.tensors[name]
            each.data.copy_(value)
            each.grad = None if gradient is None else _copied(gradient)

    def flat(self) -> dict[str, Any]:
        held = {f"{path}.{name}".lstrip("."): data for path, each in self.attributes.items() for name, (_, data) in each.items()}
        return held | self.tensors | ({} if self.state is None else {"": self.state})


OF_TORCH = vars(nn.Module()).keys() - {"training"}


def _attributes(module: nn.Module) -> dict[str, tuple[Any, Any]]:
    given = ((name, each) for name, each in vars(module).items() if name not in OF_TORCH)
    return {name: (each, _copied(each) if _is_data(each) else None) for name, each in given}


def _is_data(thing: Any) -> bool:
    """Of containers that hold anything else a copy would be other objects."""
    if type(thing) in CONTAINERS:
        return all(_is_data(each) for each in (*thing, *(thing.values() if type(thing) is dict else ())))
    return type(thing) in (*PLAIN, torch.Tensor)


def _tensors(module: nn.Module) -> dict[str, torch.Tensor]:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


@dataclass(frozen=True)
class Surroundings:
    """Names of modules, by the dictionary that has them, and cells of closures."""

    names: tuple[tuple[dict[str, Any], str], ...] = ()
    cells: tuple[tuple[types.CellType, str], ...] = ()
    own: str = ""
    """The function's module: instances of its classes are looked into."""
    called: nn.Module | None = None
    """Whose forward it is."""

    @classmethod
    def of(cls, function: Callable) -> Surroundings:
        target = function.forward if isinstance(function, nn.Module) else function
        names, cells = {}, {}
        target = getattr(target, "__func__", target)
        own = getattr(target, "__globals__", {}).get("__name__", "")
        for each in _followed(target):
            for name in _names(each.__code__):
                if _may_change(each.__globals__.get(name), own) and name in each.__globals__:
                    names[id(each.__globals__), name] = (each.__globals__, name)
            for cell, name in zip(each.__closure__ or (), each.__code__.co_freevars, strict=True):
                if _may_change(_held(cell), own):
                    cells[id(cell)] = cell, name
        return cls(tuple(names.values()), tuple(cells.values()), own, function if isinstance(function, nn.Module) else None)

    def _objects(self) -> list[Any]:
        called = [] if self.called is None else [self.called]
        return [names.get(name) for names, name in self.names] + [_held(cell) for cell, _ in self.cells] + called

    def contents(self) -> list[tuple[Any, Any]]:
        """Each object as it is, with a copy of what it holds."""
        return [(each, _copied(vars(each) if _is_of(each, self.own) else each)) for each in self._objects()]

    def changed(self, before: list[tuple[Any, Any]], after: list[tuple[Any, Any]]) -> frozenset[str]:
        """The names of what is not as it was."""
        names = [*(name for _, name in self.names), *(name for _, name in self.cells), "self"]
        found = set()
        for name, (_, old), (_, new) in zip(names, before, after, strict=False):
            was, is_now = _parts(name, old), _parts(name, new)
            found |= {each for each in was | is_now if each not in was or each not in is_now or not _equal(was[each], is_now[each])}
        return frozenset(found)

    def restore(self, before: list[tuple[Any, Any]]) -> None:
        """Of nested containers the outermost alone."""
        for (names, name), (each, held) in zip(self.names, before, strict=False):
            names[name] = _refilled(each, held)
        for (cell, _), (each, held) in zip(self.cells, before[len(self.names) :], strict=False):
            cell.cell_contents = _refilled(each, held)
        if self.called is not None:
            _refilled(*before[-1])


def _parts(name: str, held: Any) -> dict[str, Any]:
    if isinstance(held, Trained):
        return {f"{name}.{part}".rstrip("."): each for part, each in held.flat().items()}
    return {name: held}


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


def _may_change(thing: Any, own: str) -> bool:
    kinds = (*CONTAINERS, *PLAIN, torch.Tensor)
    return type(thing) in kinds or isinstance(thing, TRAINED) or _is_of(thing, own)


def _is_of(thing: Any, own: str) -> bool:
    """An instance of a class of that module. Of torch's own kinds the attributes are not replaced by others."""
    if not own or type(thing).__module__ != own or isinstance(thing, (type, *TRAINED)):
        return False
    return type(getattr(thing, "__dict__", None)) is dict


def _copied(thing: Any) -> Any:
    if isinstance(thing, TRAINED):
        return Trained.of(thing)
    if isinstance(thing, torch.Tensor):
        held = thing.detach()
        return (held.cpu() if held.device.type == "lazy" else held).clone()  # a lazy clone reads what is written later
    try:
        return copy.deepcopy(thing)
    except Exception:
        return copy.copy(thing)


def _refilled(thing: Any, held: Any) -> Any:
    """With a copy: what it holds is changed by the next run."""
    if isinstance(held, Trained):
        held.put_back(thing)
    elif isinstance(thing, list):
        thing[:] = _copied(held)
    elif isinstance(thing, (dict, set)):
        thing.clear()
        thing.update(_copied(held))
    elif isinstance(thing, torch.Tensor):
        with torch.no_grad():
            thing.data.copy_(held)
    elif type(held) is dict:
        vars(thing).clear()
        vars(thing).update(_copied(held))
    return thing


@contextmanager
def same_numbers(seed: int = 0) -> Iterator[None]:
    """Random numbers of torch, Python and NumPy begin alike, and go on after as if none had been drawn."""
    numpy = sys.modules.get("numpy")
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None
    torch.manual_seed(seed)
    random.seed(seed)
    if numpy:
        numpy.random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        random.setstate(before[1])
        if numpy:
            numpy.random.set_state(before[2])


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
