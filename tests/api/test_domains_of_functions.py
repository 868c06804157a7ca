"""Functions of numbers that have no answer, or one of another type, for some: errors and types are those of each call, read or not."""

import math

import dynascope
import pytest
import torch
import torch.nn.functional as F

X = torch.arange(12.0)
UNREAD = {
    "root": lambda n, m: math.sqrt(n),
    "logarithm": lambda n, m: math.log(n),
    "of one more": lambda n, m: math.log1p(n),
    "shifted": lambda n, m: 1 << n,
    "shifted back": lambda n, m: 64 >> n,
    "factorial": lambda n, m: math.factorial(n),
    "chosen": lambda n, m: math.comb(n, m),
    "exponential": lambda n, m: math.exp(n * 100),
    "reciprocal": lambda n, m: n**-1,
    "reciprocal by math": lambda n, m: math.pow(n, -1),
    "quotient": lambda n, m: n / m,
    "of a modulus": lambda n, m: math.fmod(n, m),
    "quotient and remainder": lambda n, m: divmod(n * 0.5, m * 0.5),
    "rounded": lambda n, m: round((n * 1e200) * (m * 1e150)),
    "integer": lambda n, m: int(m * 1e150 * (n * 1e200) * 0.5),
    "arc sine": lambda n, m: math.asin(n / 8),
}
READ = {
    "type of a power": lambda n, m: (type(n**m), type(2**n)),
    "kind of a root": lambda n, m: (type(n**0.5), type((n << 1) ** 0.5), isinstance((n * 0.5) ** (m * 0.25), float)),
    "whether it is real": lambda n, m: isinstance(n**0.5, float),
    "rounded up": lambda n, m: X + math.ceil((n * n).bit_length() % 2 / m),
    "begins where it is cut": lambda n, m: X[n + 4 :].shape[0],
    "far below": lambda n, m: torch.arange(n + 9).shape[0],
    "made and not read": lambda n, m: (torch.arange(n + 9), X + n)[1],
}
PAIRS = (
    [(3, 2), (5, 3), (4, -5), (1, -5), (-3, 2), (-7, 3), (0, 1), (-20, 3), (2, 0), (11, 2), (30, 2)],
    [(5, 4), (7, 3), (-1, -2), (-5, 2), (-8, -3), (-30, 4), (1, 5), (0, -1), (6, 2)],
    [(-1, 1), (-9, 2), (4, 3), (-2, -2), (-1, 0)],
)


def outcome(call, *arguments):
    try:
        return repr(call(*arguments))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.turns(6)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", [*UNREAD, *READ])
@pytest.mark.may_break
def test_each_call(name, dynamic):
    def program(x, n, m):
        if name in READ:
            return READ[name](n, m)
        UNREAD[name](n, m)
        return x * 2

    for pairs in PAIRS:
        for compile in (dynascope.aot, lambda f, dynamic: dynascope.compile(f, dynamic=dynamic, backend="eager")):
            compiled = compile(program, dynamic=dynamic)
            for pair in pairs:
                assert outcome(compiled, X, *pair) == outcome(program, X, *pair), pair


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("is_read", [True, False])
def test_no_size_is_below_zero(is_read, dynamic):
    def program(x, n):
        y = F.pad(x, (0, n))
        return y.shape if is_read else x * 2

    compiled = dynascope.compile(program, backend="eager", dynamic=dynamic)
    for size, n in ((6, 2), (5, 0), (4, -2), (4, -5), (3, 3), (5, -7)):
        x = torch.ones(4, size)
        assert outcome(compiled, x, n) == outcome(program, x, n), (size, n)
