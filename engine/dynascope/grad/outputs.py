"""What the program's outputs and mutated inputs are, read off the handles after the recording.

return x, x[0], h, h.view(-1)   ->   InputItself(0), ViewOf(InputItself(0)), Computed(0), ViewOf(Computed(0))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from dynascope.grad.numbers import number_of
from dynascope.grad.pair import Computed, Constant, InputItself, Output, ViewOf
from dynascope.grad.reasons import (
    DifferentiationRefused,
    OutputNotReproducible,
    OverlappingInputsMutated,
    UnsupportedTensor,
)
from dynascope.grad.record import Recorder
from dynascope.grad.shapes import is_dense
from dynascope.grad.storage import Cell, geometry_of
from dynascope.grad.tape import META, Number, Value
from dynascope.grad.views import ViewRecipe, with_strides

ALIAS = (ViewRecipe(torch.ops.aten.alias.default),)
"""The view that a tensor of the same sizes is: another object in the same memory."""


@dataclass(slots=True)
class MutatedInput:
    index: int
    value: Value
    records_history: bool
    is_hidden: bool


@dataclass(slots=True)
class Results:
    """`computed` are the forward graph's first outputs; `differentiable` pairs of (handle with history, its value)."""

    outputs: list[Output] = field(default_factory=list)
    computed: list[Value | Number] = field(default_factory=list)
    mutated: list[MutatedInput] = field(default_factory=list)
    differentiable: list[tuple[torch.Tensor, Value]] = field(default_factory=list)
    differentiable_outputs: list[int] = field(default_factory=list)
    """The forward output of each of `differentiable`."""
    sources: tuple[frozenset[int], ...] = ()
    """The inputs that the history of each of `differentiable` leads to."""
    inputs_require_grad: bool = False


def check_inputs(names: list[str], examples: list[Any]) -> None:
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
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        return f"a {type(tensor).__name__}, a subclass of Tensor"
    return ""


def describe_results(
    recorder: Recorder, names: list[str], examples: list[Any], handles: list[Any], before: list[Any], outputs: Any
) -> Results:
    results = Results(inputs_require_grad=any(isinstance(e, torch.Tensor) and e.requires_grad for e in examples))
    if not isinstance(outputs, (tuple, list)):
        outputs = (outputs,)
    described = _Outputs(recorder, handles, results)
    shared = _storages_of_outputs(recorder, outputs)
    for position, output in enumerate(outputs):
        results.outputs.append(described.describe(position, output, shared))
    _describe_mutations(recorder, names, examples, handles, before, results)
    return results


def _storages_of_outputs(recorder: Recorder, outputs: Any) -> dict[int, int]:
    """How many outputs live in each storage."""
    counts: dict[int, int] = {}
    for output in {id(o): o for o in outputs if isinstance(o, torch.Tensor)}.values():
        cell = recorder.memory.cell(output)
        if cell is not None:
            counts[id(cell)] = counts.get(id(cell), 0) + 1
    return counts


class _Outputs:
    """Decides output by output; remembers which handles and storages were returned already."""

    def __init__(self, recorder: Recorder, handles: list[Any], results: Results) -> None:
        self.recorder = recorder
        self.inputs = {id(handle): i for i, handle in enumerate(handles) if isinstance(handle, torch.Tensor)}
        self.handles = handles
        self.results = results
        self.known: dict[int, Output] = {}
        self.bases: dict[int, Computed] = {}
        self.base_tensors: dict[int, torch.Tensor] = {}

    def describe(self, position: int, output: Any, shared: dict[int, int]) -> Output:
        if not isinstance(output, torch.Tensor):
            return self._plain(output)
        if output.device != META:
            return Constant(output)  # a tensor that belongs to the program: the graph returns it, not a copy
        if id(output) in self.inputs:
            return InputItself(self.inputs[id(output)])
        if id(output) not in self.known:
            self.known[id(output)] = self._tensor(position, output, shared)
        return self.known[id(output)]

    def _plain(self, output: Any) -> Output:
        number = number_of(output)
        if isinstance(number, Number):
            self.results.computed.append(number)
            return Computed(len(self.results.computed) - 1)
        return Constant(output)

    def _tensor(self, position: int, output: torch.Tensor, shared: dict[int, int]) -> Output:
        self.recorder.value(output)
        cell = self.recorder.memory.cell(output)
        assert cell is not None
        if cell.input_index is not None:
            detached = self.handles[cell.input_index].requires_grad and not output.requires_grad
            if output.requires_grad and not self.handles[cell.input_index].requires_grad:
                raise DifferentiationRefused(
                    OutputNotReproducible(str(position), "a view that requires grad of an input that does not")
                )
            if output.requires_grad and _repeats_elements(cell):
                raise DifferentiationRefused(
                    OutputNotReproducible(str(position), "a view of an input whose elements share places in memory")
                )
            return ViewOf(InputItself(cell.input_index), path(cell, output) or ALIAS, detached)
        if shared[id(cell)] == 1 and is_dense(tuple(output.shape), output.stride()):
            return self._computed(output, output)
        base = self._base(position, output, cell)
        if output is self.base_tensors[id(cell)]:
            return base
        return ViewOf(base, path(cell, output) or ALIAS, not output.requires_grad)

    def _computed(self, output: torch.Tensor, history: torch.Tensor) -> Computed:
        value = with_strides(self.recorder.builder, self.recorder.value(output), output.stride())
        value = _restrided(self.recorder, value, output)
        self.results.computed.append(value)
        number = len(self.results.computed) - 1
        if history.requires_grad:
            self.results.differentiable.append((history, value))
            self.results.differentiable_outputs.append(number)
        return Computed(number)

    def _base(self, position: int, output: torch.Tensor, cell: Cell) -> Computed:
        """The whole storage as one computed output, of which this output and others are views."""
        known = self.bases.get(id(cell))
        if known is None:
            base = output._base if output._is_view() else output
            if base is None or geometry_of(base) != cell.root:
                base = self._whole(position, output, cell)
            known = self.bases[id(cell)] = self._computed(base, base)
            self.base_tensors[id(cell)] = base
        if output.requires_grad and known.index not in self.results.differentiable_outputs:
            raise DifferentiationRefused(
                OutputNotReproducible(str(position), "it shares memory with an output without history")
            )
        return known

    def _whole(self, position: int, output: torch.Tensor, cell: Cell) -> torch.Tensor:
        if output.requires_grad:
            raise DifferentiationRefused(OutputNotReproducible(str(position), "it is a view whose base was detached"))
        sizes, strides, offset = cell.root[:3]
        return output.as_strided(sizes, strides, offset)


def _restrided(recorder: Recorder, value: Value, output: torch.Tensor) -> Value:
    """Strides of size-1 dimensions too are eager's."""
    if value.strides == output.stride() or value.layout.element_count > 1:
        return value
    return recorder.builder.write_view(
        torch.ops.aten.as_strided.default,
        value,
        (list(output.shape), list(output.stride())),
        _layout_like(value, output),
    )


def _layout_like(value: Value, output: torch.Tensor) -> Any:
    return type(value.layout)(tuple(output.shape), output.stride(), value.dtype, value.device)


def _repeats_elements(cell: Cell) -> bool:
    """Views are told by the places they show, which then do not tell which elements a gradient belongs to."""
    sizes, strides = cell.root[:2]
    return any(size > 1 and stride == 0 for size, stride in zip(sizes, strides, strict=True))


def path(cell: Cell, output: torch.Tensor) -> tuple[ViewRecipe, ...]:
    """The views that lead from the storage's first tensor to `output`."""
    geometry, recipes = geometry_of(output), []
    while geometry != cell.root:
        if geometry not in cell.recipes:
            recipes.append(ViewRecipe.strided(*geometry[:3], cell.root))
            break
        geometry, recipe = cell.recipes[geometry]
        recipes.append(recipe)
    return tuple(reversed(recipes))


def _describe_mutations(
    recorder: Recorder, names: list[str], examples: list[Any], handles: list[Any], before: list[Any], results: Results
) -> None:
    for index, handle in enumerate(handles):
        if not isinstance(handle, torch.Tensor):
            continue
        cell = recorder.memory.cell(handle)
        if cell is None or not cell.writes:
            continue
        _check_overlap(names, examples, index)
        value = (
            with_strides(recorder.builder, recorder.memory.read(handle), handle.stride())
            if is_dense(tuple(handle.shape), handle.stride())
            else recorder.memory.read(handle)
        )
        history = handle.requires_grad and handle.grad_fn is not before[index][0]
        results.mutated.append(MutatedInput(index, value, history, handle._version == before[index][1]))
    for order, mutated in enumerate(results.mutated):
        if mutated.records_history:
            results.differentiable.append((handles[mutated.index], mutated.value))
            results.differentiable_outputs.append(len(results.computed) + order)


def _check_overlap(names: list[str], examples: list[Any], index: int) -> None:
    mutated = examples[index]
    for other, example in enumerate(examples):
        if (
            other != index
            and isinstance(example, torch.Tensor)
            and example.device == mutated.device
            and _overlap(mutated, example)
        ):
            raise DifferentiationRefused(OverlappingInputsMutated(names[index], names[other]), names[index])


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.numel() == 0 or b.numel() == 0 or a.device.type == "meta":
        return False
    start_a, start_b = a.data_ptr(), b.data_ptr()
    return start_a < start_b + _extent(b) and start_b < start_a + _extent(a)


def _extent(tensor: torch.Tensor) -> int:
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return elements * tensor.element_size()
