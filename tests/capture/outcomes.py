"""What capture makes of each program of this folder in three calls: graphs, and the codes of breaks and refusals in order.

    outcome_of("breaks_print")       "2 graphs: print-call"

`outcomes.json` holds them; a program that it does not name is one graph without a break. Who turns a break into a capture
changes its line, or lets `python tests/capture/outcomes.py` write the file anew and reads the difference. Where a newer Python
differs (comprehensions have no frames of their own from 3.12), that section says so; the script writes the section of the
Python that runs it, so 3.11 goes first.
"""

import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_suffix(".json")
ONE_GRAPH = "1 graph"
NEWER = "from 3.12"
IS_NEWER = sys.version_info >= (3, 12)
TABLE = json.loads(FILE.read_text())


def outcome_of(name):
    everywhere = TABLE["programs"].get(name, ONE_GRAPH)
    return TABLE[NEWER].get(name, everywhere) if IS_NEWER else everywhere


def words(compilation):
    graphs = f"{len(compilation.graphs)} graph{'s' * (len(compilation.graphs) != 1)}"
    codes = [*compilation.codes, *(f"refused {refused.reason.code}" for refused in compilation.refused)]
    return ": ".join([graphs, ", ".join(codes)] if codes else [graphs])


def main():
    import test_programs

    found = {name: words(test_programs.three_calls(*case)) for name, case in test_programs.BY_NAME.items()}
    if IS_NEWER:
        others = {name: TABLE["programs"].get(name, ONE_GRAPH) for name in found}
        TABLE[NEWER] = {name: now for name, now in found.items() if now != others[name]}
    else:
        TABLE["programs"] = {name: now for name, now in found.items() if now != ONE_GRAPH}
    FILE.write_text(json.dumps(TABLE, indent=1) + "\n")


if __name__ == "__main__":
    main()
