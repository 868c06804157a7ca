"""Backends by name: ours, the ones a person registers, and the ones registered with torch.

A backend is a callable `(graph: torch.fx.GraphModule, example_inputs: list) -> callable`. The callable takes the graph's
inputs and returns a tuple or list of its outputs. torch's own backends are imported only when one is asked for.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

import torch

from dynascope.dataclass import dataclass

Backend = Callable[[Any, list], Callable]

DEFAULT = "dynascope"
_registered: dict[str, Backend] = {}


@dataclass(frozen=True, eq=False)
class GraphCompilers:
    """A backend for functional graphs: `forward` and `backward` get one each, of ATen, core ATen or prims, and ours is all around
    them (`dynascope.aot`). None: the graph runs operator by operator."""

    forward: Backend | None = None
    backward: Backend | None = None
    level: Literal["aten", "core", "prims"] = "aten"
    decompositions: Mapping[Any, Callable] = field(default_factory=dict)
    when_kept: Callable[[frozenset[str]], None] = lambda names: None
    """Told of the numbers that one of them turns out to have kept for its run (`symbolic_backends.py`)."""
    __name__ = "aot"

    def __call__(self, graph: Any, example_inputs: list) -> Callable:
        raise TypeError("dynascope.aot(function, ...) compiles; what it makes is no backend for others")


class UnknownBackend(ValueError):
    """No backend of that name; the message lists the ones there are, or says what to install."""


class SymbolFixed(RuntimeError):
    """A backend's code serves only some values of numbers that vary, by their `names`; the message says which."""

    def __init__(self, names: frozenset[str], relied_on: str) -> None:
        super().__init__(f"a backend took a size or number of its example inputs for a constant: {relied_on}")
        self.names = names


@dataclass(frozen=True)
class Known:
    """A backend that people know by its name: the modules it needs, the packages that have them, and what sizes it takes."""

    name: str
    words: str
    modules: tuple[str, ...] = ()
    packages: str = ""
    sizes: Literal["symbolic", "fixed"] = "symbolic"
    needs_gpu: bool = False
    follows_torch: bool = False
    """Whether the package has a release for each of torch, by the same number."""

    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.modules if importlib.util.find_spec(name) is None)

    def how_to_install(self) -> str:
        if not self.follows_torch:
            return f"pip install {self.packages}"
        return f'pip install "{self.packages}=={_series(torch.__version__)}.*", where it has a release for this torch'

    def state(self) -> str:
        """`ready`, or why it is not. Nothing is imported: a package made for another torch is found out when it is asked for."""
        missing = self.missing()
        if missing:
            return f"missing {', '.join(missing)}: {self.how_to_install()}"
        if self.needs_gpu and not torch.cuda.is_available():
            return "needs an NVIDIA GPU"
        made_for = next(filter(None, (_other_torch(module, self.follows_torch) for module in self.modules)), None)
        return made_for or "ready"


KNOWN = (
    Known(DEFAULT, "kernels of our own: C++ on the CPU, Triton on a GPU"),
    Known("eager", "the captured graph, operator by operator"),
    Known("aot_eager", "torch's AOTAutograd, its graphs operator by operator"),
    Known("inductor", "torch's own compiler"),
    Known("cudagraphs", "the captured graph as one CUDA graph", sizes="fixed", needs_gpu=True),
    Known("onnxrt", "ONNX models, run by onnxruntime", ("onnxruntime", "onnxscript"), "onnxruntime onnxscript", "fixed"),
    Known("openxla", "XLA", ("torch_xla",), "torch_xla", "fixed", follows_torch=True),
    Known("tensorrt", "TensorRT", ("torch_tensorrt",), "torch-tensorrt", "fixed", True, True),
    Known("tvm", "Apache TVM's Relax, for the CPU", ("tvm",), "apache-tvm", "fixed"),
    Known("ipex", "Intel's extension", ("intel_extension_for_pytorch",), "intel-extension-for-pytorch", follows_torch=True),
)


def _other_torch(module: str, follows_torch: bool) -> str | None:
    """What keeps a package from working here: it says which torch it was made for, or its number does."""
    here = _series(torch.__version__)
    for package in importlib.metadata.packages_distributions().get(module, ()):
        version = importlib.metadata.version(package)
        pins = (re.match(r"torch\s*\(?\s*==\s*(\d+\.\d+)", line) for line in importlib.metadata.requires(package) or ())
        wanted = [pin[1] for pin in pins if pin] or ([_series(version)] if follows_torch else [])
        if any(each != here for each in wanted):
            return f"{package} {version} is for torch {wanted[0]}, this is {torch.__version__}"
    return None


def _series(version: Any) -> str:
    return ".".join(str(version).split(".")[:2])


def backend_states() -> list[tuple[Known, str]]:
    """Every backend with its state: the known ones first, then what was registered here or with torch."""
    names = {known.name for known in KNOWN}
    others = [Known(name, "registered here" if name in _registered else "registered with torch") for name in list_backends()]
    return [(known, known.state()) for known in (*KNOWN, *(other for other in others if other.name not in names))]


def kernels_written() -> int | None:
    """By torch's own compiler so far in this process, where it was loaded."""
    metrics = sys.modules.get("torch._inductor.metrics")
    return getattr(metrics, "generated_kernel_count", None)


def register_backend(backend: Backend | None = None, *, name: str | None = None) -> Backend | Callable:
    """Make a backend known by name (its function's name, unless `name` says otherwise). Also a decorator."""
    if backend is None:
        return lambda function: register_backend(function, name=name)
    if not callable(backend):
        raise TypeError(f"a backend is a callable (graph, example_inputs) -> callable, not {backend!r}")
    _registered[name or backend.__name__] = backend
    return backend


def list_backends() -> list[str]:
    """The names `compile(backend=...)` accepts. Asks torch for its own, which imports `torch._dynamo`."""
    return sorted({DEFAULT, "eager", "onnxrt", "tvm", *_registered, *_torch_backends(hidden=("debug", "experimental"))})


def find_backend(backend: str | Backend) -> Backend | None:
    """The callable for a name; None for our own, which is not a graph-at-a-time callable but the pipeline itself."""
    if callable(backend):
        return backend
    if backend == DEFAULT:
        return None
    if backend == "eager":
        return run_uncompiled
    if backend in _registered:
        return _registered[backend]
    if backend in ("onnxrt", "tvm"):
        return _of_exporters(backend)
    named = next((known for known in KNOWN if known.name == backend), None)
    if named is not None and named.modules:
        _load(named)
    if backend in _torch_backends(hidden=()):
        from torch._dynamo.backends.registry import lookup_backend

        return lookup_backend(backend)
    states = {each.name: state for each, state in backend_states()}
    near = difflib.get_close_matches(backend, states, 1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    usable = [name for name, state in states.items() if state == "ready" or state.startswith("registered")]
    raise UnknownBackend(f"no backend is named {backend!r}.{hint} There are: {', '.join(usable)}")


def takes_fixed_sizes(backend: str | Backend) -> bool:
    """Of a known backend: whether each size and number is a compilation of its own."""
    return any(known.name == backend and known.sizes == "fixed" for known in KNOWN)


def _of_exporters(name: str) -> GraphCompilers:
    """Made here of torch's exporter and a package; torch has no such backend any more, or one for a package of old."""
    _load(next(known for known in KNOWN if known.name == name))
    if name == "onnxrt":
        from dynascope.onnx_backend import compile_with_onnxruntime

        return _registered_once(name, GraphCompilers(compile_with_onnxruntime, compile_with_onnxruntime, "core"))
    from dynascope.tvm_backend import DECOMPOSITIONS, compile_with_tvm

    return _registered_once(name, GraphCompilers(compile_with_tvm, compile_with_tvm, "core", DECOMPOSITIONS))


def _registered_once(name: str, backend: Any) -> Any:
    return _registered.setdefault(name, backend)


def _load(known: Known) -> None:
    """The packages register themselves with torch when they are imported."""
    missing = known.missing()
    if missing:
        raise UnknownBackend(f"the backend {known.name!r} needs {' and '.join(missing)}, which is not here: {known.how_to_install()}")
    try:
        for module in known.modules:
            importlib.import_module(module)
    except Exception as error:
        why = known.state()
        words = f"{type(error).__name__}: {error}" if why == "ready" else why
        raise UnknownBackend(f"the backend {known.name!r} cannot be loaded: {words}") from error


def numbers_among(example_inputs: tuple) -> tuple[int, ...]:
    """The positions of the Python numbers, which vary from call to call."""
    return tuple(at for at, example in enumerate(example_inputs) if not isinstance(example, torch.Tensor))


def run_uncompiled(graph: Any, example_inputs: list) -> Callable:
    """The backend `eager`: run the captured graph operator by operator."""
    return graph.forward


def backend_name(backend: str | Backend) -> str:
    return backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)


def _torch_backends(hidden: tuple[str, ...]) -> list[str]:
    from torch._dynamo.backends import registry

    return registry.list_backends(exclude_tags=hidden)
