"""What autograd remembers of meta tensors, and which memory is whose, as far as a capture knows them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import fx


def function_of(example: torch.Tensor) -> Any:
    """Autograd's function that it came from; None where there is none, or where autograd refuses to say, as of a view whose base was
    written since in a way that it forbids."""
    try:
        return example.grad_fn
    except RuntimeError:
        return None


def functions_of(examples: Iterable[torch.Tensor]) -> list[Any]:
    """Autograd's functions that the tensors came from, each once."""
    pending = [function for function in map(function_of, examples) if function is not None]
    found = dict.fromkeys(pending)
    while pending:
        for function, _ in pending.pop().next_functions:
            if function is not None and function not in found:
                found[function] = None
                pending.append(function)
    return list(found)


def have_no_derivative(examples: Iterable[torch.Tensor]) -> bool:
    """Whether one of them came by an operator that has none: every backward pass that comes there raises."""
    return any(type(function).__name__ == "NotImplemented" for function in functions_of(examples))


def leads_into(example: torch.Tensor, freed: Collection[Any]) -> bool:
    """Whether the tensor came from one of these functions, or every way back from it comes to one and passes torch's own alone: who
    differentiates it differentiates them. Functions of the program's on the way say themselves, at their lines, what they miss."""
    function = function_of(example)
    if function in freed:
        return True
    pending, met = [function], set()
    while pending:
        function = pending.pop()
        if function is None or hasattr(function, "variable") or isinstance(function, torch.autograd.function.BackwardCFunction):
            return False
        if function in freed or function in met:
            continue
        met.add(function)
        before = [each for each, _ in function.next_functions if each is not None]
        if not before:
            return False
        pending += before
    return True


def storage_of(node: fx.Node) -> int | None:
    """The identity of the memory that a node's tensor lies in."""
    example = node.meta.get("example_value")
    return example.untyped_storage()._cdata if isinstance(example, torch.Tensor) else None


def with_new_histories(graph: fx.Graph) -> list[fx.Node]:
    """The inputs that are written, and come from what was written to them."""
    given = [node for node in graph.nodes if node.op == "placeholder"]
    examples = [(node, example) for node in given if isinstance(example := node.meta.get("example_value"), torch.Tensor)]
    return [node for node, example in examples if example._version and function_of(example) is not None]


def lead_to(nodes: Iterable[fx.Node], leaves: Iterable[torch.Tensor]) -> bool:
    """Whether one of the nodes is a leaf of these, or was computed from one by what autograd remembers."""
    known = {id(leaf) for leaf in leaves}
    if not known:
        return False
    examples = [example for node in nodes if isinstance(example := node.meta.get("example_value"), torch.Tensor)]
    ends = (getattr(function, "variable", None) for function in functions_of(examples))
    return any(id(each) in known for each in (*examples, *ends))


def ends_in_only(examples: Iterable[torch.Tensor], leaves: Iterable[torch.Tensor]) -> bool:
    """Whether all histories of the tensors, as autograd remembers them, end in leaves of these."""
    known = {id(leaf) for leaf in leaves}
    ends = (getattr(function, "variable", None) for function in functions_of(examples))
    return all(id(each) in known for each in ends if each is not None)
