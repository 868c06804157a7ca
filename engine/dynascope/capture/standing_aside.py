"""When a call runs as it was written, with nothing captured and nothing given up: the next one may be compiled again.

    reason_to_stand_aside()      None, or why this is no moment to capture
    hooks_of_the_program()       None, or why a region that was compiled runs as it was written

A dispatch or function mode sees every operation of the program; a tracer wants the program's operations and not ours; a
transform computes with other rules. Compilation would run inside them, and be counted, traced or transformed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import FunctionType, MethodType

import torch
from torch.autograd import forward_ad
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

from dynascope.capture import tensor_protocol
from dynascope.capture.reasons import GlobalStateUnsupported
from dynascope.report.reason import Reason


def reason_to_stand_aside() -> Reason | None:
    for find in RULES:
        state = find()
        if state is not None:
            return GlobalStateUnsupported(state)
    return None


def hooks_of_the_program(changes: bool = False) -> Reason | None:
    """Why a region that keeps tensors for its backward pass stands aside: hooks of the program's own are told of each, and kernels keep
    fewer than eager does. What torch's hooks (of checkpoint, of `save_on_cpu`) do shows in nothing but where tensors lie and when they
    are computed, and in what the region `changes` outside: checkpoint's second run ends in the middle of it."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    if hooks is None:
        return None
    if not all(map(_is_of_torch, hooks)):
        return GlobalStateUnsupported("a hook on saved tensors")
    if changes and any(_module(hook) == "torch.utils.checkpoint" for hook in hooks):
        return GlobalStateUnsupported("a checkpoint", ENDS_EARLY)
    return None


ENDS_EARLY = "ends its second run with the last tensor that it keeps: what the function changes outside after its graph would stay as it is"


def _hooks_on_saved_tensors() -> str | None:
    """They are the program's own code, which runs at each operation that autograd records, be its result used or not."""
    return "a hook on saved tensors" if torch.is_grad_enabled() and hooks_of_the_program() is not None else None


def _is_of_torch(hook: object) -> bool:
    """Whether it was defined by torch: not `torch.clone`, nor `torch.Tensor.half`, which change what is kept."""
    return _module(hook).partition(".")[0] == "torch"


def _module(hook: object) -> str:
    """Where a function of Python's was defined; empty for others."""
    hook = hook.__func__ if isinstance(hook, MethodType) else hook
    return hook.__globals__.get("__name__") or "" if isinstance(hook, FunctionType) else ""


def names_of_modes() -> tuple[str, ...]:
    """Of the program's function modes that are on."""
    if torch._C._len_torch_function_stack() == 0:
        return ()
    stack = _get_current_function_mode_stack()
    return tuple(type(mode).__name__ for mode in stack if not isinstance(mode, DeviceContext))


def modes_among(names: Collection[str]) -> Reason | None:
    """Why a call stands aside of which the operations cannot be read under one of these modes."""
    found = next((name for name in names_of_modes() if name in names), None) if names else None
    return None if found is None else GlobalStateUnsupported(f"the function mode {found}")


def _dispatch_mode() -> str | None:
    count = torch._C._len_torch_dispatch_stack()
    if count == 0:
        return None
    try:
        return f"the dispatch mode {type(torch._C._get_dispatch_stack_at(count - 1)).__name__}"
    except RuntimeError:
        # torch's own modes, such as that of fake tensors, lie in a table of their own.
        return "a dispatch mode"


def _function_mode() -> str | None:
    """The default device is a function mode that capture knows, and the program's own are read. Not both at once: which of them
    is told first matters then."""
    others = names_of_modes()
    return f"the function mode {others[-1]}" if others and len(others) < torch._C._len_torch_function_stack() else None


def _transform() -> str | None:
    active = torch._C._functorch.peek_interpreter_stack()
    return None if active is None else f"the transform {str(active.key()).rpartition('.')[2].lower()} of torch.func"


def _forward_derivatives() -> str | None:
    """A tensor may have a tangent beside it, which nothing else about it tells."""
    return "forward-mode differentiation (a dual level)" if forward_ad._current_level >= 0 else None


def _tracer() -> str | None:
    if torch._C._get_tracing_state() is not None:
        return "torch.jit.trace"
    if torch.compiler.is_compiling():
        return "torch.compile"
    return "a tracer of torch.fx" if is_fx_symbolic_tracing() else None


def _replaced_operator() -> str | None:
    name = tensor_protocol.replaced()
    return None if name is None else f"a `{name}` of the program's own"


def _anomalies() -> str | None:
    """Each operation's gradient is to be looked at for NaN, and the operation named that made one."""
    return "torch.autograd.detect_anomaly" if torch.is_anomaly_enabled() else None


RULES: tuple[Callable[[], str | None], ...] = (
    _dispatch_mode,
    _function_mode,
    _transform,
    _forward_derivatives,
    _tracer,
    _anomalies,
    _hooks_on_saved_tensors,
    _replaced_operator,
)
