"""How the captures of one call go on where a number that varies must be a constant.

    q, k, v: [4, 4, n, 8]     four sizes are 4 at the first call, so that all are one root, and a table has four rows
    refused: s0               heads and batches are told apart by their dimensions, then the heads are fixed, all at once
    refused: s0, s1           rows of one tensor and of another were one root for a reason: together again, and all fixed
"""

from __future__ import annotations

from dataclasses import field

from dynascope.capture.sizes import Sizes
from dynascope.dataclass import dataclass
from dynascope.guards.source import Source
from dynascope.region_state import RegionState


@dataclass(slots=True)
class Attempts:
    """`constant` are the places whose number this compilation takes as it is: for this call alone, since another may take another way
    through the program."""

    state: RegionState
    constant: frozenset[Source] = frozenset()
    tied: bool = field(init=False, default=False)
    parted: frozenset[Source] = field(init=False, default=frozenset())
    """The sizes that were one root before they were told apart."""

    def turned_out(self, places: frozenset[Source], sizes: Sizes) -> None:
        """Capture itself came to rely on these numbers."""
        if not self._tie(places, sizes):
            self._take(places)

    def refused(self, places: frozenset[Source], sizes: Sizes, may_be_tied: bool) -> None:
        """An operator or a backend needs the numbers at these places as constants."""
        if may_be_tied and self._tie(places, sizes):
            return
        roots = sizes.sharing(places)
        by_chance = {place: dimension for root in roots if len({*root.values()}) > 1 for place, dimension in root.items()}
        if len({self.state.apart[place] for root in roots for place in root if place in self.state.apart}) > 1:
            self.state.apart, places = {}, self.parted  # nothing, where another compilation told them apart
            self.parted = self.parted.union(*roots)
        elif by_chance and not self.parted:
            self.state.apart, self.parted = by_chance, frozenset(by_chance)
            return
        else:
            places = places.union(*roots)
        self.state.refusals.update(places)
        self._take(places)

    def _take(self, places: frozenset[Source]) -> None:
        """As constants."""
        self.constant |= places
        self.state.untie(places)

    def _tie(self, places: frozenset[Source], sizes: Sizes) -> bool:
        """Whether numbers hang together in a way that was not known: noted once for each call."""
        if not self.tied:
            self.tied = self.state.tie(places, sizes)
            return self.tied
        return False
