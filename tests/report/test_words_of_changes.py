"""What a recompilation says of a value: its name in the program, and nothing of what stands for it inside."""

from __future__ import annotations

import re

import dynascope
import pytest
import torch
from dynascope import recording
from torch import nn

EXPERTS = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))


def recompilations(function, *calls):
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(function, backend="eager")
        for arguments in calls:
            compiled(*arguments)
    finally:
        recording.use(before)
    entries = [entry for function in recorder.report().functions for entry in function.entries]
    return [entry.recompiled for entry in entries if entry.recompiled is not None]


def experts(x, gate):
    out = torch.zeros_like(x)
    for number, expert in enumerate(EXPERTS):
        if (gate == number).sum() == 0:
            continue
        out = out + expert(x)
    return out


@pytest.mark.may_break
def test_an_iterator_across_a_break_is_called_what_the_program_calls_it():
    calls = [(torch.randn(2, 4), torch.tensor(gate)) for gate in ([0, 1], [2, 2], [1, 2], [0, 0])]
    found = recompilations(experts, *calls)
    assert found and not any(re.search(r"__\w+__|continue|@\d|_stack", f"{each.message} {each.remedy}") for each in found), found


def test_an_inference_tensor_is_not_told_to_be_contiguous():
    with torch.inference_mode():
        inference = torch.randn(2, 4)
    (found,) = recompilations(lambda x: x * 2, (torch.randn(2, 4),), (inference,))
    assert "an inference tensor" in found.message and "contiguous" not in found.remedy
