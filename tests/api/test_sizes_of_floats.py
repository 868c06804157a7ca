"""Sizes that follow from floats that vary, beside sizes that vary: the shapes that Python asks for are those of each call."""

import math

import dynascope
import pytest
import torch
import torch.nn.functional as F

PROGRAMS = {
    "cut at": lambda x, s: x[: int(s)].shape[0],
    "cut at the floor": lambda x, s: x[: math.floor(s) % 8].shape[0],
    "cut from": lambda x, s: x[int(s) :].shape[0],
    "made": lambda x, s: tuple(torch.zeros(round(s) % 64, x.shape[0]).shape),
    "remainder": lambda x, s: (x.new_zeros(int(s) % 3).shape[0], x.new_zeros(x.shape[0]).shape[0]),
    "root": lambda x, s: (x.new_zeros(math.isqrt(int(s)) % 64).shape[0], x.shape[0]),
    "of a size too": lambda x, s: x.new_zeros(int(s * x.shape[0]) % 64).shape[0],
    "given as it is": lambda x, s: torch.arange(0, min(s, 20), 0.5).shape[0] + x.shape[0],
    "scale": lambda x, s: F.interpolate(x[None, None], scale_factor=min(s, 4.0) + 1).shape[-1],
    "of what follows": lambda x, s: (x[: int(s)].repeat(2) * 2).numel(),
}
FLOATS = ([1e10, 2.5, 3.5, 12.0], [0.5, 2.5, 3.5], [2.5, 3.5, 6.5, 1e10], [8.0, 16.0, 3.0, 4.0], [3e10, 2.0, 4.0])


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_shapes(name, dynamic):
    program = PROGRAMS[name]
    for floats in FLOATS:
        compiled = dynascope.compile(program, backend="eager", dynamic=dynamic, options={"recompile_limit": 32})
        for size, number in zip((9, 6, 6, 12), floats, strict=False):
            x = torch.zeros(size)
            assert compiled(x, number) == program(x, number), (floats, number)


def test_floats_that_no_size_follows_from_are_not_fixed():
    made = []

    def counting(graph, example_inputs):
        made.append(graph)
        return graph.forward

    def program(x, s):
        y = (x * s).clamp(max=int(s * 3))
        return y.reshape(y.shape[0] * 2) + y.numel()

    compiled = dynascope.compile(program, backend=counting, dynamic=True)
    for size, number in ((4, 0.5), (6, 1.5), (6, 2.5), (9, 1e6), (3, -2.5)):
        x = torch.rand(size, 2)
        assert torch.equal(compiled(x, number), program(x, number))
    assert len(made) == 1
