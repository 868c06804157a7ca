"""Lists and tuples that hold tensors, in order: the first items that differ decide, as in Python."""

import collections

import dynascope
import pytest
import torch

X = torch.arange(1.0, 5.0)
Row = collections.namedtuple("Row", "rank tensor")


class Backwards(Row):
    __slots__ = ()

    def __lt__(self, other):
        return self.rank > other.rank


def by_name(x):
    result = x
    for _, value in sorted({"weight": x, "bias": x * 2, "scale": x - 1}.items()):
        result = result * 3 + value
    return result


def least_and_most(x):
    pairs = {"b": x, "a": x * 2}
    return min(pairs.items())[1] + max([(1, x), (0, x * 2)])[1] * 10


def named(x):
    return sorted([Row(2, x), Row(1, x * 2)])[0].tensor, sorted([Row(1, x), Row(2, x * 2)], reverse=True)[0].tensor


def of_lists(x):
    shorter, longer = [1, x], [1, x, 2]
    return x * (shorter < longer) + x * (longer <= shorter) * 10 + x * ([2, x] > [1, x * 2]) * 100


def the_same_tensor_first(x):
    return x if (x, 2) < (x, 3) else x * 2


PROGRAMS = [by_name, least_and_most, named, of_lists, the_same_tensor_first]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_first_items_that_differ_decide(program):
    compiled = dynascope.compile(program, fullgraph=True)
    for at in range(2):
        assert str(compiled(X + at)) == str(program(X + at))


def test_a_class_with_an_order_of_its_own():
    def program(rows):
        return sorted(rows)[0].tensor * 2

    rows = [Backwards(1, X), Backwards(2, X * 2)]
    with dynascope.expected("foreign-call", "foreign-value", "unsupported-attribute", required=False):
        assert torch.equal(dynascope.compile(program)(rows), X * 4)


def test_tensors_that_would_decide_are_asked():
    def program(x, y):
        return sorted([(1, x), (1, y)])[0][1] * 2

    compiled = dynascope.compile(program)
    with dynascope.expected("data-dependent-branch", "foreign-call", "data-dependent-value", required=False):
        for one, other in ((torch.tensor(1.0), torch.tensor(2.0)), (torch.tensor(3.0), torch.tensor(2.0))):
            assert torch.equal(compiled(one, other), program(one, other))
        with pytest.raises(RuntimeError, match="ambiguous"):
            compiled(X, X + 1)


def test_what_cannot_be_compared_raises_in_pythons_words():
    def program(x):
        return sorted([("a", x), (1, x)])

    with pytest.raises(TypeError) as expected:
        program(X)
    with dynascope.expected("program-raises", "foreign-call", required=False), pytest.raises(TypeError) as found:
        dynascope.compile(program)(X)
    assert str(found.value) == str(expected.value)


def outcome(function):
    try:
        return function()
    except (ValueError, KeyError, RuntimeError) as error:
        return type(error), str(error)


def test_a_list_is_empty_while_it_is_sorted():
    class Odd:
        def __init__(self, value):
            self.value = value

        def __lt__(self, other):
            if self.value == 1:
                raise RuntimeError("one")
            return self.value < other.value

    def program(x):
        seen, left, odd = [], [], [Odd(value) for value in (5, 3, 4, 1, 2)]
        rows = [3, 1, 2]
        for key in (lambda v: seen.append(list(rows)) or v, lambda v: rows.append(v) or v, lambda v: {3: 0}[v]):
            left.append((outcome(lambda key=key: rows.sort(key=key)), list(rows)))
        return x + 1, seen, left, outcome(odd.sort), [each.value for each in odd]

    expected, found = program(X), dynascope.compile(program, backend="eager", fullgraph=True)(X)
    assert repr(found) == repr(expected)


def test_what_is_put_into_a_list_that_is_sorted_and_taken_out_again():
    def program(x):
        left = []
        for empties in (list.pop, list.clear):
            rows = [3, 1, 2]

            def key(value, rows=rows, empties=empties):
                rows.append(value)
                empties(rows)
                return value

            left.append((outcome(lambda rows=rows, key=key: rows.sort(key=key)), rows))
        return x + 1, left

    expected = program(X)
    with dynascope.expected("program-raises", "foreign-call", required=False):
        assert repr(dynascope.compile(program, backend="eager")(X)) == repr(expected)
