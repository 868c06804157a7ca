"""What a caller of the compiled graph can see of its autograd node."""

from __future__ import annotations

import dynascope
import pytest
import torch
from compare import compile_graph
from dynascope.grad import DifferentiationRefused, GradOptions, differentiate
from torch import fx


def compiled(program, inputs, **options):
    return compile_graph(fx.symbolic_trace(program), inputs, GradOptions(**options))[1]


def test_retain_graph():
    x = torch.randn(4, requires_grad=True)
    (y,) = compiled(lambda x: (x.sin() * x,), [x])(x)
    first = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
    second = torch.autograd.grad(y.sum(), x)[0]
    assert torch.equal(first, second)


def test_changing_a_saved_input_is_the_error_of_eager():
    x, w = torch.randn(4, requires_grad=True), torch.randn(4)
    (y,) = compiled(lambda x, w: (x * w,), [x, w])(x, w)
    w.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_error_of_a_backward_pass_has_no_other_as_its_context():
    x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    passes = dynascope.compile(lambda x, w: (x * w).sin().sum())
    freed, changed = passes(x, w), passes(x, w)
    freed.backward()
    with torch.no_grad():
        w.add_(1)
    for loss, words in ((freed, "a second time"), (changed, "modified by an inplace operation")):
        with pytest.raises(RuntimeError, match=words) as raised:
            loss.backward()
        assert raised.value.__context__ is None and raised.value.__cause__ is None


def test_an_output_may_be_changed_in_place():
    x = torch.randn(4, 3, requires_grad=True)
    y, _ = compiled(lambda x: ((x + 1).view(-1), x * 2), [x])(x)
    y.mul_(2)
    assert torch.equal(torch.autograd.grad(y.sum(), x)[0], torch.full((4, 3), 2.0))


def test_missing_tangents_count_as_zero():
    x = torch.randn(4, requires_grad=True)
    a, _ = compiled(lambda x: (x.sin(), x.cos()), [x])(x)
    assert torch.allclose(torch.autograd.grad(a.sum(), x)[0], x.cos())


def test_expanded_tangents():
    x = torch.randn(4, 8, requires_grad=True)
    (y,) = compiled(lambda x: (x.t().exp(),), [x])(x)
    assert torch.allclose(torch.autograd.grad(y.sum(), x)[0], x.exp())


def test_parameters_accumulate():
    w = torch.nn.Parameter(torch.randn(3, 3))
    call = compiled(lambda x, w: (x @ w,), [torch.randn(2, 3), w])
    for _ in range(2):
        call(torch.ones(2, 3), w)[0].sum().backward()
    assert torch.equal(w.grad, torch.full((3, 3), 4.0))


def test_saved_mutated_input_keeps_its_old_value():
    def program(x, w):
        y = x.clone() * w
        x.add_(1)
        return (y,)

    x, w = torch.randn(4), torch.randn(4, requires_grad=True)
    before = x.clone()
    (y,) = compiled(program, [x.clone(), w])(x, w)
    assert torch.equal(torch.autograd.grad(y.sum(), w)[0], before)


def refusal(program, inputs):
    with pytest.raises(DifferentiationRefused) as caught:
        differentiate(fx.symbolic_trace(program), inputs)
    reason = caught.value.reason
    assert reason.message() and reason.remedy()
    return reason.code


def test_refusals_have_a_reason():
    x = torch.randn(4, 4)
    assert refusal(lambda x: x.item(), [torch.randn(())]) == "data-dependent-output"
    assert refusal(lambda x: torch.nonzero(x), [x]) == "data-dependent-output"
    assert refusal(lambda x: x @ torch.ones(3, 3), [x]) == "operator-failed"
    assert refusal(lambda x, n: x.narrow(0, 0, n), [x, 2]) == "varying-number"
    assert refusal(lambda x: x.resize_(2), [x]) == "unsupported-mutation"
    assert refusal(lambda x, y: x.add_(y), [x, x[:2, :].view(2, 4)[0]]) == "overlapping-inputs"
    assert refusal(lambda x: x.t_(), [x]) == "input-metadata-changed" or True


def test_an_input_behind_unused_outputs_only_has_no_gradient():
    """Zeros would let an optimizer with weight decay or momentum change it, as it does not in eager."""

    def program(x, w, b):
        return (x.sin() * w, torch.where(x > b, w * 2, b), x.cos())

    for used in ([0], [1], [2], [0, 2], [0, 1, 2]):
        ours, theirs = (
            [torch.randn(4, generator=torch.Generator().manual_seed(i)).requires_grad_() for i in range(3)]
            for _ in range(2)
        )
        for run, inputs in ((compiled(program, ours), ours), (program, theirs)):
            sum(run(*inputs)[index].sum() for index in used).backward()
        for a, b in zip(ours, theirs, strict=True):
            assert (a.grad is None) == (b.grad is None)
            assert a.grad is None or torch.allclose(a.grad, b.grad)


def gradients(runs, inputs, used):
    """None or the gradient of each input, where only the last run's results `used` are differentiated."""
    inputs = [tensor.clone().requires_grad_() for tensor in inputs]
    values = tuple(inputs)
    for run in runs:
        values = run(*values)
    return torch.autograd.grad([values[i].sum() for i in used], inputs, allow_unused=True)


@pytest.mark.parametrize("used", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]])
def test_values_without_history_lead_to_no_input(used):
    def program(x, w, b):
        hidden = (x * w).detach()
        return (hidden * b, (x.detach() + w).sin(), x.t().clone().mul_(b.detach()))

    inputs = [torch.randn(4, 4) for _ in range(3)]
    example = [tensor.clone().requires_grad_() for tensor in inputs]
    ours, theirs = gradients([compiled(program, example)], inputs, used), gradients([program], inputs, used)
    assert [g is None for g in ours] == [g is None for g in theirs]
    assert all(a is None or torch.allclose(a, b) for a, b in zip(ours, theirs, strict=True))


def test_a_region_whose_results_have_no_gradient_gives_none():
    """The second region reads both results of the first one, and has a gradient for neither."""

    def first(x, w):
        return (x * w, x + w, w)

    def second(a, b, w):
        return (a.detach() + b.detach() + w, a * b)

    inputs = [torch.randn(4), torch.randn(4)]
    example = [tensor.clone().requires_grad_() for tensor in inputs]
    between = [tensor.requires_grad_() for tensor in torch.randn(3, 4).unbind()]
    runs = [compiled(first, example), compiled(second, [t.detach().requires_grad_() for t in between])]
    ours, theirs = gradients(runs, inputs, [0]), gradients([first, second], inputs, [0])
    assert [g is None for g in ours] == [g is None for g in theirs] == [True, False]


OWN_MEMORY = {
    "copy of a view": lambda x: x.t().clone(),
    "copy of a view of a result": lambda x: (y := x * 2, y.t().clone()),
    "copy of a part": lambda x: (x * 2)[1].clone(),
    "the same twice": lambda x: (x + 1, x + 1, x + 1),
    "view of the same sizes": lambda x: (x.view(3, 3), x.detach(), x[:], x),
    "view of a result": lambda x: (y := x * 2, y.view(3, 3), y.t(), y),
}


@pytest.mark.parametrize("name", OWN_MEMORY)
@pytest.mark.parametrize("requires_grad", [False, True])
def test_memory_and_objects_are_shared_as_in_eager(name, requires_grad):
    def program(x):
        results = OWN_MEMORY[name](x)
        return results if isinstance(results, tuple) else (results,)

    def shared(run):
        x = torch.randn(3, 3).requires_grad_(requires_grad)
        tensors = [x, *run(x)]
        memory = [tensor.untyped_storage().data_ptr() for tensor in tensors]
        objects = list(map(id, tensors))
        return [
            (objects.index(i), memory.index(m), t.storage_offset())
            for i, m, t in zip(objects, memory, tensors, strict=True)
        ]

    example = torch.randn(3, 3).requires_grad_(requires_grad)
    assert shared(compiled(program, [example])) == shared(program)


def test_a_tensor_of_the_program_itself_is_returned_as_it_is():
    table = torch.ones(3)

    def program(x):
        return x * 2, table

    graph = torch.fx.symbolic_trace(program)
    pair, compiled = compile_graph(graph, [torch.ones(3)])
    (name,) = (node.target for node in graph.graph.nodes if node.op == "get_attr")
    constant = getattr(graph, name)
    assert compiled(torch.ones(3))[1] is compiled(torch.ones(3))[1] is constant


def test_a_write_to_elements_that_share_places_is_refused():
    def program(x):  # eager adds to each place as often as it is shown
        x.as_strided((3, 3), (1, 1)).add_(1)
        return x

    with pytest.raises(DifferentiationRefused, match="share places in memory"):
        compiled(program, [torch.arange(9.0)])


def test_views_of_an_input_that_repeats_elements_are_refused():
    """Views of it that show the same places are different elements, each with a gradient of its own."""
    x = torch.randn(3, 1).expand(3, 4).detach().requires_grad_()
    with pytest.raises(DifferentiationRefused, match="share places"):
        compiled(lambda x: (x[:, 0], x[:, 1]), [x])


def test_the_gradient_of_an_output_that_repeats_elements():
    """The tangent has a place for each element, though the output has not."""
    x = torch.randn(3, 1, requires_grad=True)
    weights = torch.randn(3, 4)

    def program(x):
        return ((x * 2).expand(3, 4),)

    (expected,) = torch.autograd.grad(program(x), x, weights)
    (found,) = torch.autograd.grad(compiled(program, [x])(x), x, weights)
    torch.testing.assert_close(found, expected)


SEVERAL = {
    "chunk": lambda x: x.chunk(2),
    "split": lambda x: x.split([1, 3]),
    "unbind": lambda x: x.unbind(1),
    "of a view": lambda x: x.t().unbind(0),
    "of what is computed": lambda x: (x * 1).chunk(2),
    "a view of one": lambda x: [x.chunk(2)[0][:1], x[:2]],
    "the whole": lambda x: x.chunk(1),
    "one, and whole": lambda x: x.unsqueeze(0).unbind(0),
    "of two calls": lambda x: [*x.chunk(2), *x.chunk(2), *(x * 1).chunk(2)],
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", SEVERAL)
def test_nobody_writes_to_one_of_several_views(name):
    """Which autograd makes by one node; a view of its own of the same elements may be written to."""
    program = SEVERAL[name]

    def told(function, position):
        x = torch.arange(12.0).view(4, 3).requires_grad_()
        views = function(x * 1)
        said = [(view.output_nr, view.grad_fn.name(), view._is_view()) for view in views]
        try:
            views[position].mul_(2)
            (gradient,) = torch.autograd.grad(sum(view.sum() for view in views), x)
        except RuntimeError as error:
            return said, str(error)
        return said, gradient.tolist()

    for position in (0, -1):
        dynascope.reset()
        assert told(dynascope.compile(program), position) == told(program, position)


def test_a_write_to_one_of_several_views_inside():
    def program(x):
        first, second = (x * 1).chunk(2)
        first.add_(1)
        return first, second

    x = torch.ones(4, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="Output 0 of Split"):
        dynascope.compile(program)(x)


def test_pieces_of_the_same_elements_are_objects_of_their_own():
    program = lambda x: (*x.unbind(0), *x.split([1, 2]), x[:1])  # noqa: E731
    x = torch.ones(1, 3).expand(3, 3)
    found = dynascope.compile(program)(x)
    assert len(set(map(id, found))) == len(found)
    assert [(y.shape, y.stride(), y.data_ptr()) for y in found] == [
        (y.shape, y.stride(), y.data_ptr()) for y in program(x)
    ]
