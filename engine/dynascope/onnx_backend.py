"""The backend `onnxrt`: functional graphs through torch's ONNX exporter, run by onnxruntime on the CPU or a GPU.

torch 2.13 has no such backend any more; this one is made of what is left: `torch.onnx.export` and the package `onnxruntime`. Sizes
and numbers are fixed ones, and gradients are ours. Operators that ONNX has nothing for run as torch's between the models.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import logging
import re
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.exported_graphs import Untranslated, compile_in_parts, first_cause

UNKNOWN = re.compile(r"No ONNX function found for <OpOverload\(op='([\w.]+)', overload='(\w+)'\)>")
_refused: set[str] = set()
"""What the exporter has turned out not to know, in this process."""


def compile_with_onnxruntime(graph: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., tuple[Any, ...]]:
    """Raises what the exporter or onnxruntime raise; an int among the inputs is refused, so that it becomes a constant."""
    if any(not isinstance(example, torch.Tensor) for example in example_inputs):
        raise TypeError("onnxrt takes tensors of fixed sizes only")
    return compile_in_parts(graph, example_inputs, _model, _refused)


def _model(module: fx.GraphModule, examples: list[torch.Tensor]) -> Callable[..., list[torch.Tensor]]:
    onnxruntime: Any = importlib.import_module("onnxruntime")  # not installed where we are built
    try:
        with _quietly():
            exported = torch.onnx.export(module, tuple(examples), dynamo=True, verbose=False)
    except Exception as error:
        words = first_cause(error)
        unknown = frozenset(f"{name.replace('::', '.')}.{overload}" for name, overload in UNKNOWN.findall(words))
        raise Untranslated(unknown) if unknown else RuntimeError(words) from error
    model = exported.model_proto.SerializeToString()  # type: ignore[union-attr]
    devices = {example.device.type for example in examples}
    providers = [name for name in onnxruntime.get_available_providers() if "CUDA" not in name or "cuda" in devices]
    session = onnxruntime.InferenceSession(model, providers=providers)
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    wanted = [(given.name, names.index(given.name)) for given in session.get_inputs()]

    def call(*inputs: Any) -> list[torch.Tensor]:
        given = {name: inputs[at].detach().cpu().contiguous().numpy() for name, at in wanted}
        return [torch.from_numpy(found) for found in session.run(None, given)]

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
