"""NumPy inside what is compiled: NumPy's results, types and layouts, by torch's operations where they can be."""

import itertools
import math

import dynascope
import numpy as np
import pytest
import torch

X = torch.linspace(-2, 2, 12).view(3, 4)
FLOATS = np.linspace(0.25, 3, 12).reshape(3, 4)
TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")


def assert_alike(mine, theirs):
    assert type(mine) is type(theirs)
    if isinstance(theirs, (tuple, list)):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            assert_alike(one, other)
    elif isinstance(theirs, np.ndarray):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        assert [step for size, step in zip(mine.shape, mine.strides, strict=True) if size > 1 and mine.size] == [
            step for size, step in zip(theirs.shape, theirs.strides, strict=True) if size > 1 and theirs.size
        ]
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)
    elif isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(mine, theirs)
        assert mine.stride() == theirs.stride()
    elif isinstance(theirs, (str, np.dtype)):
        assert mine == theirs
    else:
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)


PROGRAMS = {
    "in the middle": lambda x, a: torch.from_numpy(np.abs(x.numpy()) + 1) * 2,
    "operators": lambda x, a: (a * 2 - 1, 1 / a, a**2, -a, a @ a.T, a > 1, (a > 1) & (a < 2), ~(a > 1), a + x.numpy()),
    "reductions": lambda x, a: (a.sum(), a.sum(0), np.mean(a, axis=1), a.max(axis=-1, keepdims=True), np.min(a), a.std(), np.var(a, 0)),
    "more reductions": lambda x, a: ((a > 1).any(), (a > 1).all(axis=0), a.argmax(), a.argmin(axis=1), np.cumsum(a), a.cumprod(axis=1)),
    "shapes": lambda x, a: (a.T, a.reshape(-1, 2), a.ravel(), a.flatten(), np.transpose(a), a[None], a.swapaxes(0, 1)),
    "one more dimension": lambda x, a: np.expand_dims(a, 1) * a[:, :, None].squeeze(2),
    "facts": lambda x, a: (a.shape, a.ndim, a.size, len(a), a.T.shape, a.itemsize),
    "items": lambda x, a: (a[0], a[1, 2], a[:, 1], a[::2], a[..., None], a[np.array([2, 0])], a[1:, :2].sum()),
    "joined with tensors": lambda x, a: (np.concatenate([a[0], [x[0, 0]]]), np.stack([a, x]), np.concatenate((x, a), axis=1)),
    "joined": lambda x, a: (np.stack([a, a * 2]), np.concatenate([a, x.numpy()], axis=1), np.where(a > 1, a, 0), np.clip(a, 0.5, 2)),
    "made": lambda x, a: (np.zeros((2, 3)) + a[:2, :3], np.ones(4, dtype=np.float32) * a, a + np.array([1, 2, 3, 4]), np.zeros_like(a)),
    "made of numbers": lambda x, a: (np.linspace(0, 1, 4) * a, a + np.arange(4), np.full((3, 4), 2.5) * a, a @ np.eye(4) + np.hanning(4)),
    "weights": lambda x, a: x * float(np.linspace(0, 1, 4).sum()) + torch.from_numpy(np.arange(4, dtype=np.float32)),
    "converted": lambda x, a: (a.astype(np.float32), a.astype(int), a.copy(), a.T.copy(), np.copy(a.T), x.numpy().astype("float64")),
    "into torch": lambda x, a: (torch.as_tensor(a), torch.as_tensor(a, dtype=torch.float32) + x, torch.tensor(a), torch.asarray(a) * 2),
    "numbers": lambda x, a: (x * float(np.mean(a)), x * a.sum(), x + int(a.argmax()), x * (a.max() - a.min())),
    "places in tensors": lambda x, a: (x[np.array([2, 0])], x[:, np.array([[1]])], x[np.array([0, 1]), np.array([3, 2], dtype=np.int32)]),
    "masks of tensors": lambda x, a: (x[np.array([True, False, True])], x[np.array([2, 1])] * 2),
    "rows": lambda x, a: sum(row * at for at, row in enumerate(a)),
    "functions of tensors": lambda x, a: (np.exp(x), np.maximum(x, 0.5), np.add(a, x), np.log(x[2, 3]), np.isfinite(x)),
    "more functions of tensors": lambda x, a: (np.matmul(x, a.T), np.square(x.long()), np.sqrt(x.long().abs())),
    "between places": lambda x, a: (np.interp(a, np.arange(0, 5), np.sqrt(np.arange(5)) * a[0, 0]), np.interp(1.5, np.arange(0, 4), a[0])),
    "beyond places": lambda x, a: np.interp(np.array([-1, 0, 2, 3, 4, np.nan, 2.5]), np.arange(0, 4), np.where(a[0] > 0.8, np.inf, a[0])),
    "backwards": lambda x, a: (np.flip(a), np.flip(a, 1) * 2, np.flip(a, axis=0)[1:], np.flip(a).copy(), np.flip(x.numpy()[0]) + 1),
    "repeated": lambda x, a: (a.repeat(2), np.repeat(a, 3, axis=1), np.repeat(x.numpy(), 2, 0)),
    "clipped": lambda x, a: (a.clip(max=1.5), np.clip(a, a_min=1, a_max=None), np.clip(a[0, 1], 0, 0.1)),
    "of rows of numbers": lambda x, a: (np.max([x.shape, (2, 9)], 0), np.cumsum([1, 2, 3]) * a[:, 0], np.mean([[1, 2], [3, 4]], axis=1)),
    "sizes of rows": lambda x, a: x.new_zeros((2, *[int(n) for n in np.max([x.shape, (2, 9)], axis=0)])),
    "numbers of mathematics": lambda x, a: (x * math.sqrt(a[0, 1]), math.log(a.max()), math.pow(a[0, 0], 2), math.gcd(np.arange(7)[6], 4)),
    "functions": lambda x, a: (np.sqrt(a), np.exp(a), np.log(a), np.tanh(a), np.arctan2(a, 2), np.maximum(a, 1), np.hypot(a, a)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_with_numpys_results(name):
    program = PROGRAMS[name]
    call = dynascope.compile(program, fullgraph=True)
    for scale in (1, 2):
        assert_alike(call(X * scale, FLOATS * scale), program(X * scale, FLOATS * scale))


OPERATORS = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b,
    "less": lambda a, b: a < b,
    "maximum": lambda a, b: np.maximum(a, b),
    "and": lambda a, b: a & b,
    "where": lambda a, b: np.where(a > 1, a, b),
}


VARYING = {
    "zeros": lambda x, n: np.zeros(n) + n,
    "ones of a shape": lambda x, n: np.ones((n, x.shape[0]), dtype=np.float32),
    "array": lambda x, n: np.array([n, 1.0]) * x.shape[0],
    "array of a shape": lambda x, n: np.array(x.shape),
    "array of a type": lambda x, n: np.array([n], dtype=np.int8),
    "array of rows": lambda x, n: np.array([[n, 1], [2, n]]),
    "linspace": lambda x, n: np.linspace(0, 1, n),
    "arange": lambda x, n: np.arange(n) + np.arange(0, x.shape[0], x.shape[0]),
    "full": lambda x, n: np.full(3, n),
    "size": lambda x, n: (x.numpy().size * n, np.ones((n, x.shape[0])).size, x.numpy()[0].size),
}


@pytest.mark.parametrize("name", VARYING)
def test_numbers_that_vary_vary_in_what_is_made_of_them(name):
    program = VARYING[name]
    call = dynascope.compile(program, dynamic=True)
    for size, n in ((3, 2), (5, 3), (7, 5), (7, 6)):
        x = torch.arange(float(size))
        assert_alike(call(x, n), program(x, n))


@pytest.mark.may_break
@pytest.mark.parametrize("name", OPERATORS)
def test_types_are_numpys(name):
    """Of pairs of types, of arrays and of Python's numbers: each operator asks for its own quarter of them."""
    program = OPERATORS[name]
    numbers = np.array([1, 2, 3, 5])
    call = dynascope.compile(program, dynamic=False, backend="eager")  # what is captured says the type
    pairs = list(itertools.product(TYPES, (*TYPES, int, float, bool)))
    for one, other in pairs[list(OPERATORS).index(name) % 4 :: 4]:
        a, b = numbers.astype(one), numbers[::-1].astype(other) if isinstance(other, str) else other(1)
        dynascope.reset()
        try:
            expected = program(a, b)
        except TypeError as error:
            with pytest.raises(TypeError, match=str(error)[:20]):
                call(a, b)
            continue
        assert_alike(call(a, b), expected)


def test_memory_is_shared_where_it_is_shared():
    def program(x, a):
        x.numpy()[0] = 7
        a += 1
        a[1, 2] = 5
        b = a[0]
        b *= 2
        torch.from_numpy(a).mul_(3)
        return b, torch.from_numpy(a)

    call = dynascope.compile(program)
    mine, theirs = [(X.clone(), FLOATS.copy()) for _ in range(2)]
    for _ in range(2):
        found, expected = call(*mine), program(*theirs)
        assert_alike(list(mine), list(theirs))
        assert_alike(found, expected)
        assert np.shares_memory(found[0], mine[1]) and found[1].data_ptr() == mine[1].ctypes.data


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_what_numpy_writes_autograd_does_not_count(backend):
    """So it goes back through what was kept, as it is by then."""

    def program(x):
        array = x.numpy()
        array[0] = 5.0
        array += 1
        return x * 2

    outcomes = []
    for function in (program, dynascope.compile(program, backend=backend, fullgraph=True)):
        x, weight = torch.ones(3), torch.ones(3, requires_grad=True)
        kept = (x * weight).sum()
        result = function(x)
        kept.backward()
        outcomes.append((result, x, weight.grad, torch.tensor(x._version)))
    for mine, theirs in zip(*outcomes, strict=True):
        assert torch.equal(mine, theirs)


def test_a_number_of_an_array_does_not_change_with_it():
    def program(a):
        first = a[0, 0]
        a[0, 0] = 9
        return first + 1, a[0, 0]

    assert_alike(dynascope.compile(program, fullgraph=True)(FLOATS.copy()), program(FLOATS.copy()))


def test_arrays_of_several_sizes_and_layouts():
    def program(a):
        return np.sin(a) * a.shape[0] + 1

    call = dynascope.compile(program)
    for a in (FLOATS, FLOATS[:2], FLOATS.T, FLOATS[:, ::2], FLOATS.astype(np.float32), FLOATS[::-1], np.asfortranarray(FLOATS)):
        with dynascope.expected("foreign-call", "foreign-value", "unsupported-attribute", required=False):
            assert_alike(call(a), program(a))


def test_an_item_of_the_arrays_own_type_is_set():
    def program(a):
        found, total = np.zeros_like(a), 0.0
        for at in reversed(range(len(a))):
            total = a[at] + 0.9 * total
            found[at] = total
        return found

    assert_alike(dynascope.compile(program)(FLOATS[0]), program(FLOATS[0]))


def test_of_what_requires_grad_without_gradients():
    """Where nothing is recorded eager takes its memory: inside `no_grad`, and in a custom function's forward pass."""
    weight = torch.arange(3.0, requires_grad=True)

    class Cubed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            array = x.numpy()
            ctx.save_for_backward(torch.from_numpy(3 * array**2))
            return torch.from_numpy(array**3)

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0]

    def program(x):
        with torch.no_grad():
            array = weight.numpy()
        return Cubed.apply(x) + torch.from_numpy(array)

    outcomes = []
    for call in (dynascope.compile(program, fullgraph=True), program):
        x = torch.arange(3.0, requires_grad=True)
        result = call(x)
        outcomes.append([result.detach(), *torch.autograd.grad(result.sum(), x)])
    torch.testing.assert_close(*outcomes)
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        dynascope.compile(lambda x: x + torch.from_numpy(weight.numpy()))(X)


@pytest.mark.expects("foreign-call")
def test_what_has_no_counterpart_is_one_break():
    def program(x):
        return torch.from_numpy(np.sinc(x.numpy() * 2)) + 1

    call = dynascope.compile(program)
    assert_alike(call(X), program(X))
    assert len(dynascope.explain(program, X).graphs) == 2


def test_errors_are_numpys():
    def program(a, b):
        return a @ b

    with pytest.raises(ValueError, match="matmul"), dynascope.expected("foreign-call", "program-raises", required=False):
        dynascope.compile(program)(FLOATS, FLOATS)

    def taken(x):
        return x.numpy() + 1

    with pytest.raises(RuntimeError, match="requires grad"), dynascope.expected("torch-call-fails", required=False):
        dynascope.compile(taken)(X.clone().requires_grad_())


FORMS = {
    "plain": lambda f, a: f(a),
    "first": lambda f, a: f(a, 0),
    "last": lambda f, a: f(a, -1),
    "beyond": lambda f, a: f(a, 2),
    "by name": lambda f, a: f(a, axis=1),
    "several": lambda f, a: f(a, axis=(0, 1)),
    "no axis": lambda f, a: f(a, axis=None),
    "a pair": lambda f, a: f(a, (1, 0)),
    "two numbers": lambda f, a: f(a, 1, 0),
    "one of them unknown": lambda f, a: f(a, -1, 2),
    "of no size": lambda f, a: f(a, 5, -1),
    "kept": lambda f, a: f(a, keepdims=True),
    "kept along one": lambda f, a: f(a, axis=1, keepdims=True),
    "in a type": lambda f, a: f(a, dtype="float32"),
    "in an order": lambda f, a: f(a, order="F"),
    "shaped in an order": lambda f, a: f(a, (4, 3), order="F"),
    "of its own": lambda f, a: f(a, a),
    "of its turned": lambda f, a: f(a, a.T),
    "of three": lambda f, a: f(a, a.T, a),
    "of a row": lambda f, a: f(a, a[0]),
    "of rows": lambda f, a: f(a[0], a[1]),
    "of a row and a matrix": lambda f, a: f(a[:, 0], a),
    "between": lambda f, a: f(a, 0.5, 2),
    "above": lambda f, a: f(a, 0.5, None),
    "above by name": lambda f, a: f(a, min=0.5, max=None),
    "of a number": lambda f, a: f(a.sum()),
    "of a number and more": lambda f, a: f(a.max(), 0),
    "of a list": lambda f, a: f([a[0], a[1]]),
    "of whole numbers": lambda f, a: f(a.astype(int)),
    "where": lambda f, a: f(a, where=a > 1),
    "from": lambda f, a: f(a, initial=2.0),
}  # fmt: skip
NAMES = ("sum", "mean", "prod", "max", "any", "std", "argmax", "cumsum", "reshape", "transpose", "swapaxes", "squeeze", "ravel", "copy",
         "clip", "dot")  # fmt: skip


def outcome(function, *given):
    try:
        return function(*given)
    except Exception as error:  # noqa: BLE001
        return type(error).__name__, str(error)


@pytest.mark.may_break
@pytest.mark.parametrize("name", NAMES)
def test_what_each_is_told_is_taken_as_numpy_takes_it(name):
    for form, program in FORMS.items():
        if (name, form) == ("clip", "where"):
            continue  # the others are memory that nobody has filled
        for function in (getattr(np, name), getattr(np.ndarray, name)):
            mine = outcome(dynascope.compile(lambda a, function=function, program=program: program(function, a), backend="eager"), FLOATS)
            theirs = outcome(program, function, FLOATS)
            if isinstance(theirs, tuple):
                assert mine == theirs, form
            else:
                assert_alike(mine, theirs)


@pytest.mark.may_break
@pytest.mark.parametrize(
    "program",
    [
        lambda x: np.array([x, x * 2]),
        lambda x: np.array([x.mean(), 1.0]),
        lambda x: np.array([[x[0], 1.0], [2.0, x[1]]]),
        lambda x: np.full((2, 3), x[:3]),
        lambda x: np.asarray((x + 1, x)),
        lambda x: np.array([torch.ones(2), torch.zeros(2)]),
    ],
)
def test_arrays_made_of_arrays(program):
    compiled = dynascope.compile(program, backend="eager")
    for x in (np.arange(3.0) + 2, np.arange(3.0) * 5, np.arange(4)[:3]):
        np.testing.assert_array_equal(compiled(x), program(x))


def test_arrays_made_of_parts_of_arrays():
    """NumPy is asked on ones what it gives: the contents of such an array are not what it answers."""

    def program(a):
        (one, other), row = a[0, :2], a[1]
        made = np.array((one * 2, other, 1, 2.5), dtype=np.float64)
        nested = np.array([[one, 1], [other, 2.5]]), np.array([row, row + 1])
        return made, *nested, np.asarray((one, 3), dtype=np.float32), np.array([one > 1, True])

    call = dynascope.compile(program, fullgraph=True)
    assert_alike(call(FLOATS), program(FLOATS))
    assert_alike(call(FLOATS * 3), program(FLOATS * 3))


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize(
    "program",
    [
        lambda a: np.array([a[0, 0], a[0, 1]], dtype=np.int64),
        lambda a: np.full((2,), fill_value=a[0, 0]),
        lambda a: np.linspace(0, stop=a[0, 1], num=3),
        lambda a: np.zeros((a.argmax(), 2)),
    ],
)
def test_arrays_of_numbers_that_only_the_run_knows_are_numpys(program):
    assert_alike(dynascope.compile(program)(FLOATS), program(FLOATS))


BACKWARDS = {
    "computed": lambda a: (a[::-1] * 2, a[::-1].cumsum()[::-1].copy(), len(a[::-1]), a[::-2].copy(), a[5:1:-2] + 1, a[::-1].max()),
    "as it is": lambda a: (a[::-1], a),
    "into torch": lambda a: (torch.from_numpy(a[::-1].copy()), torch.as_tensor(a[::-1].cumsum()[::-1].copy())),
    "items": lambda a: (a[::-1][0], [x for x in a[::-1]], a[::-1][1:3] * 2, a[::-1][:-1].copy()),  # noqa: C416
    "matrices": lambda a: (a.reshape(2, 3)[:, ::-1] + 0, a.reshape(2, 3)[::-1, ::-1] * 1, a.reshape(2, 3)[1, ::-1] - 1),
    "with others": lambda a: (np.where(a[::-1] > 0, a, a[::-1]), np.stack([a, a[::-1]]), np.concatenate([a[::-1], [1.0], a])),
    "rounded": lambda a: ((np.arange(0, 4) * 5).round()[::-1].copy().astype(np.int64), np.round(a), a.round()[::-1].astype(np.float32)),
    "of known elements": lambda a: np.interp(np.linspace(0, 2, 3)[::-1], np.arange(0, 3), np.array([1.0, 4.0, 9.0])),
}
ROW = np.linspace(-1, 2, 6)


@pytest.mark.parametrize("name", BACKWARDS)
def test_arrays_that_go_backwards(name):
    assert_alike(dynascope.compile(BACKWARDS[name], backend="eager", fullgraph=True)(ROW), BACKWARDS[name](ROW))


def test_an_array_that_goes_backwards_is_the_memory_of_the_other():
    def program(a):
        b = a[::-1]
        c = b + 1
        a[0] = 7
        return b, c

    ours, theirs = ROW.copy(), ROW.copy()
    found, expected = dynascope.compile(program, backend="eager", fullgraph=True)(ours), program(theirs)
    assert_alike(found, expected)
    assert_alike(ours, theirs)
    assert np.shares_memory(found[0], ours) and found[0].strides == expected[0].strides


def written(a):
    b = a[::-1]
    b[0] = 7
    return b


def read_when_the_other_was_written(a):
    b = a[::-1]
    a[0] = 7
    return b + 1, b


def written_in_place(a):
    b = a[::-1]
    b += 1
    return b


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("program", [written, read_when_the_other_was_written, written_in_place])
def test_writes_beside_an_array_that_goes_backwards_are_numpys(program):
    ours, theirs = ROW.copy(), ROW.copy()
    assert_alike(dynascope.compile(program, backend="eager")(ours), program(theirs))
    assert_alike(ours, theirs)


def test_a_loop_over_rewards():
    """Discounted returns, as scripts compute them."""

    def program(rewards):
        found, total = [], 0.0
        for reward in rewards[::-1]:
            total = reward + 0.9 * total
            found.insert(0, total)
        return torch.tensor(found, dtype=torch.float32), torch.tensor(found)

    assert_alike(dynascope.compile(program, fullgraph=True)(ROW), program(ROW))


def test_a_schedule_of_known_steps():
    """As samplers make it: numbers that only NumPy's arrays hold decide in the loop."""

    def program(x, count):
        steps = (np.arange(0, count) * (20 // count)).round()[::-1].copy().astype(np.int64)
        for step in torch.from_numpy(steps):
            if step - 5 >= 0:
                x = x + 1
            x = x * step
        return x

    assert_alike(dynascope.compile(program, backend="eager", fullgraph=True)(X, 4), program(X, 4))


def test_arrays_say_which_of_a_tensor_is_written():
    def program(x):
        y = x.clone()
        y[np.array([2, 0])] = 7.0
        y[np.array([False, True, False])] += x[0]
        return y

    assert torch.equal(dynascope.compile(program, fullgraph=True)(X), program(X))


def test_tokens_of_a_file_are_cut_and_converted():
    """Unsigned types that torch does not compute with are moved in the graph, and left to NumPy where they are computed with."""
    tokens = np.arange(60_000, 60_099, dtype=np.uint16)

    def batch(starts):
        return torch.stack([torch.from_numpy(tokens[i : i + 4].astype(np.int64)) for i in starts]), len(tokens)

    compiled = dynascope.compile(batch, fullgraph=True)
    for starts in ([0, 95], [5, 7]):
        assert_alike(compiled(torch.tensor(starts)), batch(torch.tensor(starts)))
    with dynascope.expected("foreign-call"):
        assert_alike(dynascope.compile(lambda: (tokens * 2, tokens[:3] + 1))(), (tokens * 2, tokens[:3] + 1))


def named(x, a):
    kinds = {np.dtype("float32"): 1, np.dtype(np.int64): 2}
    return x * kinds.get(a.dtype, 3), f"{a.dtype} {a.dtype.name}", a.dtype.itemsize


ABOUT_TYPES = {
    "compared with a class": lambda x, a: x + 1 if a.dtype == np.float32 else x - 1,
    "compared with a name": lambda x, a: x + 1 if a.dtype != "float32" else x - 1,
    "compared with another": lambda x, a: x + 1 if a.dtype == np.dtype("int64") else x - 1,
    "compared with Python's": lambda x, a: x + 1 if a.dtype == float else x - 1,
    "among several": lambda x, a: x + 1 if a.dtype in (np.int32, np.int64) else x - 1,
    "of a kind": lambda x, a: (np.issubdtype(a.dtype, np.floating), np.issubdtype(a.dtype, np.integer), a.dtype.kind, x + 1),
    "a key": named,
    "its limits": lambda x, a: x * float(np.finfo(a.dtype).eps) if a.dtype.kind == "f" else x * float(np.iinfo(a.dtype).max),
    "given back": lambda x, a: (a.dtype, np.dtype("uint8"), x + 1),
}  # fmt: skip


@pytest.mark.parametrize("name", ABOUT_TYPES)
def test_types_of_arrays_are_constants(name):
    program = ABOUT_TYPES[name]
    call = dynascope.compile(program, backend="eager", fullgraph=True)
    for kind in (np.float32, np.float64, np.int64, np.uint8, np.float32):
        assert_alike(call(X, np.ones(3, kind)), program(X, np.ones(3, kind)))


def test_a_type_of_an_array_that_is_kept_outside():
    def program(x):
        return x * 2 if holder.kind == np.float32 else x * 3

    class Holder:
        kind = np.dtype("float32")

    holder = Holder()
    call = dynascope.compile(program, backend="eager", fullgraph=True)
    assert torch.equal(call(X), X * 2)
    holder.kind = np.dtype("float64")
    assert torch.equal(call(X), X * 3)
    holder.kind = np.dtype("float32")
    assert torch.equal(call(X), X * 2)


@pytest.mark.expects("foreign-value")
def test_what_the_programs_class_says_of_types_is_asked_of_it():
    class Kind(type):
        @property
        def dtype(cls):
            asked.append(cls)
            return np.dtype("float32")

    class Mine(metaclass=Kind):
        pass

    asked = []
    call = dynascope.compile(lambda x, a: x + 1 if a.dtype == Mine else x - 1, backend="eager")
    for _ in range(2):
        assert torch.equal(call(X, FLOATS.astype(np.float32)), X + 1)
    assert len(asked) == 2


def checks_its_sizes(x, patch=(2, 2)):
    left = np.array(x.shape[1:]) % np.power(patch, 3) > 0
    if left.any():
        return x - float(left.sum())
    return x * 2


def test_a_branch_on_an_array_of_sizes_is_known():
    """The program goes another way by them: the sizes are then what they are in this call."""
    compiled = dynascope.compile(checks_its_sizes, fullgraph=True)
    for shape in ((1, 8, 16), (2, 8, 16), (1, 9, 16), (1, 9, 10), (3, 8, 8)):
        torch.testing.assert_close(compiled(torch.ones(shape)), checks_its_sizes(torch.ones(shape)))


@pytest.mark.expects("data-dependent-branch")
def test_a_branch_on_an_array_of_counts_is_asked_of_the_run():
    """Not so numbers that may be others in each call."""

    def program(x, step):
        return x * 2 if (np.array([step, 4]) > 3).all() else x

    compiled = dynascope.compile(program)
    for step in range(12):
        torch.testing.assert_close(compiled(torch.ones(2), step), program(torch.ones(2), step))


def test_lists_of_arrays_are_numbers_of_the_graph():
    def program(x):
        array = x.numpy() * 2
        known, drawn = (np.arange(4) ** 2).tolist(), np.random.choice(4, 3).tolist()
        kinds = [type(each) for each in (*known, *array.tolist(), *drawn)]
        return x[drawn] * known[2], known, drawn, array.tolist(), array[::-1].tolist(), array[1].tolist(), kinds

    compiled, x = dynascope.compile(program, fullgraph=True), torch.tensor([1.5, -2.0, 0.25, 4.0])
    for each in (x, x + 1):
        np.random.seed(0)
        expected = program(each)
        np.random.seed(0)
        found = compiled(each)
        torch.testing.assert_close(found[0], expected[0])
        assert found[1:] == expected[1:]


def windows(x, starts, kept):
    corners = np.asarray([each.flatten() for each in np.meshgrid(*starts, indexing="ij")]).T
    cut = [x[tuple(slice(at, at + 2) for at in corner)].sum() for corner in corners]
    return cut, [x[each] * 2 for each in kept], [type(each[0].start) for each in kept]


def test_slices_between_numpys_numbers():
    """Found outside, or made of arrays whose elements are known."""
    compiled, x = dynascope.compile(windows, fullgraph=True), torch.arange(24.0).view(6, 4)
    kept = [(slice(np.int64(0), np.int64(2)), slice(1, 3)), (slice(1, 3), slice(0, 2))]
    alike = [(slice(0, 2), slice(1, 3)), (slice(1, 3), slice(0, 2))]
    for each in (kept, alike, [*kept[::-1]]):
        assert_alike(compiled(x, [[0, 3], [0, 2]], each)[:2], windows(x, [[0, 3], [0, 2]], each)[:2])
        assert compiled(x, [[0, 3], [0, 2]], each)[2] == windows(x, [[0, 3], [0, 2]], each)[2]


def test_several_arrays_of_numbers():
    def program(x):
        one, other = np.meshgrid([0, 1, 2], [3, 4])
        one[0, 0] = 7
        return x + float(one.sum()), one, other

    compiled = dynascope.compile(program, fullgraph=True)
    for _ in range(2):
        assert_alike(compiled(torch.ones(2)), program(torch.ones(2)))
