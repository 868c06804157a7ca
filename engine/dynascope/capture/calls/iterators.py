"""Iterators and what goes over them: `zip`, `sorted`, `sum`, generators, itertools."""

from __future__ import annotations

import collections
import functools
import itertools
import types
from typing import TYPE_CHECKING, Any

from dynascope.capture.calls import either_of, equivalents
from dynascope.capture.calls.arguments import Arguments, Keywords, argument, is_none
from dynascope.capture.calls.number_calls import number_call
from dynascope.capture.calls.pure import compute, fails_like
from dynascope.capture.calls.registry import meaning
from dynascope.capture.protocols import operators
from dynascope.capture.protocols.attributes import special
from dynascope.capture.protocols.class_names import name_in_errors
from dynascope.capture.protocols.classes import MISSING, has_python_method, is_callable, lookup
from dynascope.capture.protocols.iteration import (
    BUILTIN_ITERATORS,
    advance,
    call_next,
    elements,
    iterator,
    known_elements,
)
from dynascope.capture.protocols.length_hints import listed
from dynascope.capture.protocols.truth import truth
from dynascope.capture.reasons import ForeignValue, ProgramRaises
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    FALSE,
    NONE,
    REVERSED_LIST,
    ConstantValue,
    CountValue,
    DictValue,
    DictViewValue,
    GeneratorValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    NotConstant,
    SetValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    ZipValue,
    constant_of,
)
from dynascope.frame.versions import RUNNING
from dynascope.sizes.functions import summed

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


@meaning(iter)
def iter_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) > 1:
        if not is_callable(machine.realize(arguments[0])):
            raise Break(ProgramRaises("TypeError", machine.expression()))
        return equivalents.enter(machine, equivalents.called_until, arguments, keywords)
    return iterator(machine, arguments[0])


@meaning(next)
def next_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    given = machine.realize(arguments[0])
    if isinstance(given, InstanceValue) and given.cls in BUILTIN_ITERATORS:
        raise Break(ForeignValue(given.cls.__name__, machine.expression()))
    if isinstance(given, InstanceValue) and len(arguments) == 1:
        return call_next(machine, given)
    item = advance(machine, given)
    if item is not None:
        return item
    if len(arguments) > 1:
        return arguments[1]
    raise stopped(machine, given)


def stopped(machine: Machine, ended: Value) -> Raised:
    """The end of an iterator, with what a generator returned."""
    value = ended.object if isinstance(ended, GeneratorValue) else None
    return machine.throw(StopIteration, *([] if value is None or is_none(value) else [value]))


def index_in(machine: Machine, value: Value) -> int:
    """A number that C asks `__index__` for. What has none is for Python to complain about."""
    known = machine.object_of(value)
    if type(known) not in (int, bool):
        raise Break(ProgramRaises("TypeError", machine.expression()))
    return int(known)


GENERATOR = types.GeneratorType


ITERATOR_CLASSES = {*BUILTIN_ITERATORS, GENERATOR, *equivalents.STAND_FOR.values(), itertools.count, itertools.islice}
ITERATOR_CLASSES |= {
    itertools.product,
    itertools.permutations,
    itertools.combinations,
    itertools.repeat,
    itertools.zip_longest,
}
ITERATOR_CLASSES |= {type(reversed(each)) for each in ([], (), {}, {}.values(), {}.items(), collections.OrderedDict())}


@meaning(*(cls.__next__ for cls in ITERATOR_CLASSES))
def generator_next(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    given = machine.realize(arguments[0])
    if isinstance(given, InstanceValue):
        raise Break(ForeignValue(given.cls.__name__, machine.expression()))
    return next_(machine, [given], {})


@meaning(*(cls.__iter__ for cls in ITERATOR_CLASSES))
def iterator_itself(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return machine.realize(arguments[0])


@meaning(GENERATOR.send)
def generator_send(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.calls.generators import resume

    generator = made_inside(machine, arguments[0])
    if not generator.started and not generator.finished and not is_none(arguments[1]):
        raise machine.throw(TypeError, "can't send non-None value to a just-started generator")
    item = resume(machine, generator, arguments[1])
    if item is None:
        raise stopped(machine, generator)
    return item


@meaning(GENERATOR.throw)
def generator_throw(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.calls.generators import resume
    from dynascope.capture.opcodes.exceptions import as_exception

    generator = made_inside(machine, arguments[0])
    has_instance = len(arguments) > 2 and not is_none(arguments[2])
    given = machine.realize(arguments[2 if has_instance else 1])
    if has_instance and not issubclass(given.python_type, BaseException):  # what the class is to be called with
        raise Break(ForeignValue("generator", machine.expression()))
    words = f"exceptions must be classes or instances deriving from BaseException, not {name_in_errors(given.python_type)}"
    item = resume(machine, generator, thrown=Raised(as_exception(machine, given, words)))
    if item is None:
        raise stopped(machine, generator)
    return item


@meaning(GENERATOR.close)
def generator_close(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    from dynascope.capture.calls.generators import close

    return close(machine, made_inside(machine, arguments[0]))


def made_inside(machine: Machine, value: Value) -> GeneratorValue:
    """What runs inside a generator from outside is not seen."""
    value = machine.realize(value)
    if not isinstance(value, GeneratorValue):
        raise Break(ForeignValue(value.python_type.__name__, machine.expression()))
    return value


@meaning(zip)
def zip_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    strict = truth(machine, keywords["strict"]) if "strict" in keywords else False
    return ZipValue(tuple(iterator(machine, each) for each in arguments), zip, strict)


@meaning(enumerate)
def enumerate_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    start = index_in(machine, argument(arguments, keywords, 1, "start", ConstantValue(0)))
    return ZipValue((iterator(machine, argument(arguments, keywords, 0, "iterable")), CountValue(start, 1)), enumerate)


@meaning(reversed)
def reversed_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    value = machine.known(arguments[0])
    if isinstance(value, InstanceValue) and lookup(value.cls, "__reversed__") is not MISSING:
        return machine.call(special(machine, value, "__reversed__"), [])
    if isinstance(value, InstanceValue) and is_sequence_of_its_own(value.cls):
        count = index_in(machine, machine.call_now(special(machine, value, "__len__"), []))
        if count < 0:
            raise Break(ProgramRaises("ValueError", machine.expression()))
        return equivalents.enter(machine, equivalents.reversed_, [value, ConstantValue(count)])
    if isinstance(value, TensorValue):
        return machine.call(special(machine, value, "__reversed__"), [])
    text = isinstance(value, ConstantValue) and isinstance(value.value, (str, bytes, range))
    if isinstance(value, (ListValue, TupleValue, DictValue, DictViewValue)) or text:
        return backwards(machine, value)
    kind = value.python_type
    if not isinstance(value, ConstantValue) or any(lookup(kind, name) is not MISSING for name in ("__reversed__", "__getitem__")):
        raise Break(ForeignValue(kind.__name__, machine.expression()))
    raise machine.throw(TypeError, f"{name_in_errors(kind)!r} object is not reversible")


def backwards(machine: Machine, value: Value) -> Value:
    """What `reversed` makes of a container in C."""
    constant = isinstance(value, ConstantValue) and isinstance(value.value, range)
    iterable = ConstantValue(value.value[::-1]) if constant else None
    owner = value if isinstance(value, (ListValue, DictValue, DictViewValue)) else None
    made = IteratorValue(elements(machine, value)[::-1], owner, reversed_class(value), iterable)
    if owner is not None and made.cls is not REVERSED_LIST:
        made.keys = made.keys[::-1]
    return made


def is_sequence_of_its_own(cls: type) -> bool:
    """Whether both methods that `reversed` asks for are Python."""
    return all(has_python_method(cls, name) for name in ("__len__", "__getitem__"))


def reversed_class(value: Value) -> type:
    if isinstance(value, ConstantValue):
        return type(reversed(value.value))
    if isinstance(value, (DictValue, DictViewValue)):
        dictionary = value.dictionary if isinstance(value, DictViewValue) else value
        like = collections.OrderedDict() if issubclass(dictionary.cls, collections.OrderedDict) else {}
        return type(reversed(getattr(like, value.kind)() if isinstance(value, DictViewValue) else like))
    return type(reversed([] if isinstance(value, ListValue) else ()))


@meaning(itertools.count)
def count_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    first = machine.object_of(argument(arguments, keywords, 0, "start", ConstantValue(0)))
    return CountValue(first, machine.object_of(argument(arguments, keywords, 1, "step", ConstantValue(1))))


@meaning(itertools.islice)
def islice_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    known = [constant_of(machine.known(each)) for each in arguments[1:]]
    if not all(each is None or (type(each) is int and each >= 0) for each in known):
        raise Break(ProgramRaises("ValueError", machine.expression()))
    bounds = slice(*known)
    value = machine.known(arguments[0])
    if known_elements(machine, value) is None or isinstance(value, (ListValue, DictValue, DictViewValue, SetValue)):
        # Others may take from the same iterator meanwhile, or change what it goes over.
        limits = [ConstantValue(each) for each in (bounds.start or 0, bounds.stop, bounds.step or 1)]
        source = iterator(machine, made_iterator(machine, value))
        return equivalents.enter(machine, equivalents.islice_, [source, *limits])
    source = iterator(machine, arguments[0])
    if bounds.stop is None:
        return IteratorValue(elements(machine, source)[bounds], cls=itertools.islice)
    taken: list[Value] = []
    while len(taken) < bounds.stop and (item := advance(machine, source)) is not None:
        taken.append(item)
    return IteratorValue(taken[bounds], cls=itertools.islice)


def _combination(function: Any) -> None:
    @meaning(function)
    def combine(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        """Combinations of the values themselves, taken as opaque."""
        given = arguments if function is itertools.product else arguments[:1]
        numbers = [
            None if is_none(each) and function is itertools.permutations else index_in(machine, each)
            for each in map(machine.known, arguments[len(given) :])
        ]
        named = {name: index_in(machine, value) for name, value in keywords.items() if name in ("r", "repeat")}
        if len(named) < len(keywords) or any(number is not None and number < 0 for number in (*numbers, *named.values())):
            raise Break(ProgramRaises("ValueError", machine.expression()))
        pools = [elements(machine, each) for each in given]
        return IteratorValue([TupleValue(tuple(each)) for each in function(*pools, *numbers, **named)], cls=function)


for _function in (itertools.product, itertools.permutations, itertools.combinations, itertools.combinations_with_replacement):
    _combination(_function)


@meaning(itertools.repeat)
def repeat_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    item = arguments[0]
    if len(arguments) < 2 and "times" not in keywords:
        return equivalents.enter(machine, equivalents.repeat_, [item])
    times = index_in(machine, argument(arguments, keywords, 1, "times"))
    made = IteratorValue([item] * max(times, 1), cls=itertools.repeat)
    made.position = int(times < 1)  # one that never gives its item has it all the same
    return made


@meaning(itertools.tee)
def tee(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    count = index_in(machine, arguments[1]) if len(arguments) > 1 else 2
    if count < 0:
        raise Break(ProgramRaises("ValueError", machine.expression()))
    source = iterator(machine, made_iterator(machine, arguments[0]))
    return equivalents.enter(machine, equivalents.tees_of, [source, ConstantValue(count)])


def batched(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    source = made_iterator(machine, argument(arguments, keywords, 0, "iterable"))
    count = index_in(machine, argument(arguments, keywords, 1, "n"))
    strict = ConstantValue("strict" in keywords and truth(machine, keywords["strict"]))
    if count < 1:
        raise Break(ProgramRaises("ValueError", machine.expression()))
    return equivalents.enter(machine, equivalents.batched_, [source, ConstantValue(count)], {"strict": strict})


if hasattr(itertools, "batched"):
    meaning(itertools.batched)(batched)


@meaning(itertools.zip_longest)
def zip_longest(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return equivalents.enter(machine, equivalents.zip_longest_, [iterator(machine, each) for each in arguments], keywords)


def made_iterator(machine: Machine, value: Value) -> Value:
    """What CPython keeps of an iterable that it is given: `iter(value)`, asked for at once."""
    value = machine.known(value)
    if isinstance(value, (DictValue, DictViewValue, SetValue)):  # whose iterators see that they grew
        return iterator(machine, value)
    if known_elements(machine, value) is not None:
        return value
    made = iterator(machine, value)
    if isinstance(made, InstanceValue):
        # The loop that stands for the C code would ask the user's own iterator for an iterator once more.
        raise Break(ForeignValue(made.cls.__name__, machine.expression()))
    return made


def _equivalent(thing: Any, python: Any, iterable: int | None = None) -> None:
    """`iterable` is the position of the argument that is asked for an iterator when the object is made."""

    @meaning(thing)
    def run(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        if iterable is not None and len(arguments) > iterable:
            arguments = list(arguments)
            arguments[iterable] = made_iterator(machine, arguments[iterable])
        return equivalents.enter(machine, python, arguments, keywords)


for _thing, _python, *_at in (
    (filter, equivalents.filter_, 1),
    (any, equivalents.any_),
    (all, equivalents.all_),
    (sum, equivalents.sum_),
    (functools.reduce, equivalents.reduce_),
    (itertools.accumulate, equivalents.accumulate_, 0),
    (itertools.chain, equivalents.chain_),
    (itertools.starmap, equivalents.starmap_, 1),
    (itertools.takewhile, equivalents.takewhile_, 1),
    (itertools.dropwhile, equivalents.dropwhile_, 1),
    (itertools.chain.from_iterable, equivalents.chain_from_iterable, 0),
    (itertools.pairwise, equivalents.pairwise_, 0),
    (itertools.filterfalse, equivalents.filter_false, 1),
    (itertools.cycle, equivalents.cycle_, 0),
    (itertools.groupby, equivalents.groupby_, 0),
    (collections._count_elements, equivalents.count_elements),
):
    _equivalent(_thing, _python, *_at)


@meaning(equivalents.sum_of_numbers)
def sum_of_numbers(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    """Two additions of floats or more give another number than `+` does where `sum` makes up for rounding."""
    numbers, start = [machine.realize(each) for each in arguments[0].items], machine.realize(arguments[1])
    all_numbers = (start, *numbers)
    is_compensated = RUNNING.sum_is_compensated and sum(number.python_type is float for number in all_numbers) > 2
    if not is_compensated and any(isinstance(number, SymbolicNumber) for number in all_numbers):
        return functools.reduce(
            lambda total, number: machine.finish(operators.binary(machine, "+", total, number)), numbers, start
        )
    found = machine.sizes.compute(summed, all_numbers)
    return found or ConstantValue(summed(*map(machine.object_of, all_numbers)))


@meaning(itertools.compress)
def compress_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    given = [argument(arguments, keywords, at, name) for at, name in enumerate(("data", "selectors"))]
    return equivalents.enter(machine, equivalents.compress_, [made_iterator(machine, each) for each in given])


@meaning(map)
def map_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    if len(arguments) < 2:
        raise machine.throw(TypeError, "map() must have at least two arguments.")
    python = equivalents.map_one if len(arguments) == 2 else equivalents.map_
    sources = [made_iterator(machine, each) for each in arguments[1:]]
    return equivalents.enter(machine, python, [arguments[0], *sources], keywords)


def extreme(machine: Machine, symbol: str, python: Any, arguments: Arguments, keywords: Keywords) -> Any:
    if "default" in keywords and len(arguments) > 1:
        name = "min" if symbol == "<" else "max"
        raise machine.throw(TypeError, f"Cannot specify a default for {name}() with multiple positional arguments")
    given = elements(machine, arguments[0]) if len(arguments) == 1 else arguments
    if not given:
        if "default" in keywords:
            return keywords["default"]
        raise fails_like(machine, min if symbol == "<" else max, ListValue([]))
    key = keywords.get("key", NONE)
    if not is_none(machine.realize(key)):
        return equivalents.enter(machine, python, [ListValue(list(given)), key])
    if either_of.are_among(given):
        return either_of.extreme(machine, symbol, given)
    numbers = [machine.realize(each) for each in given]
    if len(numbers) > 1 and (found := machine.sizes.compute(min if symbol == "<" else max, numbers)) is not None:
        return found
    return either_of.extreme(machine, symbol, numbers)


@meaning(min)
def min_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return extreme(machine, "<", equivalents.smallest, arguments, keywords)


@meaning(max)
def max_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    return extreme(machine, ">", equivalents.largest, arguments, keywords)


@meaning(sorted)
def sorted_(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    values = [machine.realize(each) for each in listed(machine, arguments[0])]
    if not keywords and all(each.python_type is float for each in values):
        if (made := number_call(machine, sorted, [ListValue(list(values))], {}, length_is_known=True)) is not None:
            return made
    return ListValue(in_order(machine, values, keywords))


def in_order(machine: Machine, values: list[Value], keywords: Keywords) -> list[Value]:
    order = list(range(len(values)))
    sort_places(machine, values, keywords, order)
    return [values[at] for at in order]


def sort_places(machine: Machine, values: list[Value], keywords: Keywords, order: list[int]) -> None:
    """Brings the places of the values into order, in place: where comparing raises, as far as Python has come by then."""
    reverse = keywords.get("reverse", FALSE)
    if not issubclass(machine.realize(reverse).python_type, int):  # which some versions of Python refuse
        raise Break(ProgramRaises("TypeError", machine.expression()))
    descends = truth(machine, reverse)
    key = machine.realize(keywords.get("key", NONE))
    keys = values if is_none(key) else [machine.call_now(key, [value]) for value in values]

    def less(left: int, right: int) -> int:
        """Sorting asks for no more than whether it is less."""
        one, other = machine.realize(keys[left]), machine.realize(keys[right])
        return -1 if truth(machine, machine.finish(operators.compare(machine, "<", one, other))) else 0

    known = [constant_of(machine.realize(each)) for each in keys]
    if any(type(each) is NotConstant for each in known):
        order.sort(key=functools.cmp_to_key(less), reverse=descends)
    else:
        compute(machine, order.sort, (), {"key": known.__getitem__, "reverse": descends})
