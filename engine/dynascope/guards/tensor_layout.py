"""Where a tensor's facts lie in memory, in the torch of this process: found by looking, proved before use.

The C check reads dtype, device, sizes, strides and dispatch keys straight from the tensor object: 1 nanosecond a fact,
where a Python attribute takes 50 and more. No torch header or library is used to build it. Instead the places are found
here: probe tensors whose facts are known through Python are searched for them, and a place is taken only if it is the
one place that agrees for all of the probes. Other tensors, with all facts different, then prove the whole. Where
anything does not fit, nothing is configured, and tensors are checked in Python.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import torch

from dynascope.dataclass import dataclass
from dynascope.frame import hook
from dynascope.guards.tensor_guard import Extent, TensorMatches

Result = TypeVar("Result")

_OBJECT_BYTES = 48
_IMPLEMENTATION_BYTES = 192
"""At most: what was allocated for one may be less."""
_REQUIRES_GRAD = ("libc10.so", "_ZNK3c1010TensorImpl13requires_gradEv")
_DATA_POINTER = ("libtorch_cpu.so", "aoti_torch_get_data_ptr")
_DTYPES = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
           torch.complex64, torch.complex128, torch.bool, torch.bfloat16)  # fmt: skip


@dataclass(frozen=True)
class TensorLayout:
    """Byte offsets: of the C++ object's pointer in the Python object, and of the facts in the C++ object."""

    implementation: int
    key_set: int
    dimensions: int
    dtype: int
    device: int

    def dtype_code(self, dtype: torch.dtype) -> int:
        return _dtype_code(self, dtype)

    def device_code(self, device: torch.device) -> int:
        return _device_code(self, device)


@functools.lru_cache(maxsize=1)
def tensor_layout() -> TensorLayout | None:
    """The layout, told to the C hook too; None where tensors must be checked in Python."""
    if not hook.is_native():
        return None
    return in_clean_thread(_establish)


def _establish() -> TensorLayout | None:
    layout = _find()
    requires_grad = torch_symbol(*_REQUIRES_GRAD)
    if layout is None or not requires_grad:
        return None
    hook.configure_tensors(
        layout.implementation, layout.key_set, layout.dimensions, layout.dtype, layout.device, requires_grad,
        torch_symbol(*_DATA_POINTER),
    )
    return layout if _proved(layout) else None


def in_clean_thread(work: Callable[[], Result]) -> Result:
    """Run where none of the user's modes (inference, dispatch and function modes, autocast, functorch) is active."""
    with ThreadPoolExecutor(1) as clean:
        return clean.submit(work).result()


def torch_symbol(library: str, name: str) -> int:
    """The address of a function in one of torch's libraries; 0 where there is none."""
    handle = torch_library(library)
    symbol = getattr(handle, name, None) if handle is not None else None
    return 0 if symbol is None else ctypes.cast(symbol, ctypes.c_void_p).value or 0


@functools.lru_cache(maxsize=8)
def torch_library(library: str) -> ctypes.CDLL | None:
    """A library that torch has loaded already. Never loads one."""
    path = Path(torch.__file__).parent / "lib" / library
    try:
        return ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except (OSError, AttributeError):
        return None


def expected_tensor(layout: TensorLayout, predicate: TensorMatches) -> tuple:
    """The operand of CHECK_TENSOR."""
    extents = tuple(map(_expected_extent, (*predicate.sizes, *(predicate.strides or ()))))
    return (
        predicate.type,
        predicate.dispatch_keys,
        layout.dtype_code(predicate.dtype),
        layout.device_code(predicate.device),
        int(predicate.requires_grad),
        extents,
    )


def _expected_extent(extent: Extent) -> int:
    """As tensor_reader.h calls those that may be any, or any from 2 on."""
    return extent if isinstance(extent, int) else -1 if extent is None else -2


@functools.lru_cache(maxsize=1)
def _odd_keys() -> int:
    """Keys of tensors whose facts may lie elsewhere than in the C++ object itself."""
    names = (
        "Python",
        "PythonTLSSnapshot",
        "NestedTensor",
        "FuncTorchBatched",
        "FuncTorchGradWrapper",
        "Functionalize",
        "Sparse",
    )
    keys = [getattr(torch._C.DispatchKey, name, None) for name in names]
    raw = [torch._C.DispatchKeySet(key).raw_repr() for key in keys if key is not None]
    # A set of one functionality and one backend has the backend's bit too; only the functionality's is odd.
    dense = torch._C._dispatch_keys(torch.empty(0)).raw_repr()
    return functools.reduce(int.__or__, raw) & ~dense


def is_plain(predicate: TensorMatches) -> bool:
    """Whether the C check may read such a tensor."""
    return predicate.strides is not None and predicate.dispatch_keys & _odd_keys() == 0


def _probes() -> list[torch.Tensor]:
    probes = [torch.empty((3, 5, 2)[: 1 + i % 3], dtype=dtype) for i, dtype in enumerate(_DTYPES)]
    probes += [torch.empty(7, 11, dtype=dtype, device="meta") for dtype in _DTYPES]
    probes += [
        torch.empty(()),
        torch.empty(2, 3, 4, 5, 6).permute(4, 2, 0, 1, 3),
        torch.empty(4, 6).t(),
        torch.empty(9)[::2],
    ]
    probes += [torch.empty(2, 3, dtype=torch.complex64).conj(), torch.empty(2, requires_grad=True)]
    return probes


def _allocated(probes: list[torch.Tensor]) -> int:
    """The bytes of each tensor's C++ object that may be read, as the allocator says."""
    try:
        usable = ctypes.CDLL(None).malloc_usable_size
    except (OSError, AttributeError):
        return _IMPLEMENTATION_BYTES
    usable.restype, usable.argtypes = ctypes.c_size_t, [ctypes.c_void_p]
    sizes = [size for probe in probes if (size := usable(probe._cdata))]
    return min([_IMPLEMENTATION_BYTES, *sizes])


def _find() -> TensorLayout | None:
    probes = _probes()
    allocated = _allocated(probes)
    implementation = _only(range(16, _OBJECT_BYTES, 8), lambda at: all(_word(id(t), at) == t._cdata for t in probes))
    words = range(0, allocated - 7, 8)
    key_set = _place(words, lambda t, at: _word(t._cdata, at) == torch._C._dispatch_keys(t).raw_repr(), probes)
    dimensions = _place(words, lambda t, at: at + 88 <= allocated and _has_extents(t, at), probes)
    dtype = _only(range(0, allocated - 1, 2), lambda at: _distinguishes(at, probes, lambda t: t.dtype))
    if None in (implementation, key_set, dimensions, dtype):
        return None
    device = _device_place(dtype, probes)
    return None if device is None else TensorLayout(implementation, key_set, dimensions, dtype, device)


def _device_place(dtype: int, probes: list[torch.Tensor]) -> int | None:
    """Beside the dtype: of two overlapping half-words that tell CPU from meta, only this one has type and index."""
    return _only((dtype + 2,), lambda at: _distinguishes(at, probes, lambda t: t.device))


def _place(places: Iterable[int], fits: Callable[[torch.Tensor, int], bool], probes: list[torch.Tensor]) -> int | None:
    return _only(places, lambda at: all(fits(probe, at) for probe in probes))


def _only(places: Iterable[int], fits: Callable[[int], bool]) -> int | None:
    found = [at for at in places if fits(at)]
    return found[0] if len(found) == 1 else None


def _has_extents(tensor: torch.Tensor, at: int) -> bool:
    count = tensor.dim()
    if _word(tensor._cdata, at) != count or count > 5:
        return False
    sizes = [_word(tensor._cdata, at + 8 + 8 * i) for i in range(count)]
    strides = [_word(tensor._cdata, at + 48 + 8 * i) for i in range(count)]
    return sizes == list(tensor.shape) and strides == list(tensor.stride())


def _distinguishes(at: int, probes: list[torch.Tensor], fact: Callable[[torch.Tensor], object]) -> bool:
    """Whether the half-word there has one value for each value of the fact."""
    pairs = {(fact(probe), _half_word(probe._cdata, at)) for probe in probes}
    return len(pairs) == len({value for value, _ in pairs}) == len({code for _, code in pairs}) > 1


def _word(address: int, offset: int) -> int:
    return struct.unpack("<Q", ctypes.string_at(address + offset, 8))[0]


def _half_word(address: int, offset: int) -> int:
    return struct.unpack("<H", ctypes.string_at(address + offset, 2))[0]


@functools.lru_cache(maxsize=64)
def _dtype_code(layout: TensorLayout, dtype: torch.dtype) -> int:
    probe = in_clean_thread(lambda: torch.empty(0, dtype=dtype, device="meta"))
    return _half_word(probe._cdata, layout.dtype)


@functools.lru_cache(maxsize=64)
def _device_code(layout: TensorLayout, device: torch.device) -> int:
    probe = in_clean_thread(lambda: torch.empty(0, device=device))
    return _half_word(probe._cdata, layout.device)


def _proved(layout: TensorLayout) -> bool:
    """Every witness matches its own facts, read by the C check, and no other's."""
    witnesses = _witnesses()
    facts = [TensorMatches.of(witness) for witness in witnesses]
    if not all(map(is_plain, facts)):
        return False
    check = hook.OPERATIONS["CHECK_TENSOR"]
    programs = [hook.GuardProgram(1, [(check, 0, 0, expected_tensor(layout, fact))]) for fact in facts]
    return all(
        program.holds((witness,), _proved) == fact.holds(witness)
        for program, fact in zip(programs, facts, strict=True)
        for witness in witnesses
    )


def _witnesses() -> list[torch.Tensor]:
    base = torch.empty(4, 6, 8)
    with torch.inference_mode():
        inference = torch.empty(4, 6, 8)
    leaf = torch.empty(4, 6, 8, requires_grad=True)
    frozen = torch.empty(4, 6, 8, requires_grad=True)
    frozen.requires_grad_(False)
    one = torch.empty(1)
    shapes = [
        (),
        (0,),
        (1,),
        (5,),
        (1, 5),
        (5, 1),
        (2, 3, 4, 5),
        (2, 3, 4, 5, 6),
        (1, 2, 3, 4, 5, 6),
        (1, 2, 1, 3, 1, 2, 1),
    ]
    witnesses = [base, inference, leaf, frozen, leaf * 2, (leaf * 2).detach(), one.expand(5), base.transpose(0, 2)]
    witnesses += [base.permute(1, 2, 0), base[::2], base[1:3], torch.empty(6, 5, 4, 3, 2, 1).permute(5, 4, 3, 2, 1, 0)]
    witnesses += [torch.empty(shape) for shape in shapes]
    witnesses += [torch.empty(4, 6, 8, dtype=dtype) for dtype in _DTYPES]
    witnesses += [torch.empty(4, 6, 8, device="meta"), torch.empty(4, dtype=torch.complex64).conj()]
    witnesses += [torch.empty(4, dtype=torch.complex64), torch.empty(4, dtype=torch.complex64).conj().imag]
    return witnesses
