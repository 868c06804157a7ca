"""Kernels whose sizes vary, at sizes they were not planned for: shorter and longer rows, fewer and more of them, multiples and none."""

from __future__ import annotations

import dynascope
import pytest
import torch
from dynascope import recording
from dynascope.runtime import cuda_launch

pytestmark = pytest.mark.gpu


def normalized(x, dim):
    return (x - x.mean(dim, keepdim=True)) / (x.var(dim, keepdim=True) + 1e-5).sqrt()


PROGRAMS = {
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax of columns": lambda x: torch.softmax(x, 0),
    "norm": lambda x: normalized(x, -1),
    "norm of columns": lambda x: normalized(x, 0),
    "variance": lambda x: torch.var_mean(x, -1),
    "variance of columns": lambda x: torch.var_mean(x, 0),
    "maximum with its place": lambda x: x.max(-1),
    "sum of columns": lambda x: x.sum(0),
    "divergence": lambda x: torch.nn.functional.kl_div(x.log_softmax(-1), x.sigmoid().softmax(-1), reduction="batchmean"),
    "running sums": lambda x: x.sign().cumsum(-1),
    "running sums of columns": lambda x: x.sign().cumsum(0),
    "broadcast": lambda x: x.unsqueeze(1) * x.unsqueeze(0),
}
SIZES = {
    "few long rows": [(4, 200_000), (4, 199_999), (9, 70_001), (3, 12), (64, 262_144), (300, 5000)],
    "many short rows": [(200_000, 20), (199_999, 17), (4096, 3), (7, 16), (262_144, 16), (65_536, 32)],
    "few tall columns": [(65_536, 64), (65_537, 61), (100, 3), (200_000, 48), (3000, 700)],
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("sizes", SIZES)
def test_one_program_at_many_sizes(program, sizes):
    function = PROGRAMS[program]
    compiled = dynascope.compile(function, dynamic=True)
    for size in SIZES[sizes]:
        if program == "broadcast":
            size = size[0] % 211 + 2, size[1] % 1999 + 3
        x = torch.randn(size, device="cuda")
        for _ in range(2):
            torch.testing.assert_close(compiled(x), function(x), rtol=1e-3, atol=1e-4)


def test_sizes_that_are_no_multiples_have_kernels_of_their_own_and_no_graph(monkeypatch):
    built = []
    build = cuda_launch._Plans.build_for_odd
    monkeypatch.setattr(cuda_launch._Plans, "build_for_odd", lambda plans, odd: built.append(sorted(odd)) or build(plans, odd))
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(lambda x: x.sin() + x.t().cos().t(), dynamic=True)
        check_at_odd_sizes(compiled)
    finally:
        recording.use(before)
    assert len(recorder.report().graphs) == 1
    assert built == [[("s0", 1)], [("s0", 1), ("s1", 1)], [("s0", 4)]]


def check_at_odd_sizes(compiled):
    for rows, columns in ((64, 32), (65, 32), (63, 48), (65, 33), (128, 64), (68, 32), (1004, 64)):
        x = torch.randn(rows, columns, device="cuda")
        torch.testing.assert_close(compiled(x), x.sin() + x.cos())


def test_odd_sizes_in_recorded_launches():
    function = lambda x, y: torch.softmax(x * 2 + y, -1).cos()  # noqa: E731
    compiled = dynascope.compile(function, dynamic=True, mode="reduce-overhead")
    for rows, columns in ((64, 32), (65, 33), (64, 33), (65, 32), (64, 32)):
        x, y = torch.randn(rows, columns, device="cuda"), torch.randn(columns, device="cuda")
        for _ in range(4):
            torch.testing.assert_close(compiled(x, y), function(x, y))
