"""Meta kernels in Python are asked once for each layout: what is known is what asking again gives."""

from __future__ import annotations

import unittest.mock
import warnings

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.meta_kernels import known_results
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

META = torch.device("meta")


@pytest.fixture(autouse=True)
def nothing_known():
    with unittest.mock.patch.multiple(known_results, _KNOWN={}, _ALL_IN_CXX=set()):
        yield


def described(data):
    if isinstance(data, (list, tuple)):
        return [described(item) for item in data]
    return data.shape, data.stride(), data.dtype, data.storage_offset(), data.requires_grad, type(data.grad_fn).__name__


def example(*sizes, dtype=torch.float32, requires_grad=False):
    return torch.empty(*sizes, dtype=dtype, device=META, requires_grad=requires_grad)


X, W = example(4, 6, requires_grad=True), example(5, 6, requires_grad=True)
IMAGES = example(2, 3, 8, 8).to(memory_format=torch.channels_last)
CALLS = {
    "a sum": lambda: X + X.T.contiguous().T,
    "a transposed sum": lambda: X.T + X.T,
    "of one size in part": lambda: X[:, :1] + X,
    "with a number": lambda: X * 2.5,
    "another number's type": lambda: example(3, dtype=torch.int64) * 2.5,
    "layer norm": lambda: F.layer_norm(X, (6,), example(6), example(6)),
    "attention": lambda: F.scaled_dot_product_attention(*[example(2, 3, 5, 4, requires_grad=True)] * 3, is_causal=True),
    "cross entropy": lambda: F.cross_entropy(X, example(4, dtype=torch.int64)),
    "two results": lambda: torch.var_mean(X, dim=1),
    "a complex number": lambda: example(3, dtype=torch.complex64).conj() + 1,
    "channels last": lambda: IMAGES.relu() + IMAGES,
    "views": lambda: (X.view(2, 12).T, X[1:].expand(3, 6), *X.split(2)),
    "what is written": lambda: example(4, 6).add_(X.detach()),
    "an operand given back": lambda: X.detach().contiguous(),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_known_result_is_the_result(name):
    call, wanted = CALLS[name], described(CALLS[name]())
    for _ in range(3):
        with known_results.used(call, []):
            found = call()
        assert described(found) == wanted


def test_results_are_memory_of_their_own():
    with known_results.used("first", []):
        first = X * 2
    with known_results.used("second", []):
        second = X * 2
    memories = {each.untyped_storage()._cdata for each in (X, first, second)}
    assert len(memories) == 3 and len(known_results._KNOWN) == 1


def test_the_default_type_is_asked_for():
    integers = example(3, dtype=torch.int64)
    for dtype in (torch.float32, torch.float64):
        torch.set_default_dtype(dtype)
        try:
            with known_results.used("div", []):
                assert (integers / 2).dtype is dtype
        finally:
            torch.set_default_dtype(torch.float32)


def test_what_warns_is_asked_each_time():
    for _ in range(2):
        given = []
        with known_results.used("std", given):
            X * 3
            given.append("a warning")
        assert not known_results._KNOWN


def test_what_fails_is_asked_each_time():
    for _ in range(2):
        with pytest.raises(RuntimeError), known_results.used("mm", []):
            torch.ops.aten.addmm(example(3), example(2, 4), example(5, 3))


def test_only_what_is_torch_s_is_remembered():
    def own(x):
        return x.view(-1)

    for target in (torch.Tensor.view, own):
        with known_results.used(target, []):
            X.view(-1)
    assert {torch.Tensor.view} == known_results._ALL_IN_CXX


class KernelsAsked(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        computes = not func.is_view and func not in (torch.ops.aten.empty_strided.default, torch.ops.aten._unsafe_view.default)
        self.count += computes and torch._C.DispatchKey.Meta in func.py_kernels
        return func(*args, **(kwargs or {}))


def test_equal_layers_ask_no_kernel_again():
    """Below a mode that counts: what the block's twin asks, all of it known."""
    block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, device=META)
    counts, tokens = [], example(2, 5, 8)
    for _ in range(2):
        asked = KernelsAsked()
        with asked, known_results.used("block", []):
            block(tokens)
        counts.append(asked.count)
    assert counts[0] > 5 and counts[1] == 0


def test_warnings_of_torch_are_said_by_a_compiled_program():
    def program(x):
        return F.mse_loss(x, x[:1])

    x = torch.randn(3, 4)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            torch.testing.assert_close(dynascope.compile(program)(x), program(x))
        texts = [str(each.message).split("\n")[0] for each in given if "target size" in str(each.message)]
        assert len(texts) == 2


def test_a_model_of_equal_layers_equals_eager():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(3)))
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(dynascope.compile(model)(x), model(x))
