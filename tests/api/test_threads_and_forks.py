"""Compiling and running in several threads, in forked children, and with the garbage collector at every step."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import types

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn

X = torch.tensor([-2.0, -1.0, 0.5, 3.0])


def in_child(work, seconds=20):
    """Whether a forked child does the work and ends well."""
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.alarm(seconds)
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*")
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_forks_while_another_thread_compiles(backend):
    stop = threading.Event()

    def background():
        number = 0
        while not stop.is_set():
            number += 1
            dynascope.compile(lambda x, n=number: x * n, backend="eager")(X)

    thread = threading.Thread(target=background)
    thread.start()
    try:
        time.sleep(0.2)
        for factor in range(5):
            compiled = dynascope.compile(lambda x, n=factor: x * n + 9, backend=backend)
            assert in_child(lambda c=compiled, n=factor: torch.equal(c(X), X * n + 9))
            assert torch.equal(compiled(X), X * factor + 9)
    finally:
        stop.set()
        thread.join()


WHILE_THE_ENGINE_IS_IMPORTED = """
import os, signal, sys, threading, time
import torch, dynascope

# Operators have run once before the fork: of one that another thread runs for the first time, torch's own child waits for ever.
ones = torch.ones(2)
ones.mul(4).tolist()

def compiled(factor):
    return dynascope.compile(lambda x: x * factor, backend="eager")(ones).tolist() == [factor] * 2

first = threading.Thread(target=compiled, args=(2,))
first.start()
while "dynascope.frame" not in sys.modules:
    time.sleep(0.01)
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(0 if compiled(3) else 1)
status = os.waitpid(child, 0)[1]
first.join()
sys.exit(status != 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_another_thread_compiles_for_the_first_time():
    """It has the whole engine, or would wait for ever for an import that nobody ends."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", WHILE_THE_ENGINE_IS_IMPORTED], check=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_goes_on_with_what_its_parent_compiled():
    compiled = dynascope.compile(lambda x: (x * 2).sin())
    compiled(X)
    assert in_child(
        lambda: torch.allclose(compiled(X), (X * 2).sin()) and torch.allclose(compiled(X[:2]), (X[:2] * 2).sin())
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_recorded_program_has_no_report():
    from dynascope import recording

    before = recording.use(recorder := recording.Recorder())
    try:
        with recorder._lock:
            holder = threading.Thread(target=lambda: None)
            holder.start(), holder.join()
            assert in_child(lambda: torch.equal(dynascope.compile(lambda x: x + 1, backend="eager")(X), X + 1))
    finally:
        recording.use(before)


def together(count, work):
    """Runs work(number) in threads that start at once; raises the first thing that went wrong."""
    barrier, problems = threading.Barrier(count), []

    def run(number):
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if problems:
        raise problems[0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x, scale):
        self.calls += 1
        return F.relu(self.linear(x)) * scale


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_eight_threads_compile_one_function(backend):
    compiled = dynascope.compile(lambda x, n: (x * n).sin() + len(x), backend=backend)

    def work(number):
        for turn in range(6):
            x = X[: 1 + (number + turn) % 3].clone()
            assert torch.allclose(compiled(x, number % 2), (x * (number % 2)).sin() + len(x))

    together(8, work)


def test_eight_threads_with_their_own_modes_and_changes():
    nets = [Net() for _ in range(8)]
    plain = Net()
    # What a guard assumed may be changed by another thread before it is tried: not strict.
    settings = {"backend": "eager", "options": {"strict": False}}
    compiled = dynascope.compile(plain, **settings)
    library = types.ModuleType("changing")
    library.scale = 2.0

    @dynascope.compile(**settings)
    def scaled(x):
        return x * library.scale

    def work(number):
        own = dynascope.compile(nets[number], **settings)
        for turn in range(12):
            with torch.no_grad() if (number + turn) % 2 else torch.enable_grad():
                result = compiled(X, turn % 3)
                assert result.requires_grad == torch.is_grad_enabled()
                assert torch.allclose(result, F.relu(plain.linear(X)) * (turn % 3))
                assert torch.allclose(own(X, 2), F.relu(nets[number].linear(X)) * 2)
            assert nets[number].calls == turn + 1
            library.scale = float(turn)
            assert scaled(X).shape == X.shape
            if turn % 5 == 4:
                dynascope.reset()

    together(8, work)


def test_garbage_is_collected_at_every_step():
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        net = Net()
        compiled = dynascope.compile(net, backend="eager")
        for turn in range(3):
            assert torch.allclose(compiled(X, turn), F.relu(net.linear(X)) * turn)

        def breaking(x, items):
            y = x * 2
            print(end="")
            items.append(y)
            return [item + 1 for item in items]

        again, mine, theirs = dynascope.compile(breaking, backend="eager"), [], []
        for _ in range(3):
            found, expected = again(X, mine), breaking(X, theirs)
            assert all(map(torch.equal, found, expected))
        net.linear.register_forward_hook(lambda *_: None)
        assert torch.allclose(compiled(X, 1), F.relu(net.linear(X)))
    finally:
        gc.set_threshold(*before)


def test_a_thread_that_ends_takes_nothing_along():
    compiled = dynascope.compile(lambda x: x * 3, backend="eager")
    thread = threading.Thread(target=lambda: compiled(X))
    thread.start(), thread.join()
    assert torch.equal(compiled(X), X * 3) and threading.current_thread() is threading.main_thread()
