"""`keys()`, `values()` and `items()` of a dict that come from outside: what they show may be changed by others who have the dict."""

import collections
import operator

import pytest
import torch
from dynascope import compile
from harness import graphs_of

X = torch.tensor([1.0, -2.0, 3.0])
BEHIND = {"rate": 2.0, "offset": 1.0}
TENSORS = {"w": torch.ones(3)}
ORDERED = collections.OrderedDict(a=1, b=2)


class Holder:
    def __init__(self):
        self.keys, self.values, self.items = BEHIND.keys(), BEHIND.values(), BEHIND.items()
        self.none, self.tensors, self.ordered = {}.keys(), TENSORS.items(), ORDERED.keys()
        self.own = vars(self).keys()


HOLDER = Holder()


def is_asked_how_many(x):
    return x + len(HOLDER.keys) + len(HOLDER.items), bool(HOLDER.none), "empty" if not HOLDER.values else "full"


def goes_over_them(x):
    for name, value in HOLDER.items:
        x = x * value + len(name)
    for name, weight in HOLDER.tensors:
        x = x * weight + len(name)
    return x + sum(HOLDER.values), [*HOLDER.keys], list(reversed(HOLDER.ordered)), dict(zip(HOLDER.keys, (x, 1), strict=False))


def compares(x):
    ours = HOLDER.keys & {"rate", "none"}, HOLDER.keys == {"rate", "offset"}, HOLDER.keys <= {"rate"}, HOLDER.keys | HOLDER.ordered
    return x * 2, *ours, "rate" in HOLDER.keys, ("rate", 2.0) in HOLDER.items, 1.0 in HOLDER.values


def is_changed_behind(x):
    BEHIND["rate"] = BEHIND["rate"] + 1
    BEHIND["new"] = x
    return len(HOLDER.keys), list(HOLDER.values)[-1] * 2, list(HOLDER.keys)


def grows_behind(x):
    try:
        for name in HOLDER.keys:
            BEHIND[name + "s"] = 1.0
    except RuntimeError as error:
        return x + 1, str(error), sorted(BEHIND)


def shows_what_the_object_has(x):
    HOLDER.later = 1
    names = sorted(HOLDER.own)
    del HOLDER.later
    return x + len(names), names, len(HOLDER.own)


def gives_them(x):
    return x + 1, HOLDER.keys, HOLDER.ordered, HOLDER.keys is HOLDER.keys, type(HOLDER.ordered)


def have_nothing_in_common(x):
    mine, pairs = {"rate": x, "none": 1}, {"rate": 2.0, "w": [1]}
    answers = [HOLDER.keys.isdisjoint(other) for other in (mine, mine.keys(), ["none"], {"none"}, frozenset("rate"), HOLDER.keys, ())]
    answers += [mine.keys().isdisjoint(HOLDER.keys), HOLDER.none.isdisjoint(HOLDER.none)]
    answers += [HOLDER.ordered.isdisjoint(other) for other in ("ab", mine)]
    answers += [HOLDER.items.isdisjoint(other) for other in (pairs.items(), [("rate", 2.0)], [("none", [])], HOLDER.items, {3})]
    try:
        HOLDER.keys.isdisjoint([[]])
    except TypeError as error:
        answers.append(str(error))
    return x * 2 if HOLDER.keys.isdisjoint({"rate"}) else x * 3, answers


PROGRAMS = [have_nothing_in_common, is_asked_how_many, goes_over_them, compares, is_changed_behind, grows_behind]
PROGRAMS += [shows_what_the_object_has, gives_them]


def begin():
    BEHIND.clear()
    BEHIND.update(rate=2.0, offset=1.0)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_view_shows(program):
    found, expected = [], []
    compiled, made = graphs_of(program, fullgraph=True)
    for function, into in ((program, expected), (compiled, found)):
        begin()
        for rate in (2.0, 2.0, 5.0):
            BEHIND["rate"] = rate
            into.append(function(X))
            BEHIND.pop("new", None)
    assert repr(found) == repr(expected) and made


def test_it_is_the_view_itself():
    begin()
    compiled = compile(gives_them, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(X)[1] is HOLDER.keys and compiled(X)[2] is HOLDER.ordered


def test_another_view_in_its_place():
    holder = Holder()
    compiled = compile(lambda x: (x + len(holder.keys), list(holder.keys)), backend="eager", fullgraph=True)
    for view in (BEHIND.keys(), {"a": 1}.keys(), {"a": 1}.values(), ORDERED.keys(), BEHIND.keys()):
        holder.keys = view
        assert compiled(X)[1] == list(view)


@pytest.mark.parametrize("combine", [operator.and_, operator.or_, operator.le])
def test_values_are_no_set(combine):
    begin()
    for function in (combine, lambda one, other: combine(one, other)):
        with pytest.raises(TypeError, match="dict_values"):
            compile(lambda x, function=function: (x + 1, function({"a": 1.0}.values(), {1.0})), backend="eager")(X)
