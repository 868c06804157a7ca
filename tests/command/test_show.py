"""`dynascope show STAGE FILE` where there is nothing to show: it says why."""

import subprocess
import sys

import pytest

PROGRAM = """
import torch

@torch.compile(backend=lambda graph, example_inputs: graph.forward)
def f(x):
    return x + 1

f(torch.ones(3))
"""


@pytest.fixture
def show(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)

    def run(stage, target):
        command = [sys.executable, "-m", "dynascope", "show", stage, f"{path}{target}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_a_stage_of_ours_under_another_backend(show):
    done = show("loops", "")
    assert done.returncode == 1 and not done.stdout
    assert "nothing was made at the stage `loops`. Functions compiled: f. Their backend is <lambda>; `loops` is of our own." in done.stderr


def test_a_function_of_another_name(show):
    done = show("torch", "::g")
    assert done.returncode == 1 and done.stderr.strip().endswith("at the stage `torch` of `g`. Functions compiled: f.")
