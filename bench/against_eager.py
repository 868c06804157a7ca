"""Programs of torch's tests of its own compiler, beside eager: what `common` and `verify_aot_autograd` of these tests are given.

    check(compile, model, inputs)       the same values, types, sizes, strides, shared memory, gradients and inputs afterwards?
    verify(compile, f, inputs)          the same, of inputs that have histories and share memory, and after writes to the results

Each program runs twice: as it is given, and with gradients for whatever may have them, where eager gives these. Elements are
compared as torch's tests do, or with what float64 gives: an error of four times eager's own is none.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree

Compile = Callable[[Callable], Callable]


def check(compile: Compile, model: Callable, inputs: Any, kwargs: Any = None, *, assert_equal: bool = True, **options: Any) -> None:
    """`options` are those of torch's `check_model`, of which the tolerances matter."""
    tolerances = {name: options.get(name) for name in ("atol", "rtol")} if assert_equal else None
    given = (tuple(inputs), dict(kwargs or {}))
    may_differ = [t for t in tensors_in(given) if t.is_floating_point() and not t.requires_grad]
    for with_gradients in (False, True) if may_differ else (False,):
        eager = Run(model, as_written, given, with_gradients)
        if with_gradients and eager.error is not None:
            return
        exact = Run(model, as_written, given, with_gradients, exactly=True)
        is_like = exact.error is None and len(all_of(exact)) == len(all_of(eager))
        compare_runs(Run(model, compile, given, with_gradients), eager, exact if is_like else None, tolerances)


def as_written(function: Callable) -> Callable:
    return function


class Run:
    """One call on copies of the inputs, and its gradients."""

    def __init__(self, model: Callable, compile: Compile, given: Any, with_gradients: bool, exactly: bool = False) -> None:
        if isinstance(model, torch.nn.Module):
            model = copy.deepcopy(model)
            model = model.double() if exactly else model
        self.inputs = copies(given, with_gradients, exactly)
        self.results, self.gradients, self.error = None, None, None
        torch.manual_seed(0)
        try:
            self.results = compile(model)(*self.inputs[0], **self.inputs[1])
            parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
            self.gradients = gradients(self.results, [*tensors_in(self.inputs), *parameters])
        except Exception as error:
            self.error = error


def all_of(run: Run) -> list[Any]:
    return [*pytree.tree_leaves(run.results), *tensors_in(run.inputs), *(run.gradients or ())]


def compare_runs(ours: Run, eager: Run, exact: Run | None, tolerances: dict[str, Any] | None) -> None:
    assert type(ours.error) is type(eager.error), f"{ours.error!r}, eager {eager.error!r}"
    if eager.error is not None:
        return
    assert str(pytree.tree_structure(ours.results)) == str(pytree.tree_structure(eager.results))
    pairs = zip(all_of(ours), all_of(eager), all_of(exact) if exact else [None] * len(all_of(eager)), strict=True)
    for found, wanted, reference in pairs:
        compare(found, wanted, reference, tolerances)
    assert shared(ours) == shared(eager), f"memory is shared as {shared(ours)}, eager {shared(eager)}"


def compare(found: Any, wanted: Any, exact: Any, tolerances: dict[str, Any] | None) -> None:
    assert type(found) is type(wanted), f"{type(found)}, eager {type(wanted)}"
    if not isinstance(wanted, torch.Tensor):
        assert found == wanted or found != found, f"{found}, eager {wanted}"
        return
    for facts in (lambda t: (t.dtype, tuple(t.shape), t.layout, t.requires_grad, t.is_leaf), strides):
        assert facts(found) == facts(wanted), f"{facts(found)}, eager {facts(wanted)}"
    if tolerances is None:
        return
    given = {} if tolerances["atol"] is None else {name: value or 1e-5 for name, value in tolerances.items()}
    try:
        torch.testing.assert_close(found, wanted, equal_nan=True, **given)
    except AssertionError:
        if not isinstance(exact, torch.Tensor) or not wanted.is_floating_point() or not is_nearer(found, wanted, exact):
            raise


def is_nearer(found: torch.Tensor, wanted: torch.Tensor, exact: torch.Tensor) -> bool:
    known = exact.isfinite()
    if exact.shape != wanted.shape or not torch.equal(found.isfinite(), wanted.isfinite()) or not known.any():
        return False
    errors = [(each.detach().double() - exact)[known].nan_to_num(0).abs().max() for each in (found, wanted)]
    return bool(errors[0] <= 4 * errors[1] + torch.finfo(wanted.dtype).eps * exact[known].abs().max())


def strides(tensor: torch.Tensor) -> Any:
    if tensor.layout != torch.strided or not tensor.numel():
        return None
    return tuple(step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1)


def shared(run: Run) -> list[int]:
    """For each tensor the first one with its memory."""
    memories = [t.untyped_storage()._cdata for t in all_of(run) if isinstance(t, torch.Tensor) and t.layout == torch.strided and t.numel()]
    return [memories.index(each) for each in memories]


def tensors_in(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def gradients(results: Any, inputs: Iterable[torch.Tensor]) -> tuple[Any, ...] | None:
    ends = [each for each in tensors_in(results) if each.requires_grad]
    leaves = [each for each in inputs if each.requires_grad]
    if not ends or not leaves:
        return None
    tangents = [torch.linspace(0.1, 1, each.numel(), dtype=torch.float64).view(each.shape).to(each.dtype) for each in ends]
    return torch.autograd.grad(ends, leaves, tangents, allow_unused=True)


def copies(tree: Any, with_gradients: bool, exactly: bool) -> Any:
    """What shares memory shares it in the copies too."""
    memories: dict[Any, torch.Tensor] = {}
    known: dict[int, Any] = {}

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or id(leaf) in known:
            return known.get(id(leaf), leaf)
        wanted = leaf.requires_grad or (with_gradients and leaf.is_floating_point())
        known[id(leaf)] = made = as_it_lies(leaf.detach(), memories, exactly).requires_grad_(wanted)
        return made

    return pytree.tree_map(copied, tree)


def as_it_lies(tensor: torch.Tensor, memories: dict[Any, torch.Tensor], exactly: bool) -> torch.Tensor:
    dtype = torch.float64 if exactly and tensor.is_floating_point() else tensor.dtype
    if type(tensor) is not torch.Tensor or tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg() or tensor.is_quantized:
        return tensor.clone()
    memory = tensor.untyped_storage()
    key = memory._cdata, dtype
    if key not in memories:
        whole = torch.empty(0, dtype=tensor.dtype).set_(memory, 0, (memory.size() // tensor.element_size(),), (1,))
        memories[key] = whole.clone().to(dtype)
    return memories[key].as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


# Inputs that share memory and have histories


def verify(compile: Compile, f: Callable, inputs: Any, *, make_inputs_subclasses: bool = False, **options: Any) -> Any:
    """Of tensor subclasses nothing is compared: others' tests are about those."""
    if not make_inputs_subclasses:
        theirs, ours = (leavings(way, f, inputs, options.get("test_mutation", False)) for way in (as_written, compile))
        assert len(ours) == len(theirs), f"{ours}, eager {theirs}"
        for found, wanted in zip(ours, theirs, strict=True):
            compare(found, wanted, None, {"atol": None, "rtol": None})
    return Anything()


def leavings(compile: Compile, f: Callable, inputs: Any, is_written: bool) -> list[Any]:
    torch.manual_seed(0)
    leaves, given = inputs() if callable(inputs) else written_inputs(inputs, is_written)
    module = copy.deepcopy(f) if isinstance(f, torch.nn.Module) else f
    results = compile(module)(*given)
    found = [results, [each.requires_grad for each in tensors_in(results)], gradients_of(results, leaves)]
    for result in tensors_in(results):
        with contextlib.suppress(RuntimeError):  # autograd allows some views no writes
            result.add_(2)
            found += [t.detach().clone() for t in [*tensors_in(results), *tensors_in(list(given))]]
    return pytree.tree_leaves(found)


def gradients_of(results: Any, leaves: Any) -> tuple[Any, ...] | None:
    ends = [each for each in tensors_in(results) if each.requires_grad]
    wanted = [each for each in tensors_in(list(leaves)) if each.requires_grad]
    ones = [torch.full_like(each, 2) for each in ends]
    return torch.autograd.grad(ends, wanted, ones, allow_unused=True, retain_graph=True) if ends and wanted else None


def written_inputs(inputs: Any, is_written: bool) -> tuple[list[Any], list[Any]]:
    leaves = pytree.tree_leaves(copies(list(inputs), False, False))
    return leaves, [each.add(1) if isinstance(each, torch.Tensor) else each for each in leaves] if is_written else leaves


class Anything:
    """The text of a graph that nobody compares."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self
