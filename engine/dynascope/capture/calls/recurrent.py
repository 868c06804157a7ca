"""Recurrent layers: one node, which runs all steps in torch's library.

    output, hidden, cell = torch.lstm(x, [h, c], weights, ...)      one node, and one for each result

What the layer gives is known from its operands' shapes: torch's own path for meta tensors would take the steps one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.operands import tensors_in
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import Operation
from dynascope.capture.reasons import RecurrentLayer
from dynascope.capture.signals import Break
from dynascope.capture.values import Value
from dynascope.meta_kernels import recurrent

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


class Layer(Operation):
    """The call of a layer, on its way to being a node."""

    def refuse_types(self) -> None:
        """`recurrent.fits` has looked."""

    def graph_target(self) -> tuple[str, Any]:
        return "call_function", recurrent.CALLED[self.target]

    def run_on_meta(self) -> Any:
        call = recurrent.call_of(self.target, self.examples)
        if self.keywords or call is None or not recurrent.fits(call) or self.is_cast():
            raise Break(RecurrentLayer(self.machine.expression()))
        return self.machine.in_plain_mode(lambda: recurrent.described(call))

    def is_cast(self) -> bool:
        """Under autocast the library converts inside, kernel by kernel."""
        return any(torch.is_autocast_enabled(tensor.device.type) for tensor in self.tensors)

    def has_effect(self) -> bool:
        """Dropout between the layers draws random numbers."""
        call = recurrent.call_of(self.target, self.examples)
        return call is not None and bool(call.dropout and call.train)


def _layer(function: Any) -> None:
    @meaning(function)
    def call(machine: Machine, arguments: list[Value], keywords: dict[str, Value]) -> Value:
        if not any(tensors_in([machine.realize(argument) for argument in arguments])):
            raise Break(RecurrentLayer(machine.expression()))
        return Layer(machine, "call_function", function, function.__name__, arguments, keywords).run()


for each in recurrent.LAYERS:
    _layer(each)
