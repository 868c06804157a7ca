"""What a new user of the terminal meets: programs that fail, misspelt names, nothing compiled, a pipe that is closed."""

import os
import subprocess
import sys

import pytest
from dynascope.report.costs import duration

pytestmark = pytest.mark.turns(3)

FAILS = """
import torch
from torch import nn

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 4)

    def forward(self, x):
        h = x.relu()
        return self.fc(h)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()

    def forward(self, x):
        y = x.max(1)
        return self.head(x + y.values.sum())

torch.compile(Net())(torch.randn(2, 8))
"""


@pytest.fixture
def dynascope(tmp_path):
    def run(text, command, *words, before=()):
        (tmp_path / "program.py").write_text(text)
        line = [sys.executable, "-m", "dynascope", command, *before, "program.py", *words]
        ordinary = {name: value for name, value in os.environ.items() if name != "DYNASCOPE_STRICT"}
        return subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, env=ordinary)

    return run


def test_the_line_that_raised_is_pythons_and_values_without_words_leave_nothing(dynascope):
    rows = dynascope(FAILS, "run", before=["--annotate"]).stderr.splitlines()
    raised = next(row for row in rows if "return self.fc(h)" in row and row[7:8] == "|")
    assert raised.startswith("E")
    found = next(row for row in rows if "y = x.max(1)" in row)
    assert " ; " not in found and "f32[2]" in found


def test_a_definition_has_the_counts_of_the_summary(dynascope):
    text = "import torch\n@torch.compile\ndef f(x):\n    return x + 1\nf(torch.ones(2)); f(torch.ones(3, dtype=torch.int32))\n"
    rows = dynascope(text, "run", before=["--annotate"]).stderr.splitlines()
    assert any(row.endswith("f: 2 graphs, 2 kernels") or ("def f(x):" in row and row.endswith(" 2 graphs, 2 kernels")) for row in rows)


def test_nothing_compiled_is_a_failure_where_uncompiled_ones_are(dynascope):
    answer = dynascope("print(1)\n", "run", before=["--fail-on", "uncompiled"])
    assert answer.returncode == 1 and "nothing was compiled (--fail-on uncompiled)" in answer.stderr
    assert dynascope("print(1)\n", "run", before=["--fail-on", "break"]).returncode == 0


def test_expected_recompilations_are_said_so(dynascope):
    text = "import torch\n@torch.compile\ndef f(x):\n    return x + 1\nf(torch.ones(2))\nwith torch.no_grad():\n    f(torch.ones(2))\n"
    answer = dynascope(text, "run", before=["--fail-on", "recompile"])
    assert answer.returncode == 0 and "1 recompilation (expected)" in answer.stderr


def test_no_program_may_be_without_arguments():
    done = subprocess.run([sys.executable, "-m", "dynascope", "run"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.strip().endswith("the following arguments are required: FILE")


def test_an_unknown_backend_is_not_the_programs_own_error(dynascope):
    text = "import torch\ntorch.compile(lambda x: x + 1)(torch.ones(2))\n"
    told = " ".join(dynascope(text, "run", before=["--backend", "nosuch"]).stderr.split())
    assert "as it does without Dynascope" not in told and "`dynascope backends` lists them" in told


def test_a_reader_that_has_enough():
    line = f"{sys.executable} -m dynascope show operators | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("aten.") and not done.stderr


def test_an_operator_that_there_is_not():
    command = [sys.executable, "-m", "dynascope", "show", "operators", "nosuch"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "no operator of torch's has `nosuch` in its name" in done.stderr


def test_a_function_that_was_followed_in_another(dynascope, tmp_path):
    (tmp_path / "program.py").write_text(FAILS.replace("nn.Linear(16, 4)", "nn.Linear(8, 4)"))
    command = [sys.executable, "-m", "dynascope", "show", "torch", "program.py::Head.forward"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1 and "`Head.forward` is part of these: Net.forward." in done.stderr
    missing = subprocess.run([*command[:-1], "no.py"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert missing.returncode == 2 and "There is no file `no.py`" in missing.stderr


def test_fix_says_that_the_program_fails_or_compiles_nothing(dynascope):
    assert "the program ended with code 1 after what it had compiled" in dynascope(FAILS, "fix").stderr
    assert "nothing is compiled, so there is no break to mend" in dynascope("print(1)\n", "fix").stderr


def test_what_a_comprehension_made_so_far_is_not_the_whole_list(dynascope):
    text = """
import numpy as np
import torch

@torch.compile
def f(x, kernel):
    rows = x.numpy()
    return np.stack([np.convolve(row, kernel, mode="same") for row in rows])

f(torch.randn(4, 6), np.ones(3) / 3)
"""
    told = " ".join(dynascope(text, "run", before=["--guards"]).stderr.split())
    assert "`[... for row in rows] so far` has" in told and "Mend the break inside the comprehension" in told


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.0009999, "1 ms"), (0.000999, "999 µs"), (0.99996, "1 s"), (2e-7, "0.2 µs"), (0.0021, "2.1 ms")]
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_a_report_goes_into_a_folder_that_is_made_and_what_cannot_be_written_is_said_before_the_run(dynascope, tmp_path):
    made = dynascope("print(1)\n", "run", before=["--output-format", "json", "--output", "new/report.json"])
    assert made.returncode == 0 and (tmp_path / "new" / "report.json").is_file()
    (tmp_path / "file").write_text("")
    refused = dynascope("print(1)\n", "run", before=["--output", "file/report.txt"])
    assert refused.returncode == 2 and "cannot be written" in refused.stderr and not refused.stdout
    assert "Traceback" not in refused.stderr


COMMANDS = ["run", "check", "profile", "fix", "compare", "show torch", "compare-captures", "cache export kernels.zip"]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_file_that_is_not_there_is_told_once_with_what_the_command_takes(tmp_path, monkeypatch, capfd, words):
    from dynascope.command.command_line import main

    monkeypatch.chdir(tmp_path)
    target = "no.py::f" if words == "compare-captures" else "no.py"
    assert main([*words.split(), target]) == 2
    said = capfd.readouterr()
    assert said.err.count("There is no file `no.py`. Name a Python file: dynascope") == 1 and not said.out
    usage = said.err.rpartition("dynascope ")[2]
    assert usage.startswith(" ".join(words.split()[: 2 if words.startswith("cache") else 1])), usage
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", COMMANDS)
def test_a_notebook_is_told_what_to_do_instead(tmp_path, words):
    """Python says of it that `null` is not defined."""
    (tmp_path / "cells.ipynb").write_text('{"cells": [], "metadata": null}')
    target = "cells.ipynb::f" if words == "compare-captures" else "cells.ipynb"
    command = [sys.executable, "-m", "dynascope", *words.split(), target]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2 and not done.stdout, done
    assert "`cells.ipynb` is a notebook" in done.stderr and "%load_ext dynascope" in done.stderr
    assert not (tmp_path / "kernels.zip").exists()
