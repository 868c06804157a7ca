"""What the backward pass asks for its layout alone is not kept, and all else is as in eager."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.grad.differentiate import differentiate
from dynascope.grad.layouts_read import OF_THE_SECOND, layouts_read
from dynascope.grad.tape import NOWHERE, Layout, Step, Value, contiguous_strides

aten = torch.ops.aten
PICTURE = torch.randn(2, 3, 8, 8)
VOLUME = torch.randn(2, 3, 4, 8, 8)
ROW = torch.randn(2, 3, 8)


def calls():
    """Of each operator a call: its arguments, the one of which the layout alone is read at place 1."""
    for name, x in (("_adaptive_avg_pool2d", PICTURE), ("_adaptive_avg_pool3d", VOLUME)):
        size = [3] * (x.dim() - 2)
        yield getattr(aten, f"{name}_backward").default, (torch.randn_like(getattr(aten, name)(x, size)), x)
    for name, x in (("avg_pool2d", PICTURE), ("avg_pool3d", VOLUME)):
        rest = ([2] * (x.dim() - 2), [2] * (x.dim() - 2), [1] * (x.dim() - 2), False, True, None)
        yield getattr(aten, f"{name}_backward").default, (torch.randn_like(getattr(aten, name)(x, *rest)), x, *rest)
    for name, x in (("max_pool2d_with_indices", PICTURE), ("max_pool3d_with_indices", VOLUME)):
        count = x.dim() - 2
        rest = ([2] * count, [2] * count, [0] * count, [1] * count, False)
        values, places = getattr(aten, name)(x, *rest)
        yield getattr(aten, f"{name}_backward").default, (torch.randn_like(values), x, *rest, places)
    for name, x in (("adaptive_max_pool2d", PICTURE), ("adaptive_max_pool3d", VOLUME)):
        values, places = getattr(aten, name)(x, [2] * (x.dim() - 2))
        yield getattr(aten, f"{name}_backward").default, (torch.randn_like(values), x, places)
    for name, x in (("fractional_max_pool2d", PICTURE), ("fractional_max_pool3d", VOLUME)):
        count = x.dim() - 2
        values, places = getattr(aten, name)(x, [2] * count, [2] * count, torch.rand(2, 3, count))
        yield getattr(aten, f"{name}_backward").default, (torch.randn_like(values), x, [2] * count, [2] * count, places)
    for kind in ("reflection", "replication"):
        for count, x in ((1, ROW), (2, PICTURE), (3, VOLUME)):
            amounts = [1, 2] * count
            given = getattr(aten, f"{kind}_pad{count}d")(x, amounts)
            yield getattr(aten, f"{kind}_pad{count}d_backward").default, (torch.randn_like(given), x, amounts)


CALLS = dict(calls())


DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


def same_of_other_elements(operator, arguments, place, wanted=(True,), device="cpu"):
    """Whether nothing that an operator is asked for depends on what stands at a place: another tensor, one of NaN."""
    arguments = tuple(each.to(device) if isinstance(each, torch.Tensor) else each for each in arguments)
    x = arguments[place]
    results = []
    for stand_in in (x, torch.randn_like(x), torch.full_like(x, float("nan"))):
        given = operator(*arguments[:place], stand_in, *arguments[place + 1 :])
        given = given if isinstance(given, tuple) else (given,)
        results.append([each for each, is_wanted in zip(given, wanted, strict=True) if is_wanted])
    pairs = [pair for other in results[1:] for pair in zip(results[0], other, strict=True)]
    if device == "cpu":
        return all(torch.equal(one, other) for one, other in pairs)
    return all(torch.allclose(one, other, rtol=1e-2, atol=1e-2) for one, other in pairs)  # a GPU adds in another order each time


def test_every_operator_of_the_table_is_tried():
    assert {operator for operator in OF_THE_SECOND if operator.name().endswith("backward")} == CALLS.keys()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("operator", CALLS, ids=lambda operator: operator.name())
def test_what_stands_at_the_second_place_says_nothing(operator, device):
    assert same_of_other_elements(operator, CALLS[operator], 1, device=device)


@pytest.mark.parametrize("place, mask", [(1, (True, False, False)), (1, (True, False, True)), (2, (False, True, True))])
@pytest.mark.parametrize("groups, transposed", [(1, False), (4, False), (1, True)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("device", DEVICES)
def test_a_convolution_reads_what_gradients_are_asked_of(place, mask, groups, transposed, layout, device):
    x, weight = torch.randn(2, 4, 8, 8).contiguous(memory_format=layout), torch.randn(4, 4 // groups, 3, 3).contiguous(memory_format=layout)
    rest = ([4], [1, 1], [1, 1], [1, 1], transposed, [0, 0], groups)
    gradient = torch.randn_like(aten.convolution.default(x, weight, torch.randn(4), *rest[1:])).contiguous(memory_format=layout)
    arguments = (gradient, x, weight, *rest, list(mask))
    assert same_of_other_elements(aten.convolution_backward.default, arguments, place, mask, device)
    made = Step(aten.sin.default, (), {}, NOWHERE, "forward")
    values = [Value(Layout(tuple(t.shape), contiguous_strides(tuple(t.shape)), t.dtype, t.device), made) for t in (gradient, x, weight)]
    step = Step(aten.convolution_backward.default, (*values, *rest, list(mask)), {}, NOWHERE, "backward")
    assert place in layouts_read(step)
    everything = Step(aten.convolution_backward.default, (*values, *rest, [True, True, True]), {}, NOWHERE, "backward")
    assert layouts_read(everything) == ()


def kept(function, *inputs):
    """Sizes of what the backward pass gets of the forward one."""
    graph = torch.fx.symbolic_trace(function)
    return [tuple(each.layout.sizes) for each in differentiate(graph, list(inputs)).saved if each.layout is not None]


FILTERS = torch.randn(5, 3, 3, 3)
PROGRAMS = {
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), []),
    "behind a sum": (lambda x: F.avg_pool2d(x + 1, 2), []),
    "adaptive": (lambda x: F.adaptive_avg_pool2d(x, 3), []),
    "reflected": (lambda x: F.pad(x * 2, (1, 1, 1, 1), mode="reflect"), []),
    "places alone": (lambda x: F.max_pool2d(x * 2, 2), [(2, 3, 4, 4)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_asked_for_its_layout_is_not_kept(name):
    function, sizes = PROGRAMS[name]
    x = PICTURE.clone().requires_grad_()
    assert kept(function, x) == sizes
    compiled = dynascope.compile(function)
    wanted, given = function(x), compiled(x)
    tangent = torch.randn_like(wanted)
    eagers, ours = ((result, *torch.autograd.grad(result, x, tangent)) for result in (wanted, given))
    for one, other in zip(eagers, ours, strict=True):
        torch.testing.assert_close(other, one)
        assert other.stride() == one.stride()


def frozen(x, first, second):
    return F.conv2d(F.conv2d(x, first) * 2, second)


def test_frozen_filters_keep_no_activations():
    first, second = torch.randn(5, 3, 3, 3), torch.randn(4, 5, 3, 3)
    x = PICTURE.clone().requires_grad_()
    assert (2, 5, 6, 6) not in kept(frozen, x, first, second)
    assert (2, 5, 6, 6) in kept(frozen, x, first, second.clone().requires_grad_())
    for dynamic in (False, True):
        compiled = dynascope.compile(frozen, dynamic=dynamic)
        for size in (8, 9):
            x = torch.randn(2, 3, size, size, requires_grad=True)
            ours, eagers = (torch.autograd.grad(call(x, first, second).square().sum(), x)[0] for call in (compiled, frozen))
            torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-4)


def test_a_change_before_the_backward_pass_is_an_error_as_in_eager():
    def pooled(x):
        return F.avg_pool2d(x, 2)

    for call in (pooled, dynascope.compile(pooled)):
        x = PICTURE.clone().requires_grad_() * 1
        out = call(x)
        x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_second_derivatives_and_undefined_tangents():
    def both(x):
        return F.avg_pool2d(x * x, 2), F.max_pool2d(x * x * x, 2)

    results = []
    for call in (both, dynascope.compile(both)):
        x = PICTURE.clone().requires_grad_()
        average, largest = call(x)
        (first,) = torch.autograd.grad(average.sin().sum(), x, create_graph=True, retain_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x, retain_graph=True)
        (alone,) = torch.autograd.grad(largest.sum(), x)
        results.append((first, second, alone))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(other, one)
