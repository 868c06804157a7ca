"""Results in the editor: a real server over stdio, a real client, and a stand-in engine in a real subprocess."""

import asyncio
import dataclasses
from pathlib import Path

import pytest
import reports
from dynascope.report import facts
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame
from dynascope_server.lsp.lens_refresh import REPEAT_SECONDS
from dynascope_server.report_file import read_report
from dynascope_server.results_store import ResultsStore
from dynascope_server.session import Session
from dynascope_server.source_text import read_source
from editor_client import over, plain
from lsprotocol import types

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_break_is_marked_on_its_expression(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    branch = {d.code: d for d in editor.diagnostics(path)}["data-dependent-branch"]
    assert branch.range == types.Range(types.Position(9, 7), types.Position(9, 18))
    assert branch.severity == types.DiagnosticSeverity.Warning
    assert branch.message == "`y.sum() > 0` needs the value of a tensor.\nUse `torch.where`."
    assert branch.code_description.href == "dynascope:/reasons/data-dependent-branch.md"
    assert [r.location.range.start.line for r in branch.related_information] == [reports.CALL_LINE - 1]


async def test_every_problem_is_published_once_with_its_severity(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    found = sorted((d.code, d.severity.name) for d in editor.diagnostics(path))
    assert found == [
        ("data-dependent-branch", "Warning"),
        ("generator", "Information"),
        ("guard-failed", "Information"),
    ]


async def test_other_files_of_the_users_get_their_diagnostics_too(editor):
    await editor.start()
    path = editor.program()
    library = editor.folder / "library.py"
    library.write_text(reports.PROGRAM, encoding="utf-8")
    made = reports.report(str(path), functions=(reports.forward_function(str(library)),))
    reports.lay_beside(path, made)
    await editor.run(path)
    assert {d.code for d in editor.diagnostics(library)} == {"data-dependent-branch", "guard-failed"}
    assert editor.diagnostics(path) == []


async def test_the_program_s_error_is_marked_where_it_was_raised(editor):
    await editor.start()
    path = editor.program()
    where = reports.span_of(str(path), reports.CALL_LINE, "forward(torch.ones(8, 64), 3)")
    error = Explanation("ValueError", "error", "ValueError: no", "", where)
    made = reports.report(str(path), program=facts.ProgramFact(str(path), (), 1, error=error), functions=())
    reports.lay_beside(path, made)
    await editor.run(path)
    (diagnostic,) = editor.diagnostics(path)
    assert diagnostic.severity == types.DiagnosticSeverity.Error
    assert diagnostic.range.start == types.Position(reports.CALL_LINE - 1, 6)


async def test_diagnostics_follow_edits_and_come_back(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    editor.edit(path, "# new\n" + reports.PROGRAM)
    await editor.until(lambda: any(d.range.start.line == reports.BRANCH_LINE for d in editor.diagnostics(path)))
    assert not any(d.data["stale"] for d in editor.diagnostics(path)), "a comment means nothing"

    editor.edit(path, reports.PROGRAM.replace("softmax(x, -1)", "softmax(x, -2)"), 3)
    await editor.until(lambda: any(d.data["stale"] for d in editor.diagnostics(path)))
    (branch,) = [d for d in editor.diagnostics(path) if d.code == "data-dependent-branch"]
    assert branch.severity == types.DiagnosticSeverity.Hint and branch.message.startswith("(stale) ")
    assert not next(d for d in editor.diagnostics(path) if d.code == "generator").data["stale"], "another function"
    assert "stale: run again" in [lens.command.title for lens in await editor.lenses(path)]

    editor.edit(path, reports.PROGRAM.replace("y.sum() > 0", "y.sum() > 1"), 4)
    await editor.until(lambda: "data-dependent-branch" not in [d.code for d in editor.diagnostics(path)])

    editor.edit(path, reports.PROGRAM, 4)
    await editor.until(lambda: [d.data["stale"] for d in editor.diagnostics(path) if d.code == "data-dependent-branch"] == [False])
    assert "stale: run again" not in [lens.command.title for lens in await editor.lenses(path)]


async def test_the_places_that_a_diagnostic_names_follow_edits_too(editor):
    await editor.start()
    path = editor.program()
    caller = editor.folder / "caller.py"
    caller.write_text("import model\n\n\nmodel.forward(1, 2)\n")
    branch = reports.branch_reason(str(path))
    calls = (UserFrame("<module>", Span(str(caller), 4, 0, 4, 19)), *branch.stack)
    function = reports.forward_function(str(path))
    entries = (dataclasses.replace(function.entries[0], reason=dataclasses.replace(branch, stack=calls)),)
    made = reports.report(str(path), functions=(dataclasses.replace(function, entries=entries),))
    reports.lay_beside(path, made)
    editor.open(path)
    editor.open(caller)
    await editor.run(path)

    def places():
        (diagnostic,) = [d for d in editor.diagnostics(path) if d.code == "data-dependent-branch"]
        found = [r.location for r in diagnostic.related_information or ()]
        return [(where.uri.rsplit("/", 1)[-1], where.range.start.line + 1) for where in found]

    assert places() == [("model.py", reports.CALL_LINE), ("caller.py", 4)]
    editor.edit(path, "# new\n" + reports.PROGRAM)
    await editor.until(lambda: places() == [("model.py", reports.CALL_LINE + 1), ("caller.py", 4)])
    editor.edit(caller, "# new\nimport model\n\n\nmodel.forward(1, 2)\n")
    await editor.until(lambda: places() == [("model.py", reports.CALL_LINE + 1), ("caller.py", 5)])
    editor.edit(caller, "import model\n", 3)
    await editor.until(lambda: places() == [("model.py", reports.CALL_LINE + 1)])


async def test_lenses(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    assert [lens.command.title for lens in await editor.lenses(path)] == ["Dynascope: compile and run"]
    await editor.run(path)
    titles = [(lens.range.start.line + 1, lens.command.title) for lens in await editor.lenses(path)]
    assert titles == [
        (1, "Dynascope: compile and run"),
        (1, "2 functions · 1 graph · 1 break · 1 kernel"),
        (4, "not compiled: generator"),
        (8, "1 graph · 1 break · 1 kernel · 1 recompilation"),
        (8, "show compiled kernel"),
        (8, "1 guard"),
        (8, "variant 1 of 2 · x f32[8, 64]"),
        (8, "compare"),
    ]


async def test_a_client_that_loses_refreshes_is_told_until_it_asks(editor):
    """VS Code drops one when its editor loses the focus before it asks; "cancel" stayed above a run that was over."""
    await editor.start()
    path = editor.program()
    editor.open(path)
    refreshes = editor.connection.refreshes
    assert "Dynascope: compile and run" in [lens.command.title for lens in await editor.lenses(path)]
    await editor.run(path)
    lost = len(refreshes)
    await editor.until(lambda: len(refreshes) >= lost + 2)
    assert "Dynascope: compile and run" in [lens.command.title for lens in await editor.lenses(path)]
    asked = len(refreshes)
    await asyncio.sleep(REPEAT_SECONDS[2] + 0.5)
    assert len(refreshes) == asked, "a client that has asked is left alone"


async def test_the_lenses_asked_for_on_the_last_refresh_are_those_after_the_run(editor):
    """However slow or fast the client asks: a run is over before its end is told."""
    await editor.start()
    path = editor.program()
    editor.open(path)
    for pause in (0, 0, 0.05, 0.3):
        handle = await editor.command("dynascope.compileAndRun", path.as_uri())
        told, titles = 0, []
        while not any(state["run"] == handle["run"] and over(state) for state in editor.seen_states()) or told < len(
            editor.connection.refreshes
        ):
            told = len(editor.connection.refreshes)
            await asyncio.sleep(pause)
            titles = [lens.command.title for lens in await editor.lenses(path)]
        assert "Dynascope: compile and run" in titles and not any("cancel" in title for title in titles)


async def test_every_lens_is_also_a_code_action_and_works(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    for lens in await editor.lenses(path):
        offered = [action["command"] for action in await editor.actions(path, lens.range)]
        wanted = (lens.command.command, plain(lens.command.arguments))
        assert wanted in [(command["command"], command["arguments"]) for command in offered]
        assert await editor.command(lens.command.command, *lens.command.arguments) is not None
        await editor.until(lambda: editor.seen_states()[-1]["state"] == "exited")


async def test_a_diagnostic_has_an_action_that_explains_it(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    (branch,) = [d for d in editor.diagnostics(path) if d.code == "data-dependent-branch"]
    action, search = await editor.actions(path, branch.range, [branch], [types.CodeActionKind.QuickFix])
    assert action["title"] == "Explain data-dependent-branch"
    assert search["command"]["command"] == "dynascope.findFixes" and search["command"]["arguments"] == [path.as_uri()]
    assert [diagnostic["code"] for diagnostic in action["diagnostics"]] == ["data-dependent-branch"]


async def test_hover_tells_what_became_of_the_line(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    assert await editor.hover(path, reports.SOFTMAX_LINE) is None
    await editor.run(path)
    text = await editor.hover(path, reports.SOFTMAX_LINE)
    assert text.startswith("`softmax` `f32[8, 64] cpu` → `add` `f32[8, 64] cpu`"), "the answer comes first"
    assert "**Runs in**\n\n- [k0 softmax](dynascope:/model.py-" in text and "k0/softmax.cpp" in text
    assert "(C++, reads 2.0 KiB, writes 2.0 KiB)" in text
    assert "- `x` is a float32 tensor of shape [8, 64]" in text
    assert "needs the value of a tensor" in await editor.hover(path, reports.BRANCH_LINE)
    inside = await editor.hover(path, reports.BRANCH_LINE, reports.PROGRAM.splitlines()[reports.BRANCH_LINE - 1].index("sum"))
    assert not inside or "needs the value" not in inside, "the client shows the diagnostic itself there"


async def test_inlay_hints(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    whole = types.Range(types.Position(0, 0), types.Position(30, 0))
    params = types.InlayHintParams(types.TextDocumentIdentifier(path.as_uri()), whole)
    (hint,) = await editor.client.text_document_inlay_hint_async(params)
    assert hint.label == "  f32[8, 64] cpu · k0"
    line = reports.PROGRAM.splitlines()[reports.SOFTMAX_LINE - 1]
    assert hint.position == types.Position(reports.SOFTMAX_LINE - 1, len(line))


async def test_clear_takes_everything_away(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    await editor.command("dynascope.clear", path.as_uri())
    await editor.until(lambda: not editor.diagnostics(path))
    assert await editor.hover(path, reports.SOFTMAX_LINE) is None


async def test_a_utf8_client_gets_utf8_columns(editor):
    line = reports.PROGRAM.splitlines()[8]
    made = reports.span_of("f", 9, "größe")
    assert (made.column, line.index("größe")) == (31, 31)
    await editor.start()
    path = editor.program()
    note = Explanation("note", "hint", "here", "", reports.span_of(str(path), 8, ")"))
    reports.lay_beside(path, reports.report(str(path), functions=(), notes=(note,)))
    await editor.run(path)
    (diagnostic,) = editor.diagnostics(path)
    assert diagnostic.range.start.character == reports.PROGRAM.splitlines()[7].index(")")


async def test_a_click_chooses_the_next_variant(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    chosen = [
        (await editor.command("dynascope.chooseVariant", path.as_uri(), {"function": "forward"}))["chosen"]
        for _ in range(2)
    ]
    assert chosen == ["f0.e1", "f0.e0"]
    answer = await editor.command("dynascope.chooseVariant", path.as_uri(), {"function": "forward", "entry": "f0.e1"})
    assert answer["chosen"] == "f0.e1" and [offer["entry"] for offer in answer["variants"]] == ["f0.e0", "f0.e1"]
    assert any("variant 2 of 2" in lens.command.title for lens in await editor.lenses(path))


async def test_two_variants_are_compared(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    uri = (await editor.command("dynascope.compareVariants", path.as_uri(), {"function": "forward"}))["uri"]
    answer = await editor.request("dynascope/document", {"uri": uri})
    assert answer["languageId"] == "diff" and "-`x` is a float32 tensor of shape [8, 64]" in answer["text"]


async def test_results_are_there_again_in_a_new_window(editor):
    """As a reload makes one: another session on the same storage, which sees the file opened."""
    await editor.start()
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    stored = ResultsStore(editor.connection.folder / "storage").speaking_of(str(path))
    assert [result.program for result in stored] == [str(path)]
    session = Session(read_source, read_source)
    session.restore(stored[0].program, read_report(Path(stored[0].report), stored[0].folder), stored[0].texts)
    assert [problem.code for problem, _ in session.problems(str(path))]
    path.write_text(reports.PROGRAM.replace("y.sum() > 0", "y.sum() > 1"))
    assert session.view(str(path)).stale, "the text as it was when the program ran is kept too"


async def test_the_status_of_a_new_window_is_that_of_the_result_which_is_shown(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    ended = await editor.run(path)
    store = ResultsStore(editor.connection.folder / "storage")
    stored = store.speaking_of(str(path))[0]
    await editor.command("dynascope.clear")
    store.keep(stored)
    editor.close(path)
    editor.open(path)
    (note,) = await editor.until(lambda: [state for state in editor.seen_states() if state["state"] == "restored"])
    counts = "uri", "functions", "graphs", "breaks", "kernels", "warnings"
    assert [note[key] for key in counts] == [ended[key] for key in counts] and note["warnings"] > 0


async def test_what_is_cleared_is_in_no_status_and_no_tree(editor):
    await editor.start(client={"virtualDocuments": True, "runState": True, "tree": True})
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    assert (await editor.request("dynascope/tree", {"uri": path.as_uri()}))["nodes"]
    told = len(editor.connection.tree_changes)
    await editor.command("dynascope.clear")
    state = await editor.until(lambda: next((s for s in editor.seen_states() if s["state"] == "cleared"), None))
    assert (state["uri"], state["graphs"], state["warnings"]) == (path.as_uri(), 0, 0)
    await editor.until(lambda: len(editor.connection.tree_changes) > told)
    assert not (await editor.request("dynascope/tree", {"uri": path.as_uri()}))["nodes"]


@pytest.mark.asyncio(loop_scope="session")
async def test_unsaved_text_of_a_file_whose_uri_is_written_in_other_characters(editor):
    """A blank is %20 there, and é is %C3%A9."""
    await editor.start()
    path = editor.program(name="été 1 #2.py")
    editor.open(path)
    await editor.run(path)
    await editor.until(lambda: editor.diagnostics(path))
    editor.edit(path, reports.PROGRAM.replace("torch.softmax(x, -1)", "torch.softmax(x, 0)"))
    await editor.until(lambda: any(found.message.startswith("(stale)") for found in editor.diagnostics(path)))
