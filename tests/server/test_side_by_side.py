"""Backends and captures compared, and traces, as documents in an editor."""

import pytest
from dynascope.report.syntax import function_around

pytestmark = pytest.mark.asyncio(loop_scope="session")
PROGRAM = """import torch


class Model:
    def forward(self, x):
        def inner(y):
            return y
        return inner(x)


@torch.compile
def f(x):
    return x
"""


@pytest.mark.parametrize(
    ("line", "name"), [(1, None), (4, None), (5, "Model.forward"), (7, "Model.forward.<locals>.inner"), (11, "f"), (13, "f")]
)
async def test_the_function_around_a_line(line, name):
    assert function_around(PROGRAM, line) == name
    assert function_around("def f(:", 1) is None


async def test_documents(editor):
    await editor.start()
    path = editor.program(PROGRAM)
    editor.open(path)
    uri = path.as_uri()
    (backend,) = (await editor.command("dynascope.listBackends", uri))["backends"]
    assert backend == {"name": "inductor", "words": "torch's own compiler", "state": "ready"}
    answer = await editor.command("dynascope.compareBackends", uri, {"backends": "dynascope,inductor"})
    assert f"compare --output-format markdown --backends dynascope,inductor {path}" in answer["text"]
    document = await editor.request("dynascope/document", {"uri": answer["uri"]})
    assert document["text"] == answer["text"] and document["languageId"] == "markdown"
    answer = await editor.command("dynascope.compareCaptures", uri, {"line": 12})
    assert f"compare-captures --output-format markdown {path}::f" in answer["text"]
    answer = await editor.command("dynascope.showTrace", uri, {"line": 4})
    assert f"show trace {path}::Model.forward" in answer["text"] and "trace-of-Model.forward" in answer["uri"]


async def test_what_is_refused(editor):
    await editor.start(environment={"FAKE_ENGINE": "unusable"})
    path = editor.program(PROGRAM)
    editor.open(path)
    assert await editor.command("dynascope.compareCaptures", path.as_uri(), {"line": 0}) is None
    await editor.until(lambda: any("into a function" in message for message in editor.messages))
    assert await editor.command("dynascope.compareBackends", path.as_uri(), {}) is None
    assert await editor.command("dynascope.compareBackends", path.as_uri(), {"backends": "eager"}) is None
    await editor.until(lambda: any("no torch here" in message for message in editor.messages))


async def test_nothing_without_trust(editor):
    await editor.start(trusted=False)
    path = editor.program(PROGRAM)
    editor.open(path)
    assert await editor.command("dynascope.showTrace", path.as_uri(), {"line": 12}) is None
    await editor.until(lambda: any("not trusted" in message for message in editor.messages))
