"""The real engine behind the real server: a program that ran once, and what is said while it is edited."""

import asyncio
import subprocess
import sys

import pytest
from editor_client import PATIENCE, ROOT, is_alive
from lsprotocol import types

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.compiler]

PROGRAM = """\
import time
import torch

open("runs", "a").write("run ")


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(64))

    def forward(self, x):
        return torch.softmax(x * self.scale, -1)


block = Block()


@torch.compile
def step(x):
    y = block(x)
    return y + 1


@torch.compile
def other(x):
    return x * 3


step(torch.ones(8, 64))
other(torch.ones(3))
"""


async def start(editor, **settings):
    cache = {"DYNASCOPE_CACHE_DIR": str(editor.folder / "cache"), "DYNASCOPE_STRICT": "0"}
    await editor.start(enginePath=str(ROOT / "engine"), environment=cache, **settings)


async def ran(editor, text=PROGRAM):
    path = editor.folder / "model.py"
    path.write_text(text, encoding="utf-8")
    editor.open(path)
    end = await editor.run(path)
    assert (end["state"], end["exitCode"]) == ("exited", 0), (end, editor.printed("stderr"))
    return path


async def titles(editor, path):
    return [lens.command.title for lens in await editor.lenses(path)]


async def live(editor, path):
    """The lenses once an edit has been followed."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await titles(editor, path)
            if any(title.startswith("live") for title in found):
                return found
            await asyncio.sleep(0.05)


def said(editor, path):
    return [(d.code, d.range.start.line + 1) for d in editor.diagnostics(path)]


async def test_an_inlined_function_is_edited(editor):
    await start(editor)
    path = await ran(editor)
    before = await titles(editor, path)
    assert not said(editor, path) and not any(title.startswith("live") for title in before)
    new = PROGRAM.replace(
        "        return torch.softmax", "        if x.sum() > 0:\n            x = x[:4]\n        return torch.softmax"
    )
    editor.edit(path, new)
    found = await live(editor, path)
    assert any(title.startswith("live") and "1 break" in title for title in found), found
    assert "stale: run again" not in found
    assert [code for code, line in said(editor, path) if line == 13] == ["data-dependent-branch"]
    state = await editor.until(lambda: next((s for s in editor.seen_states()[-1:] if s.get("live")), None))
    assert (state["breaks"], state["exitCode"], state["warnings"]) == (1, 0, 1) and state["graphs"] > 2
    assert "f32[4, 64]" in await editor.hover(path, 15)
    assert (editor.folder / "runs").read_text() == "run "
    editor.edit(path, PROGRAM, 3)
    async with asyncio.timeout(PATIENCE):
        while await titles(editor, path) != before:
            await asyncio.sleep(0.05)
    assert not said(editor, path)
    state = editor.seen_states()[-1]
    assert state["live"] is False and (state["graphs"], state["breaks"], state["warnings"]) == (2, 0, 0)


async def test_what_only_a_run_can_say(editor):
    await start(editor)
    path = await ran(editor)
    editor.edit(path, PROGRAM.replace("    return y + 1", "    time.sleep(0)\n    return y + 1"))
    await editor.until(lambda: ("known-after-a-run", 22) in said(editor, path))
    editor.edit(path, PROGRAM.replace("torch.ones(64)", "torch.ones(1)"), 3)
    (note,) = await editor.until(lambda: [d for d in editor.diagnostics(path) if d.range.start.line == 6])
    assert (
        note.message.startswith("`Block` is made by running it")
        and note.severity == types.DiagnosticSeverity.Information
    )
    assert "stale: run again" in await titles(editor, path)


async def test_what_raises_is_an_error_on_its_line_until_it_is_mended(editor):
    await start(editor)
    path = await ran(editor)
    editor.edit(path, PROGRAM.replace("y + 1", "y @ y"))
    (error,) = await editor.until(lambda: [d for d in editor.diagnostics(path) if d.code == "torch-call-fails"])
    assert (error.severity, error.range.start.line + 1) == (types.DiagnosticSeverity.Error, 22)
    assert error.message.startswith("`y @ y` raises")
    editor.edit(path, PROGRAM.replace("y + 1", "y @ y.T"), 3)
    await editor.until(lambda: not said(editor, path))
    assert (editor.folder / "runs").read_text() == "run "


async def test_of_a_function_that_is_deleted_nothing_is_said(editor):
    await start(editor)
    text = PROGRAM.replace("    return x * 3\n", "    if x.sum() > 0:\n        x = x + 1\n    return x * 3\n")
    path = await ran(editor, text)
    await editor.until(lambda: said(editor, path))
    start_of, end = text.index("@torch.compile\ndef other"), text.index("step(torch.ones")
    editor.edit(path, text[:start_of] + text[end:])
    await editor.until(lambda: editor.seen_states()[-1].get("live"))
    assert not said(editor, path)  # diagnostics go before the state
    assert editor.seen_states()[-1]["graphs"] == 1
    nodes = (await editor.request("dynascope/tree", {"uri": path.as_uri()}))["nodes"]
    assert [node["label"] for node in nodes] == ["step"]
    editor.edit(path, text, 3)
    await editor.until(lambda: said(editor, path))


async def test_a_file_of_a_package_runs_as_a_module_and_is_followed(editor):
    await start(editor)
    package = editor.folder / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "blocks.py").write_text("import torch\n\n\ndef halved(x):\n    return torch.relu(x) / 2\n")
    path = package / "main.py"
    step = "@torch.compile\ndef step(x):\n    return halved(x) + 1\n"
    text = f"import torch\nfrom .blocks import halved\n\n\n{step}\n\nstep(torch.ones(3, 4))\n"
    path.write_text(text)
    editor.open(path)
    end = await editor.run(path)
    assert (end["state"], end["exitCode"], end["graphs"]) == ("exited", 0, 1), (end, editor.printed("stderr"))
    assert any(title.startswith("1 graph") for title in await titles(editor, path))
    editor.edit(path, text.replace("+ 1", "@ x"))
    await editor.until(lambda: ("torch-call-fails", 7) in said(editor, path))
    await editor.until(lambda: editor.seen_states()[-1]["warnings"] == 1)


async def test_a_program_that_goes_on_after_it_was_compiled_is_said_to_run(editor):
    await start(editor)
    run = asyncio.create_task(ran(editor, f"{PROGRAM}import os\nwhile not os.path.exists('go'):\n    time.sleep(0.02)\n"))
    await editor.until(lambda: any(s["message"] == "running model.py" and s["graphs"] for s in editor.seen_states()[-1:]))
    (editor.folder / "go").touch()
    await run


async def test_an_edit_while_the_program_runs_is_followed_when_it_ends(editor):
    await start(editor)
    gate = "while not os.path.exists('go'):\n    time.sleep(0.02)\n"
    text = f"import os\n{PROGRAM}{gate}"
    run = asyncio.create_task(ran(editor, text))
    path = editor.folder / "model.py"
    await editor.until(lambda: (editor.folder / "runs").exists())
    editor.edit(path, text.replace("y + 1", "y + y.sum().is_nonzero()"))
    await editor.lenses(path)
    (editor.folder / "go").touch()
    await run
    await live(editor, path)


async def test_a_text_that_is_no_python_keeps_what_was_known(editor):
    await start(editor)
    path = await ran(editor)
    editor.edit(path, PROGRAM.replace("y + 1", "y + y.sum().is_nonzero()"))
    await live(editor, path)
    editor.edit(path, PROGRAM.replace("y + 1", "y + y.sum().is_nonzero() +"), 3)
    editor.edit(path, PROGRAM.replace("y + 1", "y + y.max().is_nonzero()"), 4)
    await live(editor, path)
    await editor.until(lambda: [d for d in editor.diagnostics(path) if "y.max().is_nonzero()" in d.message])


async def test_nothing_is_kept_without_trust_or_against_the_setting(editor):
    await start(editor, live=False)
    path = await ran(editor)
    assert not kept(path)
    await start(editor)
    await editor.run(path)
    assert await editor.until(lambda: len(kept(path)) == 2)
    await editor.start(trusted=False)
    await editor.until(lambda: not kept(path))


@pytest.mark.parametrize("end", ["clear", "kill"])
async def test_kept_calls_end_with_what_they_are_kept_for(editor, end):
    await editor.start_own(
        enginePath=str(ROOT / "engine"), environment={"DYNASCOPE_CACHE_DIR": str(editor.folder / "cache")}
    )
    path = await ran(editor)
    processes = await editor.until(lambda: len(kept(path)) == 2 and kept(path))
    if end == "clear":
        await editor.command("dynascope.clear", path.as_uri())
    else:
        server = editor.client._server
        server.kill()
    await editor.until(lambda: not any(map(is_alive, processes)))


def kept(path):
    """The processes that are forks of a program: they have its command line."""
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True).stdout
    rows = [line.strip().partition(" ") for line in listing.splitlines()]
    return [int(process) for process, _, command in rows if command.strip() == f"{sys.executable} {path}"]


async def test_all_variants_follow_an_edit(editor):
    """Those that a person sees first, then the others."""
    await start(editor)
    step = "@torch.compile\ndef step(x):\n    return x * 2\n"
    kinds = ("float32", "float64", "int32", "int64", "int16")
    calls = "".join(f"step(torch.ones(4, dtype=torch.{kind}))\n" for kind in kinds)
    text = f"import torch\n\n\n{step}\n\n{calls}"
    path = await ran(editor, text)
    assert any(title.startswith("variant 5 of 5") for title in await titles(editor, path))
    editor.edit(path, text.replace("x * 2", "x[:3] * 2"))

    async with asyncio.timeout(PATIENCE):
        while not any(title.startswith("variant 5 of 5") and "i16[4]" in title for title in await live(editor, path)):
            await asyncio.sleep(0.05)
