"""A call that is kept in a fork of its program: what it answers about edited text, and what it leaves alone."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiler

PROGRAM = """\
import os
import torch

SCALE = 2
big = torch.ones(1 << 20)


def helper(x):
    return x * SCALE


@torch.compile
def step(x, n):
    y = helper(x)
    if y.sum() > 0:
        y = y + n
    return y + big[0]


step(torch.ones(8, 4), 3)
try:
    os.wait()
except ChildProcessError:
    print("no children")
"""


class Kept:
    """The program ran; its calls are kept as long as this."""

    def __init__(self, path, text):
        ours, theirs = socket.socketpair()
        path.write_text(text)
        self.path, self.text = str(path), text
        command = ["run", "--quiet", "--json", f"{path}.json", "--keep-fd", str(theirs.fileno()), self.path]
        environment = {**os.environ, "DYNASCOPE_STRICT": "0"}
        with ours, theirs:
            self.result = subprocess.run(
                [sys.executable, "-m", "dynascope", *command], env=environment, pass_fds=[theirs.fileno()],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            ours.setblocking(False)
            self.calls, self.greetings = [], []
            while True:
                try:
                    data, descriptors, _, _ = socket.recv_fds(ours, 4096, 4)
                except BlockingIOError:
                    break
                self.greetings.append(json.loads(data))
                self.calls += [socket.socket(fileno=descriptor) for descriptor in descriptors]

    def asked(self, *changes, call=0, **more):
        new = self.text
        for old, replacement in changes:
            assert old in new
            new = new.replace(old, replacement)
        self.calls[call].sendall(json.dumps({"id": 1, "texts": {self.path: [self.text, new]}, **more}).encode() + b"\n")
        with self.calls[call].makefile("rb") as lines:
            return json.loads(next(line for line in lines if line.strip()))

    def close(self):
        for call in self.calls:
            call.close()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    made = Kept(tmp_path_factory.mktemp("kept") / "model.py", PROGRAM)
    assert made.result.stdout == "no children\n", made.result
    yield made
    made.close()


def shapes(answer):
    """By line, in the order of the graphs."""
    return [
        (value["span"]["line"], value["variable"] or value["operation"], value["description"])
        for graph in answer["report"]["graphs"]
        for value in graph["values"]
    ]


def exits(answer):
    return [(e["region"], e["exit"]) for f in answer["report"]["functions"] for e in f["entries"]]


def test_a_call_is_kept_for_each_function(kept):
    assert [(g["function"], g["line"], g["number"]) for g in kept.greetings] == [("step", 12, 0)]


def test_capture_goes_on_behind_a_branch_on_both_sides(kept):
    answer = kept.asked()
    assert exits(answer) == [("function", "break"), ("resume", "return"), ("resume", "return")]
    assert answer["report"]["kernels"] and all(kernel["text"] for kernel in answer["report"]["kernels"])


def test_an_edit_counts_and_leaves_nothing_to_the_next(kept):
    before = kept.asked()
    edited = kept.asked(("return x * SCALE", "return (x @ x.T) * SCALE"), ("SCALE = 2", "SCALE = 2.5\nTIMES = 1"))
    assert (10, "f32[8, 8]") in [(line, description) for line, _, description in shapes(edited)]
    assert shapes(kept.asked()) == shapes(before)


def test_what_the_program_would_run_is_not_run(kept):
    answer = kept.asked(("    y = helper(x)\n", "    y = helper(x)\n    os.write(1, b'written')\n"))
    assert [note["code"] for note in answer["report"]["notes"] if note["span"]] == ["known-after-a-run"]
    assert exits(answer) == [("function", "break")]


def test_what_only_a_run_can_say(kept):
    answer = kept.asked(("SCALE = 2", "SCALE = len('ab')"))
    assert "`SCALE` is set by running the program" in answer["trouble"] and answer["line"] == 4
    answer = kept.asked(("def step(x, n)", "def step(x, n, m)"))
    assert "`m` is a new parameter" in answer["trouble"]
    assert "is not there any more" in kept.asked(("def step(x", "def other(x"))["trouble"]


RAISES = """
def guarded(x):
    try:
        return x * MISSING
    except NameError:
        return x


"""


@pytest.mark.parametrize(
    "old, new, line, said",
    [
        ("helper(x)\n", "helper(x) @ x\n", 14, "`helper(x) @ x` raises with these arguments: a and b must have same reduction dim"),
        ("helper(x)\n", "halper(x)\n", 14, "`halper` raises NameError: name 'halper' is not defined."),
        ("x * SCALE", "x.scaled(SCALE)", 9, "raises AttributeError: 'Tensor' object has no attribute 'scaled'."),
        ("helper(x)\n", "[helper(x)][n]\n", 14, "raises IndexError: list index out of range."),
    ],
)
def test_what_plain_python_raises_is_an_error_where_it_is_typed(kept, old, new, line, said):
    reasons = [entry["reason"] for function in kept.asked((old, new))["report"]["functions"] for entry in function["entries"]]
    (reason,) = [each for each in reasons if each is not None]
    assert reason["severity"] == "error" and said in reason["message"] and reason["span"]["line"] == line, reason


@pytest.mark.parametrize(
    "old, new, said",
    [
        # On one side of a branch: no call is known to come there.
        ("y = y + n", "y = y @ y", "`y @ y` raises with these arguments"),
        # That is what it is for.
        ("y = helper(x)", "raise NotImplementedError", "and nothing in the captured part catches it."),
        ("@torch.compile\ndef step(x, n):\n    y = helper(x)", f"{RAISES}@torch.compile\ndef step(x, n):\n    y = guarded(x)",
         "`MISSING` raises NameError, which Python hands to the `except` around it."),
    ],
)  # fmt: skip
def test_what_may_be_meant_to_raise_is_none(kept, old, new, said):
    reasons = [entry["reason"] for function in kept.asked((old, new))["report"]["functions"] for entry in function["entries"]]
    assert any(said in each["message"] for each in reasons if each is not None), reasons
    assert not [each for each in reasons if each is not None and each["severity"] == "error"]


def test_an_answer_has_its_time_and_its_memory(kept):
    began = time.monotonic()
    answer = kept.asked(("    y = helper(x)\n", "    y = helper(x)\n    while True:\n        y = y + 1\n"), seconds=1)
    assert answer == {"id": 1, "trouble": "This takes more than 1 s without a run."} and time.monotonic() - began < 10
    answer = kept.asked(("    y = helper(x)\n", "    y = helper(x)\n    z = [0] * 10**10\n"), seconds=60)
    assert "known-after-a-run" in [note["code"] for note in answer["report"]["notes"]]
    assert not kept.asked().get("trouble")


def test_a_text_that_is_no_python(kept):
    assert kept.asked(("SCALE = 2", "SCALE ="))["unreadable"]


def test_it_ends_with_its_socket(kept):
    other = Kept(Path(kept.path).with_name("other.py"), PROGRAM)
    listing = ["ps", "-axww", "-o", "command="]
    assert other.path in subprocess.run(listing, capture_output=True, text=True, check=True).stdout
    other.close()
    while other.path in subprocess.run(listing, capture_output=True, text=True, check=True).stdout:
        time.sleep(0.05)
