"""Programs on the GPU against eager: devices beside meta tensors, attention kernels, dropout."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.nn.functional as F
from compare import check
from dynascope.runtime import cuda_launch

pytestmark = pytest.mark.gpu


def parameter(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda", dtype=dtype, requires_grad=True)


def test_devices_travel_beside_the_meta_tensors():
    def program(x, w, scale):
        y = (x @ w) * scale + torch.arange(8, device="cuda")
        return y, y.cpu() * 2, torch.zeros(3), y.new_zeros(2)

    pair = check(program, [parameter(4, 8), parameter(8, 8), torch.tensor(2.0)], tolerance=1e-3)
    for node in pair.forward.graph.nodes:
        if node.target is torch.ops.aten.mm.default:
            assert node.meta["device"].type == "cuda"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [True, False])
def test_attention(dtype, causal):
    heads = [parameter(2, 4, 32, 64, dtype=dtype) for _ in range(3)]
    tolerance = 1e-3 if dtype is torch.float32 else 3e-2
    check(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), heads, tolerance=tolerance)


def test_attention_with_a_mask():
    heads = [parameter(2, 4, 32, 64) for _ in range(3)]
    mask = torch.rand(32, 32, device="cuda") > 0.3
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), [*heads, mask], tolerance=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_by_steps_drops_what_eager_drops(dtype):
    """A mask that lies as a table of positions does: no attention kernel takes it."""
    heads = [parameter(2, 4, 12, 8, dtype=dtype) for _ in range(3)]
    bias = torch.randn(12, 12, 4, device="cuda", dtype=dtype).permute(2, 0, 1).unsqueeze(0).expand(2, 4, 12, 12).detach().requires_grad_()
    tolerance = 1e-5 if dtype is torch.float32 else 3e-2
    check(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m, 0.3, scale=1.0), [*heads, bias], tolerance=tolerance)


def test_dropout_draws_the_numbers_of_eager():
    check(lambda x: F.dropout(x, 0.5, True) * 2, [parameter(64, 64)])


@pytest.mark.parametrize("training", [True, False])
def test_convolution_and_batch_norm(training):
    def program(image, kernel, weight, bias, mean, variance):
        return F.relu(F.batch_norm(F.conv2d(image, kernel, padding=1), mean, variance, weight, bias, training))

    statistics = [torch.zeros(4, device="cuda"), torch.ones(4, device="cuda")]
    check(
        program, [parameter(2, 3, 8, 8), parameter(4, 3, 3, 3), parameter(4), parameter(4), *statistics], tolerance=1e-2
    )


def test_layer_norm_and_cross_entropy():
    def program(x, w, b, target):
        return F.cross_entropy(F.layer_norm(x, (16,), w, b), target)

    check(
        program,
        [parameter(8, 16), parameter(16), parameter(16), torch.randint(0, 16, (8,), device="cuda")],
        tolerance=1e-4,
    )


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
def test_a_convolution_is_laid_out_as_cudnn_does(dtype):
    image = parameter(2, 3, 5, 5, dtype=dtype).detach().to(memory_format=torch.channels_last).requires_grad_()
    check(lambda x, w: F.conv2d(x, w), [image, parameter(4, 3, 3, 3, dtype=dtype)], tolerance=3e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_what_batch_norm_saves_outside_training(dtype):
    x, *statistics = torch.randn(3, 4, 5), torch.rand(4), torch.rand(4)
    arguments = [each.to("cuda", dtype) for each in (x, *statistics)]
    call = lambda x, m, v: torch.native_batch_norm(x, None, None, m, v, False, 0.1, 1e-5)  # noqa: E731
    for ours, eager in zip(dynascope.compile(call)(*arguments), call(*arguments), strict=True):
        torch.testing.assert_close(ours, eager)


def test_tensors_at_odd_places_need_no_second_kernels(monkeypatch):
    """`tokens[:, 1:]` begins eight bytes after memory that is aligned: the first call compiled each kernel that reads it twice."""
    again = []
    monkeypatch.setattr(cuda_launch._Plans, "build_unaligned", lambda plans: again.append(plans) or plans.build())
    model = torch.nn.Linear(16, 8, device="cuda")
    whole, targets = torch.randn(8 * 16 + 1, device="cuda"), torch.randint(0, 8, (9,), device="cuda")

    def loss(x, targets):
        return F.cross_entropy(model(x.exp()), targets)

    given = whole[1:].view(8, 16), targets[1:]
    found = []
    for function in (dynascope.compile(loss), loss):
        value = function(*given)
        found.append((value.detach(), *torch.autograd.grad(value, list(model.parameters()))))
    torch.testing.assert_close(*found)
    assert not again


def test_gradients_of_dropout_lie_as_its_own_kernel_lays_them():
    def program(gradient, mask):
        return torch.ops.aten.native_dropout_backward(gradient, mask, 2.0)

    gradient, mask = torch.randn(3, 4, 5, device="cuda").transpose(1, 2), torch.ones(3, 5, 4, dtype=torch.bool, device="cuda")
    found, expected = dynascope.compile(program)(gradient, mask), program(gradient, mask)
    assert found.stride() == expected.stride()
    torch.testing.assert_close(found, expected)


def of_types(table, at):
    return F.embedding(at, table) * 2


def of_distances(table, at):
    return F.embedding(at, table).permute(2, 0, 1) * 2


def of_words(table, at):
    return F.embedding(at, table, padding_idx=0) * 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("function", "rows", "columns"), [(of_types, 2, 768), (of_distances, 32, 12), (of_words, 9000, 64)], ids=lambda each: str(each)[:18]
)
def test_gradients_of_tables_that_many_rows_go_to(function, rows, columns, dtype):
    """Few places, which are sums, and a large table of which one row is read again and again. A second call gives the same bits."""
    table = torch.randn(rows, columns, device="cuda", dtype=dtype)
    at = torch.randint(0, rows, (64, 96), device="cuda") * (torch.rand(64, 96, device="cuda") > 0.6)
    found = []
    compiled = dynascope.compile(function)
    for call in (compiled, compiled, function):
        leaf = table.clone().requires_grad_()
        result = call(leaf, at)
        tangent = torch.randn(result.shape, device="cuda", generator=torch.Generator("cuda").manual_seed(0)).to(dtype)
        found.append(*torch.autograd.grad(result, leaf, tangent))
    ours, again, eager = found
    assert torch.equal(ours, again) and ours.stride() == eager.stride()
    tolerance = 1e-4 if dtype is torch.float32 else 2e-2
    assert (ours.double() - eager.double()).norm() <= tolerance * eager.double().norm()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_a_table_of_halves_are_as_near_as_eagers(dtype):
    """Tokens that come often: a sum that is rounded at each of them moves away."""
    generator = torch.Generator("cuda").manual_seed(0)
    tokens = torch.randint(0, 5000, (8192,), device="cuda", generator=generator)
    tokens[torch.rand(8192, device="cuda", generator=generator) < 0.5] = 7
    tangent = torch.rand(8192, 64, device="cuda", generator=generator).to(dtype)

    def gradient(call, dtype):
        table = torch.zeros(5000, 64, device="cuda", dtype=dtype, requires_grad=True)
        (found,) = torch.autograd.grad(call(table), table, tangent.to(dtype))
        return found.double()

    def looked_up(table):
        return F.embedding(tokens, table) * 1

    exact = gradient(looked_up, torch.float64)
    ours, eagers = ((gradient(call, dtype) - exact).norm() for call in (dynascope.compile(looked_up), looked_up))
    assert ours <= 1.1 * eagers
