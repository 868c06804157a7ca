"""Facts on lines, from hand-made reports: no server, no client."""

import dataclasses

import pytest
import reports
from dynascope.report import facts
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame
from dynascope.report.user_files import is_user_file
from dynascope_server.ide import acts, edits
from dynascope_server.ide.absolute_files import absolute
from dynascope_server.ide.actions import actions
from dynascope_server.ide.addresses import Address, file_stem, owner_of, parse_uri
from dynascope_server.ide.documents import build, find_function, kernels_document_name
from dynascope_server.ide.edits import changed_lines
from dynascope_server.ide.file_facts import FileView, by_file
from dynascope_server.ide.hints import hints
from dynascope_server.ide.hovers import hover
from dynascope_server.ide.lenses import lenses
from dynascope_server.ide.line_map import LineMap, line_map
from dynascope_server.ide.links import links
from dynascope_server.ide.problems import problem_of, problems
from dynascope_server.ide.selection import Choice, NoChoice, choose_graph, choose_kernel
from dynascope_server.ide.units import lines_of

PATH = "/home/me/model.py"


@pytest.fixture
def report():
    return reports.report(PATH)


def view_of(report, new_text=reports.PROGRAM, path=PATH):
    lines = line_map(reports.PROGRAM, new_text)
    changed = {(path, line) for line in changed_lines(reports.PROGRAM, new_text, lines)}
    stale = frozenset(f.identifier for f in report.functions if not changed.isdisjoint(lines_of(f)))
    return FileView(path, report, by_file(report)[path], lines, report.program.file, stale_functions=stale)


class TestLineMap:
    @pytest.mark.parametrize(
        "old, new, expected",
        [
            ("a b c", "a b c", [1, 2, 3]),
            ("a b c", "x a b c", [2, 3, 4]),
            ("a b c", "a x c", [1, None, 3]),
            ("a b c", "a c", [1, None, 2]),
            ("a b c d", "a n b m c d", [1, 3, 5, 6]),
            ("a b c", "", [None, None, None]),
        ],
    )
    def test_lines(self, old, new, expected):
        mapped = line_map(old.replace(" ", "\n"), new.replace(" ", "\n"))
        assert [mapped.line(number) for number in range(1, len(expected) + 1)] == expected

    def test_other_line_ends_are_no_change(self):
        assert not line_map("a\nb\n", "a\r\nb\r\n").changed

    def test_form_feeds_end_no_line(self):
        assert line_map("a\x0cb\nc", "x\na\x0cb\nc").line(2) == 3

    def test_a_span_that_is_torn_apart_is_gone(self):
        mapped = line_map("a\nb\nc", "a\nnew\nb\nc")
        assert mapped.span(Span("f", 1, 0, 2, 1)) is None
        assert mapped.span(Span("f", 2, 0, 3, 1)) == Span("f", 3, 0, 4, 1)

    def test_large_rewrites_stay_fast(self):
        mapped = line_map("\n".join(f"a{i}" for i in range(9000)), "\n".join(f"b{i}" for i in range(9000)))
        assert mapped.line(5) is None


class TestProblems:
    def test_a_break_in_two_entries_is_one_problem(self, report):
        assert [problem.code for problem in problems(report)].count("data-dependent-branch") == 1

    def test_recompilations_are_news_not_defects(self, report):
        (again,) = [problem for problem in problems(report) if problem.code == "guard-failed"]
        assert again.severity == "information" and again.span == Span(PATH, 8)
        assert again.message.startswith("Compiled again: `größe` was 3 and is 4.")

    def test_many_recompilations_at_one_place_are_one_problem(self, report):
        function = report.functions[0]
        latest = Explanation("guard-failed", "warning", "`größe` was 4 and is 5.", "Pass it as a tensor.")
        entries = (*function.entries, dataclasses.replace(function.entries[1], recompiled=latest))
        many = dataclasses.replace(report, functions=(dataclasses.replace(function, entries=entries),))
        (again,) = [problem for problem in problems(many) if problem.code == "guard-failed"]
        assert again.message.startswith("Compiled again 2 times, the last time because `größe` was 4 and is 5.")

    def test_a_reason_inside_a_library_shows_on_the_user_s_line(self):
        inside = Span("/env/lib/python3.11/site-packages/lib/core.py", 7, 0, 7, 3)
        call = Span(PATH, 4, 2, 4, 9)
        reason = Explanation(
            "foreign-call", "warning", "m", "r", inside, (UserFrame("f", call), UserFrame("core", inside))
        )
        problem = problem_of(reason, Span(PATH, 1))
        assert problem.span == call
        assert [(related.span, related.message) for related in problem.related] == [(inside, "in `core`")]

    def test_without_a_place_it_stands_at_the_fallback(self):
        assert problem_of(Explanation("c", "hint", "m", ""), Span(PATH, 1)).span == Span(PATH, 1)


@pytest.mark.parametrize(
    "path, own",
    [
        ("/home/me/train.py", True),
        ("/home/me/lib/model.py", True),
        ("/usr/lib/python3.11/abc.py", False),
        ("/env/site-packages/torch/nn.py", False),
        ("<string>", False),
    ],
)
def test_user_files(path, own):
    assert is_user_file(path) == own


def test_relative_names_become_absolute(report):
    made = absolute(reports.report("model.py"), "/home/me")
    assert made == report


class TestLenses:
    def test_none_on_files_without_torch(self):
        assert lenses(PATH, "import os\n", None, "idle") == []

    def test_run_becomes_cancel(self, report):
        first = lenses(PATH, reports.PROGRAM, view_of(report), "running")[0]
        assert (first.act.title, first.act.command) == ("Dynascope: cancel the run", acts.CANCEL)

    def test_they_move_with_the_text_and_say_stale(self, report):
        edited = "#\n" + reports.PROGRAM.replace("y.sum() > 0", "y.sum() > 1")
        found = lenses(PATH, reports.PROGRAM, view_of(report, edited), "idle")
        assert {lens.line for lens in found} == {1, 5, 9}
        assert [lens.line for lens in found if "stale" in lens.act.title] == [1, 9], "`helper` is as it was"

    def test_a_module_s_stale_lens_runs_the_program(self, report):
        library = "/home/me/library.py"
        made = dataclasses.replace(report, functions=(reports.forward_function(library),))
        view = dataclasses.replace(view_of(made, path=library), outdated=True)
        assert {lens.act.path for lens in lenses(library, "", view, "idle") if "stale" in lens.act.title} == {PATH}


    def test_the_line_that_asks_for_a_function_has_its_lens_too(self, report):
        """`model = torch.compile(model)` in a `main()`, or in another file than the model's."""
        asked = Span(PATH, reports.CALL_LINE, 0, reports.CALL_LINE, 30)
        function = dataclasses.replace(reports.forward_function(PATH), compiled_at=asked)
        made = dataclasses.replace(report, functions=(function,))
        titles = [lens.act.title for lens in lenses(PATH, reports.PROGRAM, view_of(made), "idle") if lens.line == reports.CALL_LINE]
        assert titles[0].startswith("forward: 1 graph · 1 break · 1 kernel") and "1 guard" in titles
        elsewhere = dataclasses.replace(function, compiled_at=dataclasses.replace(asked, file="/home/me/train.py"))
        parts = by_file(dataclasses.replace(report, functions=(elsewhere,)))["/home/me/train.py"].units
        assert [(unit.name, unit.first) for unit in parts] == [("forward", reports.CALL_LINE)]
        decorated = dataclasses.replace(function, compiled_at=Span(PATH, 8, 1, 8, 14))
        assert len(by_file(dataclasses.replace(report, functions=(decorated,)))[PATH].units) == 1


def test_every_lens_is_among_the_actions_of_its_line(report):
    view = view_of(report)
    for lens in lenses(PATH, reports.PROGRAM, view, "idle"):
        offered = [(a.act.command, a.act.detail) for a in actions(PATH, view, "idle", lens.line, lens.line)]
        assert (lens.act.command, lens.act.detail) in offered


def test_hover_follows_edits(report):
    moved = view_of(report, "# new\n" + reports.PROGRAM.replace("y.sum() > 0", "y.sum() > 1"))
    assert hover(moved, 2, lambda address: address.uri) is None
    text = hover(moved, reports.SOFTMAX_LINE + 1, lambda address: address.uri)
    assert text.startswith("*stale") and "softmax" in text


def test_a_hover_stays_short_and_leads_to_the_rest(report):
    """Library calls are named once, without what every one of them says; guards beyond a few are a link."""
    (graph,), function = report.graphs, report.functions[0]
    usual = "aten.mm.default runs as a library call: no loop form: the library's own kernel runs it."
    special = "aten.roll.default runs as a library call: a roll of the flattened tensor."
    place = Span(PATH, reports.SOFTMAX_LINE)
    externs = tuple(
        facts.ExternFact(operation, phase, place, Explanation("library-call", "hint", text, ""))
        for operation, phase, text in (
            ("aten.mm.default", "forward", usual),
            ("aten.roll.default", "forward", special),
            ("aten.mm.default", "backward", usual),
        )
    )
    border = facts.BorderFact(
        "mm", "softmax", Explanation("extern-call", "information", "mm is a library call", ""), place
    )
    guards = tuple(facts.GuardFact(f"x{i}", f"`x{i}` is {i}", "Equals", place) for i in range(9))
    entry = dataclasses.replace(function.entries[0], guards=guards)
    made = dataclasses.replace(
        report,
        graphs=(dataclasses.replace(graph, externs=externs, borders=(border,)),),
        functions=(dataclasses.replace(function, entries=(entry,)),),
    )
    text = hover(view_of(made), reports.SOFTMAX_LINE, lambda address: address.uri)
    assert "- `mm` in a library\n- `roll` in a library: a roll of the flattened tensor." in text
    assert "**Backward**\n\n- `mm` in a library" in text
    assert "Not fused" not in text
    assert text.count("- `x") == 3 and "[and 6 more](dynascope:/model.py-" in text and "/f0.e0/guards.md)" in text


def test_hints_name_value_and_kernel(report):
    (hint,) = hints(view_of(report))
    assert (hint.line, hint.label) == (reports.SOFTMAX_LINE, "  f32[8, 64] cpu · k0")


def given_at_the_line(report, **changes):
    """The report with its value as one that the line of the softmax gives."""
    (graph,) = report.graphs
    frame = UserFrame("f", Span(graph.values[0].span.file, reports.SOFTMAX_LINE))
    values = tuple(dataclasses.replace(value, stack=(frame,), variable=None, **changes) for value in graph.values)
    return dataclasses.replace(report, graphs=(dataclasses.replace(graph, values=values),))


def test_a_long_hint_keeps_its_type(report):
    """VS Code would cut off the end."""
    (hint,) = hints(view_of(given_at_the_line(report, part="x.detach().cpu().numpy() * window")))
    assert hint.label == "  … f32[8, 64] cpu · k0"


def test_names_of_other_kinds_each_have_their_type(report):
    (graph,) = report.graphs
    frame = UserFrame("f", Span(graph.values[0].span.file, reports.SOFTMAX_LINE))

    def label(first, second):
        named = {first: "f32[8, 64]", second: "i64[8, 64]"}
        values = [dataclasses.replace(graph.values[0], stack=(frame,), variable=name, description=kind) for name, kind in named.items()]
        made = dataclasses.replace(report, graphs=(dataclasses.replace(graph, values=tuple(values)),))
        return next(hints(view_of(made))).label

    assert label("values", "order") == "  values f32[8, 64], order i64[8, 64] · k0"
    assert label("probabilities", "order_of_these") == "  order_of_these i64[8, 64] · k0"


def test_what_nobody_takes_has_no_type(report):
    (hint,) = hints(view_of(given_at_the_line(report, part="")))
    assert hint.label == "  k0"


def test_what_was_made_in_a_library_before_its_call_broke_is_not_the_line_s(report):
    function, *others = report.functions
    entry, *rest = function.entries
    (frame,) = given_at_the_line(report).graphs[0].values[0].stack
    reason = Explanation("foreign-call", "warning", "It broke inside.", "", frame.span)
    broken = dataclasses.replace(entry, exit="break", reason=reason)
    made = given_at_the_line(report, span=Span("/usr/lib/python3/site-packages/torch/layer.py", 9))
    made = dataclasses.replace(made, functions=(dataclasses.replace(function, entries=(broken, *rest)), *others))
    assert "  k0" in [hint.label for hint in hints(view_of(made))]


class TestDocuments:
    def test_addresses_come_back(self):
        address = Address(owner_of("/a/ein größeres modell #1.py"), "k0/x.cpp")
        assert parse_uri(address.uri) == address

    @pytest.mark.parametrize("uri", ["dynascope:/a/../b", "dynascope:", "file:/a/b", "dynascope:/a//b", "dynascope:/."])
    def test_addresses_never_leave_their_folder(self, uri):
        assert parse_uri(uri) is None

    @pytest.mark.parametrize("name", ["../x", "a b", "lambda: <x>", "", "....", "é"])
    def test_names_are_safe_in_paths(self, name):
        assert parse_uri(Address("o", f"k0/{file_stem(name)}.cpp").uri) is not None

    def test_several_kernels_share_a_page_with_links_kept(self, report):
        second = dataclasses.replace(report.kernels[0], identifier="k1", name="other")
        graph = dataclasses.replace(report.graphs[0], kernels=("k0", "k1"))
        report = dataclasses.replace(report, kernels=(*report.kernels, second), graphs=(graph,))
        what = kernels_document_name(report, report.functions[0])
        document = build(report, what)
        lines = document.text.split("\n")
        assert what == "f0/kernels.cpp"
        assert [lines[link.line - 1].strip() for link in document.links] == [
            "float t0 = expf(x[0]);  // model.py:9"
        ] * 2

    def test_links_stand_on_the_place_s_name(self, report):
        document = build(report, "k0/softmax.cpp")
        (link,) = links(document, {})
        assert document.text.split("\n")[link.line - 1][link.start : link.end] == "model.py:9"

    def test_links_beyond_the_text_are_left_out(self, report):
        kernel = dataclasses.replace(report.kernels[0], links=(facts.LineLink(99, Span(PATH, 1)),))
        assert list(links(build(dataclasses.replace(report, kernels=(kernel,)), "k0/softmax.cpp"), {})) == []

    @pytest.mark.parametrize("what", ["k9/x.cpp", "f9/kernels.cpp", "g0/none.py", "f0.e9/guards.md", "nothing"])
    def test_what_is_not_there(self, report, what):
        assert build(report, what) is None

    def test_functions_by_the_last_part_of_their_name(self, report):
        functions = (dataclasses.replace(report.functions[0], name="Model.forward"),)
        assert find_function(functions, "forward") is functions[0]


class TestSelection:
    @pytest.mark.parametrize(
        "detail, what",
        [
            ({}, "k0/softmax.cpp"),
            ({"kernel": "k0"}, "k0/softmax.cpp"),
            ({"function": "forward"}, "k0/softmax.cpp"),
            ({"line": reports.SOFTMAX_LINE - 1}, "k0/softmax.cpp"),
            ({"line": reports.BRANCH_LINE - 1}, "k0/softmax.cpp"),
        ],
    )
    def test_kernels(self, report, detail, what):
        choice = choose_kernel(view_of(report), detail)
        assert isinstance(choice, Choice) and choice.document.what == what

    @pytest.mark.parametrize("detail", [{"function": "helper"}, {"function": "nobody"}, {"line": 0}])
    def test_no_kernel_says_why(self, report, detail):
        assert isinstance(choose_kernel(view_of(report), detail), NoChoice)

    @pytest.mark.parametrize(
        "detail, what",
        [
            ({}, "g0/torch.py"),
            ({"graph": "g0"}, "g0/torch.py"),
            ({"function": "forward", "stage": "guards"}, "f0.e0/guards.md"),
            ({"line": 8, "stage": "torch"}, "g0/torch.py"),
        ],
    )
    def test_graphs(self, report, detail, what):
        choice = choose_graph(view_of(report), detail)
        assert isinstance(choice, Choice) and choice.document.what == what

    def test_an_edited_line_maps_back(self, report):
        view = view_of(report, "#\n" + reports.PROGRAM)
        assert choose_kernel(view, {"line": reports.SOFTMAX_LINE}).line == 3


def test_unchanged_text_is_the_identity():
    assert LineMap().line(7) == 7 and LineMap().span(Span("f", 3)) == Span("f", 3)


def test_fixes_are_looked_for_at_breaks_and_at_what_was_compiled_again(report):
    def offered(made):
        view = view_of(made)
        found = actions(PATH, view, "idle", 1, len(reports.PROGRAM.splitlines()))
        return [action.problem.code for action in found if action.act.command == acts.FIND_FIXES]

    assert offered(report) == ["data-dependent-branch"]
    function, *others = report.functions
    again = Explanation("recompiled", "warning", "`größe` was 3 and is 4.", "Pass it as a tensor.", Span(PATH, reports.SOFTMAX_LINE))
    entries = tuple(
        dataclasses.replace(entry, recompiled=again if entry.recompiled else None) for entry in function.entries
    )
    changed = (dataclasses.replace(function, entries=entries), *others)
    assert offered(dataclasses.replace(report, functions=changed)) == ["recompiled", "data-dependent-branch"]


def test_a_recompilation_that_is_as_it_should_be_is_a_hint():
    report = reports.report(PATH)
    change = facts.ChangeFact("", "grad-mode", "on", "off")
    again = Explanation("recompiled", "information", "grad mode is off, and was on", "Leave it.", Span(PATH, reports.SOFTMAX_LINE))
    changed = [
        dataclasses.replace(
            function,
            entries=tuple(
                dataclasses.replace(entry, recompiled=again, change=change) if entry.recompiled else entry for entry in function.entries
            ),
        )
        for function in report.functions
    ]
    found = [p for p in problems(dataclasses.replace(report, functions=tuple(changed))) if p.code == "recompiled"]
    assert found and all(problem.severity == "hint" for problem in found)


def test_the_kernel_of_a_line_is_the_one_that_does_its_work():
    """`self.model(x)` also counts batches: that kernel comes first, and is not what the line is about."""
    work = reports.kernel(PATH)
    counter = dataclasses.replace(work, identifier="k1", name="add", bytes_read=8, bytes_written=8, operations=("add",))
    backward = dataclasses.replace(work, identifier="k2", name="back", phase="backward", bytes_read=10**6, bytes_written=10**6)
    made = reports.report(PATH, kernels=(backward, counter, work))
    found = choose_kernel(view_of(made), {"line": reports.SOFTMAX_LINE - 1})
    assert found.document.what.startswith("k0/")


@pytest.mark.parametrize(
    "old, new",
    [
        ("return x * 2", "return x * 3"),
        ("def helper", "# a comment\ndef helper"),
        ("import torch\n", "import torch\n\nLIMIT = 3; OTHER = LIMIT\n"),
        ("def forward(x, größe):", "@torch.no_grad()\ndef forward(x, größe):"),
    ],
)
def test_what_stands_word_for_word_is_read_once(old, new):
    text = reports.PROGRAM.replace(old, new)
    assert text != reports.PROGRAM
    known = {each.place: each for each in edits._definitions_of_run(reports.PROGRAM)}
    assert edits._definitions(text, known) == edits._definitions(text, {})
    again = {each.place: each for each in edits._definitions(text, known)}
    assert edits._definitions(reports.PROGRAM, again) == list(edits._definitions_of_run(reports.PROGRAM))
