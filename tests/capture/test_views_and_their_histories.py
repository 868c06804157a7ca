"""Views whose history is not that of their base: made under `no_grad`, of what was detached, or before the base got its own."""

import dynascope
import pytest
import torch

pytestmark = pytest.mark.may_break


def turned_twice(b, c, way):
    with torch.no_grad():
        turned = b.movedim(0, -1)
    return turned.t()


def flattened_as_it_lies(b, c, way):
    with torch.no_grad():
        turned = b[:1].movedim(0, -1)
    return turned.reshape(-1)


def taken(b, way):
    if way == "detached":
        return b.detach()[0]
    if way == "data":
        return b.data[0]
    with torch.set_grad_enabled(way != "without gradients"):
        return b[0]


def written_afterwards(b, c, way):
    part = taken(b, way)
    b.add_(c)
    part.pow_(2)
    return part


def written_after_a_break(b, c, way):
    part = taken(b, way)
    print(end="")
    b[1].mul_(c[1])
    part.pow_(2)
    return part * 2


def returned_after_a_break(b, c, way):
    own = b * 1.5
    part = taken(own, way)
    print(end="")
    own.mul_(c)
    return part


def returned_at_once(b, c, way):
    part = taken(b, way)
    b.add_(c)
    return part


def read_after_a_break(b, c, way):
    part = taken(b, way)
    b.add_(c)
    print(end="")
    return part * c[0]


def state(tensor):
    try:
        return tensor.requires_grad, tensor.is_leaf, tensor.grad_fn is None, tensor._version, tensor._is_view(), tensor.tolist()
    except RuntimeError as error:
        return str(error)


def outcome(function, way, needs_gradients, is_written):
    b = torch.arange(1.0, 7).view(2, 3).requires_grad_(needs_gradients)
    c = torch.linspace(0.5, 2, 6).view(2, 3).requires_grad_()
    given = b * 1 if needs_gradients else b
    try:
        result = function(given, c, way)
        if is_written:
            result.mul_(2)
    except RuntimeError as error:
        return str(error), given.tolist()
    seen = [state(result), state(given)]
    for tensor in (result, given):
        try:
            if tensor.requires_grad:
                gradients = torch.autograd.grad(tensor.sum(), (b, c) if needs_gradients else c, retain_graph=True, allow_unused=True)
                seen.append([None if each is None else each.tolist() for each in gradients])
        except RuntimeError as error:
            seen.append(str(error))
    return seen


PROGRAMS = [written_afterwards, written_after_a_break, returned_after_a_break, returned_at_once, read_after_a_break]


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("needs_gradients", [False, True])
@pytest.mark.parametrize("way", ["usual", "detached", "data", "without gradients"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_view_taken_before_its_base_is_written(program, way, needs_gradients, is_written):
    compiled = dynascope.compile(program)
    expected = outcome(program, way, needs_gradients, is_written)
    for _ in range(2):
        assert outcome(compiled, way, needs_gradients, is_written) == expected


@pytest.mark.parametrize("program", [turned_twice, flattened_as_it_lies])
def test_a_view_of_one_made_under_no_grad_leads_no_gradient(program):
    for function in (program, dynascope.compile(program)):
        leaf = torch.ones(3, 3, requires_grad=True)
        result = function(leaf, None, "")
        assert result.requires_grad and not result.is_leaf and result._is_view()
        result.sum().backward()
        assert leaf.grad is None
