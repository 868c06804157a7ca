"""`torch.fused_moving_avg_obs_fake_quant` for each channel: the first call makes the statistics, which are empty, as large as there are
channels. No graph holds tensors that grow: that call is Python's, and the next one is part of a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls.arguments import Arguments, Keywords, argument, in_order
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import FALSE, TensorValue, constant_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NAMES = tuple(argument.name for argument in torch.ops.aten.fused_moving_avg_obs_fake_quant.default._schema.arguments)
STATISTICS = slice(NAMES.index("running_min"), NAMES.index("zero_point") + 1)
AXIS, PER_CHANNEL = NAMES.index("ch_axis"), NAMES.index("per_row_fake_quant")


@meaning(torch.fused_moving_avg_obs_fake_quant)
def observe(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    given = [machine.realize(each) for each in in_order(arguments, keywords, *NAMES)]
    axis, per_channel = (constant_of(machine.known(argument(given, keywords, at, NAMES[at], FALSE))) for at in (AXIS, PER_CHANNEL))
    tensors = [each.example for each in (given[0], *given[STATISTICS]) if isinstance(each, TensorValue)]
    if per_channel and isinstance(axis, int) and any(each.numel() != tensors[0].shape[axis] for each in tensors[1:]):
        raise Break(ForeignCall("torch.fused_moving_avg_obs_fake_quant", "it makes its statistics as large as there are channels"))
    return apply_function(machine, torch.fused_moving_avg_obs_fake_quant, arguments, keywords)
