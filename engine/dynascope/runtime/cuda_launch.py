"""Compiled kernels to one callable that launches them all: the Python side of cuda_launch.c.

    launch = make_launcher(kernels, slots, device)
    launch(x, y, out)             # every kernel, in order, in the device's current stream

`slots` names the arguments of the call in order; kernels find theirs by `Parameter.source`. A call whose pointers are
not aligned as the kernels expect goes to a second plan, built then, that expects nothing; one with sizes that are no multiples
of what kernels were told, to one that was told what these are multiples of.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import math
import struct
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from dynascope.codegen.triton.kernel import SHORT_VECTOR, TritonKernel
from dynascope.dataclass import dataclass
from dynascope.loops.numbers import number_name
from dynascope.native.toolchain import ToolchainError, begin_shared_object, build_shared_object
from dynascope.report.reason import Explanation
from dynascope.runtime import kernel_workers
from dynascope.runtime.cubins import Cubin, KernelError, Target, load_text, options_of
from dynascope.runtime.cuda_compile import compile_kernels
from dynascope.runtime.cuda_reasons import LauncherMissing
from dynascope.sizes import Operation, Polynomial, Root, Size, is_printed, leaves
from dynascope.sizes.expression import plain
from dynascope.sizes.functions import FUNCTIONS

_WORKSPACE = " workspace"
"""A slot name that no buffer has."""
_SLOT_KINDS = {"i32": "i", "i64": "i", "fp64": "d"}
_MULTIPLES = {2: "2", 4: "4", 8: "8", 16: "m"}
"""Kinds of numbers, by what they are multiples of."""

Launcher = Callable[..., None]


def make_launcher(
    kernels: Sequence[TritonKernel], slots: Sequence[str], device: torch.device, folder: Path | None = None
) -> Launcher:
    """Compile (or find compiled, in `folder` or the cache) and load `kernels`. Raises KernelError."""
    launcher = _launcher_module(device.index or 0)
    if launcher is None:
        return _slow_launcher(kernels, slots)
    return _Plans(launcher, tuple(kernels), tuple(slots), device, folder).build()


def launcher_note(device: torch.device) -> Explanation | None:
    """Why launches are slow here; None where they are not."""
    _launcher_module(device.index or 0)
    return _state.note


def target_of(device: torch.device) -> Target:
    major, minor = torch.cuda.get_device_capability(device)
    return Target(10 * major + minor)


@dataclass
class _LauncherState:
    note: Explanation | None = None


_state = _LauncherState()


@functools.cache
def _launcher_module(device: int) -> ModuleType | None:
    try:
        module = build_extension()
        module.open_driver()
        learn_pointers(module, torch.empty(16, device=torch.device("cuda", device)))
        return module
    except (ToolchainError, ImportError, OSError, RuntimeError) as error:
        _state.note = LauncherMissing(str(error).splitlines()[0]).explain()
        return None


def begin_on(device: torch.device) -> None:
    """Start building the extension, and those who compile kernels: they will be there when the kernels are."""
    if not build_extension.cache_info().currsize:
        begin_shared_object(**_extension())
    kernel_workers.begin(target_of(device))


def _extension() -> dict[str, Any]:
    text = Path(__file__).with_name("cuda_launch.c").read_text()
    flags = ("-O2", f"-I{sysconfig.get_path('include')}", "-ldl")
    return dict(source=text, language="c", flags=flags, name=f"cuda_launch-{sysconfig.get_config_var('SOABI')}")


@functools.cache
def build_extension() -> ModuleType:
    """cuda_launch.c as a module. Raises ToolchainError or ImportError."""
    path = build_shared_object(**_extension())
    loader = importlib.machinery.ExtensionFileLoader("dynascope_cuda_launch", str(path))
    specification = importlib.util.spec_from_loader("dynascope_cuda_launch", loader)
    module = importlib.util.module_from_spec(specification)
    loader.exec_module(module)
    return module


def learn_pointers(module: ModuleType, sample: torch.Tensor) -> bool:
    """Let the module find the data pointer in a tensor. It calls `data_ptr` where this torch keeps it elsewhere."""
    return module.read_tensors(sample, torch._C.TensorBase, str(torch_library()), sample._cdata, sample.data_ptr())


def torch_library() -> Path:
    """The library of torch's stable C interface."""
    return Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"


@dataclass(frozen=True)
class _Plans:
    """The launch plan of some kernels, and those for arguments at odd addresses and for odd sizes, when they are needed."""

    launcher: ModuleType
    kernels: tuple[TritonKernel, ...]
    slots: tuple[str, ...]
    device: torch.device
    folder: Path | None = None

    def build(self) -> Launcher:
        return self._plan(self.kernels, _Misaligned(self))

    def build_unaligned(self) -> Launcher:
        return self._plan(tuple(kernel.without_alignment() for kernel in self.kernels), _never_misaligned)

    def build_for_odd(self, divisors: frozenset[tuple[str, int]]) -> Launcher:
        """The plan where these numbers are multiples of that and no more."""
        return replace(self, kernels=tuple(kernel.with_divisors(dict(divisors)) for kernel in self.kernels)).build()

    @functools.cached_property
    def multiples(self) -> tuple[tuple[int, str, int], ...]:
        """The numbers that kernels take for multiples of something, with their places among the arguments."""
        told = _divisors_by_source(self.kernels)
        return tuple((place, name, told[name]) for place, name in enumerate(self.slots) if name in told)

    def odd_among(self, arguments: Sequence[Any]) -> frozenset[tuple[str, int]]:
        """Those of them that are none, and what they are multiples of: of 4, or of nothing, so that few plans serve all. Asked at each
        call that the plan does not fit."""
        odd = ((name, arguments[place]) for place, name, divisor in self.multiples if arguments[place] % divisor)
        return frozenset((name, SHORT_VECTOR if number % SHORT_VECTOR == 0 else 1) for name, number in odd)

    def _plan(self, kernels: tuple[TritonKernel, ...], misaligned: Callable[..., None]) -> Launcher:
        cubins = compile_kernels(kernels, target_of(self.device), self.folder)
        names, kinds = _slot_table(kernels, self.slots)
        launches = [
            _launch(kernel, cubin, self._load(cubin), names) for kernel, cubin in zip(kernels, cubins, strict=True)
        ]
        needed = max((kernel.workspace_bytes for kernel in kernels), default=0)
        device = torch.device("cuda", self.device.index or 0)
        make_workspace = functools.partial(torch.zeros, max(needed, 16), dtype=torch.uint8, device=device)
        return self.launcher.LaunchPlan(
            kinds, launches, device.index, torch._C._cuda_getCurrentRawStream, make_workspace, misaligned
        )

    def _load(self, cubin: Cubin) -> int:
        return _load_function(self.launcher, cubin, self.device.index or 0)


class _Misaligned:
    """Called in place of a plan that cannot run with these arguments."""

    def __init__(self, plans: _Plans):
        self._plans = plans
        self._built: dict[frozenset[tuple[str, int]], Launcher] = {}
        """By the numbers that are odd; of none it is the pointers that are."""

    def __call__(self, *arguments: Any) -> None:
        odd = self._plans.odd_among(arguments)
        plan = self._built.get(odd)
        if plan is None:
            plan = self._built[odd] = self._plans.build_for_odd(odd) if odd else self._plans.build_unaligned()
        plan(*arguments)


def _never_misaligned(*arguments: Any) -> None:
    raise KernelError(LauncherMissing("a plan without alignment met a misaligned pointer"))


@functools.cache
def _load_function(launcher: ModuleType, cubin: Cubin, device: int) -> int:
    """Loaded once per process and device: equal kernels of different graphs share one."""
    return launcher.load(cubin.binary, cubin.name, cubin.shared, device)


def _slot_table(kernels: Sequence[TritonKernel], slots: Sequence[str]) -> tuple[dict[str, int], str]:
    """The position of each slot, and its kind as cuda_launch.c wants it. Workspaces follow the arguments."""
    kinds: dict[str, str] = dict.fromkeys(slots, "q")
    told = _divisors_by_source(kernels)
    for kernel in kernels:
        for parameter in kernel.parameters:
            if parameter.source is None:
                kinds[_WORKSPACE] = "w"
            elif parameter.is_pointer:
                kinds[parameter.source] = "p" if any(name == parameter.name for name, _ in kernel.divisors) else kinds[parameter.source]
            else:
                divisor = told.get(parameter.source)
                kinds[parameter.source] = _MULTIPLES[divisor] if divisor else _SLOT_KINDS[parameter.kind]
    return {name: position for position, name in enumerate(kinds)}, "".join(kinds.values())


def _divisors_by_source(kernels: Sequence[TritonKernel]) -> dict[str, int]:
    """Of the numbers that kernels take for multiples of something, the largest that any of them does."""
    found: dict[str, int] = {}
    for kernel in kernels:
        told = dict(kernel.divisors)
        for parameter in kernel.parameters:
            if parameter.name in told and not parameter.is_pointer and parameter.source is not None:
                found[parameter.source] = max(told[parameter.name], found.get(parameter.source, 1))
    return found


def _launch(kernel: TritonKernel, cubin: Cubin, function: int, names: dict[str, int]) -> tuple[Any, ...]:
    places = [names[_WORKSPACE if p.source is None else p.source] for p in kernel.parameters]
    scratch = [-1] * cubin.extra_parameters
    programs = kernel.grid[0]
    count = grid_program(programs, names) if isinstance(programs, Size) else b""
    grid = (0, *kernel.grid[1:]) if count else kernel.grid
    return function, kernel.name, grid, cubin.threads, cubin.shared, (*places, *scratch), count


def grid_program(size: Size, slots: dict[str, int]) -> bytes:
    """How many programs to launch, for cuda_launch.c: steps of a stack machine, each an operation and a number of 64 bits."""
    steps = b"".join(struct.pack("<qq", *step) for step in _steps(plain(size.expression), slots))
    return steps


def _steps(expression: Any, slots: dict[str, int]) -> Iterator[tuple[int, int]]:
    if isinstance(expression, Polynomial):
        for number, (monomial, coefficient) in enumerate(expression.terms):
            yield _PUSH, coefficient
            for atom, exponent in monomial:
                for _ in range(exponent):
                    yield from _steps(atom, slots)
                    yield _OPERATIONS["*"], 0
            if number:
                yield _OPERATIONS["+"], 0
    elif isinstance(expression, Operation) and expression.name == "blocks":
        count, block = expression.arguments
        yield from _steps(count, slots)
        yield from ((_PUSH, block - 1), (_OPERATIONS["+"], 0), (_PUSH, block), (_OPERATIONS["//"], 0))
    elif isinstance(expression, Operation) and is_printed(expression):
        for argument in expression.arguments:
            yield from _steps(argument, slots)
        yield _OPERATIONS[expression.name], 0
    elif isinstance(expression, (Root, Operation)):
        yield _READ, slots[number_name(expression)]
    else:
        yield _PUSH, expression


_PUSH, _READ = 0, 1
_OPERATIONS = {"+": 2, "*": 3, "//": 4, "%": 5}
"""As `programs_of` in cuda_launch.c reads them."""


def _slow_launcher(kernels: Sequence[TritonKernel], slots: Sequence[str]) -> Launcher:
    """Triton's own launcher, which also checks alignment anew at each call. The interpreter is launched so too."""
    functions = [load_text(kernel) for kernel in kernels]
    workspaces: dict[tuple[str, Any], torch.Tensor] = {}

    def launch(*arguments: Any) -> None:
        values = dict(zip(slots, arguments, strict=True))
        sample = next(value for value in arguments if isinstance(value, torch.Tensor))
        stream = torch._C._cuda_getCurrentRawStream(sample.device.index) if sample.is_cuda else None
        for kernel, function in zip(kernels, functions, strict=True):
            given = [_argument(kernel, p.source, values, workspaces, stream, sample.device) for p in kernel.parameters]
            # The interpreter, on other devices, takes no options.
            told = options_of(kernel) if sample.device.type == "cuda" else {}
            function[grid_at(kernel, values)](*given, **told)

    return launch


def grid_at(kernel: TritonKernel, values: dict[str, Any]) -> tuple[int, int, int]:
    """The grid of a launch with these arguments, by name."""
    programs = kernel.grid[0]
    if not isinstance(programs, Size):
        return kernel.grid
    numbers = {number_name(leaf): leaf for leaf in leaves(programs.expression)}
    given = {str(leaf): values[name] for name, leaf in numbers.items()}
    return (evaluate_with(programs.expression, given), *kernel.grid[1:])


def evaluate_with(expression: Any, values: dict[str, Any]) -> int:
    """The number, given its leaves' values."""
    if isinstance(expression, Polynomial):
        return sum(
            c * math.prod(evaluate_with(atom, values) ** exponent for atom, exponent in m) for m, c in expression.terms
        )
    if str(expression) in values:
        return values[str(expression)]
    if isinstance(expression, Operation):
        return FUNCTIONS[expression.name](*(evaluate_with(argument, values) for argument in expression.arguments))
    return expression


def _argument(kernel, source, values, workspaces, stream, device) -> Any:
    if source is not None:
        return values[source]
    key = (kernel.name, stream)
    if key not in workspaces:
        workspaces[key] = torch.zeros(kernel.workspace_bytes, dtype=torch.uint8, device=device)
    return workspaces[key]
