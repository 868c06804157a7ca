"""Whether two places hold one object: of what is not made at each look, and of what only Python knows."""

import functools
import weakref

import dynascope
import pytest
import torch
from torch import nn


def keywords_of(**given):
    return given


class Thing:
    def method(self):
        return 1


def are_one(first, other, x):
    return x + 1, first is other, first == other, first in [other]


BOUND, APPEND, PART = nn.Linear(2, 2).forward, [].append, functools.partial(keywords_of, z=1)


@pytest.mark.parametrize(
    "pairs",
    [
        [(PART, PART), (PART, functools.partial(keywords_of, z=1)), (PART, PART)],
        [(PART, functools.partial(keywords_of, z=1)), (PART, PART)],
        [(BOUND, BOUND), (BOUND, nn.Linear(2, 2).forward), (BOUND, BOUND)],
        [(Thing().method, Thing().method), (BOUND, BOUND)],
        [(APPEND, APPEND), (APPEND, [].append), (APPEND, APPEND)],
        [([].append, [].append), (APPEND, APPEND)],
    ],
)
def test_bound_methods_and_partials_that_are_kept(pairs):
    compiled, x = dynascope.compile(are_one, backend="eager", fullgraph=True), torch.ones(1)
    for first, other in pairs:
        assert compiled(first, other, x)[1:] == are_one(first, other, x)[1:]


@pytest.mark.may_break
def test_a_weak_reference_is_the_one_that_there_is():
    def asked(known, thing, x):
        made = weakref.ref(thing)
        return known is made, made is weakref.ref(thing), known == made, known in [made], {known: 1}.get(made), x + 1

    thing, other, compiled = Thing(), Thing(), dynascope.compile(asked, backend="eager")
    for known in (weakref.ref(thing), weakref.ref(other), weakref.ref(thing, print)):
        assert compiled(known, thing, torch.ones(1))[:-1] == asked(known, thing, torch.ones(1))[:-1]


def written(part, x):
    part.keywords["n"] = x * 2
    part.keywords["z"] += 1
    del part.keywords["gone"]
    return part(), part.keywords is part.keywords, part.args is part.args, functools.partial(part, z=0)()


def written_behind_a_name(part, x):
    keywords = part.keywords
    keywords.update(z=x)
    return part(y=2), keywords is part.keywords, len(keywords)


def written_when_made_inside(part, x):
    made = functools.partial(keywords_of, x, z=1) if part is None else functools.partial(part, z=1)
    made.keywords["z"] = x + 3
    return made(), made, made.keywords is made.keywords


@pytest.mark.parametrize("function", [written, written_behind_a_name, written_when_made_inside])
def test_keywords_of_a_partial_are_written(function):
    compiled = dynascope.compile(function, backend="eager", fullgraph=True)
    for number in (1.0, 2.0):
        seen = []
        for each in (compiled, function):
            part = functools.partial(keywords_of, z=1, gone=0)
            found = each(part, torch.full((1,), number))
            seen.append(str((*[f.keywords if isinstance(f, functools.partial) else f for f in found], part.keywords)))
        assert seen[0] == seen[1]


def scaled(x, *, by=2, beside=0):
    return x * by + beside


@pytest.mark.expects("aliased-mutation")
def test_defaults_that_are_written_as_a_dictionary_are_those_of_the_next_call():
    def function(x, table):
        table["by"] = 5
        return scaled(x), scaled(x, by=1)

    try:
        for each in (dynascope.compile(function, backend="eager"), function):
            scaled.__kwdefaults__["by"] = 2
            assert [float(found) for found in each(torch.ones(()), scaled.__kwdefaults__)] == [5.0, 1.0]
    finally:
        scaled.__kwdefaults__["by"] = 2


def put_into_the_dictionary(x):
    beside = vars(x)
    beside["note"] = 1
    beside["t"] = 2
    return getattr(x, "note", 0), x.t, x + 1, beside


def put_by_both_ways(x):
    beside = vars(x)
    x.note = 2
    beside["note"] = 3
    return x.note, beside, x + 1


def put_by_attribute(x):
    x.note = 1
    beside = x.__dict__
    x.note = 5
    return beside["note"], x + 1, "note" in beside, len(beside)


def taken_out(x):
    x.note = 1
    beside = vars(x)
    beside["note"] = 2
    del beside["note"]
    return hasattr(x, "note"), beside, x + 1


@pytest.mark.may_break
@pytest.mark.parametrize("function", [put_into_the_dictionary, put_by_both_ways, put_by_attribute, taken_out])
def test_what_lies_beside_a_tensor_is_in_its_dictionary(function):
    seen = []
    for each in (dynascope.compile(function, backend="eager"), function):
        x = torch.ones(1)
        seen.append(str((each(x), vars(x))))
    assert seen[0] == seen[1]


class Counted:
    count, tag = 0, "first"


class Below(Counted):
    count = 5

    def counted(self, x):
        Counted.count += 1
        Counted.tag = "second"
        return super().count, self.count, super().tag, super(Below, Below).tag, x + 1


def test_what_is_put_into_a_class_is_found_by_super():
    for each in (dynascope.compile(Below.counted, backend="eager", fullgraph=True), Below.counted):
        Counted.count, Counted.tag = 0, "first"
        assert each(Below(), torch.ones(1))[:-1] == (1, 5, "second", "second")
        assert each(Below(), torch.ones(1))[:-1] == (2, 5, "second", "second")
