"""Layouts of poolings, convolutions, columns and triangles, of sizes that vary: torch's wherever their relations hold, and its errors."""

import random

import pytest
import torch
from dynascope.grad.metadata import output_layouts
from dynascope.grad.reasons import DifferentiationRefused
from dynascope.grad.tape import Layout, Value, contiguous_strides
from dynascope.sizes import Scope, Size, evaluate, hint_of
from dynascope.sizes.reach import is_possible

aten = torch.ops.aten
CPU = torch.device("cpu")


def tensor_of(sizes):
    return Value(Layout(tuple(sizes), contiguous_strides(tuple(sizes)), torch.float32, CPU))


def pair(draw, low, high):
    return [draw.randint(low, high) for _ in range(draw.choice((1, 2)))]


def a_program(draw):
    """An operator and its operands, as a function of how tensors are made and of the two sizes."""
    kernel, stride, padding, spread = pair(draw, 1, 4), pair(draw, 1, 3), pair(draw, 0, 2), pair(draw, 1, 2)
    rank, width = draw.choice(((), (2,))), [kernel[0], kernel[-1]]
    shape = lambda n, m: (*rank, 3, n, m)  # noqa: E731
    grouped = draw.choice((1, 2))
    ones = [1, 1]
    return draw.choice(
        (
            (aten.avg_pool2d.default, lambda t, n, m: (t(shape(n, m)), kernel, draw.choice(([], stride)), padding)),
            (aten.max_pool2d_with_indices.default, lambda t, n, m: (t(shape(n, m)), kernel, stride, padding, spread)),
            (aten.im2col.default, lambda t, n, m: (t(shape(n, m)), width, ones, ones, ones)),
            (aten.tril_indices.default, lambda t, n, m: (n, m, stride[0] - 2)),
            (aten.triu_indices.default, lambda t, n, m: (n, m, 3 - stride[0] * 2)),
            (
                aten.convolution.default,
                lambda t, n, m: (
                    t((2, 2 * grouped, n, m)), t((4, 2, *width)), None, stride[:1] * 2, padding[:1] * 2, spread[:1] * 2, False, [0, 0],
                    grouped,
                ),
            ),
            (
                aten.convolution.default,
                lambda t, n, m: (
                    t((2, 4, n, m)), t((4, 3, *width)), None, [2, 3], padding[:1] * 2, spread[:1] * 2, True, [1, 0], grouped,
                ),
            ),
        )
    )  # fmt: skip


def wanted_of(operator, arguments):
    try:
        results = operator(*arguments)
    except (RuntimeError, ValueError, IndexError) as error:
        assert "not implemented" not in str(error)
        return None
    return [(tuple(each.shape), each.stride()) for each in (results if isinstance(results, tuple) else (results,))]


def found_of(operator, arguments):
    try:
        return output_layouts(operator, arguments, {})
    except DifferentiationRefused:
        return None


@pytest.mark.parametrize("seed", range(6))
def test_layouts_are_torchs_at_all_sizes_that_relations_allow(seed):
    draw = random.Random(seed)
    others = refused = 0
    for _ in range(40):
        operator, arguments = a_program(draw)
        sizes, state = (draw.randint(2, 9), draw.randint(2, 9)), draw.getstate()
        scope = Scope()
        n, m = (scope.root(name, size, 2) for name, size in zip("nm", sizes, strict=True))
        found = found_of(operator, arguments(tensor_of, n, m))
        draw.setstate(state)
        wanted = wanted_of(operator, arguments(torch.zeros, *sizes))
        if wanted is None or found is None:
            is_left_to_the_library = found is not None and operator is aten.convolution.default and has_nothing(found[0])
            assert wanted is None and (found is None or is_left_to_the_library), (operator, sizes, wanted)
            refused += 1
            continue
        assert [(tuple(map(hint_of, each.sizes)), tuple(map(hint_of, each.strides))) for each in found] == wanted
        for _ in range(4):
            values = {"n": draw.randint(2, 40), "m": draw.randint(2, 12)}
            if is_possible(scope, values) and 0 not in (at(size, values) for size in found[0].sizes):
                draw.setstate(state)
                numbers = [tuple(at(size, values) for size in each.sizes) for each in found]
                strides = [tuple(at(stride, values) for stride in each.strides) for each in found]
                assert list(zip(numbers, strides, strict=True)) == wanted_of(operator, arguments(torch.zeros, *values.values()))
                draw.seed(f"{seed} {values} {others}")
                others += 1
    assert others > 20 and refused


def has_nothing(layout):
    """A kernel larger than the input by less than a step: the convolution raises when it runs."""
    return 0 in map(hint_of, layout.sizes)


def at(size, values):
    return evaluate(size.expression, values) if isinstance(size, Size) else size


@pytest.mark.parametrize("transposed", [False, True])
def test_what_cannot_be_convolved(transposed):
    def convolved(input, weight, groups=1, make=torch.zeros):
        return make(input), make(weight), None, [1, 1], [0, 0], [1, 1], transposed, [0, 0], groups

    cases = [((1, 3, 2, 2), (3, 3, 5, 5)), ((1, 3, 5, 5), (3, 3, 5, 5)), ((1, 2, 5, 5), (3, 3, 2, 2)), ((1, 4, 5, 5), (4, 2, 2, 2), 2)]
    for case in cases:
        wanted = wanted_of(aten.convolution.default, convolved(*case))
        found = found_of(aten.convolution.default, convolved(*case, make=tensor_of))
        assert (found is None) == (wanted is None), case
        assert found is None or [(each.sizes, each.strides) for each in found] == wanted
