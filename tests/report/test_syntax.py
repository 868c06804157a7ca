"""What stands at a place: conditions, assigned names, the parts of a construction."""

import ast
import contextlib
import warnings

import pytest
from dynascope.report.span import Span
from dynascope.report.syntax import (
    argument_texts,
    assigned_names,
    built_expression,
    condition,
    parsed,
    part_of_statement,
)

TEXT = """\
import torch
from torch import nn

net = nn.Sequential(
    nn.Linear(2, 3),
    nn.ReLU(),
)
named = nn.Sequential(OrderedDict([("first", nn.Linear(2, 3)), ("second", nn.ReLU())]))

def f(x, y):
    q, k = x.split(3)
    z: int = x.sum()
    if x.sum() > 0 and y.any():
        return x if y.all() else -x
    while (x > 0).any():
        x = x - 1
    assert x.isfinite().all(), "no"
    return [v for v in x if v > 0]

f(net(q), y=k)
"""


@pytest.fixture
def at(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(TEXT)
    lines = TEXT.splitlines()

    def place(line, text=None, columns=True):
        start = lines[line - 1].index(text) if text else 0
        return Span(str(file), line, start, line, start + len(text)) if columns and text else Span(str(file), line)

    return place


CONDITIONS = [
    (13, None, "if", "x.sum() > 0 and y.any()"),
    (13, "x.sum() > 0", "if", "x.sum() > 0 and y.any()"),
    (14, "y.all()", "conditional expression", "y.all()"),
    (15, "(x > 0).any()", "while", "(x > 0).any()"),
    (15, None, "while", "(x > 0).any()"),
    (17, None, "assert", "x.isfinite().all()"),
    (18, "v > 0", "comprehension", "v > 0"),
]


@pytest.mark.parametrize("line, text, asker, expected", CONDITIONS)
def test_what_asks_for_a_truth(at, line, text, asker, expected):
    found = condition(at(line, text))
    assert (found.asker, found.span.text()) == (asker, expected)


def test_a_file_that_cannot_be_read_has_no_condition():
    assert condition(Span("/no/such/file.py", 3)).span is None


def test_the_names_a_value_gets(at):
    assert assigned_names(at(11, "x.split(3)")) == ("q", "k")
    assert assigned_names(at(12, "x.sum()")) == ("z",)
    assert assigned_names(at(13, "x.sum()")) == ()


def test_the_part_of_a_construction_that_made_a_member(at):
    whole = Span(at(4).file, 4, 6, 7, 1)
    assert built_expression(whole, "0").text() == "nn.Linear(2, 3)"
    assert built_expression(whole, "1").line == 6
    assert built_expression(whole, "9") == whole
    named = at(8, 'nn.Sequential(OrderedDict([("first", nn.Linear(2, 3)), ("second", nn.ReLU())]))')
    assert built_expression(named, "second").text() == "nn.ReLU()"


def test_what_a_call_gives_for_its_parameters(at):
    assert argument_texts(at(20, "f(net(q), y=k)"), ("x", "y")) == {"y": "k"}, "a call is no name"


WARNS = "x = '\\d'\nif x is 1: pass\n"


@pytest.mark.parametrize("filters", ["default", "error"])
def test_parsing_says_nothing_and_forgets_nothing(filters):
    shown = {}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter(filters)
        before = list(warnings.filters)
        for _ in range(2):
            with contextlib.suppress(UserWarning):
                warnings.warn_explicit("once", UserWarning, "program.py", 1, registry=shown)
            assert len(parsed(WARNS).body) == len(parsed(WARNS.encode()).body) == 2
        assert warnings.filters == before
    assert [str(each.message) for each in said] == (["once"] if filters == "default" else [])


def test_a_program_that_warns_when_it_is_compiled_can_be_read():
    with pytest.raises(SyntaxError):
        parsed("x = (")
    assert isinstance(parsed("'\\d' + a", mode="eval").body, ast.BinOp)


@pytest.mark.parametrize(
    "line, text, part",
    [
        ("y = model(x).squeeze(-1)", "model(x)", "model(x)"),
        ("y = model(x)", "model(x)", None),
        ("y = np.sort(x.numpy())[0]", "x.numpy()", "x.numpy()"),
        ("y = z, model(x)", "model(x)", None),
        ("y = model(x) if ready else x", "model(x)", None),
        ("a, b = (model(each) for each in x)", "model(each)", None),
        ("print(model(x).sum())", "model(x)", None),
        ("optimizer.step()", "optimizer.step()", ""),
        ("y = model(first_argument, second_argument, third_argument).sum()", "model(first_argument, second_argument, third_argument)", "…"),
    ],
)
def test_what_an_assignment_goes_on_with(tmp_path, line, text, part):
    file = tmp_path / "part.py"
    file.write_text(f"{line}\n")
    column = line.index(text)
    assert part_of_statement(Span(str(file), 1, column, 1, column + len(text))) == part
