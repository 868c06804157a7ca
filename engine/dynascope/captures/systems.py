"""The ways to capture a function: each takes (function, call) and gives something to call, the text of what it has, and notes.

LazyTensor is asked for too: where torch carries its backend no longer, the reason is said.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from dynascope.captures.calls import Call
from dynascope.dataclass import dataclass


@dataclass(frozen=True)
class Capture:
    """`run(*arguments, **keywords)`; `pieces` are the graphs, printed. A function in several pieces has Python between them."""

    run: Callable[..., Any]
    pieces: tuple[str, ...]
    notes: tuple[str, ...] = ()
    has_own_state: bool = False
    """`run` is a module with attributes of its own, not those of what was captured."""


class Missing(Exception):
    """torch has this way no longer, or not here."""


def by_trace(function: Callable, call: Call) -> Capture:
    tensors, rebuilt = _tensors_of(call)
    if isinstance(function, nn.Module) and not call.keywords and len(tensors) == len(call.arguments):
        traced = torch.jit.trace(function, call.arguments, check_trace=False)
    else:
        traced = torch.jit.trace(_of_tensors(function, rebuilt), tensors, check_trace=False)
    frozen = len(pytree.tree_leaves((call.arguments, call.keywords))) - len(tensors)
    words = "1 argument that is no tensor is a constant" if frozen == 1 else f"{frozen} arguments that are no tensors are constants"
    notes = (words,) if frozen else ()
    graph = traced.inlined_graph if isinstance(function, nn.Module) else traced.graph
    return Capture(lambda *a, **k: traced(*_tensors_of(Call(a, k))[0]), (str(graph),), notes)


def _of_tensors(function: Callable, rebuilt: Callable) -> Callable:
    """The call with its tensors as the only arguments; of a module it is one too, whose parameters are no constants."""

    def call(*given: torch.Tensor) -> Any:
        arguments, keywords = rebuilt(given)
        return function(*arguments, **keywords)

    if not isinstance(function, nn.Module):
        return call
    holder = nn.Module()
    holder.called = function
    holder.forward = call
    return holder


def by_script(function: Callable, call: Call) -> Capture:
    scripted = torch.jit.script(function)
    return Capture(scripted, (str(scripted.graph),), has_own_state=isinstance(function, nn.Module))


def by_fx(function: Callable, call: Call) -> Capture:
    module = torch.fx.symbolic_trace(function)
    return Capture(module, (module.code.strip(),))


def by_export(function: Callable, call: Call) -> Capture:
    module = function if isinstance(function, nn.Module) else _Holding(function)
    program = torch.export.export(module, call.arguments, call.keywords, strict=False)
    return Capture(program.module(), (program.graph_module.code.strip(),))


def by_lazy_tensors(function: Callable, call: Call) -> Capture:
    try:
        import torch._lazy.ts_backend

        torch._lazy.ts_backend.init()
    except Exception as error:
        raise Missing(f"this torch carries no backend for lazy tensors: {error}") from None
    import torch._lazy.metrics

    def run(*arguments: Any, **keywords: Any) -> Any:
        given: dict[int, tuple[torch.Tensor, torch.Tensor, int]] = {}
        lazily = functools.partial(_lazily, given)
        arguments, keywords = _with_tensors(arguments, lazily), _with_tensors(keywords, lazily)
        result = function(*arguments, **keywords)
        texts[:] = _lazy_text(result)
        for real, lazy, version in given.values():
            if lazy._version != version:
                real.data.copy_(lazy.detach().cpu())
        real_of = {id(lazy): real for real, lazy, _ in given.values()}
        return _with_tensors((result, arguments, keywords), lambda tensor: real_of.get(id(tensor), tensor.cpu()))[0]

    if isinstance(function, nn.Module):
        function.to("lazy")
    texts: list[str] = []
    copied = call.copied()
    run(*copied.arguments, **copied.keywords)
    return Capture(run, tuple(texts), ("noted anew at every call: operators wait until a value is read",))


def _lazily(given: dict[int, tuple[torch.Tensor, torch.Tensor, int]], tensor: torch.Tensor) -> torch.Tensor:
    """The lazy tensor of one that was given, the same each time."""
    if id(tensor) not in given:
        lazy = tensor.to("lazy")
        given[id(tensor)] = tensor, lazy, lazy._version
    return given[id(tensor)][1]


def _with_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Lists and dictionaries stay the objects that they are: what a function puts into one of its caller's is seen there."""

    def changed(each: Any) -> Any:
        if type(each) is list:
            each[:] = [_with_tensors(item, change) for item in each]
        elif type(each) is dict:
            each.update({key: _with_tensors(item, change) for key, item in each.items()})
        return change(each) if isinstance(each, torch.Tensor) else each

    return pytree.tree_map(changed, value, is_leaf=lambda each: type(each) in (list, dict))


def _lazy_text(result: Any) -> list[str]:
    waiting = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.device.type == "lazy"]
    return [torch._C._lazy._get_tensors_text(waiting).strip()] if waiting else []


def by_dynascope(function: Callable, call: Call) -> Capture:
    import dynascope

    copied = call.copied()
    with dynascope.expected(*_all_codes(), required=False):
        explanation = dynascope.explain(function)(*copied.arguments, **copied.keywords)
    reasons = [reason.message for reason in explanation.break_reasons]
    compiled = dynascope.compile(function)
    return Capture(compiled, tuple(graph.code.strip() for graph in explanation.graphs), tuple(dict.fromkeys(reasons)))


def _all_codes() -> list[str]:
    from dynascope.command.explain import codes

    return list(codes())


class _Holding(nn.Module):
    """torch.export takes modules only."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)


def _tensors_of(call: Call) -> tuple[tuple[torch.Tensor, ...], Callable[[tuple], Any]]:
    leaves, spec = pytree.tree_flatten((call.arguments, call.keywords))
    places = [at for at, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def rebuilt(given: tuple) -> Any:
        full = list(leaves)
        for at, value in zip(places, given, strict=True):
            full[at] = value
        return pytree.tree_unflatten(full, spec)

    return tuple(leaves[at] for at in places), rebuilt


def quietly(capture: Callable[[Callable, Call], Capture], function: Callable, call: Call) -> Capture:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return capture(function, call)


SYSTEMS: dict[str, Callable[[Callable, Call], Capture]] = {
    "torch.jit.trace": by_trace,
    "torch.jit.script": by_script,
    "torch.fx": by_fx,
    "torch.export": by_export,
    "LazyTensor": by_lazy_tensors,
    "dynascope": by_dynascope,
}
