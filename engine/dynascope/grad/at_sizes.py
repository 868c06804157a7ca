"""Recording a program whose sizes vary: at several sizes, and then at those at hand, with the others beside it.

    recorded = for_all_sizes(program, run)          run(program, trail) records forward and backward

Torch carries floats along as symbols, and ints that no size depends on. Where it must know an int, its C++ computes with
numbers: then the recordings at other sizes tell which numbers are sizes (see `trails.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from dynascope.grad.inputs import has_integers, roots_in, scope_of, sizes_vary
from dynascope.grad.program import Program
from dynascope.grad.reasons import DifferentiationRefused, OperatorFailed, VaryingNumberNeeded
from dynascope.grad.trails import Trail
from dynascope.sizes import Scope
from dynascope.sizes.reach import keep_above
from dynascope.sizes.worlds import MANY_STEPS, Worlds, suitable

USUAL = 2
Recording = TypeVar("Recording")
Run = Callable[[Program, Trail | None], Recording]


def for_all_sizes(program: Program, run: Run) -> Any:
    """What `run` gives. Raises `DifferentiationRefused`: with `VaryingNumberNeeded` where some sizes must be constants."""
    if not sizes_vary(program.inputs):
        try:
            return run(program, None)
        except DifferentiationRefused as refused:
            if not isinstance(refused.reason, VaryingNumberNeeded) or not has_integers(program.inputs):
                raise
    scope = scope_of(program.inputs)
    assert scope is not None
    names = roots_in(program.inputs)
    _rely_on_usual_numbers(scope, names)
    relied_on = len(scope.log)
    if scope.binding is None:
        scope.binding = relied_on

    def recorded(worlds: Worlds) -> Any:
        try:
            return _in_worlds(worlds, program, run)
        except DifferentiationRefused:
            scope.log.take_back(relied_on)
        return None

    found = recorded(worlds) if (worlds := Worlds(scope, names)).are_enough else None
    if found is not None:
        return found
    needed = _sizes_needed(program, scope, run)
    if needed or not names or (others := suitable(scope, names, recorded)) is None:
        raise DifferentiationRefused(VaryingNumberNeeded("the program", needed or frozenset(names)))
    return others[1]


def _rely_on_usual_numbers(scope: Scope, names: Collection[str]) -> None:
    """Numbers that sizes depend on are 2 or more: torch treats 0, 1 and negative ones as cases of their own."""
    for name in names:
        if scope.hints[name] < USUAL:
            raise DifferentiationRefused(VaryingNumberNeeded("a size", frozenset((name,))))
        _ = scope.root(name, scope.hints[name]) >= USUAL


def _in_worlds(worlds: Worlds, program: Program, run: Run) -> Any:
    if not worlds.are_enough:
        raise DifferentiationRefused(VaryingNumberNeeded("what was relied on", frozenset()))
    worlds.learn(node.meta["size"] for node in program.graph.graph.nodes if "size" in node.meta)
    trails = []
    for values in worlds.values[1:]:
        trails.append(Trail(worlds))
        _run_at(values, program, run, trails[-1])
    worlds.scope.worlds = worlds
    trail = Trail(worlds, trails)
    try:
        found = run(program, trail)
    finally:
        worlds.scope.worlds = None

    def fits(values: Mapping[str, Any]) -> bool:
        other = Trail(worlds)
        try:
            _run_at(values, program, run, other)
        except DifferentiationRefused:
            return False
        return trail.holds_at(values, other)

    keep_above(worlds.scope, worlds.varied, fits, worlds.steps)
    return found


def _run_at(values: Mapping[str, Any], program: Program, run: Run, trail: Trail) -> None:
    """Torch's own errors, such as of tensors with too many elements, are refusals too."""
    try:
        run(program.at(values), trail)
    except RuntimeError as error:
        raise DifferentiationRefused(OperatorFailed("the program at other sizes", str(error))) from error


def _sizes_needed(program: Program, scope: Scope, run: Run) -> frozenset[str]:
    """The roots that alone change what the program does; none where it is no single one."""
    names = roots_in(program.inputs)
    needed = set()
    relied_on = len(scope.log)
    for name in names:
        try:
            _in_worlds(Worlds(scope, [name], {name: MANY_STEPS}), program, run)
        except DifferentiationRefused:
            needed.add(name)
        scope.log.take_back(relied_on)
    return frozenset(needed)
