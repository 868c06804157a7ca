"""`scan`, `map`, `associative_scan` and `while_loop` of torch are nodes of one graph, with eager's results, layouts and gradients."""

import dynascope
import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._higher_order_ops.map import map as mapped
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves, tree_structure

torch.manual_seed(0)
LAYER = nn.Linear(3, 3)


def recurrent(x):
    return scan(lambda h, row: ((new := torch.tanh(LAYER(h) + row)), new * 1), torch.zeros(3), x)


def from_the_end(x):
    return scan(lambda total, column: (total + column, total * column), torch.zeros(x.size(0)), x, dim=1, reverse=True)


def of_structures(x):
    def step(carry, rows):
        return {"sum": carry["sum"] + rows[0], "last": rows[1] * 2}, [carry["sum"] * carry["last"], rows[0].sum() + carry["last"]]

    return scan(step, {"sum": torch.zeros(3), "last": torch.ones(3)}, (x, x.exp()))


def rows_apart(x):
    return mapped(lambda row, scale: {"row": LAYER(row) * scale, "sum": row.sum() + scale}, x, x.mean())


def written_inside(x):
    return mapped(lambda row: row.sin().add_(1.0), x)


def rows_of_rows(x):
    return mapped(lambda row: mapped(lambda element: element.sin() * 2, row.view(-1, 1)), x)


def joined_in_pairs(x):
    def joined(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return associative_scan(joined, (x.sigmoid(), x), dim=0, combine_mode="generic")


PROGRAMS = [recurrent, from_the_end, of_structures, rows_apart, written_inside, rows_of_rows, joined_in_pairs]


def outcome(call, x, trains):
    LAYER.zero_grad()
    x = x.clone().requires_grad_(trains)
    with torch.set_grad_enabled(trains):
        made = call(x)
    results = tree_leaves(made)
    if trains:
        sum((each * torch.arange(each.numel()).view(each.shape)).sum() for each in results).backward()
    gradients = [x.grad, LAYER.weight.grad] if trains else []
    told = [(each.stride(), each.requires_grad) for each in results]
    return [each.detach() for each in results], gradients, told, str(tree_structure(made))


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph_with_eagers_results(program, trains):
    compiled = dynascope.compile(program, fullgraph=True, dynamic=False)
    for rows in (4, 4, 6):
        x = torch.randn(rows, 3)
        found, expected = outcome(compiled, x, trains), outcome(program, x, trains)
        torch.testing.assert_close(found[:2], expected[:2])
        assert found[2:] == expected[2:]


@pytest.mark.parametrize("program", [recurrent, rows_apart])
def test_as_many_steps_as_a_size_that_varies(program):
    """Or more than are recorded one after the other: they are one node still, which runs between kernels."""
    compiled = dynascope.compile(program, fullgraph=True, dynamic=True)
    for rows in (4, 9, 300):
        x = torch.randn(rows, 3) / 10
        for trains in (False, True):
            found, expected = outcome(compiled, x, trains), outcome(program, x, trains)
            torch.testing.assert_close(found[:2], expected[:2], rtol=1e-4, atol=1e-4)
            assert found[2:] == expected[2:]


def test_a_loop_that_the_run_ends():
    scale = torch.full((3,), 0.5)

    def program(x):
        y = x * 2
        count, z = while_loop(
            lambda i, z: (i < 40) & (z.abs().sum() > 1), lambda i, z: (i + 1, z * scale + y * 0.01), (torch.tensor(0), y)
        )
        return count + 1, z * 3

    compiled = dynascope.compile(program, fullgraph=True)
    for x in (torch.randn(4, 3), torch.zeros(4, 3), torch.randn(7, 3)):
        found, expected = compiled(x), program(x)
        torch.testing.assert_close(found, expected)


def test_a_loop_that_never_runs_gives_memory_of_its_own():
    compiled = dynascope.compile(lambda x: while_loop(lambda x: x.sum() > 9, lambda x: (x * 2,), (x,)), fullgraph=True)
    x = torch.ones(3)
    (result,) = compiled(x)
    assert torch.equal(result, x) and result.data_ptr() != x.data_ptr()


def draws(x):
    return mapped(lambda row: F.dropout(row, 0.5), x)


def keeps_what_it_is_given(x):
    return scan(lambda total, row: (total + row, row), torch.zeros(3), x)


def has_no_gradient(x):
    return scan(lambda total, row: (total + row, torch.ones(3) * 2), torch.zeros(3), x)


def trains_a_loop(x):
    return while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * z), (torch.tensor(0), x))[1]


@pytest.mark.parametrize("program", [draws, has_no_gradient, trains_a_loop])
def test_what_torch_does_in_a_way_of_its_own_is_one_break(program):
    outcomes = []
    for call in (dynascope.compile(program), program):
        torch.manual_seed(0)
        with dynascope.expected("foreign-call", required=call is not program) as met:
            x = torch.linspace(0, 1, 6).view(2, 3).requires_grad_()
            results = tree_leaves(call(x))
            sum(each.sum() for each in results).backward()
            outcomes.append(([each.detach() for each in results], x.grad, [each.requires_grad for each in results]))
        assert len(met.happened) == (call is not program)
    torch.testing.assert_close(outcomes[0][:2], outcomes[1][:2])
    assert outcomes[0][2] == outcomes[1][2]


@pytest.mark.expects("foreign-call")
def test_what_torch_refuses_torch_says():
    with pytest.raises(RuntimeError):
        dynascope.compile(keeps_what_it_is_given)(torch.ones(2, 3))
