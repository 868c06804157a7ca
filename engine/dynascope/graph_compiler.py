"""A captured graph to machine code: differentiate, lower, fuse, emit, build. What the default backend does.

A graph that a stage cannot take runs operator by operator, with the reason in `notes`; it is never lost. A refusal because
a number is needed as a constant is different: capture can fix that number, so it is raised as `NumberNeeded`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import _disable_current_modes

from dynascope import recording
from dynascope.backends import GraphCompilers
from dynascope.capture.calls.libraries import own_operators
from dynascope.codegen.triton.kernel import ALIGNMENT
from dynascope.configuration import Options
from dynascope.dataclass import dataclass
from dynascope.dependent_results import (
    Origins,
    ends_of_parts,
    given_to,
    parts_by_histories,
    with_results_of,
    without_a_way,
)
from dynascope.frame import hook
from dynascope.grad import Backends, DifferentiationRefused, GradOptions, GradPair, bridge, differentiate, saved_alone
from dynascope.grad.options import Level
from dynascope.grad.pair import InputItself
from dynascope.grad.reasons import LateNumberNeeded, OutputNotReproducible, UnsupportedDevice, VaryingNumberNeeded
from dynascope.gradient_buckets import borders_of_buckets
from dynascope.graph_parts import (
    Part,
    conditions_of,
    describe,
    describe_computed,
    has_late_numbers,
    is_computed_number,
    joined,
    lie_alone,
    parts_of,
    pieces_of_nothing_else,
    results_of,
    run_apart,
    storages_outside,
    writes_last,
    writes_what_others_read,
    written_among,
)
from dynascope.graph_parts import build as build_part
from dynascope.joint_forward import HandedOut, joint_forward
from dynascope.meta_kernels import autocast
from dynascope.part_states import converted_to_several_types
from dynascope.reasons import BackendInParts
from dynascope.report.facts import Phase
from dynascope.report.reason import Explanation, Reason
from dynascope.runtime import launching
from dynascope.runtime.clock import StageClock
from dynascope.runtime.compile_aten import CompiledAten, compile_aten, compile_together
from dynascope.runtime.graph_calls import GraphCalls, Marks, as_built, call_as_built
from dynascope.runtime.operators import run_operators
from dynascope.sizes import Scope
from dynascope.tangent_check import tangents_fit
from dynascope.uncounted_writes import read_by_an_earlier_part


class NumberNeeded(Exception):
    """Inputs of the graph (their positions) vary, and an operator needs them as constants."""

    def __init__(self, positions: tuple[int, ...], *, may_be_tied: bool = True) -> None:
        super().__init__("an operator needs as a constant what only the run knows")
        self.positions, self.may_be_tied = positions, may_be_tied


class OperatorsUnsupported(Exception):
    """The graph holds operators of the program's own, and could not be differentiated: it may be able to without them."""

    def __init__(self, operators: frozenset[Any]) -> None:
        super().__init__(operators)
        self.operators = operators


@dataclass(frozen=True)
class CompiledGraph:
    """`function` takes the graph's inputs and returns its outputs. The rest is what the stages made, for the report."""

    function: Callable
    torch_graph: Any
    pair: GradPair | None = None
    forward: CompiledAten | None = None
    backward: CompiledAten | None = None
    notes: tuple[Explanation, ...] = ()
    parts: tuple[CompiledGraph, ...] = ()
    """Of a graph with numbers that only its run knows, or cut for other reasons: those of its parts that have kernels, behind what computes
    the forward pass of all of them where that is one graph."""
    writes_last: bool = False
    """Whether of its parts the one that writes to inputs has kernels, and nothing after it can raise."""

    @property
    def writes_inputs(self) -> bool:
        """Whether it may have written to inputs when it raises. Kernels do at their end."""
        return self.pair is None and not self.writes_last

    @property
    def has_kernels(self) -> bool:
        return self.pair is not None or bool(self.parts)

    @property
    def keeps_tensors(self) -> bool:
        """Whether kernels say what a backward pass keeps: fewer than eager."""
        return any(made.backward is not None for made in self.parts or (self,))

    @property
    def level(self) -> str:
        """Of what was compiled."""
        programs = (part.pair.program for part in self.parts or (self,) if part.pair is not None)
        return next((program.options.level for program in programs if program is not None), "core")

    def phases(self) -> Iterator[tuple[Phase, CompiledAten]]:
        for graph in self.parts or (self,):
            phases: tuple[tuple[Phase, CompiledAten | None], ...] = (("forward", graph.forward), ("backward", graph.backward))
            for phase, made in phases:
                if made is not None:
                    yield phase, made


def compile_graph(
    graph: Any,
    example_inputs: tuple,
    options: Options,
    region: str,
    clock: StageClock,
    shown: Collection[fx.Node] | None = None,
    origins: Origins | None = None,
) -> CompiledGraph:
    """Run every stage on `graph` (Torch IR). `clock(stage)` times and announces each. Of a part of another graph `shown` are the results
    that the program gets, `origins` where its histories begin. Raises `NumberNeeded`, and `OperatorsUnsupported` where the graph may be
    broken."""
    elsewhere = next((node for node in graph.graph.nodes if _device_type(node) not in KERNELS_FOR), None)
    if elsewhere is not None:
        reason = UnsupportedDevice(elsewhere.name, str(_device_type(elsewhere)))
        return CompiledGraph(graph.forward, graph, notes=(_explained(reason, elsewhere),))
    shown = results_of(graph) if shown is None else shown
    for node in graph.graph.nodes:
        if "asked_for_history" in node.meta:
            return CompiledGraph(graph.forward, graph, notes=(_explained(asked_for_history(node.name), node),))
        if "hooked" in node.meta:  # autograd's own function is what the program finds
            run_apart(node)
    if has_late_numbers(graph):
        return _compile_cut(
            graph, example_inputs, options, region, clock, lambda: parts_of(graph, ends=ends_of_parts(graph, shown)), shown
        )
    if (node := without_a_way(graph, shown)) is not None:
        reason = OutputNotReproducible(node.name, "another is computed from it, and gradients inside are differentiated again")
        return CompiledGraph(graph.forward, graph, notes=(_explained(reason, node),))
    if levels := parts_by_histories(graph, shown, borders_of_buckets(graph), origins):
        return _compile_cut(graph, example_inputs, options, region, clock, lambda: parts_of(graph, levels), None)
    return compile_whole(graph, example_inputs, options, region, clock)


def asked_for_history(name: str) -> OutputNotReproducible:
    return OutputNotReproducible(
        name,
        "the program asks for its `grad_fn`, and kernels have one for all that they compute",
        "Put hooks on tensors, and look at their histories outside of compiled functions.",
    )


def compile_whole(graph: Any, example_inputs: tuple, options: Options, region: str, clock: StageClock) -> CompiledGraph:
    """A graph that is no row of parts, or one of its parts."""
    pair = differentiated(graph, example_inputs, options, region, clock)
    return pair if isinstance(pair, CompiledGraph) else _with_kernels(graph, pair, example_inputs, options, clock)


def differentiated(
    graph: Any, example_inputs: tuple, options: Options, region: str, clock: StageClock
) -> GradPair | CompiledGraph:
    """The graph as it runs where differentiation refuses it."""
    launching.begin(given.device for given in example_inputs if isinstance(given, torch.Tensor))
    try:
        with clock("differentiate"):
            return differentiate(graph, list(example_inputs), _grad_options(options, region))
    except DifferentiationRefused as refusal:
        if isinstance(refusal.reason, VaryingNumberNeeded):
            raise NumberNeeded(_positions(graph, refusal.reason.inputs)) from refusal
        own = frozenset(operator for node in graph.graph.nodes for operator in own_operators(node.target))
        if own and not options.fullgraph:
            raise OperatorsUnsupported(own) from refusal
        return CompiledGraph(graph.forward, graph, notes=(_explain(refusal, graph),))


def _with_kernels(graph: Any, pair: GradPair, example_inputs: tuple, options: Options, clock: StageClock) -> CompiledGraph:
    _note_misaligned(pair, example_inputs)
    if isinstance(options.backend, GraphCompilers):
        forward, backward = _compiled_by(options.backend, pair, example_inputs, clock)
    else:
        graphs = [(pair.forward, example_inputs), (pair.backward, None)]
        forward, *others = compile_together(
            [made for made in graphs if made[0] is not None], options, clock, pair.written_inside, _is_read(), saved_alone(pair)
        )
        backward = others[0] if others else None
    calls = _in_mode(options, forward, [(backward, saved_alone(pair))] if backward else [])
    function = _bridged(pair, calls.forward, backward, options, next(iter(calls.of_backward), call_as_built))
    notes = forward.notes + (backward.notes if backward else ()) + calls.notes
    return CompiledGraph(function, graph, pair, forward, backward, notes)


def _bridged(
    pair: GradPair, forward: Callable[..., Any], backward: CompiledAten | None, options: Options, call_of: Callable[[CompiledAten], Any]
) -> Callable[..., Any]:
    backends = Backends(lambda graph: call_of(_compile_part(graph, options)), run_operators, tangents_fit)
    return _outside_autocast(bridge(pair, forward, call_of(backward) if backward else None, backends))


def _outside_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    return autocast.without_autocast(function) if autocast.active_devices() else function


def _note_misaligned(pair: GradPair, example_inputs: tuple) -> None:
    """Kernels of a GPU for inputs that begin at odd places in memory are written for that at once, also where the backward pass reads
    them."""
    odd = [isinstance(given, torch.Tensor) and given.is_cuda and given.data_ptr() % ALIGNMENT != 0 for given in example_inputs]
    if not any(odd):
        return
    for node, is_odd in zip(_placeholders(pair.forward), odd, strict=True):
        node.meta["misaligned"] = is_odd
    if pair.backward is not None:
        for node, saved in zip(_placeholders(pair.backward), pair.saved, strict=False):  # tangents follow
            node.meta["misaligned"] = isinstance(saved.origin, InputItself) and odd[saved.origin.index]


def _in_mode(options: Options, forward: CompiledAten, backwards: Sequence[tuple[CompiledAten, Marks]]) -> GraphCalls:
    if options.mode == "default":
        return as_built(forward, len(backwards))
    from dynascope.runtime.modes import in_mode  # of no use in the default mode

    return in_mode(options, forward, backwards, _tell)


def _is_read() -> bool:
    """Whether somebody reads what the stages make."""
    return recording.current() is not None


def _tell(explanation: Explanation) -> None:
    """What turns out when a graph runs."""
    recorder = recording.current()
    if recorder is not None:
        recorder.problem(explanation)


def _grad_options(options: Options, region: str) -> GradOptions:
    compilers = options.backend
    if not isinstance(compilers, GraphCompilers):
        # Decomposed, an operator rounds in places where eager's kernel of it does not.
        is_strict = options.numerics == "strict"
        level: Level = "aten" if is_strict else "core"
        return GradOptions(random=options.random, level=level, recognizes_forms=not is_strict, region=region)
    return GradOptions(options.random, level=compilers.level, decompositions=compilers.decompositions, region=region)


def _compiled_by(
    compilers: GraphCompilers, pair: GradPair, example_inputs: tuple, clock: StageClock
) -> tuple[CompiledAten, CompiledAten | None]:
    with clock("backend"):
        forward = _compiled_alone(compilers.forward, compilers, pair.forward, list(example_inputs))
        return forward, _compiled_alone(compilers.backward, compilers, pair.backward) if pair.backward is not None else None


def _compiled_alone(
    compiler: Callable | None,
    compilers: GraphCompilers,
    graph: fx.GraphModule,
    examples: list[Any] | None = None,
    *,
    is_guarded: bool = True,
) -> CompiledAten:
    """What a person's compiler makes of a graph; of a backward graph the example inputs are meta tensors. Where sizes vary they are
    written in torch's symbols: a compiler must not take those at hand for constants. `is_guarded` says that the entry's guards are made
    after this."""
    if examples is None:
        examples = [node.meta["val"] for node in _placeholders(graph)]
    if compiler is None:
        return CompiledAten(graph, run_operators(graph), None, ())
    if any(map(_varies, graph.graph.nodes)):
        from dynascope.symbolic_backends import compile_functional_with_symbols  # imports torch's symbols

        call = compile_functional_with_symbols(compiler, graph, compilers.when_kept, is_guarded=is_guarded)
    else:
        call = compiler(graph, examples)
    left = getattr(call, "left", ())
    return CompiledAten(graph, call, None, (BackendInParts(left).explain(),) if left else ())


def _varies(node: fx.Node) -> bool:
    """A backward graph may be given no number and have tensors of any size nevertheless."""
    layout = node.meta.get("layout")
    layouts = layout if isinstance(layout, (list, tuple)) else (layout,)
    return "size" in node.meta or any(each is not None and each.varies for each in layouts)


def _compile_cut(
    graph: fx.GraphModule,
    example_inputs: tuple,
    options: Options,
    region: str,
    clock: StageClock,
    cut: Callable[[], list[Part]],
    shown: Collection[fx.Node] | None,
) -> CompiledGraph:
    """In parts, where each by itself does what the whole does."""
    if (node := converted_to_several_types(list(graph.graph.nodes))) is not None:
        return _operators(graph, node)
    parts = cut()
    if (node := read_by_an_earlier_part(graph, parts)) is not None:
        return _as_written_through_data(graph, node)
    return _compile_parts(graph, example_inputs, options, region, clock, parts, shown)


def _compile_parts(
    graph: fx.GraphModule,
    example_inputs: tuple,
    options: Options,
    region: str,
    clock: StageClock,
    parts: list[Part],
    shown: Collection[fx.Node] | None,
) -> CompiledGraph:
    """Each part by itself, in order: what one gives says what the next one gets. `shown` are the results that the program gets; None
    where no part is to be cut again."""
    nodes = list(graph.graph.nodes)
    examples = dict(zip(_placeholders(graph), example_inputs, strict=True))
    outside = storages_outside(examples)
    notes: list[Explanation] = []
    compiled: list[CompiledGraph] = []
    roots = {node.meta["size"].expression: node for node in nodes if "size" in node.meta and not is_computed_number(node)}
    scope = next((node.meta["size"].scope for node in roots.values()), None) or Scope()
    origins = Origins(given_to(nodes))
    is_together = shown is None and not scope.late and _may_run_together(parts, options)
    for part in parts:
        own = pieces_of_nothing_else(part, graph) if is_together else frozenset()
        is_known = build_part(part, graph, roots, own)
        if part.is_kernels:
            made = _compile_kernels(part, is_known, examples, outside, options, region, clock, shown, origins, is_together)
            notes += made.notes
            if made.has_kernels and scope.late & scope.pinned() & set(part.roots):
                notes.append(_explained(LateNumberNeeded(), part.nodes[0]))
            elif made.has_kernels:
                part.compiled = made
                part.conditions = conditions_of(part, scope)
                compiled += made.parts or (made,)
            describe_computed(part)
        else:
            describe(part, scope)
        origins = with_results_of(part, origins)
        # What was written may have a history by now, as its stand-in has.
        examples |= {node: node.meta["example_value"] for node in written_among(part, examples)}
        for node in own:
            lie_alone(node)
    first = None
    if is_together:
        compiled, first = _with_kernels_together(graph, parts, examples, options, clock)
        notes += [note for each in compiled for note in each.notes]
    function = joined(graph, parts, first)
    return CompiledGraph(function, graph, notes=tuple(notes), parts=tuple(compiled), writes_last=writes_last(parts))


def _may_run_together(parts: Sequence[Part], options: Options) -> bool:
    """Whether one forward graph may compute what they all give: none of them writes to what another one reads."""
    if isinstance(options.backend, GraphCompilers) or len(parts) < 2:
        return False
    return all(part.is_kernels and not any(node.meta.get("writes") for node in part.nodes) for part in parts)


def _with_kernels_together(
    graph: fx.GraphModule, parts: Sequence[Part], examples: dict[fx.Node, Any], options: Options, clock: StageClock
) -> tuple[list[CompiledGraph], HandedOut | None]:
    """Of parts that were differentiated: their backward graphs as they are, their forward graphs as one where that can be."""
    pairs = [part.compiled.pair for part in parts if part.compiled is not None]
    for part in parts:
        if part.compiled is not None:
            _note_misaligned(part.compiled.pair, _given(part, examples))
    joint = joint_forward(graph, parts, pairs) if len(pairs) == len(parts) else None
    if joint is None:
        for part in parts:
            if part.compiled is not None:
                part.compiled = _with_kernels(part.graph, part.compiled.pair, _given(part, examples), options, clock)
        return [part.compiled for part in parts if part.compiled is not None], None
    # Of the part with the most operations forward and backward graph choose together how lies what the two alone see.
    order = sorted((at for at, pair in enumerate(pairs) if pair.backward is not None), key=lambda at: -len(pairs[at].forward.graph.nodes))
    marks = {at: tuple((joint.places[at].start + output, place) for output, place in saved_alone(pairs[at])) for at in order}
    shared = marks[order[0]] if order else ()
    graphs = [(joint.graph, tuple(examples[node] for node in joint.inputs)), *((pairs[at].backward, None) for at in order)]
    forward, *backwards = compile_together(graphs, options, clock, (), _is_read(), shared)
    backward_of = dict(zip(order, backwards, strict=True))
    calls = _in_mode(options, forward, [(backward_of[at], marks[at]) for at in order])
    call_of = dict(zip(order, calls.of_backward, strict=True))
    first = HandedOut(_outside_autocast(calls.forward), joint)
    made = [CompiledGraph(calls.forward, graph, forward=forward, notes=forward.notes + calls.notes)]
    for at, (part, pair) in enumerate(zip(parts, pairs, strict=True)):
        backward = backward_of.get(at)
        function = _bridged(pair, first.of_part(at), backward, options, call_of.get(at, call_as_built))
        part.compiled = CompiledGraph(function, part.graph, pair, None, backward, backward.notes if backward else ())
        made.append(part.compiled)
    return made, first


def _compile_kernels(
    part: Part,
    is_known: bool,
    examples: dict[fx.Node, Any],
    outside: dict[int | None, int],
    options: Options,
    region: str,
    clock: StageClock,
    shown: Collection[fx.Node] | None,
    origins: Origins,
    is_together: bool,
) -> CompiledGraph:
    """With `is_together` it is differentiated, and has no kernels yet."""
    unknown = not is_known or any("unknown" in node.meta for node in part.inputs) or writes_what_others_read(part, outside)
    if unknown and shown is None:
        # What lies otherwise than densely is not described at other sizes: the parts are those of these sizes.
        if numbers := tuple(at for at, node in enumerate(examples) if "size" in node.meta):
            raise NumberNeeded(numbers)
    try:
        if unknown:
            raise NumberNeeded(())
        given = _given(part, examples)
        if is_together:
            pair = differentiated(part.graph, given, options, region, clock)
            return pair if isinstance(pair, CompiledGraph) else CompiledGraph(part.graph.forward, part.graph, pair)
        if shown is None:
            return compile_whole(part.graph, given, options, region, clock)
        copies = {part.copies[node] for node in shown if node in part.copies}
        return compile_graph(part.graph, given, options, region, clock, copies, origins)
    except NumberNeeded as needed:
        of_inputs, order = [part.inputs[at] for at in needed.positions], list(examples)
        if of_inputs and all(node in examples for node in of_inputs):
            raise NumberNeeded(tuple(order.index(node) for node in of_inputs)) from needed
        return CompiledGraph(part.graph.forward, part.graph, notes=(_explained(LateNumberNeeded(), part.nodes[0]),))


def _given(part: Part, examples: dict[fx.Node, Any]) -> tuple:
    return tuple(examples.get(node, node.meta["example_value"]) for node in part.inputs)


def _compile_part(graph: fx.GraphModule, options: Options) -> CompiledAten:
    """Kernels for a part of a backward pass, made when it is first needed: in the middle of the program's own."""
    with hook.suspended(), torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad():
        launching.begin()
        if isinstance(options.backend, GraphCompilers):
            return _compiled_alone(options.backend.backward, options.backend, graph, is_guarded=False)
        return compile_aten(graph, None, options, empties_its_list=True, is_read=_is_read())


def _operators(graph: fx.GraphModule, node: fx.Node) -> CompiledGraph:
    reason = OutputNotReproducible(node.name, "autocast converts it to several types, and keeps the first copy, which parts do not share")
    return CompiledGraph(graph.forward, graph, notes=(_explained(reason, node),))


def _as_written_through_data(graph: fx.GraphModule, node: fx.Node) -> CompiledGraph:
    reason = OutputNotReproducible(
        node.name,
        "it is written through `.data`, and another part of the graph has computed with it before",
        "Write to the tensor itself, under `torch.no_grad()`: autograd counts that.",
    )
    return CompiledGraph(graph.forward, graph, notes=(_explained(reason, node),))


KERNELS_FOR = (None, "cpu", "cuda")


def _device_type(node: Any) -> str | None:
    """None where it is no tensor."""
    device = node.meta.get("device")
    return None if device is None else device.type


def _placeholders(graph: fx.GraphModule) -> list[fx.Node]:
    return [node for node in graph.graph.nodes if node.op == "placeholder"]


def _positions(graph: Any, names: frozenset[str]) -> tuple[int, ...]:
    """Where the graph's inputs of these names are: of the numbers that placeholders stand for, or of the placeholders."""
    return tuple(at for at, node in enumerate(_placeholders(graph)) if str(node.meta.get("size", node.name)) in names)


def _explained(reason: Reason, node: fx.Node) -> Explanation:
    stack = node.meta.get("user_stack", ())
    return reason.explain(stack[-1].span if stack else None, stack)


def _explain(refusal: DifferentiationRefused, graph: Any) -> Explanation:
    stack = next((node.meta.get("user_stack", ()) for node in graph.graph.nodes if node.name == refusal.node), ())
    return refusal.reason.explain(stack[-1].span if stack else None, stack)
