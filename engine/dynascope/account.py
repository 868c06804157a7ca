"""From the artefacts of one compilation to the facts of the report. Everything the report says is read off here.

account_of(compilation, recorder)  ->  a function that gives the Account when the report is written
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from dynascope.backends import backend_name
from dynascope.capture import Captured, RaiseExit, Refused, Return
from dynascope.codegen.facts import border_facts, extern_facts, kernel_fact, stage_texts
from dynascope.codegen.kernels import Kernel
from dynascope.frame.printing import print_code
from dynascope.grad.printing import print_graph, type_of
from dynascope.graph_compiler import CompiledGraph
from dynascope.guards.guard import Guard
from dynascope.recording import Account, Recorder
from dynascope.report.facts import (
    EntryFact,
    ExitKind,
    GraphFact,
    GuardFact,
    KernelFact,
    Phase,
    StageText,
    ValueFact,
)
from dynascope.runtime.compile_aten import CompiledAten

if TYPE_CHECKING:
    from dynascope.pipeline import Compilation

PHASES: tuple[Phase, ...] = ("forward", "backward")


def account_of(compilation: Compilation, recorder: Recorder) -> Callable[[], Account]:
    """The account, to be called when somebody reads. Identifiers are given out now, in the order of compilation."""
    graph = compilation.graph
    identifier = recorder.identifier("g") if graph is not None else None
    kernels = [(recorder.identifier("k"), *found) for found in _kernels(graph)] if graph is not None else []

    def account() -> Account:
        region = compilation.region
        facts = tuple(kernel_fact(kernel, name, identifier, phase, made.path) for name, kernel, phase, made in kernels)
        fact = _graph_fact(identifier, graph, compilation, facts) if graph is not None else None
        return Account(region.qualified_name, region.root.span, _entry_fact(compilation, identifier), fact, facts)

    return account


def _entry_fact(compilation: Compilation, graph: str | None) -> EntryFact:
    region, outcome = compilation.region, compilation.outcome
    kind = "function" if region.parent is None else "resume"
    if isinstance(outcome, Refused):
        return EntryFact(
            "", kind, region.span, "uncompiled", "none", reason=outcome.explain(), seconds=compilation.seconds,
            recompiled=compilation.recompiled,
        )  # fmt: skip
    return EntryFact(
        identifier="",
        region=kind,
        span=region.span,
        status="compiled",
        exit=_exit_kind(outcome),
        graph=graph,
        guards=tuple(_guard_facts(outcome.guards)),
        reason=outcome.break_explanation(),
        recompiled=compilation.recompiled,
        seconds=compilation.seconds,
        texts=tuple(_code_texts(compilation)),
    )


def _exit_kind(outcome: Captured) -> ExitKind:
    """A call that raises without a compiler too is no break: the program ends there, or goes on in its `except`."""
    return {Return: "return", RaiseExit: "raise"}.get(type(outcome.exit), "break")


def _guard_facts(guards: tuple[Guard, ...]) -> Iterator[GuardFact]:
    seen = set()
    for guard in guards:
        expression = ", ".join(source.expression() for source in guard.sources)
        text = guard.describe()
        if (text, guard.span) not in seen:
            seen.add((text, guard.span))
            yield GuardFact(expression, text, type(guard.predicate).__name__, guard.span, guard.stack)


def _code_texts(compilation: Compilation) -> Iterator[StageText]:
    yield StageText("bytecode", "plaintext", print_code(compilation.region.code))
    if compilation.code is not None:
        yield StageText("rewritten-bytecode", "plaintext", print_code(compilation.code))


def _graph_fact(
    identifier: str, graph: CompiledGraph, compilation: Compilation, kernels: tuple[KernelFact, ...]
) -> GraphFact:
    modules = [(phase, made.module) for phase, made in _phases(graph) if made.module is not None]
    return GraphFact(
        identifier=identifier,
        operations=sum(node.op not in ("placeholder", "output") for node in graph.torch_graph.graph.nodes),
        backend=backend_name(compilation.options.backend),
        values=tuple(_values(graph)),
        texts=tuple(_graph_texts(graph)),
        kernels=tuple(kernel.identifier for kernel in kernels),
        externs=tuple(fact for phase, module in modules for fact in extern_facts(module.schedule, phase)),
        borders=tuple(fact for _, module in modules for fact in border_facts(module.schedule)),
        saved_bytes=graph.pair.saved_bytes if graph.pair is not None else None,
        notes=tuple(dict.fromkeys(graph.notes)),
    )


def _phases(graph: CompiledGraph) -> Iterator[tuple[Phase, CompiledAten]]:
    for phase, made in zip(PHASES, (graph.forward, graph.backward), strict=True):
        if made is not None:
            yield phase, made


def _values(graph: CompiledGraph) -> Iterator[ValueFact]:
    """What each of the user's lines computes, as captured. Inputs belong to no line."""
    for node in graph.torch_graph.graph.nodes:
        stack = node.meta.get("user_stack", ())
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        operation = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
        description = _description(node.meta.get("example_value"), node.meta.get("device"))
        yield ValueFact(node.name, description, operation, stack[-1].span if stack else None, stack)


def _description(example: Any, device: Any) -> str:
    text = type_of(example) if example is not None else ""
    return f"{text} {device}" if text and device is not None and device.type != "cpu" else text


def _graph_texts(graph: CompiledGraph) -> Iterator[StageText]:
    text, links = print_graph(graph.torch_graph)
    yield StageText("torch", "python", text, links)
    for phase, made in _phases(graph):
        text, links = print_graph(made.aten, phase)
        yield StageText(f"aten-{phase}", "python", text, links)
        if made.module is not None:
            yield from stage_texts(made.module, phase)


def _kernels(graph: CompiledGraph) -> Iterator[tuple[Kernel, Phase, CompiledAten]]:
    for phase, made in _phases(graph):
        for kernel in made.module.kernels if made.module is not None else ():
            if kernel is not None:
                yield kernel, phase, made
