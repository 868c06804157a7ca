"""Tensors made of constants alone: Python may ask them for their numbers. Of all others only the run of the graph knows."""

import dynascope
import pytest
import torch
from harness import compiled
from test_outside_protocols import assert_same

X = torch.arange(6.0)


def sizes_by_torch(x):
    parts = torch.div(x.size(0), 2, rounding_mode="trunc")
    return x.view(parts, 2), x[: parts - 1], x.new_zeros(parts, 2), parts


def python_s_uses(x):
    n = torch.floor_divide(7, 2)
    scale = torch.tensor(2.5).item()
    return x[:n] * scale, [x * k for k in range(n)], (1, 2, 3, 4, 5)[n], [1, 2, 3, 4][n], int(n), float(n), bool(n), f"{int(n)}"


def branches(x, ids=(2, 5)):
    wanted = torch.tensor(ids)
    if torch.isin(wanted, torch.tensor(5)).any():
        x = x + 1
    if wanted is not None and (torch.is_floating_point(wanted) or (wanted < 0).any()):
        x = x * 100
    return x if wanted.sum() == 7 else -x


def types_of_numbers(x):
    return torch.add(2, 3), torch.mul(2.0, 3), torch.div(7, 2), torch.true_divide(6, 4), torch.sub(5, 2) + x, torch.maximum


def a_loop_over_one(x):
    at = torch.zeros((), dtype=torch.long)
    while at < 3:
        x = x * 2 + at
        at = at + 1
    return x


def lists_and_operators(x):
    for step in torch.linspace(9, 0, 4).long().tolist():
        x = x * step if step > 3 else x + step
    if (torch.arange(3) / 2)[1] > 0.25 and (torch.arange(5) % 3 == 1)[4]:
        x = x + 1
    return x, (torch.arange(7) // 2).tolist(), torch.tensor([[1, 2], [3, 4]]).float().tolist()


WHOLE = [lists_and_operators, sizes_by_torch, python_s_uses, branches, types_of_numbers, a_loop_over_one]


@pytest.mark.parametrize("program", WHOLE)
def test_in_one_graph(program):
    call = compiled(program)
    for _ in range(2):
        assert_same(program(X), call(X))
    assert len(call.captures) == 1 and call.refused == []


def written(x):
    n = torch.tensor(3)
    before = n.item()
    n += 1
    m = torch.zeros(2, dtype=torch.long)
    view = m[0]
    m[0] = 4
    return x + n.item(), x + view.item(), before, n, m


def written_through_data(x):
    n = torch.tensor(3)
    n.data = torch.tensor(5)
    return x + n.item()


def drawn(x):
    return x + int(torch.randint(1, 100, ()).item()), bool(torch.rand(()) < 2)


def from_outside(x, n):
    return x + (n + torch.tensor(1)).item(), bool((n > 2).any())


def out_of(x):
    n = torch.tensor(3)
    torch.add(torch.tensor(4), 1, out=n)
    return x + n.item()


def through_numpy(x):
    n = torch.tensor([3, 4])
    n.numpy()[0] = 9
    return x + n[0].item()


def with_gradients(x):
    scale = torch.tensor(2.0, requires_grad=True)
    loss = (x * scale).sum()
    loss.backward()
    return scale.grad.item(), scale.detach().item()


PARTS = [
    (written, ()),
    (written_through_data, ()),
    (drawn, ()),
    (from_outside, (torch.tensor(3),)),
    (out_of, ()),
    (through_numpy, ()),
    (with_gradients, ()),
]


@pytest.mark.parametrize(("program", "given"), PARTS, ids=[program.__name__ for program, _ in PARTS])
def test_what_is_not_known_is_the_call_s_own(program, given):
    call = compiled(program)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = program(X, *(each + seed for each in given))
        torch.manual_seed(seed)
        assert_same(expected, call(X, *(each + seed for each in given)))


def test_types_under_another_default():
    def program(x):
        return x + torch.div(1, 3).item(), torch.tensor(0.1).item(), torch.div(1, 3)

    call = compiled(program)
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        try:
            assert_same(program(X), call(X))
        finally:
            torch.set_default_dtype(torch.float32)


def test_under_autocast():
    def program(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = torch.ones(2, 2) @ torch.full((2, 2), 1.001)
            return x + product.sum().item(), torch.div(1, 3)

    call = compiled(program)
    assert_same(program(X), call(X))


def test_an_index_that_is_no_integer_is_pythons_to_refuse():
    def program(x):
        return x[: torch.tensor(1.5)]

    with pytest.raises(TypeError):
        program(X)
    with pytest.raises(TypeError):
        compiled(program)(X)


@pytest.mark.parametrize("is_view", [False, True])
def test_what_an_operator_writes_is_not_known(is_view):
    """The schema says so where the kernel for meta tensors counts no version: overflow that loss scaling looks for."""

    def program(x):
        found = torch.full((1,), 0.0)
        written = found.view(()) if is_view else found
        torch._amp_foreach_non_finite_check_and_unscale_([x], written, torch.ones(()))
        return x * 2 if sum(each.item() for each in [found]) else x + 1

    call = dynascope.compile(program, backend="eager")
    with dynascope.expected("data-dependent-value"):
        for number in (1.0, float("inf"), 2.0, float("nan")):
            given = torch.full((3,), number)
            torch.testing.assert_close(call(given.clone()), program(given.clone()), equal_nan=True)


def test_statistics_that_are_made_inside_are_not_known():
    def program(x):
        mean, variance = torch.zeros(3), torch.ones(3)
        y = torch.nn.functional.batch_norm(x, mean, variance, training=True, momentum=0.5)
        return y * 2 if mean[0] > 1 else y

    call = dynascope.compile(program, backend="eager")
    with dynascope.expected("data-dependent-branch"):
        for number in (0.0, 5.0):
            assert_same(program(X.view(2, 3) + number), call(X.view(2, 3) + number))


def test_loss_scaling_leaves_a_step_out():
    def trained(compile):
        weight = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight], 0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)

        def step(x):
            optimizer.zero_grad()
            scaler.scale((weight * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()

        step, seen = compile(step), []
        for factor in (1.0, float("inf"), 2.0, float("inf"), 1.0):
            step(torch.full((3,), factor))
            seen.append((weight.tolist(), scaler.get_scale()))
        return seen

    with dynascope.expected("data-dependent-value"):
        assert trained(dynascope.compile) == trained(lambda step: step)


def test_operators_of_numbers_make_tensors():
    """`torch.ops.aten.add(4, 3.3)` is a tensor of no dimensions."""

    def program(x, a, b):
        return x + torch.ops.aten.add(a, b), torch.ops.aten.div(a, 2), torch.ops.aten.sqrt(b)

    ours, theirs = dynascope.compile(program, backend="eager", fullgraph=True)(X, 4, 3.3), program(X, 4, 3.3)
    assert repr(ours) == repr(theirs)
