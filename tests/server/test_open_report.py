"""A report that was made on another machine."""

import json

import pytest
import reports
from dynascope.report.json_format import to_json
from dynascope_server.ide.foreign_paths import mapped

FOREIGN = "/cluster/job7/project/model.py"


def test_files_are_found_by_the_longest_end_of_their_path():
    here = {"/home/me/project/model.py", "/home/me/model.py"}
    report, missing = mapped(reports.report(FOREIGN), ["/home/me", "/home/me/project"], here.__contains__)
    assert report.program.file == "/home/me/project/model.py" and missing == 0
    entry = report.functions[0].entries[0]
    assert {entry.reason.span.file, entry.reason.stack[0].span.file, report.kernels[0].spans[0].file} == {report.program.file}


def test_windows_paths_and_libraries(tmp_path):
    made = reports.report(r"C:\jobs\project\model.py")
    report, missing = mapped(made, ["/home/me"], {"/home/me/model.py"}.__contains__)
    assert report.program.file == "/home/me/model.py" and missing == 0
    library = "/opt/lib/python3.11/site-packages/torch/nn/modules/linear.py"
    report, missing = mapped(reports.report(library), ["/home/me"], lambda path: True)
    assert report.program.file == library


def test_a_copy_that_is_open_comes_before_the_file_that_ran(tmp_path):
    files = {FOREIGN: "a", "/home/me/model.py": "a", "/home/me/sub/model.py": "b"}
    alike = lambda file, other: files[file] == files[other]  # noqa: E731
    for folders, place in ((["/home/me"], "/home/me/model.py"), (["/home/me/sub"], FOREIGN), (["/cluster", "/home/me"], FOREIGN)):
        report, missing = mapped(reports.report(FOREIGN), folders, files.__contains__, alike)
        assert (report.program.file, report.functions[0].entries[0].reason.span.file, missing) == (place, place, 0)


def test_what_is_not_here_is_counted():
    report, missing = mapped(reports.report(FOREIGN), ["/home/me"], lambda path: False)
    assert (report.program.file, missing) == (FOREIGN, 1)


@pytest.mark.asyncio(loop_scope="session")
async def test_every_view_works_from_it(editor):
    await editor.start()
    path = editor.program()
    editor.open(path)
    made = to_json(reports.report(FOREIGN))
    file = path.with_name("from-the-cluster.json")
    file.write_text(json.dumps(made))
    answer = await editor.command("dynascope.openReport", file.as_uri())
    assert answer["missing"] == 0 and answer["program"] == path.as_uri()
    await editor.until(lambda: "data-dependent-branch" in [d.code for d in editor.diagnostics(path)])
    assert any("1 graph" in lens.command.title for lens in await editor.lenses(path))
    assert await editor.command("dynascope.showKernel", path.as_uri(), {"function": "forward"}) is not None
    state = editor.seen_states()[-1]
    assert (state["uri"], state["state"], state["graphs"], state["breaks"]) == (path.as_uri(), "restored", 1, 1)
    assert state["message"].startswith("Of a report made elsewhere: ")


@pytest.mark.asyncio(loop_scope="session")
async def test_it_is_there_again_in_the_next_window(editor):
    await editor.start_own()
    path = editor.program()
    file = path.with_name("from-the-cluster.json")
    file.write_text(json.dumps(to_json(reports.report(FOREIGN))))
    await editor.command("dynascope.openReport", file.as_uri())
    await editor.connection.close()
    file.unlink()
    await editor.start_own()
    editor.open(path)
    await editor.until(lambda: "data-dependent-branch" in [d.code for d in editor.diagnostics(path)])
    assert any("1 graph" in lens.command.title for lens in await editor.lenses(path))


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_no_report_is_refused(editor):
    await editor.start()
    path = editor.program()
    path.with_name("other.json").write_text("{}")
    assert await editor.command("dynascope.openReport", path.with_name("other.json").as_uri()) is None
