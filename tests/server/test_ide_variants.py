"""Variants, inlined functions and edits: what a real report of a small program makes of them."""

import re
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from dynascope import recording
from dynascope.capture.layers import note_registrations
from dynascope.report.facts import CompileReport, EntryFact, EnvironmentFact, FunctionFact, GuardFact, ProgramFact
from dynascope.report.span import Span, UserFrame
from dynascope.report.variants import variants_of
from dynascope_server.ide import acts
from dynascope_server.ide.actions import actions
from dynascope_server.ide.differences import differences
from dynascope_server.ide.edits import changed_lines
from dynascope_server.ide.file_facts import function_at, unit_at
from dynascope_server.ide.hints import hints
from dynascope_server.ide.hovers import hover
from dynascope_server.ide.lenses import lenses
from dynascope_server.ide.line_map import line_map
from dynascope_server.ide.selection import Choice, choose_graph
from dynascope_server.session import Session

PROGRAM = """
import torch
from torch import nn
import dynascope

SCALE = 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)

    def forward(self, x):
        hidden = self.up(x)
        return hidden * SCALE


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()

    def forward(self, x, pos):
        return self.block(x) + pos


@dynascope.compile(backend="eager")
def other(x):
    return x - 1


net = dynascope.compile(Net(), backend="eager")
net(torch.ones(3, 4), "a" and 1)
net(torch.ones(5, 4), 1)
net(torch.ones(3, 4), 1)
other(torch.ones(2))
"""


@pytest.fixture
def seen(tmp_path):
    """The session after a run of the program, and its path; `edit(text)` changes the text in the editor."""
    note_registrations()
    path, text = str(tmp_path / "program.py"), textwrap.dedent(PROGRAM).strip() + "\n"
    (tmp_path / "program.py").write_text(text)
    recorder = recording.Recorder(path)
    before = recording.use(recorder)
    try:
        exec(compile(text, path, "exec"), {"__name__": "__main__"})
    finally:
        recording.use(before)
    present = {"text": text}
    session = Session(lambda p: text, lambda p: present["text"])
    session.begin(path)
    session.accept(path, recorder.report())
    return Seen(session, path, text, present)


class Seen:
    def __init__(self, session, path, text, present):
        self.session, self.path, self.text, self.present = session, path, text, present

    @property
    def view(self):
        return self.session.view(self.path)

    def line(self, text):
        return next(number for number, line in enumerate(self.text.splitlines(), 1) if text in line)

    def edit(self, old, new):
        self.present["text"] = self.text.replace(old, new)

    def titles(self, text):
        found = lenses(self.path, self.present["text"], self.view, "idle")
        return [lens.act.title for lens in found if lens.line == self.line(text)]

    def hint(self, text):
        return next(hint.label.strip() for hint in hints(self.view) if hint.line == self.line(text))

    def choose(self, number):
        function = next(f for f in self.view.report.functions if f.name == "Net.forward")
        variant = variants_of(function)[number - 1]
        self.session.choose(self.path, function, variant)


def test_an_inlined_forward_has_its_lens(seen):
    (_, summary, *_rest) = ["", *seen.titles("def forward(self, x):")]
    assert summary == "inlined into Net.forward"
    assert any("guard" in title for title in seen.titles("def forward(self, x):"))


@pytest.mark.parametrize("text", ["hidden = self.up(x)", "return hidden * SCALE", "self.up = nn.Linear"])
def test_its_lines_answer_with_the_graph_of_the_compiled_function(seen, text):
    line = seen.line(text)
    assert function_at(seen.view.facts, line).name == "Net.forward"
    for stage in ("torch", "guards"):
        choice = choose_graph(seen.view, {"line": line - 1, "stage": stage})
        assert isinstance(choice, Choice), stage
    offered = [action.act.command for action in actions(seen.path, seen.view, "idle", line, line)]
    assert acts.SHOW_GRAPH in offered


def test_a_layer_s_line_tells_what_the_layer_makes(seen):
    assert seen.hint("self.up = nn.Linear") == "f32[3, 8]"


def test_the_last_used_variant_is_shown_until_another_is_chosen(seen):
    assert seen.hint("hidden = self.up(x)") == "f32[3, 8]"
    assert "variant 1 of 2 · x f32[3, 4]" in seen.titles("def forward(self, x, pos)")
    seen.choose(2)
    assert seen.hint("hidden = self.up(x)") == "f32[s0, 8]"
    assert "variant 2 of 2 · x f32[s0, 4]" in seen.titles("def forward(self, x, pos)")
    assert "*variant 2 of 2 · x f32[s0, 4]*" in hover(seen.view, seen.line("hidden ="), lambda address: address.uri)


def test_graph_and_guards_are_those_of_the_chosen_variant(seen):
    seen.choose(2)
    line = seen.line("hidden = self.up(x)") - 1
    graph = choose_graph(seen.view, {"line": line}).document
    guards = choose_graph(seen.view, {"line": line, "stage": "guards"}).document
    assert "f32[s0, 8]" in graph.text and "f32[3, 8]" not in graph.text
    assert "[s0, 4]" in guards.text and "[3, 4]" not in guards.text
    assert re.search(r"^Variant 2 of \d+ . .* serves a call only while", guards.text, re.MULTILINE)


def test_a_choice_outlives_the_next_run(seen):
    seen.choose(2)
    seen.session.begin(seen.path)
    seen.session.accept(seen.path, seen.view.report)
    assert seen.hint("hidden = self.up(x)") == "f32[s0, 8]"


def test_an_edit_makes_stale_what_depends_on_it_and_nothing_else(seen):
    seen.edit("hidden * SCALE", "hidden * SCALE * 2")
    assert "stale: run again" in seen.titles("def forward(self, x, pos)"), "it inlined the edited function"
    assert "stale: run again" in seen.titles("def forward(self, x):")
    assert "stale: run again" not in seen.titles("@dynascope.compile(backend")
    assert seen.hint("hidden = self.up(x)").startswith("stale · ")
    assert seen.hint("return x - 1") == "f32[2]"
    seen.edit("", "")
    assert not seen.view.stale


@pytest.mark.parametrize(
    "old, new, stale",
    [
        ("SCALE = 2", "SCALE = 3", {"Net.forward"}),
        ("nn.Linear(4, 8)", "nn.Linear(4, 16)", {"Net.forward"}),
        ("return x - 1", "return x - 1  # same", set()),
        ("import dynascope\n", "import dynascope\nimport math\n", set()),
        ("return x - 1", "return x - 2", {"other"}),
        ("return x - 1", "return x - ", {"other"}),
    ],
)
def test_what_an_edit_concerns(seen, old, new, stale):
    seen.edit(old, new)
    names = {f.identifier: f.name for f in seen.view.report.functions}
    assert {names[identifier] for identifier in seen.view.stale_functions} == stale


def test_two_definitions_of_one_name_are_told_apart():
    old = "def f():\n    return 1\n\ndef f():\n    return 2\n"
    new = old.replace("return 2", "return 3")
    assert changed_lines(old, new, line_map(old, new)) == {4, 5}


def test_the_innermost_function_around_a_line(seen):
    assert unit_at(seen.view.facts, seen.line("hidden = ")).name == "Block.forward"


def test_each_line_that_calls_a_library_s_function_has_the_facts_of_its_own_variant(tmp_path):
    path = str(tmp_path / "calls.py")
    text = (
        "import torch, dynascope\n"
        "model = dynascope.compile(torch.nn.ReLU(), backend='eager')\n"
        "one = model(torch.ones(2))\n"
        "other = model(torch.ones(7))\n"
    )
    (tmp_path / "calls.py").write_text(text)
    recorder = recording.Recorder(path)
    before = recording.use(recorder)
    try:
        exec(compile(text, path, "exec"), {"__name__": "__main__"})
    finally:
        recording.use(before)
    session = Session(lambda p: text, lambda p: text)
    session.begin(path)
    session.accept(path, recorder.report())
    labels = {hint.line: hint.label.strip() for hint in hints(session.view(path))}
    assert (labels[3], labels[4]) == ("f32[2]", "f32[s0]")


def test_what_a_line_makes_of_a_compiled_value_is_not_said_to_be_it(tmp_path):
    """What the model gives is not what `y` is; the layer's own line says what the layer makes."""
    path = str(tmp_path / "goes_on.py")
    text = (
        "import torch, dynascope\n"
        "layers = torch.nn.Sequential(\n"
        "    torch.nn.ReLU(),\n"
        ")\n"
        "model = dynascope.compile(layers, backend='eager')\n"
        "y = model(torch.ones(2, 1)).squeeze(-1)\n"
        "z = model(torch.ones(2, 1))\n"
    )
    recorder = recording.Recorder(path)
    before = recording.use(recorder)
    Path(path).write_text(text)
    try:
        exec(compile(text, path, "exec"), {"__name__": "__main__"})
    finally:
        recording.use(before)
    session = Session(lambda p: text, lambda p: text)
    session.begin(path)
    session.accept(path, recorder.report())
    labels = {hint.line: hint.label.strip() for hint in hints(session.view(path))}
    assert labels[6] == "model(torch.ones(2, 1)) f32[2, 1]" and labels[3] == "f32[2, 1]"


def made(identifier, *guards, line=7):
    span = Span("m.py", line)
    facts = tuple(GuardFact(expression, f"`{expression}` {value}", kind, None, (), value) for expression, kind, value in guards)
    return EntryFact(identifier, "function", span, "compiled", "return", guards=facts, callers=(UserFrame("main", span),))


def labels(*entries):
    return [variant.label for variant in variants_of(FunctionFact("f0", "f", Span("m.py", 1), entries))]


def test_a_variant_is_not_told_by_strides_where_anything_else_tells_it():
    one = made("f0.e0", ("x", "TensorMatches", "f32[2, 3]"), ("x.stride(1) and x.stride(0)", "RelationHolds", "keep to `x.stride(1) == 1`"))
    other = made("f0.e1", ("x", "TensorMatches", "f32[2, 3]"), ("n", "RelationHolds", "and `m` keep to `n == m`"))
    third = made("f0.e2", ("x", "TensorMatches", "f32[2, 3]"), ("y", "TensorMatches", "f32[4]"))
    assert labels(one, other, third)[1:] == ["n == m", "y f32[4]"]


def test_variants_of_one_type_are_told_by_who_requires_grad():
    """They were called after the call of compile() that made them."""

    def of(identifier, words):
        entry = made(identifier, ("w", "TensorMatches", "f32[3]"))
        (guard,) = entry.guards
        return replace(entry, guards=(replace(guard, check=f"`w` is a float32 tensor of shape [3] on cpu{words}"),))

    assert labels(of("e0", " that requires grad"), of("e1", "")) == ["w requires grad", "w requires no grad"]


def test_every_variant_is_told_apart():
    number = ("b", "Equals", "0")
    assert labels(made("e0", number), made("e1")) == ["b = 0", "any b"]
    keys = [("model", "KeysAre", f"has the keys {keys}") for keys in ("['0']", "['1']")]
    assert labels(made("e0", keys[0]), made("e1", keys[1])) == ["model has the keys ['0']", "model has the keys ['1']"]
    assert labels(made("e0"), made("e1", line=9)) == ["called at line 7", "called at line 9"]
    assert labels(made("e0"), made("e1"), made("e2")) == [f"compilation {number}" for number in (1, 2, 3)]
    first, second, other = labels(made("e0", number), made("e1", number), made("e2"))
    assert (first, second, other) == ("b = 0 · compilation 1", "b = 0 · compilation 2", "any b")


def test_a_diff_of_variants_says_which_they_are():
    function = FunctionFact("f0", "f", Span("m.py", 1), (made("e0", ("b", "Equals", "0")), made("e1", ("b", "Equals", "1"))))
    report = CompileReport(ProgramFact("m.py"), EnvironmentFact("3.11", "2.13", "0", "cpu"), (function,))
    text = differences(report, *function.entries)
    assert "--- guards of variant 1 of 2 · b = 0" in text and "+++ guards of variant 2 of 2 · b = 1" in text
    assert "# kernels: no difference" in text and "e0" not in text
