"""What Python's builtin functions and classes mean."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import types
import typing
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import equivalents
from dynascope.capture.calls.pure import compute, fails_like
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols import attributes, items, operators
from dynascope.capture.protocols.classes import MISSING, class_source, has_python_method, lookup, member
from dynascope.capture.protocols.hashing import hash_key
from dynascope.capture.protocols.iteration import BUILTIN_ITERATORS, advance, elements, iterator
from dynascope.capture.protocols.truth import truth
from dynascope.capture.reasons import DataDependentValue, ForeignCall, ForeignValue, PrintCall
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    NONE,
    CellValue,
    ConstantValue,
    CountValue,
    DictValue,
    DictViewValue,
    FunctionValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    MethodValue,
    NotConstant,
    PartialValue,
    SetValue,
    SliceValue,
    SuperValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    ZipValue,
    boolean,
    constant_of,
)
from dynascope.frame.versions import RUNNING

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

Arguments = list[Value]
Keywords = dict[str, Value]
SIZED = (ListValue, TupleValue, DictValue, SetValue)


def argument(arguments: Arguments, keywords: Keywords, at: int, name: str, default: Value = NONE) -> Value:
    return arguments[at] if len(arguments) > at else keywords.get(name, default)


def is_none(value: Value) -> bool:
    return isinstance(value, ConstantValue) and value.value is None


# Asking about values


@meaning(len)
def length(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.known(arguments[0])
    if isinstance(value, SIZED):
        return ConstantValue(len(value.items))
    if isinstance(value, DictViewValue):
        return ConstantValue(len(value.dictionary.items))
    if isinstance(value, TensorValue):
        if value.example.dim() == 0:
            raise machine.throw(TypeError, "len() of a 0-d tensor")
        return ConstantValue(value.example.shape[0])
    if isinstance(value, ConstantValue):
        return compute(machine, len, (value.value,))
    if lookup(value.python_type, "__len__") is MISSING:
        raise machine.throw(TypeError, f"object of type {value.python_type.__name__!r} has no len()")
    return machine.call(member(machine, value.python_type, "__len__", value), [value])


@meaning(type)
def type_of(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) != 1:
        raise Break(ForeignCall("type", "it makes a class"))
    value = machine.realize(arguments[0])
    if value.source is None or isinstance(value, ConstantValue):
        return ConstantValue(value.python_type)
    return machine.outside.realize(value.python_type, class_source(machine, value.python_type, value))


@meaning(isinstance)
def isinstance_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(is_instance(machine, machine.realize(arguments[0]), arguments[1]))


def is_instance(machine: Machine, value: Value, classes: Value) -> bool:
    if isinstance(value, ConstantValue):
        known = constant_of(classes)
        if type(known) is not NotConstant:
            return compute(machine, isinstance, (value.value, known)).value
    if isinstance(value, InstanceValue) and value.object is not None:
        known = constant_of(classes)
        if type(known) is not NotConstant:
            return compute(machine, isinstance, (value.object, known)).value
    cls = tensor_class(value) if isinstance(value, TensorValue) else value.python_type
    return is_subclass(machine, cls, classes, value)


def tensor_class(value: TensorValue) -> type:
    return value.python_type


def is_subclass(machine: Machine, cls: type, classes: Value, value: Value | None = None) -> bool:
    known = constant_of(classes)
    if type(known) is NotConstant:
        raise Break(ForeignValue(known.value.python_type.__name__, machine.expression()))
    if isinstance(known, types.UnionType):
        known = known.__args__
    if isinstance(known, tuple):
        return any(is_subclass(machine, cls, ConstantValue(each), value) for each in known)
    if isinstance(value, TensorValue) and known in TENSOR_CLASSES:
        return TENSOR_CLASSES[known](value)
    if known in (None, type(None)):
        return cls is type(None)
    return compute(machine, issubclass, (cls, known)).value


# Classes whose metaclass looks at the instance.
TENSOR_CLASSES = {
    torch.nn.Parameter: lambda value: issubclass(value.python_type, torch.nn.Parameter),
    torch.nn.parameter.Buffer: lambda value: (
        value.object is not None and isinstance(value.object, torch.nn.parameter.Buffer)
    ),
    torch.FloatTensor: lambda value: value.example.dtype is torch.float32 and value.device.type == "cpu",
    torch.LongTensor: lambda value: value.example.dtype is torch.int64 and value.device.type == "cpu",
}


@meaning(issubclass)
def issubclass_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(is_subclass(machine, machine.realize(arguments[0]).value, arguments[1]))


@meaning(callable)
def callable_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0])
    if isinstance(value, ConstantValue):
        return boolean(callable(value.value))
    kinds = (FunctionValue, MethodValue, PartialValue)
    return boolean(isinstance(value, kinds) or lookup(value.python_type, "__call__") is not MISSING)


@meaning(id)
def id_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(ForeignCall("id", "addresses differ from call to call"))


@meaning(hash)
def hash_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    known = constant_of(machine.known(arguments[0]))
    if type(known) is NotConstant:
        raise Break(ForeignCall("hash", "addresses differ from call to call"))
    return compute(machine, hash, (known,))


@meaning(getattr)
def getattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    name = machine.known(arguments[1]).value
    if len(arguments) == 2:
        return attributes.get(machine, arguments[0], name)
    found = attributes.find(machine, arguments[0], name)
    return arguments[2] if found is None else found


@meaning(hasattr)
def hasattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(attributes.find(machine, arguments[0], machine.known(arguments[1]).value) is not None)


@meaning(setattr)
def setattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    result = attributes.set(machine, arguments[0], machine.known(arguments[1]).value, arguments[2])
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(delattr)
def delattr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    result = attributes.delete(machine, arguments[0], machine.known(arguments[1]).value)
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(object.__setattr__)
def object_setattr(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    owner = machine.realize(arguments[0])
    result = attributes.set_plain(machine, owner, machine.known(arguments[1]).value, arguments[2])
    if result is not None:
        machine.finish(result)
    return NONE


@meaning(object.__getattribute__)
def object_getattribute(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return attributes.plain(machine, machine.realize(arguments[0]), machine.known(arguments[1]).value)


@meaning(object.__init__, torch.nn.Module.__init_subclass__)
def object_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return NONE


@meaning(object.__new__)
def object_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.calls.dispatch import new_instance

    return new_instance(machine, machine.realize(arguments[0]).value)


@meaning(dict.__new__)
def dict_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls = machine.realize(arguments[0]).value
    bases = [base for base in cls.__mro__[1:] if base.__module__ in ("builtins", "collections")]
    if bases not in ([dict, object], [collections.OrderedDict, dict, object]) or has_python_method(cls, "__missing__"):
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    value = InstanceValue(cls)
    value.contents = DictValue({}, bases[0])
    return value


@meaning(dict.__init__, collections.OrderedDict.__init__)
def dict_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    instance = machine.realize(arguments[0])
    if not isinstance(instance, InstanceValue) or instance.contents is None:
        raise Break(ForeignValue(instance.python_type.__name__, machine.expression()))
    fill(machine, instance.contents, arguments[1:], keywords)
    return NONE


@meaning(tuple.__new__)
def tuple_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls = machine.realize(arguments[0]).value
    given = elements(machine, arguments[1]) if len(arguments) > 1 else []
    return TupleValue(tuple(given), cls)


@meaning(BaseException.__new__, Exception.__new__)
def exception_new(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = InstanceValue(machine.realize(arguments[0]).value)
    value.arguments = tuple(arguments[1:])
    return value


@meaning(BaseException.__init__, Exception.__init__)
def exception_init(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0])
    machine.journal.set(value, "arguments", tuple(arguments[1:]))
    return NONE


@meaning(super)
def super_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if arguments:
        return SuperValue(machine.realize(arguments[0]).value, machine.realize(arguments[1]))
    frame = machine.frames[-1]
    cls = machine.realize(frame.slots["__class__"].content).value
    first = frame.slots.get(frame.code.co_varnames[0])
    instance = first.content if isinstance(first, CellValue) else first
    return SuperValue(cls, machine.realize(instance))


@meaning(vars)
def vars_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return attributes.get(machine, arguments[0], "__dict__") if arguments else locals_(machine, arguments, keywords)


@meaning(locals, globals, dir, eval, exec, compile, open, input, __import__)
def locals_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(
        ForeignCall(machine.expression().partition("(")[0] or "locals", "it reads or changes the running program")
    )


@meaning(print)
def print_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(PrintCall("print", machine.expression()))


# Numbers and text


def number(machine: Machine, cls: type, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0]) if arguments else ConstantValue(0)
    if isinstance(value, TensorValue):
        raise Break(DataDependentValue(machine.expression(), cls.__name__))
    if isinstance(value, SymbolicNumber) and value.python_type is cls:
        return value
    if isinstance(value, InstanceValue):
        name = f"__{cls.__name__}__"
        if lookup(value.cls, name) is MISSING:
            raise machine.throw(TypeError, f"{cls.__name__}() argument must be a string or a number")
        return machine.call(member(machine, value.cls, name, value), [value])
    known = [constant_of(machine.known(each)) for each in arguments]
    if any(type(each) is NotConstant for each in known):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    return compute(machine, cls, tuple(known), {name: constant_of(machine.known(v)) for name, v in keywords.items()})


for _cls in (int, float, complex):
    meaning(_cls)(lambda machine, arguments, keywords, _cls=_cls: number(machine, _cls, arguments, keywords))


@meaning(bool)
def bool_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0]) if arguments else ConstantValue(False)
    if isinstance(value, TensorValue):
        raise Break(DataDependentValue(machine.expression(), "bool"))
    return boolean(truth(machine, value))


@meaning(operator.truth)
def truth_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(truth(machine, arguments[0]))


@meaning(operator.not_)
def not_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(not truth(machine, arguments[0]))


@meaning(str)
def str_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return convert_text(machine, "str", arguments[0]) if arguments else ConstantValue("")


@meaning(repr)
def repr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return convert_text(machine, "repr", arguments[0])


CONVERSIONS = {"str": str, "repr": repr, "ascii": ascii}


def convert_text(machine: Machine, conversion: str | None, value: Value) -> Value:
    """`str(x)`, `repr(x)`: of what is known; a tensor's text is its data."""
    value = machine.known(value)
    if conversion is None:
        return value
    if isinstance(value, InstanceValue):
        return instance_text(machine, conversion, value)
    known = constant_of(value)
    if type(known) is NotConstant:
        raise Break(ForeignValue(known.value.python_type.__name__, machine.expression()))
    return compute(machine, CONVERSIONS[conversion], (known,))


def instance_text(machine: Machine, conversion: str, value: InstanceValue) -> Value:
    for name in ("__str__", "__repr__") if conversion == "str" else ("__repr__",):
        if isinstance(lookup(value.cls, name), types.FunctionType):
            return machine.call_now(member(machine, value.cls, name, value), [value])
    if issubclass(value.cls, BaseException) and value.object is None:
        known = [constant_of(each) for each in value.arguments]
        if not any(type(each) is NotConstant for each in known):
            return compute(machine, CONVERSIONS[conversion], (value.cls(*known),))
    raise Break(ForeignValue(value.cls.__name__, machine.expression()))


def format_text(machine: Machine, value: Value, specification: Value) -> Value:
    value = machine.known(value)
    if isinstance(value, InstanceValue):
        if isinstance(lookup(value.cls, "__format__"), types.FunctionType):
            return machine.call_now(member(machine, value.cls, "__format__", value), [value, specification])
        value = instance_text(machine, "str", value)
    known = constant_of(value)
    if type(known) is NotConstant:
        raise Break(ForeignValue(known.value.python_type.__name__, machine.expression()))
    return compute(machine, format, (known, machine.known(specification).value))


@meaning(abs)
def abs_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return by_operator(machine, operator.abs, torch.abs, "__abs__", arguments)


@meaning(round)
def round_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    if isinstance(machine.realize(arguments[0]), TensorValue):
        from dynascope.capture.calls.tensors import apply_function

        named = {"decimals": arguments[1]} if len(arguments) > 1 else {}
        return apply_function(machine, torch.round, arguments[:1], named)
    return by_operator(machine, round, torch.round, "__round__", arguments)


def by_operator(machine: Machine, function: Any, tensor_function: Any, name: str, arguments: Arguments) -> Any:
    value = machine.realize(arguments[0])
    if isinstance(value, TensorValue):
        from dynascope.capture.calls.tensors import apply_function

        return apply_function(machine, tensor_function, arguments, {})
    if isinstance(value, InstanceValue):
        return machine.call(member(machine, value.cls, name, value), [value, *arguments[1:]])
    return compute(machine, function, tuple(machine.known(each).value for each in arguments))


@meaning(pow)
def pow_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    if len(arguments) == 2:
        return operators.binary(machine, "**", machine.realize(arguments[0]), machine.realize(arguments[1]))
    return compute(machine, pow, tuple(machine.known(each).value for each in arguments))


@meaning(divmod)
def divmod_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    left, right = (machine.realize(each) for each in arguments)
    parts = [machine.finish(operators.binary(machine, symbol, left, right)) for symbol in ("//", "%")]
    return TupleValue(tuple(parts))


# Containers


@meaning(list)
def list_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return ListValue(elements(machine, arguments[0]) if arguments else [])


@meaning(tuple)
def tuple_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if arguments:
        given = machine.realize(arguments[0])
        if isinstance(given, TupleValue) and given.cls is tuple:
            return given
        return TupleValue(tuple(elements(machine, given)))
    return TupleValue(())


@meaning(torch.Size)
def size_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    known = [machine.known(each) for each in elements(machine, arguments[0])] if arguments else []
    return TupleValue(tuple(known), torch.Size)


@meaning(set)
def set_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return make_set(machine, set, arguments)


@meaning(frozenset)
def frozenset_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return make_set(machine, frozenset, arguments)


def make_set(machine: Machine, cls: type, arguments: Arguments) -> Value:
    found: dict[Any, Value] = {}
    for item in elements(machine, arguments[0]) if arguments else []:
        found.setdefault(hash_key(machine, item), machine.realize(item))
    return SetValue(found, cls)


@meaning(dict)
def dict_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return fill(machine, DictValue({}), arguments, keywords)


@meaning(collections.OrderedDict)
def ordered_dict(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return fill(machine, DictValue({}, collections.OrderedDict), arguments, keywords)


@meaning(collections.defaultdict)
def default_dict(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    made = DictValue({}, collections.defaultdict)
    made.default_factory = machine.realize(arguments[0]) if arguments else NONE
    return fill(machine, made, arguments[1:], keywords)


def fill(machine: Machine, target: DictValue, arguments: Arguments, keywords: Keywords) -> DictValue:
    for key, value in items.pairs(machine, arguments[0]) if arguments else []:
        items.put(machine, target, key, value)
    for name, value in keywords.items():
        items.put(machine, target, ConstantValue(name), value)
    return target


@meaning(dict.fromkeys)
def dict_fromkeys(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    made = DictValue({})
    for key in elements(machine, arguments[0]):
        items.put(machine, made, key, arguments[1] if len(arguments) > 1 else NONE)
    return made


@meaning(slice)
def slice_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    parts = [machine.realize(each) for each in arguments]
    start, stop, step = (NONE, parts[0], NONE) if len(parts) == 1 else (*parts, *[NONE] * (3 - len(parts)))
    return SliceValue((start, stop, step))


@meaning(range)
def range_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    known = [constant_of(machine.known(each)) for each in arguments]
    for each in known:
        if type(each) is NotConstant:
            if isinstance(each.value, TensorValue):
                raise Break(DataDependentValue(machine.expression(), "range"))
            raise Break(ForeignValue(each.value.python_type.__name__, machine.expression()))
    return compute(machine, range, tuple(known))


# Iteration


@meaning(iter)
def iter_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) > 1:
        raise Break(ForeignCall("iter", "the form with a sentinel is not captured"))
    return iterator(machine, arguments[0])


@meaning(next)
def next_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    given = machine.realize(arguments[0])
    if isinstance(given, InstanceValue) and given.cls in BUILTIN_ITERATORS:
        raise Break(ForeignValue(given.cls.__name__, machine.expression()))
    item = advance(machine, given)
    if item is not None:
        return item
    if len(arguments) > 1:
        return arguments[1]
    raise machine.throw(StopIteration)


GENERATOR = types.GeneratorType


@meaning(GENERATOR.__next__)
def generator_next(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return next_(machine, arguments[:1], {})


@meaning(GENERATOR.send)
def generator_send(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.calls.generators import resume

    generator = machine.realize(arguments[0])
    item = resume(machine, generator, arguments[1])
    if item is None:
        raise machine.throw(StopIteration, *([generator.object] if generator.object is not None else []))
    return item


@meaning(GENERATOR.throw)
def generator_throw(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.calls.generators import resume
    from dynascope.capture.opcodes.exceptions import as_exception

    generator = machine.realize(arguments[0])
    given = machine.realize(arguments[2] if len(arguments) > 2 and not is_none(arguments[2]) else arguments[1])
    item = resume(machine, generator, thrown=Raised(as_exception(machine, given)))
    if item is None:
        raise machine.throw(StopIteration)
    return item


@meaning(zip)
def zip_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    strict = truth(machine, keywords["strict"]) if "strict" in keywords else False
    return ZipValue(tuple(iterator(machine, each) for each in arguments), zip, strict)


@meaning(enumerate)
def enumerate_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    start = machine.known(argument(arguments, keywords, 1, "start", ConstantValue(0))).value
    return ZipValue((iterator(machine, argument(arguments, keywords, 0, "iterable")), CountValue(start, 1)), enumerate)


@meaning(reversed)
def reversed_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    value = machine.known(arguments[0])
    if isinstance(value, InstanceValue) and lookup(value.cls, "__reversed__") is not MISSING:
        return machine.call(member(machine, value.cls, "__reversed__", value), [value])
    text = isinstance(value, ConstantValue) and isinstance(value.value, (str, bytes, range))
    if isinstance(value, (ListValue, TupleValue, DictValue, DictViewValue)) or text:
        return IteratorValue(elements(machine, value)[::-1])
    if not isinstance(value, ConstantValue):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    raise machine.throw(TypeError, f"{value.python_type.__name__!r} object is not reversible")


@meaning(itertools.count)
def count_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    first = machine.known(argument(arguments, keywords, 0, "start", ConstantValue(0))).value
    return CountValue(first, machine.known(argument(arguments, keywords, 1, "step", ConstantValue(1))).value)


@meaning(itertools.islice)
def islice_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    bounds = slice(*(machine.known(each).value for each in arguments[1:]))
    source = iterator(machine, arguments[0])
    if bounds.stop is None:
        return IteratorValue(elements(machine, source)[bounds])
    taken: list[Value] = []
    while len(taken) < bounds.stop and (item := advance(machine, source)) is not None:
        taken.append(item)
    return IteratorValue(taken[bounds])


def _combination(function: Any) -> None:
    @meaning(function)
    def combine(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        """Combinations of the values themselves, taken as opaque."""
        known = [machine.known(each) for each in arguments]
        numbers = [each.value for each in known if isinstance(each, ConstantValue) and isinstance(each.value, int)]
        pools = [elements(machine, each) for each in known[: len(known) - len(numbers)]]
        named = {name: machine.known(value).value for name, value in keywords.items()}
        return IteratorValue([TupleValue(tuple(each)) for each in function(*pools, *numbers, **named)])


for _function in (itertools.product, itertools.permutations, itertools.combinations):
    _combination(_function)


@meaning(itertools.repeat)
def repeat_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) < 2:
        raise Break(ForeignCall("itertools.repeat", "it never ends"))
    return IteratorValue([arguments[0]] * machine.known(arguments[1]).value)


@meaning(itertools.zip_longest)
def zip_longest(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    rows = itertools.zip_longest(
        *(elements(machine, each) for each in arguments), fillvalue=keywords.get("fillvalue", NONE)
    )
    return IteratorValue([TupleValue(row) for row in rows])


def _equivalent(thing: Any, python: Any) -> None:
    @meaning(thing)
    def run(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        return equivalents.enter(machine, python, arguments, keywords)


for _thing, _python in (
    (filter, equivalents.filter_),
    (any, equivalents.any_),
    (all, equivalents.all_),
    (sum, equivalents.sum_),
    (functools.reduce, equivalents.reduce_),
    (itertools.accumulate, equivalents.accumulate_),
    (itertools.chain, equivalents.chain_),
    (itertools.starmap, equivalents.starmap_),
    (itertools.takewhile, equivalents.takewhile_),
    (itertools.dropwhile, equivalents.dropwhile_),
):
    _equivalent(_thing, _python)


@meaning(equivalents.sum_of_numbers)
def sum_of_numbers(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    """Two additions of floats or more give another number than `+` does where `sum` makes up for rounding."""
    numbers, start = [machine.realize(each) for each in arguments[0].items], arguments[1]
    floats = sum(number.python_type is float for number in (start, *numbers))
    if any(isinstance(number, SymbolicNumber) for number in (start, *numbers)) and (
        not RUNNING.sum_is_compensated or floats < 3
    ):
        return functools.reduce(
            lambda total, number: machine.finish(operators.binary(machine, "+", total, number)), numbers, start
        )
    return ConstantValue(sum([machine.known(number).value for number in numbers], machine.known(start).value))


meaning(itertools.chain.from_iterable)(
    lambda machine, arguments, keywords: equivalents.enter(
        machine, equivalents.chain_from_iterable, arguments, keywords
    )
)


@meaning(map)
def map_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    if len(arguments) < 2:
        raise machine.throw(TypeError, "map() must have at least two arguments.")
    python = equivalents.map_one if len(arguments) == 2 else equivalents.map_
    return equivalents.enter(machine, python, arguments, keywords)


def extreme(machine: Machine, symbol: str, python: Any, arguments: Arguments, keywords: Keywords) -> Any:
    given = elements(machine, arguments[0]) if len(arguments) == 1 else arguments
    if not given:
        if "default" in keywords:
            return keywords["default"]
        raise fails_like(machine, min if symbol == "<" else max, ListValue([]))
    key = keywords.get("key", NONE)
    if not is_none(machine.realize(key)):
        return equivalents.enter(machine, python, [ListValue(list(given)), key])
    best = machine.realize(given[0])
    for item in given[1:]:
        item = machine.realize(item)
        if truth(machine, machine.finish(operators.compare(machine, symbol, item, best))):
            best = item
    return best


@meaning(min)
def min_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return extreme(machine, "<", equivalents.smallest, arguments, keywords)


@meaning(max)
def max_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return extreme(machine, ">", equivalents.largest, arguments, keywords)


@meaning(sorted)
def sorted_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return ListValue(in_order(machine, elements(machine, arguments[0]), keywords))


def in_order(machine: Machine, values: list[Value], keywords: Keywords) -> list[Value]:
    key = machine.realize(keywords.get("key", NONE))
    keys = values if is_none(key) else [machine.call_now(key, [value]) for value in values]
    reverse = truth(machine, keywords["reverse"]) if "reverse" in keywords else False

    def less(left: int, right: int) -> int:
        one, other = machine.realize(keys[left]), machine.realize(keys[right])
        if truth(machine, machine.finish(operators.compare(machine, "<", one, other))):
            return -1
        return 1 if truth(machine, machine.finish(operators.compare(machine, "<", other, one))) else 0

    known = [constant_of(machine.known(each)) for each in keys]
    if any(type(each) is NotConstant for each in known):
        order = sorted(range(len(values)), key=functools.cmp_to_key(less), reverse=reverse)
    else:
        order = compute(machine, sorted, (range(len(values)),), {"key": known.__getitem__, "reverse": reverse}).value
    return [values[at] for at in order]


# Functions as values


@meaning(functools.partial)
def partial_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    function = machine.realize(arguments[0])
    if isinstance(function, PartialValue):
        return PartialValue(function.function, (*function.arguments, *arguments[1:]), {**function.keywords, **keywords})
    return PartialValue(function, tuple(arguments[1:]), dict(keywords))


@meaning(types.MethodType)
def method_type(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return MethodValue(machine.realize(arguments[0]), machine.realize(arguments[1]))


@meaning(types.CellType)
def cell_type(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return CellValue(arguments[0] if arguments else None, "cell")


@meaning(typing.cast)
def cast_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return arguments[1]


def _operator_function(function: Any, apply: Any) -> None:
    @meaning(function)
    def run(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        return apply(machine, *[machine.realize(each) for each in arguments])


for _symbol, _op in {**operators.OPERATORS, **operators.COMPARISONS}.items():
    _operator_function(_op.function, lambda machine, left, right, _op=_op: operators.apply(machine, _op, left, right))
for _op in operators.UNARY.values():
    _operator_function(_op.function, lambda machine, value, _op=_op: operators.unary(machine, _op, value))
_operator_function(operator.getitem, items.get)
_operator_function(operator.setitem, lambda machine, *parts: items.set(machine, *parts) or NONE)
_operator_function(operator.delitem, lambda machine, *parts: items.delete(machine, *parts) or NONE)
_operator_function(
    operator.contains, lambda machine, container, item: boolean(items.contains(machine, container, item))
)
_operator_function(operator.is_, lambda machine, left, right: boolean(operators.is_same(machine, left, right)))
_operator_function(operator.is_not, lambda machine, left, right: boolean(not operators.is_same(machine, left, right)))
