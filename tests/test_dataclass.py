"""Our dataclasses do what the standard library's do, and write `__init__` when the first object is made."""

import copy
import dataclasses
import pickle
from typing import ClassVar

import pytest
from dynascope.dataclass import KEPT_HASH, dataclass
from hypothesis import given, settings
from hypothesis import strategies as st

DECORATORS = {"standard": dataclasses.dataclass, "ours": dataclass}
OPTIONS = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"eq": False},
    {"frozen": True, "eq": False, "slots": True},
    {"frozen": True, "order": True},
    {"repr": False},
]


def point(decorator, options):
    """Fields of every kind that the engine has."""

    @decorator(**options)
    class Point:
        count: ClassVar[int] = 0
        x: object
        y: object = 3
        hidden: object = dataclasses.field(default=4, repr=False)
        beside: object = dataclasses.field(default=5, compare=False)
        made: list = dataclasses.field(default_factory=list, hash=False)

        def total(self):
            return (self.x, self.y)

    return Point


def seen(compute):
    """The result, or the error, where the names of the two classes do not differ."""
    try:
        return compute()
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@settings(deadline=None, max_examples=30)
@given(first=st.lists(st.integers(0, 2), max_size=6), second=st.lists(st.integers(0, 2), min_size=1, max_size=4))
def test_as_the_standard_library(options, first, second):
    found = {}
    for name, decorator in DECORATORS.items():
        cls = point(decorator, options)
        if isinstance(made := seen(lambda cls=cls: cls(*first)), tuple):
            found[name] = [made]
            continue
        other = cls(*second)
        found[name] = [
            seen(lambda a=made: repr(a) if options.get("repr", True) else None),
            seen(lambda a=made, b=other: a == b),
            seen(lambda a=made, b=other: a < b),
            seen(lambda a=made: hash(a) if options.get("eq", True) else None),
            seen(lambda a=made: setattr(a, "x", 9)),
            seen(lambda a=made: delattr(a, "y")),
            # With both, some versions of the standard library ask a class that is gone.
            None if options.get("frozen") and options.get("slots") else seen(lambda a=made: setattr(a, "unknown", 9)),
            seen(lambda a=made: dataclasses.asdict(dataclasses.replace(a, x=1, y=1))),
            seen(lambda a=made: [(f.name, getattr(copy.copy(a), f.name)) for f in dataclasses.fields(a) if f.name != "y"]),
            hasattr(made, "__dict__"),
            cls.__match_args__,
            cls.count,
        ]
    assert found["ours"] == found["standard"]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_keywords_and_wrong_arguments(options):
    messages = {}
    for name, decorator in DECORATORS.items():
        cls = point(decorator, options)
        calls = [lambda c=cls: c(), lambda c=cls: c(1, 2, 3, 4, 5, 6), lambda c=cls: c(1, z=2), lambda c=cls: c(1, x=2)]
        messages[name] = [seen(call) for call in calls]
        assert cls(y=1, x=2).total() == (2, 1)
        assert cls(1).made is not cls(1).made
    assert messages["ours"] == messages["standard"] and all(isinstance(each, tuple) for each in messages["ours"])


@dataclass(frozen=True)
class Base:
    x: int
    ready: bool = dataclasses.field(default=False, init=False)

    def __post_init__(self):
        object.__setattr__(self, "ready", True)


@dataclass(frozen=True, slots=True)
class Kept:
    x: int
    parts: tuple = ()


@dataclass(frozen=True)
class Derived(Base):
    z: int = 2

    def __hash__(self):
        return 7

    def __repr__(self):
        return "mine"


def test_bases_and_own_methods():
    made = Derived(1)
    assert (made.x, made.z, made.ready, hash(made), repr(made)) == (1, 2, True, 7, "mine")
    assert made == Derived(1) and made != Derived(1, 3) and Base(1) != made and {Base(1): "found"}[Base(1)] == "found"
    match made:
        case Derived(x, z):
            assert (x, z) == (1, 2)


def test_copies_and_pickles():
    for made in (Kept(1, (Base(2),)), Derived(4)):
        assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == copy.copy(made) == made


class Tree:
    __slots__ = (KEPT_HASH,)


@dataclass(frozen=True, slots=True)
class Branch(Tree):
    base: object
    name: str


def test_hashes_of_trees_are_computed_once():
    class Counted:
        asked = 0

        def __hash__(self):
            Counted.asked += 1
            return 7

    leaf = Counted()
    tree = Branch(Branch(leaf, "weight"), "data")
    assert {tree: 1}[tree] == 1 and hash(tree) == hash(Branch(Branch(leaf, "weight"), "data"))
    assert Counted.asked == 2  # once for each inner branch
    plain = Branch("self", "data")
    assert hash(dataclasses.replace(plain, name="grad")) == hash(Branch("self", "grad")) != hash(plain)
    assert hash(copy.copy(plain)) == hash(plain) == hash(pickle.loads(pickle.dumps(plain)))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Branch([], "x"))


def test_a_text_that_holds_itself():
    @dataclass
    class Node:
        parent: object = None

    node = Node()
    node.parent = node
    assert repr(node).endswith("Node(parent=...)")


def test_the_first_call_writes_the_method():
    @dataclass(frozen=True)
    class Seldom:
        x: int

    before = vars(Seldom)["__init__"].__code__.co_varnames
    Seldom(1)
    assert (before[0], vars(Seldom)["__init__"].__code__.co_varnames) == ("self", ("self", "x"))
    assert vars(Seldom)["__init__"].__qualname__.endswith("Seldom.__init__")


def test_what_is_not_served_is_refused():
    with pytest.raises(TypeError, match="Odd.x: neither keyword-only fields nor InitVar"):

        @dataclass
        class Odd:
            x: int = dataclasses.field(kw_only=True)
