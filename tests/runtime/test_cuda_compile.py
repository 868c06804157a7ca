"""Kernels become machine code for a GPU that this machine need not have."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODEGEN = Path(__file__).resolve().parent.parent / "codegen"
ENGINE = Path(__file__).resolve().parent.parent.parent / "engine"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """In a process of its own: other tests here run Triton's interpreter, which is chosen when triton is imported."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    folder = tmp_path_factory.mktemp("cache")
    environment |= {
        "DYNASCOPE_CACHE_DIR": str(folder),
        "TRITON_CACHE_DIR": str(folder / "tritons"),
        "PYTHONPATH": os.pathsep.join([str(ENGINE), str(CODEGEN), *sys.path]),
    }
    command = [sys.executable, str(CODEGEN / "triton_build_all.py")]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280)
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads(answer.stdout), folder


def test_every_pattern_builds(built):
    facts = built[0]["facts"]
    assert len(facts) == 11
    for fact in facts.values():
        assert fact["bytes"] > 1000 and fact["threads"] % 32 == 0


def test_the_launch_interface_is_read_off_the_code(built):
    """Triton 3.6 to 3.8 add two scratch pointers. Another number is no error, but worth knowing."""
    assert {fact["extra"] for fact in built[0]["facts"].values()} == {2}


def test_the_cache_gives_the_same_and_alignment_makes_another(built):
    assert built[0]["again"] and built[0]["odd"]


def test_nothing_kept_is_pickled(built):
    kept = {path.suffix for path in (built[1] / "triton").rglob("*") if path.is_file()}
    # An empty file, by which processes wait for each other, and Python's own of the texts.
    assert kept - {".lock", ".pyc"} == {".json", ".cubin", ".py"}


def test_the_text_is_a_file_for_tracebacks(built):
    path = Path(built[0]["facts"]["softmax"]["path"])
    assert "def softmax(" in path.read_text()


def test_the_compiler_of_torch_stays_out(built):
    assert built[0]["foreign"] == []
