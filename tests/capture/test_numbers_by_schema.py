"""Tensors without dimensions where an operator takes a number: torch reads it, at each call."""

import dynascope
import pytest
import torch
from torch.nn import functional as F


def filled(x, n, low):
    of_type = torch.full((2,), fill_value=n, dtype=torch.int32)
    return torch.full((2, 3), n) + x, torch.full_like(x, n) * 2, x.new_full((2,), low) + 1, of_type


def told_by_name(x, n, low):
    x = x.detach()
    return torch.add(x, x, alpha=low), x.sub(x * 2, alpha=n), F.leaky_relu(x - 1, n)


def written(x, n, low):
    x = x.detach()
    y = x.clone()
    y.add_(x, alpha=low).addcmul_(x, x, value=n)
    return y, y.mul(2)


def computed_first(x, n, low):
    return torch.full((3,), x.mean().detach()), torch.full((2,), (n + 1) * 2)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("program", [filled, told_by_name, written, computed_first])
def test_they_are_read(program, backend):
    compiled = dynascope.compile(program, backend=backend, fullgraph=True)
    for n, low in ((1, -0.5), (3, 2.0), (4, float("inf"))):
        given = [torch.arange(3.0).requires_grad_() for _ in range(2)]
        found, expected = (each(x, torch.tensor(n), torch.tensor(low)) for each, x in zip((compiled, program), given, strict=True))
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        for results in (found, expected):
            losses = [each.nan_to_num(0, 0, 0).sum() for each in results if each.requires_grad]
            if losses:
                torch.stack(losses).sum().backward()
        torch.testing.assert_close(given[0].grad, given[1].grad, equal_nan=True)


@pytest.mark.expects("data-dependent-value")
def test_what_looks_at_the_number_breaks_before():
    """Kernels are made of what follows, once it is one of Python's."""

    def program(x, low):
        return F.pad(x.detach(), (1, 1), value=low) * 2, torch.add(x, x, alpha=low) + 1

    compiled = dynascope.compile(program)
    for low in (0.5, -1.0):
        x = torch.arange(3.0).requires_grad_()
        torch.testing.assert_close(compiled(x, torch.tensor(low)), program(x, torch.tensor(low)))


def of_truth(x, n):
    return torch.full((2,), n > 1), x


def with_dimensions(x, n):
    return torch.full((2,), n[None].expand(2)), x


def of_other_type(x, n):
    return x.topk(n.float() / 2), x


@pytest.mark.parametrize("program", [of_truth, with_dimensions, of_other_type])
@pytest.mark.may_break
def test_what_torch_reads_otherwise_is_left_to_it(program):
    """A truth says a type; what is no number is an error."""

    def answer(function):
        try:
            return repr(function(torch.arange(3.0), torch.tensor(2)))
        except (TypeError, RuntimeError) as error:
            return type(error).__name__

    assert answer(dynascope.compile(program)) == answer(program)


def in_lists(x, n):
    padded = F.pad(x, (n, n + 1)), F.pad(x, (0, 1, n, 0), value=2.0), F.pad(x, [n, n], mode="reflect")
    return *padded, x.expand((n, 3, 8)).sum(0), torch.roll(x, (n,), (0,)), x.repeat((n, 1)), torch.zeros((n, 2))


def as_arguments(x, n):
    x = torch.cat([x] * 4).sin()
    return x.view(n, -1) * 2, x.reshape(-1, n) + 1, x.repeat(1, n) * 2, x.expand(n, 12, 8) + 1, x.tile(n, 2) * 2, x.new_zeros(n, 2)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("program", [in_lists, as_arguments])
def test_they_are_read_in_lists_of_integers(program, backend):
    compiled = dynascope.compile(program, backend=backend, fullgraph=True)
    for n in (2, 3, 6):
        x = torch.randn(3, 8)
        torch.testing.assert_close(compiled(x, torch.tensor(n)), program(x, torch.tensor(n)))


def test_what_does_not_fit_is_eagers_error():
    def in_rows(x, n):
        return x.view(n, -1) * 2

    compiled = dynascope.compile(in_rows, fullgraph=True)
    for n in (2, 5, 4):
        if n == 5:
            with pytest.raises(RuntimeError, match="is invalid for input of size 24"):
                compiled(torch.ones(3, 8), torch.tensor(n))
        else:
            torch.testing.assert_close(compiled(torch.ones(3, 8), torch.tensor(n)), in_rows(torch.ones(3, 8), torch.tensor(n)))


def test_gradients_lead_through_what_lists_pad():
    """As codecs pad: by tensors that a convolution keeps."""
    found = []
    for compiles in (False, True):
        torch.manual_seed(0)
        layer, steps = torch.nn.Conv1d(4, 4, 3, 2), torch.tensor(2)

        def convolved(x, left, layer=layer, steps=steps):
            frames = torch.ceil((x.shape[-1] - 3 + left) / steps + 1).to(torch.int64) - 1
            return layer(F.pad(x.sin(), (left, frames * steps + 3 - left - x.shape[-1]))).square().mean()

        call = dynascope.compile(convolved, fullgraph=True) if compiles else convolved
        for length in (8, 9, 11):
            x = torch.linspace(-1, 1, 8 * length).view(2, 4, length).requires_grad_()
            call(x, torch.tensor(1)).backward()
            found.append((x.grad, layer.weight.grad.clone()))
    torch.testing.assert_close(found[:3], found[3:])


def test_a_float_in_such_a_list_is_refused_as_eager_does():
    def padded(x, n):
        return F.pad(x, (n, 0)) * 2

    with pytest.raises(TypeError, match="must be tuple of ints"):
        dynascope.compile(padded)(torch.ones(3), torch.tensor(1.5))


@pytest.mark.expects("data-dependent-value")
def test_what_two_numbers_mirror_is_a_break_with_kernels_behind_it():
    def mirrored(x, n, m):
        return F.pad(x.sin(), (n, m), mode="reflect") * 2

    compiled = dynascope.compile(mirrored)
    for n in (2, 3):
        x = torch.randn(3, 8)
        torch.testing.assert_close(compiled(x, torch.tensor(n), torch.tensor(1)), mirrored(x, torch.tensor(n), torch.tensor(1)))
