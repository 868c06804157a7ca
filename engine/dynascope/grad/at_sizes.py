"""Recording a program whose sizes vary: at several sizes, and then at those at hand, with the others beside it.

    recorded = for_all_sizes(program, record)       record(program, trail) records forward and backward, in the program's state

Torch carries floats along as symbols, and ints that no size depends on. Where it must know an int, its C++ computes with
numbers: then the recordings at other sizes tell which numbers are sizes (see `trails.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice, product
from typing import Any, TypeVar

from dynascope.grad.inputs import InputFacts, has_integers, roots_in, scope_of, sizes_vary
from dynascope.grad.program import Program
from dynascope.grad.reasons import DifferentiationRefused, OperatorFailed, VaryingNumberNeeded
from dynascope.grad.tape import names_of
from dynascope.grad.trails import Trail
from dynascope.sizes import Scope, Size, hint_of
from dynascope.sizes.likely import likely
from dynascope.sizes.reach import is_possible, keep_above, keep_below, keep_dividing
from dynascope.sizes.relations import Relation
from dynascope.sizes.steps import suitable
from dynascope.sizes.worlds import COUNT, MANY_STEPS, Worlds

USUAL = 2
STEPS_OF_A_NODE = 200
"""What one call of torch rarely comes to. A loop over the elements of a dimension comes to more, at large sizes."""
Recording = TypeVar("Recording")
Run = Callable[[Program, Trail | None], Recording]


def for_all_sizes(program: Program, record: Run) -> Any:
    """What `record` gives. Raises `DifferentiationRefused`: with `VaryingNumberNeeded` where some sizes must be constants."""

    def run(program: Program, trail: Trail | None) -> Any:
        with program.state():  # anew for each size: a graph may leave another one
            return record(program, trail)

    if not sizes_vary(program.inputs):
        try:
            return run(program, None)
        except DifferentiationRefused as refused:
            # torch's own functions take some symbols for no numbers: `x[n]`
            if not isinstance(refused.reason, (VaryingNumberNeeded, OperatorFailed)) or not has_integers(
                program.inputs
            ):
                raise
    scope = scope_of(program.inputs)
    assert scope is not None
    pinned = scope.pinned(scope.binding)  # guards say what they are
    names = [name for name in roots_in(program.inputs) if name not in pinned] or roots_in(program.inputs)
    if (found := _whatever_numbers_are(scope, names, program, run)) is not None:
        return found
    _rely_on_usual_numbers(scope, names)
    relied_on = len(scope.log)
    if scope.binding is None:
        scope.binding = relied_on

    broken: dict[Relation, Any] = {}

    def recorded(worlds: Worlds) -> Any:
        kept = max(relied_on, scope.binding or 0)  # what is relied on to begin with stays where the recording is made again
        while True:
            try:
                return _in_worlds(worlds, program, run)
            except DifferentiationRefused:
                broken.update((relation, where) for relation, where in islice(scope.log, kept, None) if not worlds.keep(relation))
                scope.log.take_back(kept)
            if not worlds.grow():
                return None

    def relying(rely: Callable[[], bool]) -> Any:
        return _relying(scope, lambda: recorded(Worlds(scope, names)), rely)

    tried, are_kept = None, False
    for is_brief, reaches_down in ((True, True), (False, True), (False, False)):
        worlds = Worlds(scope, names, reaches_down=reaches_down, is_brief=is_brief)
        found = recorded(worlds) if worlds.are_enough and worlds.values != tried else None
        if found is None and broken and not are_kept:
            are_kept, found = True, relying(partial(_rely_on_all, scope, dict(broken)))
        if found is not None:
            return found
        tried = worlds.values
    for rely in likely(_numbers_beside_sizes(program), scope.pinned()):
        if (found := relying(rely)) is not None:
            return found
    needed = _sizes_needed(names, program, scope, run)
    if len(needed) > 1 and (rigid := _rigid(needed, program, scope, run)) and rigid != needed:
        raise DifferentiationRefused(VaryingNumberNeeded("the program", rigid))  # others may vary then, within some range
    searches = (partial(_dividing, run), _within_extents, partial(_below, run))
    for search in searches if needed else ():
        if (found := search(program, scope, needed, lambda: recorded(Worlds(scope, names)))) is not None:
            return found
    if needed or not names or (others := suitable(scope, names, recorded)) is None:
        raise DifferentiationRefused(VaryingNumberNeeded("the program", needed or frozenset(names)))
    return others[1]


def _whatever_numbers_are(scope: Scope, names: Collection[str], program: Program, run: Run) -> Any | None:
    """What is recorded where a number of Python's, which may be 0 or 1 or less as well, is no case of its own there."""
    if all(scope.roots[name].low >= USUAL for name in names):
        return None
    relied_on, binding = len(scope.log), scope.binding
    scope.binding = relied_on if binding is None else binding
    worlds = Worlds(scope, names, reaches_down=True, is_brief=True)
    try:
        return _in_worlds(worlds, program, run) if worlds.are_enough else None
    except DifferentiationRefused:
        scope.log.take_back(relied_on)
        scope.binding = binding
        return None


def _dividing(
    run: Run, program: Program, scope: Scope, needed: Collection[str], recorded: Callable[[], Any | None]
) -> Any | None:
    """Where a number must divide a size in the program: what is recorded for those that do."""
    (name, *others) = needed
    if others:
        return None
    shapes = [getattr(node.meta.get("example_value"), "shape", ()) for node in program.graph.graph.nodes]

    return _relying(scope, recorded, lambda: keep_dividing(scope, name, shapes, partial(_runs, program, scope, run)))


def _below(
    run: Run, program: Program, scope: Scope, needed: Collection[str], recorded: Callable[[], Any | None]
) -> Any | None:
    """Where the program runs with numbers up to some largest one, whatever it is: what is recorded for those."""
    (name, *others) = needed
    if others:
        return None
    return _relying(scope, recorded, lambda: keep_below(scope, name, partial(_runs, program, scope, run)))


def _rigid(needed: Collection[str], program: Program, scope: Scope, run: Run) -> frozenset[str]:
    """Of the numbers that alone change what the program does, those that it runs with no neighbour of: one must equal a size of
    another tensor, where another only is not to lead beyond an end."""
    hints = scope.hints

    def moves(name: str) -> bool:
        near = [number for number in (hints[name] + 1, hints[name] - 1) if number >= USUAL]
        return any(_runs(program, scope, run, {**hints, name: number}) for number in near)

    return frozenset(name for name in needed if not moves(name))


def _runs(program: Program, scope: Scope, run: Run, values: Mapping[str, Any]) -> bool:
    try:
        _run_at(values, program, run, Trail(Worlds(scope, ()), (), _usual(program)))
    except DifferentiationRefused:
        return False
    return True


def _usual(program: Program) -> int:
    return STEPS_OF_A_NODE * (len(program.graph.graph.nodes) + 1)


def _relying(scope: Scope, recorded: Callable[[], Any | None], rely: Callable[[], bool]) -> Any | None:
    """What is recorded where that can be relied on which `rely` logs."""
    relied_on, binding = len(scope.log), scope.binding
    if not rely():
        return None
    scope.binding = len(scope.log)
    found = recorded()
    if found is None:
        scope.log.take_back(relied_on)
        scope.binding = binding
    return found


def _rely_on_all(scope: Scope, relations: Mapping[Relation, Any]) -> bool:
    """What the recording at hand relied on, of which others knew nothing: `x[:n]` of 64 rows is cut where n is more than 64."""
    for relation, where in relations.items():
        scope.log.add(relation, where)
    return bool(relations)


def _numbers_beside_sizes(program: Program) -> Iterator[tuple[Any, Any]]:
    """What operations are given as numbers that vary, beside sizes of the tensors that they are given. Of a tensor that was computed those
    are guessed to be the inputs' that are as large at hand."""
    given = dict(zip(program.names, program.inputs, strict=True))
    extents = [extent for facts in program.inputs if isinstance(facts, InputFacts) for extent in facts.layout.sizes]
    for node in program.graph.graph.nodes:
        numbers = [other.meta["size"] for other in node.all_input_nodes if isinstance(other.meta.get("size"), Size)]
        for other in node.all_input_nodes if numbers else ():
            facts, example = given.get(other.name), other.meta.get("example_value")
            known = facts.layout.sizes if isinstance(facts, InputFacts) else other.meta.get("sizes")
            shape = getattr(example, "shape", ())
            guessed = (extent for size in shape for extent in (size, *(each for each in extents if hint_of(each) == size)))
            yield from product(numbers, known or guessed)


def _within_extents(
    program: Program, scope: Scope, needed: Collection[str], recorded: Callable[[], Any | None]
) -> Any | None:
    """Where a slice is cut at the end of a tensor: what is recorded for numbers up to a size in the program, the largest one for
    which that goes."""
    (name, *others) = needed
    extents = [e for given in program.inputs if isinstance(given, InputFacts) for e in given.layout.sizes]
    if others or name in names_of(extents):
        return None
    hint, root = scope.hints[name], scope.roots[name]
    shapes = [getattr(node.meta.get("example_value"), "shape", ()) for node in program.graph.graph.nodes]
    sizes = {size for shape in shapes for size in shape}
    bounds = sorted({bound for size in sizes for bound in near(size) if bound >= hint + COUNT - 1})
    relied_on, binding, best = len(scope.log), scope.binding, None

    def recorded_up_to(bound: int) -> Any | None:
        scope.log.take_back(relied_on)
        _ = scope.root(name, hint, root.low, root.high) <= bound
        scope.binding = len(scope.log)
        return recorded()

    while bounds:
        at = len(bounds) // 2
        if recorded_up_to(bounds[at]) is not None:
            best, bounds = bounds[at], bounds[at + 1 :]
        else:
            bounds = bounds[:at]
    found = None if best is None else recorded_up_to(best)
    if found is None:
        scope.log.take_back(relied_on)
        scope.binding = binding
    return found


def near(size: int) -> Collection[int]:
    """What a number may be at the most that is cut off at a size: as it is, with a bit added, or times a few."""
    return size, size - 1, size - 2, *(size // part - less for part in (2, 3, 4, 8) for less in (0, 1))


def _rely_on_usual_numbers(scope: Scope, names: Collection[str]) -> None:
    """Numbers that sizes depend on are 2 or more: torch treats 0, 1 and negative ones as cases of their own."""
    unusual = frozenset(name for name in names if scope.hints[name] < USUAL)
    if unusual:  # all at once: for each time the program is captured again
        raise DifferentiationRefused(VaryingNumberNeeded("a size", unusual))
    for name in names:
        _ = scope.root(name, scope.hints[name]) >= USUAL


def _in_worlds(worlds: Worlds, program: Program, run: Run) -> Any:
    """What is recorded; again with all views kept apart where two that are one at hand are not in other worlds, and with results as
    views of what they are cut from where they are all of it at some sizes alone."""
    relied_on = len(worlds.scope.log)
    while True:
        before = worlds.choices
        try:
            return _recorded_in(worlds, program, run)
        except DifferentiationRefused:
            if worlds.choices == before and not worlds.cuts_none():
                raise
            worlds.scope.log.take_back(relied_on)


def _recorded_in(worlds: Worlds, program: Program, run: Run) -> Any:
    if not worlds.are_enough:
        raise DifferentiationRefused(VaryingNumberNeeded("what was relied on", frozenset()))
    computed = [node.meta["size"] for node in program.graph.graph.nodes if "size" in node.meta]
    worlds.tell_apart(computed)
    worlds.learn(computed)

    def count() -> int:
        at_hand = Trail(worlds)
        run(program, at_hand)
        return len(at_hand.observations)

    trails: list[Trail] = []
    for values in worlds.values[1:]:
        trails.append(Trail(worlds, most=len(trails[0].observations)) if trails else Trail(worlds, (), _usual(program), count))
        _run_at(values, program, run, trails[-1])
    worlds.scope.worlds = worlds
    trail = Trail(worlds, trails)
    try:
        found = run(program, trail)
    finally:
        worlds.scope.worlds = None
    for values, other in zip(worlds.values[1:], trails, strict=True):
        if is_possible(worlds.scope, values) and not trail.ran_the_same(other):
            raise DifferentiationRefused(VaryingNumberNeeded("the operations that torch runs", frozenset()))

    def fits(values: Mapping[str, Any]) -> bool:
        if values in worlds.values:
            return True
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


def _sizes_needed(names: Collection[str], program: Program, scope: Scope, run: Run) -> frozenset[str]:
    """The roots that alone change what the program does; none where it is no single one."""
    needed = set()
    relied_on = len(scope.log)
    for name in names:
        try:
            _in_worlds(Worlds(scope, [name], {name: MANY_STEPS}), program, run)
        except DifferentiationRefused:
            needed.add(name)
        scope.log.take_back(relied_on)
    return frozenset(needed)
