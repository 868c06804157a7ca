"""Autocast for meta tensors: operands are converted as torch converts those of the device that they stand for.

    with torch.autocast("cpu"), simulated(lambda tensor: "cpu"):
        torch.nn.functional.linear(x, w)          bfloat16, of float32 meta tensors

torch's own conversions look at the device of each tensor, and pass by meta tensors. Those here are kernels for the dispatch
key of a device that no longer exists, so they run where torch's run: above autograd, and once for a composite operator. Which
operators are converted is asked of torch itself; how, it does not say, and stands below as its documentation has it
("Autocast Op Reference").
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import torch

from dynascope.dataclass import dataclass
from dynascope.meta_kernels.torch_warnings import noted

DEVICES = {"cpu": "AutocastCPU", "cuda": "AutocastCUDA"}
"""Where torch's own kernels for a device type are registered."""

_STAND_INS = {"cpu": "ipu", "cuda": "hpu"}
"""Device types whose keys carry the kernels here. Each has its own: an operator that one device converts may for the other
be a composite, whose parts are converted."""

LOWER = frozenset(
    [
        "_addmm_activation",
        "_convolution",
        "_native_multi_head_attention",
        "_scaled_dot_product_flash_attention",
        "_thnn_fused_gru_cell",
        "_thnn_fused_lstm_cell",
        "addbmm",
        "addmm",
        "addmv",
        "addr",
        "baddbmm",
        "bmm",
        "chain_matmul",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_tbc",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "convolution",
        "cudnn_convolution",
        "cudnn_convolution_transpose",
        "einsum",
        "gru_cell",
        "linalg_multi_dot",
        "linalg_vecdot",
        "linear",
        "lstm_cell",
        "matmul",
        "mkldnn_rnn_layer",
        "mm",
        "mv",
        "prelu",
        "rnn_relu_cell",
        "rnn_tanh_cell",
        "scaled_dot_product_attention",
    ]
)
"""Run in the lower precision. Operators of no list here run in float32."""

WIDEST = frozenset(
    [
        "addcdiv",
        "addcmul",
        "atan2",
        "bilinear",
        "cat",
        "cross",
        "dot",
        "grid_sampler",
        "index_copy",
        "index_put",
        "scatter_add",
        "stack",
        "tensordot",
        "vdot",
    ]
)
"""Run in the widest type among their operands."""

FLOAT_RESULT = frozenset(
    ["cumprod", "cumsum", "linalg_matrix_norm", "linalg_vector_norm", "log_softmax", "prod", "softmax", "sum"]
)
"""Compute a float32 result unless told another type."""

FLOAT_ON_CPU = frozenset({"grid_sampler", "prod"})
REFUSED = frozenset({("cuda", "binary_cross_entropy")})

_KEYS = {"cpu": torch._C.DispatchKey.AutocastIPU, "cuda": torch._C.DispatchKey.AutocastHPU}
_SETS = {device: torch._C.DispatchKeySet(key) for device, key in _KEYS.items()}
_ALL_KEYS = _SETS["cpu"] | _SETS["cuda"]
DeviceOf = Callable[[torch.Tensor], str]
Copies = dict[int, tuple[torch.Tensor, torch.Tensor]]
"""By identity of the parameter: its copy, and itself."""


class _Simulation:
    """`device_of` says the device type that a tensor stands for. `copies` are the converted parameters, made once: until they are
    cleared torch gives the first copy, also of a parameter that has changed, and where another precision is asked for."""

    def __init__(self, device_of: DeviceOf, copies: Copies | None, devices: tuple[str, ...]) -> None:
        self.device_of, self.copies, self.devices = device_of, copies, devices
        self.has_converted = False
        self.is_inside = False
        """Inside an operator that converts its operands: its parts convert nothing."""

    def convert(self, data: Any, device: str, dtype: torch.dtype) -> Any:
        if isinstance(data, (list, tuple)):
            return [self.convert(item, device, dtype) for item in data]
        if not isinstance(data, torch.Tensor) or not self.takes_part(data, device) or data.dtype is dtype:
            return data
        self.has_converted = True
        lasts = data.dtype is torch.float32 and data.requires_grad and data.is_leaf and data._base is None
        is_lower = dtype is torch.get_autocast_dtype(device)
        if self.copies is None or not (lasts and is_lower) or not torch.is_autocast_cache_enabled():
            return data.to(dtype)
        if id(data) not in self.copies:
            with torch.enable_grad():
                self.copies[id(data)] = data.to(dtype), data
        return self.copies[id(data)][0]

    def takes_part(self, tensor: torch.Tensor, device: str) -> bool:
        return tensor.is_floating_point() and tensor.dtype is not torch.float64 and self.device_of(tensor) == device


_active: _Simulation | None = None
"""Capture and differentiation are one at a time in a process."""


@dataclass(frozen=True, slots=True)
class AutocastState:
    """A snapshot. `devices` has (device type, on or off, lower precision) for each device type."""

    devices: tuple[tuple[str, bool, torch.dtype], ...]
    keeps_copies: bool
    nesting: int

    @classmethod
    def now(cls) -> AutocastState:
        devices = tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in DEVICES)
        torch.autocast_increment_nesting()
        return cls(devices, torch.is_autocast_cache_enabled(), torch.autocast_decrement_nesting())

    def restore(self) -> None:
        for device, is_enabled, dtype in self.devices:
            torch.set_autocast_enabled(device, is_enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.keeps_copies)
        change = self.nesting - AutocastState.now().nesting
        step = torch.autocast_increment_nesting if change > 0 else torch.autocast_decrement_nesting
        for _ in range(abs(change)):
            step()


def active_devices() -> tuple[str, ...]:
    return tuple(device for device in DEVICES if torch.is_autocast_enabled(device))


def simulated(device_of: DeviceOf, copies: Copies | None = None) -> AbstractContextManager[None]:
    """Where autocast is on: conversions of meta tensors, as for the devices that `device_of` says."""
    devices = active_devices()
    return _simulated(_Simulation(device_of, copies, devices)) if devices else nullcontext()


@contextmanager
def _simulated(simulation: _Simulation) -> Iterator[None]:
    with _in_place_of_active(simulation), ExitStack() as stack:
        for device in simulation.devices:
            _register(device)
            torch.set_autocast_enabled(_STAND_INS[device], True)
            stack.callback(torch.set_autocast_enabled, _STAND_INS[device], False)
            stack.enter_context(torch._C._IncludeDispatchKeyGuard(_KEYS[device]))
        yield


def is_simulated() -> bool:
    return _active is not None


def suspended() -> AbstractContextManager[None]:
    """Inside an operator: its own parts are not converted again."""
    return torch._C._ExcludeDispatchKeyGuard(_ALL_KEYS) if is_simulated() else nullcontext()


def converts_inside(function: Any, arguments: tuple, keywords: dict[str, Any]) -> bool:
    """Whether `function`, an operator that autocast passes by, is a kernel made of others, and one of those is converted there."""
    if _active is None or _active.is_inside or not _is_made_of_others(function.name()):
        return False
    tensors = [each for each in _tensors((*arguments, *keywords.values())) if each.is_floating_point()]
    device = _active.device_of(tensors[0]) if tensors else ""
    if device not in _active.devices:
        return False
    watching = _Simulation(lambda tensor: device, None, (device,))
    with _in_place_of_active(watching), resumed(), noted(), suppress(Exception):
        function(*arguments, **keywords)  # what it raises, it raises when it is recorded
    return watching.has_converted


def resumed() -> AbstractContextManager[None]:
    """Where torch hands an operator to a mode it has excluded the keys above: what the operator's kernel calls is converted inside."""
    if _active is None or _active.is_inside:
        return nullcontext()
    sets = functools.reduce(operator.or_, (_SETS[device] for device in _active.devices))
    keys = torch._C._dispatch_tls_local_include_set() | sets, torch._C._dispatch_tls_local_exclude_set() - sets
    return torch._C._ForceDispatchKeyGuard(*keys)


@contextmanager
def _in_place_of_active(simulation: _Simulation) -> Iterator[None]:
    global _active
    before, _active = _active, simulation
    try:
        yield
    finally:
        _active = before


@functools.cache
def _is_made_of_others(name: str) -> bool:
    """Whether one kernel, which calls the dispatcher, serves all devices: the meta device then runs it too."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return not has(name, "Meta") and any(has(name, f"CompositeExplicitAutograd{kind}") for kind in ("", "NonFunctional"))


def converted(operator: Any, arguments: tuple) -> tuple:
    """The arguments as `operator` would convert them, for who calls its parts in its place."""
    simulation = _active
    if simulation is None:
        return arguments
    for device in active_devices():
        _, arguments, _ = _converted(simulation, device, operator, arguments, {})
    return arguments


def without_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph holds its conversions; torch must not add more to the operators that it calls."""

    def call(*arguments: Any) -> Any:
        with torch._C._DisableAutocast():
            return function(*arguments)

    return call


@functools.cache
def _register(device: str) -> tuple[torch.library.Library, torch.library.Library]:
    """The kernels for the operators that torch converts for this device, registered for as long as the libraries live."""
    key = _KEYS[device].name
    fallback = torch.library.Library("_", "IMPL")
    fallback.fallback(torch.library.fallthrough_kernel, key)
    kernels = torch.library.Library("aten", "IMPL")
    for name in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = name.partition("::")
        if namespace == "aten" and torch._C._dispatch_has_kernel_for_dispatch_key(name, DEVICES[device]):
            base, _, overload = rest.partition(".")
            operator = getattr(getattr(torch.ops.aten, base), overload or "default")
            kernels.impl(rest, functools.partial(_run, device, operator), key)
    return fallback, kernels


def _run(device: str, operator: Any, *arguments: Any, **keywords: Any) -> Any:
    simulation = _active
    assert simulation is not None
    with torch._C._ExcludeDispatchKeyGuard(_SETS[device]):
        operator, arguments, keywords = _converted(simulation, device, operator, arguments, keywords)
        before, simulation.is_inside = simulation.is_inside, True
        try:
            return operator(*arguments, **keywords)
        finally:
            simulation.is_inside = before


def _converted(
    simulation: _Simulation, device: str, operator: Any, arguments: tuple, keywords: dict[str, Any]
) -> tuple[Any, tuple, dict[str, Any]]:
    """What is called in place of `operator(*arguments, **keywords)`."""
    base = operator.overloadpacket.__name__
    if (device, base) in REFUSED:
        raise RuntimeError(f"aten.{base} is unsafe under autocast; PyTorch refuses it")
    first = arguments[0] if arguments else None
    is_first = isinstance(first, torch.Tensor) and simulation.takes_part(first, device)
    on_cpu = device == "cpu" and base in FLOAT_ON_CPU
    simulation.has_converted |= is_first and first.dtype is not torch.float32 and (base == "norm" or base in FLOAT_RESULT)
    if base == "norm":
        return _norm(operator, arguments, keywords, torch.float32 if is_first else first.dtype)
    if base in FLOAT_RESULT and not on_cpu:
        if not is_first or _given(operator, arguments, keywords, "dtype") is not None:
            return operator, arguments, keywords
        positions = [argument.name for argument in operator._schema.arguments]
        return operator, arguments[: positions.index("dtype")], keywords | {"dtype": torch.float32}
    dtype = torch.float32
    if base in LOWER:
        dtype = torch.get_autocast_dtype(device)
    elif base in WIDEST and not on_cpu:
        dtype = _widest(simulation, device, (*arguments, *keywords.values()))
    named = {name: simulation.convert(item, device, dtype) for name, item in keywords.items()}
    return operator, tuple(simulation.convert(item, device, dtype) for item in arguments), named


def _given(operator: Any, arguments: tuple, keywords: dict[str, Any], name: str) -> Any:
    names = [argument.name for argument in operator._schema.arguments]
    position = names.index(name)
    return arguments[position] if position < len(arguments) else keywords.get(name)


def _norm(operator: Any, arguments: tuple, keywords: dict[str, Any], dtype: torch.dtype) -> tuple[Any, tuple, dict]:
    """`norm` without a type becomes the overload that has one."""
    with_dtype = {
        torch.ops.aten.norm.Scalar: torch.ops.aten.norm.ScalarOpt_dtype,
        torch.ops.aten.norm.ScalarOpt_dim: torch.ops.aten.norm.ScalarOpt_dim_dtype,
    }
    if operator is torch.ops.aten.norm.ScalarOpt_dim:
        arguments = (*arguments, False)[:4]
    elif len(arguments) < 2:
        arguments = (*arguments, 2)
    return with_dtype[operator], arguments, keywords | {"dtype": dtype}


def _widest(simulation: _Simulation, device: str, data: Any) -> torch.dtype:
    """Raises `RuntimeError` for a type that is neither the lower precision nor float32, as torch does."""
    widest = lower = torch.get_autocast_dtype(device)
    for tensor in _tensors(data):
        if not simulation.takes_part(tensor, device):
            continue
        if tensor.dtype is torch.float32:
            widest = torch.float32
        elif tensor.dtype is not lower:
            raise RuntimeError(f"autocast to {lower} does not take an operand of type {tensor.dtype}")
    return widest


def _tensors(data: Any) -> Iterator[torch.Tensor]:
    for item in data:
        if isinstance(item, torch.Tensor):
            yield item
        elif isinstance(item, (list, tuple)):
            yield from _tensors(item)
