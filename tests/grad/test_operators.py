"""A few dozen operators of torch's database; `sweep.py` runs them all."""

from __future__ import annotations

import pytest
import torch
from sweep import outcome
from torch.testing._internal.common_methods_invocations import op_db

NAMES = [
    "add",
    "addmm",
    "amax",
    "argmax",
    "baddbmm",
    "bmm",
    "cat",
    "clamp",
    "cumsum",
    "diagonal",
    "div",
    "einsum",
    "embedding",
    "expand",
    "exp",
    "flip",
    "gather",
    "index_add",
    "index_select",
    "kthvalue",
    "lerp",
    "linalg.norm",
    "log_softmax",
    "logsumexp",
    "masked_fill",
    "matmul",
    "max",
    "mean",
    "min",
    "mul",
    "nn.functional.avg_pool2d",
    "nn.functional.batch_norm",
    "nn.functional.conv2d",
    "nn.functional.cross_entropy",
    "nn.functional.gelu",
    "nn.functional.group_norm",
    "nn.functional.interpolate",
    "nn.functional.layer_norm",
    "nn.functional.mse_loss",
    "nn.functional.pad",
    "nn.functional.silu",
    "nn.functional.unfold",
    "norm",
    "permute",
    "pow",
    "prod",
    "repeat",
    "roll",
    "scatter_add",
    "select_scatter",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "stack",
    "std",
    "sub",
    "sum",
    "tanh",
    "topk",
    "tril",
    "unbind",
    "unfold",
    "var",
    "var_mean",
    "where",
]
KNOWN = [info for info in op_db if info.name in NAMES and torch.float32 in info.dtypes]


@pytest.mark.turns(6)
@pytest.mark.parametrize("info", KNOWN, ids=lambda info: f"{info.name}.{info.variant_test_name}".rstrip("."))
def test_operator_equals_eager(info):
    samples = info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd)
    for _, sample in zip(range(2), samples, strict=False):
        assert outcome(info, sample).split(":")[0] in ("equal", "skipped"), outcome(info, sample)
