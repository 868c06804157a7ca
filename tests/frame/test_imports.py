"""The Python modules of `frame/` know the standard library, `report`, `native` and what all stand on, and nothing else."""

import ast
import sys
from pathlib import Path

import dynascope.frame
import pytest

FILES = sorted(Path(dynascope.frame.__file__).parent.glob("*.py"))
ALLOWED = ("dynascope.frame", "dynascope.report", "dynascope.native", "dynascope.dataclass")


@pytest.mark.parametrize("path", [p for p in FILES if p.name != "hook.py"], ids=lambda path: path.name)
def test_imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        modules = [node.module] if isinstance(node, ast.ImportFrom) else []
        modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for module in modules:
            assert module.startswith(ALLOWED) or module.partition(".")[0] in sys.stdlib_module_names
