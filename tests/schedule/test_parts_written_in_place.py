"""A part of a tensor that is written in place: loops over the part alone, and what is computed there is what the whole would have been."""

from __future__ import annotations

import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup
from dynascope.schedule.in_place import written_in_place
from interpreting import run_schedule
from recording import record


def chosen_by_values(cache, k):
    """The value has a choice of its own, whose condition is not the one that says where."""
    return torch.select_scatter(cache, torch.where(k > 0, k, -2 * k), 1, 3)


def chosen_by_the_same_loop(cache, k):
    """Both conditions ask for a turn of one loop, and only one of them holds wherever something is written."""
    at = torch.arange(cache.shape[2])
    return torch.select_scatter(cache, torch.where(at == 2, k, k.exp()), 1, 3)


def both_conditions(cache, k):
    """What is written asks for the part's own condition and another."""
    rows = torch.arange(cache.shape[1])
    inside = (rows >= 2) & (rows < 5)
    odd = inside & (rows % 2 == 1)
    return torch.where(
        inside[None, :, None], torch.where(odd[None, :, None], k[:, None] + 1, cache * k[:, None]), cache
    )


def either_condition_first(cache, k):
    rows = torch.arange(cache.shape[1])
    inside = rows < 5
    odd = (rows % 2 == 1) & inside
    return torch.where(inside[None, :, None], torch.where(odd[None, :, None], k[:, None], cache + 1), cache)


def both_of_others(cache, k):
    """Neither condition is the one that says where."""
    value = torch.where(torch.logical_and(k > 0, k.abs() < 1), k, k - 1)
    return torch.select_scatter(cache, value, 1, 6)


def two_dimensions(cache, k):
    return torch.slice_scatter(cache, torch.select_scatter(cache[:, 1:6], k * 2, 1, 2), 1, 1, 6)


def from_one_place_on(cache, k):
    return torch.slice_scatter(cache, k[:, None].expand(-1, 4, -1) - cache[:, 2:6], 1, 2, 6)


def the_first_and_the_last(cache, k):
    cache = torch.select_scatter(cache, k, 1, 0)
    return torch.select_scatter(cache, k * 3, 1, 6)


def narrow_of_padded(cache, k):
    """What is read beyond an end stands behind a guard of its own."""
    padded = torch.constant_pad_nd(k, [0, 1])[:, 1:]
    return torch.select_scatter(cache, padded, 1, 4)


PROGRAMS = {
    chosen_by_values: (6, 5),
    chosen_by_the_same_loop: (6, 5),
    both_conditions: (6, 3, 5),
    either_condition_first: (6, 5, 5),
    two_dimensions: (6, 5 * 5),
    both_of_others: (6, 5),
    from_one_place_on: (6, 4, 5),
    narrow_of_padded: (6, 5),
}
READING = {both_conditions, either_condition_first, from_one_place_on}
"""They write to a tensor of 6 x 7 x 5; so many turns the loops of the write have."""


def scheduled(program, given):
    graph = record(program, list(given))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cpu")
    return written_in_place(fuse(lower(graph), None, ((0, 0),)), ((0, 0),))


@pytest.mark.parametrize("program", [*PROGRAMS, the_first_and_the_last], ids=lambda program: program.__name__)
def test_a_written_part_holds_what_the_whole_would(program):
    cache, k = torch.randn(6, 7, 5), torch.randn(6, 5)
    expected = program(cache, k)
    schedule = scheduled(program, [cache.clone(), k])
    (found,) = run_schedule(schedule, [cache, k])
    assert torch.equal(found, expected)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_only_the_part_is_gone_over(program):
    schedule = scheduled(program, [torch.randn(6, 7, 5), torch.randn(6, 5)])
    (write,) = (step for step in schedule.steps if schedule.outputs[0].buffer in getattr(step, "writes", ()))
    assert isinstance(write, FusionGroup)
    assert tuple(symbol.extent for symbol in (*write.rows, *write.columns)) == PROGRAMS[program]
    assert ("cache" in write.reads) == (program in READING)
