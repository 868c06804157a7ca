"""Whole programs through the kernels of a GPU, in Triton's interpreter."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("triton") is None:  # not imported: other tests want its interpreter, which is chosen before
    pytest.skip("Triton is not installed", allow_module_level=True)
ROOT = Path(__file__).parent.parent.parent


def test_whole_programs():
    script = Path(__file__).parent / "as_on_a_gpu.py"
    path = os.pathsep.join([str(ROOT / "engine"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.split("\n")[:-1] == [f"{name} equal" for name in ("attention", "SGD", "AdamW", "AdamW by lists", "caches")]
