"""Where findings stand: what concerns a setting of `torch.compile` is no note about the machine."""

from dynascope.report.facts import CompileReport, EntryFact, EnvironmentFact, FunctionFact, GraphFact, ProgramFact
from dynascope.report.findings import findings
from dynascope.report.reason import Explanation
from dynascope.report.span import Span
from dynascope.report.terminal import is_shown


def test_what_a_mode_does_not_do_stands_where_it_was_asked_for():
    note = Explanation("mode-not-honoured", "information", 'mode="max-autotune" is honoured in part only: no.', "Nothing has to be done.")
    other = Explanation("stage-failed", "warning", "A kernel was not built.", "Look.")
    entry = EntryFact("f0.e0", "function", Span("m.py", 9), "compiled", "return", "g0")
    report = CompileReport(
        ProgramFact("m.py"),
        EnvironmentFact("3.11", "2.13", "0", "cpu"),
        (FunctionFact("f0", "layer", Span("m.py", 9, 0, 12, 4), (entry,)),),
        (GraphFact("g0", 1, "dynascope", notes=(note, other)),),
    )
    places = {finding.code: finding.span and finding.span.line for finding in findings(report)}
    assert places == {"mode-not-honoured": 9, "stage-failed": None}
    assert all(map(is_shown, findings(report)))
