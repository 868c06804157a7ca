"""Collectives inside compiled code are operators of the graph: in the program's order, waited for where they are first read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dynascope
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

FOLDER = Path(__file__).parent


KNOWN = pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 does not tell a process group's methods apart: they are breaks")


@KNOWN
@pytest.mark.compiler
def test_two_ranks_find_what_eager_finds():
    own = {**os.environ, "DYNASCOPE_STRICT": "0", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, FOLDER / "collectives.py"], capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(found) > 15 and {name: differs for name, differs in found.items() if differs} == {}


@pytest.fixture
def alone():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def overlapped(x, w):
    reduced = functional.all_reduce(x, "sum", dist.group.WORLD)
    between = x @ w
    return reduced * between


@pytest.mark.compiler
def test_what_stands_between_a_collective_and_its_first_reader_runs_meanwhile(alone):
    text = dynascope.explain(overlapped, torch.ones(4, 4), torch.ones(4, 4)).show("groups")
    assert text.index("_c10d_functional.all_reduce") < text.index("aten.mm") < text.index("_c10d_functional.wait_tensor")


def raising_behind(x, n):
    y = x.sin()
    dist.all_reduce(y)
    if n > 1:
        raise IndexError("mine")
    return y


@KNOWN
@pytest.mark.compiler
def test_a_collective_is_no_break_where_the_function_raises_behind_it(alone):
    """It was captured again as for a program that has another way for compilers: it is torch that asked, not the program."""
    compiled, x = dynascope.compile(raising_behind), torch.ones(2)
    assert torch.equal(compiled(x, 0), x.sin())
    with pytest.raises(IndexError, match="mine"):
        compiled(x, 2)
    with pytest.raises(IndexError, match="mine"):
        compiled(x, 3)


def two(x):
    first = functional.all_reduce(x.sin(), "sum", dist.group.WORLD)
    second = functional.all_gather_tensor(x.cos(), 0, dist.group.WORLD)
    return second.sum() * 2, first.sum()


@pytest.mark.compiler
def test_they_keep_their_order_though_the_first_is_read_last(alone):
    explained = dynascope.explain(two, torch.ones(4))
    text = explained.show("groups")
    assert text.index("_c10d_functional.all_reduce") < text.index("_c10d_functional.all_gather")
    torch.testing.assert_close(explained.result[1], torch.ones(4).sin().sum())


def of_this_rank(x):
    return x * (dist.get_rank() + 1) / dist.get_world_size(dist.group.WORLD)


@KNOWN
@pytest.mark.compiler
def test_a_group_is_asked_again_when_there_is_another():
    compiled = dynascope.compile(of_this_rank, fullgraph=True)
    for _ in range(2):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        assert torch.equal(compiled(torch.ones(3)), torch.ones(3))
        dist.destroy_process_group()


def recorded(x):
    y = x * 2
    dist.all_reduce(y)
    return y.sin()


@pytest.mark.compiler
@pytest.mark.expects("foreign-call")
def test_gradients_go_past_what_is_reduced_in_place(alone):
    x = torch.ones(3, requires_grad=True)
    dynascope.compile(recorded)(x).sum().backward()
    assert torch.allclose(x.grad, 2 * torch.full((3,), 2.0).cos())
    with torch.no_grad():
        assert not dynascope.explain(recorded, x).break_reasons
