"""The backward passes that are not the usual one: tangents that are undefined or of an unusual kind, second derivatives.

    loss, logits = region(x); loss.backward()     the tangent of `logits` is undefined: a backward pass of its own,
                                                  made when this pattern is first met
    is_grads_batched=True, a subclass             the backward graph's operators, one by one
    expanded, sparse, negated, without storage    a plain copy

Undefined is not zero: zeros pushed through the derivative of a square root at zero are NaN, and an input that only unused
outputs were computed from has no gradient, which an optimizer sees.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from dynascope.autograd_functions import NameRead, keep_to_passes
from dynascope.dataclass import dataclass
from dynascope.grad.differentiate import Given, backward_for
from dynascope.grad.gradients import until_the_pass_ends
from dynascope.grad.pair import GradPair, InputItself, PartialBackward, Twin
from dynascope.grad.passes import SECOND_TIME, Left, leave, values_left
from dynascope.grad.reasons import DifferentiationRefused
from dynascope.grad.second_derivative import (
    Keeping,
    computed_again,
    copied,
    differentiate_again,
    not_copied,
    strongly,
    weakly,
)
from dynascope.grad.shapes import is_dense
from dynascope.grad.tape import Layout, numbers_at
from dynascope.grad.versions import first_read, overwritten_error, saved_values, saved_values_of
from dynascope.sizes import hint_of

Call = Callable[..., Any]
Fits = Callable[[tuple[Any, ...]], bool]

MOST_COMPILED = 8
"""Patterns of defined tangents that get kernels; the rest run as operators. A program has one or two."""


@dataclass(frozen=True, slots=True)
class Backends:
    """How graphs become callables, and how all tangents are checked at once.

    `fits(count, layouts)` makes a check of a tuple of `count` tangents, of which those at the keys of `layouts` matter.
    """

    compile: Callable[[fx.GraphModule], Call]
    operators: Callable[[fx.GraphModule], Call]
    fits: Callable[[int, dict[int, Layout]], Fits]


def fits_in_python(count: int, layouts: dict[int, Layout]) -> Fits:
    """Whether each tangent is a plain tensor of its layout."""

    def fits(tangents: tuple[Any, ...]) -> bool:
        return all(_is_plain(tangents[i]) and lies_as(tangents[i], layout) for i, layout in layouts.items())

    return fits


def lies_as(tangent: torch.Tensor, layout: Layout) -> bool:
    """Whether the elements lie as planned. A layout whose sizes vary is dense: the order of its dimensions tells."""
    if not layout.varies:
        return tangent.stride() == layout.strides
    sizes, step = tangent.shape, 1
    for dimension in sorted(range(len(sizes)), key=lambda d: (hint_of(layout.strides[d]), -d)):
        if tangent.stride(dimension) != step:
            return False
        step *= max(sizes[dimension], 1)
    return True


@dataclass(frozen=True, slots=True)
class Quick:
    """A backward pass of some tangents, in some order of memory, after which nothing that was saved is read: what the next one needs.
    `fits` says that tangents lie so."""

    pattern: tuple[Given, ...]
    fits: Fits
    run: Call
    partial: PartialBackward
    outputs: tuple[int, ...]
    strides: tuple[tuple[int, Any], ...]
    """Of what is saved, by its place, as the graph says that it lies; none where the graph is the one that was saved for."""
    left: Left


AS_WRITTEN = Backends(lambda graph: graph, lambda graph: graph, fits_in_python)
"""Graphs run as they are."""


class Otherwise:
    """`otherwise(ctx, tangents)` of a region: every backward pass but the usual one."""

    def __init__(
        self, pair: GradPair, keeping: Keeping, run_backward: Call, backends: Backends, names: tuple[NameRead, ...] = ()
    ) -> None:
        self.pair, self.keeping, self.run_backward, self.backends = pair, keeping, run_backward, backends
        self.names = names
        self.environment: dict[str, Any] = {}
        self.lock = threading.Lock()
        self.partial: dict[tuple[Given, ...], PartialBackward] = {}
        self.calls: dict[tuple[tuple[Given, ...], bool], Call] = {}
        self.quick: dict[tuple[bool, ...], Quick] = {}
        """By which tangents are defined."""

    def install(self, environment: dict[str, Any]) -> None:
        """The names that the bridge's code reads. `keep` and `keep_copy` change with what the program turns out to do."""
        self.environment = environment
        layouts = {tangent.output: tangent.layout for tangent in self.pair.tangents}
        self.usual = self.backends.fits(self.pair.visible_count, layouts)
        environment |= {
            "otherwise": self,
            "names_changed": self.names_changed,
            "fits": self._first_time,
            "keep": strongly,
            "keep_copy": copied,
            "random_state": self.keeping.random_state,
        }

    def _first_time(self, tangents: tuple[Any, ...]) -> bool:
        """The first backward pass says whether the program wants second derivatives: most never do."""
        self._wants_first_derivatives()
        return self.usual(tangents)

    def _wants_first_derivatives(self) -> None:
        environment = self.environment
        if environment["fits"] != self.usual:
            environment["fits"] = self.usual
            if not self.names:  # else the region may have to run again in any pass
                environment |= {"keep": weakly, "keep_copy": not_copied}

    def __call__(self, ctx: Any, tangents: tuple[Any, ...]) -> tuple[Any, ...]:
        quick = self.quick.get(tuple([tangent is not None for tangent in tangents]))
        if quick is not None and self._is_plain_pass(ctx) and quick.fits(tangents):
            gradients = self._quickly(ctx, tangents, quick)
        else:
            gradients = self._gradients(ctx, tangents)
        if any(gradient is None for gradient in gradients):
            for function, _ in ctx.next_functions:
                keep_to_passes(function)
        return until_the_pass_ends(gradients, self.pair.viewed) if self.pair.viewed else gradients

    def _is_plain_pass(self, ctx: Any) -> bool:
        """Whether it is of first derivatives, the first one through this node, and no other is to follow."""
        is_last = not (torch.is_grad_enabled() or torch._C._autograd._get_current_graph_task_keep_graph())
        return is_last and not hasattr(ctx, "left") and not self.names_changed()

    def _quickly(self, ctx: Any, tangents: tuple[Any, ...], quick: Quick) -> tuple[Any, ...]:
        """Frees what was saved as the kernels have read it, as the usual pass does."""
        saved = self._saved(ctx, quick.pattern, quick.partial)
        if any(saved[place].stride() != strides for place, strides in quick.strides):
            saved = self._planned(saved)
        operands = [*saved, *[tangents[output] for output in quick.outputs]]
        del saved
        ctx.left = quick.left
        ctx.maybe_clear_saved_tensors()
        return with_twins(quick.run(operands), quick.partial.twins)

    def _keep_quick(self, pattern: tuple[Given, ...], tangents: tuple[Any, ...], run: Call, partial: PartialBackward) -> None:
        """Of a pass that runs: whether the next one like it has anything to find out."""
        with_list = getattr(run, "with_list", None)
        saves = any(saved.layout is not None for saved in self.pair.saved)
        if with_list is None or partial.overwritten or (partial.possible_after and saves):
            return
        given = [each for each in zip(self.pair.tangents, tangents, pattern, strict=True) if each[2]]
        outputs = tuple(planned.output for planned, _, _ in given)
        key = tuple(output in outputs for output in range(self.pair.visible_count))
        if key in self.quick and self.quick[key].pattern == pattern:
            return  # these tangents lie in no order, such as that of one number everywhere, and are copied each time
        if any(planned.layout.varies and kind is not True for planned, _, kind in given):
            return
        layouts = {
            planned.output: planned.layout if kind is True else replace(planned.layout, strides=tangent.stride())
            for planned, tangent, kind in given
        }
        places = () if run is self.run_backward else enumerate(self.pair.saved)
        strides = ((place, saved.layout) for place, saved in places)
        self.quick[key] = Quick(
            pattern,
            self.backends.fits(self.pair.visible_count, layouts),
            with_list,
            partial,
            outputs,
            tuple((place, layout.strides) for place, layout in strides if layout is not None and not layout.varies),
            Left(partial.possible_after, {}),
        )

    def _gradients(self, ctx: Any, tangents: tuple[Any, ...]) -> tuple[Any, ...]:
        given = tuple(tangents[tangent.output] for tangent in self.pair.tangents)
        if all(tangent is None for tangent in given):
            return (None,) * self.pair.input_count
        if torch.is_grad_enabled():
            return self._by_running_again(ctx, given)
        self._wants_first_derivatives()
        if self.names_changed():
            return self._detached_by_running_again(ctx, given)
        try:
            return self._first_derivative(ctx, given, all(g is None or g.layout is torch.strided for g in given))
        except (RuntimeError, NotImplementedError):
            # Not every operator has a kernel for sparse tensors.
            if not any(tangent is not None and tangent.layout is not torch.strided for tangent in given):
                raise
        return self._first_derivative(ctx, tuple(_dense(tangent) for tangent in given), True)

    def _first_derivative(self, ctx: Any, given: tuple[Any, ...], is_last_try: bool) -> tuple[Any, ...]:
        foreign = any(tangent is not None and _is_foreign(tangent) for tangent in given)
        values = _numbers_saved(self.pair, ctx)
        layouts = [numbers_at(tangent.layout, values) for tangent in self.pair.tangents]
        pattern = self._pattern(given, layouts, foreign)
        try:
            run, partial = self._backward(pattern, foreign)
        except DifferentiationRefused:
            # Through a tangent in another order of memory there may be no way that through the usual one there is.
            pattern = tuple(kind is not False for kind in pattern)
            try:
                run, partial = self._backward(pattern, foreign)
            except DifferentiationRefused:
                # The recording has no pass for these tangents alone.
                return self._detached_by_running_again(ctx, given)
        if (overwritten := first_read(partial.overwritten, self.pair, ctx)) is not None:
            raise overwritten_error(overwritten, values, self.pair, ctx)
        saved = self._saved(ctx, pattern, partial)
        if run is not self.run_backward:
            saved = self._planned(saved)
        if not foreign:
            self._keep_quick(pattern, given, run, partial)
        operands = [
            tangent if foreign or isinstance(kind, tuple) else _laid_out(tangent, layout)
            for tangent, layout, kind in zip(given, layouts, pattern, strict=True)
            if kind
        ]
        copies = {each.untyped_storage()._cdata for each in operands if not any(each is tangent for tangent in given)}
        is_needed_again = False in pattern or hasattr(ctx, "left")
        with_list = getattr(run, "with_list", None)
        if with_list is None or is_needed_again or not is_last_try:
            gradients = with_twins(run(*saved, *operands), partial.twins)
            if is_needed_again:
                leave(self.pair, ctx, saved, partial.possible_after)
            return _apart(gradients, copies)
        operands = [*saved, *operands]
        del saved
        ctx.maybe_clear_saved_tensors()
        return _apart(with_twins(with_list(operands), partial.twins), copies)

    def _planned(self, saved: list[Any]) -> list[Any]:
        return [_as_planned(value, place.layout) for value, place in zip(saved, self.pair.saved, strict=True)]

    def names_changed(self) -> bool:
        """Whether a name that a custom function's backward pass reads leads to something else than when it was captured."""
        return any(name.is_changed() for name in self.names)

    def _detached_by_running_again(self, ctx: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        with torch.enable_grad():
            gradients = self._by_running_again(ctx, given)
        return tuple(gradient if gradient is None else gradient.detach() for gradient in gradients)

    def result_again(self, ctx: Any, number: int) -> torch.Tensor | None:
        """A result of this region's node, computed again with a history; None where that is not possible any more."""
        try:
            return computed_again(self.pair, self.keeping, ctx, saved_values(self.pair, ctx), number)
        except RuntimeError:
            return None

    def _by_running_again(self, ctx: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The region runs once more, operator by operator, and autograd goes back through that. It needs its inputs."""
        saved = self._saved_for_second_derivative(ctx, given)
        self.environment |= {"fits": self.usual, "keep": strongly, "keep_copy": copied}
        return differentiate_again(self.pair, self.keeping, ctx, saved, given)

    def _saved(self, ctx: Any, pattern: tuple[Given, ...], partial: PartialBackward) -> list[Any]:
        try:
            return saved_values_of(self.pair, ctx, partial)
        except RuntimeError as error:
            if SECOND_TIME not in str(error) or (left := values_left(self.pair, ctx, pattern, partial.graph)) is None:
                raise
        return left

    def _saved_for_second_derivative(self, ctx: Any, given: tuple[Any, ...]) -> list[Any]:
        try:
            return saved_values(self.pair, ctx)
        except RuntimeError as error:
            pattern = tuple(tangent is not None for tangent in given)
            if SECOND_TIME not in str(error) or (left := values_left(self.pair, ctx, pattern, None)) is None:
                raise
        return left

    def _pattern(self, given: tuple[Any, ...], layouts: list[Layout], foreign: bool) -> tuple[Given, ...]:
        """What the backward pass is made for. Past a few kinds, tangents are copied to the usual layout."""
        usual = tuple(tangent is not None for tangent in given)
        if foreign:
            return usual
        orders = [is_given and _order(g, at) for is_given, g, at in zip(usual, given, layouts, strict=True)]
        pattern = tuple(order or is_given for order, is_given in zip(orders, usual, strict=True))
        return pattern if pattern in self.partial or len(self.partial) < MOST_COMPILED else usual

    def _backward(self, pattern: tuple[Given, ...], foreign: bool) -> tuple[Call, PartialBackward]:
        """The backward pass for the tangents that are given, by kernels or, for `foreign` ones, operator by operator."""
        with self.lock:
            partial = self.partial.get(pattern)
            if partial is None:
                partial = self.partial[pattern] = self._part(pattern)
            call = self.calls.get((pattern, foreign))
            if call is None:
                call = self.calls[pattern, foreign] = self._call(partial, _is_usual(pattern), foreign)
            return call, partial

    def _part(self, pattern: tuple[Given, ...]) -> PartialBackward:
        if not _is_usual(pattern):
            return backward_for(self.pair, pattern)
        pair = self.pair
        assert pair.backward is not None
        return PartialBackward(pair.backward, pair.twins, None, pair.possible_after, pair.overwritten)

    def _call(self, partial: PartialBackward, is_whole: bool, foreign: bool) -> Call:
        if foreign or len(self.calls) >= MOST_COMPILED:
            return self.backends.operators(partial.graph)
        return self.run_backward if is_whole else self.backends.compile(partial.graph)


def _is_usual(pattern: tuple[Given, ...]) -> bool:
    return all(given is True for given in pattern)


def _order(tangent: torch.Tensor, layout: Layout) -> tuple[int, ...] | None:
    """The order of the dimensions in memory, where they fill it in another one than the output's."""
    if not _is_plain(tangent) or lies_as(tangent, layout) or not is_dense(tuple(tangent.shape), tangent.stride()):
        return None
    sizes, strides = tangent.shape, tangent.stride()
    order = tuple(sorted(range(len(sizes)), key=lambda d: (-strides[d], -sizes[d], d)))
    return order if 0 not in sizes and len(sizes) > 1 else None


def with_twins(gradients: Any, twins: tuple[Twin, ...]) -> tuple[Any, ...]:
    """The gradients with those that the graph gives only once."""
    gradients = list(gradients)
    for twin in twins:
        first = gradients[twin.first]
        gradients[twin.index] = first if twin.is_same_object else first.detach()
    return tuple(gradients)


def _apart(gradients: tuple[Any, ...], copies: set[int]) -> tuple[Any, ...]:
    """Gradients that lie in these copies of tangents, each in memory of its own and as large as it. In eager they are views of the
    tangent that was copied, one number everywhere, which no leaf takes for its gradient; views of a copy each would take."""
    if not copies:
        return gradients
    seen: dict[int, torch.Tensor] = {}
    result = []
    for gradient in gradients:
        memory = None if gradient is None or gradient.layout is not torch.strided else gradient.untyped_storage()
        if memory is not None and memory._cdata in copies:
            is_part = gradient.numel() * gradient.element_size() < memory.nbytes()
            is_taken = seen.setdefault(memory._cdata, gradient) is not gradient
            gradient = gradient.clone() if is_part or is_taken else gradient
        result.append(gradient)
    return tuple(result)


def _numbers_saved(pair: GradPair, ctx: Any) -> dict[str, Any]:
    """The values of the roots that sizes are written in."""
    kept = [saved.origin for saved in pair.saved if saved.layout is None]
    places = dict(zip(kept, getattr(ctx, "numbers", ()), strict=False))
    return {name: places[InputItself(at)] for name, at in pair.roots.items() if InputItself(at) in places}


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _is_plain(tangent: Any) -> bool:
    if type(tangent) not in _PLAIN or tangent.layout is not torch.strided or _is_batched(tangent):
        return False
    return not (tangent._is_zerotensor() or tangent.is_conj() or tangent.is_neg())


def _is_foreign(tangent: torch.Tensor) -> bool:
    """No memory of its own to read, or gradients of its kind: a subclass, a batch of tangents under vmap, a sparse tensor."""
    return type(tangent) not in _PLAIN or tangent.layout is not torch.strided or _is_batched(tangent)


def _is_batched(tangent: torch.Tensor) -> bool:
    """Batches of `is_grads_batched` have a key that Python has no name for, and no memory."""
    if torch._C._functorch.is_functorch_wrapped_tensor(tangent):
        return True
    return "Batched" in str(torch._C._dispatch_keys(tangent))


def _dense(tangent: Any) -> Any:
    return tangent if tangent is None or tangent.layout is torch.strided else tangent.to_dense()


def _as_planned(value: Any, layout: Layout | None) -> Any:
    """What is saved may lie as the usual backward pass reads it, and not as the graphs say."""
    is_other = layout is not None and not layout.varies and isinstance(value, torch.Tensor) and value.stride() != layout.strides
    return _laid_out(value, layout) if is_other else value  # type: ignore[arg-type]


def _laid_out(tangent: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The backward graph was made for one layout; autograd may hand over another, such as an expanded scalar."""
    if _is_plain(tangent) and tangent.stride() == layout.strides:
        return tangent
    return torch.empty_strided(layout.sizes, layout.strides, dtype=layout.dtype, device=layout.device).copy_(tangent)
