"""Neovim with the set-up that docs/editors.md gives. `NVIM` names one that is not on the PATH; without any, nothing is tried."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NVIM = os.environ.get("NVIM") or shutil.which("nvim")
PROGRAM = """\
import torch

@torch.compile
def f(x):
    y = torch.tanh(x) * 2
    if y.sum() > 0:
        return y + 1
    return y

print(f(torch.ones(8)))
"""


def test_the_set_up_of_the_page(tmp_path):
    if NVIM is None:
        pytest.skip("there is no Neovim here")
    version = re.search(r"v0\.(\d+)", subprocess.run([NVIM, "--version"], capture_output=True, text=True).stdout)
    if version is None or int(version[1]) < 11:
        pytest.skip("the page is about Neovim 0.11 and later")
    page = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
    found = re.search(r"```lua\n(.*?)```", page, re.DOTALL)
    assert found is not None
    command = tmp_path / "bin" / "dynascope"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dynascope "$@"\n')
    command.chmod(0o755)
    (tmp_path / "init.lua").write_text(found[1])
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")]),
    }
    environment.pop("DYNASCOPE_STRICT", None)
    told = subprocess.run(
        [NVIM, "--headless", "-u", "init.lua", "-l", str(Path(__file__).with_name("neovim.lua")), "program.py"],
        capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=280,
    )  # fmt: skip
    said = (told.stdout + told.stderr).replace("\r", "")
    assert told.returncode == 0, said
    assert "lens: Dynascope: compile and run" in said
    assert re.search(r"lens: 2 graphs · 1 break · \d kernels?", said)
    assert re.search(r"diagnostic: line 6 \[data-dependent-branch\] `if y\.sum\(\) > 0` needs the value of a tensor", said)
    assert re.search(r"hint: line 5 +f32\[8\]", said)
    assert re.search(r"shown: .*\.cpp, cpp", said)
