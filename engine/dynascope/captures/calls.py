"""A call, and calls like it that may take another path.

    call = Call((x,), {"scale": 2})
    others(call)      with -x, zeros, x of another size, scale 3, ...
    observed(f, call) what eager does: results, what it prints, arguments afterwards, the lines that ran
"""

from __future__ import annotations

import contextlib
import copy
import io
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from types import CodeType, FrameType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from dynascope.captures.surroundings import Surroundings, same_numbers
from dynascope.dataclass import dataclass
from dynascope.report.printed import same_words


@dataclass(frozen=True)
class Call:
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)
    what: str = "the first call"
    times: int = 1
    """How often it is made, on the same arguments: where a call leaves something behind, the next one finds it."""

    def copied(self) -> Call:
        """Its own tensors and containers, so that nobody sees what another run wrote to them."""
        memory: dict[int, Any] = {}
        arguments, keywords = pytree.tree_map(lambda leaf: _copied(leaf, memory), (self.arguments, self.keywords))
        return replace(self, arguments=arguments, keywords=keywords)


def _copied(leaf: Any, memory: dict[int, Any]) -> Any:
    if isinstance(leaf, torch.Tensor):
        if id(leaf) not in memory:
            memory[id(leaf)] = leaf.detach().clone().requires_grad_(leaf.requires_grad)
        return memory[id(leaf)]
    try:
        return copy.deepcopy(leaf, memory)
    except Exception:
        return leaf  # no copy of it can be made: it is the program's own


def others(call: Call) -> Iterator[Call]:
    """In an order in which a person would try them."""
    yield _changed(call, "the signs of its tensors changed", lambda t: -t if _is_signed(t) else t)
    yield _changed(call, "its tensors are zero", torch.zeros_like)
    yield _changed(call, "its tensors are 100 times as large", lambda t: t * 100 if _is_signed(t) else t)
    sizes = {t.shape[0] for t in _tensors(call) if t.dim()}
    for size in sorted(sizes):
        yield _changed(call, f"{size + 1} rows instead of {size}", lambda t, size=size: _longer(t, size))
    leaves, spec = pytree.tree_flatten((call.arguments, call.keywords))
    for at, leaf in enumerate(leaves):
        changed = {bool: lambda v: not v, int: lambda v: v + 1, float: lambda v: v + 1.0}.get(type(leaf))
        if changed is not None:
            other = changed(leaf)
            arguments, keywords = pytree.tree_unflatten([*leaves[:at], other, *leaves[at + 1 :]], spec)
            yield Call(arguments, keywords, f"{other!r} instead of {leaf!r}")


def _is_signed(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _tensors(call: Call) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves((call.arguments, call.keywords)) if isinstance(leaf, torch.Tensor)]


def _longer(tensor: torch.Tensor, size: int) -> torch.Tensor:
    is_meant = tensor.dim() and tensor.shape[0] == size
    return torch.cat([tensor, tensor[-1:]]) if is_meant else tensor


def _changed(call: Call, what: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return change(value.detach()).clone().requires_grad_(value.requires_grad)

    arguments, keywords = pytree.tree_map(leaf, (call.arguments, call.keywords))
    return Call(arguments, keywords, what)


@dataclass(frozen=True)
class Observed:
    """`error` in place of a result. `lines` are those of the function itself that ran."""

    result: Any = None
    printed: str = ""
    after: Any = None
    error: BaseException | None = None
    lines: tuple[int, ...] = ()
    changed: frozenset[str] = frozenset()
    """Names of what is outside of it, and of the module's attributes."""


def observed(function: Callable, call: Call, code: CodeType | None = None, outside: Surroundings | None = None) -> Observed:
    """`outside` is as it was before, when the call is over."""
    outside = outside or Surroundings()
    before = outside.contents()
    try:
        seen = _observed(function, call, code)
        return replace(seen, changed=outside.changed(before, outside.contents()))
    finally:
        outside.restore(before)


def _observed(function: Callable, call: Call, code: CodeType | None) -> Observed:
    call, lines = call.copied(), set()
    output = io.StringIO()

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is code:
            lines.add(frame.f_lineno)
        return trace

    try:
        with contextlib.redirect_stdout(output), same_numbers():
            if code is not None:
                sys.settrace(trace)
            try:
                results = [function(*call.arguments, **call.keywords) for _ in range(call.times)]
            finally:
                sys.settrace(None)
    except Exception as error:
        return Observed(error=error, printed=output.getvalue(), lines=tuple(sorted(lines)))
    result = results[0] if call.times == 1 else results
    return Observed(result, output.getvalue(), (call.arguments, call.keywords), None, tuple(sorted(lines)))


def difference(found: Observed, expected: Observed) -> str | None:
    """All in which the first differs from what eager does, in a few words; None where it does not. Errors are words of their own."""
    if expected.error is not None:
        if found.error is None:
            return f"gives a result where eager raises {type(expected.error).__name__}"
        return None
    if found.error is not None:
        return None
    return ", ".join(_differences(found, expected)) or None


def _differences(found: Observed, expected: Observed) -> Iterator[str]:
    if not _same(found.result, expected.result):
        yield _how(found.result, expected.result)
    if not same_words(found.printed, expected.printed):
        yield "does not print what eager prints" if not found.printed else "prints other words"
    if not _same(found.after, expected.after):
        yield "does not change its arguments as eager does"
    if missed := sorted(expected.changed - found.changed):
        yield f"does not change {' and '.join(f'`{each}`' for each in missed[:2])}{' and more' * (len(missed) > 2)}, which eager does"


def _same(a: Any, b: Any) -> bool:
    leaves_a, leaves_b = pytree.tree_leaves(a), pytree.tree_leaves(b)
    if len(leaves_a) != len(leaves_b):
        return False
    return all(_same_leaf(x, y) for x, y in zip(leaves_a, leaves_b, strict=True))


def _same_leaf(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        return torch.allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return False
    if type(a) is float and type(b) is float:
        # It may have been taken out of a tensor.
        return math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5) or (a != a and b != b)
    numbers = (int, float, bool, str, bytes, type(None))
    return a == b if isinstance(a, numbers) and isinstance(b, numbers) else type(a) is type(b)


def _how(a: Any, b: Any) -> str:
    for x, y in zip(pytree.tree_leaves(a), pytree.tree_leaves(b), strict=False):
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor):
            if x.shape != y.shape:
                return f"gives sizes {list(x.shape)}, eager {list(y.shape)}"
            if x.dtype != y.dtype:
                return f"gives {x.dtype}, eager {y.dtype}"
            if not _same_leaf(x, y):
                return f"gives other values: up to {float((x.detach().double() - y.detach().double()).abs().max()):.3g} apart"
        elif type(x) is float and type(y) is float and not _same_leaf(x, y):
            return f"gives {x:.6g}, eager {y:.6g}"
    return "gives another result"
