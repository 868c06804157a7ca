"""What a program asks of Python, of the machine and of its own constants on the way is known when it is captured: no break."""

import enum
import importlib.metadata
import importlib.util
import os
import pathlib
import pickle
import platform
import re
import struct
import subprocess
import sys

import dynascope
import pytest
import torch

LAYER = re.compile(r"layers\.(\d+)\.(?P<kind>\w+)")
NAME = "encoder.layers.12.weight"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Mode(enum.StrEnum):
    MEAN = "mean"


def installed(name):
    if importlib.util.find_spec(name) is None:
        return False
    try:
        return importlib.metadata.metadata(name)["Name"] == name and importlib.metadata.version(name) > "1"
    except importlib.metadata.PackageNotFoundError:
        return None


ASKED = {
    "what is installed": lambda x: tuple(map(installed, ("torch", "torch_xla_that_nobody_has", "json"))),
    "a pattern's match": lambda x: LAYER.search(NAME).group("kind"),
    "a pattern's groups": lambda x: LAYER.search(NAME).groups(),
    "no match": lambda x: LAYER.match(NAME) is None,
    "a pattern's substitution": lambda x: LAYER.sub("block", NAME),
    "a pattern made inside": lambda x: re.compile(r"\d+").findall(NAME),
    "a substitution": lambda x: re.sub(r"\.\d+", "", NAME),
    "the version of torch": lambda x: (torch.__version__ >= "2.0", torch.__version__.split("+")[0], str(torch.__version__)),
    "the version of Python": lambda x: (sys.version_info >= (3, 8), sys.version_info[:2], sys.version_info.major),
    "the system": lambda x: platform.system(),
    "paths": lambda x: os.path.splitext(os.path.basename(os.path.join("runs", NAME)))[0],
    "a path made inside": lambda x: (pathlib.PurePosixPath("runs") / "last").with_suffix(".pt").name,
    "members that are numbers": lambda x: (Level.HIGH + 1, Level.LOW < Level.HIGH, Level.HIGH * x.shape[0], -Level.LOW),
    "members that are text": lambda x: (Mode.MEAN == "mean", Mode.MEAN.value),
    "numbers as bytes": lambda x: struct.unpack("<if", struct.pack("<if", 3, 1.5)),
    "pickles of keywords": lambda x: (pickle.dumps({}), pickle.dumps({"left": 1, "of": [(2.5, None)]}, protocol=4)),
    "a text that names nothing, evaluated": lambda x: (eval("2 ** 10"), eval(" (3, [1, 2])")),  # noqa: S307
    "the type's name": lambda x: (x.type(), x.double().type(), (x > 0).type()),
    "whether there is a GPU": lambda x: (torch.cuda.is_available(), torch.accelerator.is_available()),
}


@pytest.mark.parametrize("name", ASKED)
def test_asked_inside(name):
    def f(x):
        y = x * 2
        return y + 1, ASKED[name](x)

    x = torch.arange(6.0).reshape(2, 3)
    found, expected = dynascope.compile(f, backend="eager", fullgraph=True)(x), f(x)
    assert torch.equal(found[0], expected[0])
    assert found[1:] == expected[1:] and repr(found[1]) == repr(expected[1])


def test_what_is_asked_of_a_number_that_varies():
    compiled = dynascope.compile(lambda x, n: (x * n, re.sub("0", "-", str(n))), backend="eager")
    for n in (10, 20, 31):
        assert compiled(torch.ones(2), n)[1] == str(n).replace("0", "-")


def test_a_bound_method_in_c_outlives_the_graph():
    """CPython asks the descriptor for the class of such a method, and crashes where it is given none."""

    def f(x):
        match = LAYER.search
        print(end="")
        return x + 1, match

    with dynascope.expected("print-call"):
        assert dynascope.compile(f, backend="eager")(torch.ones(2))[1](NAME).group(1) == "12"


def test_a_pickle_tells_which_objects_are_one():
    row = [1, 2]

    def f(x, one, other):
        return x + 1, pickle.dumps((one, other))

    with dynascope.expected("foreign-call"):
        compiled = dynascope.compile(f, backend="eager")
        for given in ((row, row), (row, [1, 2]), ("ab", "".join("ab")), ("ab", "ab"), (Level.LOW, 1)):
            assert compiled(torch.ones(2), *given)[1] == f(torch.ones(2), *given)[1]


def test_a_pattern_that_is_replaced():
    held = {"pattern": re.compile("a")}
    compiled = dynascope.compile(lambda x: (x + 1, held["pattern"].sub("-", "abc")), backend="eager")
    assert compiled(torch.ones(2))[1] == "-bc"
    held["pattern"] = re.compile("c")
    assert compiled(torch.ones(2))[1] == "ab-"


def test_what_is_found_is_found_at_each_call():
    def f(x):
        found = LAYER.finditer(NAME * 3)
        first = next(found).group()
        return x + 1, first, [match.span() for match in found], type(found).__name__, list(NAME.__iter__())

    compiled = dynascope.compile(f, fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(2))[1:] == f(torch.ones(2))[1:]


@pytest.mark.expects("print-call")
def test_what_is_left_to_find_is_of_the_same_class_behind_a_break():
    def f(x):
        found = LAYER.finditer(NAME * 3)
        next(found)
        print(end="")
        return x + 1, found

    compiled = dynascope.compile(f)
    for _ in range(2):
        found, expected = compiled(torch.ones(2))[1], f(torch.ones(2))[1]
        assert type(found) is type(expected) and [m.span() for m in found] == [m.span() for m in expected]


@pytest.mark.parametrize("known", [range(7, -5, -3), range(0), range(2**70, 2**70 + 2), "abc", "\u0101b", b"ab"])
def test_iterators_by_their_method(known):
    def f(x):
        found = known.__iter__()
        next(found, None)
        return x + 1, found

    compiled = dynascope.compile(f, fullgraph=True)
    for _ in range(2):
        found, expected = compiled(torch.ones(2))[1], f(torch.ones(2))[1]
        assert type(found) is type(expected) and list(found) == list(expected)


@pytest.mark.expects("foreign-call")
def test_a_scanner_remembers_where_it_is():
    def f(x):
        scanner = LAYER.scanner(NAME * 2)
        return x + 1, scanner.search().span(), scanner.search().span()

    compiled = dynascope.compile(f)
    assert [compiled(torch.ones(2))[1:] for _ in range(2)] == [f(torch.ones(2))[1:]] * 2


def test_a_warning_from_the_command_line():
    """Functions given on the command line have no module that a loader could read."""
    text = (
        "import warnings, torch, dynascope\n"
        "ns = dict(globals())\n"
        "exec('def f(x):\\n    warnings.warn(\"look\")\\n    return x + 1', ns)\n"
        "print(dynascope.compile(ns['f'], backend='eager')(torch.ones(1)))\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "tensor([2.])" in done.stdout and "look" in done.stderr, done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="streams are there")
def test_streams_of_a_program_that_runs_without_a_gpu():
    stream = torch.cuda.Stream() if torch.cuda.is_available() else None

    def program(x):
        with torch.cuda.stream(stream):
            y = x * 2
        if stream is not None:
            stream.synchronize()
        return y + torch.cuda.device_count()

    assert torch.equal(dynascope.compile(program, fullgraph=True)(torch.ones(3)), torch.full((3,), 2.0))


def test_iter_until_asks_for_something_to_call():
    def f(x, given):
        try:
            iter(given, 3)
        except TypeError as error:
            return x + 1, str(error)
        return x, ""

    with dynascope.expected("program-raises", "caught-exception", required=False):
        for given in ((1, 2), "text", frozenset()):
            assert dynascope.compile(f, backend="eager")(torch.ones(2), given)[1] == f(torch.ones(2), given)[1] != ""


@pytest.mark.expects("foreign-call")
def test_a_text_of_which_python_warns_is_left_to_it():
    compiled = dynascope.compile(lambda x: (x * 2, eval("1 is 1")), backend="eager")  # noqa: S307
    for _ in range(2):
        with pytest.warns(SyntaxWarning):
            compiled(torch.ones(2))
