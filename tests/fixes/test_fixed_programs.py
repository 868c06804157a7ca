"""Programs with the breaks that people have, and what becomes of them: every fix is proved anew here.

Most of them break or are compiled again; the others did once, and go through now: there nothing is offered. `outcomes.json` has the
breaks and graphs of each program before and after, how often it was compiled again, and how many calls were compared; who mends
more changes its line (`python tests/fixes/test_fixed_programs.py` writes it).
"""

import argparse
import json
from pathlib import Path

import pytest
from dynascope.proving.asking import Program, Prover
from dynascope.proving.mending import mend

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
OUTCOMES = HERE / "outcomes.json"
SHARE = 0.85
"""Of all breaks of these programs, how many are mended at least."""


@pytest.fixture(scope="module")
def prover():
    with Prover(seconds=120) as found:
        yield found


def outcome(path, prover):
    mended = mend(Program(str(path)), prover, each=False, recompilations=True)
    assert not mended.trouble
    proof = mended.proof
    if proof is None:
        return {"breaks": [len(mended.left)] * 2}
    # How far rounding goes differs from machine to machine.
    again = {"again": list(proof.again)} if any(proof.again) else {}
    return {"breaks": list(proof.breaks), "graphs": list(proof.graphs), **again, "calls": proof.calls}


@pytest.mark.turns(12)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_what_is_mended(path, prover):
    assert outcome(path, prover) == json.loads(OUTCOMES.read_text())[path.stem]


def test_most_breaks_are_mended():
    rows = json.loads(OUTCOMES.read_text())
    assert rows.keys() == {path.stem for path in PROGRAMS}
    before, after = (sum(row["breaks"][side] for row in rows.values()) for side in (0, 1))
    assert 1 - after / before >= SHARE


if __name__ == "__main__":
    asker = argparse.ArgumentParser(description="Writes what becomes of the programs into outcomes.json.")
    asker.add_argument("--only", nargs="+", metavar="NAME", help="of these programs alone; the lines of the others stay")
    only = asker.parse_args().only
    known = json.loads(OUTCOMES.read_text()) if only else {}
    with Prover(seconds=120) as asked:
        rows = known | {path.stem: outcome(path, asked) for path in PROGRAMS if not only or path.stem in only}
    OUTCOMES.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
