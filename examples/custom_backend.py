"""A backend of ten lines: it prints each graph that it is given, counts its operators, and runs it as it is."""

import dynascope
import torch


@dynascope.register_backend
def counting(graph, example_inputs):
    operators = [node for node in graph.graph.nodes if node.op in ("call_function", "call_method")]
    print(f"a graph of {len(operators)} operators and {len(example_inputs)} inputs:")
    print(graph.code.strip())
    return graph.forward


@torch.compile(backend="counting")
def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def main():
    print(toy_example(torch.ones(3), torch.ones(3)))
    print(toy_example(torch.ones(3), -torch.ones(3)))  # the other branch: one more graph


if __name__ == "__main__":
    main()
