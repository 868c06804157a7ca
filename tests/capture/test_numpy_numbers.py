"""NumPy's numbers, and what NumPy computes of numbers, inside a compiled function."""

import dynascope
import pytest
import torch
from harness import compiled

numpy = pytest.importorskip("numpy")
SCALE = numpy.float32(0.5)
COUNTS = (numpy.int64(2), 3)

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
