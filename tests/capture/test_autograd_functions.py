"""Custom functions of autograd (`torch.autograd.Function`) are part of a graph: results, gradients and what they print stay."""

import enum

import dynascope
import pytest
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Sine(Function):
    """A derivative that is twice the right one, so that its own backward pass is known to have run."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * 2


class MaskedProduct(Function):
    """Several results, one without a gradient; arguments that are no tensors; what is kept on the context."""

    @staticmethod
    def forward(ctx, x, weight, scale, *, unused=None):
        y = x @ weight
        mask = y > 0
        ctx.save_for_backward(x, None, weight)
        ctx.mask, ctx.scale = mask, scale
        ctx.mark_non_differentiable(mask)
        y *= scale
        return y * mask, mask, "text"

    @staticmethod
    def backward(ctx, gradient, *_):
        x, nothing, weight = ctx.saved_tensors
        assert nothing is None
        gradient = gradient * ctx.mask * ctx.scale
        for_x = gradient @ weight.t() if ctx.needs_input_grad[0] else None
        for_weight = x.t() @ gradient if ctx.needs_input_grad[1] else None
        return for_x, for_weight, None, None, None


class Rounded(Function):
    @staticmethod
    def forward(x, steps):
        return torch.round(x * steps) / steps

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.steps = inputs

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-1, 1) + ctx.steps, None


class Reversed(Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.by = by
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.neg() * ctx.by, None


class Itself(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        return gradient * 3


class Product(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, gradient):
        a, b = ctx.saved_tensors
        return gradient * b, gradient * a * 5


class Dropped(Function):
    """Random numbers in the forward pass, which the backward pass uses again."""

    @staticmethod
    def forward(ctx, x):
        ctx.keep = torch.rand_like(x) > 0.5
        return x * ctx.keep

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.keep


FACTOR = torch.full((4, 4), 3.0)


class ReadsOutside(Function):
    @staticmethod
    def forward(ctx, x):
        return x * FACTOR

    @staticmethod
    def backward(ctx, gradient):
        return gradient * FACTOR + torch.ones(4, device=gradient.device)


class Powered(Function):
    """`setup_context` is told of defaults too, and of what is given by name in its place."""

    @staticmethod
    def forward(x, power=3, scale=2.0):
        return x**power * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, ctx.power, ctx.scale = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * ctx.power * x ** (ctx.power - 1) * ctx.scale, None, None


def product_of_itself(x, w):
    return Product.apply(x, x)


def masked(x, w):
    y, mask, text = MaskedProduct.apply(x * 2, w, 3.0)
    return y.sum() + mask.sum() + len(text)


PROGRAMS = {
    "saved": lambda x, w: Sine.apply(x * 2) + 1,
    "chained": lambda x, w: Sine.apply(Sine.apply(x) @ w),
    "several results": masked,
    "one argument without a gradient": lambda x, w: MaskedProduct.apply(x.detach(), w, 2.0)[0],
    "setup_context": lambda x, w: Rounded.apply(x @ w, 8),
    "defaults": lambda x, w: Powered.apply(x @ w) + Powered.apply(w, 2),
    "given by name": lambda x, w: Powered.apply(x @ w, scale=0.5) + Powered.apply(x=w, power=2),
    "a view as result": lambda x, w: Reversed.apply(x * w, 0.5) * 2,
    "its argument as result": lambda x, w: Itself.apply(x) + w,
    "one argument twice": product_of_itself,
    "random numbers": lambda x, w: Dropped.apply(x @ w),
    "tensors from outside": lambda x, w: ReadsOutside.apply(x) @ w,
    "without gradients": lambda x, w: Itself.apply(x.detach()) + Sine.apply(w.detach()),
    "in a loop": lambda x, w: sum(Sine.apply(x * i) for i in range(3)),
}


def run(program, *arguments):
    torch.manual_seed(0)
    x, w = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    result = program(x, w)
    if result.requires_grad:
        (result * torch.arange(result.numel()).reshape(result.shape)).sum().backward()
    return [result.detach(), result.requires_grad, x.grad, w.grad, torch.rand(2)]


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_with_results_and_gradients_of_eager(name, backend):
    program = PROGRAMS[name]
    wanted = run(program)
    compiled = dynascope.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        for found, want in zip(run(compiled), wanted, strict=True):
            torch.testing.assert_close(found, want)


def test_a_second_derivative_is_that_of_the_backward_pass():
    def gradient_of_gradient(function):
        x = torch.linspace(0, 1, 5, requires_grad=True)
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.sum(), x)[0]

    wanted = gradient_of_gradient(Sine.apply)
    found = gradient_of_gradient(dynascope.compile(lambda x: Sine.apply(x)))
    torch.testing.assert_close(found, wanted)


class Scaled100(Function):
    @staticmethod
    def forward(ctx, gradient):
        return gradient * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 100


class CallsAnother(Function):
    """Its backward pass is not differentiated as its operators are: the other function says how."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return Scaled100.apply(gradient * x)


class CallsItself(Function):
    @staticmethod
    def forward(ctx, x):
        return x.flip(0) * 2

    @staticmethod
    def backward(ctx, gradient):
        return CallsItself.apply(gradient) * 3


class PartlyUnrecorded(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            constant = x * 2
        return gradient * constant + gradient * x


def second_derivative(function, x):
    (first,) = torch.autograd.grad((function(x) ** 2).sum(), x, create_graph=True)
    return torch.autograd.grad((first**2).sum(), x, create_graph=True)[0]


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", [CallsAnother, CallsItself, PartlyUnrecorded])
def test_a_backward_pass_is_differentiated_as_the_program_says(function, backend):
    x = torch.linspace(0.5, 1, 4, requires_grad=True)
    wanted = second_derivative(function.apply, x)
    compiled = dynascope.compile(lambda x: function.apply(x), backend=backend, fullgraph=True)
    torch.testing.assert_close(second_derivative(compiled, x), wanted)


class CallsAnotherThere(Function):
    """Each derivative is another function's, with a factor of its own."""

    @staticmethod
    def forward(ctx, x, power):
        ctx.power = power
        ctx.save_for_backward(x)
        return x**power

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return CallsAnotherThere.apply(x, ctx.power - 1) * gradient * (ctx.power + 10), None


def derivatives(function, x, count):
    found = [(function(x) ** 5).sum()]
    for _ in range(count):
        found.append(torch.autograd.grad(found[-1].sum(), x, create_graph=True)[0])
    return found


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("function", [CallsItself.apply, lambda x: CallsAnotherThere.apply(x * 2, 5)])
def test_derivatives_beyond_what_was_followed(function, backend):
    """The program's own backward passes run there."""
    x = torch.linspace(0.5, 1, 4, requires_grad=True)
    compiled = dynascope.compile(lambda x: function(x), backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(derivatives(compiled, x, 4), derivatives(function, x, 4))


class KeepsAnObject(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.made = {"there": x * 2}
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return KeepsAnObject.apply(x) * ctx.made["there"] * gradient


def test_a_third_derivative_without_a_context_is_refused():
    x = torch.linspace(0.5, 1, 4, requires_grad=True)
    second = second_derivative(dynascope.compile(lambda x: KeepsAnObject.apply(x), backend="eager"), x)
    with pytest.raises(RuntimeError, match="this is a third derivative"):
        second.sum().backward()


class AsksForGradMode(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (2 if torch.is_grad_enabled() else 3)


class AsksForHistory(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (2 if gradient.requires_grad else 3)


class SetsGradMode(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        with torch.set_grad_enabled(False):
            doubled = gradient * 2
        return doubled + gradient


class WritesUnrecorded(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        doubled = gradient * 2
        with torch.no_grad():
            doubled.mul_(3)
        return doubled + gradient


@pytest.mark.parametrize("function", [AsksForGradMode, AsksForHistory, SetsGradMode, WritesUnrecorded])
def test_what_depends_on_whether_a_backward_pass_is_differentiated_is_left_to_autograd(function):
    x = torch.linspace(0.5, 1, 4, requires_grad=True)

    def gradients(function):
        return torch.autograd.grad(function(x).sum(), x)[0], second_derivative(function, x)

    wanted = gradients(function.apply)
    with dynascope.expected("tensor-attribute" if function is AsksForHistory else "foreign-call"):
        found = gradients(dynascope.compile(lambda x: function.apply(x), backend="eager"))
    torch.testing.assert_close(found, wanted)


SEEN = []


class Counts(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        SEEN.append("backward")
        return gradient * 2


class ChangesInPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class TooFew(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class AsksWhichAreThere(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, a, b):
        return a if b is None else b


KEPT = []


class KeepsOutside(Function):
    @staticmethod
    def forward(ctx, x):
        KEPT[:] = [torch.rand_like(x)]
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("function", [Counts, ChangesInPlace, AsksWhichAreThere])
def test_what_only_autograd_can_do_breaks_and_is_right(function):
    def program(x):
        y = function.apply(x * 1)
        return (y if isinstance(y, torch.Tensor) else y[0]) + 1

    x = torch.ones(3, requires_grad=True)
    compiled = dynascope.compile(program)
    for _ in range(2):
        SEEN.clear()
        result = compiled(x)
        assert SEEN == []
        torch.testing.assert_close(result, program(x))
        (found,) = torch.autograd.grad(result.sum(), x)
        assert ["backward"] * (function is Counts) == SEEN
        torch.testing.assert_close(found, torch.autograd.grad(program(x).sum(), x)[0])


@pytest.mark.expects("foreign-call")
def test_a_wrong_number_of_gradients_is_said_by_autograd():
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="incorrect number of gradients"):
        dynascope.compile(lambda x: TooFew.apply(x, x) + 1)(x).sum().backward()


@pytest.mark.may_break
def test_what_it_keeps_outside_is_made_once():
    x = torch.ones(3, requires_grad=True)

    def program(x):
        y = KeepsOutside.apply(x)
        return y + KEPT[0]

    torch.manual_seed(1)
    wanted = program(x), torch.rand(1)
    torch.manual_seed(1)
    found = dynascope.compile(program)(x), torch.rand(1)
    torch.testing.assert_close(found, wanted)


class KeepsScaleOnContext(Function):
    """Its backward pass asks for what was saved, and needs none of it where the first argument has no gradient."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.x = x
        ctx.save_for_backward(y)
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * y if ctx.needs_input_grad[0] else None, gradient * ctx.x


class SavesAndNeverAsks(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(y)
        return x * 2 + y

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, gradient


@pytest.mark.may_break
@pytest.mark.parametrize("is_inside", [True, False])
@pytest.mark.parametrize("changes", [True, False])
@pytest.mark.parametrize("function", [KeepsScaleOnContext, SavesAndNeverAsks])
def test_who_asks_for_what_was_saved_is_told_that_it_was_freed_or_changed(function, changes, is_inside):
    def program(x, leaf):
        y = leaf * 1
        result = function.apply(x, y)
        if not is_inside:
            return result, y
        return finished(result, y)

    def finished(result, y):
        if changes:
            y.detach().add_(1)
        result.sum().backward(retain_graph=True)
        result.sum().backward()
        result.sum().backward()
        return result

    def outcome(program):
        leaf = torch.ones(3, requires_grad=True)
        try:
            found = program(torch.full((3,), 3.0), leaf)
            if not is_inside:
                finished(*found)
        except RuntimeError as error:
            return str(error)[:40], leaf.grad
        return "none", leaf.grad

    (said, found), (expected, wanted) = outcome(dynascope.compile(program)), outcome(program)
    assert said == expected
    torch.testing.assert_close(found, wanted)


def test_a_function_of_torchs_own():
    """fx finds what lies in torch's modules by its name, which is that of the class."""
    from torch.autograd._functions import Resize

    def program(x):
        return Resize.apply(x * 2, (2, 3)).sin()

    x, again = (torch.arange(6.0).requires_grad_() for _ in range(2))
    found, wanted = dynascope.compile(program, backend="eager")(x), program(again)
    assert torch.equal(found, wanted)
    for result in (found, wanted):
        result.sum().backward()
    assert torch.equal(x.grad, again.grad)


@pytest.mark.expects("foreign-call")
def test_a_view_that_it_returns_is_not_changed_where_gradients_would_go_past_it():
    class Rows(Function):
        @staticmethod
        def forward(ctx, x):
            return x.view(-1)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    def program(x, weight):
        rows = Rows.apply(x)
        rows += weight
        return rows

    with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
        dynascope.compile(program, backend="eager")(torch.ones(1, 2), torch.ones(2, requires_grad=True))


class MaskedSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        hidden = ~mask.bool()
        out = x.masked_fill(hidden, torch.tensor(torch.finfo(x.dtype).min)).softmax(-1).masked_fill(hidden, 0)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, gradient):
        (out,) = ctx.saved_tensors
        return torch._softmax_backward_data(gradient, out, -1, out.dtype), None


def test_a_tensor_of_a_number_made_inside():
    """It is made on the CPU, and the operators that meet it run on meta: a mask that is broadcast asks for one device."""
    mask = torch.tensor([[[1, 1, 0, 1]]] * 2)
    ours, theirs = (torch.linspace(-1, 1, 32).view(2, 4, 4).requires_grad_() for _ in range(2))
    found = dynascope.compile(lambda x, mask: MaskedSoftmax.apply(x, mask), backend="eager", fullgraph=True)(ours, mask)
    expected = MaskedSoftmax.apply(theirs, mask)
    torch.testing.assert_close(found, expected)
    for each in (found, expected):
        each.square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


class SineByHelper(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), x + 1

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient, other):
        return gradient * saved_by(ctx).cos() + other


def saved_by(ctx):
    (x,) = ctx.saved_tensors
    return x


def frames_of(error):
    """All but the caller's, with what stands at their place."""
    found = []
    while (entry := error.__traceback__) is not None:
        code = entry.tb_frame.f_code
        found.append((code.co_filename, code.co_name, entry.tb_lineno, list(code.co_positions())[entry.tb_lasti // 2]))
        error.__traceback__ = entry.tb_next
    return found[2:]


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("function", [Sine, SineByHelper])
def test_what_was_freed_is_missed_where_the_program_reads_it(function, backend):
    def program(x):
        results = function.apply(x)
        y = results if isinstance(results, torch.Tensor) else results[0]
        for _ in range(2):
            (y * 2).sum().backward()

    found = []
    for each in (program, dynascope.compile(program, backend=backend)):
        with pytest.raises(RuntimeError, match="second time") as raised:
            each(torch.ones(3, requires_grad=True))
        found.append(frames_of(raised.value))
    assert found[0] == found[1] and __file__ in [file for file, *_ in found[0]]


class Nothing(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mask = x > 0.37
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def test_one_that_fails_where_nothing_was_computed_yet():
    def program(x):
        return Nothing.apply(x.grad, x)

    for each in (program, dynascope.compile(program, backend="eager")):
        with pytest.raises(TypeError, match="'>' not supported between instances of 'NoneType' and 'float'"):
            each(torch.ones(2, requires_grad=True))


class Adversarial(Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient * ctx.scale, None


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, y):
        return x.view_as(x), y

    @staticmethod
    def backward(ctx, for_x, for_y):
        return for_x * 5, for_y * 7


def beside_what_it_was_made_of(x):
    hidden = x * 3
    return hidden, Adversarial.apply(hidden, 2.0)


GIVEN_AS_THEY_CAME = {
    "an input": lambda x: Adversarial.apply(x, 2.0),
    "a view of it": lambda x: Adversarial.apply(x, 2.0).t()[1:],
    "one of a view": lambda x: Adversarial.apply(x.t(), 2.0),
    "beside what it was made of": beside_what_it_was_made_of,
    "a part of that": lambda x: Adversarial.apply(x * 3, 2.0).view(-1)[1:],
    "several": lambda x: Scaled.apply(x, x * 2),
}


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("name", GIVEN_AS_THEY_CAME)
def test_what_a_function_gives_as_it_came_has_the_functions_gradient(name, backend):
    """A reversed gradient, as adversarial training writes it: for autograd the result is a view, with another history than a view's."""
    program, gradients = GIVEN_AS_THEY_CAME[name], []
    for function in (program, dynascope.compile(program, backend=backend)):
        x = torch.ones(2, 3, requires_grad=True)
        results = function(x)
        results = results if isinstance(results, tuple) else (results,)
        sum((each * torch.arange(each.numel()).reshape(each.shape)).sum() for each in results).backward()
        gradients.append(x.grad)
    assert torch.equal(*gradients)


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_an_argument_comes_back_detached(mode, backend):
    """Autograd's own view of one would be refused a change in place once gradients are on, and require grad in inference mode."""

    def program(x):
        return Itself.apply(x)

    call, found = dynascope.compile(program, backend=backend), []
    for function in (program, call, call):
        x = torch.ones(3, requires_grad=True)
        with mode():
            y = function(x)
        found.append((y.requires_grad, y._is_view(), y is x, y.data_ptr() == x.data_ptr(), y.add_(1).tolist(), x.tolist()))
    assert found[1:] == [found[0]] * 2


class Setting:
    def __init__(self):
        self.scale, self.steps = 2.0, [1.0]


class FrozenMode(enum.Enum):
    HALF = 0.5


SETTING, STEPS, RATE = Setting(), {"size": 3.0}, 4.0


class ReadsAttribute(Function):
    @staticmethod
    def forward(ctx, x, setting):
        ctx.setting = setting
        return x * setting.scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.setting.scale, None


class ReadsItem(Function):
    @staticmethod
    def forward(ctx, x, setting):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * STEPS["size"], None


class AsksForLength(Function):
    @staticmethod
    def forward(ctx, x, setting):
        ctx.steps = setting.steps
        return x * len(setting.steps)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * len(ctx.steps), None


class ReadsNames(Function):
    """What the forward pass put on the context, what cannot change, and a name."""

    @staticmethod
    def forward(ctx, x, setting):
        ctx.scale, ctx.mode, ctx.made = setting.scale, FrozenMode.HALF, {"by": [1, 2]}
        return x * ctx.scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale * ctx.mode.value * ctx.made["by"][1] * RATE, None


def gradients_with_changes_between(call):
    found = []
    for _ in range(3):
        x, setting = torch.ones(3, requires_grad=True), Setting()
        y = call(x, setting)
        setting.scale += 1
        setting.steps.append(2.0)
        STEPS["size"] += 1
        y.sum().backward()
        found.append(x.grad.tolist())
    STEPS["size"] = 3.0
    return found


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("function", [ReadsAttribute, ReadsItem, AsksForLength])
def test_a_backward_pass_reads_objects_as_they_are_then(function, backend):
    def program(x, setting):
        return function.apply(x, setting)

    assert gradients_with_changes_between(dynascope.compile(program, backend=backend)) == gradients_with_changes_between(program)


def test_a_backward_pass_that_reads_what_cannot_change_is_part_of_the_graph():
    def program(x, setting):
        return ReadsNames.apply(x, setting)

    call = dynascope.compile(program, backend="eager", fullgraph=True)
    assert gradients_with_changes_between(call) == gradients_with_changes_between(program)
