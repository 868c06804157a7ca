"""Triton text to machine code, many kernels at once, kept on disk for the next process.

    cubins = compile_kernels(kernels, Target(90))      # one Cubin each, in order

What is not in the cache is compiled by workers, which leave it there. Whatever a worker failed to do, for any reason, this process does
itself afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from dynascope.codegen.triton.kernel import TritonKernel
from dynascope.native.building import alone_with
from dynascope.native.cache import cache_folder
from dynascope.runtime import kernel_workers
from dynascope.runtime.cubins import Cubin, Target, compile_here, key_of, load, place, triton_version


def compile_kernels(kernels: Sequence[TritonKernel], target: Target, folder: Path | None = None) -> list[Cubin]:
    """The machine code of each kernel, kept in `folder` or in the cache. Raises KernelError for the first that Triton refuses."""
    folder = folder or cache_folder()
    version = triton_version()
    keys = [key_of(kernel, target, version) for kernel in kernels]
    needed = dict(zip(keys, kernels, strict=True))
    cubins = _loaded(needed, folder)
    if len(cubins) < len(needed):
        with alone_with(*(place(folder, key, ".json") for key in needed.keys() - cubins.keys())):
            missing = {key: kernel for key, kernel in needed.items() if key not in cubins and load(key, folder) is None}
            if missing:
                kernel_workers.compile_all(missing, target, folder)
            cubins = {key: load(key, folder) or compile_here(key, kernel, target, folder) for key, kernel in needed.items()}
    return [cubins[key] for key in keys]


def _loaded(keys: Iterable[str], folder: Path) -> dict[str, Cubin]:
    return {key: cubin for key in keys if (cubin := load(key, folder)) is not None}
