"""Tensors made of Python's numbers inside a compiled function, in every form that torch has for it."""

import collections
import types

import dynascope
import numpy
import pytest
import torch
from dynascope.recording import Recorder, use

MADE = {
    "new_tensor of a number": lambda x, n: x.new_tensor(1.5) + x,
    "new_tensor of a list": lambda x, n: x.new_tensor([1, 2, 3]) + x,
    "new_tensor by name": lambda x, n: x.new_tensor(data=[1, n, 3]) + x,
    "new_tensor of another type": lambda x, n: x.new_tensor([1, 2, 3], dtype=torch.float64) + x,
    "new_tensor of ints": lambda x, n: x.long().new_tensor([1.7, 2.2, n]) + x,
    "new_tensor of a number that varies": lambda x, n: x.new_tensor([n, 2, 3]) * x,
    "new_tensor of a tensor": lambda x, n: x.new_tensor(x[0].detach()) + x,
    "new": lambda x, n: x.new([1, 2, 3]) + x,
    "new of sizes": lambda x, n: x.new(3).fill_(2) + x,
    "Tensor": lambda x, n: torch.Tensor([1, 2, 3]) + x,
    "Tensor of sizes": lambda x, n: torch.Tensor(4, 3).fill_(n) + x,
    "Tensor of a tensor": lambda x, n: torch.Tensor(x * n).type(x.type()) + 1,
    "LongTensor of sizes": lambda x, n: torch.LongTensor(4, 3).zero_() + x,
    "LongTensor of a tuple": lambda x, n: torch.LongTensor((0, 1, 2)) + x,
    "IntTensor that varies": lambda x, n: torch.IntTensor([n]) + x,
    "nested": lambda x, n: torch.tensor([[n, 1, 2], [3, 4, n]])[0] + x,
    "whole numbers and fractions": lambda x, n: torch.tensor([n, 0.5, 1]) * x,
    "floats": lambda x, n: torch.tensor([float(n), n / 3, 1]) * x,
    "elements of tensors": lambda x, n: torch.tensor([x.detach().sum(), x.detach().amax(), n]) * x,
    "elements of ints": lambda x, n: torch.tensor(list(x[0].detach().long())) + x,
    "elements of doubles": lambda x, n: torch.tensor([x.detach().double().mean(), 1]) * x[:, :2],
    "elements of halves": lambda x, n: torch.tensor([x.detach().half().amax(), x.detach().bfloat16().amin(), True]) * x,
    "elements of masks": lambda x, n: torch.tensor([(x > n).any(), True, False]) & (x > 0),
    "as_tensor": lambda x, n: torch.as_tensor([n, 2, 3], dtype=torch.float64) * x,
    "asarray": lambda x, n: torch.asarray([1.0, 2.0, n]) * x,
    "a deque": lambda x, n: torch.tensor(collections.deque([n, 2, 3])) + x,
    "a deque of constants": lambda x, n: torch.as_tensor(collections.deque([1.0, 2.0, 3.0, 4.0], maxlen=3)) * x,
}


def recorded(function, arguments):
    recorder = Recorder()
    before = use(recorder)
    try:
        return [function(*each) for each in arguments], recorder.report()
    finally:
        use(before)


@pytest.mark.compiler
@pytest.mark.parametrize("name", MADE)
def test_made_inside(name):
    calls = [(torch.linspace(-1, 1, 12).reshape(4, 3) * n, n) for n in (2, 3, 5, 7)]
    found, report = recorded(dynascope.compile(MADE[name]), calls)
    for each, call in zip(found, calls, strict=True):
        expected = MADE[name](*call)
        assert (each.dtype, each.stride(), each.is_leaf) == (expected.dtype, expected.stride(), expected.is_leaf)
        torch.testing.assert_close(each, expected)
    assert all(graph.kernels for graph in report.graphs)
    assert len(report.graphs) <= 2


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.tensor([[1, 2], [x.shape[0]]]),
        lambda x: torch.tensor([x.shape[0], "a"]),
        lambda x: torch.tensor([300, x.shape[0]], dtype=torch.uint8),
        lambda x: x.new_tensor([1j]),
    ],
)
def test_what_torch_refuses(make):
    compiled = dynascope.compile(make, backend="eager", dynamic=True)
    with pytest.raises(Exception) as expected:
        make(torch.ones(2))
    with dynascope.expected("foreign-call", "foreign-value", required=False), pytest.raises(expected.type) as found:
        compiled(torch.ones(2))
    assert str(found.value) == str(expected.value)


def test_elements_with_gradients_are_left_to_torch():
    """It warns there that their history is lost."""
    compiled = dynascope.compile(lambda x: torch.tensor([x.sum(), 1.0]), backend="eager")
    x = torch.ones(3, requires_grad=True)
    with dynascope.expected("data-dependent-value"):
        assert compiled(x).tolist() == [3, 1]


def test_the_default_type_and_device_count():
    compiled = dynascope.compile(lambda x, n: torch.tensor([x.sum(), n]), backend="eager")
    assert compiled(torch.ones(3), 2).dtype is torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert compiled(torch.ones(3), 2).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_new_tensor_of_an_array():
    """As recommenders add their fields' offsets: an array that may be another one at the next call, of whatever type."""

    def program(x):
        return x + x.new_tensor(held.offsets).unsqueeze(0), x.new_tensor(held.offsets, dtype=torch.float32) * 2

    held = types.SimpleNamespace(offsets=numpy.array([0, 5, 12]))
    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    for rows in (4, 4, 6):
        x = torch.arange(rows * 3).view(rows, 3)
        torch.testing.assert_close(compiled(x), program(x))
        held.offsets = held.offsets.astype("int32") + 1


@pytest.mark.parametrize("made", [torch.Tensor, torch.DoubleTensor, torch.LongTensor, torch.BoolTensor])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_old_constructors_of_an_array(made, dtype):
    """As environments' observations become tensors: the memory is the array's where nothing is converted."""

    def program(array, x):
        return made(array), made(array[::2]).double() + x

    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    for rows in (4, 6, 8):
        arrays = [numpy.arange(rows * 3).reshape(rows, 3).astype(dtype) for _ in range(2)]
        pairs = [function(array, torch.ones(3)) for function, array in zip((program, compiled), arrays, strict=True)]
        torch.testing.assert_close(*pairs)
        for array in arrays:
            array[...] = 1
        torch.testing.assert_close(*pairs)


def test_what_old_constructors_refuse_of_arrays():
    compiled = dynascope.compile(lambda array: torch.Tensor(array.sum()), backend="eager")
    with dynascope.expected("foreign-call", required=False), pytest.raises(TypeError, match="sequence"):
        compiled(numpy.ones(3))


def test_old_constructors_of_a_tensor_share_its_memory():
    def program(x, parameter):
        same = torch.Tensor(x)
        same.mul_(2)
        return same, torch.Tensor(parameter), torch.FloatTensor(parameter * 3)

    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    for function in (program, compiled):
        x, parameter = torch.ones(3), torch.nn.Parameter(torch.ones(2))
        same, other, made = function(x, parameter)
        assert same is not x and same.data_ptr() == x.data_ptr() and x.tolist() == [2, 2, 2]
        assert type(other) is torch.Tensor and other.data_ptr() == parameter.data_ptr() and not other.is_leaf
        (other.sum() + made.sum()).backward()
        assert parameter.grad.tolist() == [4, 4]


def test_old_constructors_of_a_tensor_of_another_type_are_refused():
    compiled = dynascope.compile(lambda x: torch.LongTensor(x), backend="eager")
    with dynascope.expected("foreign-call"), pytest.raises(TypeError, match="dtype=long int"):
        compiled(torch.ones(2))


@pytest.mark.parametrize("made", [torch.Tensor, torch.HalfTensor, torch.LongTensor, torch.BoolTensor])
def test_old_constructors_of_truths(made):
    def program(x):
        return made([True]), made([[False], [x.dim()]]), x + 1

    torch.testing.assert_close(dynascope.compile(program, backend="eager", fullgraph=True)(torch.ones(2)), program(torch.ones(2)))
