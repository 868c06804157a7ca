"""Start-up: `import dynascope` after `import torch`, the server from process start to `initialize` answered, and a training step.

The program makes an optimizer and steps once; it compiles nothing: `python FILE` and `dynascope run FILE`, in turn.

python bench/startup.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from results import write_section

ROUNDS = 9
IMPORT = (
    "import torch, time; s = time.perf_counter(); import dynascope; dynascope.compile; print(time.perf_counter() - s)"
)
TRAINING = """import torch
layer = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(layer.parameters())
layer(torch.ones(2, 8)).sum().backward()
optimizer.step()
compiled = torch.compile
"""


def import_seconds() -> float:
    return float(subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=True).stdout)


def server_seconds() -> float:
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"processId": None, "rootUri": None, "capabilities": {}},
    }
    body = json.dumps(request).encode()
    start = time.perf_counter()
    server = subprocess.Popen([sys.executable, "-m", "dynascope_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    server.stdin.flush()
    server.stdout.readline()
    seconds = time.perf_counter() - start
    server.kill()
    server.wait()
    return seconds


def program_seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def training_rows() -> list[list[str]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "train.py"
        file.write_text(TRAINING)
        commands = [[sys.executable, str(file)], [sys.executable, "-m", "dynascope", "run", str(file)]]
        rounds = [[program_seconds(command) * 1e3 for command in commands] for _ in range(ROUNDS + 1)][1:]
    ways = ("python FILE", "dynascope run FILE")
    return [
        row(f"a training step, `{way}`", values, "")
        for way, values in zip(ways, zip(*rounds, strict=True), strict=True)
    ]


def row(name: str, values: Sequence[float], limit: str) -> list[str]:
    ordered = sorted(values)
    return [name, f"{ordered[len(ordered) // 2]:.0f}", f"{ordered[0]:.0f} to {ordered[-1]:.0f}", limit]


def main() -> None:
    rows = []
    for name, measure, limit in (
        ("import dynascope", import_seconds, 50),
        ("server to initialize", server_seconds, 500),
    ):
        rows.append(row(name, [measure() * 1e3 for _ in range(ROUNDS)], str(limit)))
    rows += training_rows()
    write_section("Start-up", "python bench/startup.py", ["what", "median, ms", "range, ms", "limit, ms"], rows)


if __name__ == "__main__":
    main()
