"""Every example runs under `dynascope run`, prints what it prints without, and what it is about is in the report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.turns(3)
EXAMPLES = Path(__file__).parents[2] / "examples"
ABOUT = {
    "custom_backend": "3 graphs",
    "distributed": "Sequential.forward",
    "dynamic_sizes": "variant 2 of 2",
    "forward_and_backward": "3 graphs",
    "fusion": "1 kernel",
    "graph_breaks": "data-dependent-branch",
    "guards": "variant 4 of 4",
    "plain": "Classifier.forward",
    "quickstart": "data-dependent-branch",
    "train_transformer": "1 graph",
}


def test_every_example_is_here_and_in_the_readme():
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == set(ABOUT)
    readme = (EXAMPLES.parent / "README.md").read_text()
    assert not [name for name in names if f"examples/{name}.py" not in readme]


@pytest.mark.compiler
@pytest.mark.parametrize("name", sorted(ABOUT))
def test_an_example(name):
    command, path = [sys.executable, "-m", "dynascope", "run"], str(EXAMPLES / f"{name}.py")
    surroundings = {**os.environ, "DYNASCOPE_STRICT": "0"}
    done = subprocess.run([*command, path], capture_output=True, text=True, check=False, env=surroundings)
    assert done.returncode == 0, done.stderr
    assert ABOUT[name] in done.stderr and "engine-error" not in done.stderr
    if "custom" not in name and "forward" not in name:
        plain = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True) if name == "plain" else None
        assert done.stdout and (plain is None or plain.stdout == done.stdout)
