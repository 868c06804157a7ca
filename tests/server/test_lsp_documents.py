"""Kernels, graphs, guards and pages as documents: virtual where the client understands that, real files elsewhere."""

from pathlib import Path

import pytest
import reports
from dynascope_server.ide.addresses import owner_of
from dynascope_server.lsp import uris
from lsprotocol import types

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def shown(editor):
    return await editor.until(lambda: editor.client.shown_documents and editor.client.shown_documents[-1])


async def test_the_kernel_opens_as_a_virtual_document(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    result = await editor.command("dynascope.showKernel", path.as_uri(), {"function": "forward"})
    assert result["uri"] == f"dynascope:/{owner_of(str(path))}/k0/softmax.cpp"
    assert (await shown(editor)).uri == result["uri"]
    document = await editor.request("dynascope/document", {"uri": result["uri"]})
    assert document == {"text": reports.KERNEL, "languageId": "cpp"}


async def test_a_line_opens_its_kernel_at_its_part(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    await editor.command("dynascope.showKernel", path.as_uri(), {"line": reports.SOFTMAX_LINE - 1})
    assert (await shown(editor)).selection.start.line == 2


async def test_links_lead_back_to_the_source(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    uri = (await editor.command("dynascope.showGraph", path.as_uri(), {"stage": "torch"}))["uri"]
    params = types.DocumentLinkParams(types.TextDocumentIdentifier(uri))
    (link,) = await editor.client.text_document_document_link_async(params)
    assert link.target == f"{path.as_uri()}#L9"
    text = (await editor.request("dynascope/document", {"uri": uri}))["text"].splitlines()
    place = link.range
    assert text[place.start.line][place.start.character : place.end.character] == "model.py:9"


async def test_other_clients_get_real_files(editor):
    await editor.start_own(capabilities="neovim", client={})
    path = editor.program()
    await editor.run_quietly(path)
    uri = (await editor.command("dynascope.showKernel", path.as_uri()))["uri"]
    file = Path(uris.to_path(uri))
    assert file.read_text() == reports.KERNEL
    assert not file.stat().st_mode & 0o222
    params = types.DocumentLinkParams(types.TextDocumentIdentifier(uri))
    (link,) = await editor.client.text_document_document_link_async(params)
    assert link.target == f"{path.as_uri()}#L9"
    branch = {d.code: d for d in editor.diagnostics(path)}["data-dependent-branch"]
    assert Path(uris.to_path(branch.code_description.href)).is_file()


@pytest.mark.parametrize("stage, expected", [("torch", "softmax"), ("guards", "x")])
async def test_stages(editor, stage, expected):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    uri = (await editor.command("dynascope.showGraph", path.as_uri(), {"function": "forward", "stage": stage}))["uri"]
    assert expected in (await editor.request("dynascope/document", {"uri": uri}))["text"]


async def test_a_stage_that_is_not_there_says_which_are(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    assert await editor.command("dynascope.showGraph", path.as_uri(), {"stage": "loops-forward"}) is None
    await editor.until(lambda: any("it has `torch`" in message for message in editor.messages))


async def test_before_the_first_run_there_is_a_message(editor):
    await editor.start()
    path = editor.program()
    assert await editor.command("dynascope.showKernel", path.as_uri()) is None
    await editor.until(lambda: any("Compile and run it first" in message for message in editor.messages))


async def test_reasons_have_pages(editor):
    pages = editor.folder / "pages"
    pages.mkdir()
    (pages / "data-dependent-branch.md").write_text("# The page\n")
    await editor.start(pagesPath=str(pages))
    path = editor.program()
    await editor.run(path)
    for code, expected in (("data-dependent-branch", "# The page"), ("generator", "`helper` is a generator.")):
        uri = (await editor.command("dynascope.showReason", code))["uri"]
        document = await editor.request("dynascope/document", {"uri": uri})
        assert expected in document["text"] and document["languageId"] == "markdown"


async def test_a_document_of_another_run_says_so(editor):
    await editor.start()
    document = await editor.request("dynascope/document", {"uri": "dynascope:/model.py-12345678/k9/gone.cpp"})
    assert "earlier run" in document["text"]


@pytest.mark.parametrize("uri", ["dynascope:/../secret", "http://example.com", "file:///etc/passwd", 7, None])
async def test_other_addresses_are_refused(editor, uri):
    await editor.start()
    with pytest.raises(Exception, match="no document"):
        await editor.request("dynascope/document", {"uri": uri})


async def test_the_summary_names_everything(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    uri = (await editor.command("dynascope.showSummary", path.as_uri()))["uri"]
    text = (await editor.request("dynascope/document", {"uri": uri}))["text"]
    for expected in (
        "torch 2.13.0",
        "# model.py\n",
        f"[model.py:8]({path.as_uri()}#L8)",
        "Exit code 0 after 1.5 s",
        "`forward`",
        "data-dependent-branch",
        "`k0` softmax",
    ):
        assert expected in text


async def test_open_documents_are_said_to_have_changed(editor):
    await editor.start()
    path = editor.program()
    await editor.run(path)
    uri = (await editor.command("dynascope.showKernel", path.as_uri()))["uri"]
    await editor.run(path)
    await editor.until(lambda: any(uri in note.uris for note in editor.connection.changed_documents))


async def test_a_document_that_was_asked_for_before_results_are_there_again(editor):
    """As after a reload: tabs open first, then the source does."""
    await editor.start_own()
    path = editor.program()
    editor.open(path)
    await editor.run(path)
    uri = (await editor.command("dynascope.showSummary", path.as_uri()))["uri"]
    await editor.connection.close()
    await editor.start_own()
    assert "of an earlier run" in (await editor.request("dynascope/document", {"uri": uri}))["text"]
    editor.open(path)
    await editor.until(lambda: any(uri in note.uris for note in editor.connection.changed_documents))
    assert "# model.py" in (await editor.request("dynascope/document", {"uri": uri}))["text"]
