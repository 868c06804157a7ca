"""Every iterator of `itertools` is followed; one that leaves, or is alive across a break, is made again where it is."""

import itertools
import operator

import dynascope
import pytest
import torch
from dynascope import compile
from test_outside_protocols import assert_same

X = torch.tensor([1.0, -2.0, 3.0])
LAYERS = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(4))

WHOLE = {
    "islice": lambda x: list(itertools.islice([x, x * 2, x * 3, x], 1, 3)),
    "islice of nothing more": lambda x: list(itertools.islice([x, x], None)),
    "islice of a generator": lambda x: list(itertools.islice((x * k for k in range(9)), 1, 7, 2)),
    "islice of modules": lambda x: [layer(x) for layer in itertools.islice(LAYERS, 1, 3)],
    "islice of items": lambda x: dict(itertools.islice({"a": x, "b": x}.items(), 1)),
    "repeat without an end": lambda x: list(map(operator.mul, [x, x], itertools.repeat(3))),
    "repeat by name": lambda x: list(itertools.repeat(x, times=2)),
    "tee": lambda x: [a + b for a, b in zip(*itertools.tee([x, x * 2]), strict=True)],
    "tee of a generator": lambda x: [list(each) for each in itertools.tee((x * k for k in range(3)), 3)],
    "tee turn by turn": lambda x: (pair := itertools.tee(x * k for k in range(3)), [next(pair[at]) for at in (0, 1, 1, 0)])[1],
    "iter with a sentinel": lambda x: [x * k for k in iter(iter([1, 2, 3, 4]).__next__, 3)],
    "batched": lambda x: [sum(rows) for rows in itertools.batched([x, x, x], 2)] if hasattr(itertools, "batched") else x,
}
"""Nothing of them is left."""


@pytest.mark.parametrize("program", WHOLE.values(), ids=WHOLE)
def test_it_is_one_graph(program):
    assert_same(program(X), compile(program, backend="eager", fullgraph=True)(X))


MADE = {
    "islice": lambda x: itertools.islice([x, x * 2, x * 3, x, x, x], 1, 6, 2),
    "islice of a generator": lambda x: itertools.islice((x * k for k in range(9)), 5),
    "chain": lambda x: itertools.chain([x, x * 2], (x * 3, x * 4)),
    "chain of rows": lambda x: itertools.chain.from_iterable([x * at, x * at] for at in range(3)),
    "cycle": lambda x: itertools.cycle([x, x * 2]),
    "cycle of a generator": lambda x: itertools.cycle(x * k for k in range(3)),
    "accumulate": lambda x: itertools.accumulate([x, x * 2, x * 3, x]),
    "accumulate by a function": lambda x: itertools.accumulate([x, x * 2, x * 3], torch.mul, initial=x + 1),
    "takewhile": lambda x: itertools.takewhile(lambda k: k < 5, range(9)),
    "dropwhile": lambda x: itertools.dropwhile(lambda k: k < 3, range(8)),
    "filterfalse": lambda x: itertools.filterfalse(lambda k: k % 2, range(8)),
    "filter": lambda x: filter(lambda k: k % 2, range(8)),
    "starmap": lambda x: itertools.starmap(torch.add, [(x, k) for k in range(4)]),
    "pairwise": lambda x: itertools.pairwise([x, x * 2, x * 3, x * 4]),
    "zip_longest": lambda x: itertools.zip_longest([x], [x, x * 2, x * 3], (), fillvalue=7),
    "zip_longest of one iterator": lambda x: itertools.zip_longest(*[iter([x, x * 2, x * 3])] * 2),
    "compress": lambda x: itertools.compress([x, x * 2, x * 3, x], [1, 0, 1, 1]),
    "map of two": lambda x: map(torch.add, [x, x * 2, x * 3], (1, 2, 3)),
    "repeat": lambda x: itertools.repeat(x),
    "iter with a sentinel": lambda x: iter(itertools.count().__next__, 4),
    "count": lambda x: itertools.count(2, 3),
}


@pytest.mark.parametrize("times", [-1, 0, 2])
def test_a_repetition_shows_its_item_at_its_end(times):
    def program(x):
        made, other = itertools.repeat(x * 2, times), itertools.repeat(3, times)
        left = list(made)
        return x + 1, left, made, next(other, "nothing"), other

    wanted, found = program(X), compile(program, backend="eager", fullgraph=True)(X)
    assert repr(found) == repr(wanted)


def taken(iterator, count):
    return [item for item, _ in zip(iterator, range(count), strict=False)]


@pytest.mark.parametrize("before", [0, 1, 2])
@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_one_that_leaves_is_where_it_was(make, before):
    def program(x):
        made = make(x)
        items = [next(made) for _ in range(before)]
        return x + 1, items, made

    _, first, expected = program(X)
    _, seen, found = compile(program, backend="eager", fullgraph=True)(X)
    assert type(found) is type(expected)
    assert_same(first, seen)
    assert_same(taken(expected, 5), taken(found, 5))


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_one_that_is_alive_across_a_break(make):
    def program(x):
        made = make(x)
        first = next(made)
        print(end="")
        return first, next(made), x + 1

    with dynascope.expected("print-call"), dynascope.expected("foreign-value", "foreign-call", required=False):
        assert_same(program(X), compile(program, backend="eager")(X))
