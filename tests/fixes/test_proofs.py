"""What is not proved is not offered: other results, other words, another number of calls, a program that never ends."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from dynascope.fixes import outside
from dynascope.proving import mending
from dynascope.proving.asking import Program, Prover, ProverEnded
from dynascope.proving.mending import mend, text_of

ENGINE = Path(__file__).parents[2] / "engine"
pytestmark = pytest.mark.turns(6)


@pytest.fixture(scope="module")
def prover():
    with Prover(seconds=20) as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_left_to_python(monkeypatch):
    """Of edits that compute something else: the one that divides a function computes the same, and mends most of what must stay here."""
    monkeypatch.setattr(outside, "decided_outside", lambda site: None)


@pytest.fixture
def program(tmp_path):
    def write(text, name="program.py"):
        (tmp_path / name).write_text(text)
        return Program(str(tmp_path / name))

    return write


HEAD = "import torch\n\n\n@torch.compile\n"


def test_each_fix_has_its_own_proof(program, prover):
    body = "    y = x * 2\n    print('so far')\n    if y.max() > 3:\n        y = y + 1\n    return y\n"
    mended = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover)
    assert [fix.findings[0].code for fix in mended.fixes] == ["print-call", "data-dependent-branch"]
    assert [fix.proof.breaks for fix in mended.fixes] == [(2, 1), (2, 1)]
    assert mended.proof.breaks == (2, 0) and mended.proof.words().endswith("results equal on 1 call")
    assert not mended.left


def test_what_the_graph_computes_as_a_number_is_no_break(program, prover):
    mended = mend(program(HEAD + "def f(x):\n    return x / (x * 2).max().item()\n\n\nf(torch.ones(3))\n"), prover)
    assert not mended.trouble and not mended.fixes and not mended.left


def test_numbers_that_are_returned_stay_numbers(program, prover):
    """More of them than a graph gives one by one."""
    mended = mend(program(HEAD + "def f(x):\n    return (x * 2).tolist()\n\n\nf(torch.ones(100))\n"), prover)
    assert (
        not mended.fixes and not mended.texts and [finding.code for finding in mended.left] == ["data-dependent-value"]
    )


def test_what_writes_to_its_argument_on_one_side_only(program, prover):
    """`x += 1` changes the caller's tensor, `x = torch.where(...)` does not."""
    text = HEAD + "def f(x):\n    if x.sum() > 0:\n        x += 1\n    return x * 2\n\n\nf(torch.ones(3))\n"
    assert not mend(program(text), prover).texts


UNSAFE = {
    "a root": (
        "    if x.min() > 0:\n        y = torch.sqrt(x)\n    else:\n        y = x * 0\n    return y\n",
        "torch.sqrt(torch.where(chosen, x, 1))",
    ),
    "a quotient": ("    n = x.norm()\n    if n > 0:\n        x = x / n\n    return x\n", "x / torch.where(n > 0, n, 1)"),
    "the other side": (
        "    n = x.abs().sum()\n    if n == 0:\n        return x\n    return x / n\n",
        "x / torch.where(n == 0, 1, n)",
    ),
    "an expression": (
        "    return torch.log(x).sum() if x.min() > 0 else x.sum() * 0\n",
        "torch.log(torch.where(x.min() > 0, x, 1)).sum()",
    ),
}


@pytest.mark.parametrize("given", ["torch.zeros(3, requires_grad=True)", "torch.ones(3)"])
@pytest.mark.parametrize("case", UNSAFE)
def test_the_side_that_is_not_taken_has_an_infinite_gradient(program, prover, case, given):
    """Zero times that is NaN. The program itself may take no gradient, and never come to where it matters."""
    body, safe = UNSAFE[case]
    end = ".sum().backward()" if "grad" in given else ""
    (text,) = mend(program(f"{HEAD}def f(x):\n{body}\n\nf({given}){end}\n"), prover).texts.values()
    assert safe in text


@pytest.mark.parametrize(
    "body, expected",
    [
        ("return x * math.exp(x.mean())", "torch.exp(x.mean()).detach()"),
        ("return x * min(math.exp(x.mean()), 9.0)", "min(torch.exp(x.mean()).detach(), 9.0)"),
        ("return torch.tensor([math.sin(x.mean()), 1.0])", "torch.tensor([torch.sin(x.mean()), 1.0])"),
        ("return x * math.exp(model.weight.mean()) + model(x)", "torch.exp(model.weight.mean()).detach()"),
    ],
)
def test_a_number_led_no_gradient(program, prover, body, expected):
    """The program takes none; whoever does would get another one."""
    text = f"import math\n{HEAD}def f(x):\n    {body}\n\n\nmodel = torch.nn.Linear(3, 3)\nf(torch.ones(3))\n"
    mended = mend(program(text), prover)
    assert expected in str(mended.texts) and not mended.left


def test_values_where_an_edit_answers_otherwise(program, prover):
    """Only numbers on the other side of the branch tell that they are not alike."""
    text = HEAD + "def f(x):\n    if x.sum() > 0:\n        return x * 2\n    return x * 3\n\n\nf(torch.ones(3))\n"
    there = program(text)
    before, after = prover.tried(there, {}), prover.tried(there, {there.file: text.replace("* 3", "* 4")})
    assert any("other signs" in name for name in prover.compared(before, after)["kept"])
    after = prover.tried(there, {there.file: text.replace("x * 3", "x[5]")})
    assert any("other signs" in name for name in prover.compared(before, after)["kept"])


def test_a_loss_that_is_not_a_number_may_not_be_chosen_away(program, prover):
    """What it was computed from would get a gradient of NaN, which the branch keeps from it."""
    body = "    loss = (x * w).sum()\n    if torch.isnan(loss):\n        loss = torch.zeros(())\n    return loss\n"
    mended = mend(program(f"{HEAD}def f(x, w):\n{body}\n\nf(torch.ones(3), torch.ones(3))\n"), prover)
    assert not mended.texts and [finding.code for finding in mended.left] == ["data-dependent-branch"]


def test_a_call_with_other_values_that_never_ends(program, prover):
    """It says nothing, and the fix is proved by the others."""
    body = "    while x.max() > 8:\n        x = x / 2\n    print('done')\n    return x\n"
    mended = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover)
    assert "print-call" not in [finding.code for finding in mended.left] and mended.texts


def test_a_program_that_differs_from_run_to_run(program, prover):
    text = (
        "import os\n"
        + HEAD
        + "def f(x):\n    print('now')\n    return x * 2\n\n\nf(torch.full((3,), float(os.getpid())))\n"
    )
    assert "not alike" in mend(program(text), prover).trouble


def test_random_numbers_begin_alike(program, prover):
    text = HEAD + "def f(x):\n    print('now')\n    return x * torch.rand(3)\n\n\nprint(f(torch.randn(3)))\n"
    assert mend(program(text), prover).proof.breaks == (1, 0)


def test_a_program_that_never_ends(program, tmp_path):
    with Prover(seconds=2) as impatient:
        assert "longer than" in mend(program("while True:\n    pass\n"), impatient).trouble
        assert mend(program(HEAD + "def f(x):\n    return x\n\n\nf(torch.ones(3))\n"), impatient).trouble == ""


def test_an_edit_is_not_waited_for_much_longer_than_the_program_runs(program, prover, monkeypatch):
    there = program(f"{HEAD}def f(x):\n    print('so far')\n    return x * 2\n\n\nf(torch.ones(3))\n")
    with monkeypatch.context() as patch:
        patch.setattr(mending, "LEAST_SECONDS", 0.0)
        patch.setattr(mending, "SLOWER", 0)
        assert not mend(there, prover).texts and prover.limit == 0
    assert mend(there, prover).texts and prover.limit <= prover.seconds


def test_a_trial_ends_with_its_prover(program, tmp_path):
    there = program(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()) + '.')\ntime.sleep(600)\n"
    )
    with Prover(seconds=600) as prover:
        asked = threading.Thread(target=_tried, args=(prover, there))
        asked.start()
        deadline = time.monotonic() + 60
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().endswith("."):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        prover.process.terminate()
        asked.join(60)
    trial = int((tmp_path / "pid").read_text()[:-1])
    while Path(f"/proc/{trial}").exists() and "Z" not in Path(f"/proc/{trial}/stat").read_text().rpartition(")")[2][:3]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _tried(prover, program):
    with contextlib.suppress(ProverEnded):
        prover.tried(program, {})


def test_breaks_in_a_module_that_the_program_imports(program, prover):
    model = program(
        "from torch import nn\n\n\nclass M(nn.Module):\n    def forward(self, x):\n        print('in')\n        return x * 2\n",
        "part.py",
    )
    mended = mend(program("import torch\nfrom part import M\n\ntorch.compile(M())(torch.ones(3))\n"), prover)
    assert list(mended.texts) == [model.file]
    assert mended.texts[model.file].startswith("import torch\nfrom torch import nn\n")
    assert "print" in text_of({}, model.file), "the file itself is as it was"


def test_texts_that_are_not_saved(program, prover):
    there = program(HEAD + "def f(x):\n    return x * 2\n\n\nf(torch.ones(3))\n")
    present = text_of({}, there.file).replace("    return", "    print('new')\n    return")
    assert mend(there, prover, {there.file: present}).proof.breaks == (1, 0)


AGAIN = HEAD + "def f(x):\n    return x * 2\n\n\nfor size in (3, 4):\n    f(torch.ones(size))\n"


def test_one_compilation_for_all_sizes_is_offered_and_not_made_unasked(program, prover):
    mended = mend(program(AGAIN), prover)
    assert [fix.proof.words() for fix in mended.fixes] == [
        "1 graph instead of 2, no recompilation instead of 1; results equal on 2 calls"
    ]
    assert not mended.texts
    assert "@torch.compile(dynamic=True)" in str(mend(program(AGAIN), prover, recompilations=True).texts)


@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("torch.compile(g)", "torch.compile(g, dynamic=True)"),
        ("torch.compile(g, )", "torch.compile(g, dynamic=True)"),
        ("torch.compile(\n    g,  # the model\n)", "torch.compile(\n    g,  # the model\ndynamic=True)"),
    ],
)
def test_where_the_compiler_is_called(program, prover, written, made):
    text = f"import torch\n\n\ndef g(x):\n    return x * 2\n\n\nf = {written}\nfor size in (3, 4):\n    f(torch.ones(size))\n"
    (changed,) = mend(program(text), prover, recompilations=True).texts.values()
    assert changed == text.replace(written, made)


CHECKED = (
    "import binascii\n" + HEAD + "def f(x):\n    y = x * 2\n"
    "    n = torch.tensor([binascii.crc32(str(v).encode()) % 5 for v in y.tolist()])\n    return y + n\n\n\n"
)


def test_an_operator_whose_fake_says_something_else_is_not_offered(program, prover):
    """Eager never asks the fake, so that equal results alone prove nothing of it: here it would say float32."""
    mended = mend(program(CHECKED + "f(torch.rand(4))\n"), prover)
    assert "torch.int64" in mended.fixes[0].fix.title and mended.proof.breaks == (2, 0)


def test_an_operator_of_the_programs_own_with_a_wrong_fake_is_said(program, prover):
    text = (
        'import torch\n\n\n@torch.library.custom_op("mine::twice", mutates_args=())\ndef twice(x: torch.Tensor) -> torch.Tensor:\n'
        "    return x * 2\n\n\n@twice.register_fake\ndef _(x):\n    return x.new_empty(())\n\n\nprint(twice(torch.ones(3)))\n"
    )
    assert "the fake of" in mend(program(text), prover).trouble


def test_a_gradient_that_goes_is_another_result(program, prover):
    """No backward pass is taken here, and the loss would be seen in the first that is."""
    text = HEAD + "def f(x):\n    y = x * 2\n    print(y.sum() > 0)\n    return y\n\n\nf(torch.ones(3, requires_grad=True))\n"
    there = program(text)
    before = prover.tried(there, {})
    after = prover.tried(there, {there.file: text.replace("return y\n", "return y.detach()\n")})
    assert "gradient" in prover.compared(before, after)["why"]


def test_what_is_read_after_the_write_stays_shared(program, prover):
    text = (
        HEAD + "def f(state, window):\n    state.mul_(0.5)\n    return window.sum()\n\n\n"
        "state = torch.ones(8)\nprint(f(state, state[2:6]))\n"
    )
    mended = mend(program(text), prover)
    assert not mended.texts and mended.left[0].code == "aliased-mutation"


def test_what_others_call_keeps_its_parameters(program, prover):
    """`apply` calls it with what it always took."""
    text = (
        "import os\n" + HEAD + "def f(x):\n    y = x * 2\n    return y / os.cpu_count()\n\n\n"
        "def apply(function):\n    return function(torch.ones(3))\n\n\napply(f)\n"
    )
    assert not mend(program(text), prover).texts


def test_an_edit_that_mends_nothing_is_not_made(program, prover):
    """`torch.isnan(loss)` in place of `math.isnan(loss)` breaks as well where nothing is returned for it."""
    text = (
        "import math\n" + HEAD + "def f(x):\n    loss = (x * 2).sum()\n    if math.isnan(loss):\n        return None\n"
        "    print('so far')\n    return loss\n\n\nf(torch.ones(3))\n"
    )
    mended = mend(program(text), prover, each=False)
    assert [(one.line, one.title) for one in mended.made] == [(10, "Run this only where nothing is compiled")]
    assert "math.isnan(loss)" in str(mended.texts) and mended.proof.breaks == (2, 1)


def test_what_the_program_keeps_is_compared(program, prover):
    text = HEAD + "def f(x):\n    global last\n    last = x.sum().item()\n    return x * 2\n\n\nlast = 0.0\nf(torch.ones(3))\n"
    there = program(text)
    before, after = prover.tried(there, {}), prover.tried(there, {there.file: text.replace("x.sum()", "x.max()")})
    assert prover.compared(before, after)["kept"] == ["last"] and not prover.compared(before, after)["why"]


@pytest.mark.parametrize(
    "first, then, otherwise, made",
    [
        ("0.5", "y.sum().item()", "", "torch.where(is_chosen, y.sum().double(), best).item()"),
        ("float('inf')", "float(y.sum())", "", "torch.where(is_chosen, y.sum().double(), best).item()"),
        ("1.0", "best * 0.3", "", "torch.where(\n        is_chosen, torch.tensor(best * 0.3, dtype=torch.float64), best\n    ).item()"),
        ("1", "best + 1", "0", "torch.where(is_chosen, best + 1, 0).item()"),
        ("0", "y.sum().item()", "", None),
        ("None", "y.sum().item()", "", None),
        ("torch.zeros(())", "1.0", "", None),
    ],
)
def test_numbers_that_a_branch_keeps_stay_the_numbers_they_are(program, prover, first, then, otherwise, made):
    text = (
        HEAD + f"def f(x):\n    global best\n    y = x * 2\n    if y.sum() > 1:\n        best = {then}\n"
        + (f"    else:\n        best = {otherwise}\n" if otherwise else "")
        + f"    return y\n\n\nbest = {first}\nfor value in (0.1, 0.3, 0.2, -1.0):\n    f(torch.full((3,), value))\n    print(repr(best))\n"
    )
    mended = mend(program(text), prover, each=False)
    assert (made in "".join(mended.texts.values())) if made else not mended.texts
    assert (mended.proof is not None and mended.proof.breaks == (1, 0)) == bool(made)


def command(folder, *words, **others):
    environment = {**os.environ, "PYTHONPATH": str(ENGINE)}
    line = [sys.executable, "-m", "dynascope", "fix", *words]
    return subprocess.run(line, capture_output=True, text=True, env=environment, cwd=folder, timeout=200, **others)


def test_the_command_prints_a_patch_then_writes(program, tmp_path):
    file = program(HEAD + "def f(x):\n    print('so far')\n    return x * 2\n\n\nf(torch.ones(3))\n").file
    answer = command(tmp_path, "program.py")
    assert (
        answer.returncode == 0 and "-    print('so far')\n+    if not torch.compiler.is_compiling():\n" in answer.stdout
    )
    assert "no break instead of 1; results equal on 1 call" in answer.stderr
    assert "program.py:6: Run this only where nothing is compiled.\n" in answer.stderr
    assert "is_compiling" not in Path(file).read_text()
    (fix,) = json.loads(command(tmp_path, "--json", "program.py").stdout)["fixes"]
    assert fix["codes"] == ["print-call"] and fix["edits"][0]["line"] == 6
    assert command(tmp_path, "--write", "program.py").returncode == 0
    assert "    if not torch.compiler.is_compiling():\n        print('so far')\n" in Path(file).read_text()
    assert "there is no break to mend" in command(tmp_path, "program.py").stderr


PRINTS_AND_ENDS = """
@torch.compile
def f(x):
    if x.sum() > 0:
        return x * 2
    return x

f(torch.ones(3))
rows()
"""


def test_the_command_without_a_file_or_with_one_that_fails(program, tmp_path):
    assert command(tmp_path, "missing.py").returncode == 2
    program("raise ValueError('no data')\n")
    answer = command(tmp_path, "program.py")
    assert (answer.returncode, answer.stdout) == (1, "") and "ended with code 1 before anything was compiled" in answer.stderr
    assert "(ValueError: no data at program.py:1)" in answer.stderr
    program("import torch\n\ndef rows():\n    return {}['x']\n\n" + PRINTS_AND_ENDS)
    answer = command(tmp_path, "program.py")
    assert "would mend" in answer.stderr
    assert "ends with KeyError: 'x' at program.py:4: what would come after was not tried" in answer.stderr


def test_a_shortcut_that_no_call_takes_stays(program, prover):
    """What would be left out shows nothing of what it does: then nothing is proved."""
    body = "    kept = x.abs() + 1 > 0\n    if kept.sum() == 0:\n        return x * 5\n    return x[kept] * 2\n"
    assert not mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover).texts


def test_a_shortcut_where_nothing_is_selected_is_left_out_and_still_told(program, prover):
    body = "    kept = x > 0\n    if not kept.any():\n        print('none')\n        return x[:0]\n    return x[kept] * 2\n"
    mended = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover)
    (text,) = mended.texts.values()
    assert not mended.left and "if not torch.compiler.is_compiling() and not kept.any():\n        print('none')\n    return x[kept]" in text


def test_a_shortcut_that_gives_something_else_stays(program, prover):
    body = "    kept = x > 0\n    if kept.sum() == 0:\n        return x * 0\n    return x[kept] * 2\n"
    assert not mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover).texts


@pytest.mark.parametrize("turns", [16, 17])
def test_a_loop_that_converges_takes_every_turn_of_a_few(program, prover, turns):
    body = (
        f"    y = x\n    for _ in range({turns}):\n        better = (y + x / y) / 2\n"
        "        if (better - y).abs().max() < 1e-3:\n            break\n        y = better\n    return y\n"
    )
    mended = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.tensor([4.0, 9.0]))\n"), prover)
    assert ("y = torch.where(is_done, y, better)" in str(mended.texts)) is (turns == 16)


def test_a_loop_whose_value_is_first_given_inside_stays(program, prover):
    body = "    for _ in range(3):\n        y = x * 2\n        if y.sum() > 0:\n            break\n        x = y\n    return y\n"
    assert not mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover).texts


def test_a_branch_may_tell_something_before_it_gives_values(program, prover):
    body = "    if (x > 20).any() or x.isnan().any():\n        print('large', x.shape)\n        x = x.clamp(max=20)\n    return x * 2\n"
    (text,) = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover).texts.values()
    assert "is_compiling() and ((x > 20).any() or x.isnan().any()):\n        print('large', x.shape)\n    x = torch.where(" in text


def test_the_number_that_decides_is_a_tensor_again(program, prover):
    body = "    if x.mean().item() < 0.1:\n        x = x + 1\n    return x * 2\n"
    (text,) = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover).texts.values()
    assert "torch.where(x.mean().double() < 0.1, x + 1, x)" in text


@pytest.mark.parametrize(
    "condition, chosen, result, taken, asked",
    [
        # Fewer bits than Python's answer alike, and nothing else is asked.
        ("n > 1 and n < 9", "x * 2", "x", "n = x.norm()\n", "torch.logical_and(n > 1, n < 9)"),
        ("n > 0.1 and n < 9", "x * 2", "x", "n = x.norm().double()\n", "torch.logical_and(n > 0.1, n < 9)"),
        ("1 < n < 9", "x * 2", "x", "n = x.norm()\n", "torch.logical_and(1 < n, n < 9)"),
        # The number led no gradient.
        ("n > 1 and not n > 9", "x / n", "x", "n = x.norm().detach().double()\n", "torch.logical_and(n > 1, torch.logical_not(n > 9))"),
        # It goes elsewhere too, as a number.
        ("n > 1 and n < 9", "x * 2", "x, n", "n = x.norm().item()\n", "torch.tensor(n, dtype=torch.float64) > 1"),
    ],
)
def test_a_number_that_only_decides_stays_a_tensor(program, prover, condition, chosen, result, taken, asked):
    body = f"    n = x.norm().item()\n    if {condition}:\n        x = {chosen}\n    y = x + 1\n    return y * {result}\n"
    text = f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\nf(torch.zeros(3))\n"
    (text,) = mend(program(text), prover).texts.values()
    assert taken in text and asked in " ".join(text.split()).replace("( ", "(").replace(", )", ")"), text


def test_comments_stay_and_lines_stay_short(program, prover):
    """What is about a line alone, such as `noqa`, goes with it."""
    first = "x * NAMES[\"a\"] + x.shape[-1] / 4  # 'quoted'"
    given = f"        # scale it\n        x = {first}\n        x = x - 1 * (x * NAMES[\"a\"])  # of all\n"
    body = f"    if x.max() > 0:  # noqa: E501\n{given}    return x\n"
    (text,) = mend(program(f'{HEAD}def f(x):\n{body}\n\nNAMES = {{"a": 2}}\nf(torch.ones(3))\nf(-torch.ones(3))\n'), prover).texts.values()
    rows = text.splitlines()
    at = rows.index("    # scale it")
    assert rows[at + 1] == "    # 'quoted'" and "noqa" not in text and text.count("# of all") == 1
    assert 'x * NAMES["a"]' in text and max(map(len, rows)) <= 88


def test_a_chain_of_numbers_stays_numbers(program, prover):
    body = "    if x.max() > 9:\n        dt = dt * 0.5\n    elif x.max() < 2:\n        dt = dt * 2\n    return x * dt, dt\n"
    mended = mend(program(f"{HEAD}def f(x, dt):\n{body}\n\nf(torch.ones(3), 0.1)\nf(torch.ones(3) * 10, 0.1)\n"), prover)
    assert not mended.left and mended.proof.calls == 2


def test_an_error_of_the_same_class_is_not_told_as_another(program, prover):
    """One that the program may catch is not taken for granted."""
    checked = "        if x.isnan().any():\n            raise RuntimeError('not a number')\n"
    body = f"    try:\n{checked}    except ValueError:\n        pass\n    return x * 2\n"
    (fix,) = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover).fixes
    assert fix.fix.title == "Check inside the graph"


@pytest.mark.parametrize("result", ["x.numpy() * 3", "x.numpy().sum() * 3", "np.float64(x.sum()) * 3"])
def test_what_numpy_gives_is_compared_by_its_values(program, prover, result):
    text = f"import numpy as np\n{HEAD}def f(x):\n    print('now')\n    return {result}\n\n\nf(torch.ones(3))\n"
    there = program(text)
    before, after = mend(there, prover).proof.breaks
    assert after == before - 1
    before, after = prover.tried(there, {}), prover.tried(there, {there.file: text.replace("* 3", "* 4")})
    assert prover.compared(before, after)["why"]


def test_what_draws_numbers_of_python_s_is_read_at_the_call(program, prover):
    body = "    return x * 2 if random.random() < p else x\n"
    text = f"import random\n{HEAD}def f(x, p):\n{body}\n\nfor _ in range(3):\n    f(torch.ones(3), 0.5)\n"
    mended = mend(program(text), prover)
    assert "f(torch.ones(3), 0.5, random_2=random.random())" in str(mended.texts) or "=random.random())" in str(mended.texts)


def test_what_a_branch_keeps_in_an_attribute_is_chosen(program, prover):
    """A number at first, and a tensor from then on."""
    body = "    loss = x.square().mean()\n    if loss < best.loss:\n        best.loss = loss.detach()\n    return loss\n"
    calls = "".join(f"f(torch.ones(3) * {scale})\n" for scale in (3, 5, 2))
    head = f"import types\n{HEAD}def f(x):\n{body}\n\nbest = types.SimpleNamespace(loss=float('inf'))\n"
    mended = mend(program(f"{head}{calls}print(best.loss.item())\n"), prover)
    assert "best.loss = torch.where(loss < best.loss, loss.detach(), best.loss)" in str(mended.texts) and not mended.left


STATE = "state = torch.zeros(3)\nseen = torch.tensor(0)\n"


@pytest.mark.parametrize(
    "body, made",
    [
        ("        state.copy_(x)\n        seen.fill_(1)\n", "    seen.copy_(torch.where(is_chosen, 1, seen))"),
        ("        state[:2] = x[:2]\n    else:\n        state.mul_(2)\n", "    state.copy_(torch.where(is_chosen, state, state.mul(2)))"),
        ("        with torch.no_grad():\n            state += x\n", None),
        ("        with torch.no_grad():\n            state.add_(x)\n", "        state.copy_(torch.where(is_chosen, state.add(x), state))"),
        ("        state.zero_()\n        seen[...] = 2\n", "    seen[...] = torch.where(is_chosen, 2, seen[...])"),
        ("        state.copy_(x[:1].expand(3) if len(x) > 1 else other[0])\n        seen.fill_(other[1])\n", None),
    ],
)
def test_what_a_branch_writes_in_place_is_written_in_any_case(program, prover, body, made):
    """The last one can be computed only where the branch is taken."""
    text = f"{HEAD}def f(x, other=()):\n    global state\n    if x.sum() > 2:\n{body}    return x * 2 + state.sum()\n\n{STATE}"
    calls = "f(torch.ones(3), (torch.ones(()), 1))\nf(torch.zeros(3))\nf(torch.ones(3) * 4, (torch.ones(()), 1))\nprint(state, seen)\n"
    mended = mend(program(text + calls), prover)
    if made is None:
        assert not any(fix.fix.title.startswith("Write in any case") for fix in mended.fixes)
    else:
        assert made in str(*mended.texts.values()) and not mended.left


@pytest.mark.parametrize("kept, made", [("x > 2", True), ("x.abs() + 1 > 0", False)])
def test_a_question_whether_there_is_anything_is_left_out_where_a_call_showed_it(program, prover, kept, made):
    """One with other values, too."""
    body = f"    rows = ({kept}).nonzero().squeeze(-1)\n    y = x * 1\n    if len(rows):\n        y[rows] = x[rows] * 5\n    return y\n"
    mended = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3) * 4)\n"), prover)
    assert ("    y = x * 1\n    y[rows] = x[rows] * 5" in str(*mended.texts.values())) is made


@pytest.mark.parametrize("is_read", [True, False])
def test_a_file_that_is_opened_to_be_written(program, prover, tmp_path, is_read):
    """Whether the program reads it or somebody else does later: its lines stay."""
    body = f"    with open({str(tmp_path / 'log')!r}, 'a') as file:\n        file.write(f'{{x.sum()}}\\n')\n    return x * 2\n"
    end = f"print(open({str(tmp_path / 'log')!r}).read())\n" * is_read
    mended = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n{end}"), prover)
    assert not any("is_compiling" in text for text in mended.texts.values()) and (mended.left or mended.trouble)


def test_several_draws_that_branches_need_are_read_at_the_call(program, prover):
    body = "    if np.random.uniform(1, 2) > 1.5:\n        x = x * 2\n    return x + (1 if np.random.uniform() > 0.5 else 2)\n"
    mended = mend(program(f"import numpy as np\n{HEAD}def f(x):\n{body}\n\nfor _ in range(2):\n    f(torch.ones(3))\n"), prover)
    (text,) = mended.texts.values()
    assert "def f(x, *, uniform, uniform_2):" in text and not mended.left
    assert "f(torch.ones(3), uniform=np.random.uniform(1, 2), uniform_2=np.random.uniform())" in text


@pytest.mark.parametrize("early, made", [("100.0", True), ("None", False)])
def test_numbers_computed_by_math_are_chosen_and_taken_out(program, prover, early, made):
    body = f"    e = (x * x).mean()\n    if e == 0:\n        return {early}\n    return -10 * math.log10(e.item())\n"
    calls = "print(f(torch.ones(3) * 3))\nf(torch.zeros(3))\n"
    mended = mend(program(f"import math\n{HEAD}def f(x):\n{body}\n\n{calls}"), prover)
    assert ("torch.where(e == 0, 100.0, -10 * torch.log10(e.double())).item()" in str(*mended.texts.values())) is made


@pytest.mark.parametrize("given, made", [("torch.tensor([1, 2])", True), ("[torch.tensor(1), torch.tensor(2)]", False)])
def test_what_is_among_a_tensor_s_elements_is_chosen_by(program, prover, given, made):
    """Not of a list, where the same question is another."""
    body = "    hits = 0\n    if x in among:\n        hits += 1\n    return x * 2, hits\n"
    mended = mend(program(f"{HEAD}def f(x, among):\n{body}\n\nf(torch.tensor(2), {given})\nf(torch.tensor(3), {given})\n"), prover)
    assert ("is_chosen = (among == x).any()" in str(*mended.texts.values())) is made


SUMMED = """import torch
from torch import nn

torch.manual_seed(0)
head = nn.Linear(4, 1)


@torch.compile
def f(rows, masks):
    losses = []
    for x, mask in zip(rows, masks):
        if mask.sum() > 0:
            loss = (head(x).squeeze(-1) * mask).mean()
            losses.append(loss)
    return RESULT


none, some = torch.zeros(3), torch.ones(3)
MASKS
f([torch.randn(3, 4), torch.randn(3, 4)], masks).backward()
"""


@pytest.mark.parametrize(
    "result, masks, is_mended",
    [
        # Of no losses at all it is a number.
        ("sum(losses)", "some, none", False),
        ("torch.stack(losses).sum()", "some, none", True),
        ("torch.stack(losses).mean()", "some, none", False),
        ("sum(losses) / len(losses)", "some, none", False),
        # No call has shown what it is where nothing is added.
        ("sum(losses)", "some, some", False),
    ],
)
def test_zero_is_added_only_to_what_is_summed_up(program, prover, result, masks, is_mended):
    text = SUMMED.replace("RESULT", result).replace("MASKS", f"masks = [{masks}]")
    mended = mend(program(text), prover, each=False)
    assert not mended.trouble and bool(mended.texts) == is_mended


def test_what_decides_is_pythons_own_first(program, prover):
    """What is drawn behind `self.training and` is drawn in training only."""
    text = """import torch
from torch import nn


class Block(nn.Module):
    def forward(self, x):
        if self.training and torch.rand(()) < 0.5:
            return x * 2
        return x + 1


torch.manual_seed(0)
block = Block()
step = torch.compile(block)
for number in range(4):
    block.train(number < 3)
    step(torch.ones(3))
"""
    mended = mend(program(text), prover, each=False)
    assert mended.proof.breaks[1] == 0
    assert "torch.as_tensor(self.training and torch.rand(()) < 0.5)" in next(iter(mended.texts.values()))


def test_what_is_told_behind_kept_numbers(program, prover):
    text = """import torch

state = {"best": 0.0}


@torch.compile
def f(x):
    y = x * 2
    if y.mean() > state["best"]:
        state["best"] = y.mean().item()
        print("better")
    return y


f(torch.ones(3))
f(torch.zeros(3))
"""
    mended = mend(program(text), prover, each=False)
    assert mended.proof.breaks[1] == 0 and 'print("better")' in next(iter(mended.texts.values()))


def test_what_is_written_into_a_file_is_not_left_out(program, prover, tmp_path):
    """The rows are what the program makes; a line on the terminal is told."""
    text = (
        f"import sys\nimport torch\n\nout = open({str(tmp_path / 'rows')!r}, 'a')\n\n\n@torch.compile\ndef f(x):\n    y = x * 2\n"
        "    WRITE\n    return y\n\n\nf(torch.ones(3))\n"
    )
    for write in ("out.write(f'{y.sum():.2f}')", "print(y.sum(), file=out)"):
        mended = mend(program(text.replace("WRITE", write)), prover)
        assert mended.left and not any("is_compiling" in changed for changed in mended.texts.values())
    for write in ("sys.stderr.write(f'{y.sum():.2f}')", "print(y.sum(), file=sys.stderr)"):
        mended = mend(program(text.replace("WRITE", write)), prover)
        assert not mended.left and all("is_compiling" in changed for changed in mended.texts.values())


def counting(length, device):
    body = f"    counts = torch.bincount(codes, minlength=int({length}.sum()))\n    return counts.float() * 0.9\n"
    head = HEAD.replace("\n\n\n", f"\n\nusage = torch.ones(4, device={device!r})\n\n\n")
    return f"{head}def f(codes):\n{body}\n\nf(torch.tensor([0, 3, 3], device={device!r}))\n"


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_codes_that_are_counted_need_no_edit(program, prover, device):
    """The graph sees for itself whether one is larger."""
    assert not mend(program(counting("usage", device)), prover).texts
    assert not mend(program(counting("usage[:2]", device)), prover).texts


def test_a_while_without_a_number_of_turns_says_what_it_takes(program, prover):
    body = "    while x.abs().max() > 1:\n        x = x / 2\n    return x\n"
    few = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.full((2,), 3.0))\nf(torch.ones(2))\n"), prover)
    (changed,) = few.texts.values()
    assert "for _ in range(16):" in changed and '"more than 16 turns"' in changed
    assert "where that is not enough it is an error" in few.made[0].title
    many = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.full((2,), 3e9))\n"), prover)
    assert not many.texts and many.left


def test_a_count_of_turns_that_is_given_back_stays_a_number(program, prover):
    body = "    n = 0\n    while x.sum() > 1 and n < 4:\n        x = x / 2\n        n += 1\n    return x, n\n"
    assert not mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover).texts


def test_a_turn_that_does_more_than_give_values_is_taken_as_it_is(program, prover):
    body = "    for row in x:\n        if row.sum() < 0:\n            continue\n        seen.append(row)\n    return x + 1\n"
    assert not mend(program(f"seen = []\n{HEAD}def f(x):\n{body}\n\nf(torch.randn(3, 2))\n"), prover).texts


def test_a_text_that_is_given_back_is_no_line_that_is_told(program, prover):
    body = "    y = x * 2\n    words = f'{y.sum().item():.1f}'\n    print(words)\n    return y, words\n"
    mended = mend(program(f"{HEAD}def f(x):\n{body}\n\nf(torch.ones(3))\n"), prover)
    assert all("if not torch.compiler.is_compiling():\n        words" not in changed for changed in mended.texts.values())


def test_a_number_from_random_is_called_drawn(program, prover):
    body = "    if random.random() < 0.5:\n        return x * 2\n    return x + 1\n"
    text = f"import random\n{HEAD}def f(x):\n{body}\n\nfor _ in range(2):\n    f(torch.ones(3))\n"
    (changed,) = mend(program(text), prover).texts.values()
    assert "random_2" not in changed


def test_words_that_every_run_prints_otherwise_say_nothing(program, prover):
    body = "    print('now')\n    return x * 2\n\n\nprint('sum', f(torch.ones(3)).sum(), 'at', os.getpid())\n"
    mended = mend(program("import os\n" + HEAD + "def f(x):\n" + body), prover)
    assert not mended.trouble and mended.proof.breaks == (1, 0)


def test_a_number_that_is_divided_by_may_be_zero_where_it_is_not_chosen(program, prover):
    """Python raises for 0.5 / 0.0, whatever `torch.where` chooses then."""
    text = (
        HEAD + "def f(x, w):\n    total = x.norm().item()\n    if total > 0.5:\n"
        "        for each in w:\n            each.mul_(0.5 / total)\n"
        "    return x * 2\n\n\nf(torch.ones(3), [torch.ones(2), torch.ones(2)])\n"
    )
    mended = mend(program(text), prover)
    (after,) = mended.texts.values()
    assert mended.proof.breaks == (1, 0) and "each.mul(0.5 / torch.where(is_chosen, total, 1))" in after
    names = {}
    exec(compile(after.replace("@torch.compile\n", ""), "after.py", "exec"), names)
    w = [names["torch"].ones(2)]
    names["f"](names["torch"].zeros(3), w)
    assert w[0].tolist() == [1, 1]


@pytest.mark.parametrize("after, breaks", [("", 0), ("print(layer.warned)\n", 1)])
def test_a_flag_that_says_what_was_told_is_nobody_elses(program, prover, after, breaks):
    text = (
        "import torch, warnings\n\n\nclass Layer(torch.nn.Module):\n    warned = False\n\n    def forward(self, x):\n"
        "        if not self.warned and x.max() > 0:\n            warnings.warn('large', stacklevel=2)\n            self.warned = True\n"
        "        return x * 2\n\n\nlayer = Layer()\ntorch.compile(layer)(torch.ones(3))\n" + after
    )
    mended = mend(program(text), prover)
    assert not mended.trouble and len(mended.left) == breaks


CLOCKED = """import time

import torch

seconds = []


@torch.compile
def step(x):
    start = time.time()
    y = x * 2
    {use}
    return y


step(torch.ones(3))
"""


@pytest.mark.parametrize(
    "use, is_mended",
    [
        ('print("took", time.time() - start)', True),
        ("seconds.append(time.time() - start)", False),
        ("seconds[:] = [time.time() - start]", False),
        ("step.seconds = time.time() - start", False),
        ("global last; last = time.time() - start", False),
    ],
)
def test_what_a_clocks_reading_is_put_into_is_the_programs_own(program, prover, use, is_mended):
    mended = mend(program(CLOCKED.format(use=use)), prover)
    assert bool(mended.texts) is is_mended


def test_a_search_that_is_cut_off_says_so(program, prover, capsys):
    given = program(HEAD + "def f(x):\n    print('so far')\n    return x * 2\n\n\nf(torch.ones(3))\n")
    mended = mend(given, prover, seconds=0)
    assert mended.is_cut and not mended.fixes and not mended.texts and mended.left
    assert not mend(given, prover, seconds=600).is_cut
    done = subprocess.run(
        [sys.executable, "-m", "dynascope", "fix", "--within", "0", given.file], env=os.environ | {"PYTHONPATH": str(ENGINE)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "before every edit was tried" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    "body, result",
    [
        ("if best is None or loss < best:\n            best, where = loss, loss * 2", "best"),
        ("if best is None or loss < best:\n            best = loss\n            where = loss * 2", "(best, where)"),
        ("if best is not None and loss > best:\n            where = loss * 3\n        else:\n            best = loss", "(best, where)"),
    ],
)
def test_what_python_knows_is_asked_before_the_values(program, prover, body, result):
    text = f"def f(losses):\n    best, where = None, torch.zeros(())\n    for loss in losses:\n        {body}\n    return {result}\n"
    calls = "\n\nfor numbers in ([2.0, 1.0, 3.0], [1.0, 2.0, 0.5], [3.0, 2.0, 1.0]):\n    f(torch.tensor(numbers).unbind())\n"
    mended = mend(program(HEAD + text + calls), prover)
    is_mended = "best, where = loss" not in body
    assert bool(mended.texts) is is_mended and bool(mended.left) is not is_mended
    if is_mended:
        (text,) = mended.texts.values()
        assert "torch.where(" in text and "is_compiling" not in text


def test_a_share_of_nothing_is_chosen(program, prover):
    text = (
        "def f(a, b):\n    hits, total = (a & b).sum().item(), (a | b).sum().item()\n"
        "    return hits / total if total > 0 else 1.0\n\n\n"
        "for n in (0, 1, 2):\n    f(torch.arange(3) < n, torch.arange(3) == 0)\n"
    )
    mended = mend(program(HEAD + text), prover)
    assert mended.texts and not mended.left


@pytest.mark.parametrize("divisor, is_mended", [("1.1", True), ("0", False)])
def test_a_number_is_divided_by_what_is_not_zero(program, prover, divisor, is_mended):
    text = (
        "def f(x):\n    t = 1.0\n    h = -x.sum().item()\n    if h < 0:\n        t *= 1.5\n    else:\n"
        f"        t = t / {divisor} if {divisor} else t\n    return x * t, t\n\n\nf(torch.ones(3))\nf(torch.full((3,), -1.0))\n"
    ).replace("t = t / 1.1 if 1.1 else t", "t /= 1.1")
    assert bool(mend(program(HEAD + text), prover).texts) is is_mended


@pytest.mark.parametrize(
    "made, name, kept",
    [
        ("history = []", "history", "history.append(np.cov(y.numpy()))"),
        ("history = {}", "history", "history['last'] = np.cov(y.numpy())"),
        ("history = [[]]", "history", "history[0].append(np.cov(y.numpy()))"),
        ("class State: pass\nstate = State()\nstate.rows = []", "state", "state.rows.append(np.cov(y.numpy()))"),
    ],
)
def test_what_is_put_into_the_programs_containers_is_compared(program, prover, made, name, kept):
    text = f"import numpy as np\n{made}\n" + HEAD + f"def f(x):\n    y = x * 2\n    {kept}\n    return y.sum()\n\n\nf(torch.ones(3))\n"
    there = program(text)
    twin = text.replace("np.cov(y.numpy())", "torch.cov(y)")
    before, after = prover.tried(there, {}), prover.tried(there, {there.file: twin})
    assert prover.compared(before, after)["kept"] == [name]
    assert not mend(there, prover).made


def test_what_a_method_or_a_closure_leaves_behind_is_compared(program, prover):
    text = (
        "import torch\n\n\nclass Meter:\n    def __init__(self):\n        self.seen = [1]\n\n    def step(self, x):\n"
        "        self.seen.append(x.sum())\n        return x * 2\n\n\ndef main():\n    meter, rows = Meter(), []\n\n"
        "    def keep(x):\n        rows.append(x + 1)\n        return x * 3\n\n"
        "    torch.compile(meter.step)(torch.ones(3))\n    torch.compile(keep)(torch.ones(3))\n\n\nmain()\n"
    )
    there = program(text)
    before = prover.tried(there, {})
    for was, now, where in (("x.sum()", "x.sum().item()", "Meter object 0.seen"), ("x + 1", "x + 2", "main.<locals>.keep:rows")):
        after = prover.tried(there, {there.file: text.replace(was, now)})
        assert prover.compared(before, after)["kept"] == [where]
    assert prover.compared(before, prover.tried(there, {}))["kept"] == []
