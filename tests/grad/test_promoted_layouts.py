"""The order of memory of results of operands that are copied to another type first, and of tensors that are written."""

import dynascope
import pytest
import torch
from torch import nn

SHAPES = {
    "transposed": lambda: torch.randn(3, 4).t(),
    "rows apart": lambda: torch.randn(4, 6)[:, ::2],
    "one row, expanded": lambda: torch.randn(1, 3).expand(4, 3),
    "one column, expanded": lambda: torch.randn(4, 1).expand(4, 3),
    "contiguous": lambda: torch.randn(4, 3),
}
OPERATORS = (torch.add, torch.gt, torch.div, torch.atan2, torch.copysign, torch.maximum)


def of_type(tensor, dtype):
    """The same places in memory: `to` alone would make what is expanded dense."""
    base = tensor._base if tensor._base is not None else tensor
    return base.to(dtype).as_strided(tensor.size(), tensor.stride())


@pytest.mark.turns(6)
@pytest.mark.parametrize("first", SHAPES)
@pytest.mark.parametrize("dtypes", [(torch.bfloat16, torch.float32), (torch.int64, torch.float32), (torch.int64,) * 2])
def test_operands_of_other_types_are_dense_when_the_result_is_laid_out(first, dtypes):
    seconds = [of_type(make(), dtypes[1]) for make in SHAPES.values()]
    one = of_type(SHAPES[first](), dtypes[0])

    def program(one, *seconds):
        return [operator(*pair) for operator in OPERATORS for other in seconds for pair in ((one, other), (other, one))]

    found = dynascope.compile(program)(one, *seconds)
    assert [each.stride() for each in found] == [each.stride() for each in program(one, *seconds)]


def test_what_is_computed_from_a_written_tensor_with_holes_takes_after_it():
    def program(x, y):
        x.copy_(y)
        return torch.expm1(x)

    x, y = torch.randn(3, 3).t()[:2], torch.ones(2, 3, dtype=torch.int64)
    assert dynascope.compile(program)(x, y).stride() == program(x, y).stride() == (1, 2)


def test_a_reduction_that_nothing_needs_after_all():
    def program(x):
        for _ in range(3):
            x = torch.argmin(x)
        return x

    x = torch.randn(3, 8)
    assert dynascope.compile(program)(x) == program(x)


@pytest.mark.parametrize("operator", [torch.addcmul, torch.addcdiv])
@pytest.mark.parametrize("other", [torch.int64, torch.bool, torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("first", [torch.float64, torch.float32])
def test_products_are_of_the_common_type(first, other, operator):
    """The operands are of the common type before they are multiplied, whichever of them has no dimensions."""
    if operator is torch.addcdiv and not other.is_floating_point:
        pytest.skip("torch divides no integers here")

    def program(number, row):
        return [operator(x, y, y, value=1.5) for x, y in ((number, row), (row.to(first), number), (row.to(first), row))]

    number, row = torch.tensor(1.1, dtype=first), (torch.arange(1, 4) * 1.3).to(other)
    for ours, theirs in zip(dynascope.compile(program)(number, row), program(number, row), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        torch.testing.assert_close(ours, theirs)


BY_INDEX = {
    "rows": lambda a, b: a[b],
    "columns": lambda a, b: a[:, b],
    "both": lambda a, b: a[b, b],
    "with a gap": lambda a, b: a.unflatten(1, (2, -1))[b, :, b],
    "and a row of indices": lambda a, b: a[b, b[0]],
    "and computed with": lambda a, b: a[b] * 2,
}


@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("transposed", [True, False])
@pytest.mark.parametrize("what", BY_INDEX)
def test_elements_at_indices_lie_as_the_indices_do(what, transposed, rows):
    a = torch.randn(2, 6) if rows else torch.randn(6, 2).t()
    b = torch.arange(12).view(6, 2).t() % 2 if transposed else torch.arange(12).view(2, 6) % 2
    found, wanted = dynascope.compile(BY_INDEX[what])(a, b), BY_INDEX[what](a, b)
    torch.testing.assert_close(found, wanted)
    assert found.stride() == wanted.stride()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64])
def test_a_complex_operand_keeps_how_exact_the_tensor_is(dtype):
    def program(x, zero_dimensions):
        return x * (1 + 2j), x * zero_dimensions

    x, zero_dimensions = torch.ones(2, dtype=dtype), torch.tensor(1 + 2j)
    try:
        wanted = program(x, zero_dimensions)
    except NotImplementedError as error:  # since torch 2.14 for bfloat16
        pytest.skip(str(error))
    found = dynascope.compile(program)(x, zero_dimensions)
    assert [each.dtype for each in found] == [each.dtype for each in wanted]


def test_complex_numbers_are_of_the_default_type():
    def program(x):
        return x * (1 + 2j)

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert dynascope.compile(program)(torch.arange(3)).dtype == program(torch.arange(3)).dtype == torch.complex128
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("among", [torch.arange(4.0), torch.arange(50.0), 2.0])
@pytest.mark.parametrize("elements", [torch.arange(24.0).view(4, 6).t(), torch.arange(24.0).view(4, 3, 2).permute(2, 0, 1)])
def test_whether_elements_are_among_others_lies_in_a_row(elements, among):
    found, wanted = dynascope.compile(torch.isin)(elements, among), torch.isin(elements, among)
    assert torch.equal(found, wanted) and found.stride() == wanted.stride()


@pytest.mark.parametrize("sizes", [(2, 3, 2, 4), (1, 2, 2, 4), (2, 2, 4, 1)])
@pytest.mark.parametrize("arguments", [(1, -1), (2, 0), (4, 3), ((1, 2), (1, 3)), (3,)])
def test_what_is_rolled_lies_as_its_two_parts_do(sizes, arguments):
    x = torch.arange(48.0)[: torch.Size(sizes).numel()].view(sizes).to(memory_format=torch.channels_last)
    found, wanted = dynascope.compile(lambda x: torch.roll(x, *arguments))(x), torch.roll(x, *arguments)
    assert torch.equal(found, wanted) and found.stride() == wanted.stride()


def test_padding_of_one_channel_lies_as_its_stride_says():
    for strides in ((8, 1, 4, 1), (8, 8, 4, 1)):
        x = torch.ones(2, 1, 2, 4).as_strided((2, 1, 2, 4), strides)
        found, wanted = (call(x, (0, 0, 0, 0, 1, 1)) for call in (dynascope.compile(nn.functional.pad), nn.functional.pad))
        assert torch.equal(found, wanted) and found.stride() == wanted.stride()
