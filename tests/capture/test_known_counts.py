"""How many elements are found where the mask, or what is looked through, is known at capture."""

import dynascope
import pytest
import torch


def without_itself(x):
    """Contrastive learning: of each row all but the one on the diagonal."""
    scores = x @ x.T
    mask = torch.eye(len(x), dtype=torch.bool)
    return (scores[~mask].view(len(x), -1) / 0.5).logsumexp(1), torch.masked_select(scores, mask) * 2


def labels_apart(x):
    """What is chosen of something known is known, and chooses again."""
    labels = torch.cat([torch.arange(2) for _ in range(2)])
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    mask = torch.eye(4, dtype=torch.bool)
    labels, scores = labels[~mask].view(4, -1), (x @ x.T)[~mask].view(4, -1)
    return scores[labels.bool()].view(4, -1), scores[~labels.bool()].view(4, -1)


def crops(x):
    """Those of one size at once."""
    sizes = torch.unique_consecutive(torch.tensor([each.shape[-1] for each in (x, x, x[:, :2])]), return_counts=True)[1]
    rows, start = [], 0
    for end in torch.cumsum(sizes, 0):
        rows.append(torch.cat([x, x, x[:, :2]][start:end]) * 2)
        start = end
    return rows


def places(x):
    row, column = torch.where(torch.ones(4, 4).triu(1) > 0)
    pairs = torch.ones(4, 4).triu(1).nonzero()
    return (x @ x.T)[row, column].view(3, 2), pairs.view(3, 2, 2), 1 if (pairs > 5).any() else 2


def repeated(x):
    rows = torch.repeat_interleave(torch.tensor([2, 1, 0, 3]))
    repeated = x.repeat_interleave(torch.tensor([2, 0, 1, 1]), 0).view(2, 2, 3) + 1
    return repeated, torch.bincount(torch.tensor([1, 1, 3])).view(2, 2), x[rows].view(3, 6)


def nothing(x):
    return x[torch.zeros(4, dtype=torch.bool)].sum(0), x[torch.zeros(4, dtype=torch.bool)].shape


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("program", [without_itself, labels_apart, crops, places, repeated, nothing])
def test_they_are_numbers(program, backend):
    compiled = dynascope.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        given = torch.randn(4, 3)
        found, expected = [], []
        for function, into in ((compiled, found), (program, expected)):
            x = given.clone().requires_grad_()
            results = list(function(x))
            losses = [each.float().square().sum() for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
            torch.stack(losses).sum().backward()
            into += [*results, x.grad]
        assert [(each.stride(), each.dtype) for each in found if isinstance(each, torch.Tensor)] == [
            (each.stride(), each.dtype) for each in expected if isinstance(each, torch.Tensor)
        ]
        torch.testing.assert_close(found, expected)


def written_before(x, rows):
    mask = torch.eye(4, dtype=torch.bool)
    mask[:, 0] = x[:, 0] > 0
    return x[mask[0]] * 2, x[rows > 0] + 1


def test_a_mask_that_only_the_run_knows_stays_one():
    compiled = dynascope.compile(written_before)
    for seed in range(3):
        x = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed))
        rows = torch.arange(4) - seed
        torch.testing.assert_close(compiled(x, rows), written_before(x, rows))


def found_and_written(x):
    """What is found is known as long as nobody writes to it."""
    kept, counts = torch.unique(torch.tensor([1, 1, 4]), return_counts=True)
    first = 2 if kept.sum() == 5 else 3
    kept[0] = x.long().sum()
    torch.add(counts, 1, out=counts)
    return x * first, kept, counts * 2


def branch_on_what_was_written(x):
    _, counts = torch.unique(torch.tensor([1, 1, 4]), return_counts=True)
    torch.add(counts, x.long(), out=counts)
    return x * (2 if counts.sum() > 20 else 3)


@pytest.mark.may_break
def test_what_is_written_is_known_no_more():
    for program in (found_and_written, branch_on_what_was_written):
        compiled = dynascope.compile(program)
        for by in (1.0, 30.0, -4.0):
            x = torch.full((2,), by)
            torch.testing.assert_close(compiled(x), program(x))


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_places_repeated_as_often_as_the_run_says(backend):
    """Which sample each row of a packed batch belongs to."""

    def program(lengths, x):
        rows = torch.repeat_interleave(lengths)
        return rows, (x[rows] * 2).sum(0), rows.shape

    compiled = dynascope.compile(program, backend=backend, fullgraph=True)
    for lengths in ([1, 3, 2], [0, 5, 1], [0, 0, 0], [2, 0, 1]):
        given = torch.tensor(lengths), torch.arange(6.0).view(3, 2)
        found, expected = compiled(*given), program(*given)
        torch.testing.assert_close(found[:2], expected[:2])
        assert tuple(found[2]) == tuple(expected[2])


def test_a_mask_of_what_is_used_many_times():
    """The key of a mask says each computation once: as a tree it has two to the fortieth parts."""

    def program(x):
        y = x
        for _ in range(40):
            y = y * 0.5 + y.sin()
        return x[y > 0], y[y > 0]

    x = torch.linspace(-1, 1, 6)
    with dynascope.expected("data-dependent-shape", required=False):
        for found, expected in zip(dynascope.compile(program, backend="eager")(x), program(x), strict=True):
            torch.testing.assert_close(found, expected)
