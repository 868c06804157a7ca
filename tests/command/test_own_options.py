"""Options of a command that looks at a program may stand behind the program, as the README writes them."""

import pytest
from dynascope.command import command_line

READS_ITS_ARGUMENTS = 'import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument("--write")\n'


@pytest.fixture
def parsed(monkeypatch):
    found = []
    for name in command_line.COMMANDS:
        monkeypatch.setitem(command_line.COMMANDS, name, lambda options: found.append(options) or 0)
    return lambda *words: [command_line.main([*words]), found.pop()][1]


def test_behind_the_file_they_are_ours(parsed, tmp_path):
    file = tmp_path / "train.py"
    file.write_text("print(1)\n")
    fix = parsed("fix", str(file), "--write")
    assert fix.write and fix.arguments == []
    compared = parsed("compare", str(file), "--backends", "eager,aot_eager", "--epochs", "2")
    assert compared.backends == "eager,aot_eager" and compared.arguments == ["--epochs", "2"]
    assert parsed("check", str(file), "--backend=inductor").backend == "inductor"
    assert parsed("compare-captures", f"{file}::f", "--output-format", "json").output_format == "json"


def test_what_the_program_names_is_its_own(parsed, tmp_path):
    file = tmp_path / "train.py"
    file.write_text(READS_ITS_ARGUMENTS)
    fix = parsed("fix", str(file), "--write", "out")
    assert not fix.write and fix.arguments == ["--write", "out"]


def test_behind_other_words_and_two_dashes_it_is_the_programs(parsed, tmp_path):
    file = tmp_path / "train.py"
    file.write_text("print(1)\n")
    assert parsed("fix", str(file), "fast", "--write").arguments == ["fast", "--write"]
    assert parsed("fix", str(file), "--", "--write").arguments == ["--write"]
    run = parsed("run", str(file), "--guards")
    assert not run.guards and run.arguments == ["--guards"]


def test_options_between_the_archive_and_the_program(parsed):
    export = parsed("cache", "export", "kernels.zip", "-m", "package.train", "--epochs", "2")
    assert export.module and export.file == "package.train" and export.arguments == ["--epochs", "2"]
    named = parsed("cache", "export", "kernels.zip", "--device", "cpu", "train.py", "--write")
    assert named.device == "cpu" and named.file == "train.py" and named.arguments == ["--write"]
    assert parsed("cache", "export", "kernels.zip").file is None
