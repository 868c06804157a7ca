"""The kernels that attention may use, chosen inside a compiled function."""

import pytest
import torch
from harness import compiled
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

GETTERS = (torch._C._get_math_sdp_enabled, torch._C._get_flash_sdp_enabled, torch._C._get_mem_efficient_sdp_enabled)


def by_math(x):
    with sdpa_kernel(SDPBackend.MATH):
        inside = torch._C._get_flash_sdp_enabled()
        y = F.scaled_dot_product_attention(x, x, x)
    return y, inside, torch._C._get_flash_sdp_enabled()


def by_several(x):
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]):
        return F.scaled_dot_product_attention(x, x, x) * 2


def in_order(x):
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
        inside = torch._C._get_sdp_priority_order()
        y = F.scaled_dot_product_attention(x, x, x)
    return y, inside, torch._C._get_sdp_priority_order()


def order_left(x):
    torch._C._set_sdp_priority_order([4, 3, 2, 1, 0])
    return F.scaled_dot_product_attention(x, x, x)


def left_off(x):
    torch.backends.cuda.enable_flash_sdp(False)
    return F.scaled_dot_product_attention(x, x, x)


@pytest.fixture(autouse=True)
def flags():
    before, order = [getter() for getter in GETTERS], torch._C._get_sdp_priority_order()
    yield
    torch._C._set_sdp_priority_order(order)
    torch.backends.cuda.enable_math_sdp(before[0])
    torch.backends.cuda.enable_flash_sdp(before[1])
    torch.backends.cuda.enable_mem_efficient_sdp(before[2])


@pytest.mark.parametrize("program", [by_math, by_several, left_off, in_order, order_left])
@pytest.mark.parametrize("before", [True, False])
def test_is_one_graph_and_leaves_the_flags_as_eager_does(program, before):
    def play(function):
        torch.backends.cuda.enable_flash_sdp(before)
        torch.backends.cuda.enable_math_sdp(True)
        torch._C._set_sdp_priority_order([1, 2, 0, 3, 4])
        result = function(x)
        return result, [getter() for getter in GETTERS], torch._C._get_sdp_priority_order()

    x = torch.linspace(0, 1, 48).view(1, 2, 6, 4)
    function = compiled(program)
    for _ in range(2):
        torch.testing.assert_close(play(function), play(program))
    assert function.compilation.codes == [] and len(function.graphs) == 1


def test_another_order_before_the_call_is_seen():
    function = compiled(in_order)
    x = torch.linspace(0, 1, 48).view(1, 2, 6, 4)
    for order in ([1, 2, 0, 3, 4], [3, 4, 0, 1, 2]):
        torch._C._set_sdp_priority_order(order)
        torch.testing.assert_close(function(x), in_order(x))
