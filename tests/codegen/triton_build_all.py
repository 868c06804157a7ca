"""Builds machine code for sm_90 of the kernels in `triton_groups`, without a GPU, and prints facts as JSON."""

from __future__ import annotations

import json
import sys

import torch
import triton_groups as groups
from dynascope.codegen.triton.emit import emit_triton
from dynascope.runtime.cubins import Target
from dynascope.runtime.cuda_compile import compile_kernels


def kernels():
    """By name."""
    made = {
        "pointwise": groups.pointwise(),
        "softmax": groups.softmax(dtype=torch.bfloat16),
        "layer_norm": groups.layer_norm(),
        "long_softmax": groups.softmax(32, 50304),
        "long_layer_norm": groups.layer_norm(400, 50304),
        "split_variance": groups.variance(),
        "column_max": groups.reduction("max", 4096, 2048, across=True),
        "argmax": groups.reduction("argmax", 3, 40000),
        "transpose_add": groups.transpose_add(),
        "embedding": groups.embedding(),
        "scatter_add": groups.scatter_add(),
    }
    return {name: emit_triton(*group) for name, group in made.items()}


def main():
    made = kernels()
    built = compile_kernels(list(made.values()), Target(90))
    facts = {
        name: {
            "bytes": len(b.binary),
            "extra": b.extra_parameters,
            "threads": b.threads,
            "name": b.name,
            "path": b.path,
        }
        for name, b in zip(made, built, strict=True)
    }
    again = compile_kernels([made["softmax"]], Target(90))[0]
    odd = compile_kernels([made["softmax"].without_alignment()], Target(90))[0]
    foreign = [
        m for m in sys.modules if m.split(".")[0] == "sympy" or m.startswith(("torch._dynamo", "torch._inductor"))
    ]
    print(
        json.dumps({"facts": facts, "again": again == built[1], "odd": odd.binary != again.binary, "foreign": foreign})
    )


if __name__ == "__main__":
    main()
