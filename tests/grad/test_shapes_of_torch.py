"""Sizes, strides and dtypes as torch itself gives them, for tensors of all layouts: empty, of ones, expanded, with holes, permuted."""

import random

import dynascope
import pytest
import torch
from dynascope.grad import shapes
from dynascope.grad.tape import Layout, Value

DTYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float16, torch.float32, torch.float64, torch.complex64)
SEEDS = range(8)
EACH = 250


def value(tensor):
    return Value(Layout(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device))


def some_tensor(draw, sizes=None, dtype=torch.float32):
    """Of these sizes, or of any, in some layout."""
    if sizes is None:
        sizes = [draw.choice((0, 1, 1, 2, 3, 4)) for _ in range(draw.randrange(5))]
    order = draw.sample(range(len(sizes)), len(sizes))
    steps = [draw.choice((1, 1, 1, 2)) for _ in sizes]
    expanded = [draw.random() < 0.15 for _ in sizes]
    memory = [1 if expanded[d] else sizes[d] * steps[d] for d in order]
    tensor = torch.zeros(memory, dtype=dtype).permute([order.index(d) for d in range(len(sizes))])
    for d, step in enumerate(steps):
        tensor = tensor if expanded[d] else tensor[(slice(None),) * d + (slice(None, None, step),)]
    return tensor.expand(sizes)


@pytest.mark.parametrize("seed", SEEDS)
def test_whether_elements_lie_in_a_row(seed):
    draw = random.Random(seed)
    for _ in range(EACH):
        tensor = some_tensor(draw)
        assert shapes.is_contiguous(tensor.shape, tensor.stride()) == tensor.is_contiguous()
        dense = torch.empty_like(tensor).stride() == tensor.stride()
        assert shapes.is_dense(tensor.shape, tensor.stride()) == dense, (tensor.shape, tensor.stride())


def divided(draw, count):
    """Sizes with so many elements."""
    sizes = []
    while count > 1 and len(sizes) < 4:
        factor = draw.choice([f for f in range(1, count + 1) if count % f == 0])
        sizes.append(factor)
        count //= factor
    return [*sizes, count] if draw.random() < 0.5 or count != 1 else sizes


@pytest.mark.parametrize("seed", SEEDS)
def test_a_view_where_there_is_one(seed):
    draw = random.Random(seed)
    found = 0
    for _ in range(EACH):
        tensor = some_tensor(draw)
        sizes = [*tensor.shape, 1] if draw.random() < 0.1 else divided(draw, tensor.numel())
        sizes = [s for s in sizes if s != 1 or draw.random() < 0.7] if tensor.numel() else [*sizes, 3]
        try:
            wanted = tensor.view(sizes).stride()
        except RuntimeError:
            wanted = None
        strides = shapes.viewed_strides(tuple(tensor.shape), tensor.stride(), tuple(sizes))
        assert strides == wanted, (tensor.shape, tensor.stride(), sizes)
        found += wanted is not None
    assert EACH // 3 < found < EACH


@pytest.mark.parametrize("seed", SEEDS)
def test_what_an_operator_makes_of_its_operands(seed):
    """Sizes and strides: of one to three tensors that are expanded to each other, and a number."""
    draw = random.Random(seed)
    for _ in range(EACH):
        operands = [some_tensor(draw)]
        for _ in range(draw.randrange(3)):
            sizes = [1 if draw.random() < 0.2 else size for size in operands[0].shape]
            operands.append(some_tensor(draw, sizes[draw.choice((0, 0, 0, 1, len(sizes))) :]))
        draw.shuffle(operands)
        given = [*operands, 2] if len(operands) == 1 and draw.random() < 0.5 else operands
        wanted = torch.addcmul(*given) if len(given) == 3 else torch.mul(*given) if len(given) == 2 else torch.exp(*given)
        sizes = shapes.broadcast(*(tuple(each.shape) for each in operands))
        assert sizes == tuple(wanted.shape)
        strides = shapes.iterator_strides(sizes, [value(each) if isinstance(each, torch.Tensor) else each for each in given])
        assert strides == wanted.stride(), [(each.shape, each.stride()) for each in operands]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_dtype_that_operands_have_in_common(seed):
    draw = random.Random(seed)
    for _ in range(EACH):
        tensors = [torch.zeros((1,) * draw.choice((0, 0, 1, 2)), dtype=draw.choice(DTYPES)) for _ in range(2)]
        operands = [tensors[0], draw.choice((tensors[1], tensors[1], True, 2, 0.5, 1j))]
        draw.shuffle(operands)
        given = [value(each) if isinstance(each, torch.Tensor) else each for each in operands]
        assert shapes.promoted(given) == torch.result_type(*operands), operands


@pytest.mark.parametrize("default", [torch.float64, torch.bfloat16])
def test_a_number_has_the_default_dtype(default):
    torch.set_default_dtype(default)
    try:
        for operand in (torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.float16)):
            for number in (0.5, 1j, 3):
                assert shapes.promoted([value(operand), number]) == torch.result_type(operand, number)
        assert shapes.floating(torch.int64) == shapes.floating(torch.bool) == default
        assert shapes.floating(torch.float16) == torch.float16 and shapes.floating(torch.complex64) == torch.complex64
    finally:
        torch.set_default_dtype(torch.float32)


def test_sizes_that_do_not_fit():
    for pair in (((2,), (3,)), ((2, 3), (2,)), ((0,), (2,)), ((4, 1, 3), (2, 2))):
        with pytest.raises(RuntimeError):
            torch.broadcast_shapes(*pair)
        with pytest.raises(shapes.ShapeMismatch, match="cannot be broadcast"):
            shapes.broadcast(*pair)
    assert shapes.broadcast((0, 1), (1,), (2, 1, 1)) == torch.broadcast_shapes((0, 1), (1,), (2, 1, 1))


def test_bounds_of_a_slice_are_pythons():
    ends = (None, *range(-6, 7))
    for size in range(5):
        for start in ends:
            for end in ends:
                first, last = shapes.slice_bounds(start, end, size)
                assert (first, last) == slice(start, end).indices(size)[:2]


def test_dimensions_count_from_either_side():
    for rank in range(4):
        for dimension in range(-5, 6):
            if -max(rank, 1) <= dimension < max(rank, 1):
                assert shapes.wrap_dimension(dimension, rank) == (dimension + max(rank, 1)) % max(rank, 1)
            else:
                with pytest.raises(shapes.ShapeMismatch, match=f"dimension {dimension} is out of range for {max(rank, 1)}"):
                    shapes.wrap_dimension(dimension, rank)
    assert shapes.wrap_dimensions([-1, 0], 3) == (0, 2) and shapes.wrap_dimensions(-2, 3) == (1,)
    assert shapes.wrap_dimensions(None, 2) == shapes.wrap_dimensions([], 2) == (0, 1) and shapes.wrap_dimensions([0, -1], 0) == ()
    assert shapes.reduced_sizes((2, 3, 4), (0, 2), 1) == (1, 3, 1) and shapes.reduced_sizes((2, 3, 4), (0, 2), 0) == (3,)
    assert shapes.inferred_sizes([2, -1, 3], 24) == (2, 4, 3) and shapes.inferred_sizes([0, -1], 0) == (0, 0)


def test_channels_last():
    for sizes in ((2, 3, 4, 5), (1, 1, 4, 5), (2, 3, 4, 5, 6), (2, 5, 1, 1)):
        layout = torch.channels_last if len(sizes) == 4 else torch.channels_last_3d
        assert shapes.channels_last_strides(sizes) == torch.empty(sizes, memory_format=layout).stride()


LAYOUTS_OF_LITTLE = {
    "none, transposed": lambda: torch.ones(3, 0).t(),
    "none, of wide rows": lambda: torch.ones(0, 6)[:, ::2],
    "none, permuted": lambda: torch.ones(4, 3, 2).permute(2, 0, 1)[:, :0],
    "none, expanded": lambda: torch.ones(1, 0).expand(3, 0),
    "one of a matrix": lambda: torch.ones(3, 4)[1:2, 1:2],
    "one of three dimensions": lambda: torch.ones(2, 3, 4)[:1, 1:2, 3:],
}


@pytest.mark.parametrize("layout", LAYOUTS_OF_LITTLE)
def test_strides_of_tensors_of_no_or_one_element(layout):
    def program(x):
        made = torch.zeros_like(x), torch.full_like(x, 2), torch.ones_like(x).add_(x), torch.empty_like(x), x.clone()
        views = x.view(x.shape), (x + 1).view(x.shape), (x * 2).transpose(0, 1), x.unsqueeze(0), x.reshape(-1)
        return *made, *views, x * 2, (x * 2).relu_(), x.exp(), x.double(), torch.where(x > 0, x, x + 1), torch.cat([x, x])

    x = LAYOUTS_OF_LITTLE[layout]()
    for mine, eagers in zip(dynascope.compile(program)(x), program(x), strict=True):
        assert (mine.shape, mine.stride()) == (eagers.shape, eagers.stride())
