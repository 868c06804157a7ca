"""A module whose class says itself what a call does: the compiled module does that, not `forward` alone."""

import dynascope
import pytest
import torch


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.calls = 0

    def __call__(self, x, *, offset=1):
        self.calls += 1
        return {"result": super().__call__(x) + offset, "calls": self.calls}

    def forward(self, x):
        return x * self.scale


def test_its_own_call_runs_with_the_hooks_inside():
    def calls(module, run):
        yield run(torch.ones(2))
        yield run(torch.ones(2), offset=3)
        handle = module.register_forward_hook(lambda module, given, result: result * 10)
        yield run(torch.ones(2))
        handle.remove()
        yield run(torch.ones(2))

    plain, original = Counting(), Counting()
    expected = list(calls(plain, plain))
    found = list(calls(original, dynascope.compile(original)))
    assert [each["calls"] for each in found] == [each["calls"] for each in expected] == [1, 2, 3, 4]
    assert all(torch.equal(one["result"], other["result"]) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", ["__call__", "_call_impl", "forward"])
def test_one_that_the_class_gets_later(name):
    def calls(module, run):
        cls = type(module)
        yield run(torch.ones(2))
        said = cls.__dict__.get(name)
        setattr(cls, name, lambda self, x: getattr(Late, name)(self, x) * 10)
        yield run(torch.ones(2))
        handle = module.register_forward_hook(lambda module, given, result: result + 1)
        yield run(torch.ones(2))
        handle.remove()
        delattr(cls, name) if said is None else setattr(cls, name, said)
        yield run(torch.ones(2))

    class Late(torch.nn.Module):
        def forward(self, x):
            return x * 3

    class Plain(Late):
        pass

    class Other(Late):
        pass

    expected, original = list(calls(plain := Plain(), plain)), Other()
    found = list(calls(original, dynascope.compile(original)))
    assert [each.tolist() for each in found] == [each.tolist() for each in expected]


def test_gradients_come_through_it():
    module = Counting()
    dynascope.compile(module)(torch.ones(2))["result"].sum().backward()
    assert torch.equal(module.scale.grad, torch.ones(2))


def test_a_forward_that_is_kept_out_runs_as_written_and_its_parts_are_compiled():
    captured = []

    def backend(graph, example_inputs):
        captured.append(graph)
        return graph.forward

    class Net(torch.nn.Module):
        @dynascope.compile(backend=backend)
        def part(self, x):
            return x.sin()

        @dynascope.disable(recursive=False)
        def forward(self, x):
            return self.part(x) + int(x.sum())

    model = dynascope.compile(Net(), backend=backend)
    assert torch.equal(model(torch.ones(3)), torch.ones(3).sin() + 3)
    assert len(captured) == 1
