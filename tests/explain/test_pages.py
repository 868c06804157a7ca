"""Every reason has a page, and what the pages show is true: the program breaks where it says, the remedy removes the break."""

import importlib
import pkgutil
import re
from pathlib import Path

import dynascope
import pytest
import torch
from dynascope.command.explain import PAGES, codes, page, title
from dynascope.report.reason import Reason

BLOCK = re.compile(r"```python\n(.*?)```", re.S)
BREAK = re.compile(r"# break: \[([a-z-]+)\]")


def reason_classes():
    for module in pkgutil.walk_packages(dynascope.__path__, "dynascope."):
        if module.name != "dynascope.__main__":
            importlib.import_module(module.name)
    pending = list(Reason.__subclasses__())
    while pending:
        kind = pending.pop()
        pending += kind.__subclasses__()
        if kind.code and kind.__module__.startswith("dynascope"):
            yield kind


def programs():
    return [name for name in codes() if BLOCK.search(page(name))]


def load(block, folder, name):
    """The program as a file of its own, so that places in it are real."""
    file = folder / f"{name}.py"
    file.write_text("import torch\n" + block)
    namespace = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    return namespace["f"], namespace["inputs"], file


def test_every_reason_has_a_page():
    missing = sorted({kind.code for kind in reason_classes()} - set(codes()))
    assert not missing


def test_every_page_has_a_reason():
    assert sorted(set(codes()) - {kind.code for kind in reason_classes()}) == []


@pytest.mark.parametrize("code", codes())
def test_a_page_names_its_code_and_says_something(code):
    assert page(code).startswith(f"# {code}: ") and title(code)
    assert max(map(len, (PAGES / f"{code}.md").read_text().splitlines())) <= 130


@pytest.mark.parametrize("code", programs())
def test_the_program_breaks_where_the_page_says(code, tmp_path):
    block = BLOCK.findall(page(code))[0]
    function, inputs, file = load(block, tmp_path, "before")
    lines = {i: BREAK.search(text)[1] for i, text in enumerate(file.read_text().splitlines(), 1) if BREAK.search(text)}
    explanation = dynascope.explain(dynascope.compile(function, backend="eager"), *inputs)
    found = {reason.span.line: reason.code for reason in explanation.break_reasons}
    assert found == lines
    torch.testing.assert_close(explanation.result, function(*inputs))


@pytest.mark.parametrize("code", programs())
def test_the_remedy_removes_the_break(code, tmp_path):
    before, after = BLOCK.findall(page(code))
    first, inputs, _ = load(before, tmp_path, "before")
    second, other_inputs, _ = load(after, tmp_path, "after")
    explanation = dynascope.explain(dynascope.compile(second, backend="eager"), *other_inputs)
    assert explanation.break_reasons == () and explanation.graph_count == 1
    torch.testing.assert_close(explanation.result, first(*inputs))


def test_every_example_on_a_page_is_a_pair():
    for code in programs():
        assert len(BLOCK.findall(page(code))) == 2, code


def test_pages_are_files_of_this_package():
    assert Path(dynascope.__file__).parent in PAGES.parents
