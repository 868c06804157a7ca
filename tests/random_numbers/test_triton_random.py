"""Triton's side of the recipe: its text here; its bits where there is a GPU."""

import re

import pytest
import torch
import torch.nn.functional as F
from dynascope.codegen.triton.emit import emit_triton
from dynascope.grad import GradOptions, differentiate
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ExternCall
from dynascope.random_numbers.operators import draw_seed
from dynascope.random_numbers.philox import uniform_at
from dynascope.schedule.fusion import fuse
from torch import fx

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


def kernels_of(function, *inputs):
    pair = differentiate(fx.symbolic_trace(function), list(inputs), GradOptions(random="device"))
    schedule = fuse(lower(pair.forward, list(inputs)))
    groups = [step for step in schedule.steps if not isinstance(step, ExternCall)]
    return [emit_triton(group, schedule.buffers, None) for group in groups]


def test_dropout_and_residual_share_each_philox_call():
    (kernel,) = kernels_of(lambda x, r: F.dropout(x, 0.5, True) + r, torch.randn(512, 512), torch.randn(512, 512))
    call = re.search(r"random_run\((\w+), tl.full\(\[\], 0, tl.int64\), program \* (\d+), (\d+)\)", kernel.text)
    assert call and call[2] == call[3]
    assert call[1] in {parameter.name for parameter in kernel.parameters if not parameter.is_pointer}
    assert kernel.text.count("tl.philox(") == 1
    assert kernel.text.count("tl.load(") == 2


def test_rows_take_each_number_by_its_place():
    (kernel,) = kernels_of(lambda x: torch.softmax(F.dropout(x, 0.5, True), -1), torch.randn(64, 300))
    assert "random_unit(" in kernel.text
    assert "random_run(" not in kernel.text


def test_kernels_without_random_numbers_have_no_philox():
    (kernel,) = kernels_of(lambda x: x * 2, torch.randn(64))
    assert "philox" not in kernel.text


def on_gpu(function, *inputs):
    import dynascope

    compiled = dynascope.compile(function, options={"random": "device"})
    compiled(*inputs)
    torch.manual_seed(5)
    result = compiled(*inputs)
    torch.manual_seed(5)
    return result, draw_seed(torch.device("cuda", 0))


@needs_gpu
@pytest.mark.parametrize("sizes", [(5,), (4096,), (1000, 1003), (3, 64)])
def test_the_gpu_makes_the_same_bits(sizes):
    found, seed = on_gpu(torch.rand_like, torch.zeros(sizes, device="cuda"))
    assert torch.equal(found.cpu(), uniform_at(seed, 0, torch.arange(found.numel())).view(sizes))


@needs_gpu
def test_the_gpu_makes_the_same_bits_in_rows_and_tiles():
    found, seed = on_gpu(lambda x: (torch.rand_like(x) + x).amax(1), torch.zeros(70, 301, device="cuda"))
    numbers = uniform_at(seed, 0, torch.arange(70 * 301)).view(70, 301)
    assert torch.equal(found.cpu(), numbers.amax(1))
    x, y = torch.zeros(70, 301, device="cuda"), torch.zeros(301, 70, device="cuda")
    found, seed = on_gpu(lambda x, y: torch.rand_like(x) + x + y.t(), x, y)
    numbers = uniform_at(seed, 0, torch.arange(70 * 301)).view(70, 301)
    assert torch.equal(found.cpu(), numbers)


@needs_gpu
def test_the_mask_is_the_same_backward_on_the_gpu():
    import dynascope

    x = (torch.rand(1000, 77, device="cuda") + 1).requires_grad_()
    y = dynascope.compile(lambda x: F.dropout(x, 0.3, True), options={"random": "device"})(x)
    y.sum().backward()
    assert torch.equal(y == 0, x.grad == 0)
    assert 0.68 < (y != 0).float().mean().item() < 0.72
