"""Each compiled graph, checked when it is first called: compiled, eager and float64 side by side on copies of its inputs.

recorder.check = Checker(recorder)      facts go to the recorder, the first line that differs to its notes
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from torch import fx

from dynascope.callers import calling_stack
from dynascope.capture import CapturedGraph
from dynascope.checking.distances import differs_more, distance
from dynascope.checking.runs import Values, compiled, in_double, in_eager, with_all_values
from dynascope.frame import hook
from dynascope.frame.stack_names import SLOT
from dynascope.graph_compiler import NumberNeeded
from dynascope.reasons import DiffersMore, NotChecked
from dynascope.recording import Recorder
from dynascope.report.facts import CheckFact
from dynascope.report.span import Span
from dynascope.report.syntax import assigned_names
from dynascope.user_lines import UserLines

Compile = Callable[[CapturedGraph], Callable[..., Sequence[Any]]]


class Checker:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __call__(self, name: str, captured: CapturedGraph, function: Callable, compile: Compile) -> Callable:
        """The function in place of the compiled graph's, which checks it once."""
        lines = UserLines(calling_stack(name))
        waiting = [True]

        def checked(*inputs: Any) -> Any:
            if waiting:
                waiting.clear()
                with hook.suspended():
                    self._check(name, captured, function, compile, inputs, lines)
            return function(*inputs)

        return checked

    def _check(
        self, name: str, captured: CapturedGraph, function: Callable, compile: Compile, inputs: tuple, lines: UserLines
    ) -> None:
        try:
            found = list(_facts(name, captured, function, compile, inputs, lines))
        except NumberNeeded as error:
            self._recorder.problem(NotChecked(name, f"{error}.").explain())
            return
        except Exception as error:
            self._recorder.problem(NotChecked(name, f"{type(error).__name__}: {error}".splitlines()[0]).explain())
            return
        self._recorder.checks.extend(found)
        first = next((fact for fact in found if fact.differs), None)
        if first is not None:
            reason = DiffersMore(first.name, first.kind, first.compiled, first.eager)
            self._recorder.problem(reason.explain(first.span, first.stack))


def _facts(
    name: str, captured: CapturedGraph, function: Callable, compile: Compile, inputs: tuple, lines: UserLines
) -> Iterator[CheckFact]:
    module = captured.module
    eager = in_eager(module, inputs)
    if eager.trouble:
        raise RuntimeError(eager.trouble)
    double = in_double(module, inputs, eager)
    own = compiled(function, inputs, ())
    extended, names = with_all_values(module)
    every = compiled(compile(replace(captured, module=extended)), inputs, names)
    for trouble in dict.fromkeys(filter(None, (own.trouble, every.trouble))):
        raise RuntimeError(trouble)
    yield from _values(name, module, eager, double, every, lines)
    yield from _gradients(name, module, eager, double, own, lines)


def _values(
    name: str, module: fx.GraphModule, eager: Values, double: Values, made: Values, lines: UserLines
) -> Iterator[CheckFact]:
    for node in module.graph.nodes:
        if node.name in made.made and node.name in eager.made:
            reference = double.made.get(node.name, eager.made[node.name])
            stack = lines.stack(node.meta.get("user_stack", ()))
            span = stack[-1].span if stack else None
            called = _called(node, span)
            yield _fact(name, called, "value", eager.made[node.name], made.made[node.name], reference, span, stack)


def _gradients(
    name: str, module: fx.GraphModule, eager: Values, double: Values, made: Values, lines: UserLines
) -> Iterator[CheckFact]:
    """At the first line that reads the input. Where float64 has none, as through random numbers alone, there is nothing to compare."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    for at, gradient in eager.gradients.items():
        if at in made.gradients and at in double.gradients:
            node = placeholders[at]
            user = next(iter(node.users), node)
            stack = lines.stack(user.meta.get("user_stack", ()))
            span = stack[-1].span if stack else None
            place = node.meta.get("read_as", node.name)
            called = node.name if SLOT.search(place) else place
            yield _fact(name, called, "gradient", gradient, made.gradients[at], double.gradients[at], span, stack)


def _fact(function, name, kind, eager, made, reference, span, stack) -> CheckFact:
    of_eager, of_made = distance(eager, reference), distance(made, reference)
    return CheckFact(function, name, kind, of_eager, of_made, differs_more(of_eager, of_made, made.dtype), span, stack)


def _called(node: fx.Node, span: Span | None) -> str:
    names = assigned_names(span) if span is not None else ()
    if len(names) == 1:
        return names[0] or node.name
    item = node.args[1] if node.target is operator.getitem and len(node.args) == 2 else None
    return (names[item] if isinstance(item, int) and item in range(len(names)) else "") or node.name
