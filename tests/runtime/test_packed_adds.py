"""Where LLVM adds two positions of a small block in one instruction, ptxas forgets a constant: such kernels are built without its help."""

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.codegen.triton.kernel import Parameter, TritonKernel
from dynascope.runtime import cubins

pytestmark = pytest.mark.gpu

TEXT = """
import triton
import triton.language as tl


@triton.jit
def ones_between(made):
    lane = tl.arange(0, 128)
    row = lane // 6
    column = lane - row * 6
    is_between = (column >= 1) & (column < 4)
    tl.store(made + (6*row + column), tl.where(is_between, tl.full([], 1, tl.int64), tl.full([], 0, tl.int64)), mask=lane < 12)
"""


@pytest.mark.parametrize("columns, left", [(3, 1), (3, 2), (5, 1), (9, 3)])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.int32])
def test_a_few_elements_are_padded(columns, left, dtype):
    def pad(x):
        return F.pad(x.new_ones(2, columns), (left, 2))

    x = torch.ones((), dtype=dtype, device="cuda")
    assert torch.equal(dynascope.compile(pad)(x), pad(x))


def test_a_kernel_with_a_packed_add_is_not_optimized(monkeypatch):
    made, keep = [], cubins._cubin
    monkeypatch.setattr(cubins, "_cubin", lambda kernel, built: made.append(built) or keep(kernel, built))
    kernel = TritonKernel("ones_between", TEXT, (Parameter("made", "*i64", None),), (1, 1, 1), 1, divisors=(("made", 16),))
    cubins.compile_kernel(kernel, cubins.Target(90))
    assert cubins.PACKED_ADD in made[0].asm["ptx"] and made[0].metadata.ptx_options == "--opt-level 0"
