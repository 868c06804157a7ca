"""What the system's compiler is told where it builds kernels."""

from __future__ import annotations

FLAGS = (
    "-std=gnu++17", "-O2", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv",
    "-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-fPIC", "-shared", "-w", "-nostdlib", "-lm", "-lgcc",
)  # fmt: skip
WIDEST = "-mprefer-vector-width=512"


def flags(vector_bytes: int) -> tuple[str, ...]:
    return (*FLAGS, WIDEST) if vector_bytes == 64 else FLAGS
