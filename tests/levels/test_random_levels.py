"""Random programs at every level: the printed texts, run by Python, give what the captured graph gives, with its gradients.

Compiled for all sizes they give eager's results and gradients with a row more, too.
"""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "schedule"))

import dynascope
import pytest
import torch
from every_level import checked_levels, outcome, same
from random_loops import RandomProgram

PARTS, PROGRAMS_IN_EACH = 3, 3


@pytest.mark.turns(6)
@pytest.mark.may_break
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("part", range(PARTS))
def test_texts_of_random_programs(part, dynamic):
    for seed in range(part * PROGRAMS_IN_EACH, (part + 1) * PROGRAMS_IN_EACH):
        program = RandomProgram(seed, statements=7, writes=True)
        inputs = tuple(each.detach().requires_grad_(bool(seed + number & 3)) for number, each in enumerate(program.inputs))
        compiled = dynascope.aot(lambda *tensors, p=program: p(*tensors), dynamic=dynamic)
        with checked_levels() as checked:
            compiled(*inputs)
        assert checked, seed
        more = tuple(a_row_more(each) for each in inputs)
        try:
            wanted = outcome(program, more)
        except (RuntimeError, IndexError, ValueError):  # it does not fit the program any more
            continue
        same(outcome(compiled, more), wanted, f"seed {seed}, a row more")


def a_row_more(x):
    more = torch.cat([x, x[:1] * 0.5]) if x.dim() else x
    return more.detach().requires_grad_(x.requires_grad)
