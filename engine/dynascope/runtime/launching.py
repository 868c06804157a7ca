"""The C launcher: built once for each Python, connected to torch's data pointers and torch's OpenMP threads.

    launcher(library, kernel)  ->  an object that runs the kernel on tensors and numbers, in about 40 ns plus the work

Without Python's headers the kernels are called through ctypes: slower, same results.
"""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import sysconfig
from collections.abc import Callable, Iterable
from functools import cache
from importlib import resources
from typing import Any

import torch

from dynascope.codegen.runnable import CppLaunch
from dynascope.loops.readers import READERS, Reader
from dynascope.native.toolchain import ToolchainError, begin_shared_object, build_shared_object
from dynascope.report.reason import Reason

Launch = Callable[..., None]
CONNECTED = (
    "aoti_torch_get_data_ptr",
    "GOMP_parallel",
    "omp_get_max_threads",
    "omp_get_thread_num",
    "omp_in_parallel",
    "omp_get_num_threads",
)
"""Functions of torch and of its OpenMP that the launcher calls, in the order of its `configure`."""


def launcher(library: ctypes.CDLL, kernel: CppLaunch) -> Launch:
    module = _module()
    share = getattr(library, kernel.share) if kernel.share else None
    if isinstance(module, Reason) or len(kernel.kinds) > 255:
        return _through_ctypes(getattr(library, kernel.name), share, kernel)
    address = _address_of(getattr(library, kernel.name))
    return module.Launcher(address, kernel.kinds, kernel.items, kernel.work, kernel.checks_indices, _address_of(share))


def _address_of(function: Any) -> int:
    return 0 if function is None else ctypes.cast(function, ctypes.c_void_p).value


def launcher_note() -> Reason | None:
    """Why kernels are called through ctypes, if they are."""
    module = _module()
    return module if isinstance(module, Reason) else None


def begin(devices: Iterable[torch.device] = ()) -> None:
    """Start building the launcher, and what GPUs among `devices` need: it will be there when the kernels are."""
    if not _module.cache_info().currsize:
        begin_shared_object(**_build())
    for device in dict.fromkeys(device for device in devices if device.type == "cuda" and torch.cuda.is_initialized()):
        from dynascope.runtime import tiled_attention  # noqa: F401 (registers its kernels; programs on processors never load these)
        from dynascope.runtime.cuda_launch import begin_on

        begin_on(device)


def _build() -> dict[str, Any]:
    text = resources.files("dynascope.runtime").joinpath("launch.c").read_text()
    flags = ("-O1", "-fPIC", "-shared", f"-I{sysconfig.get_path('include')}", "-w")
    return dict(source=text, language="c", flags=flags, name="dynascope_launch")


@cache
def _module() -> Any:
    """The extension module, connected; the reason where it could not be built."""
    try:
        path = build_shared_object(**_build())
    except ToolchainError as error:
        return error.reason
    loader = importlib.machinery.ExtensionFileLoader("dynascope_launch", str(path))
    spec = importlib.util.spec_from_loader("dynascope_launch", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    module.configure(*map(_address, CONNECTED))
    probe = torch.empty(8)
    module.find_offset(probe, probe.data_ptr())
    return module


def _address(name: str) -> int:
    """A function of the libraries that torch has loaded; 0 where there is none. Loads nothing new."""
    for library in _libraries():
        function = getattr(library, name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0


@cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The process itself, then torch's own libraries and its OpenMP, as they are mapped."""
    libraries = [ctypes.CDLL(None)]
    try:
        with open("/proc/self/maps") as file:
            paths = {line.split()[-1] for line in file if ".so" in line}
    except OSError:
        paths = set()
    for path in sorted(paths):
        if any(part in path for part in ("libtorch_cpu", "libgomp", "libiomp5", "libomp")):
            libraries.append(ctypes.CDLL(path))
    return tuple(libraries)


def _through_ctypes(function: Any, share: Any, kernel: CppLaunch) -> Launch:
    function.argtypes = (ctypes.c_void_p, ctypes.c_long, ctypes.c_long)
    function.restype = None
    kinds, count = kernel.kinds, len(kernel.kinds)

    def launch(*arguments: Any) -> None:
        error = (ctypes.c_int64 * 4)()
        numbers = [
            ctypes.c_double(a) if k == "f" else ctypes.c_int64(a)
            for a, k in zip(arguments, kinds, strict=True)
            if k != "t"
        ]
        tensors = [a.data_ptr() for a, k in zip(arguments, kinds, strict=True) if k == "t"]
        pointers = (ctypes.c_void_p * (count + 1))(*tensors, *map(ctypes.addressof, numbers), ctypes.addressof(error))
        items = ctypes.c_long(kernel.items)
        if share is not None:
            share(pointers, ctypes.byref(items), ctypes.byref(ctypes.c_double()))
        function(pointers, 0, items.value)
        if error[0]:
            _raise_index_error(READERS[error[0] - 1], *error[1:])

    return launch


def _raise_index_error(reader: Reader, index: int, size: int, dimension: int) -> None:
    """Eager's exception, as `raise_index_error` of launch.c."""
    if reader == "lookup":
        raise IndexError("index out of range in self")
    if reader == "columns":
        raise RuntimeError(f"INDICES element is out of DATA bounds, id={index} axis_dim={size}")
    if reader == "target":
        raise IndexError(f"Target {index} is out of bounds.")
    if reader == "classes":
        raise RuntimeError(f"Class values must be {'non-negative' if index < 0 else 'smaller than num_classes'}.")
    kind = RuntimeError if reader == "gather" else IndexError
    raise kind(f"index {index} is out of bounds for dimension {dimension} with size {size}")
