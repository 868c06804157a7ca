"""Programs about objects and their dictionaries, and about what Python's own classes and functions do to containers.

Each is called three times, and its arguments are compared after each call.
"""

import collections
import operator
import types

import torch

CASES = []
T = torch.arange(6.0).reshape(2, 3)


class Thing:
    def __init__(self, x=0):
        self.x = x


class Slotted:
    __slots__ = ("late", "x")


def case(*arguments):
    def register(function):
        CASES.append((function, arguments))
        return function

    return register


@case(T)
def aliases_of_builtin_classes(x):
    return x + 1, repr((list[int], dict[str, int], tuple[int, ...], type[int], collections.OrderedDict[str, int]))


@case(T)
def annotations_of_a_function_made_inside(x):
    def inner(a: list[int], b: "text" = 1) -> dict[str, float]:  # noqa: F821
        return a

    return x + 1, repr(inner.__annotations__), repr(inner)[:9]


@case(T, types.SimpleNamespace(b=1))
def vars_of_a_namespace(x, names):
    names.a = x + 1
    found = vars(names)
    names.c = len(found)
    return sorted(found), len(vars(names)), found["a"], found["c"]


@case(T)
def vars_of_an_object_made_inside(x):
    thing = Thing(1)
    found = thing.__dict__
    thing.y = x
    found["w"] = 2
    before = list(found)
    del thing.x
    return before, thing.w, list(found), dict(vars(thing)), found is thing.__dict__


@case(T, Thing(1))
def dictionary_sees_attributes(x, thing):
    found = thing.__dict__
    keys, pairs = found.keys(), found.items()
    thing.y = x + 1
    thing.x = 5
    return list(found), found["x"], found.get("y"), len(found), "y" in found, list(keys), [key for key, _ in pairs]


@case(T, Thing(1))
def attributes_see_dictionary(x, thing):
    found = thing.__dict__
    found["x"] = x * 2
    found["z"] = 3
    found.update(k=4, x=found["x"] + 1)
    found.setdefault("z", 9)
    found.setdefault("q", 9)
    found |= {"r": 1}
    return thing.x, thing.z, thing.k, thing.q, thing.r, found is thing.__dict__, found


@case(T, Thing(1))
def names_deleted_in_the_dictionary(x, thing):
    found = vars(thing)
    thing.y = found.pop("x", 7)
    thing.t = x
    del thing.t
    return hasattr(thing, "x"), hasattr(thing, "t"), list(found)


@case(T, Thing(1))
def deleted_and_set_again(x, thing):
    thing.y = x
    del thing.x
    thing.x = 2
    return list(thing.__dict__)


@case(T, Thing(1))
def dictionary_cleared(x, thing):
    thing.__dict__.clear()
    thing.b = x
    return list(thing.__dict__)


@case(T, collections.defaultdict(list))
def default_items_stay(x, table):
    table["a"].append(x.shape[0])
    table["b"]
    return table, table.get("zz"), "q" in table


@case(T, [1, 2, 3], {"k": 1})
def operator_functions_that_write(x, items, table):
    operator.setitem(items, 0, 5)
    operator.setitem(table, "n", x)
    operator.delitem(items, 1)
    operator.iconcat(items, [9])
    return x + items[0], items, table, operator.concat(items, [1])


@case(T, Thing(1))
def dictionary_held_across_a_break(x, thing):
    found = thing.__dict__
    print("before")
    thing.y = x + 1
    thing.x = 5
    keys = list(found)
    print("between")
    found["x"] = 7
    return keys, found["x"], thing.x, found is thing.__dict__


@case(T)
def implicit_context_of_exceptions(x):
    try:
        try:
            {}["key"]
        finally:
            [][1]
    except IndexError as error:
        return x + 1, repr(error.__context__), error.__cause__
    return x


@case(T, (), ())
def empty_tuples_are_one(x, first, second):
    def passed(*arguments):
        return arguments

    return passed(*first) is first, first is second, tuple([]) is first, x


@case(T, torch.Size((4,)))
def arithmetic_of_sizes(x, size):
    results = (x.shape + (1,), (1,) + x.shape, x.shape + size, x.shape * 2, 2 * size, x.shape[:1])
    return x, [(type(each), tuple(each)) for each in results], x.expand(size + x.shape)


@case(T)
def messages_of_exceptions(x):
    attempts = [
        lambda: [1].index(2),
        lambda: (1, 2).index(9),
        lambda: max([]),
        lambda: min(()),
        lambda: dict([1]),
        lambda: dict([(1, 2, 3)]),
        lambda: map(5),
        lambda: reversed(5),
        lambda: reversed(iter([1])),
        lambda: [1].insert("a", 1),
        lambda: [1].pop("a"),
        lambda: {}.popitem(),
        lambda: collections.OrderedDict().popitem(),
        lambda: collections.OrderedDict(a=1).move_to_end("b"),
        lambda: [each for each, _ in [5]],
    ]
    found = []
    for attempt in attempts:
        try:
            attempt()
        except Exception as error:
            found.append((type(error), str(error)))
    return x, found


@case(T, {1: 2})
def dictionary_grows_while_iterated(x, table):
    try:
        for key in table:
            table[key + 1] = x
    except RuntimeError as error:
        return x, str(error), len(table)
    return x


@case(T, {1: 2, 2: 3})
def dictionary_shrinks_while_iterated(x, table):
    try:
        for key in table.items():
            table.pop(key[0])
    except RuntimeError as error:
        return x, str(error), len(table)
    return x


@case(T, {1: 2, 3: 4})
def iterator_of_a_dictionary_is_live(x, table):
    keys, values = iter(table), iter(table.values())
    first = next(keys), next(values)
    print("break")
    rest = list(keys)
    table[len(table) + 7] = x
    try:
        return first, rest, next(values)
    except RuntimeError as error:
        return first, rest, str(error)


@case(T, collections.OrderedDict(a=1, c=2))
def both_ends_of_an_ordered_dictionary(x, table):
    table["b"] = x
    table.move_to_end("a")
    table.move_to_end("b", last=False)
    first = table.popitem(last=False)
    table["a"] = table["c"] = 1
    return list(table), first[0]


class Leaving:
    def __init__(self):
        self.seen = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.seen.append((kind, trace is None, bool(trace)))
        return True


@case(T, Leaving())
def traceback_is_there(x, manager):
    with manager:
        x = x + 1
        raise ValueError("inside")
    try:
        raise KeyError("k")
    except KeyError as error:
        return x + 1, error.__traceback__ is None, manager.seen


@case(T)
def number_plus_tensor_in_place(x):
    total = count = 2
    total += x
    product = 3
    product *= x
    return total, count, product, count + x


@case(T, [])
def generator_left_inside_try(x, log):
    def items():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    for item in items():
        x = x + item
        break
    log.append("after")
    return x


REFUSED = {dictionary_held_across_a_break, generator_left_inside_try}
"""Programs of which a part runs uncompiled."""


@case(T)
def a_list_that_holds_itself(x):
    mine = [1]
    mine.append(mine)
    return x + 1, mine[1] is mine


@case(T)
def rounding_a_list(x):
    try:
        return round([1])
    except TypeError as error:
        return x + 1, str(error)[:20]
