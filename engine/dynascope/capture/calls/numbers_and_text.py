"""Numbers and text: conversions, rounding, formatting."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import late_numbers, texts
from dynascope.capture.calls.arguments import Arguments, Keywords, in_order
from dynascope.capture.calls.late_truths import truth_in
from dynascope.capture.calls.own_texts import asks_program
from dynascope.capture.calls.pure import compute, fails_like, value_of
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols import operators
from dynascope.capture.protocols.attributes import special
from dynascope.capture.protocols.classes import MISSING, has_own_method, has_python_method, lookup
from dynascope.capture.protocols.truth import truth
from dynascope.capture.reasons import DataDependentValue, ForeignValue, ProgramRaises, TextOfTensor
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    ArrayValue,
    ConditionValue,
    ConstantValue,
    InstanceValue,
    NotConstant,
    SymbolicNumber,
    TensorValue,
    TextValue,
    TupleValue,
    Value,
    boolean,
    constant_of,
    has_own_text,
)
from dynascope.report.reason import Reason

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def number(machine: Machine, cls: type, arguments: Arguments, keywords: Keywords) -> Value:
    value = machine.realize(arguments[0]) if arguments else ConstantValue(0)
    if isinstance(value, (TensorValue, ArrayValue)):
        found = None
        if cls is not complex and len(arguments) == 1:
            find = late_numbers.number_of_array if isinstance(value, ArrayValue) else late_numbers.number_of
            found = find(machine, value)
        if found is None:
            raise Break(DataDependentValue(machine.expression(), cls.__name__))
        value, arguments = found, [found]
        if value.python_type is not cls and not isinstance(value, ConstantValue):
            return machine.sizes.compute(cls, (value,)) or machine.known(value)
    if isinstance(value, SymbolicNumber) and value.python_type is cls:
        return value
    name = f"__{cls.__name__}__"
    if isinstance(value, InstanceValue) or has_own_method(value, name):
        if lookup(value.python_type, name) is MISSING or len(arguments) + len(keywords) > 1:
            raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
        made = machine.known(machine.call_now(special(machine, value, name), []))
        if not (isinstance(made, ConstantValue) and type(made.value) is cls):
            raise Break(ProgramRaises("TypeError", machine.expression()))
        return made
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
        if (value := truth_in(machine, value)) is None:
            raise Break(DataDependentValue(machine.expression(), "bool"))
    return value if isinstance(value, ConditionValue) else boolean(truth(machine, value))


@meaning(operator.truth)
def truth_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(truth(machine, arguments[0]))


@meaning(operator.not_)
def not_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return boolean(not truth(machine, arguments[0]))


@meaning(str)
def str_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) == 1 and not keywords:
        return convert_text(machine, "str", arguments[0])
    named = {name: machine.object_of(value) for name, value in keywords.items()}
    return compute(machine, str, tuple(machine.object_of(each) for each in arguments), named)


@meaning(repr)
def repr_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return convert_text(machine, "repr", arguments[0])


CONVERSIONS = {"str": str, "repr": repr, "ascii": ascii}


def convert_text(machine: Machine, conversion: str | None, value: Value) -> Value:
    """`str(x)`, `repr(x)`: of what is known or a number; a tensor's text is its data."""
    if conversion is None:
        return value
    if (varying := texts.text(machine, CONVERSIONS[conversion], value)) is not None:
        return varying
    value = machine.known(value)
    if isinstance(value, InstanceValue) or (isinstance(value, TupleValue) and has_own_text(value.cls)):
        return instance_text(machine, conversion, value)
    if isinstance(value, ConstantValue) and has_own_method(value, "__str__", "__repr__"):
        return fixed_text(machine, conversion, value)
    known = constant_of(value)
    if type(known) is NotConstant:
        raise Break(_no_text(machine, known.value))
    if asks_program(machine, value):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    return compute(machine, CONVERSIONS[conversion], (known,))


def _no_text(machine: Machine, value: Value) -> Reason:
    if isinstance(value, TensorValue):
        return TextOfTensor(machine.expression())
    return ForeignValue(value.python_type.__name__, machine.expression())


def instance_text(machine: Machine, conversion: str, value: InstanceValue | TupleValue) -> Value:
    for name in ("__str__", "__repr__") if conversion == "str" else ("__repr__",):
        if has_python_method(value.cls, name):
            return as_text(machine, machine.call_now(special(machine, value, name), []))
    if isinstance(value, InstanceValue) and issubclass(value.cls, BaseException) and value.object is None:
        known = [constant_of(each) for each in value.arguments]
        if not any(type(each) is NotConstant for each in known):
            return compute(machine, CONVERSIONS[conversion], (error_of(machine, value.cls, known),))
    raise Break(ForeignValue(value.cls.__name__, machine.expression()))


def fixed_text(machine: Machine, conversion: str, value: ConstantValue) -> Value:
    """The text of a class or of a member of an enum that has words of its own."""
    kind = type(value.value)
    for name in ("__str__", "__repr__") if conversion == "str" else ("__repr__",):
        if has_python_method(kind, name):
            return as_text(machine, machine.call_now(special(machine, value, name), []))
        if lookup(kind, name) is not object.__str__:
            break
    return compute(machine, CONVERSIONS[conversion], (value.value,))


def error_of(machine: Machine, cls: type[BaseException], arguments: list) -> BaseException:
    """One with these `args`. A class's own `__init__` takes others, and may do anything: it is not called again."""
    if not has_python_method(cls, "__init__") and not has_python_method(cls, "__new__"):
        return cls(*arguments)
    if cls.__str__ not in (BaseException.__str__, KeyError.__str__) or cls.__new__ is not Exception.__new__:
        raise Break(ForeignValue(cls.__name__, machine.expression()))
    made = cls.__new__(cls)
    made.args = tuple(arguments)
    return made


def as_text(machine: Machine, value: Value) -> Value:
    """A special method's answer, which must be a text."""
    if isinstance(value, TextValue):
        return value
    value = machine.known(value)
    if not (isinstance(value, ConstantValue) and isinstance(value.value, str)):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return value


def format_text(machine: Machine, value: Value, specification: Value) -> Value:
    value = texts.number_in(machine, value)
    if isinstance(value, TextValue) and texts.is_empty(specification):
        return value
    if (varying := texts.text(machine, format, value, specification)) is not None:
        return varying
    value = machine.known(value)
    if isinstance(value, InstanceValue) or (isinstance(value, TupleValue) and has_own_text(value.cls)):
        if has_python_method(value.cls, "__format__"):
            made = machine.call_now(special(machine, value, "__format__"), [specification])
            return as_text(machine, made)
        return format_text(machine, instance_text(machine, "str", value), specification)
    if isinstance(value, ConstantValue) and has_own_method(value, "__format__", "__str__", "__repr__"):
        if has_python_method(value.python_type, "__format__"):
            return as_text(machine, machine.call_now(special(machine, value, "__format__"), [specification]))
        if texts.is_empty(specification):  # what C formats, it asks for its text then
            return fixed_text(machine, "str", value)
    known = constant_of(value)
    if type(known) is NotConstant:
        raise Break(_no_text(machine, known.value))
    if not isinstance(value, ConstantValue) and asks_program(machine, value):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    return compute(machine, format, (known, machine.object_of(specification)))


@meaning(abs)
def abs_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return by_operator(machine, operator.abs, torch.abs, "__abs__", arguments)


@meaning(round)
def round_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    arguments = in_order(arguments, keywords, "number", "ndigits")
    if isinstance(machine.realize(arguments[0]), TensorValue):  # torch gives it no meaning
        raise fails_like(machine, round, *arguments)
    return by_operator(machine, round, torch.round, "__round__", arguments)


def by_operator(machine: Machine, function: Any, tensor_function: Any, name: str, arguments: Arguments) -> Any:
    value = machine.realize(arguments[0])
    if isinstance(value, TensorValue):
        from dynascope.capture.calls.tensors import apply_function

        return apply_function(machine, tensor_function, arguments, {})
    if isinstance(value, InstanceValue) or has_own_method(value, name):
        if lookup(value.python_type, name) is MISSING:
            raise Break(ProgramRaises("TypeError", machine.expression()))
        return machine.call(special(machine, value, name), arguments[1:])
    return compute(machine, function, tuple(machine.object_of(each) for each in arguments))


@meaning(pow)
def pow_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    arguments = in_order(arguments, keywords, "base", "exp", "mod")
    if len(arguments) == 2:
        return operators.binary(machine, "**", machine.realize(arguments[0]), machine.realize(arguments[1]))
    return compute(machine, pow, tuple(machine.object_of(each) for each in arguments))


@meaning(divmod)
def divmod_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    left, right = (machine.realize(each) for each in arguments)
    known = constant_of(left), constant_of(right)
    are_own = has_own_method(left, "__divmod__") or has_own_method(right, "__rdivmod__")
    if not are_own and not any(type(each) is NotConstant for each in known):
        return value_of(compute(machine, divmod, known).value)
    if are_own or InstanceValue in (type(left), type(right)):
        return operators.by_methods(machine, operators.DIVMOD, left, right)
    if TensorValue in (type(left), type(right)):
        raise fails_like(machine, divmod, left, right)
    try:
        parts = [machine.finish(operators.binary(machine, symbol, left, right)) for symbol in ("//", "%")]
    except Raised:
        raise fails_like(machine, divmod, left, right) from None
    return TupleValue(tuple(parts))
