"""Marks before any run: only what is sure from the words, only in functions that are compiled, gone once there is a report."""

import pytest
from dynascope_server.ide.syntax_marks import marks

pytestmark = pytest.mark.asyncio(loop_scope="session")
HEAD = "import torch\n\n\n"


def found(text):
    return [(mark.span.line, mark.code) for mark in marks("m.py", HEAD + text)]


@pytest.mark.parametrize(
    "body, wanted",
    [
        ("    print(x)\n", "print-call"),
        ("    logger.warning('x')\n", None),
        ("    s = x.max().item()\n", None),
        ("    s = x.max().item()\n    if s > 0:\n        x = -x\n", "data-dependent-branch"),
        ("    s = x.sum().numpy()\n", None),
        ("    if x.sum() > 0:\n        x = -x\n", "data-dependent-branch"),
        ("    while (x.mean() > 0) and True:\n        x = -x\n", "data-dependent-branch"),
        ("    y = x.sum()\n    y = y * 2\n    assert y >= 0\n", "data-dependent-branch"),
        ("    y = torch.tanh(x)\n    if y.mean() > 0:\n        y = -y\n", "data-dependent-branch"),
        ("    y = (x * 2).sum(-1)\n    if y.max() > 1:\n        y = -y\n", "data-dependent-branch"),
        ("    if torch.is_grad_enabled():\n        x = -x\n", None),
        ("    y = torch.nonzero(x)\n", None),
        ("    if x.shape[0] > 2:\n        x = -x\n", None),
        ("    if mask is None:\n        x = x.sum()\n", None),
        ("    if not torch.compiler.is_compiling():\n        print(x.sum())\n", None),
        ("    if flag:\n        x = -x\n", None),
        ("    d.items()\n    self.dim()\n", None),
        ("    z = a.numpy()\n", None),
    ],
)
async def test_what_is_marked_in_a_compiled_function(body, wanted):
    text = f"def f(x, mask=None, flag=True):\n{body}    return x\n"
    assert [code for _, code in found(f"@torch.compile\n{text}")] == ([wanted] if wanted else [])
    assert not found(text + "\ng = torch.sum\n")


async def test_which_functions_are_compiled():
    body = "(x):\n    print(x)\n    return x\n\n\n"
    assert found(f"@torch.compile(dynamic=True)\ndef f{body}") == [(6, "print-call")]
    assert found(f"def f{body}g = torch.compile(f)\n") == [(5, "print-call")]
    model = "class M(nn.Module):\n    def forward(self, x):\n        print(x)\n\n    def other(self):\n        print(1)\n\n\n"
    assert found(f"{model}m = M()\nm = torch.compile(m)\n") == [(6, "print-call")]
    assert found(f"{model}m = torch.compile(M())\n") == [(6, "print-call")]
    assert not found(f"{model}m = M()\n") and not found("def f(:\n    torch.compile\n")


async def test_marks_come_while_typing_and_go_with_a_run(editor):
    await editor.start()
    path = editor.program(HEAD + "@torch.compile\ndef f(x):\n    return x\n")
    editor.open(path)
    editor.edit(path, HEAD + "@torch.compile\ndef f(x):\n    print('é', x)\n    return x\n")
    await editor.until(lambda: [d.code for d in editor.diagnostics(path)] == ["print-call"])
    (mark,) = editor.diagnostics(path)
    assert (mark.severity, mark.range.start.line, mark.range.start.character) == (3, 5, 4)
    editor.edit(path, HEAD + "def f(x):\n    print(x)\n", 3)
    await editor.until(lambda: not editor.diagnostics(path))
    editor.edit(path, path.read_text() + "\n@torch.compile\ndef g(x):\n    print(x)\n", 4)
    await editor.until(lambda: editor.diagnostics(path))
    await editor.run(path)
    await editor.until(lambda: "print-call" not in [d.code for d in editor.diagnostics(path)])
