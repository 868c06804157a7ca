"""`mode="max-autotune"` on a GPU: what is faster stays, is right, and is not measured again."""

from __future__ import annotations

from pathlib import Path

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.runtime import measured_products

pytestmark = pytest.mark.gpu


def block(x, w, b, residual):
    return residual + F.relu(F.linear(x, w, b)).square()


def operands(requires_grad: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(0)
    sizes = (200, 128), (256, 128), (256,), (200, 256)
    return [torch.randn(size, dtype=torch.bfloat16, device="cuda", requires_grad=requires_grad) for size in sizes]


@pytest.fixture
def always_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[float]:
    """Every kernel that is tried beats the library. The times that were measured."""
    times: list[float] = []
    measure = measured_products._time

    def noted(run) -> float:
        times.append(measure(run))
        return times[-1]

    monkeypatch.setattr(measured_products, "_time", noted)
    monkeypatch.setattr(measured_products, "GAIN", 1e6)
    monkeypatch.setattr(measured_products, "cache_folder", lambda: tmp_path)
    return times


def kernels(call, *inputs) -> list[str]:
    return [kernel.text for kernel in dynascope.explain(call, *inputs).report.kernels]


@pytest.mark.parametrize("mode", ["max-autotune", "max-autotune-no-cudagraphs"])
def test_the_product_is_part_of_the_kernel(always_wins: list[float], mode: str) -> None:
    inputs = operands()
    call = dynascope.compile(block, mode=mode)
    wanted = block(*(each.double() for each in inputs))
    for _ in range(3):
        error, eagers = ((result.double() - wanted).abs().max() for result in (call(*inputs), block(*inputs)))
        assert error <= 2 * eagers
    (text,) = kernels(call, *inputs)
    assert "tl.dot" in text and len(always_wins) > 2


def test_what_was_found_is_kept(always_wins: list[float]) -> None:
    inputs = operands()
    dynascope.compile(block, mode="max-autotune-no-cudagraphs")(*inputs)
    count = len(always_wins)

    def again(x, w, b, residual):
        return block(x, w, b, residual)

    dynascope.compile(again, mode="max-autotune-no-cudagraphs")(*inputs)
    assert count > 2 and len(always_wins) == count


def test_a_training_step(always_wins: list[float]) -> None:
    found = []
    for call in (block, dynascope.compile(block, mode="max-autotune-no-cudagraphs")):
        inputs = operands(requires_grad=True)
        found.append(torch.autograd.grad(call(*inputs).float().square().mean(), inputs))
    for mine, eagers in zip(*found, strict=True):
        torch.testing.assert_close(mine, eagers, rtol=3e-2, atol=3e-2)


def test_the_library_stays_where_it_is_faster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(measured_products, "GAIN", 0.0)
    monkeypatch.setattr(measured_products, "cache_folder", lambda: tmp_path)
    inputs = operands()
    call = dynascope.compile(block, mode="max-autotune-no-cudagraphs")
    assert torch.equal(call(*inputs), dynascope.compile(block)(*inputs))
    assert not any("tl.dot" in text for text in kernels(call, *inputs))
