"""Operators that every model uses, through our kernels; `operator_database.py` runs all of torch's database."""

import dynascope
import pytest
import torch
from operator_database import check_operator, operators

NAMES = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "exp",
        "log",
        "sqrt",
        "rsqrt",
        "abs",
        "neg",
        "clamp",
        "where",
        "maximum",
        "minimum",
        "sum",
        "mean",
        "var",
        "std",
        "amax",
        "amin",
        "argmax",
        "prod",
        "any",
        "all",
        "softmax",
        "log_softmax",
        "nn.functional.layer_norm",
        "nn.functional.gelu",
        "nn.functional.silu",
        "nn.functional.relu",
        "nn.functional.linear",
        "nn.functional.embedding",
        "nn.functional.cross_entropy",
        "nn.functional.mse_loss",
        "matmul",
        "bmm",
        "addmm",
        "cat",
        "stack",
        "split",
        "chunk",
        "permute",
        "transpose",
        "reshape",
        "view",
        "expand",
        "squeeze",
        "unsqueeze",
        "flatten",
        "gather",
        "index_select",
        "index_put",
        "scatter_add",
        "masked_fill",
        "tril",
        "triu",
        "cumsum",
        "roll",
        "flip",
        "nn.functional.pad",
        "nn.functional.scaled_dot_product_attention",
        "nn.functional.conv2d",
        "nn.functional.batch_norm",
        "nn.functional.group_norm",
        "nn.functional.max_pool2d",
        "to",
        "clone",
    ]
)

# The database draws the dropout's seed in a function of its own, around the operator.
BREAKS = {"nn.functional.scaled_dot_product_attention": ("foreign-call",)}


@pytest.mark.turns(6)
@pytest.mark.compiler
@pytest.mark.parametrize(
    "info", list(operators(torch.float32, NAMES)), ids=lambda info: f"{info.name}.{info.variant_test_name}"
)
def test_operator(info):
    with dynascope.expected(*BREAKS.get(info.name, ())):
        check_operator(info, torch.float32, samples=1)
