"""Methods that make a tensor a view of itself (`unsqueeze_`, `t_`), and orders of sets of texts."""

import collections

import dynascope
import pytest
import torch
from harness import compiled


def chained(x):
    y = x + 1
    alias, before = y, y.view(-1)
    y.unsqueeze_(0), y.transpose_(1, 2), y.squeeze_(), y.t_()
    before[0] = 7
    assert alias is y
    return y * 2, alias.shape, before


def written_after(x):
    y = x * 2
    y.t_()[0].mul_(3)
    y.swapdims_(0, 1).add_(1)
    return y


def kept_in_a_list(x):
    rows = [row.clone() for row in x]
    for row in rows:
        row.unsqueeze_(-1)
    return torch.cat(rows, 1)


PROGRAMS = [chained, written_after, kept_in_a_list]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_tensor_made_inside_becomes_its_own_view(program, requires_grad):
    def play(function):
        x = torch.linspace(0, 1, 12).view(3, 4).requires_grad_(requires_grad)
        result = function(x)
        first = result[0] if isinstance(result, tuple) else result
        if requires_grad:
            (first * torch.arange(first.numel()).view(first.shape)).sum().backward()
        return result, first.stride(), x.grad

    function = compiled(program)
    for _ in range(2):
        torch.testing.assert_close(play(function), play(program))
    if not requires_grad:
        assert len(function.graphs) == 1 and function.compilation.codes == []


def test_the_view_counts_as_a_write():
    def program(x):
        y = x + 1
        y.t_()
        y.unsqueeze_(0)
        return y

    assert compiled(program)(torch.ones(2, 3))._version == program(torch.ones(2, 3))._version == 2


def test_the_program_reads_how_often_it_was_written():
    def program(x):
        y = x + 1
        y.t_()
        before = y._version
        y.add_(1)
        return before, y._version

    assert compiled(program)(torch.ones(2, 3)) == program(torch.ones(2, 3)) == (1, 2)


def test_autograd_refuses_what_it_refuses_in_eager():
    def one_of_several(x):
        y = (x * 2).split(2)
        y[0].t_()
        y[1].mul_(2)
        return y[1].squeeze()

    def read_by_the_backward_pass(x):
        y = (x * 2).relu_()
        y.t_()
        y.sum().backward()

    for program in (one_of_several, read_by_the_backward_pass):
        texts = []
        for function in (program, compiled(program)):
            with pytest.raises(RuntimeError) as caught:
                function(torch.ones(4, 2, requires_grad=True))
            texts.append(str(caught.value).split(".")[0])
        assert texts[0] == texts[1]


def test_an_argument_is_left_to_python():
    def program(x):
        x.unsqueeze_(0)
        return x + 1

    x, y = torch.ones(3), torch.ones(3)
    torch.testing.assert_close(compiled(program)(x), program(y))
    assert x.shape == y.shape == (1, 3)


def test_a_leaf_that_requires_grad_refuses():
    def program(x):
        y = torch.ones(2, 3, requires_grad=True)
        y.t_()
        return y * x

    for function in (program, compiled(program)):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            function(torch.ones(1))


NAMES = ("weight", "bias", "scale", "shift", "gain", "more", "another", "ninth", "tenth", "one", "two", "three")
SETS = {
    "a tuple": lambda: set(NAMES),
    "a dict": lambda: set(dict.fromkeys(NAMES)),
    "a dict of another class": lambda: set(collections.OrderedDict.fromkeys(NAMES)),
    "keys": lambda: set(dict.fromkeys(NAMES).keys()),
    "a set": lambda: set(frozenset(NAMES[:5])),
    "either": lambda: set(NAMES[:5]) | {"weight", "other"},
    "both": lambda: frozenset(NAMES) & {"bias", "gain"},
    "one alone": lambda: set(NAMES) ^ {"bias", "gain"},
    "without": lambda: set(NAMES) - {"bias", "gain"},
    "display": lambda: {*NAMES[:3], "other"},
    "comprehension": lambda: {name + "s" for name in NAMES},
}


@pytest.mark.parametrize("made", SETS)
def test_sets_of_texts_are_in_the_order_of_python(made):
    make = SETS[made]

    def program(x):
        seen = []
        for name in make():
            seen.append(name)
            x = x * len(name) + 1
        return x, seen

    (found, order), (wanted, wanted_order) = compiled(program)(torch.ones(2)), program(torch.ones(2))
    assert order == wanted_order
    torch.testing.assert_close(found, wanted)


def test_a_functional_call_is_one_graph():
    linear = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU())
    linear.register_module("tied", linear[0])

    def program(x):
        weights = {name: value * 2 for name, value in linear.named_parameters()}
        return torch.func.functional_call(linear, weights, (x,))

    linear.tied = torch.nn.Identity()
    function = compiled(program)
    torch.testing.assert_close(function(torch.ones(3, 4)), program(torch.ones(3, 4)))
    assert function.compilation.codes == []


def test_what_a_backward_pass_reads_has_another_version():
    """Eager's raises; so the call stays one of its own."""

    def f(x):
        y = x * 2
        z = y.view(-1).copysign(x.view(-1))
        y.t_()
        return z

    for function in (f, dynascope.compile(f, backend="eager")):
        x = torch.ones(2, 3, requires_grad=True)
        with dynascope.expected("tensor-attribute", required=False), pytest.raises(RuntimeError, match="inplace"):
            function(x).sum().backward()


def part_of_several(x):
    y = x * 2
    z = y.unbind(0)[0]
    y.unsqueeze_(0)
    return z


def read_through_a_view(x):
    y = x.clone()
    z = torch.nn.functional.avg_pool1d(y, 2)
    y.unsqueeze_(0)
    return z


def memory_of_a_leaf(x):
    y = x.ravel()
    y.squeeze_()
    return y * 2


def without_gradients(x):
    y = x * 2
    with torch.no_grad():
        y.t_()
    y.mul_(2)
    return y


def of_what_is_no_copy(x):
    y = x.detach().conj()
    y.unsqueeze_(0)
    return y * 2


REFUSED = [part_of_several, read_through_a_view, memory_of_a_leaf, without_gradients, of_what_is_no_copy]


@pytest.mark.may_break
@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_what_autograd_sees_of_it(program):
    """Errors, gradients and sizes are eager's."""

    def seen(function):
        x = torch.arange(6.0).view(2, 3).requires_grad_()
        try:
            y = function(x)
            (gradient,) = torch.autograd.grad(y.sum(), x, allow_unused=True) if y.requires_grad else (None,)
        except RuntimeError as error:
            return str(error).partition(":")[0]
        return y.shape, y.tolist(), gradient

    assert repr(seen(dynascope.compile(program, backend="eager"))) == repr(seen(program))


def test_what_autograd_has_kept_of_a_tensor_without_a_gradient_counts_too():
    def program(x, w):
        y = x + 1
        z = w * y
        y.t_()
        return z.sum() + y.sum()

    for function in (program, compiled(program)):
        w = torch.ones(2, 3, requires_grad=True)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(torch.ones(2, 3), w).backward()


def test_the_methods_are_those_that_the_schemas_name():
    from dynascope.capture.calls.views_in_place import NAMES

    def is_one(name):
        in_place, other = (getattr(torch.ops.aten, each, None) for each in (name, name.removesuffix("_")))
        if not name.endswith("_") or name.endswith("__") or in_place is None or other is None:
            return False
        tagged = all(torch.Tag.inplace_view in getattr(in_place, each).tags for each in in_place.overloads())
        return tagged and all(getattr(other, each)._schema.returns[0].alias_info for each in other.overloads())

    # What is placed in a storage, forgets its history or has a name (until torch 2.12) is left to Python.
    assert {name for name in dir(torch.Tensor) if is_one(name)} - {"as_strided_", "detach_", "rename_"} == set(NAMES)


def test_a_view_of_what_requires_grad_later():
    """Autograd makes the history of such a view anew, because it was written."""

    def program(x):
        y = x.expand(2, 3, 4)
        y.transpose_(0, 1)
        return y, x

    for function in (program, compiled(program)):
        y, x = function(torch.ones(3, 4))
        x.requires_grad_()
        (y * 2).sum().backward()
        assert x.grad.tolist() == torch.full((3, 4), 4.0).tolist()


def test_a_view_made_without_gradients_whose_base_is_written():
    """Nobody reads the copy, but making it raises."""

    def program(part):
        part.detach().add_(1)
        part.clone()
        return [part]

    for function in (program, dynascope.compile(program, backend="eager")):
        x = torch.ones(3, requires_grad=True)
        with torch.no_grad():
            part = x[-1]
        with pytest.raises(RuntimeError, match="no_grad mode"):
            function(part)
        assert x.tolist() == [1, 1, 2]


def without_history(x):
    """In learning from a teacher: `teacher(x).detach_()`, where nothing is recorded anyway."""
    with torch.no_grad():
        given = (x * 2).detach_()
    return given * x, given.requires_grad


def detached(x):
    scaled = x * 3
    before, alias = scaled + 1, scaled
    assert scaled.detach_() is alias and not alias.requires_grad and alias.grad_fn is None
    after = scaled * 2 + before
    scaled.add_(1)
    return after, scaled, before * scaled


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("program", [without_history, detached])
def test_a_tensor_made_inside_loses_its_history(program, backend):
    def play(function):
        x = torch.linspace(0, 1, 12).view(3, 4).requires_grad_()
        results = function(x)
        leads = [each.requires_grad if isinstance(each, torch.Tensor) else each for each in results]
        torch.stack([each.sum() for each in results if isinstance(each, torch.Tensor) and each.requires_grad]).sum().backward()
        return results, leads, x.grad

    function = dynascope.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(play(function), play(program))


@pytest.mark.expects("tensor-attribute")
def test_where_torch_refuses_to_detach_it_does():
    with pytest.raises(RuntimeError, match="Can't detach views"):
        dynascope.compile(lambda x: (x.sin(), x[1:].detach_()))(torch.ones(3, requires_grad=True))


@pytest.mark.expects("tensor-attribute")
def test_what_a_backward_pass_keeps_is_detached_by_torch():
    def program(x):
        scaled = x * 2
        squared = scaled * scaled
        scaled.detach_()
        return scaled, squared.detach()

    x = torch.ones(3, requires_grad=True)
    found, expected = dynascope.compile(program)(x), program(x)
    torch.testing.assert_close(found, expected)
    assert [each.requires_grad for each in found] == [each.requires_grad for each in expected]
