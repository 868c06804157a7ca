"""The variants of a function: its compilations for other shapes, numbers and states, each with what sets it apart.

labels(function)["f0.e2"]          "pos = 6 · x f32[2, 5]"
one_variant(report, choice)        the report with one variant of each place: no shapes of one beside kernels of another
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace

from dynascope.dataclass import dataclass
from dynascope.report.facts import ChangeFact, CompileReport, EntryFact, FunctionFact, GuardFact
from dynascope.report.labels import fitted_labels

SHOWN = 3
"""Differences that a label names."""
PLAIN = ("TensorMatches", "Equals", "TypeIs", "TruthIs", "LengthIs", "GlobalStateIs", "IdentityIs")
"""Kinds of guards that tell variants apart for a person."""
RELATION = "RelationHolds"
TENSOR = "TensorMatches"
REQUIRES = "requires grad"
"""How such a guard ends its words about a tensor that does."""
ABSENCE = ("DictionaryKeysAre", "HasNoKey")
"""Kinds of guards by which a call finds something not there yet."""
CODE = ("function", "type", "module", "method", "builtin_function_or_method")
"""That something is a function tells no variant apart."""


@dataclass(frozen=True, slots=True)
class Variant:
    """`number` counts from 1 among the `total` compilations of one place; `label` is empty where there is one only."""

    function: FunctionFact
    entry: EntryFact
    number: int
    total: int
    label: str

    @property
    def title(self) -> str:
        counted = f"variant {self.number} of {self.total}"
        return f"{counted} · {self.label}" if self.label else counted


def variants_of(function: FunctionFact, place: int = 0) -> tuple[Variant, ...]:
    entries = [entry for entry in function.entries if entry.place == place and entry.status == "compiled"]
    named = _labels(entries)
    return tuple(
        Variant(function, entry, number, len(entries), named[entry.identifier])
        for number, entry in enumerate(entries, 1)
    )


def fitted_title(variant: Variant, width: int) -> str:
    """The title in so much room: first what sets it apart from the others."""
    alike = variants_of(variant.function, variant.entry.place)
    room = width - len(replace(variant, label=" ").title)
    labels = fitted_labels([each.label for each in alike], room)
    return replace(variant, label=labels[variant.number - 1]).title


def entry_title(function: FunctionFact, entry: EntryFact) -> str:
    """`step, from line 16 on, variant 2 of 3`"""
    alike = [other for other in function.entries if other.place == entry.place and other.status == "compiled"]
    parts = [function.name]
    if entry.region == "resume":
        parts.append(f"from line {entry.span.line} on")
    if entry in alike and len(alike) > 1:
        parts.append(f"variant {alike.index(entry) + 1} of {len(alike)}")
    return ", ".join(parts)


def chosen_entries(function: FunctionFact, choice: Collection[str] = ()) -> tuple[EntryFact, ...]:
    """Of each place the entry that `choice` names, else the one that was used last. Of what comes after a break: what calls of the
    start went on with, and nothing of a place where that is not known."""
    by_place: dict[int, list[EntryFact]] = {}
    for entry in function.entries:
        by_place.setdefault(entry.place, []).append(entry)
    found: list[EntryFact] = []
    for place in sorted(by_place):
        entries = by_place[place]
        if found and not any(entry.identifier in choice for entry in entries):
            entries = _gone_on_with(found[0], by_place[found[0].place], entries)
        if entries:
            # Of equal ones the last.
            found.append(max(reversed(entries), key=lambda entry: _rank(entry, choice)))
    return tuple(found)


def _gone_on_with(start: EntryFact, starts: list[EntryFact], entries: list[EntryFact]) -> list[EntryFact]:
    """Those that can be what a call goes on with that began with `start`. One that ran once served the call that made it alone."""
    if not all(entry.began for entry in entries):
        return entries
    if start.last_use == max(entry.last_use for entry in starts):
        # Its last call went on with what was used since. A call that returns before the break used none.
        since = [entry for entry in entries if entry.last_use > start.last_use]
        if since:
            return since
    own = [entry for entry in entries if entry.began == start.identifier]
    shared = [entry for entry in entries if entry.calls > 1]
    return own or (shared if len(shared) == 1 else [])


def chosen_variant(function: FunctionFact, choice: Collection[str] = ()) -> Variant | None:
    """The variant of the function's start that is shown; None where nothing of it was compiled."""
    chosen = {entry.identifier for entry in chosen_entries(function, choice)}
    starts = sorted({entry.place for entry in function.entries})
    found = (v for place in starts[:1] for v in variants_of(function, place) if v.entry.identifier in chosen)
    return next(found, None)


def one_variant(report: CompileReport, choice: Collection[str] = ()) -> CompileReport:
    """The same report with the chosen entries, their graphs and kernels only."""
    functions = tuple(replace(function, entries=chosen_entries(function, choice)) for function in report.functions)
    wanted = {entry.graph for function in functions for entry in function.entries}
    graphs = tuple(graph for graph in report.graphs if graph.identifier in wanted)
    kernels = tuple(kernel for kernel in report.kernels if kernel.graph in wanted)
    return replace(report, functions=functions, graphs=graphs, kernels=kernels)


def _rank(entry: EntryFact, choice: Collection[str]) -> tuple[bool, bool, int]:
    return entry.identifier in choice, entry.status == "compiled", entry.last_use


def _labels(entries: list[EntryFact]) -> dict[str, str]:
    if len(entries) < 2:
        return {entry.identifier: "" for entry in entries}
    told = {entry.identifier: _telling(entry.guards) for entry in entries}
    changed = {name for entry in entries if entry.change is not None for name in _names_of(entry.change)}
    names = dict.fromkeys(expression for guards in told.values() for expression in guards)
    differing = [name for name in names if len({_text(guards.get(name)) for guards in told.values()}) > 1]
    order = sorted(
        differing, key=lambda name: (name not in changed and not _state(name), name.count(".") + name.count("["))
    )
    of_all = [name for name in order if all(name in guards for guards in told.values())]
    common = {
        (*(_text(told[entry.identifier][name]) for name in of_all), *_relations(entry)) for entry in entries
    }
    if len(common) == len(entries):
        order = of_all  # what one variant alone looks at says nothing of the others
    named = {
        identifier: " · ".join(_text(guards[name]) for name in order[:SHOWN] if name in guards)
        for identifier, guards in told.items()
    }
    anything = " · ".join(f"any {name}" if name else "gradients on or off" for name in order[:SHOWN])
    absent = dict(zip(named, _own_guards(entries, ABSENCE), strict=True))
    return _told_apart(entries, {identifier: label or absent[identifier] or anything for identifier, label in named.items()})


def _told_apart(entries: list[EntryFact], named: dict[str, str]) -> dict[str, str]:
    """Those of one label by what else one of them alone assumes, where it was called, or which call of compile() made it: what is
    compiled by two of these does not look at each other's compilations."""
    found = dict(named)
    for label in set(named.values()):
        same = [entry for entry in entries if named[entry.identifier] == label]
        if len(same) > 1:
            ways = (_changed, _requiring, _own_guards, _callers, _numbers)
            more = next(told for told in (way(same) for way in ways) if len(set(told)) == len(same))
            found |= {e.identifier: " · ".join(filter(None, (label, words))) for e, words in zip(same, more, strict=True)}
    return found


def _changed(entries: list[EntryFact]) -> list[str]:
    """Of each entry what it takes for the first that changed from one of them to another, where all of them look at that."""
    told = [_telling(entry.guards) for entry in entries]
    for name in (entry.change.expression for entry in entries if entry.change is not None):
        if all(name in guards for guards in told) and len({guards[name].value for guards in told}) == len(entries):
            return [_text(guards[name]) for guards in told]
    return ["" for _ in entries]


def _requiring(entries: list[EntryFact]) -> list[str]:
    """Of each entry whether it takes a tensor to require grad of which all of them know that, where one alone does or does not."""
    tensors = [{guard.expression: guard.check.endswith(REQUIRES) for guard in entry.guards if guard.kind == TENSOR} for entry in entries]
    for name in tensors[0]:
        if all(name in known for known in tensors) and len({known[name] for known in tensors}) == len(entries):
            return [f"{name} {REQUIRES if known[name] else 'requires no grad'}" for known in tensors]
    return ["" for _ in entries]


def _own_guards(entries: list[EntryFact], kinds: Collection[str] = ()) -> list[str]:
    """Of each entry the one that says most of those (of these kinds, if any are named) that no other has."""
    counted = Counter(check for entry in entries for check in {guard.check for guard in entry.guards})
    own = [[guard for guard in entry.guards if counted[guard.check] == 1 and (not kinds or guard.kind in kinds)] for entry in entries]
    first = [min(guards, key=_tells_little, default=None) for guards in own]
    return [_words(guard) if guard is not None else "" for guard in first]


def _tells_little(guard: GuardFact) -> tuple[bool, int]:
    """What a line of the program asked of a number says more than what the way that was taken then looked at; least says what an
    operator asked of it."""
    asked = guard.kind == RELATION and guard.span is not None
    plain = guard.kind in PLAIN and guard.value != ""
    return "stride(" in guard.check, 0 if asked else 3 if guard.value in CODE else 1 if plain else 2


def _relations(entry: EntryFact) -> list[str]:
    return [_words(guard) for guard in entry.guards if guard.kind == RELATION]


def _words(guard: GuardFact) -> str:
    """`` `n` keeps to `n < 5` `` as `n < 5`."""
    if guard.kind in PLAIN and guard.value:
        return _text(guard)
    plain = guard.check.replace("`", "")
    return re.split(" keeps? to ", plain, maxsplit=1)[-1] if guard.kind == RELATION else plain


def _callers(entries: list[EntryFact]) -> list[str]:
    return [f"called at line {entry.callers[-1].span.line}" if entry.callers else "" for entry in entries]


def _numbers(entries: list[EntryFact]) -> list[str]:
    """The same was compiled anew: by another `compile()`, or after a `reset()`."""
    return [f"compilation {number}" for number, _ in enumerate(entries, 1)]


def _names_of(change: ChangeFact) -> tuple[str, ...]:
    return change.expression, f"len({change.expression})"


def _telling(guards: Iterable[GuardFact]) -> dict[str, GuardFact]:
    """By what it is about, what each says. How many items a list has is a number under the name that it has where it varies."""
    found: dict[str, GuardFact] = {}
    for guard in guards:
        if guard.kind == "LengthIs" and guard.value:
            length = replace(guard, expression=f"len({guard.expression})", kind="Equals", value=guard.value.split()[0])
            found[length.expression] = length
            continue
        is_torchs_own = guard.expression.startswith("torch.") or guard.value == f"torch.{guard.expression}"
        if guard.kind in PLAIN and guard.value and guard.value not in CODE and not is_torchs_own:
            known = found.get(guard.expression)
            if known is None or PLAIN.index(guard.kind) < PLAIN.index(known.kind):
                found[guard.expression] = guard
    return found


def _text(guard: GuardFact | None) -> str:
    if guard is None:
        return ""
    if guard.kind == "GlobalStateIs":
        return f"gradients {guard.value}"
    return (
        f"{guard.expression} = {guard.value}"
        if guard.kind in ("Equals", "TruthIs")
        else f"{guard.expression} {guard.value}"
    )


def _state(expression: str) -> bool:
    return expression == ""
