"""The loop: pygls on the protocol's streams, the first message having been read already."""

from __future__ import annotations

import json
import logging
import os
import signal
from typing import BinaryIO

from pygls.io_ import StdoutWriter

from dynascope_server.lsp.server import DynascopeServer

logger = logging.getLogger(__name__)


class Silence:
    """Takes what pygls answers to a request that was answered before."""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        pass


def serve(first: bytes, answered: bool, stdin: BinaryIO, stdout: BinaryIO) -> None:
    server = DynascopeServer()
    signal.signal(signal.SIGTERM, lambda *_: _leave(server))
    server.protocol.set_writer(Silence() if answered else StdoutWriter(stdout))
    try:
        server.protocol.handle_message(json.loads(first, object_hook=server.protocol.structure_message))
    except Exception:
        logger.exception("the first message cannot be understood")
    try:
        server.start_io(stdin, stdout)
    finally:
        server.runs.kill_all()


def _leave(server: DynascopeServer) -> None:
    """At once: an orderly exit would wait for the thread that reads standard input."""
    server.runs.kill_all()
    os._exit(0)
