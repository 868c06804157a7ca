"""`torch.autograd.grad` as a graph holds it: a node that differentiates what the nodes before it computed."""

from __future__ import annotations

from typing import Any

import torch


def gradients(outputs: tuple, inputs: tuple, tangents: tuple, keeps_graph: bool, is_differentiable: bool) -> tuple[Any, ...]:
    """The sum of the products of each tangent with the derivative of its output, for each input; None where there is none.

    Torch's own function does the same, and looks at the tangents' sizes in ways that import its compiler.
    """
    engine = torch.autograd.Variable._execution_engine
    return engine.run_backward(  # type: ignore[attr-defined]
        tuple(outputs), tuple(tangents), keeps_graph, is_differentiable, tuple(inputs), True, accumulate_grad=False
    )
