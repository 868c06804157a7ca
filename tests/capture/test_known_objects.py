"""Generators with seeds of their own and texts in memory, made inside: what their methods give is known, and one that leaves is in the
state that the program's is in."""

import copy
import io
import random

import dynascope
import numpy
import pytest
import torch


def parts_of(result):
    if isinstance(result, (list, tuple)):
        return [part for each in result for part in parts_of(each)]
    if isinstance(result, random.Random):
        return list(result.getstate())
    if isinstance(result, (numpy.random.RandomState, numpy.random.Generator)):
        return [copy.deepcopy(result).normal(size=3).tolist()]
    if isinstance(result, (io.StringIO, io.BytesIO)):
        return [type(result), result.getvalue(), result.tell()]
    return [result.tolist() if isinstance(result, (torch.Tensor, numpy.ndarray)) else result]


def python(x):
    rng = random.Random(3)
    places = list(range(6))
    rng.shuffle(places)
    return x[places] * rng.uniform(1, 2) + rng.gauss(0, 1), rng.choice("abc"), rng.sample(range(9), 3)


def left(x):
    rng = random.Random("a seed")
    y = x * rng.gauss(0, 1)
    return y, rng


def numpys(x):
    old, new = numpy.random.RandomState(0), numpy.random.default_rng(5)
    places = new.permutation(6)
    scale = float(old.rand()) + int(old.randint(4))
    return x[places] * scale + torch.from_numpy(new.normal(size=6)).float(), old, new


def written(x):
    text = io.StringIO("before")
    text.seek(0, io.SEEK_END)
    text.write(f" {x.dim()}")
    print("said", 2.5, sep="-", file=text)
    with io.BytesIO() as data:
        count = data.write(b"abc")
        held = data.getvalue()
    return x * 2, text.getvalue(), text, count, held


@pytest.mark.parametrize("function", [python, left, numpys, written], ids=lambda function: function.__name__)
def test_one_graph(function):
    compiled, x = dynascope.compile(function, backend="eager", fullgraph=True), torch.arange(6.0)
    for _ in range(2):
        expected, found = parts_of(function(x)), parts_of(compiled(x))
        assert found == pytest.approx(expected) if all(isinstance(each, float) for each in expected) else str(found) == str(expected)


def test_each_call_makes_its_own():
    def function(x):
        return x + 1, random.Random(0)

    compiled = dynascope.compile(function, fullgraph=True)
    first, second = compiled(torch.ones(2))[1], compiled(torch.ones(2))[1]
    assert first is not second
    assert first.random() == second.random() == random.Random(0).random()


def test_across_a_break():
    def function(x, seen):
        rng, text = random.Random(1), io.StringIO()
        y = x * rng.random()
        text.write("before")
        seen.append(left_out())
        text.write(" after")
        return y + rng.random(), text.getvalue()

    @dynascope.disable
    def left_out():
        return 1

    with dynascope.expected("disabled-function", "foreign-call"):
        found = dynascope.compile(function)(torch.ones(3), [])
    expected = function(torch.ones(3), [])
    torch.testing.assert_close(found[0], expected[0])
    assert found[1] == expected[1]


@pytest.mark.parametrize("seed", [(), (None,)])
def test_without_a_seed_each_is_another(seed):
    def function(x):
        return x * random.Random(*seed).random()

    compiled = dynascope.compile(function)
    with dynascope.expected("foreign-call"):
        assert compiled(torch.ones(1)).item() != compiled(torch.ones(1)).item()


def test_what_the_caller_gives_is_the_callers():
    """The state of one from outside is another at each call."""

    def function(x, text):
        text.write("a")
        return x * 2

    text = io.StringIO()
    with dynascope.expected("foreign-call"):
        compiled = dynascope.compile(function)
        for _ in range(3):
            compiled(torch.ones(2), text)
    assert text.getvalue() == "aaa"


def test_what_is_told_and_changed_is_left_to_python():
    def function(x):
        data, held = io.BytesIO(b"abc"), bytearray(2)
        places = [3, 1, 2, 0]
        numpy.random.RandomState(0).shuffle(places)
        return x * 2, data.readinto(held), bytes(held), places

    with dynascope.expected("foreign-call"):
        found = dynascope.compile(function)(torch.ones(2))
    assert found[1:] == function(torch.ones(2))[1:]


def test_a_later_error_is_the_programs():
    def function(x):
        text = io.StringIO()
        text.close()
        return x * 2, text.write("a")

    with dynascope.expected("foreign-call"), pytest.raises(ValueError, match="closed"):
        dynascope.compile(function)(torch.ones(2))
