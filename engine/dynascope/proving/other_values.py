"""What compiled functions give on other values than the program's: an edit may bring NaN where a branch goes the other way.

kept = FirstCalls()
kept.note(function, args, kwargs)      before each call: the first one's arguments are kept
kept.answers()                         ->  {"f of its first call, zeros": Answer(values, gradients)}
is_another(before, after)              whether the edited program's answer is another: other numbers, NaN where there was none, an error

Gradients are asked of every tensor of floats, also where the program takes none: `torch.where` differentiates both of its sides, and
zero times the infinite gradient of the side that was not chosen is NaN. A number that was taken out of a tensor led no gradient; the
tensor in its place does.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import pickle
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from dynascope.dataclass import dataclass

SECONDS = 5.0
"""For all answers of a program; a call that does not end (a loop until something converges) is left out."""
SECONDS_A_CALL = 2
FUNCTIONS_KEPT = 16
BYTES_KEPT = 64 * 1024 * 1024
SEED = 1
RELATIVE, OF_LARGEST = 1e-3, 1e-4
"""How far numbers may be apart: the order of sums is another, and what was a number of Python's is rounded to a tensor's type."""
TIES = "ties"
"""Where many numbers are equal, the gradient of the larger of two is eager's choice, and nobody's result: that it is finite is asked."""
WITH_TIES = frozenset({"zeros", "zero at the front"})
DRAWS = "draws"
"""What draws numbers of Python's or NumPy's may draw others when it is edited: only that what comes of it is finite is asked."""
Answer = dict[str, list[torch.Tensor | None]]
Change = Callable[[torch.Tensor], torch.Tensor]


def _of_floats(change: Change) -> Change:
    return lambda tensor: change(tensor) if tensor.is_floating_point() else tensor


def _first_is(number: float) -> Change:
    def changed(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.clone()
        tensor.view(-1)[:1] = number
        return tensor

    return _of_floats(changed)


def _of_truths(change: Change) -> Change:
    return lambda tensor: change(tensor) if tensor.dtype == torch.bool else tensor


CHANGES: dict[str, Change] = {
    "its own values": lambda tensor: tensor,
    "zeros": _of_floats(torch.zeros_like),
    "other signs": _of_floats(torch.neg),
    "100 times its values": _of_floats(lambda tensor: tensor * 100),
    "a hundredth of its values": _of_floats(lambda tensor: tensor / 100),
    "zero at the front": _first_is(0.0),
    "masks that keep nothing": _of_truths(torch.zeros_like),
    "masks that keep all": _of_truths(torch.ones_like),
    "infinity at the front": _first_is(float("inf")),
    "NaN at the front": _first_is(float("nan")),
}
"""What is not a number comes last: state of the program's that it gets into stays so."""


@dataclass(frozen=True, slots=True)
class _Call:
    function: Callable
    name: str
    arguments: tuple
    keywords: dict[str, Any]
    is_differentiated: bool


class FirstCalls:
    """Of each function the arguments of its first call, as they were before it."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._bytes = 0
        self.is_over = False
        self._process = os.getpid()

    def note(self, function: Callable, arguments: tuple, keywords: dict[str, Any]) -> None:
        if self.is_over or id(function) in self._calls or len(self._calls) >= FUNCTIONS_KEPT or os.getpid() != self._process:
            return
        tensors = [leaf for leaf in pytree.tree_leaves((arguments, keywords)) if _is_plain(leaf)]
        self._bytes += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        if self._bytes > BYTES_KEPT or not tensors:
            return
        arguments, keywords = pytree.tree_map(_copied, (arguments, keywords))
        name = f"{getattr(function, '__name__', type(function).__name__)} {len(self._calls)}"
        self._calls[id(function)] = _Call(function, name, arguments, keywords, torch.is_grad_enabled())

    def answers(self) -> dict[str, Answer]:
        """To be asked when the program is over: what a call prints, raises or changes is nobody's any more."""
        self.is_over = True
        found: dict[str, Answer] = {}
        deadline = time.monotonic() + SECONDS
        for call in self._calls.values():
            for what, change in CHANGES.items():
                if time.monotonic() > deadline:
                    return found
                found |= _answers(call, what, change)
        return found


def is_another(before: Answer, after: Answer) -> bool:
    """What raised, or was not finite before, proves nothing; nor does what took too long."""
    if "values" not in before or "too long" in after or not all(map(_is_finite, (*before["values"], *before["gradients"]))):
        return False
    if "values" not in after or len(before["values"]) != len(after["values"]):
        return True
    if DRAWS in before:
        return not all(map(_is_finite, (*after["values"], *after["gradients"])))
    gradients = [*zip(before["gradients"], after["gradients"], strict=False)]
    if TIES in before:
        return not (all(map(_is_finite, after["gradients"])) and _are_close(zip(before["values"], after["values"], strict=True)))
    return not _are_close([*zip(before["values"], after["values"], strict=True), *gradients])


def _are_close(pairs: Iterable[tuple[torch.Tensor | None, torch.Tensor | None]]) -> bool:
    return all(_is_close(*pair) for pair in pairs)


def _is_close(before: torch.Tensor | None, after: torch.Tensor | None) -> bool:
    """No gradient is one of zeros."""
    if before is None:
        return after is None or _is_close(torch.zeros_like(after), after)
    if after is None:
        after = torch.zeros_like(before)
    if before.shape != after.shape or not _is_finite(after):
        return False
    if before.dtype == torch.bool or not before.numel():
        return torch.equal(before, after)
    before, after = (each.to(torch.complex128 if each.is_complex() else torch.float64) for each in (before, after))
    return torch.allclose(before, after, rtol=RELATIVE, atol=OF_LARGEST * float(before.abs().max()))


def _answers(call: _Call, what: str, change: Change) -> dict[str, Answer]:
    found = {f"{call.name} of its first call, {what}": _answer(call, change, False)}
    if call.is_differentiated:
        differentiated = _answer(call, change, True) | ({TIES: []} if what in WITH_TIES else {})
        found[f"{call.name} of its first call, {what}, differentiated"] = differentiated
    return found


def _answer(call: _Call, change: Change, is_differentiated: bool) -> Answer:
    leaves: list[torch.Tensor] = []
    with _as_it_was(call), _limited():
        try:
            arguments, keywords = pytree.tree_map(
                lambda leaf: _given(leaf, change, is_differentiated, leaves), (call.arguments, call.keywords)
            )
            torch.manual_seed(SEED)
            drawn = _drawn_in_python()
            with torch.set_grad_enabled(call.is_differentiated):
                answer = _asked(call.function, arguments, keywords, leaves)
            return answer if _drawn_in_python() == drawn else answer | {DRAWS: []}
        except _TooLong:
            return {"too long": []}
        except BaseException:
            return {"error": []}


def _drawn_in_python() -> tuple[Any, bytes]:
    numpy = sys.modules.get("numpy")
    return random.getstate(), pickle.dumps(numpy.random.get_state()) if numpy is not None else b""


def _asked(function: Callable, arguments: tuple, keywords: dict[str, Any], leaves: list[torch.Tensor]) -> Answer:
    if leaves:
        leaves = [*leaves, *_weights(function)]
    result = function(*arguments, **keywords)
    values = [leaf for leaf in pytree.tree_leaves(result) if _is_plain(leaf)]
    ends = [value for value in values if value.requires_grad and value.is_floating_point()]
    gradients: list[torch.Tensor | None] = [None] * len(leaves)
    if leaves and ends:
        gradients = list(torch.autograd.grad([value.sum() for value in ends], leaves, allow_unused=True))
    copied = [None if tensor is None else tensor.detach().cpu().clone() for tensor in (*values, *gradients)]
    return {"values": copied[: len(values)], "gradients": copied[len(values) :]}


def _weights(function: Callable) -> list[torch.Tensor]:
    """What a module, or a function with those that it names, is differentiated by beside its arguments."""
    named: list[Any] = [function]
    if not isinstance(function, torch.nn.Module):
        with contextlib.suppress(TypeError, ValueError):
            found = inspect.getclosurevars(function)
            named = [*found.nonlocals.values(), *found.globals.values()]
    modules = [each for each in named if isinstance(each, torch.nn.Module)]
    weights: list[torch.Tensor] = [weight for module in modules for weight in module.parameters() if weight.requires_grad]
    weights += [each for each in named if _is_plain(each) and each.is_leaf and each.requires_grad]
    return list({id(weight): weight for weight in weights}.values())


def _given(leaf: Any, change: Change, is_differentiated: bool, leaves: list[torch.Tensor]) -> Any:
    if not _is_plain(leaf):
        return leaf
    made = change(leaf.detach()).clone()
    if not is_differentiated or not made.is_floating_point():
        return made
    leaves.append(made.requires_grad_())
    # Not a leaf itself: the function may write to it.
    return made * 1


def _copied(leaf: Any) -> Any:
    return leaf.detach().clone() if _is_plain(leaf) else leaf


def _is_plain(leaf: Any) -> bool:
    return type(leaf) in (torch.Tensor, torch.nn.Parameter) and leaf.layout == torch.strided


@contextlib.contextmanager
def _as_it_was(call: _Call) -> Iterator[None]:
    """Parameters, buffers and plain attributes of the module keep their values, so that one question says nothing to the next."""
    if not isinstance(call.function, torch.nn.Module):
        yield
        return
    tensors = [*call.function.parameters(), *call.function.buffers()]
    kept = [tensor.detach().clone() for tensor in tensors]
    plain = [(vars(module), _plain_of(vars(module))) for module in call.function.modules()]
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, value in zip(tensors, kept, strict=True):
                if tensor.shape == value.shape:
                    tensor.copy_(value)
        for attributes, values in plain:
            attributes.update(values)


def _plain_of(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if type(value) in (bool, int, float, str, type(None))}


class _TooLong(BaseException):
    pass


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def over(number: int, frame: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, over)
    signal.alarm(SECONDS_A_CALL)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _is_finite(tensor: torch.Tensor | None) -> bool:
    return tensor is None or bool(tensor.isfinite().all())
