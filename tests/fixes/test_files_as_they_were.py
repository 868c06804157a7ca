"""`fix` reads a file as Python does, and leaves its encoding, its mark and its line ends as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.turns(2)
ENGINE = Path(__file__).parents[2] / "engine"
PROGRAM = """\
import torch


@torch.compile
def f(größe):
    y = größe * 2
    if y.sum() > 0:
        y = y + 1
    return y


f(torch.ones(3))
"""
MENDED = PROGRAM.replace("    if y.sum() > 0:\n        y = y + 1\n", "    y = torch.where(y.sum() > 0, y + 1, y)\n")
FORMS = {
    "unix": lambda text: text.encode(),
    "windows": lambda text: text.replace("\n", "\r\n").encode(),
    "windows with a mark": lambda text: text.replace("\n", "\r\n").encode("utf-8-sig"),
    "latin": lambda text: f"# -*- coding: latin-1 -*-\n{text}".encode("latin-1"),
    "without a last line end": lambda text: text.rstrip("\n").encode(),
}


def fixed(file, *options):
    environment = os.environ | {"PYTHONPATH": str(ENGINE), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "dynascope", "fix", *options, file.name], env=environment, cwd=file.parent,
        capture_output=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_file_keeps_its_form(tmp_path, form):
    file = tmp_path / "program.py"
    file.write_bytes(FORMS[form](PROGRAM))
    done = fixed(file, "--write")
    assert done.returncode == 0, done.stderr.decode()
    assert file.read_bytes() == FORMS[form](MENDED)


def test_a_patch_has_the_line_ends_of_its_file(tmp_path):
    file = tmp_path / "program.py"
    file.write_bytes(FORMS["windows"](PROGRAM))
    patch = fixed(file).stdout
    subprocess.run(["git", "apply", "-"], input=patch, cwd=tmp_path, check=True)
    assert file.read_bytes() == FORMS["windows"](MENDED)


def test_what_python_cannot_read_is_said(tmp_path):
    file = tmp_path / "program.py"
    file.write_text("import torch\n\ndef f(x:\n    return x\n")
    done = fixed(file)
    assert done.returncode == 1
    assert "Python cannot read the program: '(' was never closed" in " ".join(done.stderr.decode().split())
