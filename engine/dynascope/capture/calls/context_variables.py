"""`contextvars.ContextVar`: what one holds is asked again at each call; what is set inside is set back inside.

    token = scale.set(2.0)        known from here on
    y = x * scale.get()           2.0
    scale.reset(token)            as before: nothing is left to do when the graph has run

A region that would end while one is set ends before that, for a token belongs to the call that gave it. So does one in which something
of the program's own runs meanwhile: it may ask what is set.
"""

from __future__ import annotations

import contextvars
import types
from typing import TYPE_CHECKING, Any

from torch import fx
from torch._ops import OpOverload

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.libraries import own_operators
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall, UnrebuildableValue
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConstantValue, Value
from dynascope.guards.state_calls import ContextHolds

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

PLAIN = (type(None), bool, int, float, str)
"""What it holds of these is compared by value."""


class TokenValue(Value):
    """What `set` gives. `before` is what the variable held, where the program had set that inside, with its own token."""

    __slots__ = ("before", "last", "said", "variable")
    source = None
    python_type = contextvars.Token

    def __init__(self, variable: contextvars.ContextVar, before: Held | None, last: fx.Node | None, said: int) -> None:
        self.variable, self.before, self.last, self.said = variable, before, last, said


Held = tuple[Value, TokenValue]


@meaning(contextvars.ContextVar.get)
def get(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    variable = machine.object_of(arguments[0])
    held = machine.context_variables.get(variable)
    if held is not None:
        return held[0]
    try:
        found = variable.get()
    except LookupError:
        raise Break(ForeignCall(machine.expression(), "the context variable holds nothing")) from None
    if type(found) not in PLAIN:
        raise Break(ForeignCall(machine.expression(), f"the context variable holds an object of {type(found).__name__}"))
    machine.guards.add_state(ContextHolds(variable, found))
    return ConstantValue(found)


@meaning(contextvars.ContextVar.set)
def set_value(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    variable = machine.object_of(arguments[0])
    last = next(iter(reversed(machine.graph.graph.nodes)), None)
    token = TokenValue(variable, machine.context_variables.get(variable), last, len(machine.said))
    machine.journal.set_item(machine.context_variables, variable, (machine.realize(arguments[1]), token))
    return token


@meaning(contextvars.ContextVar.reset)
def reset(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    variable, token = machine.object_of(arguments[0]), machine.realize(arguments[1])
    held = machine.context_variables.get(variable)
    if held is None or held[1] is not token:
        raise Break(ForeignCall(machine.expression(), "the context variable was not set here last"))
    if len(machine.said) != token.said or not all(map(is_torchs, nodes_since(machine, token))):
        raise Break(ForeignCall(machine.expression(), "what ran while it was set may have asked for it"))
    machine.journal.set_item(machine.context_variables, variable, token.before)
    return NONE


def nodes_since(machine: Machine, token: TokenValue) -> list[fx.Node]:
    found = []
    for node in reversed(machine.graph.graph.nodes):
        if node is token.last:
            break
        found.append(node)
    return found


def is_torchs(node: fx.Node) -> bool:
    """Whether nothing of the program's runs in it."""
    target: Any = node.target
    if isinstance(target, (str, types.BuiltinFunctionType, types.MethodDescriptorType)):
        return True
    if isinstance(target, OpOverload):
        return not own_operators(target)
    return isinstance(target, types.FunctionType) and target.__module__.partition(".")[0] == "torch"


def check_left(machine: Machine) -> None:
    """Where the region ends."""
    for variable, held in machine.context_variables.items():
        if held is not None:
            raise Break(UnrebuildableValue(f"the token of the context variable `{variable.name}`"))
