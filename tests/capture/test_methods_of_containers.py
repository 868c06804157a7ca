"""Methods of containers in C that leave no break: what they give, what they change, and in which order sets give their items."""

import collections
import dataclasses

import dynascope
import pytest
import torch

X = torch.arange(6.0).reshape(2, 3)


@dataclasses.dataclass(frozen=True)
class Key:
    name: str
    at: int = 0
    note: str = dataclasses.field(default="", compare=False)


class Counted(dict):
    def __eq__(self, other):
        return super().__eq__(other)

    def __ne__(self, other):
        return not super().__eq__(other)

    __hash__ = None


def popped(x):
    kinds, shapes, several, texts = {x.dtype, torch.float32}, {tuple(x.shape)}, {5, 33, 1, 7}, {"b", "a"}
    rows, columns = shapes.pop()
    taken = []
    while several:
        taken.append(several.pop())
        if len(taken) == 2:
            several |= {64, 2}
    try:
        several.pop()
    except KeyError as error:
        return x.to(kinds.pop()) * rows, columns, taken, {texts.pop(), *texts}, str(error)


def changed(x):
    one, other, third = {1, 2, 3}, {1, 2, 3}, {1, 2, 3}
    answers = one.intersection_update([2, 3], (3, 4)), other.difference_update([1]), third.symmetric_difference_update({3, 9})
    one.__ior__({8})
    other.__isub__({2})
    return x + 1, one, other, third, answers


def ordered_by_what_is_inside(x):
    small, large = {x}, {x, 1}
    return x * 2, small < large, small <= small, large > small, small >= large, set(large) == large, frozenset(small) == small


def by_their_names(x):
    dictionary = {"a": 1}
    return (
        x + 1,
        list.__add__([1], [2]), [1].__eq__([1]), [1].__ne__([1]), (1, 2).__lt__((1, 3)), {1}.__or__({2}), {1}.__le__({1, 2}),
        dictionary.__ior__({"b": 2}) is dictionary, list(dictionary), {"a": 1}.__or__({"c": 3}), [0].__mul__(2), (3,).__rmul__(2),
        next([1, 2].__reversed__()), list({"a": 1, "b": 2}.__reversed__()),
        Counted(a=1) == {"a": 1}, Counted(a=1) != Counted(a=2),
    )  # fmt: skip


def queues(x):
    queue, full = collections.deque([1, 2]), collections.deque([1, 2, 3], maxlen=3)
    tripled = full * 3
    full *= 2
    return (
        x + 1, queue + full, (full + queue).maxlen, tripled, 2 * queue, queue == collections.deque([1, 2]), queue != full, queue < full,
        list(reversed(queue)), queue == [1, 2], full.__copy__(), list(reversed(collections.Counter("ab"))),
    )  # fmt: skip


def keys_by_their_fields(x):
    table = {Key("a"): x, Key("b", 1): x * 2}
    table[Key("a", 0, "again")] = x * 3
    return table[Key("a")], len(table), Key("b", 1) in table, Key("b") in table, ("a", 0) in table, {Key("c"), Key("c", 0, "z")}


def facts_of_a_tensor(x):
    facts = x.is_mkldnn, x.is_sparse_csr, x.is_xla, x.name, x.output_nr, x.retains_grad, x.__module__
    same = x.to_dense() is x, x.type("torch.FloatTensor") is x
    return same, x.to_dense(torch.float64), facts, list(reversed(x)), x.type("torch.DoubleTensor")


def of_a_legacy_class(x):
    same = x.type(torch.FloatTensor) is x
    return same, (x > 0).type(torch.FloatTensor), x.type(dtype=torch.LongTensor, non_blocking=True), x.t().type(torch.DoubleTensor)


def made_of_numbers(x):
    return torch.fft.fftfreq(5, 0.5) + x[0, 1], torch.fft.rfftfreq(4), x.numpy(force=True).shape


def asked_of_views(x):
    rows = {"a": 1, "b": 2}
    return x, [rows.keys().__contains__(key) for key in "ac"], [rows.items().__contains__(("b", value)) for value in (1, 2)]


PROGRAMS = [
    popped, changed, by_their_names, asked_of_views, queues, keys_by_their_fields, facts_of_a_tensor, of_a_legacy_class, made_of_numbers
]  # fmt: skip


def shown(value):
    """Sets in their order, tensors as lists, and classes."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, (tuple, list, set, frozenset, collections.deque)):
        return type(value), [shown(item) for item in value]
    if isinstance(value, dict):
        return type(value), [(shown(key), shown(item)) for key, item in value.items()]
    return type(value), value


@pytest.mark.parametrize("program", [*PROGRAMS, ordered_by_what_is_inside], ids=lambda program: program.__name__)
def test_what_they_give_is_what_python_gives(program):
    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert shown(compiled(X)) == shown(program(X))


@pytest.mark.parametrize("of", [set, frozenset])
def test_the_order_of_a_set_from_outside_is_guarded(of):
    def program(x, held):
        return x * 2, [*held], sum(at * item for at, item in enumerate(held))

    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    grown = set(range(40))
    grown -= set(range(40)) - {1, 33, 5}
    for held in ({1, 33, 5}, grown, {33, 1, 5}, {1, 33}, {1.0, 33, 5}):
        assert shown(compiled(X, of(held))) == shown(program(X, of(held)))


def frames(x, held):
    held.append(x)
    return torch.stack([*held]).sum() * len(held), [item.sum() for item in reversed(held)]


def pairs(x, held):
    held.appendleft(x)
    first = sum((one * other).sum() for one, other in zip(held, (1, 2, 3)))  # noqa: B905
    return first, held.pop() if len(held) > 2 else None


@pytest.mark.parametrize("program", [frames, pairs], ids=lambda program: program.__name__)
@pytest.mark.parametrize("limit", [None, 2, 4])
@pytest.mark.may_break
def test_all_of_a_queue_that_grows(program, limit):
    mine, theirs = (collections.deque([X, X + 1], maxlen=limit) for _ in range(2))
    compiled = dynascope.compile(program, backend="eager")
    for step in range(5):
        assert shown(compiled(X * step, mine)) == shown(program(X * step, theirs))
        assert shown(mine) == shown(theirs) and mine.maxlen == theirs.maxlen


def test_all_of_a_queue_that_keeps_its_length_is_one_graph():
    queue = collections.deque([X, X + 1], maxlen=9)

    def program(x):
        return torch.stack(tuple(queue)).sum() + x, queue[0] + queue[-1]

    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        assert shown(compiled(X)) == shown(program(X))


@pytest.mark.parametrize("make", [dict, collections.OrderedDict, collections.deque, set])
@pytest.mark.parametrize("count", [1, 3])
def test_an_iterator_over_what_was_changed_before_is_handed_over(make, count):
    def program(x, held):
        held.pop() if isinstance(held, collections.deque) else held.discard(("a", "a")) if isinstance(held, set) else held.pop("a")
        return x * 2, [iter(held), (zip(held, "xyz"), 1)]  # noqa: B905

    mine, theirs = (make([(key, key) for key in "abc"[:count]]) for _ in range(2))
    with dynascope.expected("foreign-value", required=False):
        (_, (first, (second, _))) = dynascope.compile(program, backend="eager")(X, mine)
    (_, (wanted, (pairs, _))) = program(X, theirs)
    assert (list(first), list(second)) == (list(wanted), list(pairs))
    assert shown(mine) == shown(theirs)
