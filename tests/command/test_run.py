"""`dynascope run FILE` against `python FILE`: the program must not notice, and every bad end is said."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dynascope.command.program import environment
from dynascope.report.facts import CompileReport
from dynascope.report.json_format import from_json
from dynascope.report.terminal import Page, report_text

pytestmark = pytest.mark.turns(2)

ENGINE = Path(__file__).parents[2] / "engine"


@pytest.fixture
def run(tmp_path):
    def run_file(text, *arguments, options=(), check=None, timeout=120, name="program.py", environment=(), **others):
        file = tmp_path / name
        file.write_text(text)
        report = tmp_path / "report.json"
        command = [sys.executable, "-m", "dynascope", "run", "--json", str(report), *options, str(file), *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ENGINE), **dict(environment)}
        answer = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=timeout, cwd=tmp_path, **others
        )
        answer.report = json.loads(report.read_text()) if report.exists() else None
        return answer

    return run_file


def plain(text, tmp_path, *arguments):
    file = tmp_path / "program.py"
    file.write_text(text)
    return subprocess.run([sys.executable, str(file), *arguments], capture_output=True, text=True, cwd=tmp_path)


def test_arguments_streams_and_exit_code(run, tmp_path):
    text = "import sys\nprint(sys.argv[1:], __name__, __file__ == sys.argv[0], sys.path[0])\nprint('bad', file=sys.stderr)\nsys.exit(7)\n"
    ours = run(text, "--x", "1", options=["--quiet"])
    theirs = plain(text, tmp_path, "--x", "1")
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert ours.report["program"]["exit_code"] == 7


@pytest.mark.parametrize(
    "given, arrives",
    [
        (["--", "a", "--json"], ["a", "--json"]),
        (["--", "--", "a"], ["--", "a"]),
        (["a", "--", "b"], ["a", "--", "b"]),
        (["--"], []),
    ],
)
def test_one_double_dash_before_the_arguments_is_ours(run, given, arrives):
    answer = run("import sys\nprint(sys.argv[1:])\n", *given, options=["--quiet"])
    assert answer.stdout == f"{arrives}\n"


def test_standard_input_is_the_programs(run):
    assert run("print(input()[::-1])", options=["--quiet"], input="abc\n").stdout == "cba\n"


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    raise ValueError('bad value')\nf()\n",
        "x = (1,\n",
        "import nothing_of_that_name\n",
        "x = " + "(" * 300 + "1" + ")" * 300 + "\n",
        "class E(Exception): pass\ntry:\n    1/0\nexcept Exception as e:\n    raise E('x') from e\n",
    ],
)
def test_tracebacks_are_those_of_python(run, tmp_path, text):
    ours = run(text, options=["--quiet"])
    theirs = plain(text, tmp_path)
    assert ours.returncode == theirs.returncode == 1
    assert ours.stderr == theirs.stderr
    assert ours.report["program"]["error"]["span"]["file"].endswith("program.py")


@pytest.mark.parametrize(
    "text, marked",
    [
        ("x = 1\ny = (1,\n", "("),
        ("groesse = 'e' if else 2\n", "else"),
        ("größe = 'é' if else 2\n", None),
        ("def f(:\n", ":"),
        ("if True:\npass\n", "pass"),
        ("return 1\n", "return 1"),
    ],
)
def test_a_syntax_error_is_marked_where_it_is(run, text, marked):
    answer = run(text)
    error = answer.report["program"]["error"]
    span = error["span"]
    line = text.split("\n")[span["line"] - 1].encode()
    assert "program.py, line" not in error["message"], "the place is beside the message"
    marks = None if span["column"] is None else line[span["column"] : span["end_column"]].decode()
    assert marks == marked


RAISES = """\
import torch

def product(a, b):
    return a @ b

@torch.compile
def stopped(a, b):
    return product(a.relu(), b)

@torch.compile
def recovered(a, b):
    try:
        return a @ b
    except RuntimeError:
        return a * 2

recovered(torch.ones(2, 3), torch.ones(4, 5))
stopped(torch.ones(2, 3), torch.ones(4, 5))
"""


def test_a_call_that_raises_is_one_error_and_no_break(run):
    answer = run(RAISES)
    assert answer.returncode == 1
    assert answer.report["program"]["error"]["span"]["line"] == 4
    frames = [frame["function"] for frame in answer.report["program"]["error"]["stack"]]
    assert frames == ["<module>", "stopped", "product"]
    recovered, stopped = answer.report["functions"]
    assert stopped["entries"][0]["exit"] == recovered["entries"][0]["exit"] == "raise"
    told = run(RAISES, options=["--annotate"]).stderr.partition("never reached")[2]
    assert told.count("error[program-error]") == 1 and "error[torch-call-fails]" not in told
    assert told.count("note[torch-call-fails]") == 1, "the one that the program catches is news"
    assert "note[torch-call-fails]" not in answer.stderr and " 0 breaks" in answer.stderr.partition("Summary")[2]


def test_hard_exit_keeps_the_report(run):
    text = "import os, torch\n@torch.compile\ndef f(x):\n    return x + 1\nf(torch.ones(3))\nos._exit(5)\n"
    answer = run(text, options=["--quiet"])
    assert answer.returncode == 5
    assert answer.report["program"]["exit_code"] == 5
    assert answer.report["functions"][0]["name"] == "f"


def test_crash_of_the_interpreter_is_said(run):
    answer = run("import ctypes\nctypes.string_at(0)\n", options=["--quiet"])
    assert answer.returncode == -signal.SIGSEGV
    assert "SIGSEGV" in answer.stderr


def test_a_program_that_the_system_ended_is_said(run):
    answer = run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", options=["--quiet"])
    assert answer.returncode == -signal.SIGKILL
    assert "ended by SIGKILL" in answer.stderr and "memory" in answer.stderr and "faulthandler" not in answer.stderr


def test_an_error_of_many_lines_is_said_in_one_and_without_who_runs_the_program(run):
    text = "import torch\n\ndef load():\n    torch.nn.Linear(2, 2).load_state_dict({'bias': 1})\n\nload()\n"
    answer = run(text)
    note = answer.report["program"]["error"]
    assert note["message"].startswith("RuntimeError: Error(s) in loading state_dict for Linear: While copying the parameter")
    assert "\n" not in note["message"] and "Missing key" in answer.stderr
    assert [frame["function"] for frame in note["stack"]][:2] == ["<module>", "load"]


def test_time_out_ends_the_whole_tree(run, tmp_path):
    text = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "open('pid', 'w').write(str(p.pid))\n"
        "time.sleep(60)\n"
    )
    start = time.perf_counter()
    answer = run(text, options=["--quiet", "--timeout", "2"])
    assert answer.returncode == 124 and "still running after 2 s" in answer.stderr
    assert time.perf_counter() - start < 30
    assert not is_running((tmp_path / "pid").read_text())


def is_running(process):
    """A process that ended and that nobody has waited for (Z) does not run."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_fork_writes_one_report(run):
    text = "import os\npid = os.fork()\nif pid == 0:\n    raise SystemExit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    answer = run(text, options=["--quiet"])
    assert answer.stdout == "3\n" and answer.returncode == 0
    assert answer.report["program"]["exit_code"] == 0


def test_interrupt_is_python_s(tmp_path):
    file = tmp_path / "program.py"
    # One long sleep would be slept through, in plain Python too, by an interrupt that comes just before it.
    file.write_text("import time\nprint('ready', flush=True)\nfor _ in range(600):\n    time.sleep(0.1)\n")
    command = [sys.executable, "-m", "dynascope", "run", "--quiet", "--json", str(tmp_path / "r.json"), str(file)]
    environment = {**os.environ, "PYTHONPATH": str(ENGINE)}
    program = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    assert program.stdout.readline() == "ready\n"
    os.killpg(program.pid, signal.SIGINT)
    _, errors = program.communicate(timeout=30)
    assert program.returncode == -signal.SIGINT
    assert errors.endswith("KeyboardInterrupt\n") and "dynascope" not in errors


def test_missing_file_is_said(run, tmp_path):
    command = [sys.executable, "-m", "dynascope", "run", "no_such.py"]
    answer = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ENGINE)}, cwd=tmp_path
    )
    assert answer.returncode == 2 and "no file `no_such.py`" in answer.stderr


def test_missing_torch_is_said(tmp_path):
    """An isolated interpreter without site-packages has none."""
    file = tmp_path / "program.py"
    file.write_text("print('never')\n")
    given = {**settings(tmp_path), "file": str(file), "arguments": []}
    command = [sys.executable, "-S", "-c", "from dynascope.command.program import begin; begin()"]
    variables = {**environment(given), "PYTHONPATH": str(ENGINE)}
    answer = subprocess.run(command, capture_output=True, text=True, env=variables)
    assert (
        answer.returncode == 78
        and "has no torch" in answer.stderr
        and "pip install 'torch>=2.11'" in answer.stderr
    )
    assert answer.stdout == ""
    assert json.loads((tmp_path / "report.json").read_text())["notes"][0]["code"] == "missing-torch"


def test_a_torch_of_the_wrong_version_is_said(run, tmp_path):
    site = tmp_path / "site"
    (site / "torch").mkdir(parents=True)
    (site / "torch" / "__init__.py").touch()
    (site / "torch-2.2.0.dist-info").mkdir()
    (site / "torch-2.2.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.2.0\n")
    answer = run("print('as written')\n", environment={"PYTHONPATH": f"{site}{os.pathsep}{ENGINE}"})
    assert (answer.returncode, answer.stdout) == (0, "as written\n")
    (line,) = answer.stderr.splitlines()
    assert "too old to be compiled for (Dynascope works with >=2.11)" in line
    assert f"{sys.executable} -m pip install 'torch>=2.11'" in line
    assert "Nothing was compiled: the program ran as it was written." in report_text(from_json(CompileReport, answer.report), Page())


def settings(folder):
    nothing = dict.fromkeys(("events", "device", "dynamic", "fullgraph", "backend", "cache", "module"))
    return {"report": str(folder / "report.json"), **nothing}


def test_environment_variables_set_before_torch_are_seen(run):
    text = (
        "import os, sys\n"
        "assert 'torch' not in sys.modules\n"
        "os.environ['OMP_NUM_THREADS'] = '1'\n"
        "import torch\n"
        "print(torch.get_num_threads(), torch.compile.__module__)\n"
    )
    assert run(text, options=["--quiet"]).stdout == "1 dynascope.api\n"


def test_megabytes_of_output_arrive(run):
    answer = run("for _ in range(40000):\n    print('x' * 99)\n", options=["--quiet"])
    assert len(answer.stdout) == 4_000_000


def test_two_runs_at_once(run, tmp_path):
    file = tmp_path / "f.py"
    file.write_text(
        "import torch\n@torch.compile\ndef f(x):\n    return torch.relu(x) * 2\nprint(f(torch.ones(3)).tolist())\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ENGINE), "DYNASCOPE_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "dynascope", "run", "--quiet", str(file)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    for program in both:
        output, errors = program.communicate(timeout=120)
        assert (output, errors, program.returncode) == ("[2.0, 2.0, 2.0]\n", "", 0)


FULL_DISK = """\
import errno, os
replace = os.replace
def full(source, target, **others):
    if str(target).startswith(os.environ["DYNASCOPE_CACHE_DIR"]):
        raise OSError(errno.ENOSPC, "No space left on device")
    return replace(source, target, **others)
os.replace = full
"""
def test_a_program_that_asks_for_nothing_where_functions_cannot_be_found(run, tmp_path):
    text = "import torch\ndef f(x):\n    return x + 1\nprint(f(torch.ones(2)).tolist())\n"
    broken = {"CC": "no-such", "DYNASCOPE_CACHE_DIR": str(tmp_path / "cache")}
    answer = run(text, environment=broken)
    assert (answer.returncode, answer.stdout) == (0, "[2.0, 2.0]\n")
    (note,) = answer.report["notes"]
    assert note["code"] == "functions-not-found" and "@torch.compile" in note["remedy"]
    assert "was called with a tensor" not in answer.stderr


PREPARES_DATA = """
import torch
from torch.utils.data import DataLoader

def collate(rows):
    return torch.stack(rows)

def step(x):
    return (x * 2).sum()

print([step(x).item() for x in DataLoader([torch.ones(2)] * 5, 2, collate_fn=collate)])
print(collate([torch.ones(2)]).shape)
"""


def test_what_a_data_loader_calls_runs_as_it_is_written(run):
    answer = run(PREPARES_DATA)
    assert answer.stdout == "[8.0, 8.0, 4.0]\ntorch.Size([1, 2])\n"
    assert [function["name"] for function in answer.report["functions"]] == ["step", "collate"]
    (note,) = [note for note in answer.report["notes"] if note["code"] == "prepares-data"]
    assert note["severity"] == "information" and note["span"]["line"] == 5


BROKEN_MACHINES = {
    "read-only": (
        {"DYNASCOPE_CACHE_DIR": "/proc/nowhere"},
        ["cache folder /proc/nowhere cannot be used", "DYNASCOPE_CACHE_DIR"],
    ),
    "no compiler": ({"CC": "no-such", "CXX": "no-such"}, ["No C++ compiler was found", "apt-get install gcc g++"]),
    "full disk": ({"PYTHONPATH": "{sitecustomize}"}, ["No space left on device", "rm -r"]),
}


@pytest.mark.expects_in_children("kernels-not-built")
@pytest.mark.parametrize("surroundings, words", BROKEN_MACHINES.values(), ids=BROKEN_MACHINES)
def test_a_broken_machine_still_gives_the_right_answer(run, tmp_path, surroundings, words):
    """And says what is broken and how to repair it; nothing is left behind in the cache."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(FULL_DISK)
    cache = tmp_path / "empty-cache"
    path = f"{tmp_path / 'site'}{os.pathsep}{ENGINE}"
    others = {name: value.replace("{sitecustomize}", path) for name, value in surroundings.items()}
    text = "import torch\n@torch.compile\ndef f(x):\n    return torch.relu(x) * 2\nprint(f(torch.ones(3)).tolist())\n"
    answer = run(text, environment={"DYNASCOPE_CACHE_DIR": str(cache), **others})
    assert (answer.stdout, answer.returncode) == ("[2.0, 2.0, 2.0]\n", 0)
    said = " ".join(answer.stderr.split())
    assert all(word in said for word in words), said
    assert (
        not [path for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock"] or "No space" not in said
    )
