"""The terminal's text, where it must stay readable."""

import re

import pytest
from dynascope.report.facts import CompileReport, EntryFact, EnvironmentFact, FunctionFact, GuardFact, ProgramFact
from dynascope.report.labels import fitted_labels, whole_parts
from dynascope.report.lines import ranked
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame
from dynascope.report.terminal import Page, report_text
from dynascope.report.user_files import shown_path
from dynascope.report.variants import variants_of


def test_of_a_deep_recursion_both_ends_are_shown(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("def f():\n    g()\n")
    place = Span(str(file), 2, 4, 2, 7)
    stack = tuple(UserFrame(f"level{depth}", place) for depth in range(900))
    note = Explanation("program-error", "error", "RecursionError: too deep", "Nothing.", place, stack)
    program = ProgramFact(str(file), error=note)
    text = " ".join(report_text(CompileReport(program, EnvironmentFact("3.11", "2.13", "0", "cpu"))).split())
    assert "level898" in text and "level0 " in text and "893 more" in text and "level500" not in text


def test_a_file_is_named_as_the_person_would_name_it(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert shown_path(str(tmp_path / "here" / "model.py")) == "model.py"
    assert shown_path(f"{tmp_path}/here/../there/model.py") == "../there/model.py"
    assert shown_path(str(tmp_path / "there" / "model.py")) == str(tmp_path / "there" / "model.py")


def test_guards_on_the_users_values_come_first():
    inner = GuardFact("torch.nn.modules.module._global_forward_hooks", "has 0 items", "LengthIs")
    own, module = GuardFact("sizes", "has 2 items", "LengthIs"), GuardFact("model", "is a Net", "TypeIs")
    assert ranked([inner, module, own]) == [own, inner, module]


def test_stages_stand_in_the_order_of_the_flow_and_numbers_keep_their_unit():
    span = Span("m.py", 1)
    first = EntryFact("f0.e0", "function", span, "compiled", "break", seconds={"capture": 0.01, "assemble": 0.002, "guard": 0.003})
    second = EntryFact("f0.e1", "resume", span, "compiled", "return", seconds={"capture": 0.01, "differentiate": 0.5, "build": 0.2})
    report = CompileReport(
        ProgramFact("m.py"), EnvironmentFact("3.11", "2.13", "0.1", "cpu"), (FunctionFact("f0", "f", span, (first, second)),)
    )
    for width in range(40, 70):
        told = report_text(report, Page(width))
        assert not re.search(r"\d\n +ms|[a-z]\n +\d+ ms", told)
    joined = " ".join(told.split())
    assert "capture 20 ms, differentiate 500 ms, build 200 ms, assemble 2 ms, guard 3 ms" in joined


def test_what_sets_a_variant_apart_is_told_whole_or_not_at_all():
    text = "variant 2 of 2: gradients off · x f32[s0, 3] · net.norm.training = False"
    assert whole_parts(text, len(text)) == text
    assert whole_parts(text, len(text) - 1) == "variant 2 of 2: gradients off · x f32[s0, 3] · ..."
    assert whole_parts(text, 40) == "variant 2 of 2: gradients off · ..."
    assert whole_parts(text, 25) == "variant 2 of 2: ..."


@pytest.mark.parametrize("width", [90, 60, 40, 30, 22])
@pytest.mark.parametrize(
    "labels",
    [
        [f"optimizer.param_groups[0]['params'][0].grad {kind} · x f32[2]" for kind in ("= None", "f32[16, 3]")],
        ["model.training = True · gradients on · x f32[s0, 3]", "model.training = True · gradients off · x f32[s0, 3]"],
        ["a f32[4, 64] · temperature = 0.07", "a f32[4, 64] · temperature = 0.1"],
    ],
)
def test_variants_cut_to_a_narrow_terminal_stay_apart(labels, width):
    shown = fitted_labels(labels, width)
    assert len(set(shown)) == len(labels) and all(len(label) <= width for label in shown)
    assert width < 60 or shown == labels or all(label.endswith("...") for label in shown)


def test_the_parts_that_tell_labels_apart_come_first():
    """The second part says what the first says."""
    labels = [f"x f32[{n}, 32] · y i64[{n}] · best_loss {best}" for n, best in ((16, "= inf"), (16, "f32[]"), (8, "f32[]"))]
    assert fitted_labels(labels, 40) == [
        "x f32[16, 32] · best_loss = inf · ...", "x f32[16, 32] · best_loss f32[] · ...", "x f32[8, 32] · best_loss f32[] · ...",
    ]  # fmt: skip


def test_the_beginning_that_says_the_same_is_cut_off():
    labels = ["optimizer.param_groups[0]['params'][0].grad = None", "optimizer.param_groups[0]['params'][0].grad f32[16, 3, 3, 3]"]
    assert fitted_labels(labels, 30) == ["….grad = None", "….grad f32[16, 3, 3, 3]"]


def test_what_one_label_alone_says_comes_first_also_where_labels_have_other_parts():
    labels = [
        "n = 0 · model.encoder.weight.grad = None · model.encoder.bias.grad = None",
        "n int · model.encoder.weight.grad f32[64, 32] · model.encoder.bias.grad f32[64] · n % 10 != 0",
        "n int · model.encoder.weight.grad f32[64, 32] · model.encoder.bias.grad f32[64] · n % 10 == 0",
    ]
    first, second, third = fitted_labels(labels, 50)
    assert first.startswith("n = 0") and second.startswith("n % 10 != 0") and third.startswith("n % 10 == 0")


@pytest.mark.parametrize("width", [50, 60, 100])
def test_what_is_said_beside_carets_stays_on_the_page(width, tmp_path):
    file = tmp_path / "program.py"
    line = "    log.info('%s %s', first_value_of_a_long_name, second_value_of_a_long_name)"
    file.write_text(f"def f():\n{line}\n")
    span = Span(str(file), 2, 4, 2, len(line))
    reason = Explanation("foreign-call", "warning", "`log.info` reports.", "Move it.", span)
    entry = EntryFact("f0.e0", "function", Span(str(file), 1), "compiled", "break", reason=reason)
    report = CompileReport(
        ProgramFact(str(file)), EnvironmentFact("3.11", "2.13", "0", "cpu"), (FunctionFact("f0", "f", Span(str(file), 1), (entry,)),)
    )
    text = report_text(report, Page(width))
    assert "the graph breaks here" in text and "^^^" in text
    quoted = [row for row in text.splitlines() if "|" in row]
    assert quoted and all(len(row) <= width for row in quoted)


def test_that_something_is_a_function_sets_no_variant_apart():
    span = Span("m.py", 1)
    empty = GuardFact("meters", "`meters` is an empty dict", "DictionaryKeysAre")
    tensor = GuardFact("x", "", "TensorMatches", value="f32[2]")
    function = GuardFact("Meter.__init__", "is a function", "TypeIs", value="function")
    entries = tuple(
        EntryFact(name, "function", span, "compiled", "return", guards=guards)
        for name, guards in (("f0.e0", (tensor, function, empty)), ("f0.e1", (tensor,)))
    )
    labels = [variant.label for variant in variants_of(FunctionFact("f0", "f", span, entries))]
    assert labels == ["meters is an empty dict", ""]
