"""Every graph that is compiled runs as on a GPU, without one: Triton's kernels in its interpreter, over tensors of the CPU.

    run_as_on_a_gpu()         from now on; what could not be made raises, and no graph runs operator by operator

What it cannot show: what operators of a library do on a device, and the numbers that a device draws.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "codegen"))

from triton_interpreter import launchers_for  # isort: skip
import torch
from dynascope.codegen.kernels import KernelModule
from dynascope.codegen.target import DeviceModel
from dynascope.runtime import compile_aten
from triton_executor import Executor, poisoned

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
SMALL = DeviceModel(multiprocessors=4)


class NotMade(BaseException):
    """No `Exception`: the engine would run the graph's operators one by one, and say so in a note."""


def run_as_on_a_gpu() -> None:
    generate = compile_aten._generate

    def generate_for_gpu(graph: Any, *rest: Any, **named: Any) -> Any:
        for node in graph.graph.nodes:
            if node.meta.get("device") == CPU:
                node.meta["device"] = CUDA
        module = generate(graph, *rest, **named)
        if not isinstance(module, KernelModule):
            raise NotMade(str(module))
        return module

    def interpreted(graph: Any, module: KernelModule, options: Any, key: None) -> compile_aten.CompiledAten:
        executor = Executor(module.schedule, launchers_for, SMALL)
        executor.allocate = functools.partial(poisoned, device=CPU)

        def call(*inputs: Any) -> tuple[Any, ...]:
            with torch.no_grad():
                return executor(*inputs)

        def with_list(inputs: list[Any]) -> tuple[Any, ...]:
            given = tuple(inputs)
            inputs.clear()
            return call(*given)

        call.with_list = with_list  # type: ignore[attr-defined]
        return compile_aten.CompiledAten(graph, call, module, ())

    compile_aten._generate, compile_aten._built = generate_for_gpu, interpreted
    compile_aten._may_be_kept = lambda options: False
