"""Compiled against eager: values, types, sizes, strides, which memory is shared, gradients, effects and exceptions."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dynascope
import torch
from dynascope import recording

REASONS: collections.Counter[str] = collections.Counter()
"""How often each reason was given in this process: for a break, a refusal or a part that was not compiled."""


PROGRAMS_OWN = frozenset({"torch-call-fails", "program-raises", "program-error"})
"""Errors of the program: plain PyTorch raises them too."""


@dataclass(frozen=True)
class Outcome:
    """What a call did: its result or its exception, its arguments afterwards, and the gradients of its inputs."""

    result: Any
    exception: type[BaseException] | None
    arguments: Any
    gradients: tuple[torch.Tensor | None, ...] = ()


def leaves(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return []


def observe(function: Callable, arguments: tuple, keywords: dict | None = None) -> Outcome:
    """Call with copies of the arguments; differentiate what can be differentiated."""
    arguments, keywords = clone_all((arguments, keywords or {}))
    torch.manual_seed(0)
    try:
        result = function(*arguments, **keywords)
    except dynascope.StrictError:
        raise
    except Exception as error:
        return Outcome(None, type(error), arguments)
    inputs = [leaf for leaf in leaves((arguments, keywords)) if leaf.requires_grad and leaf.is_leaf]
    outputs = [leaf for leaf in leaves(result) if leaf.requires_grad]
    gradients = ()
    if inputs and outputs:
        torch.manual_seed(1)
        seeds = [torch.randn_like(output) for output in outputs]
        gradients = torch.autograd.grad(outputs, inputs, seeds, allow_unused=True)
    return Outcome(result, None, arguments, gradients)


def clone_all(value: Any) -> Any:
    """A copy with fresh tensors of the same strides; tensors that are one object, or share memory, still do."""
    known: dict[int, torch.Tensor] = {}
    storages: dict[int, torch.UntypedStorage] = {}

    def clone(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in known:
                known[id(value)] = copied(value, storages).requires_grad_(value.requires_grad)
            return known[id(value)]
        if isinstance(value, dict):
            return {key: clone(item) for key, item in value.items()}
        if type(value) in (list, tuple):
            return type(value)(clone(item) for item in value)
        return copy.deepcopy(value) if isinstance(value, (set, bytearray)) else value

    return clone(value)


def copied(tensor: torch.Tensor, storages: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg() or type(tensor) is not torch.Tensor:
        return tensor.detach().clone()
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in storages or not storage.nbytes():
        storages[storage.data_ptr()] = storage.clone()
    fresh = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return fresh.set_(storages[storage.data_ptr()], tensor.storage_offset(), tensor.shape, tensor.stride())


def assert_same(ours: Outcome, theirs: Outcome, *, rtol: float | None = None, atol: float | None = None) -> None:
    assert ours.exception == theirs.exception, f"raised {ours.exception}, eager raised {theirs.exception}"
    close = {"rtol": rtol, "atol": atol, "equal_nan": True}
    for what in ("result", "arguments", "gradients"):
        mine, other = leaves(getattr(ours, what)), leaves(getattr(theirs, what))
        assert len(mine) == len(other), f"{what}: {len(mine)} tensors, eager has {len(other)}"
        for index, (a, b) in enumerate(zip(mine, other, strict=True)):
            place = f"{what}[{index}]"
            assert a.dtype == b.dtype, f"{place}: {a.dtype}, eager has {b.dtype}"
            assert a.shape == b.shape, f"{place}: {tuple(a.shape)}, eager has {tuple(b.shape)}"
            assert what == "gradients" or same_layout(a, b), f"{place}: strides {a.stride()}, eager has {b.stride()}"
            assert a.requires_grad == b.requires_grad, f"{place}: requires_grad {a.requires_grad}"
            counted = not (what == "gradients" or a.is_inference() or b.is_inference())
            assert not counted or a._version == b._version, f"{place}: written {a._version} times, eager {b._version}"
            torch.testing.assert_close(a, b, **close, msg=lambda text, place=place: f"{place}: {text}")
    assert plain(ours.result) == plain(theirs.result), f"{plain(ours.result)}, eager has {plain(theirs.result)}"
    assert plain(ours.arguments) == plain(theirs.arguments), "an argument was left different"
    mine, other = sharing(ours), sharing(theirs)
    assert mine == other, f"memory shared by results and arguments: {mine}, eager has {other}"


def sharing(outcome: Outcome) -> list[tuple[int, int, int]]:
    """For each tensor of the arguments, then the results: the first that is the same object, the first in the same
    memory, and the offset there."""
    tensors = leaves(outcome.arguments) + leaves(outcome.result)
    objects = [id(tensor) for tensor in tensors]
    memories = [memory_of(tensor) for tensor in tensors]
    return [
        (objects.index(object_), memories.index(memory), tensor.storage_offset() if memory != id(tensor) else 0)
        for object_, memory, tensor in zip(objects, memories, tensors, strict=True)
    ]


def memory_of(tensor: torch.Tensor) -> int:
    """The tensor's memory; empty tensors and those without strides have none, and stand for themselves."""
    if tensor.layout != torch.strided or tensor.untyped_storage().nbytes() == 0:
        return id(tensor)
    return tensor.untyped_storage().data_ptr()


def same_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Strides of dimensions of size 1 and of empty tensors are not visible to any computation."""
    if a.numel() == 0 or a.layout != torch.strided or b.layout != torch.strided:
        return a.layout == b.layout
    return all(size == 1 or x == y for size, x, y in zip(a.shape, a.stride(), b.stride(), strict=True))


def plain(value: Any) -> Any:
    """The result without its tensors: structure, numbers, strings."""
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(plain(item) for item in value)]
    if isinstance(value, float) and value != value:
        return "nan"
    return value


@contextmanager
def no_defects() -> Iterator[None]:
    """Counts the reasons given meanwhile; raises where one of them is a defect of ours, though the results were right."""
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        yield
    finally:
        recording.use(before)
    given = list(reasons(recorder.report()))
    REASONS.update(explanation.code for explanation in given)
    ours = (e for e in given if e.severity == "error" and e.code not in PROGRAMS_OWN)
    errors = [f"{explanation.message} {explanation.span}" for explanation in ours]
    assert not errors, f"{len(errors)} errors of the engine: {errors[0]}"
    silent = [explanation.code for explanation in given if not (explanation.message and explanation.remedy)]
    assert not silent, f"reasons without words: {silent}"


def reasons(report: Any) -> Iterator[Any]:
    """Everything the report gives as a reason not to compile."""
    yield from report.notes
    for graph in report.graphs:
        yield from graph.notes
    for function in report.functions:
        for entry in function.entries:
            if entry.reason is not None:
                yield entry.reason
            assert entry.reason is not None or entry.status == "compiled" and entry.exit != "break", (
                "no reason was given"
            )


def check(
    function: Callable, *calls: tuple, rtol: float | None = None, atol: float | None = None, **options: Any
) -> None:
    """Each call of the compiled function equals eager's; one compiled function serves all the calls."""
    compiled = dynascope.compile(function, **options)
    with no_defects():
        for arguments in calls:
            assert_same(observe(compiled, arguments), observe(function, arguments), rtol=rtol, atol=atol)
