"""`out=`: the tensor that is given holds the result and is returned, also where an operator is made of others."""

import dynascope
import pytest
import torch

A, B = torch.rand(3, 3, generator=torch.Generator().manual_seed(0)) + torch.eye(3), torch.arange(9.0).view(3, 3)
PROGRAMS = {
    "add": lambda out: torch.add(A, B, out=out),
    "matmul": lambda out: torch.matmul(A, B, out=out),
    "kron": lambda out: torch.kron(A, B[:1, :1], out=out),
    "rank": lambda out: torch.linalg.matrix_rank(A.expand(3, 3, 3, 3), out=out),
    "cat": lambda out: torch.cat([A[:1], B[1:]], out=out),
    "index_select": lambda out: torch.index_select(A, 0, torch.tensor([2, 0, 0]), out=out),
    "cumsum, twice": lambda out: torch.cumsum(torch.cumsum(A, 0, out=out), 1, out=out),
    "solve": lambda out: torch.linalg.solve(A, B, out=out),
    "stack": lambda out: torch.stack(list(A), 1, out=out),
}


REFUSED = ("kron", "rank", "solve")
NOT_SEEN = pytest.mark.expects("unsupported-mutation")
"""What such an operator writes to `out` is not seen through the operators that it is made of."""
CASES = [
    *(pytest.param(name, "eager") for name in PROGRAMS),
    *(
        pytest.param(name, "dynascope", marks=[pytest.mark.compiler, *([NOT_SEEN] if name in REFUSED else [])])
        for name in PROGRAMS
    ),
]


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "part", "made inside"])
@pytest.mark.parametrize("name, backend", CASES)
def test_out(name, layout, backend):
    def program(out):
        out = out.clone() if layout == "made inside" else out
        before = out * 2
        return PROGRAMS[name](out) is out, out + 1, before

    def given():
        dtype = torch.int64 if name == "rank" else torch.float32
        out = torch.full((3, 3), 7, dtype=dtype)
        return {"transposed": lambda: out.t(), "part": lambda: torch.full((4, 6), 7, dtype=dtype)[1:, ::2]}.get(
            layout, lambda: out
        )()

    compiled = dynascope.compile(program, backend=backend)
    for _ in range(2):
        ours, theirs = given(), given()
        mine, other = compiled(ours), program(theirs)
        assert mine[0] and other[0]
        torch.testing.assert_close((*mine[1:], ours), (*other[1:], theirs))


INTO_AN_OPERAND = {
    "cat": lambda x: torch.cat([x], out=x),
    "index_select": lambda x: torch.index_select(x, 0, torch.tensor([2, 1, 0]), out=x),
    "take": lambda x: torch.take(x, torch.arange(8, -1, -1).view(3, 3), out=x),
    "bmm": lambda x: torch.bmm(x[None], x[None], out=x[None]),
    "softmax": lambda x: torch.softmax(x, 0, out=x),
    "tril": lambda x: torch.tril(x, out=x),
    "add": lambda x: torch.add(x, 1, out=x),
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", INTO_AN_OPERAND)
def test_into_the_memory_of_an_operand(name):
    """Eager refuses it where another order of elements would count, or its order counts."""

    def outcome(function):
        x = B / 7
        try:
            function(x)
        except RuntimeError as error:
            return str(error)
        return x.tolist()

    program = INTO_AN_OPERAND[name]
    ours, theirs = outcome(dynascope.compile(program)), outcome(program)
    assert ours == theirs if isinstance(theirs, str) else torch.allclose(torch.tensor(ours), torch.tensor(theirs))


OF_THE_RESULTS_TYPE = {
    "a sum": lambda: torch.sum(LARGE, 0, out=torch.empty(2)),
    "a sum of all but NaN": lambda: torch.nansum(LARGE, 0, out=torch.empty(2)),
    "running sums": lambda: torch.cumsum(LARGE, 0, out=torch.empty(300, 2)),
    "a product": lambda: torch.prod(LARGE.int(), 0, out=torch.empty(2)),
    "running products": lambda: torch.cumprod(LARGE.int(), 0, out=torch.empty(300, 2)),
    "a mean": lambda: torch.mean(LARGE, 0, out=torch.empty(2)),
    "in another type than the result's": lambda: torch.sum(LARGE, 0, dtype=torch.half, out=torch.empty(2)),
}
LARGE = torch.full((300, 2), 300, dtype=torch.half)


@pytest.mark.compiler
@pytest.mark.may_break
@pytest.mark.parametrize("name", OF_THE_RESULTS_TYPE)
def test_computed_in_the_type_of_the_result(name):
    """Half precision holds no 90,000, int32 no 300 ** 300: torch converts before it adds."""

    def outcome(function):
        try:
            return function().tolist()
        except RuntimeError as error:
            return str(error)

    program = OF_THE_RESULTS_TYPE[name]
    assert outcome(dynascope.compile(program)) == outcome(program)
