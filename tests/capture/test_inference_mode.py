"""`torch.inference_mode` inside: what is an inference tensor in eager is one here, in one graph where that can be."""

from __future__ import annotations

import dynascope
import pytest
import torch
import torch.utils.checkpoint
from torch import nn

LAYERS = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def whole(x):
    with torch.inference_mode():
        return LAYERS(x).argmax(-1), LAYERS(x)


@torch.inference_mode()
def decorated(x):
    return LAYERS(x) * 2, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def after_something(x):
    y = x * 2
    with torch.inference_mode():
        z = LAYERS(y)
    return z, torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def views_and_writes(x):
    with torch.inference_mode():
        part = x[0]
        x.add_(1)
        made = x * 1
    return part, made


def without_gradients(x):
    with torch.no_grad():
        with torch.inference_mode():
            y = LAYERS(x)
        return y


def left_by_an_exception(x):
    try:
        with torch.inference_mode():
            y = LAYERS(x)
            raise KeyError
    except KeyError:
        pass
    return y


def nested(x):
    with torch.inference_mode():
        with torch.inference_mode():
            y = x * 2
        return y + 1


def computed_on(x):
    with torch.inference_mode():
        y = x * 2
    return y + 1


def made_outside(x):
    y = x * 2
    with torch.inference_mode():
        z = y + 1
    return z, y


def view_of_what_was_made_outside(x):
    y = x * 2
    with torch.inference_mode():
        z = y[0]
    return z


def broken_inside(x):
    with torch.inference_mode():
        y = LAYERS(x)
        if y.sum().is_nonzero():
            y = y * 2
    return y


def switched_off(x):
    with torch.inference_mode(False):
        return LAYERS(x)


def trained_before(x):
    p = x.clone().requires_grad_()
    (p * 2).sum().backward()
    with torch.inference_mode():
        y = LAYERS(x)
    return y, p.grad


def trained_outside(x):
    weight = LAYERS[0].weight
    before = (x @ weight.t()).sum()
    with torch.inference_mode():
        y = LAYERS(x)
        picked = y.argmax(-1)
    after = (LAYERS(x) * 2).sum()
    return y, picked, before, after, torch.autograd.grad(before + after, weight)[0]


def with_gradients_inside(x):
    before = x @ LAYERS[0].weight.t()
    with torch.inference_mode(), torch.enable_grad():
        y = x @ LAYERS[0].weight.t()
    return before, y


def turned(x):
    before = x + 1
    with torch.inference_mode():
        y = torch.view_as_complex(torch.stack([x, x], -1)).conj()
    return before, y, y.t()


def written_outside(x):
    with torch.inference_mode():
        y = x * 2
    try:
        y.add_(1)
    except RuntimeError:
        return x + 1
    return x + 2


def kept_outside(x):
    with torch.inference_mode():
        y = x * 2
    try:
        return (LAYERS[0].weight[0] * y).sum()
    except RuntimeError:
        return x + 1


def asked_what_it_is(x):
    with torch.inference_mode():
        y = LAYERS(x)
        inside = y.is_inference(), x.is_inference(), x[0].is_inference(), y.t().is_inference(), torch.is_inference(y)
    z = y[0] if y.is_inference() else x
    return y, inside, (y + 1).is_inference(), z.is_inference(), z


def led_out_of_it(x):
    with torch.inference_mode():
        y = LAYERS(x)
        with torch.inference_mode(False):
            z = LAYERS(x) * 2
            records = z.requires_grad, torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        w = y + z
    return y, z, w, records, torch.is_grad_enabled()


def by_turns(x):
    results = []
    for is_on in (True, False, True):
        with torch.inference_mode(is_on):
            y = LAYERS(x)
            results.append((y, y.requires_grad, torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
    return tuple(results)


def gradients_switched_on_by_it(x):
    with torch.no_grad():
        with torch.inference_mode(mode=False):
            y = LAYERS(x)
        return y, torch.is_grad_enabled(), LAYERS(x)


def trained_by_what_was_made_inside(x):
    weight = LAYERS[0].weight
    with torch.inference_mode():
        y = weight * 2
    try:
        (y * weight).sum().backward()
    except RuntimeError as error:
        return x + 1, str(error)
    return x + 2, "was kept"


IN_ONE_GRAPH = [whole, decorated, after_something, views_and_writes, without_gradients, left_by_an_exception, nested]
IN_ONE_GRAPH += [computed_on, made_outside, trained_outside, turned, asked_what_it_is]
IN_ONE_GRAPH += [switched_off, led_out_of_it, by_turns, gradients_switched_on_by_it]
IN_PARTS = [view_of_what_was_made_outside, broken_inside, trained_before, with_gradients_inside]
IN_PARTS += [written_outside, kept_outside, trained_by_what_was_made_inside]


def seen(result):
    if isinstance(result, torch.Tensor):
        return result.is_inference(), result.requires_grad, result.dtype, result.stride()
    return tuple(map(seen, result)) if isinstance(result, tuple) else result


def calls(function):
    for _ in range(2):
        x = torch.tensor([[0.5, -1.0, 2.0], [1.0, 2.0, 3.0], [0.0, 1.0, 1.0]])
        result = function(x)
        yield result, seen(result), x.tolist(), x._version, torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def assert_same(function, program):
    for mine, expected in zip(calls(function), calls(program), strict=True):
        assert mine[1:] == expected[1:]
        for one, other in zip(tensors(mine[0]), tensors(expected[0]), strict=True):
            torch.testing.assert_close(one, other)


def tensors(result):
    return [each for each in (result if isinstance(result, tuple) else (result,)) if isinstance(each, torch.Tensor)]


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("program", IN_ONE_GRAPH)
def test_in_one_graph(program, backend):
    assert_same(dynascope.compile(program, backend=backend, fullgraph=True), program)


@pytest.mark.may_break
@pytest.mark.parametrize("program", IN_PARTS)
def test_in_parts(program):
    assert_same(dynascope.compile(program, backend="eager"), program)
    assert_same(dynascope.compile(program), program)


@pytest.mark.may_break
def test_an_error_leaves_the_mode():
    def program(x):
        with torch.inference_mode():
            return x[torch.tensor(7)]

    with pytest.raises(IndexError):
        dynascope.compile(program, backend="eager")(torch.ones(2))
    assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
def test_gradients_switched_on_in_inference_mode_record_nothing(backend):
    layer = nn.Linear(4, 4)

    def program(x):
        with torch.enable_grad():
            y = layer.bias + x
        return y, y.requires_grad, torch.is_grad_enabled()

    function = dynascope.compile(program, backend=backend)
    x = torch.ones(2, 4)
    for _ in range(2):
        with torch.inference_mode():
            mine, theirs = function(x), program(x)
        assert mine[1:] == theirs[1:] and mine[0].requires_grad == theirs[0].requires_grad
        assert mine[0].is_inference() and torch.equal(mine[0], theirs[0])
    assert function(x)[0].requires_grad


def test_inputs_are_asked_what_they_are():
    def program(x):
        return x * 2 if x.is_inference() else x + 1, torch.is_inference(x[0]), (x * 1).is_inference()

    call = dynascope.compile(program, backend="eager", fullgraph=True)
    with torch.inference_mode():
        made = torch.ones(3)
    for x in (torch.ones(3), made, torch.ones(3)):
        assert call(x)[1:] == program(x)[1:] and torch.equal(call(x)[0], program(x)[0])
        with torch.inference_mode():
            assert call(x)[1:] == program(x)[1:] and torch.equal(call(x)[0], program(x)[0])


@pytest.mark.may_break
@pytest.mark.parametrize("name", ["t_", "transpose_", "unsqueeze_", "squeeze_"])
def test_a_view_in_place_of_an_inference_tensor_is_refused_outside(name):
    arguments = {"transpose_": (0, 1), "unsqueeze_": (0,)}.get(name, ())

    def program(x, inside):
        with torch.inference_mode():
            y = x * 2
            if inside:
                getattr(y, name)(*arguments)
        if not inside:
            getattr(y, name)(*arguments)
        return y

    x = torch.randn(1, 3)
    with pytest.raises(RuntimeError, match="outside InferenceMode"):
        dynascope.compile(program)(x, False)
    assert torch.equal(dynascope.compile(program)(x, True), program(x, True))


def test_a_view_of_an_inference_tensor_that_requires_grad_does_not():
    with torch.inference_mode():
        leaf = torch.ones(2, 3, requires_grad=True)

    def program(x):
        view = x.view(-1)
        return view.requires_grad, view.is_inference()

    with dynascope.expected("foreign-call", "tensor-subclass"):
        assert dynascope.compile(program, backend="eager")(leaf) == program(leaf)


def test_a_model_made_in_inference_mode_is_one_graph_there():
    with torch.inference_mode():
        layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)

    def program(x):
        with torch.inference_mode():
            return layer(x)

    torch.testing.assert_close(dynascope.compile(program, backend="eager", fullgraph=True)(x), program(x))


@pytest.mark.parametrize("leaves", [True, False])
def test_a_leaf_made_in_the_mode_gets_its_gradient_outside(leaves):
    def program(x):
        with torch.inference_mode():
            leaf = torch.ones(3, requires_grad=True)
        return (leaf, leaf + x) if leaves else (leaf,)

    with dynascope.expected("foreign-call", *["tensor-subclass"] * leaves):
        results = dynascope.compile(program, backend="eager")(torch.ones(3))
    (results[-1] * 2).sum().backward()
    assert results[0].requires_grad
    assert results[0].grad.tolist() == [2.0] * 3


def kept_by_what_nobody_reads(x, weight):
    with torch.inference_mode():
        y = x * 2
    y * weight
    return x * weight


def kept_by_a_view_that_nobody_reads(x, weight):
    with torch.inference_mode():
        y = x * 2
    y.t() @ weight.t()
    return x * weight


def kept_by_a_checkpoint(x, weight):
    with torch.inference_mode():
        y = x * 2
        with torch.inference_mode(False):
            torch.utils.checkpoint.checkpoint(torch.sin, y, use_reentrant=False)
    return x * weight


def checkpointed_behind_a_break(x, weight):
    with torch.inference_mode():
        y = x * 2
    print(y.sum())
    torch.utils.checkpoint.checkpoint(torch.sin, y, use_reentrant=False)
    return x * weight


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize(
    "program", [kept_by_what_nobody_reads, kept_by_a_view_that_nobody_reads, kept_by_a_checkpoint, checkpointed_behind_a_break]
)
def test_what_autograd_refuses_to_keep_is_refused_though_nobody_reads_the_result(program, backend):
    call = dynascope.compile(program, backend=backend)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
            call(torch.ones(2, 2), torch.ones(2, 2, requires_grad=True))


def test_inference_tensors_from_outside_are_kept_where_nothing_keeps_them():
    with torch.inference_mode():
        inference = torch.ones(2, 2)
    weight = torch.ones(2, 2, requires_grad=True)

    def program(x, weight):
        return (x + weight) * 2

    torch.testing.assert_close(dynascope.compile(program, backend="eager", fullgraph=True)(inference, weight), program(inference, weight))
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        dynascope.compile(lambda x, weight: x * weight, backend="eager")(inference, weight)


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("view", [lambda y: y.data[0], lambda y: y[0], lambda y: y.t(), lambda y: y.detach()[1:]])
def test_a_view_of_an_inference_tensor_is_not_written_outside(view, backend):
    def program(x):
        with torch.inference_mode():
            y = x * 2
        view(y).add_(1)
        return y

    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        dynascope.compile(program, backend=backend)(torch.ones(2, 2))
    left = []
    for compile in (lambda function: function, lambda function: dynascope.compile(function, backend=backend)):
        with torch.inference_mode():
            inference = torch.ones(2, 2)
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            compile(lambda y: view(y).add_(1))(inference)
        left.append(inference.tolist())
    assert left[0] == left[1]
