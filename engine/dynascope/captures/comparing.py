"""Each way of capturing a function, tried on the call that it captured and on calls that take other paths."""

from __future__ import annotations

import contextlib
import copy
import io
import time
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch import nn

from dynascope.captures.calls import Call, Observed, difference, observed, others
from dynascope.captures.surroundings import Surroundings, same_numbers
from dynascope.captures.systems import SYSTEMS, Capture, Missing, quietly
from dynascope.dataclass import dataclass

TIMES = 50
SECONDS = 1.0
MOST_CALLS = 12
OF_CAPTURES = 1
"""Random numbers begin otherwise while a function is captured than in the calls that it is tried on: a number that a capture keeps as a
constant is another one then."""


@dataclass(frozen=True)
class Proof:
    """`found` None: as eager. `is_said`: it raised, so that nobody gets a wrong result."""

    call: str
    found: str | None
    is_said: bool = False
    lines: tuple[int, ...] = ()
    """Of the function, that this call runs and the first one does not."""


@dataclass(frozen=True)
class Row:
    """What one way made of the function. Seconds; `overhead` is a warm call's beyond eager's."""

    system: str
    captured: bool
    pieces: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str = ""
    is_missing: bool = False
    proofs: tuple[Proof, ...] = ()
    seconds: float | None = None
    overhead: float | None = None

    @property
    def is_sound(self) -> bool:
        """As far as was tried."""
        return all(proof.found is None or proof.is_said for proof in self.proofs)


@dataclass(frozen=True)
class Comparison:
    function: str
    rows: tuple[Row, ...]
    eager_seconds: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        from dynascope.captures.printing import comparison_text

        return comparison_text(self)


def compare_captures(function: Callable, *arguments: Any, **keywords: Any) -> Comparison:
    """Capture `function` for these arguments in every way there is, and try each on other arguments."""
    return compare_calls(function, [Call(arguments, keywords)])


def compare_calls(function: Callable, calls: Sequence[Call]) -> Comparison:
    """The first call is captured. Those after it, and what is made from it, are what captures are tried on."""
    with same_numbers():
        return _compared(function, calls)


def _compared(function: Callable, calls: Sequence[Call]) -> Comparison:
    first = calls[0]
    code = _code(function)
    tried = _that_run_otherwise(function, [*calls, *others(first)], code)
    fresh = _fresh(function)
    rows = tuple(_row(name, function, first, tried) for name in SYSTEMS)
    eager = _warm(first, (fresh, Surroundings.of(fresh)))
    notes = () if tried else ("Eager itself gives something else when the same call is made again, so nothing is proved.",)
    return Comparison(getattr(function, "__qualname__", type(function).__name__), rows, eager[0] if eager else 0.0, notes)


def _code(function: Callable) -> types.CodeType | None:
    target = function.forward if isinstance(function, nn.Module) else function
    return getattr(getattr(target, "__func__", target), "__code__", None)


Tried = list[tuple[Call, Observed, tuple[int, ...]]]


def _that_run_otherwise(function: Callable, calls: Sequence[Call], code: types.CodeType | None) -> Tried:
    """The first call again, and those of which eager says something else: another path, sizes or numbers. Where eager itself
    cannot run a call that was made up, or gives something else when it runs it again, that proves nothing."""
    found: Tried = []
    fresh = _fresh(function)
    outside, waiting = Surroundings.of(fresh), list(reversed(calls))
    while waiting:
        call = waiting.pop()
        seen = observed(fresh, call, code, outside)
        if seen.error is not None and found:
            continue
        if difference(observed(fresh, call, None, outside), seen) is not None:
            continue
        if seen.changed and not found:
            waiting.append(replace(call, times=2, what=f"{call.what}, made twice"))
        before = found[0][1].lines if found else ()
        found.append((call, seen, tuple(line for line in seen.lines if found and line not in before)))
        if len(found) == MOST_CALLS:
            break
    return found


def _fresh(function: Callable) -> Callable:
    """A module with its own buffers: a run may change them."""
    try:
        return copy.deepcopy(function) if isinstance(function, nn.Module) else function
    except Exception:
        return function


def _row(name: str, function: Callable, first: Call, tried: Tried) -> Row:
    target = _fresh(function)
    outside = Surroundings.of(target)
    before, start = outside.contents(), time.perf_counter()
    try:
        with same_numbers(OF_CAPTURES):
            made = quietly(SYSTEMS[name], target, first.copied())
    except Missing as missing:
        return Row(name, False, failure=str(missing), is_missing=True)
    except Exception as error:
        return Row(name, False, failure=_words(error), seconds=time.perf_counter() - start)
    finally:
        outside.restore(before)  # what a capture left behind may be its own stand-ins
    seconds = time.perf_counter() - start
    proofs = tuple(_proof(made, call, expected, lines, outside) for call, expected, lines in tried)
    own = _fresh(made.run) if made.has_own_state else made.run
    eager = _fresh(function)  # lazy tensors leave parameters of the other on their device
    warm = None if proofs and proofs[0].is_said else _warm(first, (own, outside), (eager, Surroundings.of(eager)))
    return Row(name, True, made.pieces, made.notes, "", False, proofs, seconds, None if warm is None else warm[0] - warm[1])


def _proof(made: Capture, call: Call, expected: Observed, lines: tuple[int, ...], outside: Surroundings) -> Proof:
    run = _fresh(made.run) if made.has_own_state else made.run
    found = quietly(lambda run, given: observed(run, given, None, outside), run, call)  # type: ignore[arg-type, return-value]
    if isinstance(found, Observed) and found.error is not None and expected.error is None:
        return Proof(call.what, _words(found.error), True, lines)
    if isinstance(found, Observed) and made.has_own_state:
        found = replace(found, changed=expected.changed)  # seen by what a second call gives
    return Proof(call.what, difference(found, expected), False, lines)  # type: ignore[arg-type]


def _words(error: BaseException) -> str:
    text = [line.strip() for line in str(error).splitlines() if line.strip()] or [""]
    words = text[-1] if any(line.startswith("Traceback of TorchScript") for line in text) else text[0]
    return f"{type(error).__name__}: {words.removeprefix('RuntimeError: ')}"[:300]


def _warm(call: Call, *runs: tuple[Callable, Surroundings]) -> list[float] | None:
    """The fastest of some calls of each, in turn: a machine that is slow for a while is so for all. Each call finds what the first one
    found; None where one raises."""
    sides = [(run, call.copied(), outside, outside.contents()) for run, outside in runs]
    best = [float("inf")] * len(sides)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            for run, given, _, _ in sides:
                run(*given.arguments, **given.keywords)
            began = time.perf_counter()
            for _ in range(TIMES):
                for at, (run, given, outside, before) in enumerate(sides):
                    outside.restore(before)
                    start = time.perf_counter()
                    run(*given.arguments, **given.keywords)
                    best[at] = min(best[at], time.perf_counter() - start)
                if time.perf_counter() - began > SECONDS:
                    break
    except Exception:
        return None
    finally:
        for _, _, outside, before in sides:
            outside.restore(before)
    return best
