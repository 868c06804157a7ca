"""Who imports whom. What this forbids is what ARCHITECTURE.md says must never be."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ENGINE = ROOT / "engine" / "dynascope"
SERVER = ROOT / "server" / "dynascope_server"

ALLOWED = {
    "report": set(),
    "native": {"report"},
    "frame": {"report", "native"},
    "sizes": set(),
    "guards": {"report", "native", "frame", "sizes"},
    "meta_kernels": set(),
    "autograd_functions": set(),
    "tiled_attention": set(),
    "capture": {"report", "native", "frame", "guards", "meta_kernels", "autograd_functions", "tiled_attention", "sizes"},
    "random_numbers": set(),
    "grad": {"report", "meta_kernels", "autograd_functions", "random_numbers", "sizes"},
    "loops": {"report", "native", "random_numbers", "sizes"},
    "schedule": {"report", "native", "loops", "sizes"},
    "codegen": {"report", "native", "tiled_attention", "loops", "schedule", "sizes"},
    "runtime": {"report", "native", "tiled_attention", "loops", "schedule", "codegen", "random_numbers", "sizes"},
    "fixes": {"report"},
}
GROUND = {"dataclass"}
"""Modules that all stand on, and that stand on nothing of ours."""
PEERS = ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd")
NO_TORCH = ("report", "native", "frame", "sizes", "fixes")
MAY_NAME_PEERS = {"backends.py", "symbolic_backends.py"}


@functools.cache
def read(path):
    """The names that a file imports, and of the module and all classes the functions that each defines. Parsed once."""
    imported, defined = [], []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            imported += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, (ast.Module, ast.ClassDef)):
            defined.append([each.name for each in node.body if isinstance(each, ast.FunctionDef) and not each.decorator_list])
    return imported, defined


def imports(path):
    return read(path)[0]


def python_files(folder):
    return sorted(folder.rglob("*.py"))


@pytest.mark.parametrize("package", ALLOWED)
def test_package_imports_only_what_lies_below(package):
    for path in python_files(ENGINE / package):
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "dynascope":
                assert parts[1] in ALLOWED[package] | GROUND | {package}, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("module", sorted(GROUND))
def test_ground_stands_alone(module):
    assert not any(name.startswith("dynascope") or name.startswith("torch") for name in imports(ENGINE / f"{module}.py"))


def test_dataclasses_write_their_methods_when_these_are_used():
    """The standard library's would be half of the time of the engine's import."""
    for path in python_files(ENGINE):
        if path != ENGINE / "dataclass.py":
            assert "dataclasses.dataclass" not in imports(path), path.relative_to(ROOT)


@pytest.mark.parametrize("package", NO_TORCH)
def test_package_imports_no_torch(package):
    for path in python_files(ENGINE / package):
        assert not any(name.split(".")[0] == "torch" for name in imports(path)), path.relative_to(ROOT)


def test_engine_never_imports_its_peers():
    for path in python_files(ENGINE):
        if path.name not in MAY_NAME_PEERS:
            assert not any(name.startswith(PEERS) for name in imports(path)), path.relative_to(ROOT)


def test_server_sees_the_report_only():
    for path in python_files(SERVER):
        for name in imports(path):
            assert name.split(".")[0] != "torch", path.relative_to(ROOT)
            if name.startswith("dynascope."):
                assert name.startswith(("dynascope.report", "dynascope.dataclass")), f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("statement", ["import dynascope_server.__main__", "import dynascope, dynascope.report.facts"])
def test_import_leaves_torch_out(statement):
    program = f"import sys; {statement}; sys.exit('torch' in sys.modules)"
    environment = {"PYTHONPATH": f"{ROOT / 'engine'}:{ROOT / 'server'}", "PATH": ""}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.parametrize("folder", [ENGINE, SERVER])
def test_no_method_takes_the_place_of_another_of_its_class(folder):
    """Of two definitions of one name in one body Python keeps the last, silently."""
    for path in python_files(folder):
        for names in read(path)[1]:
            assert len(names) == len(set(names)), f"{path.relative_to(ROOT)}: {sorted(names)}"
