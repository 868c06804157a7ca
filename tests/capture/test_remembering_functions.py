"""A library's function that remembers its results (`functools.lru_cache`), asked with sizes that vary."""

import functools
import importlib.util
import pathlib

import dynascope
import pytest
import torch
from dynascope import recording

LIBRARY = '''
import functools

SEEN = []

class Recipe:
    def __init__(self, factor):
        self.factor = factor

@functools.lru_cache(16)
def recipe(factor):
    return Recipe(factor)

@functools.lru_cache(16)
def parts(recipe, shape):
    sizes = [-1 if size == 0 else size for size in shape]
    sizes.append(recipe.factor)
    return sizes, [axis for axis in range(len(shape))], None

@functools.lru_cache(16)
def noted(shape):
    SEEN.append(shape)
    return [*shape, 1]

def with_a_dimension(tensor, factor):
    sizes, axes, nothing = parts(recipe(factor), tensor.shape)
    return tensor.repeat(1, 1, factor).reshape(*sizes) * len(axes)

def with_a_note(tensor):
    return tensor.reshape(*noted(tuple(tensor.shape)))
'''


@pytest.fixture
def library(tmp_path):
    """A module as it is installed."""
    file = pathlib.Path(tmp_path, "site-packages", "remembering.py")
    file.parent.mkdir()
    file.write_text(LIBRARY)
    specification = importlib.util.spec_from_file_location("remembering", file)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def batches():
    return [torch.arange(4.0 * size).view(size, 4) for size in (2, 3, 5, 7)]


def test_one_compilation_serves_all_sizes(library):
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        compiled = dynascope.compile(lambda x: library.with_a_dimension(x, 3) + 1, fullgraph=True)
        for x in batches():
            assert torch.equal(compiled(x), library.with_a_dimension(x, 3) + 1)
    finally:
        recording.use(before)
    assert len(recorder.report().graphs) == 2  # the first size, and all others


def test_a_function_that_writes_is_left_to_python(library):
    compiled = dynascope.compile(lambda x: library.with_a_note(x) * 2)
    with dynascope.expected("foreign-call"):
        for x in [*batches(), *batches()]:
            assert torch.equal(compiled(x), x.unsqueeze(-1) * 2)
    assert library.SEEN == [(2, 4), (3, 4), (5, 4), (7, 4)]


FACTOR = 2


@functools.lru_cache
def factor(number):
    return number * FACTOR


@functools.lru_cache(maxsize=1)
def row(number):
    return (number, FACTOR)


@functools.lru_cache
def table(number):
    return torch.arange(2.0) * number * FACTOR


class Made:
    def __init__(self, number):
        self.number = number * FACTOR


@functools.lru_cache
def made(number):
    return Made(number)


CLEARED = [lambda x: x * factor(3), lambda x: x * row(3)[1], lambda x: x * table(3), lambda x: x * made(3).number]


@pytest.mark.parametrize("program", CLEARED)
def test_a_cache_that_is_cleared(program):
    global FACTOR
    compiled = dynascope.compile(program, fullgraph=True)
    x = torch.ones(2)
    for FACTOR in (2, 2, 5, 5, 7):
        for function in (factor, row, table, made):
            function.cache_clear()
        assert torch.equal(compiled(x), program(x))
        FACTOR += 1  # nobody asks
        assert torch.equal(compiled(x), program(x))
    FACTOR = 2


def test_calls_are_counted():
    factor.cache_clear()
    compiled = dynascope.compile(lambda x: x * factor(3) + factor(3), fullgraph=True)
    counts = []
    for _ in range(4):
        compiled(torch.ones(2))
        counts.append(factor.cache_info().hits)
    assert [after - before for before, after in zip(counts, counts[1:], strict=False)] == [2, 2, 2]
    assert factor.cache_info().misses == 1
