"""Whole programs against eager: values, dtypes, strides, aliasing, mutation and gradients."""

from __future__ import annotations

import operator

import pytest
import torch
import torch.nn.functional as F
from compare import check, check_graph
from torch import fx


def parameter(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, requires_grad=True)


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def test_mlp():
    def program(x, w, b, v):
        return F.linear(F.gelu(F.linear(x, w, b)), v)

    check(program, [torch.randn(8, 32), parameter(64, 32), parameter(64), parameter(16, 64)])


@pytest.mark.parametrize(
    "activation", ["relu", "silu", "leaky_relu", "softplus", "tanh", "sigmoid", "hardtanh", "elu", "mish"]
)
def test_activations(activation):
    check(lambda x: getattr(F, activation)(x), [parameter(4, 9)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_gelu_computes_in_the_dtype_of_eager(dtype):
    x = torch.randn(4, 8, dtype=dtype, requires_grad=True)
    check(lambda x: F.gelu(x), [x], tolerance=1e-5 if dtype is not torch.bfloat16 else 2e-2)
    check(lambda x: F.gelu(x, approximate="tanh"), [x], tolerance=1e-5 if dtype is not torch.bfloat16 else 2e-2)


@pytest.mark.parametrize("training", [True, False])
def test_convolution_and_batch_norm(training):
    def program(image, kernel, weight, bias, mean, variance):
        return F.relu(F.batch_norm(F.conv2d(image, kernel, padding=1), mean, variance, weight, bias, training))

    inputs = [torch.randn(2, 3, 8, 8), parameter(4, 3, 3, 3), parameter(4), parameter(4), torch.zeros(4), torch.ones(4)]
    pair = check(program, inputs, tolerance=1e-4)
    assert [m.input for m in pair.mutations] == ([4, 5] if training else [])


def test_channels_last_stays():
    image = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    check(
        lambda i, k: F.max_pool2d(F.relu(F.conv2d(i, k, padding=1)), 2), [image, parameter(4, 3, 3, 3)], tolerance=1e-4
    )


def test_layer_norm():
    check(lambda x, w, b: F.layer_norm(x, (8,), w, b), [parameter(4, 8), parameter(8), parameter(8)])


def test_group_norm():
    check(lambda x, w, b: F.group_norm(x, 2, w, b), [parameter(3, 4, 5), parameter(4), parameter(4)])


def test_softmax_attention():
    check(
        lambda q, k, v: F.softmax(q @ k.transpose(-1, -2) / 3, -1) @ v,
        [parameter(2, 5, 8), parameter(2, 6, 8), parameter(2, 6, 8)],
    )


@pytest.mark.parametrize("causal", [True, False])
def test_fused_attention_has_the_gradients_of_eager(causal):
    heads = [parameter(2, 2, 6, 8) for _ in range(3)]
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), heads)


def test_fused_attention_with_a_mask():
    heads = [parameter(2, 2, 6, 8) for _ in range(3)]
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), [*heads, torch.rand(6, 6) > 0.3])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_embedding_and_cross_entropy(reduction):
    def program(table, words, target):
        return F.cross_entropy(F.embedding(words, table).view(15, 8), target, reduction=reduction, ignore_index=3)

    check(program, [parameter(8, 8), torch.randint(0, 8, (3, 5)), torch.randint(0, 8, (15,))])


def test_dropout_draws_the_numbers_of_eager():
    check(lambda x: F.dropout(x, 0.5, True) * torch.rand_like(x) + torch.randn_like(x), [parameter(4, 8)])


def test_dropout_in_place():
    check(lambda x: F.dropout(x * 1, 0.5, True, True), [parameter(4, 8)])


def test_in_place_on_intermediates():
    check(lambda x, w: (x @ w).add_(1).mul_(2).tanh_(), [parameter(4, 8), parameter(8, 8)])


def test_writes_through_views_reach_all_aliases():
    def program(x):
        y = x * 2
        row, columns, flat = y[1], y[:, 2:4], y.view(-1)
        row.add_(1)
        columns.mul_(3)
        flat[5:9].zero_()
        y.t()[0].copy_(y.t()[1])
        return y.sum(0), row.exp(), columns, flat

    check(program, [parameter(4, 8)])


def test_set_item():
    def program(x, rows):
        y = x * 1
        y[:, 0] = 5.0
        y[rows] = y[0] * 2
        y[[1, 2]] = 0.0
        return y[[0, 1]], y

    graph = fx.Graph()
    x, rows = graph.placeholder("x"), graph.placeholder("rows")
    y = graph.call_function(torch.mul, (x, 1))
    graph.call_function(operator.setitem, (y, (slice(None), 0), 5.0))
    first = graph.call_function(operator.getitem, (y, 0))
    graph.call_function(operator.setitem, (y, rows, graph.call_function(torch.mul, (first, 2))))
    graph.call_function(operator.setitem, (y, [1, 2], 0.0))
    graph.output((graph.call_function(operator.getitem, (y, [0, 1])), y))
    check_graph(fx.GraphModule({}, graph), program, [parameter(4, 8), torch.tensor([2, 3])])


def test_out_argument():
    check(lambda x, out: (torch.add(x, 1, out=out), out), [torch.randn(4, 8), torch.randn(4, 8)])


def test_shapes_changed_in_place():
    check(lambda x: (x * 1).unsqueeze_(0).transpose_(1, 2).squeeze_(0).mul_(2).contiguous(), [parameter(4, 8)])


@pytest.mark.parametrize("leaves", [True, False])
def test_mutated_inputs_are_copied_back(leaves):
    def program(x, w):
        x.add_(1)
        x[0].mul_(w)
        return x * 2, x.view(-1), x

    x = torch.randn(4, 8, requires_grad=not leaves)
    pair = check(program, [x, parameter(8)], leaves=leaves)
    assert [m.input for m in pair.mutations] == [0]


def test_mutation_through_data():
    check(lambda x: (x.data.mul_(2), x * 3)[1], [torch.randn(4)])


def test_kinds_of_outputs():
    def program(x, n):
        y = x.sin()
        return x, x[0], x.t(), y, y.view(-1), y, x.detach(), y.detach(), x > 0, None, 3, n, n + 1

    check(program, [parameter(4, 8), torch.arange(3)])


def test_output_equal_to_an_input_is_a_copy():
    check(lambda x, y: (x.clone(), y + 0, x.contiguous()), [parameter(4, 8), torch.randn(3)])


def test_expanded_output():
    check(lambda x: x.sum(1, keepdim=True).expand(4, 3), [parameter(4, 8)])


def test_unused_and_integer_inputs_have_no_gradient():
    pair = check(lambda x, w, i: x[i] * 2, [parameter(4, 8), parameter(3), torch.tensor([1, 2])])
    assert pair.gradient_inputs == (0,)


def test_no_grad_region():
    graph = fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    y = graph.call_function(torch.mul, (x, 2))
    graph.call_function(torch._C._set_grad_enabled, (True,))
    z = graph.call_function(torch.mul, (y, w))
    graph.output((z, y))

    def program(x, w):
        with torch.no_grad():
            y = x * 2
        return y * w, y

    check_graph(fx.GraphModule({}, graph), program, [parameter(4), parameter(4)])


def test_without_gradients_there_is_only_a_forward_graph():
    with torch.no_grad():
        pair = check(lambda x, w: x @ w, [parameter(4, 8), parameter(8, 8)])
    assert pair.backward is None and not pair.saved


def test_constants_in_the_program():
    check(lambda x: x * torch.tensor([1.0, 2.0, 3.0]) + torch.arange(3), [parameter(4, 3)])


def test_conversions():
    check(lambda x: x.to(torch.float64).to("cpu").float().to("cpu").half().float(), [parameter(4, 3)], tolerance=1e-3)


def test_custom_function():
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 5 * ctx.saved_tensors[0]

    def scaled(x):
        return Scaled.apply(x)

    graph = fx.Graph()
    x = graph.placeholder("x")
    # fx prints a graph's targets by their modules, and from torch 2.14 on `apply` is a C method, which has none.
    graph.output((graph.call_function(scaled, (graph.call_function(torch.sin, (x,)),)),))
    check_graph(fx.GraphModule({}, graph), lambda x: (Scaled.apply(x.sin()),), [parameter(4)])


def test_storage_offset_of_inputs():
    check(lambda x: (x[1:] * 2, x[0]), [torch.randn(6, 8)[2:].requires_grad_()])


@pytest.mark.parametrize("scalar", [2.5, 3])
def test_varying_numbers_stay_symbolic(scalar):
    pair = check(lambda x, s: (x * s + (s * 2 - 1), x / s, x - s), [parameter(4, 8), scalar])
    operands = [
        a for g in (pair.forward, pair.backward) for n in g.graph.nodes if n.op == "call_function" for a in n.args
    ]
    assert scalar not in [a for a in operands if isinstance(a, (int, float))]


def test_saved_value_of_unforeseen_strides_that_shares_memory_with_an_output():
    """LAPACK's results are column-major where the meta kernel says row-major."""

    def program(x):
        parts = torch.linalg.svd(x, full_matrices=False)
        return parts[0], parts[1], parts[2].t()

    check(program, [parameter(4, 3)], tolerance=1e-3)
