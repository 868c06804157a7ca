"""The flags by which torch chooses kernels: set inside the program, they are followed, as grad mode is; what they were is guarded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.torch_state import change
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import NONE, ConstantValue, ListValue, Value
from dynascope.guards.state_calls import Asked, CallReturns
from dynascope.meta_kernels.kernel_flags import GETTER_OF, OF_GPU_LIBRARIES, OLDER_PRECISION, PRECISION, attention_order

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def follow(setter: Any, getter: Any) -> None:
    takes_place = getter is getattr(torch._C, "_get_fp32_precision_getter", None)

    @meaning(setter)
    def set_flag(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        *place, wanted = (constant(machine, argument) for argument in arguments)
        if keywords or tuple(place) != (PRECISION if takes_place else ()):
            raise Break(ForeignCall(setter.__name__))
        if setter in OF_GPU_LIBRARIES and torch.cuda.is_available():  # kernels would not know which operators it was set for
            raise Break(ForeignCall(setter.__name__))
        question = Asked(getter, tuple(place)) if place else getter
        before = question()
        machine.guards.follow_state(question)
        if wanted != before:
            change(machine, setter, (*place, wanted), lambda: setter(*place, before))
        return NONE


def constant(machine: Machine, argument: Value) -> Any:
    """A flag, or an order of kernels."""
    argument = machine.realize(argument)
    return tuple(map(machine.object_of, argument.items)) if isinstance(argument, ListValue) else machine.object_of(argument)


@meaning(*filter(None, [getattr(torch._C, "_get_sdp_priority_order", None)]))
def order_read(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    order = attention_order()
    machine.guards.add_state(CallReturns(attention_order, order))
    return ListValue(list(map(ConstantValue, order)))


def follow_older(setter: Any, getter: Any) -> None:
    @meaning(setter)
    def set_precision(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        """To what it is: no change. Of another the state that is put back after a capture knows nothing."""
        try:
            is_so = [getter()] == [machine.object_of(value) for value in arguments]
        except RuntimeError:  # set by the newer names
            is_so = False
        if keywords or not is_so:
            raise Break(ForeignCall(setter.__name__))
        machine.guards.add_state(CallReturns(getter, getter()))
        return NONE


for setter, getter in GETTER_OF.items():
    follow(setter, getter)
for setter, getter in OLDER_PRECISION.items():
    follow_older(setter, getter)
