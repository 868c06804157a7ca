"""Readings of a clock are part of the graph: when they are taken, what they may decide, and what is told of the time."""

import time
from unittest import mock

import dynascope
import pytest
import torch
from dynascope.capture.clocks import CLOCKS
from dynascope.report.findings import findings


def graphs_of(function, *inputs):
    explanation = dynascope.explain(function, *inputs)
    kinds = [finding.kind for finding in findings(explanation.report)]
    return len(explanation.report.graphs), kinds.count("break")


def test_a_step_that_measures_itself_is_one_graph():
    layer, seconds = torch.nn.Linear(4, 1), []
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x):
        start = time.time()
        optimizer.zero_grad()
        loss = layer(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        seconds.append(time.time() - start)
        return loss.detach()

    compiled, x = dynascope.compile(step), torch.randn(8, 4)
    before, losses = time.time(), [compiled(x) for _ in range(4)]
    assert losses[0] > losses[-1] and len(seconds) == 4
    assert all(type(each) is float and 0 <= each <= time.time() - before for each in seconds)
    assert graphs_of(step, x) == (1, 0)


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: clock.__name__)
def test_every_clock_goes_on_and_is_of_its_type(clock):
    @dynascope.compile
    def f(x):
        first = clock()
        y = x * 2
        return y, first, clock()

    for _ in range(3):
        before = clock()
        y, first, last = f(torch.ones(3))
        assert y.tolist() == [2, 2, 2] and type(first) is type(last) is type(before)
        assert before <= first <= last <= clock()


def test_what_lies_between_two_readings_runs_between_them():
    @dynascope.compile
    def f(x):
        start = time.perf_counter()
        y = x
        for _ in range(8):
            y = torch.tanh(y @ x)
        between = time.perf_counter() - start
        return y, between

    x = torch.rand(400, 400) / 400
    f(x)
    shares = []
    for _ in range(3):
        start = time.perf_counter()
        _, between = f(x)
        shares.append(between / (time.perf_counter() - start))
    assert max(shares) > 0.5 and max(shares) <= 1


@pytest.mark.expects("foreign-call")
def test_a_reading_that_decides_is_python_s():
    def f(x, limit):
        start = time.monotonic()
        y = x.exp()
        if time.monotonic() - start > limit:
            return y * 0
        return y + 1

    compiled, x = dynascope.compile(f), torch.ones(3)
    for limit in (100.0, -1.0, 100.0):
        torch.testing.assert_close(compiled(x, limit), f(x, limit))
    (broken,) = [each for each in findings(dynascope.explain(f, x, 100.0).report) if each.kind == "break"]
    assert "`time.monotonic` cannot be part of a graph: the time that it reads decides" in broken.message


@pytest.mark.expects("data-dependent-branch")
def test_a_branch_on_a_tensor_breaks_alone():
    seconds = []

    def f(x):
        start = time.perf_counter()
        y = x * 2
        if y.sum() > 0:
            y = y + 1
        seconds.append(time.perf_counter() - start)
        return y

    compiled = dynascope.compile(f)
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        torch.testing.assert_close(compiled(x), f(x))
    assert len(seconds) == 6 and all(0 < each < 60 for each in seconds)
    assert graphs_of(f, torch.ones(3)) == (2, 1)


def test_a_clock_of_the_program_s_own_is_asked():
    @dynascope.compile
    def f(x):
        return x + time.time() * 0, time.time()

    f(torch.ones(3))
    with mock.patch("time.time", lambda: 5.0):
        assert f(torch.ones(3))[1] == 5.0
    assert f(torch.ones(3))[1] > 1e9


def test_an_error_between_two_readings_is_the_program_s():
    log = []

    @dynascope.compile
    def f(x, at):
        log.append(time.time())
        y = x[at]
        log.append(time.time())
        return y * 2

    f(torch.ones(3), torch.tensor(1))
    with pytest.raises(IndexError):
        f(torch.ones(3), torch.tensor(7))
    assert len(log) == 3 and log == sorted(log)


def test_time_in_a_tensor():
    @dynascope.compile
    def f(x):
        return x + time.time()

    before = time.time()
    now = f(torch.zeros(2, dtype=torch.float64))
    assert before <= now[0].item() <= time.time() and now[0] == now[1]


@pytest.mark.may_break
def test_other_backends_leave_clocks_to_python():
    @dynascope.compile(backend="eager")
    def f(x):
        start = time.time()
        return x * 2, time.time() - start

    y, seconds = f(torch.ones(3))
    assert y.tolist() == [2, 2, 2] and 0 <= seconds < 60


@pytest.mark.expects("foreign-call")
def test_under_a_wrong_number_of_arguments_python_s_error_comes():
    @dynascope.compile
    def f(x):
        return x * 2, time.time(3)

    with pytest.raises(TypeError, match="takes no arguments"):
        f(torch.ones(3))


def test_the_graph_s_text_runs():
    def f(x):
        return x * 2, time.perf_counter()

    text = dynascope.explain(f, torch.ones(3)).show("torch")
    namespace = {}
    exec(text, namespace)
    y, now = namespace["forward"](torch.ones(3))
    assert y.tolist() == [2, 2, 2] and 0 <= time.perf_counter() - now < 60
