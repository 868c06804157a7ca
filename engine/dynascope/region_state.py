"""What one region has compiled so far, and learnt of the calls that it was compiled for.

    state.symbolic    {x.size(0)}: changed since, so an input from now on
    state.fixed       {n}: operators needed it as a constant, three times
    state.entries     what serves, with its guards in `guards`

`pipeline.py` reads and writes it at each compilation.
"""

from __future__ import annotations

import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from dynascope import recording
from dynascope.capture import CodeRegion, hooks_of_the_program
from dynascope.capture.sizes import Sizes
from dynascope.configuration import Options
from dynascope.dataclass import dataclass
from dynascope.frame import hook
from dynascope.guards.guard import Guard
from dynascope.guards.source import FrameValues, Source
from dynascope.report.reason import Explanation, Reason
from dynascope.report.span import Span
from dynascope.sizes.ties import Tie, ties

Accepts = Callable[[FrameValues, Callable[[], None]], bool | Reason]

MOST_SEEN = 4
MOST_REFUSALS = 3
"""A number may have to be a constant at one value (`n = 2` where a tensor has two rows) and not at others, so a place is tried again,
but not for ever: each time costs recordings in vain."""


@dataclass(eq=False)
class RegionState:
    """What one region has compiled so far. `symbolic` are the places whose number changed: inputs from now on."""

    region: CodeRegion
    options: Options
    accepts: Accepts | None = None
    guards: list[tuple[Guard, ...]] = field(default_factory=list)
    entries: list[tuple[Mapping[str, Any], hook.Entry]] = field(default_factory=list)
    symbolic: set[Source] = field(default_factory=set)
    refusals: Counter[Source] = field(default_factory=Counter)
    """How often an operator needed the number at a place as a constant."""
    earlier: dict[Source, int] = field(default_factory=dict)
    """What sizes of tensors were at the compilations so far: a number, which those have in common that were equal at each."""
    seen: deque[Mapping[Source, int]] = field(default_factory=lambda: deque(maxlen=MOST_SEEN))
    """The sizes and ints of the latest compilations."""
    ties: dict[Source, Tie[Source]] = field(default_factory=dict)
    """How numbers hang together that the program does not run with others of, each by itself."""
    apart: Mapping[Source, int] = field(default_factory=dict)
    """Sizes that are equal by chance, and what tells them apart (`attempts.py`)."""
    compiled_at: Span | None = None
    """Where the program asked for the function to be compiled; known while a recorder listens."""
    excluded: set[Any] = field(default_factory=set)
    """Operators of the program's own libraries that graphs could not be differentiated with."""
    trace: str = ""
    """Of the latest capture, where it is wanted."""
    stood_aside: set[Reason] = field(default_factory=set)
    has_waited: bool = False
    """Whether a call has run as it was written so that it imports or makes what the next one needs."""

    refutes: Explanation | None = None
    """Of a region that goes on behind a call: capture said that the call raises, so nothing should ever come here."""
    refused_under: set[str] = field(default_factory=set)
    """The function modes under which it could not be captured as a whole: there it runs as it was written."""

    table: weakref.ref[hook.EntryTable] | None = None
    """Where the entries serve."""

    def forget(self) -> None:
        """Entries that were not what they seemed. Calls that run them finish."""
        table = self.table() if self.table is not None else None
        if table is not None:
            table.clear()
        self.guards.clear()
        self.entries.clear()

    @property
    def fixed(self) -> frozenset[Source]:
        """Places whose number operators need as a constant: never inputs."""
        return frozenset(place for place, times in self.refusals.items() if times >= MOST_REFUSALS)

    def note_sizes(self, seen: Mapping[Source, int]) -> None:
        histories = {place: (self.earlier.get(place), size) for place, size in seen.items()}
        first = 1 + max(self.earlier.values(), default=0)
        numbers = {history: number for number, history in enumerate(dict.fromkeys(histories.values()), first)}
        self.earlier.update((place, numbers[history]) for place, history in histories.items())
        self.seen.append(seen)

    def tie(self, needed: frozenset[Source], sizes: Sizes) -> bool:
        """Notes how the needed hang together with each other or with others that vary, by what they are and were. False where nothing
        is new. Compilations that did not come to all of the needed say nothing of them (a cache that was still empty), where others did."""
        places = [place for place in dict.fromkeys((*needed, *sizes.varying())) if place in sizes.seen]
        compilations = [*self.seen, sizes.seen]
        met = [seen for seen in compilations if all(place in seen for place in places if place in needed)]
        found = ties({place: tuple(seen[place] for seen in met) for place in places if all(place in seen for seen in met)}, needed)
        if not found:
            rows = {place: tuple(seen[place] for seen in compilations if place in seen) for place in places}
            length = max((len(row) for place, row in rows.items() if place in needed), default=0)
            found = ties({place: row for place, row in rows.items() if len(row) == length}, needed)
        is_new = any(self.ties.get(place) != tie for place, tie in found.items())
        given_by = {place for tie in found.values() for place in tie.keys}
        self.ties = {place: tie for place, tie in self.ties.items() if place not in given_by} | found  # so that none goes round
        return is_new

    def untie(self, places: frozenset[Source]) -> None:
        """What must be a constant gives nothing, and is given by nothing: that was a guess."""
        self.ties = {place: tie for place, tie in self.ties.items() if place not in places and places.isdisjoint(tie.keys)}

    def stand_aside(self, reason: Reason) -> None:
        """Calls that run as they are written for a while: said once for each reason."""
        if reason not in self.stood_aside:
            self.stood_aside.add(reason)
            recorder = recording.current()
            if recorder is not None:
                recorder.problem(reason.explain(self.region.span))

    def stands_aside_for_hooks(self, changes: bool) -> bool:
        reason = hooks_of_the_program(changes)
        if reason is not None:
            self.stand_aside(reason)
        return reason is not None


def asking(state: RegionState, changes: bool) -> Callable[[], bool]:
    """Asks whether a call stands aside, for compiled code to hold: a code object's constants are no part of a cycle that Python can
    find, and the state holds the code. `changes` says whether the region changes anything outside."""
    held = weakref.ref(state)

    def stands_aside() -> bool:
        state = held()
        return state is not None and state.stands_aside_for_hooks(changes)

    return stands_aside


