"""`x.note = v` of tensors: they are read as that from then on, and have it when the graph has run."""

import copy

import dynascope
import pytest
import torch

PARAMETER = torch.nn.Parameter(torch.ones(2))


def written_and_read(x, y):
    x.note = y
    x.kind = "a"
    return x * x.note, x.kind, hasattr(x, "note"), hasattr(x, "none"), getattr(x, "none", 4)


def of_results(x, y):
    z = x + 1
    z.note = [y, z]
    z.add_(1)
    view, detached = z.view(2), z.detach()
    view.note, z.again = 3, view
    return z, view, detached, hasattr(detached, "note")


def of_one_that_stays_inside(x, y):
    z = x.sin()
    z.note = y * 2
    return z.note.cos()


def taken_away(x, y):
    x.note = 1
    del x.note
    z = x * 2
    z.first, z.second = 1, 2
    del z.first
    return z, hasattr(x, "note"), hasattr(z, "first")


def of_a_parameter(x, y):
    PARAMETER.note = y
    return PARAMETER * PARAMETER.note


def of_one_with_gradients(x, y):
    x = x.clone().requires_grad_()
    z = x * y
    z.note = y
    (z * z.note).sum().backward()
    return x.grad, z


def of_what_came_in(x, y):
    x.note = 3
    return x, [x]


def that_make_a_parameter_of_it(x, y):
    z = x + 1
    z._is_param = True
    w = x * 2
    w._is_buffer = 0
    return z, isinstance(z, torch.nn.Parameter), isinstance(w, torch.nn.Buffer), isinstance(x, torch.nn.Buffer)


WHOLE = [
    written_and_read, of_results, of_one_that_stays_inside, taken_away, of_a_parameter, of_what_came_in,
]  # fmt: skip


def with_a_break(x, y):
    x.note = y + 1
    z = x * 2
    z.note = "b"
    if x.sum() > 0:
        z = z * x.note
    return z, hasattr(z, "note")


def that_are_not_there(x, y):
    told = []
    for tensor in (x, PARAMETER):
        try:
            del tensor.nothing
        except AttributeError as error:
            told.append(type(error))
        try:
            tensor.nothing  # noqa: B018
        except AttributeError as error:
            told.append(str(error))
    return x + 1, told


def of_torchs_own_names(x, y):
    try:
        x.is_cuda = 3
    except AttributeError as error:
        return x + 1, str(error)


def that_hide_a_method(x, y):
    x.sin = y.square
    return x.sin()


def copied(x, y):
    x.note = y
    other = copy.deepcopy(x)
    return other, other.note


def described(result, depth=0):
    if isinstance(result, torch.Tensor):
        beside = {name: described(value, depth + 1) for name, value in vars(result).items()} if depth < 3 else {}
        return result.tolist(), beside
    return (
        [described(each, depth + 1) for each in result]
        if isinstance(result, (list, tuple)) and depth < 4
        else repr(type(result))
    )


def assert_same(program, call):
    found = []
    for function in (program, call, call):
        vars(PARAMETER).clear()
        x, y = torch.ones(2), torch.full((2,), 2.0)
        found.append(described([function(x, y), x, y, PARAMETER]))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("program", WHOLE, ids=lambda program: program.__name__)
def test_they_are_part_of_one_graph(program):
    assert_same(program, dynascope.compile(program, backend="eager", fullgraph=True))
    assert_same(program, dynascope.compile(program))


@pytest.mark.may_break
@pytest.mark.parametrize(
    "program",
    [with_a_break, of_one_with_gradients, that_are_not_there, of_torchs_own_names, that_hide_a_method, copied],
    ids=lambda program: program.__name__,
)
def test_what_else_is_as_in_eager(program):
    assert_same(program, dynascope.compile(program, backend="eager"))
    assert_same(program, dynascope.compile(program))


def test_one_tensor_by_two_names():
    def program(x, y):
        x.note = 2
        return y * y.note if hasattr(y, "note") else y + 1

    call = dynascope.compile(program, backend="eager", fullgraph=True)
    for given in ([torch.ones(1), torch.ones(1)], [torch.ones(1)] * 2, [torch.ones(1), torch.ones(1)]):
        assert torch.equal(call(*given), program(*given))
