"""Names that the backward pass of a custom function reads, and that lead to something else by then."""

import types

import dynascope
import pytest
import torch
from torch.autograd import Function

BACKENDS = pytest.mark.parametrize("backend", ["eager", "dynascope"])
SCALE, FACTOR = 2.0, 3.0


class Options:
    scale = 2.0


SETTINGS = {"scale": 2.0, "by": {"part": 0.5, 3: "text"}}
OPTIONS = types.ModuleType("options")
OPTIONS.scale = 2.0


def as_it_is(gradient):
    return gradient


class OfAModule(Function):
    """What it saves it does not read."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * SCALE, None


class OfAClass(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.x, ctx.factor, ctx.names = x, factor, ("a", 2)
        return x.sin() * factor, x.cos()

    @staticmethod
    def backward(ctx, gradient, other):
        return ctx.x.cos() * gradient * Options.scale * ctx.factor + other * ctx.names[1], None


class OfItsOwn(Function):
    scale = 2.0

    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * OfItsOwn.scale * x + y, None


class OfAFunction(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.given = FACTOR
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return as_it_is(gradient) * OPTIONS.scale * ctx.given, None


class OfADictionary(Function):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * SETTINGS["scale"] * SETTINGS["by"]["part"] * len(SETTINGS["by"][3]), None


def of_a_variable():
    scale = 2.0

    class OfAVariable(Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return (gradient * x.exp() * scale if ctx.needs_input_grad[0] else None), None

    def change(now):
        nonlocal scale
        scale = now

    return OfAVariable, change


def change_all(now):
    global SCALE, as_it_is
    SCALE = Options.scale = OfItsOwn.scale = OPTIONS.scale = SETTINGS["scale"] = now
    SETTINGS["by"] = {"part": now / 4, 3: "text"}
    as_it_is = (lambda gradient: gradient) if now == 2 else (lambda gradient: gradient * 7)


FUNCTIONS = [OfAModule, OfAClass, OfItsOwn, OfAFunction, OfADictionary, "variable"]


def of(function):
    return of_a_variable() if function == "variable" else (function, change_all)


def results(made):
    return made if isinstance(made, tuple) else (made,)


@BACKENDS
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("is_differentiated", [False, True])
def test_a_pass_reads_what_the_names_lead_to_then(function, backend, is_differentiated):
    def gradients(compile):
        own, change = of(function)
        call, found = compile(lambda x, h: (sum(results(own.apply(x * 2, 4.0))) + h).square()), []
        for then in (5.0, 2.0, 9.0):
            change(2.0)
            x = torch.linspace(0.5, 1, 3).requires_grad_()
            y = call(x, torch.ones(3))
            change(then)
            if is_differentiated:
                (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
                gradient.square().sum().backward()
                found.append(gradient.detach())
            else:
                y.sum().backward()
            found.append(x.grad)
        change_all(2.0)
        return found

    torch.testing.assert_close(gradients(lambda f: dynascope.compile(f, backend=backend, fullgraph=True)), gradients(lambda f: f))


@BACKENDS
@pytest.mark.expects("foreign-call")
def test_a_number_that_varies_is_left_to_autograd(backend):
    def gradients(compile):
        call, found = compile(lambda x: OfAModule.apply(x, 2.0)), []
        for now in (2.0, 3.0, 4.0, 5.0):
            change_all(now)
            x = torch.ones(3, requires_grad=True)
            y = call(x)
            change_all(now + 0.5)
            y.sum().backward()
            found.append(x.grad)
        change_all(2.0)
        return found

    torch.testing.assert_close(gradients(lambda f: dynascope.compile(f, backend=backend)), gradients(lambda f: f))


def changes_it_inside(x):
    global SCALE
    y = OfAModule.apply(x * 2, 4.0)
    SCALE = 7.0
    y.sum().backward()
    return y


def changes_a_class_inside(x):
    y, _ = OfAClass.apply(x * 2, 4.0)
    Options.scale = 7.0
    y.sum().backward()
    return y


def changes_a_dictionary_inside(x):
    y = OfADictionary.apply(x * 2, 4.0)
    SETTINGS["scale"] = 7.0
    y.sum().backward()
    return y


def puts_another_dictionary(x):
    global SETTINGS
    y = OfADictionary.apply(x * 2, 4.0)
    SETTINGS = {"scale": 9.0, "by": {"part": 0.5, 3: "text"}}
    y.sum().backward()
    return y


def changes_a_dictionary_before(x):
    SETTINGS["by"] = {"part": 7.0, 3: "text"}
    y = OfADictionary.apply(x * 2, 4.0)
    y.sum().backward()
    return y


CHANGING_PROGRAMS = [
    changes_it_inside, changes_a_class_inside, changes_a_dictionary_inside, puts_another_dictionary, changes_a_dictionary_before
]  # fmt: skip


@BACKENDS
@pytest.mark.may_break
@pytest.mark.parametrize("program", CHANGING_PROGRAMS)
def test_a_name_that_the_program_changes_between(program, backend):
    found = []
    for function in (program, dynascope.compile(program, backend=backend)):
        for _ in range(2):
            change_all(2.0)
            x = torch.ones(3, requires_grad=True)
            found.append((function(x).tolist(), x.grad.round(decimals=4).tolist(), SCALE, Options.scale, str(SETTINGS)))
    change_all(2.0)
    assert found[2:] == found[:2]


TABLE = torch.full((3,), 2.0)


class OfATensor(Function):
    @staticmethod
    def forward(ctx, x, factor):
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * TABLE.sin(), None


class OfATensorGiven(Function):
    """What the context holds is what it was given, by whatever name."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x, factor)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        x, factor = ctx.saved_tensors
        return gradient * factor * ctx.factor, (x * gradient)


def put_another():
    global TABLE
    TABLE = torch.full((3,), 5.0)


CHANGES = [lambda: TABLE.mul_(3), lambda: TABLE[:2].zero_(), put_another, lambda: None]


@BACKENDS
@pytest.mark.parametrize("change", CHANGES)
def test_a_tensor_is_read_by_its_name_then(change, backend):
    def gradients(compile):
        global TABLE
        call, found = compile(lambda x: OfATensor.apply(x.sin(), 2.0)), []
        TABLE = torch.full((3,), 2.0)
        for _ in range(3):
            x = torch.ones(3, requires_grad=True)
            y = call(x)
            change()
            y.sum().backward()
            found.append(x.grad)
        return found

    torch.testing.assert_close(gradients(lambda f: dynascope.compile(f, backend=backend, fullgraph=True)), gradients(lambda f: f))


@BACKENDS
def test_a_tensor_that_is_given_may_have_a_name(backend):
    def gradients(compile):
        x = torch.ones(3, requires_grad=True)
        compile(lambda x: OfATensorGiven.apply(x.sin(), TABLE))(x).sum().backward()
        return x.grad

    torch.testing.assert_close(gradients(lambda f: dynascope.compile(f, backend=backend, fullgraph=True)), gradients(lambda f: f))


TABLES = {"rows": torch.full((3,), 2.0)}


class OfAnEntryGiven(Function):
    """What it was given is kept, and what it reads is what the entry holds then."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x, factor)
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        x, factor = ctx.saved_tensors
        return gradient * factor * TABLES["rows"], None


def put_another_entry():
    TABLES["rows"] = torch.full((3,), 5.0)


class OfAnAttributeGiven(Function):
    table = TABLES["rows"]

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor * OfAnAttributeGiven.table, None


def put_another_attribute():
    OfAnAttributeGiven.table = torch.full((3,), 5.0)


@BACKENDS
@pytest.mark.parametrize("change", [put_another_entry, put_another_attribute, lambda: None])
@pytest.mark.parametrize("function", [OfAnEntryGiven, OfAnAttributeGiven])
def test_what_is_read_by_a_name_is_read_then_whatever_was_given(function, change, backend):
    def gradients(compile):
        TABLES["rows"] = OfAnAttributeGiven.table = torch.full((3,), 2.0)
        x = torch.ones(3, requires_grad=True)
        given = (lambda: TABLES["rows"]) if function is OfAnEntryGiven else (lambda: OfAnAttributeGiven.table)
        y = compile(lambda x: function.apply(x.sin(), given()))(x)
        change()
        y.sum().backward()
        return x.grad

    torch.testing.assert_close(gradients(lambda f: dynascope.compile(f, backend=backend)), gradients(lambda f: f))
