"""A graph that is cut into parts keeps autocast and grad mode where the program has them, whichever part an operation is in."""

import dynascope
import pytest
import torch

BF16 = torch.bfloat16


def features_and_logits(a, b):
    with torch.autocast("cpu", dtype=BF16):
        t = a * b
        y = torch.mm(t, t)
    return y, t


def read_again_outside(a, b):
    with torch.autocast("cpu", dtype=BF16):
        t = a * b
        z = torch.mm(t, t)
        w = torch.mm(z, z)
    return z, t, w, torch.mm(w.float(), t)


def ended_before(a, b):
    with torch.autocast("cpu", dtype=BF16):
        t = a * b
    return torch.mm(t, t), t


def switched_off_inside(a, b):
    t = a * b
    with torch.autocast("cpu", dtype=BF16, enabled=False):
        u = torch.mm(t, t)
    return u, t, torch.mm(t, t)


def beside_a_size_of_data(a, b):
    with torch.autocast("cpu", dtype=BF16):
        t = a * b
        i = t.nonzero()
        y = torch.mm(t, t)
    return y, t, i, torch.mm(t, t), t[i[:, 0]] @ b


def without_gradients(a, b):
    t = a * b
    with torch.no_grad():
        u = torch.mm(t, t)
    return u, t, torch.mm(t, t), u + t


PROGRAMS = [features_and_logits, read_again_outside, ended_before, switched_off_inside, beside_a_size_of_data, without_gradients]


def described(results):
    return [(each.dtype, each.requires_grad, each.tolist()) for each in results]


@pytest.mark.parametrize("outer", [False, True], ids=["plain", "under autocast"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_each_operation_has_its_state(program, outer):
    b = torch.ones(3, 3)
    compiled, gradients = dynascope.compile(program), []
    for function in (program, compiled, compiled):
        a = (torch.eye(3) * 2).requires_grad_()
        cut = dynascope.expected("data-dependent-shape", required=False)
        with torch.autocast("cpu", dtype=BF16, enabled=outer), cut:
            results = function(a, b)
            assert torch.is_autocast_enabled("cpu") == outer and torch.is_grad_enabled()
        sum(each.float().sum() for each in results if each.requires_grad).backward()
        gradients.append((described(results), a.grad))
    for results, gradient in gradients[1:]:
        assert results == gradients[0][0]
        assert torch.equal(gradient, gradients[0][1])


def test_after_a_backward_pass_inside_autocast():
    def step(a, b):
        with torch.autocast("cpu", dtype=BF16):
            (a * 3).sum().backward()
        t = a * b
        return torch.mm(t, t), t

    weight = torch.ones(3, 3, requires_grad=True)
    with dynascope.expected("backward-call"):
        results = dynascope.compile(step)(weight * 2, torch.ones(3, 3))
    assert described(results) == described(step(weight * 2, torch.ones(3, 3)))


def test_a_parameter_that_changes_between_calls_is_converted_anew():
    """torch keeps what autocast makes of a parameter until the outermost block ends."""
    layer = torch.nn.Linear(3, 3)

    def program(x):
        with torch.autocast("cpu", dtype=BF16):
            t = layer(x)
            y = layer(t)
        return y, t, t.nonzero()

    compiled, x = dynascope.compile(program), torch.ones(2, 3)
    for _ in range(3):
        assert described(compiled(x)) == described(program(x))
        with torch.no_grad():
            layer.weight += 1


def of_several_types(a, b):
    """Autocast keeps the first copy of a parameter until the outermost `with` ends."""
    with torch.autocast("cpu", dtype=BF16):
        first = a @ b
        with torch.autocast("cpu", dtype=torch.float16):
            second = a @ b
        third = first + 1
    return first, second, third


def of_several_types_and_a_number(a, b):
    count = a.detach().sum().item()
    with torch.autocast("cpu", dtype=BF16):
        first = a @ b
        with torch.autocast("cpu", dtype=torch.float16):
            second = a @ b
    return first * count, second


@pytest.mark.expects("output-alias")
@pytest.mark.parametrize("program", [of_several_types, of_several_types_and_a_number])
def test_copies_of_parameters_are_of_the_first_type(program):
    def run(function):
        a, b = (torch.linspace(-1, 2, 16).view(4, 4).requires_grad_() for _ in range(2))
        results = function(a, b)
        sum(each.float().sum() for each in results).backward()
        return [*results, a.grad, b.grad]

    ours, eagers = run(dynascope.compile(program)), run(program)
    assert [each.dtype for each in ours] == [each.dtype for each in eagers]
    torch.testing.assert_close(ours, eagers)
