"""The guards for a person: values one by one, what objects and functions are as one row each, and no internal names."""

from dynascope.report.facts import CompileReport, EntryFact, EnvironmentFact, FunctionFact, GuardFact, ProgramFact
from dynascope.report.guard_rows import guard_rows
from dynascope.report.span import Span
from dynascope.report.terminal import Page, report_text
from dynascope.report.variants import entry_title

SPAN = Span("m.py", 1)
X = GuardFact("x", "`x` is a float32 tensor of shape [2] on cpu", "TensorMatches", value="f32[2]")


def hooks(name):
    return [
        GuardFact(name, f"`{name}` has no hooks", "ModuleHasNoHooks"),
        GuardFact(f"{name}.__dict__", f"`{name}.__dict__` has no key 'forward'", "HasNoKey"),
    ]


def test_what_objects_are_is_one_row():
    torchs = GuardFact("torch.nn.modules.module._global_forward_hooks", "`...` has 0 items", "LengthIs", value="0 items")
    rows = list(guard_rows([*hooks("self"), X, torchs]))
    assert rows == [X.check, "`self` has no hooks, and nothing of their own in place of what their classes define  (3 checks)"]
    many = list(guard_rows([guard for name in ("a", "b", "c", "d") for guard in hooks(name)]))
    assert many == ["`a`, `b` and 2 others have no hooks, and nothing of their own in place of what their classes define  (8 checks)"]


def test_a_dict_without_a_key_is_a_row_of_its_own():
    guard = GuardFact("self.logged", "`self.logged` has no key 'loss'", "HasNoKey")
    assert list(guard_rows([guard])) == [guard.check]


def test_functions_are_one_row():
    code = GuardFact("type(self).log.__code__", "`type(self).log.__code__` is the code of M.log", "IdentityIs")
    kind = GuardFact("type(self).log", "`type(self).log` is a function", "TypeIs", value="function")
    module = GuardFact("F", "`F` is the module torch.nn.functional", "IdentityIs")
    assert list(guard_rows([code, kind, module])) == ["`type(self).log` and `F` are what they were  (3 checks)"]


def test_what_is_asked_in_both_directions_is_said_once():
    pair = [GuardFact("", f"`{a}` and `{b}` are different objects", "NotSame") for a, b in (("p", "q"), ("q", "p"))]
    assert list(guard_rows(pair)) == [pair[0].check]


def test_entries_are_called_by_their_place_among_the_variants():
    entries = (
        EntryFact("f0.e0", "function", SPAN, "compiled", "break", guards=(X,)),
        EntryFact("f0.e1", "function", SPAN, "compiled", "break", guards=(X,)),
        EntryFact("f0.e2", "resume", Span("m.py", 7), "compiled", "return", guards=(X,), place=12),
    )
    function = FunctionFact("f0", "step", SPAN, entries)
    assert [entry_title(function, entry) for entry in entries] == [
        "step, variant 1 of 2", "step, variant 2 of 2", "step, from line 7 on",
    ]  # fmt: skip
    report = CompileReport(ProgramFact("m.py"), EnvironmentFact("3.11", "2.13", "0", "cpu"), (function,))
    text = report_text(report, Page(guards=True))
    assert "step, from line 7 on, holds while" in text and "f0.e" not in text
