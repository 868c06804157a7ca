"""Workers that compile Triton kernels side by side, in processes that a foreman forks.

    begin()                                   the foreman gets ready while this process captures and fuses
    compile_all(missing, target, folder)      when it returns, the workers have left in the cache what they could

Triton's front end holds Python's lock for half of its time, and the first kernel of a process costs as much as ten others: Triton is
imported, its key is a hash of all its libraries, LLVM starts. The foreman, forked early, does that once, beside this process; it has one
thread, and what it forks is ready. It never touches CUDA (the target is named, not asked of the driver), holds no file of the program's,
runs nobody's exit handlers, and ends with this process or when it had nothing to do for a while. It is no child of this process by then:
programs that wait for all of their children do not meet it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import itertools
import json
import os
import select
import signal
import socket
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynascope.codegen.triton.kernel import Parameter, TritonKernel
from dynascope.native.forking import forgotten_in_children, safe_in_children, without_waiting
from dynascope.runtime.cubins import Target, compile_here, compile_kernel

_PATIENCE = 120
"""Seconds for the kernels of a graph."""
_PREPARATION = 30
"""Seconds until a foreman is ready. One that was forked while another thread held a lock that it needs never is."""
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
_IDLE = 20
"""Seconds without work after which a foreman ends: memory that this process changes is no longer shared with it."""

_FIRST = TritonKernel(
    name="first_kernel",
    text="""import triton
import triton.language as tl


@triton.jit
def first_kernel(x, y):
    place = tl.program_id(0) * 128 + tl.arange(0, 128)
    value = tl.load(x + place)
    tl.store(y + place, tl.exp(value) + tl.sum(value, 0))
""",
    parameters=(Parameter("x", "*fp32", "x"), Parameter("y", "*fp32", "y")),
    grid=(1, 1, 1),
    warps=4,
)


class _Foreman:
    """A socket: there go requests, lines of JSON; back come the numbers of those that are done. 0 is done when it is ready."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.sending, self.reading = threading.Lock(), threading.Lock()
        self.done: set[int] = set()
        self.unread = b""

    def send(self, line: bytes) -> None:
        """Raises OSError where it has ended, without the signal that a program may die of. An empty line keeps it from ending."""
        with self.sending:
            left = line + b"\n"
            while left:
                left = left[self.connection.send(left, _NO_SIGNAL) :]

    def is_there(self) -> bool:
        try:
            self.send(b"")
        except OSError:
            return False
        return True

    def wait(self, number: int, seconds: float) -> None:
        """Until the request is done. Raises OSError where nobody is left to answer, or not in time."""
        deadline = time.monotonic() + seconds
        with self.reading:  # whoever reads notes the answers to others
            while number not in self.done:
                if not select.select([self.connection], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise TimeoutError
                found = self.connection.recv(4096)
                if not found:
                    raise BrokenPipeError
                *lines, self.unread = (self.unread + found).split(b"\n")
                self.done.update(map(int, lines))


class _State:
    def __init__(self) -> None:
        self.lock = safe_in_children(threading.Lock())
        self.foreman: _Foreman | None = None
        self.numbers = itertools.count(1)

    def forget(self) -> None:
        """In a child: nothing of it waits for the parent's foreman, whose end must be seen when the parent ends."""
        if self.foreman is not None:
            self.foreman.connection.close()
            self.foreman = None


_state = _State()
forgotten_in_children(_state.forget)


def begin(target: Target) -> None:
    """Have a foreman get ready for kernels of `target`, if none is there."""
    _foreman(target)


def compile_all(missing: dict[str, TritonKernel], target: Target, folder: Path) -> None:
    """Compile into the cache. Nothing is reported: who reads the cache afterwards sees what is there."""
    for _ in range(2):
        foreman = _foreman(target)
        if foreman is None:
            return
        number = next(_state.numbers)
        jobs = sorted(missing.items(), key=lambda job: -len(job[1].text))
        request = {"number": number, "capability": target.capability, "folder": str(folder), "jobs": list(map(_described, jobs))}
        try:
            foreman.wait(0, _PREPARATION)
            foreman.send(json.dumps(request).encode())
            foreman.wait(number, _PATIENCE)
            return
        except TimeoutError:
            _dismiss(foreman)
            return
        except OSError:
            _dismiss(foreman)  # it may have ended for having nothing to do


def _described(job: tuple[str, TritonKernel]) -> dict[str, Any]:
    """What machine code depends on."""
    key, kernel = job
    parameters = [(each.name, each.kind) for each in kernel.parameters]
    how = {"warps": kernel.warps, "stages": kernel.stages, "divisors": kernel.divisors, "asserts": kernel.asserts}
    return {"key": key, "name": kernel.name, "text": kernel.text, "parameters": parameters, **how}


def _kernel(job: dict[str, Any]) -> TritonKernel:
    return TritonKernel(
        name=job["name"],
        text=job["text"],
        parameters=tuple(Parameter(name, kind, name) for name, kind in job["parameters"]),
        grid=(1, 1, 1),
        warps=job["warps"],
        stages=job["stages"],
        divisors=tuple((name, divisor) for name, divisor in job["divisors"]),
        asserts=job["asserts"],
    )


def _foreman(target: Target) -> _Foreman | None:
    """The one that is there, or a new one; None where the system has no forks, or refuses one, and without Triton."""
    with _state.lock:
        if _state.foreman is not None and not _state.foreman.is_there():
            _state.foreman = None
        if _state.foreman is None:
            _state.foreman = _start(target)
        return _state.foreman


def _dismiss(foreman: _Foreman) -> None:
    """Not closed: another thread may be waiting at it. With the last of them the socket goes, and with it the foreman."""
    with _state.lock:
        if _state.foreman is foreman:
            _state.foreman = None


def _start(target: Target) -> _Foreman | None:
    """Forked twice, so that it is nobody's child."""
    if not hasattr(os, "fork") or importlib.util.find_spec("triton") is None:
        return None
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            with without_waiting():
                between = _forked(lambda: _forked(lambda: _lead(theirs, target)))
        except (OSError, RuntimeError):  # the system's refusal, or a library's (filelock, as Inductor loads it)
            ours.close()
            return None
    with contextlib.suppress(ChildProcessError):  # a handler of the program's waits for every child
        os.waitpid(between, 0)
    return _Foreman(ours)


def _forked(work: Callable[[], Any]) -> int:
    """A process that does the work and ends: no exit handlers, no flushing of the parent's buffers, no exception that goes on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        process = os.fork()
    if process:
        return process
    try:
        work()
    finally:
        os._exit(0)


def _lead(connection: socket.socket, target: Target) -> None:
    """The foreman's life. Alarms end a process, whatever it waits for."""
    gc.disable()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.alarm(_PREPARATION)
    _close_all_but(connection.fileno())
    compile_kernel(_FIRST, target)
    connection.sendall(b"0\n")
    unread = b""
    while True:
        signal.alarm(_IDLE)
        found = connection.recv(1 << 16)
        if not found:
            return
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        *lines, unread = (unread + found).split(b"\n")
        for line in filter(None, lines):
            _forked(lambda line=line: _have_compiled(json.loads(line), connection))


def _close_all_but(kept: int) -> None:
    """Who reads what the program writes into a pipe reads its end when the program has closed it."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, kept)
    os.closerange(kept + 1, os.sysconf("SC_OPEN_MAX"))


def _have_compiled(request: dict[str, Any], connection: socket.socket) -> None:
    """One request, by as many workers as there are processors."""
    signal.alarm(_PATIENCE)
    jobs = request["jobs"]
    count = min(len(jobs), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    target, folder = Target(request["capability"]), Path(request["folder"])
    for worker in [_forked(lambda first=first: _compile(jobs[first::count], target, folder)) for first in range(count)]:
        os.waitpid(worker, 0)
    connection.sendall(b"%d\n" % request["number"])


def _compile(jobs: list[dict[str, Any]], target: Target, folder: Path) -> None:
    signal.alarm(_PATIENCE)
    for job in jobs:
        with contextlib.suppress(Exception):  # the reader of the cache compiles it again, and says why it fails
            compile_here(job["key"], _kernel(job), target, folder)
