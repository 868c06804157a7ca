"""Forks beside threads that hold locks: the program's wait until these are free, our own workers' do not."""

import os
import subprocess
import sys
import threading
import time

import pytest
from dynascope.native import forking

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")


@pytest.fixture
def held(monkeypatch):
    """A lock that another thread holds until the event is set."""
    monkeypatch.setattr(forking, "_locks", [])
    monkeypatch.setattr(forking, "PATIENCE", 60.0)
    lock, taken, over = forking.safe_in_children(threading.RLock()), threading.Event(), threading.Event()

    def hold():
        with lock:
            taken.set()
            over.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    yield lock, over
    over.set()
    thread.join()


def status_of_child(check) -> int:
    child = os.fork()
    if child == 0:
        os._exit(0 if check() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_fork_waits_until_a_lock_is_free_and_has_it_free(held):
    lock, over = held
    threading.Timer(0.2, over.set).start()
    started = time.monotonic()
    assert status_of_child(lambda: over.is_set() and lock.acquire(timeout=0)) == 0
    assert 0.1 < time.monotonic() - started < 30
    assert lock.acquire(timeout=10), "the parent has it back"
    lock.release()


def test_a_worker_of_a_compilation_is_forked_at_once(held):
    """Whoever compiles holds the lock of compilations, and waits for the threads that fork."""
    lock, _ = held
    started = time.monotonic()
    with forking.without_waiting():
        assert status_of_child(lambda: lock.acquire(timeout=0)) == 0
    assert time.monotonic() - started < 30
    assert not lock.acquire(timeout=0), "it is still held by the thread that held it"


MANY = """
import os, threading
from dynascope.native import forking

lock, statuses = forking.safe_in_children(threading.Lock()), []

def fork():
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=0) else 1)
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

for _ in range(20):
    threads = [threading.Thread(target=fork) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
assert statuses == [0] * 160, statuses
assert lock.acquire(timeout=0), "it was lost"
"""


def test_many_threads_fork_and_no_lock_is_lost():
    """In a process of its own: what other tests leave behind is in no child."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", MANY], check=True, timeout=120)
