"""What is computed of inputs alone, and what only becomes results, is computed by one kernel on a GPU, where no memory is held for it that
was not held."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import torch
from dynascope.loops.lower import lower
from dynascope.schedule import inputs_together
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup, Schedule
from dynascope.schedule.verifying import verify_schedule
from interpreting import run_schedule
from recording import record

X, WEIGHTS, BIASES = torch.randn(4, 8), [torch.randn(8, 8) for _ in range(3)], [torch.randn(8) for _ in range(3)]


def layers(x, first, second, third, *biases):
    weights = [each.bfloat16() for each in (first, second, third)]
    for weight, bias in zip(weights, biases, strict=True):
        x = torch.addmm(bias.bfloat16(), x.bfloat16(), weight).float()
    return x, weights


def returning(x, *given):
    x, weights = layers(x, *given)
    return x, *weights


def keeping(x, *given):
    return layers(x, *given)[0]


def schedule_of(function, *inputs, device: str = "cuda", mutations=()) -> Schedule:
    graph = record(function, list(inputs))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device(device, 0) if device == "cuda" else torch.device(device)
    found = fuse(lower(graph), mutations=mutations)
    verify_schedule(found)
    return found


def written_by(found: Schedule) -> list[int]:
    """How many tensors each kernel writes."""
    return [len(step.writes) for step in found.steps if isinstance(step, FusionGroup)]


def test_weights_that_the_caller_gets_are_converted_together_and_biases() -> None:
    found = schedule_of(returning, X, *WEIGHTS, *BIASES)
    assert written_by(found).count(3) == 2
    expected = returning(X, *WEIGHTS, *BIASES)
    torch.testing.assert_close(run_schedule(found, [X, *WEIGHTS, *BIASES]), expected)
    assert 3 not in written_by(schedule_of(returning, X, *WEIGHTS, *BIASES, device="cpu"))


def test_what_would_be_held_longer_is_converted_where_it_is_read(monkeypatch) -> None:
    monkeypatch.setattr(inputs_together, "SMALL_BYTES", 16)
    found = schedule_of(keeping, X, *WEIGHTS, *BIASES)
    assert written_by(found).count(3) == 1, "the biases, of 16 bytes each"
    torch.testing.assert_close(run_schedule(found, [X, *WEIGHTS, *BIASES])[0], keeping(X, *WEIGHTS, *BIASES))


def test_no_kernel_converts_more_than_its_registers_hold() -> None:
    given = [torch.randn(8) for _ in range(30)]
    found = schedule_of(lambda *given: [each.bfloat16() for each in given], *given)
    assert written_by(found) == [12, 12, 6]


def test_what_is_written_to_an_input_stays_apart() -> None:
    """It comes after everything that allocates. What a library call writes to is read when the program reads it."""

    def program(p, q, x, w):
        return p * 2, q + 1, (x @ w).relu()

    p, q = torch.randn(8), torch.randn(8)
    found = schedule_of(program, p, q, X, WEIGHTS[0], mutations=[(0, 0)])
    *_, last = found.steps
    assert written_by(found) == [1, 1, 1] and found.outputs[0].buffer in last.writes
    assert written_by(schedule_of(program, p, q, X, WEIGHTS[0])) == [2, 1]


def gradients(x, *tangents):
    """As of weights under autocast: the products are halves, of which nobody else reads."""
    return [(x.mT @ tangent).float() for tangent in tangents]


def gradients_and_more(x, *tangents):
    """More is held in the end than where the gradients are converted together."""
    return *gradients(x, *tangents), (x.mT @ x).sum(0, keepdim=True).expand(64, -1) * 2.0


HALVES = [torch.randn(4, 8).bfloat16() for _ in range(4)]


def test_gradients_are_converted_together_where_no_more_is_held_than_elsewhere() -> None:
    apart = schedule_of(gradients, *HALVES)
    assert written_by(apart) == [1, 1, 1], "all are held at the end: nothing may wait"
    together = schedule_of(gradients_and_more, *HALVES)
    assert 3 in written_by(together)
    for function, found in ((gradients, apart), (gradients_and_more, together)):
        torch.testing.assert_close(run_schedule(found, HALVES), tuple(function(*HALVES)))


def test_gradients_that_inputs_become_are_not_converted_together() -> None:
    mutations = [(1 + number, number) for number in range(3)]
    assert 3 not in written_by(schedule_of(gradients_and_more, *HALVES, mutations=mutations))
