"""What a module does that does not know torch is left to Python as a whole where it breaks: a progress bar, an environment."""

import types

import dynascope
import pytest
import torch
from dynascope import recording
from harness import graphs_of

X = torch.tensor([1.0, -2.0, 3.0])
SOURCE = """
import time

class Bar:
    def __init__(self):
        self.count, self.said = 0, []

    def update(self, amount=1, **told):
        self.count += amount
        for _ in range(amount):
            self.show(told)

    def show(self, told):
        self.at = time.ctime()
        text = ", ".join(f"{name} {value:.3f}" for name, value in told.items())
        self.at = time.ctime()
        self.said.append(text)

    def twice(self, function, x):
        time.ctime()
        return function(function(x))

    def doubled(self, x):
        y = x * 2
        time.ctime()
        return y

    def remembered(self):
        self.at = time.ctime()
        return self.computed()
"""


def make_bar():
    module = types.ModuleType("bars_of_progress")
    exec(compile(SOURCE, "bars_of_progress.py", "exec"), vars(module))
    return module.Bar()


def outcome(program, *arguments):
    """The answer of three calls, graphs and breaks."""
    recorder = recording.Recorder()
    before = recording.use(recorder)
    compiled = dynascope.compile(program, backend="eager")
    try:
        with dynascope.expected("foreign-call"):
            answers = [compiled(*arguments) for _ in range(3)]
    finally:
        recording.use(before)
    report = recorder.report()
    breaks = [entry.reason for function in report.functions for entry in function.entries if entry.reason is not None]
    return answers, len(report.graphs), breaks


def test_it_is_one_break_at_its_call():
    bar, eagers = make_bar(), make_bar()

    def program(x, bar, loss):
        y = x + 1
        bar.update(2, loss=loss)
        return y * 2

    for loss in (0.5, 0.25, 0.125):
        program(X, eagers, loss)
    recorder = recording.Recorder()
    before = recording.use(recorder)
    compiled = dynascope.compile(program, backend="eager")
    try:
        with dynascope.expected("foreign-call"):
            for loss in (0.5, 0.25, 0.125):
                assert torch.equal(compiled(X, bar, loss), (X + 1) * 2)
    finally:
        recording.use(before)
    entries = [entry for function in recorder.report().functions for entry in function.entries]
    assert len(entries) == 2 and sum(entry.reason is not None for entry in entries) == 1  # what was assumed inside is not
    assert (bar.count, bar.said) == (eagers.count, eagers.said)


def test_what_computes_is_compiled_on():
    bar = make_bar()
    answers, graphs, breaks = outcome(lambda x: bar.doubled(x + 1) * 3, X)
    assert all(torch.equal(answer, (X + 1) * 6) for answer in answers)
    assert graphs == 2 and len(breaks) == 1


def test_a_function_that_is_handed_over_is_compiled():
    bar = make_bar()
    answers, graphs, breaks = outcome(lambda x: bar.twice(lambda y: y + 1, x) * 3, X)
    assert all(torch.equal(answer, (X + 2) * 3) for answer in answers)
    assert graphs == 2 and len(breaks) == 1


@pytest.mark.parametrize("is_made_inside", [True, False])
def test_an_object_that_holds_tensors_may_compute(is_made_inside):
    """A decorator of a library's that remembers what lazy objects computed knows nothing of torch."""
    bar = type(make_bar())

    class Lazy(bar):
        def __init__(self, x):
            super().__init__()
            self.x = x

        def computed(self):
            return self.x * 2

    outside = Lazy(X)
    answers, graphs, breaks = outcome(lambda x: (Lazy(x) if is_made_inside else outside).remembered() * 3, X)
    assert all(torch.equal(answer, X * 6) for answer in answers)
    assert graphs == 2 and len(breaks) == 1


def test_without_a_break_it_is_part_of_the_graph():
    module = types.ModuleType("numbers_of_programs")
    exec("def scale(n):\n    return n * 2", vars(module))
    compiled, made = graphs_of(lambda x: x * module.scale(x.shape[0]), fullgraph=True)
    assert torch.equal(compiled(X), X * 6) and len(made) == 1
