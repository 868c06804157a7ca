"""Which operations take tensors of a GPU and of the CPU, asked without a GPU: where eager raises the graph must not go on."""

import pytest
import torch
from dynascope.capture.calls.refusals import single_operator, takes_several_devices

HOST, DEVICE = torch.device("cpu"), torch.device("cuda", 0)
TENSOR, NUMBER, ROW = torch.zeros(3, 4), torch.zeros(()), torch.zeros(4)


@pytest.mark.parametrize(
    ("function", "number", "row"),
    [
        (torch.mul, True, False),
        (torch.Tensor.div_, True, False),
        (torch.where, True, False),
        (torch.Tensor.view, True, False),
        (torch.Tensor.new_zeros, True, False),
        (torch.Tensor.as_strided, True, False),
        (torch.Tensor.expand, True, False),
        (torch.Tensor.copy_, True, True),
        (torch.mm, False, False),
        (torch.gather, False, False),
        (torch.cat, False, False),
        (torch.nn.functional.layer_norm, False, False),
    ],
)
def test_beside_a_tensor_on_a_gpu(function, number, row):
    for other, expected in ((NUMBER, number), (ROW, row)):
        assert takes_several_devices(function, function.__name__, [(DEVICE, TENSOR), (HOST, other)]) is expected


def test_two_gpus_are_refused():
    assert not takes_several_devices(torch.mul, "mul", [(DEVICE, TENSOR), (torch.device("cuda", 1), TENSOR)])


@pytest.mark.parametrize(
    ("function", "single"),
    [(torch._foreach_div_, torch.ops.aten.div_), (torch._foreach_lerp, torch.ops.aten.lerp), (torch.div, None)],
)
def test_an_operator_over_lists_is_asked_for_each_place(function, single):
    assert single_operator(function) is single
