"""Hooks on autograd's function of what a custom function hands on: backward hooks of modules are such."""

import dynascope
import pytest
import torch
from torch import nn

BACKENDS = pytest.mark.parametrize("backend", ["eager", "dynascope"])


def as_seen(gradients):
    """With a mark where there is none."""
    return [torch.tensor(-1.0) if each is None else each.detach().clone() for each in gradients]


def watching(seen, scale=None):
    def hook(module, leave, come):
        seen.append([*as_seen(leave), *as_seen(come)])
        return None if scale is None else tuple(None if each is None else each * scale for each in leave)

    return hook


def layers():
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x, y, times=2, places=None):
        one, other = self.first(x) * times, self.second(y)
        return one + other, places, one * other if places is None else other[places]


def of_every_layer(model, seen):
    for each in model.modules():
        each.register_full_backward_hook(watching(seen))
    return lambda x: model(x)


def that_changes_gradients(model, seen):
    model[1].register_full_backward_hook(watching(seen, scale=2))
    model[1].register_full_backward_hook(watching(seen))
    model[1].register_full_backward_pre_hook(lambda module, come: (come[0] * 3,))
    return lambda x: model(x)


def of_the_last_layer(model, seen):
    model[2].register_full_backward_hook(watching(seen))
    return lambda x: model[2](model[1](model[0](x)))


def of_a_layer_whose_result_is_dropped(model, seen):
    model[2].register_full_backward_hook(watching(seen))

    def function(x):
        hidden = model[0](x)
        model[2](hidden)
        return hidden.sin()

    return function


def of_several_arguments(model, seen):
    model = Several()
    with torch.no_grad():
        model.first.weight.fill_(0.5), model.second.weight.fill_(0.25)
    model.register_full_backward_hook(watching(seen))

    def function(x):
        first, _, third = model(x, x * 2, 3)
        fourth, _, fifth = model(x.detach(), x, places=torch.tensor([0, 2]))
        return first.sum() + third.sum() + fourth.sum() + fifth.sum()

    return function


def with_rows_that_a_mask_chooses(model, seen):
    model[2].register_full_backward_hook(watching(seen))

    def function(x):
        hidden = model[1](model[0](x))
        return model[2](hidden[hidden[:, 0] > 0]) * 2

    return function


def under_autocast(model, seen):
    model[1].register_full_backward_hook(watching(seen))

    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x).float()

    return function


WHOLE = [
    of_every_layer,
    that_changes_gradients,
    of_the_last_layer,
    of_a_layer_whose_result_is_dropped,
    of_several_arguments,
    with_rows_that_a_mask_chooses,
    under_autocast,
]


def played(make, compile, requires_grad):
    torch.manual_seed(0)
    seen = []
    model = layers()
    call, found = compile(make(model, seen)), []
    for rows in (5, 6, 8):
        x = torch.randn(rows, 3, requires_grad=requires_grad)
        result = call(x)
        result.square().sum().backward()
        found += [result.detach(), *as_seen([x.grad, *(each.grad for each in model.parameters())])]
        model.zero_grad()
    return found, seen


@BACKENDS
@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("make", WHOLE, ids=lambda make: make.__name__)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
def test_one_graph(make, requires_grad, backend):
    expected = played(make, lambda function: function, requires_grad)
    found = played(make, lambda function: dynascope.compile(function, backend=backend, fullgraph=True), requires_grad)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@BACKENDS
def test_passes_that_do_not_come_through(backend):
    """Of two heads one is differentiated, then what lies beside both."""
    found = []
    for compile in (lambda function: function, lambda function: dynascope.compile(function, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        seen = []
        body, first, second = nn.Linear(3, 3), nn.Linear(3, 2), nn.Linear(3, 2)
        for each in (body, first, second):
            each.register_full_backward_hook(watching(seen))

        def function(x, body=body, first=first, second=second):
            hidden = body(x).tanh()
            return first(hidden), second(hidden), hidden.sum(), x.sin()

        call = compile(function)
        for rows in (4, 5):
            x = torch.randn(rows, 3, requires_grad=True)
            for each in call(x)[::-1]:
                each.sum().backward(retain_graph=True)
                seen.append(as_seen([x.grad, *(layer.weight.grad for layer in (body, first, second))]))
        found.append(seen)
    torch.testing.assert_close(found[1], found[0])


@BACKENDS
def test_a_pass_that_is_differentiated(backend):
    found = []
    for compile in (lambda function: function, lambda function: dynascope.compile(function, backend=backend, fullgraph=True)):
        torch.manual_seed(0)
        seen, model = [], layers()
        call = compile(of_every_layer(model, seen))
        for rows in (4, 5):
            x = torch.randn(rows, 3, requires_grad=True)
            result = call(x)
            (gradient,) = torch.autograd.grad(result.sum(), x, create_graph=True)
            (gradient.square().sum() + result.sum()).backward()
            seen.append(as_seen([x.grad, *(each.grad for each in model.parameters())]))
        found.append(seen)
    torch.testing.assert_close(found[1], found[0])


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, y

    @staticmethod
    def backward(ctx, x, y):
        return -x, y * 2


def what_a_program_asks(x, seen):
    first, second = Reversed.apply(x, x * 2)
    function = first.grad_fn
    assert function is second.grad_fn and function is not None
    function.register_hook(lambda leave, come: seen.append([*leave, *come]))
    function.register_prehook(lambda come: (come[0] * 2, come[1]))
    return (first * second).sin(), function.name(), type(function)


def that_is_kept(x, seen):
    first, second = Reversed.apply(x * 1, x * 2)
    first.grad_fn.register_hook(lambda leave, come: seen.append([*leave, *come]))
    return (first * second).sin(), second.grad_fn


def with_a_handle(x, seen):
    first, second = Reversed.apply(x * 1, x * 2)
    handle = first.grad_fn.register_hook(lambda leave, come: seen.append([*leave, *come]))
    result = (first * second).sin()
    handle.remove()
    return result, None


def of_any_operator(x, seen):
    """Where kernels ran the graph that ends here, the function would be that of all of them."""
    product = x * x.detach() + 1
    product.grad_fn.register_hook(lambda leave, come: seen.append([*leave, *come]))
    return product.sin(), None


def of_one_behind_a_break(x, seen):
    """As `register_backward_hook` follows functions to what they come from."""
    product = x * x.detach()
    product.exp()
    name = product.grad_fn.next_functions[0][0].name()
    return product.sin(), name


ASKED = ("tensor-attribute", "output-alias", "foreign-call")


@BACKENDS
@pytest.mark.parametrize(
    "function, breaks",
    [
        (what_a_program_asks, ()),
        (that_is_kept, ()),
        (with_a_handle, ("unrebuildable-value",)),
        (of_any_operator, ASKED),
        (of_one_behind_a_break, (*ASKED, "unsupported-attribute")),
    ],
)
def test_functions_of_the_programs_own(function, breaks, backend):
    expected = asked(function, function)
    with dynascope.expected(*breaks, required=False):
        assert str(asked(function, dynascope.compile(function, backend=backend))) == str(expected)


def asked(function, call):
    seen = []
    for size in (3, 4):
        x = torch.arange(1.0, size + 1, requires_grad=True)
        result, *said = call(x, seen)
        for each in said:
            if hasattr(each, "register_hook") and not isinstance(each, type):
                each.register_hook(lambda leave, come, seen=seen: seen.append([*leave, *come]))
        result.sum().backward()
        seen += [result.detach(), x.grad, *(each if isinstance(each, (str, type)) else each is None for each in said)]
    return seen


def whether_there_is_one(x):
    hidden = x * 2
    if hidden.grad_fn is None:
        return hidden * 5
    if x.grad_fn is not None:
        hidden = hidden * 3
    hidden.add_(1)
    return hidden.sin() if hidden.grad_fn is not None and hidden.grad_fn == hidden.grad_fn else hidden


@BACKENDS
def test_that_there_is_one_is_known(backend):
    compiled = dynascope.compile(whether_there_is_one, backend=backend, fullgraph=True)
    leaf = torch.ones(3, requires_grad=True)
    for x in (leaf, leaf * 1, torch.ones(3), leaf, leaf.detach()):
        torch.testing.assert_close(compiled(x), whether_there_is_one(x))
    with torch.no_grad():
        torch.testing.assert_close(compiled(leaf), whether_there_is_one(leaf))


def of_two_results(x):
    first, second = (x * 2).split(1)
    return first + second if first.grad_fn is second.grad_fn else first


def inside_a_transform(x):
    return torch.func.vmap(lambda row: row * 2 if (row * 1).grad_fn is None else row * 3)(x)


def in_a_backward_pass(x):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            gradient = gradient * 2
            return gradient if gradient.grad_fn is None else gradient * 5

    (gradient,) = torch.autograd.grad(Doubled.apply(x).sin().sum(), x, create_graph=True)
    return gradient


@BACKENDS
@pytest.mark.may_break
@pytest.mark.parametrize("function", [of_two_results, inside_a_transform, in_a_backward_pass])
def test_where_a_function_is_not_known(function, backend):
    x = torch.ones(2, requires_grad=True)
    torch.testing.assert_close(dynascope.compile(function, backend=backend)(x), function(x))


def beside_a_known_one(x, known, seen):
    return x + 1, known is x.grad_fn, x.grad_fn == known, known in [x.grad_fn], seen.get(x.grad_fn), x.grad_fn is None, x.grad_fn is seen


@BACKENDS
@pytest.mark.may_break
def test_it_may_be_one_that_comes_in(backend):
    compiled = dynascope.compile(beside_a_known_one, backend=backend)
    x = torch.ones(2, requires_grad=True).sin()
    for known in (x.grad_fn, x.sin().grad_fn, x.grad_fn):
        seen = {known: 1}
        assert compiled(x, known, seen)[1:] == beside_a_known_one(x, known, seen)[1:]


def test_a_view_made_without_gradients_is_no_leaf_that_gets_one():
    """It says that it requires one and is a leaf, and nothing of autograd's adds to it."""

    def program(view):
        view.backward(view)
        return view

    def outcome(function):
        x = torch.ones(3, 4, requires_grad=True)[:, ::2]
        try:
            with torch.no_grad():
                return function(x[-1])
        except RuntimeError as error:
            return str(error)

    with dynascope.expected("backward-call", required=False):
        ours = outcome(dynascope.compile(program, backend="eager"))
    assert ours == outcome(program)
