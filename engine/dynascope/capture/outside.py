"""Things from outside become values, with the guards that say what was assumed of them.

    realize([1, 2], LocalSource("sizes"))   ->  ListValue of two lazy items; guards: type is list, length is 2

An object is one value however many ways lead to it; the second way adds a guard that they still lead to one object.
The items of a container stay lazy: what nobody looks at is not guarded.
"""

from __future__ import annotations

import collections
import contextvars
import enum
import functools
import re
import sys
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import UninitializedTensorMixin
from torch.torch_version import TorchVersion

from dynascope.autograd_functions.awaited_histories import awaits_history
from dynascope.capture import numpy_numbers, outside_generators
from dynascope.capture.distributed_values import is_distributed, is_mesh, is_placement
from dynascope.capture.metadata import META, meta_of, more_than_strides
from dynascope.capture.places import FUNCTION_TYPES, is_library_name, is_torch_operation, module_name
from dynascope.capture.protocols import contents, gradient_requirements, loop_turns, outside_iterators
from dynascope.capture.protocols.classes import is_like_plain, lookup, refuse_own_comparisons
from dynascope.capture.protocols.hashing import hash_key, note_number
from dynascope.capture.protocols.overriding import PLAIN_TENSORS, behaviour, holding
from dynascope.capture.protocols.tuples import has_state, is_plain
from dynascope.capture.reasons import (
    AliasedMutation,
    FirstImport,
    ForeignValue,
    KeysByIdentity,
    ParameterNotMade,
    TensorSubclass,
)
from dynascope.capture.signals import Break
from dynascope.capture.tensor_sizes import extents_of
from dynascope.capture.values import (
    ArrayValue,
    CellValue,
    ConstantValue,
    DictValue,
    DictViewValue,
    FunctionValue,
    InstanceDictionaryValue,
    InstanceValue,
    LazyValue,
    ListValue,
    MethodValue,
    PartialValue,
    SetValue,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    own_dictionary,
)
from dynascope.frame.resume import resume_origin
from dynascope.frame.stack_names import in_users_words
from dynascope.guards.guard import (
    DictionaryKeysAre,
    Equals,
    IdentityIs,
    IsSameObject,
    LengthIs,
    TypeIs,
)
from dynascope.guards.iterators import ITERATORS
from dynascope.guards.source import (
    ArraySource,
    AttributeSource,
    ConstantSource,
    DictionaryAttributeSource,
    FloatSource,
    ItemSource,
    KeyedItemSource,
    KeySource,
    LengthSource,
    LocalPartSource,
    LocalSource,
    ModuleMemberSource,
    PlainTensorSource,
    Source,
    TensorOfNumberSource,
    WaitedSource,
    cell_of,
    tensor_of_array,
)
from dynascope.guards.tensor_guard import TensorMatches
from dynascope.sizes import fix

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

LAZY_IMPORT = getattr(types, "LazyImportType", None)
"""What the names hold until their first use that CPython 3.15 imports lazily."""
LITERAL_TYPES = frozenset(
    {int, float, bool, complex, str, bytes, type(None), type(...), type(NotImplemented), range}
    | {torch.dtype, torch.device, torch.layout, torch.memory_format}
    | {torch._C._SDPBackend}
    | numpy_numbers.TYPES
)
VARYING_TYPES = (int, float, *(kind for kind in numpy_numbers.FLOATS if issubclass(kind, float)))
"""Numbers that are inputs where they vary."""
IDENTITY_TYPES = (*FUNCTION_TYPES[1:], type, types.ModuleType, torch._ops.OpOverloadPacket, torch._ops.OpOverload)
if torch.distributed.is_available():
    IDENTITY_TYPES += (torch.distributed.ProcessGroup, torch.distributed.ReduceOp, torch.distributed.ReduceOp.RedOpType)
IDENTITY_TYPES += (torch.finfo, torch.iinfo, *numpy_numbers.LIMITS, types.GenericAlias, types.UnionType)
IDENTITY_TYPES += (property, staticmethod, classmethod, types.CodeType)
MODULE_TABLES = ("_parameters", "_buffers", "_modules")
BY_IDENTITY = (torch.Tensor, torch.nn.Module)
LONGEST_NAME = 40
"""Of an input that has no name of the program's, but an expression."""


class Outside:
    """The memory of what came from outside. One for each capture."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        # By `id(object)`; what an object of a subclass of dict or list holds is there beside the object itself.
        self.by_identity: dict[Any, Value] = {}
        self.by_source: dict[Source, Value] = {}
        # The first object met that has the dictionary.
        self.by_dictionary: dict[int, InstanceValue] = {}
        # What was found by a name, which something else may answer for where it is gone.
        self.found: list[LazyValue] = []
        # Of numbers of NumPy's that vary.
        self.held_in_tensors: frozenset[Source] = frozenset()
        # An identity means nothing once its object is gone.
        self.alive: list[Any] = []
        # The region's own, which no frame has any more when its effects are looked at.
        self.code: types.CodeType | None = None

    def lazy(self, object: Any, source: Source) -> LazyValue:
        return LazyValue(object, source, self)

    def realize(self, object: Any, source: Source) -> Value:
        """The value of an object from outside, guarded as far as its kind goes."""
        known = self.by_source.get(source)
        if known is not None:
            return known
        value = self._attributes_of_known(object, source) if type(object) is dict else None
        if value is not None:
            self.by_source[source] = value
            return value
        value = self.by_identity.get(id(object))
        if value is None:
            value = self._wrap(object, source)
        elif value.source is not None:
            place = cell_of(value.source) if isinstance(value, CellValue) else value.source
            if place != source:
                self.machine.guards.add_pair(place, source, IsSameObject())
        self.by_source[source] = value
        return value

    def fixed(self, object: Any, name: str) -> Value:
        """The value of an object that is taken never to change: no guard."""
        return self.realize(object, ConstantSource(f"{name}@{id(object)}", object))

    def _wrap(self, object: Any, source: Source) -> Value:
        kind = type(object)
        if kind is LAZY_IMPORT:
            raise Break(FirstImport(source.expression(), "it is imported lazily, at its first use"))
        refuse_own_comparisons(self.machine, kind)
        if kind in LITERAL_TYPES:
            return self._literal(object, source)
        rule = EXACT_RULES.get(kind)
        if rule is None:
            rule = next((rule for test, rule in GENERAL_RULES if test(object)), Outside._instance)
        return rule(self, object, source)

    def remember(self, object: Any, value: Value) -> Value:
        self.by_identity[id(object)] = value
        self.alive.append(object)
        return value

    def guard_type(self, object: Any, source: Source) -> None:
        self.machine.guards.add(source, TypeIs(type(object)))

    def _literal(self, object: Any, source: Source) -> Value:
        if type(object) is int:
            self.machine.sizes.seen[source] = object
        if type(object) in VARYING_TYPES and self.machine.is_symbolic(source):
            return self._number(object, source)
        if type(object) in numpy_numbers.AS_ARRAYS and self.machine.is_symbolic(source):
            return self._number_of_numpys(object, source)
        self.machine.guards.add(source, Equals(object))
        return ConstantValue(object, source)

    def _number(self, object: int | float, source: Source) -> Value:
        self.guard_type(object, source)
        sizes = self.machine.sizes
        return sizes.value(sizes.number(object, source, self.machine.options), source)

    def _number_of_numpys(self, object: Any, source: Source) -> Value:
        """One that is no float of Python's, and computes as an array does."""
        self.guard_type(object, source)
        self.held_in_tensors |= {source}
        place = TensorOfNumberSource(source)
        held = place.read(self.machine.values)
        example = self.machine.in_plain_mode(lambda: meta_of(held))
        tensor = TensorValue(self.machine.graph.input(self._name_of(source), place, held, example, held.device), example, held.device)
        tensor.source = place
        value = ArrayValue(tensor, is_number=True)
        value.source = source
        return self.remember(object, value)

    def number_of(self, value: ArrayValue) -> Value | None:
        """The float that torch takes a number of NumPy's for, where it came from outside."""
        if not value.is_number or value.source is None:
            return None
        place, sizes = FloatSource(value.source), self.machine.sizes
        if place not in self.by_source:
            self.by_source[place] = sizes.value(sizes.number(place.read(self.machine.values), place, self.machine.options), place)
        return self.by_source[place]

    def specialize(self, number: SymbolicNumber) -> ConstantValue:
        """The number's value, from now on assumed: a guard on every input it was computed from."""
        return ConstantValue(fix(number.size), number.source)

    def _identity(self, object: Any, source: Source) -> Value:
        if _is_bound_in_c(object) and not issubclass(type(object.__self__), torch.Tensor):
            if isinstance(source, LocalSource) and resume_origin(self.machine.frames[0].code):
                return self._method_in_c(object, source)  # bound in the part before, and anew by each call
        self.machine.guards.add(source, IdentityIs(object))
        return ConstantValue(object, source)

    def _tensor(self, object: torch.Tensor, source: Source) -> Value:
        if type(object) not in PLAIN_TENSORS:
            return self._tensor_of_class(object, source)
        if object.device == META:
            return self._without_elements(object, source)
        if (kind := more_than_strides(object)) is not None:
            raise Break(TensorSubclass(kind, source.expression()))
        if self.machine.in_plain_mode(lambda: awaits_history(object)):
            raise Break(TensorSubclass("view whose base got a history later", source.expression()))
        self.machine.assume_protocol(type(object))
        extents = extents_of(self.machine, object, source)
        expected = (extents.expected_sizes, extents.expected_strides) if extents is not None else ()
        self.machine.guards.add(source, TensorMatches.of(object, *expected))
        given = self.machine.in_plain_mode(lambda: gradient_requirements.from_the_start(self.machine, object, source))
        example = self.machine.in_plain_mode(lambda: meta_of(given))
        node = self.machine.graph.input(self._name_of(source), source, given, example, object.device)
        if extents is not None:
            node.meta["sizes"], node.meta["strides"] = extents.sizes, extents.strides
        value = TensorValue(node, example, object.device)
        value.source, value.object = source, object
        gradient_requirements.remember_start(self.machine, value)
        self.machine.has_inference_tensors |= object.is_inference()
        return self.remember(object, value)

    def _name_of(self, source: Source) -> str:
        """What stood on the stack at a break is named by the expression that gave it."""
        name = source.expression()
        told = in_users_words(name, self.code) if self.code is not None else name
        if told == name or len(told) <= LONGEST_NAME:
            return told
        return re.sub(r"^\w+?(\W|_)", "", told[-LONGEST_NAME:])  # whole words; the end says which part it is

    def _without_elements(self, object: torch.Tensor, source: Source) -> Value:
        """A meta tensor is a thing that can be handed on: `functional_call` puts others in its place, and it back. What looks at it
        breaks (`protocols.attributes`, operands)."""
        self.machine.guards.add(source, IdentityIs(object))
        return self.remember(object, InstanceValue(type(object), source, object))

    def part_of(self, place: LocalPartSource) -> TensorValue:
        """This rank's part of a DTensor, of which another guard says the rest."""
        part = place.read(self.machine.values)
        self.machine.assume_protocol(type(part))
        example = self.machine.in_plain_mode(lambda: meta_of(part))
        node = self.machine.graph.input(self._name_of(place), place, part, example, part.device)
        value = TensorValue(node, example, part.device)
        value.source, value.object = place, part
        return self.remember(part, value)

    def _tensor_of_class(self, object: torch.Tensor, source: Source) -> Value:
        """A tensor of a subclass: an object that holds a plain one."""
        if (kind := behaviour(type(object))) == "AsyncCollectiveTensor" and type(object).__module__.startswith("torch.distributed."):
            self.guard_type(object, source)
            waits = WaitedSource(source)
            return self.remember(object, self.realize(waits.read(self.machine.values), waits))
        if is_distributed(type(object)):
            from dynascope.capture.calls import distributed_tensors

            return self.remember(object, distributed_tensors.from_outside(self.machine, object, source))
        if kind is not None:
            reason = ParameterNotMade if isinstance(object, UninitializedTensorMixin) else TensorSubclass
            raise Break(reason(kind, source.expression()))
        self.guard_type(object, source)
        value = InstanceValue(type(object), source, object)
        place = PlainTensorSource(source)
        return self.remember(object, holding(self.machine, value, self.realize(place.read(self.machine.values), place)))

    def _list(self, object: list, source: Source) -> Value:
        self.guard_type(object, source)

        def look() -> list[Value]:
            self.machine.guards.add(source, LengthIs(len(object)))
            return [self.lazy(item, ItemSource(source, at)) for at, item in enumerate(object)]

        return self.remember(object, ListValue(look, source, object))

    def _tuple(self, object: tuple, source: Source) -> Value:
        self.guard_type(object, source)
        self.machine.guards.add(source, LengthIs(len(object)))
        items = tuple(self.lazy(item, ItemSource(source, at)) for at, item in enumerate(object))
        return self.remember(object, TupleValue(items, type(object), source))

    def contents(self, instance: InstanceValue, base: type) -> DictValue | ListValue | TupleValue:
        """What an object of a subclass of `base` holds, read as `base` does; its type is guarded already."""
        object, source = instance.object, instance.source
        if base is tuple:
            self.machine.guards.add(source, LengthIs(tuple.__len__(object)))
            return TupleValue(tuple(self.lazy(item, ItemSource(source, at, tuple)) for at, item in enumerate(tuple.__iter__(object))))
        if base is collections.deque:
            value: DictValue | ListValue = ListValue(lambda: self._of_deque(object, source), source, object)
        elif base is list:
            value = ListValue(lambda: self._of_list_subclass(object, source), source, object)
        else:
            value = self._filled(object, source, base, lambda key: ItemSource(source, key, base))
            if base is types.MappingProxyType:
                value.cls = collections.OrderedDict if type(object.keys()) is ORDERED_KEYS else dict
        value.instance = instance
        self.by_identity["contents", id(object)] = value
        return value

    def _of_deque(self, object: collections.deque, source: Source) -> list[Value]:
        if object.maxlen != len(object) and LengthSource(source) in self.machine.options.symbolic:  # it has grown
            raise Break(ForeignValue("deque", self.machine.expression()))
        self.machine.guards.add(source, LengthIs(len(object)))
        self.machine.guards.add(AttributeSource(source, "maxlen"), Equals(object.maxlen))
        return [self.lazy(item, ItemSource(source, at)) for at, item in enumerate(object)]

    def _of_list_subclass(self, object: list, source: Source) -> list[Value]:
        self.machine.guards.add(source, LengthIs(list.__len__(object)))
        return [self.lazy(item, ItemSource(source, at, list)) for at, item in enumerate(list.__iter__(object))]

    def _filled(self, object: dict, source: Source, cls: type, place: Callable[[Any], Source]) -> DictValue:
        # Keys whose hash is the user's own code are refused before anything asks for it.
        pairs = list(cls.items(object))
        if cls is type(object) and any(map(_is_found_by_identity, (key for key, _ in pairs))):
            return self._filled_by_identity(pairs, source, cls, object)
        keys = {id(key): self._key(key) for key, _ in pairs}
        self.machine.guards.add(source, DictionaryKeysAre(tuple(key for key, _ in pairs)))
        value = DictValue({}, cls, source, object)
        for key, item in pairs:
            hashed, known = keys[id(key)]
            value.items[hashed] = (known, self.lazy(item, place(key)))
        value.original = dict(value.items)
        return value

    def _filled_by_identity(self, pairs: list[tuple[Any, Any]], source: Source, cls: type, object: dict) -> DictValue:
        """Of a dict with tensors, modules or instances among its keys: they are things from outside, and a guard keeps none alive."""
        self.machine.guards.add(source, LengthIs(len(pairs)))
        value = DictValue({}, cls, source, object)
        for at, (key, item) in enumerate(pairs):
            if _is_found_by_identity(key):
                known = self.realize(key, KeySource(source, at))
                hashed, place = hash_key(self.machine, known), KeyedItemSource(source, known.source)
            else:
                hashed, known = self._key(key)
                self.machine.guards.add(KeySource(source, at), Equals(key))
                place = item_source(source, key)
            value.items[hashed] = (known, self.lazy(item, place))
        value.original = dict(value.items)
        return value

    def _dictionary(self, object: dict, source: Source) -> Value:
        self.guard_type(object, source)
        value = self._filled(object, source, type(object), lambda key: item_source(source, key))
        if isinstance(object, collections.defaultdict):
            value.default_factory = self.realize(object.default_factory, AttributeSource(source, "default_factory"))
        return self.remember(object, value)

    def _view(self, object: Any, source: Source) -> Value:
        """What `keys()`, `values()` or `items()` of a dict gave: it shows that dict as it is by now."""
        self.guard_type(object, source)
        instance = InstanceValue(type(object), source, object)
        try:
            shown = contents.behind_proxy(self.machine, instance)
        except Break:  # its keys cannot be looked at
            shown = None
        if shown is None:
            return self.remember(object, InstanceValue(type(object), source, object))
        value = DictViewValue(shown, VIEWS[type(object)])
        value.source = source
        return self.remember(object, value)

    def _key(self, key: Any) -> tuple[Any, Value]:
        """What finds the key (see `protocols.hashing`), and the key. Keys are constants of the guard that says which they are.

        A tensor or an instance is found by identity, and a guard would keep it alive.
        """
        kind = type(key)
        if kind in LITERAL_TYPES and key == key:
            note_number(self.machine, key)
            return key, ConstantValue(key)
        if kind is tuple:
            parts = [self._key(part) for part in key]
            return tuple(hashed for hashed, _ in parts), TupleValue(tuple(known for _, known in parts))
        if kind is types.FunctionType and not is_torch_operation(key):
            known = self.fixed(key, key.__qualname__)
            return known, known
        if issubclass(kind, (*FUNCTION_TYPES, enum.Enum, frozenset)) or _is_fixed_instance(key) or numpy_numbers.is_dtype(key):
            return key, ConstantValue(key)
        raise Break(KeysByIdentity(kind.__name__, self.machine.expression()))

    def _set(self, object: set | frozenset, source: Source) -> Value:
        if any(map(_is_found_by_identity, object)):
            return self._set_by_identity(object, source)
        try:
            items = dict(map(self._key, object))
        except Break:
            return self._instance(object, source)
        self.machine.guards.add(source, Equals(frozenset(object) if type(object) is frozenset else set(object)))
        return self.remember(object, SetValue(items, type(object), source, object))

    def _set_by_identity(self, object: set | frozenset, source: Source) -> Value:
        """Of a set with tensors, modules or instances in it: things from outside, each found where it lies. A large one is Python's,
        because finding the last takes as long as there are others, and so is one with what cannot be looked at."""
        if len(object) > MOST_BY_POSITION:
            return self._instance(object, source)
        self.guard_type(object, source)
        self.machine.guards.add(source, LengthIs(len(object)))
        value = SetValue({}, type(object), source, object)
        value.is_by_position = True
        try:
            for at, key in enumerate(object):
                if _is_found_by_identity(key):
                    known = self.realize(key, KeySource(source, at))
                    hashed = hash_key(self.machine, known)
                else:
                    hashed, known = self._key(key)
                    self.machine.guards.add(KeySource(source, at), Equals(key))
                value.items[hashed] = known
        except Break:
            return self._instance(object, source)
        return self.remember(object, value)

    def _function(self, object: types.FunctionType, source: Source) -> Value:
        return self._identity(object, source) if is_torch_operation(object) else self.function(object, source)

    def function(self, object: types.FunctionType, source: Source) -> FunctionValue:
        """The function as Python code to be read."""
        self.guard_type(object, source)
        self.machine.guards.add(AttributeSource(source, "__code__"), IdentityIs(object.__code__))
        value = FunctionValue(object.__code__, object.__globals__, object.__qualname__, source, object)
        self.remember(object, value)
        value.closure = self._closure(object, source)
        defaults = AttributeSource(source, "__defaults__")
        value.defaults = tuple(
            self.lazy(default, ItemSource(defaults, at)) for at, default in enumerate(object.__defaults__ or ())
        )
        if value.defaults:
            self.machine.guards.add(defaults, TypeIs(tuple))  # they may be taken away
            self.machine.guards.add(defaults, LengthIs(len(value.defaults)))
        keyword_defaults = AttributeSource(source, "__kwdefaults__")
        value.keyword_defaults = {
            name: self.lazy(default, ItemSource(keyword_defaults, name))
            for name, default in (object.__kwdefaults__ or {}).items()
        }
        if value.keyword_defaults:
            self.machine.guards.add(keyword_defaults, TypeIs(dict))
        return value

    def _closure(self, function: types.FunctionType, source: Source) -> tuple[CellValue, ...]:
        cells = AttributeSource(source, "__closure__")
        names = function.__code__.co_freevars
        return tuple(
            self.cell(cell, name, AttributeSource(ItemSource(cells, at), "cell_contents"))
            for at, (name, cell) in enumerate(zip(names, function.__closure__ or (), strict=True))
        )

    def cell(self, cell: types.CellType, name: str, content: Source) -> CellValue:
        known = self.by_identity.get(id(cell))
        if known is not None:
            if known.source != content:
                self.machine.guards.add_pair(cell_of(known.source), cell_of(content), IsSameObject())
            return known
        try:
            inside = self.lazy(cell.cell_contents, content)
        except ValueError:
            inside = None
        value = CellValue(inside, name, content, cell)
        self.remember(cell, value)
        return value

    def _method(self, object: types.MethodType, source: Source) -> Value:
        self.guard_type(object, source)
        function = self.realize(object.__func__, AttributeSource(source, "__func__"))
        instance = self.realize(object.__self__, AttributeSource(source, "__self__"))
        value = MethodValue(function, instance)
        value.source = source
        return self.remember(object, value)

    def _method_in_c(self, object: types.BuiltinMethodType, source: Source) -> Value:
        """`items.append`, `x.add`, kept by the program or on the stack across a break: the class's method, and the object."""
        entry = getattr(type(object.__self__), object.__name__, None)
        self.guard_type(object, source)
        self.machine.guards.add(AttributeSource(source, "__name__"), Equals(object.__name__))
        instance = self.realize(object.__self__, AttributeSource(source, "__self__"))
        value = MethodValue(ConstantValue(entry), instance)
        value.source = source
        return self.remember(object, value)

    def _array(self, object: Any, source: Source) -> Value:
        """An array of NumPy's, as the tensor that shares its memory."""
        place = ArraySource(source)
        tensor = tensor_of_array(object)
        if tensor is None or tensor.dtype not in numpy_numbers.HELD:
            return self._instance(object, source)
        self.guard_type(object, source)
        value = ArrayValue(self._tensor(tensor, place))
        value.source = source
        return self.remember(object, value)

    def _slice(self, object: slice, source: Source) -> Value:
        bounds = (object.start, object.stop, object.step)
        if not all(type(bound) in (int, type(None)) or _is_place(bound) for bound in bounds):
            return self._instance(object, source)
        self.machine.guards.add(source, Equals(object))
        for name in ("start", "stop", "step"):  # NumPy's numbers are equal to Python's
            if _is_place(bound := getattr(object, name)):
                self.guard_type(bound, AttributeSource(source, name))
        value = SliceValue(tuple(map(ConstantValue, bounds)))
        value.source = source
        return value

    def _script(self, object: Any, source: Source) -> Value:
        """A function of TorchScript: the Python function that it came from, which TorchScript keeps for compilers."""
        return self.realize(object._torchdynamo_inline, AttributeSource(source, "_torchdynamo_inline"))

    def _partial(self, object: functools.partial, source: Source) -> Value:
        self.guard_type(object, source)
        function = self.realize(object.func, AttributeSource(source, "func"))
        arguments = self.realize(object.args, AttributeSource(source, "args"))
        keywords = self.realize(object.keywords, AttributeSource(source, "keywords"))
        return self.remember(object, PartialValue.from_outside(object, source, function, arguments, keywords))

    def _compiled(self, object: Any, source: Source) -> Value:
        """A compiled function called inside is read like the function it was made from."""
        return self.realize(object.__wrapped__, AttributeSource(source, "__wrapped__"))

    def _iterator(self, object: Any, source: Source) -> Value:
        if self.machine.options.by_turns and loop_turns.can_follow(object):
            self.guard_type(object, source)
            return loop_turns.follow_turn(self, object, source)
        if not outside_iterators.can_follow(object, self.machine.options.follows_data):
            return self._instance(object, source)
        self.guard_type(object, source)
        return outside_iterators.follow(self, object, source)

    def _generator(self, object: types.GeneratorType, source: Source) -> Value:
        self.guard_type(object, source)
        if self.machine.options.follows_generators and outside_generators.can_follow(object):
            return outside_generators.follow(self, object, source)
        return self._instance(object, source)

    def _instance(self, object: Any, source: Source) -> Value:
        self.guard_type(object, source)
        self.machine.overriding.meet(type(object))
        value = InstanceValue(type(object), source, object)
        self._share_attributes(value)
        return self.remember(object, value)

    def _share_attributes(self, value: InstanceValue) -> None:
        """What is written to one of several objects that have one `__dict__` (`self.__dict__ = self._shared`) is seen in all of them. Where
        the dictionary was met first, it is as one that the program gave the object."""
        if (own := own_dictionary(value)) is None:
            return
        known, place = self.by_identity.get(id(own)), AttributeSource(value.source, "__dict__")
        if type(known) is DictValue and known.source is not None and takes_given(value.cls) and id(own) not in self.by_dictionary:
            self.machine.guards.add_pair(known.source, place, IsSameObject())
            value.attributes["__dict__"] = known
            return
        first = self.by_dictionary.setdefault(id(own), value)
        if first is not value and is_like_plain(value.cls) and is_like_plain(first.cls):
            places = (AttributeSource(each.source, "__dict__") for each in (first, value))
            self.machine.guards.add_pair(*places, IsSameObject())
            value.attributes = first.attributes

    def _attributes_of_known(self, object: dict, source: Source) -> Value | None:
        """A dictionary that is the `__dict__` of an object met before (`cls._shared`), reached by a way of its own: what is written to
        one is seen in the other."""
        self.check_nothing_beside(object, source)
        owner = self.by_dictionary.get(id(object))
        if owner is None or source == (place := AttributeSource(owner.source, "__dict__")):
            return None
        before = self.realize(object, place)
        if type(before) is not DictValue or before.changed or before.source != place:
            return None
        self.machine.guards.add_pair(place, source, IsSameObject())
        return InstanceDictionaryValue(owner, before)

    def check_nothing_beside(self, dictionary: dict, source: Source) -> None:
        """The dictionary of a tensor's own does not have yet what the program has put beside the tensor by attribute."""
        for tensor, name in self.machine.beside_tensors:
            if tensor.object is not None and getattr(tensor.object, "__dict__", None) is dictionary:
                raise Break(AliasedMutation(f"{tensor.source.expression()}.{name}", source.expression()))

    def check_unwritten(self, dictionary: dict, shown: str) -> None:
        """A name of a module or a function is read from the object, not from what the program has written to its dictionary by a way of
        the dictionary's own (`names = vars(module)`)."""
        known = self.by_identity.get(id(dictionary))
        if isinstance(known, DictValue) and known.changed and known.source is not None:
            raise Break(AliasedMutation(shown, known.source.expression()))


def takes_given(cls: type) -> bool:
    """Whether attributes of its objects are read and written by Python's plain protocol alone."""
    return is_like_plain(cls) and not issubclass(cls, (torch.nn.Module, BaseException))


def item_source(source: Source, key: Any) -> Source:
    """The place of a dictionary's item; a module's tables have a kind of source of their own."""
    if isinstance(source, DictionaryAttributeSource) and source.name in MODULE_TABLES:
        return ModuleMemberSource(source.base, source.name, key)
    return ItemSource(source, key)


Rule = Callable[[Outside, Any, Source], Value]
VIEWS = {
    type(getattr(cls(), kind)()): kind for cls in (dict, collections.OrderedDict) for kind in ("keys", "values", "items")
}  # fmt: skip
EXACT_RULES: dict[type, Rule] = {
    list: Outside._list,
    tuple: Outside._tuple,
    torch.Size: Outside._tuple,
    dict: Outside._dictionary,
    collections.OrderedDict: Outside._dictionary,
    collections.defaultdict: Outside._dictionary,
    set: Outside._set,
    frozenset: Outside._set,
    types.FunctionType: Outside._function,
    types.MethodType: Outside._method,
    functools.partial: Outside._partial,
    **dict.fromkeys(VIEWS, Outside._view),
    slice: Outside._slice,
    **dict.fromkeys((re.Pattern, TorchVersion, type(sys.version_info), contextvars.ContextVar), Outside._identity),
    **dict.fromkeys(ITERATORS, Outside._iterator),
    types.GeneratorType: Outside._generator,
}


# Only the class is asked: `isinstance` would ask an object for its `__class__`, which can be the user's own code.


def _is_named_tuple(object: Any) -> bool:
    return (
        issubclass(type(object), tuple)
        and hasattr(type(object), "_fields")
        and is_plain(type(object))
        and not has_state(object)
    )


def _is_compiled(object: Any) -> bool:
    return module_name(type(object)).startswith("dynascope.") and hasattr(object, "__wrapped__")


def _is_fixed_instance(object: Any) -> bool:
    return issubclass(type(object), IDENTITY_TYPES) or (
        issubclass(type(object), types.BuiltinMethodType)
        or type(object).__module__ == "typing"
        or is_library_name(module_name(type(object)))
        and callable(object)
        and type(object).__module__ in ("operator", "torch._C")
    )


def _is_found_by_identity(key: Any) -> bool:
    """Whether a key is a tensor, a module or an instance that is equal to itself alone, and no constant; or a weak reference to one."""
    if issubclass(type(key), BY_IDENTITY):
        return True
    if type(key) is weakref.ReferenceType:  # of tensors these compare the elements
        of = key()
        return of is not None and not issubclass(type(of), (torch.Tensor, weakref.ReferenceType)) and _is_found_by_identity(of)
    cls = type(key)
    is_default = all(lookup(cls, name) is vars(object)[name] for name in ("__hash__", "__eq__"))
    return is_default and cls not in LITERAL_TYPES and not issubclass(cls, FUNCTION_TYPES) and not _is_fixed_instance(key)


def _is_place(bound: Any) -> bool:
    """Whether a bound of a slice is a whole number of NumPy's."""
    return type(bound) in numpy_numbers.TYPES - numpy_numbers.FLOATS


def _is_script(object: Any) -> bool:
    return type(object) is torch.jit.ScriptFunction and isinstance(
        getattr(object, "_torchdynamo_inline", None), types.FunctionType
    )


def _is_method_in_c(object: Any) -> bool:
    """One bound to an object that other calls bring another one of, or whose changes matter, or bound anew by each `with` that a
    break is in."""
    if type(object) is not types.BuiltinMethodType:
        return False
    owner = object.__self__
    is_tensor = issubclass(type(owner), torch.Tensor) and more_than_strides(owner) is None and owner.device.type != "meta"
    is_of_call = type(owner) in CONTAINERS or is_tensor or object.__name__ == "__exit__"
    return is_of_call and _is_bound_in_c(object)


def _is_bound_in_c(object: Any) -> bool:
    if type(object) is not types.BuiltinMethodType:
        return False
    return isinstance(getattr(type(object.__self__), object.__name__, None), types.MethodDescriptorType)


ORDERED_KEYS = type(collections.OrderedDict().keys())
MOST_BY_POSITION = 64
"""Items of a set that are read one by one."""
CONTAINERS = (list, dict, set, collections.OrderedDict, collections.defaultdict)
GENERAL_RULES: tuple[tuple[Callable[[Any], bool], Rule], ...] = (
    (lambda object: issubclass(type(object), torch.Tensor), Outside._tensor),
    (lambda object: issubclass(type(object), enum.Enum), Outside._identity),
    (_is_named_tuple, Outside._tuple),
    (_is_compiled, Outside._compiled),
    (_is_method_in_c, Outside._method_in_c),
    (_is_script, Outside._script),
    (_is_fixed_instance, Outside._identity),
    (is_placement, Outside._literal),
    (is_mesh, Outside._identity),
    (numpy_numbers.is_function, Outside._identity),
    (numpy_numbers.is_dtype, Outside._identity),
    (lambda object: numpy_numbers.IS_THERE and type(object) is numpy_numbers.numpy.ndarray, Outside._array),
)
