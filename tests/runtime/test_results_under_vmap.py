"""What a library gives, laid out anew, where a program asks for the gradients of several tangents at once."""

import torch
from dynascope.runtime.layouts import restrided
from torch.func import vmap


def test_each_row_is_laid_out_anew():
    x = torch.randn(3, 4, 5)
    found = vmap(lambda row: restrided(row, (4, 5), (1, 4), torch.float64) * 2)(x)
    assert torch.equal(found, x.double() * 2)
    strides = []
    vmap(lambda row: strides.append(restrided(row, (4, 5), (1, 4), torch.float32).stride()) or row)(x)
    assert strides == [(1, 4)]
