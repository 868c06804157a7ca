"""Answers `initialize` before the protocol's libraries are loaded.

Importing lsprotocol takes most of a second; the answer needs none of it. The client goes on while the server loads, and
what it sends meanwhile waits in the pipe. The request is then given to pygls as well, whose own answer is dropped.
"""

from __future__ import annotations

import json
from typing import Any, BinaryIO

from dynascope_server.capabilities import initialize_result


def read_message(stream: BinaryIO) -> bytes | None:
    """The body of the next message; None at the end of the stream."""
    length = 0
    while header := stream.readline():
        name, _, value = header.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = int(value)
        if not header.strip() and length:
            body = stream.read(length)
            return body if len(body) == length else None
    return None


def answer(body: bytes) -> bytes | None:
    """The whole answer, headers included; None where this is no `initialize` that can be answered."""
    try:
        message = json.loads(body)
        if message["method"] != "initialize" or "id" not in message:
            return None
        result = initialize_result(message["params"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return _framed({"jsonrpc": "2.0", "id": message["id"], "result": result})


def _framed(message: dict[str, Any]) -> bytes:
    data = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)
