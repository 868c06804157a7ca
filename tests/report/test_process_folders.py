"""Temporary folders do not outlive their processes by more than one start."""

import os
import signal
import subprocess
import sys
import tempfile

import pytest
from dynascope.report.process_folders import process_folder

MADE = """
import os, signal, sys
from dynascope.report.process_folders import process_folder
print(process_folder("dynascope-test-"), flush=True)
if sys.argv[1:]:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)


def made(*arguments):
    result = subprocess.run([sys.executable, "-c", MADE, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode in (0, -signal.SIGKILL), result.stderr
    return result.stdout.strip()


def test_a_folder_goes_with_its_process():
    assert not os.path.exists(made())


def test_one_that_was_left_behind_goes_at_the_next_start(tmp_path):
    left = made("killed")
    other = tmp_path / "dynascope-test-notes"
    other.mkdir()
    assert os.path.isdir(left)
    own = process_folder("dynascope-test-")
    again = process_folder("dynascope-test-")
    assert not os.path.exists(left) and own.is_dir() and again.is_dir() and other.is_dir()
