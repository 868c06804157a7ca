"""In the program that runs: each call for which a function is compiled is kept, in a fork of the process.

The fork has the call's own arguments, modules and globals, and nothing that the program does later reaches it. It gives the
contents of large tensors back at once, closes every file, and waits for questions on a socket of its own, one end of which goes
through `descriptor` to who asked for this. When that end is closed, it ends.
"""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import signal
import socket
import sys
import types
from collections import defaultdict
from dataclasses import replace
from typing import Any

import torch

from dynascope.report.syntax import unsaid

KEPT_FOR_A_FUNCTION = 8
"""As many as it is compiled before a limit says that it is too often."""
FUNCTIONS_KEPT = 16
KEPT = 48
LARGE = 64 * 1024
"""Bytes from which on a tensor's contents are given back."""
MADV_DONTNEED = 4
MOST_FILES = 1 << 20


class Keeper:
    """`keep(state, values)` is called with the region that was compiled and the frame's values at its start."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._process = os.getpid()
        self._kept: dict[tuple[str, str], int] = {}

    def keep(self, state: Any, values: Any) -> None:
        code = state.region.code
        name = state.region.qualified_name, f"{code.co_filename}:{code.co_firstlineno}"
        count = self._kept.get(name, 0)
        is_full = len(self._kept) >= FUNCTIONS_KEPT or sum(self._kept.values()) >= KEPT or count >= KEPT_FOR_A_FUNCTION
        if os.getpid() != self._process or is_full:
            return
        self._kept[name] = count + 1
        ours, theirs = socket.socketpair()
        greeting = {"function": name[0], "file": code.co_filename, "line": code.co_firstlineno, "number": count}
        try:
            # In a fork nothing can be asked of a GPU, so no kernels are written there; types and shapes need none.
            writes_kernels = not torch.cuda.is_initialized()
            if self._forked():
                _serve(state if writes_kernels else _without_kernels(state), values, ours)
            socket.send_fds(self._socket, [json.dumps(greeting).encode() + b"\n"], [theirs.fileno()])
        except OSError:
            # No memory for a fork, or nobody listens any more: the program goes on without.
            self._kept.clear()
            self._process = 0
        finally:
            ours.close()
            theirs.close()

    def _forked(self) -> bool:
        """True in the fork. It is nobody's child: a program that waits for its children does not meet it."""
        with unsaid():  # that other threads run: the fork uses nothing of theirs
            between = os.fork()
            if between == 0:
                try:
                    if os.fork() == 0:
                        return True
                except OSError:
                    # The program has enough with one of it.
                    pass
                leave()
        os.waitpid(between, 0)
        return False


def _without_kernels(state: Any) -> Any:
    return replace(state, options=replace(state.options, backend="eager"))


def leave() -> None:
    """Never returns; past the program's `os._exit` and whatever else would run at an end."""
    os.kill(os.getpid(), signal.SIGKILL)


def _serve(state: Any, values: Any, channel: socket.socket) -> None:
    """Never returns."""
    try:
        _settle(channel)
        from dynascope.live.kept import Call, serve

        # Looked for once: it takes as long as the program is large.
        functions: dict[str, list[types.FunctionType]] = defaultdict(list)
        for each in gc.get_objects():
            if type(each) is types.FunctionType:
                functions[each.__code__.co_filename].append(each)
        gc.freeze()
        serve(Call(state, values, functions), channel)
    finally:
        leave()


def _settle(channel: socket.socket) -> None:
    """A process of its own, small and quiet."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL if number != signal.SIGINT else signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, 0)
    sys.settrace(None)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    keep = channel.fileno()
    os.closerange(3, keep)
    os.closerange(keep + 1, min(os.sysconf("SC_OPEN_MAX"), MOST_FILES))
    gc.disable()
    torch.set_num_threads(1)
    _give_back_memory()


def _give_back_memory() -> None:
    """Contents of large tensors read as zeros from now on; their addresses stay, by which overlaps are seen."""
    if not sys.platform.startswith("linux"):
        return
    advise = ctypes.CDLL(None).madvise
    page = mmap.PAGESIZE
    for value in gc.get_objects():
        if not issubclass(type(value), torch.Tensor):
            continue
        try:
            storage = value.untyped_storage()
            if storage.device.type != "cpu" or storage.nbytes() < LARGE:
                continue
            first = -(-storage.data_ptr() // page) * page
            last = (storage.data_ptr() + storage.nbytes()) // page * page
        except Exception:
            # Sparse, fake, or a subclass that has no memory of its own.
            continue
        if last > first:
            advise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), MADV_DONTNEED)
