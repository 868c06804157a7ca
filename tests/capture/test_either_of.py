"""`max` and `min` of tensors are one of their arguments, chosen when the graph has run: value, type, memory and gradients are Python's."""

import dynascope
import pytest
import torch

ONE_GRAPH = {
    "a number or a tensor": lambda a, b: (max(a, 0.0), min(b, 1)),
    "the very object": lambda a, b: max(a, b),
    "memory of an argument": lambda a, b: max(torch.stack([a, b])[0], b),
    "arithmetic": lambda a, b: -max(a * b, 0.5) ** 2 / 3 + a,
    "three, nested": lambda a, b: max(max(a, b), min(a * b, b, 0.25)) * b,
    "in a row": lambda a, b: [max([a, b, a * b])],
    "among many": lambda a, b: max(each.norm() for each in torch.outer(torch.arange(5.0), torch.stack([a, b]))),
    "functions": lambda a, b: (max(a, b).exp(), torch.log(max(a, b).abs() + 1)),
    "its number": lambda a, b: max(a * 1, b * 1).item() * a,
    "without gradient": lambda a, b: max(a.exp(), b.exp()).detach() * b,
    "types that differ": lambda a, b: max(a.double(), b) * 2,
    "not a number": lambda a, b: (max(a * float("nan"), b), max(b, a * float("nan"))),
    "an inactive root": lambda a, b: max((a.abs() * 0).sqrt() - 9, b.exp()),
    "clipped": lambda a, b: [max(min(each, 1.5), -0.5) for each in (a, b)],
    "kept in a list": lambda a, b: [each for rows in [[]] for each in (rows.append(max(a, b)), rows[0])][1:],
    "of one kind": lambda a, b: (isinstance(max(a, b), torch.Tensor), max(a, 0.0) is None, a * 1),
    "rows of hinges": lambda a, b: max(0, 1 - a) + max(0, 1 + b),
}
BREAKS = {
    "written to": lambda a, b: max(a * 1, b * 1).add_(1),
    "asked for": lambda a, b: max(a, b).sin() if max(a, 0.0) else a * 2,
    "drawn twice": lambda a, b: torch.nn.functional.dropout(max(a.exp(), b.exp()), 0.5),
    "its type": lambda a, b: (type(max(a, 0.5)), a * 1),
    "too many": lambda a, b: sum([max(a * k, 0.5) for k in range(5)]),
}


def outcome(function, a, b, gradients):
    a, b = (torch.tensor(each, requires_grad=gradients) for each in (a, b))
    torch.manual_seed(0)
    result = function(a, b)
    parts = [*result] if isinstance(result, (tuple, list)) else [result]
    tensors = [part for part in parts if isinstance(part, torch.Tensor) and part.requires_grad]
    if tensors:
        sum(tensors).backward()
    return [(part, type(part), part is a, part is b) for part in parts], a.grad, b.grad, [part.requires_grad for part in tensors]


def shown(found):
    return str([[(repr(getattr(part, "data", part)), *rest) for part, *rest in found[0]], *found[1:]])


@pytest.mark.parametrize("name", ONE_GRAPH | BREAKS)
def test_it_is_that_object(name):
    function = (ONE_GRAPH | BREAKS)[name]
    with dynascope.expected(*["data-dependent-branch"] * (name in BREAKS)):
        compiled = dynascope.compile(function, backend="eager", fullgraph=name in ONE_GRAPH)
        for numbers in ((1.0, 2.0), (3.0, 0.5), (-1.0, -2.0)):
            for gradients in (False, True):
                assert shown(outcome(compiled, *numbers, gradients)) == shown(outcome(function, *numbers, gradients))


def test_a_write_to_an_argument_shows():
    def function(x):
        row = x * 1
        best = max(row[0], row[1])
        row *= max(x[0], x[1])
        return best, best + 0, +best, row

    for x in (torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0])):
        assert str(dynascope.compile(function, fullgraph=True)(x)) == str(function(x))


def test_memory_that_is_written_and_read_is_torchs_error():
    def function(x):
        x *= max(x[0], x[1])
        return x

    with dynascope.expected("data-dependent-branch"), pytest.raises(RuntimeError, match="unsupported operation"):
        dynascope.compile(function, backend="eager")(torch.ones(3))
