"""Results that are computed from each other, or lead to other histories: autograd finds its way as in eager."""

import dynascope
import pytest
import torch


def program(x, weight):
    hidden = torch.relu(x @ weight)
    return hidden, (hidden * 2).sin().sum()


def through_a_view(x, weight):
    hidden = (x @ weight).view(-1)
    return hidden, hidden.square().sum()


def beside_another(x, weight):
    """The loss reads more than what is between: that way stays."""
    first = x @ weight
    hidden, other = first.sin(), first.cos()
    return hidden, (hidden * other).sum()


def of_one_of_several(x, weight):
    left, right = (x @ weight).split(2, 1)
    return left, (left.sin() + right).exp().sum()


def written_between(x, weight):
    hidden = x @ weight
    hidden.mul_(x)
    return hidden, (hidden * weight).sum()


PROGRAMS = [program, through_a_view, beside_another, of_one_of_several, written_between]


def differentiate(x, weight, hidden, loss):
    return torch.autograd.grad(loss, [hidden, weight])


def retain(x, weight, hidden, loss):
    hidden.retain_grad()
    loss.backward()
    return hidden.grad, x.grad, weight.grad


def hook(x, weight, hidden, loss):
    hidden.register_hook(lambda gradient: gradient * 3)
    loss.backward()
    return x.grad, weight.grad


def both(x, weight, hidden, loss):
    (hidden.sum() + loss).backward()
    return x.grad, weight.grad


def detached_hook(x, weight, hidden, loss):
    """The tensor is gone, its hook is not."""
    hidden.register_hook(lambda gradient: gradient * 3)
    del hidden
    loss.backward()
    return x.grad, weight.grad


USES = [differentiate, retain, hook, both, detached_hook]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("function", PROGRAMS)
def test_the_way_between(function, use):
    found = []
    for run in (function, dynascope.compile(function, fullgraph=True)):
        torch.manual_seed(0)
        x, weight = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
        found.append(use(x, weight, *run(x, weight)))
    torch.testing.assert_close(*found)


def test_an_input_that_is_written():
    def changed(x, weight):
        x.mul_(weight)
        return (x * weight.sin()).sum()

    found = []
    for function in (changed, dynascope.compile(changed, fullgraph=True)):
        leaf, weight = torch.linspace(0, 1, 6, requires_grad=True), torch.linspace(1, 2, 6, requires_grad=True)
        x = leaf * 1
        loss = function(x, weight)
        found.append((x.detach().clone(), *torch.autograd.grad(loss, [x, leaf, weight])))
    torch.testing.assert_close(*found)


def test_sizes_that_vary():
    compiled = dynascope.compile(program, fullgraph=True, dynamic=True)
    for rows in (3, 5, 9):
        found = []
        for function in (program, compiled):
            x, weight = torch.ones(rows, 4, requires_grad=True), torch.full((4, 4), 0.5, requires_grad=True)
            found.append(retain(x, weight, *function(x, weight)))
        torch.testing.assert_close(*found)


def test_results_that_share_an_input_stay_one_graph():
    def apart(x, weight):
        first = x @ weight
        return first.sin(), first.cos().sum()

    x, weight = torch.ones(4, 4, requires_grad=True), torch.ones(4, 4, requires_grad=True)
    ours, others = dynascope.compile(apart)(x, weight)
    assert ours.grad_fn is others.grad_fn
    ours, others = dynascope.compile(program)(x, weight)
    assert ours.grad_fn is not others.grad_fn


def test_nothing_is_cut_without_gradients():
    report = dynascope.explain(program)(torch.ones(4, 4), torch.ones(4, 4))
    assert len(report.graphs) == 1


def apart(first, second, weight):
    return (first @ weight).sum(), (second @ weight).sin().sum(), weight.sum()


def one_of_both(first, second, weight):
    hidden, mask = (first @ weight).relu(), (second > 1).float()
    return hidden.sum(), ((second @ weight).sin() * hidden * mask).sum(), weight.sum()


def in_pieces(first, second, weight):
    left, _ = (first @ weight).chunk(2)
    _, right = (second @ weight).chunk(2)
    with torch.no_grad():
        scale = left.sum() + right.sum()
    return left.sum(), right.sum() * scale, weight.sum()


def written(first, second, weight):
    first.mul_(2)
    second.add_(1)
    return (first * weight).sum(), (second * weight).sum(), weight.sum()


def drawn(first, second, weight):
    left, right = torch.dropout(first @ weight, 0.5, True), torch.dropout(second @ weight, 0.5, True)
    return torch.dropout(left, 0.5, True).sum(), right.sum(), weight.sum()


@pytest.mark.parametrize("function", [apart, one_of_both, in_pieces, written, drawn])
def test_a_backward_pass_enters_no_history_of_another_result(function):
    """What it enters it frees, and calls the hooks of."""
    found = []
    for run in (function, dynascope.compile(function, fullgraph=True)):
        torch.manual_seed(0)
        leaves = [torch.randn(4, 4, requires_grad=True) for _ in range(3)]
        first, second, seen = leaves[0].exp() * 1, leaves[1].exp() * 1, []
        first.register_hook(lambda gradient, seen=seen: seen.append("first"))
        second.register_hook(lambda gradient, seen=seen: seen.append("second"))
        for result in reversed(run(first, second, leaves[2])):
            if function is one_of_both:
                result.backward(retain_graph=True)
            else:
                result.backward()
            seen.append("passed")
        found.append((seen, [leaf.grad for leaf in leaves]))
    assert found[0][0] == found[1][0]
    torch.testing.assert_close(found[0][1], found[1][1])


def test_gradients_taken_inside():
    """They follow the way that a cut would end: autograd takes them, through the parts."""

    def kept(x, weight):
        hidden = torch.tanh(x @ weight)
        loss = hidden.square().sum()
        (first,) = torch.autograd.grad(loss, weight, retain_graph=True)
        return hidden, loss, first

    found = []
    for run in (kept, dynascope.compile(kept)):
        x, weight = torch.ones(2, 3, requires_grad=True), torch.full((3, 3), 0.5, requires_grad=True)
        hidden, loss, first = run(x, weight)
        found.append((retain(x, weight, hidden, loss), first))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
@pytest.mark.parametrize("has_history", [False, True])
def test_a_pass_of_what_reads_no_result_leaves_those_that_are_read(order, has_history):
    """A critic beside a head on what is given back too: each has its own pass."""

    def heads(x, weight):
        hidden = x @ weight
        return hidden, hidden.sin().sum(), (x * x).sum()

    def run(function):
        leaf, weight = torch.full((3, 2), 0.5, requires_grad=True), torch.ones(2, 2, requires_grad=True)
        results = function(leaf.view(3, 2) if has_history else leaf, weight)
        for number in order:
            results[number].backward()
        return leaf.grad, weight.grad

    for ours, theirs in zip(run(dynascope.compile(heads)), run(heads), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.expects("backward-call")
def test_what_is_computed_for_its_error_alone_has_no_pass():
    def program(x, weight):
        product = x * weight
        torch.nn.functional.elu(product)  # of no elements: what refuses that says so though nobody reads it
        x.sum().backward()
        return product

    def run(function):
        leaf, weight = torch.ones(0, 2, requires_grad=True), torch.ones((), requires_grad=True)
        function(leaf.view(0, 2), weight).sum().backward()
        return leaf.grad, weight.grad

    for ours, theirs in zip(run(dynascope.compile(program)), run(program), strict=True):
        torch.testing.assert_close(ours, theirs)


def between(x, w):
    shifted = x + w
    gates = shifted.sigmoid()
    return gates, (gates + shifted).sin()


def dropped(x, w):
    kept = torch.nn.functional.dropout(x * w, 0.5) + x
    first = kept.tanh()
    second = first * 2 + kept
    return first, second, second.exp() + kept


@pytest.mark.parametrize("function", [between, dropped])
def test_second_derivatives_after_plain_passes(function):
    """What one part gave another, and is no result, nobody holds by then: the part that gave it runs again."""

    def penalty(call):
        torch.manual_seed(0)
        for call_number in range(3):
            given = [torch.randn(3, 4, requires_grad=True) for _ in range(2)]
            results = call(*given)
            total = sum(result.square().sum() for result in results)
            if call_number < 2:
                total.backward()
        slopes = torch.autograd.grad(total, given, create_graph=True)
        del results
        sum(slope.square().sum() for slope in slopes).backward()
        return [*slopes, *(each.grad for each in given)]

    torch.testing.assert_close(penalty(dynascope.compile(function)), penalty(function))


def written_past_autograd(x, weight):
    """Eager's pass reads the new weight, and the product with the old one that it kept."""
    hidden = x * weight * weight
    loss = (hidden * 2).sum()
    weight.data.mul_(0.5)
    return hidden, loss


def view_written_past_autograd(x, weight):
    hidden = (x * weight).sin() * weight
    loss = hidden.exp().sum()
    weight.data[0] = 3.0
    return hidden, loss


def results_written_past_autograd(x, weight):
    hidden = x * weight
    middle = hidden.sin().exp()
    loss = middle.cos().sum()
    hidden.data.mul_(0.5)
    return middle, loss


PAST_AUTOGRAD = [written_past_autograd, view_written_past_autograd, results_written_past_autograd]


@pytest.mark.parametrize("program", PAST_AUTOGRAD)
@pytest.mark.expects("output-alias")
def test_what_a_part_wrote_past_autograd_is_read_by_the_passes_of_others_as_in_eager(program):
    gradients = []
    for run in (program, dynascope.compile(program)):
        torch.manual_seed(0)
        x, weight = torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)
        hidden, loss = run(x, weight)
        gradients.append(torch.autograd.grad(hidden.sum() + loss, weight)[0])
    torch.testing.assert_close(*gradients)


def test_a_step_that_writes_parameters_past_autograd_behind_its_backward_pass_has_kernels():
    def step(x, weight):
        hidden = x @ weight
        scale = hidden.detach().sum().item()  # the graph is cut here
        loss = (hidden * scale).square().mean()
        loss.backward()
        weight.data.sub_(0.01 * weight.grad)
        return loss

    results = []
    for run in (step, dynascope.compile(step)):
        torch.manual_seed(0)
        x, weight = torch.randn(3, 4), torch.randn(4, 4, requires_grad=True)
        results.append((run(x, weight).detach(), weight.detach()))
    torch.testing.assert_close(*results)


def written_by_a_view(x, weight):
    row = x.view(-1)
    row.mul_(weight.sum())
    return x.square().sum(), row


def written_by_a_view_and_read_beside_it(x, weight):
    row = x[0]
    row.add_(weight[0])
    return (x * 2).sum() + row.sin().sum(), row, x


@pytest.mark.parametrize("program", [written_by_a_view, written_by_a_view_and_read_beside_it])
def test_an_input_that_another_part_writes_by_a_view_has_its_history(program):
    gradients = []
    for run in (program, dynascope.compile(program)):
        x, weight = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3, requires_grad=True)
        loss, row, *_ = run(x, weight)
        gradients.append((torch.autograd.grad(loss, weight)[0], row.detach(), x.detach()))
    torch.testing.assert_close(*gradients)


class Handed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


@pytest.mark.expects("call-did-not-fail")
def test_parts_of_a_graph_that_writes_to_what_a_custom_function_handed_on():
    """Autograd refuses to say of such a view whether it is a leaf, once it is written."""

    def program(view, weight):
        scale = view.sum().item()
        view.data[0] = 5.0
        return (view * weight).sum() * scale

    def run(call):
        weight, base = torch.arange(3.0, requires_grad=True), torch.ones(3, requires_grad=True)
        result = call(Handed.apply(base * 2), weight)
        result.backward()
        return result.detach(), weight.grad, base.grad

    for one, other in zip(run(dynascope.compile(program)), run(program), strict=True):
        torch.testing.assert_close(one, other)
