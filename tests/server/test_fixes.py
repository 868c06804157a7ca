"""Proved fixes in an editor: looked for when asked, offered for the text that they were proved for, never without trust."""

from dataclasses import replace

import pytest
from dynascope.report.span import Span
from dynascope_server.ide.fixes import Fix, Fixes, TextEdit, line_edits, offers_at, told
from lsprotocol import types

pytestmark = pytest.mark.asyncio(loop_scope="session")
TEXT = "é = 1\nx = y.item()\n"
EDIT = TextEdit(Span("m.py", 2, 4, 2, 12), "y")
FOUND = Fixes(
    (
        Fix(
            "m.py",
            "Leave out .item()",
            ("data-dependent-value",),
            (Span("m.py", 2, 4, 2, 12),),
            (EDIT,),
            "no break instead of 1",
        ),
    ),
    {"m.py": TEXT},
    {"m.py": "é = 1\nx = y\n"},
    "no break instead of 1",
)


async def test_offers_are_for_the_text_that_was_proved():
    one, everything = offers_at(FOUND, "m.py", lambda file: TEXT, 2, 2)
    assert one.title == "Leave out .item() (proved: no break instead of 1)" and one.codes == ("data-dependent-value",)
    assert everything.edits == {"m.py": (TextEdit(Span("m.py", 2, 0, 3, 0), "x = y\n"),)}
    assert [offer.codes for offer in offers_at(FOUND, "m.py", lambda file: TEXT, 1, 1)] == [()]
    assert not list(offers_at(FOUND, "m.py", lambda file: TEXT + "\n", 2, 2))


async def test_edits_by_lines():
    before, after = "a\nb\nc\n", "a\nB\nc\nd\n"
    assert [(e.span.line, e.span.end_line, e.text) for e in line_edits("m.py", before, after)] == [
        (2, 3, "B\n"),
        (4, 4, "d\n"),
    ]


async def test_what_is_told():
    assert "no break instead of 1" in told(FOUND)
    assert told(Fixes(left=2)) == "No fix was proved." and told(Fixes()) == "There is no break to fix."
    assert "not every" not in told(FOUND) and "before every edit was tried" in told(replace(FOUND, is_cut=True))
    assert told(Fixes(left=2, is_cut=True)).startswith("No fix was proved. The time was over")
    assert "not alike" in told(Fixes(trouble="two runs are not alike"))


PROGRAM = "import torch\n\n\ndef f(x):\n    print('é')\n    return x\n"


async def test_fixes_are_found_and_offered(editor):
    await editor.start()
    path = editor.program(PROGRAM)
    editor.open(path)
    answer = await editor.command("dynascope.findFixes", path.as_uri())
    assert answer["fixes"] == 1 and "no break instead of 2" in answer["message"]
    told = [report.message for reports in editor.client.progress_reports.values() for report in reports if hasattr(report, "message")]
    assert any(words and "1 of at most 1" in words and "Leave it out" in words for words in told)
    where = types.Range(types.Position(4, 4), types.Position(4, 4))
    await editor.run(path)
    actions = await editor.actions(path, where)
    (one,) = [action for action in actions if action["title"].startswith("Leave it out")]
    assert one["kind"] == "quickfix" and list(one["edit"]["changes"].values()) == [
        [{"range": {"start": {"line": 4, "character": 0}, "end": {"line": 5, "character": 0}}, "newText": ""}]
    ]
    (whole,) = await editor.actions(path, where, only=[types.CodeActionKind.SourceFixAll])
    assert "no break instead of 2" in whole["title"]
    editor.edit(path, PROGRAM + "\n")
    assert not await editor.actions(path, where, only=[types.CodeActionKind.SourceFixAll])


async def test_no_fixes_without_trust(editor):
    await editor.start(trusted=False)
    path = editor.program(PROGRAM)
    editor.open(path)
    assert await editor.command("dynascope.findFixes", path.as_uri()) is None
    await editor.until(lambda: any("not trusted" in message for message in editor.messages))


async def test_an_engine_that_cannot_look_for_fixes(editor):
    await editor.start(environment={"FAKE_ENGINE": "unusable"})
    path = editor.program(PROGRAM)
    editor.open(path)
    assert await editor.command("dynascope.findFixes", path.as_uri()) is None
    await editor.until(lambda: any("no torch here" in message for message in editor.messages))
