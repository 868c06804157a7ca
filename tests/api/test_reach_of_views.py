"""`as_strided` of a view: elements of its base may be read that are not its own, and autograd leads no gradient back to those."""

import dynascope
import pytest
import torch

WITHIN = {
    "a row": lambda x: x[1].as_strided((2,), (1,)),
    "windows": lambda x: x.view(-1).as_strided((5, 4), (2, 1)),
    "of the transposed": lambda x: x.t().as_strided((2,), (1,), 0)[1:],
    "of the repeated": lambda x: x.expand(2, *x.shape).as_strided((2,), (1,), 0)[1:],
}
BEYOND = {
    "from another row": lambda x: x[1].as_strided((2,), (1,), 0),
    "into the next row": lambda x: x.unbind(0)[0].as_strided((6,), (1,)),
    "computed with": lambda x: x[1].as_strided((2,), (1,), 0) * 3,
    "viewed again": lambda x: x[1:].as_strided((2,), (1,), 0).view(2, 1),
}


def gradient(function, is_leaf):
    leaf = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_()
    result = function(leaf if is_leaf else leaf * 1)
    (result * torch.arange(1.0, 1 + result.numel()).view(result.shape)).sum().backward()
    return result, leaf.grad


@pytest.mark.compiler
@pytest.mark.parametrize("is_leaf", [True, False])
@pytest.mark.parametrize("what", WITHIN | BEYOND)
def test_gradients_come_back_to_the_view_s_own_elements(what, is_leaf):
    function = (WITHIN | BEYOND)[what]
    with dynascope.expected("foreign-call", required=what in BEYOND):
        found = gradient(dynascope.compile(function), is_leaf)
    torch.testing.assert_close(found, gradient(function, is_leaf))


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("number", [lambda x: 1, lambda x: x.argmax().item()])
def test_what_a_part_reaches_beyond_is_there(number):
    def program(x):
        part = (x + number(x)).narrow(0, 0, 1)
        part.as_strided((2,), (1,))
        return part

    x = torch.ones(4, requires_grad=True)
    with dynascope.expected("data-dependent-value", required=False):
        torch.testing.assert_close(dynascope.compile(program)(x), program(x))


@pytest.mark.compiler
def test_a_gradient_that_comes_to_a_part_of_another():
    """A state that is written step by step, transposed, and leaves as a result: what its gradient is cut from lies in another's memory."""
    torch.manual_seed(0)
    layer = torch.nn.Linear(4, 4).double()  # gradients of one are sums of larger ones

    def program(x):
        hidden = layer(x).transpose(1, 2)
        states, state = torch.zeros_like(hidden), torch.zeros(2, 4, dtype=torch.float64)
        for at in range(hidden.shape[2]):
            state = 0.5 * state + hidden[:, :, at]
            states[:, :, at] = state
        return (states.transpose(1, 2) * 2).sum(-1), state

    found = []
    for function in (dynascope.compile(program), program):
        rows, _ = function(torch.linspace(-1, 1, 40, dtype=torch.float64).view(2, 5, 4))
        found.append(torch.autograd.grad(rows.square().sum(), list(layer.parameters())))
    torch.testing.assert_close(*found)


SCATTERED = {
    "every other element": lambda: torch.arange(12)[::2],
    "a part of each row": lambda: torch.arange(12).view(3, 4)[:, 1:],
    "the transposed": lambda: torch.arange(12).view(4, 3).t(),
}


@pytest.mark.compiler
@pytest.mark.parametrize("make", SCATTERED.values(), ids=SCATTERED)
@pytest.mark.parametrize("of", [lambda x: x, lambda x: x[1:]], ids=["all", "the rest"])
def test_elements_between_those_of_an_input_that_is_written(make, of):
    """They are not the input's own, whose new value lies densely until it is written back."""

    def program(x):
        rest = of(x)
        x[0].mul_(5)
        return rest.as_strided((2,), (1,)) + 0

    with dynascope.expected("foreign-call", "operator-failed", required=False):
        compiled = dynascope.compile(program)
        for _ in range(2):
            ours, theirs = make(), make()
            assert torch.equal(compiled(ours), program(theirs))
            assert torch.equal(ours, theirs)


@pytest.mark.compiler
def test_nothing_is_read_of_what_is_empty():
    """The strides of an empty tensor span elements that it does not have: eager's own error."""

    def program(x):
        return x.as_strided((2,), (1,)) * 2

    empty = torch.ones(3, 0).t()
    for function in (program, dynascope.compile(program)):
        with dynascope.expected("operator-failed", required=False), pytest.raises(RuntimeError, match="out of bounds for storage"):
            function(empty)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_view_that_nobody_reads_reaches_no_further(device, rows):
    """Also on a GPU this is seen at once, whose errors about values come later."""

    def program(x, met):
        try:
            x.as_strided((2,), (1,))
        except RuntimeError:
            met.append("beyond")
        return x + 1

    compiled = dynascope.compile(program, backend="eager")
    x = torch.ones(rows, 1, device=device).expand(rows, 4)
    ours, eagers = [], []
    with dynascope.expected("operator-failed", "exception-caught", "call-that-raises", required=False):
        compiled(x, ours)
    program(x, eagers)
    assert ours == eagers == ["beyond"] * (rows < 2)
