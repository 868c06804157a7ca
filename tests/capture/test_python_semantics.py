"""What Python's own tests ask of containers, operators, functions and classes: each answer is Python's, in its words and order.

Found by running CPython's test methods compiled (`bench/python_suite.py`).
"""

import abc
import collections
import contextlib
import dataclasses
import decimal
import fractions
import functools
import io
import random
import typing
from collections.abc import Callable
from typing import TypeVar, get_args

import dynascope
import pytest
import torch

ASKED = []


def asked(function):
    ASKED.append(function)
    return function


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error), str(error)


@asked
def keywords_that_are_no_text():
    return [outcome(ask) for ask in (lambda: dict(**{1: 2}), lambda: {}.update(**{1: 2}), lambda: max([1], **{2: 3}))]


@asked
def a_key_goes_and_comes_again_in_a_loop():
    found = {0: 0}
    try:
        for key in found:
            del found[0]
            found[key] = 0
    except RuntimeError as error:
        return str(error)


@asked
def another_key_in_place_of_one_that_was_ahead():
    found, seen = {0: 0, 1: 1, 2: 2}, []
    for key in found:
        seen.append(key)
        if 2 in found:
            del found[2]
            found[5] = 1
    return seen


@asked
def values_written_ahead_of_a_loop():
    found, seen = {0: 0, 1: 1, 2: 2}, []
    for key, value in found.items():
        seen.append((key, value))
        found[2] = 7
    for value in found.values():
        seen.append(value)
        found[1] = 9
    return seen


@asked
def a_set_that_changes_in_a_loop():
    found, seen = {0, 1, 2}, []
    for item in found:
        seen.append(item)
        found.discard(2)
        found.add(5)
    return seen


@asked
def an_ordered_dict_turned_in_a_loop():
    found, seen = collections.OrderedDict({0: 0, 1: 1, 2: 2}), []
    try:
        for key in found:
            seen.append(key)
            found.move_to_end(0)
    except RuntimeError as error:
        seen.append(str(error))
    return seen


@asked
def a_deque_that_changes_in_a_loop():
    seen = []
    for change in (lambda d: d.append(4), lambda d: d.popleft(), lambda d: d.rotate(1), lambda d: d.extend([])):
        queue = collections.deque([1, 2, 3])
        try:
            for item in queue:
                seen.append(item)
                change(queue)
        except RuntimeError as error:
            seen.append(str(error))
    queue = collections.deque([1, 2, 3])
    for at, item in enumerate(queue):
        seen.append(item)
        queue[at] = item * 2
    return seen, queue


@asked
def what_is_the_same_object():
    pair, names, items = (1, 2), frozenset([1, 2]), [1]
    same = (pair * 1, pair[:], tuple(pair), pair + (), () + pair)
    return [each is pair for each in same], frozenset(names) is names, names.copy() is names, items * 1 is items


@asked
def the_first_thing_sent_to_a_generator():
    def numbers():
        yield 1

    made = numbers()
    return outcome(made.send, 0), next(made)


@asked
def attributes_of_a_wrapped_function():
    def inner(a):
        """Words."""

    inner.mark, inner.__wrapped__ = "x", "not this"

    def outer(b):
        pass

    functools.update_wrapper(outer, inner)
    outer.__dict__["more"] = 1
    return outer.mark, sorted(vars(outer)), outer.__wrapped__ is inner, outer.__name__, outer.__doc__, outer.more


@asked
def a_context_manager_made_of_a_marked_function():
    def marked(function):
        function.mark = "x"
        return function

    @contextlib.contextmanager
    @marked
    def manager():
        yield

    return manager.mark


@asked
def classes_with_abstract_methods():
    class Unfinished(contextlib.AbstractContextManager):
        pass

    class Base(abc.ABC):
        @abc.abstractmethod
        def first(self): ...

        @property
        @abc.abstractmethod
        def second(self): ...

    class Half(Base):
        def first(self):
            return 1

    class Whole(Half):
        second = 2

    return [outcome(cls) for cls in (Unfinished, Base, Half)], Whole().first(), Whole().second


@asked
def methods_compared():
    items, found = [1], {}
    return items.append == items.append, items.__add__ == items.__add__, items.append == [1].append, found.get == found.get


@asked
def which_side_is_asked_first():
    class Base:
        def __floordiv__(self, other):
            return "Base.__floordiv__"

        def __rfloordiv__(self, other):
            return "Base.__rfloordiv__"

    class Other(Base):
        def __rfloordiv__(self, other):
            return "Other.__rfloordiv__"

    class Plain(Base):
        pass

    class OnlyReflected:
        def __radd__(self, other):
            return "__radd__"

    sides = (Base(), Other(), Plain(), 1)
    asked_of = [outcome(lambda a, b: a // b, a, b) for a in sides for b in sides[:3]]
    return asked_of, outcome(lambda: OnlyReflected() + OnlyReflected())


@asked
def a_class_that_only_registers_as_a_subclass():
    class Base(abc.ABC):  # noqa: B024
        def __eq__(self, other):
            order.append("Base")
            return NotImplemented

    class Registered:
        def __eq__(self, other):
            order.append("Registered")
            return NotImplemented

    order = []
    Base.register(Registered)
    Base() == Registered()  # noqa: B015
    return order


class Equal:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x if isinstance(other, Equal | Bare) else NotImplemented


class Bare:
    x = 1


@asked
def what_is_not_equal():
    one, again, two, bare = Equal(1), Equal(1), Equal(2), Bare()
    pairs = [(a, b) for a in (one, two, bare, 1, None) for b in (again, two, bare, "a")]
    return [(a != b, a == b) for a, b in pairs], [one] != [again], one in [bare]


@asked
def numbers_of_different_kinds():
    numbers = [1001, 1001.0, fractions.Fraction(2002, 2), decimal.Decimal("1001.0"), 1001 + 0j, True]
    equal = [(a == b, a != b) for a in numbers for b in numbers]
    return equal, [outcome(lambda a, b: (a < b, a >= b), a, b) for a in numbers for b in numbers]


@asked
def dictionaries_merged():
    ordered, plain = collections.OrderedDict({0: 0}), {1: 1}
    counting = collections.defaultdict(int, {2: 2})
    both = [a | b for a in (ordered, plain, counting) for b in (ordered, plain, counting)]
    return [(type(each), list(each.items()), getattr(each, "default_factory", None)) for each in both]


@asked
def parts_of_a_function_replaced():
    def three():
        return 3

    def nothing():
        pass

    def positional(x=1):
        return x

    def by_name(*, x=1):
        return x

    nothing.__code__, positional.__defaults__, by_name.__kwdefaults__ = three.__code__, (5,), {"x": 7}
    positional.__name__ = "other"
    wrong = [outcome(setattr, positional, name, 3) for name in ("__name__", "__defaults__", "__code__", "__globals__")]
    return nothing(), positional(), by_name(), positional.__name__, wrong


@asked
def slots_that_hold_nothing():
    class Held:
        __slots__ = ("a",)

    held = Held()
    held.a = 1
    del held.a
    return [outcome(ask, held, "a") for ask in (getattr, delattr)], outcome(setattr, held, "b", 1)


class Slotted:
    __slots__ = ("a",)


class Items(dict):
    __setattr__ = dict.__setitem__


held, items = Slotted(), Items()


@asked
def a_slot_that_is_filled_and_emptied():
    held.a = 1
    del held.a
    return hasattr(held, "a"), outcome(delattr, held, "a")


@asked
def a_class_whose_attributes_are_its_items():
    items.y = 42
    return items["y"], vars(items)


@asked
def both_quotient_and_remainder():
    class Number:
        def __divmod__(self, other):
            return "divmod", other

        def __floordiv__(self, other):
            return "floordiv"

        def __mod__(self, other):
            return "mod"

    return divmod(Number(), 3), outcome(divmod, Bare(), Number())


@asked
def a_dataclass_with_slots():
    @dataclasses.dataclass(slots=True)
    class Point:
        x: int
        y: int = 2

    @dataclasses.dataclass(slots=True)
    class Deeper(Point):
        depth: int = 3

    slots = Point.__slots__, Deeper.__slots__
    return outcome(setattr, Point(1), "z", 5), outcome(setattr, Deeper(1), "z", 5), slots, hasattr(Point(1), "__dict__")


def shape(subject):
    match subject:
        case []:
            return "nothing"
        case [first, *rest]:
            return "row", first, rest
        case {"kind": kind, **rest}:
            return "named", kind, rest
        case {}:
            return "mapping"
        case bytearray(z) | frozenset(z) | str(z) | int(z):
            return "itself", z
        case Equal(x=x):
            return "attribute", x
        case complex(real=0.0):
            return "no real part"
    return "something else"


@asked
def what_matches_which_pattern():
    class Row(collections.abc.Sequence):
        def __len__(self):
            return 2

        def __getitem__(self, at):
            return [5, 6][at]

    class Named(collections.UserDict):
        pass

    rows = [collections.deque([1, 2]), range(3), collections.UserList([4]), Row(), (), torch.Size([2])]
    mappings = [Named(kind=1), collections.OrderedDict(kind=2, a=3), collections.defaultdict(int), {"kind": 5, "b": 1}, {}]
    others = [bytearray(b"a"), frozenset([1]), "text", b"bytes", 3, True, 2.5, 1j, Equal(7), Bare(), None, iter([])]
    return [shape(each) for each in (*rows, *mappings, *others)]


@asked
def patterns_that_are_wrong():
    def too_many(subject):
        match subject:
            case int(a, b):
                return a, b

    def not_declared(subject):
        match subject:
            case Equal(a):
                return a

    return outcome(too_many, 3), outcome(too_many, "a"), outcome(not_declared, Equal(1))


@asked
def exceptions_that_look_at_their_arguments():
    def caught(cls, *arguments):
        try:
            raise cls(*arguments)
        except BaseException as error:
            return error

    group = caught(ExceptionGroup, "words", [ValueError(1), KeyError(2)])
    syntax = caught(SyntaxError, "words", ("bad.py", 1, 2, "text"))
    left = caught(SystemExit, 3), caught(StopIteration, 4), caught(BaseExceptionGroup, "words", [ValueError(1)])
    wrong = caught(ExceptionGroup, "words", 3), caught(ExceptionGroup, "words", []), caught(OSError, 2, "no such file")
    try:
        raise group
    except* ValueError as matched:
        values = matched.exceptions
    except* KeyError:
        pass
    return group, syntax.filename, syntax.lineno, left[0].code, left[1].value, type(left[2]), wrong, values


@asked
def powers_by_a_number():
    return pow(2, 6, mod=10), functools.partial(pow, mod=10)(2, 6), pow(base=2, exp=3)


@asked
def annotations_of_a_class():
    class Base:
        x: int

    class Derived(Base):
        pass

    return Base.__annotations__, Derived.__annotations__


class Listed(list):
    pass


class Told(list):
    def __iter__(self):
        return iter([7])


@asked
def a_list_is_extended_by_itself():
    kept, plain, queue = Listed([1, 2]), [1, 2], collections.deque([1, 2])
    kept.extend(kept)
    kept += kept
    told = Told([1])
    told.extend(told)
    plain.extend(plain)
    plain += plain
    queue.extend(queue)
    queue.extendleft(queue)
    return len(kept), kept[5], list.copy(told), plain, queue


class Misused:
    @staticmethod
    def without_arguments():
        return super().__init__()

    def without_the_first(self):
        del self
        return super().__init__()


def outside_of_a_class(self):
    return super().__init__()


@asked
def super_where_there_is_nothing_to_find():
    return [outcome(each) for each in (Misused.without_arguments, Misused().without_the_first, lambda: outside_of_a_class(Misused()))]


T = TypeVar("T")


@asked
def annotations_that_are_computed():
    def apply(function: Callable[[T], T], value: list[T], other: int | list[T] = 1) -> T:
        return function(value)

    return apply.__annotations__, get_args(Callable[[T], T]), T | None, T.__name__


def test_kinds_of_types_are_part_of_a_graph():
    def function(x):
        return x + 1, typing.Callable[[T], T], typing.Union[int, T], typing.Dict[str, T]  # noqa: UP006, UP007

    assert dynascope.compile(function, backend="eager", fullgraph=True)(torch.ones(1))[1:] == function(torch.ones(1))[1:]


def test_a_break_among_annotations():
    def function(x):
        def inner(a: int, b: print("met"), c: T) -> T:
            return a * x

        return inner(2, 3, 4), inner.__annotations__

    with dynascope.expected("print-call"):
        tensor, annotations = dynascope.compile(function, backend="eager")(torch.ones(2))
    assert tensor.tolist() == [2, 2] and annotations == {"a": int, "b": None, "c": T, "return": T}


@pytest.mark.may_break
@pytest.mark.parametrize("ask", ASKED, ids=lambda ask: ask.__name__)
def test_the_answer_is_pythons(ask):
    def function(x):
        y = x + 1
        return ask(), y * 2

    answer, tensor = dynascope.compile(function, backend="eager")(torch.ones(2))
    assert repr(answer) == repr(ask())
    assert torch.equal(tensor, torch.full((2,), 4.0))


WORDS = ("alias", "and", "as", "assert", "async", "await", "bypass", "convert", "step", "debugging", "join", "for", "error", *"abcdefg")


def set_program(seed):
    """The text of a function that makes a set in some way, changes it, and gives its items in order, before and after a break."""
    draw = random.Random(seed)
    pool = WORDS if draw.random() < 0.5 else range(0, 200, draw.choice([1, 7, 8]))
    count = draw.randint(1, 16)

    def some(count):
        return ", ".join(map(repr, draw.sample(pool, count)))

    pairs = ", ".join(f"{each!r}: 1" for each in draw.sample(pool, count))
    made = draw.choice([
        f"{{{some(count)}}}", f"set([{some(count)}])", f"{{each for each in [{some(count)}]}}", f"set({{{pairs}}})",
        f"set({{{some(count)}}})", f"{{{some(count)}}} | {{{some(3)}}}", f"{{{some(count)}}} - {{{some(3)}}}",
        f"{{{some(count)}}}.union([{some(2)}], {{{some(3)}}})", f"{{{pairs}}}.keys() ^ {{{some(3)}}}",
    ])  # fmt: skip
    changes = [
        f"found.add({some(1)})", f"found.discard({some(1)})", "found = found.copy()", f"found |= {{{some(2)}}}",
        f"found.update([{some(2)}])", f"found.update({{{some(2)}}}, {{{pairs}}})", f"found &= {{{some(9)}}}",
    ]  # fmt: skip
    lines = [f"found = {made}", *draw.sample(changes, draw.randint(0, 3)), "first = list(found)"]
    lines += ["print('a break')"] * draw.randint(0, 1) + ["return first, [each for each in found], found, x + 1"]
    return "def function(x):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.may_break
@pytest.mark.parametrize("first", range(0, 160, 20))
def test_the_order_of_a_set_is_pythons(first):
    for seed in range(first, first + 20):
        scope = {}
        exec(set_program(seed), scope)
        with contextlib.redirect_stdout(io.StringIO()):
            expected = scope["function"](torch.ones(1))
            found = dynascope.compile(scope["function"], backend="eager")(torch.ones(1))
        assert (*found[:2], list(found[2])) == (*expected[:2], list(expected[2])), set_program(seed)
