"""Tensors of devices that kernels are not made for: the graph runs operator by operator, and says so."""

import subprocess
import sys

PROGRAM = """
import dynascope, torch, torch._lazy.ts_backend
torch._lazy.ts_backend.init()

def program(x):
    y = x.t()
    y[0, 1] = 3
    return y * 2 + x, (x > 0).sum()

layer = torch.nn.Linear(4, 2)
x = torch.randn(4, 4)
wanted = [*program(x.clone()), layer(x)]
layer(x).sum().backward()
gradient, layer.weight.grad = layer.weight.grad, None
layer.to("lazy")
with dynascope.expected("unsupported-tensor"):
    found = [*dynascope.compile(program)(x.to("lazy")), dynascope.compile(layer)(x.to("lazy"))]
    report = dynascope.explain(dynascope.compile(program))(x.to("lazy")).report
found[-1].sum().backward()
assert all(each.device.type == "lazy" for each in found)
for one, other in zip([*wanted, gradient], [*found, layer.weight.grad]):
    torch.testing.assert_close(one, other.cpu())
print([note.message for graph in report.graphs for note in graph.notes])
"""


def test_lazy_tensors():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert "is on lazy" in ran.stdout, ran.stdout
