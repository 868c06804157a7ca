"""Whether what the engine knows of CPython's and torch's insides holds in versions that it was not tested with.

first_failure()    None, or why nothing is captured in this process: asked before the first capture on such a version

Small programs, which need no compiler, are taken apart and put together again
and captured, and must give what Python gives; meta kernels must say what the real ones do. The C hook and the place of a
tensor's facts are proved on every version, where they are set up (`frame/hook_native.py`, `guards/tensor_layout.py`), and
have something that stands in for them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType
from typing import Any

import torch

from dynascope import self_check_programs as programs
from dynascope.capture import CaptureOptions, CodeRegion, Refused, Return, assemble, capture
from dynascope.frame.assembler import assemble as assemble_instructions
from dynascope.frame.instructions import decode
from dynascope.frame.shape import CodeShape
from dynascope.grad import bridge, differentiate
from dynascope.guards.source import FrameValues
from dynascope.meta_kernels.quiet_torch import compiler_is_loaded, without_compiler_imports
from dynascope.reasons import SelfCheckFailed
from dynascope.report.reason import Reason

ARGUMENT = [0.5, -1.0, 2.0]


def first_failure() -> Reason | None:
    """The first thing that does not hold here. A thread of its own has torch's modes as they are at the start of a program: what
    the first compiled call happens to run under (`no_grad`, autocast, a default device) says nothing of the versions."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_first_failure).result()


def _first_failure() -> Reason | None:
    for subject, check in CHECKS.items():
        try:
            fault = check()
        except Exception as error:
            fault = f"{type(error).__name__}: {error}"
        if fault is not None:
            return SelfCheckFailed(subject, fault)
    return None


def _bytecode() -> str | None:
    """Every program taken apart and put together again does what it did."""
    for program in programs.PROGRAMS:
        code = assemble_instructions(decode(program.__code__), CodeShape.of(program.__code__))
        if _differs(program, _with_code(program, code)):
            return f"`{program.__name__}` does something else when its instructions are put together again"
    return None


def _capture() -> str | None:
    """Every program is captured as a whole, and does what it did."""
    for program in programs.PROGRAMS:
        outcome = capture(_region(program), _values(program, torch.tensor(ARGUMENT)), CaptureOptions())
        if isinstance(outcome, Refused):
            return f"`{program.__name__}` is not captured: {outcome.reason.message()}"
        if not isinstance(outcome.exit, Return):
            return f"`{program.__name__}` is captured in part: {outcome.exit.reason.message()}"
        graph = outcome.graph.module if outcome.graph is not None else None
        if _differs(program, _with_code(program, assemble(outcome, graph, _no_table))):
            return f"`{program.__name__}` does something else when it is captured"
    return None


def _differentiation() -> str | None:
    """The gradients of a captured program, from its own forward and backward graphs, are autograd's."""
    program = programs.differentiable
    plain, mine = (torch.tensor(ARGUMENT, requires_grad=True) for _ in range(2))
    outcome = capture(_region(program), _values(program, mine), CaptureOptions())
    if isinstance(outcome, Refused) or outcome.graph is None:
        return f"`{program.__name__}` is not captured"
    pair = differentiate(outcome.graph.module, list(outcome.graph.example_inputs))
    expected, (found,) = program(plain), bridge(pair, pair.forward, pair.backward)(mine)
    expected.sum().backward()
    found.sum().backward()
    if plain.grad is None or mine.grad is None:
        return f"`{program.__name__}` has no gradients"
    if not torch.allclose(expected, found) or not torch.allclose(plain.grad, mine.grad):
        return f"`{program.__name__}` has other gradients than autograd's"
    return None


def _meta_kernels() -> str | None:
    """Sizes, strides and types without data are those with data, and torch's compiler is not imported for them."""
    imported = compiler_is_loaded()
    for name, operation in programs.OPERATIONS.items():
        real = operation(torch.zeros(2, 3, 8, 8))
        with without_compiler_imports():
            inferred = operation(torch.zeros(2, 3, 8, 8, device="meta"))
        if _facts(real) != _facts(inferred):
            return f"the meta kernel of `{name}` gives {_facts(inferred)}, the real one {_facts(real)}"
    return "meta kernels import torch._dynamo" if not imported and compiler_is_loaded() else None


CHECKS: dict[str, Callable[[], str | None]] = {
    "reading and writing bytecode": _bytecode,
    "capture": _capture,
    "meta kernels": _meta_kernels,
    "differentiation": _differentiation,
}


def _region(program: FunctionType) -> CodeRegion:
    return CodeRegion(program.__code__, program.__qualname__)


def _values(program: FunctionType, x: torch.Tensor) -> FrameValues:
    return FrameValues({"x": x}, program.__globals__, vars(builtins), {})


def _facts(tensor: torch.Tensor) -> tuple:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _with_code(function: FunctionType, code: Any) -> FunctionType:
    return FunctionType(code, function.__globals__, function.__name__)


def _differs(one: FunctionType, other: FunctionType) -> bool:
    return _outcome(one) != _outcome(other)


def _outcome(program: FunctionType) -> str:
    programs.log.clear()
    return repr((program(torch.tensor(ARGUMENT)), programs.log))


def _no_table(code: Any, region: Any) -> Any:
    raise ValueError("a program of the self-check breaks")
