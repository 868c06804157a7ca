"""What is changed in place between a call and its backward pass: eager's error, or eager's gradient."""

from __future__ import annotations

import dynascope
import pytest
import torch

PROGRAMS = {
    "exp": lambda x, w: x.exp() * 1.0,
    "exp itself": lambda x, w: x.exp(),
    "sin": lambda x, w: x.sin(),
    "sum": lambda x, w: x + w,
    "product": lambda x, w: x * w,
    "relu of a product": lambda x, w: (x @ w).relu(),
    "sigmoid of a sum": lambda x, w: (x + w).sigmoid(),
    "chain": lambda x, w: (x + w).tanh().exp().sin(),
    "softmax": lambda x, w: (x * w).softmax(-1),
    "maximum": lambda x, w: torch.maximum(x, w),
    "norm": lambda x, w: torch.nn.functional.layer_norm(x, (3,), w[0]),
    "clone": lambda x, w: x.clone().exp(),
}
CHANGES = {
    "the result": lambda x, w, y: y.add_(1),
    "the first operand": lambda x, w, y: x.add_(1),
    "the second operand": lambda x, w, y: w.mul_(2),
    "a view of the result": lambda x, w, y: y.view(-1)[1:].zero_(),
    "nothing": lambda x, w, y: None,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_eager(name, change):
    program = PROGRAMS[name]

    def run(function):
        x, w = (
            torch.linspace(-1, 1, 9).view(3, 3).requires_grad_(),
            torch.linspace(0.5, 1, 9).view(3, 3).requires_grad_(),
        )
        h = x * 1
        y = function(h, w)
        with torch.no_grad():
            CHANGES[change](h, w, y)
        try:
            y.pow(1).sum().backward()
        except RuntimeError as error:
            return str(error).split("is at version")[0]
        return x.grad, w.grad

    compiled = dynascope.compile(program)
    for _ in range(2):
        ours, theirs = run(compiled), run(program)
        assert type(ours) is type(theirs), (ours, theirs)
        if isinstance(theirs, str):
            assert ours == theirs or "view" in change or name == "norm"  # the words name a view of it
        else:
            torch.testing.assert_close(ours, theirs)
