"""The page of a whole run: places are the user's own, also where a library's function was compiled."""

from dynascope.report.facts import CompileReport, EntryFact, EnvironmentFact, FunctionFact, GuardFact, ProgramFact
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame
from dynascope_server.ide.summary import summary_page

LIBRARY = "/venv/lib/python3.12/site-packages/torch/nn/modules/container.py"
MINE = "/home/me/train.py"


def test_a_librarys_function_stands_where_the_program_gave_it_to_the_compiler():
    callers = (UserFrame("main", Span(MINE, 34)),)
    again = Explanation("recompiled", "warning", "`x` has shape [4, 10], and had [32, 10].", "", Span(LIBRARY, 253), ())
    entries = (
        EntryFact("f0.e0", "function", Span(LIBRARY, 248), "compiled", "return", callers=callers),
        EntryFact("f0.e1", "function", Span(LIBRARY, 248), "compiled", "return", recompiled=again, callers=callers),
    )
    function = FunctionFact("f0", "Sequential.forward", Span(LIBRARY, 248, None, 255), entries, Span(MINE, 29))
    report = CompileReport(ProgramFact(MINE), EnvironmentFact("3.12", "2.13", "0.1", "cpu"), functions=(function,))
    text, links = summary_page(report)
    assert "## `Sequential.forward` ([train.py:29]" in text and text.count("([train.py:34]") == 3
    assert "container.py" not in text and {link.span.file for link in links} == {MINE}


def test_compilations_are_told_apart_and_a_break_that_they_share_says_its_remedy_once():
    why = Explanation("data-dependent-branch", "warning", "`if x > 5` needs the value of a tensor.", "Use torch.where.", Span(MINE, 4), ())
    entries = tuple(
        EntryFact(
            f"f0.e{number}", "function", Span(MINE, 2), "compiled", "break", reason=why,
            guards=(GuardFact("n", f"`n` is {number}", "Equals", Span(MINE, 3), value=str(number)),),
        )
        for number in (3, 4)
    )  # fmt: skip
    report = CompileReport(
        ProgramFact(MINE), EnvironmentFact("3.12", "2.13", "0.1", "cpu"), functions=(FunctionFact("f0", "step", Span(MINE, 2), entries),)
    )
    text, _ = summary_page(report)
    assert "- variant 1 of 2 · `n = 3`: no graph" in text and "- variant 2 of 2 · `n = 4`: no graph" in text
    assert text.count("needs the value") == 2 and text.count("Use torch.where.") == 1
