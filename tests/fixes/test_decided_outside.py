"""What Python must decide is left to it, and all work around it stays compiled."""

import ast

import pytest
from dynascope.fixes.liveness import bound_of
from dynascope.proving.asking import Program, Prover
from dynascope.proving.mending import mend

pytestmark = pytest.mark.turns(3)

HEAD = "import torch\n\nlayer = torch.nn.Linear(3, 2)\nkept = []\n\n\n@torch.compile\n"


@pytest.fixture(scope="module")
def prover():
    with Prover(seconds=20) as found:
        yield found


@pytest.fixture
def mended(tmp_path, prover):
    def by_edits(body, calls="f(torch.ones(4, 3))\n", head=HEAD):
        file = tmp_path / "program.py"
        file.write_text(f"{head}def f(x):\n{body}\n\n{calls}")
        found = mend(Program(str(file)), prover, each=False)
        assert not found.trouble
        return found, found.texts.get(str(file), "")

    return by_edits


def test_an_early_end_without_a_result(mended):
    found, text = mended(
        "    loss = layer(x).pow(2).mean()\n    if not torch.isfinite(loss):\n"
        "        kept.append(1)\n        return None\n    return loss\n",
        "for scale in (1.0, float('nan')):\n    f(torch.ones(4, 3) * scale)\n",
    )
    assert found.proof.breaks == (1, 0) and found.proof.graphs[1] == 1 and found.proof.calls == 2
    assert "@torch.compile\ndef f_compiled(x):\n    loss = layer(x).pow(2).mean()\n    return loss\n" in text
    assert "\n\ndef f(x):\n    loss = f_compiled(x)\n    if not torch.isfinite(loss):\n" in text


def test_a_loop_that_ends_when_a_tensor_says_so(mended):
    found, text = mended(
        "    for turn in range(4):\n        x = layer(x) @ layer.weight\n"
        "        if x.abs().max() < 0.1:\n            break\n    return x, turn\n"
    )
    assert found.proof.breaks == (1, 0)
    # The question is work, and is part of what is compiled.
    assert "    is_met = x.abs().max() < 0.1\n    return x, is_met\n" in text
    assert "        x, is_met = f_compiled(x)\n        if is_met:\n            break\n    return x, turn\n" in text


def test_what_a_list_collects_is_given_to_it_outside(mended):
    """A list that grows would be compiled for at each of its lengths."""
    found, text = mended(
        "    means = []\n    for row in x:\n        if row.sum() > 0:\n"
        "            means.append(layer(row).mean(0))\n    return len(means)\n",
        "f([torch.ones(4, 3), -torch.ones(4, 3)])\n",
    )
    assert found.proof.breaks == (1, 0)
    assert "means.append(f_compiled(row))\n" in text


def test_both_sides_of_what_is_decided_stay_compiled(mended):
    body = "    y = layer(x)\n    kept.append(open(__file__).read(1))\n    return torch.relu(y) * 2\n"
    found, text = mended(body)
    assert found.proof.breaks[1] == 0
    assert "@torch.compile\ndef f_second(y):\n    return torch.relu(y) * 2\n" in text
    assert "    return f_second(y)\n" in text


def test_work_is_not_taken_out_of_what_is_compiled(mended):
    """The function that is called has the break and the work: leaving its call to Python would leave both."""
    head = (
        "import torch\n\nlayer = torch.nn.Linear(3, 2)\nkept = []\n\n\ndef inner(x):\n    y = layer(x).exp()\n"
        "    kept.append(open(__file__).read(1))\n    return y + 1\n\n\n@torch.compile\n"
    )
    found, text = mended("    y = layer(x) * 2\n    inner(x)\n    return y\n", head=head)
    assert not text and found.left


def test_a_question_that_is_work_itself_is_not_left_to_python(mended):
    _, text = mended(
        "    y = layer(x) * 2\n"
        "    while torch.relu(layer(x) - y).exp().sum() > 90 and kept.append(1) is None:\n        y = y + 1\n    return y\n"
    )
    assert "f_" not in text


def test_a_method_keeps_its_parts_beside_it(tmp_path, prover):
    file = tmp_path / "program.py"
    file.write_text(
        "import torch\n\n\nclass Trainer:\n    def __init__(self):\n        self.best = 9.0\n"
        "        self.lines = []\n\n    @torch.compile\n"
        "    def step(self, x):\n        loss = (x * 2).mean()\n"
        "        with open(__file__) as file:\n            self.lines.append(file.read(1))\n"
        "        return loss\n\n\nTrainer().step(torch.ones(3))\n"
    )
    found = mend(Program(str(file)), prover, each=False)
    assert found.proof.breaks[1] == 0
    text = found.texts[str(file)]
    assert (
        "    @torch.compile\n    def step_compiled(self, x):\n        loss = (x * 2).mean()\n"
        "        return loss\n\n    def step(self, x):\n"
    ) in text
    assert "        loss = self.step_compiled(x)\n" in text


@pytest.mark.parametrize(
    "text, row, in_loop, expected",
    [
        ("def f(x):\n    y = x * 2\n    z = y + 1\n    return z\n", slice(0, 2), False, (["x"], ["z"])),
        ("def f(x, n):\n    n += 1\n    return n\n", slice(0, 1), False, (["n"], ["n"])),
        ("def f(x):\n    s = sum(p for p in x)\n    return [p for p in s]\n", slice(0, 1), False, (["x"], ["s"])),
        ("def f(x):\n    for p in x:\n        q = p\n    for p in x:\n        print(p)\n", slice(0, 1), False, (["x"], [])),
    ],
)
def test_what_statements_take_and_hand_on(text, row, in_loop, expected):
    function = ast.parse(text).body[0]
    assert bound_of(function).around(function.body[row], in_loop) == expected


def test_a_name_that_may_have_no_value():
    function = ast.parse("def f(x, c):\n    if c:\n        y = x\n    if c:\n        return y\n").body[0]
    assert bound_of(function).may_be_unbound(function.body[:1], False)


def test_an_early_end_that_python_decides_already_stays_outside(mended):
    """A return in the midst of what is moved would have to be one of the function that calls it."""
    found, text = mended(
        "    if x.shape[0] == 0:\n        return None\n    y = layer(x) * 2\n    kept.append(str(y))\n    return y\n",
        "f(torch.ones(4, 3))\nf(torch.ones(0, 3))\n",
    )
    assert found.proof.breaks[1] == 0 and found.proof.calls == 2
    assert "def f(x):\n    if x.shape[0] == 0:\n        return None\n    y = f_compiled(x)\n" in text


def test_what_stands_behind_a_return_in_a_branch_is_moved_with_it(mended):
    """Nothing of it shows in a result: who leaves it behind, never to be reached, would not be found out."""
    _, text = mended(
        "    y = layer(x) * 2\n    kept.append(str(y))\n"
        "    if x.shape[0] == 4:\n        return y.exp()\n    kept.append(2)\n",
        "f(torch.ones(4, 3))\nf(torch.ones(5, 3))\n",
    )
    assert not text or "        return y.exp()\n    kept.append(2)\n" in text


@pytest.mark.parametrize("reader", ["lambda: y", "(v + y for v in (1, 2))"])
def test_a_name_that_is_read_later_stays_in_one_function(mended, reader):
    body = f"    y = layer(x)\n    later = {reader}\n    kept.append(str(y))\n    y = y * 2\n    return y, later\n"
    assert not mended(body)[1]


def test_a_name_that_the_program_has_is_not_taken(mended):
    head = HEAD.replace("kept = []\n", "kept = []\n\n\ndef f_compiled():\n    return 1\n")
    _, text = mended("    y = layer(x) * 2\n    kept.append(str(y))\n    return y\n", head=head)
    assert "def f_compiled_2(x):\n" in text


def test_a_function_that_a_call_compiles(mended):
    body = "    loss = layer(x).pow(2)\n    if not torch.isfinite(loss).all():\n        return None\n    return loss.sin() * 2\n"
    calls = "compiled = torch.compile(f, dynamic=False)\ncompiled(torch.ones(4, 3))\n"
    found, text = mended(body, calls, HEAD.removesuffix("@torch.compile\n"))
    assert found.proof.breaks == (1, 0)
    assert text.endswith("compiled = f\ncompiled(torch.ones(4, 3))\n") and text.count("@torch.compile(dynamic=False)\ndef f_") == 2


def test_a_method_of_an_object_that_a_call_compiles(tmp_path, prover):
    file = tmp_path / "program.py"
    file.write_text(
        "import torch\n\n\nclass Runs:\n    def __init__(self):\n        self.weight, self.lost = torch.ones(3, 3), 0\n"
        "        self.step = torch.compile(self.step)\n\n    def step(self, x):\n        y = x @ self.weight\n"
        "        if not torch.isfinite(y).all():\n            self.lost += 1\n            return None\n        return y.sin() * 2\n\n\n"
        "runs = Runs()\nruns.step(torch.ones(2, 3))\nruns.step(torch.ones(2, 3))\n"
    )
    found = mend(Program(str(file)), prover, each=False)
    assert found.proof.breaks == (1, 0) and found.proof.calls == 2
    assert "self.lost = torch.ones(3, 3), 0\n\n    @torch.compile\n    def step_first(self, x):\n" in found.texts[str(file)]


def test_the_forward_of_a_module_that_a_call_compiles(tmp_path, prover):
    file = tmp_path / "program.py"
    file.write_text(
        "import torch\n\nkept = []\n\n\nclass Exits(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.first, self.second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)\n\n    def forward(self, x):\n"
        "        x = self.first(x)\n        kept.append(open(__file__).read(1))\n        return self.second(x).relu()\n\n\n"
        "model = torch.compile(Exits())\nmodel(torch.ones(2, 3)).sum().backward()\n"
    )
    found = mend(Program(str(file)), prover, each=False)
    assert found.proof.breaks[1] == 0
    text = found.texts[str(file)]
    assert text.count("    @torch.compile\n    def forward_") == 2 and "model = torch.compile(Exits())\n" in text
    assert "    @torch.compiler.disable(recursive=False)\n    def forward(self, x):\n" in text
