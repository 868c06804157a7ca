"""`checkpoint` with a policy that says what is kept: one graph, eager's values, and what the policy wants kept is kept."""

from __future__ import annotations

import collections
import functools

import dynascope
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts, noop_context_fn

PRODUCTS = [torch.ops.aten.addmm.default, torch.ops.aten.mm.default]
WANTED = {True: CheckpointPolicy.MUST_SAVE, False: CheckpointPolicy.PREFER_RECOMPUTE}


def by_function(context, operator, *arguments, **keywords):
    return WANTED[operator in PRODUCTS and not context.is_recompute]


def by_name(context, operator, *arguments, **keywords):
    return "mm" in str(operator)


def by_shape(context, operator, *arguments, **keywords):
    weight = arguments[-1]
    return operator in PRODUCTS and weight.shape == (32, 48) and weight.size(0) == 32 and weight.dtype.is_floating_point


def every_second():
    counts = collections.defaultdict(int)

    def policy(context, operator, *arguments, **keywords):
        counts[operator] += 1
        return WANTED[operator in PRODUCTS and counts[operator] % 2 == 1]

    return create_selective_checkpoint_contexts(policy)


def nothing(context, operator, *arguments, **keywords):
    return CheckpointPolicy.MUST_RECOMPUTE


CONTEXTS = {
    "list": (functools.partial(create_selective_checkpoint_contexts, PRODUCTS), 2),
    "function": (functools.partial(create_selective_checkpoint_contexts, by_function), 2),
    "truth": (functools.partial(create_selective_checkpoint_contexts, by_name), 2),
    "shape": (functools.partial(create_selective_checkpoint_contexts, by_shape), 1),
    "every second": (every_second, 1),
    "nothing": (functools.partial(create_selective_checkpoint_contexts, nothing), 0),
    "torch's own that has none": (noop_context_fn, 0),
}


def made(context_fn):
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(32, 48), nn.GELU(), nn.Dropout(0.2), nn.Linear(48, 32), nn.Tanh())
    return block, lambda x: checkpoint(block, x, use_reentrant=False, context_fn=context_fn, debug=False).sin()


def step(function, block, rows):
    torch.manual_seed(1)
    x = torch.linspace(-1, 1, rows * 32).view(rows, 32).requires_grad_()
    y = function(x)
    return [y.detach(), *torch.autograd.grad(y.square().mean(), [x, *block.parameters()]), torch.rand(2)]


def saved_products(function, x):
    """How many tensors as large as a product of the block's are kept, the block's input and result among them."""
    sizes, kept = {x.shape[0] * 48, x.shape[0] * 32}, function(x).grad_fn.saved_tensors
    return sum(tensor.numel() in sizes and tensor.is_floating_point() for tensor in kept)


@pytest.mark.parametrize("name", CONTEXTS)
def test_is_one_graph_and_keeps_what_the_policy_wants(name):
    context_fn, kept = CONTEXTS[name]
    block, program = made(context_fn)
    compiled = dynascope.compile(program, fullgraph=True)
    for rows in (64, 64, 40):
        for found, wanted in zip(step(compiled, block, rows), step(program, block, rows), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    x = torch.ones(64, 32, requires_grad=True)
    none = dynascope.compile(made(CONTEXTS["nothing"][0])[1], fullgraph=True)
    assert saved_products(compiled, x) - saved_products(none, x) == kept


ASKED = []


def remembers(context, operator, *arguments, **keywords):
    ASKED.append(operator)
    return operator in PRODUCTS


def raises(context, operator, *arguments, **keywords):
    return WANTED[operator]


@pytest.mark.expects("foreign-call")
def test_a_policy_that_changes_something_outside_is_asked_as_in_eager():
    policy = functools.partial(create_selective_checkpoint_contexts, remembers)
    block, program = made(policy)
    asked = []
    for function in (program, dynascope.compile(program)):
        ASKED.clear()
        step(function, block, 4)
        asked.append(list(ASKED))
    assert asked[0] == asked[1] != []


def asks_more(context, operator, *arguments, **keywords):
    return operator in PRODUCTS and arguments[1].is_contiguous()


@pytest.mark.expects("foreign-call")
def test_a_policy_that_asks_more_of_tensors_is_asked_as_in_eager():
    block, program = made(functools.partial(create_selective_checkpoint_contexts, asks_more))
    torch.testing.assert_close(step(dynascope.compile(program), block, 4), step(program, block, 4))


def test_a_policy_that_raises_raises_as_in_eager():
    block, program = made(functools.partial(create_selective_checkpoint_contexts, raises))
    for function in (program, dynascope.compile(program)):
        with pytest.raises(KeyError):
            step(function, block, 4)
