"""`__subclasshook__` of an installed abstract class is asked as Python asks it, of the program's own class it is the program's code."""

import abc
import types

import dynascope
import torch
from dynascope import compile
from harness import graphs_of

X = torch.tensor([1.0, -2.0, 3.0])
SOURCE = """
class Movable(ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return callable(getattr(other, "to", None)) if cls is Movable else NotImplemented
"""


def made_by(file):
    space = {"ABC": abc.ABC, "__name__": "movers"}
    exec(__import__("builtins").compile(SOURCE, file, "exec"), space)
    return space["Movable"]


class Batch:
    def to(self, device):
        return self


def program(batch, x, Movable):
    answers = isinstance(x, Movable), isinstance(batch, Movable), isinstance(1, Movable), issubclass(dict, Movable)
    return x * sum(answers), answers


def test_of_an_installed_package():
    movable = made_by("/somewhere/site-packages/movers.py")
    compiled, made = graphs_of(program, fullgraph=True)
    for batch in (Batch(), types.SimpleNamespace(), Batch()):
        assert repr(compiled(batch, X, movable)) == repr(program(batch, X, movable))
    assert made


def test_of_the_program():
    movable = made_by("/home/somebody/movers.py")
    with dynascope.expected("foreign-value"):
        assert repr(compile(program)(Batch(), X, movable)) == repr(program(Batch(), X, movable))


def test_addresses_of_what_there_is_once():
    compiled, made = graphs_of(lambda x, name: (x + 1, {id(None): 1, id(True): 2, id(name): 3}), fullgraph=True)
    assert compiled(X, "name")[1] == {id(None): 1, id(True): 2, id("name"): 3}
    assert len(made) == 1
