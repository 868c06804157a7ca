"""`dynascope show trace`: instructions with their places, the symbolic stack, and what each added to graph and guards."""

from __future__ import annotations

import subprocess
import sys

import dynascope
import pytest
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        x = self.fc(x)
        x = F.relu(x)
        return x


def test_each_instruction_has_its_place_stack_and_effects():
    text = dynascope.explain(Net(), torch.randn(2, 128)).show("trace")
    lines = [" ".join(line.split()) for line in text.splitlines()]
    first = Net.forward.__code__.co_firstlineno + 1
    assert any(line.startswith(f"{first}:12-19 LOAD_ATTR fc") and line.endswith("[self]") for line in lines)
    assert "graph relu = relu(linear)" in lines and any(line.startswith("input x: f32[2, 128]") for line in lines)
    counted = [number for number, line in enumerate(lines) if line.endswith(" of libraries")]
    assert counted and not any(lines[number - 1].endswith(" of libraries") for number in counted)
    at = next(number for number, line in enumerate(lines) if "LOAD_ATTR relu" in line)
    assert "linear" not in lines[at - 1]
    called = ("[NULL, relu, linear: f32[2, 10]]", "[relu, NULL, linear: f32[2, 10]]")  # from CPython 3.13 on
    assert any(stack in line for line in lines[at:] for stack in called)
    assert "guard `x` is a float32 tensor of shape [2, 128] on cpu" in lines
    assert "return (relu,)" in text and "def forward(self, x):" in text and "graph(" in text


PROGRAM = """
import torch

@torch.compile
def f(x, found):
    y = x * 2
    found.append(y)
    if y.sum() > 0:
        return y + 1
    return y

f(torch.ones(3), [])
"""


@pytest.mark.expects_in_children("data-dependent-branch")
def test_the_command_shows_the_break_and_the_code_beside(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "dynascope", "show", "trace", f"{path}::f"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "ends here: `if y.sum() > 0` needs the value of a tensor" in done.stdout
    assert "bytecode-beside-rewritten" in done.stdout and "rewritten-python" in done.stdout
    assert " at 0x" not in done.stdout and "TensorBase" not in done.stdout and "y.sum]" not in done.stdout.split("LOAD_ATTR sum")[0]
    assert "__dynascope_1, __dynascope_2 = graph(x)" in done.stdout and ".extend([" in done.stdout and "f_at_line_8(" in done.stdout


def doubled(rows):
    for row in rows:
        yield row, row * 2


def turns(x):
    for number, (row, twice) in enumerate(doubled([x, x + 1])):
        x = x + row.mean() + twice
        print(number)
    return x


@pytest.mark.may_break
def test_an_iterator_that_goes_on_behind_a_break_is_read_back_too():
    shown = dynascope.explain(turns, torch.ones(3)).show("trace")
    assert shown.count("rewritten-python") == shown.count("bytecode-beside-rewritten") == 4 and " = iter(" in shown


@pytest.mark.may_break
def test_to_show_a_list_is_no_look_into_it():
    losses = []

    def kept(x):
        y = x * 2
        losses.append(y.sum())
        return y

    losses.append(torch.ones(()))
    shown = dynascope.explain(kept, torch.ones(3)).show("trace")
    assert "[losses]" in shown and "`losses` is a list" in shown and "has 1 item" not in shown
