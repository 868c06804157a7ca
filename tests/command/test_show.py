"""`dynascope show STAGE FILE`: where there is nothing to show it says why; its options stand before FILE, also after STAGE."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.turns(3)

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

    def run(stage, target, *options):
        command = [sys.executable, "-m", "dynascope", "show", stage, *options, f"{path}{target}"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_a_stage_of_ours_under_another_backend(show):
    done = show("loops", "")
    assert done.returncode == 1 and not done.stdout
    assert "nothing was made at the stage `loops`. Functions compiled: f. Their backend is <lambda>; `loops` is of our own." in done.stderr


def test_a_function_of_another_name(show):
    done = show("torch", "::g")
    assert done.returncode == 1 and done.stderr.strip().endswith("at the stage `torch` of `g`. Functions compiled: f.")


def test_options_between_the_stage_and_the_file(show):
    done = show("torch", "::f", "--dynamic", "--device", "cpu")
    assert done.returncode == 0 and "f32[s0]" in done.stdout, done.stderr


def test_the_graphs_of_all_variants_are_one_program(tmp_path):
    path = tmp_path / "twice.py"
    path.write_text("import torch\n\nf = torch.compile(lambda x: x + 1, backend='eager')\nf(torch.ones(3)), f(torch.ones(3, 2))\n")
    shown = subprocess.run([sys.executable, "-m", "dynascope", "show", "torch", str(path)], capture_output=True, text=True, check=True)
    assert shown.stdout.count("def forward(") == 2
    exec(compile(shown.stdout, "shown", "exec"), {})


def test_an_option_that_show_does_not_have(show):
    done = show("torch", "::f", "--dynamics")
    assert done.returncode == 2 and "unrecognized arguments: --dynamics" in done.stderr


def test_a_module_goes_by_its_class(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(
        "import torch\n\nclass Block(torch.nn.Module):\n    def forward(self, x):\n        return x.sin()\n\n"
        "torch.compile(Block(), backend='eager')(torch.ones(3))\n"
    )
    command = [sys.executable, "-m", "dynascope", "show", "torch", f"{path}::Block"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "sin" in done.stdout, done.stderr
