"""On a GPU few rows that lie side by side are reduced by one kernel, and what is computed of their elements with that is another."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.nodes import Reduce, Store
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import NotFused
from dynascope.schedule.reasons import FewRows
from dynascope.schedule.verifying import verify_schedule
from recording import record


def scheduled(function, *inputs, device="cuda"):
    graph = record(function, list(inputs))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device(device)
    schedule = fuse(lower(graph))
    verify_schedule(schedule)
    return schedule


def norm(x, weight):
    variance, mean = torch.var_mean(x, (0, 2, 3), correction=0, keepdim=True)
    return ((x - mean) * (variance + 1e-5).rsqrt() * weight[:, None, None]).relu(), mean, x * 2


def images(channels, size, layout=torch.channels_last):
    return torch.empty(2, channels, size, size).to(memory_format=layout), torch.empty(channels)


def reduces(step):
    return any(isinstance(operation, Reduce) for operation in step.body)


def test_the_reduction_is_a_step_and_the_elements_another():
    schedule = scheduled(norm, *images(24, 40))
    first, second = schedule.steps
    assert reduces(first) and not reduces(second) and not second.columns
    assert (first.row_count, first.column_count, second.row_count) == (24, 3200, 24 * 3200)
    rows = {name for name in first.writes if schedule.buffers[name].elements == 24}
    assert len(rows) == 2 and rows <= set(
        second.reads
    )  # the mean, which is a result as well, and what it is multiplied by
    borders = [border for border in schedule.borders if isinstance(border, NotFused)]
    assert borders and all(isinstance(border.reason, FewRows) for border in borders)
    assert "reduces few rows that lie side by side" in borders[0].reason.message()


def test_what_no_reduction_leads_to_is_written_where_elements_are_read_first():
    first, second = scheduled(norm, *images(24, 40)).steps
    assert sum(isinstance(op, Store) and len(op.index.symbols) == 2 for op in first.body) == 1  # x * 2
    assert len(second.writes) == 1


@pytest.mark.parametrize(
    ("inputs", "device"),
    [
        (images(24, 40, torch.contiguous_format), "cuda"),  # each row's elements lie beside one another
        (images(24, 16), "cuda"),  # a program holds a row
        (images(4100, 24), "cuda"),  # the rows fill the machine
        (images(24, 40), "cpu"),
    ],
    ids=["rows apart", "short rows", "many rows", "a processor"],
)
def test_where_one_kernel_does_both(inputs, device):
    assert len(scheduled(norm, *inputs, device=device).steps) == 1


def test_several_reductions_one_after_the_other_and_rows_of_several_loops():
    def shares(x):
        return torch.softmax(x.float(), 1)

    first, second = scheduled(shares, torch.empty(3, 2048, 8, dtype=torch.bfloat16)).steps
    assert first.row_count == 24 and sum(isinstance(op, Reduce) for op in first.body) == 2
    assert second.row_count == 3 * 2048 * 8 and len(first.writes) == 2


def test_reductions_alone_stay_one_step():
    (step,) = scheduled(lambda x: (x.sum((0, 2, 3)), x.amax((0, 2, 3))), images(24, 40)[0]).steps
    assert step.row_count == 24
