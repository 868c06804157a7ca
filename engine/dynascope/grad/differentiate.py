"""From a captured graph to a forward and a backward graph of functional core ATen.

    x -> tanh(x * w)      forward:  mul, tanh            saved: w, x, tanh
                          backward: tanh_backward as mul/sub, mul, mul

The whole stage on one screen: record the program on meta tensors, let torch's autograd write the backward pass into the
same recording, describe what the outputs are, cut the recording in two, make fx graphs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import fx

from dynascope.grad.decompose import table_for
from dynascope.grad.emit import emit_graphs
from dynascope.grad.interpret import make_inputs, refusal_within, run
from dynascope.grad.options import GradOptions
from dynascope.grad.outputs import Results, check_inputs, describe_results
from dynascope.grad.pair import GradPair
from dynascope.grad.partition import partition
from dynascope.grad.reach import inputs_reached
from dynascope.grad.reasons import DifferentiationRefused, InputMetadataChanged, OperatorFailed
from dynascope.grad.record import Recorder
from dynascope.grad.shapes import is_dense
from dynascope.grad.simplify import simplify
from dynascope.grad.tape import Layout, Value, contiguous_strides
from dynascope.meta_kernels.autocast import AutocastState

DEFAULT = GradOptions()


def differentiate(graph: fx.GraphModule, example_inputs: list[Any], options: GradOptions = DEFAULT) -> GradPair:
    """Raises `DifferentiationRefused`, and nothing else, for a program that is not supported."""
    names = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    check_inputs(names, example_inputs)
    recorder = Recorder(table_for(options), _main_device(example_inputs))
    grad_mode, autocast = torch.is_grad_enabled(), AutocastState.now()
    try:
        with torch.set_grad_enabled(grad_mode and options.gradients == "as-needed"), recorder:
            values, leaves, handles = make_inputs(names, example_inputs, recorder)
            before = [
                (h.grad_fn, h._version, h.shape, h.stride()) if isinstance(h, torch.Tensor) else None for h in handles
            ]
            outputs = run(graph, handles, recorder)
            _check_metadata(names, handles, before)
            results = describe_results(recorder, names, example_inputs, handles, before, outputs)
            tangents, gradients = _backward(recorder, leaves, values, results)
    finally:
        torch._C._set_grad_enabled(grad_mode)
        autocast.restore()
    simplify(recorder.tape, results, gradients)
    parts = partition(recorder.tape, values, results, tangents, gradients, options)
    return emit_graphs(recorder.tape, values, results, tangents, gradients, parts, options)


def _main_device(example_inputs: list[Any]) -> torch.device:
    """Where most of the program runs: the first input that is not on the CPU says."""
    devices = [example.device for example in example_inputs if isinstance(example, torch.Tensor)]
    return next((d for d in devices if d.type != "cpu"), devices[0] if devices else torch.device("cpu"))


def _check_metadata(names: list[str], handles: list[Any], before: list[Any]) -> None:
    for name, handle, state in zip(names, handles, before, strict=True):
        if state is not None and (handle.shape, handle.stride()) != state[2:]:
            raise DifferentiationRefused(InputMetadataChanged(name), name)


def _backward(
    recorder: Recorder, leaves: list[Any], values: list[Any], results: Results
) -> tuple[list[Value], list[Value | None]]:
    """The tangents' values, and for each input its gradient's value or None."""
    wanted = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not wanted or not results.differentiable:
        return [], [None] * len(leaves)
    results.sources = inputs_reached([tensor for tensor, _ in results.differentiable], leaves)
    recorder.start_backward()
    tangents, handles = [], []
    for number, (_, value) in enumerate(results.differentiable, 1):
        tangent = Value(_tangent_layout(value.layout), name=f"tangents_{number}")
        tangents.append(tangent)
        handles.append(recorder.wrap(tangent))
    found = _run_autograd([tensor for tensor, _ in results.differentiable], handles, [leaves[i] for i in wanted])
    gradients: list[Value | None] = [None] * len(leaves)
    for index, gradient in zip(wanted, found, strict=True):
        if gradient is not None:
            gradients[index] = _gradient_value(recorder, gradient, values[index])
    return tangents, gradients


def _tangent_layout(layout: Layout) -> Layout:
    """As the output, unless its elements share places or leave some out: an element of a tangent has a place of its own."""
    if is_dense(layout.sizes, layout.strides):
        return layout
    return replace(layout, strides=contiguous_strides(layout.sizes))


def _run_autograd(outputs: list[torch.Tensor], tangents: list[torch.Tensor], inputs: list[torch.Tensor]) -> Any:
    """`torch.autograd.grad(..., allow_unused=True)` without its checks of the tangents' sizes, which import sympy."""
    engine = torch.autograd.Variable._execution_engine
    try:
        return engine.run_backward(
            tuple(outputs), tuple(tangents), False, False, tuple(inputs), True, accumulate_grad=False
        )
    except DifferentiationRefused:
        raise
    except Exception as error:
        cause = refusal_within(error)
        reason = cause.reason if cause else OperatorFailed("backward", f"{type(error).__name__}: {error}")
        raise DifferentiationRefused(reason) from error


def _gradient_value(recorder: Recorder, gradient: torch.Tensor, source: Value) -> Value:
    value = recorder.value(gradient)
    if value.device != source.device:
        value = recorder.builder.op(torch.ops.aten._to_copy.default, value, device=source.device)
    return value
