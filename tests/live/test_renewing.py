"""Edited texts in place of those that ran: what is taken over, what is set, and what only a run can say."""

import importlib.util
import itertools
import sys

import pytest
from dynascope.live.moves import Moves
from dynascope.live.renewing import renew
from dynascope.report.span import Span

TEXT = """\
import math

SCALE = 2
TABLE = [math.pi]


def helper(x, by=3):
    return x * by * SCALE


class Net:
    def __init__(self):
        self.add = 1

    def forward(self, x):
        return helper(x) + self.add


def made(y):
    return lambda x: x + y


close = made(10)
"""
numbers = itertools.count()


@pytest.fixture
def module(tmp_path):
    """The program, loaded."""
    path = tmp_path / f"edited{next(numbers)}.py"
    path.write_text(TEXT)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    found = sys.modules[path.stem] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(found)
    yield found
    del sys.modules[path.stem]


def edited(module, *changes):
    new = TEXT
    for old, replacement in changes:
        assert old in new
        new = new.replace(old, replacement)
    functions = [module.helper, module.Net.__init__, module.Net.forward, module.made, module.close]
    return renew({module.__file__: (TEXT, new)}, {module.__file__: functions})


def unknown(renewal, *functions):
    return [each.name for each in renewal.unknown_of([function.__code__ for function in functions])]


def test_functions_methods_and_closures_get_the_new_code(module):
    net = module.Net()
    renewal = edited(
        module, ("x * by", "x + by"), ("helper(x) +", "helper(x) -"), ("lambda x: x + y", "lambda x: x - y")
    )
    assert (module.helper(1), net.forward(1), module.close(1)) == (7, 6, -9)
    assert not renewal.unknown


def test_lines_move_and_nothing_else_changes(module):
    before = module.helper.__code__
    renewal = edited(module, ("import math\n", "import math\n\n# more\n"))
    assert renewal.code_of(before).co_firstlineno == before.co_firstlineno + 2 and not renewal.unknown
    assert renewal.code_of(test_lines_move_and_nothing_else_changes.__code__).co_name.startswith("test_")


def test_literals_imports_and_plain_functions_are_known(module):
    edited(
        module,
        ("SCALE = 2", "SCALE = 5\nfrom itertools import count"),
        ("by=3", "by=4"),
        ("return x * by * SCALE", "return extra(x) * by * SCALE"),
        ("def made", "def extra(x, more=1):\n    return x + more\n\n\ndef made"),
    )
    assert module.helper(1) == 40 and module.count is itertools.count


def test_methods_come_and_go(module):
    edited(
        module,
        ("    def forward(self, x):", "    def other(self, x):\n        return -x\n\n    def forwards(self, x):"),
    )
    assert module.Net().other(1) == -1 and not hasattr(module.Net, "forward")


@pytest.mark.parametrize(
    ("change", "name", "who"),
    [
        (("SCALE = 2", "SCALE = len(TABLE)"), "SCALE", "helper"),
        (("self.add = 1", "self.add = 2"), "Net.", "forward"),
        (("class Net:", "class Net(dict):"), "Net.", "forward"),
        (("def helper", "@staticmethod\ndef helper"), "helper", "forward"),
        (("by=3", "by=SCALE"), "helper", "forward"),
        (("close = ", "if True:\n    import decimal as helper\nclose = "), "helper", "forward"),
    ],
)
def test_what_only_a_run_can_say(module, change, name, who):
    functions = {"helper": module.helper, "forward": module.Net.forward}
    assert name in unknown(edited(module, change), functions[who])


def test_what_an_edit_does_not_concern_is_known(module):
    renewal = edited(module, ("TABLE = [math.pi]", "TABLE = sorted([math.pi])"), ("self.add = 1", "self.add = 2"))
    assert not unknown(renewal, module.helper) and [each.line for each in renewal.unknown] == [11, 4]


def test_a_text_that_is_no_python(module):
    with pytest.raises(SyntaxError):
        edited(module, ("SCALE = 2", "SCALE = "))


def test_places():
    moves = Moves("m.py", "a\nb\nc\n", "a\nx\nc\nd\n")
    assert [moves.line(n) for n in (1, 2, 3)] == [1, 1, 3]
    moves = Moves("m.py", "a\nb\nc\n", "n\na\nc\n")
    assert [moves.line(n) for n in (1, 2, 3)] == [2, 2, 3]
    assert moves.span(Span("m.py", 1, 0, 3, 1)) == Span("m.py", 2, 0, 3, 1)
