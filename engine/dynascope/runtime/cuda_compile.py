"""Triton text to machine code, many kernels at once, kept on disk for the next process.

    cubins = compile_kernels(kernels, Target(90))      # one Cubin each, in order

What is not in the cache is compiled by forked workers: Triton's front end holds Python's lock for half of its time, and
a fork has Triton imported already. A worker never touches CUDA (the target is named, not asked of the driver), leaves
its result in the cache, and ends without running anybody's exit handlers. Whatever a worker failed to do, for any
reason, this process does itself afterwards.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import itertools
import json
import linecache
import os
import re
import signal
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from dynascope.codegen.triton.kernel import ALIGNMENT, TritonKernel
from dynascope.native.building import alone_with
from dynascope.native.cache import CacheError, cache_folder, is_own_file, mark_used, publish
from dynascope.native.forking import without_waiting
from dynascope.native.toolchain import ToolchainError
from dynascope.runtime.cuda_reasons import TritonMissing, TritonRefused

FORMAT = 2
"""Part of every key: raise it when what is kept, or how kernels are compiled, changes."""

_WORKER_SECONDS = 120.0


class KernelError(ToolchainError):
    """A kernel could not be built. `reason` says why."""


@dataclass(frozen=True, slots=True)
class Target:
    """An NVIDIA architecture: 90 for sm_90."""

    capability: int


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code and how to launch it. `extra_parameters` are the scratch pointers that Triton adds at the end."""

    name: str
    binary: bytes
    shared: int
    threads: int
    extra_parameters: int
    path: str


def compile_kernels(kernels: Sequence[TritonKernel], target: Target, folder: Path | None = None) -> list[Cubin]:
    """The machine code of each kernel, kept in `folder` or in the cache. Raises KernelError for the first that Triton refuses."""
    folder = folder or cache_folder()
    version = triton_version()
    keys = [_key(kernel, target, version) for kernel in kernels]
    needed = dict(zip(keys, kernels, strict=True))
    cubins = _loaded(needed, folder)
    if len(cubins) < len(needed):
        with alone_with(*(_place(folder, key, ".json") for key in needed.keys() - cubins.keys())):
            missing = {key: kernel for key, kernel in needed.items() if key not in cubins and _load(key, folder) is None}
            if len(missing) > 1:
                _compile_in_workers(missing, target, folder)
            cubins = {key: _load(key, folder) or _compile_here(key, kernel, target, folder) for key, kernel in needed.items()}
    return [cubins[key] for key in keys]


def _loaded(keys: Iterable[str], folder: Path) -> dict[str, Cubin]:
    return {key: cubin for key in keys if (cubin := _load(key, folder)) is not None}


@functools.cache
def triton_version() -> str:
    """Raises KernelError where Triton is not installed."""
    try:
        import triton
    except Exception as error:  # a broken installation fails in many ways
        raise KernelError(TritonMissing(f"{type(error).__name__}: {error}")) from error
    return triton.__version__


def text_path(kernel: TritonKernel) -> Path:
    """The file that holds the kernel's text, for Triton, tracebacks and the editor."""
    digest = hashlib.sha256(kernel.text.encode()).hexdigest()[:24]
    path = cache_folder() / "triton" / "text" / f"{kernel.name[:80]}-{digest}.py"
    if not is_own_file(path):
        publish(path, kernel.text.encode())
    return path


def load_text(kernel: TritonKernel) -> Any:
    """The kernel as Triton's function object (under TRITON_INTERPRET, as its interpreted function)."""
    path = text_path(kernel)
    return getattr(_import(kernel.name, path), kernel.name)


def _import(name: str, path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"dynascope_kernels.{name}", path)
    module = importlib.util.module_from_spec(specification)
    linecache.checkcache(str(path))
    specification.loader.exec_module(module)
    return module


def _key(kernel: TritonKernel, target: Target, version: str) -> str:
    aligned = [p.name in kernel.aligned for p in kernel.parameters]
    facts = (
        FORMAT, version, target.capability, without_names(kernel), aligned, [p.kind for p in kernel.parameters],
        sorted(_options(kernel).items()),
    )  # fmt: skip
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:32]


_ASSIGNED = re.compile(r"^ +(?:for )?([A-Za-z_]\w*(?:, [A-Za-z_]\w*)*) (?:=|in) ", re.MULTILINE)
_NAME = re.compile(r"(?<![.\w])[A-Za-z_]\w*(?!\w|=[^=])")
"""A word that stands for a value: no attribute, and no keyword of a call."""


def without_names(kernel: TritonKernel) -> str:
    """The text in which what a program calls its values counts for nothing: the kernel's name, its parameters' and its variables'
    are numbered, and comments are left out. Kernels of equal texts have the same machine code."""
    text = "\n".join(line for line in kernel.text.split("\n") if not line.lstrip().startswith("#"))
    head, definition, body = text.partition(f"def {kernel.name}(")
    names = [kernel.name, *(p.name for p in kernel.parameters)]
    names += [name for found in _ASSIGNED.finditer(body) for name in found[1].split(", ")]
    own = dict.fromkeys(names)
    taken = set(_NAME.findall(text)) - own.keys()
    free = (name for number in itertools.count() if (name := f"v{number}") not in taken)
    numbered = dict(zip(own, free, strict=False))
    return head + _NAME.sub(lambda word: numbered.get(word[0], word[0]), definition + body)


def _options(kernel: TritonKernel) -> dict[str, Any]:
    """Multiply and add stay two roundings, as in eager's separate kernels; denormals stay."""
    return {
        "num_warps": kernel.warps,
        "num_stages": kernel.stages,
        "enable_fp_fusion": False,
        "enable_reflect_ftz": False,
        "debug": kernel.asserts,
        "sanitize_overflow": False,
    }


# ---- the cache: one JSON file with the facts, one with the machine code, written in that order reversed ----


def _place(folder: Path, key: str, suffix: str) -> Path:
    return folder / "triton" / key[:2] / f"{key}{suffix}"


def _load(key: str, folder: Path) -> Cubin | None:
    facts_path = _place(folder, key, ".json")
    if not (is_own_file(facts_path) and is_own_file(_place(folder, key, ".cubin"))):
        return None
    try:
        facts = json.loads(facts_path.read_bytes())
        binary = _place(folder, key, ".cubin").read_bytes()
    except (OSError, ValueError):
        return None
    if hashlib.sha256(binary).hexdigest() != facts.pop("digest", None):
        return None
    mark_used(facts_path)
    return Cubin(binary=binary, **facts)


def _keep(key: str, cubin: Cubin, folder: Path) -> None:
    facts = {name: value for name, value in asdict(cubin).items() if name != "binary"}
    facts["digest"] = hashlib.sha256(cubin.binary).hexdigest()
    publish(_place(folder, key, ".cubin"), cubin.binary)
    publish(_place(folder, key, ".json"), json.dumps(facts).encode())


# ---- compiling ----


def _compile_here(key: str, kernel: TritonKernel, target: Target, folder: Path) -> Cubin:
    cubin = _compile(kernel, target)
    try:
        _keep(key, cubin, folder)
    except CacheError:
        # The kernel is good; only the next process pays again.
        return cubin
    return cubin


def _compile(kernel: TritonKernel, target: Target) -> Cubin:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = load_text(kernel)
    attributes = {
        (position,): [["tt.divisibility", ALIGNMENT]]
        for position, parameter in enumerate(kernel.parameters)
        if parameter.name in kernel.aligned
    }
    signature = {parameter.name: parameter.kind for parameter in kernel.parameters}
    source = ASTSource(function, signature, constexprs={}, attrs=attributes)
    try:
        built = triton.compile(source, target=GPUTarget("cuda", target.capability, 32), options=_options(kernel))
    except Exception as error:
        raise KernelError(TritonRefused(kernel.name, _words(error))) from error
    return _cubin(kernel, built)


def _cubin(kernel: TritonKernel, built: Any) -> Cubin:
    facts = built.metadata
    if facts.global_scratch_size or facts.profile_scratch_size or facts.num_ctas != 1:
        raise KernelError(TritonRefused(kernel.name, "it needs scratch memory or clusters, which are not supported"))
    binary = built.asm["cubin"]
    extra = _parameter_count(built.asm["ptx"]) - len(kernel.parameters)
    if extra < 0:
        raise KernelError(TritonRefused(kernel.name, f"{-extra} parameters were lost"))
    # Warp-specialised kernels have more threads than warps were asked for; ours have none, and the figure is there.
    warps = getattr(facts, "num_warps", kernel.warps)
    return Cubin(facts.name, binary, facts.shared, 32 * warps, extra, str(text_path(kernel)))


_ENTRY = re.compile(r"\.visible\s+\.entry\s+\w+\s*\((.*?)\)", re.DOTALL)


def _parameter_count(ptx: str) -> int:
    """How many arguments the machine code takes, read off its text: Triton versions differ in what they add."""
    return _ENTRY.search(ptx).group(1).count(".param")


def _words(error: BaseException) -> str:
    """Triton's message, without the frames above it."""
    return str(error).strip()[-2000:] or type(error).__name__


# ---- workers ----


def _compile_in_workers(missing: dict[str, TritonKernel], target: Target, folder: Path) -> None:
    """Compile into the cache. Nothing is reported: who reads the cache afterwards sees what is there."""
    if not hasattr(os, "fork"):
        return
    _warm()
    jobs = list(missing.items())
    count = min(len(jobs), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    if count < 2:
        return
    started = (_start(jobs[first::count], target, folder) for first in range(count))
    _wait([worker for worker in started if worker is not None])


@functools.cache
def _warm() -> None:
    """Import what every worker needs, once, before they are forked."""
    import triton.backends.nvidia.compiler  # noqa: F401
    import triton.compiler.code_generator  # noqa: F401
    import triton.language.extra.cuda  # noqa: F401


def _start(jobs: list[tuple[str, TritonKernel]], target: Target, folder: Path) -> int | None:
    """The worker's process. None where the system or a library (filelock, as Inductor loads it) refuses to fork: what no
    worker made is compiled by the reader."""
    try:
        with warnings.catch_warnings(), without_waiting():
            warnings.simplefilter("ignore", DeprecationWarning)
            worker = os.fork()
    except (OSError, RuntimeError):
        return None
    if worker:
        return worker
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        for key, kernel in jobs:
            _keep(key, _compile(kernel, target), folder)
        status = 0
    finally:
        # No exit handlers, no flushing of the parent's buffers, and no exception goes past here.
        os._exit(status)


def _wait(workers: list[int]) -> None:
    deadline = time.monotonic() + _WORKER_SECONDS
    pause = 0.001
    while workers:
        workers = [worker for worker in workers if _is_running(worker)]
        if workers and time.monotonic() > deadline:
            # Forked while another thread held a lock that the worker needs: it will never end.
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
                os.waitpid(worker, 0)
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def _is_running(worker: int) -> bool:
    try:
        return os.waitpid(worker, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        # A handler of the program's waits for every child; this one has ended.
        return False
