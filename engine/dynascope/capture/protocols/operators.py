"""Arithmetic, comparison and identity over values.

binary(machine, "+", a, b)      constants are computed, tensors go into the graph, the rest asks `__add__`, `__radd__`
compare(machine, "<", a, b)
"""

from __future__ import annotations

import collections
import enum
import operator
import weakref
from collections.abc import Callable
from types import FunctionType, WrapperDescriptorType
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture import functions_of_results
from dynascope.capture.calls import repeated_lists, texts
from dynascope.capture.calls.own_texts import asks_program, with_texts
from dynascope.capture.calls.pure import compute
from dynascope.capture.distributed_values import DistributedValue
from dynascope.capture.functions_of_results import FunctionOfResultValue
from dynascope.capture.numpy_numbers import is_dtype, says_type
from dynascope.capture.protocols import lists, number_keys
from dynascope.capture.protocols.attributes import special
from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import MISSING, has_own_method, has_python_method, lookup
from dynascope.capture.protocols.overriding import check_elements
from dynascope.capture.protocols.set_making import given_as, note_change, recipe
from dynascope.capture.reasons import ForeignValue, ProgramRaises, TensorAttribute, TextOfTensor
from dynascope.capture.signals import Break, Raised
from dynascope.capture.sizes import number_in
from dynascope.capture.values import (
    HEAP_TYPE,
    TRUE,
    AddressValue,
    ArrayValue,
    ConditionValue,
    ConstantValue,
    CountValue,
    DictValue,
    DictViewValue,
    FunctionValue,
    GeneratorValue,
    InstanceDictionaryValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    MethodValue,
    NotConstant,
    PartialValue,
    SetValue,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TextValue,
    TupleValue,
    TurnValue,
    Value,
    WeakReferenceValue,
    ZipValue,
    boolean,
    constant_of,
)
from dynascope.dataclass import dataclass
from dynascope.guards.guard import IdentityIs, IsSameObject, NotSameObject
from dynascope.sizes import kind_of as kind_of_number
from dynascope.sizes.size import relation_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@dataclass(frozen=True, slots=True)
class Operator:
    """One binary operator: its function, and the special methods that Python asks, in order."""

    function: Callable[[Any, Any], Any]
    method: str
    reflected: str
    in_place_method: str | None = None


def _operator(function: str, method: str) -> Operator:
    return Operator(getattr(operator, function), f"__{method}__", f"__r{method}__")


def _in_place(function: str, method: str) -> Operator:
    return Operator(getattr(operator, function), f"__{method}__", f"__r{method}__", f"__i{method}__")


PLAIN = {
    "+": ("add", "add"),
    "-": ("sub", "sub"),
    "*": ("mul", "mul"),
    "/": ("truediv", "truediv"),
    "//": ("floordiv", "floordiv"),
    "%": ("mod", "mod"),
    "**": ("pow", "pow"),
    "@": ("matmul", "matmul"),
    "&": ("and_", "and"),
    "|": ("or_", "or"),
    "^": ("xor", "xor"),
    "<<": ("lshift", "lshift"),
    ">>": ("rshift", "rshift"),
}
OPERATORS = {symbol: _operator(*names) for symbol, names in PLAIN.items()}
PLAIN_BY_METHOD = {op.method: op for op in OPERATORS.values()}
OPERATORS |= {f"{symbol}=": _in_place("i" + names[1], names[1]) for symbol, names in PLAIN.items()}
DIVMOD = Operator(divmod, "__divmod__", "__rdivmod__")
COMPARING = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"})
COMPARISONS = {
    "==": Operator(operator.eq, "__eq__", "__eq__"),
    "!=": Operator(operator.ne, "__ne__", "__ne__"),
    "<": Operator(operator.lt, "__lt__", "__gt__"),
    "<=": Operator(operator.le, "__le__", "__ge__"),
    ">": Operator(operator.gt, "__gt__", "__lt__"),
    ">=": Operator(operator.ge, "__ge__", "__le__"),
}
UNARY = {
    "UNARY_NEGATIVE": Operator(operator.neg, "__neg__", "__neg__"),
    "UNARY_POSITIVE": Operator(operator.pos, "__pos__", "__pos__"),
    "UNARY_INVERT": Operator(operator.invert, "__invert__", "__invert__"),
}
# Operators under which a symbolic number stays one: exact in the graph, and raising for no value.


def binary(machine: Machine, symbol: str, left: Value, right: Value) -> Any:
    return apply(machine, OPERATORS[symbol], left, right)


def apply(machine: Machine, op: Operator, left: Value, right: Value) -> Any:
    kinds = (type(left), type(right))
    if AddressValue in kinds:
        if kinds == (AddressValue, AddressValue) and op.function in (operator.eq, operator.ne):
            return boolean((left.of is right.of) == (op.function is operator.eq))
        raise Break(ForeignValue("address", machine.expression()))
    if ArrayValue in kinds:
        from dynascope.capture.calls import numpy_arrays

        return numpy_arrays.binary(machine, op, left, right)
    if op.method == "__mod__" and isinstance(left, ConstantValue) and isinstance(left.value, (str, bytes)) and asks_program(machine, right):
        left, right = with_texts(machine, left, right)
        kinds = type(left), type(right)
    if kinds == (ConstantValue, ConstantValue):
        return of_constants(machine, op, left, right)
    if TextValue in kinds or (op.method == "__mod__" and isinstance(left, ConstantValue) and type(left.value) is str):
        return of_texts(machine, op, left, right)
    if DistributedValue in kinds:
        return of_distributed(machine, op, left, right)
    if TensorValue in kinds:
        if InstanceValue in kinds or machine.overriding.asks_modes:
            return by_methods(machine, op, left, right)
        return of_tensors(machine, op, left, right)
    if SymbolicNumber in kinds:
        return of_numbers(machine, op, left, right)
    return of_containers(machine, op, left, right)


def of_constants(machine: Machine, op: Operator, left: ConstantValue, right: ConstantValue) -> Any:
    from dynascope.capture.outside import LITERAL_TYPES

    if type(left.value) in LITERAL_TYPES and type(right.value) in LITERAL_TYPES:
        return compute(machine, op.function, (left.value, right.value))
    if any(has_python_method(type(side.value), op.method) for side in (left, right)):
        return by_methods(machine, op, left, right)
    if has_own_method(right, op.reflected) or op.in_place_method and has_own_method(left, op.in_place_method):
        return by_methods(machine, op, left, right)
    for side in (left, right):
        if not is_pure_type(side.value) and not is_compared_in_c(side.value, op) and not is_inherited(side.value, op):
            raise Break(ForeignValue(type(side.value).__name__, machine.expression()))
    sides = (left.value, right.value)
    if any(map(is_dtype, sides)) and not all(map(says_type, sides)):
        raise Break(ForeignValue(type(left.value).__name__, machine.expression()))
    return compute(machine, op.function, sides)


TEXT_RULES: dict[Any, Any] = {
    operator.add: lambda machine, left, right: texts.concatenated(machine, (left, right)),
    operator.mod: lambda machine, left, right: texts.percent(machine, left, right),
}


def of_texts(machine: Machine, op: Operator, left: Value, right: Value) -> Any:
    function = PLAIN_BY_METHOD[op.method].function if op.in_place_method is not None else op.function
    if isinstance(left, TextValue) or (isinstance(left, ConstantValue) and type(left.value) is str):
        rule = TEXT_RULES.get(function)
        if rule is not None and (varying := rule(machine, left, right)) is not None:
            return varying
    if isinstance(right, TensorValue):
        return of_tensors(machine, op, machine.realize(left), right)
    left, right = machine.known(left), machine.known(right)
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        return of_constants(machine, op, left, right)
    return of_containers(machine, op, left, right)


def is_compared_in_c(value: Any, op: Operator) -> bool:
    """By identity, or as the string or number that a member of an enum is. Methods in Python were looked for before."""
    if isinstance(value, enum.Enum):
        return op.method in COMPARING
    return op.method in ("__eq__", "__ne__") and lookup(type(value), "__eq__") is object.__eq__


def is_inherited(value: Any, op: Operator) -> bool:
    """Whether its class has the operator from numbers or text as they are (`class Level(IntEnum)`). Methods in Python were looked for
    before."""
    entries = [lookup(type(value), name) for name in (op.method, op.reflected)]
    return all(entry is MISSING or getattr(entry, "__objclass__", object) in INHERITED for entry in entries)


INHERITED = (int, float, bool, complex, str, bytes, object)


def is_pure_type(value: Any) -> bool:
    """Whether operators of a fixed object run no code of the user's and change nothing."""
    from dynascope.capture.places import is_library_name

    is_known = is_library_name(type(value).__module__) or type(value).__module__ == "builtins"
    return is_known or isinstance(value, type) or is_dtype(value)


def of_distributed(machine: Machine, op: Operator, left: Value, right: Value) -> Any:
    from dynascope.capture.calls.tensors import apply_function

    if machine.overriding.asks_modes:
        raise Break(ForeignValue("DTensor", machine.expression()))
    return apply_function(machine, op.function, [left, right], {})


def of_tensors(machine: Machine, op: Operator, left: Value, right: Value) -> Any:
    from dynascope.capture.calls.late_truths import as_operand
    from dynascope.capture.calls.tensors import apply_function

    if op.in_place_method is not None and not isinstance(left, TensorValue):
        # `n += tensor` gives `n` another value: in a graph's code it would overwrite the number.
        op = PLAIN_BY_METHOD[op.method]
    if op.method == "__mod__" and isinstance(left, ConstantValue) and isinstance(left.value, str):
        raise Break(TextOfTensor(machine.expression()))
    if op.function in (operator.eq, operator.ne) and any(map(equals_no_tensor, (left, right))):
        return boolean(op.function is operator.ne)
    return apply_function(machine, op.function, [as_operand(machine, left), as_operand(machine, right)], {})


EQUAL_TO_NO_TENSOR = {list, tuple, torch.Size, dict, set, frozenset, type(None), str, bytes, type, torch.dtype, torch.device, FunctionType}


def equals_no_tensor(value: Value) -> bool:
    """Whether `x == value` is False for each tensor: torch compares with numbers and tensors, and Python goes by identity then."""
    cls = type(value.value) if isinstance(value, ConstantValue) else value.python_type
    return cls in EQUAL_TO_NO_TENSOR


def of_numbers(machine: Machine, op: Operator, left: Value, right: Value) -> Any:
    found = machine.sizes.compute(op.function, (left, right))
    if found is None and op.function is operator.mul and (longer := repeated_lists.repeated(machine, left, right)) is not None:
        return longer
    if found is None and op.method in COMPARING and (found := condition(machine, op.function, left, right)) is not None:
        return found
    return apply(machine, op, machine.known(left), machine.known(right)) if found is None else found


def condition(machine: Machine, function: Any, left: Value, right: Value) -> Value | None:
    """A comparison of numbers that only the run of the graph knows, where these are what it is of."""
    numbers = [number_in(side) for side in (left, right)]
    if not any(map(machine.sizes.is_late, (left, right))) or any(kind_of_number(number) is None for number in numbers):
        return None
    symbol = next(symbol for symbol, op in COMPARISONS.items() if op.function is function)
    return ConditionValue(function, (left, right), relation_of(symbol, *numbers), machine.graph)


def of_containers(machine: Machine, op: Operator, left: Value, right: Value) -> Any:
    rule = rule_of_containers(left, right, op.function)
    if rule is not None:
        return rule(machine, left, right)
    if op.function in (operator.eq, operator.ne) and InstanceValue not in (type(left), type(right)):
        return equality(machine, op, left, right)
    folded = [constant_of(side) for side in (left, right)]
    if not any(type(side) is NotConstant for side in folded) and op.in_place_method is None:
        return from_constant(machine, compute(machine, op.function, tuple(folded)))
    if op.method in ORDERING and is_ordered_by_items(left, right, op):
        return order_of_items(machine, op, left, right)
    return by_methods(machine, op, left, right)


def rule_of_containers(left: Value, right: Value, function: Callable) -> Rule | None:
    """None for the values of a dict, which are no set, and where pairs of a dict are looked for: these are found by their keys, and their
    values compared."""
    kinds = {side.kind for side in (left, right) if isinstance(side, DictViewValue)}
    if "values" in kinds or ("items" in kinds and function in SUBSETS):
        return None
    return CONTAINER_RULES.get((kind_of(left), kind_of(right), function))


ORDERING = ("__lt__", "__le__", "__gt__", "__ge__")


def is_ordered_by_items(left: Value, right: Value, op: Operator) -> bool:
    """Two lists or two tuples, of no class with an order of its own."""
    if not isinstance(left, (ListValue, TupleValue)) or not isinstance(right, (ListValue, TupleValue)):
        return False
    base = list if isinstance(left, ListValue) else tuple
    return all(lookup(side.python_type, name) is vars(base)[name] for side in (left, right) for name in (op.method, op.reflected))


def compare_items(machine: Machine, op: Operator, left: ListValue | TupleValue, right: ListValue | TupleValue) -> Any:
    """How CPython compares two lists, two tuples or two deques."""
    return order_of_items(machine, op, left, right) if op.method in ORDERING else equality(machine, op, left, right)


def order_of_items(machine: Machine, op: Operator, left: ListValue | TupleValue, right: ListValue | TupleValue) -> Any:
    """The first two items that differ say it, and nothing after them is asked: `sorted(tensors.items())` compares names."""
    for one, other in zip(left.items, right.items, strict=False):
        if not are_equal(machine, one, other):
            return apply(machine, op, machine.realize(one), machine.realize(other))
    return boolean(op.function(len(left.items), len(right.items)))


def kind_of(value: Value) -> type:
    return DictValue if type(value) is InstanceDictionaryValue else type(value)


def from_constant(machine: Machine, value: ConstantValue) -> Value:
    """A computed container as a value whose items can be taken apart."""
    from dynascope.capture.calls.pure import value_of

    return value_of(value.value)


def by_methods(machine: Machine, op: Operator, left: Value, right: Value) -> Any:
    """Python's order: the in-place method, the right side's reflected one if it is a subclass's, left, right."""
    check_elements(machine, left, right)
    attempts = []
    if op.in_place_method:
        attempts.append((op.in_place_method, left, right))
    forward, backward = (op.method, left, right), (op.reflected, right, left)
    right_type, left_type = right.python_type, left.python_type
    if right_type is left_type and op.method not in COMPARING:
        attempts.append(forward)
    elif comes_first(op, right_type, left_type):
        attempts += [backward, forward]
    else:
        attempts += [forward, backward]
    if is_sequence(left_type, op):
        attempts.sort(key=lambda attempt: is_of_sequence(attempt[1].python_type, attempt[0]))
    result = first_answer(machine, attempts)
    if result is not None:
        return result
    if op.method in ("__eq__", "__ne__"):
        return boolean(is_same(machine, left, right) == (op.method == "__eq__"))
    raise not_supported(machine, op, left_type, right_type)


def comes_first(op: Operator, right: type, left: type) -> bool:
    """Whether the right side is asked first: one of a subclass, for operators only if that has a reflected method of its own
    (CPython's `method_is_overloaded`, Objects/typeobject.c)."""
    if right is left or left not in right.__mro__:  # `issubclass` would ask the metaclass
        return False
    return op.method in COMPARING or lookup(right, op.reflected) is not lookup(left, op.reflected)


def is_sequence(cls: type, op: Operator) -> bool:
    """Whether its `+` or `*` are those of a sequence in C, which Python asks after all numbers: an `__radd__` comes before what
    `list` does (CPython's `PyNumber_Add` and `PyNumber_InPlaceAdd`, Objects/abstract.c)."""
    names = [name for name in (op.method, op.reflected) if lookup(cls, name) is not MISSING]
    return bool(names) and all(is_of_sequence(cls, name) for name in names)


def is_of_sequence(cls: type, name: str) -> bool:
    """What has `+` as a number has `__radd__` too. The `__iadd__` of `list` is a number's in its subclasses, because the two wrap it
    alike (CPython's `update_one_slot`, Objects/typeobject.c)."""
    entry = lookup(cls, name)
    if not isinstance(entry, WrapperDescriptorType) or name == "__iadd__" and entry.__objclass__ is not cls:
        return False
    return lookup(entry.__objclass__, "__add__") is not MISSING and lookup(entry.__objclass__, "__radd__") is MISSING


def not_supported(machine: Machine, op: Operator, left: type, right: type) -> Raised | Break:
    """CPython's words for classes made by `class`; of others its own C code has the say."""
    if not (is_made_by_statement(left) and is_made_by_statement(right)):
        return Break(ProgramRaises("TypeError", machine.expression()))
    symbol = next((s for s, o in (OPERATORS | COMPARISONS).items() if o is op), "divmod()")
    kinds = f"{name_in_errors(left)!r} and {name_in_errors(right)!r}"
    if op.method in COMPARING:
        return machine.throw(TypeError, f"{symbol!r} not supported between instances of {kinds}")
    symbol = {"**": "** or pow()"}.get(symbol, symbol)
    return machine.throw(TypeError, f"unsupported operand type(s) for {symbol}: {kinds}")


def is_made_by_statement(cls: type) -> bool:
    return bool(cls.__flags__ & HEAP_TYPE) and not issubclass(cls, (int, str, bytes, bytearray, list, tuple))


NUMBERS = (int, float, bool, complex)
# What `object` itself answers to every comparison: NotImplemented.
UNANSWERED = (object.__lt__, object.__le__, object.__gt__, object.__ge__)


def first_answer(machine: Machine, attempts: list[tuple[str, Value, Value]]) -> Value | None:
    """What the first side says that has something to say. `object.__ne__` is the opposite of what `__eq__` of the same side says."""
    from dynascope.capture.protocols.truth import truth

    for name, instance, other in attempts:
        entry = lookup(instance.python_type, name)
        opposite = entry is object.__ne__
        if opposite:
            name, entry = "__eq__", lookup(instance.python_type, "__eq__")
        if entry is MISSING or entry is object.__eq__:
            continue
        if entry in UNANSWERED:
            continue
        if not isinstance(instance, (InstanceValue, ConstantValue)) and not callable(entry):
            continue
        if isinstance(other, InstanceValue) and instance.python_type in NUMBERS and not issubclass(other.cls, NUMBERS):
            continue  # a number in C has no answer to an object
        result = machine.realize(machine.call_now(special(machine, instance, name), [other]))
        if not (isinstance(result, ConstantValue) and result.value is NotImplemented):
            return boolean(not truth(machine, result)) if opposite else result
    return None


def unary(machine: Machine, op: Operator, value: Value) -> Any:
    if isinstance(value, ArrayValue):
        from dynascope.capture.calls import numpy_arrays

        return numpy_arrays.unary(machine, op, value)
    if isinstance(value, TensorValue) and not machine.overriding.asks_modes:
        from dynascope.capture.calls.tensors import apply_function

        return apply_function(machine, op.function, [value], {})
    if isinstance(value, SymbolicNumber):
        found = machine.sizes.compute(op.function, (value,))
        if found is not None:
            return found
        value = machine.known(value)
    if isinstance(value, ConstantValue) and not has_own_method(value, op.method):
        return compute(machine, op.function, (value.value,))
    check_elements(machine, value)
    if lookup(value.python_type, op.method) is MISSING:
        sign = {"__neg__": "-", "__pos__": "+", "__invert__": "~"}[op.method]
        raise machine.throw(TypeError, f"bad operand type for unary {sign}: {name_in_errors(value.python_type)!r}")
    return machine.call(special(machine, value, op.method), [])


def compare(machine: Machine, symbol: str, left: Value, right: Value) -> Any:
    op = COMPARISONS[symbol]
    if isinstance(left, InstanceValue) and symbol in ("==", "!="):
        return by_methods(machine, op, left, right)
    return apply(machine, op, left, right)


def among_elements(machine: Machine, container: Value, item: Value) -> TensorValue | None:
    """`item in tensor` as a tensor of truth, what `Tensor.__contains__` takes out; None of other containers and items."""
    from dynascope.capture.calls.tensors import apply_method

    tensor, item = machine.realize(container), machine.realize(item)
    is_number = isinstance(item, SymbolicNumber) or (isinstance(item, ConstantValue) and type(item.value) in (bool, int, float))
    if type(tensor) is not TensorValue or not (is_number or type(item) is TensorValue):
        return None
    same = machine.finish(compare(machine, "==", item, tensor))
    found = apply_method(machine, torch.Tensor.any, [same], {}) if type(same) is TensorValue else None
    return found if type(found) is TensorValue else None


def equality(machine: Machine, op: Operator, left: Value, right: Value) -> Value:
    return boolean(are_equal(machine, left, right) == (op.function is operator.eq))


def are_equal(machine: Machine, left: Value, right: Value) -> bool:
    """`left == right` as containers ask it of their items: identity first."""
    from dynascope.capture.protocols.truth import truth

    left, right = machine.realize(left), machine.realize(right)
    if left is right:
        return True
    if any(type(each) is SymbolicNumber and each.example != each.example for each in (left, right)):
        left, right = machine.known(left), machine.known(right)  # which NaN it is tells no number
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue) and are_literals(left, right):
        # Identity is asked first, but tells something new of NaN alone.
        return compute(machine, operator.eq, (left.value, right.value)) is TRUE or is_same(machine, left, right)
    if not are_literals(left, right) and is_same(machine, left, right):
        return True
    sequences = (ListValue, TupleValue)
    if isinstance(left, sequences) and isinstance(right, sequences):
        comparable = isinstance(left, ListValue) == isinstance(right, ListValue)
        return (
            comparable
            and len(left.items) == len(right.items)
            and all(are_equal(machine, a, b) for a, b in zip(left.items, right.items, strict=True))
        )
    if isinstance(left, DictValue) and isinstance(right, DictValue):
        asks_order = all(issubclass(each.cls, collections.OrderedDict) for each in (left, right))
        return hold_equal(machine, left, right) and (not asks_order or list(left.items) == list(right.items))
    if (views := [each for each in (left, right) if isinstance(each, DictViewValue)]) and InstanceValue not in map(type, (left, right)):
        kinds = [view.kind for view in views]
        if "values" in kinds:  # which equal nothing but themselves
            return False
        if kinds == ["items", "items"]:  # values need no hash
            return hold_equal(machine, views[0].dictionary, views[1].dictionary)
    if isinstance(left, (SetValue, DictViewValue)) and isinstance(right, (SetValue, DictViewValue)):
        return key_set(machine, left) == key_set(machine, right)
    if isinstance(left, SliceValue) and isinstance(right, SliceValue):
        return all(are_equal(machine, a, b) for a, b in zip(left.parts, right.parts, strict=True))
    if isinstance(left, MethodValue) and isinstance(right, MethodValue):
        return is_same(machine, left.function, right.function) and is_same(machine, left.instance, right.instance)
    containers = (ListValue, TupleValue, DictValue, DictViewValue, SetValue, SliceValue, FunctionValue, MethodValue)
    containers += (IteratorValue, GeneratorValue, TurnValue, ZipValue, CountValue)  # which equal nothing but themselves
    containers += (FunctionOfResultValue, PartialValue)
    if isinstance(left, containers) and not isinstance(right, InstanceValue):
        return False
    if isinstance(right, containers) and not isinstance(left, InstanceValue):
        return False
    return truth(machine, machine.finish(compare(machine, "==", left, right)))


def hold_equal(machine: Machine, left: DictValue, right: DictValue) -> bool:
    number_keys.note_apart(machine, left, right)
    return left.items.keys() == right.items.keys() and all(
        are_equal(machine, item, right.items[key][1]) for key, (_, item) in left.items.items()
    )


def key_set(machine: Machine, value: Value) -> set:
    from dynascope.capture.protocols.hashing import hash_key

    if isinstance(value, SetValue):
        return set(value.items)
    return {hash_key(machine, item) for item in value.elements()}


def is_same(machine: Machine, left: Value, right: Value) -> bool:
    """`left is right`."""
    left, right = machine.known(left), machine.known(right)
    if left is right:
        return True
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        return are_one_object(machine, left, right)
    if isinstance(left, FunctionOfResultValue) and isinstance(right, FunctionOfResultValue):
        return functions_of_results.are_one(left, right)
    for made, other in ((left, right), (right, left)):
        if isinstance(made, FunctionOfResultValue) and functions_of_results.may_be(other):
            raise Break(TensorAttribute("grad_fn"))
        if isinstance(made, WeakReferenceValue) and other.source is not None and other.python_type is weakref.ReferenceType:
            raise Break(ForeignValue("ReferenceType", machine.expression()))  # Python keeps one for each object, as long as anybody does
    if isinstance(left, InstanceDictionaryValue) and isinstance(right, InstanceDictionaryValue):
        return left.owner is right.owner or left.owner.attributes is right.owner.attributes
    if isinstance(left, TupleValue) and isinstance(right, TupleValue) and not left.items and not right.items:
        return left.cls is right.cls is tuple
    if left.source is not None and right.source is not None and left.python_type is right.python_type:
        machine.guards.add_pair(left.source, right.source, NotSameObject())
    return False


HAS_COPIES = (int, float, complex, str, bytes)
"""Immutable types of which one value can be many objects."""


def are_literals(*values: Value) -> bool:
    return all(type(value) is SymbolicNumber or type(getattr(value, "value", None)) in HAS_COPIES for value in values)


def are_one_object(machine: Machine, left: ConstantValue, right: ConstantValue) -> bool:
    """Numbers and texts from outside are equal to those of the next call, but need not be the same objects."""
    same = left.value is right.value
    if type(left.value) is not type(right.value) or type(left.value) not in HAS_COPIES:
        return same
    if left.value != right.value and left.value == left.value or is_shared(left.value):
        return same
    if left.source is not None and right.source is not None:
        machine.guards.add_pair(left.source, right.source, IsSameObject() if same else NotSameObject())
    elif left.source is not None or right.source is not None:
        outside, other = (left, right) if left.source is not None else (right, left)
        if not same:
            # Another call could bring this very object; nothing but Python can tell.
            raise Break(ForeignValue(type(left.value).__name__, machine.expression()))
        machine.guards.add(outside.source, IdentityIs(other.value))
    return same


def are_surely_one(left: Value, right: Value) -> bool:
    """Whether both are one object with no more said of it."""
    if isinstance(left, ConstantValue) and isinstance(right, ConstantValue):
        return left.value is right.value and (type(left.value) not in HAS_COPIES or is_shared(left.value))
    return left is right


def is_shared(value: Any) -> bool:
    """Numbers that are one object everywhere in the interpreter."""
    return type(value) is int and -5 <= value <= 256


# Newer versions of torch keep the class.
SIZE_AFTER_ADDING = type(torch.Size(()) + ())
SIZE_AFTER_REPEATING = type(torch.Size(()) * 1)


def _concatenate(machine: Machine, left: Any, right: Any) -> Value:
    if isinstance(left, TupleValue):
        for side, other in ((left, right), (right, left)):
            if side.cls is tuple and not other.items:
                return side
        sized = torch.Size in (left.cls, right.cls)
        return TupleValue((*left.items, *right.items), SIZE_AFTER_ADDING if sized else tuple)
    return ListValue([*left.items, *right.items])


def _extend(machine: Machine, left: ListValue, right: Any) -> Value:
    from dynascope.capture.protocols.iteration import elements

    lists.add(machine, left, elements(machine, right))
    return left


def _repeat(machine: Machine, left: Any, right: Any) -> Value:
    sequence, count = (left, right) if not isinstance(left, (ConstantValue, SymbolicNumber)) else (right, left)
    times = machine.object_of(count)
    if not isinstance(times, int):
        other = count if sequence is left or not hasattr(type(times), "__getitem__") else sequence  # the left one of two is repeated
        raise machine.throw(TypeError, f"can't multiply sequence by non-int of type {name_in_errors(other.python_type)!r}")
    if times == 1 and isinstance(sequence, TupleValue) and sequence.cls is tuple:
        return sequence
    items = sequence.items * times
    if isinstance(sequence, ListValue):
        return ListValue(items)
    return TupleValue(items, SIZE_AFTER_REPEATING if sequence.cls is torch.Size else tuple)


def _merge(machine: Machine, left: DictValue, right: DictValue) -> Value:
    kept = right if left.cls is dict else left  # a subclass's `__ror__` comes first
    number_keys.note_apart(machine, left, right)
    made = DictValue({**left.items, **right.items}, kept.cls)
    made.default_factory = kept.default_factory
    return made


def _merge_into(machine: Machine, left: DictValue, right: DictValue) -> Value:
    from dynascope.capture.protocols.items import put

    for key, item in list(right.items.values()):
        put(machine, left, key, item)
    machine.write(left)
    return left


def _set_operation(function: Callable, select: Callable[[dict, dict], dict]) -> Callable[[Any, Any, Any], Value]:
    def run(machine: Machine, left: Any, right: Any) -> Value:
        found = [as_set_items(machine, side) for side in (left, right)]
        same_way = recipe(function, *map(given_as, (left, right), found))
        cls = set if DictViewValue in map(type, (left, right)) else left.cls  # a set alone leaves such a call to the view
        return SetValue(select(*found), cls, recipe=same_way)

    return run


def as_set_items(machine: Machine, value: Value) -> dict[Any, Value]:
    from dynascope.capture.protocols.hashing import hash_key
    from dynascope.capture.protocols.iteration import elements

    if isinstance(value, SetValue):
        return value.items
    return {hash_key(machine, item): item for item in elements(machine, value)}


SET_OPERATIONS: dict[Callable, Callable[[dict, dict], dict]] = {
    operator.or_: lambda a, b: {**a, **{k: v for k, v in b.items() if k not in a}},
    operator.and_: lambda a, b: {k: v for k, v in a.items() if k in b},
    operator.sub: lambda a, b: {k: v for k, v in a.items() if k not in b},
    operator.xor: lambda a, b: {k: v for k, v in (*a.items(), *b.items()) if (k in a) != (k in b)},
}


def operator_in_place(function: Callable) -> Callable:
    return getattr(operator, f"i{function.__name__.strip('_')}")


def _set_in_place(function: Callable) -> Callable[[Any, Any, Any], Value]:
    def run(machine: Machine, left: SetValue, right: SetValue) -> Value:
        from dynascope.capture.protocols.items import replace

        made = CONTAINER_RULES[SetValue, SetValue, function](machine, left, right)
        if left.cls is not set:
            return made
        replace(machine, left, made.items)
        note_change(machine, left, operator_in_place(function), given_as(right, as_set_items(machine, right)))
        return left

    return run


def _subset(function: Callable) -> Callable[[Any, Any, Any], Value]:
    return lambda machine, left, right: boolean(function(*(set(as_set_items(machine, side)) for side in (left, right))))


SETS = (SetValue, DictViewValue)
SUBSETS = (operator.lt, operator.le, operator.gt, operator.ge)
Rule = Callable[[Any, Any, Any], Value]
CONTAINER_RULES: dict[tuple[type, type, Callable], Rule] = {
    (ListValue, ListValue, operator.add): _concatenate,
    (TupleValue, TupleValue, operator.add): _concatenate,
    (TupleValue, TupleValue, operator.iadd): _concatenate,
    (DictValue, DictValue, operator.or_): _merge,
    (DictValue, DictValue, operator.ior): _merge_into,
    **{(ListValue, kind, operator.iadd): _extend for kind in (ListValue, TupleValue, DictValue, SetValue)},
    **{
        pair: _repeat
        for sequence in (ListValue, TupleValue)
        for number in (ConstantValue, SymbolicNumber)
        for pair in (
            (sequence, number, operator.mul),
            (number, sequence, operator.mul),
            (sequence, number, operator.imul),
        )
        if not (pair[2] is operator.imul and sequence is ListValue)
    },
    **{
        (left, right, function): _set_operation(function, select)
        for left in SETS
        for right in SETS
        for function, select in SET_OPERATIONS.items()
    },
    **{(left, right, function): _subset(function) for left in SETS for right in SETS for function in SUBSETS},
    **{(SetValue, SetValue, operator_in_place(function)): _set_in_place(function) for function in SET_OPERATIONS},
}
