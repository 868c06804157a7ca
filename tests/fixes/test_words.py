"""What a fix writes has numbers as the person wrote them."""

import ast

import pytest
from dynascope.fixes.words import parsed, words_of

WRITTEN = ["x.clamp(1e-9, 1_000)", "é + 0x1F * .5", "f'{x:.3f}' + str(1e3)", "(-1e9, 10 ** 2, True)"]
TEXTS = ['f"{x:.3f},{y!r}" + str("a")', """f"{d['a']:>{n}}" + 'it'"""]


@pytest.mark.parametrize("text", [*WRITTEN, *TEXTS])
def test_numbers_stay_as_they_were_written(text):
    assert words_of(parsed(text).body[0].value) == text


def test_so_they_do_in_what_is_put_together():
    left = parsed("x > 1e-6").body[0].value
    assert words_of(ast.Call(ast.Name("where"), [left, ast.Constant(1e-06)], [])) == "where(x > 1e-6, 1e-06)"
