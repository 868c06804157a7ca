"""Eight threads at one compiled function, and processes that are forked or spawned after it was compiled."""

import multiprocessing
import os
import threading
import traceback

import dynascope
import pytest
import torch


def step(x, n):
    return torch.relu(x) * n + x.sum()


@pytest.mark.compiler
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_eight_threads_meet_new_sizes_at_once(backend):
    compiled = dynascope.compile(step, backend=backend, options={"recompile_limit": 13})
    start, wrong = threading.Barrier(8), []

    def work(number):
        start.wait()
        for turn in range(30):
            x = torch.full((2 + turn % 3, 1 + number % 2), float(number - 4), requires_grad=number % 2 == 0)
            try:
                ours, theirs = compiled(x, turn % 2), step(x, turn % 2)
                assert torch.allclose(ours, theirs)
                if x.requires_grad:
                    (mine,), (other,) = (torch.autograd.grad(y.sum(), x) for y in (ours, theirs))
                    assert torch.allclose(mine, other)
            except BaseException:
                wrong.append(traceback.format_exc())
                return

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def in_child(queue):
    compiled = dynascope.compile(step)
    queue.put([compiled(torch.ones(size), size).tolist() for size in (2, 3)])


@pytest.mark.compiler
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_compiles_for_itself(method):
    threads = torch.get_num_threads()
    if method == "fork":
        # OpenMP's threads do not survive a fork, torch's own neither.
        torch.set_num_threads(1)
    try:
        dynascope.compile(step)(torch.ones(2), 2)
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        child = context.Process(target=in_child, args=(queue,))
        child.start()
        assert queue.get(timeout=120) == [step(torch.ones(size), size).tolist() for size in (2, 3)]
        child.join(30)
        assert child.exitcode == 0
    finally:
        torch.set_num_threads(threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_what_was_compiled_serves_in_a_fork():
    compiled = dynascope.compile(step, backend="eager")
    expected = compiled(torch.ones(3), 2)
    child = os.fork()
    if child == 0:
        os._exit(0 if torch.equal(compiled(torch.ones(3), 2), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
