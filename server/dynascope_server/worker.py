"""Runs the engine on one file, in the user's interpreter and folder, as a process of its own.

    Worker(launch, listener).run()  ->  Seen(return_code=0, ...)

While it runs the listener gets the program's output in batches and the engine's events; the log file gets every byte.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Protocol

from dynascope_server.events import Ended, Event, ProblemMet, Stage, read_event
from dynascope_server.interpreter import engine_command
from dynascope_server.kept_calls import KeptCalls
from dynascope_server.output import Batch, OutputBuffer
from dynascope_server.process_tree import group_is_alive, signal_each, signal_tree
from dynascope_server.verdict import Seen

logger = logging.getLogger(__name__)

CHUNK = 64 * 1024
EVENT_LIMIT = 4 * 1024 * 1024
"""Bytes of one event line; a longer one is no event of ours."""
FLUSH_SECONDS = 0.1
TERMINATION_SECONDS = 2.0
"""From SIGTERM to SIGKILL."""
DRAIN_SECONDS = 0.5
"""After the end, for output still in the pipes; children that hold them longer are read on in the background."""
TIMEOUT_MARGIN = 3.0
"""The engine ends the program at its time limit; where it cannot, the server does, this much later."""
LAST_WORDS = 4096


@dataclass(frozen=True, slots=True)
class Launch:
    interpreter: str
    file: str
    folder: str
    options: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    report: Path
    timeout: float = 0.0
    test: str = ""
    """One of the file's, to be run by pytest."""
    kept: KeptCalls | None = None
    """Where the calls that it compiles for are kept, if they are."""

    def command(self, events: int) -> list[str]:
        engine = engine_command(self.interpreter, "run", "--json", f"{self.report}", "--events-fd", f"{events}")
        engine.append("--levels")
        if self.kept is not None:
            engine += ["--keep-fd", f"{self.kept.descriptor}"]
        if self.test:
            return [*engine, *self.options, "-m", "pytest", "--", "-q", f"{self.file}::{self.test}"]
        return [*engine, *self.options, self.file, "--", *self.arguments]


class Listener(Protocol):
    def output(self, batch: Batch) -> None: ...

    def event(self, event: Event) -> None: ...


class Worker:
    def __init__(self, launch: Launch, listener: Listener):
        self._launch = launch
        self._listener = listener
        self._buffer = OutputBuffer()
        self._cancelled = asyncio.Event()
        self._process: subprocess.Popen | None = None
        self._readers: set[asyncio.Task] = set()
        self._log: BinaryIO | None = None
        self._last_words = b""
        self._stage: Stage | None = None
        self._ended = False
        self._problems: list = []

    def cancel(self) -> None:
        self._cancelled.set()

    def kill_now(self) -> None:
        """Ends everything at once, without an event loop: the server itself is going."""
        if self._process is not None:
            family = signal_tree(self._process.pid, signal.SIGKILL)
            signal_each(family, signal.SIGKILL)

    async def run(self) -> Seen:
        """Returns when the program is over. Raises `OSError` where the interpreter cannot be started."""
        over = await self._start()
        stop = asyncio.create_task(self._cancelled.wait())
        limit = self._launch.timeout + TIMEOUT_MARGIN if self._launch.timeout else None
        done, _ = await asyncio.wait({over, stop}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        timed_out = self._launch.timeout if not done else None
        if over not in done:
            await self._end_tree(over)
        return_code = await over
        await self._drain()
        return Seen(
            return_code=return_code,
            log=f"{self._launch.log}",
            end_announced=self._ended,
            report_written=self._launch.report.exists(),
            cancelled=self._cancelled.is_set(),
            timed_out=timed_out,
            problems=tuple(self._problems),
            last_stage=self._stage,
            last_words=self._last_words.decode(errors="replace"),
        )

    async def _start(self) -> asyncio.Future[int]:
        loop = asyncio.get_running_loop()
        self._open_log()
        kept = self._launch.kept
        events_read, events_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                self._launch.command(events_write),
                cwd=self._launch.folder,
                env=dict(self._launch.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(events_write, *([kept.descriptor] if kept is not None else [])),
                start_new_session=True,
            )
        except BaseException:
            os.close(events_read)
            raise
        finally:
            os.close(events_write)
            if kept is not None:
                kept.handed_over()
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None and stderr is not None  # Both are pipes.
        self._read(self._copy("stdout", await _reader(stdout)))
        self._read(self._copy("stderr", await _reader(stderr)))
        self._read(self._listen(await _reader(os.fdopen(events_read, "rb"))))
        self._flusher = asyncio.create_task(self._flush_regularly())
        return _exit_of(self._process, loop)

    def _read(self, reading: Coroutine) -> None:
        task = asyncio.create_task(reading)
        self._readers.add(task)
        task.add_done_callback(self._reader_done)

    def _reader_done(self, task: asyncio.Task) -> None:
        self._readers.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("reading from the program failed", exc_info=task.exception())

    async def _copy(self, stream: str, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(CHUNK):
            self._write_log(data)
            self._buffer.add(stream, data)
            if stream == "stderr":
                self._last_words = (self._last_words + data)[-LAST_WORDS:]

    def _open_log(self) -> None:
        try:
            self._log = self._launch.log.open("ab", buffering=0)
        except OSError as error:
            self._lose_log(error)

    def _write_log(self, data: bytes) -> None:
        if self._log is None:
            return
        try:
            self._log.write(data)
        except OSError as error:
            self._lose_log(error)

    def _lose_log(self, error: OSError) -> None:
        self._log = None
        logger.error("cannot write %s: %s", self._launch.log, error)
        note = f"[dynascope] {self._launch.log} cannot be written: {error}; output that does not show is lost\n"
        self._buffer.add("stderr", note.encode())

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while line := await _line(reader):
            event = read_event(line)
            if event is None:
                logger.warning("not an event: %.200r", line)
                continue
            self._note(event)
            self._listener.event(event)

    def _note(self, event: Event) -> None:
        match event:
            case Stage():
                self._stage = event
            case ProblemMet(explanation):
                self._problems.append(explanation)
            case Ended():
                self._ended = True

    async def _flush_regularly(self) -> None:
        """Ends with the readers: children of a program that is over may still be printing."""
        while self._readers:
            await asyncio.sleep(FLUSH_SECONDS)
            self._flush()
        if self._log is not None:
            self._log.close()
            self._log = None

    def _flush(self) -> None:
        for batch in self._buffer.take():
            self._listener.output(batch)

    async def _drain(self) -> None:
        if self._readers:
            await asyncio.wait(set(self._readers), timeout=DRAIN_SECONDS)
        self._flush()

    async def _end_tree(self, over: asyncio.Future[int]) -> None:
        assert self._process is not None  # Only what was started is ended.
        root = self._process.pid
        family = signal_tree(root, signal.SIGTERM)
        deadline = asyncio.get_running_loop().time() + TERMINATION_SECONDS
        while asyncio.get_running_loop().time() < deadline:
            if over.done() and not group_is_alive(root) and not any(_is_alive(process) for process in family):
                return
            await asyncio.sleep(FLUSH_SECONDS / 2)
        family |= signal_tree(root, signal.SIGKILL)
        signal_each(family, signal.SIGKILL)


async def _reader(pipe: IO[bytes]) -> asyncio.StreamReader:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=EVENT_LIMIT)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; a line that is too long reads as a blank one, so that listening goes on."""
    try:
        return await reader.readline()
    except ValueError:
        return b"\n"


def _exit_of(process: subprocess.Popen, loop: asyncio.AbstractEventLoop) -> asyncio.Future[int]:
    """Resolves when the process itself ends, whoever still holds its pipes (asyncio's own wait may wait for those)."""
    over: asyncio.Future[int] = loop.create_future()

    def wait() -> None:
        return_code = process.wait()
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set_result, return_code)

    threading.Thread(target=wait, daemon=True, name=f"wait for {process.pid}").start()
    return over


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(process)


def _is_zombie(process: int) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    try:
        return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
