"""The real engine behind the real server: a small program with a break, from its text to the marks on its lines."""

import importlib.util
import os
import subprocess
import sys

import pytest
from editor_client import ROOT, is_alive, plain
from lsprotocol import types

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.compiler,
    pytest.mark.skipif(
        importlib.util.find_spec("dynascope.__main__") is None, reason="the engine's command is not there"
    ),
]

PROGRAM = """\
import torch


def step(x):
    y = torch.softmax(x * 2, -1)
    if y.sum() > 0:
        y = y + 1
    return y


compiled = torch.compile(step)
print("result", float(compiled(torch.ones(8, 64)).sum()))
"""
BRANCH_LINE = 6


async def start(editor, **surroundings):
    """The server is older than the test: what the test expects goes with its runs."""
    expected = {"DYNASCOPE_EXPECTED": os.environ["DYNASCOPE_EXPECTED"]}
    cache = {"DYNASCOPE_CACHE_DIR": str(editor.folder / "cache")}
    await editor.start(enginePath=str(ROOT / "engine"), environment={**expected, **cache, **surroundings})


@pytest.mark.expects_in_children("data-dependent-branch")
async def test_a_break_a_kernel_and_the_program_s_own_output(editor):
    await start(editor)
    path = editor.program(PROGRAM)
    editor.open(path)
    end = await editor.run(path)
    assert (end["state"], end["exitCode"]) == ("exited", 0), (end, editor.printed("stderr"))
    assert editor.printed().startswith("result 520")
    breaks = [d for d in editor.diagnostics(path) if d.range.start.line == BRANCH_LINE - 1]
    assert breaks and breaks[0].code and breaks[0].source == "dynascope"
    assert end["kernels"] >= 1
    uri = (await editor.command("dynascope.showKernel", path.as_uri(), {"function": "step"}))["uri"]
    document = await editor.request("dynascope/document", {"uri": uri})
    assert document["languageId"] == "cpp" and f"{path.name}:5" in document["text"]
    assert "f32[8, 64]" in await editor.hover(path, 5)
    stages = [choice["stage"] for choice in (await editor.command("dynascope.listGraphs", path.as_uri()))["graphs"]]
    assert stages[:5] == ["torch", "joint", "aten-forward", "core-forward", "prims-forward"]


LONG = f"sum([{', '.join(['1'] * 4000)}])"
AWKWARD = f"""\
import torch

@torch.compile
def step(x):
\tname = "😀é"; total = (x * 2).sum().is_nonzero()  # 😀
\treturn x + total + ({LONG})

print("result", float(step(torch.ones(3)).sum()))
""".replace("\n", "\r\n")


@pytest.mark.expects_in_children("data-dependent-value")
async def test_columns_of_awkward_text(editor):
    """Tabs and emoji before the break, CRLF line ends, a line of 12,000 characters, blanks and accents in the path."""
    await start(editor)
    folder = editor.folder / "größe 😀 #1"
    folder.mkdir()
    path = folder / "mein modell.py"
    path.write_bytes(AWKWARD.encode())
    item = types.TextDocumentItem(path.as_uri(), "python", 1, AWKWARD)
    editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    editor.opened.append(path)
    end = await editor.run(path)
    assert (end["exitCode"], editor.printed()) == (0, "result 12006.0\n"), editor.printed("stderr")
    (told,) = [d for d in editor.diagnostics(path) if d.range.start.line == 4]
    line = AWKWARD.split("\r\n")[4].encode("utf-16-le")
    marked = line[2 * told.range.start.character : 2 * told.range.end.character].decode("utf-16-le")
    assert marked == "(x * 2).sum().is_nonzero()"
    assert not told.data["stale"]
    lenses = [lens.range.start.line for lens in await editor.lenses(path)]
    assert set(lenses) == {0, 2}
    assert "`f32[]`" in await editor.hover(path, 5)
    assert "f32[3]" in await editor.hover(path, 6, 12_000)


BROKEN_MACHINES = {
    "no compiler": ({"CC": "no-such", "CXX": "no-such"}, "kernels-not-built", "apt-get install gcc g++"),
    "a cache that cannot be written": (
        {"DYNASCOPE_CACHE_DIR": "/proc/nowhere"},
        "cache-unusable",
        "DYNASCOPE_CACHE_DIR",
    ),
}


@pytest.mark.expects_in_children("kernels-not-built", "data-dependent-branch")
@pytest.mark.parametrize("surroundings, code, repair", BROKEN_MACHINES.values(), ids=BROKEN_MACHINES)
async def test_a_broken_machine_is_said_with_its_repair(editor, surroundings, code, repair):
    """The program runs all the same."""
    await start(editor, **surroundings)
    path = editor.program(PROGRAM)
    end = await editor.run(path)
    assert (end["state"], end["exitCode"]) == ("exited", 0) and editor.printed().startswith("result 520")
    (told,) = [d for d in editor.diagnostics(path) if d.code == code]
    assert told.range.start.line == 0 and repair in told.message
    assert [repair in message for message in editor.messages] == [True], "once, however many graphs"


async def test_the_program_s_arguments_arrive_as_they_are(editor):
    await start(editor)
    path = editor.program("import sys\nprint(sys.argv[1:])\n")
    given = ["--json", "a b", "--", "--", "-h", ""]
    await editor.run(path, {"arguments": given})
    assert editor.printed() == f"{given}\n"


async def test_a_program_that_wants_arguments_is_said_to(editor):
    await editor.start(enginePath=str(ROOT / "engine"), runOnSave=True)
    compiled = "import torch\ntorch.compile(lambda x: x + 1)(torch.ones(2))\n"
    parser = "parser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\nprint(parser.parse_args())\n"
    path = editor.program(f"import argparse\n{parser}{compiled}")
    editor.open(path)
    end = await editor.run(path)
    assert (end["exitCode"], end["refusedArguments"]) == (2, "the following arguments are required: --data")
    assert "required: --data" in end["message"]
    end = await editor.run(path, {"arguments": ["--data", "x"]})
    assert end["exitCode"] == 0 and "refusedArguments" not in end
    states = len(editor.seen_states())
    editor.client.text_document_did_save(types.DidSaveTextDocumentParams(types.TextDocumentIdentifier(path.as_uri())))
    await editor.until(lambda: any(state["state"] == "exited" for state in editor.seen_states()[states:]))
    assert editor.seen_states()[-1]["exitCode"] == 0, "it is run again as it ran last"


@pytest.mark.parametrize(
    "text, printed",
    [
        ("def f(:\n", "SyntaxError"),
        ("import torch\nraise ValueError('no good')\n", "ValueError: no good"),
    ],
)
async def test_programs_that_fail_say_so_on_their_line(editor, text, printed):
    await start(editor)
    path = editor.program(text)
    editor.open(path)
    end = await editor.run(path)
    assert end["exitCode"] == 1
    assert printed in editor.printed("stderr")
    assert [d.range.start.line for d in editor.diagnostics(path)] == [len(text.splitlines()) - 1]


BAD_ENDS = {
    "os._exit": ("import os\nprint('before')\nos._exit(5)\n", "exited", "exit code 5", None, "before\n"),
    "crash": (
        "import os, signal\nprint('before')\nos.kill(os.getpid(), signal.SIGSEGV)\n",
        "errored",
        "ended by SIGSEGV",
        "crashed-program",
        "before\n",
    ),
    "fork": (
        "import os\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nprint('parent' if child else 'child')\n",
        "exited",
        "nothing was compiled",
        None,
        "child\nparent\n",
    ),
    "megabytes": (
        "for _ in range(50_000):\n    print('x' * 99)\nprint('end')\n",
        "exited",
        "nothing was compiled",
        None,
        "end\n",
    ),
    "time limit": (
        "import time\nwhile True:\n    time.sleep(1)\n",
        "errored",
        "still running after",
        "timed-out",
        "",
    ),
}


@pytest.mark.parametrize("text, state, message, code, printed", BAD_ENDS.values(), ids=BAD_ENDS)
async def test_bad_ends_are_said_and_the_server_lives_on(editor, text, state, message, code, printed):
    cache = {"DYNASCOPE_CACHE_DIR": str(editor.folder / "cache")}
    limit = {"run": {"timeout": 3}} if code == "timed-out" else {}
    await editor.start(enginePath=str(ROOT / "engine"), environment=cache, **limit)
    path = editor.program(text)
    end = await editor.run(path)
    assert (end["state"], message in end["message"]) == (state, True), end
    assert [d.code for d in editor.diagnostics(path)] == ([code] if code else [])
    assert editor.printed().endswith(printed)
    assert await editor.command("dynascope.debugInformation")


async def test_a_torch_of_the_wrong_version(editor):
    site = editor.folder / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").touch()
    (site / "torch-2.2.0.dist-info").mkdir()
    (site / "torch-2.2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.2.0\n")
    await editor.start(enginePath=str(ROOT / "engine"), environment={"PYTHONPATH": str(site)})
    path = editor.program("print('as it was written')\n")
    end = await editor.run(path)
    assert (end["state"], end["exitCode"]) == ("exited", 0)
    (told,) = editor.diagnostics(path)
    assert told.code == "wrong-torch" and "pip install 'torch>=2.11'" in told.message
    assert len([message for message in editor.messages if "pip install 'torch>=2.11'" in message]) == 1


async def test_files_of_the_folder_do_not_take_the_engine_s_imports(editor):
    """The program lies deeper: for itself, too, the workspace's folder is not on the path."""
    await start(editor)
    (editor.folder / "deeper").mkdir()
    path = editor.program("print('ran')\n", "deeper/program.py")
    for name in ("argparse.py", "torch.py", "dynascope.py"):
        (editor.folder / name).write_text("raise SystemExit('not the module that was meant')\n")
    editor.open(path)
    end = await editor.run(path)
    assert (end["state"], end["exitCode"]) == ("exited", 0), (end, editor.printed("stderr"))
    assert editor.printed() == "ran\n"


async def test_an_interpreter_without_torch(editor):
    bare = editor.folder / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    await editor.start(enginePath=str(ROOT / "engine"), interpreter=str(bare / "bin" / "python"))
    path = editor.program(PROGRAM)
    end = await editor.run(path)
    assert end["state"] == "errored" and end["exitCode"] == 78
    assert [d.code for d in editor.diagnostics(path)] == ["missing-torch"]
    assert ["-m pip install 'torch>=2.11'" in message for message in editor.messages] == [True]


async def test_cancelling_ends_the_program_and_its_engine(editor):
    await start(editor)
    path = editor.program("import os, time\nprint(os.getpid(), os.getppid(), flush=True)\nwhile True: time.sleep(1)\n")
    handle = await editor.command("dynascope.compileAndRun", path.as_uri())
    processes = [int(word) for word in (await editor.until(editor.printed)).split()]
    await editor.command("dynascope.cancel", path.as_uri())
    end = await editor.ending(handle["run"])
    assert end["cancelled"] and end["state"] == "exited"
    assert editor.diagnostics(path) == [] and editor.messages == []
    await editor.until(lambda: not any(is_alive(process) for process in processes))


TESTS = """\
import torch


class TestStep:
    def test_negative(self):
        f = torch.compile(lambda x: -x)
        assert f(torch.ones(3)).sum() == -3


def test_branch():
    @torch.compile
    def chosen(x):
        return x * 2 if x.sum() > 0 else x

    assert chosen(torch.ones(3)).sum() == 6
"""


@pytest.mark.expects_in_children("data-dependent-branch")
async def test_one_test_of_pytest_s(editor):
    await start(editor)
    path = editor.program(TESTS, "test_step.py")
    editor.open(path)
    offered = [lens.command for lens in await editor.lenses(path) if lens.command.command == "dynascope.runTest"]
    assert [plain(command.arguments[1])["test"] for command in offered] == ["TestStep::test_negative", "test_branch"]
    handle = await editor.command("dynascope.runTest", path.as_uri(), {"line": 11})
    end = await editor.ending(handle["run"])
    assert (end["state"], end["exitCode"]) == ("exited", 0) and "1 passed" in editor.printed()
    (found,) = [d for d in editor.diagnostics(path) if d.code == "data-dependent-branch"]
    assert found.range.start.line == 12
    titles = [lens.command.title for lens in await editor.lenses(path)]
    assert any("graphs · 1 break" in title for title in titles), titles
    handle = await editor.command("dynascope.runTest", path.as_uri(), {"test": "TestStep::test_negative"})
    await editor.ending(handle["run"])
    assert not [d for d in editor.diagnostics(path) if d.code == "data-dependent-branch"]
    assert await editor.command("dynascope.runTest", path.as_uri(), {"line": 0}) is None
    assert "No test is here" in editor.messages[-1]


async def test_the_picture_leads_to_lines_and_runs_are_compared(editor):
    await start(editor)
    path = editor.program(PROGRAM.replace("    if y.sum() > 0:\n        y = y + 1\n", ""))
    editor.open(path)
    await editor.run(path)
    assert await editor.command("dynascope.compareRuns", path.as_uri()) is None
    uri = (await editor.command("dynascope.showPicture", path.as_uri(), {"line": 4}))["uri"]
    picture = (await editor.request("dynascope/document", {"uri": uri}))["text"]
    assert 'data-line="5"' in picture and 'data-kernel="k0"' in picture and "KiB" in picture
    editor.edit(path, "# new\n" + path.read_text())
    answer = await editor.request("dynascope/links", {"uri": uri})
    assert answer == {"program": path.as_uri(), "links": [{"line": 4, "uri": path.as_uri(), "place": 5}]}
    path.write_text(path.read_text().replace("x * 2", "x * 3"))
    await editor.run(path)
    uri = (await editor.command("dynascope.compareRuns", path.as_uri()))["uri"]
    changed = (await editor.request("dynascope/document", {"uri": uri}))["text"].splitlines()
    assert any(line.startswith("-") and "2" in line for line in changed) and any(line.startswith("+") and "3" in line for line in changed)
