"""Steps that compute the same are one kernel, whatever their buffers are called and wherever their lines stand."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import pytest
import torch
from dynascope.codegen.facts import graph_facts
from dynascope.codegen.module import emit, runnable_of
from dynascope.loops.lower import lower
from dynascope.runtime.build import build
from dynascope.runtime.machine import this_machine
from dynascope.schedule.fusion import fuse
from recording import record
from symbolic_graphs import tensor
from torch.nn import functional
from varying import check_at, generated


def module(function, *inputs):
    return emit(fuse(lower(record(function, list(inputs)))), this_machine())


def layers(x, *weights):
    for weight in weights:
        x = functional.layer_norm(functional.gelu(x @ weight), (32,))
    return x


def named(made):
    return [kernel.name for kernel in made.kernels if kernel is not None]


def test_equal_layers_share_their_kernels() -> None:
    few, many = (module(layers, torch.randn(8, 32), *torch.randn(count, 32, 32)) for count in (3, 9))
    assert len(few.distinct) == len(many.distinct) < len(set(map(id, many.kernels)))
    assert many.source.count("void ") == few.source.count("void ")


def test_shared_kernels_give_eagers_values() -> None:
    inputs = (torch.randn(8, 32), *torch.randn(5, 32, 32))
    made = module(layers, *inputs)
    assert len(named(made)) > len(made.distinct)
    (result,) = build(runnable_of(made)).call(*inputs)
    torch.testing.assert_close(result, layers(*inputs))


DIFFERENCES = {
    "the operation": lambda x, y, u, v: (x.exp(), u.sin()),
    "the order of operands": lambda x, y, u, v: ((x * 2) / y, u / (v * 2)),
    "a constant": lambda x, y, u, v: (x + 1, u + 2),
    "the sign of zero": lambda x, y, u, v: (torch.where(x > y, x, 0.0), torch.where(u > v, u, -0.0)),
    "which of them is one": lambda x, y, u, v: (x * y - x, u * u - v),
    "what is read along": lambda x, y, u, v: (x + y.t(), u + v),
    "the type": lambda x, y, u, v: (x * 2, (u * 2).double()),
    "what is reduced": lambda x, y, u, v: (x.sum(0), u.sum(1)),
}


@pytest.mark.parametrize("difference", DIFFERENCES)
def test_what_differs_is_two_kernels(difference) -> None:
    """Or one that is given what differs."""
    inputs = torch.randn(4, 16, 16).unbind()
    made = module(DIFFERENCES[difference], *inputs)
    assert len({(kernel.name, str(kernel.given)) for kernel in made.kernels if kernel is not None}) == len(named(made)) == 2
    for ours, eagers in zip(build(runnable_of(made)).call(*inputs), DIFFERENCES[difference](*inputs), strict=True):
        torch.testing.assert_close(ours, eagers)
        assert torch.equal(ours.signbit(), eagers.signbit())


def test_scalars_are_each_steps_own() -> None:
    def f(x, w, a, b):
        return (x * a) @ w, (x * b) @ w, (x * a + b) @ w, (x * b + a) @ w

    inputs = [torch.randn(16, 16), torch.randn(16, 16), 2.5, 3.5]
    made = emit(fuse(lower(record(f, inputs))), this_machine())
    for ours, eagers in zip(build(runnable_of(made)).call(*inputs), f(*inputs), strict=True):
        torch.testing.assert_close(ours, eagers)


def test_the_report_names_every_line_that_a_kernel_serves() -> None:
    def f(x, w):
        one = functional.silu(x) @ w
        two = functional.silu(one) @ w
        return functional.silu(two)

    made = module(f, torch.randn(16, 16), torch.randn(16, 16))
    (kernel,) = graph_facts(made, "g0", "forward").kernels
    first = f.__code__.co_firstlineno
    assert kernel.launches == 3
    assert {span.line for span in kernel.spans} == {first + 1, first + 2, first + 3}
    assert {link.span.line for link in kernel.links} == {first + 1, first + 2, first + 3}


def test_varying_sizes_are_compared_as_they_are_written() -> None:
    def f(x, y, z):
        return functional.gelu(x), functional.gelu(y), functional.gelu(z)

    inputs = [tensor("s0", 8), tensor("s0", 8), tensor("s1", 8)]
    graph, made = generated(f, inputs, {"s0": 6, "s1": 6})
    assert len(made.distinct) == 2
    check_at(f, inputs, {"s0": 6, "s1": 6}, [{"s0": 5, "s1": 7}])
