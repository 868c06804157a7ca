"""Division by a number: CUDA's kernels multiply by its inverse, the processor's divide."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope.loops.lower import lower
from dynascope.loops.nodes import Compute, Constant, LoopNode
from recording import record

X = torch.randn(8, 4)


def body_on(device: str, function, *given):
    graph = record(function, list(given))
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device(device)
    (nest,) = [node for node in lower(graph).nodes if isinstance(node, LoopNode)]
    return nest.body


def names(body) -> list[str]:
    return [operation.name for operation in body if isinstance(operation, Compute)]


def test_a_number_on_a_gpu_is_inverted():
    body = body_on("cuda:0", lambda x: x / 41, X)
    assert names(body) == ["multiply"]
    assert [each.value for each in body if isinstance(each, Constant)] == [(torch.tensor(1.0) / 41).item()]
    assert names(body_on("cuda:0", lambda x: torch.div(x, 41, rounding_mode="trunc"), X)) == ["multiply", "truncate"]
    assert names(body_on("cpu", lambda x: x / 41, X)) == ["divide"]


def test_a_tensor_is_a_divisor_everywhere():
    assert names(body_on("cuda:0", lambda x, y: x / y, X, X + 9)) == ["divide"]


def test_what_rounds_down_looks_at_the_remainder():
    """As CUDA's kernel does, which comes to the integer of the exact quotient."""
    assert "floor_divide" in names(body_on("cuda:0", lambda x: torch.div(x, 41, rounding_mode="floor"), X))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64])
def test_quotients_have_eagers_bits(dtype):
    """Of numbers, of those that vary, and of tensors on the processor, by all three ways of rounding that go."""
    x = (torch.randn(4096, device="cuda") * 1000).to(dtype)
    counts = torch.arange(1, 300, device="cuda").to(dtype)

    def divided(x, counts, number, tensor):
        results = [x / number, x / 255, x / tensor, counts / number, 1 / (counts + 1)]
        if dtype in (torch.float32, torch.float64):
            results += [torch.div(counts * 41, 41, rounding_mode="trunc"), torch.div(counts, number, rounding_mode="trunc")]
        return results

    compiled = dynascope.compile(divided)
    for number in (41, 3, 7.5, 49):
        given = x, counts, number, torch.tensor(number * 0.7)
        for ours, eagers in zip(compiled(*given), divided(*given), strict=True):
            near = ours.dtype == torch.float32  # of what no number divides: within a unit
            torch.testing.assert_close(ours, eagers, rtol=1.2e-7 if near else 0, atol=0)
        assert all(torch.equal(ours, eagers) for ours, eagers in zip(compiled(*given)[:4], divided(*given)[:4], strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_number_in_a_tensor_of_the_processor_is_not_rounded_first(dtype):
    """Beside a GPU's tensor of 16 bits it is read in the type that is computed in."""
    x, number = torch.randn(4096, device="cuda").to(dtype), torch.tensor(0.1)

    def with_number(x, number):
        return x * number, number * x, x / number, number / x, x + number, number - x, x * 0.1, x - 0.1

    found = zip(dynascope.compile(with_number)(x, number), with_number(x, number), strict=True)
    assert [torch.equal(ours, eagers) for ours, eagers in found] == [True] * 8


@pytest.mark.parametrize(
    ("dtype", "between"), [(torch.int8, torch.int32), (torch.int16, torch.int32), (torch.uint8, torch.int64)], ids=str
)
def test_floats_become_narrow_integers_by_what_wraps_as_the_librarys_kernel(dtype, between):
    """Bytes without a sign come of 64 bits, what has a sign of 32; a processor's library has other ways."""
    body = body_on("cuda:0", lambda x: x.to(dtype), X)
    assert [operation.dtype for operation in body if isinstance(operation, Compute)] == [between, dtype]
    with pytest.raises(ValueError):
        body_on("cpu", lambda x: x.to(dtype), X)
