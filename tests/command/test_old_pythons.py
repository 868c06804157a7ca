"""Pythons that are too old for the engine: one line says so, and the program runs as `python FILE ARGS` runs it."""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import dynascope
import pytest
from dynascope import unserved_python
from dynascope.command import command_line
from dynascope_server.interpreter import engine_command

ENGINE = Path(__file__).parents[2] / "engine"
VERSIONS = ("2.7", "3.6", "3.7", "3.8", "3.9", "3.10")
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
USES = """import sys
import dynascope

@dynascope.compile
def f(x):
    return x + 1

g = dynascope.compile(dynamic=True)(lambda x: x + 2)
dynascope.config.recompile_limit = 3
dynascope.mark_dynamic(f, 0)
with dynascope.expected("print-call"):
    sys.stdout.write("%s %s %s\\n" % (f(1), g(1), sys.argv[1:]))
"""


def starts(python):
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def found(version):
    """On the PATH or of pyenv, one that starts."""
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, PYENV.glob(f"{version}.*/bin/python{version}")))]
    return next((python for python in candidates if python and starts(python)), None)


@pytest.fixture(params=VERSIONS)
def old_python(request):
    python = found(request.param)
    if python is None:
        pytest.skip(f"there is no Python {request.param} here")
    return python


def answer_of(command, folder):
    environment = {**os.environ, "PYTHONPATH": str(ENGINE)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=120)


@pytest.mark.parametrize("words", [["run"], ["run", "--quiet", "--json", "report.py"], ["run", "-m"]], ids=" ".join)
def test_the_program_runs_as_it_was_written(old_python, words, tmp_path):
    (tmp_path / "program.py").write_text(USES)
    file = "program" if "-m" in words else "program.py"
    answer = answer_of([old_python, "-m", "dynascope", *words, file, "--", "--x", "--"], tmp_path)
    assert (answer.returncode, answer.stdout) == (0, "2 3 ['--x', '--']\n")
    (line,) = answer.stderr.splitlines()
    assert "Dynascope compiles from CPython 3.11 on: the program runs as it was written" in line


def test_its_errors_and_exit_codes_are_python_s(old_python, tmp_path):
    (tmp_path / "program.py").write_text("def f():\n    return 1 // 0\nf()\n")
    plain = answer_of([old_python, "program.py"], tmp_path)
    answer = answer_of([old_python, "-m", "dynascope", "run", "program.py"], tmp_path)
    assert answer.returncode == plain.returncode == 1
    assert answer.stderr.splitlines()[1:] == plain.stderr.splitlines()


def test_what_an_editor_starts_says_the_same(old_python, tmp_path):
    (tmp_path / "program.py").write_text("import sys\nsys.stdout.write('ran')\n")
    answer = answer_of(engine_command(old_python, "run", "program.py"), tmp_path)
    assert (answer.returncode, answer.stdout) == (0, "ran")
    assert len(answer.stderr.splitlines()) == 1


def test_a_program_that_imports_dynascope_is_told_once(old_python, tmp_path):
    (tmp_path / "program.py").write_text(USES)
    answer = answer_of([old_python, "program.py"], tmp_path)
    assert (answer.returncode, answer.stdout) == (0, "2 3 []\n")
    assert answer.stderr.count("the program runs as it was written") == 1


@pytest.mark.parametrize("words", [["doctor"], ["check", "program.py"], ["lsp"], ["run"], []], ids=" ".join)
def test_other_commands_say_what_is_needed(old_python, words, tmp_path):
    answer = answer_of([old_python, "-m", "dynascope", *words], tmp_path)
    (line,) = answer.stderr.splitlines()
    assert answer.returncode != 0 and answer.stdout == ""
    assert "Dynascope needs CPython 3.11 or later" in line and "runs as it was written" not in line


def test_the_options_of_run_are_known():
    """Which take a word of their own, as the parser has it."""
    parsers = argparse.ArgumentParser().add_subparsers()
    command_line._add_run(parsers)
    actions = parsers.choices["run"]._actions
    taking = {name for action in actions if action.nargs is None for name in action.option_strings}
    assert taking == unserved_python.WITH_VALUES


def test_the_same_names_are_there():
    assert {*unserved_python.__all__, "__version__"} == set(dynascope.__all__)
    assert sys.version_info >= (3, 11) and dynascope.compile is not unserved_python.compile
