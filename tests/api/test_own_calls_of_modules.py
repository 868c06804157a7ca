"""A module whose class says itself what a call does: the compiled module does that, not `forward` alone."""

import dynascope
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
