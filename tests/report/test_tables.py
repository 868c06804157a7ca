"""Tables that fit the terminal."""

from __future__ import annotations

from dataclasses import replace

from dynascope.captures.comparing import Comparison as Captures
from dynascope.captures.comparing import Proof, Row
from dynascope.captures.printing import comparison_text as text_of_captures
from dynascope.command.compare import Comparison, comparison_text
from dynascope.report.tables import table

ROWS = [("backend", "results", "first"), ("eager", "equal", "1.5 s"), ("ours", "", "12.0 s")]


def test_side_by_side_where_it_fits():
    expected = [["backend   results    first"], ["eager     equal      1.5 s"], ["ours                12.0 s"]]
    assert table(ROWS, 0, [2]) == table(ROWS, 26, [2]) == expected


def test_below_each_other_where_it_does_not():
    assert table(ROWS, 25, [2]) == [[], ["eager", "  results: equal", "  first: 1.5 s"], ["ours", "  first: 12.0 s"]]


def test_a_comparison_of_backends_is_no_wider_than_the_terminal():
    words = "the program ended with 1: dynascope.backends.UnknownBackend: no backend is named 'nonsense'. There are: cudagraphs, eager"
    eager = Comparison("eager", "equal", True, 1.0, 0.002, 0.002, 2**28, 1, 0, None)
    found = [eager, Comparison("nonsense", words, False, same_output=False)]
    timed = replace(found[1], results="equal", other_numbers=True)
    assert "prints other words than under eager" in comparison_text(found) and "prints other numbers" in comparison_text([timed])
    wide, narrow = comparison_text(found).splitlines(), comparison_text(found, 50).splitlines()
    assert wide[0].startswith("backend    results") and wide[-1] == f"nonsense: {words}" and len(wide) == 5
    assert max(map(len, narrow)) <= 50 and narrow[0] == "eager" and "  warm call: 2.00 ms" in narrow


def test_a_comparison_of_captures_is_no_wider_than_the_terminal():
    proof = Proof("its tensors are 100 times as large", "gives other values: up to 9.42 apart", False, (4, 5))
    row = Row("torch.jit.trace", True, ("graph()",), ("1 argument that is no tensor is a constant",), proofs=(proof,), seconds=0.1)
    comparison = Captures("f", (row,), 1e-5)
    assert "torch.jit.trace   1 graph" in text_of_captures(comparison)
    narrow = text_of_captures(comparison, width=40).splitlines()
    assert max(map(len, narrow)) <= 40 and "  captured: 1 graph" in narrow
