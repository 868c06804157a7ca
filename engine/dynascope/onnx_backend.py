"""The backend `onnxrt`: functional graphs through torch's ONNX exporter, run by onnxruntime on the CPU or a GPU.

torch 2.13 has no such backend any more; this one is made of what is left: `torch.onnx.export` and the package `onnxruntime`. Sizes
and numbers are fixed ones, and gradients are ours: forward and backward are an ONNX model each.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.exported_graphs import example_of, exportable, generators_kept, made_in, result_of
from dynascope.runtime.operators import run_operators


def compile_with_onnxruntime(graph: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., tuple[Any, ...]]:
    """Raises what the exporter or onnxruntime raise; an int among the inputs is refused, so that it becomes a constant."""
    onnxruntime: Any = importlib.import_module("onnxruntime")  # not installed where we are built
    if any(not isinstance(example, torch.Tensor) for example in example_inputs):
        raise TypeError("onnxrt takes tensors of fixed sizes only")
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results = list(output.args[0])
    if not any(node.op == "call_function" for node in graph.graph.nodes):
        return run_operators(graph)
    module = exportable(graph, results)
    with _quietly(), generators_kept():
        exported = torch.onnx.export(module, tuple(map(example_of, example_inputs)), dynamo=True, verbose=False)
    model = exported.model_proto.SerializeToString()  # type: ignore[union-attr]
    devices = {example.device.type for example in example_inputs}
    providers = [name for name in onnxruntime.get_available_providers() if "CUDA" not in name or "cuda" in devices]
    session = onnxruntime.InferenceSession(model, providers=providers)
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    positions = {node.name: at for at, node in enumerate(placeholders)}
    wanted = [(given.name, positions[given.name]) for given in session.get_inputs()]
    made = made_in(results)

    def call(*inputs: Any) -> tuple[Any, ...]:
        given = {name: inputs[at].detach().cpu().contiguous().numpy() for name, at in wanted}
        found = dict(zip(made, map(torch.from_numpy, session.run(None, given)), strict=True))
        return tuple(result_of(node, found, inputs, positions) for node in results)

    return call


@contextlib.contextmanager
def _quietly() -> Any:
    """The exporter says much that is not about the program."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
