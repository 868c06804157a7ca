"""What the program's outputs and mutated inputs are, read off the handles after the recording.

return x, x[0], h, h.view(-1)   ->   InputItself(0), ViewOf(InputItself(0)), Computed(0), ViewOf(Computed(0))
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import torch

from dynascope.autograd_functions.awaited_histories import awaits_history, is_made
from dynascope.dataclass import dataclass
from dynascope.grad.held import describe_held
from dynascope.grad.numbers import number_of
from dynascope.grad.pair import Computed, Constant, Expression, InputItself, Output, OutputOf, ViewOf
from dynascope.grad.reasons import (
    DifferentiationRefused,
    LeafMadeInside,
    OutputNotReproducible,
    OverlappingInputsMutated,
    UnsupportedMutation,
    UnsupportedTensor,
)
from dynascope.grad.record import Recorder, Writes
from dynascope.grad.shapes import is_dense, repeats_elements
from dynascope.grad.storage import Cell, Memory, geometry_of
from dynascope.grad.tape import META, Value
from dynascope.grad.views import ViewRecipe, restrided, with_strides
from dynascope.sizes import Size

aten = torch.ops.aten
ALIAS = (ViewRecipe(aten.alias.default),)
"""The view that a tensor of the same sizes is: another object in the same memory."""
WHOLE = (ViewRecipe(aten.slice.Tensor, (0, 0, sys.maxsize), (aten.split.Tensor, (2**62,), 0)),)


ONE_OF_ONE = (
    ViewRecipe(aten.unsqueeze.default, (0,)),
    ViewRecipe(aten.select.int, (0, 0), (aten.unbind.int, (0,), 0)),
)
"""The same, for autograd one of several views that one call made."""


Overlap = Callable[[int, bool], int | None]
"""The number of another input that a write to this one changes too, if any; the write may record a history."""


@dataclass(slots=True)
class MutatedInput:
    index: int
    value: Value
    records_history: bool
    count: int
    """How many writes autograd counts."""
    place: tuple[str, int]
    """In autograd's graph, without a name where it has no history."""


@dataclass(slots=True)
class Results:
    """`computed` are the forward graph's first outputs; `differentiable` pairs of (handle with history, its value)."""

    outputs: list[Output] = field(default_factory=list)
    computed: list[Value] = field(default_factory=list)
    mutated: list[MutatedInput] = field(default_factory=list)
    differentiable: list[tuple[torch.Tensor, Value]] = field(default_factory=list)
    differentiable_outputs: list[int] = field(default_factory=list)
    """The forward output of each of `differentiable`."""
    places: list[InputItself | OutputOf] = field(default_factory=list)
    """Where a run of the captured graph itself has each of `differentiable`."""
    inputs_require_grad: bool = False
    kept_inputs: set[int] = field(default_factory=set)
    kept_outputs: dict[int, tuple[str, int]] = field(default_factory=dict)
    """What eager's backward pass reads, so that a change in place after the call is an error: inputs, and forward outputs with
    their place in autograd's graph, which the error names."""
    functions: dict[int, tuple[str, int]] = field(default_factory=dict)
    """The place in autograd's graph of all forward outputs with a history."""
    counted: list[int] = field(default_factory=list)
    """Inputs of which a view became another view of itself: that counts as a write, once for each time that they are named."""
    versions: dict[int, int] = field(default_factory=dict)
    """How often forward outputs were written, of those that were."""
    held_inputs: set[int] = field(default_factory=set)
    held_outputs: set[int] = field(default_factory=set)
    """What contexts keep as attributes and autograd does not: nobody looks whether it was changed."""
    writes_when_kept: dict[int, Writes] = field(default_factory=dict)
    """Of kept inputs that share a storage with others: how often these had been written when eager first kept them."""

    def forget_unread(self, reads: frozenset[Computed | InputItself]) -> None:
        """What autograd keeps for results without a gradient, no backward pass looks at: `reads` are those that one does."""
        self.kept_inputs = {index for index in self.kept_inputs if InputItself(index) in reads}
        self.kept_outputs = {
            number: place for number, place in self.kept_outputs.items() if Computed(number) in reads or not place[0]
        }


def check_inputs(names: Sequence[str], examples: list[Any]) -> None:
    for name, example in zip(names, examples, strict=True):
        if isinstance(example, torch.Tensor):
            kind = _unsupported_kind(example)
            if kind:
                raise DifferentiationRefused(UnsupportedTensor(name, kind), name)


def _unsupported_kind(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided:
        return f"a {str(tensor.layout).removeprefix('torch.')} tensor"
    if tensor.is_quantized or tensor.is_nested:
        return "quantized or nested"
    if tensor.is_conj() or tensor.is_neg():
        return "a lazily conjugated or negated view"
    if tensor._is_zerotensor():
        return "a tensor of zeros without memory"
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"a {type(tensor).__name__}, a subclass of Tensor"
    return ""


def describe_results(
    recorder: Recorder,
    names: Sequence[str],
    inputs: Sequence[Any],
    handles: list[Any],
    before: list[Any],
    outputs: Any,
    overlap: Overlap,
    records: bool,
) -> Results:
    """`records`: whether views are made again where autograd looks."""
    results = Results(inputs_require_grad=any(getattr(facts, "requires_grad", False) for facts in inputs))
    if not isinstance(outputs, (tuple, list)):
        outputs = (outputs,)
    described = _Outputs(recorder, handles, results, _by_storage(recorder, outputs), records)
    for position, output in enumerate(outputs):
        results.outputs.append(described.describe(position, output))
    _describe_mutations(recorder, names, handles, before, results, overlap)
    results.kept_inputs = {i for i, h in enumerate(handles) if isinstance(h, torch.Tensor) and recorder.is_kept(h)}
    describe_held(recorder, results, names, outputs)
    results.writes_when_kept = {i: recorder.writes_when_kept(handles[i]) for i in results.kept_inputs}
    return results


def _by_storage(recorder: Recorder, outputs: Any) -> dict[int, list[tuple[int, torch.Tensor]]]:
    """The outputs, each once with its first position, that live in each storage."""
    found: dict[int, list[tuple[int, torch.Tensor]]] = {}
    seen: set[int] = set()
    for position, output in enumerate(outputs):
        if isinstance(output, torch.Tensor) and id(output) not in seen:
            seen.add(id(output))
            cell = recorder.memory.cell(output)
            if cell is not None:
                found.setdefault(id(cell), []).append((position, output))
    return found


class _Outputs:
    """Decides output by output; remembers which handles and storages were returned already."""

    def __init__(self, recorder: Recorder, handles: list[Any], results: Results, shared: dict[int, list], records: bool) -> None:
        self.recorder = recorder
        self.records = records
        self.inputs = {id(handle): i for i, handle in enumerate(handles) if isinstance(handle, torch.Tensor)}
        self.handles = handles
        self.results = results
        self.shared = shared
        self.known: dict[int, Output] = {}
        self.bases: dict[int, tuple[Computed, torch.Tensor]] = {}

    def describe(self, position: int, output: Any) -> Output:
        if not isinstance(output, torch.Tensor):
            return self._plain(output)
        if output.device != META:
            return Constant(output)  # a tensor that belongs to the program: the graph returns it, not a copy
        if id(output) in self.inputs:
            return InputItself(self.inputs[id(output)])
        if id(output) not in self.known:
            self.known[id(output)] = self._tensor(position, output)
        return self.known[id(output)]

    def _plain(self, output: Any) -> Output:
        number = number_of(self.recorder.observe(output) if type(output) in (int, float) else output)
        return Expression(number) if isinstance(number, Size) else Constant(output)

    def _tensor(self, position: int, output: torch.Tensor) -> Output:
        if awaits_history(output):
            raise DifferentiationRefused(OutputNotReproducible(str(position), "a view that got a history because its base was written"))
        try:
            made_inside = output.requires_grad and output.is_leaf
        except RuntimeError as error:  # autograd forbids a view whose base was written otherwise than it was made
            raise DifferentiationRefused(OutputNotReproducible(str(position), str(error).partition(".")[0])) from None
        self.recorder.value(output)
        cell = self.recorder.memory.cell(output)
        assert cell is not None
        if made_inside and not self._is_unrecorded_view(output, cell):
            raise DifferentiationRefused(LeafMadeInside(str(position)))
        if cell.input_index is not None:
            return self._view_of_input(position, output, cell)
        dense = self._is_dense(position, *self.recorder.layout(output))
        if len(self.shared[id(cell)]) == 1 and dense and not (output.is_conj() or output.is_neg()):
            return self._computed(output, output, OutputOf(position, False))
        computed, base = self._base(position, cell)
        if output is base:
            return computed
        if output.requires_grad and (autograd_base(output) is not base or has_another_history(output, base)):
            raise DifferentiationRefused(
                OutputNotReproducible(str(position), "it shares memory with an output that has another history")
            )
        return self._view(computed, base, output, base.requires_grad or autograd_base(output) is not autograd_base(base))

    def _is_unrecorded_view(self, output: torch.Tensor, cell: Cell) -> bool:
        """Whether it requires grad because what it is a view of does, with no history of its own, and is made again so."""
        return output._is_view() and not self.records and cell.input_index is not None

    def _is_dense(self, position: int, sizes: Any, strides: Any) -> bool:
        trail = self.recorder.trail
        return is_dense(sizes, strides) if trail is None else trail.is_dense(position, sizes, strides)

    def _view_of_input(self, position: int, output: torch.Tensor, cell: Cell) -> ViewOf:
        assert cell.input_index is not None
        handle = self.handles[cell.input_index]
        if output.requires_grad and not handle.requires_grad:
            raise DifferentiationRefused(
                OutputNotReproducible(str(position), "a view that requires grad of an input that does not")
            )
        is_view = any(autograd_base(output) is each for each in (handle, autograd_base(handle)))
        if output.requires_grad and (not is_view or has_another_history(output, handle)):
            raise DifferentiationRefused(
                OutputNotReproducible(str(position), "it shares memory with an input and has another history")
            )
        if output.requires_grad and repeats_elements(cell.root[0], cell.root[1]):
            raise DifferentiationRefused(
                OutputNotReproducible(str(position), "a view of an input whose elements share places in memory")
            )
        return self._view(InputItself(cell.input_index), handle, output, handle.requires_grad or not is_view)

    def _view(self, base: Computed | InputItself, shown: torch.Tensor, output: torch.Tensor, is_detached: bool) -> ViewOf:
        """`shown` is the base. `detach()` gives what is no view to autograd: it may be detached in place, as a view may not.
        `is_detached`: a view without a history is none of the base."""
        is_view = output._is_view()
        recipes = path(self.recorder.memory, output) or _whole_part(output)
        if is_view and is_made(output, "MULTI_OUTPUT_NODE"):
            recipes = recipes or ONE_OF_ONE
        else:
            recipes = tuple(replace(recipe, piece_of=None) for recipe in recipes)
        apart = not output.requires_grad and not shares_version(output, shown)
        own_writes = output._version if apart else None
        unrecorded = self.records and is_view and is_made(output, "NO_GRAD_MODE")
        if output.requires_grad or (is_view and not is_detached and not apart):
            return ViewOf(base, recipes or ALIAS, "no", unrecorded=unrecorded)
        if is_view:
            return ViewOf(base, recipes or ALIAS, "before", own_writes, unrecorded)
        return ViewOf(base, recipes, "after", own_writes)

    def _computed(self, output: torch.Tensor, history: torch.Tensor, place: OutputOf) -> Computed:
        sizes, strides = self.recorder.layout(output)
        value = self.recorder.value(output)
        if value.strides != strides and not is_dense(sizes, strides):
            raise DifferentiationRefused(OutputNotReproducible(str(place.position), "its memory has holes"))
        value = with_strides(self.recorder.builder, value, strides)
        value = restrided(self.recorder.builder, value, sizes, strides)
        self.results.computed.append(value)
        number = len(self.results.computed) - 1
        if not history.is_inference() and history._version:
            self.results.versions[number] = history._version
        if history.requires_grad:
            self.results.differentiable.append((history, value))
            self.results.differentiable_outputs.append(number)
            self.results.places.append(place)
            if history.grad_fn is not None:
                function = _name_of(history.grad_fn), history.output_nr
                self.results.functions[number] = function
                if self.recorder.is_kept(history):
                    self.results.kept_outputs[number] = function
        elif self.recorder.is_kept(output):
            self.results.kept_outputs[number] = "", 0  # without a history its errors name no function
        return Computed(number)

    def _base(self, position: int, cell: Cell) -> tuple[Computed, torch.Tensor]:
        """The whole storage as one computed output, of which outputs are views: the one with a history, where one has, or what some
        are views of for autograd. Of what was detached from it nothing else is to be a view: it may require grad later."""
        if id(cell) not in self.bases:
            self.bases[id(cell)] = self._whole(position, cell)
        return self.bases[id(cell)]

    def _whole(self, position: int, cell: Cell) -> tuple[Computed, torch.Tensor]:
        sharing = sorted(self.shared[id(cell)], key=lambda pair: (not pair[1].requires_grad, not pair[1]._is_view()))
        needs_history = sharing[0][1].requires_grad
        for place, output in sharing:
            base = autograd_base(output)
            if geometry_of(base) == cell.root and (base.requires_grad or not needs_history):
                return self._computed(base, base, OutputOf(place, base is not output)), base
        if needs_history:
            raise DifferentiationRefused(OutputNotReproducible(str(position), "it is a view whose base was detached"))
        sizes, strides, offset = cell.root[:3]
        base = sharing[0][1].as_strided(sizes, strides, offset)
        return self._computed(base, base, OutputOf(position, True)), base


def _whole_part(output: torch.Tensor) -> tuple[ViewRecipe, ...]:
    """`x[0:]`, or the one part that `x` was split into: its gradient is written into zeros, which are contiguous."""
    function = output.grad_fn
    return WHOLE if function is not None and type(function).name(function).startswith(("Slice", "Split", "UnsafeSplit")) else ()


def has_another_history(output: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether what leads back from a view is not what would if it were taken of the base again. A function of the program's own, whose
    backward pass gives another gradient than the view's: reversed, scaled. Or a view that was made under `no_grad`: it requires grad
    because its base does, but no gradient goes on from there."""
    function = output.grad_fn
    while function is not None and function is not base.grad_fn:
        if isinstance(function, torch.autograd.function.BackwardCFunction) and not hasattr(function, "known_as"):
            return True
        if hasattr(function, "variable"):
            return function.variable is not base
        following = function.next_functions
        function = following[0][0] if following else None
    return function is None and output.grad_fn is not None


def autograd_base(output: torch.Tensor) -> torch.Tensor:
    """The tensor whose history a write through `output` belongs to."""
    base = output._base if output._is_view() else output
    assert base is not None
    return base


def shares_version(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a write to the one counts as one to the other. Only a write tells; it is taken back."""
    if one.is_inference() or other.is_inference():
        return True
    versions = one._version, other._version
    torch.autograd.graph.increment_version(one)
    found = other._version != versions[1]
    torch._C._autograd._unsafe_set_version_counter((one, other), versions)
    return found


def _name_of(function: Any) -> str:
    """As eager names it: functions of our own that stand for one of torch's say which."""
    return getattr(function, "known_as", None) or type(function).name(function)


def path(memory: Memory, output: torch.Tensor) -> tuple[ViewRecipe, ...]:
    """The views that lead from the storage's first tensor to `output`."""
    cell = memory.cell(output)
    assert cell is not None
    geometry, recipes = memory.geometry(output), []
    while geometry != cell.root:
        geometry, recipe = memory.recipe(cell, geometry)
        recipes.append(recipe)
    return tuple(reversed(recipes))


def _describe_mutations(
    recorder: Recorder,
    names: Sequence[str],
    handles: list[Any],
    before: list[Any],
    results: Results,
    overlap: Overlap,
) -> None:
    for index, handle in enumerate(handles):
        if not isinstance(handle, torch.Tensor):
            continue
        cell = recorder.memory.cell(handle)
        count = handle._version - before[index][1]
        if cell is None or not cell.writes:
            results.counted += [index] * count
            continue
        history = handle.requires_grad and handle.grad_fn is not before[index][0]
        other = overlap(index, history)
        if other is not None:
            raise DifferentiationRefused(OverlappingInputsMutated(names[index], names[other]), names[index])
        if repeats_elements(cell.root[0], cell.root[1]):
            raise DifferentiationRefused(UnsupportedMutation(names[index], "its elements share places in memory"))
        place = (_name_of(handle.grad_fn), handle.output_nr) if handle.grad_fn is not None else ("", 0)
        value = (
            with_strides(recorder.builder, recorder.memory.read(handle), recorder.observe(handle.stride()))
            if is_dense(*recorder.layout(handle))
            else recorder.memory.read(handle)
        )
        results.mutated.append(MutatedInput(index, value, history, count, place))
    for order, mutated in enumerate(results.mutated):
        if mutated.records_history:
            results.differentiable.append((handles[mutated.index], mutated.value))
            results.differentiable_outputs.append(len(results.computed) + order)
            results.places.append(InputItself(mutated.index))


class OverlappingInputs:
    """`find(index, records_history)` is the number of another example that shares memory with this one, if any does; where a write to this
    one gives all views of its base another history, of any of these. Few examples come near another one: only those are compared."""

    def __init__(self, examples: Sequence[Any]) -> None:
        self.examples = examples

    @cached_property
    def _neighbours(self) -> list[int]:
        """The examples whose memory begins before that of another one ends, or that have a storage or a base in common."""
        tensors = {at: example for at, example in enumerate(self.examples) if isinstance(example, torch.Tensor)}
        near = {at for at, tensor in tensors.items() if not tensor.numel()}
        bases = {at: autograd_base(tensor) for at, tensor in tensors.items()}
        times = Counter(map(id, bases.values()))
        near |= {at for at, base in bases.items() if times[id(base)] > 1}
        lie = sorted((str(tensor.device), *_range(tensor), at) for at, tensor in tensors.items() if _has_memory(tensor))
        reached, reaching = ("", 0), -1
        for device, start, end, at in lie:
            if (device, start) < reached:
                near |= {at, reaching}
            if (device, end) > reached:
                reached, reaching = (device, end), at
        return sorted(near)

    def find(self, index: int, records_history: bool) -> int | None:
        if index not in self._neighbours:
            return None
        one = self.examples[index]
        for at in self._neighbours:
            other = self.examples[at]
            if at != index and other.device == one.device:
                if _overlap(one, other) or (records_history and autograd_base(other) is autograd_base(one)):
                    return at
        return None


def _has_memory(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "meta" and tensor.numel() > 0


def sharing_storages(examples: Sequence[Any]) -> frozenset[int]:
    """The numbers of the examples that lie in one storage with another: views of one base share a version, whatever they show."""
    places: dict[int, list[int]] = {}
    for index, example in enumerate(examples):
        if isinstance(example, torch.Tensor) and example.device.type != "meta" and not example.is_inference():
            places.setdefault(example.untyped_storage()._cdata, []).append(index)
    return frozenset(index for found in places.values() if len(found) > 1 for index in found)


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Tensors without elements that share a storage overlap: a write to one counts as a change of the other for autograd."""
    if a.device.type == "meta":
        return False
    if a.numel() == 0 or b.numel() == 0:
        return a.untyped_storage()._cdata == b.untyped_storage()._cdata
    (start, end), (start_of_other, end_of_other) = _range(a), _range(b)
    return start < end_of_other and start_of_other < end


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """The first and the past-the-last byte that its elements lie in."""
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + elements * tensor.element_size()
