"""Fourier transforms of operands that are too large to be tried: laid out as those of small ones."""

import itertools

import pytest
import torch
from dynascope.grad import metadata
from dynascope.grad.tape import Value, layout_of

aten = torch.ops.aten


def calls(operand, dimensions):
    if operand.is_complex():
        yield aten._fft_c2c.default, operand, (dimensions, 0, True)
        for last in (2 * operand.shape[dimensions[-1]] - 2, 2 * operand.shape[dimensions[-1]] - 1):
            yield aten._fft_c2r.default, operand, (dimensions, 2, last)
    else:
        yield aten._fft_r2c.default, operand, (dimensions, 0, True)
        yield aten._fft_r2c.default, operand, (dimensions, 1, False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
def test_results_lie_as_torch_lays_them_out(order, dtype, monkeypatch):
    monkeypatch.setattr(metadata, "MOST_TRANSFORMED_BYTES", 0)
    monkeypatch.setattr(metadata, "_MEMORY", {})
    for sizes in ((7, 12, 9), (2, 33, 16), (12, 3, 40)):
        operand = torch.rand(*sizes, dtype=dtype).permute(order)
        for dimensions in ([0], [1], [2], [0, 2], [1, 2], [0, 1, 2]):
            for target, tensor, rest in calls(operand, dimensions):
                (found,) = metadata.output_layouts(target, (Value(layout_of(tensor, tensor.device)), *rest), {})
                theirs = target(tensor, *rest)
                assert (found.sizes, found.strides) == (tuple(theirs.shape), theirs.stride()), (target, sizes, dimensions)
