"""What every case and every reason says, word for word: the reviewed text of `messages.txt`.

`python tests/explain/test_messages.py` writes it anew; the difference is then read like any other change.
"""

import ast
import itertools
import re
import sys
import textwrap
import types
from pathlib import Path

import pytest
import torch
from dynascope import recording
from dynascope.report.findings import findings
from reason_words import reasons, said_by

FILE = Path(__file__).with_name("messages.txt")

CASES = {
    "if that assigns": "def f(x):\n    y = x + 1\n    if y.sum() > 0:\n        y = y * 2\n    return y\n\nf(torch.ones(2))",
    "if with both sides": """
        def f(x):
            if x.sum() > 0:
                return x + 1
            else:
                return x - 1

        f(torch.ones(2))
    """,
    "if that only reports": """
        import logging

        def f(x):
            if torch.isnan(x).any():
                logging.warning("NaN")
            return x + 1

        f(torch.ones(2))
    """,
    "if that raises": """
        def f(x):
            try:
                if not torch.isfinite(x).all():
                    raise ValueError("no")
            except ValueError:
                x = x * 0
            return x + 1

        f(torch.ones(2))
    """,
    "if of two conditions": """
        def f(x, y):
            if x.any() and not y.any():
                x = x + 1
            return x * y

        f(torch.ones(2), torch.zeros(2))
    """,
    "if of a flag and a tensor": """
        def f(x, mask):
            if mask is not None and mask.all():
                mask = None
            return x if mask is None else x * mask

        f(torch.ones(2), torch.ones(2, dtype=torch.bool))
    """,
    "if of a number that NumPy computes": """
        import numpy as np

        def f(x):
            top = float(np.max(x.detach().numpy()))
            if top > 1:
                x = x / top
            return x

        f(torch.ones(2))
    """,
    "conditional expression": "def f(x):\n    return x + 1 if x.sum() > 0 else x - 1\n\nf(torch.ones(2))",
    "text of a tensor": 'def f(x):\n    y = x.sum()\n    return x + 1, format(y, ".2f")\n\nf(torch.ones(2))',
    "while": "def f(x):\n    while x.abs().max() > 1:\n        x = x / 2\n    return x\n\nf(torch.full((2,), 3.0))",
    "if that keeps numbers and a count": """
        class Best:
            loss, patience = 9.0, 0

        def f(best, x):
            if x.sum() < best.loss:
                best.loss = x.sum()
                best.patience = 0
            else:
                best.patience += 1
            return x * 2

        f(Best(), torch.ones(2))
    """,
    "if that gives what was None a value": """
        def f(x, labels=None):
            loss = None
            if labels is not None:
                mask = labels != -100
                if mask.sum() > 0:
                    loss = (x * mask).sum()
            return x * 2, loss

        f(torch.ones(3), torch.ones(3))
    """,
    "if that writes a buffer": """
        def f(x, best):
            loss = x.sum()
            if loss < best:
                best.copy_(loss)
            return loss

        f(torch.ones(3), torch.tensor(9.0))
    """,
    "if that leaves a loop": """
        def f(x):
            for _ in range(9):
                x = x / 2
                if x.norm() < 1e-2:
                    break
            return x

        f(torch.ones(2))
    """,
    "if that leaves a turn": """
        def f(x):
            for row in x:
                if row.sum() < 0:
                    continue
                x = x + row
            return x

        f(torch.ones(2, 2))
    """,
    "if that returns early": """
        def f(x, layers=(torch.relu, torch.tanh)):
            for layer in layers:
                x = layer(x)
                if x.max() > 9:
                    return x
            return x * 2

        f(torch.ones(2))
    """,
    "if that returns nothing": """
        def f(x):
            if x.argmax() == 1:
                return None
            return x * 2

        f(torch.ones(2))
    """,
    "if that leaves a training step": """
        w = torch.ones(2, requires_grad=True)

        def f(x):
            loss = (w * x).sum()
            if not torch.isfinite(loss):
                return None
            loss.backward()
            return loss.detach()

        f(torch.ones(2))
    """,
    "if that gives the loss back in place of a training step": """
        w = torch.ones(2, requires_grad=True)

        def f(x):
            loss = (w * x).sum()
            if loss > 100:
                return loss
            loss.backward()
            return loss

        f(torch.ones(2))
    """,
    "if that returns before a last return": """
        def f(x):
            if x.sum() > 0:
                return x * 2
            return x

        f(torch.ones(2))
    """,
    "conditional expression of a count": """
        def f(x):
            rows = x[x > 9]
            return rows.mean() if len(rows) > 0 else x.sum()

        f(torch.ones(2))
    """,
    "backward of what came with the call": """
        def f(loss):
            loss.backward()
            return loss.detach() * 2

        f((torch.ones(2, requires_grad=True) * 2).sum())
    """,
    "an operator of torch without a rule": """
        def f(x):
            kept = torch.ones(1, 2, dtype=torch.bool)
            rows = torch._nested_tensor_from_mask(x, kept)
            return rows.to_padded_tensor(0.0)

        f(torch.ones(1, 2, 3))
    """,
    "math.isnan": """
        import math

        def f(x):
            return x * 0 if math.isnan(x.sum()) else x

        f(torch.ones(2))
    """,
    "assert": """
        def f(x):
            try:
                assert (x > 0).all(), "positive"
            except AssertionError:
                return x
            return x.log()

        f(torch.ones(2))
    """,
    "not": "def f(x):\n    with torch.autocast('cpu'):\n        flag = not x.any()\n    return x + flag\n\nf(torch.ones(2))",
    "item": "def f(x):\n    return x / x.max().item()\n\nf(torch.ones(2))",
    "float of a tensor": "def f(x):\n    return x * float(x.sum())\n\nf(torch.ones(2))",
    "tolist": "def f(x):\n    return sum(x.tolist()) * x\n\nf(torch.ones(2))",
    "range over a tensor": "def f(x, n):\n    for _ in range(n):\n        x = x + 1\n    return x\n\nf(torch.ones(2), torch.tensor(2))",
    "numpy": "import numpy as np\n\ndef f(x):\n    return torch.from_numpy(np.sinc(x.numpy())) + 1\n\nf(torch.ones(2))",
    "boolean index": "def f(x):\n    return x[x > 0].mean()\n\nf(torch.ones(2))",
    "nonzero": "def f(x):\n    return torch.nonzero(x).sum() + 1\n\nf(torch.ones(2))",
    "unique": "def f(x):\n    return torch.unique(x) * 2\n\nf(torch.ones(2))",
    "print": "def f(x):\n    print('sum', x.shape)\n    return x + 1\n\nf(torch.ones(2))",
    "time": "import time\n\ndef f(x):\n    started = time.perf_counter()\n    return x + 1, started\n\nf(torch.ones(2))",
    "logging": """
        import logging
        log = logging.getLogger("messages")
        log.addHandler(logging.NullHandler())
        log.propagate = False

        def f(x):
            log.warning("sum %s", x.sum())
            return x + 1

        f(torch.ones(2))
    """,
    "again: sizes of what a library's function is given by name": """
        from torch import nn

        model = dynascope.compile(nn.Sequential(nn.ReLU()), backend="eager")
        for size in (3, 5):
            xb = torch.ones(size, 2)
            model(xb)
    """,
    "again: sizes of what has no name": """
        from torch import nn

        model = dynascope.compile(nn.Sequential(nn.ReLU()), backend="eager")
        for size in (3, 5):
            model(torch.ones(size, 2))
    """,
    "again: strides of a dimension of one element": """
        def f(x):
            return x * 2

        for x in (torch.ones(1, 5, 3)[:, -1:], torch.ones(1, 1, 3)):
            f(x)
    """,
    "again: sizes": "def f(x):\n    return x * x.shape[0]\n\nfor n in (2, 3, 4):\n    f(torch.ones(n, n + 1))",
    "again: a number": "def f(x, scale):\n    return x * scale\n\nfor scale in (1, 2, 3):\n    f(torch.ones(2), scale)",
    "again: gradients": "def f(x):\n    return x * 2\n\nf(torch.ones(2))\nwith torch.no_grad():\n    f(torch.ones(2))",
    "again: None": "def f(x, mask=None):\n    return x if mask is None else x * mask\n\nf(torch.ones(2))\nf(torch.ones(2), torch.ones(2))",
    "again: dtype": "def f(x):\n    return x * 2\n\nf(torch.ones(2))\nf(torch.ones(2, dtype=torch.float64))",
    "again: requires grad, behind a break": """
        def f(x, w, scaled):
            out = x * w if scaled else x + 1
            print("out")
            return out.exp()

        w = torch.ones(3, requires_grad=True)
        f(torch.ones(3), w, False)
        f(torch.ones(3), w, True)
    """,
    "again: requires grad": "def f(x):\n    return x * 2\n\nf(torch.ones(2))\nf(torch.ones(2, requires_grad=True))",
    "again: strides": "def f(x):\n    return x * 2\n\nf(torch.ones(2, 3))\nf(torch.ones(3, 2).t())",
    "again: a list's length": "def f(xs):\n    return sum(xs)\n\nf([torch.ones(2)])\nf([torch.ones(2)] * 2)",
    "again: a flag": "def f(x, mode):\n    return x + 1 if mode == 'a' else x - 1\n\nfor mode in 'abc':\n    f(torch.ones(2), mode)",
    "again: a type": "def f(x, y):\n    return x * y\n\nf(torch.ones(2), 2)\nf(torch.ones(2), torch.tensor(2.0))",
    "again: a module's counter": """
        class Counted(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.calls = 0

            def forward(self, x):
                self.calls += 1
                return x + 1 if self.calls < 3 else x - 1

        def f(model, x):
            return model(x)

        model = Counted()
        for _ in range(4):
            f(model, torch.ones(2))
    """,
    "again: a dict that is filled": """
        def f(x, state):
            if "step" not in state:
                state["step"] = x * 0
            return x + state["step"]

        state = {}
        for _ in range(3):
            f(torch.ones(2), state)
    """,
    "again: a first training step": """
        model = torch.nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters())

        def f(x):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        for _ in range(2):
            f(torch.ones(1, 2))
    """,
    "again: sizes that are needed as constants": """
        def f(x):
            return x + torch.tensor([1.0] * x.shape[0])

        for size in (3, 4, 5):
            f(torch.ones(size))
    """,
    "again: sizes that were to be fixed": """
        def g(x):
            return x * 2

        compiled = dynascope.compile(g, backend="eager", dynamic=False)
        for size in (2, 3):
            compiled(torch.ones(size))
    """,
    "what a break left is of a class of its own": """
        from torch.testing._internal.two_tensor import TwoTensor

        @dynascope.disable
        def pair(x):
            return TwoTensor(x, x)

        def f(x):
            return pair(x) * 2

        f(torch.ones(2))
    """,
    "if of a number that was taken out before": """
        from dynascope.backends import GraphCompilers

        class Tracker:
            peak = 0.5

            def add(self, x):
                value = x.abs().max().item()
                if value > self.peak:
                    self.peak = value

        tracker = Tracker()

        @dynascope.compile(backend=GraphCompilers())
        def g(x):
            y = x * 2
            tracker.add(y)
            return y + 1

        g(torch.ones(2))
    """,
    "if that keeps a copy": """
        from dynascope.backends import GraphCompilers

        import copy

        model = torch.nn.Linear(2, 1)
        kept = {}

        class Best:
            loss = 5.0

        best = Best()

        @dynascope.compile(backend=GraphCompilers())
        def g(x):
            loss = model(x).pow(2).mean()
            if loss < best.loss:
                best.state = copy.deepcopy(model.state_dict())
            return loss

        g(torch.ones(1, 2))
    """,
    "text of a number that was taken out": """
        from dynascope.backends import GraphCompilers

        class Log:
            def log(self, name, value):
                value = value.item()
                self.text = f"{name}={value:c}"

        log = Log()

        @dynascope.compile(backend=GraphCompilers())
        def g(x):
            log.log("letter", x.argmax() + 65)
            return x + 1

        g(torch.ones(2))
    """,
    "item of a list by a number of a tensor": """
        from dynascope.backends import GraphCompilers

        names = ["a", "b", "c"]

        @dynascope.compile(backend=GraphCompilers())
        def g(x):
            token = x.argmax().item()
            return x + 1, names[token]

        g(torch.tensor([0.0, 2.0]))
    """,
    "a number drawn by Python": """
        import random

        def f(x):
            if random.random() < 0.5:
                return x + 1
            return x - 1

        random.seed(0)
        f(torch.ones(2))
    """,
    "a logger by another name": """
        import logging

        told = logging.getLogger("quiet")
        told.setLevel(logging.INFO)
        told.addHandler(logging.NullHandler())
        told.propagate = False

        def f(x):
            told.info(x)
            return x + 1

        f(torch.ones(2))
    """,
    "again: a name that is another tensor behind a break": """
        def f(x):
            x = x * 2
            print("so far")
            x = x.reshape(-1)
            print("and on")
            return x + 1

        for size in (2, 3):
            f(torch.ones(size, 4))
    """,
    "again: with gradients and without, between breaks": """
        weight = torch.ones(2, requires_grad=True)

        def f(x):
            x = x * weight
            print("so far")
            return x + weight

        for enabled in (True, False):
            with torch.set_grad_enabled(enabled):
                f(torch.ones(2))
    """,
    "again: one part of an f-string": """
        class Counter:
            step = 0

        counter = Counter()

        def f(x):
            y = x * 2
            print(f"{counter.step}: {y.sum().item():.3f}")
            return y

        for step in range(2):
            counter.step = step
            f(torch.ones(2))
    """,
    "again: a table that gets keys": """
        def f(x, table):
            return x * len(list(table))

        for count in (1, 2):
            f(torch.ones(2), {str(key): 1 for key in range(count)})
    """,
    "a generator function": "def f(x):\n    yield x + 1\n\nlist(f(torch.ones(2)))",
    "disabled": """
        @dynascope.disable
        def helper(x):
            return x + 1

        def f(x):
            return helper(x) * 2

        f(torch.ones(2))
    """,
}

numbers = itertools.count()
"""Sources are read by file name, so each case has its own."""

INTERNALS = re.compile(r"__stack|<built-in|0x[0-9a-f]{6,}|@\d{6,}|/site-packages/|<function ")
QUOTED = re.compile(r"`([^`]+)`")


READS_VALUES = re.compile(r"\.item\(\)|\.tolist\(\)|float\(x|nonzero\(|unique\(|\[x > |format\(y|perf_counter|\.count_nonzero")
"""What a graph of our own and of `eager` has as a part: other backends break there."""


def said(text, folder):
    """Every finding of the program whose `f` is compiled, as one block of text."""
    file = Path(folder) / f"program_{next(numbers)}.py"
    source = "import torch\nimport dynascope\n" + textwrap.dedent(text).strip() + "\n"
    backend = "lambda graph, inputs: graph.forward" if READS_VALUES.search(text) else "'eager'"
    compiled = re.sub(r"^def f\(", f"@dynascope.compile(backend={backend})\ndef f(", source, flags=re.M)
    file.write_text(compiled)
    recorder = recording.Recorder(str(file))
    before = recording.use(recorder)
    module = types.ModuleType("program")
    try:
        exec(compile(compiled, str(file), "exec"), module.__dict__)
    finally:
        recording.use(before)
    return "\n".join(_finding(finding) for finding in findings(recorder.report()))


def _finding(finding):
    place = finding.span.text() if finding.span is not None else "-"
    hidden = " (expected)" if finding.is_expected else ""
    return f"{finding.kind} [{finding.code}]{hidden} at `{place}`\n  {finding.message}\n  {finding.remedy}"


def sections():
    text = FILE.read_text(encoding="utf-8")
    parts = re.split(r"^== (.*) ==$", text, flags=re.M)[1:]
    return {title: body.strip("\n") for title, body in zip(parts[::2], parts[1::2], strict=True)}


WHOLE_STRINGS = ("text of a number that was taken out", "again: one part of an f-string")
"""CPython 3.11 has no positions within an f-string; later ones name the part."""


@pytest.mark.parametrize("case", CASES)
def test_it_says_what_was_reviewed(case, tmp_path, capsys):
    if case in WHOLE_STRINGS and sys.version_info >= (3, 12):
        pytest.skip("reviewed as CPython 3.11 has it")
    torch.manual_seed(0)
    assert said(CASES[case], tmp_path) == sections()[case]


@pytest.mark.parametrize(
    "lines, words",
    [
        ("    rows = x[x > 9]\n    if len(rows) == 0:\n        return x\n    return rows.mean()\n", "`torch._check(len(rows) != 0)`"),
        ("    while (x := x[x > x.min()]).numel() > 1:\n        pass\n    return x\n", "Leave the loop outside"),
        ("    if x.argmax().item() == 1:\n        return x\n    return x * 2\n", "`return torch.where(x.argmax() == 1, x, x * 2)`"),
    ],
)
@pytest.mark.expects("data-dependent-branch")
def test_numbers_that_only_the_run_knows(lines, words, tmp_path):
    """Where there are kernels they are numbers of the graph; what asks for their truth is advised on the tensor, or on how many."""
    text = f"@dynascope.compile\ndef g(x):\n{lines}\ng(torch.arange(4.0))"
    assert words in said(text, tmp_path)


def test_the_file_has_these_cases_and_no_others():
    assert list(sections()) == [*CASES, *reasons()]


@pytest.mark.parametrize("title", reasons())
def test_its_words_were_reviewed(title):
    assert said_by(reasons()[title]) == sections()[title]


def test_no_internals_are_shown():
    assert not INTERNALS.search(FILE.read_text(encoding="utf-8"))


def test_code_in_the_words_is_valid_python():
    """What is quoted is an expression or statement that can be pasted; the head of a statement is one with a body. Reasons with the names
    of their fields quote commands too."""
    for quoted in set(QUOTED.findall("\n".join(sections()[case] for case in CASES))):
        if quoted in ("and", "not", ".to(...)", "drop_last=True", "output_size=n") or re.fullmatch(r"[\w.]+", quoted):
            continue
        ends = (f"{quoted}\ndef f(): pass" if quoted.startswith("@") else quoted, f"{quoted}:\n    pass", f"{quoted}\n    pass")
        assert any(map(_parses, ends)), quoted


def _parses(text):
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


if __name__ == "__main__":
    import contextlib
    import os
    import tempfile

    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as quiet, contextlib.redirect_stdout(quiet):
        blocks = [f"== {case} ==\n{said(text, folder)}\n" for case, text in CASES.items()]
    blocks += [f"== {title} ==\n{said_by(reason)}\n" for title, reason in reasons().items()]
    FILE.write_text("\n".join(blocks), encoding="utf-8")
