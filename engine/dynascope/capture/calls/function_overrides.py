"""The functions that `__torch_function__` is written with: who is asked, who is asked no more, tensors of a class.

    super().__torch_function__(func, types, args, kwargs)     func on plain tensors; its results become tensors of the class
    with torch._C.DisableTorchFunctionSubclass(): ...         no class is asked
    x.as_subclass(Named), torch.Tensor._make_subclass(Named, x), Named(x)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import _get_overloaded_args, get_default_nowrap_functions

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_method
from dynascope.capture.expressions import callee
from dynascope.capture.protocols import gradient_requirements, overriding
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.protocols.overriding import PLAIN_TENSORS, State
from dynascope.capture.protocols.stand_ins import Asked, StandIns
from dynascope.capture.reasons import ForeignCall, ForeignValue, TensorAttribute
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    FALSE,
    NONE,
    NOT_IMPLEMENTED,
    ConstantValue,
    DictValue,
    InstanceValue,
    ListValue,
    TensorValue,
    TupleValue,
    Value,
    boolean,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


# What classes inherit


@meaning(torch.Tensor.__dict__["__torch_function__"].__func__)
def of_tensor(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Torch's own: the function on plain tensors, its results as tensors of the class."""
    cls, function, types, given, named = handed(machine, arguments, keywords)
    if not all(issubclass(cls, machine.object_of(each)) for each in elements(machine, types)):
        return NOT_IMPLEMENTED
    with overriding.set_for_now(machine, "state", without_classes(machine)):
        result = machine.realize(machine.call_now(function, given, named))
        unwrapped = isinstance(function, ConstantValue) and function.value in get_default_nowrap_functions()
        return result if unwrapped else converted(machine, result, cls)


@meaning(torch._C._disabled_torch_function_impl)
def not_overridden(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    _, function, _, given, named = handed(machine, [NONE, *arguments], keywords)
    with overriding.set_for_now(machine, "state", without_classes(machine)):
        return machine.call_now(function, given, named)


def handed(machine: Machine, arguments: Arguments, keywords: Keywords) -> tuple[Any, Value, Value, list[Value], dict]:
    """`cls, func, types, args=(), kwargs=None`."""
    names = ("cls", "func", "types", "args", "kwargs")
    bound = {**dict(zip(names, arguments, strict=False)), **keywords}
    cls, function, types = (machine.realize(bound[name]) for name in names[:3])
    named = machine.realize(bound.get("kwargs", NONE))
    if not isinstance(named, DictValue) and not (isinstance(named, ConstantValue) and named.value is None):
        raise Break(ForeignValue(named.python_type.__name__, machine.expression()))
    items = named.items.values() if isinstance(named, DictValue) else ()
    given = elements(machine, bound.get("args", TupleValue(())))
    return machine.object_of(cls), function, types, list(given), {machine.object_of(key): item for key, item in items}


def without_classes(machine: Machine) -> Any:
    state = machine.overriding.state
    return state if state == State.ALL_DISABLED else State.SUBCLASSES_DISABLED


def converted(machine: Machine, result: Value, cls: type) -> Value:
    """Tensors in lists and tuples too."""
    if cls is torch.Tensor:
        return result
    if is_tensor(result) and not issubclass(result.python_type, cls):
        return overriding.of_class(machine, overriding.plain(result), cls)
    if isinstance(result, (ListValue, TupleValue)):
        items = [converted(machine, machine.realize(item), cls) for item in result.items]
        return ListValue(items) if isinstance(result, ListValue) else TupleValue(tuple(items), result.cls)
    return result


def is_tensor(value: Value) -> bool:
    return isinstance(value, TensorValue) or (isinstance(value, InstanceValue) and value.tensor is not None)


# Whether anybody is asked


class Switch:
    """What turns asking off: the state before lies on `outer`, as each of these contexts is left once."""

    def __init__(self, cls: type, wanted: Any) -> None:
        self.wanted = wanted
        meaning(cls)(lambda machine, arguments, keywords: InstanceValue(cls))
        meaning(cls.__enter__)(self.enter)
        meaning(cls.__exit__)(self.leave)

    def enter(self, machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        context, state = machine.realize(arguments[0]), machine.overriding.state
        machine.journal.set(context, "arguments", (ConstantValue(state),))
        wanted = State.ALL_DISABLED if State.ALL_DISABLED in (state, self.wanted) else self.wanted
        machine.journal.set(machine.overriding, "state", wanted)
        return NONE

    def leave(self, machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        context = machine.realize(arguments[0])
        if not isinstance(context, InstanceValue) or not context.arguments:
            raise Break(ForeignValue(context.python_type.__name__, machine.expression()))
        machine.journal.set(machine.overriding, "state", context.arguments[0].value)
        return FALSE


for switch, wanted in zip(overriding.SWITCHES, (State.SUBCLASSES_DISABLED, State.ALL_DISABLED), strict=True):
    Switch(switch, wanted)


@meaning(torch._C._get_torch_function_state)
def get_state(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return ConstantValue(machine.overriding.state)


@meaning(torch._C._set_torch_function_state)
def set_state(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    machine.journal.set(machine.overriding, "state", machine.object_of(arguments[0]))
    return NONE


@meaning(torch._C._is_torch_function_enabled)
def asks_classes(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(machine.overriding.state == State.ENABLED)


@meaning(torch._C._is_torch_function_all_disabled)
def asks_nobody(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(machine.overriding.state == State.ALL_DISABLED)


@meaning(torch._C._is_torch_function_mode_enabled)
def asks_modes(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(machine.overriding.asks_modes)


@meaning(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def has_any(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    state = machine.overriding
    if not state.meets(arguments, {}) or state.asks_modes:
        return boolean(state.asks_modes)
    return boolean(state.state == State.ENABLED and any(overriding.overriding(arguments)))


@meaning(torch.overrides.has_torch_function)
def has_torch_function(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return has_any(machine, list(elements(machine, arguments[0])), {})


@meaning(torch.overrides.handle_torch_function)
def handle(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """What a function in Python does that lets its arguments override it."""
    function, relevant, *given = arguments
    made = StandIns()
    known = [made.of(value) for value in elements(machine, relevant)]
    before = torch._C._get_torch_function_state()
    torch._C._set_torch_function_state(machine.overriding.state)
    try:
        classes = tuple(made.originals.get(type(each), type(each)) for each in _get_overloaded_args(known))
    finally:
        torch._C._set_torch_function_state(before)
    named = DictValue({name: (ConstantValue(name), item) for name, item in keywords.items()})
    found = Asked(machine.realize(function), classes, TupleValue(tuple(given)), named)
    answer = overriding.told(machine, found, [*elements(machine, relevant), *given, *keywords.values()])
    if answer is None:
        raise Break(ForeignCall("handle_torch_function", "none of its arguments overrides it"))
    return answer


# Modes


@meaning(torch._C._push_on_torch_function_stack)
def push(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    mode = machine.realize(arguments[0])
    if not isinstance(mode, InstanceValue):
        raise Break(ForeignValue(mode.python_type.__name__, machine.expression()))
    machine.journal.set(machine.overriding, "modes", (*machine.overriding.modes, mode))
    return NONE


@meaning(torch._C._pop_torch_function_stack)
def pop(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    modes = machine.overriding.modes
    if not modes:
        raise Break(ForeignCall("_pop_torch_function_stack", "it ends a mode that capture did not see begin"))
    machine.journal.set(machine.overriding, "modes", modes[:-1])
    return modes[-1]


@meaning(torch._C._len_torch_function_stack)
def count(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return ConstantValue(len(machine.overriding.modes))


@meaning(torch._C._get_function_stack_at)
def mode_at(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    at, modes = machine.object_of(arguments[0]), machine.overriding.modes
    if not isinstance(at, int) or not 0 <= at < len(modes):
        raise Break(ForeignCall("_get_function_stack_at", "there is no such mode"))
    return modes[at]


# Tensors of a class


@meaning(torch.Tensor.as_subclass)
def as_subclass(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    tensor, cls = (machine.realize(each) for each in (*arguments, *keywords.values()))
    return overriding.of_class(machine, overriding.plain(tensor), machine.object_of(cls))


@meaning(torch.Tensor._make_subclass)
def make_subclass(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Detached, on the same memory."""
    cls, tensor, *more = (machine.realize(each) for each in (*arguments, *keywords.values()))
    requires_grad = any(machine.object_of(each) for each in more)
    detached = apply_method(machine, torch.Tensor.detach, [overriding.plain(tensor)], {})
    if machine.object_of(cls) in PLAIN_TENSORS and isinstance(detached, TensorValue) and machine.options.makes_leaves:
        return parameter(machine, detached, machine.object_of(cls), requires_grad)
    if requires_grad:
        raise Break(TensorAttribute("requires_grad_"))
    return overriding.of_class(machine, detached, machine.object_of(cls))


def parameter(machine: Machine, tensor: TensorValue, cls: type, requires_grad: bool) -> TensorValue:
    """`nn.Parameter(x)`: a tensor of the graph's that says it is one. Where it leaves the graph, Python makes it (`Session.finished`)."""
    if requires_grad:
        if not gradient_requirements.may_be_leaf(machine, tensor):
            raise Break(TensorAttribute("requires_grad_"))
        gradient_requirements.make_leaf(machine, tensor)
    tensor.made_as = cls
    machine.journal.append(machine.parameters_made, tensor)
    return tensor


@meaning(torch.Tensor.__new__)
def new_tensor(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """`Named(tensor)`. What else the constructor takes makes memory."""
    cls = machine.object_of(arguments[0])
    given = [overriding.plain(each) for each in arguments[1:]]
    if len(given) != 1 or keywords or not isinstance(given[0], TensorValue) or cls is torch.Tensor:
        raise Break(ForeignCall(callee(machine.expression()) or cls.__name__, "it makes a tensor of something else"))
    return overriding.of_class(machine, given[0], cls)
