"""Parts of tables whose place or length is a number that varies: one entry for each side of the table's end, never a wrong one."""

import dynascope
import pytest
import torch
from torch import nn

positions = torch.arange(64).unsqueeze(0)
long_positions = torch.arange(10_000).unsqueeze(0)
kinds = torch.zeros(1, 64, dtype=torch.long)
table = torch.rand(32, 4)
embedding = nn.Embedding(64, 4)


def looked_up(x):
    """As BERT looks up its positions and kinds of tokens."""
    batch, length = x.shape[:2]
    here = positions[:, 0:length]
    kind = kinds.expand(here.shape[0], -1).gather(1, here).expand(batch, length)
    return x + embedding(here) * 2 + kind.unsqueeze(-1)


def cut_to_the_table(x):
    length = x.shape[1]
    rows = table[:length]
    return x[:, : rows.shape[0]] + rows if rows.shape[0] < length else x + rows


def behind_a_cache(x, past):
    here = positions[:, past.shape[1] : past.shape[1] + x.shape[1]]
    return embedding(here).expand(x.shape[0], here.shape[1], 4) * x


def the_last_twenty(x):
    rows = x[:, -20:]
    return rows.reshape(rows.shape[0], -1).sum(1)


def of_lengths(*lengths):
    return [(torch.rand(4, length, 4),) for length in lengths]


PROGRAMS = [
    (looked_up, [*of_lengths(7, 8, 9, 16, 33, 64), *((torch.rand(batch, 16, 4),) for batch in (1, 2, 3, 5))], 4, 3),
    (cut_to_the_table, of_lengths(7, 8, 9, 31, 32, 33, 40, 64), 3, 2),
    (behind_a_cache, [(torch.rand(2, n, 4), torch.rand(2, k, 4)) for n, k in ((4, 5), (4, 6), (5, 6), (6, 20), (3, 40), (7, 11))], 3, 2),
    (the_last_twenty, of_lengths(7, 8, 9, 19, 20, 21, 30, 64), 4, 3),
]  # fmt: skip


@pytest.mark.compiler
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program, calls, most, most_dynamic", PROGRAMS, ids=[program.__name__ for program, *_ in PROGRAMS])
def test_one_entry_for_each_side_of_the_end(program, calls, most, most_dynamic, dynamic, compilations):
    """`most` is what torch.compile makes."""
    compiled = dynascope.compile(program, dynamic=dynamic)
    for given in calls:
        ours, theirs = compiled(*given), program(*given)
        torch.testing.assert_close(ours, theirs)
        assert ours.stride() == theirs.stride()
    assert len(compilations) <= (most_dynamic if dynamic else most)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_part_is_shorter_where_the_table_ends(dynamic):
    """Its length is asked alone, which no kernel checks; with `dynamic=True` the table's own length varies, far from the other."""

    def program(past):
        return past.sum() * long_positions[:, past.shape[1] : past.shape[1] + 4].shape[1]

    compiled = dynascope.compile(program, dynamic=dynamic, backend="eager")
    for length in (5, 6, 7, 30, 5000, 9995, 9996, 9997, 9999, 10_000, 10_001):
        past = torch.ones(2, length)
        assert torch.equal(compiled(past), program(past)), length


class ReturnsWhatItSplit(nn.Module):
    """As decoders do that return their keys and values: parts of one product, from which the loss is computed."""

    def __init__(self):
        super().__init__()
        self.projection, self.head = nn.Linear(8, 24), nn.Linear(8, 5)

    def forward(self, x):
        query, key, value = self.projection(x).split(8, 2)
        mixed = torch.softmax(query @ key.transpose(1, 2), -1) @ value
        return key, value, self.head(mixed).square().mean()


@pytest.mark.compiler
@pytest.mark.parametrize("dynamic, most", [(None, 4), (True, 2)])
def test_results_with_holes_go_from_part_to_part_at_all_sizes(dynamic, most, compilations):
    model = ReturnsWhatItSplit()
    compiled = dynascope.compile(model, dynamic=dynamic)
    for batch, length in [*((4, length) for length in (7, 8, 9, 16, 33)), *((batch, 16) for batch in (1, 2, 3))]:
        x = torch.rand(batch, length, 8)
        outcomes = []
        for call in (compiled, model):
            model.zero_grad()
            key, value, loss = call(x)
            (loss + key.sum() + value.square().sum()).backward()
            outcomes.append(([key, value, loss], [parameter.grad.clone() for parameter in model.parameters()]))
        torch.testing.assert_close(*outcomes, rtol=1e-4, atol=1e-4)
        assert [each.stride() for each in outcomes[0][0]] == [each.stride() for each in outcomes[1][0]]
    assert len(compilations) <= most


@pytest.mark.compiler
def test_attention_is_asked_about_sizes_that_no_memory_has_room_for(compilations):
    def program(query, mask):
        return nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)

    compiled = dynascope.compile(program, dynamic=True)
    for batch, length in ((4, 7), (3, 9), (6, 20)):
        query, mask = torch.rand(batch, 2, length, 16), torch.ones(batch, 1, length, length, dtype=torch.bool).tril()
        torch.testing.assert_close(compiled(query, mask), program(query, mask))
    assert len(compilations) == 1
