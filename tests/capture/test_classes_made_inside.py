"""Class statements inside what is compiled: followed by Python's protocol, and left to Python where the class stays alive."""

import abc
import dataclasses
import sys

import dynascope
import pytest
import torch
from test_outside_protocols import assert_same
from torch import nn

X = torch.linspace(-1, 1, 6).view(2, 3)
SEEN = []


class Base:
    def __init_subclass__(cls, tag=1, **keywords):
        super().__init_subclass__(**keywords)
        cls.tag = tag

    def doubled(self, x):
        return x * 2

    @classmethod
    def named(cls):
        return cls.__name__


class Listed:
    def __init_subclass__(cls):
        SEEN.append(cls)


def methods_and_names(x, k=3):
    class Pair:
        """Words."""

        scale: int = 2
        kept = x + k
        pairs = [(k, scale)]

        def __init__(self, a):
            self.a = a

        def __add__(self, other):
            return type(self)(self.a + other.a)

        @staticmethod
        def shifted(y):
            return y + k

        @classmethod
        def of_ones(cls):
            return cls(torch.ones(2, 3))

        @property
        def twice(self):
            return self.a * self.scale

        @twice.setter
        def twice(self, value):
            self.a = value / 2

        def __len__(self):
            return 7

        def __getattr__(self, name):
            if name == "late":
                return self.a.cos()
            raise AttributeError(name)

    pair = Pair(x) + Pair.of_ones()
    pair.twice = pair.twice + pair.kept
    Pair.scale = 5
    assert isinstance(pair, Pair) and not isinstance(x, Pair) and issubclass(Pair, object)
    named = (Pair.__name__, Pair.__qualname__, Pair.__doc__, Pair.__module__, len(pair), bool(pair), hasattr(pair, "none"))
    return Pair.shifted(pair.twice) + pair.late * Pair.pairs[0][0], named


def inherited(x):
    class First(Base, tag=4):
        def doubled(self, x):
            return super().doubled(x) + self.tag

    class Second(First):
        def doubled(self, x):
            return super().doubled(x) * self.tag

    second = Second()
    return second.doubled(x), First.tag, Second.tag, Second.named(), [each.__name__ for each in Second.__mro__]


def of_abstract_ones(x):
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        __slots__ = ("side",)

        def __init__(self, side):
            self.side = side

        def area(self):
            return self.side * self.side

    return Square(x).area(), isinstance(Square(1), Shape)


def masked(x):
    return torch.masked.sum(x, 1, mask=x > 0), torch.masked.mean(x, mask=x < 0), torch.masked.softmax(x, 1, mask=x > -0.5)


def own_gradient(x):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3

    return Doubled.apply(x).sin()


def descriptors(x):
    class Scaled:
        def __get__(self, instance, owner=None):
            return instance.x * 2

    class Holder:
        scaled = Scaled()

        def __init__(self, x):
            self.x = x

    return Holder(x).scaled + 1


@pytest.mark.parametrize(
    "function", [methods_and_names, inherited, of_abstract_ones, masked, own_gradient], ids=lambda function: function.__name__
)
def test_a_class_that_nobody_keeps_is_part_of_the_graph(function):
    def trained(call):
        x = X.clone().requires_grad_()
        result = call(x)
        tensors, others = (result, ()) if isinstance(result, torch.Tensor) else (result[0], result[1:])
        tensors.sum().backward()
        return tensors.detach(), x.grad, others

    call = dynascope.compile(function, fullgraph=True)
    for _ in range(2):
        assert_same(trained(function), trained(call))


@pytest.mark.may_break
def test_descriptors_that_are_made_inside():
    torch.testing.assert_close(dynascope.compile(descriptors)(X), descriptors(X))


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="annotations are evaluated by a function of the class's")
def test_data_classes():
    def function(x):
        @dataclasses.dataclass(order=True)
        class Point:
            x: torch.Tensor
            scale: int = 3

            def moved(self):
                return dataclasses.replace(self, x=self.x + 1)

        point = Point(x).moved()
        return point.x * point.scale, [field.name for field in dataclasses.fields(Point)]

    assert_same(function(X), dynascope.compile(function, fullgraph=True)(X))


@pytest.mark.expects("unrebuildable-value")
def test_each_call_makes_a_class_of_its_own():
    def function(x):
        y = x.sin() * 2

        class Kept:
            scale = 2

            def scaled(self):
                return y * self.scale

        return Kept

    call = dynascope.compile(function)
    one, other = call(X), call(X)
    assert one is not other and one.__qualname__ == function(X).__qualname__
    torch.testing.assert_close(one().scaled(), X.sin() * 4)


@pytest.mark.expects("unrebuildable-value")
def test_an_object_of_a_class_made_inside_comes_out():
    def function(x):
        class Kept(nn.Module):
            def forward(self, x):
                return x * 2

        return Kept(), x + 1

    with dynascope.expected("foreign-call", "foreign-value", "unsupported-attribute", required=False):
        module, y = dynascope.compile(function)(X)
    assert type(module).__name__ == "Kept" and not isinstance(module, type(function(X)[0]))
    torch.testing.assert_close((module(X), y), (X * 2, X + 1))


@pytest.mark.may_break
def test_a_class_that_its_base_writes_down():
    def function(x):
        class Written(Listed):
            pass

        return x + 1

    torch.testing.assert_close(dynascope.compile(function)(X), X + 1)
    assert [each.__name__ for each in SEEN] == ["Written"]
    SEEN.clear()


@pytest.mark.may_break
def test_a_metaclass_of_the_programs():
    made = []

    class Meta(type):
        def __new__(cls, name, bases, names):
            made.append(name)
            return super().__new__(cls, name, bases, names)

    def function(x):
        class Written(metaclass=Meta):
            scale = 3

        return x * Written.scale

    torch.testing.assert_close(dynascope.compile(function)(X), X * 3)
    assert made == ["Written"]


def test_what_a_base_has_is_assumed():
    def function(x):
        class Inner(Base):
            pass

        return Inner().doubled(x)

    call = dynascope.compile(function, fullgraph=True)
    torch.testing.assert_close(call(X), X * 2)
    before, Base.doubled = Base.doubled, lambda self, x: x * 5
    try:
        torch.testing.assert_close(call(X), X * 5)
    finally:
        Base.doubled = before


@pytest.mark.may_break
@pytest.mark.parametrize("parts", [(range(3), 2.5, ()), ("A", 2.5, ()), ("A", None, {}), ("A", [int], {})])
def test_which_part_of_a_class_is_refused_first(parts):
    def words(x):
        try:
            type(*parts)
        except TypeError as error:
            return x + 1, error.args

    assert dynascope.compile(words, backend="eager")(X)[1] == words(X)[1]


@pytest.mark.expects("unrebuildable-value")
def test_a_break_before_a_class_that_hears_of_its_subclasses():
    """What goes on after the break is handed the variable `Base`, which is empty so far."""

    def program(x, n):
        class Base:
            seen = []

            def __init_subclass__(cls):
                Base.seen.append(cls.__name__)

        class Kid(Base):
            scale = n

        return x + 1, vars(Kid)["scale"], Base.seen

    assert repr(dynascope.compile(program, backend="eager")(torch.ones(2), 3)) == repr(program(torch.ones(2), 3))
