"""`compiled.forward` is read, something is put around it, and that is set in its place."""

import copy
import types

import dynascope
import pytest
import torch

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def doubled(forward):
    def call(*arguments, **keywords):
        with torch.autocast("cpu", torch.bfloat16):
            return forward(*arguments, **keywords).float() * 2

    return call


def around(model):
    model.forward = doubled(model.forward)


def around_its_function(model):
    model.forward = types.MethodType(doubled(model.forward.__func__), model)
    model.forward = types.MethodType(doubled(model.forward.__func__), model)


@pytest.mark.parametrize("change", [around, around_its_function])
@pytest.mark.parametrize("is_called_before", [False, True])
def test_what_is_put_around_forward_calls_the_one_before(change, is_called_before):
    plain = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
    compiled = dynascope.compile(copy.deepcopy(plain))
    if is_called_before:
        torch.testing.assert_close(compiled(X), plain(X))
    change(compiled)
    change(plain)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), plain(X))


def test_forward_is_one_method_and_follows_the_original():
    compiled = dynascope.compile(torch.nn.Linear(4, 3))
    assert compiled.forward == compiled.forward
    before = compiled.forward
    compiled._orig_mod.forward = lambda x: x + 1
    assert torch.equal(compiled(X), X + 1)
    assert torch.equal(compiled.forward(X), X + 1)
    assert before(X).shape == (2, 3)
