"""What a report says where a library stands between the program and the work: decorated forwards, names made at a first use."""

import importlib
import sys
import textwrap

import dynascope
import pytest
from dynascope import recording
from dynascope.changes import change_of
from dynascope.guards.guard import Guard
from dynascope.guards.source import FrameValues
from dynascope.guards.world import ABSENT, WorldIs, WorldLog
from dynascope.reasons import GuardFailed
from dynascope.report.facts import GuardFact
from dynascope.report.findings import findings
from dynascope.report.guard_rows import guard_rows
from dynascope.report.terminal import Page, report_text
from dynascope.report.variants import variants_of

LIBRARY = """
import functools
import torch


def decorated(function):
    @functools.wraps(function)
    def wrapper(self, *args, **kwargs):
        return function(self, *args, **kwargs)
    return wrapper

class Model(torch.nn.Module):
    @decorated
    def forward(self, first=None, *, ids=None, labels=None):
        return (first if ids is None else ids) * 2
"""
PROGRAM = """
import torch

import dynascope
from layered import Model

def keyword(model, batch):
    return model(ids=batch, labels=None)

def expression(model, batch):
    return model(ids=batch * 2)

def positional(model, batch):
    return model(batch)

def holder(batch):
    return {"ids": batch}

def items(model, batch):
    given = holder(batch)
    return model(**given)

for rows in (3, 5):
    NAME(model, torch.ones(rows, 2))
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "layered.py").write_text(textwrap.dedent(LIBRARY))
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    yield importlib.import_module("layered")
    del sys.modules["layered"]


def report_of(path, text, **names):
    path.write_text(text)
    recorder = recording.Recorder(str(path))
    before = recording.use(recorder)
    try:
        exec(compile(text, str(path), "exec"), names)
    finally:
        recording.use(before)
    return recorder.report()


@pytest.mark.parametrize(
    "name, called",
    [("keyword", "batch"), ("expression", "ids"), ("positional", "batch"), ("items", "given['ids']")],
)
def test_collected_arguments_have_the_names_of_the_call(library, tmp_path, name, called):
    model = dynascope.compile(library.Model(), backend="eager")
    report = report_of(tmp_path / "program.py", PROGRAM.replace("NAME", name), model=model)
    (found,) = [each for each in findings(report) if each.kind == "recompile"]
    assert found.message == f"Compiled again: `{called}` has shape [5, 2], and had [3, 2]."
    (function,) = report.functions
    assert [variant.label for variant in variants_of(function)] == [f"{called} f32[3, 2]", f"{called} f32[s0, 2]"]
    assert "<locals>" not in report_text(report, Page()), "decorators between the program and the work are left out"


def test_what_a_library_makes_at_its_first_use_is_expected(library):
    log = WorldLog()
    log.note(vars(library), "_ready", ABSENT)
    guard, values = Guard((), WorldIs(log.spaces())), FrameValues({}, {}, {})
    vars(library)["_ready"] = True
    change = change_of(guard, values, test_one_function_is_what_it_was.__code__)
    assert change.expression == "layered._ready" and change.is_first_filling
    assert "Leave it" in GuardFailed(str(guard.failure(values)), change).remedy()


def test_what_was_asked_to_be_one_graph_did_not_run(tmp_path):
    text = textwrap.dedent("""
        import dynascope, torch
        from dynascope.pipeline import GraphBreakError

        @dynascope.compile(fullgraph=True)
        def signed(x):
            if x.sum() > 0:
                return x + 1
            return x - 1

        try:
            signed(torch.ones(3))
        except GraphBreakError:
            pass
    """)
    shown = report_text(report_of(tmp_path / "program.py", text), Page())
    assert "runs uncompiled" not in shown and shown.count("raises: fullgraph=True") == 2


def test_one_function_is_what_it_was():
    module = GuardFact("F", "`F` is the module torch.nn.functional", "IdentityIs")
    assert list(guard_rows([module])) == ["`F` is what it was  (1 check)"]
