"""How the server starts: fast, without torch, and with an answer that its later self agrees with."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from dynascope_server import VERSION, capabilities, greeting

ROOT = Path(__file__).parent.parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")])}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "initialize",
    "params": {
        "processId": None,
        "rootUri": None,
        "capabilities": {
            "general": {"positionEncodings": ["utf-8", "utf-16"]},
            "textDocument": {"hover": {}, "codeLens": {}, "inlayHint": {}, "codeAction": {}, "documentLink": {}},
            "workspace": {"workspaceFolders": True},
        },
    },
}


def framed(message):
    data = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def start():
    command = [sys.executable, "-m", "dynascope_server", "--log-level", "error"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT)


def cpu_seconds_to_answer():
    with start() as server:
        server.stdin.write(framed(INITIALIZE))
        server.stdin.flush()
        answer = json.loads(greeting.read_message(server.stdout))
        took = cpu_seconds(server.pid)
        assert answer["id"] == 7
        server.stdin.close()
        server.wait(20)
    return took


def cpu_seconds(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads CPU time from /proc")
def test_initialize_is_answered_with_little_work():
    """CPU time, which other programs do not stretch; `bench/startup.py` has the wall time."""
    assert min(cpu_seconds_to_answer() for _ in range(3)) < 0.4


@pytest.mark.parametrize("client", [INITIALIZE["params"]["capabilities"], {}])
def test_the_libraries_agree_with_the_early_answer(client):
    from dynascope_server.lsp.server import DynascopeServer

    request = {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": client}}
    server = DynascopeServer()
    message = json.loads(json.dumps(request), object_hook=server.protocol.structure_message)
    sent = []
    server.protocol.set_writer(type("Writer", (), {"write": lambda self, data: sent.append(data)})())
    server.protocol.handle_message(message)
    late = json.loads(sent[0].partition(b"\r\n\r\n")[2])["result"]
    assert capabilities.initialize_result(request["params"]) == late


def test_the_server_imports_no_torch():
    program = "import sys, dynascope_server.lsp.serve; print([m for m in sys.modules if m.split('.')[0] == 'torch'])"
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_the_report_is_imported_from_the_engine():
    program = "import sys, dynascope_server.lsp.serve; print(*[m for m in sys.modules if m.startswith('dynascope.')])"
    done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert all(name.startswith(("dynascope.report", "dynascope.dataclass")) for name in done.stdout.split())


@pytest.mark.parametrize("body", [b"nonsense", b"[]", b'{"method": "shutdown", "id": 1, "params": {}}', b'{"id": 1}'])
def test_other_first_messages_are_left_to_the_libraries(body):
    assert greeting.answer(body) is None


def test_a_server_that_is_left_alone_goes():
    with start() as server:
        server.stdin.close()
        assert server.wait(20) == 0


@pytest.mark.parametrize(
    "offered, chosen", [(None, "utf-16"), (["utf-8"], "utf-8"), (["utf-7", "utf-32"], "utf-32"), ([], "utf-16")]
)
def test_position_encoding(offered, chosen):
    client = {} if offered is None else {"general": {"positionEncodings": offered}}
    assert capabilities.choose_encoding(client) == chosen


def test_a_server_that_is_told_to_go_goes():
    with start() as server:
        server.stdin.write(framed(INITIALIZE))
        server.stdin.flush()
        greeting.read_message(server.stdout)
        server.terminate()
        server.wait(10)


def test_dynascope_lsp_is_the_server():
    command = [sys.executable, "-m", "dynascope", "lsp", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=True)
    assert told.stdout.strip() == VERSION
