"""A client that is connected to a real server over stdio, with a stand-in engine in a real subprocess."""

import asyncio
import os
import sys
from pathlib import Path

import reports
from lsprotocol import types
from pytest_lsp import LanguageClient, client_capabilities
from pytest_lsp.client import make_test_lsp_client

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FAKE_ENGINE = HERE / "fake_engine"
PATIENCE = 60


SETTINGS = {
    "interpreter": sys.executable,
    "enginePath": str(FAKE_ENGINE),
    "client": {"virtualDocuments": True, "output": True, "runState": True, "tree": False},
}
DEFAULTS = dict.fromkeys(("environment", "pagesPath", "trusted", "run", "lenses", "hints", "live", "maximumRuns")) | SETTINGS


class Connection:
    """A client and the server it has started, with the notes that came from there."""

    def __init__(self, folder: Path):
        self.client: LanguageClient = make_test_lsp_client()
        self.folder = folder
        self.states = []
        self.outputs = []
        self.changed_documents = []
        self.refreshes = []
        self.tree_changes = []
        feature = self.client.feature
        feature("dynascope/runState")(lambda note: self.states.append(note))
        feature("dynascope/output")(lambda note: self.outputs.append(note))
        feature("dynascope/documentsChanged")(lambda note: self.changed_documents.append(note))
        feature("dynascope/treeChanged")(lambda note: self.tree_changes.append(note))
        feature(types.WORKSPACE_CODE_LENS_REFRESH)(lambda params: self.refreshes.append(params))
        feature(types.WORKSPACE_INLAY_HINT_REFRESH)(lambda params: None)

    async def open(self, capabilities, options):
        command = [sys.executable, "-m", "dynascope_server", "--log-level", "warning"]
        path = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")])
        await self.client.start_io(*command, env={**os.environ, "PYTHONPATH": path})
        await self.client.initialize_session(
            types.InitializeParams(
                capabilities=client_capabilities(capabilities),
                workspace_folders=[types.WorkspaceFolder(self.folder.as_uri(), "folder")],
                initialization_options={**SETTINGS, "storagePath": str(self.folder / "storage"), **options},
            )
        )

    def forget(self):
        """What was received for an earlier test."""
        client = self.client
        received = (client.messages, client.diagnostics, client.shown_documents, client.progress_reports)
        for notes in (*received, self.states, self.outputs, self.changed_documents, self.refreshes, self.tree_changes):
            notes.clear()

    async def close(self):
        if not self.client.stopped:
            await self.client.shutdown_session()
            await self.client.stop()


class Editor:
    """What a person does in an editor, and what they then see."""

    def __init__(self, shared: Connection, folder: Path):
        self.connection = self.shared = shared
        self.folder = folder
        self.opened = []

    @property
    def client(self) -> LanguageClient:
        return self.connection.client

    async def start(self, **options):
        """With the server that the tests share, set to `options`."""
        self.client.protocol.notify("dynascope/configure", {**DEFAULTS, **options})

    async def start_own(self, capabilities="visual-studio-code", **options):
        """With a server of this test's own, its workspace the test's folder."""
        self.connection = Connection(self.folder)
        await self.connection.open(capabilities, options)

    async def leave(self):
        """The shared server is as new for the next test; an own one goes."""
        if self.connection is not self.shared:
            await self.connection.close()
            return
        for path in list(self.opened):
            self.close(path)
        await self.command("dynascope.cancel")
        while "runs: none" not in (await self.command("dynascope.debugInformation"))["text"]:
            await asyncio.sleep(0.02)
        await self.command("dynascope.clear")
        self.connection.forget()

    def program(self, text=reports.PROGRAM, name="model.py", made=None):
        """A program on disk, its report for the stand-in beside it."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        reports.lay_beside(path, made or reports.report(str(path)))
        return path

    def open(self, path):
        item = types.TextDocumentItem(path.as_uri(), "python", 1, path.read_text(encoding="utf-8"))
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        self.opened.append(path)

    def close(self, path):
        identifier = types.TextDocumentIdentifier(path.as_uri())
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))
        self.opened.remove(path)

    def edit(self, path, text, version=2):
        identifier = types.VersionedTextDocumentIdentifier(version, path.as_uri())
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))

    async def command(self, name, *arguments):
        return plain(
            await self.client.workspace_execute_command_async(types.ExecuteCommandParams(name, list(arguments)))
        )

    async def run(self, path, *arguments):
        """Runs to the end; returns the last state."""
        handle = await self.command("dynascope.compileAndRun", path.as_uri(), *arguments)
        assert handle is not None, self.messages
        return await self.ending(handle["run"])

    async def run_quietly(self, path):
        """For a client that asked for no notes: waits for the diagnostics."""
        assert await self.command("dynascope.compileAndRun", path.as_uri()) is not None, self.messages
        await self.until(lambda: self.diagnostics(path))

    async def ending(self, run):
        return await self.until(lambda: next((s for s in self.seen_states() if s["run"] == run and over(s)), None))

    async def until(self, seen):
        """Waits for something to be seen."""
        async with asyncio.timeout(PATIENCE):
            while not (value := seen()):
                await asyncio.sleep(0.02)
        return value

    def seen_states(self):
        return [plain(note) for note in self.connection.states]

    def printed(self, stream="stdout"):
        return "".join(note["text"] for note in map(plain, self.connection.outputs) if note["stream"] == stream)

    @property
    def messages(self):
        return [message.message for message in self.client.messages]

    def diagnostics(self, path):
        return self.client.diagnostics.get(path.as_uri(), [])

    async def lenses(self, path):
        params = types.CodeLensParams(types.TextDocumentIdentifier(path.as_uri()))
        return await self.client.text_document_code_lens_async(params) or []

    async def actions(self, path, where, diagnostics=(), only=None):
        """As plain JSON: lsprotocol's clients take an action that has a command for that command."""
        context = types.CodeActionContext(list(diagnostics), only=only)
        params = types.CodeActionParams(types.TextDocumentIdentifier(path.as_uri()), where, context)
        protocol = self.client.protocol
        future = protocol.send_request(types.TEXT_DOCUMENT_CODE_ACTION, params)
        protocol._result_types.clear()
        return plain(await asyncio.wrap_future(future))

    async def hover(self, path, line, column=4):
        where = types.TextDocumentIdentifier(path.as_uri())
        found = await self.client.text_document_hover_async(types.HoverParams(where, types.Position(line - 1, column)))
        return found.contents.value if found else None

    async def request(self, method, params):
        return plain(await self.client.protocol.send_request_async(method, params))


def is_alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def over(state):
    return state["state"] in ("exited", "errored")


def plain(value):
    """pygls' clients make named tuples of objects outside LSP."""
    if hasattr(value, "_asdict"):
        return {key: plain(item) for key, item in value._asdict().items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value
