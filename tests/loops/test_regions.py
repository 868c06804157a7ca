"""Parts of buffers: what is said to be apart, exact or covered is so, element by element."""

from __future__ import annotations

import itertools

import pytest
import torch
from dynascope.loops.index import Symbol, affine
from dynascope.loops.nodes import Buffer
from dynascope.loops.regions import apart, covered, is_exact, region
from hypothesis import given, settings
from hypothesis import strategies as st


def buffer(*sizes):
    strides = [1]
    for size in sizes[:0:-1]:
        strides.insert(0, strides[0] * size)
    return Buffer("x", torch.float32, torch.device("cpu"), sizes, tuple(strides))


def places(index):
    """The elements that an index goes over."""
    ranges = [[factor * at for at in range(symbol.extent)] for symbol, factor in index.terms]
    return {index.constant + sum(steps) for steps in itertools.product(*ranges)}


def elements(part, whole):
    """The elements of a region."""
    sides = [[p for p in range(s.first, s.last + 1) if s.step < 2 or p % s.step == s.phase] for s in part]
    return {sum(at * stride for at, stride in zip(place, whole.strides, strict=True)) for place in itertools.product(*sides)}


@st.composite
def parts(draw, sizes=(6, 8)):
    """An index over a part of a buffer: each dimension in even steps, or both in one loop."""
    whole = buffer(*sizes)
    if draw(st.booleans()):
        step = draw(st.sampled_from([1, 2, 3, 4]))
        first = draw(st.integers(0, step - 1))
        return affine({Symbol("r", draw(st.integers(2, 48 // step))): step}, first)
    terms, constant = {}, 0
    for dimension, (size, stride) in enumerate(zip(sizes, whole.strides, strict=True)):
        step = draw(st.sampled_from([1, 1, 2, 3]))
        count = draw(st.integers(1, (size - 1) // step + 1))
        constant += stride * draw(st.integers(0, size - 1 - (count - 1) * step))
        if count > 1:
            terms[Symbol(f"i{dimension}", count)] = step * stride
    return affine(terms, constant)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(one=parts(), other=parts())
def test_a_region_holds_what_is_gone_over(one, other):
    whole = buffer(6, 8)
    first, second = region(one, whole), region(other, whole)
    assert places(one) <= elements(first, whole)
    assert not is_exact(one, whole) or places(one) == elements(first, whole)
    assert not apart(first, second) or places(one).isdisjoint(places(other))


@settings(max_examples=300, deadline=None, derandomize=True)
@given(wanted=parts(), by=st.lists(parts(), max_size=6))
def test_what_is_covered_is_in_one_of_the_regions(wanted, by):
    whole = buffer(6, 8)
    exact = [index for index in by if is_exact(index, whole)]
    held = set().union(*map(places, exact))
    answer = covered(region(wanted, whole), [region(index, whole) for index in exact], whole)
    assert answer == (elements(region(wanted, whole), whole) <= held)


@pytest.mark.parametrize("first", [0, 1])
def test_one_loop_through_two_dimensions_in_steps_is_exact(first):
    whole = buffer(6, 8)
    index = affine({Symbol("r", 24): 2}, first)
    assert is_exact(index, whole)
    assert [(side.first, side.last, side.step) for side in region(index, whole)] == [(0, 5, 1), (first, 6 + first, 2)]


def test_a_diagonal_is_no_region():
    assert not is_exact(affine({Symbol("r", 6): 9}), buffer(6, 8))
