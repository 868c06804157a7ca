"""What `dynascope run` prints, its formats and options."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXPECTED = "data-dependent-branch", "data-dependent-value", "print-call", "foreign-call", "generator-function", "recompile-limit"
pytestmark = [pytest.mark.expects_in_children(*EXPECTED), pytest.mark.turns(3)]

ENGINE = Path(__file__).parents[2] / "engine"

BREAKS = """\
import sys
import torch

@torch.compile(backend="eager")
def f(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y

print(f(torch.ones(3)).tolist(), f(torch.ones(4)).tolist(), sys.argv[1:])
"""


@pytest.fixture
def run(tmp_path):
    def run_file(text, *options, arguments=(), name="program.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
        command = [sys.executable, "-m", "dynascope", "run", *options]
        command += [name, *arguments] if "-m" not in options else [name[:-3].replace("/", "."), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ENGINE), "COLUMNS": "60"}
        return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, cwd=tmp_path)

    return run_file


def test_what_matters_by_default(run):
    told = run(BREAKS).stderr
    assert "warning[data-dependent-branch]: `if y.sum() > 0` needs the value" in " ".join(told.split())
    assert all(len(line) <= 60 for line in told.splitlines() if "report.json" not in line), "as wide as COLUMNS says"
    assert " --> program.py:7:8\n" in told
    assert "7 |     if y.sum() > 0:\n  |        ^^^^^^^^^^^ the graph breaks here\n" in told
    assert "`y = torch.where(y.sum() > 0, y + 1, y)`" in " ".join(told.split())
    assert "import sys" not in told and "is a float32 tensor" not in told, "neither the source nor the guards"
    assert "2 calls" not in told and "variant 2 of 2: x f32[s0]" in told


def test_guards_and_the_whole_source_where_asked_for(run):
    told = run(BREAKS, "--guards", "--annotate").stderr
    assert "`x` is a float32 tensor of shape [3] on cpu" in told
    assert "C    6 |     y = x * 2" in told and "E    7 |     if y.sum() > 0:" in told
    assert "y f32[s0]" in told


def test_a_line_that_is_never_reached_says_so(run):
    text = """\
    import torch

    @torch.compile(backend="eager")
    def f(x, deep=False):
        if deep:
            x = x * 3
        return x + 1

    f(torch.ones(3))
    """
    told = run("\n".join(line[4:] for line in text.splitlines()), "--annotate").stderr
    assert "-    6 |         x = x * 3" in told and "C    7 |     return x + 1" in told


def test_what_python_runs_behind_a_handled_error_was_reached(run):
    body = "    try:\n        y = viewed(x)\n    except RuntimeError:\n        y = x + 1\n    else:\n        y = x - 1\n    return y\n"
    viewed = "def viewed(x):\n    x = x.view(7)\n    return x\n"
    text = f"import torch\n\n{viewed}\n@torch.compile\ndef f(x):\n{body}\nf(torch.ones(3))\n"
    told = run(text, "--annotate").stderr
    assert "E   12 |         y = x + 1" in told and "E   15 |     return y" in told
    assert "-   14 |         y = x - 1" in told and "-    5 |     return x" in told


@pytest.mark.parametrize("kind, code", [("break", 1), ("recompile", 1), ("uncompiled", 0)])
def test_an_exit_code_for_continuous_integration(run, kind, code):
    answer = run(BREAKS, "--quiet", "--fail-on", kind)
    assert answer.returncode == code
    assert (f"--fail-on {kind}" in answer.stderr) == bool(code)


def test_what_meets_the_limit_runs_uncompiled(run):
    text = """
import torch, dynascope
dynascope.config.recompile_limit = 2

@torch.compile(backend="eager", dynamic=False)
def f(x):
    return x + 1

for size in (2, 3, 4):
    f(torch.ones(size))
"""
    answer = run(text, "--quiet", "--fail-on", "uncompiled")
    assert answer.returncode == 1 and "1 uncompiled function" in answer.stderr
    assert run(text.replace("(2, 3, 4)", "(2, 3)"), "--quiet", "--fail-on", "uncompiled").returncode == 0


def test_several_reasons_to_fail_in_one_word(run):
    answer = run(BREAKS, "--quiet", "--fail-on", "break,recompile")
    assert answer.returncode == 1 and "(--fail-on break, recompile)" in answer.stderr
    answer = run("raise SystemExit", "--fail-on", "break,brake")
    assert answer.returncode == 2 and "'brake' is none of break, recompile, uncompiled" in answer.stderr


def test_the_programs_own_exit_code_comes_first(run):
    assert run(BREAKS + "sys.exit(5)\n", "--fail-on", "break").returncode == 5


def test_sarif(run, tmp_path):
    answer = run(BREAKS, "--output-format", "sarif", "--output", "report.sarif")
    assert answer.returncode == 0
    (sarif,) = json.loads((tmp_path / "report.sarif").read_text())["runs"]
    (result,) = [result for result in sarif["results"] if result["ruleId"] == "data-dependent-branch"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "program.py"
    assert place["region"] == {"startLine": 7, "endLine": 7, "startColumn": 8, "endColumn": 19}
    assert (
        result["level"] == "warning" and sarif["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    )
    rule = sarif["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["shortDescription"]["text"] == "a tensor's value decides which way the program goes"
    assert "Compute both sides" in rule["help"]["markdown"]


def test_a_place_in_sarif_is_a_uri(run):
    sarif = json.loads(run(BREAKS, "--output-format", "sarif", name="größe #1/my program.py").stdout)
    places = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in sarif["runs"][0]["results"]}
    assert places == {"gr%C3%B6%C3%9Fe%20%231/my%20program.py"}


def test_github_names_files_from_the_root_of_the_repository(run, monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path.parent))
    told = run(BREAKS, "--output-format", "github").stdout
    assert f"::warning file={tmp_path.name}/program.py,line=7," in told


@pytest.mark.parametrize("option", ["--output", "--json"])
def test_where_nothing_can_be_written_nothing_is_run(run, tmp_path, option):
    (tmp_path / "taken").write_text("")
    for path in ("taken/report.json", "."):
        answer = run(BREAKS, option, path)
        assert answer.returncode == 2 and answer.stdout == ""
        assert answer.stderr.startswith(f"dynascope: {path} cannot be written: ")
    assert run(BREAKS, option, "new/report.json").returncode == 0 and (tmp_path / "new" / "report.json").stat().st_size


def test_github(run):
    answer = run(BREAKS.replace("y.sum() > 0", "(y % 2).sum() > 0"), "--output-format", "github")
    line = next(line for line in answer.stdout.splitlines() if line.startswith("::warning"))
    assert line.startswith(
        "::warning file=program.py,line=7,endLine=7,col=8,endColumn=25,title=data-dependent-branch::`if (y %25 2).sum()"
    )


def test_html_stands_alone(run, tmp_path):
    run(BREAKS.replace("y.sum() > 0", "0 < y.sum()"), "--output-format", "html", "--output", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!doctype html>") and "if 0 &lt; y.sum():" in page and "the graph breaks here" in page
    assert "--annotate" not in page and "recompiled]" in page, "the page has the source and the notes already"
    told, _, folded = page.partition("guards</summary>")
    assert "Summary" in told and "</details>" in folded and "holds while" in folded and "holds while" not in told
    assert "<script" not in page and "http" not in page and "src=" not in page


def test_the_pictures_of_the_page_lead_to_lines_and_kernels_in_it(run, tmp_path):
    run(BREAKS.replace('(backend="eager")', ""), "--output-format", "html", "--output", "page.html")
    page = (tmp_path / "page.html").read_text()
    led = re.findall(r'href="#([^"]+)"', page)
    assert "k0" in led and any(name.startswith("L") for name in led)
    assert set(led) <= set(re.findall(r'id="([^"]+)"', page))


@pytest.mark.parametrize("form", ["json", "sarif", "html"])
def test_what_the_program_prints_is_no_part_of_the_report(run, form):
    answer = run(BREAKS + "print('printed')\n", "--output-format", form)
    assert "printed" in answer.stderr.splitlines()
    if form == "html":
        assert answer.stdout.startswith("<!doctype html>")
    else:
        assert ("functions" if form == "json" else "runs") in json.loads(answer.stdout)


def test_json_is_the_report(run):
    answer = run(BREAKS, "--output-format", "json")
    assert json.loads(answer.stdout)["functions"][0]["name"] == "f"


def test_an_option_of_ours_after_the_file_is_pointed_out(run):
    answer = run(BREAKS, arguments=["--annotate", "--size", "3"])
    assert "['--annotate', '--size', '3']" in answer.stdout, "it is the program's all the same"
    assert "`--annotate` stands after program.py" in answer.stderr and "`--size`" not in answer.stderr


def test_an_option_that_the_program_knows_is_its_own(run):
    answer = run(BREAKS + "# takes --annotate\n", arguments=["--annotate"])
    assert "stands after" not in answer.stderr


def test_where_nothing_was_compiled_the_reason_is_said(run):
    told = " ".join(run("print(1)\n").stderr.split())
    assert told.startswith("Nothing was compiled: no function in this folder was called with a tensor")
    asked = run("import torch\nf = torch.compile(lambda x: x)\n").stderr
    assert "called nothing that it compiled" in " ".join(asked.split())


def test_a_module(run):
    text = BREAKS + "print(__name__, __package__, __spec__.name, __file__)\n"
    answer = run(text, "-m", name="package/inside.py", arguments=["-v"])
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[0].endswith("['-v']")
    told = answer.stdout.splitlines()[1].split()
    assert told[:3] == ["__main__", "package", "package.inside"] and told[3].endswith("package/inside.py")
    assert "package/inside.py:7:8" in answer.stderr


def test_a_number_on_the_way_has_not_the_name_of_the_tensor(run):
    """`bound / (n + 1)` is computed by the instruction that gives `x` its value."""
    body = "    n = x.sum().item()\n    x = x * (bound / (n + 1))\n    return x\n"
    text = f"import torch\n\n@torch.compile\ndef f(x, bound):\n{body}\nf(torch.ones(3), 2.0)\n"
    told = run(text, "--annotate").stderr
    assert "x f32[3]" in told and "x float" not in told
