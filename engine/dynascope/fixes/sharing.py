"""Of two arguments that share memory, one of which is written in place, the other is copied where the function is called.

advance(state, state[2:6])    ->    advance(state, state[2:6].clone())
"""

from __future__ import annotations

import re

from dynascope.fixes.calls import argument, calls_of
from dynascope.fixes.fix import Fix, Site

QUOTED = re.compile(r"`([A-Za-z_]\w*)`")


def reader_cloned(site: Site) -> Fix | None:
    """Right where the function reads it before it writes the other, which is named first. The proof says so."""
    source, function = site.source, site.source.function(site.node)
    names = QUOTED.findall(site.finding.message)
    if function is None or function not in source.tree.body or len(names) != 2:
        return None
    given = [argument(call, function, names[1]) for call in calls_of(source, function.name)]
    edits = [source.replaced(each, f"{source.operand(each)}.clone()") for each in given if each is not None]
    if not edits or len(edits) < len(given):
        return None
    return Fix(f"Give `{names[1]}` memory of its own with .clone() at the call", tuple(edits))
