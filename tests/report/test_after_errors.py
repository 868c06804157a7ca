"""Which lines may run once an error on a line is handled."""

import textwrap

import pytest
from dynascope.report.after_errors import lines_after

PROGRAM = """\
def f(x):
    for item in x:
        try:
            y = x.view(7)
        except RuntimeError:
            y = x
        else:
            y = y + 1
        finally:
            done = True
        x = y
    if done:
        x = x + 1
    else:
        x = x - 1
    return x

def g(x):
    try:
        x = x.view(7)
    finally:
        x = 1
    return x

def h(x):
    try:
        return 1
    except ValueError:
        x = x.view(3)
    return lambda: x.view(7)
"""


@pytest.mark.parametrize(
    "line, after, is_handled",
    [
        (4, {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, True),
        (8, {10}, False),
        (11, set(), False),
        (20, {22}, False),
        (29, set(), False),
        (30, set(), False),
    ],
)
def test_what_follows_an_error(tmp_path, line, after, is_handled):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(PROGRAM))
    assert lines_after(str(file), line) == (after, is_handled)
