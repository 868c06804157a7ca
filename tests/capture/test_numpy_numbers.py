"""NumPy's numbers, and what NumPy computes of numbers, inside a compiled function."""

import math

import dynascope
import pytest
import torch
from dynascope import recording
from harness import compiled

numpy = pytest.importorskip("numpy")
SCALE = numpy.float32(0.5)
COUNTS = (numpy.int64(2), 3)
NUMBERS = (0.3, 0.7, 1.1, -2.5, 5.0, numpy.nan)

PROGRAMS = {
    "square root of a size": lambda x: x / numpy.sqrt(x.shape[-1]),
    "product of sizes": lambda x: x.reshape(-1, numpy.prod(x.shape[1:])) * numpy.pi,
    "a number from outside": lambda x: SCALE * x + numpy.log(2.0),
    "integers": lambda x: x.long() * numpy.int64(3) + int(numpy.ceil(2.5)),
    "half precision": lambda x: x.half() * numpy.float64(0.1),
    "in arguments": lambda x: torch.full(COUNTS, numpy.float64(2.0)) + x[: numpy.int64(2)].sum(),
    "compared": lambda x: x * 2 if numpy.float64(2.0) > 1 and numpy.mean((1, 2, 3)) == 2 else x,
    "as a result": lambda x: (x + 1, numpy.sqrt(2.0), numpy.float32(1) / 3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_are_constants(name):
    program = PROGRAMS[name]
    x = torch.linspace(-1, 1, 24).view(2, 3, 4)
    function = compiled(program)
    for _ in range(2):
        found, wanted = function(x), program(x)
        torch.testing.assert_close(found, wanted)
        if isinstance(wanted, tuple):
            assert list(map(type, found)) == list(map(type, wanted))
    assert function.compilation.codes == []


def test_one_that_changes_is_seen():
    function = compiled(lambda x, n: x * n)
    for n in (numpy.float64(2), numpy.float64(3), numpy.float32(3), 3.0):
        torch.testing.assert_close(function(torch.ones(2), n), torch.ones(2) * n)


def test_what_numpy_warns_of_is_left_to_it():
    function = compiled(lambda x: x * numpy.sqrt(-1.0))
    with pytest.warns(RuntimeWarning, match="invalid value"):
        assert function(torch.ones(2)).isnan().all()
    with pytest.warns(RuntimeWarning, match="invalid value"):
        function(torch.ones(2))


def test_comparisons_of_a_number_that_varies_are_numpys_own():
    def program(x, v, n):
        return x * v, (v == 1, v > 2, n < v, v >= 3.0, not v)

    graphs = []
    call = dynascope.compile(program, backend=lambda graph, _: graphs.append(graph) or graph, fullgraph=True)
    for v, n in ((1.0, 2), (4.5, 3), (5.5, 4), (6.5, 5)):
        mine, theirs = (function(torch.ones(2), numpy.float64(v), n) for function in (call, program))
        assert mine[1] == theirs[1] and list(map(type, mine[1])) == list(map(type, theirs[1]))
    assert len(graphs) <= 3  # one for numbers as they were, one for others


def test_a_smaller_float_that_varies_is_one_entry():
    def program(x, reward):
        baseline = reward * 0.9 + numpy.exp(reward)
        target = torch.tensor(reward)
        target += 1
        rounded = torch.tensor([reward, 1.0]).sum() + float(reward) * 0.1
        return x * reward, reward - x, baseline, reward, target, x.sum() * baseline, rounded

    call, x = dynascope.compile(program, backend="eager", fullgraph=True), torch.arange(3.0)
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        found = [call(x, numpy.float32(number)) for number in NUMBERS]
    finally:
        recording.use(before)
    for number, mine in zip(NUMBERS, found, strict=True):
        theirs = program(x, numpy.float32(number))
        assert list(map(type, mine)) == list(map(type, theirs))
        assert [getattr(each, "dtype", None) for each in mine] == [getattr(each, "dtype", None) for each in theirs]
        for one, other in zip(mine, theirs, strict=True):
            torch.testing.assert_close(torch.as_tensor(one), torch.as_tensor(other), equal_nan=True)
    assert len(recorder.report().graphs) == 2  # one for the number as it was, one for others


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_gradients_by_a_smaller_float_that_varies(backend):
    call = dynascope.compile(lambda w, reward: (w.sin() * reward).sum(), backend=backend, fullgraph=True)
    for number in (0.3, 0.7, 1.1):
        w = torch.ones(3, requires_grad=True)
        call(w, numpy.float32(number)).backward()
        torch.testing.assert_close(w.grad, torch.ones(3).cos() * numpy.float32(number))


@pytest.mark.parametrize("asked", [lambda n: n > 0.5, lambda n: f"{n:.2f}", lambda n: math.sqrt(n), lambda n: numpy.isnan(n)])
def test_a_smaller_float_that_decides_is_a_constant(asked):
    def program(x, reward):
        found = asked(reward)
        return (x * reward if found else x - reward), found

    call = dynascope.compile(program, backend="eager", fullgraph=True)
    for number in (0.3, 0.7, 1.1, 0.5):
        mine, theirs = call(torch.ones(2), numpy.float32(number)), program(torch.ones(2), numpy.float32(number))
        assert mine[1] == theirs[1] and type(mine[1]) is type(theirs[1])
        torch.testing.assert_close(mine[0], theirs[0])


def test_smaller_floats_that_vary_keep_their_identity():
    call = dynascope.compile(lambda x, one, other: (x * one + other, one is other), backend="eager", fullgraph=True)
    x, same, second = torch.ones(2), numpy.float32(0.5), numpy.float32(0.7)
    for one, other in ((same, second), (second, same), (same, same), (numpy.float32(0.5), numpy.float32(0.5)), (second, second)):
        found, is_one = call(x, one, other)
        assert is_one is (one is other)
        torch.testing.assert_close(found, x * one + other)


def test_an_array_of_a_computed_number_is_its_own():
    def program(x):
        number = numpy.sum(x.numpy() * 2)
        made = numpy.asarray(number), numpy.asanyarray(number), numpy.array(number), numpy.ascontiguousarray(number)
        made[0][...] = 5
        return number, made, torch.from_numpy(made[0])

    (mine, arrays, tensor), (theirs, wanted, _) = compiled(program)(torch.ones(3)), program(torch.ones(3))
    assert mine == theirs and tensor.item() == 5
    assert [(type(each), each.shape, each.tolist()) for each in arrays] == [
        (type(each), each.shape, each.tolist()) for each in wanted
    ]


def test_limits_of_types():
    info = numpy.finfo(numpy.float32)

    def program(x):
        scaled = (x - x.mean()) / (x.std() + numpy.finfo(numpy.float32).eps.item())
        return scaled.clamp(max=float(numpy.finfo("float32").max)), x * numpy.iinfo(numpy.int16).max, x + info.tiny, numpy.finfo(float).bits

    x = torch.linspace(0, 1, 5)
    assert repr(dynascope.compile(program, backend="eager", fullgraph=True)(x)) == repr(program(x))


def put(x):
    x[0] = numpy.float32(1.5)


def put_by_places(x):
    x.__setitem__([0, 1], numpy.float16(2))


def of_a_type(x):
    return torch.tensor([1, numpy.float32(2)], dtype=torch.int64)


def as_another(x):
    return x.new_tensor(numpy.float32(1.5))


@pytest.mark.parametrize("program", [put, put_by_places, of_a_type, as_another])
def test_numbers_that_torch_refuses(program):
    found = []
    for function in (program, dynascope.compile(program)):
        x = torch.arange(3)
        with pytest.raises(TypeError) as error:
            function(x)
        found.append((str(error.value), x.tolist()))
    assert found[0] == found[1]
