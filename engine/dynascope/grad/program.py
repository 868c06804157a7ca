"""A captured graph with all that recording it depends on, so that it can be recorded again later, in another state of torch.

    program = Program.of(graph, example_inputs, options)
    recorded = record(program)              steps on a tape, and what the outputs are

Recording is the same each time: the step at one place of the tape is the same step in every recording of a program.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import field, replace
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.grad.decompose import table_for
from dynascope.grad.inputs import InputFacts, in_world, inputs_of
from dynascope.grad.interpret import make_inputs, run
from dynascope.grad.options import GradOptions
from dynascope.grad.outputs import Overlap, Results, describe_results
from dynascope.grad.reasons import DifferentiationRefused, InputMetadataChanged
from dynascope.grad.record import Recorder
from dynascope.grad.record_layouts import LayoutRecorder
from dynascope.grad.trails import Trail
from dynascope.grad.written_attention import written_attentions
from dynascope.grad.written_cross_entropy import written_cross_entropies
from dynascope.grad.written_forms import WrittenForm, is_differentiated_again
from dynascope.meta_kernels import kernel_flags
from dynascope.meta_kernels.autocast import AutocastState
from dynascope.meta_kernels.torch_warnings import noted


@dataclass(frozen=True, slots=True)
class Program:
    """`inputs` has the facts of each tensor, and each number, that the graph takes."""

    graph: fx.GraphModule
    names: tuple[str, ...]
    inputs: tuple[Any, ...]
    options: GradOptions
    grad_mode: bool
    default_dtype: torch.dtype
    autocast: AutocastState
    sharing: frozenset[int] = frozenset()
    """The inputs that share a storage with others."""
    forms: Mapping[fx.Node, WrittenForm] = field(default_factory=dict)
    """Found once: every recording is of the same steps, whatever torch's state is by then."""
    has_complexes: bool = False
    """Whether anything in it is a tensor of complex numbers."""

    @classmethod
    def of(cls, graph: fx.GraphModule, examples: list[Any], options: GradOptions) -> Program:
        names = tuple(node.name for node in graph.graph.nodes if node.op == "placeholder")
        inputs = inputs_of(graph, examples)
        grad_mode = torch.is_grad_enabled() and options.gradients == "as-needed"
        recognizes = options.recognizes_forms and not is_differentiated_again(graph)
        forms = {**written_attentions(graph), **written_cross_entropies(graph)} if recognizes else {}
        made = (node.meta.get("example_value") for node in graph.graph.nodes)
        has_complexes = any(isinstance(each, torch.Tensor) and each.dtype.is_complex for each in made)
        state = grad_mode, torch.get_default_dtype(), AutocastState.now()
        return cls(graph, names, inputs, options, *state, forms=forms, has_complexes=has_complexes)

    @property
    def main_device(self) -> torch.device:
        """Where most of the program runs: the first input that is not on the CPU says."""
        devices = [facts.device for facts in self.inputs if isinstance(facts, InputFacts)]
        return next((d for d in devices if d.type != "cpu"), devices[0] if devices else torch.device("cpu"))

    def at(self, values: Mapping[str, Any]) -> Program:
        """The same program of inputs of other sizes."""
        return replace(self, inputs=in_world(self.inputs, values))

    @contextmanager
    def state(self) -> Iterator[None]:
        """Torch's own state as it was when the program was captured."""
        before = torch.is_grad_enabled(), torch.get_default_dtype(), AutocastState.now(), kernel_flags.now()
        torch.set_default_dtype(self.default_dtype)
        self.autocast.restore()
        try:
            with torch.set_grad_enabled(self.grad_mode):
                yield
        finally:
            torch._C._set_grad_enabled(before[0])
            torch.set_default_dtype(before[1])
            before[2].restore()
            kernel_flags.restore(before[3])


@dataclass(frozen=True, slots=True)
class Recorded:
    """`values` are the inputs' on the tape; `leaves` what to differentiate by; `handles` what the program got
    for them; `results` what the program returns."""

    recorder: Recorder
    values: list[Any]
    leaves: list[Any]
    handles: list[Any]
    results: Results


def record(program: Program, overlap: Overlap = lambda index, history: None, trail: Trail | None = None) -> Recorded:
    """Must run within `program.state()`, and `recorded.recorder` must be entered again for what follows."""
    options = program.options
    make = LayoutRecorder if trail is not None and not trail.others else Recorder
    recorder = make(table_for(options, program.has_complexes), program.main_device, trail, options.decompositions)
    with recorder, noted():
        values, leaves, handles = make_inputs(program.names, program.inputs, recorder)
        recorder.counted = [(i, handles[i], handles[i]._version) for i in sorted(program.sharing)]
        before = [
            (h.grad_fn, h._version, h.shape, h.stride()) if isinstance(h, torch.Tensor) else None for h in handles
        ]
        with _keeping_noted(recorder):
            outputs = run(program.graph, handles, recorder, program.forms)
        _check_metadata(program.names, handles, before)
        results = describe_results(recorder, program.names, program.inputs, handles, before, outputs, overlap, program.grad_mode)
    return Recorded(recorder, values, leaves, handles, results)


def _keeping_noted(recorder: Recorder) -> AbstractContextManager[Any]:
    """What eager keeps for its backward pass is noted, unless the program forbids hooks that could."""
    if not torch._C._autograd._saved_tensors_hooks_is_enabled():
        return nullcontext()
    return torch.autograd.graph.saved_tensors_hooks(recorder.note_kept, recorder.note_read)


def _check_metadata(names: tuple[str, ...], handles: list[Any], before: list[Any]) -> None:
    for name, handle, state in zip(names, handles, before, strict=True):
        if state is not None and (handle.shape, handle.stride()) != state[2:]:
            raise DifferentiationRefused(InputMetadataChanged(name), name)
