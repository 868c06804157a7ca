"""What a mask chose, as so many rows for each sample: one graph, and eager's words where something is left over."""

import dynascope
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.compiler


def mask(samples, hidden, length=10):
    order = torch.rand(samples, length, generator=torch.Generator().manual_seed(hidden)).argsort(1)
    return order < hidden


def visible(x, hidden):
    b, _, c = x.shape
    return x[~hidden].reshape(b, -1, c) * 2


def of_other_shapes(x, hidden):
    chosen = x[hidden]
    by_name = chosen.view(size=(2, -1, 8))
    return chosen.reshape(-1), chosen.view(-1, 4), chosen.reshape(-1, 2, 4) + 1, torch.reshape(chosen, (2, -1)), by_name


def written(x, hidden):
    chosen = x[hidden]
    parts = chosen.view(2, -1, 8)
    parts.mul_(2)
    parts[:, 0] = 0
    return chosen, parts


def of_columns(x, hidden):
    return x[hidden].reshape(-1, 6).sum(1)


@pytest.mark.parametrize("program", [visible, of_other_shapes, of_columns])
def test_it_is_one_graph(program):
    compiled = dynascope.compile(program, fullgraph=True)
    for hidden in (3, 6, 9):
        x = torch.randn(2, 10, 8)
        torch.testing.assert_close(compiled(x, mask(2, hidden)), program(x, mask(2, hidden)))


def test_a_write_to_the_parts_is_one_to_what_was_chosen():
    compiled = dynascope.compile(written, fullgraph=True)
    for hidden in (4, 6):
        x = torch.randn(2, 10, 8)
        found = compiled(x, mask(2, hidden))
        torch.testing.assert_close(found, written(x, mask(2, hidden)))
        assert found[0].untyped_storage().data_ptr() == found[1].untyped_storage().data_ptr()


def test_batches_and_widths_vary():
    compiled = dynascope.compile(visible, fullgraph=True)
    for samples, width, hidden in ((2, 8, 4), (3, 8, 6), (5, 6, 5), (4, 6, 9), (4, 6, 10)):
        x = torch.randn(samples, 10, width)
        torch.testing.assert_close(compiled(x, mask(samples, hidden)), visible(x, mask(samples, hidden)))


def test_gradients_lead_through():
    found = []
    for compiles in (False, True):
        torch.manual_seed(0)
        layer = nn.Linear(8, 8)

        def loss(x, hidden, layer=layer):
            b, _, c = x.shape
            tokens = layer(x)
            return tokens[~hidden].reshape(b, -1, c).softmax(1).square().sum() + tokens[hidden].view(b, -1, c).mean(1).sum()

        call = dynascope.compile(loss, fullgraph=True) if compiles else loss
        for hidden in (4, 6):
            call(torch.randn(2, 10, 8), mask(2, hidden)).backward()
        found.append((layer.weight.grad, layer.bias.grad))
    torch.testing.assert_close(*found)


def test_what_is_left_over_is_eagers_error():
    def in_four(x, hidden):
        return x[hidden].reshape(4, -1, 8) * 2

    compiled = dynascope.compile(in_four, fullgraph=True)
    x = torch.randn(2, 10, 8)
    for hidden in (4, 1, 6):
        if hidden == 1:
            with pytest.raises(RuntimeError, match=r"shape '\[4, -1, 8\]' is invalid for input of size 16"):
                compiled(x, mask(2, hidden))
        else:
            torch.testing.assert_close(compiled(x, mask(2, hidden)), in_four(x, mask(2, hidden)))
