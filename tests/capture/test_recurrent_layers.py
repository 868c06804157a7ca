"""Recurrent layers are one node each: eager's numbers, its gradients, its errors."""

import dynascope
import pytest
import torch
from harness import compiled
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

LAYERS = {
    "lstm": (lambda: nn.LSTM(4, 6, 2), (5, 3, 4)),
    "lstm of both directions": (lambda: nn.LSTM(4, 6, batch_first=True, bidirectional=True), (5, 3, 4)),
    "lstm of doubles": (lambda: nn.LSTM(4, 6).double(), (5, 3, 4)),
    "lstm without a batch": (lambda: nn.LSTM(4, 6, bias=False), (5, 4)),
    "lstm with dropout": (lambda: nn.LSTM(4, 6, 2, dropout=0.5), (5, 3, 4)),
    "gru": (lambda: nn.GRU(4, 6, 2, batch_first=True, bidirectional=True), (5, 3, 4)),
    "gru with dropout": (lambda: nn.GRU(4, 6, 2, dropout=0.5), (5, 3, 4)),
    "rnn": (lambda: nn.RNN(4, 6), (5, 3, 4)),
    "rnn of relu": (lambda: nn.RNN(4, 6, nonlinearity="relu"), (5, 3, 4)),
}


def trained(function, layer, x, calls=2):
    """Results, gradients and layouts of some calls."""
    torch.manual_seed(1)
    seen = []
    for _ in range(calls):
        layer.zero_grad()
        x = x.detach().clone().requires_grad_()
        results = function(x)
        sum((each * torch.linspace(0.5, 1.5, each.numel()).view(each.shape)).sum() for each in results).backward()
        seen += [*results, x.grad, *(parameter.grad for parameter in layer.parameters())]
    return seen


@pytest.mark.parametrize("name", LAYERS)
def test_equal_to_eager_with_gradients(name):
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    layer = make()
    x = torch.randn(shape).to(layer.weight_hh_l0.dtype)

    def function(x):
        output, hidden = layer(x * 2)
        return output.relu(), *(hidden if isinstance(hidden, tuple) else (hidden,))

    expected = trained(function, layer, x)
    for mine, theirs in zip(trained(dynascope.compile(function), layer, x), expected, strict=True):
        assert torch.equal(mine, theirs) and mine.stride() == theirs.stride()
    dispatch = compiled(function)
    dispatch(x)
    assert dispatch.compilation.codes == [] and len(dispatch.graphs) == 1
    assert sum(each.op == "call_function" for each in dispatch.graphs[0].module.graph.nodes) < 12


def test_loss_and_step_are_one_graph():
    def steps(compile):
        torch.manual_seed(0)
        layer = nn.GRU(3, 5)
        optimizer = torch.optim.SGD(layer.parameters(), 0.1)

        @compile
        def step(x):
            optimizer.zero_grad()
            loss = layer(x)[0].square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        x = torch.randn(4, 2, 3)
        return [step(x) for _ in range(3)] + list(layer.parameters())

    for mine, theirs in zip(steps(dynascope.compile), steps(lambda step: step), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_state_whose_history_the_step_has_freed():
    """Truncated backpropagation gives back the state of its last part. A way back through it is nobody's to compile."""
    layer, runs = nn.GRU(2, 2), lambda module, inputs: module

    def step(x):
        output, state = layer(x)
        output.sum().backward()
        return state

    said = []
    for function in (step, dynascope.aot(step, forward_compiler=runs, backward_compiler=runs)):
        layer.zero_grad()
        state = function(torch.ones(2, 1, 2))
        with pytest.raises(RuntimeError) as raised:
            state.sum().backward()
        said.append((str(raised.value), state.requires_grad, state.tolist(), layer.weight_hh_l0.grad.tolist()))
    assert said[0] == said[1]


def test_a_packed_sequence_that_comes_with_its_state():
    torch.manual_seed(0)
    layer = nn.LSTM(3, 4, bidirectional=True)
    packed = pack_padded_sequence(torch.randn(4, 2, 3), [4, 2])
    state = torch.randn(2, 2, 4), torch.randn(2, 2, 4)

    def function(packed, state):
        output, (hidden, cell) = layer(packed, state)
        return output.data * 2, hidden, cell

    def forward(function):
        results = function(packed, state)
        layer.zero_grad()
        sum(each.sum() for each in results).backward()
        return [*results, *(parameter.grad for parameter in layer.parameters())]

    for mine, theirs in zip(forward(dynascope.compile(function)), forward(function), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_weight_that_changes_before_the_backward_pass_is_an_error_as_in_eager():
    layer = nn.GRU(3, 4)

    def function(x):
        return layer(x)[0].sum()

    for each in (function, dynascope.compile(function)):
        loss = each(torch.ones(2, 1, 3, requires_grad=True))
        with torch.no_grad():
            layer.weight_hh_l0.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_operands_that_do_not_fit_raise_in_torchs_words():
    layer = nn.LSTM(3, 4)

    def function(x, state):
        return layer(x, state)[0]

    x, state = torch.ones(2, 1, 3), (torch.ones(1, 1, 4, dtype=torch.float64), torch.ones(1, 1, 4))
    with pytest.raises(RuntimeError) as theirs:
        function(x, state)
    with dynascope.expected("recurrent-layer"), pytest.raises(RuntimeError) as mine:
        dynascope.compile(function)(x, state)
    assert str(mine.value) == str(theirs.value)


def test_many_lengths():
    layer = nn.GRU(3, 4)

    def function(x):
        return layer(x)[0].square().sum()

    mine = dynascope.compile(function)
    for length in (5, 6, 7, 9):
        x = torch.randn(length, 2, 3)
        torch.testing.assert_close(mine(x), function(x))


@pytest.mark.parametrize("make", [nn.LSTM, nn.GRU, nn.RNN])
def test_what_a_step_is_given_is_kept_for_its_gradient(make):
    """Nobody else reads it when the next step's input is made, which would fit into its memory."""
    torch.manual_seed(0)
    layer, before, x = make(8, 8), nn.Linear(8, 8), torch.randn(3, 8)

    def function(x):
        first, hidden = layer(torch.relu(before(x)).unsqueeze(0))
        second, _ = layer(torch.relu(before(x + 1)).unsqueeze(0), hidden)
        return (first.square() + second.square()).sum()

    parameters = [*before.parameters(), *layer.parameters()]
    found = [torch.autograd.grad(each(x), parameters) for each in (function, dynascope.compile(function))]
    torch.testing.assert_close(*found)
