"""What autograd, a device or a mode refuses is refused at the program's own line, before anything after it happened."""

import re
import traceback

import pytest
import torch
from dynascope.capture.calls.refusals import check_types, is_pointwise
from harness import compiled

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def leaf():
    return torch.ones(3, 4, requires_grad=True)


def view_of_a_leaf(log):
    x, y = leaf().permute(1, 0)[1:], leaf() * 2
    return x, y


def one_of_several(log):
    return (leaf() * 1).unbind(0)[0], leaf() * 2


def view_made_without_grad(log):
    x = leaf() * 1
    with torch.no_grad():
        return x[1:], leaf() * 2


def leaf_itself(log):
    return leaf(), leaf() * 2


@pytest.mark.parametrize("make", [view_of_a_leaf, one_of_several, view_made_without_grad, leaf_itself])
@pytest.mark.may_break
def test_a_write_that_autograd_refuses_raises_from_its_line(make):
    def program(x, y, log):
        y.mul_(2)
        log.append(1)
        x.sub_(1)
        log.append(2)

    seen = []
    for function in (program, compiled(program)):
        for _ in range(2):
            log = []
            x, y = make(log)
            with pytest.raises(RuntimeError) as caught:
                function(x, y, log)
            lines = [f.lineno for f in traceback.extract_tb(caught.tb) if f.name == "program"]
            seen.append((str(caught.value), lines, log, y.detach().tolist()))
    assert all(each == seen[0] for each in seen)


@pytest.mark.may_break
def test_a_tensor_that_may_be_written_once_and_not_the_next_time():
    def program(x):
        x.mul_(2)
        return x + 1

    function = compiled(program)
    torch.testing.assert_close(function(leaf() * 1), program(leaf() * 1))
    torch.testing.assert_close(function((leaf() * 1)[1:]), program((leaf() * 1)[1:]))
    for refused in (leaf()[1:], (leaf() * 1).split(2)[0]):
        with pytest.raises(RuntimeError, match="view"):
            function(refused)


@pytest.mark.may_break
def test_an_inference_tensor_is_not_written_outside_its_mode():
    with torch.inference_mode():
        made = torch.ones(3)

    def program(x, y):
        y.add_(1)
        x.add_(1)

    for function in (program, compiled(program)):
        y = torch.zeros(3)
        with pytest.raises(RuntimeError, match="inference tensor"):
            function(made, y)
        assert y.tolist() == [1, 1, 1]


@pytest.mark.parametrize("rows", [3, 1])
def test_an_index_out_of_range_raises_though_its_result_is_written_over(rows):
    def program(x):
        y = x.gather(0, x % 2)
        y.fill_(7)
        return y

    x, function = torch.arange(1, rows + 1), compiled(program)
    if rows == 3:
        torch.testing.assert_close(function(x), program(x))
    else:
        with pytest.raises(RuntimeError, match="out of bounds"):
            function(x)


def in_a_tensor_that_is_turned(x, rows):
    y = x.gather(0, rows)
    y.unsqueeze_(0)
    return x


def in_one_that_is_filled(x, rows):
    y = x * 0
    y.view(-1).index_fill_(0, rows, 1)
    y.zero_()
    return y


def in_one_that_is_assigned(x, rows):
    y = x * 0
    y[rows] = 1
    y[:] = 2
    return y


def in_one_that_is_given(x, rows):
    y = torch.zeros(1)
    torch.index_select(x, 0, rows, out=y)
    y.copy_(x[0])
    return y


def in_one_that_is_copied_and_cleared(x, rows):
    y = x[rows].exp()
    z = y.clone()
    z.view(-1).add_(x[0]).zero_()
    return z


class Unread(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, rows):
        x[rows]
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


@pytest.mark.may_break
@pytest.mark.parametrize(
    "program", [lambda x, rows: Unread.apply(x, rows), lambda x, rows: torch.func.grad(lambda y: (y[rows], (y * y).sum())[1])(x)]
)
def test_so_it_does_in_a_graph_of_its_own(program):
    x, function = torch.ones(3), compiled(program)
    torch.testing.assert_close(function(x, torch.tensor([2])), program(x, torch.tensor([2])))
    with pytest.raises(IndexError):
        function(x, torch.tensor([4]))


@pytest.mark.parametrize(
    "program",
    [
        in_a_tensor_that_is_turned,
        in_one_that_is_filled,
        in_one_that_is_assigned,
        in_one_that_is_given,
        in_one_that_is_copied_and_cleared,
    ],
)
def test_an_index_out_of_range_raises_though_nobody_reads_what_is_there(program):
    x, function = torch.ones(3), compiled(program)
    torch.testing.assert_close(function(x, torch.tensor([2])), program(x, torch.tensor([2])))
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        function(x, torch.tensor([4]))


def test_types_are_tried_where_the_tensors_are():
    half = torch.empty(3, dtype=torch.bfloat16, device="meta")
    assert re.search("Half, Float", check_types(torch.complex, (half, half), {}, torch.device("cpu")).text)
    assert is_pointwise(torch.Tensor.add) and is_pointwise(torch.Tensor.masked_fill) and not is_pointwise(torch.mm)


@CUDA
@pytest.mark.may_break
@pytest.mark.parametrize(
    "program",
    [
        lambda x: (torch.eye(4) @ x, 1)[1],
        lambda x: (torch.cat([x, torch.ones(4, 4)]), 1)[1],
        lambda x: ((x.long() @ x.long()), 1)[1],
        lambda x: (torch.hypot(x.long(), x.long()), 1)[1],
    ],
)
def test_what_a_gpu_refuses(program):
    x = torch.ones(4, 4, device="cuda")
    texts = []
    for function in (program, compiled(program)):
        with pytest.raises((RuntimeError, NotImplementedError)) as caught:
            function(x)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


@CUDA
def test_numbers_of_the_cpu_meet_tensors_of_a_gpu():
    def program(x, number, places):
        return x * number + x[places].masked_fill(x[places] > 0, number)

    arguments = torch.ones(4, 4, device="cuda"), torch.tensor(2.0), torch.arange(4)
    function = compiled(program)
    torch.testing.assert_close(function(*arguments), program(*arguments))
    assert function.compilation.codes == []


@pytest.mark.parametrize(
    "program", [lambda x: torch.zeros_like(x).stride(), lambda x: (x + 1)[:, :0].flip(0).stride(), lambda x: x.mT.lt(1).stride()]
)
def test_strides_that_say_nothing_are_the_kernels_own(program):
    x = torch.arange(6.0).view(1, 6).t()
    assert compiled(program)(x) == program(x)
