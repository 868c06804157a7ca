"""What is needed to run a kernel module, and nothing of how it was made: plain data, which can be kept for another process.

runnable_of(module)  ->  Runnable        (codegen/module.py)
build(runnable)      ->  Built           (runtime/build.py)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynascope.dataclass import dataclass

if TYPE_CHECKING:
    from dynascope.codegen.triton.kernel import TritonKernel


@dataclass(frozen=True, slots=True)
class Unit:
    """A C++ translation unit: its text, with the names of the kernels in it."""

    text: str
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CppLaunch:
    """How a C++ kernel is called. `kinds` has a letter for each argument: tensors ("t") first, then integers ("i") and floats ("f").

    `share` is the function that says how much there is to do in a call, where that varies; `items` and `work` are 0 then.
    """

    name: str
    kinds: str
    items: int
    work: float
    checks_indices: bool
    share: str = ""


@dataclass(frozen=True, slots=True)
class TritonLaunch:
    """A Triton kernel, the names of its arguments in the order in which the wrapper gives them, and where it runs."""

    kernel: TritonKernel
    slots: tuple[str, ...]
    device: torch.device


@dataclass(frozen=True, slots=True)
class Launches:
    """What a mode asks about the launches of a graph."""

    obstacle: str
    """Why they cannot be recorded; empty where they can."""
    is_on_gpu: bool
    device: torch.device | None
    """Where all that it reads and makes lies; None where that is not one device."""
    written: tuple[int, ...]
    """The positions of inputs that are written to."""
    unused: tuple[int, ...]
    """Of inputs that nothing looks at."""


@dataclass(frozen=True, slots=True)
class Runnable:
    """The wrapper's text, what its names stand for, and its kernels."""

    name: str
    wrapper: str
    values: dict[str, Any]
    """What the wrapper refers to by name: library calls, dtypes, devices, constants."""
    operators: dict[str, Any]
    """Of those of `values` that call one of torch's operators: the operator."""
    constants: dict[str, torch.Tensor]
    """Tensors that the graph holds."""
    units: tuple[Unit, ...]
    vector_bytes: int
    """What the C++ is to be built for."""
    takes_list: bool
    """Whether the wrapper takes its inputs in one list, which it empties."""
    cpp: tuple[CppLaunch, ...]
    triton: tuple[TritonLaunch, ...]
    launches: Launches
