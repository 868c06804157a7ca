"""Edits of a text, in the columns of Python's grammar."""

import pytest
from dynascope.fixes.edits import Edit, apply, are_apart, line_before
from dynascope.fixes.source import Source
from dynascope.report.span import Span


def test_edits_are_made_from_the_end():
    text = "größe = x.item()\ny = 2\n"
    column = len(b"gr\xc3\xb6\xc3\x9fe = ")
    edits = [Edit(2, 0, 2, 0, "# two\n"), Edit(1, column, 1, column + 8, "x")]
    assert apply(text, edits) == "größe = x\n# two\ny = 2\n"


def test_the_same_edit_is_made_once_and_others_at_its_place_never():
    edit = Edit(1, 0, 1, 1, "b")
    assert apply("a\n", [edit, edit]) == "b\n"
    assert not are_apart([edit, Edit(1, 0, 1, 1, "c")])
    with pytest.raises(ValueError):
        apply("abc\n", [Edit(1, 0, 1, 2, "x"), Edit(1, 1, 1, 3, "y")])


@pytest.mark.parametrize(
    "text, name, added",
    [
        ("import torch\n", "torch", ()),
        ("import torch as t\n", "t", ()),
        ("'''doc'''\nfrom __future__ import annotations\nfrom torch import nn\n", "torch", (3,)),
        ("x = 1\n", "torch", (1,)),
    ],
)
def test_what_a_text_calls_torch(text, name, added):
    found, edits = Source(text).torch
    assert (found, tuple(edit.line for edit in edits)) == (name, added)


def test_the_smallest_expression_around_a_place():
    source = Source("y = f(a + b)\n")
    node = source.expression_at(Span("m.py", 1, 6, 1, 11))
    assert source.text_of(node) == "a + b"
    assert source.expression_at(Span("m.py", 1)) is None


def test_a_line_of_the_edited_text_was_another_before():
    before, after = "a\nprint(1)\nb\nc\n", "a\nif x:\n    print(1)\nb\nd = c\n"
    assert [line_before(before, after, line) for line in range(1, 6)] == [1, 2, 2, 3, 4]
