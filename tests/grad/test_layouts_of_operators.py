"""Predicted layouts are the real ones; `layouts_of_operators.py` asks the whole database."""

import random

import pytest
import torch
from layouts_of_operators import KNOWN, audit, op_db

NAMES = frozenset(
    [
        "add",
        "mul",
        "where",
        "clamp",
        "masked_fill",
        "pow",
        "copysign",
        "ldexp",
        "logaddexp2",
        "index_add",
        "index_select",
        "gather",
        "scatter",
        "scatter_add",
        "scatter_reduce",
        "normal",
        "svd_lowrank",
        "fft.rfftn",
        "fft.rfft2",
        "fft.hfft2",
        "fft.fftn",
        "linalg.eig",
        "sum",
        "amax",
        "var",
        "any",
        "all",
        "cat",
        "stack",
        "nn.functional.batch_norm",
        "native_batch_norm",
        "nn.functional.conv1d",
        "nn.functional.conv2d",
        "nn.functional.conv_transpose1d",
        "nn.functional.pad",
        "nn.functional.logsigmoid",
        "nn.functional.multilabel_soft_margin_loss",
        "nn.functional.pixel_shuffle",
        "nn.functional.channel_shuffle",
        "nn.functional.max_unpool2d",
        "nn.functional.smooth_l1_loss",
        "nn.functional.mse_loss",
        "nn.functional.huber_loss",
        "nn.functional.nll_loss",
        "nn.functional.cross_entropy",
        "nn.functional.layer_norm",
        "nn.functional.scaled_dot_product_attention",
        "unsafe_chunk",
        "matmul",
        "bmm",
        "cumsum",
        "sort",
        "topk",
        "flip",
        "roll",
        "tril",
        "angle",
        "xlogy",
        "heaviside",
        "logaddexp",
        "mvlgamma",
        "index_fill",
        "nonzero_static",
        "slice_scatter",
        "select_scatter",
        "diagonal_scatter",
        "as_strided_scatter",
        "nn.functional.conv3d",
        "nn.functional.conv_transpose2d",
        "nn.functional.binary_cross_entropy",
        "_native_batch_norm_legit",
    ]
)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.uint8, torch.complex64], ids=str)
def test_layouts(dtype):
    differences: dict[tuple[str, str], str] = {}
    infos = [info for info in op_db if info.name in NAMES and dtype in info.supported_dtypes("cpu")]
    for info in infos:
        audit(info, dtype, 1, differences)
    assert infos
    assert {key: example for key, example in differences.items() if key[0] not in KNOWN} == {}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float64, torch.int32, torch.bool], ids=str)
def test_some_of_the_whole_database(dtype):
    """Others each time; more samples of each, so that broadcasting operands are among them."""
    seed = random.randrange(10**6)
    print("seed", seed)
    differences: dict[tuple[str, str], str] = {}
    infos = [info for info in op_db if dtype in info.supported_dtypes("cpu")]
    for info in random.Random(seed).sample(infos, 8):
        audit(info, dtype, 8, differences)
    assert {key: example for key, example in differences.items() if key[0] not in KNOWN} == {}
