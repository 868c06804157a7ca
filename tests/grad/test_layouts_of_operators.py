"""Predicted layouts are the real ones; `layouts_of_operators.py` asks the whole database."""

import random

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.grad import eager_layouts
from dynascope.grad.tape import Layout, Value
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


def random_subscript(number):
    """A tensor that lies in some order, with dimensions of one element, and indices for some of its dimensions."""
    draw = random.Random(number)
    sizes = [draw.choice([1, 2, 3]) for _ in range(draw.randint(1, 4))]
    tensor = torch.empty(sizes).permute(draw.sample(range(len(sizes)), len(sizes))).unsqueeze(draw.randint(0, len(sizes)))
    shape = [draw.choice([1, 2, 3]) for _ in range(draw.randint(0, 2))]
    indices = [torch.zeros(shape, dtype=torch.long).mT if len(shape) == 2 else torch.zeros(shape, dtype=torch.long) for _ in tensor.shape]
    return tensor, [index if draw.random() < 0.5 else None for index in indices]


def test_indices_among_dimensions_of_one_element():
    def value_of(tensor):
        return Value(Layout(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device))

    def visible(sizes, strides):
        return [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]

    for tensor, indices in map(random_subscript, range(1500)):
        if any(index is not None for index in indices):
            found = torch.ops.aten.index(tensor, indices)
            layout = eager_layouts._index(value_of(tensor), [None if index is None else value_of(index) for index in indices])
            assert visible(layout.sizes, layout.strides) == visible(found.shape, found.stride()), (tensor.stride(), indices)


EMPTY = [torch.empty(4, 0).t(), torch.empty(0, 2)[:, ::2], torch.empty(3, 0, 4).permute(2, 0, 1)]
OF_NO_ELEMENTS = {
    "masked_fill": lambda x: x.masked_fill(x > 0, 0),
    "isin": lambda x: torch.isin(x, 1.0),
    "power of a number": lambda x: 2.0**x,
    "difference": lambda x: 1 - x,
    "copysign": lambda x: torch.copysign(x, x),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "half of it": lambda x: F.gelu(x) * torch.sigmoid(x),
}


@pytest.mark.parametrize("program", OF_NO_ELEMENTS.values(), ids=OF_NO_ELEMENTS)
def test_tensors_without_elements_have_strides_too(program):
    compiled = dynascope.compile(program)
    for x in EMPTY:
        assert compiled(x).stride() == program(x).stride()
