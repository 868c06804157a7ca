"""Python's own functions and operators on tensors of every kind: the same value, or the same error, as in plain Python."""

import builtins
import math
import operator

import dynascope
import pytest
import torch
from dynascope.command.explain import codes

DEFECTS = {"internal-failure", "engine-error", "guard-raises", "guard-fails-at-once", "kernels-not-built"}
TENSORS = {
    "floats": lambda: torch.tensor([1.0, 2.5]),
    "a number": lambda: torch.tensor(2),
    "one in a row": lambda: torch.tensor([3]),
    "a float": lambda: torch.tensor(2.5),
    "truth values": lambda: torch.tensor([True, False]),
    "nothing": lambda: torch.ones(0, 2),
}
ONE_ARGUMENT = (
    "abs all any ascii bin bool bytes callable chr complex enumerate float format hex int iter len list max min oct ord range repr "
    "reversed round set sorted str sum tuple type zip"
)
FUNCTIONS = {
    **{name: getattr(builtins, name) for name in ONE_ARGUMENT.split()},
    **{f"math.{name}": getattr(math, name) for name in ("ceil", "floor", "trunc", "sqrt", "isnan", "fsum", "prod", "exp", "factorial")},
    **{f"operator.{name}": getattr(operator, name) for name in ("index", "neg", "pos", "invert", "not_", "truth", "length_hint")},
    "round to one place": lambda x: round(x, 1),
    "round by name": lambda x: round(x, ndigits=1),
    "divmod": lambda x: divmod(x, 2),
    "divmod by it": lambda x: divmod(7, x),
    "pow of three": lambda x: pow(x, 2, 3),
    "a range to it": lambda x: [*range(x)],
    "a list's item": lambda x: [1, 2, 3, 4][x],
    "a text's item": lambda x: "abcd"[x],
    "a list's part": lambda x: [1, 2, 3][:x],
    "+ a text": lambda x: x + "a",
    "< a text": lambda x: x < "a",
    "== nothing": lambda x: (x == None, x != "a"),  # noqa: E711
    "@ a number": lambda x: x @ 2,
    "and": lambda x: (x and 1, x or 2),
    "not": lambda x: not x,
    "<< a number": lambda x: (3 << x, x << 1),
    "& a float": lambda x: x & 3.5,
    "a number less it": lambda x: (3 - x, 3 / x, 3 // x, 3 % x),
    "a number beyond all": lambda x: x + 2**70,
    "a float beyond": lambda x: 1e40 * x,
    "in it": lambda x: (1 in x, 7.0 in x),
    "starred": lambda x: [*x, *x],
    "text": lambda x: "%s" % x,  # noqa: UP031
    "a number's text": lambda x: "%d" % x,  # noqa: UP031
    "by a name": lambda x: x["a"],
    "by a float": lambda x: x[1.5],
    "by truth": lambda x: x[True],
    "too deep": lambda x: x[0, 0],
    "no such attribute": lambda x: x.foo,
    "a key": lambda x: {x: 1}[x],
    "a list of it": lambda x: [x] * 2,
    "keywords of it": lambda x: dict(**x),
}


def told(function, x):
    try:
        return plain(function(x)), x.tolist()
    except Exception as error:
        return type(error), str(error), x.tolist()


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, str(value.tolist())
    if isinstance(value, (list, tuple)):
        return type(value), [plain(each) for each in value]
    if hasattr(value, "__next__"):
        return type(value), [plain(each) for each in value]
    if isinstance(value, set):
        return len(value)
    return type(value), str(value)


@pytest.mark.parametrize("kind", TENSORS)
def test_as_in_python(kind):
    different = {}
    with dynascope.expected(*set(codes()) - DEFECTS, required=False):
        for name, function in FUNCTIONS.items():
            theirs = told(function, TENSORS[kind]())
            ours = told(dynascope.compile(lambda x, called=function: called(x), backend="eager"), TENSORS[kind]())
            if ours != theirs:
                different[name] = theirs, ours
    assert different == {}


@pytest.mark.parametrize("kind", TENSORS)
def test_what_is_no_number_equals_no_tensor(kind):
    def program(x, size):
        others = [None, "a", b"", int, [1], (1, 2), size, {"a": x}, {1}, frozenset({1}), torch.float32, torch.device("cpu"), program]
        return [x == each for each in others], [each != x for each in others], x in [None, "a", x], x == None or x + 1  # noqa: E711

    x = TENSORS[kind]()
    compiled = dynascope.compile(program, backend="eager", fullgraph=True)
    assert plain(compiled(x, x.shape)) == plain(program(x, x.shape))


@pytest.mark.parametrize("start", ["", b"", 3])
@pytest.mark.parametrize("items", [[], [1], ["a"]])
def test_a_sum_of_strings_is_refused_before_it_is_begun(items, start):
    def program(x):
        try:
            return str(sum(items, start)), x + 1
        except TypeError as error:
            return str(error), x + 1

    x = torch.ones(1)
    assert dynascope.compile(program)(x)[0] == program(x)[0]
