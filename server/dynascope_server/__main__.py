"""`python -m dynascope_server`: the server on standard input and output, until the client says `exit` or goes away."""

from __future__ import annotations

import argparse
import logging
import os
from typing import BinaryIO

from dynascope_server import VERSION, greeting

LEVELS = ("debug", "info", "warning", "error")


def main(words: list[str] | None = None) -> None:
    options = _parser().parse_args(words)
    _start_logging(options.log_file, options.log_level)
    stdin, stdout = _take_streams()
    first = greeting.read_message(stdin)
    if first is None:
        return
    answered = greeting.answer(first)
    if answered is not None:
        stdout.write(answered)
        stdout.flush()
    # Imported only now: see `greeting`.
    from dynascope_server.lsp.serve import serve

    serve(first, answered is not None, stdin, stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("dynascope lsp", description="The Dynascope language server, over stdio.")
    parser.add_argument("--log-file", help="write the log there instead of to standard error")
    parser.add_argument("--log-level", choices=LEVELS, default="info")
    parser.add_argument("--stdio", action="store_true", help="the only transport; accepted because clients pass it")
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


def _start_logging(path: str | None, level: str) -> None:
    form = "%(asctime)s %(levelname)s %(name)s: %(message)s"
    try:
        logging.basicConfig(filename=path, level=level.upper(), format=form, encoding="utf-8" if path else None)
    except OSError as error:
        logging.basicConfig(level=level.upper(), format=form)
        logging.error("the log goes to standard error, for %s cannot be written: %s", path, error)
    # At `info` pygls logs every message with its whole body.
    if level != "debug":
        logging.getLogger("pygls").setLevel(logging.WARNING)


def _take_streams() -> tuple[BinaryIO, BinaryIO]:
    """The protocol's streams, away from descriptors 0 and 1: a stray `print` lands in the log, not the protocol."""
    stdin, stdout = os.dup(0), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDONLY)
    os.dup2(devnull, 0)
    os.close(devnull)
    os.dup2(2, 1)
    return os.fdopen(stdin, "rb"), os.fdopen(stdout, "wb")


if __name__ == "__main__":
    main()
