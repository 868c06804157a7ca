"""`F.ctc_loss`: one node. The size of the loss is known from its operands, not what torch keeps for the gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch.nn import _reduction

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import Operation
from dynascope.capture.reasons import MissingMetaKernel
from dynascope.capture.signals import Break
from dynascope.capture.values import FALSE, NONE, ConstantValue, TensorValue, Value
from dynascope.meta_kernels import ctc

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NAMES = ("log_probs", "targets", "input_lengths", "target_lengths", "blank", "reduction", "zero_infinity")


class Loss(Operation):
    """The call, with all arguments by position, on its way to being a node."""

    def refuse_types(self) -> None:
        """`ctc.fits` has looked."""

    def graph_target(self) -> tuple[str, Any]:
        return "call_function", ctc.ctc_loss

    def run_on_meta(self) -> Any:
        call = ctc.call_of(self.examples)
        if call is None or not ctc.fits(call) or any(torch.is_autocast_enabled(each.device.type) for each in self.tensors):
            raise Break(MissingMetaKernel("ctc_loss", "Meta tensors", is_of_torch=True))
        return self.machine.in_plain_mode(lambda: ctc.described(call))


@meaning(F.ctc_loss)
def loss_of_module(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    given = by_name(arguments, keywords, ConstantValue("mean"))
    reduction = machine.known(given["reduction"])
    if not isinstance(reduction, ConstantValue) or reduction.value not in ("none", "mean", "sum"):
        raise refusal()
    return loss(machine, [], given | {"reduction": ConstantValue(_reduction.get_enum(reduction.value))})


@meaning(torch.ctc_loss)
def loss(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """Without a reduction torch's schema says the mean, and its Python function takes none: that is left to it."""
    given = by_name(arguments, keywords, NONE)
    values = [machine.realize(given[name]) for name in NAMES]
    options = [machine.known(value) for value in values[4:]]
    if not all(isinstance(value, TensorValue) for value in values[:2]) or not all(isinstance(each, ConstantValue) for each in options):
        raise refusal()
    return Loss(machine, "call_function", torch.ctc_loss, "ctc_loss", [*values[:4], *options], {}).run()


def by_name(arguments: Arguments, keywords: Keywords, reduction: Value) -> dict[str, Value]:
    given = {"blank": ConstantValue(0), "reduction": reduction, "zero_infinity": FALSE}
    given |= dict(zip(NAMES, arguments, strict=False)) | keywords
    if len(arguments) > len(NAMES) or given.keys() != set(NAMES):
        raise refusal()  # torch says what is wrong with such a call
    return given


def refusal() -> Break:
    return Break(MissingMetaKernel("ctc_loss", "Meta tensors", is_of_torch=True))
