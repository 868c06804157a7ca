"""The cell magic, with a shell that does what IPython's does with a cell."""

import ast
import asyncio
import linecache
import sys
import types
from pathlib import Path

import dynascope
import pytest
import torch
from dynascope.report.store import read_report

CELL = """\
@torch.compile
def chosen(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y

result = chosen(torch.ones(3))
"""


class Compiler:
    def cache(self, transformed, number=0, raw_code=None):
        return f"<ipython-input-{number}>"

    def ast_parse(self, source, filename="<unknown>", symbol="exec"):
        return ast.parse(source, filename, symbol)


class Shell:
    def __init__(self):
        self.compile, self.execution_count, self.magics, self.names = Compiler(), 7, {}, {"torch": torch}

    def register_magic_function(self, function, kind, name):
        self.magics[kind, name] = function

    def run_cell(self, cell):
        name = self.compile.cache(cell, self.execution_count, raw_code=cell)
        exec(compile(self.compile.ast_parse(cell, filename=name), name, "exec"), self.names)


@pytest.fixture
def shell(monkeypatch):
    shown = []
    display = types.ModuleType("IPython.display")
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    found = Shell()
    found.shown = shown
    dynascope.load_ipython_extension(found)
    return found


@pytest.mark.compiler
def test_a_shell_that_counts_before_it_runs_says_the_cell_s_own_number(shell):
    """As IPython 9 does: inside the cell [7] it counts 8."""
    shell.execution_count = 8
    shell.displayhook = types.SimpleNamespace(exec_result=types.SimpleNamespace(execution_count=7))
    shell.magics["cell", "dynascope"]("", "torch.compile(lambda x: x * 2)(torch.ones(2))\n")
    assert shell.shown[0]._repr_mimebundle_()["application/vnd.dynascope.report+json"]["file"] == "cell_7.py"


@pytest.mark.compiler
@pytest.mark.expects("data-dependent-branch")
def test_a_cell_is_compiled_and_told_of_on_its_lines(shell):
    theirs = torch.compile
    shell.magics["cell", "dynascope"]("", CELL)
    assert shell.names["result"].tolist() == [3, 3, 3] and torch.compile is theirs
    (shown,) = shell.shown
    assert "--> cell_7.py:5:8" in repr(shown) and "if y.sum() > 0:" in repr(shown)
    assert "`y = torch.where(y.sum() > 0, y + 1, y)`" in " ".join(repr(shown).split())
    page = shown._repr_html_()
    assert 'id="cell-7-L5"' in page and 'href="#cell-7-k0"' in page and "<svg" in page
    assert shell.compile.cache("1", 8) == "<ipython-input-8>"
    bundle = shown._repr_mimebundle_()
    beside = bundle["application/vnd.dynascope.report+json"]
    assert bundle["text/html"] == page and bundle["text/plain"] == repr(shown)
    assert beside["texts"] == {"cell_7.py": f"%%dynascope\n{CELL}"} and beside["file"] == "cell_7.py"
    assert read_report(Path(beside["report"])).functions[0].name == "chosen"


def test_an_option_that_is_none_is_said_and_nothing_runs(shell, capsys):
    shell.magics["cell", "dynascope"]("--nosuch", "raise ValueError")
    assert "--nosuch is no option" in capsys.readouterr().out and not shell.shown


@pytest.mark.compiler
def test_the_report_of_a_cell_that_raises_is_shown_and_torch_has_its_own_again(shell, tmp_path):
    theirs = torch.compile
    with pytest.raises(ZeroDivisionError):
        shell.magics["cell", "dynascope"]("--quiet", "torch.compile(lambda x: x + 1)(torch.ones(2))\n1 / 0")
    assert torch.compile is theirs
    shell.magics["cell", "dynascope"](f"--quiet --json {tmp_path / 'r.json'}", CELL.replace("if y.sum() > 0", "if len(y) > 0"))
    assert (tmp_path / "r.json").exists() and not shell.shown


@pytest.mark.expects("print-call")
def test_a_cell_without_the_magic_is_named_by_its_number(shell, monkeypatch):
    name, text = "/tmp/ipykernel_1/77.py", "def told(x):\n    print('hi')\n    return x + 1\n"
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    exec(compile(text, name, "exec"), shell.names)
    shell.compile.format_code_name = {name: ("Cell", "In[3]")}.get
    shell.magics["cell", "dynascope"]("--backend eager", "torch.compile(told)(torch.ones(2))\n")
    assert "--> cell_3.py:2:5" in repr(shell.shown[0]) and "ipykernel" not in repr(shell.shown[0])
    beside = shell.shown[0]._repr_mimebundle_()["application/vnd.dynascope.report+json"]
    assert beside["texts"]["cell_3.py"] == text
    shell.magics["cell", "dynascope"]("", "told(torch.ones(2))\n")
    assert "or only what an earlier cell compiled" in " ".join(repr(shell.shown[1]).split())


def test_a_cell_that_awaits_is_left_alone_with_a_word_where_events_are_served_already(shell, capsys):
    shell.transform_cell, shell.should_run_async = str, lambda cell, transformed_cell: "await" in transformed_cell

    async def served():
        shell.magics["cell", "dynascope"]("", "await nothing\n")

    asyncio.run(served())
    assert "awaits" in capsys.readouterr().out and not shell.shown
