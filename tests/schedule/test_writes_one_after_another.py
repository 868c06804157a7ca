"""Writes into parts of one tensor, one after another: each goes over its part, in one memory, and what is read between is as in eager."""

from __future__ import annotations

import linecache
from collections.abc import Callable

import dynascope
import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.lower.parts import parts_written
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import FusionGroup
from dynascope.schedule.in_place import written_in_place
from dynascope.schedule.verifying import verify_schedule
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreting import run_program, run_schedule
from recording import record

SIZES = (7, 6, 5)
STARTS = {
    "input": "t = a",
    "zeros": "t = torch.zeros_like(a)",
    "empty": "t = torch.empty_like(a); t[:] = b",
    "made": "t = a * 2 + b",
    "copy": "t = a.clone()",
}


# -- random programs


@st.composite
def shapes(draw):
    """For each dimension None (one place) or (how many, step)."""
    shape = []
    for size in SIZES:
        kind = draw(st.sampled_from(["one", "all", "some", "some"]))
        step = draw(st.sampled_from([1, 1, 1, 2, 3]))
        some = draw(st.integers(1, (size - 1) // step + 1)), step
        shape.append({"one": None, "all": (size, 1), "some": some}[kind])
    return shape


def index(draw, shape, steps_too=True):
    """A part of such a shape, somewhere."""
    texts = []
    for size, extent in zip(SIZES, shape, strict=True):
        if extent is None:
            texts.append(str(draw(st.integers(-size, size - 1))))
            continue
        count, step = extent if steps_too else (extent[0], 1)
        span = (count - 1) * step + 1
        first = draw(st.integers(0, size - span))
        last = first + span - (size if first + span < size and draw(st.booleans()) else 0)
        texts.append(f"{first}:{last}:{step}")
    return ", ".join(texts)


@st.composite
def programs(draw):
    lines = ["def program(a, b, c):", f"    {STARTS[draw(st.sampled_from(sorted(STARTS)))]}", "    u = t"]
    views, values = [], []
    for number in range(draw(st.integers(2, 7))):
        shape, name = draw(shapes()), draw(st.sampled_from("tu"))
        operands = [
            draw(st.sampled_from(["0.5", "2", "-1"])),
            *(f"{draw(st.sampled_from('ttbc'))}[{index(draw, shape, draw(st.booleans()))}]" for _ in range(2)),
        ]
        value = f"({draw(st.sampled_from(operands))} {draw(st.sampled_from('+-*'))} {draw(st.sampled_from(operands))}) * 1"
        part = f"{name}[{index(draw, shape)}]"
        how = draw(st.sampled_from(["{} = {}", "{} = {}", "{} += {}", "{} *= {}", "{}.add_({})", "view"]))
        if how == "view":
            views.append((f"v{number}", shape))
            lines += [f"    v{number} = {part}", f"    v{number} += {value}"]
        else:
            lines.append("    " + how.format(part, value))
        if draw(st.booleans()):
            values.append(f"r{number}")
            lines.append(f"    r{number} = t[{index(draw, draw(shapes()))}] * 2")
    lines.append(f"    return {', '.join(['t', 'u[1:] - 1', *(name for name, _ in views), *values])},")
    return "\n".join(lines) + "\n"


def made(text: str) -> Callable:
    name = f"<program {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    names: dict = {"torch": torch}
    exec(compile(text, name, "exec"), names)
    return names["program"]


def tensors(dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(-8, 9, SIZES, generator=generator).to(dtype) for _ in range(3)]


def beside_eager(program, compiled, given):
    ours = [tensor.clone() for tensor in given]
    wanted, found = program(*given), compiled(*ours)
    for one, other in zip((*wanted, *given), (*found, *ours), strict=True):
        assert torch.equal(one, other) and (one.dtype, one.stride()) == (other.dtype, other.stride())
    assert shared([*wanted, *given]) == shared([*found, *ours])


def shared(tensors):
    places = [(tensor.untyped_storage().data_ptr(), tensor.storage_offset()) for tensor in tensors]
    return [[one == other for other in places] for one in places]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(text=programs(), dtype=st.sampled_from([torch.float32, torch.int64]))
def test_random_programs(text, dtype):
    program = made(text)
    try:
        program(*tensors(dtype))
    except RuntimeError:  # a float to integers, or memory that overlaps itself
        return
    compiled = dynascope.compile(program)
    with torch.no_grad():
        for seed in range(2):
            beside_eager(program, compiled, tensors(dtype, seed))


@pytest.mark.parametrize("varies", [False, True])
def test_gradients_and_sizes_that_vary(varies):
    def program(a, b):
        t = a * 2
        t[1:-1, :, 0] = b[1:-1, :, 1] * a[1:-1, :, 2]
        t[:, 1:, 1] += t[:, :-1, 0] * 3
        v = t[2:4]
        v[:, ::2] = b[:2, ::2] - 1
        return (t[1:, :, :2] * t[:-1, :, 1:3]).sum(0) + v.sum(0)[:, :2]

    compiled = dynascope.compile(program, dynamic=varies)
    for sizes in ((7, 6, 5), (9, 4, 5), (6, 8, 7)):
        given = [torch.randn(sizes, dtype=torch.float64, requires_grad=True) for _ in range(2)]
        wanted, found = program(*given), compiled(*given)
        torch.testing.assert_close(found, wanted)
        pairs = zip(*(torch.autograd.grad(result.sum(), given) for result in (found, wanted)), strict=True)
        for ours, theirs in pairs:
            torch.testing.assert_close(ours, theirs)


# -- what becomes of them


def scheduled(function, *given, mutations=()):
    """Also that what it means is what eager gives."""
    graph = record(function, list(given))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cpu")
    program = lower(graph, mutations=mutations)
    schedule = written_in_place(fuse(program, None, mutations), mutations)
    verify_schedule(schedule)
    wanted = function(*given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for run, what in ((run_program, program), (run_schedule, schedule)):
        for one, other in zip(run(what, [tensor.clone() for tensor in given]), wanted, strict=True):
            assert torch.equal(one, other)
    return schedule


def set_column(x, column, value):
    return torch.select_scatter(x, value, 1, column)


def columns_in_turn(x, y):
    """Each column is made of the one before."""
    x = x * 2
    for column in range(1, 5):
        x = set_column(x, column, x[:, column - 1] * 0.5 + y)
    return x


def test_parts_that_have_no_element_in_common_share_a_kernel():
    schedule = scheduled(columns_in_turn, torch.randn(6, 5), torch.randn(6))
    first, second = schedule.steps
    assert [row.extent for row in second.rows] == [6]
    assert second.writes == first.writes == (schedule.outputs[0].buffer,)


def test_what_is_read_beside_what_is_written_comes_before():
    def program(x, y):
        x = x + 1
        shifted = x[:, 1:] * y[:, None]
        x = torch.slice_scatter(x, shifted, 1, 0, 4)
        x = set_column(x, 4, x[:, 0] + y)
        return x, shifted.exp()

    schedule = scheduled(program, torch.randn(6, 5), torch.randn(6))
    steps = [step for step in schedule.steps if isinstance(step, FusionGroup)]
    assert len(steps) == len(schedule.steps) and len({step.writes[0] for step in steps if step.parts}) == 1


def set_rows(x, value, first):
    return torch.slice_scatter(x, value, 0, first, first + len(value))


def read_by_the_next(x, y):
    x = x * 2
    before = x[:, 0] * 2
    x = set_column(x, 0, y)
    return set_column(x, 1, before + x[:, 0])


def returned_beside(x, y):
    x = x * 2
    before = x[1:].exp()
    x = set_rows(x, x[1:] * 3, 1)
    return set_column(x, 0, y), before * 2


@pytest.mark.parametrize(("program", "steps"), [(read_by_the_next, 2), (returned_beside, 3)])
def test_what_reads_is_computed_before_that_is_written_over(program, steps):
    """Where it is computed later it needs the old elements, which is a copy."""
    assert len(scheduled(program, torch.randn(6, 5), torch.randn(6)).steps) == steps


def moved_along(x, y):
    x = x * 2
    before = x[:, 1:] * y[:, None]
    x = torch.slice_scatter(x, x[:, 1:] + 1, 1, 1, 5)
    return torch.slice_scatter(x, before, 1, 0, 4)


def down_and_up(x, y):
    x = x * 2
    x = set_rows(x, x[:-1] * 3, 1)
    return set_rows(x, x[1:] * 2, 0)


@pytest.mark.parametrize(("program", "steps"), [(moved_along, 3), (down_and_up, 4)])
def test_iterations_that_write_what_others_read_are_another_kernel(program, steps):
    assert len(scheduled(program, torch.randn(6, 5), torch.randn(6)).steps) == steps


def test_an_input_is_changed_where_it_is():
    def program(x, y):
        x = set_column(x, 1, y)
        x = set_column(x, 3, x[:, 0] + y)
        return torch.slice_scatter(x, x[:, 2:3] * 2, 1, 2, 3)

    given = torch.randn(6, 5), torch.randn(6)
    schedule = scheduled(program, *given, mutations=((0, 0),))
    assert schedule.outputs[0].buffer == "x" and not schedule.allocations


def test_a_state_that_is_returned_stays():
    def program(x, y):
        first = set_column(set_column(set_column(x, 1, y), 2, y * 2), 4, y - 1)
        return first, set_column(set_column(first, 0, y), 3, y)

    scheduled(program, torch.randn(6, 5), torch.randn(6))


def test_a_single_write_to_what_a_kernel_makes_is_part_of_that():
    def program(x, y):
        return set_column(x * 2, 1, y)

    (_, *others) = scheduled(program, torch.randn(6, 5), torch.randn(6)).steps
    assert all(not step.parts for step in others)


def test_a_part_of_a_part_is_one_write():
    def program(x, y):
        x = x * 2
        inner = torch.slice_scatter(x[1:5], y, 1, 0, 3)
        x = torch.slice_scatter(x, inner, 0, 1, 5)
        return set_column(x, 4, x[:, 0] * 3)

    graph = record(program, [torch.randn(6, 5), torch.randn(4, 3)])
    assert len(parts_written(graph)) == 3
    schedule = scheduled(program, torch.randn(6, 5), torch.randn(4, 3))
    assert sum(bool(step.parts) for step in schedule.steps) == 2


def test_parts_of_a_product_that_is_added_to_what_dies():
    """The library's result is written over: it stays the memory that it is."""

    def program(x, y, z):
        product = torch.baddbmm((x * 2).exp(), y, z)
        for column in range(3):
            product = torch.select_scatter(product, x[:, :, 0] + column, 2, column)
        return product

    scheduled(program, torch.randn(2, 4, 5), torch.randn(2, 4, 3), torch.randn(2, 3, 5))


@pytest.mark.parametrize("values", [torch.arange(15.0).view(3, 5), torch.tensor(2.0)], ids=["scatter", "library"])
def test_parts_written_after_places_that_values_say(values):
    def program(x, places, y):
        x[places] = values
        x[:, 1] = y
        x[:, 3] = x[:, 0] + y
        return x.sum(0)

    compiled = dynascope.compile(program)
    with torch.no_grad():
        for _ in range(2):
            given = torch.randint(-9, 9, (6, 5)).float(), torch.tensor([4, 0, 2]), torch.randint(-9, 9, (6,)).float()
            beside_eager(lambda *inputs: (program(*inputs),), lambda *inputs: (compiled(*inputs),), given)


# -- what a memory begins as


def columns_of(*columns, reads=None):
    def program(x, y):
        out = torch.zeros_like(x)
        for column in columns:
            out = set_column(out, column, y * (column + 1))
        return out if reads is None else (out, out[:, reads].exp())

    return program


def alternate(x, y):
    out = torch.zeros_like(x)
    out = torch.slice_scatter(out, x[:, ::2] + y[:, None], 1, 0, 6, 2)
    return torch.slice_scatter(out, x[:, 1::2] - y[:, None], 1, 1, 6, 2)


def overlapping(x, y):
    out = torch.zeros_like(x)
    out = torch.slice_scatter(out, x[:4] * 2, 0, 0, 4)
    return torch.slice_scatter(out, x[3:] + y[3:, None], 0, 3, 7)


def copied_first(x, y):
    out = torch.slice_scatter(x.clone(), x[:, :3] * 2, 1, 0, 3)
    return torch.slice_scatter(out, x[:, 3:] + y[:, None], 1, 3, 6)


def read_before(x, y):
    out = torch.zeros_like(x)
    for column in range(6):
        out = set_column(out, column, out[:, (column + 1) % 6] + y)
    return out


COVERED = {"columns": columns_of(*range(6)), "steps": alternate, "rows": overlapping, "a copy": copied_first}
SEEN = {
    "one column is left": columns_of(0, 1, 2, 3, 5),
    "one column is written twice": columns_of(0, 1, 2, 3, 5, 5),
    "read before it is written": read_before,
}


@pytest.mark.parametrize("case", COVERED)
def test_what_is_written_over_before_it_is_read_is_not_made(case):
    schedule = scheduled(COVERED[case], torch.randn(7, 6), torch.randn(7))
    assert all(step.parts for step in schedule.steps)


@pytest.mark.parametrize("case", SEEN)
def test_what_is_read_of_the_start_is_made(case):
    schedule = scheduled(SEEN[case], torch.randn(7, 6), torch.randn(7))
    assert not schedule.steps[0].parts


def test_only_what_is_read_has_to_be_covered():
    """The tensor itself is not returned."""

    def program(x, y):
        out = set_column(set_column(torch.zeros_like(x), 1, y * 2), 3, y * 3)
        return (out[:, 1:4:2] * x[:, 1:4:2]).sum(1)

    schedule = scheduled(program, torch.ones(7, 6), torch.arange(7.0))
    assert all(step.reads for step in schedule.steps)
