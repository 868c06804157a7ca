"""What the functions that a program asks to compile give when they run uncompiled, call by call, and whether two runs agree.

log = listen()                    torch.compile(f) is f from now on, and every call of it is noted
log.save(path)
compared(path, other)             ->  Comparison(calls=2, difference=0.0, why="")
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from dynascope.dataclass import dataclass
from dynascope.meta_kernels.type_names import type_of
from dynascope.proving.left_behind import differing, is_own_object, left_behind
from dynascope.proving.other_values import FirstCalls, is_another

CALLS_KEPT = 500
BYTES_KEPT = 256 * 1024 * 1024
PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Comparison:
    """`difference` is the largest between two elements, by their size; `why` says how the results differ, if they do."""

    calls: int
    difference: float = 0.0
    why: str = ""
    kept: tuple[str, ...] = ()
    """What the two runs leave behind and what differs of it (in the program's names, containers and objects, and in its modules), and calls
    with other values that only the first answers with what is finite."""


class Log:
    """The tensors and plain values that came out of each call, or were in its arguments when it was over."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.calls: list[list[Any]] = []
        self.results: list[int] = []
        """How many of a call's values it gave; those of its arguments follow."""
        self.covered: list[list[bool]] = []
        self.left_out = 0
        self._bytes = 0
        self._leaves: dict[int, torch.Tensor] = {}
        self._modules: dict[int, torch.nn.Module] = {}
        self._objects: dict[int, object] = {}
        self._functions: dict[str, types.FunctionType] = {}
        self.first_calls = FirstCalls()

    def add(self, result: Any, arguments: tuple, keywords: dict) -> None:
        if os.getpid() != self.process or self.first_calls.is_over:
            return
        if len(self.calls) >= CALLS_KEPT or self._bytes > BYTES_KEPT:
            self.left_out += 1
            return
        results = pytree.tree_leaves(result)
        # A number or a text that was given cannot have changed.
        given = pytree.tree_leaves([each for each in (*arguments, *keywords.values()) if not isinstance(each, PLAIN)])
        values = [*results, *given]
        for value in values:
            if isinstance(value, torch.Tensor) and value.is_leaf and value.requires_grad:
                self._leaves[id(value)] = value
        self.calls.append([self._kept(value) for value in values])
        self.results.append(len(results))
        covered = [any(_covers(other, each) for other in given[:number]) for number, each in enumerate(given)]
        self.covered.append([*(False for _ in results), *covered])

    def watch(self, module: torch.nn.Module) -> None:
        self._modules.update((id(each), each) for each in module.modules())
        self._leaves.update((id(parameter), parameter) for parameter in module.parameters())

    def meet(self, function: Any, given: tuple) -> None:
        """What a compiled function is called with, or holds in its closure, is where it may leave something."""
        if isinstance(function, types.FunctionType):
            self._functions.setdefault(function.__qualname__, function)
        for value in given:
            if isinstance(value, torch.nn.Module):
                self._modules.update((id(each), each) for each in value.modules())
            elif is_own_object(value):
                self._objects[id(value)] = value

    def save(self, path: Path) -> None:
        gradients = [None if leaf.grad is None else self._kept(leaf.grad) for leaf in self._leaves.values()]
        saved = {"calls": self.calls, "results": self.results, "covered": self.covered, "gradients": gradients}
        saved["left_out"] = self.left_out
        saved["kept"] = left_behind(self._modules.values(), self._objects.values(), self._functions.values())
        # Last, because what these calls do is not the program's.
        saved["answers"] = self.first_calls.answers()
        torch.save(saved, path)

    def _kept(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor) and type(value) in (torch.Tensor, torch.nn.Parameter):
            # Whether a gradient leads through it is part of the result, also where the program takes none.
            copy = value.detach().cpu().clone().requires_grad_(value.requires_grad)
            self._bytes += copy.numel() * copy.element_size()
            return copy
        return _told(value)


def _told(value: Any) -> tuple[str, Any]:
    """The name of its class, and what it is as a plain value or tensor: nothing else is read back from a file. Of other objects the class
    says all, because their words may hold an address."""
    kind = type(value).__name__
    if kind in ("ndarray", "generic") or any(base.__module__ == "numpy" for base in type(value).__mro__):
        with contextlib.suppress(TypeError, ValueError):
            return f"{kind} {getattr(value, 'dtype', '')}", torch.from_numpy(sys.modules["numpy"].array(value))
        return kind, None
    base: Any = next((each for each in PLAIN if isinstance(value, each)), None)
    if base is None:
        return kind, None
    return kind, value if type(value) is base else base(value)


def listen(parts: Collection[str] = ()) -> Log:
    """Take the place of `torch.compile` and its like: what they are given runs as it was written. Of functions named in `parts` the calls
    are nobody's: they are a part of another's."""
    import dynascope

    log = Log()

    def uncompiled(target: Any = None, *others: Any, disable: bool = False, **settings: Any) -> Any:
        if target is None:
            return lambda function: uncompiled(function, disable=disable)
        is_part = getattr(target, "__qualname__", "").replace("<locals>.", "") in parts
        return target if disable or is_part else _listened(target, log)

    torch.compile = torch.compiler.compile = dynascope.compile = uncompiled
    torch.compiler.disable = lambda fn=None, *others, **settings: (lambda given: given) if fn is None else fn
    torch.nn.Module.compile = lambda self, *others, **settings: _listened(self, log) and None
    return log


def _listened(target: Any, log: Log) -> Any:
    if isinstance(target, torch.nn.Module):
        log.watch(target)
        target.register_forward_pre_hook(lambda _, args, kwargs: log.first_calls.note(target, args, kwargs), with_kwargs=True)
        target.register_forward_hook(lambda _, args, kwargs, result: log.add(result, args, kwargs), with_kwargs=True)
        return target
    if not callable(target):
        return target

    # A method is the function with its object, as it is where its class has it compiled.
    function, first = (target.__func__, (target.__self__,)) if isinstance(target, types.MethodType) else (target, ())

    @functools.wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = (*first, *args)
        log.meet(function, (*args, *kwargs.values()))
        log.first_calls.note(function, args, kwargs)
        result = function(*args, **kwargs)
        log.add(result, args, kwargs)
        return result

    return call


def compared(first: Path, second: Path) -> Comparison:
    before, after = (torch.load(path, weights_only=True) for path in (first, second))
    if len(before["calls"]) != len(after["calls"]) or before["left_out"] != after["left_out"]:
        return Comparison(0, why="the compiled functions are called another number of times")
    pairs = [*zip(before["calls"], after["calls"], strict=True), (before["gradients"], after["gradients"])]
    # What an argument shares with an earlier one is looked at there: a copy in its place is nobody's else.
    shared = [*before["covered"], [False] * len(before["gradients"])]
    largest = 0.0
    for number, (was, now) in enumerate(pairs, start=1):
        what = f"call {number}" if number < len(pairs) else "the gradients"
        if number < len(pairs) and before["results"][number - 1] == after["results"][number - 1]:
            # An argument that the edit passes besides stands last.
            now = now[: len(was)]
        if len(was) != len(now):
            return Comparison(0, why=f"{what}: another number of values")
        for a, b, is_shared in zip(was, now, shared[number - 1], strict=True):
            difference = 0.0 if is_shared else _difference(a, b)
            if isinstance(difference, str):
                return Comparison(0, why=f"{what}: {difference}")
            largest = max(largest, difference)
    kept = differing(before["kept"], after["kept"], _difference)
    answers = tuple(
        name for name, answer in before["answers"].items() if name in after["answers"] and is_another(answer, after["answers"][name])
    )
    return Comparison(len(before["calls"]), largest, kept=(*kept, *answers))


def _difference(a: Any, b: Any) -> float | str:
    if isinstance(a, tuple) and isinstance(b, tuple) and a[0] == b[0] and isinstance(a[1], torch.Tensor) and isinstance(b[1], torch.Tensor):
        return _difference(a[1], b[1])
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
            return f"{_kind(b)} in place of {_kind(a)}"
        return 0.0 if a == b or repr(a) == repr(b) else f"{_kind(b)} in place of {_kind(a)}"
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{_kind(b)} in place of {_kind(a)}"
    if a.requires_grad != b.requires_grad:
        return "a tensor with a gradient in place of one without, or the reverse"
    a, b = a.detach(), b.detach()
    if _is_equal(a, b):
        return 0.0
    try:
        torch.testing.assert_close(b, a, equal_nan=True)
    except AssertionError:
        return "other values"
    apart = ((a - b).abs() / a.abs().clamp_min(torch.finfo(a.real.dtype).tiny)).nan_to_num(0.0, 0.0, 0.0)
    return float(apart.max())


def _is_equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Of one type and size. Answers most questions without `torch.testing`, which imports torch's own compiler when first asked."""
    if (a.layout, a.device) != (b.layout, b.device):
        return False
    if a.layout is not torch.strided or a.is_quantized:
        a, b = (value.dequantize() if value.is_quantized else value.to_dense() for value in (a, b))
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _covers(whole: Any, part: Any) -> bool:
    """Whether every element of `part` is one of `whole`, which lies in one piece."""
    plain = (torch.Tensor, torch.nn.Parameter)
    if type(whole) not in plain or type(part) not in plain or whole.layout != torch.strided or part.layout != torch.strided:
        return False
    if not whole.is_contiguous() or part.numel() == 0 or whole.dtype != part.dtype or min(part.stride(), default=0) < 0:
        return False
    if whole.untyped_storage().data_ptr() != part.untyped_storage().data_ptr():
        return False
    first, last = whole.storage_offset(), whole.storage_offset() + whole.numel()
    reach = sum((size - 1) * stride for size, stride in zip(part.shape, part.stride(), strict=True))
    return first <= part.storage_offset() and part.storage_offset() + reach < last


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {type_of(value)}"
    return (
        f"{value[0]} {value[1]!r}"
        if isinstance(value, tuple) and value[1] is not None and not isinstance(value[1], torch.Tensor)
        else f"{value[0] if value else value}"
    )
