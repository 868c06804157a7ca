"""The terminal's text, where it must stay readable."""

from dynascope.report.facts import CompileReport, EnvironmentFact, GuardFact, ProgramFact
from dynascope.report.lines import ranked
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame
from dynascope.report.terminal import report_text


def test_of_a_deep_recursion_both_ends_are_shown(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("def f():\n    g()\n")
    place = Span(str(file), 2, 4, 2, 7)
    stack = tuple(UserFrame(f"level{depth}", place) for depth in range(900))
    note = Explanation("program-error", "error", "RecursionError: too deep", "Nothing.", place, stack)
    program = ProgramFact(str(file), error=note)
    text = " ".join(report_text(CompileReport(program, EnvironmentFact("3.11", "2.13", "0", "cpu"))).split())
    assert "level898" in text and "level0 " in text and "893 more" in text and "level500" not in text


def test_guards_on_the_users_values_come_first():
    inner = GuardFact("torch.nn.modules.module._global_forward_hooks", "has 0 items", "LengthIs")
    own, module = GuardFact("sizes", "has 2 items", "LengthIs"), GuardFact("model", "is a Net", "TypeIs")
    assert ranked([inner, module, own]) == [own, inner, module]
