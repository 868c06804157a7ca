"""What torch keeps in C and Python asks for: flags of a GPU's libraries, which thread this is."""

import subprocess
import sys
import threading

import pytest
import torch
from dynascope import compile
from harness import graphs_of
from torch.nn import functional as F

X = torch.randn(1, 1, 8)


@pytest.fixture(autouse=True)
def may_be_set():
    """Torch's own helpers for tests forbid to set flags from then on."""
    with torch.backends.__allow_nonbracketed_mutation():
        yield


def without_cudnn(x):
    with torch.backends.cudnn.flags(enabled=False, deterministic=True):
        inside = torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic
        y = F.conv1d(x, torch.ones(1, 1, 3))
    return y.sin(), inside, torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic


def test_flags_around_operators_are_one_graph(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    compiled, made = graphs_of(without_cudnn, fullgraph=True)
    for _ in range(2):
        (y, *told), (expected, *said) = compiled(X), without_cudnn(X)
        assert torch.equal(y, expected) and told == said
    assert len(made) == 1


def test_a_flag_that_stays_set(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    def f(x):
        torch.backends.cudnn.deterministic = True
        return x + torch.backends.cudnn.deterministic

    before = torch.backends.cudnn.deterministic
    try:
        torch.backends.cudnn.deterministic = False
        compiled = compile(f, fullgraph=True)
        assert torch.equal(compiled(X), X + 1) and torch.backends.cudnn.deterministic
        torch.backends.cudnn.deterministic = False
        assert torch.equal(compiled(X), X + 1) and torch.backends.cudnn.deterministic
    finally:
        torch.backends.cudnn.deterministic = before


def test_flags_are_asked_again(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    compiled = compile(without_cudnn, fullgraph=True)
    before = torch.backends.cudnn.enabled
    try:
        for enabled in (True, False):
            torch.backends.cudnn.enabled = enabled
            assert compiled(X)[2] is enabled
    finally:
        torch.backends.cudnn.enabled = before


def test_which_thread_it_is():
    def f(x):
        return x + (threading.current_thread() is threading.main_thread()), threading.current_thread().name

    compiled, made = graphs_of(f, fullgraph=True)
    found = []
    thread = threading.Thread(target=lambda: found.append(compiled(X)), name="worker")
    thread.start()
    thread.join()
    assert torch.equal(found[0][0], X) and found[0][1] == "worker"
    assert torch.equal(compiled(X)[0], X + 1) and compiled(X)[1] == "MainThread"
    assert len(made) == 2


PRECISE = """
import torch, dynascope
torch.backends.cuda.matmul.fp32_precision = "tf32"
torch.backends.cudnn.conv.fp32_precision = "tf32"
report = dynascope.explain(lambda x: (x * 2).relu())(torch.ones(3)).report
assert len(report.graphs) == 1, report
"""


def test_a_program_that_has_set_a_precision_is_compiled():
    """Torch raises where it is asked for such a setting by its older name. In a process of its own: there is no way back."""
    subprocess.run([sys.executable, "-c", PRECISE], check=True, timeout=120)
