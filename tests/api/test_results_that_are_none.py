"""Operators whose results are None where nobody asked for them, beside what torch's meta functions say."""

import dynascope
import pytest
import torch


@pytest.mark.compiler
@pytest.mark.parametrize("needed, averaged", [(False, True), (True, True), (True, False)])
def test_attention_without_weights(needed, averaged):
    layer = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()

    def attended(x):
        result, weights = layer(x, x, x, need_weights=needed, average_attn_weights=averaged)
        return result, weights, weights is None

    compiled = dynascope.compile(attended)
    with torch.no_grad():
        for batch, length in ((2, 5), (3, 5), (3, 7), (4, 2)):
            x = torch.randn(batch, length, 16)
            ours, theirs = compiled(x), attended(x)
            torch.testing.assert_close(ours, theirs)
            assert (theirs[1] is None) is not needed
            assert [each.stride() for each in ours[: 1 + needed]] == [each.stride() for each in theirs[: 1 + needed]]
