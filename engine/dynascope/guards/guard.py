"""What a compiled entry assumed: predicates over places, each with its meaning in Python and its words in English.

    Guard((LocalSource("x"),), TypeIs(int), span)
    guard.describe()          "`x` is an int"
    guard.failure(values)     "`x` is a str, and was an int"; None where the guard holds

`holds` is the reference: the C check (guards/check.py) gives the same answers, faster.
"""

from __future__ import annotations

import collections
import math
import sys
import types
import weakref
from collections.abc import Collection
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.guards.iterators import contained, goes_over, iterators_within
from dynascope.guards.source import FrameValues, Source
from dynascope.report.span import Span, UserStack


class Predicate:
    """A frozen dataclass. `check` completes "`x` ..."; `failure` is a sentence about the expression's value now."""

    __slots__ = ()

    def holds(self, *values: Any) -> bool:
        raise NotImplementedError

    def check(self) -> str:
        raise NotImplementedError

    def failure(self, expression: str, *values: Any) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Guard:
    """A predicate over sources, and the place in the user's code that made it necessary."""

    sources: tuple[Source, ...]
    predicate: Predicate
    span: Span | None = None
    stack: UserStack = ()

    @property
    def name(self) -> str:
        """This and the next two are what torch's guards have, for a `guard_export_fn` that was written for those."""
        return ", ".join(source.expression() for source in self.sources)

    @property
    def guard_types(self) -> list[str]:
        return [type(self.predicate).__name__]

    @property
    def code_list(self) -> list[str]:
        return [self.describe()]

    def expression(self) -> str:
        return " and ".join(f"`{source.expression()}`" for source in self.sources)

    def describe(self) -> str:
        return f"{self.expression()} {self.predicate.check()}".strip()

    def holds(self, values: FrameValues) -> bool:
        """False also where a place does not exist any more, or where looking raises."""
        try:
            return bool(self.predicate.holds(*[source.read(values) for source in self.sources]))
        except Exception:
            return False

    def failure(self, values: FrameValues) -> str | None:
        """What is different now, as a sentence; None where the guard holds."""
        found = []
        for source in self.sources:
            try:
                found.append(source.read(values))
            except Exception as error:
                return f"`{source.expression()}` cannot be read any more ({type(error).__name__}: {error})"
        if self.holds(values):
            return None
        try:
            return self.predicate.failure(self.expression(), *found)
        except Exception:
            return f"{self.describe()} no longer"


@dataclass(frozen=True)
class TypeIs(Predicate):
    """Exactly this type, no subclass."""

    type: type

    def holds(self, value: Any) -> bool:
        return type(value) is self.type

    def check(self) -> str:
        return f"is {with_article(self.type.__name__)}"

    def failure(self, expression: str, value: Any) -> str:
        now, before = type(value).__name__, self.type.__name__
        if now == before:
            return f"{expression} is of another class named {now} than the first time"
        return f"{expression} is {with_article(now)}, and was {with_article(before)}"


@dataclass(frozen=True)
class IdentityIs(Predicate):
    """This very object. It is held weakly where Python allows, so that a guard keeps nothing of the user's alive."""

    target: Any

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "target", weakref.ref(self.target))
        except TypeError:
            # None, numbers, strings and the like are held strongly: they are small.
            object.__setattr__(self, "target", _Strong(self.target))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdentityIs) and self.target() is other.target() and self.target() is not None

    def __hash__(self) -> int:
        return id(self.target())

    def holds(self, value: Any) -> bool:
        return self.target() is value and (value is not None or isinstance(self.target, _Strong))

    def check(self) -> str:
        return f"is {describe_object(self.target())}" if self.target() is not None else "is the same object"

    def failure(self, expression: str, value: Any) -> str:
        return f"{expression} is {describe_object(value)}: a different object than the first time"


@dataclass(frozen=True)
class SubclassesAre(Predicate):
    """`cls.__subclasses__()` gives these classes, which the guard does not keep."""

    classes: tuple[IdentityIs, ...]

    @classmethod
    def of(cls, owner: type) -> SubclassesAre:
        return cls(tuple(map(IdentityIs, type.__subclasses__(owner))))

    def holds(self, value: Any) -> bool:
        found = type.__subclasses__(value)
        return len(found) == len(self.classes) and all(
            each.holds(now) for each, now in zip(self.classes, found, strict=True)
        )

    def check(self) -> str:
        return f"has {len(self.classes)} subclasses"

    def failure(self, expression: str, value: Any) -> str:
        names = ", ".join(each.__name__ for each in type.__subclasses__(value))
        return f"the subclasses of {expression} are {names or 'none'} now"


@dataclass(frozen=True)
class CountsAs(Predicate):
    """What an abstract class says of a class, or of an object: classes are registered, and protocols look at attributes."""

    answer: bool
    of_instances: bool

    def holds(self, place: Any, asked: type) -> bool:
        return (isinstance(place, asked) if self.of_instances else issubclass(place, asked)) is self.answer

    def check(self) -> str:
        return self._says(self.answer)

    def failure(self, expression: str, place: Any, asked: type) -> str:
        return f"{expression} {self._says(not self.answer)} now"

    def _says(self, answer: bool) -> str:
        what, kind = ("an object", "an instance") if self.of_instances else ("a class", "a subclass")
        return f"are {what} and a class that it {'counts' if answer else 'does not count'} as {kind} of"


class _Strong:
    """Called like a weak reference; holds its object."""

    __slots__ = ("target",)

    def __init__(self, target: Any):
        self.target = target

    def __call__(self) -> Any:
        return self.target


@dataclass(frozen=True)
class Equals(Predicate):
    """Equal to a constant and of the same type, inside containers too; 0.0 is not -0.0, and NaN is NaN."""

    value: Any

    def __hash__(self) -> int:
        return hash(repr(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equals) and constants_equal(self.value, other.value)

    def holds(self, value: Any) -> bool:
        return constants_equal(value, self.value)

    def check(self) -> str:
        return f"is {short_repr(self.value)}"

    def failure(self, expression: str, value: Any) -> str:
        if type(value) is not type(self.value):
            return f"{expression} is {typed_repr(value)}, and was {typed_repr(self.value)}"
        return f"{expression} is {short_repr(value)}, and was {short_repr(self.value)}"


@dataclass(frozen=True)
class TruthIs(Predicate):
    """`bool(value)`: all that a branch needed to know."""

    truth: bool

    def holds(self, value: Any) -> bool:
        return bool(value) is self.truth

    def check(self) -> str:
        return "is true" if self.truth else "is false"

    def failure(self, expression: str, value: Any) -> str:
        return f"{expression} is {'false' if self.truth else 'true'} now ({short_repr(value)})"


@dataclass(frozen=True)
class LengthIs(Predicate):
    """`len(value)`; of a subclass of tuple how many items it holds."""

    length: int

    def holds(self, value: Any) -> bool:
        return (tuple.__len__(value) if is_a(value, tuple) else len(value)) == self.length

    def check(self) -> str:
        return f"has {self.items(self.length)}"

    def failure(self, expression: str, value: Any) -> str:
        return f"{expression} has {self.items(len(value))}, and had {self.length}"

    @staticmethod
    def items(number: int) -> str:
        return "1 item" if number == 1 else f"{number} items"


@dataclass(frozen=True)
class DictionaryKeysAre(Predicate):
    """A dict with these keys in this order."""

    keys: tuple

    def holds(self, value: Any) -> bool:
        # An OrderedDict has an order of its own, which `move_to_end` changes.
        kind = collections.OrderedDict if is_a(value, collections.OrderedDict) else dict
        return is_a(value, dict) and constants_equal(tuple(kind.keys(value)), self.keys)

    def check(self) -> str:
        return f"has the keys {short_repr(list(self.keys))}" if self.keys else "is an empty dict"

    def failure(self, expression: str, value: Any) -> str:
        now = list(dict.keys(value)) if is_a(value, dict) else []
        new, gone = map(short_repr, _besides(self.keys, now)), map(short_repr, _besides(now, self.keys))
        changes = [f"{what}: {_folded(keys)}" for what, keys in (("new", list(new)), ("gone", list(gone))) if keys]
        return f"{expression} has other keys ({'; '.join(changes) or 'their order changed'})"


@dataclass(frozen=True)
class ItemsComeAs(Predicate):
    """A set that gives these items in this order."""

    items: tuple

    def holds(self, value: Any) -> bool:
        return is_a(value, (set, frozenset)) and constants_equal(tuple(value), self.items)

    def check(self) -> str:
        return f"gives its items as {short_repr(list(self.items))}"

    def failure(self, expression: str, value: Any) -> str:
        return f"{expression} gives its items in another order"


def _besides(known: Collection[Any], keys: Collection[Any]) -> list[Any]:
    """Which of the keys are not among the known. Those of different types are others: to compare them might run the program's own code."""
    texts = {key for key in known if type(key) is str}
    rest = [key for key in known if type(key) is not str]
    return [key for key in keys if (key not in texts if type(key) is str else not any(constants_equal(key, each) for each in rest))]


KEYS_SHOWN = 4


def _folded(keys: list[str]) -> str:
    """`'step', 'lr'`; `20 Parameters`; of many the first."""
    counted = [_counted(key, times) for key, times in collections.Counter(keys).items()]
    rest = len(counted) - KEYS_SHOWN
    return ", ".join(counted) if rest <= 1 else f"{', '.join(counted[:KEYS_SHOWN])} and {rest} more"


def _counted(key: str, times: int) -> str:
    if times == 1:
        return key
    article, _, noun = key.partition(" ")
    return f"{times} {noun}s" if article in ("a", "an") and noun.isidentifier() else f"{key} ({times} times)"


@dataclass(frozen=True)
class HasNoKey(Predicate):
    """A dict without this key."""

    key: Any

    def holds(self, value: Any) -> bool:
        return is_a(value, dict) and not dict.__contains__(value, self.key)

    def check(self) -> str:
        return f"has no key {short_repr(self.key)}"

    def failure(self, expression: str, value: Any) -> str:
        return f"{expression} has the key {short_repr(self.key)} now"


@dataclass(frozen=True)
class IsThere(Predicate):
    """The place exists, whatever it holds."""

    def holds(self, value: Any) -> bool:
        return True

    def check(self) -> str:
        return "is there"

    def failure(self, expression: str, value: Any) -> str:
        return f"{expression} is gone"


@dataclass(frozen=True)
class HasNoAttribute(Predicate):
    """`hasattr(value, name)` is false."""

    name: str

    def holds(self, value: Any) -> bool:
        return not hasattr(value, self.name)

    def check(self) -> str:
        return f"has no attribute `{self.name}`"

    def failure(self, expression: str, value: Any) -> str:
        return f"{expression} has an attribute `{self.name}` now"


@dataclass(frozen=True)
class IsSameObject(Predicate):
    """Two places hold one object."""

    def holds(self, first: Any, second: Any) -> bool:
        return first is second

    def check(self) -> str:
        return "are the same object"

    def failure(self, expression: str, *values: Any) -> str:
        return f"{expression} are different objects, and were the same one"


@dataclass(frozen=True)
class NotSameObject(Predicate):
    """Two places hold different objects."""

    def holds(self, first: Any, second: Any) -> bool:
        return first is not second

    def check(self) -> str:
        return "are different objects"

    def failure(self, expression: str, *values: Any) -> str:
        return f"{expression} are the same object, and were different ones"


@dataclass(frozen=True)
class NoneIsAnother(Predicate):
    """As many objects as places."""

    def holds(self, *values: Any) -> bool:
        return len({*map(id, values)}) == len(values)

    def check(self) -> str:
        return "are different objects"

    def failure(self, expression: str, *values: Any) -> str:
        return f"two of {expression} are the same object, and all were different ones"


@dataclass(frozen=True)
class TakeFromOthers(Predicate):
    """Iterators of which none takes its items from another one, or from where another one does."""

    def holds(self, *iterators: Any) -> bool:
        within = [id(part) for iterator in iterators for part in iterators_within(iterator)]
        return len(set(within)) == len(within)

    def check(self) -> str:
        return "take their items from different iterators"

    def failure(self, expression: str, *values: Any) -> str:
        return f"{expression} take their items from one iterator now"


@dataclass(frozen=True)
class GoesOverOthers(Predicate):
    """An iterator that does not go over what another place holds."""

    def holds(self, iterator: Any, written: Any) -> bool:
        return not goes_over(iterator, contained(written))

    def check(self) -> str:
        return "are an iterator and something else than it goes over"

    def failure(self, expression: str, *values: Any) -> str:
        return f"{expression} are an iterator and what it goes over"


MODULE_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


@dataclass(frozen=True)
class ModuleHasNoHooks(Predicate):
    """An nn.Module whose call runs nothing but its forward."""

    def holds(self, value: Any) -> bool:
        own = object.__getattribute__(value, "__dict__")
        return all(dict.__len__(own[name]) == 0 for name in MODULE_HOOKS)

    def check(self) -> str:
        return "has no hooks"

    def failure(self, expression: str, value: Any) -> str:
        named = [name.strip("_").replace("_", " ") for name in MODULE_HOOKS if vars(value).get(name)]
        return f"{expression} has {' and '.join(named)} now, and had no hooks"


def constants_equal(left: Any, right: Any) -> bool:
    """Whether one can stand for the other in compiled code."""
    if left is right:
        return True
    if type(left) is not type(right) or isinstance(left, bool):
        return False
    if isinstance(left, float):
        return (left == right and math.copysign(1, left) == math.copysign(1, right)) or (
            left != left and right != right
        )
    if isinstance(left, complex):
        return constants_equal(left.real, right.real) and constants_equal(left.imag, right.imag)
    if type(left) in (tuple, list):
        return len(left) == len(right) and all(map(constants_equal, left, right))
    if type(left) is dict:
        return constants_equal(list(left.items()), list(right.items()))
    if type(left) in (set, frozenset):
        others = {item: item for item in right}
        return len(left) == len(right) and all(item in others and constants_equal(item, others[item]) for item in left)
    if type(left) is slice:
        return constants_equal((left.start, left.stop, left.step), (right.start, right.stop, right.step))
    return bool(left == right)


def with_article(name: str) -> str:
    """As it is read aloud: an ndarray."""
    return f"an {name}" if name[:1].lower() in "aeiou" or name.startswith("nd") else f"a {name}"


def short_repr(value: Any) -> str:
    """As Python shows it, cut short; objects that show their address, tensors, and what only the program's code shows are named by what
    they are."""
    if hasattr(type(value), "__torch_function__") or not _is_shown_by_python(value):
        return with_article(type(value).__name__)
    text = f"[{', '.join(map(short_repr, value))}]" if type(value) is list else repr(value)
    if " at 0x" in text and type(value) not in (str, bytes):  # what the text of an object says is the user's
        return describe_object(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _is_shown_by_python(value: Any) -> bool:
    """Whether `repr` runs nothing of the program's, which may do anything and knows of no guard."""
    if type(value) is tuple or type(value) in (set, frozenset):
        return all(map(_is_shown_by_python, value))
    if type(value) is dict:
        return all(map(_is_shown_by_python, (*value, *value.values())))
    owner = next(base for base in type(value).__mro__ if "__repr__" in vars(base))
    return not owner.__flags__ & _MADE_BY_A_PROGRAM or owner.__module__.partition(".")[0] in sys.stdlib_module_names


_MADE_BY_A_PROGRAM = 1 << 9
"""CPython's flag of classes that live on the heap: those of Python code, and a few of its own in C."""


def typed_repr(value: Any) -> str:
    """A plain value with its type, as 1 and 1.0 are told apart by it; of others the type alone: a tensor's text costs a copy."""
    if value is None:
        return "None"
    if is_a(value, (bool, int, float, complex, str, bytes)):
        return f"{short_repr(value)} ({type(value).__name__})"
    return with_article(type(value).__name__)


def describe_object(value: Any) -> str:
    """A name a user knows the object by; never its address."""
    if is_a(value, type):
        return f"the class {value.__qualname__}"
    if is_a(value, types.ModuleType):
        return f"the module {value.__name__}"
    if is_a(value, types.CodeType):
        return f"the code of {value.co_qualname}"
    if callable(value) and not is_of_the_program(type(value)) and hasattr(value, "__qualname__"):
        return f"the function {value.__qualname__}"
    if value is None or is_a(value, (bool, int, float, str, bytes)):
        return short_repr(value)
    return with_article(type(value).__name__)


def is_of_the_program(kind: type) -> bool:
    """Whether looking for an attribute may run code of the program's."""
    own = type.__getattribute__(kind, "__mro__")
    return any(isinstance(vars(each).get(name), types.FunctionType) for each in own for name in ("__getattribute__", "__getattr__"))


def is_a(value: Any, kind: type | tuple[type, ...]) -> bool:
    """`isinstance`, which asks the object itself for its class where its type says no."""
    return issubclass(type(value), kind)
