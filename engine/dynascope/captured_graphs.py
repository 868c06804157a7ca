"""A captured graph, compiled: through our stages, or through the backend that was asked for.

    compile_captured(graph, state, clock)  ->  CompiledGraph

What goes wrong there is said, and the graph runs operator by operator. Numbers that a backend needs as constants are an error that
`pipeline.py` captures again for.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import fx

from dynascope import recording
from dynascope.backends import GraphCompilers, SymbolFixed, backend_name, find_backend, numbers_among, run_uncompiled
from dynascope.callers import warn
from dynascope.capture import CapturedGraph, without_function_modes
from dynascope.configuration import Options
from dynascope.graph_compiler import CompiledGraph, NumberNeeded, OperatorsUnsupported, compile_graph
from dynascope.reasons import BackendFailed
from dynascope.region_state import MOST_REFUSALS, RegionState
from dynascope.repeatable import leaves_nothing, operators_beside_checks
from dynascope.report.reason import Explanation
from dynascope.runtime.clock import StageClock
from dynascope.runtime.reasons import ModeNotHonoured
from dynascope.stack_room import stack_room
from dynascope.strictness import judge


def compile_captured(captured: CapturedGraph, state: RegionState, clock: StageClock) -> CompiledGraph:
    """The captured graph through our stages, or through the backend that was asked for."""
    backend = find_backend(state.options.backend)
    if not state.options.fullgraph and (beside := operators_beside_checks(captured.module)):
        raise OperatorsUnsupported(beside)
    if backend is None:
        return _compile_here(captured, state, clock)
    if isinstance(backend, GraphCompilers):
        try:
            return _compile_here(captured, state, clock)
        except (NumberNeeded, OperatorsUnsupported):
            raise
        except Exception as error:
            if numbers_among(captured.example_inputs):
                raise _needed_by_backend(captured, error) from error
            return _failed(captured, state, error)
    numbers, original = numbers_among(captured.example_inputs), captured.module
    if look_asked_for() is not None:
        # A backend may change the graph that it is given.
        captured = replace(captured, module=fx.GraphModule(captured.module, copy.deepcopy(captured.module.graph)))
    notes = _left_to_backend(state.options)
    with clock("backend"):
        try:
            if numbers and backend is not run_uncompiled:
                from dynascope.symbolic_backends import compile_with_symbols  # imports torch's symbols

                fixing = _fixing(captured, state)
                call = compile_with_symbols(
                    backend, original, captured.example_inputs, fixing, leaves_nothing=leaves_nothing(captured)
                )
                return CompiledGraph(call, original, notes=notes)
            return CompiledGraph(backend(captured.module, list(captured.example_inputs)), original, notes=notes)
        except Exception as error:
            if numbers:
                raise _needed_by_backend(captured, error) from error
            return _failed(captured, state, error)


OF_OUR_KERNELS = {"mode": "default", "random": "eager", "numerics": "default"}
"""Settings that say how kernels of ours are made, with what they are where nobody sets them."""


def _names_of_numbers(captured: CapturedGraph) -> dict[str, int]:
    """Where among the graph's inputs each number is."""
    placeholders = [node for node in captured.module.graph.nodes if node.op == "placeholder"]
    numbers = {at: placeholders[at] for at in numbers_among(captured.example_inputs)}
    return {str(node.meta.get("size", node.name)): at for at, node in numbers.items()}


def _needed_by_backend(captured: CapturedGraph, error: Exception) -> NumberNeeded:
    """The graph's inputs that a backend needs as constants: all its numbers where it does not say."""
    names = error.names if isinstance(error, SymbolFixed) else frozenset()
    numbers = tuple(at for name, at in _names_of_numbers(captured).items() if name in names)
    return NumberNeeded(numbers, may_be_tied=bool(names))


def _fixing(captured: CapturedGraph, state: RegionState) -> Callable[[Collection[str]], None]:
    """Told of numbers that the backend's code took for constants while it ran: its entries serve no more, and these numbers are
    constants of the next ones. For compiled code to hold, as `asking` is."""
    held = weakref.ref(state)
    place_of = {name: captured.sources[at] for name, at in _names_of_numbers(captured).items()}

    def fix(names: Collection[str]) -> None:
        state = held()
        places = {place for name, place in place_of.items() if name in names} or set(place_of.values())
        if state is not None and not places <= state.fixed:
            state.refusals.update(dict.fromkeys(places, MOST_REFUSALS))
            state.forget()

    return fix


def _left_to_backend(options: Options) -> tuple[Explanation, ...]:
    """What was asked for and is not done where another backend compiles the graph."""
    missing, cause = "kernels are not made accordingly", f"`{backend_name(options.backend)}` makes them and is not told"
    asked = {name: getattr(options, name) for name, usual in OF_OUR_KERNELS.items() if getattr(options, name) != usual}
    return tuple(ModeNotHonoured(f'{name}="{value}"', missing, cause).explain() for name, value in asked.items())


def _compile_here(captured: CapturedGraph, state: RegionState, clock: StageClock) -> CompiledGraph:
    backend = find_backend(state.options.backend)  # asked for by its name, or as it is
    options = state.options
    if isinstance(backend, GraphCompilers):
        options = replace(options, backend=replace(backend, when_kept=_fixing(captured, state)))
    elif backend is not None:
        options = replace(options, backend=backend)
    records = not torch.is_inference_mode_enabled()
    with without_function_modes(), outside_inference_mode(), stack_room():
        module = captured.module if records else without_recording(captured.module)
        return compile_graph(module, captured.example_inputs, options, state.region.qualified_name, clock)


def _failed(captured: CapturedGraph, state: RegionState, error: Exception) -> CompiledGraph:
    """The graph, operator by operator."""
    note = BackendFailed.of(backend_name(state.options.backend), error).explain(state.region.span)
    judge(note, state.options.strict, error)
    warn(f"dynascope: {note.message} {note.remedy}")
    return CompiledGraph(captured.module.forward, captured.module, notes=(note,))


def without_recording(module: fx.GraphModule) -> fx.GraphModule:
    """In inference mode nothing is recorded, though gradients be switched on inside. What requires grad there still says so, and so
    do its views, but for those of what was detached: examples are as they are."""
    if all(node.target is not torch._C._set_grad_enabled for node in module.graph.nodes):
        return module
    graph = copy.deepcopy(module.graph)
    for node in graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            graph.erase_node(node)
    return fx.GraphModule(module, graph)


@contextmanager
def outside_inference_mode() -> Iterator[None]:
    """Tensors made in inference mode count no versions, which is how writes to them are found."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


def look_asked_for() -> Callable[..., Callable] | None:
    """What takes the place of compiled graphs where somebody asked to see what they compute."""
    recorder = recording.current()
    return None if recorder is None else recorder.check


