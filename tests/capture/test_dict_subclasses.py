"""Subclasses of dict that are made inside: dictionaries with attributes, as the outputs of models often are."""

import collections
import dataclasses

import dynascope
import pytest
import torch
from harness import compiled


@dataclasses.dataclass
class Output(collections.OrderedDict):
    """As libraries of models write it: an ordered dictionary of the fields that are given, and a tuple of them."""

    loss: torch.Tensor = None
    logits: torch.Tensor = None
    hidden: tuple = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        if isinstance(key, str):
            return dict(self.items())[key]
        return self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[key] for key in self.keys())


class Named(dict):
    def __init__(self, name, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.name = name


class WithDefault(dict):
    def __missing__(self, key):
        return key


def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return (
            type(one) is type(other)
            and list(one) == list(other)
            and same(vars_of(one), vars_of(other))
            and all(same(dict.__getitem__(one, key), dict.__getitem__(other, key)) for key in one.keys())
        )
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return one == other


def vars_of(instance):
    return tuple(vars(instance).items()) if hasattr(instance, "__dict__") else ()


def as_a_model_does(x):
    hidden = (x, x + 1)
    inner = Output(logits=x * 2, hidden=hidden)
    logits = inner[0]
    return (
        Output(loss=logits.sum(), logits=inner["logits"], hidden=inner.hidden),
        inner.to_tuple()[1:],
        len(inner),
        "loss" in inner,
    )


def written_later(x):
    out = Output(logits=x)
    out.loss = x.sum()
    out["loss"] = out.loss + 1
    out.logits = x * 3
    return out, list(out), list(out.items())[0][0], bool(out)


def plain_subclass(x):
    made = Named("a", {"x": x}, y=x + 1)
    made["z"] = made["x"] + made.get("y")
    del made["y"]
    made.update(w=1)
    return made, made.name, sorted(made), [*made.values()], {**made}


@pytest.mark.parametrize("function", [as_a_model_does, written_later, plain_subclass])
def test_it_is_part_of_the_graph(function):
    x = torch.randn(3)
    dispatch = compiled(function)
    for _ in range(2):
        assert same(dispatch(x), function(x))
    assert dispatch.compilation.codes == [] and not dispatch.refused


def test_it_outlives_a_break():
    def function(x):
        out = Output(logits=x * 2)
        print("between")
        return out, out[0] + 1

    x = torch.randn(3)
    dispatch = compiled(function)
    for _ in range(2):
        assert same(dispatch(x), function(x))


def test_missing_keys_are_left_to_python():
    def function(x):
        table = WithDefault(a=1)
        return x + table["a"], table["b"]

    x = torch.randn(3)
    assert same(compiled(function)(x), function(x))


class Table(dict):
    pass


def makes_by_class_methods(x):
    kept = Table.fromkeys
    table = Table.fromkeys("ab", x)
    return table["a"] + 1, type(table).__name__, kept([1]), int.from_bytes(b"ab", "big"), float.fromhex("0x1p3"), kept


def breaks_at_a_class_method(x):
    print("break")
    return x * 2, Table.fromkeys(iter([1, 2]), x)


@pytest.mark.parametrize("program", [makes_by_class_methods, breaks_at_a_class_method])
def test_class_methods_written_in_c_are_bound_to_the_class_they_are_asked_for_through(program):
    dispatch = compiled(program)
    x = torch.arange(3.0)
    for _ in range(2):
        assert repr(dispatch(x)) == repr(program(x))


def test_an_ordered_dictionary_has_attributes():
    row = torch.ones(2)

    def program(x, given):
        made = collections.OrderedDict(a=x + 1)
        made.extra, made.more = 5, [x]
        given.seen = made.extra + given.before
        return made, made.extra, hasattr(made, "other"), getattr(given, "other", 3), given.seen, collections.OrderedDict(b=x).copy()

    ours, theirs = (collections.OrderedDict(c=row) for _ in range(2))
    ours.before = theirs.before = 2
    call = dynascope.compile(program, backend="eager", fullgraph=True)
    found, expected = call(row, ours), program(row, theirs)
    assert repr(found) == repr(expected)
    assert repr(vars(found[0])) == repr(vars(expected[0]))
    assert vars(ours) == vars(theirs) == {"before": 2, "seen": 7}
    ours.other = theirs.other = 4
    assert call(row, ours)[3] == program(row, theirs)[3] == 4


def test_an_ordered_dict_filled_item_by_item_is_copied():
    """`functional_call` copies the weights that it is given: `OrderedDict((name, p - rate * g) for ...)`."""

    def program(x):
        made = collections.OrderedDict((name, x * at) for at, name in enumerate("ab"))
        made.note = "stays"
        copied = made.copy()
        copied["c"] = x
        return made, copied, hasattr(copied, "note")

    x = torch.arange(3.0)
    found, expected = dynascope.compile(program, backend="eager", fullgraph=True)(x), program(x)
    assert [list(each) for each in found[:2]] == [list(each) for each in expected[:2]] and found[2] == expected[2]
    assert type(found[1]) is collections.OrderedDict and torch.equal(found[1]["b"], expected[1]["b"])


def by_its_second(x, table):
    if len(table) == 1 and 2 in table:
        return x + table[2]
    return x + 1 if table[1] else x


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_who_looks_why_a_guard_failed_fills_in_nothing(backend):
    """`[]` of `dict` itself asks a subclass for what is missing."""
    compiled = dynascope.compile(by_its_second, backend=backend)
    for number in range(4):
        for key in (1, 2):
            theirs, ours = (collections.defaultdict(int, {key: number}) for _ in range(2))
            torch.testing.assert_close(compiled(torch.ones(2), ours), by_its_second(torch.ones(2), theirs))
            assert ours == theirs


class Ordered(collections.OrderedDict):
    pass


@pytest.mark.parametrize("make", [collections.OrderedDict, dict])
def test_two_ordered_dicts_are_equal_in_one_order_only(make):
    def program(x, given):
        here, other = collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)
        return x + 1, given == here, other == given, here != other, here in [other], here == {"b": 2, "a": 1}

    compiled = dynascope.compile(program, backend="eager")
    for items in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2}):
        assert compiled(torch.ones(1), make(items))[1:] == program(torch.ones(1), make(items))[1:]


def test_an_ordered_dict_of_a_subclass_is_equal_in_one_order_only():
    def program(x, given):
        return x + 1, given == collections.OrderedDict(a=1, b=2), Ordered(b=2, a=1) == given

    compiled = dynascope.compile(program, backend="eager")
    for items in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        assert compiled(torch.ones(1), Ordered(items))[1:] == program(torch.ones(1), Ordered(items))[1:]


@pytest.mark.expects("foreign-value")
def test_a_dict_that_iterates_in_its_own_way_is_copied_by_its_keys():
    class First(dict):
        def __iter__(self):
            return iter(["a"])

        def keys(self):
            return ["b"]

    def program(x):
        made = First(a=1, b=2)
        return x + 1, made.copy(), dict(made)

    assert repr(dynascope.compile(program, backend="eager")(torch.ones(1))) == repr(program(torch.ones(1)))
