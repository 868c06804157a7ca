"""What an iterator asks of its argument when it is made, and what when it is advanced: in Python's order, with Python's errors."""

import collections
import functools
import itertools

import dynascope
import pytest
import torch

X = torch.ones(2)
MADE = {
    "map": lambda given: map(abs, given),
    "map of two": lambda given: map(max, [1, 2], given),
    "filter": lambda given: filter(None, given),
    "filter by a function": lambda given: filter(bool, given),
    "enumerate": lambda given: enumerate(given),
    "zip": lambda given: zip([1, 2], given, strict=False),
    "reversed": lambda given: reversed(given),
    "accumulate": lambda given: itertools.accumulate(given),
    "chain": lambda given: itertools.chain([1], given),
    "chain from one": lambda given: itertools.chain.from_iterable(given),
    "starmap": lambda given: itertools.starmap(max, given),
    "takewhile": lambda given: itertools.takewhile(bool, given),
    "dropwhile": lambda given: itertools.dropwhile(bool, given),
    "pairwise": lambda given: itertools.pairwise(given),
    "filterfalse": lambda given: itertools.filterfalse(bool, given),
    "cycle": lambda given: itertools.islice(itertools.cycle(given), 3),
    "groupby": lambda given: itertools.groupby(given),
    "islice": lambda given: itertools.islice(given, 2),
    "compress": lambda given: itertools.compress([1, 2], given),
    "compressed": lambda given: itertools.compress(given, [1, 0]),
    "zip_longest": lambda given: itertools.zip_longest([1], given),
    "product": lambda given: itertools.product(given, [1]),
    "batches": lambda given: iter(lambda: next(iter(given)), 1),
    "iter": lambda given: iter(given),
    "sum": lambda given: [sum(given)],
    "any": lambda given: [any(given)],
    "all": lambda given: [all(given)],
    "reduce": lambda given: [functools.reduce(max, given)],
    "Counter": lambda given: [collections.Counter(given)],
    "deque": lambda given: collections.deque(given),
    "sorted": lambda given: sorted(given),
}  # fmt: skip
GIVEN = {"a number": lambda: 5, "numbers": lambda: [3, 0, 2], "one": lambda: [3], "pairs": lambda: [(1, 2), (0, 3)], "nothing": list,
         "a dictionary": lambda: {1: 2}, "a tuple": lambda: (3, 0, 2)}  # fmt: skip


def program(make, given, x):
    told = []
    try:
        made = make(given)
        told.append("made")
        for number, each in enumerate(made):
            told.append(each)
            if isinstance(given, list) and number == 0:
                given.append(7)  # seen by who goes on asking it
            if number > 5:
                break
    except (TypeError, RuntimeError, IndexError) as error:
        told.append((type(error).__name__, str(error)))
    return x + 1, told


@pytest.mark.may_break
@pytest.mark.parametrize("name", MADE)
def test_it_asks_when_python_asks(name):
    for kind, make_given in GIVEN.items():
        compiled = dynascope.compile(functools.partial(program, MADE[name]), backend="eager")
        mine, theirs = compiled(make_given(), X), program(MADE[name], make_given(), X)
        assert str(mine[1][:1]) == str(theirs[1][:1]), kind
        assert len(mine[1]) == len(theirs[1]), kind
        if name != "groupby":
            assert mine[1] == theirs[1], kind


GROWN = {
    "a dictionary": lambda: {1: 2, 3: 4},
    "an ordered dictionary": lambda: collections.OrderedDict({1: 2, 3: 4}),
    "a set": lambda: {1, 3},
    "keys": lambda: {1: 2, 3: 4}.keys(),
}


def grown(make, given, owner, x):
    told = []
    try:
        made = make(given)
        owner.add(5) if isinstance(owner, set) else owner.update({5: 6})
        told += made
    except RuntimeError as error:
        told.append(str(error))
    return x + 1, told


ADVANCED = sorted(MADE.keys() - {"starmap", "chain from one", "groupby", "reversed", "batches"})


@pytest.mark.may_break
@pytest.mark.parametrize("name", ADVANCED)
def test_it_sees_that_its_container_grew_before_it_was_advanced(name):
    for kind, make_given in GROWN.items():
        told = []
        for each in (dynascope.compile(functools.partial(grown, MADE[name]), backend="eager"), functools.partial(grown, MADE[name])):
            given = make_given()
            owner = dict.fromkeys(given) if kind == "keys" else given
            told.append(each(owner.keys() if kind == "keys" else given, owner, X)[1])
        assert str(told[0]) == str(told[1]), kind


BACKWARDS = {
    "keys": lambda: reversed({"a": 1, "b": 2}),
    "values": lambda: reversed({"a": X, "b": X * 2}.values()),
    "items": lambda: reversed({"a": 1, "b": 2}.items()),
    "ordered keys": lambda: reversed(collections.OrderedDict(a=1, b=2)),
}


def test_views_of_an_ordered_dictionary_are_of_their_own_classes():
    def f():
        ordered = collections.OrderedDict(a=1)
        views = ordered.keys(), ordered.values(), ordered.items()
        return [(type(view), type(reversed(view)), isinstance(view, type({}.keys()))) for view in views]

    assert dynascope.compile(f, backend="eager", fullgraph=True)() == f()


@pytest.mark.parametrize("name", BACKWARDS)
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_a_dictionary_backwards_is_an_iterator_of_its_own_class(name, taken):
    def f():
        iterator = BACKWARDS[name]()
        for _ in range(taken):
            next(iterator)
        return iterator

    ours, theirs = dynascope.compile(f, backend="eager", fullgraph=True)(), f()
    assert type(ours) is type(theirs)
    assert str(list(ours)) == str(list(theirs))
