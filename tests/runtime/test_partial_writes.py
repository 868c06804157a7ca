"""A part of an input that a program writes is written, and nothing else of it: a cache is not copied for each token."""

from __future__ import annotations

import re

import dynascope
import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ExternCall
from dynascope.schedule.fusion import fuse
from dynascope.schedule.in_place import written_in_place
from dynascope.schedule.memory import makes
from recording import record

pytestmark = pytest.mark.compiler


def at(cache, x, y, n):
    cache[:, n] = x


def rows(cache, x, y, n):
    cache[n : n + 2] = x[:2].unsqueeze(1)


def corner(cache, x, y, n):
    cache[1:3, 2:4] = x[:2, None] * 2
    return cache.sum()


def from_the_end(cache, x, y, n):
    cache[:, -2] = x + 1


def two(cache, x, y, n):
    cache[:, n] = x
    y[:, n] = x * 2
    return (cache * y).sum(1)


def twice(cache, x, y, n):
    cache[:, n] = x
    cache[:, n + 1] = x + 1


def filled(cache, x, y, n):
    cache[:, :n].zero_()
    return cache * 2


def added(cache, x, y, n):
    cache[n] += 1


def from_itself(cache, x, y, n):
    cache[:, n] = cache[:, n - 1] * 2


def read_before(cache, x, y, n):
    old = cache.sum()
    cache[:, n] = x
    return old


def returned(cache, x, y, n):
    cache[:, n] = x
    return cache, cache[0]


def at_computed_places(cache, x, y, n):
    cache[:, torch.arange(2)] = x[:, None]


def by_index_copy(cache, x, y, n):
    cache.index_copy_(1, torch.arange(3) * 2, y[:, :3])
    return cache @ x.t()


def masked(cache, x, y, n):
    cache.masked_fill_(y > 0.5, 3.0)
    return cache + 1


def every_other(cache, x, y, n):
    cache[:, ::2] = 0


def added_to_every_third(cache, x, y, n):
    cache[:, 1::3] += x[:, None]


def stepped_back(cache, x, y, n):
    cache[-4::2, 1:-1] = y[-4::2, 1:-1] - cache[-4::2, 1:-1]


def scaled_by_another(cache, x, y, n):
    cache[:, n + 1] *= cache[:, n]


def added_and_read(cache, x, y, n):
    cache[n] += 1
    return cache.sum() + y[n].sum()


def added_twice(cache, x, y, n):
    cache[n] += 1
    cache[n] *= 2
    cache[:, n] += x


def added_to_overlapping(cache, x, y, n):
    cache[:, ::2] += 1
    cache[:, n] -= x
    cache[1:3] *= cache[1:3]


PROGRAMS = [
    added_to_every_third, stepped_back, scaled_by_another, added_and_read, added_twice, added_to_overlapping, at,
    rows, corner, from_the_end, two, twice, filled, added, from_itself, read_before, returned, at_computed_places,
    by_index_copy, masked, every_other,
]  # fmt: skip


def given(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(size, generator=generator, device="cpu") for size in ((5, 9, 4), (5, 4), (5, 9, 4))]


@pytest.mark.turns(6)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_inputs_hold_what_eager_leaves_in_them(program, device) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    function = dynascope.compile(program)
    with torch.no_grad(), torch.device(device):
        for number in (2, 3, 1, 2, 0):
            mine, theirs = ([x.to(device, copy=True) for x in given(number)] for _ in range(2))
            results = [run(*inputs, number) for run, inputs in ((function, mine), (program, theirs))]
            for ours, eagers in zip(mine, theirs, strict=True):
                torch.testing.assert_close(ours, eagers)
            torch.testing.assert_close(*results)


def schedule_of(function, *inputs, output=0):
    schedule = fuse(lower(record(function, list(inputs))))
    return written_in_place(schedule, ((0, output),))


def scattered(cache, x):
    return (cache.select_scatter(x, 1, 3),)


def test_only_the_part_is_written() -> None:
    schedule = schedule_of(scattered, torch.zeros(5, 900, 4), torch.ones(5, 4))
    (group,) = schedule.steps
    assert group.row_count == 20 and group.reads == ("x",) and group.writes == ("cache",)
    assert not schedule.allocations and schedule.peak_bytes == 0


def added_at(cache, x):
    cache.select(1, 3).add_(x)
    return (cache,)


def added_with_a_step(cache, x):
    cache[:, ::3].add_(x)
    return (cache,)


@pytest.mark.parametrize(("program", "shape"), [(added_at, (5, 4)), (added_with_a_step, (5, 1, 4))])
def test_a_part_is_added_to_in_place(program, shape) -> None:
    cache, x = torch.zeros(5, 900, 4), torch.ones(shape)
    explained = dynascope.explain(lambda cache, x: program(cache, x) and None, cache, x)
    held = [int(words.replace(",", "")) for words in re.findall(r"# ([\d,]+) bytes held", explained.show("groups"))]
    assert held and max(held) < cache.nbytes / 2


def raises_after(cache, x):
    new = cache.select_scatter(cache.select(1, 3) + x, 1, 3)
    return new, torch.linalg.cholesky(x @ x.t())


def test_what_is_read_is_not_written_where_something_may_raise_after_it() -> None:
    schedule = schedule_of(raises_after, torch.zeros(5, 900, 4), torch.ones(5, 4))
    assert not any("cache" in makes(step) for step in schedule.steps)


def attended(cache, x):
    new = cache.slice_scatter(x, 1, 3, 4)
    return new, new @ x.transpose(1, 2)


def test_what_comes_after_reads_the_input() -> None:
    schedule = schedule_of(attended, torch.zeros(5, 900, 4), torch.ones(5, 1, 4))
    group, product = schedule.steps
    assert group.row_count == 20 and isinstance(product, ExternCall)
    assert product.arguments[0].buffer == "cache"


def kept(cache, x):
    return cache.select_scatter(x, 1, 3), cache @ cache.transpose(1, 2)


def test_what_is_read_elsewhere_is_not_written_first() -> None:
    schedule = schedule_of(kept, torch.zeros(5, 9, 4), torch.ones(5, 4))
    writes = [n for n, step in enumerate(schedule.steps) if "cache" in makes(step)]
    reads = [n for n, step in enumerate(schedule.steps) if isinstance(step, ExternCall)]
    assert not writes or min(writes) > max(reads)


def test_a_place_outside_raises_and_writes_nothing() -> None:
    function = dynascope.compile(at)
    with torch.no_grad():
        for number in (2, 3, 4):
            function(*given(1), number)
        cache, x, y = given(1)
        before = cache.clone()
        with pytest.raises(IndexError):
            function(cache, x, y, 9)
        torch.testing.assert_close(cache, before)



def raises_later(cache, x, y, n):
    cache[:, 1] = x
    return torch.linalg.cholesky(y[:, :4, :4] - 10)


def test_what_raises_after_the_write_leaves_what_eager_leaves() -> None:
    function = dynascope.compile(raises_later)
    for _ in range(2):
        mine, theirs = given(3), given(3)
        for run, inputs in ((function, mine), (raises_later, theirs)):
            with torch.no_grad(), pytest.raises(RuntimeError):
                run(*inputs, 0)
        for ours, eagers in zip(mine, theirs, strict=True):
            torch.testing.assert_close(ours, eagers)


def test_the_states_of_an_optimizer_are_written_in_place() -> None:
    def losses(compiled):
        torch.manual_seed(0)
        model = torch.nn.Linear(6, 4)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

        def step(x):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach()

        run = dynascope.compile(step) if compiled else step
        found = [run(torch.randn(3, 6)) for _ in range(5)]
        states = [value for state in optimizer.state.values() for value in state.values()]
        return [*found, *states, *(parameter.detach() for parameter in model.parameters())]

    for ours, eagers in zip(losses(True), losses(False), strict=True):
        torch.testing.assert_close(ours, eagers)
