"""Methods of lists, tuples, dicts and sets, by their descriptors: `list.append` is the key of its meaning."""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls import equivalents, texts
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.iterators import backwards, sort_places
from dynascope.capture.calls.pure import fails_like
from dynascope.capture.calls.registry import MEANINGS, meaning
from dynascope.capture.calls.signatures import accepts
from dynascope.capture.protocols import items, length_hints, lists, operators
from dynascope.capture.protocols.classes import has_python_method, lookup
from dynascope.capture.protocols.contents import contents_of
from dynascope.capture.protocols.hashing import dictionary_key, hash_key
from dynascope.capture.protocols.iteration import elements, is_iterable, iterator, known_elements
from dynascope.capture.protocols.set_making import given_as, note_change, recipe
from dynascope.capture.protocols.truth import truth
from dynascope.capture.reasons import ForeignValue, ProgramRaises
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    NONE,
    TRUE,
    ConstantValue,
    DictValue,
    DictViewValue,
    EitherValue,
    InstanceValue,
    ListValue,
    SetValue,
    TextValue,
    TupleValue,
    Value,
    boolean,
    constant_of,
)

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

DICTIONARIES = (dict, collections.OrderedDict, collections.defaultdict)


def container_of(machine: Machine, value: Value) -> Value:
    """The container that an inherited method works on."""
    contents = contents_of(machine, value)
    if contents is not None:
        return contents
    if not isinstance(value, (ListValue, TupleValue, DictValue, SetValue)):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    return value


MOVED = (TextValue, EitherValue)


def method(*classes: type, moves: bool = False) -> Callable[[Any], Any]:
    """Registers `def name(machine, value, *arguments, **keywords)` as the method `name` of the classes. One that only `moves` what it is
    given does not look into a text, or at what may be either of two."""

    def register(function: Any) -> Any:
        name = function.__name__
        for cls in classes:
            MEANINGS[getattr(cls, name if name.endswith("__") else name.removesuffix("_"))] = on_container(function, moves)
        return function

    return register


def on_container(function: Any, moves: bool = False) -> Any:
    """The meaning of a method whose first argument is the container that it works on."""

    def run(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        values = [each if moves and isinstance(each, MOVED) else machine.realize(each) for each in arguments]
        values[0] = container_of(machine, values[0])
        try:
            return function(machine, *values, **keywords)
        except TypeError:
            # CPython tells no signature of some methods; those here take the same.
            if accepts(function, len(values) + 1, tuple(keywords)):
                raise
            raise Break(ProgramRaises("TypeError", machine.expression())) from None

    return run


@method(list, moves=True)
def append(machine: Machine, value: ListValue, item: Value) -> Value:
    lists.add(machine, value, [item])
    return NONE


@method(list)
def extend(machine: Machine, value: ListValue, more: Value) -> Any:
    """Items of an iterator are there as they come: it may look at the list. Of the list itself it is those there before."""
    more = machine.known(more)
    is_itself = isinstance(more, InstanceValue) and more is value.instance
    if is_itself and lookup(more.cls, "__iter__") is not list.__iter__:
        raise Break(ForeignValue(more.cls.__name__, machine.expression()))  # some versions of CPython ask it, and some do not
    known = list(value.items) if is_itself else known_elements(machine, more)
    if known is None and length_hints.is_asked(more):
        source = iterator(machine, more)
        length_hints.ask(machine, more)
        return equivalents.enter(machine, equivalents.list_extend_by_rest, [value, source])
    if known is None:
        return equivalents.enter(machine, equivalents.list_extend_by, [value, more])
    lists.add(machine, value, known)
    return NONE


@method(list)
def __iadd__(machine: Machine, value: ListValue, more: Value) -> Value:
    machine.finish(extend(machine, value, more))
    return value.instance or value


def position(machine: Machine, at: Value) -> int:
    at = machine.known(at)
    if isinstance(at, ConstantValue) and not hasattr(type(at.value), "__index__"):
        kind = type(at.value).__name__
        raise machine.throw(TypeError, f"{kind!r} object cannot be interpreted as an integer")
    return items.index_of(machine, at, "list")


@method(list)
def insert(machine: Machine, value: ListValue, at: Value, item: Value) -> Value:
    changed = list(value.items)
    changed.insert(position(machine, at), item)
    items.replace(machine, value, changed)
    return NONE


@method(list)
def pop(machine: Machine, value: ListValue, at: Value = ConstantValue(-1)) -> Value:  # noqa: B008
    where = position(machine, at)
    found = lists.take(machine, value, where) if type(where) is int and where in (0, -1) else None
    if found is not None:
        return found
    changed = list(value.items)
    try:
        taken = changed.pop(where)
    except IndexError as error:
        raise machine.throw(IndexError, *error.args) from None
    items.replace(machine, value, changed)
    return taken


@method(list)
def remove(machine: Machine, value: ListValue, item: Value) -> Value:
    at = place_of(machine, value, item)
    if at is None:
        raise machine.throw(ValueError, "list.remove(x): x not in list")
    return without(machine, value, at)


def without(machine: Machine, value: ListValue, at: int) -> Value:
    items.replace(machine, value, value.items[:at] + value.items[at + 1 :])
    return NONE


@method(list)
def reverse(machine: Machine, value: ListValue) -> Value:
    items.replace(machine, value, value.items[::-1])
    return NONE


@method(list)
def sort(machine: Machine, value: ListValue, **keywords: Value) -> Value:
    """While keys are made and compared the list is empty: what is put there meanwhile is lost, and an error. Whether it is one where
    all was taken out again hangs on the memory that Python holds for the list."""
    held, empty = list(value.items), []
    order = list(range(len(held)))
    items.replace(machine, value, empty)
    try:
        sort_places(machine, held, keywords, order)
    except Raised:
        items.replace(machine, value, [held[at] for at in order])
        raise
    is_written = bool(value.items)
    if not is_written and value.items is not empty:
        raise Break(ProgramRaises("ValueError", machine.expression()))
    items.replace(machine, value, [held[at] for at in order])
    if is_written:
        raise machine.throw(ValueError, "list modified during sort")
    return NONE


@method(list)
def clear(machine: Machine, value: ListValue) -> Value:
    items.replace(machine, value, [])
    return NONE


@method(list)
def copy(machine: Machine, value: ListValue) -> Value:
    return ListValue(list(value.items))


def place_of(machine: Machine, value: ListValue | TupleValue, item: Value, bounds: Sequence[Value] = ()) -> int | None:
    """Where the first equal item is, between the bounds; None where there is none."""
    limits = [items.index_of(machine, each, "list") for each in bounds]
    if any(isinstance(limit, slice) for limit in limits):
        raise machine.throw(TypeError, "slice indices must be integers or have an __index__ method")
    places = range(*slice(*(limits or [None])[:1], *(limits[1:] or [None])).indices(len(value.items)))
    return next((at for at in places if operators.are_equal(machine, value.items[at], item)), None)


@method(list, tuple)
def index(machine: Machine, value: ListValue | TupleValue, item: Value, *bounds: Value) -> Value:
    at = place_of(machine, value, item, bounds)
    if at is not None:
        return ConstantValue(at)
    raise fails_like(machine, value.python_type.index, value, item, *bounds)


@method(list, tuple)
def count(machine: Machine, value: ListValue | TupleValue, item: Value) -> Value:
    return ConstantValue(sum(operators.are_equal(machine, each, item) for each in value.items))


@method(*DICTIONARIES, types.MappingProxyType)
def get(machine: Machine, value: DictValue, key: Value, default: Value = NONE) -> Value:
    found = value.items.get(dictionary_key(machine, value, key))
    return default if found is None else found[1]


@method(*DICTIONARIES, types.MappingProxyType)
def keys(machine: Machine, value: DictValue) -> Value:
    return DictViewValue(value, "keys")


@method(*DICTIONARIES, types.MappingProxyType)
def values(machine: Machine, value: DictValue) -> Value:
    return DictViewValue(value, "values")


def items_(machine: Machine, value: DictValue) -> Value:
    return DictViewValue(value, "items")


method(*DICTIONARIES, types.MappingProxyType)(items_)


def refuse_own_methods(machine: Machine, value: DictValue, *names: str) -> None:
    """An OrderedDict goes through the methods of its class, where a dict does not."""
    instance = value.instance
    if instance is not None and value.cls is not dict:
        if not names or any(has_python_method(instance.cls, name) for name in names):
            raise Break(ForeignValue(instance.cls.__name__, machine.expression()))


def copy_(machine: Machine, value: DictValue | SetValue) -> Value:
    if isinstance(value, SetValue):
        return value if value.cls is frozenset else SetValue(dict(value.items), value.cls, recipe=recipe(set.copy, value.recipe))
    if value.instance is None or value.instance.cls not in DICTIONARIES:  # attributes of an OrderedDict are not copied
        refuse_own_methods(machine, value)
    if value.instance is not None and has_python_method(value.instance.cls, "__iter__"):  # then C asks for keys and each item
        raise Break(ForeignValue(value.instance.cls.__name__, machine.expression()))
    made = DictValue(dict(value.items), value.cls)
    made.default_factory = value.default_factory
    return made


method(*DICTIONARIES, set, frozenset)(copy_)


def pop_(machine: Machine, value: DictValue, key: Value, *default: Value) -> Value:
    refuse_own_methods(machine, value, "__getitem__", "__delitem__", "__contains__")
    # In an empty one nothing is looked for: the key may be one that has no hash.
    found = value.items.get(dictionary_key(machine, value, key)) if value.items else None
    if found is None:
        if default:
            return default[0]
        raise items.missing(machine, value, key)
    items.delete(machine, value, key)
    return found[1]


method(*DICTIONARIES)(pop_)


@method(*DICTIONARIES)
def setdefault(machine: Machine, value: DictValue, key: Value, default: Value = NONE) -> Value:
    refuse_own_methods(machine, value, "__getitem__", "__setitem__", "__contains__")
    found = value.items.get(dictionary_key(machine, value, key))
    if found is not None:
        return found[1]
    items.set(machine, value, key, default)
    return default


def update(machine: Machine, value: DictValue, *others: Value, **keywords: Value) -> Value:
    if value.instance is not None and value.cls is not dict:
        return update_by_method(machine, value.instance, others, keywords)
    for other in others:
        if isinstance(other, DictValue):
            for key, item in items.pairs(machine, other):
                items.set(machine, value, key, item)
        else:
            machine.finish(equivalents.enter(machine, equivalents.update_of(value.cls), [value, other]))
    for name, item in keywords.items():
        items.set(machine, value, ConstantValue(name), item)
    return NONE


def update_by_method(machine: Machine, instance: Value, others: Sequence[Value], keywords: Keywords) -> Value:
    """`OrderedDict.update` sets each item as `instance[key] = item` does, and has words of its own for what is no pair."""
    named = [DictValue({name: (ConstantValue(name), item) for name, item in keywords.items()})] if keywords else []
    for other in (*others, *named):
        machine.finish(equivalents.enter(machine, equivalents.update_of(instance.python_type), [instance, other]))
    return NONE


method(*DICTIONARIES)(update)


def update_(machine: Machine, value: SetValue, *others: Value) -> Any:
    if others and all(isinstance(other, (SetValue, DictValue)) for other in others):  # all at once
        for other in others:
            found = operators.as_set_items(machine, other)
            items.replace(machine, value, operators.SET_OPERATIONS[operator.or_](value.items, found))
            note_change(machine, value, set.update, given_as(other, found))
        return NONE
    return equivalents.enter(machine, equivalents.set_update_by, [value, *others])


method(set)(update_)


def clear_(machine: Machine, value: DictValue | SetValue) -> Value:
    items.replace(machine, value, {})
    if isinstance(value, SetValue):
        note_change(machine, value, set.clear)
    else:
        machine.journal.set(value, "gone", None)
    return NONE


method(*DICTIONARIES, set)(clear_)


@method(*DICTIONARIES)
def popitem(machine: Machine, value: DictValue, last: Value = TRUE) -> Value:
    refuse_own_methods(machine, value, "__getitem__", "__delitem__", "__contains__")
    if not value.items:
        raise fails_like(machine, value.cls().popitem)
    pairs = list(value.items.values())
    key, item = pairs[-1 if truth(machine, last) else 0]
    items.delete(machine, value, key)
    return TupleValue((key, item))


@method(collections.OrderedDict)
def move_to_end(machine: Machine, value: DictValue, key: Value, last: Value = TRUE) -> Value:
    hashed = dictionary_key(machine, value, key)
    if hashed not in value.items:
        raise items.missing(machine, value, key)
    pair = value.items[hashed]
    others = {known: each for known, each in value.items.items() if known != hashed}
    items.replace(machine, value, {**others, hashed: pair} if truth(machine, last) else {hashed: pair, **others})
    return NONE


@method(set)
def add(machine: Machine, value: SetValue, item: Value) -> Value:
    hashed = hash_key(machine, item)
    if hashed not in value.items:
        machine.journal.set_item(value.items, hashed, item)
        machine.write(value)
        note_change(machine, value, set.add, hashed)
    return NONE


@method(set)
def discard(machine: Machine, value: SetValue, item: Value) -> Value:
    hashed = items.key_in_set(machine, item)
    if hashed in value.items:
        items.replace(machine, value, {known: each for known, each in value.items.items() if known != hashed})
        note_change(machine, value, set.discard, hashed)
    return NONE


def remove_(machine: Machine, value: SetValue, item: Value) -> Value:
    if items.key_in_set(machine, item) not in value.items:
        raise machine.throw(KeyError, item)
    return discard(machine, value, item)


method(set)(remove_)


def pop_of_set(machine: Machine, value: SetValue) -> Value:
    """Which item it is CPython says of a set that came to be in the same way; of one from outside that holds several nobody knows."""
    if not value.items:
        raise machine.throw(KeyError, "pop from an empty set")
    if len(value.items) == 1:
        (key,) = value.items
    elif value.told_order() is not None and value.recipe is not None:
        key = value.recipe.made().pop()
    else:
        raise Break(ForeignValue("set", machine.expression()))
    item = value.items[key]
    items.replace(machine, value, {known: each for known, each in value.items.items() if known != key})
    note_change(machine, value, set.pop)
    return item


MEANINGS[set.pop] = on_container(pop_of_set)


def _update_by(name: str, function: Any) -> None:
    def run(machine: Machine, value: SetValue, *others: Value) -> Value:
        if function is operator.xor and len(others) != 1:
            raise Break(ProgramRaises("TypeError", machine.expression()))
        found, given = value.items, []
        for other in others:
            taken = operators.as_set_items(machine, other)
            given.append(given_as(other, taken))
            found = operators.SET_OPERATIONS[function](found, taken)
        items.replace(machine, value, dict(found))
        note_change(machine, value, getattr(set, name), *given)
        return NONE

    MEANINGS[getattr(set, name)] = on_container(run)


for _name, _function in {"intersection": operator.and_, "difference": operator.sub, "symmetric_difference": operator.xor}.items():
    _update_by(f"{_name}_update", _function)


@method(set, frozenset)
def issubset(machine: Machine, value: SetValue, other: Value) -> Value:
    return boolean(set(value.items) <= set(operators.as_set_items(machine, other)))


@method(set, frozenset)
def issuperset(machine: Machine, value: SetValue, other: Value) -> Value:
    return boolean(set(value.items) >= set(operators.as_set_items(machine, other)))


@method(set, frozenset)
def isdisjoint(machine: Machine, value: SetValue, other: Value) -> Value:
    return boolean(set(value.items).isdisjoint(operators.as_set_items(machine, other)))


def _combine(name: str, function: Any) -> None:
    def run(machine: Machine, value: SetValue, *others: Value) -> Value:
        select = operators.SET_OPERATIONS[function]
        found, given = value.items, [value.recipe]
        for other in others:
            taken = operators.as_set_items(machine, other)
            given.append(given_as(other, taken))
            found = select(found, taken)
        return SetValue(dict(found), value.cls, recipe=recipe(getattr(value.cls, name), *given))

    run.__name__ = name
    method(set, frozenset)(run)


for _name, _function in {
    "union": "or_",
    "intersection": "and_",
    "difference": "sub",
    "symmetric_difference": "xor",
}.items():
    _combine(_name, getattr(operator, _function))


def view_is_disjoint(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    if len(arguments) != 2 or keywords:
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return equivalents.enter(machine, equivalents.view_is_disjoint, [*arguments])


def _protocol(classes: tuple[type, ...], name: str, function: Any) -> None:
    for cls in classes:
        if name in vars(cls):
            MEANINGS[getattr(cls, name)] = on_container(function)


_ALL = (list, tuple, set, frozenset, types.MappingProxyType, *DICTIONARIES)
_protocol(_ALL, "__getitem__", items.get)
_protocol(_ALL, "__setitem__", lambda machine, *parts: items.set(machine, *parts) or NONE)
_protocol(_ALL, "__delitem__", lambda machine, *parts: items.delete(machine, *parts) or NONE)
_protocol(_ALL, "__contains__", lambda machine, value, item: boolean(items.contains(machine, value, item)))
for _view in (type({}.keys()), type({}.items())):
    MEANINGS[_view.__contains__] = lambda machine, arguments, keywords: boolean(items.contains(machine, *arguments))
    MEANINGS[_view.isdisjoint] = view_is_disjoint
_protocol(_ALL, "__iter__", iterator)
_protocol((list, *DICTIONARIES, types.MappingProxyType), "__reversed__", backwards)
_protocol(_ALL, "__len__", lambda machine, value: lists.length(machine, value))
_protocol((tuple, frozenset), "__init__", lambda machine, *parts: NONE)


@method(set)
def __init__(machine: Machine, value: SetValue, *given: Value) -> Any:
    """Once more, of a set that is there already: it holds these alone."""
    if len(given) > 1:
        raise machine.throw(TypeError, f"set expected at most 1 argument, got {len(given)}")
    clear_(machine, value)
    return update_(machine, value, *given)


@meaning(str.join)
def join(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    separator, parts = machine.known(arguments[0]), machine.known(arguments[1])
    if not is_iterable(parts):
        raise machine.throw(TypeError, "can only join an iterable")
    return joined(machine, separator.value, parts)


def joined(machine: Machine, separator: str, parts: Value) -> Value:
    items = elements(machine, parts)
    if all(isinstance(item, TextValue) or isinstance(constant_of(item), str) for item in items):
        apart = [] if not separator else [ConstantValue(separator)]
        varying = texts.concatenated(machine, [part for item in items for part in (*apart, item)][len(apart) :])
        if varying is not None:
            return varying
    known = [machine.known(each) for each in items]
    for at, text in enumerate(known):
        if not isinstance(text, ConstantValue) or not isinstance(text.value, str):
            kind = text.python_type.__name__
            raise machine.throw(TypeError, f"sequence item {at}: expected str instance, {kind} found")
    return ConstantValue(separator.join(text.value for text in known))
