"""From the artefacts of one compilation to the facts of the report. Everything the report says is read off here.

account_of(compilation, recorder)  ->  a function that gives the Account when the report is written
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from dynascope.backends import backend_name
from dynascope.callers import calling_stack, is_called_by_program
from dynascope.capture import Captured, CodeRegion, RaiseExit, Refused, Return, is_step_code
from dynascope.changes import expected_value
from dynascope.codegen.facts import border_facts, extern_facts, kernel_fact, memory_fact, stage_texts, step_facts
from dynascope.codegen.kernels import Kernel, KernelModule
from dynascope.compilation import Compilation
from dynascope.costs import costs_of
from dynascope.frame import hook
from dynascope.frame.decompiling import decompiled
from dynascope.frame.printing import print_code, print_side_by_side
from dynascope.frame.resume import resume_origin
from dynascope.frame.stack_names import in_users_words
from dynascope.grad.ends import backward_ends, forward_ends
from dynascope.grad.pair import GradPair
from dynascope.grad.printing import print_graph, type_of_node
from dynascope.graph_compiler import CompiledGraph
from dynascope.guards.guard import Guard
from dynascope.levels import texts_of
from dynascope.recording import Account, Recorder
from dynascope.report.facts import (
    EntryFact,
    ExitKind,
    FileLines,
    GraphFact,
    GuardFact,
    KernelFact,
    Phase,
    StageText,
    StepFact,
    ValueFact,
)
from dynascope.report.reason import Explanation
from dynascope.report.span import Span
from dynascope.report.syntax import assigned_names, part_of_statement
from dynascope.report.user_files import is_user_file
from dynascope.runtime.compile_aten import CompiledAten
from dynascope.schedule.groups import FusionGroup
from dynascope.user_lines import UserLines, lines_of
from dynascope.why_again import Again

CALL_OF_MODULES = torch.nn.Module._call_impl.__code__


def account_of(compilation: Compilation, recorder: Recorder) -> Callable[[], Account]:
    """The account, to be called when somebody reads. Identifiers are given out now, in the order of compilation."""
    graph = compilation.graph
    identifier = recorder.identifier("g") if graph is not None else ""
    kernels = [(recorder.identifier("k"), *found) for found in _kernels(graph)] if graph is not None else []
    region = compilation.region
    name = _called(region)
    lines = lines_of(region.root.code, calling_stack(region.qualified_name), compilation.compiled_at, is_called_by_program())
    uses = _uses_of(compilation.entry)
    place = 0 if region.parent is None else id(region)
    own = recorder.identifier("e")
    start = recorder.start_of((name, region.root.span, compilation.compiled_at), own, not place, uses)
    began = start if place else ""
    levels = functools.partial(texts_of, graph) if compilation.options.levels and graph is not None else None
    measures = compilation.options.profile or recorder.check is not None
    costs = costs_of(graph, recorder) if measures and graph is not None else None

    def account() -> Account:
        facts = tuple(
            kernel_fact(kernel, name, identifier, phase, made.paths.get(kernel.name), lines.places, groups)
            for name, kernel, groups, phase, made in kernels
        )
        fact = _graph_fact(identifier, graph, compilation, facts, lines) if graph is not None else None
        entry = _entry_fact(compilation, identifier or None, lines)
        return Account(
            name, region.root.span, entry, fact, facts, compilation.compiled_at, place, own, began, uses, costs,
            levels,
        )  # fmt: skip

    return account


def _called(region: CodeRegion) -> str:
    """The function's name. Of the parts of torch's call of modules, where a break inside one of them goes on, the one that people know."""
    is_call = region.root.code.co_filename == CALL_OF_MODULES.co_filename and "_call_impl" in region.qualified_name
    return "Module.__call__" if is_call else region.qualified_name


def _entry_fact(compilation: Compilation, graph: str | None, lines: UserLines) -> EntryFact:
    region, outcome = compilation.region, compilation.outcome
    again = compilation.again
    refused = EntryFact(
        identifier="",
        region="function" if region.parent is None else "resume",
        span=region.span,
        status="uncompiled",
        exit="none",
        seconds=compilation.seconds,
        recompiled=lines.told(again.explanation) if again else None,
        change=lines.change(again.change) if again else None,
        callers=lines.callers if region.parent is None else (),
    )
    if isinstance(outcome, Refused):
        trace = tuple(_trace_texts(compilation))
        end: ExitKind = "raise" if compilation.options.fullgraph else "none"
        return replace(refused, exit=end, texts=trace, reason=lines.told(_in_words(outcome.explain(), region.code)))
    explanation = outcome.break_explanation()
    return replace(
        refused,
        status="compiled",
        exit=_exit_kind(outcome),
        graph=graph,
        guards=tuple(_guard_facts(outcome.guards, region, lines)),
        reason=lines.told(_in_words(explanation, region.code)) if explanation is not None else None,
        recompiled=lines.told(_as_it_came(again, outcome.guards)) if again else None,
        texts=tuple(_code_texts(compilation)),
        followed=tuple(
            FileLines(file, tuple(sorted(found)))
            for file, found in sorted(outcome.lines().items())
            if is_user_file(file)
        ),
    )


def _as_it_came(again: Again, guards: Sequence[Guard]) -> Explanation:
    """A size or number that changed is as fixed again as it was, where something that follows needs it as a constant."""
    is_again = any(guard.sources == again.guard.sources and expected_value(guard) == again.change.now for guard in guards)
    if again.change.cause not in ("size", "number", "attribute") or not is_again:
        return again.explanation
    return replace(again.explanation, remedy=replace(again.reason, is_fixed_again=True).remedy())


def _in_words(explanation: Explanation, code: types.CodeType) -> Explanation:
    """What a break left on the stack is named by the expression that it is the value of."""
    message, remedy = (in_users_words(text, code) for text in (explanation.message, explanation.remedy))
    return replace(explanation, message=message, remedy=remedy)


def _uses_of(entry: Any) -> Callable[[], tuple[int, int]]:
    """How often the entry ran, and when it did last; the call that made it counts."""
    if entry is None:
        return lambda: (0, 0)
    return lambda: (entry.hits + 1, entry.last_use)


def _exit_kind(outcome: Captured) -> ExitKind:
    """A call that raises without a compiler too is no break: the program ends there, or goes on in its `except`."""
    kinds: dict[type, ExitKind] = {Return: "return", RaiseExit: "raise"}
    return kinds.get(type(outcome.exit), "break")


def _guard_facts(guards: tuple[Guard, ...], region: CodeRegion, lines: UserLines) -> Iterator[GuardFact]:
    seen = set()
    for guard in guards:
        expression = lines.expression(in_users_words(", ".join(s.expression() for s in guard.sources), region.code))
        text = lines.words(in_users_words(guard.describe(), region.code))
        if (text, guard.span) not in seen:
            seen.add((text, guard.span))
            kind, value = type(guard.predicate).__name__, expected_value(guard)
            yield GuardFact(expression, text, kind, guard.span, lines.stack(guard.stack), value)


def _trace_texts(compilation: Compilation) -> Iterator[StageText]:
    if compilation.trace:
        yield StageText("trace", "plaintext", compilation.trace)


def _code_texts(compilation: Compilation) -> Iterator[StageText]:
    yield from _trace_texts(compilation)
    yield StageText("bytecode", "plaintext", print_code(compilation.region.code))
    if compilation.code is not None:
        yield StageText("rewritten-bytecode", "plaintext", print_code(compilation.code))
        if compilation.trace:
            beside = print_side_by_side(compilation.region.code, compilation.code)
            yield StageText("bytecode-beside-rewritten", "plaintext", beside)
        text = decompiled(compilation.code, _name_of_constant)
        if text is not None:
            yield StageText("rewritten-python", "python", text)


def _name_of_constant(value: Any) -> str | None:
    """The graph, and what goes on after a break, by the line where that begins."""
    if isinstance(value, hook.LoadingCall):
        return "graph"
    if value is hook.AS_WRITTEN:
        return "AS_WRITTEN"
    code = getattr(value, "__code__", None)
    if not isinstance(code, types.CodeType):
        return None
    if code.co_filename.startswith(("<bridge of", "<parts of")):
        return "graph"
    if resume_origin(code) is None and not is_step_code(code):
        return None
    line = next((line for _, _, line in code.co_lines() if line), code.co_firstlineno)
    return f"{code.co_name}_{'at' if is_step_code(code) else 'from'}_line_{line}"


def _graph_fact(
    identifier: str,
    graph: CompiledGraph,
    compilation: Compilation,
    kernels: tuple[KernelFact, ...],
    lines: UserLines,
) -> GraphFact:
    modules: list[tuple[Phase, KernelModule]] = [
        (phase, made.module) for phase, made in graph.phases() if made.module is not None
    ]
    names: dict[Phase, dict[str, str]] = {"forward": {}, "backward": {}}
    for kernel in kernels:
        names[kernel.phase][kernel.name] = kernel.identifier
    return GraphFact(
        identifier=identifier,
        operations=sum(node.op not in ("placeholder", "output") for node in graph.torch_graph.graph.nodes),
        backend=backend_name(compilation.options.backend),
        values=tuple(_values(graph, lines)),
        texts=tuple(_graph_texts(graph)),
        kernels=tuple(kernel.identifier for kernel in kernels),
        externs=tuple(fact for phase, module in modules for fact in extern_facts(module.schedule, phase, lines.places)),
        borders=tuple(fact for _, module in modules for fact in border_facts(module.schedule)),
        saved_bytes=saved_bytes_of(graph),
        memory=tuple(filter(None, (memory_fact(module.schedule, phase, lines.places) for phase, module in modules))),
        notes=tuple(dict.fromkeys(lines.told(note) for note in graph.notes)),
        steps=tuple(_steps(graph, compilation, names, lines)),
    )


def saved_bytes_of(graph: CompiledGraph) -> int | None:
    saved = [part.pair.saved_bytes for part in graph.parts or (graph,) if part.pair is not None]
    return sum(saved) if saved and None not in saved else None


def _values(graph: CompiledGraph, lines: UserLines) -> Iterator[ValueFact]:
    """What each of the user's lines computes, as captured. Inputs belong to no line."""
    for node in graph.torch_graph.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        stack = lines.stack(node.meta.get("user_stack", ()))
        operation = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        description = _description(node)
        span = stack[-1].span if stack else None
        variable = _variable(node, span)
        place = next((frame.span for frame in reversed(stack) if is_user_file(frame.span.file)), None)
        part = part_of_statement(place) if variable is None and place is not None else None
        yield ValueFact(node.name, description, operation, span, stack, variable, part)


def _variable(node: fx.Node, span: Span | None) -> str | None:
    """What the user's line calls the value, and not what a library's does; of a split value each part has its own name."""
    names = assigned_names(span) if span is not None and is_user_file(span.file) else ()
    if len(names) > 1:
        index = node.args[1] if node.target is operator.getitem and isinstance(node.args[1], int) else -1
        return names[index] if 0 <= index < len(names) else None
    return names[0] if names else None


def _given_names(compilation: Compilation, lines: UserLines) -> Iterator[tuple[str, str]]:
    """By a placeholder's name, where the program has what it stands for."""
    captured = compilation.outcome.graph if isinstance(compilation.outcome, Captured) else None
    if captured is not None:
        nodes = [node for node in captured.module.graph.nodes if node.op == "placeholder"]
        for node, source in zip(nodes, captured.sources, strict=False):
            yield node.name, lines.expression(in_users_words(source.expression(), compilation.region.code))


def _made_names(nodes: Iterable[fx.Node], lines: UserLines) -> Iterator[tuple[str, str]]:
    """By a node's name the variable that the user's line gives its value. Of the nodes that one expression became the last is its value."""
    last: dict[Span, fx.Node] = {}
    for node in nodes:
        stack = lines.stack(node.meta.get("user_stack", ()))
        if stack:
            last[stack[-1].span] = node
    for span, node in last.items():
        variable = _variable(node, span)
        if variable is not None:
            yield node.name, variable


def _steps(
    graph: CompiledGraph, compilation: Compilation, identifiers: dict[Phase, dict[str, str]], lines: UserLines
) -> Iterator[StepFact]:
    """Each graph has names of its own: what it is given has those of where it was made. A gradient has the line of what it is for, so of
    a backward graph only what is made again there is what the line calls so."""
    captured = {**dict(_made_names(graph.torch_graph.graph.nodes, lines)), **dict(_given_names(compilation, lines))}

    def called(nodes: Iterable[fx.Node], phase: Phase, known: Mapping[str, str]) -> dict[str, str]:
        found = {node.name: known[node.name] for node in nodes if node.op == "placeholder" and node.name in known}
        return found | dict(_made_names((node for node in nodes if phase == "forward" or "made_again" in node.meta), lines))

    for part in graph.parts or (graph,):
        known = captured
        if part.forward is None and part.pair is not None:  # its forward pass is a part of another graph, which calls things otherwise
            known = called(part.pair.forward.graph.nodes, "forward", captured)
        for phase, made in part.phases():
            known = called(made.aten.graph.nodes, phase, known)
            if made.module is not None:
                yield from step_facts(made.module, phase, identifiers[phase], lines.places, known)


def _description(node: fx.Node) -> str:
    text, device = type_of_node(node), node.meta.get("device")
    return f"{text} {device}" if text and device is not None and device.type != "cpu" else text


def _graph_texts(graph: CompiledGraph) -> Iterator[StageText]:
    text, links = print_graph(graph.torch_graph)
    yield StageText("torch", "python", text, links)
    for part in graph.parts or (graph,):
        for phase, made in part.phases():
            text, links = print_graph(made.aten, phase, _ends(part.pair, phase, made.aten))
            yield StageText(f"{graph.level}-{phase}", "python", text, links)
            if made.module is not None:
                yield from stage_texts(made.module, phase)


def _ends(pair: GradPair | None, phase: Phase, graph: fx.GraphModule) -> Iterator[str]:
    if pair is not None:
        yield from (forward_ends if phase == "forward" else backward_ends)(pair, graph)


def _kernels(graph: CompiledGraph) -> Iterator[tuple[Kernel, tuple[FusionGroup, ...], Phase, CompiledAten]]:
    for phase, made in graph.phases():
        if made.module is not None:
            served = made.module.served
            for kernel in made.module.distinct:
                yield kernel, served[kernel.name], phase, made
