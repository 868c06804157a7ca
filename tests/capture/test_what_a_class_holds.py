"""`A.__dict__`, and classes made by `type(name, bases, namespace)`."""

import dynascope
import torch
from dynascope import compile
from harness import graphs_of

X = torch.ones(3)


class Layer:
    width = 3
    tag = "layer"

    def scale(self):
        return 2


def test_items_of_a_class():
    def f(x):
        numbers = [item for name, item in vars(Layer).items() if type(item) is int]
        return x * numbers[0] + ("scale" in Layer.__dict__) + Layer.__dict__["width"]

    compiled, made = graphs_of(f, fullgraph=True)
    assert torch.equal(compiled(X), f(X)) and torch.equal(compiled(X), f(X)) and len(made) == 1


def test_it_is_asked_at_each_call():
    class Settings:
        step = 2

    compiled = compile(lambda x: x * sum(item for name, item in Settings.__dict__.items() if name.endswith("step")), fullgraph=True)
    assert compiled(X).tolist() == [2, 2, 2]
    Settings.step = 3
    assert compiled(X).tolist() == [3, 3, 3]
    Settings.other_step = 4
    assert compiled(X).tolist() == [7, 7, 7]


def test_a_class_that_is_written_to_after_it_was_looked_into():
    class Settings:
        step = 2

    def f(x):
        held = Settings.__dict__
        before = held["step"]
        Settings.step = before + 1
        return x * held["step"]

    compiled = compile(f)
    with dynascope.expected("unsupported-attribute"):
        assert compiled(X).tolist() == [3, 3, 3]
        assert compiled(X).tolist() == [4, 4, 4]


def test_a_class_of_three_parts():
    def f(x):
        made = type("Wide", (Layer,), {"width": 5, "twice": lambda self: 2 * self.width})
        return x * made().twice() + made().scale() + len(made.__name__) + (made.__module__ == __name__)

    compiled, graphs = graphs_of(f, fullgraph=True)
    assert torch.equal(compiled(X), f(X)) and len(graphs) == 1


def test_a_class_that_hears_of_it():
    heard = []

    class Base:
        def __init_subclass__(cls, tag=0):
            heard.append((cls.__name__, tag))

    def f(x):
        type("Heard", (Base,), {}, tag=3)
        return x + 1

    compiled = compile(f, fullgraph=True)
    compiled(X), compiled(X)
    assert heard == [("Heard", 3)] * 2
