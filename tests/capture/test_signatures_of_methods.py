"""`inspect.signature` of methods and of objects that are called by one: made inside and from outside, and of methods in C."""

import inspect

import dynascope
import torch


class Scaled:
    def __init__(self, by):
        self.by = by

    def __call__(self, x, scores):
        return scores / self.by


class Weighed(Scaled):
    def __call__(self, x, scores, weight=2):
        return scores * self.by * weight

    @classmethod
    def of_class(cls, first, second=1):
        return first

    @staticmethod
    def of_none(first, second, third):
        return first


class Steps(list):
    """As transformers' processors of logits, which `generate` makes."""

    def __call__(self, x, scores, **others):
        for step in self:
            told = inspect.signature(step.__call__).parameters
            scores = step(x, scores, **others) if len(told) > 2 else step(x, scores)
        return scores


def of_objects_made_inside(x):
    steps = Steps()
    steps.append(Scaled(2.0))
    steps.append(Weighed(3.0))
    kept = inspect.signature(steps[1].__call__)
    return steps(x, x, weight=5), kept, list(kept.parameters)


def of_classes(x):
    made = Weighed(1.0)
    return x, [len(inspect.signature(each).parameters) for each in (made.of_class, made.of_none, Weighed.of_class, Weighed.__call__)]


ROWS, NAMES = [1], {"a": 2}


def of_methods_in_c(x):
    return x, [str(inspect.signature(each)) for each in (ROWS.append, NAMES.get, "a".join)]


NET, WEIGHED = torch.nn.Linear(2, 2), Weighed(3.0)


def of_objects_that_are_called(x):
    return x, [str(inspect.signature(each)) for each in (NET, WEIGHED, Scaled(2.0))]


def test_they_are_python_s():
    for program in (of_objects_made_inside, of_classes, of_methods_in_c, of_objects_that_are_called):
        compiled = dynascope.compile(program, backend="eager", fullgraph=True)
        for x in (torch.arange(3.0), torch.ones(3)):
            (found, *others), (expected, *told) = compiled(x), program(x)
            assert torch.equal(found, expected) and others == told


def test_an_object_that_says_another_signature():
    called = Weighed(1.0)
    compiled = dynascope.compile(lambda x: (x, list(inspect.signature(called).parameters)), backend="eager")
    assert compiled(torch.ones(1))[1] == ["x", "scores", "weight"]
    called.__signature__ = inspect.Signature()
    with dynascope.expected("foreign-call"):
        assert compiled(torch.ones(1))[1] == []
    del called.__signature__
    called.__class__ = Scaled
    assert compiled(torch.ones(1))[1] == ["x", "scores"]
