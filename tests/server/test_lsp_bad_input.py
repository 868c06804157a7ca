"""Programs and engines that misbehave: each gives a clear message, and the server lives on."""

import asyncio
import os
import shutil
import signal
import sys

import pytest
import reports
from editor_client import FAKE_ENGINE, is_alive, plain
from lsprotocol import types

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def lives_on(editor):
    """After whatever happened, a good program still runs and shows its results."""
    await editor.command("dynascope.clear")
    assert await editor.command("dynascope.debugInformation")
    path = editor.program(name="good.py")
    end = await editor.run(path)
    assert (end["state"], end["exitCode"]) == ("exited", 0)
    assert editor.diagnostics(path)


CRASH = "import os, signal; print('before', flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
PROGRAMS = {
    "syntax error": ("def f(:\n", "exited", "exit code 1", "SyntaxError"),
    "exception": ("raise ValueError('no good')\n", "exited", "exit code 1", "ValueError: no good"),
    "os._exit": ("import os; print('before', flush=True); os._exit(5)\n", "exited", "exit code 5", ""),
    "crash": (CRASH, "errored", "SIGSEGV", ""),
    "exit code": ("import sys; sys.exit(3)\n", "exited", "exit code 3", ""),
}


@pytest.mark.parametrize("text, state, message, printed", PROGRAMS.values(), ids=PROGRAMS)
async def test_programs_that_end_badly(editor, text, state, message, printed):
    await editor.start()
    path = editor.program(text)
    end = await editor.run(path)
    assert end["state"] == state and message in end["message"]
    assert printed in editor.printed("stderr")
    await lives_on(editor)


async def test_a_crash_is_said_to_be_one(editor):
    await editor.start()
    path = editor.program(CRASH)
    end = await editor.run(path)
    assert end["signal"] == signal.SIGSEGV
    assert any("Python was ended by SIGSEGV while Dynascope was at `build` of `forward`" in m for m in editor.messages)
    assert "interpreter-crashed" in [d.code for d in editor.diagnostics(path)]
    assert editor.printed() == "before\n"


async def test_leaving_early_keeps_the_results_and_says_so(editor):
    await editor.start()
    path = editor.program("import os; os._exit(5)\n")
    await editor.run(path)
    codes = [d.code for d in editor.diagnostics(path)]
    assert "left-early" in codes and "data-dependent-branch" in codes


ENGINES = {
    "unusable": "There is no torch here. Install it.",
    "partial": "The engine's report cannot be read",
    "malformed": "CompileReport.program: expected an object, found 7",
    "newer": "has report version 1000; this dynascope reads version 1",
    "no report": "without a report",
}


@pytest.mark.parametrize("way, message", ENGINES.items())
async def test_engines_that_go_wrong(editor, way, message):
    await editor.start(environment={"FAKE_ENGINE": way})
    path = editor.program()
    end = await editor.run(path)
    assert end["state"] == "errored"
    assert len([m for m in editor.messages if message in m]) == 1
    assert any(message.split(". ")[0] in d.message for d in editor.diagnostics(path))
    editor.client.protocol.notify("dynascope/configure", {"environment": {}})
    await lives_on(editor)


async def test_a_failed_run_keeps_the_last_good_results_as_stale(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    editor.client.protocol.notify("dynascope/configure", {"environment": {"FAKE_ENGINE": "malformed"}})
    await editor.run(path)
    found = {d.code: d.data["stale"] for d in editor.diagnostics(path)}
    assert found["data-dependent-branch"] is True and found["unreadable-report"] is False


async def test_events_that_make_no_sense_are_skipped(editor):
    await editor.start(environment={"FAKE_ENGINE": "garbage events"})
    path = editor.program()
    end = await editor.run(path)
    assert end["state"] == "exited" and editor.diagnostics(path)


async def test_the_engine_is_not_there(editor):
    bare = editor.folder / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # no site-packages: nothing is installed
    bare.chmod(0o755)
    await editor.start(enginePath=str(editor.folder), interpreter=str(bare))
    path = editor.program()
    end = await editor.run(path)
    assert end["state"] == "errored"
    assert any("cannot import the engine" in m and "dynascope.enginePath" in m for m in editor.messages)


@pytest.mark.parametrize("interpreter", ["/nowhere/python", "no-such-python", __file__])
async def test_no_interpreter(editor, interpreter):
    await editor.start(interpreter=interpreter)
    path = editor.program()
    end = await editor.run(path)
    assert end["state"] == "errored"
    assert any("cannot be started" in m and "Dynascope's settings" in m for m in editor.messages)


async def test_megabytes_of_output_are_thinned_and_kept_on_disk(editor):
    size = 50_000_000
    await editor.start()
    path = editor.program(
        f"import sys\nfor _ in range({size} // 100_000): sys.stdout.write('x' * 99_999 + '\\n')\nprint('end')\n"
    )
    end = await editor.run(path)
    assert end["exitCode"] == 0
    assert os.path.getsize(end["logFile"]) == size + len("end\n")
    notes = [plain(note) for note in editor.connection.outputs]
    assert sum(len(note["text"]) + note["dropped"] for note in notes) == size + len("end\n")
    assert all(len(note["text"]) <= 32 * 1024 for note in notes)
    assert editor.printed().endswith("end\n")


async def test_a_program_that_never_ends_is_cancelled_with_its_children(editor):
    await editor.start()
    text = f"""\
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([{sys.executable!r}, "-c", "import time; time.sleep(600)"], start_new_session=True)
fork = os.fork()
if fork:
    print(os.getpid(), child.pid, fork, flush=True)
while True:
    time.sleep(1)
"""
    path = editor.program(text)
    handle = await editor.command("dynascope.compileAndRun", path.as_uri())
    await editor.until(lambda: editor.printed().count(" ") == 2)
    processes = [int(word) for word in editor.printed().split()]
    assert all(map(is_alive, processes))
    result = await editor.command("dynascope.cancel", path.as_uri())
    assert result == {"cancelled": [path.as_uri()]}
    end = await editor.ending(handle["run"])
    assert end["state"] == "exited" and end["cancelled"] and end["message"] == "cancelled"
    await editor.until(lambda: not any(map(is_alive, processes)))
    await lives_on(editor)


async def test_a_run_cancelled_before_its_first_report_is_no_error(editor):
    await editor.start(environment={"FAKE_ENGINE": "no report"})
    path = editor.program("import time; print('started', flush=True); time.sleep(600)")
    handle = await editor.command("dynascope.compileAndRun", path.as_uri())
    await editor.until(editor.printed)
    await editor.command("dynascope.cancel", path.as_uri())
    end = await editor.ending(handle["run"])
    assert (end["state"], end["cancelled"], end["message"]) == ("exited", True, "cancelled")
    assert editor.diagnostics(path) == [] and editor.messages == []


async def test_the_progress_bar_cancels(editor):
    await editor.start()
    path = editor.program("import time\nwhile True: time.sleep(1)\n")
    handle = await editor.command("dynascope.compileAndRun", path.as_uri())
    token = await editor.until(lambda: next((t for t, r in editor.client.progress_reports.items() if r), None))
    await editor.until(
        lambda: any("running model.py" in (r.message or "") for r in editor.client.progress_reports[token])
    )
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    assert (await editor.ending(handle["run"]))["cancelled"]


async def test_a_child_that_outlives_the_program_does_not_hold_the_run(editor):
    await editor.start()
    go = editor.folder / "go"
    waits = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.05)\nprint('late')"
    path = editor.program(f"import subprocess\nsubprocess.Popen([{sys.executable!r}, '-c', {waits!r}])\n")
    end = await editor.run(path)
    assert end["exitCode"] == 0
    go.touch()
    await editor.until(lambda: "late" in editor.printed())


async def test_one_run_for_each_file(editor):
    await editor.start()
    path = editor.program("import time; time.sleep(600)")
    handle = await editor.command("dynascope.compileAndRun", path.as_uri())
    assert await editor.command("dynascope.compileAndRun", path.as_uri()) is None
    await editor.until(lambda: any("running already" in message for message in editor.messages))
    await editor.command("dynascope.cancel")
    await editor.ending(handle["run"])


async def test_two_files_run_at_once_and_a_third_waits(editor):
    await editor.start()
    endless = "print('started', flush=True)\nimport time; time.sleep(600)"
    paths = [editor.program(endless, name=f"{name}.py") for name in "abc"]
    runs = [(await editor.command("dynascope.compileAndRun", path.as_uri()))["run"] for path in paths]
    await editor.until(lambda: editor.printed().count("started") == 2)
    states = {state["run"]: state for state in editor.seen_states()}
    assert [states[run]["state"] for run in runs] == ["running", "running", "starting"]
    assert "waiting" in states[runs[2]]["message"]
    await editor.command("dynascope.cancel", paths[0].as_uri())
    await editor.until(lambda: editor.printed().count("started") == 3)
    await editor.command("dynascope.cancel")
    for run in runs:
        assert (await editor.ending(run))["cancelled"]


async def test_a_waiting_run_can_be_cancelled(editor):
    await editor.start(maximumRuns=1)
    first, second = (editor.program("import time; time.sleep(600)", name=name) for name in ("a.py", "b.py"))
    await editor.command("dynascope.compileAndRun", first.as_uri())
    waiting = (await editor.command("dynascope.compileAndRun", second.as_uri()))["run"]
    await editor.command("dynascope.cancel", second.as_uri())
    assert (await editor.ending(waiting))["cancelled"]
    await editor.command("dynascope.cancel")


async def test_an_untrusted_workspace_runs_nothing(editor):
    await editor.start(trusted=False)
    path = editor.program("open('ran', 'w')")
    assert await editor.command("dynascope.compileAndRun", path.as_uri()) is None
    assert await editor.command("dynascope.doctor") is None
    await editor.until(lambda: any("not trusted" in message for message in editor.messages))
    assert not (editor.folder / "ran").exists()
    editor.client.protocol.notify("dynascope/configure", {"trusted": True})
    assert (await editor.run(path))["exitCode"] == 0


async def test_the_server_takes_its_programs_along_when_it_goes(editor):
    await editor.start_own()
    path = editor.program("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    await editor.command("dynascope.compileAndRun", path.as_uri())
    process = int(await editor.until(editor.printed))
    await editor.client.shutdown_session()
    async with asyncio.timeout(10):
        while is_alive(process):
            await asyncio.sleep(0.05)


async def test_settings_of_the_wrong_type_are_said_to_be_so(editor):
    await editor.start(run={"timeout": "soon"})
    await editor.until(lambda: any("`run.timeout` should be a number" in message for message in editor.messages))
    await lives_on(editor)


async def test_the_server_stops_what_the_engine_s_timeout_does_not(editor):
    await editor.start(run={"timeout": 0.5})
    path = editor.program("import time; time.sleep(600)")
    end = await editor.run(path)
    assert end["state"] == "errored" and "longer than 0.5 seconds" in end["message"]


async def test_the_program_gets_arguments_folder_and_environment_of_its_own(editor):
    await editor.start_own(environment={"COLOUR": "blue"}, run={"arguments": ["from", "settings"]})
    (editor.folder / "sub").mkdir()
    show = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['COLOUR'], os.environ['PYTHONPATH'])"
    path = editor.program(show, name="sub/show.py")
    await editor.run(path)
    assert f"['from', 'settings'] {editor.folder} blue" in editor.printed()
    assert editor.printed().endswith(f" blue {FAKE_ENGINE}\n")
    await editor.run(path, {"arguments": ["--", "of its own"]})
    assert "['--', 'of its own']" in editor.printed()


async def test_a_program_cannot_read_or_write_the_protocol(editor):
    await editor.start()
    path = editor.program("import os\nos.write(1, b'Content-Length: 2\\r\\n\\r\\n{}')\nprint(input())\n")
    end = await editor.run(path)
    assert end["exitCode"] == 1 and "EOFError" in editor.printed("stderr")
    await lives_on(editor)


async def test_doctor_and_debug_information(editor):
    await editor.start(environment={"SECRET": "do not tell"})
    result = await editor.command("dynascope.doctor")
    assert (result["exitCode"], result["text"]) == (3, "ok: this is the stand-in\n")
    document = await editor.request("dynascope/document", {"uri": result["uri"]})
    assert document["text"] == result["text"]
    text = (await editor.command("dynascope.debugInformation"))["text"]
    assert sys.executable in text and "pygls 2" in text and "do not tell" not in text


async def test_a_storage_folder_that_goes_away_costs_no_results(editor):
    await editor.start_own(client={"virtualDocuments": False, "output": True, "runState": True})
    path = editor.program()
    await editor.run(path)
    storage = editor.folder / "storage"
    shutil.rmtree(storage)
    storage.write_text("in the way")
    await editor.command("dynascope.clear")
    await editor.until(lambda: not editor.diagnostics(path))
    end = await editor.run(path)
    assert (end["state"], end["exitCode"]) == ("exited", 0)
    assert os.path.exists(end["logFile"]) and not end["logFile"].startswith(str(storage))
    assert "data-dependent-branch" in [d.code for d in editor.diagnostics(path)]
    assert any(str(storage) in message and "cannot be written" in message for message in editor.messages)


async def test_each_program_runs_in_its_own_workspace_folder(editor):
    """The folder around it; its own folder outside of all. A folder that is closed takes no program along."""
    await editor.start_own()
    first, second = editor.folder, editor.folder.with_name(f"{editor.folder.name} two")
    (second / "sub").mkdir(parents=True)
    other = types.WorkspaceFolder(second.as_uri(), "two")

    def change(added, removed):
        event = types.WorkspaceFoldersChangeEvent(added=added, removed=removed)
        editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))

    async def folder_of(path):
        editor.connection.outputs.clear()
        await editor.run(path)
        return editor.printed().strip()

    where = "import os\nprint(os.getcwd())\n"
    inside = editor.program(where, name=f"../{second.name}/sub/where.py").resolve()
    assert await folder_of(inside) == str(second / "sub")
    change([other], [])
    assert await folder_of(inside) == str(second)
    assert await folder_of(editor.program(where, name="where.py")) == str(first)
    waits = editor.program(
        "print('started', flush=True)\nimport time; time.sleep(600)\n", name=f"../{second.name}/w.py"
    )
    editor.connection.outputs.clear()
    handle = await editor.command("dynascope.compileAndRun", waits.resolve().as_uri())
    await editor.until(editor.printed)
    change([], [other])
    assert waits.name in (await editor.command("dynascope.debugInformation"))["text"]
    await editor.command("dynascope.cancel")
    assert (await editor.ending(handle["run"]))["cancelled"]


async def test_a_program_may_be_deleted_while_it_runs(editor):
    await editor.start()
    path = editor.program("import os, time\nos.remove(__file__)\nprint('gone', flush=True)\ntime.sleep(600)\n")
    editor.open(path)
    handle = await editor.command("dynascope.compileAndRun", path.as_uri())
    await editor.until(lambda: "gone" in editor.printed())
    assert "Dynascope: cancel the run" in [lens.command.title for lens in await editor.lenses(path)]
    await editor.command("dynascope.cancel", path.as_uri())
    assert (await editor.ending(handle["run"]))["cancelled"]
    titles = [lens.command.title for lens in await editor.lenses(path)]
    assert titles[0] == "Dynascope: compile and run", "a program that was run can be run again, torch in it or not"
    editor.close(path)
    assert await editor.command("dynascope.compileAndRun", path.as_uri()) is None
    await editor.until(lambda: any("no file on disk" in message for message in editor.messages))
    await lives_on(editor)


async def test_a_file_that_is_not_on_disk(editor):
    await editor.start()
    assert await editor.command("dynascope.compileAndRun", (editor.folder / "new.py").as_uri()) is None
    assert await editor.command("dynascope.compileAndRun", "untitled:Untitled-1") is None
    await editor.until(lambda: len([m for m in editor.messages if "on disk" in m]) == 2)


async def test_names_with_blanks_and_accents(editor):
    await editor.start()
    path = editor.program(name="ein größeres modell #1.py")
    await editor.run(path)
    reports.lay_beside(path, reports.report(str(path)))
    await editor.until(lambda: editor.client.diagnostics)
    (uri,) = [uri for uri, found in editor.client.diagnostics.items() if found]
    assert uri == path.as_uri()
    kernel = (await editor.command("dynascope.showKernel", path.as_uri()))["uri"]
    assert (await editor.request("dynascope/document", {"uri": kernel}))["text"] == reports.KERNEL
