"""Convolutions on a GPU in channels last: where that is chosen, and that nobody sees it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from dynascope.configuration import Options
from dynascope.grad.differentiate import differentiate
from dynascope.loops.layouts import channels_last
from dynascope.loops.lower import lower
from dynascope.loops.lower.channels_last import turned_layouts, turned_pair
from dynascope.loops.nodes import ExternCall, TensorView
from dynascope.schedule.fusion import fuse
from interpreting import run_program, run_schedule
from recording import record
from torch.fx import symbolic_trace

IMAGE = torch.randn(2, 8, 6, 6)
W, B = torch.randn(8, 8, 3, 3) * 0.2, torch.randn(8)
DEPTH = torch.randn(8, 1, 3, 3)
ONE = torch.randn(8, 8, 1, 1) * 0.3
HEAD = torch.randn(8, 5)
INPUTS = [IMAGE, W, B, DEPTH, ONE, HEAD]


def residual(x, w, b, deep, one, head):
    y = F.relu(F.conv2d(x, w, b, padding=1))
    y = F.conv2d(y, w, b, padding=1) * 0.5 + y
    return F.relu(F.conv2d(F.max_pool2d(y, 2), w, None, padding=1)).mean((2, 3))


def normed(x, w, b, deep, one, head):
    y = F.conv2d(F.conv2d(x, w, None, padding=1), deep, b, padding=1, groups=8)
    rows = F.conv2d(y, w, b, padding=1).permute(0, 2, 3, 1)
    rows = (rows - rows.mean(-1, keepdim=True)) * torch.rsqrt(rows.var(-1, keepdim=True) + 1e-5)
    rows = F.gelu(rows.reshape(-1, 8) @ head @ head.t()).view(2, 6, 6, 8)
    return (y + rows.permute(0, 3, 1, 2)).sum((2, 3))


def gated(x, w, b, deep, one, head):
    y = F.silu(F.conv2d(x, w, b, padding=1))
    gate = torch.sigmoid(F.conv2d(y.mean((2, 3), keepdim=True), one, b))
    first, second = F.conv2d(y * gate, w, b, padding=1).chunk(2, 1)
    y = torch.cat([first * second, first, y], 1)[:, :8]
    y = F.interpolate(F.pad(F.conv2d(y, w, b, stride=2, padding=1), (1, 0, 0, 1)), scale_factor=2)
    return F.conv2d(F.avg_pool2d(F.conv2d(y, w, b), 2), w, b, padding=1).flatten(1) @ F.pad(head, (0, 0, 0, 64))


def transposed(x, w, b, deep, one, head):
    y = F.conv_transpose2d(F.conv2d(F.conv2d(x, w, b, padding=1), w, b, padding=1), w, b, stride=2)
    return F.conv2d(y, w, b).amax((2, 3))


def shown(x, w, b, deep, one, head):
    """Three convolutions, of which one gives what the program gets, whole and as views."""
    y = F.conv2d(F.relu(F.conv2d(x, w, b, padding=1)), w, b, padding=1)
    z = F.conv2d(torch.tanh(y), w, b, padding=1)
    return y, y[:, 2:5].permute(0, 2, 3, 1), y.flatten(2), F.conv2d(F.conv2d(F.relu(z), w, b, padding=1), w, b).sum((2, 3))


def ranked(x, w, b, deep, one, head):
    """What has no loop form reads eager's layout."""
    y = F.conv2d(F.relu(F.conv2d(F.conv2d(x, w, b, padding=1), w, b, padding=1)), w, b, padding=1)
    return torch.sort(y, dim=1).values.sum((2, 3)), torch.cumsum(y[:, :1, :2, :2], 1), F.conv2d(y, w, b).sum((2, 3))


PROGRAMS = [residual, normed, gated, transposed, shown, ranked]


def on_a_gpu(function, *inputs):
    graph = record(function, [*inputs])
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    return graph


def library_calls(program):
    return [node for node in program.nodes if isinstance(node, ExternCall) and "convolution" in str(node.operator)]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_results_and_their_strides_are_eagers(function):
    graph = on_a_gpu(function, *INPUTS)
    turned = turned_layouts(graph, None)
    assert turned.layouts
    expected = function(*INPUTS)
    expected = expected if isinstance(expected, tuple) else (expected,)
    program = lower(graph, turned=turned)
    for results in (run_program(program, INPUTS), run_schedule(fuse(program), INPUTS), run_program(lower(graph), INPUTS)):
        for result, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(result, wanted, rtol=1e-4, atol=1e-4)
            assert result.stride() == wanted.stride()


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_convolutions_read_and_give_channels_last(function):
    graph = on_a_gpu(function, *INPUTS)
    program = lower(graph, turned=turned_layouts(graph, None))
    turned = [call for call in library_calls(program) if call.results[0].strides == channels_last(call.results[0].sizes)]
    assert len(turned) >= 3
    for call in library_calls(program):
        x, weight = call.arguments[:2]
        is_last = call in turned
        assert (x.strides == channels_last(x.sizes)) == is_last
        if is_last and weight.sizes[1] > 1 and weight.sizes[2:] != (1, 1):
            assert weight.strides == channels_last(weight.sizes)


def test_a_bias_is_added_by_a_kernel_but_where_torch_adds_it_before_it_rounds():
    def function(x, w, b, deep):
        return F.conv2d(x, w, b), F.conv2d(x, deep, b, groups=8)

    graph = on_a_gpu(function, *INPUTS[:4])
    last = on_a_gpu(function, IMAGE.contiguous(memory_format=torch.channels_last), *INPUTS[1:4])
    for node in last.graph.nodes:
        if node.op == "call_function":  # as it comes from eager
            node.meta["val"] = node.meta["val"].contiguous(memory_format=torch.channels_last)
    assert all(call.arguments[2] is None for call in library_calls(lower(last)))
    whole, depthwise = library_calls(lower(graph))
    assert whole.arguments[2] is None and isinstance(depthwise.arguments[2], TensorView)
    strict = lower(graph, options=Options(numerics="strict"))
    assert all(isinstance(call.arguments[2], TensorView) for call in library_calls(strict))


@pytest.mark.parametrize("channels, is_turned", [(8, True), (1, False)])
def test_one_channel_a_group_is_worth_copies(channels, is_turned):
    """A convolution by itself, whose rows torch's own kernels would read; of all channels cuDNN copies itself."""

    def alone(x, w):
        return F.conv2d(x, w, padding=1, groups=channels)

    x, w = torch.randn(4, 8, 12, 12, requires_grad=True), torch.randn(8, 8 // channels, 3, 3, requires_grad=True)
    pair = differentiate(symbolic_trace(alone), [x, w])
    for graph in (pair.forward, pair.backward):
        for node in graph.graph.nodes:
            node.meta["device"] = torch.device("cuda:0")
    forward, backward = turned_pair(pair.forward, pair.backward, [], None)
    assert bool(forward.layouts) == bool(backward.layouts) == is_turned


def test_nothing_is_turned_where_copies_cost_what_it_saves():
    def groups(x, w, b):
        for _ in range(3):
            x = F.relu(x.view(2, 4, -1) - x.view(2, 4, -1).mean(-1, keepdim=True)).view(2, 8, 6, 6)
            x = F.conv2d(x, w, b, padding=1)
        return x

    assert not turned_layouts(on_a_gpu(groups, IMAGE, W, B), None).layouts


@pytest.mark.parametrize(
    ("width", "dtype", "is_turned"),
    [
        *((1, torch.float32, True), (4, torch.float32, False), (8, torch.float32, True), (24, torch.float32, False)),
        *((1, torch.bfloat16, True), (2, torch.bfloat16, False), (4, torch.bfloat16, True), (48, torch.bfloat16, False)),
        *((32, torch.float16, True), (96, torch.float16, True)),
    ],
)
def test_groups_are_turned_where_the_library_has_kernels_for_their_width(width, dtype, is_turned):
    def function(x, w, grouped):
        for _ in range(4):
            x = F.relu(F.conv2d(x, w, padding=1))
        return F.conv2d(F.conv2d(x, grouped, padding=1, groups=96 // width), w, padding=1)

    inputs = [torch.ones(1, 96, 6, 6, dtype=dtype), torch.ones(96, 96, 3, 3, dtype=dtype), torch.ones(96, width, 3, 3, dtype=dtype)]
    graph = on_a_gpu(function, *inputs)
    calls = library_calls(lower(graph, turned=turned_layouts(graph, None)))
    assert [call.arguments[0].strides == channels_last(call.arguments[0].sizes) for call in calls] == [True] * 4 + [is_turned, True]


def test_gradients_of_long_windows_of_one_channel_lie_in_rows():
    def function(gradient, x, w, deep):
        y = F.relu(F.conv2d(x, w, padding=1))
        both = torch.ops.aten.convolution_backward(
            gradient + y, y, deep, None, [1, 1], [3, 3], [1, 1], False, [0, 0], 8, [True, True, False]
        )
        return both[0].sum((2, 3)), both[1]

    for dtype, is_turned in ((torch.float32, False), (torch.bfloat16, True)):
        inputs = [torch.ones(sizes, dtype=dtype) for sizes in ((2, 8, 9, 9), (2, 8, 9, 9), (8, 8, 3, 3), (8, 1, 7, 7))]
        graph = on_a_gpu(function, *inputs)
        (call,) = [each for each in library_calls(lower(graph, turned=turned_layouts(graph, None))) if "backward" in str(each.operator)]
        assert (call.arguments[1].strides == channels_last(call.arguments[1].sizes)) == is_turned


def test_nothing_is_turned_on_a_processor_or_where_bits_are_to_be_eagers():
    assert not turned_layouts(record(residual, INPUTS), None).layouts
    assert not turned_layouts(on_a_gpu(residual, *INPUTS), Options(numerics="strict")).layouts
