"""What the interpreter computes with: one class for each way a value can be known.

    ConstantValue    an immutable object, known: 3, "mean", torch.float32, a class, a module, a C function
    TensorValue      a node of the graph, with a meta tensor for its sizes and types
    SymbolicNumber   a node of the graph whose value is a Python int or float
    ListValue ...    a container whose items are values
    InstanceValue    an object with attributes: the user's, or an nn.Module
    FunctionValue    a Python function that can be inlined
    TextValue        a text with numbers in it that may differ at the next call
    EitherValue      one of two values, which only the run of the graph knows: `max(loss, 0.0)`
    LazyValue        something from outside that nothing has looked at yet: no guard so far

Values that Python code can change are compared by identity, as their objects are, and changed only through the journal.
`source` is where the object can be found when compiled code starts; None for what the program made itself.
"""

from __future__ import annotations

import collections
import functools
import weakref
from collections.abc import Callable, Sequence
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.reasons import DataDependentBranch, ForeignValue
from dynascope.capture.set_orders import Change, SetRecipe, told
from dynascope.capture.signals import Break
from dynascope.dataclass import dataclass
from dynascope.guards.source import Source
from dynascope.report.span import UserFrame
from dynascope.sizes import Relation, Size

if TYPE_CHECKING:
    from dynascope.capture.frames import Frame
    from dynascope.capture.graph import GraphBuilder
    from dynascope.capture.outside import Outside


class Value:
    """Base of all. `python_type` is the class that `type(x)` gives in the program."""

    __slots__ = ("source",)
    source: Source | None

    @property
    def python_type(self) -> type:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.python_type.__name__}>"


class NullValue(Value):
    """The empty slot that calls keep on the stack."""

    __slots__ = ()
    source = None
    python_type = type(None)

    def __repr__(self) -> str:
        return "NULL"


NULL = NullValue()


class LazyValue(Value):
    """Something from outside that nothing has looked at: it can be moved and returned without a guard."""

    __slots__ = ("object", "outside")

    def __init__(self, object: Any, source: Source, outside: Outside) -> None:
        self.object, self.source, self.outside = object, source, outside

    @property
    def python_type(self) -> type:
        return type(self.object)

    def realize(self) -> Value:
        return self.outside.realize(self.object, self.source)


class TextValue(Value):
    """A text with numbers in it that vary or that only the run knows: what `function`, which has no effects, gives for `parts`.

    It can be moved, kept, returned and said. Who looks into it (`realize`) fixes its numbers to what they are in this call.
    """

    __slots__ = ("function", "outside", "parts")
    python_type = str

    def __init__(self, function: Callable[..., str], parts: tuple[Value, ...], outside: Outside) -> None:
        self.function, self.parts, self.outside, self.source = function, parts, outside, None

    def realize(self) -> ConstantValue:
        return ConstantValue(with_numbers(self, lambda number: self.outside.specialize(number).value))


class EitherValue(Value):
    """`first` where `condition`, a tensor of one bool, holds when the graph has run, and else `second`: that very object.

    It can be moved, kept and returned. Who looks at it (`realize`) has to know which, but for what `calls/either_of.py` does to both.
    """

    __slots__ = ("asked", "condition", "first", "second")

    def __init__(self, condition: TensorValue, first: Value, second: Value, asked: DataDependentBranch) -> None:
        self.condition, self.first, self.second, self.asked, self.source = condition, first, second, asked, None

    @property
    def python_type(self) -> type:
        """For reports: who decides by it looks at the value first."""
        return self.first.python_type if self.first.python_type is self.second.python_type else object

    def realize(self) -> Value:
        raise Break(self.asked)


UNSEEN = (LazyValue, TextValue, EitherValue)
"""What is looked into only where the program does."""


class ConstantValue(Value):
    """A known object that does not change, or (class, module, C function) whose changes are guarded where they are read."""

    __slots__ = ("value",)

    def __init__(self, value: Any, source: Source | None = None) -> None:
        self.value, self.source = value, source

    @property
    def python_type(self) -> type:
        return type(self.value)

    def __repr__(self) -> str:
        return f"<constant {self.value!r}>"


NONE = ConstantValue(None)
TRUE = ConstantValue(True)
FALSE = ConstantValue(False)
NOT_IMPLEMENTED = ConstantValue(NotImplemented)


def boolean(value: object) -> ConstantValue:
    return TRUE if value else FALSE


class TensorValue(Value):
    """A tensor in the graph. `example` is a meta tensor: its device is a lie, the true one is in `device`.

    `object` is the real tensor of the call being captured, for inputs; it says class, hooks and identity, never data.
    `instance` is the object of a subclass of Tensor that holds this. `made_as` is the class of one that was made inside: a parameter's or
    buffer's, which stays in the graph.
    """

    __slots__ = ("device", "example", "instance", "made_as", "node", "object")

    def __init__(self, node: torch.fx.Node, example: torch.Tensor, device: torch.device) -> None:
        self.node, self.example, self.device = node, example, device
        self.source, self.object = None, None
        self.instance: InstanceValue | None = None
        self.made_as: type = torch.Tensor

    @property
    def python_type(self) -> type:
        return self.made_as if self.object is None else type(self.object)


class ArrayValue(Value):
    """An array of NumPy's, whose memory is the tensor's; or, with `is_number`, one of its numbers, which nobody can write to.

    `turned` is (array, key, version) of one that goes backwards over the memory of another (`a[::-1]`), which no tensor does: it is
    `array[key]`, and `tensor` a copy of that, as long as nobody writes to either.
    """

    __slots__ = ("is_number", "tensor", "turned")

    def __init__(self, tensor: TensorValue, is_number: bool = False) -> None:
        self.tensor, self.is_number, self.source = tensor, is_number, None
        self.turned: tuple[ArrayValue, Any, int] | None = None

    @property
    def python_type(self) -> type:
        array = torch.empty((), dtype=self.tensor.example.dtype).numpy()
        return type(array[()]) if self.is_number else type(array)


class SymbolicNumber(Value):
    """A Python int or float that may differ at the next call. `graph` has the node that computes it, once one is needed."""

    __slots__ = ("graph", "size")

    def __init__(self, size: Size, graph: GraphBuilder, source: Source | None = None) -> None:
        self.size, self.graph, self.source = size, graph, source

    @property
    def python_type(self) -> type:
        return type(self.size.hint)

    @property
    def example(self) -> int | float:
        """Its value in the call that is captured."""
        return self.size.hint

    @property
    def node(self) -> torch.fx.Node:
        return self.graph.number(self.size)


class ConditionValue(SymbolicNumber):
    """A comparison of numbers that only the run of the graph knows: a bool that nothing here can decide on."""

    __slots__ = ("function", "operands", "relation")
    python_type = bool

    def __init__(
        self, function: Callable[..., Any], operands: tuple[Value, ...], relation: Relation, graph: GraphBuilder
    ) -> None:
        self.function, self.operands, self.relation = function, operands, relation
        self.graph, self.source = graph, None

    @property
    def example(self) -> bool:
        return bool(self.function(*(each.example if isinstance(each, SymbolicNumber) else each.value for each in self.operands)))

    @property
    def node(self) -> torch.fx.Node:
        operands = tuple(each.node if isinstance(each, SymbolicNumber) else each.value for each in self.operands)
        return self.graph.late_number(self.function, operands, self.example)


class MutableValue(Value):
    """An object the program can change. `object` is the real one if it came from outside; `changed` once written to."""

    __slots__ = ("changed", "object")

    def __init__(self, source: Source | None = None, object: Any = None) -> None:
        self.source, self.object, self.changed = source, object, False


class ListValue(MutableValue):
    """A list. `original` is what it held when it came from outside; `instance` is the object of a subclass that holds this.

    One from outside is not looked into before `items` are asked for: `look` guards its length then, and gives what it held.
    Until then `added` is what was put at its end, whatever it holds: a log that grows is the same program at each call.
    `taken` says how many of what it held were taken from its start and its end: so is a queue that another call left longer.
    `repeated` are the items and the number that varies whose product it is (`[x] * n`), of which nobody has asked for the items either.
    `rearranged` counts what was done to it but for items put in the place of others, which iterators over a deque do not mind.
    """

    __slots__ = ("_items", "added", "instance", "look", "original", "rearranged", "repeated", "taken")
    python_type = list

    def __init__(
        self,
        items: list[Value] | Callable[[], list[Value]],
        source: Source | None = None,
        object: Any = None,
    ) -> None:
        super().__init__(source, object)
        self.look = items if callable(items) else None
        self._items: list[Value] = [] if callable(items) else items
        self.original = self._items if source is None else list(self._items)
        self.added: list[Value] = []
        self.taken = (0, 0)
        self.instance: InstanceValue | None = None
        self.repeated: tuple[list[Value], SymbolicNumber] | None = None
        self.rearranged = 0

    @property
    def is_unread(self) -> bool:
        return self.look is not None and self.repeated is None

    @property
    def product(self) -> tuple[list[Value], SymbolicNumber] | None:
        """What it is `repeated` of, for as long as it is that and no more."""
        return None if self.look is None or self.added else self.repeated

    @property
    def items(self) -> list[Value]:
        if self.look is not None:
            self.original = self.look()
            first, last = self.taken
            self._items, self.look = [*self.original[first : len(self.original) - last], *self.added], None
        return self._items

    @items.setter
    def items(self, items: list[Value]) -> None:
        self._items = items

    def add(self, item: Value) -> Callable[[], Any]:
        """Puts it at the end. What is given back takes it away again."""
        (self._items if self.look is None else self.added).append(item)
        return lambda: (self._items if self.look is None else self.added).pop()

    def take(self, at: int, item: Value) -> Callable[[], Any]:
        """Takes the first or the last (-1) of what nobody has looked into. What is given back puts `item` there again."""
        before = self.taken
        self.taken = (before[0] + 1, before[1]) if at == 0 else (before[0], before[1] + 1)

        def put_back() -> None:
            self.taken = before
            if self.look is None:
                self._items.insert(0 if at == 0 else len(self._items), item)

        return put_back


class TupleValue(Value):
    """A tuple, or an instance of a tuple's subclass that adds no state: named tuples, torch.Size, torch.return_types."""

    __slots__ = ("cls", "items")

    def __init__(self, items: tuple[Value, ...], cls: type = tuple, source: Source | None = None) -> None:
        self.items, self.cls, self.source = items, cls, source

    @property
    def python_type(self) -> type:
        return self.cls


def items_once(row: ListValue | TupleValue) -> Sequence[Value]:
    """What it holds, be it how often it may: nobody looks into what is repeated by a number that varies."""
    product = row.product if isinstance(row, ListValue) else None
    return row.items if product is None else product[0]


class DictValue(MutableValue):
    """A dict, OrderedDict or defaultdict: `items` maps hash keys (see `protocols.hashing`) to key and value.

    `original` is what it held when it came from outside; `instance` is the object of a subclass that holds this. `gone` are the keys
    that were taken out, some of which may be there again: behind the others, where an iterator finds them. None: it was cleared.
    """

    __slots__ = ("cls", "default_factory", "gone", "instance", "items", "original")

    def __init__(
        self, items: dict[Any, tuple[Value, Value]], cls: type = dict, source: Source | None = None, object: Any = None
    ) -> None:
        super().__init__(source, object)
        self.items, self.cls, self.default_factory, self.original = items, cls, NONE, items
        self.instance: InstanceValue | None = None
        self.gone: frozenset[Any] | None = frozenset()

    @property
    def python_type(self) -> type:
        return self.cls


class InstanceDictionaryValue(DictValue):
    """`owner.__dict__`: a view of the owner's attributes, as they are at each look.

    `before` is the dictionary as it came from outside. Writing goes through the owner (`items.set_in_instance`).
    """

    __slots__ = ("before", "owner")

    def __init__(self, owner: InstanceValue | FunctionValue, before: DictValue | None) -> None:
        MutableValue.__init__(self)
        self.owner, self.before = owner, before
        self.cls, self.default_factory, self.original, self.instance, self.gone = dict, NONE, {}, None, frozenset()

    @property
    def items(self) -> dict[Any, tuple[Value, Value]]:
        held = dict(self.before.items) if self.before is not None else {}
        moved = self.owner.moved if isinstance(self.owner, InstanceValue) else ()
        for name, item in self.owner.attributes.items():
            if item is DELETED or name in moved:
                held.pop(name, None)
            if item is not DELETED and not is_kept_apart(self.owner.python_type, name):
                held[name] = (ConstantValue(name), item)
        return held


def is_kept_apart(cls: type, name: str) -> bool:
    """Whether instances keep the attribute in a slot of the class, not in their dictionary."""
    entry = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return hasattr(type(entry), "__set__")


class SetValue(MutableValue):
    """`recipe` says how it came to be, if that is known: of a set of Python's made alike the order can be asked. `done` are the changes
    of one from outside, which are made to it in the end; None where what one was given is not known. `is_by_position` where items from
    outside are read where they lie in it, so that their order is that of this set."""

    __slots__ = ("cls", "done", "is_by_position", "items", "recipe")

    def __init__(
        self,
        items: dict[Any, Value],
        cls: type = set,
        source: Source | None = None,
        object: Any = None,
        recipe: SetRecipe | None = None,
    ) -> None:
        super().__init__(source, object)
        self.items, self.cls, self.recipe = items, cls, recipe
        self.done: tuple[Change, ...] | None = ()
        self.is_by_position = False

    def told_order(self) -> list[Any] | None:
        """The keys in the order in which Python gives them, where that is known."""
        return told(self.recipe, self.items)

    @property
    def python_type(self) -> type:
        return self.cls


class SliceValue(Value):
    __slots__ = ("parts",)
    python_type = slice

    def __init__(self, parts: tuple[Value, Value, Value]) -> None:
        self.parts, self.source = parts, None


class DictViewValue(Value):
    """`d.keys()`, `d.values()`, `d.items()`: `kind` is that word."""

    __slots__ = ("dictionary", "kind")

    def __init__(self, dictionary: DictValue, kind: str) -> None:
        self.dictionary, self.kind, self.source = dictionary, kind, None

    @property
    def python_type(self) -> type:
        like = collections.OrderedDict() if issubclass(self.dictionary.cls, collections.OrderedDict) else {}
        return type(getattr(like, self.kind)())

    def elements(self) -> list[Value]:
        return [self.element(key) for key in self.dictionary.items]

    def element(self, key: Any) -> Value:
        pair = self.dictionary.items[key]
        if self.kind == "items":
            return TupleValue(pair)
        return pair[0] if self.kind == "keys" else pair[1]


TUPLE_ITERATOR = type(iter(()))


REVERSED_LIST, REVERSED_DEQUE = type(reversed([])), type(reversed(collections.deque()))


class IteratorValue(MutableValue):
    """An iterator over values known in advance, or over a list that may still grow; `position` items were taken.

    `owner` is the dict, set, view or deque that gave the items: it must keep its `keys`, while values may become others (`held` is what
    it held them in, or how often a deque was rearranged); or the list that is gone through from its end, which may change as it likes.
    `iterable` is another object that gives the same items. `cls` is the iterator's class in the program.
    """

    __slots__ = ("cls", "held", "items", "iterable", "keys", "owner", "position")

    def __init__(
        self,
        items: list[Value] | tuple[Value, ...] | ListValue,
        owner: DictValue | SetValue | DictViewValue | ListValue | None = None,
        cls: type = TUPLE_ITERATOR,
        iterable: ConstantValue | None = None,
    ) -> None:
        super().__init__()
        self.items, self.position, self.owner, self.cls, self.iterable = items, 0, owner, cls, iterable
        self.held = None if owner is None else owner.rearranged if isinstance(owner, ListValue) else self.owner_items()
        self.keys = () if owner is None else tuple(self.owner_items())

    @property
    def python_type(self) -> type:
        return self.cls

    def owner_items(self) -> dict[Any, Any] | list[Value]:
        return (self.owner.dictionary if isinstance(self.owner, DictViewValue) else self.owner).items

    def has_other_keys(self) -> bool:
        """Whether keys came or went since the iterator was made, the same ones again too: where it stands among those that are
        there now, CPython alone knows. What keeps them is made anew when one goes, but for the attributes of an object."""
        if self.owner is None:
            return False
        items = self.owner_items()
        if self.cls is REVERSED_LIST:
            return self.index_in_list() >= len(items)  # where nothing is: one made anew would begin at the end
        if len(items) != len(self.keys):
            return True
        if isinstance(self.owner, ListValue):
            return self.owner.rearranged != self.held
        return items is not self.held and (not self.is_of_attributes() or tuple(items) != self.keys)

    def index_in_list(self) -> int:
        """Where one that goes through a list from its end stands."""
        return len(self.keys) - 1 - self.position

    def is_of_attributes(self) -> bool:
        owner = self.owner.dictionary if isinstance(self.owner, DictViewValue) else self.owner
        return isinstance(owner, InstanceDictionaryValue)

    def item(self) -> Value:
        """What comes next, as it is now."""
        if isinstance(self.owner, DictViewValue):
            return self.owner.element(self.keys[self.position])
        return self.remaining_source()[self.position]

    def remaining_source(self) -> list[Value] | tuple[Value, ...]:
        if self.cls is REVERSED_LIST and self.owner is not None:
            given = tuple(self.owner_items())[: len(self.keys)]
            return () if self.has_other_keys() else (*self.keys[len(given) :], *given[::-1])
        items = self.items.items if isinstance(self.items, ListValue) else self.items
        return items[::-1] if self.cls is REVERSED_DEQUE and self.owner is not None else items


class CountValue(MutableValue):
    """`itertools.count`."""

    __slots__ = ("next", "step")

    def __init__(self, next: Any, step: Any) -> None:
        super().__init__()
        self.next, self.step = next, step

    @property
    def python_type(self) -> type:
        import itertools

        return itertools.count


class ZipValue(MutableValue):
    """`zip`, and `enumerate` as the zip of a count: the parts are iterators of any kind. `started` is the count at first."""

    __slots__ = ("cls", "parts", "started", "strict")

    def __init__(self, parts: tuple[Value, ...], cls: type = zip, strict: bool = False) -> None:
        super().__init__()
        self.parts, self.cls, self.strict = parts, cls, strict
        self.started = parts[1].next if cls is enumerate else 0

    @property
    def python_type(self) -> type:
        return self.cls


class TurnValue(MutableValue):
    """An iterator that an earlier break left alive, of which one turn is followed: `items` holds what it gives next, or nothing at its
    end; `asked` says how often the program asked."""

    __slots__ = ("asked", "items")

    def __init__(self, items: tuple[Value, ...], source: Source, object: Any) -> None:
        super().__init__(source, object)
        self.items, self.asked = items, 0

    @property
    def python_type(self) -> type:
        return type(self.object)


class GeneratorValue(MutableValue):
    """A generator made inside: its frame, suspended. `cls` is its class in the program: `map`, where it stands for a map.

    `given` is what its slots held when it was made, `taken` how many items it gave; `quiet` says that it did nothing else.
    `handled` is the exception in whose handler it waits.
    """

    __slots__ = ("cls", "finished", "frame", "given", "handled", "quiet", "started", "taken")

    def __init__(self, frame: Frame, cls: type = GeneratorType) -> None:
        super().__init__()
        self.frame, self.cls, self.started, self.finished = frame, cls, False, False
        self.given, self.taken, self.quiet = dict(frame.slots), 0, True
        self.handled: Value = NONE

    @property
    def python_type(self) -> type:
        return self.cls


class CellValue(MutableValue):
    """A closure cell. `content` is None while unbound."""

    __slots__ = ("content", "name")
    python_type = CellType

    def __init__(self, content: Value | None, name: str, source: Source | None = None, object: Any = None) -> None:
        super().__init__(source, object)
        self.content, self.name = content, name


class GradientValue(MutableValue):
    """What the program put into `tensor.grad`."""

    __slots__ = ("content", "tensor")
    python_type = type(None)

    def __init__(self, tensor: TensorValue) -> None:
        super().__init__(tensor.source)
        self.tensor, self.content = tensor, NONE


class DataValue(MutableValue):
    """What the program put into `tensor.data`."""

    __slots__ = ("content", "tensor")
    python_type = torch.Tensor

    def __init__(self, tensor: TensorValue) -> None:
        super().__init__(tensor.source)
        self.tensor: TensorValue = tensor
        self.content: Value = tensor


class FunctionValue(MutableValue):
    """A Python function. `object` is the real one for functions from outside; others are made by the program."""

    __slots__ = ("attributes", "closure", "code", "defaults", "globals", "keyword_defaults", "name")
    python_type = FunctionType

    def __init__(
        self, code: CodeType, globals: dict, name: str, source: Source | None = None, object: Any = None
    ) -> None:
        super().__init__(source, object)
        self.code, self.globals, self.name = code, globals, name
        self.closure: tuple[CellValue, ...] = ()
        self.defaults: tuple[Value, ...] = ()
        self.keyword_defaults: dict[str, Value] = {}
        self.attributes: dict[str, Value] = {}


BOUND_IN_C = {MethodDescriptorType: BuiltinMethodType, WrapperDescriptorType: MethodWrapperType}


class MethodValue(Value):
    """A function bound to an object: Python's method, or a C method of a builtin class."""

    __slots__ = ("function", "instance")

    def __init__(self, function: Value, instance: Value) -> None:
        self.function, self.instance, self.source = function, instance, None

    @property
    def python_type(self) -> type:
        """What a class in C describes is bound by a type of its own."""
        return BOUND_IN_C.get(type(getattr(self.function, "value", None)), MethodType)


class AddressValue(Value):
    """What `id(x)` gives where it differs from call to call: it finds `x` in a dict, and nothing else is known of it."""

    __slots__ = ("of",)
    source = None
    python_type = int

    def __init__(self, of: Value) -> None:
        self.of = of


class WeakReferenceValue(Value):
    """`weakref.ref(of, callback)`, made inside."""

    __slots__ = ("callback", "of")
    python_type = weakref.ReferenceType

    def __init__(self, of: Value, callback: Value = NONE) -> None:
        self.of, self.callback, self.source = of, callback, None


class DescriptorValue(Value):
    """A `staticmethod`, `classmethod` or `property` that the program made, of these functions (None where a property has none)."""

    __slots__ = ("cls", "parts")

    def __init__(self, cls: type, parts: tuple[Value, ...]) -> None:
        self.cls, self.parts, self.source = cls, parts, None

    @property
    def python_type(self) -> type:
        return self.cls


class InstanceValue(MutableValue):
    """An object with a `__dict__` or slots. `attributes` holds what the program wrote (DELETED where it deleted).

    For objects from outside, names missing in `attributes` are read from `object`, and those in `moved` were deleted there before they
    were written, so that they come last. `arguments` are an exception's args;
    `contents` is what an instance of a subclass of dict, list or tuple holds as one (see `protocols.contents`), `tensor` the plain
    tensor that one of a subclass of Tensor is.
    """

    __slots__ = ("arguments", "attributes", "cls", "contents", "moved", "tensor")

    def __init__(self, cls: type, source: Source | None = None, object: Any = None) -> None:
        super().__init__(source, object)
        self.cls = cls
        self.attributes: dict[str, Value] = {}
        self.moved: frozenset[str] = frozenset()
        self.arguments: tuple[Value, ...] = ()
        self.contents: DictValue | ListValue | TupleValue | None = None
        self.tensor: TensorValue | None = None

    @property
    def python_type(self) -> type:
        return self.cls


def own_dictionary(value: InstanceValue) -> dict[str, Any] | None:
    if value.object is None or hides_its_dictionary(type(value.object)):
        return None
    try:
        return object.__getattribute__(value.object, "__dict__")
    except AttributeError:
        return None


def hides_its_dictionary(cls: type) -> bool:
    """Whether `__dict__` is something else than what its instances hold (a proxy's: a property that gives the dictionary of another)."""
    entry = next((base.__dict__["__dict__"] for base in cls.__mro__ if "__dict__" in base.__dict__), None)
    return entry is not None and type(entry) not in (GetSetDescriptorType, MemberDescriptorType)


DELETED = NullValue()


class TracebackValue(Value):
    """The traceback of an exception that was raised inside. `entries` are the places that it came through, outermost first, each with the
    name of its module. It is not read inside: where it is kept, compiled code makes one that says the same (`tracebacks.rebuilt`)."""

    __slots__ = ("entries",)
    source = None
    python_type = TracebackType

    def __init__(self, entries: tuple[tuple[UserFrame, str | None], ...]) -> None:
        self.entries = entries


class InferenceModeValue(Value):
    """What `torch.inference_mode` holds while it is entered, made inside. `settings` are calls that put torch into the state in which
    it is entered, where it still is when the graph ends."""

    __slots__ = ("settings",)
    source = None
    python_type = torch._C._InferenceMode

    def __init__(self) -> None:
        self.settings: tuple = ()


class SuperValue(Value):
    """`super(cls, instance)`."""

    __slots__ = ("cls", "instance")
    python_type = super

    def __init__(self, cls: type, instance: Value) -> None:
        self.cls, self.instance, self.source = cls, instance, None


class PartialValue(Value):
    """`functools.partial` made inside or read from outside (`object`). Its keywords are a dictionary that the program can write to."""

    __slots__ = ("dictionary", "function", "given", "object")

    def __init__(self, function: Value, arguments: tuple[Value, ...], keywords: dict[str, Value]) -> None:
        self.function, self.given, self.source = function, TupleValue(arguments), None
        self.dictionary = DictValue({key: (ConstantValue(key), item) for key, item in keywords.items()})
        self.object: Any = None

    @staticmethod
    def from_outside(object: Any, source: Any, function: Value, given: TupleValue, dictionary: DictValue) -> PartialValue:
        value = PartialValue(function, (), {})
        value.object, value.source, value.given, value.dictionary = object, source, given, dictionary
        return value

    @property
    def arguments(self) -> tuple[Value, ...]:
        return tuple(self.given.items)

    @property
    def keywords(self) -> dict[str, Value]:
        return {key: item for key, (_, item) in self.dictionary.items.items()}

    @property
    def python_type(self) -> type:
        import functools

        return functools.partial


class CompilationValue(Value):
    """What `torch.compile(target)` gives inside. A call means `target`; of which class it is, its maker knows."""

    __slots__ = ("function", "keywords", "target")

    def __init__(self, function: Value, target: Value, keywords: dict[str, Value]) -> None:
        self.function, self.target, self.keywords, self.source = function, target, keywords, None

    @property
    def python_type(self) -> type:
        raise Break(ForeignValue("compiled function", "type"))


@dataclass(frozen=True, slots=True)
class NotConstant:
    """Answer of `constant_of` for a value that holds something not known: `value` is that part."""

    value: Value


def with_numbers(value: Value, number: Callable[[SymbolicNumber], Any]) -> Any:
    """What a text, or a value that texts are made of, is where each number that varies is what `number` says."""
    if isinstance(value, SymbolicNumber):
        return number(value)
    if isinstance(value, TextValue):
        return value.function(*(with_numbers(part, number) for part in value.parts))
    if isinstance(value, DictValue):
        return {constant_of(name): with_numbers(item, number) for name, item in value.items.values()}
    if isinstance(value, (ListValue, TupleValue)):
        items = [with_numbers(item, number) for item in value.items]
        return items if isinstance(value, ListValue) else make_tuple(value.cls, items)
    return constant_of(value)


def constant_of(value: Value) -> Any:
    """The real object that an all-constant value stands for, or `NotConstant`. Fresh containers at each call."""
    if isinstance(value, UNSEEN):
        value = value.realize()
    if isinstance(value, ConstantValue):
        return value.value
    if isinstance(value, TupleValue) and has_own_text(value.cls):
        return NotConstant(value)
    if isinstance(value, (TupleValue, ListValue)):
        items = [constant_of(item) for item in items_once(value)]  # tensors are repeated, and nothing else
        for item in items:
            if type(item) is NotConstant:
                return item
        return items if isinstance(value, ListValue) else make_tuple(value.cls, items)
    if isinstance(value, SliceValue):
        parts = [constant_of(part) for part in value.parts]
        return next((part for part in parts if type(part) is NotConstant), None) or slice(*parts)
    if isinstance(value, DictValue) and value.cls is dict:
        pairs = [(constant_of(key), constant_of(item)) for key, item in value.items.values()]
        return next((part for pair in pairs for part in pair if type(part) is NotConstant), None) or dict(pairs)
    if isinstance(value, SetValue):
        items = [constant_of(item) for item in value.items.values()]
        unknown = next((item for item in items if type(item) is NotConstant), None)
        if unknown is None and value.told_order() is not None:
            return value.recipe.made()
        return unknown or value.cls(items)
    return NotConstant(value)


@functools.lru_cache(maxsize=1024)
def has_own_text(cls: type) -> bool:
    """Whether the class of a tuple says in Python what its text is (`collections.namedtuple`'s own way aside)."""
    entries = (vars(base).get(name) for base in cls.__mro__ for name in ("__repr__", "__str__", "__format__"))
    return any(isinstance(entry, FunctionType) and entry.__module__ != "collections" for entry in entries)


def make_tuple(cls: type, items: list[Any]) -> tuple:
    """An instance of a tuple class from its items, without running the class's own code."""
    return cls(items) if makes_itself(cls) else tuple.__new__(cls, items)


def makes_itself(cls: type) -> bool:
    """Classes of tuples in C take the items themselves; those in Python have a `__new__` of their own, which is not run."""
    return not cls.__flags__ & HEAP_TYPE or cls.__module__ == "torch.return_types"


HEAP_TYPE = 1 << 9
