"""Library calls whose results differ from what their meta functions say: never read by the wrong strides or type."""

from __future__ import annotations

import pytest
import torch
from compiled import compiled
from dynascope.runtime.operators import run_operators
from torch import fx

pytestmark = pytest.mark.compiler

LIBRARY = torch.library.Library("dynascope_tests", "DEF")
LIBRARY.define("turned(Tensor x) -> Tensor")
LIBRARY.define("narrowed(Tensor x) -> Tensor")
LIBRARY.define("halved(Tensor x) -> Tensor")
LIBRARY.impl("turned", lambda x: x.t().contiguous().t(), "CPU")
LIBRARY.impl("narrowed", lambda x: x.to(torch.bfloat16), "CPU")
LIBRARY.impl("halved", lambda x: x[: x.shape[0] // 2].clone(), "CPU")
for _name in ("turned", "narrowed", "halved"):
    LIBRARY.impl(_name, lambda x: torch.empty(x.shape, dtype=x.dtype, device="meta"), "Meta")
turned, narrowed, halved = (
    getattr(torch.ops.dynascope_tests, name).default for name in ("turned", "narrowed", "halved")
)


def test_other_strides_than_predicted():
    def f(x):
        y = turned(x)
        return y * 2, y.reshape(-1) + 1, y @ y.t()

    x = torch.randn(4, 6)
    _, call = compiled(f, [x])
    for ours, theirs in zip(call(x), (x * 2, x.reshape(-1) + 1, x @ x.t()), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_another_type_than_predicted():
    x = torch.randn(4, 6)
    _, call = compiled(lambda x: narrowed(x) * 2, [x])
    torch.testing.assert_close(call(x)[0], x.to(torch.bfloat16).float() * 2)


def test_another_size_than_predicted_is_an_error():
    _, call = compiled(lambda x: halved(x) * 2, [torch.randn(4, 6)])
    with pytest.raises(RuntimeError, match="meta function"):
        call(torch.randn(4, 6))


def test_operators_one_by_one_restride_what_is_viewed():
    graph = fx.Graph()
    x = graph.placeholder("x")
    result = graph.call_function(turned, (x,))
    result.meta["val"] = torch.empty(4, 6, device="meta")
    view = graph.call_function(torch.ops.aten.as_strided.default, (result, [24], [1], 0))
    graph.output((view,))
    value = torch.randn(4, 6)
    torch.testing.assert_close(run_operators(fx.GraphModule({}, graph))(value)[0], value.reshape(-1))


def test_views_that_no_schema_declares_keep_their_memory():
    """`u` has the size of `y`, and may not take over its memory while the pieces live."""

    def f(x):
        y = (x * 2 + 1).sin()
        a, b = torch.unsafe_split(y, 4, 0)
        z = (a.flip(0) @ a.t()).cos()
        u = (y[:0].sum() + x * 3).cos().flip(0)
        return z, a @ u.t(), b + (u @ x.t()).sum()

    x = torch.randn(8, 16)
    _, call = compiled(f, [x])
    for ours, theirs in zip(call(x), f(x), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_what_is_only_handed_on_is_left_alone():
    x = torch.randn(4, 6)
    _, call = compiled(lambda x: (halved(turned(x)), halved(x)), [x])
    assert [tuple(result.shape) for result in call(x)] == [(2, 6), (2, 6)]


def test_what_is_returned_has_the_strides_that_a_backward_graph_is_made_for():
    x = torch.randn(4, 6)
    _, call = compiled(lambda x: turned(x), [x])
    assert call(x)[0].stride() == (6, 1)
