"""`out[mask] = values`, with values that are computed of those chosen by the same mask: kernels, forward and backward, for all sizes."""

import dynascope
import pytest
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
LAYER = nn.Linear(4, 3)


def product(x, w, inside):
    out = torch.zeros_like(x)
    out[inside] = w[inside][:, 0] * x[inside]
    return out


def rows(x, w, inside):
    chosen = inside.any(1)
    out = x * 2
    out[chosen] = LAYER(w[chosen].mean(1))
    return out, w[chosen].sum()


def both_ways(x, w, inside):
    """A spline: inside it is computed, outside it is what it was."""
    out, slope = torch.zeros_like(x), torch.zeros_like(x)
    out[~inside] = x[~inside]
    widths = F.softmax(w[inside], -1)
    out[inside], slope[inside] = widths[:, 0] * x[inside], widths.sum(-1).log()
    return out, slope


def again(x, w, inside):
    out = w.clone()
    out[inside] = out[inside] * 2
    out[inside] = out[inside] + x[inside][:, None]
    return out


def then_not_a_number(x, w, inside):
    """Not a number is the same at all sizes, though it equals nothing."""
    out = w.clone()
    out[inside] = w[inside] * 2
    out[x <= -1] = float("nan")
    return out.nan_to_num(7.0)


def of_another_type(x, w, inside):
    out = torch.zeros_like(x, dtype=torch.float64)
    out[inside] = (w[inside][:, 0] * x[inside]).double()
    return out


def through_a_view(x, w, inside):
    out = torch.zeros(2, *x.shape)
    out[1][inside] = w[inside].amax(-1)
    return out


PROGRAMS = [product, rows, both_ways, again, then_not_a_number, of_another_type, through_a_view]


def differentiated(function, x, w, inside):
    x, w = x.clone().requires_grad_(), w.clone().requires_grad_()
    LAYER.zero_grad()
    results = function(x, w, inside)
    results = results if isinstance(results, tuple) else (results,)
    sum((each * torch.arange(each.numel()).view(each.shape)).sum() for each in results if each.requires_grad).backward()
    return [*results, x.grad, w.grad, *(each.grad for each in LAYER.parameters())]


def where_it_is_true(x, truth):
    x = x * 2
    x[truth] = 5.0
    return x


def where_its_sum_is_large(x, truth):
    x = x * 1
    x[x.sum() > 3] = 1
    return x


def with_a_number_of_a_tensor(x, truth):
    x = x * 1
    row = x[0]
    row[truth] = x[1, 1] * 2
    return x


@pytest.mark.parametrize("program", [where_it_is_true, where_its_sum_is_large, with_a_number_of_a_tensor])
def test_a_mask_of_one_truth_value(program):
    compiled = dynascope.compile(program, fullgraph=True)
    for number in (-1.0, 0.0, 1.0, 2.0):
        outcomes = []
        for call in (compiled, program):
            x = torch.full((2, 2), number, requires_grad=True)
            result = call(x, torch.tensor(number > 0))
            outcomes.append([result.detach(), *torch.autograd.grad(result.sum(), x)])
        torch.testing.assert_close(*outcomes)


def test_a_parameter_that_is_one_number_is_written_where_a_mask_says():
    def clipped(x):
        x = x * 1
        x[x.gt(5)] = 5.0
        return x

    compiled = dynascope.compile(clipped, fullgraph=True)
    for number in (7.0, 3.0):
        assert compiled(torch.tensor(number)) == min(number, 5.0)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_values_and_gradients(program):
    compiled = dynascope.compile(program)
    for size in (5, 7, 8, 3):
        x, w = torch.randn(size, 3), torch.randn(size, 3, 4)
        for inside in (x > 0, x > -9, x > 0.8):
            torch.testing.assert_close(differentiated(compiled, x, w, inside), differentiated(program, x, w, inside))
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, w, x > 0), program(x, w, x > 0))


def test_what_another_mask_chose_is_as_long_as_it_is():
    def program(x, one, other):
        out = torch.zeros_like(x)
        out[one] = x[other] * 2
        return out

    compiled = dynascope.compile(program)
    x = torch.linspace(-1, 1, 6, requires_grad=True)
    with dynascope.expected("varying-number", "data-dependent-value", "data-dependent-shape", required=False):
        torch.testing.assert_close(compiled(x, x > 0, x < 0), program(x, x > 0, x < 0))
        for call in (program, compiled):
            with pytest.raises((RuntimeError, IndexError)):
                call(x, x > 0, x < -0.5)


def test_a_view_waits_for_what_reads_it():
    """Between the parts of a graph it would be handed over as it lies, which is not densely."""

    def program(x, w, one, other):
        column = w[one][:, 0]
        filled = torch.zeros_like(x)
        filled[one] = 2
        return column.sum() * x[other].sum() + filled

    compiled = dynascope.compile(program)
    for size in (5, 7):
        x, w = torch.randn(size, 3), torch.randn(size, 3, 4)
        torch.testing.assert_close(compiled(x, w, x > 0, x < 0.5), program(x, w, x > 0, x < 0.5))


def test_values_from_outside_are_as_many_as_the_mask_chooses():
    """As images are put between words: how many there are the graph checks, and eager raises where there are others."""

    def program(words, images, is_image, log):
        log.append(len(images))
        embedded = words * 2
        embedded[is_image] = images.sin()
        return embedded.cos()

    def outcome(function, length, chosen, count):
        words, images = (torch.linspace(0, 1, rows * 3).view(rows, 3).requires_grad_() for rows in (length, count))
        log = []
        try:
            result = function(words, images, torch.arange(length) < chosen, log)
        except RuntimeError as error:
            return str(error), log
        result.sum().backward()
        return result, words.grad, images.grad, log

    compiled = dynascope.compile(program)
    for length, chosen, count in ((5, 2, 2), (5, 3, 3), (7, 0, 0), (7, 4, 4), (6, 3, 1), (7, 2, 4), (7, 1, 2), (7, 4, 4)):
        ours, theirs = (outcome(function, length, chosen, count) for function in (compiled, program))
        if isinstance(theirs[0], str):
            assert ours == theirs
        else:
            torch.testing.assert_close(ours, theirs)
