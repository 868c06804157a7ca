"""What a call means, by the kind of thing that is called.

call(machine, f, [x], {})    the result, or the frame of a Python function about to run
"""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import functools
import math
import re
import sys
import types
from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from dynascope.capture import numpy_numbers
from dynascope.capture.calls import (
    clock_calls,
    compiled_inside,
    distributed_tensors,
    draws,
    either_of,
    known_objects,
    known_tensors,
    numpy_calls,
    python,
    tensors_of_numbers,
    texts,
)
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.modules import call_module, has_own_call
from dynascope.capture.calls.number_calls import number_call
from dynascope.capture.calls.numpy_of_tensors import joins_tensors, universal_of_tensors
from dynascope.capture.calls.own_texts import asks_program
from dynascope.capture.calls.pure import compute, value_of
from dynascope.capture.calls.registry import (
    CALLABLE_OBJECTS,
    CONSTRUCTORS,
    FOLDABLE,
    FOLDABLE_TYPES,
    MEANINGS,
    MEANINGS_OF_CODE,
    meaning,
)
from dynascope.capture.calls.signatures import accepts
from dynascope.capture.calls.state_reads import TOLD, reads_state, state_read
from dynascope.capture.calls.tensor_metadata import metadata_method
from dynascope.capture.calls.tensor_names import FACTORIES, METADATA_FUNCTIONS, OF_NUMBERS
from dynascope.capture.calls.tensors import apply_function, apply_method, name_of
from dynascope.capture.calls.weak_references import call_reference
from dynascope.capture.distributed_values import DistributedValue, is_placement, is_placement_class
from dynascope.capture.expressions import callee
from dynascope.capture.operators_called import TORCHS_OWN
from dynascope.capture.places import is_own, is_torch_operation
from dynascope.capture.protocols import overriding
from dynascope.capture.protocols.attributes import PYBIND_METHOD, of_constant, special
from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import (
    MISSING,
    has_own_method,
    has_python_method,
    lookup,
    refuse_own_comparisons,
)
from dynascope.capture.protocols.iteration import elements
from dynascope.capture.reasons import (
    DataDependentValue,
    DebuggerCall,
    ForeignCall,
    ForeignValue,
    ProgramRaises,
    ReportingCall,
    TextOfTensor,
    is_report,
)
from dynascope.capture.signals import Break, Refusal
from dynascope.capture.values import (
    NONE,
    ArrayValue,
    CompilationValue,
    ConstantValue,
    DescriptorValue,
    FunctionValue,
    GeneratorValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    MethodValue,
    NotConstant,
    PartialValue,
    SymbolicNumber,
    TensorValue,
    TextValue,
    TupleValue,
    Value,
    WeakReferenceValue,
    constant_of,
    items_once,
)
from dynascope.guards.source import ConstantSource, MadeSource
from dynascope.sizes import is_function_of_numbers

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def call(machine: Machine, function: Value, arguments: Arguments, keywords: Keywords) -> Any:
    function = machine.realize(function)
    caller = CALLERS.get(type(function))
    if caller is None:
        raise machine.throw(TypeError, f"{name_in_errors(function.python_type)!r} object is not callable")
    return caller(machine, function, arguments, keywords)


def call_function(machine: Machine, function: FunctionValue, arguments: Arguments, keywords: Keywords) -> Any:
    known = kept_out_by_torch(function)
    if (meaning := MEANINGS.get(known)) is not None:
        return by_meaning(machine, known, meaning, arguments, keywords)
    if compiled_inside.compiles(function):
        return compiled_inside.called(machine, function, arguments, keywords)
    if distributed_tensors.is_method(function.object):
        return distributed_tensors.call(machine, function.object, arguments, keywords)
    if function.code in MEANINGS_OF_CODE and function.object is not None:
        return MEANINGS_OF_CODE[function.code](machine, function, arguments, keywords)
    return python.enter(machine, function, arguments, keywords)


def kept_out_by_torch(function: FunctionValue) -> Any:
    """The function itself, or what the import of torch's own compiler has put a wrapper around (`torch.manual_seed`)."""
    is_wrapper = function.object is not None and function.globals is vars(torch._compile) and function.object not in MEANINGS
    return getattr(function.object, "__wrapped__", None) if is_wrapper else function.object


def call_method(machine: Machine, method: MethodValue, arguments: Arguments, keywords: Keywords) -> Any:
    return call(machine, method.function, [method.instance, *arguments], keywords)


def call_partial(machine: Machine, partial: PartialValue, arguments: Arguments, keywords: Keywords) -> Any:
    return call(machine, partial.function, [*partial.arguments, *arguments], {**partial.keywords, **keywords})


def call_instance(machine: Machine, instance: InstanceValue, arguments: Arguments, keywords: Keywords) -> Any:
    if instance.cls in CALLABLE_OBJECTS and instance.object is not None:
        return CALLABLE_OBJECTS[instance.cls](machine, instance, arguments, keywords)
    if issubclass(instance.cls, torch.nn.Module) and has_own_call(machine, instance):
        return call_module(machine, instance, arguments, keywords)
    if lookup(instance.cls, "__call__") is MISSING:
        raise machine.throw(TypeError, f"{name_in_errors(instance.cls)!r} object is not callable")
    return call(machine, special(machine, instance, "__call__"), arguments, keywords)


def call_constant(machine: Machine, function: ConstantValue, arguments: Arguments, keywords: Keywords) -> Any:
    """A class, a C function, a torch operation, or a bound method of a known object."""
    thing = function.value
    if issubclass(type(thing), type):
        refuse_own_comparisons(machine, thing)
    if type(thing) is PYBIND_METHOD and thing.__func__ in MEANINGS:  # what binds it has no hash
        thing = thing.__func__
    is_either = either_of.are_among((*arguments, *keywords.values()))
    if is_either and (thing is float or thing is int or is_asked_about(thing)):
        return either_of.called(machine, function, arguments, keywords)
    if machine.overriding.meets(arguments, keywords) and is_asked_about(thing):
        found = overriding.answer(machine, thing, arguments, keywords)
        if found is not None:
            return found
        arguments = [overriding.plain(value) for value in arguments]
        keywords = {name: overriding.plain(value) for name, value in keywords.items()}
    if is_accessor(thing):
        return accessed(machine, thing, arguments, keywords)
    if not keywords and not is_either and is_function_of_numbers(thing):
        found = machine.sizes.compute(thing, [machine.realize(argument) for argument in arguments])
        if found is not None:
            return found
    if arguments and isinstance(arguments[0], TextValue) and getattr(thing, "__objclass__", None) is str:
        if (varying := texts.call(machine, thing, arguments, keywords)) is not None:
            return varying
    if type(thing) is types.MethodDescriptorType and arguments and machine.realize(arguments[0]).__class__ is SymbolicNumber:
        return method_of_number(machine, thing, arguments, keywords)
    meaning = meaning_of(thing)
    if meaning is not None:
        return by_meaning(machine, thing, meaning, arguments, keywords)
    if thing is breakpoint or thing is sys.breakpointhook:
        raise Refusal(DebuggerCall("breakpoint"))
    if isinstance(thing, types.BuiltinFunctionType) and isinstance(thing.__self__, OWNERS):
        owner = thing.__self__
        meaning = meaning_of(in_c(owner if isinstance(owner, type) else type(owner), thing.__name__))
        meaning = meaning or (meaning_of(lookup(type(owner), thing.__name__)) if isinstance(owner, type) else None)
        if meaning is not None:
            return by_meaning(machine, thing, meaning, [ConstantValue(owner), *arguments], keywords, given=len(arguments))
    if isinstance(thing, types.MethodWrapperType) and isinstance(thing.__self__, types.ModuleType):
        method = lookup(type(thing.__self__), thing.__name__)
        if (meaning := meaning_of(method)) is not None:
            return by_meaning(machine, thing, meaning, [ConstantValue(thing.__self__), *arguments], keywords, given=len(arguments))
    if type(thing) in CALLABLE_OBJECTS:
        return CALLABLE_OBJECTS[type(thing)](machine, thing, arguments, keywords)
    if isinstance(thing, type):
        return construct(machine, function, arguments, keywords)
    if is_tensor_method(thing) and arguments:
        return call_tensor_method(machine, thing, arguments, keywords)
    if reads_state(thing) and (not arguments or thing in TOLD) and not keywords:
        return state_read(machine, thing, arguments)
    if is_listed(thing) or (isinstance(getattr(thing, "__self__", None), str) and is_foldable(thing)):
        return fold(machine, thing, arguments, keywords)
    if type(thing) is types.BuiltinFunctionType and arguments and is_placement(constant_of(machine.realize(arguments[0]))):
        return fold(machine, thing, arguments, keywords)
    if is_torch_operation(thing):
        return call_torch(machine, thing, arguments, keywords)
    if is_foldable(thing):
        return fold(machine, thing, arguments, keywords)
    if numpy_numbers.is_universal(thing) and any(isinstance(machine.realize(argument), TensorValue) for argument in arguments):
        return universal_of_tensors(machine, thing, arguments, keywords)
    is_numpys, told = numpy_numbers.is_function(thing), (*arguments, *keywords.values())
    if is_numpys and (any(holds_array(machine, argument) for argument in arguments) or joins_tensors(machine, thing, arguments)):
        return numpy_calls.call(machine, thing, arguments, keywords)
    is_pure = is_numpys and (thing in numpy_calls.OF_KNOWN or all(is_of_numbers(machine, each) for each in told))
    if is_pure or numpy_numbers.makes_number(thing):
        return by_numpy(machine, thing, arguments, keywords)
    if has_python_method(type(thing), "__call__"):
        return call(machine, special(machine, function, "__call__"), arguments, keywords)
    for read in (known_objects.of_method, draws.of_method, clock_calls.read):
        if (found := read(machine, thing, arguments, keywords)) is not None:
            return found
    raise Break(foreign(machine, thing))


def method_of_number(machine: Machine, method: Any, arguments: Arguments, keywords: Keywords) -> Any:
    """A method in C of a number that varies: numbers do not change."""
    if is_for(method, machine.realize(arguments[0])) and (found := number_call(machine, method, arguments, keywords)) is not None:
        return found
    return call(machine, of_constant(machine, machine.known(arguments[0]), method.__name__), arguments[1:], keywords)


def is_asked_about(thing: Any) -> bool:
    """Whether it is torch's, so that modes and classes of the program may say what it does. Those that have a meaning in
    `function_overrides` are what the asking is made of."""
    meaning = meaning_of(thing)
    if meaning is not None and meaning.__module__ == PROTOCOL:
        return False
    return is_tensor_method(thing) or is_torch_operation(thing) or is_accessor(thing) or overriding.is_about_no_tensor(thing)


PROTOCOL = "dynascope.capture.calls.function_overrides"


def is_accessor(thing: Any) -> bool:
    """`torch.Tensor.shape.__get__`: what reading an attribute of a tensor in C is to `__torch_function__`."""
    return (
        type(thing) is types.MethodWrapperType
        and type(thing.__self__) is types.GetSetDescriptorType
        and issubclass(torch.Tensor, thing.__self__.__objclass__)
    )


def accessed(machine: Machine, thing: Any, arguments: Arguments, keywords: Keywords) -> Any:
    if thing.__name__ != "__get__" or keywords or not isinstance(machine.realize(arguments[0]), TensorValue):
        raise Break(foreign(machine, thing))
    return overriding.attribute_in_c(machine, machine.realize(arguments[0]), thing.__self__.__name__)


def by_meaning(
    machine: Machine,
    thing: Any,
    meaning: Callable[..., Any],
    arguments: Arguments,
    keywords: Keywords,
    given: int | None = None,
) -> Any:
    """Arguments that it does not take are for Python to complain about, in its own words; `given` are the call's own."""
    accepted = accepts(thing, len(arguments) if given is None else given, tuple(keywords))
    if not accepted or (arguments and isinstance(thing, OF_A_CLASS) and not is_for(thing, machine.realize(arguments[0]))):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return meaning(machine, arguments, keywords)


OWNERS = (type, str, torch.dtype, torch.device, contextvars.ContextVar)
"""What a method in C may be bound to and be the same at each call."""
OF_A_CLASS = types.MethodDescriptorType, types.WrapperDescriptorType


def is_for(method: Any, value: Value) -> bool:
    """`list.append` takes no deque."""
    return issubclass(value.python_type, method.__objclass__)


def in_c(cls: type, name: str) -> Any:
    """The entry that a class's method in C was bound from. A subclass may have one of its own in Python, which `super()` passes by."""
    entry = lookup(cls, name)
    if not isinstance(entry, (classmethod, staticmethod, types.FunctionType)):
        return entry
    entries = (vars(base)[name] for base in cls.__mro__ if name in vars(base))
    return next((each for each in entries if isinstance(each, types.ClassMethodDescriptorType)), entry)


def meaning_of(thing: Any) -> Callable[..., Any] | None:
    try:
        return MEANINGS.get(thing)
    except TypeError:
        return None


def is_tensor_method(thing: Any) -> bool:
    if isinstance(thing, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return issubclass(torch.Tensor, thing.__objclass__) and thing.__objclass__ is not object
    return isinstance(thing, types.FunctionType) and thing.__module__ == "torch._tensor"


def call_tensor_method(machine: Machine, method: Any, arguments: Arguments, keywords: Keywords) -> Any:
    instance = machine.realize(arguments[0])
    if not isinstance(instance, (TensorValue, DistributedValue)):
        if issubclass(instance.python_type, torch.Tensor):  # one that is only handed on: on the device "meta"
            raise Break(ForeignValue(instance.python_type.__name__, machine.expression()))
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return apply_method(machine, method, [instance, *arguments[1:]], keywords)


def call_torch(machine: Machine, thing: Any, arguments: Arguments, keywords: Keywords) -> Any:
    """A function of torch: a node where tensors come in or go out, computed for real otherwise."""
    name = name_of(thing)
    if name in METADATA_FUNCTIONS:
        return metadata_method(machine, thing, name, arguments, keywords)
    if name in OF_NUMBERS:
        arguments = tensors_of_numbers.with_lists(machine, arguments)
    if name in numpy_calls.OF_ARRAYS and any(holds_array(machine, value) for value in (*arguments, *keywords.values())):
        return numpy_calls.OF_ARRAYS[name](machine, arguments, keywords)
    if name in OF_NUMBERS and (made := tensors_of_numbers.from_parts(machine, arguments, keywords)) is not None:
        return made
    if isinstance(thing, types.FunctionType) and any(is_followed(machine, value) for value in (*arguments, *keywords.values())):
        return entered(machine, thing, arguments, keywords)
    if name in FACTORIES or any(holds_tensor(machine, value) for value in (*arguments, *keywords.values())):
        mark = machine.journal.mark()
        try:
            return apply_function(machine, thing, arguments, keywords)
        except Break as signal:
            if not isinstance(thing, types.FunctionType) or not isinstance(signal.reason, DataDependentValue):
                raise
            machine.journal.rollback(mark)  # its Python asks what a tensor holds: most often to raise an error
            return entered(machine, thing, arguments, keywords)
    if isinstance(thing, (OpOverload, OpOverloadPacket)) and is_of_torch(thing):
        return call_operator(machine, thing, arguments, keywords)
    if (made := known_tensors.of_numbers(machine, thing, arguments, keywords)) is not None:
        number, dtype = map(ConstantValue, made)
        return apply_function(machine, torch.full, [TupleValue(()), number], {"dtype": dtype})
    if (made := tensors_of_numbers.as_tensor_operation(machine, thing, arguments, keywords)) is not None:
        return made
    if isinstance(thing, types.FunctionType):
        return entered(machine, thing, arguments, keywords)
    raise Break(foreign(machine, thing))


def entered(machine: Machine, function: types.FunctionType, arguments: Arguments, keywords: Keywords) -> Any:
    """A function of torch's in Python, step by step."""
    source = ConstantSource(f"{name_of(function)}@{id(function)}", function)
    return python.enter(machine, machine.outside.function(function, source), arguments, keywords)


def is_followed(machine: Machine, value: Value) -> bool:
    """Whether no graph holds it, and a function of torch's calls or reads it: a module, a function, a class, a row of options."""
    value = machine.realize(value)
    if isinstance(value, InstanceValue):
        return issubclass(value.cls, torch.nn.Module) or dataclasses.is_dataclass(value.cls)
    if isinstance(value, ConstantValue):
        return isinstance(value.value, (type, types.FunctionType, types.BuiltinFunctionType))
    return isinstance(value, (FunctionValue, MethodValue))


def is_of_torch(operator: OpOverload | OpOverloadPacket) -> bool:
    return str(operator).partition(".")[0] in TORCHS_OWN


def call_operator(machine: Machine, operator: Any, arguments: Arguments, keywords: Keywords) -> Any:
    """An operator of torch's own without tensors among its arguments: it makes one, on a device that it is told, or a number."""
    overloads = [operator] if isinstance(operator, OpOverload) else [getattr(operator, n) for n in operator.overloads()]
    if any(computes_numbers(each) and len(each._schema.arguments) == len(arguments) for each in overloads):
        return as_tensor_inside(machine, fold(machine, operator, arguments, keywords))
    if all(argument.name != "device" for each in overloads for argument in each._schema.arguments):
        raise Break(foreign(machine, operator))
    return apply_function(machine, operator, arguments, {"device": ConstantValue(machine.default_device()), **keywords})


def as_tensor_inside(machine: Machine, made: Value) -> Value:
    """`torch.ops.aten.add(4, 3.3)` is a tensor of no dimensions: the graph makes it."""
    known = constant_of(made)
    if not isinstance(known, torch.Tensor):
        return made
    if known.dim() or known.device.type != "cpu" or known.dtype.is_complex:
        raise Break(ForeignValue("Tensor", machine.expression()))
    return apply_function(machine, torch.full, [TupleValue(()), ConstantValue(known.item())], {"dtype": ConstantValue(known.dtype)})


def computes_numbers(operator: OpOverload) -> bool:
    """Whether it computes a number of numbers, as torch's scripts do."""
    schema = operator._schema
    return len(schema.returns) == 1 and all(str(each.type) in NUMBERS for each in (*schema.arguments, *schema.returns))


NUMBERS = frozenset({"int", "float", "bool", "complex", "number", "Scalar"})


def holds_tensor(machine: Machine, value: Value) -> bool:
    value = machine.realize(value)
    if isinstance(value, (ListValue, TupleValue)):
        return any(holds_tensor(machine, item) for item in items_once(value))
    return isinstance(value, (TensorValue, DistributedValue))


def holds_array(machine: Machine, value: Value) -> bool:
    value = machine.realize(value)
    if isinstance(value, (ListValue, TupleValue)):
        return any(holds_array(machine, item) for item in value.items)
    return isinstance(value, ArrayValue)


def is_of_numbers(machine: Machine, value: Value) -> bool:
    """Whether it is a number, None, or a row of such. A text could be the name of a file to a function that writes (`numpy.save`)."""
    value = machine.realize(value)
    if isinstance(value, (ListValue, TupleValue)):
        return all(is_of_numbers(machine, item) for item in value.items)
    kinds = (int, float, NoneType, *numpy_numbers.TYPES)
    return isinstance(value, SymbolicNumber) or (isinstance(value, ConstantValue) and isinstance(value.value, kinds))


def is_listed(thing: Any) -> bool:
    try:
        return thing in FOLDABLE
    except TypeError:
        return False


def is_foldable(thing: Any) -> bool:
    """Without effects, and the same for the same arguments: functions listed, and methods of immutable objects."""
    owner = getattr(thing, "__self__", None)
    if isinstance(thing, (types.BuiltinFunctionType, types.MethodWrapperType)) and kind_of_owner(owner, thing) in FOLDABLE_TYPES:
        return True
    if isinstance(thing, types.BuiltinFunctionType) and isinstance(owner, type) and owner in FOLDABLE_TYPES:
        return True
    return getattr(thing, "__objclass__", None) in FOLDABLE_TYPES


def kind_of_owner(owner: Any, method: Any) -> type:
    """The class that a bound method is of: members of an enumeration of texts or numbers have those of a class in C."""
    if not isinstance(owner, enum.Enum):
        return type(owner)
    return next((base for base in type(owner).__mro__ if method.__name__ in vars(base)), type(owner))


def writes_text(thing: Any) -> bool:
    """`format(x, ".2f")`, `"{:.2f}".format(x)`, `"%s %d" % (x, n)`."""
    of_text = isinstance(getattr(thing, "__self__", None), str) or getattr(thing, "__objclass__", None) is str
    return thing is format or (of_text and thing.__name__ in ("format", "format_map", "__mod__"))


def fold(machine: Machine, thing: Any, arguments: Arguments, keywords: Keywords) -> Value:
    takes_items = thing is math.prod or thing is math.fsum
    if takes_items and arguments and isinstance(machine.realize(arguments[0]), (GeneratorValue, IteratorValue)):
        arguments = [ListValue(elements(machine, arguments[0])), *arguments[1:]]
    if (varying := number_call(machine, thing, arguments, keywords)) is not None:
        return varying
    if writes_text(thing) and (varying := texts.call(machine, thing, arguments, keywords)) is not None:
        return varying
    if is_asked_by_mathematics(machine, thing, arguments):
        raise Break(foreign(machine, thing))
    if (numbers := numbers_of_numpy(machine, thing, arguments)) is not None:
        return call(machine, ConstantValue(thing), numbers, keywords)
    known, named = constants_of(machine, arguments, keywords)
    for value in (*known, *named.values()):
        if type(value) is NotConstant:
            if isinstance(value.value, TensorValue):
                if writes_text(thing):
                    raise Break(TextOfTensor(machine.expression()))
                raise Break(
                    ForeignCall(callee(machine.expression()) or name_of(thing), "it needs the value of a tensor")
                )
            raise Break(foreign(machine, thing))
    if writes_text(thing) and any(asks_program(machine, each) for each in (*arguments, *keywords.values())):
        raise Break(foreign(machine, thing))
    made = compute(machine, thing, known, named).value
    if type(made) is SCANNER:  # it remembers where it is
        raise Break(foreign(machine, thing))
    return value_of(made)


def is_asked_by_mathematics(machine: Machine, thing: Any, arguments: Arguments) -> bool:
    """Whether the program has its own answer to `math.floor(level)`, `math.sqrt(level)`."""
    names = ("__trunc__", "__floor__", "__ceil__", "__float__", "__index__")
    is_mathematics = getattr(thing, "__module__", None) in ("math", "_operator")
    return is_mathematics and any(has_own_method(machine.realize(each), *names) for each in arguments)


def numbers_of_numpy(machine: Machine, thing: Any, arguments: Arguments) -> list[Value] | None:
    """`math.sqrt(a[0])` of an array: what `math` takes a number of NumPy's for. Of whole numbers `floor` and its like look at the fraction
    that a float rounds off. None where no argument is such a number."""
    values = [machine.realize(each) for each in arguments]
    if getattr(thing, "__module__", None) != "math" or not any(isinstance(each, ArrayValue) and each.is_number for each in values):
        return None
    numbers: list[Value] = []
    for each in values:
        if isinstance(each, ArrayValue):
            is_whole = not each.tensor.example.is_floating_point()
            if not each.is_number or (is_whole and thing in (math.floor, math.ceil, math.trunc)):
                raise Break(foreign(machine, thing))
            each = machine.realize(machine.call_now(ConstantValue(int if is_whole else float), [each]))
        numbers.append(each)
    return numbers


SCANNER = type(re.compile("").scanner(""))


def constants_of(machine: Machine, arguments: Arguments, keywords: Keywords) -> tuple[tuple, dict[str, Any]]:
    """What is known of the arguments; `NotConstant` in the place of the others."""
    known = tuple(constant_of(machine.known(argument)) for argument in arguments)
    return known, {name: constant_of(machine.known(value)) for name, value in keywords.items()}


def by_numpy(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if (varying := number_call(machine, function, arguments, keywords)) is not None:
        return varying
    known, named = constants_of(machine, arguments, keywords)
    if any(type(value) is NotConstant for value in (*known, *named.values())):
        raise Break(foreign(machine, function))
    try:
        result = numpy_numbers.number_of(function, known, named)
    except Exception as error:
        raise machine.throw(type(error), *error.args) from None
    if result is None:
        if (array := numpy_calls.of_known_numbers(machine, function, arguments, keywords)) is not None:
            return array
        raise Break(foreign(machine, function))
    return ConstantValue(result)


REPORTING = ("logging", "warnings")
"""Modules whose functions report, by whatever name a logger is called."""


def foreign(machine: Machine, thing: Any) -> ForeignCall:
    """The reason for a call that a graph cannot hold, in the user's words where the source can be read."""
    name = name_of(thing)
    called = callee(machine.expression()) or name
    if is_own(machine.frames[-1].globals):
        return ForeignCall(called)
    if is_report(called) or machine.frames[-1].globals.get("__name__") in REPORTING:
        return ReportingCall(called)
    return ForeignCall(called, f"it calls `{name}`, which is not a PyTorch operation and has no Python code to read")


# Classes


def construct(machine: Machine, function: ConstantValue, arguments: Arguments, keywords: Keywords) -> Any:
    cls = function.value
    maker = CONSTRUCTORS.get(cls)
    if maker is not None:
        return by_meaning(machine, cls, maker, arguments, keywords)
    if type(cls) is type(torch.FloatTensor):
        if cls.is_cuda or cls.is_sparse:
            raise Break(foreign(machine, cls))
        return tensors_of_numbers.legacy_tensor(machine, cls, cls.dtype, arguments, keywords)
    if issubclass(cls, enum.Enum) or cls in FOLDABLE_TYPES or is_placement_class(cls):
        return fold(machine, cls, arguments, keywords)
    if issubclass(cls, CHECKS_ARGUMENTS) or (issubclass(cls, BaseException) and keywords and is_c_made(cls)):
        raise Break(foreign(machine, cls))
    if issubclass(cls, BaseException) and is_c_made(cls):
        value = InstanceValue(cls)
        value.arguments = tuple(arguments)
        return value
    if cls.__module__ in OF_SETTINGS and (made := make_module(machine, cls, arguments, keywords)) is not None:
        return made
    if has_python_method(type(cls), "__call__"):
        return call(machine, special(machine, function, "__call__"), arguments, keywords)
    return construct_by_protocol(machine, function, arguments, keywords)


CHECKS_ARGUMENTS = (OSError, UnicodeError, SyntaxError, BaseExceptionGroup)
"""Exceptions that look at what they are made of, and choose another class by it."""


def is_c_made(cls: type) -> bool:
    """Whether making an instance runs no Python code."""
    return not any(
        isinstance(lookup(cls, name), (types.FunctionType, staticmethod)) for name in ("__new__", "__init__")
    )


OF_SETTINGS = frozenset(f"torch.nn.modules.{name}" for name in ("activation", "dropout", "loss", "pooling", "padding"))
"""Whose modules are functions and their settings, but for a few."""


def make_module(machine: Machine, cls: type, arguments: Arguments, keywords: Keywords) -> Value | None:
    """The module as its class makes it; None where it has parameters, which each call of the program draws anew."""
    known = [constant_of(machine.known(argument)) for argument in (*arguments, *keywords.values())]
    if any(type(value) is NotConstant for value in known):
        raise Break(foreign(machine, cls))
    make = functools.partial(cls, **dict(zip(keywords, known[len(arguments) :], strict=True))) if keywords else cls
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            has_parameters = any(True for _ in make(*known[: len(arguments)]).parameters())
        module = None if has_parameters else make(*known[: len(arguments)])
    except Exception:
        raise Break(foreign(machine, cls)) from None
    if module is None:
        return None
    return machine.outside.realize(module, MadeSource(module, make, tuple(known[: len(arguments)])))


def construct_by_protocol(machine: Machine, function: ConstantValue, arguments: Arguments, keywords: Keywords) -> Any:
    """`type.__call__`: `__new__`, then `__init__`, as a Python function that is entered like the user's."""
    from dynascope.capture.calls import equivalents

    cls = function.value
    new, init = lookup(cls, "__new__"), lookup(cls, "__init__")
    if new is object.__new__ and init is object.__init__:
        if arguments or keywords:
            raise machine.throw(TypeError, f"{cls.__name__}() takes no arguments")
        return new_instance(machine, cls)
    if isinstance(new, (staticmethod, types.FunctionType)) or new in MAKERS:
        return equivalents.enter(machine, equivalents.construct, [function, *arguments], keywords)
    if issubclass(cls, BaseException):
        return equivalents.enter(machine, equivalents.construct_exception, [function, *arguments], keywords)
    raise Break(foreign(machine, cls))


@meaning(type.__call__)
def construct_by_type(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    """What a metaclass's own `__call__` comes to by `super()`."""
    function = machine.realize(arguments[0]) if arguments else NONE
    cls = constant_of(function)
    if isinstance(cls, type) and not has_python_method(type(cls), "__call__"):
        return construct(machine, function, arguments[1:], keywords)
    if not isinstance(cls, type) or cls in CONSTRUCTORS or issubclass(cls, (enum.Enum, BaseException)):
        raise Break(foreign(machine, type.__call__))
    return construct_by_protocol(machine, function, arguments[1:], keywords)


MAKERS = (object.__new__, dict.__new__, list.__new__, tuple.__new__, torch.Tensor.__new__)


IS_ABSTRACT = 1 << 20
"""`Py_TPFLAGS_IS_ABSTRACT`: `object.__new__` refuses the class, in words of its own."""


def new_instance(machine: Machine, cls: type) -> Value:
    if lookup(cls, "__del__") is not MISSING:
        raise Break(foreign(machine, cls))
    if cls.__flags__ & IS_ABSTRACT:
        try:
            object.__new__(cls)
        except TypeError as error:
            raise machine.throw(TypeError, *error.args) from None
    machine.overriding.meet(cls)
    return InstanceValue(cls)


def call_number(machine: Machine, value: SymbolicNumber, arguments: Arguments, keywords: Keywords) -> Any:
    raise machine.throw(TypeError, f"{name_in_errors(value.python_type)!r} object is not callable")


def call_descriptor(machine: Machine, value: DescriptorValue, arguments: Arguments, keywords: Keywords) -> Any:
    if value.cls is not staticmethod:
        raise machine.throw(TypeError, f"{name_in_errors(value.cls)!r} object is not callable")
    return call(machine, value.parts[0], arguments, keywords)


CALLERS: dict[type, Callable[..., Any]] = {
    FunctionValue: call_function,
    MethodValue: call_method,
    PartialValue: call_partial,
    CompilationValue: compiled_inside.call_compilation,
    InstanceValue: call_instance,
    ConstantValue: call_constant,
    SymbolicNumber: call_number,
    WeakReferenceValue: call_reference,
    DescriptorValue: call_descriptor,
}
