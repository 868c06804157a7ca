"""Special methods written as anything that a class may hold: each operation of the language, for each such kind, beside Python.

What it is asked with (the object, the class or neither) is what goes wrong, so every method tells how many arguments it got.
"""

import functools
import itertools
import operator

import pytest
import torch
from harness import compiled
from test_outside_protocols import assert_same

X = torch.arange(4.0)
TOLD = []
ANSWERS = {
    "__bool__": False, "__len__": 3, "__contains__": True, "__hash__": 5, "__repr__": "R", "__str__": "S", "__format__": "F",
    "__int__": 7, "__float__": 2.5, "__index__": 2, "__lt__": True, "__eq__": False, "__exit__": True,
}  # fmt: skip


def answer(name, *arguments):
    TOLD.append((name, [given for given in arguments if type(given) in (int, str)], len(arguments)))
    if name in ("__iter__", "__reversed__"):
        return iter([1, 2])
    return ANSWERS.get(name, (name, len(arguments)))


class Callable:
    def __init__(self, name):
        self.name = name

    def __call__(self, *arguments):
        return answer(self.name, *arguments)


class Descriptor(Callable):
    __call__ = None

    def __get__(self, instance, owner=None):
        TOLD.append(instance is None)
        return Callable(self.name)


def plain(name):
    return lambda *arguments: answer(name, *arguments)


KINDS = {
    "function": plain,
    "static method": lambda name: staticmethod(plain(name)),
    "class method": lambda name: classmethod(plain(name)),
    "object": Callable,
    "bound method": lambda name: Callable(name).__call__,
    "descriptor": Descriptor,
    "property": lambda name: property(lambda self: Callable(name)),
    "partial": lambda name: functools.partial(answer, name),
    "none": lambda name: None,
}


def set_item(made):
    made[1] = 2


def delete_item(made):
    del made[1]


def set_attribute(made):
    made.first = 3


def delete_attribute(made):
    del made.first


def add_in_place(made):
    made += 1
    return made


def enter(made):
    with made as entered:
        return entered


def leave(made):
    with made:
        raise KeyError(3)


OPERATIONS = {
    "__call__": lambda made: made(1, 2),
    "__call__ by map": lambda made: list(map(made, [1, 2])),
    "__getitem__": lambda made: made[1],
    "__setitem__": set_item,
    "__delitem__": delete_item,
    "__contains__": lambda made: (1 in made, 1 not in made),
    "__iter__": lambda made: ([*made], sum(made)),
    "__next__": lambda made: next(made),
    "__reversed__": lambda made: list(reversed(made)),
    "__len__": lambda made: (len(made), bool(made)),
    "__bool__": lambda made: (bool(made), not made, 1 if made else 2, made and 3, any([made])),
    "__neg__": lambda made: -made,
    "__abs__": lambda made: abs(made),
    "__add__": lambda made: made + 1,
    "__radd__": lambda made: 1 + made,
    "__iadd__": add_in_place,
    "__matmul__": lambda made: made @ 2,
    "__divmod__": lambda made: divmod(made, 2),
    "__rpow__": lambda made: 2**made,
    "__or__": lambda made: made | 1,
    "__eq__": lambda made: (made == 1, 1 == made),  # noqa: SIM300 (the other side is asked)
    "__ne__": lambda made: made != 1,
    "__lt__": lambda made: (made < 1, 1 > made, min(made, made) is made),  # noqa: SIM300
    "__hash__": lambda made: hash(made),
    "__hash__ as a key": lambda made: {made: 1}[made],
    "__repr__": lambda made: f"{made!r}",
    "__str__": lambda made: (str(made), f"{made}"),
    "__format__": lambda made: (f"{made:>3}", format(made, "a")),
    "__int__": lambda made: int(made),
    "__float__": lambda made: float(made),
    "__index__": lambda made: ([1, 2, 3][made], operator.index(made)),
    "__round__": lambda made: (round(made), round(made, 1)),
    "__getattr__": lambda made: (made.other, getattr(made, "third", 3)),
    "__setattr__": set_attribute,
    "__delattr__": delete_attribute,
    "__enter__": enter,
    "__exit__": leave,
    "__torch_function__": lambda made: torch.add(X, made),
    "__torch_function__ with keywords": lambda made: torch.add(X, made, alpha=2),
}

OF_INT, OF_DICT = type("OfInt", (int,), {}), type("OfDict", (dict,), {})
BASES = [(), (), (), (OF_DICT,), (ValueError,), (OF_INT,)]


def cases():
    turn = itertools.cycle(range(len(BASES)))
    for operation, kind in itertools.product(OPERATIONS, KINDS):
        bases = BASES[next(turn)]
        if kind == "descriptor" and "torch_function" in operation:
            continue  # torch itself asks for it twice, for the call and for the class
        yield pytest.param(operation, kind, bases, id=f"{operation}, {kind}{', ' + bases[0].__name__ if bases else ''}")


def told_by(function, made):
    TOLD.clear()
    try:
        result = function(X, made)
    except Exception as error:
        result = type(error), str(error)
    return result, list(TOLD)


@pytest.mark.may_break
@pytest.mark.filterwarnings("ignore:Defining your `__torch_function__` as a plain method")
@pytest.mark.parametrize("operation, kind, bases", cases())
def test_it_is_asked_as_python_asks(operation, kind, bases):
    name = operation.partition(" ")[0]
    cls = type("Made", bases, {"__enter__": lambda self: self, "__exit__": lambda self, *error: None, name: KINDS[kind](name)})
    made, operate = cls.__new__(cls), OPERATIONS[operation]

    def run(x, made):
        y = x + 1
        return y, operate(made)

    (expected, told), (result, told_compiled) = told_by(run, made), told_by(compiled(run), made)
    assert_same(result, expected)
    assert told_compiled == told
