"""Writes to computed places on a GPU: kernels where eager's order is nobody's, the library where eager keeps one."""

from __future__ import annotations

import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ExternCall, LoopNode, ScatterNode
from dynascope.schedule.fusion import fuse
from interpreting import run_program, run_schedule
from recording import record
from symbolic_graphs import symbolic_graph
from varying_programs import INDEX, tensor

X, AT, GIVEN = torch.randn(8, 4), torch.tensor([1, 5, 1]), torch.randn(3, 4)


def is_kernel(function, base=X, given=GIVEN) -> bool:
    graph = record(function, [base, AT, given])
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    return any(isinstance(node, ScatterNode) for node in lower(graph).nodes)


def adds(x, at, given):
    return x.index_add(0, at, given)


def puts(x, at, given):
    return x.index_put((at,), given)


def accumulates(x, at, given):
    return x.index_put((at,), given, accumulate=True)


def test_atomic_additions_and_writes_are_kernels():
    assert is_kernel(adds) and is_kernel(puts)


def test_additions_that_eager_sorts_stay_the_librarys():
    assert not is_kernel(accumulates)
    assert not is_kernel(adds, X.bfloat16(), GIVEN.bfloat16())


def of_a_table(at, given, places=7):
    return given.new_zeros(places, 4).index_put((at,), given, accumulate=True)


def of_columns(at, given):
    return given.new_zeros(5, 7, 4).index_put((torch.arange(5), at), given, accumulate=True)


def of_the_middle(at, given):
    return torch.ops.aten.index_put(given.new_zeros(5, 7, 4), [None, at[:2]], given[:, None], True)


def program_on_a_gpu(function, *inputs):
    graph = record(function, list(inputs))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    return lower(graph)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("function", [of_a_table, of_columns, of_the_middle])
def test_gradients_of_few_places_are_sums(function, dtype):
    """Each place has its own, in an order that stays. Negative places are among them."""
    inputs = torch.tensor([1, -1, 1, 0, 6]), torch.randn(5, 4).to(dtype)
    program, wanted = program_on_a_gpu(function, *inputs), function(*inputs)
    assert all(isinstance(node, LoopNode) for node in program.nodes)
    (found,) = run_program(program, inputs)
    torch.testing.assert_close(found, wanted)
    assert found.stride() == wanted.stride()


def test_gradients_of_many_places_stay_the_librarys():
    program = program_on_a_gpu(lambda at, given: of_a_table(at, given, 1 << 22), AT, GIVEN)
    assert not all(isinstance(node, LoopNode) for node in program.nodes)


@pytest.mark.parametrize(
    ("places", "values", "is_sum"), [(50, "s0", True), ("s0", 9, False), (1 << 20, "s0", False)], ids=["values vary", "places vary", "many"]
)
def test_gradients_of_sizes_that_vary_are_sums_where_the_places_are_few_at_all_of_them(places, values, is_sum):
    def program(at, given, table):
        return table.new_zeros(table.shape).index_put((at,), given, accumulate=True)

    inputs = [tensor(values, below=places, **INDEX), tensor(values, 6), tensor(places, 6)]
    graph = symbolic_graph(program, inputs, {"s0": 7}).module
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    assert all(isinstance(node, LoopNode) for node in lower(graph).nodes) == is_sum


@pytest.mark.parametrize(
    ("operator", "in_place"),
    [
        (torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default),
        (torch.ops.aten._unsafe_index_put.default, torch.ops.aten._index_put_impl_.default),
    ],
    ids=str,
)
def test_the_library_adds_in_place_and_looks_at_no_place_twice(operator, in_place):
    """The gradient of an embedding, whose places the forward pass looked up."""

    def added(at, given):
        return operator(given.new_zeros(1 << 22, 4), [at], given, True) * 2

    schedule = fuse(program_on_a_gpu(added, AT, GIVEN))
    (call,) = [step for step in schedule.steps if isinstance(step, ExternCall)]
    assert call.operator is in_place
    torch.testing.assert_close(run_schedule(schedule, [AT, GIVEN])[0], added(AT, GIVEN))


@pytest.fixture
def deterministic():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_where_the_program_asks_for_an_order_eager_keeps_it(deterministic):
    assert not is_kernel(adds) and not is_kernel(puts)
