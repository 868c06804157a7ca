"""Where findings stand, and what is said once: what concerns a setting of `torch.compile` is no note about the machine."""

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


def test_an_error_of_a_graph_is_no_mere_note():
    failed = Explanation("backend-failed", "error", "The backend `mine` raised KeyError.", "Mend it.", Span("m.py", 9))
    entry = EntryFact("f0.e0", "function", Span("m.py", 9), "compiled", "return", "g0")
    report = CompileReport(
        ProgramFact("m.py"),
        EnvironmentFact("3.11", "2.13", "0", "cpu"),
        (FunctionFact("f0", "layer", Span("m.py", 9, 0, 12, 4), (entry,)),),
        (GraphFact("g0", 1, "mine", notes=(failed,)),),
    )
    (found,) = findings(report)
    assert found.severity == "error" and is_shown(found)


def test_one_cause_met_at_several_sizes_is_said_once():
    place = Span("m.py", 11, 8, 11, 24)

    def entry(number, size):
        reason = Explanation("torch-call-fails", "information", f"`x.view(3, 7)` raises: invalid for input of size {size}", "Look.", place)
        return EntryFact(f"f0.e{number}", "function", Span("m.py", 9), "compiled", "break", "g0", reason=reason)

    report = CompileReport(
        ProgramFact("m.py"),
        EnvironmentFact("3.11", "2.13", "0", "cpu"),
        (FunctionFact("f0", "layer", Span("m.py", 9, 0, 12, 4), (entry(0, 24), entry(1, 28))),),
    )
    (found,) = findings(report)
    assert found.times == 2 and found.message.endswith("size 24")
