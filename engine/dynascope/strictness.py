"""Strict mode: what the engine could not do is an error at the call, unless it was said to be expected.

    DYNASCOPE_STRICT=1 pytest                  or dynascope.config.strict = True, or options={"strict": True}
    with dynascope.expected("print-call"):     breaks with this code are no error here; none at all is one
        compiled(x)

For test suites, ours first: there a break, a refusal, a graph without kernels, an internal failure or a guard that raises is a
defect that plain runs hide, because the function goes on as it was written and the result is right.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from dynascope.dataclass import dataclass
from dynascope.report.reason import Explanation


class ExplainedError(RuntimeError):
    """An error whose message names the place, the reason and the remedy; `explanation` has them as data."""

    def __init__(self, explanation: Explanation) -> None:
        place = f"\n  at {explanation.span}: {explanation.span.text()}" if explanation.span else ""
        frames = "".join(f"\n    {frame}" for frame in explanation.stack)
        stack = f"\n  user stack:{frames}" if frames else ""
        super().__init__(f"[{explanation.code}] {explanation.message}{place}{stack}\n  remedy: {explanation.remedy}")
        self.explanation = explanation


class StrictError(ExplainedError):
    """Strict mode is on, and something happened that nobody expected."""


class NotHappened(AssertionError):
    """An expectation that was stated did not come true."""


@dataclass(eq=False)
class Expectation:
    """What may happen, and what did, in order: all codes, and what was unexpected while this was the innermost."""

    codes: frozenset[str]
    happened: list[str] = field(default_factory=list)
    unexpected: list[Explanation] = field(default_factory=list)


_expectations: list[Expectation] = []
"""Of the whole process: what one thread expects may happen in another that it starts."""
_lock = threading.Lock()


@contextmanager
def expected(*codes: str, required: bool = True) -> Iterator[Expectation]:
    """In strict mode, what has one of these codes is no error inside. Raises `NotHappened` where one of them never came;
    with `required=False` they may stay away.

    A program that raises leaves with its own error; then nothing is said about what did not happen.
    """
    expectation = Expectation(frozenset(codes))
    with _lock:
        _expectations.append(expectation)
    try:
        yield expectation
    finally:
        with _lock:
            _expectations.remove(expectation)
    missing = sorted(expectation.codes.difference(expectation.happened))
    if missing and required:
        came = ", ".join(dict.fromkeys(expectation.happened)) or "nothing"
        raise NotHappened(f"expected {', '.join(missing)}, which did not happen; what did: {came}")


def judge(explanation: Explanation, strict: bool, cause: BaseException | None = None) -> None:
    """Raises `StrictError` where strict mode is on and nobody expected this. What is mere information is never an error."""
    if not strict or explanation.severity in ("information", "hint"):
        return
    with _lock:
        stated = explanation.code in _of_environment() or any(explanation.code in each.codes for each in _expectations)
        for each in _expectations:
            each.happened.append(explanation.code)
        if not stated and _expectations:
            _expectations[-1].unexpected.append(explanation)
    if not stated:
        raise StrictError(explanation) from cause


def _of_environment() -> frozenset[str]:
    """DYNASCOPE_EXPECTED=code,code: for a program that is started with strict mode on."""
    return frozenset(filter(None, os.environ.get("DYNASCOPE_EXPECTED", "").split(",")))
