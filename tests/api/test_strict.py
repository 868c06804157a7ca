"""Strict mode: what plain runs hide is an error at the call, unless it was said to be expected; and the other way round."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

import dynascope
import pytest
import torch
from dynascope import graph_compiler, pipeline
from dynascope.capture.calls import tensors
from dynascope.capture.calls.refusals import TypeRefusal
from dynascope.grad.reasons import OperatorFailed
from dynascope.guards.guard import Guard, Predicate
from dynascope.guards.source import LocalSource
from dynascope.strictness import NotHappened

X = torch.ones(3)


def breaks(x):
    print(end="")
    return x + 1


def refused(x):
    yield x


def meets(code, function, *arguments, **options):
    """That the call raises with this code, each time, and gives the result where it is expected."""
    compiled = dynascope.compile(function, **{"backend": "eager", **options})
    for _ in range(2):
        with dynascope.expected(), pytest.raises(dynascope.StrictError) as raised:
            compiled(*arguments)
        assert raised.value.explanation.code == code and code in str(raised.value)
    with dynascope.expected(code):
        return compiled(*arguments)


def test_a_break():
    assert torch.equal(meets("print-call", breaks, X), X + 1)


def test_a_refusal():
    assert list(meets("generator-function", refused, X)) == [X]


def test_a_failure_inside(monkeypatch):
    def fails(*arguments):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(pipeline, "assemble", fails)
    assert torch.equal(meets("engine-error", lambda x: x + 1, X), X + 1)


@pytest.mark.compiler
def test_a_graph_without_kernels(monkeypatch):
    monkeypatch.setattr("dynascope.runtime.generate.lower", lambda *arguments: 1 / 0)
    assert torch.equal(meets("kernel-generation-failed", lambda x: x + 1, X, backend="dynascope"), X + 1)


def test_a_graph_that_cannot_be_differentiated(monkeypatch):
    def refuses(*arguments):
        reason = graph_compiler.DifferentiationRefused
        raise reason(OperatorFailed("add", "on purpose"))

    monkeypatch.setattr(graph_compiler, "differentiate", refuses)
    assert torch.equal(meets("operator-failed", lambda x: x + 1, X, backend="dynascope"), X + 1)


def test_an_error_that_never_came(monkeypatch):
    monkeypatch.setattr(tensors, "check_types", lambda *given: TypeRefusal("it cannot", raises=True))
    meets("call-did-not-fail", lambda x: torch.sin(x) + 1, X)


def test_a_backend_that_fails():
    def backend(graph, example_inputs):
        raise ValueError("on purpose")

    with pytest.warns(UserWarning, match="on purpose"):
        assert torch.equal(meets("backend-failed", lambda x: x + 1, X, backend=backend), X + 1)


@dataclass(frozen=True)
class Says(Predicate):
    """What it is told to, of any value."""

    answer: Callable[[], bool]

    def holds(self, value):
        return self.answer()

    def check(self):
        return "is as it should"

    def failure(self, expression, value):
        return f"{expression} is not"


def with_guard(monkeypatch, guard):
    capture = pipeline.capture

    def adding(*arguments):
        outcome = capture(*arguments)
        return replace(outcome, guards=(*outcome.guards, guard))

    monkeypatch.setattr(pipeline, "capture", adding)


def test_a_guard_that_fails_at_once(monkeypatch):
    with_guard(monkeypatch, Guard((LocalSource("x"),), Says(lambda: False)))
    meets("guard-fails-at-once", lambda x: x + 1, X)


def test_a_guard_that_raises(monkeypatch):
    with_guard(monkeypatch, Guard((LocalSource("x"),), Says(lambda: 1 / 0)))
    compiled = dynascope.compile(lambda x: x + 1, backend="eager")
    with dynascope.expected("guard-fails-at-once", "guard-raises"):
        compiled(X)
        compiled(X)


def test_too_many_entries():
    compiled = dynascope.compile(lambda x, name: x + len(name), backend="eager", options={"recompile_limit": 2})
    for name in ("a", "bc"):
        compiled(X, name)
    for _ in range(2):
        with dynascope.expected(), pytest.raises(dynascope.StrictError, match="recompile-limit"):
            compiled(X, "def")


def test_an_expectation_that_does_not_come_true():
    with (
        pytest.raises(NotHappened, match="print-call, which did not happen; what did: nothing"),
        dynascope.expected("print-call"),
    ):
        dynascope.compile(lambda x: x + 1, backend="eager")(X)
    with dynascope.expected("print-call", required=False):
        dynascope.compile(lambda x: x + 1, backend="eager")(X)


def test_the_program_s_own_error_is_none():
    with pytest.raises(ValueError, match="mine"):
        dynascope.compile(raises, backend="eager")(X)


def raises(x):
    raise ValueError("mine")


def test_off_by_an_option():
    assert torch.equal(dynascope.compile(breaks, backend="eager", options={"strict": False})(X), X + 1)


PROGRAM = "import dynascope, torch; print(dynascope.compile(lambda x: print(end='') or x + 1, backend='eager')(torch.ones(1)))"


@pytest.mark.parametrize(
    ("strict", "expected", "code"), [("", "", 0), ("0", "", 0), ("1", "", 1), ("1", "a,print-call", 0)]
)
def test_from_outside(strict, expected, code):
    surroundings = {**os.environ, "DYNASCOPE_STRICT": strict, "DYNASCOPE_EXPECTED": expected}
    answer = subprocess.run([sys.executable, "-c", PROGRAM], env=surroundings, capture_output=True, text=True)
    assert answer.returncode == code and ("print-call" in answer.stderr) == bool(code), answer.stderr
