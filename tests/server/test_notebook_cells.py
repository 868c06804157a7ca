"""Cells of a notebook: their facts come with the output of the kernel that ran them."""

import json
from dataclasses import dataclass

import pytest
import reports
from dynascope.report.json_format import to_json
from dynascope_server.ide.cells import cell_name, cells_of, is_cell, without_magics
from dynascope_server.ide.syntax_marks import marks
from dynascope_server.lsp import uris
from lsprotocol import types

TEXT = reports.PROGRAM.replace("import torch", "%%dynascope", 1)


@dataclass(frozen=True)
class Cell:
    """Opened and asked about as files are."""

    uri: str
    text: str = TEXT

    def as_uri(self):
        return self.uri

    def open(self, editor):
        item = types.TextDocumentItem(self.uri, "python", 1, self.text)
        editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        editor.opened.append(self)


CELL = Cell("vscode-notebook-cell:/home/me/train.ipynb#W0sZmlsZQ%3D%3D")
OTHER = Cell("vscode-notebook-cell:/home/me/train.ipynb#W1sZmlsZQ%3D%3D", "y = 1\n")


def note(report, **others):
    made = {"cell": CELL.uri, "cells": [CELL.uri, OTHER.uri], "files": {"cell_3.py": CELL.uri}, "kernel": "1-2"}
    return {**made, "file": "cell_3.py", "report": str(report), "texts": {"cell_3.py": TEXT}, **others}


def stored(folder, file="cell_3.py"):
    path = folder / "report.json"
    path.write_text(json.dumps(to_json(reports.report(file))))
    return path


def test_a_cells_path_is_the_notebooks_with_its_name_behind():
    assert uris.to_path(CELL.uri) == "/home/me/train.ipynb#W0sZmlsZQ=="
    assert is_cell("/home/me/train.ipynb#W0sZmlsZQ==") and not is_cell("/home/me/train.ipynb") and not is_cell("/a#b/c.py")


def test_cells_without_a_name_are_found_by_their_text():
    ran = {"cell_3.py": "f()", "/tmp/ipykernel_1/2.py": "def f(): pass\n", "cell_1.py": "x", "lost.py": "gone"}
    present = {"here": "f() + 1", "there": "def f(): pass", "again": "x", "twice": "x"}
    found = cells_of(ran, "cell_3.py", "here", {"cell_1.py": "again", "cell_9.py": "twice"}, present)
    assert found == {"cell_3.py": "here", "/tmp/ipykernel_1/2.py": "there", "cell_1.py": "again"}


def test_cells_are_called_by_their_numbers():
    path = "/home/me/train.ipynb#W0sZmlsZQ=="
    files = "cell_12.py", "/tmp/ipykernel_1/2.py", "/tmp/ipykernel_1/1795961393.py"
    assert [cell_name(file, path).called for file in files] == ["cell 12", "cell 2", "a cell of train.ipynb"]


def test_what_ipython_reads_itself_is_no_python():
    text = "%load_ext dynascope\n!pip list\nimport torch\n@torch.compile\ndef f(x):\n    print(x)\n"
    (mark,) = marks("n.ipynb#1", without_magics(text))
    assert mark.span.line == 6


@pytest.mark.asyncio(loop_scope="session")
async def test_a_cell_that_ran_has_what_files_have(editor, tmp_path):
    await editor.start()
    CELL.open(editor)
    OTHER.open(editor)
    assert await editor.lenses(CELL) == []
    editor.client.protocol.notify("dynascope/cellReport", note(stored(tmp_path)))
    await editor.until(lambda: "data-dependent-branch" in [found.code for found in editor.diagnostics(CELL)])
    titles = [lens.command.title for lens in await editor.lenses(CELL)]
    assert any("1 graph" in title for title in titles) and not any("compile and run" in title for title in titles)
    assert "f32" in await editor.hover(CELL, reports.SOFTMAX_LINE)
    assert await editor.command("dynascope.showKernel", CELL.uri, {"function": "forward"}) is not None
    summary = await editor.command("dynascope.showSummary", CELL.uri)
    page = await editor.client.protocol.send_request_async("dynascope/document", {"uri": summary["uri"]})
    assert page.text.startswith("# Cell 3\n") and "([cell 3, line 10](" in page.text
    assert "Still running" not in page.text and "[train.ipynb" not in page.text
    where = types.Range(types.Position(reports.BRANCH_LINE - 1, 0), types.Position(reports.BRANCH_LINE - 1, 0))
    actions = [action["title"] for action in await editor.actions(CELL, where)]
    assert "Explain data-dependent-branch" in actions
    assert not any("ind fixes" in title or "compile and run" in title for title in actions)
    editor.edit(CELL, TEXT.replace("torch.softmax(x, -1)", "torch.softmax(x, 0)"))
    titles = [lens.command.title for lens in await editor.lenses(CELL)]
    assert "stale: run again" in titles


@pytest.mark.asyncio(loop_scope="session")
async def test_facts_of_an_earlier_cell_are_shown_there(editor, tmp_path):
    """The function was defined in a cell without the magic; the one that called it ran under it."""
    await editor.start()
    defined = Cell(OTHER.uri, reports.PROGRAM)
    defined.open(editor)
    Cell(CELL.uri, "%%dynascope\nforward(x, 3)\n").open(editor)
    kernels = "/tmp/ipykernel_7/123.py"
    texts = {"cell_3.py": "%%dynascope\nforward(x, 3)\n", kernels: reports.PROGRAM}
    editor.client.protocol.notify("dynascope/cellReport", note(stored(tmp_path, kernels), texts=texts))
    await editor.until(lambda: "data-dependent-branch" in [found.code for found in editor.diagnostics(defined)])
    assert any("1 graph" in lens.command.title for lens in await editor.lenses(defined))


@pytest.mark.asyncio(loop_scope="session")
async def test_a_kernel_of_a_cell_leads_into_the_cell(editor, tmp_path):
    """Its text was written with the kernel's name for the cell."""
    await editor.start()
    CELL.open(editor)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(to_json(reports.report("cell_3.py"))).replace("model.py:9", "cell_3.py:9"))
    editor.client.protocol.notify("dynascope/cellReport", note(path))
    await editor.until(lambda: editor.diagnostics(CELL))
    kernel = (await editor.command("dynascope.showKernel", CELL.uri, {"function": "forward"}))["uri"]
    text = (await editor.request("dynascope/document", {"uri": kernel}))["text"]
    assert "// cell 3, line 9\n" in text and "cell_3.py" not in text
    found = await editor.client.text_document_document_link_async(types.DocumentLinkParams(types.TextDocumentIdentifier(kernel)))
    (link,) = found
    assert link.target == f"{CELL.uri}#L9" or link.target.endswith("#L9"), link.target
    row = text.splitlines()[link.range.start.line]
    assert row[link.range.start.character : link.range.end.character] == "cell 3, line 9"
    (beside,) = (await editor.request("dynascope/links", {"uri": kernel}))["links"]
    assert (beside["uri"], beside["place"]) == (CELL.uri, 8)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("change", [{"report": "/nowhere/report.json"}, {"texts": None}, {"cell": "untitled:1"}, {"cells": 3}])
async def test_what_is_no_report_of_a_cell_changes_nothing(editor, tmp_path, change):
    await editor.start()
    CELL.open(editor)
    editor.client.protocol.notify("dynascope/cellReport", {**note(stored(tmp_path)), **change})
    assert await editor.lenses(CELL) == [] and editor.diagnostics(CELL) == []
    assert await editor.command("dynascope.debugInformation")
    assert await editor.lenses(CELL) == []
