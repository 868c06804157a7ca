"""Each captured graph beside eager and float64: what is right passes, and the first line that is wrong is named."""

import math

import dynascope
import pytest
import torch
from dynascope import recording
from dynascope.checking.checker import Checker, distance
from dynascope.checking.runs import in_double, in_eager, with_all_values
from dynascope.comparing import Comparer

pytestmark = pytest.mark.compiler


@pytest.fixture
def recorder():
    made = recording.Recorder()
    made.check = Checker(made)
    before = recording.use(made)
    yield made
    recording.use(before)


def checked(recorder):
    report = recorder.report()
    return report.checks, [(note.code, note.span.line) for note in report.notes if note.span is not None]


def test_values_and_gradients_of_every_line(recorder):
    @dynascope.compile
    def f(x, w):
        y = torch.softmax(x @ w, -1)
        z = y * 2
        return (z * x).sum(), y > 0.5

    w = torch.randn(8, 8, requires_grad=True)
    f(torch.randn(4, 8), w)[0].backward()
    facts, notes = checked(recorder)
    assert [(fact.name, fact.kind) for fact in facts] == [
        ("matmul", "value"), ("y", "value"), ("z", "value"), ("mul_1", "value"), ("sum_1", "value"), ("gt", "value"), ("w", "gradient"),
    ]  # fmt: skip
    assert not notes and [fact.name for fact in facts if fact.differs or fact.compiled > 1e-5] == []
    assert w.grad is not None


def test_lines_whose_sizes_depend_on_data(recorder):
    @dynascope.compile
    def f(x):
        y = x[x > 0]
        z = y * 2 + y.shape[0]
        return z.sum() * x.max().item()

    f(torch.randn(4, 8))
    facts, notes = checked(recorder)
    assert {"y", "z"} <= {fact.name for fact in facts} and not any(fact.differs for fact in facts) and not notes


def test_a_line_that_counts_what_it_found(recorder):
    @dynascope.compile
    def f(x):
        kept = x[x.abs() > 0.1]
        return kept.mean(), len(kept)

    f(torch.randn(4, 8))
    facts, notes = checked(recorder)
    assert {fact.name for fact in facts} >= {"kept", "mean"} and not notes and not recorder.report().notes


@pytest.mark.parametrize("kind", [Checker, Comparer])
def test_what_was_computed_before_the_call_is_written(recorder, kind):
    """A copy that is a leaf could not be; and a leaf of the program's stays one, whose gradient is kept."""
    recorder.check = kind(recorder)

    @dynascope.compile
    def f(x, part, w):
        x.mul_(2)
        part.add_(w)
        return (x * w).sum()

    w = torch.ones(4, requires_grad=True)
    x = torch.arange(8.0, requires_grad=True) * 1
    f(x[:4], x[4:], w).backward()
    report = recorder.report()
    assert not [graph.beside_eager.failure for graph in report.graphs if graph.beside_eager and graph.beside_eager.failure]
    assert not [note.message for note in report.notes if note.code == "not-checked"]
    gradients = {fact.name for fact in report.checks if fact.kind == "gradient"}
    assert gradients == {"x", "w"} if kind is Checker else report.graphs[0].beside_eager.difference == 0


def wrong(graph, inputs):
    """A backend whose tanh is not quite one."""
    for node in graph.graph.nodes:
        if node.target is torch.tanh:
            node.target = lambda x: torch.tanh(x) * 1.001
    graph.recompile()
    return graph.forward


def test_the_first_line_that_is_wrong_is_named(recorder):
    @dynascope.compile(backend=wrong)
    def f(x):
        y = x * 2
        y = torch.tanh(y)
        return y + 1

    f(torch.randn(16))
    facts, notes = checked(recorder)
    assert [fact.differs for fact in facts] == [False, True, True]
    assert notes == [("differs-more-than-eager", f.__wrapped__.__code__.co_firstlineno + 3)]


def test_gradients_have_the_programs_names(recorder):
    layer = torch.nn.Linear(3, 2)
    dynascope.compile(layer)(torch.ones(2, 3)).sum().backward()
    names = {fact.name for fact in checked(recorder)[0] if fact.kind == "gradient"}
    assert names == {"self.weight", "self.bias"}


def test_a_gradient_that_is_wrong(recorder):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2.01

    def backend(graph, inputs):
        return lambda x: [Twice.apply(x), *([x * 2] if len(graph.graph.find_nodes(op="call_method")) else [])]

    @dynascope.compile(backend=backend)
    def f(x):
        return x * 2

    f(torch.randn(16, requires_grad=True))
    (value, gradient), _ = checked(recorder)
    assert not value.differs and gradient.differs and gradient.kind == "gradient"


def test_the_program_goes_on_as_it_would(recorder):
    """Its inputs are written once, and random numbers are those it would have drawn."""

    def f(x):
        x.add_(1)
        return torch.dropout(x, 0.5, True)

    expected_input, given = torch.zeros(64), torch.zeros(64)
    torch.manual_seed(1)
    expected = [f(expected_input) for _ in range(2)]
    torch.manual_seed(1)
    compiled = dynascope.compile(f)
    assert all(map(torch.equal, [compiled(given) for _ in range(2)], expected))
    assert torch.equal(given, expected_input)
    assert not any(fact.differs for fact in checked(recorder)[0])


def test_low_precision_is_judged_as_such(recorder):
    @dynascope.compile
    def f(x):
        return (x.to(torch.bfloat16) * 3).float().sum()

    f(torch.randn(64))
    facts, notes = checked(recorder)
    assert len(facts) == 4 and not notes


def test_a_value_is_what_it_was_when_it_was_made():
    def f(x):
        y = x * 2
        z = y + 1
        y.add_(5)
        return z

    graph = torch.fx.symbolic_trace(f)
    for node in graph.graph.nodes:
        node.meta["example_value"] = torch.empty(2)
    extended, names = with_all_values(graph)
    x = torch.ones(2)
    eager = in_eager(graph, [x])
    assert names == ("mul", "add", "add_")
    outputs = extended(x)
    for name, value in zip(names, outputs[-3:], strict=True):
        assert torch.equal(value, eager.made[name])
    assert in_double(graph, [x], eager).made["mul"].dtype is torch.float64


def test_what_draws_no_number_is_computed_in_float64_and_leads_its_gradient():
    """By its name `normalize` might draw, and so might attention."""

    class Attends(torch.nn.Module):
        def forward(self, x):
            unit = torch.nn.functional.normalize(x, dim=-1)
            return torch.nn.functional.scaled_dot_product_attention(unit, unit, unit)

    graph = torch.fx.symbolic_trace(Attends())
    x = torch.randn(2, 3, 4, requires_grad=True)
    eager = in_eager(graph, [x])
    double = in_double(graph, [x], eager)
    assert not eager.drawn and double.gradients.keys() == eager.gradients.keys() == {0}
    assert all(not torch.equal(double.made[name].float().double(), double.made[name]) for name in eager.made)


def test_numbers_that_are_drawn_are_eager_s_in_float64_too():
    graph = torch.fx.symbolic_trace(torch.nn.Dropout(0.5))
    x = torch.randn(20)
    eager = in_eager(graph, [x])
    (name,) = eager.drawn
    assert torch.equal(in_double(graph, [x], eager).made[name], eager.made[name].double())


def test_distance():
    assert distance(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.2])) == pytest.approx(0.2 / 2.2)
    assert distance(torch.tensor([math.nan]), torch.tensor([1.0])) == math.inf
    assert distance(torch.tensor([math.nan, 1.0]), torch.tensor([math.nan, 1.0])) == 0
    assert distance(torch.ones(2), torch.ones(3)) == math.inf
    assert distance(torch.tensor([True]), torch.tensor([False])) > 0


@pytest.mark.compiler
def test_gradients_lead_through_a_dropout_in_float64_too(recorder):
    torch.manual_seed(0)
    w = torch.randn(6, 6, requires_grad=True)

    def f(x):
        return torch.dropout(torch.randn(6, 6) + x @ w, 0.5, True).sin()

    dynascope.compile(f)(torch.randn(6, 6))
    gradients = [fact for fact in checked(recorder)[0] if fact.kind == "gradient"]
    assert len(gradients) == 1 and 0 < gradients[0].eager < 1e-6 and not gradients[0].differs


def test_items_are_called_by_the_names_that_they_are_given(recorder):
    @dynascope.compile
    def f(x):
        q, k, v = x.chunk(3)
        return q * k + v

    f(torch.randn(6))
    facts, _ = checked(recorder)
    assert {"q", "k", "v"} <= {fact.name for fact in facts} and not any("getitem" in fact.name for fact in facts)
