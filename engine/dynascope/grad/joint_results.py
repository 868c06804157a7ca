"""What a program returns, as values of the joint graph: views and inputs too, which compiled code makes outside of its graphs.

    y = x * w; return y.t(), y[0]     ->   permute, select        steps of their own, behind the forward pass

Nothing runs the joint graph but a reader, and what a reader runs is to give all that the program gives.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.grad.pair import Computed, Constant, Expression, InputItself, Output
from dynascope.grad.program import Recorded
from dynascope.grad.reasons import DifferentiationRefused
from dynascope.grad.tape import Layout, Step, Value, replace
from dynascope.grad.views import ViewRecipe
from dynascope.sizes import hint_of


@dataclass(slots=True)
class JointResults:
    """`values` has one for each result of the program, what is no tensor as it is; `steps` are all, with those that only these need."""

    values: list[Any]
    steps: list[Step]
    untyped: list[Value] = field(default_factory=list)
    """Values whose layouts are those at hand, where others would have to be asked of torch."""


def joint_results(recorded: Recorded) -> JointResults:
    tape, before = recorded.recorder.tape, list(recorded.recorder.tape.steps)
    origin, phase = tape.origin, tape.phase
    found = JointResults([], before)
    tape.phase = "forward"
    try:
        found.values.extend(_value(output, recorded, found) for output in recorded.results.outputs)
        added = tape.steps[len(before) :]
    finally:
        tape.steps[:], tape.origin, tape.phase = before, origin, phase
    behind = next((at for at, step in enumerate(before) if step.phase == "backward"), len(before))
    found.steps = [*before[:behind], *added, *before[behind:]]
    return found


def _value(output: Output, recorded: Recorded, found: JointResults) -> Any:
    results = recorded.results
    if isinstance(output, Computed):
        return results.computed[output.index]
    if isinstance(output, InputItself):
        written = {mutated.index: mutated.value for mutated in results.mutated}
        return written.get(output.index, recorded.values[output.index])
    if isinstance(output, Expression):
        return output.size
    if isinstance(output, Constant):
        return output.value
    value = _value(output.base, recorded, found)
    tape = recorded.recorder.tape
    tape.origin = value.step.origin if value.step is not None else tape.origin
    for recipe in output.recipes:
        value = _viewed(value, recipe, recorded, found)
    return value


def _viewed(value: Value, recipe: ViewRecipe, recorded: Recorded, found: JointResults) -> Value:
    builder = recorded.recorder.builder
    if value not in found.untyped:
        try:
            return recipe.apply(builder, value)
        except DifferentiationRefused:  # sizes vary, and torch knows layouts for numbers alone
            pass
    made = recipe.operator(value.meta(), *replace(recipe.arguments, hint_of))
    layout = Layout(tuple(made.shape), made.stride(), made.dtype, value.device)
    found.untyped.append(builder.write_view(recipe.operator, value, recipe.arguments, layout))
    return found.untyped[-1]
