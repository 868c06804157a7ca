"""Torch's Python kernels run without sympy, whose import takes half as long as torch's own."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from dynascope.meta_kernels import quiet_torch

SYMBOLIC = "torch.fx.experimental.symbolic_shapes"
ABOUT_SYMBOLS = {"constrain_range", "_constrain_range_for_size"}
"""Asked of sizes that are symbols, of which there are none."""


@pytest.mark.parametrize("module", ["torch._refs", "torch._decomp.decompositions", "torch._meta_registrations", "torch._prims_common"])
def test_all_that_this_torch_asks_of_symbolic_sizes_is_answered(module):
    found = importlib.util.find_spec(module)
    tree = ast.parse(Path(found.origin).read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == SYMBOLIC]
    asked = {alias.name for node in imports for alias in node.names}
    assert asked - ABOUT_SYMBOLS <= vars(quiet_torch._PLAIN_SIZES).keys()


PROGRAM = """
import sys, torch, dynascope
def f(x, mask): return torch.sub(x, x.mean(), alpha=2)[mask].sum() + torch.isclose(x, x + 1).sum()
print(dynascope.compile(f, backend="eager")(torch.ones(4, 3), torch.ones(4, dtype=torch.bool)).item(), "sympy" in sys.modules)
"""


def test_a_program_is_compiled_without_it():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["-12.0", "False"], done.stderr
