"""The forward and the backward pass as a graph each, for people who write compilers for them. `dynascope show joint|aten|core|prims
examples/forward_and_backward.py` prints the same levels of any program."""

import dynascope
import torch
from torch import nn


def my_compiler(graph, example_inputs):
    """Gets functional ATen; what it returns takes the same inputs and gives the same outputs."""
    operators = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
    print(f"{graph.__class__.__name__}: {', '.join(operators)}")
    return graph.forward


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU())
    x = torch.randn(8, 32)
    for level in ("aten", "core", "prims"):
        print(f"-- {level}")
        compiled = dynascope.aot(model, forward_compiler=my_compiler, level=level)
        compiled(x).sum().backward()
    print(f"{model[0].weight.grad.norm().item() / 3:.4f}")


if __name__ == "__main__":
    main()
