"""Hand-made reports for the server's tests: one small program with a break, a kernel, guards and a recompilation."""

import json

from dynascope.report import facts
from dynascope.report.json_format import to_json
from dynascope.report.reason import Explanation
from dynascope.report.span import Span, UserFrame

PROGRAM = """\
import torch


def helper(x):
    return x * 2


def forward(x, größe):
    y = torch.softmax(x, -1) + größe
    if y.sum() > 0:
        y = helper(y)
    return y


print(forward(torch.ones(8, 64), 3))
"""
SOFTMAX_LINE, BRANCH_LINE, HELPER_LINE, CALL_LINE = 9, 10, 11, 15
KERNEL = """\
#include "vector.h"
void softmax(const float* x, float* out) {
    float t0 = expf(x[0]);  // model.py:9
    out[0] = t0;
}
"""


def span_of(path, line, text=None):
    """The span of an expression on its line of PROGRAM, in UTF-8 bytes as PEP 657 counts."""
    if text is None:
        return Span(path, line)
    source = PROGRAM.splitlines()[line - 1]
    start = len(source[: source.index(text)].encode())
    return Span(path, line, start, line, start + len(text.encode()))


def branch_reason(path):
    span = span_of(path, BRANCH_LINE, "y.sum() > 0")
    stack = (
        UserFrame("<module>", span_of(path, CALL_LINE, "forward(torch.ones(8, 64), 3)")),
        UserFrame("forward", span),
    )
    message, remedy = "`y.sum() > 0` needs the value of a tensor.", "Use `torch.where`."
    return Explanation("data-dependent-branch", "warning", message, remedy, span, stack)


def kernel(path):
    softmax = span_of(path, SOFTMAX_LINE, "torch.softmax(x, -1)")
    links = (facts.LineLink(3, softmax),)
    return facts.KernelFact(
        "k0", "softmax", "cpp", "forward", "g0", KERNEL, links, (softmax,), ("softmax",), 2048, 2048
    )


def graph(path):
    softmax = span_of(path, SOFTMAX_LINE, "torch.softmax(x, -1)")
    values = (
        facts.ValueFact("softmax", "f32[8, 64] cpu", "torch.softmax", softmax),
        facts.ValueFact("add", "f32[8, 64] cpu", "operator.add", span_of(path, SOFTMAX_LINE)),
    )
    torch_ir = facts.StageText(
        "torch", "python", "def forward(x):\n    a = softmax(x)  # model.py:9\n", (facts.LineLink(2, softmax),)
    )
    return facts.GraphFact("g0", 2, "dynascope", values, (torch_ir,), ("k0",))


def forward_function(path):
    guard = facts.GuardFact(
        "x", "`x` is a float32 tensor of shape [8, 64]", "TensorMatches", span_of(path, SOFTMAX_LINE), (), "f32[8, 64]"
    )
    again = Explanation("guard-failed", "warning", "`größe` was 3 and is 4.", "Pass it as a tensor.")
    first = facts.EntryFact(
        "f0.e0",
        "function",
        Span(path, 8),
        "compiled",
        "break",
        "g0",
        (guard,),
        branch_reason(path),
        seconds={"capture": 0.1},
        last_use=1,
    )
    second = facts.EntryFact(
        "f0.e1", "function", Span(path, 8), "compiled", "break", "g0", (), branch_reason(path), again
    )
    return facts.FunctionFact("f0", "forward", Span(path, 8, 0, 12, 12), (first, second))


def helper_function(path):
    reason = Explanation("generator", "information", "`helper` is a generator.", "Return a list.", Span(path, 4))
    entry = facts.EntryFact("f1.e0", "function", Span(path, 4), "uncompiled", "none", reason=reason)
    return facts.FunctionFact("f1", "helper", Span(path, 4, 0, 5, 16), (entry,))


def report(path, **changes):
    values = {
        "program": facts.ProgramFact(path, (), 0, seconds=1.5),
        "environment": facts.EnvironmentFact("3.11.7", "2.13.0", "0.1.0", "cpu"),
        "functions": (forward_function(path), helper_function(path)),
        "graphs": (graph(path),),
        "kernels": (kernel(path),),
    }
    return facts.CompileReport(**{**values, **changes})


def lay_beside(program, made):
    """Where the stand-in engine finds the report of a program."""
    program.with_name(f"{program.name}.report.json").write_text(json.dumps(to_json(made)))
