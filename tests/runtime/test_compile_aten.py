"""The back stages as one call: results, facts, and what happens without a compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from dynascope.codegen.facts import graph_facts
from dynascope.native.toolchain import ToolchainError
from dynascope.runtime import compile_aten as compiling
from dynascope.runtime.compile_aten import compile_aten
from recording import record


def program(x, w):
    hidden = torch.relu(x + w)
    return (hidden @ w).softmax(-1), torch.arange(3)


INPUTS = [torch.randn(4, 4), torch.randn(4, 4)]


@pytest.mark.compiler
def test_facts_name_the_users_lines() -> None:
    compiled = compile_aten(record(program, INPUTS))
    facts = graph_facts(compiled.module, "g0", "forward")
    assert [k.name for k in facts.kernels] == ["add_relu_kernel", "softmax_kernel", "arange_kernel"]
    line = program.__code__.co_firstlineno + 1
    assert facts.kernels[0].spans[0].line == line
    assert "hidden = torch.relu(x + w)" in facts.kernels[0].text
    assert facts.kernels[0].bytes_read == 128 and facts.kernels[0].bytes_written == 64
    assert [e.operation for e in facts.externs] == ["aten.mm.default"]
    assert any(b.producer == "mm_default" and b.explanation.code == "extern-call" for b in facts.borders)
    assert {t.stage for t in facts.texts} == {"loops-forward", "groups-forward", "wrapper-forward"}
    for kernel in facts.kernels:
        for link in kernel.links:
            assert 1 <= link.line <= kernel.text.count("\n")


def test_without_a_compiler_operators_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        def message(self) -> str:
            return "No C++ compiler was found."

        def remedy(self) -> str:
            return "Install g++."

    def fail(*args: object) -> None:
        error = ToolchainError.__new__(ToolchainError)
        error.reason = Missing()
        raise error

    monkeypatch.setattr(compiling, "build", fail)
    compiled = compile_aten(record(program, INPUTS))
    for actual, expected in zip(compiled.call(*INPUTS), program(*INPUTS), strict=True):
        torch.testing.assert_close(actual, expected)
    assert compiled.notes[0].code == "kernels-not-built"


def test_a_defect_in_a_stage_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("dynascope.runtime.generate.fuse", fail)
    compiled = compile_aten(record(program, INPUTS))
    torch.testing.assert_close(compiled.call(*INPUTS)[0], program(*INPUTS)[0])
    assert compiled.notes[0].code == "kernel-generation-failed"


@pytest.mark.compiler
def test_imports_nothing_heavy() -> None:
    code = (
        "import sys, torch\nbefore = set(sys.modules)\nfrom dynascope.runtime.compile_aten import compile_aten\n"
        "from torch import fx\ng = fx.Graph(); x = g.placeholder('x'); x.meta.update(val=torch.empty(4, device='meta'), device='cpu')\n"
        "y = g.call_function(torch.ops.aten.exp.default, (x,)); y.meta.update(val=torch.empty(4, device='meta'), device='cpu')\n"
        "g.output((y,)); compile_aten(fx.GraphModule(torch.nn.Module(), g)).call(torch.ones(4))\n"
        "new = set(sys.modules) - before\n"
        "peers = ('torch._dynamo', 'torch._inductor', 'torch._functorch.aot')\n"
        "print([m for m in new if m.split('.')[0] in ('sympy', 'networkx') or m.startswith(peers)])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


def test_a_defect_while_building_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("os.fork is unsafe now")

    monkeypatch.setattr(compiling, "build", fail)
    compiled = compile_aten(record(program, INPUTS))
    torch.testing.assert_close(compiled.call(*INPUTS)[0], program(*INPUTS)[0])
    assert compiled.notes[0].code == "kernel-generation-failed" and "build" in compiled.notes[0].message
