"""Every graph that is compiled for the CPU has its Triton kernels written and built for sm_90 too, without a GPU; none is run.

    build_also_for_gpu()      from now on a kernel that cannot be written or built raises `NotBuilt`
"""

from __future__ import annotations

from typing import Any

import torch
from dynascope.codegen.kernels import KernelModule
from dynascope.runtime import compile_aten
from dynascope.runtime.cubins import Target
from dynascope.runtime.cuda_compile import compile_kernels

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")


class NotBuilt(BaseException):
    """No `Exception`: the engine would run the graph's operators one by one, and say so in a note."""


def build_also_for_gpu() -> None:
    generate, built = compile_aten._generate, set()

    def generate_both(graph: Any, *rest: Any) -> Any:
        nodes = [node for node in graph.graph.nodes if node.meta.get("device") == CPU]
        for node in nodes:
            node.meta["device"] = CUDA
        try:
            module = generate(graph, *rest)
        finally:
            for node in nodes:
                node.meta["device"] = CPU
        if not isinstance(module, KernelModule):
            raise NotBuilt(str(module))
        kernels = [kernel.triton for kernel in module.kernels if kernel is not None and kernel.triton is not None]
        new = [kernel for kernel in kernels if kernel.text not in built]
        built.update(kernel.text for kernel in new)
        try:
            compile_kernels(new, Target(90))
        except Exception as error:
            raise NotBuilt(str(error)) from error
        return generate(graph, *rest)

    compile_aten._generate, compile_aten._may_be_kept = generate_both, lambda options: False
