"""Locks are held while the compiled code runs: what is read, computed and written under them is so in one go."""

import sys
import threading

import dynascope
import pytest
import torch
from dynascope import compile
from dynascope.capture.lock_uses import take
from harness import graphs_of

X = torch.tensor([1.0, -2.0, 3.0])


class Counter:
    def __init__(self, make=threading.Lock):
        self.lock, self.count, self.seen = make(), 0, []

    def add(self, x, amount=1):
        with self.lock:
            before = self.count
            y = x * 2 + self.count
            self.count = before + amount
            self.seen.append(before)
        return y


def by_with(x, lock):
    with lock:
        x = x + 1
    return x * 2


def by_calls(x, lock):
    lock.acquire()
    try:
        return x + 1
    finally:
        lock.release()


def twice(x, lock):
    with lock:
        x = x + 1
    x = x * 3
    with lock:
        return x - 1


def nested(x, lock):
    other = threading.RLock()
    with lock, other, other:
        assert lock.locked()
        return x + 1


def through_a_condition(x, lock):
    condition = threading.Condition(lock)
    with condition:
        condition.notify_all()
        return x + 1


def by_a_semaphore(x, lock):
    with lock, threading.Semaphore(2):
        return x + 1


@pytest.mark.parametrize("program", [by_with, by_calls, twice, nested, through_a_condition, by_a_semaphore])
def test_it_is_one_graph(program):
    lock = threading.Lock()
    compiled, made = graphs_of(program, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(X, lock), program(X, lock))
        assert not lock.locked()
    assert len(made) == 1


def test_a_lock_made_inside_leaves_as_it_is():
    def held(x):
        free, taken = threading.Lock(), threading.Lock()
        taken.acquire()
        again = threading.RLock()
        again.acquire()
        again.acquire()
        return x + 1, free, taken, again

    _, free, taken, again = compile(held, fullgraph=True)(X)
    assert not free.locked() and taken.locked()
    again.release()
    again.release()
    with pytest.raises(RuntimeError):
        again.release()


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_nobody_comes_between(make):
    """Another thread that wrote between the guards and the lock is seen."""
    sys.setswitchinterval(1e-6)
    counter = Counter(make)
    compiled = compile(Counter.add, dynamic=True)
    compiled(counter, X), compiled(counter, X)
    try:
        threads = [threading.Thread(target=lambda: [compiled(counter, X) for _ in range(100)]) for _ in range(3)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
    finally:
        sys.setswitchinterval(0.005)
    assert counter.count == 302
    assert counter.seen == list(range(302))


def test_it_waits_and_then_asks_its_guards_again():
    """Who held the lock has changed what the graph was made for."""
    counter = Counter()
    compiled = compile(counter.add, dynamic=False)
    compiled(X)
    counter.count = 0
    counter.lock.acquire()
    found = []
    waiting = threading.Thread(target=lambda: found.append(compiled(X)))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()
    counter.count = 7
    counter.lock.release()
    waiting.join()
    assert torch.equal(found[0], X * 2 + 7) and counter.count == 8 and counter.seen == [0, 7]


def broken(x, lock, said):
    with lock:
        y = x + 1
        print(lock.locked(), end="")
        said.append(lock.locked())
        y = y * 2
    said.append(lock.locked())
    return y + 1


def test_it_is_held_across_a_break(capsys):
    lock, said, expected = threading.Lock(), [], []
    compiled, made = graphs_of(broken)
    with dynascope.expected("print-call"), dynascope.expected("foreign-call"):
        assert torch.equal(compiled(X, lock, said), broken(X, lock, expected))
    assert said == expected == [True, False] and not lock.locked()
    assert capsys.readouterr().out == "TrueTrue"


def test_an_error_gives_it_back():
    def wrong(x, lock, at):
        with lock:
            return x[at] + 1

    lock = threading.RLock()
    compiled = compile(wrong)
    compiled(X, lock, torch.tensor(1))
    with pytest.raises(IndexError):
        compiled(X, lock, torch.tensor(9))
    assert not lock._is_owned()


def test_the_program_raises_under_it():
    def refused(x, lock):
        with lock:
            if x.shape[0] == 3:
                raise KeyError("three")
            return x + 1

    lock = threading.Lock()
    with pytest.raises(KeyError, match="three"):
        compile(refused)(X, lock)
    assert not lock.locked()


def test_giving_back_what_nobody_holds_is_an_error():
    def free(x, lock):
        lock.release()
        return x + 1

    with pytest.raises(RuntimeError, match="release unlocked lock"):
        compile(free)(X, threading.Lock())


def test_no_two_are_held_that_the_program_holds_one_by_one():
    """Else two threads that take them in other orders would wait for each other."""

    def one_by_one(x, first, second):
        with first:
            x = x + 1
        with second:
            return x * 2

    first, second = threading.Lock(), threading.Lock()
    with dynascope.expected("foreign-call"):
        found = compile(one_by_one)(X, first, second)
    assert torch.equal(found, one_by_one(X, first, second)) and not first.locked() and not second.locked()


def test_whether_it_is_got_is_for_the_run():
    def tried(x, lock):
        if lock.acquire(blocking=False):
            lock.release()
            return x + 1
        return x

    lock = threading.Lock()
    compiled = compile(tried)
    with dynascope.expected("foreign-call"):
        assert torch.equal(compiled(X, lock), X + 1)
        lock.acquire()
        assert torch.equal(compiled(X, lock), X)


def test_an_interrupted_wait_keeps_none():
    class Interrupted:
        def acquire(self):
            raise KeyboardInterrupt

    lock = threading.Lock()
    with pytest.raises(KeyboardInterrupt):
        take([lock, Interrupted()], [1, 1])
    assert not lock.locked()
