"""Random calls of Python's own types and functions (`calls_of_python.py`), and those that were answered wrongly once.

    python bench/campaign.py calls --first 100000 --seconds 60         new ones
"""

import collections
import functools
import itertools
import operator

import dynascope
import pytest
import torch
from calls_of_python import differs, plainly

pytestmark = pytest.mark.may_break
SHARE = 75


@pytest.mark.turns(6)
@pytest.mark.parametrize("first", range(0, 450, SHARE))
def test_random_calls_give_what_python_gives(first):
    found = [report for report in map(differs, range(first, first + SHARE)) if report is not None]
    assert not found, "\n".join(found)


def raised_by(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), *error.args


CALLS = {
    "a set is filled once more": lambda: (held := {1, 2}, held.__init__([5])),
    "a set is filled with what is no iterable": lambda: raised_by({1}.__init__, 2),
    "text of two arguments": lambda: raised_by(str, "a", "b"),
    "text of bytes": lambda: str(b"ab", "ascii"),
    "a partial of what cannot be called": lambda: raised_by(functools.partial, 2.5),
    "a factory that cannot be called": lambda: raised_by(collections.defaultdict, 2),
    "a deque with an unknown keyword": lambda: raised_by(lambda: collections.deque(key=1)),
    "a deque's own words": lambda: [raised_by(getattr(collections.deque([1]), name), 2) for name in ("index", "remove")],
    "an iterator over a deque": lambda: iter(collections.deque([1, 2])),
    "quotient and remainder of text": lambda: raised_by(divmod, "a", 2.5),
    "a set looked for in a set": lambda: ({1} in {frozenset({1})}, raised_by({2}.remove, {2, 7})),
    "folded without items": lambda: raised_by(functools.reduce, max, ()),
    "an iterator looked for in a tuple": lambda: ("a" in (iter(()),), slice(1, 2) in (1, slice(1, 2))),
    "an instance of None": lambda: raised_by(isinstance, None, None),
    "taken from an empty dictionary": lambda: ({}.pop([], 1), raised_by({}.pop, [])),
    "pairs that are none": lambda: [raised_by(cls, [1]) for cls in (dict, collections.OrderedDict)],
    "counted from half": lambda: raised_by(enumerate, [1], 2.5),
    "repeated in vain": lambda: raised_by(itertools.repeat, 1, 2j),
    "combinations of a number": lambda: raised_by(itertools.combinations, (1, 2), "a"),
    "turned by text": lambda: raised_by(collections.deque([1, 2]).rotate, "a"),
    "combinations of none": lambda: [raised_by(f, (1, 2), None) for f in (itertools.combinations, itertools.permutations)],
    "a method of another class": lambda: raised_by(list.index, (), 1),
    "joined by what has no items": lambda: raised_by(" ".join, 1),
    "an item deleted from what has none": lambda: [raised_by(operator.delitem, it, 0) for it in ((1,), "a", range(2), {1}, 5, slice(1))],
    "a part of a list for a number": lambda: [raised_by(operator.setitem, [1, 2], slice(0, 2, step), 5) for step in (1, 2)],
    "an attribute whose name is a number": lambda: raised_by(getattr, [], 2.5),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_that_were_answered_wrongly(name):
    def program(x):
        return x + 1, CALLS[name]()

    x = torch.ones(2)
    assert plainly(dynascope.compile(program, backend="eager")(x)) == plainly(program(x))
