"""Files whose names are no UTF-8: what says where something came from can be written into a file all the same."""

import os

from dynascope.report.facts import CompileReport, EntryFact, EnvironmentFact, FunctionFact, ProgramFact
from dynascope.report.reason import Explanation
from dynascope.report.sarif import sarif
from dynascope.report.span import Span

FILE = os.fsdecode(b"n\xe9.py")


def test_a_generated_text_names_it_with_escapes():
    assert Span(FILE, 3).place == "n\\udce9.py:3"


def test_sarif_has_its_bytes_in_the_uri():
    why = Explanation("data-dependent-branch", "warning", "`if x` needs the value of a tensor.", "", Span(os.path.abspath(FILE), 4), ())
    entry = EntryFact("f0.e0", "function", Span(FILE, 2), "compiled", "break", reason=why)
    function = FunctionFact("f0", "f", Span(FILE, 2), (entry,))
    report = CompileReport(ProgramFact(FILE), EnvironmentFact("3.12", "2.13", "0.1", "cpu"), functions=(function,))
    (result,) = sarif(report)["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "n%E9.py"
