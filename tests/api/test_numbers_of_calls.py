"""Numbers that functions without effects make of numbers that vary (NumPy's, `math`'s, `statistics`): one graph serves them all."""

import collections
import math
import statistics
import warnings

import dynascope
import numpy as np
import pytest
import torch
from kept_graphs import kept_in

history = collections.deque([0.5, 1.5, 2.5, 3.5], maxlen=4)


def mean_of_history(x, n):
    history.append(float(n))
    return x * statistics.mean(history)


class Holder:
    rate = 0.0


def held(x, n):
    Holder.rate = np.sqrt(n)
    return x * Holder.rate


PROGRAMS = {
    "clip": lambda x, n: x * np.clip(n, 2.5, 6.5),
    "exp": lambda x, n: x * np.exp(-n),
    "power": lambda x, n: x * np.power(0.9, n),
    "mean": lambda x, n: x * np.mean([n, 2 * n, 3.0]),
    "std by keyword": lambda x, n: x * np.std([n, 2 * n, 3.0], ddof=1),
    "sum of a tuple": lambda x, n: x * np.sum((n, 2.0)),
    "largest": lambda x, n: x * np.max([n, 4.5]),
    "cosine": lambda x, n: x * 0.5 * (1 + np.cos(np.pi * n / 12)),
    "computed further": lambda x, n: x * (np.sqrt(n) * 2 + 1) / np.exp(n / 12),
    "as a float": lambda x, n: x * float(np.sqrt(n)),
    "as a size": lambda x, n: x[: int(np.ceil(n / 2))] * 2,
    "on the left": lambda x, n: np.sqrt(n) - x,
    "exponent": lambda x, n: x ** np.sqrt(n),
    "single precision": lambda x, n: x.double() * np.float32(n / 3),
    "integers": lambda x, n: x.int() * np.sqrt(n),
    "returned": lambda x, n: (x * 2, np.sqrt(n), [np.exp(-n), -np.sqrt(n)], np.sqrt(2.0) * n),
    "type asked": lambda x, n: (x * 2, isinstance(np.sqrt(n), float), type(np.sqrt(n)) is float),
    "of statistics": lambda x, n: x * (statistics.mean([n, 2.0, 3.0]) + statistics.stdev([n, 5.0, 3.0]) + statistics.median([n, 2.0, 7.0])),
    "of a deque": mean_of_history,
    "fsum": lambda x, n: x * math.fsum([n, 0.1, 0.2]),
    "product": lambda x, n: x * math.prod([n, 0.1, 0.2]),
    "distance": lambda x, n: x * math.dist([n, 0.1], [0.2, 0.3]),
    "several results": lambda x, n: (x * math.frexp(n)[0], math.modf(n / 3), divmod(n, 2.5)),
    "largest of a list": lambda x, n: x * max([float(n), 5.0, 3.0]),
    "least of several": lambda x, n: x * min(float(n), 5.0, 3.0, 2.5),
    "in order": lambda x, n: x * sorted([float(n), 5.0, 3.0])[1],
    "interpolated": lambda x, n: x * np.interp(n, [0, 6, 12], [0.0, 1.0, 0.0]),
    "polynomial": lambda x, n: x * np.polyval([1.0, 2.0, 3.0], n),
    "median of NumPy's": lambda x, n: x * np.median([n, 1.0, 5.0]),
    "percentile": lambda x, n: x * np.percentile([1.0, 5.0, 9.0], n),
    "weighted": lambda x, n: x * np.average([n, 2.0], weights=[1.0, n]),
    "norm": lambda x, n: x * np.linalg.norm([n, 2.0]),
    "method of a number": lambda x, n: x * (np.sqrt(n).item() + np.sqrt(n).clip(1, 2)),
    "bits": lambda x, n: x * int(n).bit_length(),
    "tensors of its kind": lambda x, n: (torch.tensor([np.sqrt(n), 2.0]), torch.as_tensor(np.sqrt(n)), torch.full((2,), np.sqrt(n))),
    "ldexp": lambda x, n: x * math.ldexp(n, 2),
    "kept outside": held,
    "floats with no end": lambda x, n: x * (n * math.inf),
    "power of a number below zero": lambda x, n: (x * (-n) ** 2.0, (-n) ** 2.0),
}


ARRAYS = {
    "one of some": lambda x, n: x * np.linspace(0.0, n, 5)[2],
    "running sum": lambda x, n: x * np.cumsum([n, 2.0, 3.5])[1],
    "array": lambda x, n: x * np.array([n, 4.5]).mean(),
    "of its length": lambda x, n: x * len(np.arange(0.0, n)),
}


def outcomes(function, numbers):
    history.extend([0.5, 1.5, 2.5, 3.5])
    found = []
    for n in numbers:
        made = function(torch.arange(24.0) / 10, n)
        found.append((made, Holder.rate))
    return found


def is_same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        facts = [(each.dtype, each.shape, each.stride()) for each in (ours, theirs)]
        return facts[0] == facts[1] and torch.allclose(ours, theirs, equal_nan=True)
    if isinstance(theirs, (tuple, list)):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(is_same, ours, theirs))
    return type(ours) is type(theirs) and (ours == theirs or (ours != ours and theirs != theirs))


@pytest.mark.parametrize("numbers", [range(1, 9), [n + 0.25 for n in range(1, 9)]], ids=["integers", "floats"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_two_graphs_for_all_values(name, numbers):
    made = []
    compiled = dynascope.compile(PROGRAMS[name], backend=kept_in(made))
    assert is_same(outcomes(compiled, numbers), outcomes(PROGRAMS[name], numbers))
    assert 0 < len(made) <= 2


@pytest.mark.may_break
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_numbers_that_vary(name):
    made = []
    compiled = dynascope.compile(ARRAYS[name], backend=kept_in(made))
    assert is_same(outcomes(compiled, [1.25, 2.25, 3.25, 3.5, 4.25]), outcomes(ARRAYS[name], [1.25, 2.25, 3.25, 3.5, 4.25]))
    assert 0 < len(made) <= (5 if name == "of its length" else 3)


OF_SIZES = {
    "product": lambda x: (x * 2).view(math.prod(x.shape[:2]), -1) / math.prod(x.shape),
    "product from a number": lambda x: x * math.prod(x.shape, start=2),
    "product of what a generator gives": lambda x: x * math.prod(size + 1 for size in x.shape),
    "product of what an iterator gives": lambda x: x * math.prod(iter([*x.shape, 2])),
    "sum": lambda x: x * math.fsum(x.size()) * math.fsum(map(float, x.shape)),
    "mean": lambda x: x * statistics.fmean(x.shape),
    "root of NumPy's": lambda x: x / np.linalg.norm(x.shape),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_all_sizes_of_a_tensor_at_once(name):
    made = []
    compiled = dynascope.compile(OF_SIZES[name], backend=kept_in(made))
    for size in (4, 5, 7, 10):
        x = torch.arange(size * 6.0).view(size, 2, 3)
        assert is_same(compiled(x), OF_SIZES[name](x))
    assert len(made) == 2


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["computed further", "as a size", "returned", "of statistics", "several results", "single precision"])
def test_in_kernels(name):
    numbers = [1.25, 2.5, 0.75, 6.5, 5.0]
    compiled = dynascope.compile(PROGRAMS[name])
    assert is_same(outcomes(compiled, numbers), outcomes(PROGRAMS[name], numbers))


@pytest.mark.compiler
def test_gradients():
    def program(x, n):
        return (x ** np.clip(n, 1.5, 3.5) * np.exp(-n)).sum()

    compiled = dynascope.compile(program)
    for n in (1.0, 2.5, 3.0, 4.0):
        found = []
        for function in (compiled, program):
            x = torch.linspace(0.5, 2, 8).requires_grad_()
            function(x, n).backward()
            found.append(x.grad)
        torch.testing.assert_close(*found)


@pytest.mark.compiler
@pytest.mark.parametrize("first", ["max", "min"])
def test_the_larger_of_two_types_has_the_type_of_that_one(first):
    choose = {"max": max, "min": min}[first]

    def program(x, n):
        chosen = choose(n, 2.5)
        return x * 2 if isinstance(chosen, int) else x * 3

    compiled = dynascope.compile(program)
    for n in (2, 3, 4, 1, 2, 7):
        assert torch.equal(compiled(torch.ones(3), n), program(torch.ones(3), n)), n


@pytest.mark.compiler
@pytest.mark.may_break
def test_what_numpy_warns_of_is_said_at_the_line_of_the_program():
    """A number for which it warns is left to Python, whichever number the graph was made for."""

    def program(x, n):
        return x * np.log(n)

    compiled = dynascope.compile(program)
    for n in (2.5, 3.5, 0.0, 4.5, -1.0):
        said = []
        for function in (compiled, program):
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                made = function(torch.ones(3), n)
            said.append((made, [(str(each.message), each.filename) for each in given if each.category is RuntimeWarning]))
        torch.testing.assert_close(said[0][0], said[1][0], equal_nan=True)
        assert said[0][1] == said[1][1], n


def test_a_result_of_another_length_is_left_to_python():
    def program(x, n, m):
        return x * sum(math.modf(n)) if m else x

    def quantiles(x, n, count):
        return x * len(statistics.quantiles([n, 2.0, 5.0], n=count))

    for function, calls in ((program, [(1.5, 1), (2.5, 1), (2.5, 0)]), (quantiles, [(1.5, 4), (2.5, 4), (2.5, 5), (3.5, 6), (1.5, 2)])):
        compiled = dynascope.compile(function, backend="eager")
        for arguments in calls:
            torch.testing.assert_close(compiled(torch.ones(3), *arguments), function(torch.ones(3), *arguments))


def test_answers_that_are_no_numbers_decide():
    made = []

    def program(x, n):
        if math.isclose(n, 3.25) or float(n).is_integer():
            return x * 2
        return x - n

    compiled = dynascope.compile(program, backend=kept_in(made))
    for n in (1.25, 2.25, 3.25, 4.25, 5.25, 2.0, 6.0, 7.25):
        assert torch.equal(compiled(torch.ones(3), n), program(torch.ones(3), n)), n
    assert len(made) <= 4


@pytest.mark.parametrize("logarithm", [math.log, np.log])
def test_a_branch_on_what_has_no_value_is_left_to_python(logarithm):
    def program(x, n):
        return x * 2 if logarithm(n) > 1 else x

    compiled = dynascope.compile(program, backend="eager")
    for n in (3.0, 2.0, 4.0, 0.0, 5.0, -1.0):
        outcomes_of_both = []
        for function in (compiled, program):
            with warnings.catch_warnings(), dynascope.expected("program-raises", "foreign-call", required=False):
                warnings.simplefilter("ignore")
                try:
                    outcomes_of_both.append(function(torch.ones(2), n).tolist())
                except ValueError as error:
                    outcomes_of_both.append(str(error))
        assert outcomes_of_both[0] == outcomes_of_both[1], n


@pytest.mark.may_break
def test_functions_that_a_program_makes_are_called_by_the_program():
    """`numpy.frompyfunc` makes what looks like NumPy's own."""
    called = []
    noting = np.frompyfunc(lambda n: called.append(n) or n * 2.0, 1, 1)

    def program(x, n):
        return x * float(noting(n))

    compiled = dynascope.compile(program, backend="eager")
    for n in (1.5, 2.5, 3.5, 4.5):
        assert torch.equal(compiled(torch.ones(3), n), torch.ones(3) * n * 2)
    assert called == [1.5, 2.5, 3.5, 4.5]


def test_tensors_of_numbers_that_numpy_makes_have_their_type():
    def program(x):
        return x + 1, torch.tensor([np.float64(1.5), 2.0]), torch.as_tensor(np.float16(0.5)), torch.tensor([[np.int32(3)]])

    ours, theirs = (function(torch.ones(2)) for function in (dynascope.compile(program, backend="eager"), program))
    assert is_same(ours, theirs)


@pytest.mark.may_break
def test_a_warning_of_constants_is_of_the_programs_line():
    def program(x):
        return x * 2, np.float64(1.0) / np.float64(0.0)

    said = []
    for function in (dynascope.compile(program, backend="eager"), program):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            function(torch.ones(2))
        said.append([(str(each.message), each.filename) for each in given if each.category is RuntimeWarning])
    assert said[0] == said[1] and len(said[1]) == 1


def test_a_file_is_written_once(tmp_path, monkeypatch):
    """What writes is told a name: it is not asked what it would give."""
    written = []
    monkeypatch.chdir(tmp_path)

    def program(x, n):
        np.save("kept", n)
        return x * n

    with dynascope.expected("foreign-call", required=False):
        compiled = dynascope.compile(program, backend=lambda graph, inputs: written.append(np.load("kept.npy")) or graph.forward)
        for n in (1.5, 2.5, 3.5):
            assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * n)
            assert np.load("kept.npy") == n


def test_sorting_asks_as_often_as_python():
    class Item:
        def __init__(self, rank):
            self.rank = rank

        def __lt__(self, other):
            asked.append((self.rank, other.rank))
            return self.rank < other.rank

    def program(x, items):
        return x * 2, [each.rank for each in sorted(items)]

    found = []
    for function in (dynascope.compile(program, backend="eager"), program):
        asked = []
        made = function(torch.ones(2), [Item(rank) for rank in (3, 1, 2, 2)])
        found.append((made[1], list(asked)))
    assert found[0] == found[1]


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["product", "rooted", "decided", "of its own type"])
def test_numbers_of_numpy_as_arguments(name):
    """`for rate in np.linspace(...)`: they vary as floats do, and stay of their type."""
    program = {
        "product": lambda x, n: x * n,
        "rooted": lambda x, n: (x**n * math.sqrt(n), n * 2, n),
        "decided": lambda x, n: x * n if n > 2.4 else x - n,
        "of its own type": lambda x, n: (torch.tensor([n, 2.0]), type(n) is float, isinstance(n, float)),
    }[name]
    made = []
    compiled = dynascope.compile(program, backend=lambda graph, inputs: made.append(graph) or graph.forward)
    in_kernels = dynascope.compile(program)
    for n in (*map(np.float64, (1.25, 2.5, 2.25, 3.5, 4.75)), 1.25, np.float32(1.25), np.float32(2.25), 2.5):
        theirs = program(torch.ones(3), n)
        assert is_same(compiled(torch.ones(3), n), theirs) and is_same(in_kernels(torch.ones(3), n), theirs), repr(n)
    assert len(made) <= (9 if name == "decided" else 6)
