"""Sets that come from outside: the order of what is made of them follows from how they came to be, which no guard says."""

import collections
import random
import types

import dynascope
import pytest
import torch
from dynascope.recording import Recorder, use

X = torch.ones(2)


def less(s, x):
    return list(s - {3}), x * 2


def more(s, x):
    return list(s | {3, 200}), x * 2


def returned(s, x):
    more = s.copy()
    more.add(4)
    return more, frozenset(s) ^ {5, 6}, x * 2


def written(s, x):
    s.discard(33)
    s.add(7)
    s -= {65, 129}
    s.add(1001)
    return x * len(s)


def kept(s, x):
    s &= {33, 1, 65, 129, 257}
    return s, x * 2


def kept_and_added(s, x):
    s |= {n * 37 % 301 for n in range(40)}
    s &= set(range(0, 301, 2))
    s.update({3, 1}, dict.fromkeys(range(500, 560, 7)))
    s ^= {500, 9}
    return x * 2


def less_than_in_a_dictionary(s, x):
    return list(s.difference(collections.OrderedDict.fromkeys([3, 1, 2, *range(100, 120)]))), x * 2


def a_set(seed):
    numbers, made = random.Random(seed), {1, 33, 65, 129}
    for _ in range(numbers.randrange(3, 60)):
        if numbers.random() < 0.7:
            made.add(numbers.randrange(300))
        else:
            made.discard(numbers.choice([*made]))
    return made


def in_order(result, given):
    things = [*result, given] if isinstance(result, tuple) else [result, given]
    return [each.tolist() if isinstance(each, torch.Tensor) else list(each) for each in things]


PROGRAMS = [less, more, returned, kept, kept_and_added, less_than_in_a_dictionary]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("program", [*PROGRAMS, written], ids=lambda each: each.__name__)
def test_the_order_is_pythons(program, seed):
    theirs, ours = a_set(seed), a_set(seed)
    expected = program(theirs, X)
    codes = ("foreign-value", "unrebuildable-value", "foreign-call") if program is not written else ()
    with dynascope.expected(*codes, required=False):
        result = dynascope.compile(program, backend="eager")(ours, X)
    assert in_order(result, ours) == in_order(expected, theirs)


@pytest.mark.parametrize("seed", range(3))
def test_one_changed_by_another_is_left_to_python(seed):
    def both(s, other, x):
        y = x + 1
        s |= other
        s &= other
        return y * len(s)

    others = [set(range(2, 200, 7)), set(range(2, 200, 7))]
    theirs, ours = a_set(seed), a_set(seed)
    expected = both(theirs, others[0], X)
    with dynascope.expected("unrebuildable-value"):
        result = dynascope.compile(both, backend="eager")(ours, others[1], X)
    assert torch.equal(result, expected) and list(ours) == list(theirs)


def test_of_one_made_inside_nobody_asks_the_order():
    def counted(s, other, x):
        made = s.copy()
        made |= other
        return x * len(made)

    result = dynascope.compile(counted, backend="eager", fullgraph=True)(a_set(0), {1, 2, 300}, X)
    assert torch.equal(result, counted(a_set(0), {1, 2, 300}, X))


def test_what_is_said_of_a_set_changed_by_another():
    """No break is needed but for the change itself."""

    def both(s, other, x):
        y = x + 1
        s |= other
        return y * len(s)

    explained = dynascope.explain(both, a_set(0), set(range(2, 200, 7)), X)
    (said,) = [entry.reason for function in explained.report.functions for entry in function.entries if entry.reason is not None]
    assert said.message.startswith("`s |= other` changes a set by another one, both from outside")
    assert said.remedy.startswith("Change it by a list")


@pytest.mark.parametrize(
    "held",
    [{2, 4}, frozenset({2, 4}), {2: "a", 4: "b"}, collections.Counter([2, 4]), {2: 0, "a": 1, 4.0: 2, None: 3, True: 4}],
    ids=["set", "frozenset", "dict", "Counter", "mixed"],
)
def test_a_number_that_varies_is_asked_of_few_keys(held):
    """As schedulers ask for their milestones: between these it stays a number that varies."""

    def program(x, epoch):
        return x * epoch if epoch not in state.held else x + epoch

    state = types.SimpleNamespace(held=held)
    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    recorder = Recorder()
    before = use(recorder)
    try:
        for epoch in (6, 7, 8, 2, 9, 4, 10, 3, 11, 12, 2):
            torch.testing.assert_close(compiled(torch.ones(2), epoch), program(torch.ones(2), epoch))
    finally:
        use(before)
    assert len(recorder.report().graphs) <= 5


class Counted:
    def __init__(self, number):
        self.number = number


class Partly(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)])
        self.kept, self.slow = set(self.layers[0].parameters()), frozenset({self.layers[1], "name"})

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) * (2 if layer in self.slow else 3)
        return x + sum(p.sum() for p in self.parameters() if p in self.kept), len(self.kept), "name" in self.slow

    def gone_through(self, x):
        return [p * x for p in self.kept], [x * len(self.kept - {self.layers[0].weight})]


def test_tensors_and_modules_are_found_where_they_are():
    module, x = Partly(), torch.ones(2)
    forward = dynascope.compile(module.forward, fullgraph=True, backend="eager")
    through = dynascope.compile(module.gone_through, fullgraph=True, backend="eager")
    assert in_order(forward(x)[:1], [X])[0] == in_order(module(x)[:1], [X])[0] and forward(x)[1:] == module(x)[1:] == (2, True)
    first, second = module.layers
    for kept in (module.kept, set(second.parameters()), {first.weight, second.bias}, {second.weight}):
        module.kept = kept
        assert torch.equal(forward(x)[0], module(x)[0]) and forward(x)[1] == len(kept)
        for ours, theirs in zip(through(x), module.gone_through(x), strict=True):
            assert [each.tolist() for each in ours] == [each.tolist() for each in theirs]


def test_objects_are_added_to_a_set_one_at_a_time():
    def program(seen, thing, x):
        is_new = thing not in seen
        seen.add(thing)
        return x * (2 if is_new else 3) * len(seen), [each.number for each in seen]

    def twice(seen, thing, x):
        seen.add(thing)
        seen.discard(one)
        return x * len(seen)

    one, two, three = Counted(1), Counted(2), Counted(3)
    compiled, seen, theirs = dynascope.compile(program, backend="eager"), {one}, {one}
    with dynascope.expected("foreign-value"):  # where the second one comes to lie
        for thing in (one, two, two, three):
            assert in_order(compiled(seen, thing, X)[:1], [X]) == in_order(program(theirs, thing, X)[:1], [X]) and seen == theirs
        assert dynascope.compile(twice, backend="eager")(seen, three, X).tolist() == [2, 2] and seen == {two, three}


def test_a_large_set_of_objects_is_left_to_python():
    things = [Counted(at) for at in range(70)]
    held = set(things)
    with dynascope.expected("foreign-value"):
        assert dynascope.compile(lambda x: x * (things[3] in held), backend="eager")(X).tolist() == [1, 1]


def test_a_set_of_what_cannot_be_looked_at_is_handed_on():
    held = {torch.eye(2).to_sparse()}
    compiled = dynascope.compile(lambda x: (x * (2 if held is not None else 3), held), backend="eager", fullgraph=True)
    result, same = compiled(X)
    assert result.tolist() == [2, 2] and same is held
