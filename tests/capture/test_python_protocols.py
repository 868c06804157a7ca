"""Python's protocols as CPython has them: what may be answered, who is asked next, what is one object, what comes when."""

import bisect
import collections
import functools
import itertools
import threading
import types
from typing import NamedTuple

import pytest
import torch
from harness import compiled
from test_programs import observe, same

X = torch.arange(4.0)


def assert_same(function, *calls, breaks=True):
    """Each call, made twice: compiled as plain. Without `breaks` the whole function must be one graph."""
    dispatch = compiled(function)
    for arguments in calls:
        for _ in range(2):
            expected, got = observe(function, arguments), observe(dispatch, arguments)
            assert same(got, expected), (got, expected)
    internal = [reason.code for reason in dispatch.compilation.reasons if reason.code == "internal-failure"]
    assert not internal and not any(r.reason.code == "internal-failure" for r in dispatch.refused)
    if not breaks:
        assert not dispatch.compilation.reasons and not dispatch.refused


def with_method(name, answer):
    """An instance of a class whose special method `name` gives `answer`."""
    return type("Odd", (), {name: lambda self, *rest: answer})()


ANSWERS = {
    "__bool__": (bool, [True, False, 1, 0, 1.2, None, "yes"]),
    "__len__": (len, [0, 3, True, -1, 1.5, "two", None, 1 << 70]),
    "__str__": (str, ["text", 5, None, b"bytes"]),
    "__repr__": (repr, ["text", 5, None]),
    "__format__": (format, ["text", 5, None]),
    "__index__": (lambda o: [5, 6, 7][o], [1, -1, True, 1.5, None, "1", 9]),
    "__int__": (int, [3, True, 3.5, "3", None]),
    "__float__": (float, [2.5, 2, "2", None]),
    "__complex__": (complex, [2j, 2, None]),
    "__hash__": (hash, [3, True, 1.5, None, -1]),
    "__iter__": (list, [[1], (1,), 5, None]),
    "__contains__": (lambda o: 1 in o, [True, 0, [], [1], None, "x"]),
    "__enter__": (lambda o: entered(o), [1]),
    "__call__": (lambda o: o(), [1, None]),
    "__abs__": (abs, [3, "x", None]),
    "__round__": (round, [3, "x", None]),
    "__neg__": (lambda o: -o, [3, NotImplemented, None]),
    "__add__": (lambda o: o + 1, [3, NotImplemented, None]),
    "__radd__": (lambda o: 1 + o, [3, NotImplemented, None]),
    "__iadd__": (lambda o: added_to(o), [3, NotImplemented]),
    "__eq__": (lambda o: (o == 1, o == 1, o in [1], o != 1), [True, False, NotImplemented, 5]),
    "__lt__": (lambda o: (o < 1, o < 1), [True, NotImplemented, 5]),
    "__getitem__": (lambda o: o[3], [3, None]),
    "__missing__": (lambda o: 1, [1]),
}


def entered(o):
    with o as inside:
        return inside


def added_to(o):
    o += 1
    return o


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_special_method_may_answer(name):
    use, answers = ANSWERS[name]

    def escapes(x, o):
        return x + 1, use(o)

    def caught(x, o):
        try:
            return x + 1, use(o)
        except Exception as error:
            return x, type(error), str(error)

    def made_inside(x, answer):
        class_ = type(o)
        try:
            return x * 2, use(class_())
        except TypeError as error:
            return x, str(error)

    for answer in answers:
        o = with_method(name, answer)
        assert_same(escapes, (X, o))
        assert_same(caught, (X, o))
        assert_same(made_inside, (X, answer))


CALLS = [
    lambda x: isinstance(x, torch.Tensor, invalid=True),
    lambda x: len([1], a=2),
    lambda x: len(),
    lambda x: issubclass(int, int, foo=1),
    lambda x: callable(int, foo=1),
    lambda x: getattr(x, "shape", 1, 2),
    lambda x: sorted([1], 2),
    lambda x: list([1], [2]),
    lambda x: [].append(1, 2),
    lambda x: {}.get(),
    lambda x: {}.keys(1),
    lambda x: zip([1], wrong=2),
    lambda x: enumerate(),
    lambda x: range(1, 2, 3, 4),
    lambda x: max(),
    lambda x: max([1], kee=2),
    lambda x: next(),
    lambda x: iter(3),
    lambda x: sum([1], 2, 3),
    lambda x: map(len),
    lambda x: isinstance(1, 5),
    lambda x: ValueError(a=1),
    lambda x: hasattr(x),
    lambda x: super(int, "a"),
    lambda x: set([1], [2]),
    lambda x: set.update(5),
    lambda x: functools.reduce(max),
    lambda x: print(1, wrong=2),
    lambda x: "a".join([1]),
    lambda x: [1] < ["a"],
    lambda x: (1,) + [1],
    lambda x: [1] * 1.5,
    lambda x: {} | [],
    lambda x: -"a",
    lambda x: {}[[]],
    lambda x: [1]["a"],
    lambda x: int("x"),
    lambda x: object() < object(),
    lambda x: dict([1]),
    lambda x: dict([(1, 2, 3)]),
    lambda x: [].pop(),
    lambda x: [1, 2].remove(3),
    lambda x: (1, 2).index(3),
    lambda x: {}.popitem(),
    lambda x: list(zip([1], [2, 3], strict=True)),
    lambda x: min([]),
    lambda x: "{}".format(),  # noqa: F524 (it is to fail)
    lambda x: [1, 2, 3].__getitem__(7),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls_that_python_refuses(number):
    call = CALLS[number]

    def caught(x, log):
        log.append(1)
        try:
            return x + 1, call(x)
        except Exception as error:
            log.append((type(error), str(error)))
        return x, list(log)

    def escapes(x, log):
        log.append(1)
        return x + 1, call(x)

    for function in (caught, escapes):
        dispatch = compiled(function)
        for _ in range(2):
            logs = [], []
            expected, got = (observe(f, (X, log)) for f, log in zip((function, dispatch), logs, strict=True))
            shown = [repr(each[0][:1]) if call is CALLS[6] else each for each in (expected, got)]
            assert same(got, expected) or repr(got) == repr(expected), shown
            assert repr(logs[0]) == repr(logs[1])


class Falls:
    """Attribute access that fails in each way, with and without somebody to ask next."""

    def __init__(self):
        self.here = 1

    @property
    def broken(self):
        raise AttributeError("in broken")

    @property
    def other(self):
        raise KeyError("in other")

    def __getattr__(self, name):
        if name == "absent":
            raise AttributeError("absent after all")
        return name.upper()


class Everything:
    def __init__(self):
        object.__setattr__(self, "here", 1)

    def __getattribute__(self, name):
        if name.startswith("no"):
            raise AttributeError(name)
        return object.__getattribute__(self, name)

    def __getattr__(self, name):
        return 7


class OnlySet:
    def __set__(self, owner, item):
        owner.__dict__["kept"] = item


class OnlyDelete:
    def __delete__(self, owner):
        owner.__dict__["gone"] = True


class Fields:
    kept_by = OnlySet()
    removed_by = OnlyDelete()

    @property
    def readable(self):
        return 3

    @property
    def managed(self):
        return self.__dict__.get("m", 0)

    @managed.setter
    def managed(self, item):
        self.__dict__["m"] = item

    @managed.deleter
    def managed(self):
        self.__dict__["m"] = "deleted"


@pytest.mark.parametrize("make", [Falls, Everything])
@pytest.mark.parametrize("inside", [False, True])
def test_getattr_answers_every_attribute_error(make, inside):
    def f(x, o):
        o = make() if inside else o
        found = []
        for name in ("here", "broken", "other", "nothing", "absent", "__len__"):
            try:
                found.append((name, hasattr(o, name), getattr(o, name, "default"), getattr(o, name)))
            except (AttributeError, KeyError) as error:
                found.append((name, type(error), str(error)))
        return x * 2, found

    assert_same(f, (X, make()))


@pytest.mark.parametrize("inside", [False, True])
def test_descriptors_that_do_one_thing_only(inside):
    def f(x, given):
        o = Fields() if inside else Fields.__new__(Fields) if given is None else given
        o.kept_by = 4
        o.managed = 5
        del o.removed_by
        del o.managed
        found = []
        for act in (lambda: setattr(o, "readable", 1), lambda: delattr(o, "readable"), lambda: delattr(o, "nothing")):
            try:
                act()
            except AttributeError as error:
                found.append(str(error))
        return x + 1, type(o.kept_by).__name__, o.readable, o.managed, found, dict(o.__dict__)

    assert_same(f, (X, None))
    dispatch = compiled(f)
    assert same(dispatch(X, Fields()), f(X, Fields()))


def test_slots_and_thread_locals_refuse_in_their_own_way():
    class Slotted:
        __slots__ = ("value",)

    local = threading.local()

    def f(x, n):
        o = Slotted()
        try:
            o.other = 1
        except AttributeError as error:
            text = str(error)
        o.value = n
        local.value = n
        return x + local.value, text, o.value, hasattr(local, "value"), hasattr(local, "nothing")

    assert_same(f, (X, 1), (X, 2))


Plain = collections.namedtuple("Plain", "a b")


class Named(NamedTuple):
    a: object
    b: object = 2

    def total(self):
        return self.a + self.b


class Overriding(collections.namedtuple("Overriding", "a b")):
    def __add__(self, other):
        return "added"

    def __len__(self):
        return 7

    def __iter__(self):
        return iter("it")

    def __getitem__(self, at):
        return ("item", at)

    def __eq__(self, other):
        return "equal"

    __hash__ = None


class WithState(collections.namedtuple("WithState", "a")):
    pass


class Constructed(tuple):
    def __new__(cls, first, second):
        return super().__new__(cls, (first, second))


@pytest.mark.parametrize("inside", [False, True])
def test_tuples_with_names_and_with_operators_of_their_own(inside):
    def f(x, plain, named, over):
        if inside:
            plain, named, over = Plain(x, 2), Named(1), Overriding(1, 2)
        found = [plain.b, named.total(), named._replace(b=5), plain[1:], plain + (1,), named == (1, 2), over.a, over.b]
        found += [over + over, len(over), list(over), over[0], over == 1, 1 in over, bool(over), [*over], over.index(2)]
        try:
            found.append(hash(over))
        except TypeError as error:
            found.append(str(error))
        return x + 1, found, plain, named, type(over)

    assert_same(f, (X, Plain(X, 2), Named(1), Overriding(1, 2)))


def test_tuples_that_carry_attributes():
    def reads(x, t):
        return x + 1, hasattr(t, "more"), getattr(t, "more", None), t.a, len(t)

    bare, full = WithState(1), WithState(1)
    full.more = 5
    assert_same(reads, (X, bare), (X, full), (X, bare))

    def makes(x):
        t = WithState(x)
        t.more = 3
        pair = Constructed(x, 2)
        return t, t.more, pair, pair[1], len(pair), type(pair) is Constructed

    dispatch = compiled(makes)
    for _ in range(2):
        got, expected = dispatch(X), makes(X)
        assert got[0].more == 3 and type(got[0]) is WithState and type(got[2]) is Constructed
        assert same([*map(list, (got[0], got[2])), *got[3:]], [*map(list, (expected[0], expected[2])), *expected[3:]])


def test_containers_are_filled_as_their_source_gives():
    def f(x, n):
        numbers = [1]
        numbers.extend(map(lambda z: z + numbers[-1], range(3)))  # noqa: C417 (a map is to be tested)
        numbers.extend(len(numbers) for _ in range(n))
        table, unique = {1: 1}, {10}
        table.update(map(lambda q: (q, len(table)), range(5)))  # noqa: C417
        table.update({"a": 1}, b=2)
        unique.update((len(unique) for _ in range(4)), [99])
        partly = []
        try:
            partly.extend(1 // (2 - q) for q in range(4))
        except ZeroDivisionError:
            partly.append("stopped")
        try:
            table.update([(7, 7), (8,)])
        except ValueError as error:
            partly.append(str(error))
        return x + 1, numbers, table, sorted(unique), partly

    assert_same(f, (X, 2), (X, 3))


ITERABLES = [
    lambda: iter([1, 2]),
    lambda: iter((1, 2)),
    lambda: iter(range(3)),
    lambda: iter("ab"),
    lambda: iter({1: 2}),
    lambda: iter({1: 2}.values()),
    lambda: iter({1: 2}.items()),
    lambda: iter(collections.OrderedDict(a=1)),
    lambda: reversed([1, 2]),
    lambda: reversed((1, 2)),
    lambda: reversed(range(3)),
    lambda: zip([1], [2], strict=False),
    lambda: enumerate([1]),
    lambda: map(str, [1, 2]),
    lambda: filter(None, [1, 2]),
    lambda: itertools.chain([1], [2]),
    lambda: itertools.count(3),
    lambda: itertools.islice([1, 2, 3], 2),
    lambda: itertools.accumulate([1, 2]),
    lambda: itertools.product([1], [2]),
    lambda: itertools.repeat(1, 2),
    lambda: (q for q in [1, 2]),
]


@pytest.mark.parametrize("number", range(len(ITERABLES)))
def test_iterators_are_of_their_classes(number):
    make = ITERABLES[number]

    def f(x, taken):
        it = make()
        first = [next(it, None) for _ in range(taken)]
        kinds = type(it).__name__, isinstance(it, types.GeneratorType), isinstance(it, zip), isinstance(it, map)
        return x + 1, first, kinds, it.__iter__() is it, it.__next__() if taken == 0 else None

    def alive_across_a_break(x, taken):
        it = make()
        first = [next(it, None) for _ in range(taken)]
        print(end="")
        return x + 1, first, [item for item, _ in zip(it, range(3))]  # noqa: B905 (an endless one is among them)

    assert_same(f, (X, 0), (X, 1))
    assert_same(alive_across_a_break, (X, 0), (X, 1), (X, 3))


RETURNED = [*ITERABLES[:9], ITERABLES[11], ITERABLES[12], ITERABLES[16]]


@pytest.mark.parametrize("number", range(len(RETURNED)))
@pytest.mark.parametrize("taken", [0, 1, 5])
def test_iterators_that_leave_are_what_they_were(number, taken):
    make = RETURNED[number]

    def f(x):
        it = make()
        for _ in range(taken):
            next(it, None)
        return x + 1, it

    got, expected = compiled(f)(X)[1], f(X)[1]
    assert type(got) is type(expected)
    assert list(itertools.islice(got, 4)) == list(itertools.islice(expected, 4))


class Counted:
    """Says when it is asked for an iterator."""

    def __init__(self, log):
        self.log = log

    def __iter__(self):
        self.log.append("iter")
        return iter([1, 2, 3])


LAZY = {
    "map": lambda o, log: map(lambda q: log.append(q), o),  # noqa: C417 (a map is to be tested)
    "filter": lambda o, log: filter(lambda q: log.append(q), o),
    "zip": lambda o, log: zip(o, o, strict=False),
    "enumerate": lambda o, log: enumerate(o),
    "islice": lambda o, log: itertools.islice(o, 0, 3, 2),
    "accumulate": lambda o, log: itertools.accumulate(o),
    "starmap": lambda o, log: itertools.starmap(log.append, ((q,) for q in o)),
    "takewhile": lambda o, log: itertools.takewhile(bool, o),
    "dropwhile": lambda o, log: itertools.dropwhile(bool, o),
    "chain": lambda o, log: itertools.chain([0], o),
    "from_iterable": lambda o, log: itertools.chain.from_iterable(o for _ in range(2)),
    "generator": lambda o, log: (q for q in o),
}


@pytest.mark.parametrize("name", LAZY)
def test_when_an_iterable_is_asked_and_how_far(name):
    make = LAZY[name]

    def f(x, n):
        log, shared = [], iter([1, 2, 3, 4, 5])
        made, over = make(Counted(log), log), make(shared, log)
        log.append("made")
        first = [next(made, None) for _ in range(n)]
        second = [next(over, None) for _ in range(n)]
        log.append("taken")
        return x + 1, first, second, list(shared), log

    assert_same(f, (X, 0), (X, 1), (X, 2), (X, 5))


def test_what_is_found_by_hash_or_in_a_slot_is_asked_for_as_often_as_python_asks():
    asked = []

    class Key:
        def __hash__(self):
            asked.append("hash")
            return 3

    class Slotted:
        __slots__ = ("empty",)

        def __getattr__(self, name):
            asked.append(name)
            return 5

    key, slotted = Key(), Slotted()

    def f(x, n):
        asked.clear()
        table = {key: n}
        print(end="")
        found = table[key], slotted.empty, getattr(slotted, "empty", 2), hasattr(slotted, "absent")
        print(end="")
        return x + 1, found, key in table, list(asked)

    assert_same(f, (X, 1), (X, 2))


def test_a_generator_cannot_end_by_stop_iteration():
    def source(n):
        yield 1
        next(iter([1] * n))
        raise StopIteration(3) if n else StopIteration

    def f(x, n):
        try:
            return x, list(source(n))
        except RuntimeError as error:
            return x + 1, str(error), type(error.__cause__), error.__cause__ is error.__context__, error.__cause__.args

    assert_same(f, (X, 0), (X, 1))


NAN = float("nan")


@pytest.mark.parametrize(
    "calls",
    [
        [(1, 2), (3, 3), (2, 2), (1000, 1000)],
        [(1.5, 1.5), (2.5, float("2.5")), (2.5, 2.5)],
        [("a b", "a b"), ("a b", "".join(["a", " b"]))],
        [(NAN, NAN), (NAN, float("nan")), (float("nan"), 1.0)],
        [(10**30, 10**30), (10**30, int("1" + "0" * 30))],
    ],
)
def test_which_numbers_and_texts_are_one_object(calls):
    def f(x, a, b, held):
        same = a is b, a is not b, a is held[0], held[0] is held[1], (a,)[0] is a
        equal = a == b, a != b, [a] == [b], (a, 1) == (b, 1), a in [b], a in (a,), held.count(a), held == [a, b]
        return x + 1, same, equal

    assert_same(f, *[(X, a, b, [c, d]) for a, b in calls for c, d in ((a, b), (b, a), (b, b))])


def test_a_number_that_is_given_back_is_the_one_that_came():
    def f(x, a, b):
        return x + 1, a, (b, a)

    dispatch = compiled(f)
    for text in ("1234567", "1234567", "7654321"):
        a, b = int(text), float(text)
        found = dispatch(X, a, b)
        assert found[1] is a and found[2][0] is b and found[2][1] is a


def test_nan_as_a_key():
    def f(x, d, key):
        return x * len(d), key in d, d.get(key), NAN in {key: 1}, {key, key} == {key}, [k == k for k in d]

    assert_same(f, (X, {NAN: 2}, NAN), (X, {float("nan"): 2}, NAN), (X, {NAN: 2}, float("nan")))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.bool])
def test_the_types_of_tensors_of_old(dtype):
    def f(x):
        kinds = (torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.LongTensor, torch.BoolTensor)
        kinds += (torch.cuda.FloatTensor, torch.ByteTensor)
        return x + 1, [isinstance(x, kind) for kind in kinds], isinstance(x, kinds), isinstance(x.double(), kinds[1])

    assert_same(f, (X.to(dtype),))


def test_classes_that_say_themselves_what_they_are():
    asked = []

    class Meta(type):
        def __instancecheck__(cls, instance):
            asked.append("instance")
            return instance == 5

        def __subclasscheck__(cls, other):
            asked.append("subclass")
            return other is int

    class Odd(metaclass=Meta):
        pass

    class Disguised:
        @property
        def __class__(self):
            asked.append("class")
            return int

    class Watched:
        def __getattribute__(self, name):
            asked.append(name)
            return object.__getattribute__(self, name)

    def f(x, disguised, watched):
        asked.clear()
        found = isinstance(5, Odd), isinstance(6, (Odd, str)), issubclass(int, Odd), issubclass(str, Odd)
        found += isinstance(disguised, int), isinstance(Disguised(), str), isinstance(watched, str), callable(watched)
        return x + 1, found, list(asked)

    assert_same(f, (X, Disguised(), Watched()))


def test_where_a_tensor_begins_in_its_storage():
    def reads(x):
        return x + 1, x.storage_offset(), x[1:].storage_offset(), x.detach().storage_offset(), (x + 1).storage_offset()

    def writes(x):
        x.as_strided((2,), (1,), x.storage_offset()).add_(5)
        return x.as_strided((1,), (1,)) * 2, torch.as_strided(x, (1,), (1,), storage_offset=3)

    big = torch.arange(8.0)
    assert_same(reads, (big[:4],), (big[4:],), (big[2:6],))
    for part in (slice(0, 4), slice(4, 8), slice(2, 6)):
        plain, own = big.clone(), big.clone()
        dispatch = compiled(writes)
        assert same(dispatch(own[part]), writes(plain[part])) and same(own, plain)


def test_the_whole_function_is_still_one_graph():
    """What is plain stays captured: none of the rules above costs a break there."""

    def f(x, n, named):
        numbers = [1, 2]
        numbers.extend(q * 2 for q in numbers[:2])
        table = dict(a=1)
        table.update(zip("bc", numbers))  # noqa: B905 (as programs write it)
        total = sum(len(each) for each in ([1], (2, 3), named))
        first, *rest = named
        return (
            x * total + numbers[-1],
            isinstance(x, torch.Tensor),
            max(numbers),
            named.a == 1,
            n is None,
            sorted(table),
            rest,
        )

    assert_same(f, (X, None, Named(1, 2)), breaks=False)


class GivesWhatItsObjectHas:
    def __get__(self, instance, owner=None):
        return instance.held * 2

    def __set__(self, instance, value):
        instance.held = value


class WithDescriptor:
    given = GivesWhatItsObjectHas()

    def __init__(self, held):
        self.held = held


def test_a_descriptor_is_not_asked_what_it_gives_without_an_object():
    def function(thing):
        thing.given = thing.given + 1
        return thing.given

    dispatch = compiled(function)
    for value in (1.0, 2.0):
        mine, theirs = WithDescriptor(torch.ones(2) * value), WithDescriptor(torch.ones(2) * value)
        torch.testing.assert_close(dispatch(mine), function(theirs))
        torch.testing.assert_close(mine.held, theirs.held)
    assert dispatch.compilation.codes == [] and len(dispatch.graphs) == 1


def test_places_in_sorted_lists():
    """As `SequentialLR` asks which of its schedules is on."""

    def program(x, n):
        return x * bisect.bisect_right([2, 5, 9], n), bisect.bisect_left((1.5, 2.5), n)

    call = compiled(program)
    for n in (1, 2, 3, 5, 6):
        ours, theirs = call(torch.ones(2), n), program(torch.ones(2), n)
        assert torch.equal(ours[0], theirs[0]) and ours[1] == theirs[1]


def test_what_views_of_dictionaries_equal():
    def f():
        keys, values, items = {"a": 1}.keys(), {"a": 1}.values(), {"a": 1}.items()
        return (
            (keys == 1, keys != 1, keys in [1, keys], keys == {"a"}, frozenset({"a"}) == keys, keys == ["a"], keys == {"a": 1}),
            (values == values, values == {"a": 1}.values(), values != {"a": 1}.values(), {"a": 1}.values() in [values], values == [1]),
            (items == 5, items == {("a", 1)}, items == {"a": 1.0}.items(), items == {"a": 2}.items(), keys == items),
            {"a": [1]}.items() == {"a": [1]}.items(),
        )

    assert compiled(f)() == f()
