"""Files that Python runs only as modules of their packages: every command takes them as what they are."""

import json
import subprocess
import sys

import pytest
from dynascope.command.modules import Module, module_of

pytestmark = pytest.mark.expects_in_children("data-dependent-branch")

BLOCKS = """import torch

def gate(x):
    if x.sum() > 0:
        return x * 2
    return x - 1
"""
MAIN = """import torch
from .blocks import gate
from ..other import shift

@torch.compile
def step(x):
    return shift(gate(x))

print(step(torch.ones(3)), __package__, __spec__.name, __name__)
"""


def run(*words, folder):
    return subprocess.run([sys.executable, "-m", "dynascope", *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture
def project(tmp_path):
    inner = tmp_path / "src" / "pkg" / "inner"
    inner.mkdir(parents=True)
    for folder in (inner, inner.parent):
        (folder / "__init__.py").touch()
    (inner / "blocks.py").write_text(BLOCKS)
    (inner / "main.py").write_text(MAIN)
    (inner.parent / "other.py").write_text("def shift(x):\n    return x + 1\n")
    return tmp_path


def test_it_runs_and_its_report_has_the_file(project):
    done = run("run", "--json", "report.json", "src/pkg/inner/main.py", folder=project)
    assert done.returncode == 0, done.stderr
    assert "pkg.inner pkg.inner.main __main__" in done.stdout
    assert json.loads((project / "report.json").read_text())["program"]["file"] == "src/pkg/inner/main.py"


def test_its_breaks_are_mended(project):
    done = run("fix", "--write", "src/pkg/inner/main.py", folder=project)
    assert done.returncode == 0, done.stderr
    assert "1 graph instead of 3" in done.stderr
    assert "torch.where" in (project / "src/pkg/inner/blocks.py").read_text()


def test_it_is_compared(project):
    done = run("compare", "--backends", "dynascope", "--output-format", "json", "src/pkg/inner/main.py", folder=project)
    assert done.returncode == 0, done.stderr
    assert [each["results"] for each in json.loads(done.stdout)] == ["equal", "equal"]


def test_its_captures_are_compared(project):
    done = run("compare-captures", "--output-format", "json", "src/pkg/inner/main.py::step", folder=project)
    assert done.returncode == 0, done.stderr
    assert "dynascope" in done.stdout


class TestModules:
    """Files that Python runs only with `-m`."""

    @pytest.fixture
    def package(self, tmp_path):
        inner = tmp_path / "src" / "pkg" / "inner"
        inner.mkdir(parents=True)
        for folder in (inner, inner.parent):
            (folder / "__init__.py").touch()
        return inner

    def test_a_relative_import_makes_one(self, package):
        text = "import os\nfrom . import blocks\n"
        root = str(package.parent.parent)
        assert module_of(str(package / "main.py"), text) == Module("pkg.inner.main", root)
        assert module_of(str(package.parent / "__main__.py"), text) == Module("pkg", root)

    @pytest.mark.parametrize(
        "text",
        [
            "import os\n",
            "from pkg import blocks\n",
            "try:\n    from . import blocks\nexcept ImportError:\n    import blocks\n",
            "def main():\n    from . import blocks\n",
            "from . import (\n",
        ],
    )
    def test_others_run_by_their_names(self, package, text):
        assert module_of(str(package / "main.py"), text) is None

    def test_without_a_package_there_is_none(self, package):
        assert module_of(str(package.parent.parent / "main.py"), "from . import blocks\n") is None
        assert module_of(str(package / "my-main.py"), "from . import blocks\n") is None
