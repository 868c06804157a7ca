"""The server that the tests share, and the editor of each test."""

import pytest
import pytest_asyncio
import reports
from editor_client import Connection, Editor


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def shared(tmp_path_factory):
    connection = Connection(tmp_path_factory.mktemp("shared"))
    await connection.open("visual-studio-code", {})
    yield connection
    await connection.close()


@pytest_asyncio.fixture(loop_scope="session")
async def editor(shared, tmp_path):
    """Not yet started: a test says with which options."""
    editor = Editor(shared, tmp_path)
    yield editor
    await editor.leave()


@pytest.fixture
def report(tmp_path):
    return reports.report(str(tmp_path / "model.py"))
