"""Random programs as loops, interpreted: nodes one by one, and the schedule with its memory plan, for processors and for GPUs."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))

import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.verifying import verify_program
from dynascope.schedule import row_sums, totals
from dynascope.schedule.fusion import fuse
from dynascope.schedule.verifying import verify_schedule
from interpreting import run_program, run_schedule
from random_loops import RandomProgram
from recording import record

PARTS, PROGRAMS_IN_EACH = 10, 10


def graph_of(program, device):
    graph = record(lambda *given: program(*given), program.inputs)
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device(device)
    return graph


def compare(found, wanted, what):
    for number, (one, other) in enumerate(zip(found, wanted, strict=True)):
        is_laid_out = all(size == 1 or a == b for size, a, b in zip(one.shape, one.stride(), other.stride(), strict=True))
        assert one.dtype == other.dtype and one.shape == other.shape and is_laid_out, f"{what}, result {number}: {one.stride()}"
        place = f"{what}, result {number}: "
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6, equal_nan=True, msg=place.__add__)


def check(program, device, seed):
    wanted = program(*program.inputs)
    lowered = lower(graph_of(program, device))
    verify_program(lowered)
    compare(run_program(lowered, program.inputs), wanted, f"nodes of seed {seed}")
    schedule = fuse(lowered)
    verify_schedule(schedule)
    compare(run_schedule(schedule, program.inputs), wanted, f"steps of seed {seed}")
    return schedule


@pytest.fixture
def small(monkeypatch):
    """What is done for large tensors, done for small ones."""
    for name, fewest in (("FEWEST_ELEMENTS", 4), ("FEWEST_IN_A_PART", 4), ("FEWEST_PARTS", 2)):
        monkeypatch.setattr(totals, name, fewest)
    monkeypatch.setattr(row_sums, "FEWEST_ROWS", 2)
    monkeypatch.setattr(row_sums, "PROGRAMS", 3)


@pytest.mark.turns(6)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_random_programs(device, part, small):
    for seed in range(part * PROGRAMS_IN_EACH, (part + 1) * PROGRAMS_IN_EACH):
        check(RandomProgram(seed), device, seed)
