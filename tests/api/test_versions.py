"""Versions of Python and torch: what is too old is refused in one line and runs, what is newer is served with a note."""

import importlib.machinery
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dynascope
import pytest
import torch
from dynascope import process_notes, recording, requirements, self_check
from dynascope.frame import hook_native, versions
from dynascope.pipeline import GraphBreakError
from dynascope.report.terminal import Page, report_text

ROOT = Path(__file__).parent.parent.parent
ENGINE = ROOT / "engine"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2.13.0+cpu", (2, 13)),
        ("2.16.0.dev20261101+cu130", (2, 16)),
        ("2.14.0a0+git1a2b3c4", (2, 14)),
        ("2.2.0", (2, 2)),
        ("v3.0", (3, 0)),
        ("1.13.1", (1, 13)),
        ("built here", None),
        ("", None),
        (None, None),
    ],
)
def test_versions_are_read_by_rule(text, found):
    assert requirements.numbers(text) == found


@pytest.mark.parametrize("text", ["2.16.0", "2.17.0.dev20261101", "3.0.0", "built here", None])
def test_a_newer_torch_is_served_with_a_note(text):
    assert requirements.unserved_torch(text) is None
    (reason,) = (r for r in requirements.newer_than_tested(text) if r.code == "newer-torch")
    assert "newer than what Dynascope was tested with (2.11 to 2.15)" in reason.message()


@pytest.mark.parametrize("text", ["2.11.0", "2.15.0+cpu", "2.14.0a0+git1a2b3c4"])
def test_a_tested_torch_has_no_note(text):
    assert [r.code for r in requirements.newer_than_tested(text) if r.code == "newer-torch"] == []


@pytest.mark.parametrize("text", ["2.10.0", "2.2.0", "1.13.1+cu117", "2.10.0a0+gitabc"])
def test_an_old_torch_is_refused_by_name(text):
    assert text in requirements.unserved_torch(text).message()


@pytest.fixture
def newer_torch(monkeypatch):
    """This torch, said to be one that nobody tested."""
    monkeypatch.setattr(requirements, "TORCHES", ((2, 9), (2, 10)))
    from dynascope import pipeline

    pipeline._unfit.cache_clear()
    yield
    pipeline._unfit.cache_clear()


def program(x):
    return (x * 2 + 1).relu()


X = torch.arange(4.0)


def test_newer_versions_are_compiled_for_and_the_report_says_so(newer_torch):
    explanation = dynascope.explain(program, X)
    assert explanation.graph_count == 1 and torch.equal(explanation.result, program(X))
    assert "newer-torch" in [note.code for note in explanation.report.notes]


def test_the_self_check_holds_here():
    assert self_check.first_failure() is None


STATES = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "default device": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_the_self_check_does_not_depend_on_the_state_of_the_first_call(state):
    with state():
        assert self_check.first_failure() is None


def wrong_decode(code):
    instructions = decode(code)
    for instruction in instructions:
        if instruction.operation == "BINARY_OP" and instruction.value == "+":
            instruction.value = "-"
    return instructions


decode = self_check.decode
BROKEN = {
    "reading and writing bytecode": lambda patch: patch.setattr(self_check, "decode", wrong_decode),
    "capture": lambda patch: patch.setattr(self_check, "capture", lambda *a: 1 / 0),
    "differentiation": lambda patch: patch.setattr(self_check, "bridge", lambda pair, *_: lambda x: (x * 2,)),
    "meta kernels": lambda patch: patch.setitem(
        self_check.programs.OPERATIONS, "sum", lambda x: x.sum(1) if x.is_meta else x.sum(2)[:, :3]
    ),
}


@pytest.mark.parametrize("subject", BROKEN)
def test_what_does_not_hold_is_named_and_programs_run_as_written(subject, newer_torch, monkeypatch):
    BROKEN[subject](monkeypatch)
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(program)
        for _ in range(2):
            assert torch.equal(compiled(X), program(X))
    finally:
        recording.use(before)
    report = recorder.report()
    assert [note.code for note in report.notes] == ["self-check-failed"] and subject in report.notes[0].message
    assert report.graphs == ()
    assert "captures nothing, because the self-check failed" in " ".join(report_text(report, Page()).split())
    with pytest.raises(GraphBreakError, match="self-check-failed"):
        dynascope.compile(program, fullgraph=True)(X)


def test_the_tables_of_versions_agree():
    first, last = requirements.PYTHONS
    assert [v for v in versions.FACTS if first <= v <= last] == [(3, minor) for minor in range(first[1], last[1] + 1)]
    assert versions.KNOWN_FRAMES == requirements.PYTHONS


def test_no_bound_makes_pip_or_a_person_downgrade():
    text = (ROOT / "pyproject.toml").read_text()
    lowest, torch_lowest = map(requirements.spelled, (requirements.PYTHONS[0], requirements.TORCHES[0]))
    assert f'requires-python = ">={lowest}"' in text and f'"torch>={torch_lowest}"' in text
    script = (ROOT / "extension" / "src" / "python" / "requirements.ts").read_text()
    named = [tuple(map(int, found)) for found in re.findall(r"Version = \[(\d+), (\d+)\]", script)]
    assert named == [requirements.PYTHONS[0], requirements.TORCHES[0]]


def test_a_layout_that_is_not_known_is_named(monkeypatch):
    from dynascope.guards import tensor_layout

    dynascope.compile(program)(X)
    unknown = tensor_layout.functools.lru_cache(maxsize=1)(lambda: None)
    unknown()
    monkeypatch.setattr(tensor_layout, "tensor_layout", unknown)
    codes = [note.code for note in process_notes.process_notes()]
    assert ("tensor-layout-unknown" in codes) == (hook_native.refusal is None)


def run(tmp_path, site, text="print('ran')\n"):
    file = tmp_path / "program.py"
    file.write_text(text)
    path = os.pathsep.join([str(site), str(ENGINE)])
    return subprocess.run(
        [sys.executable, "-m", "dynascope", "run", "--quiet", "--json", str(tmp_path / "report.json"), str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
    )


def codes(tmp_path):
    return [note["code"] for note in json.loads((tmp_path / "report.json").read_text())["notes"]]


def make_torch(folder, version, extension=False):
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").touch()
    (folder / "torch" / "version.py").write_text(f"__version__ = {version!r}\n")
    if extension:
        (folder / "torch" / f"_C{importlib.machinery.EXTENSION_SUFFIXES[0]}").touch()
    # Metadata of the torch that is installed here lies further behind on the path.
    (folder / f"torch-{version}.dist-info").mkdir()
    (folder / f"torch-{version}.dist-info" / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n"
    )
    return folder


@pytest.mark.parametrize("version", ["2.2.0", "1.13.1+cpu", "2.10.0a0+gitabc"])
def test_a_program_with_an_old_torch_runs_as_it_was_written(tmp_path, version):
    answer = run(tmp_path, make_torch(tmp_path / "site", version))
    assert (answer.returncode, answer.stdout) == (0, "ran\n")
    (line,) = answer.stderr.splitlines()
    assert f"torch {version} of {sys.executable} is too old" in line and "pip install 'torch>=2.11'" in line
    assert codes(tmp_path) == ["wrong-torch"]


def test_a_torch_without_its_extension_is_said_and_the_program_runs(tmp_path):
    answer = run(tmp_path, make_torch(tmp_path / "site", "2.13.0"))
    assert (answer.returncode, answer.stdout) == (0, "ran\n")
    (line,) = answer.stderr.splitlines()
    assert "has no C++ extension `_C`" in line
    assert codes(tmp_path) == ["broken-torch"]


def test_the_version_of_a_torch_without_metadata_is_read_from_its_file(tmp_path, monkeypatch):
    site = make_torch(tmp_path / "site", "2.16.0.dev20261101", extension=True)
    shutil.rmtree(site / "torch-2.16.0.dev20261101.dist-info")
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "torch")
    assert requirements.torch_version() == "2.16.0.dev20261101"
    assert requirements.unmet_requirement() is None
