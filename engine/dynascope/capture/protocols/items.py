"""`x[key]`, `x[key] = v`, `del x[key]`, `key in x`."""

from __future__ import annotations

import collections
import operator
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import numbers_in_tensors
from dynascope.capture.calls.pure import compute, value_of
from dynascope.capture.guard_log import can_change
from dynascope.capture.protocols import attribute_changes, lists
from dynascope.capture.protocols.attributes import special
from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import (
    MISSING,
    has_own_method,
    has_python_method,
    is_data_descriptor,
    lookup,
    member,
)
from dynascope.capture.protocols.contents import contents_of
from dynascope.capture.protocols.hashing import dictionary_key, hash_key
from dynascope.capture.protocols.iteration import elements, is_iterable
from dynascope.capture.protocols.number_keys import EQUAL_TO_NO_NUMBER, FEW, NUMBERS
from dynascope.capture.protocols.operators import are_equal, are_surely_one, is_pure_type
from dynascope.capture.protocols.overriding import check_elements
from dynascope.capture.reasons import ForeignValue, ProgramRaises
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    HEAP_TYPE,
    NONE,
    ArrayValue,
    ConstantValue,
    DictValue,
    DictViewValue,
    InstanceDictionaryValue,
    InstanceValue,
    ListValue,
    MutableValue,
    NotConstant,
    SetValue,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.frame.versions import RUNNING

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def slice_of(start: Value, stop: Value) -> SliceValue:
    return SliceValue((start, stop, NONE))


def get(machine: Machine, container: Value, key: Value) -> Any:
    container = machine.known(container)
    if isinstance(container, TensorValue) and not machine.overriding.asks_modes:
        from dynascope.capture.calls.late_numbers import with_tensors_for_places
        from dynascope.capture.calls.tensors import apply_function

        if machine.places_are_indices:
            from dynascope.capture.calls.functions_of_scores import indexed

            if (found := indexed(machine, container, key)) is not None:
                return found
        key = with_tensors_for_places(machine, container, machine.realize(key))
        return apply_function(machine, operator.getitem, [container, key], {})
    if isinstance(container, ArrayValue):
        from dynascope.capture.calls import numpy_arrays

        return numpy_arrays.item(machine, container, key)
    if isinstance(container, (ListValue, TupleValue)):
        return sequence_item(machine, container, machine.known(key))
    if isinstance(container, DictValue):
        return dictionary_item(machine, container, key)
    if isinstance(container, ConstantValue):
        return constant_item(machine, container, key)
    return by_method(machine, container, "__getitem__", [key])


def by_method(machine: Machine, container: Value, name: str, arguments: list[Value]) -> Any:
    check_elements(machine, container)
    cls = container.python_type
    if lookup(cls, name) is MISSING:
        if name == "__delitem__":
            raise deletion_refused(machine, container, arguments[0])
        verb = "is not subscriptable" if name == "__getitem__" else "does not support item assignment"
        raise machine.throw(TypeError, f"{name_in_errors(cls)!r} object {verb}")
    is_known = issubclass(cls, torch.Tensor) or contents_of(machine, container) is not None
    if not has_python_method(cls, name) and not is_known:
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    return machine.call(special(machine, container, name), arguments)


def deletion_refused(machine: Machine, container: Value, key: Value) -> Raised:
    """In the words of who has no such method, which depend on what the class is made of, and on whether the key is a place."""
    cls, is_place = container.python_type, lookup(machine.realize(key).python_type, "__index__") is not MISSING
    try:
        made = type(cls.__name__, (), {}) if cls.__flags__ & HEAP_TYPE else cls
        like = container.value if isinstance(container, ConstantValue) and made is cls else made()
    except TypeError:  # there is none without arguments
        raise Break(ProgramRaises("TypeError", machine.expression())) from None
    try:
        del like[0 if is_place else None]
    except TypeError as error:
        return machine.throw(TypeError, *error.args)
    raise Break(ProgramRaises("TypeError", machine.expression()))


def sequence_item(machine: Machine, sequence: ListValue | TupleValue, key: Value) -> Value:
    kind = "list" if isinstance(sequence, ListValue) else "tuple"  # of other classes too, whose items are those of one
    index = index_of(machine, key, kind)
    if isinstance(index, slice):
        items = compute_slice(machine, sequence.items, index)
        if isinstance(sequence, ListValue):
            return ListValue(list(items))
        if sequence.cls is tuple and len(items) == len(sequence.items) and index.step in (None, 1):
            return sequence
        return TupleValue(tuple(items), torch.Size if sequence.cls is torch.Size else tuple)
    if isinstance(sequence, ListValue) and (item := lists.from_end(machine, sequence, index)) is not None:
        return item
    try:
        return sequence.items[index]
    except IndexError:
        raise machine.throw(IndexError, f"{kind} index out of range") from None


def compute_slice(machine: Machine, items: Any, index: slice) -> Any:
    try:
        return items[index]
    except (TypeError, ValueError) as error:
        raise machine.throw(type(error), *error.args) from None


def index_of(machine: Machine, key: Value, owner: str) -> int | slice:
    key = machine.known(key)
    if isinstance(key, SliceValue):
        bounds = constant_of(SliceValue(tuple(bound_of(machine, machine.known(part), owner) for part in key.parts)))
        if type(bounds) is NotConstant:
            raise Break(ForeignValue(bounds.value.python_type.__name__, machine.expression()))
        return bounds
    is_own = has_own_method(key, "__index__") and not isinstance(key.value, int)
    if isinstance(key, ConstantValue) and hasattr(type(key.value), "__index__") and not is_own:
        return operator.index(key.value)
    if isinstance(key, TensorValue):
        from dynascope.capture.reasons import DataDependentValue

        known = numbers_in_tensors.number_in(machine, key)
        if isinstance(known, ConstantValue):
            return operator.index(known.value)
        raise Break(DataDependentValue(machine.expression(), "__index__"))
    if isinstance(key, InstanceValue) and issubclass(key.cls, int):  # it is an index itself, whatever its `__index__` says
        raise Break(ForeignValue(key.cls.__name__, machine.expression()))
    if is_own or isinstance(key, InstanceValue) and lookup(key.cls, "__index__") is not MISSING:
        made = machine.known(machine.call_now(special(machine, key, "__index__"), []))
        if isinstance(made, ConstantValue) and type(made.value) is int:
            return made.value
    raise Break(ProgramRaises("TypeError", machine.expression()))


def bound_of(machine: Machine, bound: Value, owner: str) -> Value:
    """What a slice of a sequence asks for an index has one by the same protocol."""
    asked = isinstance(bound, TensorValue) or (isinstance(bound, InstanceValue) and lookup(bound.cls, "__index__") is not MISSING)
    return ConstantValue(index_of(machine, bound, owner)) if asked else bound


def dictionary_item(machine: Machine, dictionary: DictValue, key: Value) -> Any:
    found = dictionary.items.get(dictionary_key(machine, dictionary, key))
    if found is not None:
        return found[1]
    if dictionary.instance is not None and lookup(dictionary.instance.cls, "__missing__") is not MISSING:
        return machine.call(special(machine, dictionary.instance, "__missing__"), [key])
    factory = machine.realize(dictionary.default_factory)
    if factory is not NONE and not (isinstance(factory, ConstantValue) and factory.value is None):
        made = machine.call_now(factory, [])
        put(machine, dictionary, key, made)
        machine.write(dictionary)
        return made
    raise machine.throw(KeyError, key)


def constant_item(machine: Machine, container: ConstantValue, key: Value) -> Any:
    thing = container.value
    if has_own_method(container, "__getitem__"):
        return machine.call(special(machine, container, "__getitem__"), [key])
    if isinstance(thing, type):
        return class_item(machine, container, key)
    known = constant_of(machine.known(key))
    if type(known) is NotConstant or not is_pure_type(thing):
        raise Break(ForeignValue(type(thing).__name__, machine.expression()))
    return value_of(compute(machine, operator.getitem, (thing, known)).value)


def class_item(machine: Machine, container: ConstantValue, key: Value) -> Any:
    """`list[int]`, `Color["RED"]`: computed for real, but for a `__class_getitem__` of the user's own."""
    thing = container.value
    getter = lookup(thing, "__class_getitem__")
    if isinstance(getter, classmethod) and can_change(getter.__func__):
        return machine.call(member(machine, thing, "__class_getitem__"), [container, key])
    known = constant_of(machine.known(key))
    if type(known) is NotConstant:
        raise Break(ForeignValue(known.value.python_type.__name__, machine.expression()))
    found = compute(machine, operator.getitem, (thing, known))
    return machine.outside.fixed(found.value, str(known))


def put(machine: Machine, dictionary: DictValue, key: Value, value: Value) -> None:
    """`d[key] = value` of a plain dict. An equal key that is there already stays."""
    if isinstance(dictionary, InstanceDictionaryValue):
        set_in_instance(machine, dictionary, key, value)
        return
    hashed = dictionary_key(machine, dictionary, key)
    known = dictionary.items.get(hashed)
    machine.journal.set_item(dictionary.items, hashed, (known[0] if known else machine.realize(key), value))


def set_in_instance(machine: Machine, container: InstanceDictionaryValue, key: Value, value: Value) -> None:
    """`x.__dict__["name"] = value` is `x.name = value` where the class has no say in it (cached properties do so)."""
    known = machine.known(key)
    if not is_there_beside_descriptor(machine, container, known, value):
        attribute_changes.put(machine, container.owner, attribute_changes.attribute_name(container, known), value)


def is_there_beside_descriptor(machine: Machine, container: InstanceDictionaryValue, key: Value, value: Value) -> bool:
    """Whether the key is a name that the class has a say in, and the object that is put there is there already: nothing changes."""
    if not isinstance(key, ConstantValue) or type(key.value) is not str or key.value not in container.items:
        return False
    entry = lookup(container.owner.python_type, key.value)
    if entry is MISSING or not is_data_descriptor(entry):
        return False
    return are_surely_one(machine.realize(container.items[key.value][1]), machine.realize(value))


def set(machine: Machine, container: Value, key: Value, value: Value) -> Any:
    container = machine.realize(container)
    if isinstance(container, InstanceDictionaryValue):
        set_in_instance(machine, container, key, value)
        return None
    if isinstance(container, DictValue):
        put(machine, container, key, value)
        machine.write(container)
        return None
    if isinstance(container, ListValue):
        return set_list_item(machine, container, key, value)
    if isinstance(container, TensorValue) and not machine.overriding.asks_modes:
        from dynascope.capture.calls import masked_writes
        from dynascope.capture.calls.late_numbers import with_tensors_for_places
        from dynascope.capture.calls.tensors import apply_function

        if not masked_writes.is_written(machine, container, key, value):
            key = with_tensors_for_places(machine, container, machine.realize(key))
            apply_function(machine, operator.setitem, [container, key, value], {})
        return None
    if isinstance(container, ArrayValue):
        from dynascope.capture.calls import numpy_arrays

        numpy_arrays.set_item(machine, container, key, value)
        return None
    return by_method(machine, container, "__setitem__", [key, value])


def set_list_item(machine: Machine, container: ListValue, key: Value, value: Value) -> None:
    index = index_of(machine, key, "list")
    items = list(container.items)
    try:
        is_part = isinstance(index, slice)
        items[index] = elements(machine, value) if is_part and is_iterable(machine.realize(value)) else None if is_part else value
    except TypeError as error:  # None is nothing to take items from
        raise machine.throw(TypeError, *error.args) from None
    except IndexError:
        raise machine.throw(IndexError, "list assignment index out of range") from None
    except ValueError as error:
        raise machine.throw(ValueError, *error.args) from None
    machine.journal.set(container, "items", items)
    machine.write(container)


def missing(machine: Machine, container: DictValue, key: Value) -> Raised:
    """The KeyError of `pop` and `move_to_end`. An OrderedDict sets its key as what was raised, which spreads tuples and None."""
    key = machine.realize(key)
    if container.cls is not collections.OrderedDict:
        return machine.throw(KeyError, key)
    if isinstance(key, ConstantValue) and (key.value is None or isinstance(key.value, tuple)):
        return machine.throw(KeyError, *(key.value or ()))
    return machine.throw(KeyError, *(key.items if isinstance(key, TupleValue) else (key,)))


def delete(machine: Machine, container: Value, key: Value) -> Any:
    container = machine.realize(container)
    if isinstance(container, DictValue):
        hashed = dictionary_key(machine, container, key)
        if hashed not in container.items:
            raise machine.throw(KeyError, key)
        remaining = {known: pair for known, pair in container.items.items() if known != hashed}
        return replace(machine, container, remaining)
    if isinstance(container, ListValue):
        remaining = list(container.items)
        try:
            del remaining[index_of(machine, key, "list")]
        except IndexError:
            raise machine.throw(IndexError, "list assignment index out of range") from None
        return replace(machine, container, remaining)
    return by_method(machine, container, "__delitem__", [key])


def replace(machine: Machine, container: MutableValue, items: Any) -> None:
    if isinstance(container, InstanceDictionaryValue):
        for key in [key for key in container.items if key not in items]:
            name = attribute_changes.attribute_name(container, ConstantValue(key))
            attribute_changes.remove(machine, container.owner, name)
        return
    if isinstance(container, ListValue):
        machine.journal.set(container, "rearranged", container.rearranged + 1)
    if isinstance(container, DictValue) and container.gone is not None:
        machine.journal.set(container, "gone", container.gone.union(container.items.keys() - items.keys()))
    machine.journal.set(container, "items", items)
    machine.write(container)


def key_in_set(machine: Machine, item: Value) -> Any:
    """A set that is looked for in a set is taken for the frozenset of its items."""
    item = machine.realize(item)
    return frozenset(item.items) if isinstance(item, SetValue) else hash_key(machine, item)


def contains(machine: Machine, container: Value, item: Value) -> bool:
    from dynascope.capture.protocols.truth import truth

    container = machine.known(container)
    if (found := is_one_of_few(machine, container, item)) is not None:
        return found
    if isinstance(container, SetValue):
        return key_in_set(machine, item) in container.items
    if isinstance(container, DictValue):
        return dictionary_key(machine, container, item) in container.items
    if isinstance(container, (ListValue, TupleValue)):
        return any(are_equal(machine, each, item) for each in container.items)
    if isinstance(container, DictViewValue):
        if container.kind == "keys":
            return dictionary_key(machine, container.dictionary, item) in container.dictionary.items
        return any(are_equal(machine, each, item) for each in container.elements())
    if isinstance(container, ConstantValue) and not has_own_method(container, "__contains__"):
        known = constant_of(machine.known(item))
        if type(known) is not NotConstant and is_pure_type(container.value):
            return compute(machine, operator.contains, (container.value, known)).value
    has_own = isinstance(container, (InstanceValue, ConstantValue)) and has_python_method(container.python_type, "__contains__")
    if has_own or isinstance(container, InstanceValue) and contents_of(machine, container) is not None:
        return truth(machine, machine.call_now(special(machine, container, "__contains__"), [item]))
    in_c = isinstance(container, InstanceValue) and lookup(container.cls, "__contains__") is not MISSING
    if in_c or isinstance(container, (TensorValue, ConstantValue, SymbolicNumber)):
        raise Break(ForeignValue(container.python_type.__name__, machine.expression()))
    return any(are_equal(machine, each, item) for each in elements(machine, container))


def is_one_of_few(machine: Machine, container: Value, item: Value) -> bool | None:
    """Whether an integer that varies is among the keys, asked of each as of a list's items, so that it stays one where it is none of
    them (`epoch in milestones`). None where that is for the key itself to say."""
    item = machine.realize(item)
    if not isinstance(item, SymbolicNumber) or item.python_type is not int:
        return None
    if isinstance(container, DictViewValue) and container.kind == "keys":
        container = container.dictionary
    if isinstance(container, ConstantValue) and type(container.value) is frozenset:
        keys = list(container.value)
    elif isinstance(container, SetValue | DictValue):
        keys = list(container.items)
    else:
        return None
    numbers = [int(key) for key in keys if type(key) in NUMBERS and (type(key) is not float or key.is_integer())]
    others_differ = all(isinstance(key, EQUAL_TO_NO_NUMBER) for key in keys if type(key) not in NUMBERS)
    if len(numbers) > FEW or not others_differ:
        return None
    return any(are_equal(machine, ConstantValue(number), item) for number in numbers)


def not_a_pair(machine: Machine, where: str) -> Raised:
    if not RUNNING.pair_refusal_has_note:
        return machine.throw(TypeError, f"cannot convert {where} to a sequence")
    raised = machine.throw(TypeError, "object is not iterable")
    raised.value.attributes["__notes__"] = ListValue([ConstantValue(f"Cannot convert {where} to a sequence")])
    return raised


def pairs(machine: Machine, mapping: Value) -> list[tuple[Value, Value]]:
    """Keys and values of a mapping, or of an iterable of pairs."""
    mapping = machine.realize(mapping)
    if isinstance(mapping, DictValue):
        return list(mapping.items.values())
    if isinstance(mapping, InstanceValue) and lookup(mapping.cls, "__iter__") is dict.__iter__:
        if (contents := contents_of(machine, mapping)) is not None:
            return list(contents.items.values())
    if isinstance(mapping, InstanceValue) and lookup(mapping.cls, "keys") is not MISSING:
        keys = elements(machine, machine.call_now(member(machine, mapping.cls, "keys", mapping), [mapping]))
        return [(key, machine.finish(get(machine, mapping, key))) for key in keys]
    result = []
    for at, pair in enumerate(elements(machine, mapping)):
        where = f"dictionary update sequence element #{at}"
        if not is_iterable(machine.realize(pair)):
            raise not_a_pair(machine, where)
        parts = elements(machine, pair)
        if len(parts) != 2:
            raise machine.throw(ValueError, f"{where} has length {len(parts)}; 2 is required")
        result.append((parts[0], parts[1]))
    return result
