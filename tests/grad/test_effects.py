"""Operators that are there for what they do: errors they raise, generators they advance, whether or not a result is read."""

from __future__ import annotations

import dynascope
import pytest
import torch

SINGULAR, NEGATIVE = torch.zeros(2, 2), -torch.eye(2)
RAISING = {
    "inv": (torch.linalg.inv, SINGULAR),
    "inverse": (torch.inverse, SINGULAR),
    "matrix power": (lambda a: torch.linalg.matrix_power(a, -2), SINGULAR),
    "tensorinv": (lambda a: torch.linalg.tensorinv(a, 1), SINGULAR),
    "solve": (lambda a: torch.linalg.solve(a, torch.ones(2)), SINGULAR),
    "cholesky": (torch.linalg.cholesky, NEGATIVE),
    "cholesky method": (lambda a: a.cholesky(), NEGATIVE),
    "lu_factor": (torch.linalg.lu_factor, SINGULAR),
    "eigvalsh of nan": (torch.linalg.eigvalsh, SINGULAR * float("nan")),
    "assert": (lambda a: torch._assert_async((a > 0).all()), SINGULAR),
    "assert with a message": (lambda a: torch._assert_async((a > 0).all(), "not positive"), SINGULAR),
    "index": (lambda a: a[torch.tensor([5])], SINGULAR),
    "embedding": (lambda a: torch.nn.functional.embedding(torch.tensor([5]), a), SINGULAR),
}


def error_of(function, *arguments):
    try:
        function(*arguments)
    except Exception as error:
        return type(error), str(error).splitlines()[0]
    return None


def test_an_error_without_a_derivative():
    def program(a):
        return a + 1, torch.linalg.ldl_factor(a * 1)

    for backend in ("dynascope", "eager"):
        assert error_of(dynascope.compile(program, backend=backend), SINGULAR) == error_of(program, SINGULAR)


@pytest.mark.expects("operator-failed")
def test_an_operator_without_a_derivative():
    def program(a):
        return a + 1, torch.linalg.ldl_factor(a * 1)

    given = SINGULAR.clone().requires_grad_()
    assert error_of(dynascope.compile(program), given) == error_of(program, given)


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", RAISING)
def test_errors_of_what_is_used(name, requires_grad, backend):
    function, given = RAISING[name]

    def program(a):
        result = function(a * 1)
        return a + 1, result

    compiled = dynascope.compile(program, backend=backend)
    given = given.clone().requires_grad_(requires_grad)
    for _ in range(2):
        assert error_of(compiled, given) == error_of(program, given)
    good = torch.eye(2) + 1
    if "index" not in name and name != "embedding":
        expected = error_of(program, good.requires_grad_(requires_grad))
        assert error_of(compiled, good) == expected and (expected is None or "now removed" in expected[1])


CHECKED = [name for name in RAISING if name not in ("index", "embedding", "cholesky method", "eigvalsh of nan")]
"""Those whose check is an operator of its own. That of others is part of their kernel, which is left out with the result."""


@pytest.mark.parametrize("name", CHECKED)
def test_errors_of_what_is_not_used(name):
    function, given = RAISING[name]

    def program(a):
        function(a)
        return a + 1

    assert error_of(dynascope.compile(program), given) == error_of(program, given)


def test_errors_in_a_backward_pass():
    def program(a):
        return torch.linalg.det(a), torch.linalg.inv(a + torch.eye(2)).sum()

    a = torch.zeros(2, 2, requires_grad=True)
    x, y = dynascope.compile(program)(a)
    (x + y).backward()
    b = torch.zeros(2, 2, requires_grad=True)
    sum(program(b)).backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_a_write_through_a_view_whose_gradient_is_a_part_of_another():
    def program(x):
        part = x.clone()
        part.t().mul_(0.5)
        return torch.stack([x, part]).mean(0)

    given = torch.rand(4, 5, requires_grad=True)
    dynascope.compile(program)(given).sum().backward()
    assert torch.equal(given.grad, torch.full((4, 5), 0.75))


PHASES = {
    "eig": lambda x: torch.linalg.eig(x).eigenvectors,
    "eigh": lambda x: torch.linalg.eigh(x + x.mH).eigenvectors,
    "svd": lambda x: torch.linalg.svd(x).U,
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", PHASES)
def test_a_loss_that_depends_on_a_phase_is_refused(name):
    """Complex vectors are given but for a phase, and eager's backward pass looks at the tangents for it."""
    program, compiled = PHASES[name], dynascope.compile(PHASES[name])
    x = torch.randn(3, 3, dtype=torch.complex64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    found = []
    for function in (program, compiled):
        (invariant,) = torch.autograd.grad(function(x).abs().sin().sum(), x)
        with pytest.raises(RuntimeError, match="phi"):
            torch.autograd.grad(function(x).real.sum(), x)
        found.append(invariant)
    torch.testing.assert_close(*found)


EMPTY = {
    "max": lambda x: x.max(0)[0],
    "min": lambda x: x.min(0),
    "median": lambda x: x.median(0).values,
    "mode": lambda x: x.mode(0).indices,
}


@pytest.mark.parametrize("name", EMPTY)
def test_one_of_no_elements_is_refused_though_nobody_reads_it(name):
    compiled = dynascope.compile(lambda x: (EMPTY[name](x), x * 2)[1])
    assert compiled(torch.ones(2, 2)).tolist() == [[2, 2], [2, 2]]
    with pytest.raises(IndexError, match="non-zero size"):
        compiled(torch.ones(0, 2))


@pytest.mark.may_break
def test_the_first_call_that_is_refused_draws_no_numbers_twice():
    """What kernels refuse by its type is refused in the first call; a mask had been drawn by then."""

    def f(x):
        mask = torch.nn.functional.dropout(torch.ones(3))
        return torch.nn.functional.scaled_dot_product_attention(x, x, x), mask

    found = []
    for function in (f, dynascope.compile(f)):
        torch.manual_seed(0)
        with pytest.raises(RuntimeError) as raised:
            function(torch.ones(2, 3, dtype=torch.int32))
        found.append((str(raised.value), torch.rand(2).tolist()))
    assert found[0] == found[1]


def test_one_of_no_elements_is_refused_though_it_is_written_over():
    def f(x):
        y = x.min()
        y.tanh()  # nobody reads it
        y.normal_()
        return y

    compiled = dynascope.compile(f)
    assert compiled(torch.ones(3)).shape == ()
    with pytest.raises(RuntimeError, match="min"):
        compiled(torch.ones(0))


@pytest.mark.compiler
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("cut", [lambda t: t[3:4, 1:], lambda t: t[3:6], lambda t: t.view(-1)[7:27].view(4, 5)])
def test_a_write_by_strides_to_what_was_cut_from_larger_memory(cut, dtype):
    """It is counted from where the input begins: the first elements of the whole storage were written to, and the input was not."""

    def f(x):
        x.as_strided((2, 2), (1, 2)).mul_(3)
        x.as_strided((2,), (1,)).add_(1)
        return x * 2

    compiled, found = dynascope.compile(f), []
    for function in (f, compiled):
        whole = torch.arange(60.0).view(10, 6).to(dtype)
        found.append((function(cut(whole)), whole))
    for ours, theirs in zip(*found[::-1], strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.may_break
@pytest.mark.parametrize("function", [torch.unique, torch.unique_consecutive])
def test_complex_numbers_are_refused_though_nobody_reads_what_is_found(function):
    """How many are found is known only when it runs, but that complex numbers have no order is known before."""

    def program(a):
        function(a)
        return a + 1

    given = torch.ones(3, dtype=torch.complex64)
    assert error_of(dynascope.compile(program), given) == error_of(program, given)
