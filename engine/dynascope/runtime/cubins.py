"""One Triton kernel's machine code: what it is known by, where it is kept, how it is made.

    key = key_of(kernel, Target(90), triton_version())
    cubin = load(key, folder) or compile_here(key, kernel, Target(90), folder)
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import itertools
import json
import linecache
import re
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

from dynascope.codegen.triton.kernel import TritonKernel
from dynascope.dataclass import dataclass
from dynascope.native.cache import CacheError, cache_folder, is_own_file, mark_used, publish
from dynascope.native.toolchain import ToolchainError
from dynascope.runtime.cuda_reasons import TritonMissing, TritonRefused

FORMAT = 4
"""Part of every key: raise it when what is kept, or how kernels are compiled, changes."""


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
    text = kernel.text.encode()
    path = text_file(cache_folder(), kernel.name, text)
    if not is_own_file(path):
        publish(path, text)
    return path


def text_file(folder: Path, name: str, text: bytes) -> Path:
    """Where the text of a kernel of that name lies."""
    return folder / "triton" / "text" / f"{name[:80]}-{hashlib.sha256(text).hexdigest()[:24]}.py"


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


def identity_of(kernel: TritonKernel, target: Target, version: str) -> str:
    """Everything that the machine code depends on, as Python's literals: FORMAT, Triton, architecture, text, parameters, options."""
    told = dict(kernel.divisors)
    divisors = [told.get(p.name, 1) for p in kernel.parameters]
    facts = (
        FORMAT, version, target.capability, without_names(kernel), divisors, [p.kind for p in kernel.parameters],
        sorted(options_of(kernel).items()),
    )  # fmt: skip
    return repr(facts)


def key_of(kernel: TritonKernel, target: Target, version: str) -> str:
    return key_of_identity(identity_of(kernel, target, version))


def key_of_identity(identity: str) -> str:
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


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


def options_of(kernel: TritonKernel) -> dict[str, Any]:
    """What Triton is told where it compiles or launches it. Multiply and add stay two roundings, as in eager's separate kernels;
    denormals stay."""
    return {
        "num_warps": kernel.warps,
        "num_stages": kernel.stages,
        "enable_fp_fusion": False,
        "enable_reflect_ftz": False,
        "debug": kernel.asserts,
        "sanitize_overflow": False,
    }


# ---- the cache: one JSON file with the facts, one with the machine code, written in that order reversed ----


def place(folder: Path, key: str, suffix: str) -> Path:
    return folder / "triton" / key[:2] / f"{key}{suffix}"


def load(key: str, folder: Path) -> Cubin | None:
    facts_path = place(folder, key, ".json")
    if not (is_own_file(facts_path) and is_own_file(place(folder, key, ".cubin"))):
        return None
    try:
        facts = json.loads(facts_path.read_bytes())
        binary = place(folder, key, ".cubin").read_bytes()
    except (OSError, ValueError):
        return None
    facts.pop("identity", None)
    if hashlib.sha256(binary).hexdigest() != facts.pop("digest", None):
        return None
    mark_used(facts_path)
    return Cubin(binary=binary, **facts)


def _keep(key: str, identity: str, cubin: Cubin, folder: Path) -> None:
    facts = {name: value for name, value in asdict(cubin).items() if name != "binary"}
    facts["identity"] = identity
    facts["digest"] = hashlib.sha256(cubin.binary).hexdigest()
    publish(place(folder, key, ".cubin"), cubin.binary)
    publish(place(folder, key, ".json"), json.dumps(facts).encode())


# ---- compiling ----


def compile_here(key: str, kernel: TritonKernel, target: Target, folder: Path) -> Cubin:
    cubin = compile_kernel(kernel, target)
    try:
        _keep(key, identity_of(kernel, target, triton_version()), cubin, folder)
    except CacheError:
        # The kernel is good; only the next process pays again.
        return cubin
    return cubin


def compile_kernel(kernel: TritonKernel, target: Target) -> Cubin:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = load_text(kernel)
    told = dict(kernel.divisors)
    attributes = {
        (position,): [["tt.divisibility", told[parameter.name]]]
        for position, parameter in enumerate(kernel.parameters)
        if parameter.name in told
    }
    signature = {parameter.name: parameter.kind for parameter in kernel.parameters}
    source = ASTSource(function, signature, constexprs={}, attrs=attributes)

    def build(**more: Any) -> Any:
        try:
            return triton.compile(source, target=GPUTarget("cuda", target.capability, 32), options=options_of(kernel) | more)
        except Exception as error:
            raise KernelError(TritonRefused(kernel.name, _words(error))) from error

    built = build()
    if PACKED_ADD in built.asm["ptx"]:
        built = build(ptx_options="--opt-level 0")
    return _cubin(kernel, built)


PACKED_ADD = "add.s16x2"
"""Two sums of 16 bits in one instruction, which LLVM makes of positions in small blocks. Of one with a constant whose halves are masked
afterwards ptxas 12.8 and 12.9 drop the constant, at any level of optimization but 0 (`F.pad(x, (1, 2))` of 12 int64 elements)."""


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
