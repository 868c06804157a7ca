"""Changes in place between a region's call and its backward pass, where eager raises for them.

    y = region(x); y.add_(1); y.sum().backward()       y = exp(x): eager keeps y, and says that it was changed

Autograd counts the changes of what a compiled region saves. What eager would save besides is watched: by weak references, so
that nothing lives longer. The errors name autograd's functions as eager's do.
"""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import torch

from dynascope.grad.inputs import InputFacts
from dynascope.grad.pair import Computed, GradPair, InputItself, Overwritten, PartialBackward, Watched
from dynascope.grad.tape import numbers_at

Check = Callable[[torch.Tensor], None]
"""Raises eager's error if the tensor was changed in place since."""

Reads = frozenset[Computed | InputItself] | None
"""What a backward pass reads of the inputs and results; None for all."""

REGION = "Region"
"""The name of a region's own node in torch's errors."""


def check_of(watched: tuple[Watched, ...], reads: Reads = None) -> Callable[[Any], None]:
    """`check(ctx.watched)`: raises eager's error if one of (weak reference, version) was changed since, of those that are read."""

    def check(seen: tuple[tuple[Any, int], ...]) -> None:
        for position, (reference, version) in enumerate(seen):
            tensor = reference()
            is_read = reads is None or watched[position].origin in reads
            if is_read and tensor is not None and tensor._version != version:
                each = watched[position]
                is_given = isinstance(each.origin, InputItself) and not each.is_written
                place = _own_place(tensor) if is_given else _place(each.number, each.function)
                raise RuntimeError(_message(tensor, version, place))

    return check


def of_view(view: torch.Tensor) -> Callable[[], torch.Tensor | None]:
    """A weak reference to what counts the writes that `view` counts: `x[:1]`, handed over, is gone when `x` is written."""
    own, whole = weakref.ref(view), weakref.ref(view._base)

    def now() -> torch.Tensor | None:
        found = own()
        return whole() if found is None else found

    return now


def change_of(pair: GradPair, ctx: Any, position: int, tensor: torch.Tensor) -> Check:
    """The check of a saved tensor, unpacked just now, that is kept for a later pass."""
    tensors = [at for at, saved in enumerate(pair.saved) if saved.layout is not None]
    earlier = getattr(ctx, "unchecked", {}).get(tensors.index(position))
    error = renamed(earlier.error, pair, ctx) if earlier is not None else None
    version, origin, place = tensor._version, pair.saved[position].origin, ""
    if isinstance(origin, Computed):
        known = (_place(number, function) for output, function, number in pair.kept_outputs if output == origin.index)
        place = next(known, "")
    else:
        place = _own_place(tensor)

    def check(now: torch.Tensor) -> None:
        if earlier is not None and earlier.is_meant:
            raise error
        if now._version != version:
            raise RuntimeError(_message(now, version, place))

    return check


def _own_place(tensor: torch.Tensor) -> str:
    function = tensor.grad_fn
    return "" if function is None else _place(tensor.output_nr, type(function).name(function))


def _place(number: int, function: str) -> str:
    return f", which is output {number} of {_spoken(function)}," if function else ""


def overwritten_error(overwritten: Overwritten, numbers: Mapping[str, Any], pair: GradPair, ctx: Any) -> RuntimeError:
    """Eager's error, of what the region itself wrote to when autograd had kept it. `numbers` are those that sizes are written in."""
    inputs = [mutation.input for mutation in pair.mutations]
    came = ctx.came[inputs.index(overwritten.input)] if overwritten.input in inputs else 0
    layout = overwritten.layout
    kind = f"{torch.empty(0, dtype=layout.dtype, device=layout.device).type()} {list(numbers_at(layout.sizes, numbers))}"
    place = _place(overwritten.number, overwritten.function)
    return RuntimeError(_changed(kind, place, came + overwritten.now, came + overwritten.kept))


def first_read(overwritten: tuple[Overwritten, ...], pair: GradPair, ctx: Any) -> Overwritten | None:
    """The first that the pass that runs reads in eager: a function is entered where it leads to what gradients are asked for."""
    if not overwritten:
        return None
    entered = _inputs_entered(pair, ctx)
    return next((each for each in overwritten if each.leads_to & entered), None)


def _inputs_entered(pair: GradPair, ctx: Any) -> frozenset[int]:
    """The inputs whose own histories the pass enters, or whose gradients it is asked for."""
    functions = functions_of_inputs(pair, ctx)
    return frozenset(i for i, (node, _) in functions.items() if node is not None and _is_entered(node))


def functions_of_inputs(pair: GradPair, ctx: Any) -> dict[int, tuple[Any, int]]:
    """Of each input the function of autograd's that gave it, and which of its results it is."""
    facts = pair.program.inputs if pair.program is not None else ()
    hidden = without_way(pair)
    given = (i for i, each in enumerate(facts) if isinstance(each, InputFacts) and i not in hidden)
    return dict(zip(given, ctx.next_functions, strict=True))


def _is_entered(node: Any) -> bool:
    """Of a leaf that is asked for itself autograd raises an error instead, and where no pass runs, but the region's node is called."""
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:
        return True


def without_way(pair: GradPair) -> frozenset[int]:
    """Inputs with a history that no result has: autograd is given them in a tuple, which it does not look into. What they come from
    would be entered in each backward pass otherwise, without a gradient: functions raise there, or free what they keep."""
    facts = pair.program.inputs if pair.program is not None else ()
    return frozenset(
        i
        for i, given in enumerate(facts)
        if isinstance(given, InputFacts) and given.requires_grad and i not in pair.reached
    )


def _message(tensor: torch.Tensor, version: int, place: str) -> str:
    return _changed(f"{tensor.type()} {list(tensor.shape)}", place, tensor._version, version)


def _changed(kind: str, place: str, now: int, version: int) -> str:
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{kind}]{place} is at version {now}; expected version {version} instead. Hint: enable anomaly "
        "detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True, check_nan=False)."
    )


def saved_values(pair: GradPair, ctx: Any) -> list[Any]:
    """The values saved, in the backward graph's order. Raises eager's error where they were freed or changed."""
    check_of(pair.watched)(getattr(ctx, "watched", ()))
    return _unpacked(pair, ctx)


def saved_values_of(pair: GradPair, ctx: Any, partial: PartialBackward) -> list[Any]:
    """The values saved, for a pass that may not read them all: what it does not read may have been changed."""
    if partial.reads is None:
        return saved_values(pair, ctx)
    check_of(pair.watched, partial.reads)(getattr(ctx, "watched", ()))
    with suppress(RuntimeError):
        return _unpacked(pair, ctx)
    return _unpacked_but_unread(pair, ctx, partial)


def _unpacked_but_unread(pair: GradPair, ctx: Any, partial: PartialBackward) -> list[Any]:
    """Autograd gives what it kept all at once or not at all: hooks on what was changed and is not read take its check's place."""
    places = [node for node in partial.graph.graph.nodes if node.op == "placeholder"]
    kept = [pair for pair in zip(pair.saved, places, strict=False) if pair[0].layout is not None]
    unread = [not place.users and saved.origin not in (partial.reads or ()) for saved, place in kept]
    unchecked = ctx.__dict__.setdefault("unchecked", {})
    for position, each in unchecked.items():
        each.is_open = unread[position]
    try:
        for position, tensor in enumerate(ctx._raw_saved_tensors):
            if not unread[position] or position in unchecked:
                continue
            try:
                ctx.saved_tensors  # noqa: B018 (autograd looks at versions)
                break
            except RuntimeError as found:
                hook = _Unchecked(found, kept[position][0].origin)
            with suppress(RuntimeError):  # hooks of the program's own are on it: its version is not looked at
                tensor.register_hooks(hook.keep, hook.give)
                unchecked[position] = hook
        return _unpacked(pair, ctx)
    finally:
        for each in unchecked.values():
            each.is_open = False


class _Unchecked:
    """Gives a kept tensor to a backward pass that does not read it though it may have been changed. For others `error` stays,
    if it is about such a tensor: which of the inputs it is, autograd does not say."""

    def __init__(self, error: RuntimeError, origin: Computed | InputItself) -> None:
        self.error, self.is_open = error, True
        self.is_meant = isinstance(origin, InputItself) or f"output {origin.index} of {REGION}" in str(error)

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        self.is_meant &= f"[{tensor.type()} {list(tensor.shape)}]" in str(self.error)
        return tensor

    def give(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.is_meant and not self.is_open:
            raise self.error
        return tensor


def _unpacked(pair: GradPair, ctx: Any) -> list[Any]:
    try:
        kept, error = ctx.saved_tensors, None
    except RuntimeError as found:
        kept, error = (), renamed(found, pair, ctx)
    if error is not None:
        try:
            raise error  # out of the handler: eager's error has no other as its context
        finally:
            del error  # its traceback holds this frame
    tensors, numbers = iter(kept), iter(getattr(ctx, "numbers", ()))
    return [next(numbers if saved.layout is None else tensors) for saved in pair.saved]


def renamed(error: RuntimeError, pair: GradPair, ctx: Any) -> RuntimeError:
    """The error, with autograd's functions in the place of the region, and of those that its inputs come from."""
    text = str(error)
    saved = {saved.origin.index for saved in pair.saved if isinstance(saved.origin, Computed)}
    own = (each for each in pair.kept_outputs if each[0] in saved)  # a result of another region may have the same number
    came = ((getattr(getattr(node, "_forward_cls", None), "functions", ()), at) for node, at in ctx.next_functions)
    others = (each for functions, at in came for each in functions if each[0] == at)
    region = _spoken(f"{REGION}Backward")
    for output, function, number in itertools.chain(own, others):
        text = text.replace(f"output {output} of {region},", f"output {number} of {_spoken(function)},")
    return RuntimeError(text).with_traceback(error.__traceback__)


def _spoken(function: str) -> str:
    """How such errors name autograd's function: `ExpBackward0` and `KeptBackward` in torch 2.11, `Exp` and `Kept` in later ones."""
    return function if _says_whole_names() else re.sub(r"Backward0?(?=\d*$)", "", function)


@cache
def _says_whole_names() -> bool:
    with torch.enable_grad():
        result = torch.ones((), requires_grad=True).exp()
    with torch.no_grad():
        result.add_(1)
    try:
        result.backward()
    except RuntimeError as error:
        return "ExpBackward0" in str(error)
    return False
