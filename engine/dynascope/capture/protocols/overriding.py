"""`__torch_function__`: modes and classes of the program that say what torch's functions do.

    x + y      type(x).__torch_function__(torch.Tensor.add, (type(x),), (x, y))      read like any method of the program's

An object of a subclass of Tensor is an object that holds a plain tensor (`InstanceValue.tensor`). Its own methods come first;
what it inherits from Tensor in C goes to `__torch_function__`, as in torch. Where nobody is asked, or the asking is switched off
(inside `super().__torch_function__`), torch's functions work on the tensor that it holds.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from dynascope.capture.protocols.classes import lookup, member
from dynascope.capture.protocols.stand_ins import Asked, asked, overrides
from dynascope.capture.reasons import ForeignValue, ProgramRaises, TensorAttribute, TensorSubclass
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NOT_IMPLEMENTED,
    ConstantValue,
    DictValue,
    InstanceValue,
    LazyValue,
    ListValue,
    MethodValue,
    SliceValue,
    TensorValue,
    TupleValue,
    Value,
    items_once,
)
from dynascope.dataclass import dataclass
from dynascope.guards.source import ConstantSource, ModeSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

State = torch._C._TorchFunctionState


@dataclass(slots=True, eq=False)
class Overriding:
    """Who is asked now. `met` says that the capture has met something that overrides torch's functions."""

    state: Any
    modes: tuple[Value, ...] = ()
    met: bool = False

    def meet(self, cls: type) -> None:
        self.met = self.met or is_special(cls)

    def meets(self, arguments: Iterable[Value], keywords: dict[str, Value]) -> bool:
        """Whether anybody may be asked about a call with these arguments. What nothing has looked at yet is not looked at."""
        if not self.matters:
            self.met = any(map(_is_new, arguments)) or any(map(_is_new, keywords.values()))
        return self.matters

    @property
    def asks_modes(self) -> bool:
        return bool(self.modes) and self.state != State.ALL_DISABLED

    @property
    def matters(self) -> bool:
        return self.met or bool(self.modes)


PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.parameter.Buffer)


def is_special(cls: type) -> bool:
    """Whether torch asks objects of the class, or they are tensors of a class of their own."""
    return overrides(cls) or (issubclass(cls, torch.Tensor) and cls not in PLAIN_TENSORS)


def _is_new(value: Value) -> bool:
    """Whether it is, or holds, an object from outside that torch asks, and that nothing has looked at yet."""
    if isinstance(value, LazyValue):
        return is_special(type(value.object))
    if isinstance(value, ListValue) and value.is_unread:
        return any(is_special(type(item)) for item in value.object) or any(map(_is_new, value.added))
    return isinstance(value, (ListValue, TupleValue)) and any(map(_is_new, items_once(value)))


def modes_at_entry(machine: Machine) -> tuple[Value, ...]:
    """The program's modes that are on when the region starts. The default device is one that capture knows by itself."""
    stack = enumerate(_get_current_function_mode_stack())
    return tuple(
        machine.outside.realize(mode, ModeSource(at)) for at, mode in stack if not isinstance(mode, DeviceContext)
    )


def answer(machine: Machine, function: Any, arguments: list[Value], keywords: dict[str, Value]) -> Value | None:
    """What a call of torch's gives that a mode or class of the program's overrides; None where torch does it itself."""
    state = machine.overriding
    if state.state == State.ALL_DISABLED:
        return None
    if not state.asks_modes and not (state.state == State.ENABLED and any(overriding([*arguments, *keywords.values()]))):
        return None
    if state.asks_modes and not is_overridable(function):
        return None
    try:
        found = asked(state.state, function, arguments, keywords)
    except Exception as error:
        raise Break(ProgramRaises(type(error).__name__, machine.expression())) from None
    if found is None:
        return None
    if isinstance(function, types.FunctionType) and found.function is not function:
        return machine.finish(read(machine, function, arguments, keywords))
    return told(machine, found, [*arguments, *keywords.values()])


def read(machine: Machine, function: types.FunctionType, arguments: list[Value], keywords: dict[str, Value]) -> Any:
    """A function in Python that lets nobody override it, but is made of calls that do."""
    from dynascope.capture.calls import python

    place = ConstantSource(f"{function.__name__}@{id(function)}", function)
    return python.enter(machine, machine.outside.function(function, place), arguments, keywords)


def attribute(machine: Machine, value: InstanceValue | TensorValue, name: str) -> Any:
    """An attribute that Tensor has in C."""
    accessor = getattr(torch.Tensor, name).__get__
    found = answer(machine, accessor, [value], {})
    return attribute_in_c(machine, plain(value), name) if found is None else found


def attribute_in_c(machine: Machine, tensor: TensorValue, name: str) -> Any:
    """What torch itself says. An object of a subclass is a leaf, has a gradient and a history that the tensor it holds has not."""
    from dynascope.capture.calls.tensor_attributes import attribute as of_tensor
    from dynascope.capture.calls.tensor_names import METADATA_ATTRIBUTES, VIEW_ATTRIBUTES

    shared = (METADATA_ATTRIBUTES | VIEW_ATTRIBUTES.keys() | SHARED) - {"is_leaf"}
    if tensor.instance is not None and name not in shared:
        raise Break(TensorAttribute(name))
    return of_tensor(machine, tensor, name)


SHARED = frozenset({"device", "is_cuda", "is_cpu", "is_mps", "is_meta", "is_xpu", "real", "imag"})


def is_about_no_tensor(function: Any) -> bool:
    """What modes alone are asked about, which torch does not list among what may be overridden."""
    return function is torch._C._set_grad_enabled


def is_overridable(function: Any) -> bool:
    """Whether torch asks before it runs the function: where only modes are asked, one that it does not ask for would run."""
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)) or is_about_no_tensor(function):
        return True
    try:
        return function in torch.overrides._get_overridable_functions()[1]
    except TypeError:
        return False


def told(machine: Machine, found: Asked, given: list[Value]) -> Value | None:
    """The answer of the innermost mode, or of the first class that has one. None where nobody was to be asked."""
    state = machine.overriding
    classes = [class_value(machine, cls, given) for cls in found.classes]
    function = found.function
    if isinstance(function, Value):
        pass
    elif isinstance(function, types.FunctionType):
        function = machine.outside.fixed(function, function.__name__)
    else:
        function = ConstantValue(function)
    handed = [function, TupleValue(tuple(classes)), found.arguments]
    handed += [] if found.keywords is None else [found.keywords]
    if state.asks_modes:
        result = told_mode(machine, handed)
        if result is not NOT_IMPLEMENTED:
            return result
    elif not classes:
        return None
    for cls in found.classes:
        owner = next(value for value in overriding(given) if value.cls is cls)
        result = machine.realize(machine.call_now(method_of(machine, owner), handed))
        if not (isinstance(result, ConstantValue) and result.value is NotImplemented):
            return result
    raise Break(ProgramRaises("TypeError", machine.expression()))


def told_mode(machine: Machine, handed: list[Value]) -> Value:
    """While a mode answers, the ones below it are on."""
    from dynascope.capture.protocols import attributes

    before = machine.overriding.modes
    with set_for_now(machine, "modes", before[:-1]):
        method = attributes.get_now(machine, before[-1], "__torch_function__")
        result = machine.realize(machine.call_now(method, handed))
    return NOT_IMPLEMENTED if isinstance(result, ConstantValue) and result.value is NotImplemented else result


@contextmanager
def set_for_now(machine: Machine, name: str, value: Any) -> Iterator[None]:
    before = getattr(machine.overriding, name)
    machine.journal.set(machine.overriding, name, value)
    try:
        yield
    finally:
        machine.journal.set(machine.overriding, name, before)


def method_of(machine: Machine, owner: InstanceValue) -> Value:
    entry = lookup(owner.cls, "__torch_function__")
    function = member(machine, owner.cls, "__torch_function__", owner)
    if isinstance(entry, classmethod):
        return MethodValue(function, class_value(machine, owner.cls, [owner]))
    if not isinstance(entry, (staticmethod, types.FunctionType)):
        raise Break(ForeignValue(type(entry).__name__, machine.expression()))
    return function if isinstance(entry, staticmethod) else MethodValue(function, owner)


def class_value(machine: Machine, cls: type, given: list[Value]) -> Value:
    from dynascope.capture.protocols.classes import class_source

    owner = next((value for value in overriding(given) if value.cls is cls), None)
    if owner is None or owner.source is None:
        return ConstantValue(cls)
    return machine.outside.realize(cls, class_source(machine, cls, owner))


def overriding(values: Any) -> Iterator[InstanceValue]:
    """The objects among the values that torch asks."""
    for value in values:
        if hasattr(value, "realize"):
            value = value.realize()
        if isinstance(value, InstanceValue):
            if overrides(value.cls):
                yield value
        elif isinstance(value, (ListValue, TupleValue)):
            yield from overriding(value.items)
        elif isinstance(value, DictValue):
            yield from overriding([item for _, item in value.items.values()])
        elif isinstance(value, SliceValue):
            yield from overriding(value.parts)


def plain(value: Value) -> Value:
    """The value with every object of a subclass of Tensor as the tensor that it holds."""
    if hasattr(value, "realize"):
        value = value.realize()
    if isinstance(value, InstanceValue):
        return value if value.tensor is None else value.tensor
    if not holds_tensor_of_class(value):
        return value
    if isinstance(value, ListValue):
        return ListValue([plain(item) for item in value.items])
    if isinstance(value, TupleValue):
        return TupleValue(tuple(plain(item) for item in value.items), value.cls)
    if isinstance(value, SliceValue):
        return SliceValue(tuple(plain(part) for part in value.parts))
    return value


def holds_tensor_of_class(value: Value) -> bool:
    if hasattr(value, "realize"):
        value = value.realize()
    if isinstance(value, InstanceValue):
        return value.tensor is not None
    if isinstance(value, (ListValue, TupleValue)):
        return any(map(holds_tensor_of_class, value.items))
    return isinstance(value, SliceValue) and any(map(holds_tensor_of_class, value.parts))


def of_class(machine: Machine, tensor: TensorValue, cls: type) -> Value:
    """`tensor.as_subclass(cls)`: another object, on the same memory."""
    from dynascope.capture.calls.tensors import apply_function

    held = apply_function(machine, torch.ops.aten.alias.default, [tensor], {})
    if cls is torch.Tensor:
        return held
    if (kind := behaviour(cls)) is not None:
        raise Break(TensorSubclass(kind, machine.expression()))
    return holding(machine, InstanceValue(cls), held)


def check_elements(machine: Machine, *values: Value) -> None:
    """A meta tensor from outside is handed on only (`Outside`): what looks at it is left to Python."""
    for value in values:
        if isinstance(value, InstanceValue) and value.cls in PLAIN_TENSORS:
            raise Break(TensorSubclass("meta tensor", machine.expression()))


def holding(machine: Machine, value: InstanceValue, held: TensorValue) -> InstanceValue:
    value.tensor, held.instance = held, value
    machine.overriding.met = True
    return value


def behaviour(cls: type) -> str | None:
    """The name of a class of tensors that does more than to override functions; None for others."""
    has_dispatch = cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__
    is_lazy = issubclass(cls, torch.nn.parameter.UninitializedTensorMixin)
    return cls.__name__ if has_dispatch or is_lazy or lookup_del(cls) else None


def lookup_del(cls: type) -> bool:
    return any("__del__" in base.__dict__ for base in cls.__mro__)


def with_class(tensor: torch.Tensor, cls: type) -> torch.Tensor:
    with torch._C.DisableTorchFunction():
        return torch.Tensor.as_subclass(tensor, cls)


SWITCHES = (torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction)
"""Contexts in C that turn asking off, and keep for themselves how it was before."""


def switch(cls: Any, *outer: Any) -> Any:
    """Such a context as it is inside its block, which was entered in the state `outer`; without one, as it is before."""
    context = cls()
    if outer:
        now = torch._C._get_torch_function_state()
        torch._C._set_torch_function_state(*outer)
        context.__enter__()
        torch._C._set_torch_function_state(now)
    return context


__all__ = ["Overriding", "State", "answer", "holding", "modes_at_entry", "of_class", "plain", "switch", "with_class"]
