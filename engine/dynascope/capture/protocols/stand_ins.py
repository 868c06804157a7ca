"""What torch would hand to `__torch_function__`: torch itself is asked, with objects that stand for those of the program.

    torch.add(x, y, alpha=2), x of a class of the program's     ->     Asked(torch.add, (type(x),), (x, y), {"alpha": 2})

Which arguments count, in which order their classes are asked, and which function they are told of (`x + y` is
`torch.Tensor.add`, `x.shape` is `torch.Tensor.shape.__get__`) stands nowhere but in torch's C++. A mode of ours on top of all
others is told first, and ends the call before anything ran.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from dynascope.capture.values import (
    ConstantValue,
    DictValue,
    InstanceValue,
    LazyValue,
    ListValue,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
)
from dynascope.dataclass import dataclass

DISABLED = torch._C._disabled_torch_function_impl


@dataclass(frozen=True, slots=True)
class Asked:
    """The arguments of `__torch_function__`; `keywords` is None where torch gives none."""

    function: Any
    classes: tuple[type, ...]
    arguments: Value
    keywords: Value | None


class _Told(BaseException):
    """What torch told the mode. No program catches it."""

    def __init__(self, *told: Any) -> None:
        self.told = told


class _Asking(TorchFunctionMode):
    def __torch_function__(self, *told: Any) -> Any:
        raise _Told(*told)


def overrides(cls: type) -> bool:
    """Whether torch asks objects of the class before it does something with them."""
    if cls is torch.Tensor or cls is torch.nn.Parameter:
        return False
    entries = (base.__dict__["__torch_function__"] for base in cls.__mro__ if "__torch_function__" in base.__dict__)
    return next(entries, DISABLED) is not DISABLED


def asked(
    state: Any, function: Callable[..., Any], arguments: list[Value], keywords: dict[str, Value]
) -> Asked | None:
    """None where torch asks nobody. `state` says whether subclasses are asked at all."""
    made = StandIns()
    given = [made.of(value) for value in arguments]
    named = {name: made.of(value) for name, value in keywords.items()}
    before = torch._C._get_torch_function_state()
    torch._C._set_torch_function_state(state)
    try:
        with _Asking():
            # An empty dictionary would be told as one, where the program's call is told without.
            function(*given, **named) if named else function(*given)
    except _Told as signal:
        told, classes, *rest = signal.told
        return Asked(
            told,
            tuple(made.originals.get(each, each) for each in classes),
            made.values(rest[0] if rest else (), arguments),
            made.value(rest[1]) if len(rest) > 1 and rest[1] is not None else None,
        )
    finally:
        torch._C._set_torch_function_state(before)
    return None


class StandIns:
    """Objects that look to torch as those of the program, and what each stands for."""

    def __init__(self) -> None:
        self.classes: dict[type, type] = {}
        self.originals: dict[type, type] = {}
        self.known: dict[int, tuple[Any, Value]] = {}

    def of(self, value: Value) -> Any:
        if isinstance(value, LazyValue):
            value = value.realize()
        if isinstance(value, ConstantValue):
            return value.value
        made = self._made(value)
        if not isinstance(value, SymbolicNumber):
            self.known[id(made)] = (made, value)
        return made

    def _made(self, value: Value) -> Any:
        if isinstance(value, SymbolicNumber):
            return value.example
        if isinstance(value, TensorValue):
            return _empty_like(value.example)
        if isinstance(value, InstanceValue) and value.tensor is not None:
            return torch.Tensor._make_subclass(self.class_of(value.cls), _empty_like(value.tensor.example))
        if isinstance(value, InstanceValue) and overrides(value.cls):
            return object.__new__(self.class_of(value.cls))
        if isinstance(value, ListValue):
            return [self.of(item) for item in value.items]
        if isinstance(value, TupleValue):
            items = tuple(self.of(item) for item in value.items)
            return torch.Size(items) if value.cls is torch.Size else items
        if isinstance(value, DictValue) and value.cls is dict:
            return {key: self.of(item) for key, (_, item) in value.items.items()}
        if isinstance(value, SliceValue):
            return slice(*(self.of(part) for part in value.parts))
        return object()

    def class_of(self, cls: type) -> type:
        """A class that torch asks as it asks `cls`, and among others in the same place."""
        if not issubclass(cls, torch.Tensor) and not hasattr(cls, "__torch_function__"):
            return object
        if cls in (torch.Tensor, torch._C.TensorBase, torch.nn.Parameter):
            return cls
        if cls not in self.classes:
            bases = tuple(dict.fromkeys(map(self.class_of, cls.__bases__)))
            bases = tuple(base for base in bases if base is not object) or (object,)
            is_off = getattr(cls, "__torch_function__", DISABLED) is DISABLED
            method = DISABLED if is_off else torch.Tensor.__dict__["__torch_function__"]
            made = types.new_class(cls.__name__, bases, exec_body=lambda body: body.update(__torch_function__=method))
            self.classes[cls], self.originals[made] = made, cls
        return self.classes[cls]

    def values(self, told: tuple, given: list[Value]) -> Value:
        """The arguments as torch told them. A number that varies is the one given in the same place."""
        items = [self.value(each) for each in told]
        for at, value in enumerate(given[: len(items)]):
            if isinstance(value, LazyValue):
                value = value.realize()
            if isinstance(value, SymbolicNumber) and told[at] is value.example:
                items[at] = value
        return TupleValue(tuple(items))

    def value(self, told: Any) -> Value:
        found = self.known.get(id(told))
        if found is not None:
            return found[1]
        kind = type(told)
        if kind is tuple or kind is torch.Size:
            return TupleValue(tuple(map(self.value, told)), kind)
        if kind is list:
            return ListValue(list(map(self.value, told)))
        if kind is dict:
            return DictValue({key: (ConstantValue(key), self.value(item)) for key, item in told.items()})
        if kind is slice:
            return SliceValue((self.value(told.start), self.value(told.stop), self.value(told.step)))
        return ConstantValue(told)


def _empty_like(example: torch.Tensor) -> torch.Tensor:
    """With nothing in common with what stands for the program's tensor: a call that asks nobody may run."""
    made = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype, device="meta")
    return made.requires_grad_() if example.requires_grad and made.is_floating_point() else made
