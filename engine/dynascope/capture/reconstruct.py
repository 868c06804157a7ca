"""Values become instructions that make the real objects again, each object once.

    x (from outside)        loaded from its source
    y (a graph output)      loaded from the temporary that holds it
    [x, y] (made inside)    LOAD x, LOAD y, BUILD_LIST 2, kept in a temporary if it is wanted again

`parts.py` walked them first: which graph nodes must be outputs, and whether everything can be made at all.
`Rebuilder` writes. What the program sees as one object is one object here: the temporaries are by identity.
"""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx

from dynascope.capture import tracebacks
from dynascope.capture.distributed_values import DistributedValue
from dynascope.capture.functions_of_results import FunctionOfResultValue, function_of
from dynascope.capture.known_states import HAVE_STATES, with_state
from dynascope.capture.nested_values import NestedValue
from dynascope.capture.numpy_numbers import array_of, is_spread
from dynascope.capture.parts import describe, held_by, parts_of
from dynascope.capture.protocols.contents import longest
from dynascope.capture.protocols.overriding import SWITCHES, switch, with_class
from dynascope.capture.reasons import UnrebuildableValue
from dynascope.capture.remade import advanced, remade
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    DELETED,
    REVERSED_DEQUE,
    REVERSED_LIST,
    ArrayValue,
    CellValue,
    CompilationValue,
    ConstantValue,
    CountValue,
    DescriptorValue,
    DictValue,
    DictViewValue,
    EitherValue,
    FunctionValue,
    GeneratorValue,
    InferenceModeValue,
    InstanceDictionaryValue,
    InstanceValue,
    IteratorValue,
    ListValue,
    MethodValue,
    NullValue,
    PartialValue,
    SetValue,
    SliceValue,
    SuperValue,
    SymbolicNumber,
    TensorValue,
    TextValue,
    TracebackValue,
    TupleValue,
    Value,
    WeakReferenceValue,
    ZipValue,
    makes_itself,
)
from dynascope.frame.builder import CodeBuilder
from dynascope.frame.suspended import held_waiting
from dynascope.guards import inference_modes
from dynascope.guards.iterators import upcoming
from dynascope.guards.source import (
    ArraySource,
    AttributeSource,
    BehindProxySource,
    CellSource,
    ConstantSource,
    DictionaryAttributeSource,
    ExtentSource,
    FloatSource,
    GlobalSource,
    ItemSource,
    KeyedItemSource,
    KeySource,
    LengthSource,
    LocalPartSource,
    LocalSource,
    MadeSource,
    ModeSource,
    ModuleMemberSource,
    PlainTensorSource,
    ProxiedSource,
    ReducedSource,
    ReferentSource,
    Source,
    TensorOfNumberSource,
    ThreadDictionarySource,
    TypeSource,
    UpcomingSource,
    VariableSource,
    WaitedSource,
    WaitingSource,
    behind_proxy,
    cell_of,
    key_at,
    local_part,
    mapping_behind,
    plain_tensor,
    tensor_of_number,
    waited,
)


def _exhausted() -> dict[type, Callable[[], Any]]:
    """How to make an iterator that has nothing left, by class."""
    makers: list[Callable[[], Any]] = [
        lambda: iter([]),
        lambda: iter({}),
        lambda: iter({}.values()),
        lambda: iter({}.items()),
    ]
    makers += [lambda: iter(set()), lambda: reversed([]), lambda: reversed({}), lambda: reversed({}.values())]
    makers += [lambda: iter(collections.deque()), lambda: reversed(collections.deque())]
    makers += [lambda: iter(collections.OrderedDict()), lambda: reversed({}.items()), lambda: itertools.islice((), 0)]
    return {type(make()): make for make in makers}


def range_of(items: tuple[int, ...]) -> range:
    """The range that gives these numbers."""
    step = items[1] - items[0] if len(items) > 1 else 1
    return range(items[0], items[-1] + step, step) if items else range(0)


EXHAUSTED = _exhausted()
AGAIN: dict[type, Callable[[tuple], Any]] = {
    type(reversed([])): lambda items: reversed(list(items[::-1])),
    type(iter(collections.deque())): lambda items: iter(collections.deque(items)),
    REVERSED_DEQUE: lambda items: reversed(collections.deque(items[::-1])),
    reversed: lambda items: reversed(tuple(items[::-1])),
    type(reversed({})): lambda items: reversed(dict.fromkeys(items[::-1])),
    type(reversed({}.values())): lambda items: reversed(dict(enumerate(items[::-1])).values()),
    type(reversed({}.items())): lambda items: reversed(dict(items[::-1]).items()),
    type(iter(collections.OrderedDict())): lambda items: iter(collections.OrderedDict(enumerate(items)).values()),
    itertools.islice: lambda items: itertools.islice(items, len(items)),
    type(iter(int, 0)): lambda items: iter(iter(items).__next__, object()),
    **{type(iter(each)): lambda items: iter(range_of(items)) for each in (range(0), range(2**70))},
    **{type(iter(each)): lambda items, each=each: iterator_at(each + "".join(items), 1) for each in ("a", "\u0101")},
    type(iter(b"")): lambda items: iter(bytes(items)),
}
"""Iterators of the same class over what is left. Others become an iterator over a tuple."""
COPIED = (int, float, complex, str, bytes)
"""Of equal ones the program may want its own: `f(n) is n`."""


def base_of(source: Source) -> Source | None:
    """What a place hangs on. A module's members hang on one of its tables, which many of them share."""
    if isinstance(source, ModuleMemberSource):
        return DictionaryAttributeSource(source.base, source.table)
    return getattr(source, "base", None)


def is_beyond(value: IteratorValue) -> bool:
    """Whether it has given items that its list, which is from outside, gets when the effects are replayed: until then an iterator of
    Python's can stand no further than at the end of what is there."""
    items = value.items
    return isinstance(items, ListValue) and items.source is not None and value.position > len(items.original)


def is_made_last(value: Value) -> bool:
    """An iterator, and a list or tuple that holds one: it stands among the keys that are there once the program's changes are made."""
    if isinstance(value, (ListValue, TupleValue)) and value.source is None:
        return any(map(is_made_last, value.items))
    is_iterator = isinstance(value, (IteratorValue, ZipValue)) and value.source is None
    return is_iterator and not (isinstance(value, IteratorValue) and is_beyond(value))


def first_if(condition: torch.Tensor, first: Any, second: Any) -> Any:
    return first if condition else second


def iterator_at(iterable: Any, position: int) -> Any:
    """An iterator that has given `position` items."""
    iterator = iter(iterable)
    for _ in range(position):
        next(iterator)
    return iterator


def reversed_at(iterable: Any, position: int) -> Any:
    """An iterator from the end that has given `position` items."""
    return iterator_at(reversed(iterable), position)


def reversed_list_at(items: list, index: int) -> Any:
    """An iterator from the end that gives the item at `index` next."""
    iterator = reversed(items)
    iterator.__setstate__(index)
    return iterator


class Rebuilder:
    """Writes instructions that push values. `outputs` names the temporary of each graph output."""

    def __init__(self, builder: CodeBuilder, cell_locals: Iterable[str]) -> None:
        self.builder = builder
        self.cell_locals = frozenset(cell_locals)
        self.outputs: dict[fx.Node, str] = {}
        self.temporaries: dict[int, str] = {}
        self.sources: dict[Source, str] = {}
        self.making: set[int] = set()
        self.waiting_cells: dict[int, list[CellValue]] = {}
        self.keep: list[Any] = []
        self.beyond: list[IteratorValue] = []
        """Iterators to be put in place once more, when the lists that they go over have grown."""
        self.count = 0

    def new_temporary(self) -> str:
        self.count += 1
        return f"__dynascope_{self.count}"

    # Sources

    def share_prefixes(self, sources: Iterable[Source]) -> None:
        """Places that many sources hang on are loaded once."""
        wanted: collections.Counter[Source] = collections.Counter()
        pending = list(sources)
        while pending:
            base = base_of(pending.pop())
            if base is not None:
                wanted[base] += 1
                if wanted[base] == 1:
                    pending.append(base)
        for base, uses in wanted.items():
            if uses > 1 and not isinstance(base, (LocalSource, ConstantSource)):
                self.sources.setdefault(base, "")

    def load_source(self, source: Source) -> None:
        name = self.sources.get(source)
        if name:
            self.builder.load_local(name)
            return
        LOADERS[type(source)](self, source)
        if name == "" or isinstance(source, (MadeSource, UpcomingSource, WaitingSource)):
            self.sources[source] = self.new_temporary()
            self.builder.copy(1)
            self.builder.store_local(self.sources[source])

    def load_name(self, source: LocalSource) -> None:
        if source.name in self.cell_locals:
            self.builder.load_cell(source.name)
        else:
            self.builder.load_local(source.name)

    def load_global(self, source: GlobalSource) -> None:
        if source.module is None:
            self.builder.load_global(source.name)
        else:
            self.builder.load_constant(vars(sys.modules[source.module]))
            self.builder.load_item(source.name)

    def load_member(self, source: ModuleMemberSource) -> None:
        self.load_source(base_of(source))
        self.builder.load_item(source.name)

    def load_attribute(self, source: AttributeSource) -> None:
        if source.name == "__dict__":
            self.load_own_dictionary(source.base)
            return
        self.load_source(source.base)
        self.builder.load_attribute(source.name)

    def load_own_dictionary(self, source: Source) -> None:
        """The object's `__dict__`, without asking its class how attributes are read."""
        self.builder.load_function(object.__getattribute__)
        self.load_source(source)
        self.builder.load_constant("__dict__")
        self.builder.call(2)

    def load_dictionary_attribute(self, source: DictionaryAttributeSource) -> None:
        self.load_own_dictionary(source.base)
        self.builder.load_item(source.name)

    def load_item(self, source: ItemSource) -> None:
        if source.raw is not None:
            self.builder.load_function(source.raw.__getitem__)
        self.load_source(source.base)
        if source.raw is None:
            self.builder.load_item(source.key)
        else:
            self.builder.load_constant(source.key)
            self.builder.call(2)

    def load_key(self, source: KeySource) -> None:
        self.builder.load_function(key_at)
        self.load_source(source.base)
        self.builder.load_constant(source.position)
        self.builder.call(2)

    def load_keyed_item(self, source: KeyedItemSource) -> None:
        self.builder.load_function(dict.__getitem__)
        self.load_source(source.base)
        self.load_source(source.key)
        self.builder.call(2)

    def load_referent(self, source: ReferentSource) -> None:
        with self.builder.callee():
            self.load_source(source.base)
        self.builder.call(0)

    def load_thread_dictionary(self, source: ThreadDictionarySource) -> None:
        self.load_source(source.base)
        self.builder.load_attribute("__dict__")

    def load_reduced(self, source: ReducedSource) -> None:
        self.load_source(source.base)
        self.builder.load_method("__reduce__")
        self.builder.call(0)

    def load_extent(self, source: ExtentSource) -> None:
        self.builder.load_function(torch.Tensor.size if source.kind == "size" else torch.Tensor.stride)
        self.load_source(source.base)
        self.builder.load_constant(source.dimension)
        self.builder.call(2)

    # Values

    def prepare(self, value: Value) -> None:
        """Makes the value now and keeps it, so that `load` later gives what it is now."""
        if isinstance(value, (ConstantValue, NullValue)) or id(value) in self.temporaries:
            return
        if isinstance(value, (TensorValue, SymbolicNumber)) and value.source is None:
            return
        if (instance := held_by(value)) is not None:
            self.prepare(instance)
            return
        if is_made_last(value):
            for part in parts_of(value):
                self.prepare(part)
            return
        self.load(value)
        if id(value) not in self.temporaries:
            self._keep(value)
        self.builder.pop()

    def load(self, value: Value) -> None:
        """Pushes the value."""
        value = held_by(value) or value
        name = self.temporaries.get(id(value))
        if name is not None:
            self.builder.load_local(name)
        elif isinstance(value, ConstantValue):
            if isinstance(value.source, LocalSource) and type(value.value) in COPIED:
                self.load_source(value.source)
            else:
                self.builder.load_constant(value.value)
        elif isinstance(value, NullValue):
            self.builder.push_null()
        elif value.source is not None:
            self.load_from_outside(value)
        elif isinstance(value, (TensorValue, SymbolicNumber)):
            self.builder.load_local(self.outputs[value.node])
        else:
            self.make(value)

    def load_from_outside(self, value: Value) -> None:
        if isinstance(value, CellValue):
            self.load_outside_cell(value)
        else:
            self.load_source(value.source)

    def load_outside_cell(self, value: CellValue) -> None:
        self.load_source(cell_of(value.source))

    def refuse(self, value: Value) -> None:
        raise Break(UnrebuildableValue(describe(value)))

    def make(self, value: Value) -> None:
        if id(value) in self.making:
            raise Break(UnrebuildableValue(f"{describe(value)} that holds itself"))
        self.making.add(id(value))
        MAKERS[type(value)](self, value)
        self.making.discard(id(value))
        if id(value) not in self.temporaries:
            self._keep(value)
        for cell in self.waiting_cells.pop(id(value), ()):
            self.builder.copy(1)
            self.builder.load_local(self.temporaries[id(cell)])
            self.builder.store_attribute("cell_contents")

    def _keep(self, value: Value) -> None:
        """Remembers the object on top of the stack as the value."""
        name = self.temporaries[id(value)] = self.new_temporary()
        self.keep.append(value)
        self.builder.copy(1)
        self.builder.store_local(name)

    def load_all(self, values: Iterable[Value]) -> int:
        count = 0
        for value in values:
            self.load(value)
            count += 1
        return count

    def call_constant(self, function: Any, *values: Value) -> None:
        self.builder.load_function(function)
        self.builder.call(self.load_all(values))

    def make_list(self, value: ListValue) -> None:
        self.builder.build_list(self.load_all(value.items))

    def make_tuple(self, value: TupleValue) -> None:
        if value.cls is tuple:
            self.builder.build_tuple(self.load_all(value.items))
            return
        by_class = makes_itself(value.cls)
        self.builder.load_function(value.cls if by_class else tuple.__new__)
        if not by_class:
            self.builder.load_constant(value.cls)
        self.builder.build_tuple(self.load_all(value.items))
        self.builder.call(1 if by_class else 2)

    def make_dictionary(self, value: DictValue) -> None:
        with_factory = value.cls is collections.defaultdict
        if value.cls is not dict:
            self.builder.load_function(value.cls)
            if with_factory:
                self.load(value.default_factory)
        for pair in value.items.values():
            self.load_all(pair)
        self.builder.build_map(len(value.items))
        if value.cls is not dict:
            self.builder.call(2 if with_factory else 1)

    def make_set(self, value: SetValue) -> None:
        told = value.told_order()
        one_by_one = set(iter(value.items))
        if told is not None and told != list(one_by_one if value.cls is set else value.cls(one_by_one)):
            self.builder.load_function(value.recipe.made)
            self.builder.call(0)
            return
        if value.cls is not set:
            self.builder.load_function(value.cls)
        self.builder.build_set(self.load_all(value.items.values()))
        if value.cls is not set:
            self.builder.call(1)

    def make_slice(self, value: SliceValue) -> None:
        self.builder.build_slice(self.load_all(value.parts))

    def make_text(self, value: TextValue) -> None:
        self.call_constant(value.function, *value.parts)

    def make_view(self, value: DictViewValue) -> None:
        instance = value.dictionary.instance
        cls = (
            types.MappingProxyType
            if instance is not None and instance.cls is types.MappingProxyType
            else value.dictionary.cls
        )
        self.call_constant(getattr(cls, value.kind), value.dictionary)

    def make_iterator(self, value: IteratorValue) -> None:
        if value.owner is not None:
            if value.has_other_keys():  # one made anew would take those for its own
                raise Break(UnrebuildableValue(value.cls.__name__))
            if value.cls is REVERSED_LIST:
                self.call_constant(reversed_list_at, value.owner, ConstantValue(value.index_in_list()))
                return
            of_places = isinstance(value.owner, ListValue)
            from_the_end = value.cls is REVERSED_DEQUE if of_places else value.keys != tuple(value.owner_items())
            at = reversed_at if from_the_end else iterator_at
            self.call_constant(at, value.owner, ConstantValue(value.position))
            return
        if value.iterable is not None:
            self.call_constant(iterator_at, value.iterable, ConstantValue(value.position))
            return
        if value.cls is itertools.repeat:
            self.call_constant(itertools.repeat, value.items[0], ConstantValue(len(value.items) - value.position))
            return
        if not value.items and value.cls in EXHAUSTED:
            self.builder.load_function(EXHAUSTED[value.cls])
            self.builder.call(0)
        elif isinstance(value.items, ListValue):
            self.load(value.items)
            self.builder.get_iterator()
            self.builder.copy(1)
            self.builder.load_method("__setstate__")
            self.builder.load_constant(value.position)
            self.builder.call(1)
            self.builder.pop()
            self.place_later(value)
        else:
            again = AGAIN.get(value.cls, iter)
            self.builder.load_function(again)
            self.builder.build_tuple(self.load_all(value.items[value.position :]))
            self.builder.call(1)

    def place_later(self, value: IteratorValue) -> None:
        if is_beyond(value):
            self.beyond.append(value)

    def make_zip(self, value: ZipValue) -> None:
        self.builder.load_function(value.cls)
        if value.cls is enumerate:
            self.load(value.parts[0])
            self.builder.load_constant(value.parts[1].next)
            self.builder.call(2)
            return
        count = self.load_all(value.parts)
        self.builder.load_constant(value.strict)
        self.builder.call(count + 1, ("strict",))

    def make_count(self, value: CountValue) -> None:
        self.call_constant(itertools.count, ConstantValue(value.next), ConstantValue(value.step))

    def make_generator(self, value: GeneratorValue) -> None:
        made = remade(value)
        with self.builder.callee():
            self.load(made.function)
        count = self.load_all((*made.arguments, *made.keywords.values()))
        self.builder.call(count, tuple(made.keywords))
        if made.taken:
            self._keep(value)
            self.builder.load_function(advanced)
            self.builder.load_local(self.temporaries[id(value)])
            self.builder.load_constant(made.taken)
            self.builder.call(2)
            self.builder.pop()

    def make_method(self, value: MethodValue) -> None:
        function = value.function
        if isinstance(function, ConstantValue) and hasattr(function.value, "__get__"):
            # Without the class, CPython 3.11 and 3.12 crash for methods in C that ask for theirs (`re.Pattern.match`).
            self.call_constant(function.value.__get__, value.instance, ConstantValue(value.instance.python_type))
        else:
            self.call_constant(types.MethodType, function, value.instance)

    def make_partial(self, value: PartialValue) -> None:
        self.builder.load_function(functools.partial)
        count = self.load_all((value.function, *value.arguments, *value.keywords.values()))
        self.builder.call(count, tuple(value.keywords))

    def make_compilation(self, value: CompilationValue) -> None:
        with self.builder.callee():
            self.load(value.function)
        self.builder.call(self.load_all((value.target, *value.keywords.values())), tuple(value.keywords))

    def make_instance_dictionary(self, value: InstanceDictionaryValue) -> None:
        self.builder.load_function(object.__getattribute__)
        self.load(value.owner)
        self.builder.load_constant("__dict__")
        self.builder.call(2)

    def make_super(self, value: SuperValue) -> None:
        self.call_constant(super, ConstantValue(value.cls), value.instance)

    def make_inference_mode(self, value: InferenceModeValue) -> None:
        self.call_constant(inference_modes.entered, ConstantValue(value.settings))

    def make_array(self, value: ArrayValue) -> None:
        if value.turned is not None:
            self.call_constant(operator.getitem, value.turned[0], ConstantValue(value.turned[1]))
            return
        as_array = array_of if is_spread(value.tensor.example) else torch.Tensor.numpy
        self.call_constant(number_of_array if value.is_number else as_array, value.tensor)

    def load_mode(self, source: ModeSource) -> None:
        self.builder.load_function(torch._C._get_function_stack_at)
        self.builder.load_constant(source.position)
        self.builder.call(1)

    def load_part(self, source: LocalPartSource) -> None:
        self.builder.load_function(local_part)
        self.load_source(source.base)
        self.builder.load_constant(source.border)
        self.builder.load_constant(source.way)
        self.builder.call(3)

    def make_descriptor(self, value: DescriptorValue) -> None:
        self.call_constant(value.cls, *value.parts)

    def make_cell(self, value: CellValue) -> None:
        self.builder.load_function(types.CellType)
        self.builder.call(0)
        self._keep(value)
        if id(value.content) in self.making and id(value.content) not in self.temporaries:
            self.waiting_cells.setdefault(id(value.content), []).append(value)
        elif value.content is not None:
            self.load(value.content)
            self.builder.copy(2)
            self.builder.store_attribute("cell_contents")

    def make_function(self, value: FunctionValue) -> None:
        self.builder.load_function(types.FunctionType)
        self.builder.load_constant(value.code)
        self.builder.load_constant(value.globals)
        self.builder.load_constant(value.code.co_name)
        self.load_tuple_or_none(value.defaults)
        self.load_tuple_or_none(value.closure)
        self.builder.call(5)
        self._keep(value)
        if value.keyword_defaults:
            for name, item in value.keyword_defaults.items():
                self.builder.load_constant(name)
                self.load(item)
            self.builder.build_map(len(value.keyword_defaults))
            self.builder.copy(2)
            self.builder.store_attribute("__kwdefaults__")
        for name, item in value.attributes.items():
            self.load(item)
            self.builder.copy(2)
            self.builder.store_attribute(name)

    def load_tuple_or_none(self, values: tuple[Value, ...]) -> None:
        if values:
            self.builder.build_tuple(self.load_all(values))
        else:
            self.builder.load_constant(None)

    def make_instance(self, value: InstanceValue) -> None:
        if issubclass(value.cls, BaseException):
            in_python = types.FunctionType in (type(value.cls.__new__), type(value.cls.__init__))
            new = functools.partial(BaseException.__new__, value.cls) if in_python else value.cls
            self.call_constant(new, *value.arguments)
        elif value.tensor is not None:
            self.call_constant(with_class, value.tensor, ConstantValue(value.cls))
        elif value.cls is types.MappingProxyType:
            self.call_constant(value.cls, value.contents)
        elif value.cls in SWITCHES:
            self.call_constant(switch, ConstantValue(value.cls), *value.arguments)
        elif value.cls in HAVE_STATES:
            self.call_constant(with_state, *value.arguments)
        elif isinstance(value.contents, TupleValue):
            self.call_constant(tuple.__new__, ConstantValue(value.cls), value.contents)
        else:
            new = object if value.contents is None else list if isinstance(value.contents, ListValue) else dict
            new = collections.deque if value.cls is collections.deque else new
            self.call_constant(new.__new__, ConstantValue(value.cls))
        self._keep(value)
        self.fill_instance(value)
        for name, item in value.attributes.items():
            if item is not DELETED:
                self.builder.load_function(object.__setattr__)
                self.builder.load_local(self.temporaries[id(value)])
                self.builder.load_constant(name)
                self.load(item)
                self.builder.call(3)
                self.builder.pop()

    def fill_instance(self, value: InstanceValue) -> None:
        """What an object of a subclass of dict or list holds, put there without the class's own methods."""
        contents = value.contents
        if value.cls is collections.deque:
            self.fill_deque(contents)
        elif isinstance(contents, ListValue):
            self.builder.load_function(list.extend)
            self.load(value)
            self.builder.build_tuple(self.load_all(contents.items))
            self.builder.call(2)
            self.builder.pop()
        elif isinstance(contents, DictValue) and value.cls is not types.MappingProxyType:
            for key, item in contents.items.values():
                self.call_constant(contents.cls.__setitem__, value, key, item)
                self.builder.pop()

    def fill_deque(self, contents: ListValue) -> None:
        """Made anew where it is: that empties it first."""
        self.builder.load_function(collections.deque.__init__)
        self.load(contents)
        self.builder.build_tuple(self.load_all(contents.items))
        self.builder.load_constant(longest(contents))
        self.builder.call(3)
        self.builder.pop()

    def make_again(self, source: MadeSource) -> None:
        with self.builder.callee():
            self.builder.load_constant(source.make)
        for argument in source.arguments:
            if isinstance(argument, Value):
                self.load(argument)
            else:
                self.builder.load_constant(argument)
        self.builder.call(len(source.arguments))


def number_of_array(tensor: torch.Tensor) -> Any:
    return tensor.numpy()[()]


def applied(function: Callable[[Any], Any]) -> Callable[[Rebuilder, Any], None]:
    """Loads what a function gives for the place below."""

    def load(rebuilder: Rebuilder, source: Any) -> None:
        rebuilder.builder.load_function(function)
        rebuilder.load_source(source.base)
        rebuilder.builder.call(1)

    return load


LOADERS: dict[type, Callable[[Rebuilder, Any], None]] = {
    LocalSource: Rebuilder.load_name,
    CellSource: lambda self, source: self.builder.load_cell(source.name),
    VariableSource: lambda self, source: self.builder.load_cell_itself(source.name),
    GlobalSource: Rebuilder.load_global,
    AttributeSource: Rebuilder.load_attribute,
    DictionaryAttributeSource: Rebuilder.load_dictionary_attribute,
    ModuleMemberSource: Rebuilder.load_member,
    ItemSource: Rebuilder.load_item,
    KeySource: Rebuilder.load_key,
    LengthSource: applied(len),
    FloatSource: applied(float),
    TensorOfNumberSource: applied(tensor_of_number),
    KeyedItemSource: Rebuilder.load_keyed_item,
    ReferentSource: Rebuilder.load_referent,
    ThreadDictionarySource: Rebuilder.load_thread_dictionary,
    ReducedSource: Rebuilder.load_reduced,
    UpcomingSource: applied(upcoming),
    WaitingSource: applied(held_waiting),
    TypeSource: applied(type),
    ExtentSource: Rebuilder.load_extent,
    ConstantSource: lambda self, source: self.builder.load_constant(source.value),
    MadeSource: Rebuilder.make_again,
    ArraySource: applied(torch.from_numpy),
    PlainTensorSource: applied(plain_tensor),
    LocalPartSource: Rebuilder.load_part,
    WaitedSource: applied(waited),
    ProxiedSource: applied(mapping_behind),
    BehindProxySource: applied(behind_proxy),
    ModeSource: Rebuilder.load_mode,
}
MAKERS: dict[type, Callable[[Rebuilder, Any], None]] = {
    ListValue: Rebuilder.make_list,
    TupleValue: Rebuilder.make_tuple,
    DictValue: Rebuilder.make_dictionary,
    InstanceDictionaryValue: Rebuilder.make_instance_dictionary,
    SetValue: Rebuilder.make_set,
    SliceValue: Rebuilder.make_slice,
    TextValue: Rebuilder.make_text,
    EitherValue: lambda self, value: self.call_constant(first_if, value.condition, value.first, value.second),
    DictViewValue: Rebuilder.make_view,
    IteratorValue: Rebuilder.make_iterator,
    ZipValue: Rebuilder.make_zip,
    CountValue: Rebuilder.make_count,
    GeneratorValue: Rebuilder.make_generator,
    MethodValue: Rebuilder.make_method,
    PartialValue: Rebuilder.make_partial,
    CompilationValue: Rebuilder.make_compilation,
    WeakReferenceValue: lambda self, value: self.call_constant(weakref.ref, value.of, value.callback),
    FunctionOfResultValue: lambda self, value: self.call_constant(function_of, value.tensor),
    SuperValue: Rebuilder.make_super,
    ArrayValue: Rebuilder.make_array,
    DistributedValue: lambda self, value: self.call_constant(value.around(), *value.parts()),
    NestedValue: Rebuilder.refuse,
    DescriptorValue: Rebuilder.make_descriptor,
    CellValue: Rebuilder.make_cell,
    FunctionValue: Rebuilder.make_function,
    InstanceValue: Rebuilder.make_instance,
    InferenceModeValue: Rebuilder.make_inference_mode,
    TracebackValue: lambda self, value: self.call_constant(tracebacks.rebuilt, ConstantValue(value.entries)),
}
