"""What capture makes of each program of this folder in three calls: graphs, and the codes of breaks and refusals in order.

    outcome_of("breaks_print")       "2 graphs: print-call"

`outcomes.json` holds them; a program that it does not name is one graph without a break. Who turns a break into a capture
changes its line, or lets `python tests/capture/outcomes.py` write the file anew and reads the difference. Where a newer Python
differs (comprehensions have no frames of their own from 3.12), a section says so; the script writes the newest section that
the Python that runs it has, so 3.11 goes first.
"""

import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_suffix(".json")
ONE_GRAPH = "1 graph"
SECTIONS = {"programs": (3, 11), "from 3.12": (3, 12), "from 3.14": (3, 14)}
"""By the version that they begin with: the last that applies here and names a program says what it is."""
APPLYING = [name for name, first in SECTIONS.items() if sys.version_info >= first]
TABLE = json.loads(FILE.read_text())


def outcome_of(name, sections=APPLYING):
    return next((TABLE[section][name] for section in reversed(sections) if name in TABLE[section]), ONE_GRAPH)


def words(compilation):
    graphs = f"{len(compilation.graphs)} graph{'s' * (len(compilation.graphs) != 1)}"
    codes = [*compilation.codes, *(f"refused {refused.reason.code}" for refused in compilation.refused)]
    return ": ".join([graphs, ", ".join(codes)] if codes else [graphs])


def main():
    import test_programs

    found = {name: words(test_programs.three_calls(*case)) for name, case in test_programs.BY_NAME.items()}
    *before, section = APPLYING
    TABLE[section] = {name: now for name, now in found.items() if now != outcome_of(name, before)}
    FILE.write_text(json.dumps(TABLE, indent=1) + "\n")


if __name__ == "__main__":
    main()
