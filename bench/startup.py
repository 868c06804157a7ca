"""Start-up: `import dynascope` after `import torch`, and the server from process start to `initialize` answered.

python bench/startup.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from results import write_section

ROUNDS = 9
IMPORT = (
    "import torch, time; s = time.perf_counter(); import dynascope; dynascope.compile; print(time.perf_counter() - s)"
)


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


def main() -> None:
    rows = []
    for name, measure, limit in (
        ("import dynascope", import_seconds, 50),
        ("server to initialize", server_seconds, 500),
    ):
        values = sorted(measure() * 1e3 for _ in range(ROUNDS))
        rows.append([name, f"{values[ROUNDS // 2]:.0f}", f"{values[0]:.0f} to {values[-1]:.0f}", str(limit)])
    write_section("Start-up", "python bench/startup.py", ["what", "median, ms", "range, ms", "limit, ms"], rows)


if __name__ == "__main__":
    main()
