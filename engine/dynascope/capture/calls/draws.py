"""`random.uniform(0, 1)`, `numpy.random.randint(0, 9, 4)`, `numpy.random.shuffle(places)`: numbers from the process's own generators,
and from those that the program keeps (`self.rng = numpy.random.default_rng(0)`).

    if training: x = x * random.uniform(0.8, 1.2)      draw_uniform: u0, mul(x, u0)

A draw is an operator between kernels, whose number only the run of the graph knows. What it gives (a float, an int, an array of
which shape) is asked of another generator of the same class, so that nothing is drawn while the program is followed. Functions
that give what they are given (`random.choice`) are followed like the user's own.
"""

from __future__ import annotations

import random
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import late_numbers, python
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.numpy_arrays import dtype_of
from dynascope.capture.calls.numpy_arrays import twin as twin_array
from dynascope.capture.calls.operands import fixed
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import apply_method
from dynascope.capture.clocks import Reading
from dynascope.capture.generator_calls import GeneratorCall
from dynascope.capture.host_draws import KINDS, NUMPYS, PYTHONS, HostDraw, twin_of
from dynascope.capture.metadata import CPU, META
from dynascope.capture.numpy_numbers import IS_THERE, numpy
from dynascope.capture.raising import places_late_number
from dynascope.capture.reasons import DataDependentBranch, DataDependentValue
from dynascope.capture.values import (
    NONE,
    ArrayValue,
    InstanceValue,
    ListValue,
    NotConstant,
    SymbolicNumber,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.guards.guard import IdentityIs
from dynascope.guards.source import ConstantSource, LocalSource
from dynascope.report.reason import Reason

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

def generator_of(machine: Machine, arguments: Arguments) -> Any:
    """The generator that a method is called with; None where it is none, or is another at each call: made inside, or an argument.

    A graph draws from this one. So of the program's own it is guarded which it is."""
    value = machine.realize(arguments[0]) if arguments else NONE
    generator = value.object if isinstance(value, InstanceValue) else None
    if type(generator) not in KINDS or generator is PYTHONS or generator is NUMPYS:
        return generator if type(generator) in KINDS else None
    if value.source is None or isinstance(value.source, LocalSource):
        return None
    machine.guards.add(value.source, IdentityIs(generator))
    return generator


GIVEN = (bool, int, float, types.NoneType)
GIVING_BACK = frozenset({"choice", "choices", "sample", "shuffle", "seed", "getstate", "setstate", "randbytes"})
"""Of the functions in `random`: those that make no number."""


def drawn(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """What the method of a generator gives; None where it gives something else than numbers."""
    twin = twin_of(function)
    if twin is None or not machine.options.draws or not late_numbers.are_served(machine):
        return None
    if function.__name__ == "shuffle" and len(arguments) == 1 and not keywords:
        return shuffled(machine, function, machine.realize(arguments[0]))
    told = operands_of(machine, arguments, keywords)
    made = None if told is None else alike(twin, *told)
    if made is None and told is not None and any(each[0] is not each[1] for each in (*told[0], *told[1].values())):
        # How many are drawn is a size, which is what it is in this call.
        kept = {name: fixed(machine, each) for name, each in keywords.items()}
        told = operands_of(machine, [fixed(machine, each) for each in arguments], kept)
        made = None if told is None else alike(twin, *told)
    if told is None or made is None:
        return None
    given, named = told
    call = HostDraw(function)
    places, named_places = tuple(each[0] for each in given), {name: each[0] for name, each in named.items()}
    if isinstance(made, torch.Tensor):
        result = late_numbers.LateResult((), lambda arguments, keywords: torch.empty_like(made))
        node = late_numbers.late_node(machine, "call_function", call, places, named_places, made, CPU, result)
        machine.graph.keep(node)
        return ArrayValue(machine.tensor(node, made, CPU))
    node = machine.graph.call("call_function", call, places, named_places)
    machine.graph.keep(node)
    dtype = torch.float64 if type(made) is float else torch.int64
    return late_numbers.number_at(machine, node, type(made), dtype, made if type(made) is int else 0)


Operand = tuple[Any, Any, Any]
"""An argument as the graph holds it, as it is now, and as it may be at another call."""


def operands_of(machine: Machine, arguments: Arguments, keywords: Keywords) -> tuple[list[Operand], dict[str, Operand]] | None:
    given = [operand(machine, value) for value in arguments]
    named = {name: operand(machine, value) for name, value in keywords.items()}
    if isinstance(machine.realize(keywords.get("p", NONE)), ArrayValue) and (weights := named["p"]) is not None:
        named["p"] = (weights[0], *(each / each.size for each in weights[1:]))  # NumPy asks that they add up to one
    if "out" in named or any(each is None for each in (*given, *named.values())):
        return None
    return [each for each in given if each], {name: each for name, each in named.items() if each}


def operand(machine: Machine, value: Value) -> Operand | None:
    """None where it is no number, row of them or array."""
    value = machine.realize(value)
    if isinstance(value, ArrayValue) and not value.is_number and value.turned is None:
        return value.tensor.node, twin_array(value), twin_array(value)
    if isinstance(value, SymbolicNumber):
        return value.node, value.example, value.example + 1
    if isinstance(value, (ListValue, TupleValue)):
        value = machine.known(value)
    known = constant_of(value)
    is_row = isinstance(known, (tuple, list)) and all(type(each) in GIVEN for each in known)
    if type(known) is NotConstant or not (is_row or type(known) in GIVEN):
        return None
    return known, known, known


def alike(twin: Callable[..., Any], given: list[Operand], named: dict[str, Operand]) -> Any:
    """A number or a meta tensor like what the call gives; None where that is neither, or hangs on the numbers that vary."""
    made = []
    for at in (1, 2) if any(each[0] is not each[1] for each in (*given, *named.values())) else (1,):
        try:
            made.append(kind_of(twin(*(each[at] for each in given), **{name: each[at] for name, each in named.items()})))
        except Exception:  # which the call says itself
            return None
    first, last = made[0], made[-1]
    is_same = type(first) is type(last) and (not isinstance(first, torch.Tensor) or first.shape == last.shape)
    return first if is_same else None


def kind_of(made: Any) -> Any:
    if type(made) in (int, float):
        return made if abs(made) < 2**62 else None
    if not IS_THERE or type(made) is not numpy.ndarray or (dtype := dtype_of(made.dtype)) is None:
        return None
    return torch.empty(made.shape, dtype=dtype, device=META)


def shuffled(machine: Machine, function: Any, array: Value) -> Value | None:
    """Of an array of one dimension: it holds the same in another order."""
    if not isinstance(array, ArrayValue) or array.is_number or array.turned or array.tensor.example.dim() != 1:
        return None
    if any(type(size) is not int for size in machine.extents.sizes(array.tensor)):
        return None
    example = torch.empty_like(array.tensor.example, memory_format=torch.contiguous_format)
    result = late_numbers.LateResult((), lambda arguments, keywords: torch.empty_like(example))
    call = HostDraw(function, of_copy=True)
    node = late_numbers.late_node(machine, "call_function", call, (array.tensor.node,), {}, example, CPU, result)
    machine.graph.keep(node)
    apply_method(machine, torch.Tensor.copy_, [array.tensor, machine.tensor(node, example, CPU)], {})
    return NONE


def belong_outside(nodes: Iterable[torch.fx.Node], ending: Reason | None) -> bool:
    """Whether what a graph draws is better drawn before it: where Python decides on the number (`ending` is the reason of the break), where
    nothing else is done, and where it says a size or place, for which kernels are made once it is one of Python's."""
    made = [node for node in nodes if node.op not in ("placeholder", "output")]
    draws = [node for node in made if isinstance(node.target, (HostDraw, Reading, GeneratorCall))]
    numbers = [node for node in draws if "size" in node.meta and isinstance(node.target, HostDraw)]
    if ending is not None and draws and not any(gives_tensor(node) for node in made if not isinstance(node.target, GeneratorCall)):
        return True
    if any(node.meta["size"].kind is int for node in numbers) and any(map(places_late_number, made)):
        return True
    decides = isinstance(ending, (DataDependentBranch, DataDependentValue))
    return decides and any(not any(map(gives_tensor, node.users)) for node in numbers)


def gives_tensor(node: torch.fx.Node) -> bool:
    return isinstance(node.meta.get("example_value"), torch.Tensor)


# The functions of `random` that are written in Python


def by_python(function: types.FunctionType) -> Callable[..., Any]:
    def called(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        generator = generator_of(machine, arguments)
        if type(generator) is random.Random:
            found = drawn(machine, getattr(generator, function.__name__), arguments[1:], keywords)
            if found is not None:
                return found
        source = ConstantSource(f"{function.__name__}@{id(function)}", function)
        return python.enter(machine, machine.outside.function(function, source), arguments, keywords)

    return called


for _name, _function in vars(random.Random).items():
    if isinstance(_function, types.FunctionType) and not _name.startswith("_") and _name not in GIVING_BACK:
        meaning(_function)(by_python(_function))


def of_method(machine: Machine, method: Any, arguments: Arguments, keywords: Keywords) -> Value | None:
    """What a method in C of a generator gives: `random.random`, or the same asked for by one of its methods in Python; of NumPy's, which
    Cython makes functions with a class of their own, what calling one gives."""
    if type(method) is types.BuiltinFunctionType:
        return drawn(machine, method, arguments, keywords)
    if type(method) is types.WrapperDescriptorType and method.__name__ == "__call__" and arguments:
        function, arguments = getattr(machine.realize(arguments[0]), "object", None), arguments[1:]
    else:
        function = method
    if (generator := generator_of(machine, arguments)) is None:
        return None
    bound = getattr(generator, getattr(function, "__name__", ""), None)
    is_its = getattr(bound, "__func__", None) is function or getattr(type(generator), getattr(function, "__name__", ""), None) is function
    return drawn(machine, bound, arguments[1:], keywords) if is_its else None
