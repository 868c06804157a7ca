"""Differentiating imports none of torch's compiler, and no sympy; the stage imports `report` alone of the engine."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, torch, torch.nn.functional as F
from torch import fx
from dynascope.grad import differentiate, bridge

def program(x, w, b, g, table, words, target, image, kernel, mean, var):
    h = F.layer_norm(F.gelu(F.linear(x, w, b)), (8,), g, b)
    q = h.view(1, 2, 4, 8)
    a = F.scaled_dot_product_attention(q, q, q, is_causal=True).reshape(8, 8)
    e = F.dropout(F.embedding(words, table), 0.1, True)
    c = F.relu(F.batch_norm(F.conv2d(image, kernel, padding=1), mean, var, training=True)).mean()
    y = a.softmax(-1) * 1; y[0].mul_(2)
    return F.cross_entropy(y + e, target) + c + F.max_pool2d(image, 2).sum() + F.silu(x).cumsum(0).sum(), y.var(1), y.max(1)

p = lambda *s: torch.randn(*s, requires_grad=True)
i = [p(8, 8), p(8, 8), p(8), p(8), p(9, 8), torch.arange(8), torch.arange(8)]
i += [torch.randn(2, 3, 8, 8), p(4, 3, 3, 3), torch.zeros(4), torch.ones(4)]
graph = fx.symbolic_trace(program)
node = next(n for n in graph.graph.nodes if n.op == "output")
loss, var, maximum = node.args[0]
with graph.graph.inserting_before(node):
    node.args = ((loss, var, graph.graph.call_function(__import__("operator").getitem, (maximum, 0))),)
pair = differentiate(graph, i)
run = bridge(pair, pair.forward, pair.backward)
run(*i)[0].backward()
bad = [m for m in ("torch._dynamo", "torch._inductor", "torch._functorch.aot_autograd", "sympy", "networkx") if m in sys.modules]
print("IMPORTED", bad)
"""


def test_nothing_of_torchs_compiler_is_imported():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "IMPORTED []"
