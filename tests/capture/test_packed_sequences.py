"""Rows of several lengths: packing, the layer and padding are one graph, for all lengths."""

import dynascope
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LAYERS = {
    "lstm": lambda: nn.LSTM(4, 5, 2, bidirectional=True, batch_first=True),
    "gru": lambda: nn.GRU(4, 5, batch_first=True),
    "rnn": lambda: nn.RNN(4, 5, batch_first=True),
}


def trained(layer, function, calls):
    seen = []
    for x, lengths in calls:
        layer.zero_grad()
        x = x.clone().requires_grad_()
        results = function(x, lengths)
        (results[0] * torch.linspace(0.5, 1.5, results[0].numel()).view(results[0].shape)).sum().backward()
        seen += [*results, x.grad, *(parameter.grad.clone() for parameter in layer.parameters())]
    return seen


@pytest.mark.parametrize("is_sorted", [False, True], ids=["any order", "sorted"])
@pytest.mark.parametrize("name", LAYERS)
def test_one_graph_serves_all_lengths(name, is_sorted):
    torch.manual_seed(0)
    layer = LAYERS[name]()

    def function(x, lengths):
        packed = pack_padded_sequence(x * 2, lengths, batch_first=True, enforce_sorted=is_sorted)
        output, hidden = layer(packed)
        padded, found = pad_packed_sequence(output, batch_first=True)
        hidden = hidden if isinstance(hidden, tuple) else (hidden,)
        return padded.relu() + 1, found, *hidden

    lengths = [[6, 4, 1], [3, 3, 2], [5, 1, 1]] if is_sorted else [[4, 6, 1], [2, 3, 3], [1, 1, 5], [1, 1, 1]]
    calls = [(torch.randn(3, 6, 4), torch.tensor(each)) for each in lengths]
    call = dynascope.compile(function, fullgraph=True)
    found, expected = trained(layer, call, calls), trained(layer, function, calls)
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()
    assert len(dynascope.explain(function, *calls[0]).graphs) == 1


def test_batches_of_several_sizes_steps_first_and_a_total_length():
    torch.manual_seed(0)
    layer = nn.GRU(4, 5)

    def function(x, lengths):
        packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
        output, hidden = layer(packed, torch.ones(1, x.shape[1], 5))
        return *pad_packed_sequence(output, total_length=x.shape[0], padding_value=-1.0), hidden

    call = dynascope.compile(function, fullgraph=True, dynamic=True)
    for lengths in ([4, 6, 1], [2, 3, 3, 1], [5, 2]):
        x = torch.randn(6, len(lengths), 4)
        for mine, theirs in zip(call(x, torch.tensor(lengths)), function(x, torch.tensor(lengths)), strict=True):
            torch.testing.assert_close(mine, theirs)
            assert mine.stride() == theirs.stride()


def test_what_torch_refuses_it_refuses_in_its_own_words():
    layer = nn.GRU(4, 5)

    @dynascope.compile
    def function(x, lengths):
        return layer(pack_padded_sequence(x, lengths, enforce_sorted=False))[1]

    x = torch.randn(6, 2, 4)
    function(x, torch.tensor([3, 2]))
    for lengths, words in ([0, 2], "greater than 0"), ([7, 2], "out of|exceed|start|length"):
        with pytest.raises((RuntimeError, IndexError), match=words):
            function(x, torch.tensor(lengths))


def test_the_first_batch_size_is_read_again_once_it_was_changed():
    def function(x, lengths):
        sizes = pack_padded_sequence(x, lengths).batch_sizes
        first = torch.zeros(1, sizes[0])
        sizes[0] = 1
        return first, torch.ones(2, sizes[0]), torch.ones(sizes[0])

    x, lengths = torch.randn(6, 2, 4), torch.tensor([3, 2])
    for mine, theirs in zip(dynascope.compile(function)(x, lengths), function(x, lengths), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_a_tensor_where_it_is_already():
    def function(x):
        y = x.cpu()
        return y, y.cpu() + 1, x.cpu(memory_format=torch.preserve_format)

    x = torch.randn(3)
    call = dynascope.compile(function, fullgraph=True)
    y, z, again = call(x)
    assert y is x and again is x
    torch.testing.assert_close(z, x + 1)
