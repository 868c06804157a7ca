"""The state of torch itself that compiled code assumes: grad mode, autocast, default dtype, active modes.

    GlobalStateIs.now()        check() == "grad mode on, default dtype float32"

The C check asks torch's own functions (a nanosecond or two each); each is tried here before it is trusted, and what
cannot be had that way is asked through Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import torch
import torch.overrides

from dynascope.dataclass import dataclass
from dynascope.frame import hook
from dynascope.guards.guard import IdentityIs, Predicate
from dynascope.guards.tensor_layout import in_clean_thread, tensor_layout, torch_library, torch_symbol

_AUTOCAST_DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class GlobalStateIs(Predicate):
    """A snapshot. `autocast` has (device, dtype) for the devices on which it is on."""

    grad_mode: bool
    inference_mode: bool
    default_dtype: torch.dtype
    deterministic: bool
    anomaly: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    function_modes: tuple[IdentityIs, ...]
    function_switch: tuple[bool, bool]
    dispatch_modes: int
    dispatch_keys: tuple[int, int]

    @classmethod
    def now(cls) -> GlobalStateIs:
        return cls(**{name: read() for name, read in _READERS.items()})

    def holds(self) -> bool:
        return self == GlobalStateIs.now()

    def check(self) -> str:
        words = [f"grad mode {_on_off(self.grad_mode)}", f"default dtype {_short(self.default_dtype)}"]
        words += self.autocast_words()
        words += ["inference mode on"] if self.inference_mode else []
        words += ["deterministic algorithms"] if self.deterministic else []
        words += [f"{len(self.function_modes)} function modes"] if self.function_modes else []
        return ", ".join(words)

    def autocast_words(self) -> list[str]:
        return [f"autocast {words}" for words in _autocasts(self.autocast)]

    def failure(self, expression: str) -> str:
        now = GlobalStateIs.now()
        changed = [field.name for field in fields(self) if getattr(self, field.name) != getattr(now, field.name)]
        if changed != ["dispatch_keys"]:
            changed = [name for name in changed if name != "dispatch_keys"]  # they follow from what is said
        return "; ".join(_difference(name, getattr(self, name), getattr(now, name)) for name in changed) or "torch's state is as it was"


class _Asleep(threading.local):
    switch: tuple[bool, bool] | None = None


_asleep = _Asleep()


@contextlib.contextmanager
def modes_asleep() -> Iterator[None]:
    """The program's function modes see nothing of what runs inside, where torch's state is read as the program left it."""
    if torch._C._len_torch_function_stack() == 0:
        yield
        return
    before, _asleep.switch = _asleep.switch, _function_switch_now()
    try:
        with torch._C.DisableTorchFunction():
            yield
    finally:
        _asleep.switch = before


def _function_switch_now() -> tuple[bool, bool]:
    if _asleep.switch is not None:
        return _asleep.switch
    return torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled()


def function_state() -> Any:
    """Who is asked before torch does something: torch's own word for it."""
    subclasses, nobody = _function_switch_now()
    states = torch._C._TorchFunctionState
    return states.ALL_DISABLED if nobody else states.ENABLED if subclasses else states.SUBCLASSES_DISABLED


_READERS: dict[str, Callable[[], Any]] = {
    "grad_mode": torch.is_grad_enabled,
    "inference_mode": torch.is_inference_mode_enabled,
    "default_dtype": torch.get_default_dtype,
    "deterministic": torch.are_deterministic_algorithms_enabled,
    "anomaly": torch.is_anomaly_enabled,
    "autocast": lambda: tuple(
        (device, torch.get_autocast_dtype(device)) for device in _AUTOCAST_DEVICES if torch.is_autocast_enabled(device)
    ),
    "function_modes": lambda: tuple(
        IdentityIs(torch._C._get_function_stack_at(i)) for i in range(torch._C._len_torch_function_stack())
    ),
    "function_switch": _function_switch_now,
    "dispatch_modes": torch._C._len_torch_dispatch_stack,
    "dispatch_keys": lambda: (
        torch._C._dispatch_tls_local_include_set().raw_repr(),
        torch._C._dispatch_tls_local_exclude_set().raw_repr(),
    ),
}

_TITLES = {
    "grad_mode": "grad mode",
    "inference_mode": "inference mode",
    "default_dtype": "the default dtype",
    "deterministic": "`torch.use_deterministic_algorithms`",
    "anomaly": "the detection of anomalies",
    "autocast": "autocast",
    "function_modes": "the stack of torch function modes",
    "function_switch": "`__torch_function__` handling",
    "dispatch_modes": "the number of torch dispatch modes",
    "dispatch_keys": "the set of active dispatch keys (a transform such as vmap, or a mode)",
}

# Rows as state_reader.h reads them: (kind, address, argument, expected, expected, symbol, getter, answer).
_BYTE, _LONG, _BYTE_OF_POINTER, _BYTE_OF_BYTE, _THREAD_WORDS, _PYTHON, _MEMORY = range(7)
_KEYS_SYMBOL = "_ZN3c104impl26raw_local_dispatch_key_setE"
_FUNCTION_SWITCH = {(True, False): 0, (False, False): 1, (False, True): 2}
_DEVICE_TYPES = {"cpu": 0, "cuda": 1}

Rows = list[tuple]


def state_probes(state: GlobalStateIs) -> tuple:
    """The operand of CHECK_STATE."""
    trusted = _trusted()
    rows: Rows = []
    for name, read in _READERS.items():
        expected = getattr(state, name)
        native = _native_rows(name, expected) if name in trusted else None
        rows += [(_PYTHON, 0, 0, 0, 0, "", read, expected)] if native is None else native
    return tuple(rows)


def _native_rows(name: str, expected: Any) -> Rows | None:
    """None where only Python can tell."""
    return _NATIVE[name](expected) if name in _NATIVE else None


@functools.lru_cache(maxsize=1)
def _trusted() -> frozenset[str]:
    """The facts of which torch's own functions say what Python says, in each of the trial states."""
    return in_clean_thread(_try_all) if hook.is_native() else frozenset()


def _try_all() -> frozenset[str]:
    trusted = set(_NATIVE)
    clean = GlobalStateIs.now()
    for enter in _TRIALS:
        with enter():
            now = GlobalStateIs.now()
            trusted = {name for name in trusted if _agrees(name, getattr(clean, name), getattr(now, name))}
    # Whether autocast is on is read off the dispatch keys.
    return frozenset(trusted if "dispatch_keys" in trusted else trusted - {"autocast"})


def _agrees(name: str, before: Any, now: Any) -> bool:
    rows, old_rows = _native_rows(name, now), _native_rows(name, before)
    if name == "autocast":
        return rows is not None and all(map(hook.try_probe, rows))
    if rows is None or old_rows is None:
        # Where only Python can tell, the other answer must not be taken for this one.
        return old_rows is None or not all(map(hook.try_probe, old_rows))
    return all(map(hook.try_probe, rows)) and all(map(hook.try_probe, old_rows)) == (before == now)


class _FunctionMode(torch.overrides.TorchFunctionMode):
    """Does nothing; it is there to be seen."""


_TRIALS: tuple[Callable[[], Any], ...] = (
    contextlib.nullcontext,
    torch.no_grad,
    torch.inference_mode,
    lambda: torch.autocast("cpu", torch.bfloat16),
    lambda: torch.autocast("cpu", torch.float16),
    _FunctionMode,
    torch._C.DisableTorchFunctionSubclass,
    torch._C.DisableTorchFunction,
)


def _function(kind: int, library: str, symbol: str, expected: int, argument: int = 0) -> Rows | None:
    address = torch_symbol(library, symbol)
    return [(kind, address, argument, int(expected), 0, "", None, None)] if address else None


def _default_dtype(expected: torch.dtype) -> Rows | None:
    layout = tensor_layout()
    symbol = "_ZN3c1031get_default_dtype_as_scalartypeEv"
    return None if layout is None else _function(_BYTE, "libc10.so", symbol, layout.dtype_code(expected))


def _deterministic(expected: bool) -> Rows | None:
    symbol = "_ZNK2at7Context23deterministicAlgorithmsEv"
    context = _global_context()
    return _function(_BYTE_OF_POINTER, "libtorch_cpu.so", symbol, expected, context) if context else None


@functools.lru_cache(maxsize=1)
def _global_context() -> int:
    address = torch_symbol("libtorch_cpu.so", "_ZN2at13globalContextEv")
    return ctypes.CFUNCTYPE(ctypes.c_void_p)(address)() if address else 0


def _autocast(expected: tuple[tuple[str, torch.dtype], ...]) -> Rows | None:
    layout = tensor_layout()
    symbol = "_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE"
    rows: Rows = []
    for device, dtype in expected:
        if layout is None:
            return None
        code = layout.dtype_code(dtype)
        row = _function(_BYTE_OF_BYTE, "libtorch_cpu.so", symbol, code, _DEVICE_TYPES[device])
        if row is None:
            return None
        rows += row
    return rows


def _function_modes(expected: tuple) -> Rows | None:
    symbol = "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"
    return None if expected else _function(_LONG, "libtorch_cpu.so", symbol, 0)


def _function_switch(expected: tuple[bool, bool]) -> Rows | None:
    symbol = "_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv"
    return _function(_BYTE, "libtorch_cpu.so", symbol, _FUNCTION_SWITCH[expected])


def _dispatch_modes(expected: int) -> Rows | None:
    return _function(_LONG, "libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", expected)


def _dispatch_keys(expected: tuple[int, int]) -> Rows | None:
    library, defaults = torch_library("libc10.so"), _default_keys()
    if library is None or defaults is None:
        return None
    raw = [keys ^ default for keys, default in zip(expected, defaults, strict=True)]
    return [(_THREAD_WORDS, library._handle, 0, *raw, _KEYS_SYMBOL, None, None)]


@functools.lru_cache(maxsize=1)
def _default_keys() -> tuple[int, int] | None:
    """What a new thread starts with: torch keeps the keys as the difference to it, so there the words are zero."""
    return in_clean_thread(_READERS["dispatch_keys"])


_NATIVE: dict[str, Callable[[Any], Rows | None]] = {
    "grad_mode": lambda expected: _function(_BYTE, "libc10.so", "_ZN3c108GradMode10is_enabledEv", expected),
    "inference_mode": lambda expected: _function(_BYTE, "libc10.so", "_ZN3c1013InferenceMode10is_enabledEv", expected),
    "default_dtype": _default_dtype,
    "deterministic": _deterministic,
    # Not tried with the mode on: it is one for all threads, which the program may be running.
    "anomaly": lambda expected: _function(
        _MEMORY, "libtorch_cpu.so", "_ZN5torch8autograd11AnomalyMode8_enabledE", expected
    ),
    "autocast": _autocast,
    "function_modes": _function_modes,
    "function_switch": _function_switch,
    "dispatch_modes": _dispatch_modes,
    "dispatch_keys": _dispatch_keys,
}


def _on_off(value: bool) -> str:
    return "on" if value else "off"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _autocasts(value: tuple) -> list[str]:
    return [f"to {_short(dtype)} on {device}" for device, dtype in value]


def _difference(name: str, before: Any, now: Any) -> str:
    if name == "autocast":
        words = [", ".join(_autocasts(value)) or "off" for value in (now, before)]
        return f"autocast is {words[0]}, and was {words[1]}"
    if isinstance(now, tuple) and before and now:
        return f"{_TITLES[name]} is another"
    return f"{_TITLES[name]} is {_show(now)}, and was {_show(before)}"


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return _on_off(value)
    if isinstance(value, torch.dtype):
        return _short(value)
    if isinstance(value, tuple):
        return "not empty" if value else "empty"
    return str(value)
