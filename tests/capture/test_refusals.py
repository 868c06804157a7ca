"""Calls that plain PyTorch refuses on real tensors and accepts on meta tensors: compiled, they raise the same error too."""

import operator
from collections.abc import Callable

import dynascope
import pytest
import torch
from dynascope.capture.calls import refusals
from dynascope.capture.calls.overlaps import are_lookups_of_one_table, writes_unevenly
from dynascope.capture.calls.refusals import check_types, is_harmless
from torch.nn import functional as F


def ones(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    return torch.ones(sizes or (3,), dtype=dtype)


f32, f64, i64, i32, boolean, c64 = torch.float32, torch.float64, torch.int64, torch.int32, torch.bool, torch.complex64
REFUSED: dict[str, tuple[Callable, tuple]] = {
    "mode of nothing": (lambda x: x.mode(-1)[0].zero_(), (ones(f32, 0),)),
    "searchsorted of bool": (lambda x: torch.searchsorted(x, x).clamp_(-1, 1), (ones(boolean, 2, 3),)),
    "float - True": (lambda x: x - True, (ones(f32),)),
    "True - float": (lambda x: True - x, (ones(f32),)),
    "float.__sub__(True)": (lambda x: x.__sub__(True), (ones(f32),)),
    "int.__ipow__": (lambda x: x.__ipow__(-1), (ones(i64),)),
    "tanhshrink of bool": (lambda x: F.tanhshrink(x), (ones(boolean),)),
    "softsign of bool": (lambda x: F.softsign(x), (ones(boolean),)),
    "einsum of bool": (lambda x: torch.einsum("ij,jk->ik", x, x), (ones(boolean, 3, 3),)),
    "float - bool": (lambda x, y: x - y, (ones(f32), ones(boolean))),
    "sub_": (lambda x: x.clone().sub_(True), (ones(f32),)),
    "alpha": (lambda x: torch.add(x, 1, alpha=True), (ones(i64),)),
    "negative power": (lambda x: x**-1, (ones(i64),)),
    "softmax of int": (lambda x: x.softmax(0), (ones(i64),)),
    "gelu of int": (lambda x: F.gelu(x), (ones(i64),)),
    "silu of int": (lambda x: F.silu(x), (ones(i64),)),
    "& of floats": (lambda x, y: x & y, (ones(f32), ones(f32))),
    "gcd of floats": (lambda x, y: x.gcd(y), (ones(f64), ones(f64))),
    "float.__iand__(int)": (lambda x: x.clone().__iand__(2), (ones(f32),)),
    "float.__ror__(int)": (lambda x: x.__ror__(2), (ones(f32),)),
    "softmax into int": (lambda x: x.softmax(0, dtype=torch.int32), (ones(f32),)),
    "& of float": (lambda x: x & True, (ones(f32),)),
    "mixed matmul": (lambda x, y: x @ y, (ones(f32, 3, 3), ones(f64, 3, 3))),
    "mixed linear": (lambda x, y: F.linear(x, y), (ones(f32, 3, 3), ones(f64, 3, 3))),
    "mixed convolution": (lambda x, y: F.conv1d(x, y), (ones(f32, 1, 3, 3), ones(f64, 1, 3, 3))),
    "floats as an index": (lambda x, i: x.index_select(0, i).view(99), (ones(f32, 3, 3), ones(f32, 2))),
    "floats to gather by": (lambda x, i: x.gather(0, i).view(99), (ones(f32, 3, 3), ones(f32, 3, 3))),
    "floats as a mask": (lambda x, m: x.masked_fill(m, 2.0).view(99), (ones(f32, 3, 3), ones(f32, 3, 3))),
    "floats as places": (lambda x, i: F.embedding(i, x).view(99), (ones(f32, 3, 3), ones(f32, 2))),
    "index_add": (lambda x, i, y: x.index_add(0, i, y), (ones(f32, 3, 3), ones(i64, 2), ones(f64, 2, 3))),
    "index_put": (lambda x, i, y: x.index_put((i,), y), (ones(f32, 3, 3), ones(i64, 2), ones(f64, 2, 3))),
    "complex <": (lambda x: x < 1, (ones(c64),)),
    "complex max": (lambda x: x.max(), (ones(c64),)),
    "cross entropy": (lambda x, y: F.cross_entropy(x, y), (ones(f32, 3, 4), ones(i32))),
    "int var": (lambda x: x.var(), (ones(i32),)),
    "bool relu": (lambda x: x.relu(), (ones(boolean),)),
    "bool @": (lambda x, y: x @ y, (ones(boolean, 3, 3), ones(boolean, 3, 3))),
    "bool.mul_(float)": (lambda x: x.clone().mul_(2.0), (ones(boolean),)),
    "bool argmax": (lambda x: x.argmax(), (ones(boolean),)),
    "attention of int": (lambda x: F.scaled_dot_product_attention(x, x, x), (ones(i32, 2, 2),)),
    "elu of int": (lambda x: F.elu(x), (ones(i64),)),
    "bool abs": (lambda x: x.abs(), (ones(boolean),)),
    "uint16": (lambda x: x + 1, (ones(torch.uint16),)),
    "bool avg_pool1d": (lambda x: F.avg_pool1d(x, 2), (ones(boolean, 3, 4),)),
    "rand_like of bytes": (lambda x: torch.rand_like(x), (ones(torch.uint8, 3),)),
    "bool einsum": (lambda x: torch.einsum("ij,kj->ik", x, x), (ones(boolean, 3, 4),)),
    "float embedding": (lambda i, x: F.embedding(i, x).view(99), (ones(f32), ones(f32, 2, 3))),
    "complex max(dim)": (lambda x: x.max(0), (ones(c64, 2, 3),)),
    "float8": (lambda x: x + 1, (ones(torch.float8_e4m3fn),)),
    "expanded add_": (lambda x: x.clone().expand(3).add_(1), (ones(f32, 1),)),
    "shifted add_": (lambda x: x.clone()[1:].add_(x[:-1]) + (y := x.clone())[1:].add_(y[:-1]), (ones(f32),)),
    "softmax of no such dimension": (lambda x: torch.softmax(x, 7), (ones(f32, 2, 3),)),
    "softmax of no such dimension by name": (lambda x: x.softmax(dim=-3), (ones(f32, 2, 3),)),
    "log_softmax of no such dimension": (lambda x: F.log_softmax(x, 2), (ones(f32, 2, 3),)),
    "a bias wider than the product": (lambda *each: F.linear(*each), (ones(f32), ones(f32, 2, 3), ones(f32, 4, 2))),
    "lists of several lengths": (lambda x: x + torch.tensor([[1], [2, 3]]), (ones(f32),)),
    "a number beside a list": (lambda x: torch.as_tensor([[1, 2], 3]), (ones(f32),)),
    "a number beyond its type": (lambda x: x + torch.tensor([300], dtype=torch.uint8), (ones(f32),)),
    "a number beyond all types": (lambda x: torch.tensor([2**70]), (ones(f32),)),
    "a list in new_tensor": (lambda x: x.new_tensor([[1], [2, 3]]), (ones(f32),)),
    "transposed add_": (lambda x: (y := x.clone()).add_(y.t()), (ones(f32, 3, 3),)),
}

REFUSED["index_add_ of itself"] = (lambda x: (y := x.clone()).index_add_(0, torch.tensor([0, 0]), y[:2]), (ones(f32, 3, 3),))
REFUSED["scatter_ of itself"] = (lambda x: (y := x.clone()).scatter_(0, torch.zeros(3, 3, dtype=torch.int64), y), (ones(f32, 3, 3),))
REFUSED["rows set to all of itself"] = (lambda x, i: operator.setitem(y := x.clone(), i, y), (ones(f32, 3, 3), torch.tensor([2, 0, 1])))
REFUSED["listed rows set to all of itself"] = (lambda x: operator.setitem(y := x.clone(), [2, 0, 1], y), (ones(f32, 3, 3),))
REFUSED["places set by themselves"] = (lambda i: operator.setitem(j := i.clone(), j, 0), (torch.tensor([2, 0, 1]),))
REFUSED["index_put_ of itself"] = (lambda i: (j := i.clone()).index_put_((j,), j), (torch.tensor([2, 0, 1]),))

OVERLAPS = ("overlapping-write",)
BREAKS = dict.fromkeys(["expanded add_", "shifted add_", "transposed add_"], OVERLAPS)
BREAKS |= {name: OVERLAPS for name in REFUSED if "itself" in name or "themselves" in name}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, arguments = REFUSED[name]

    def caught(*arguments):
        try:
            return "result", function(*arguments)
        except Exception as error:
            return type(error), str(error)

    expected = caught(*arguments)
    assert expected[0] != "result", "plain PyTorch accepts it now"
    with dynascope.expected(*BREAKS.get(name, ())):
        assert dynascope.compile(caught, backend="eager")(*arguments) == expected
        with pytest.raises(expected[0]):
            dynascope.compile(function, backend="eager")(*arguments)


REFUSED_BACKWARD: dict[str, tuple[Callable, tuple]] = {
    "mse_loss": (lambda x, y: F.mse_loss(x, y), (ones(f32), ones(torch.bfloat16))),
    "huber_loss of ints": (lambda x, y: F.huber_loss(x, y), (ones(f32), ones(i64))),
    "logaddexp of bools": (lambda x, y: torch.logaddexp(x, y).sum(), (ones(f64), ones(boolean))),
}


@pytest.mark.parametrize("name", REFUSED_BACKWARD)
def test_refused_in_the_backward_pass(name):
    """By some versions of torch: a gradient there, an error in the others."""
    function, (x, *others) = REFUSED_BACKWARD[name]
    outcomes = []
    for called in (function, dynascope.compile(function)):
        leaf = x.clone().requires_grad_()
        with dynascope.expected("unusual-types", required=False):
            loss = called(leaf, *others)
        try:
            loss.backward()
            outcomes.append(leaf.grad.tolist())
        except RuntimeError as error:
            outcomes.append(str(error))
    assert outcomes[0] == pytest.approx(outcomes[1])


PLACES = (range(2), (range(2), slice(0, None)), ((0, 1), (1, 0)), (0, range(2)), [0, 1], (slice(0, 2), 1), 0)


@pytest.mark.parametrize("dtype", [f32, i64], ids=str)
@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.may_break
def test_places_say_whether_what_is_written_there_is_converted(places, dtype):
    """Torch converts where numbers and slices say the part, and refuses where it makes a tensor of the places."""

    def written(x, y):
        x = x.clone()
        x[places] = y
        return x

    outcomes = []
    for function in (written, dynascope.compile(written)):
        try:
            outcomes.append(function(ones(i64 if dtype is f32 else f32, 2, 2), ones(dtype, 2) * 3).tolist())
        except RuntimeError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


LOSSES = (F.huber_loss, F.soft_margin_loss, F.binary_cross_entropy_with_logits, F.smooth_l1_loss, F.mse_loss, F.l1_loss)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("types", [(torch.bfloat16, f32), (f32, torch.bfloat16), (f64, torch.float16)], ids=str)
def test_types_of_results_are_the_real_kernels(loss, types):
    """Of operands of two types some kernels make another type than torch's meta kernels say."""
    x, y = (torch.full((2, 3), 0.5, dtype=dtype) for dtype in types)
    with dynascope.expected("unusual-types", required=False):
        assert dynascope.compile(loss, backend="eager")(x, y).dtype == loss(x, y).dtype


def test_usual_types_are_not_tried():
    x = torch.arange(6).reshape(2, 3)

    def function(x):
        y = (x.float() * (x > 2)).sum() + x.remainder(4)
        z = torch.where(x % 2 == 0, y.double(), -1.5).masked_fill(x > 4, 0)
        return z, x.bool() | (y < 1), x[x[0] % 2], x.cumsum(0), y.half() * 2, F.one_hot(x, 6)

    compiled = dynascope.compile(function, backend="eager", fullgraph=True)
    for ours, theirs in zip(compiled(x), function(x), strict=True):
        torch.testing.assert_close(ours, theirs)


PARTS: dict[str, Callable] = {
    "no such part": lambda x: torch.select_scatter(x, torch.ones(len(x)), 0, 2),
    "no such part from the end": lambda x: torch.select_scatter(x, torch.ones(len(x)), dim=1, index=-3),
    "no such dimension": lambda x: x.select_scatter(torch.ones(len(x)), 2, 0),
    "another shape": lambda x: x.select_scatter(torch.ones(1), 0, 1),
    "another slice": lambda x: torch.slice_scatter(x, torch.ones(1, len(x)), 0, 0, 2),
    "a slice of another dimension": lambda x: x.slice_scatter(torch.ones(len(x), 1), dim=1, start=1, end=4, step=1),
    "as it is": lambda x: (x.select_scatter(x[1] * 2, 1, -1), x.slice_scatter(x[:1] * 2, start=-1)),
}


@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("name", PARTS)
def test_parts_that_tensors_are_written_into(name, backend):
    """However large the tensor is that the program was compiled for first."""
    function = PARTS[name]

    def outcome(function, rows):
        try:
            return [each.tolist() for each in torch.utils._pytree.tree_leaves(function(torch.ones(rows, rows)))]
        except Exception as error:
            return type(error), str(error)

    for order in ((2, 3, 4, 5, 2), (5, 6, 7, 2, 3, 4)):
        compiled = dynascope.compile(function, backend=backend)
        for rows in order:
            assert outcome(compiled, rows) == outcome(function, rows)


X = torch.empty(4, 6, device="meta")


@pytest.mark.parametrize(
    ("written", "operand", "answer"),
    [
        (X, X, False),
        (X, X.view(4, 6), False),
        (X[:, :3], X[:, 3:], False),
        (X[:, 3:], X[:, :3], False),
        (X[:2], X[2:], False),
        (X[::2], X[1::2], False),
        (X[:, :4], X[:, 2:], True),
        (X[1:], X[:-1], True),
        (X[:4, :4], X[:4, :4].t(), True),
        (X, X[0], True),
        (X, torch.empty(4, 6, device="meta"), False),
        (X[:0], X, False),
    ],
)
def test_overlap(written, operand, answer):
    assert writes_unevenly(written, [operand]) == answer


def test_a_wrapped_second_is_not_beside():
    flat = torch.empty(24, device="meta")
    assert writes_unevenly(flat.as_strided((3, 2), (4, 1)), [flat.as_strided((2, 2), (4, 1), 3)])


@pytest.mark.parametrize(
    "function", [torch.linalg.ldl_solve, torch.lu_solve, torch.lu_unpack, torch._C._nn.pad_sequence]
)
def test_operators_that_follow_their_operands_are_not_tried(function):
    """Pivots count from one: LAPACK's row exchanges with a row nought would write outside of their matrix."""
    assert not is_harmless(function)


@pytest.mark.parametrize("sizes", [(4,), (0,)], ids=["some", "none"])
def test_what_stops_a_gpu_for_good_is_not_tried_there(sizes, monkeypatch):
    """Of zeros there are fewer repeats than the program says, which a kernel asserts: after that the GPU answers nothing."""
    tried = []
    monkeypatch.setattr(refusals._Trial, "run", lambda trial, **_: tried.append(trial) or [])
    monkeypatch.setattr(refusals, "_tried", {})
    x, repeats = torch.empty(sizes, device="meta"), torch.empty(sizes, dtype=torch.long, device="meta")
    check_types(torch.repeat_interleave, (x, repeats), {"dim": 0, "output_size": 6}, torch.device("cuda"))
    check_types(torch.multinomial, (x.half(), 2), {}, torch.device("cuda"))
    assert not tried


SHIFTS = {
    "by a row": lambda y: y.__setitem__(slice(1, None), y[:-1]),
    "copied": lambda y: y[1:].copy_(y[:-1]),
    "added": lambda y: y[1:].add_(y[:-1]),
    "by a number": lambda y: y.__setitem__(slice(y.shape[0] - 1), y[1:]),
}


@pytest.mark.may_break
@pytest.mark.parametrize("name", SHIFTS)
def test_what_lies_apart_for_some_sizes_alone(name):
    """Of two rows one is written and the other read; of three the two overlap, which torch refuses before it comes to the leaf."""

    def program(x, leaf):
        y = x * 2
        SHIFTS[name](y)
        leaf.fill_(1)

    compiled = dynascope.compile(program, dynamic=True)
    for rows, words in ((2, "a leaf Variable"), (3, "single memory location"), (2, "a leaf Variable"), (4, "single memory location")):
        for function in (program, compiled):
            with pytest.raises(RuntimeError, match=words):
                function(torch.ones(rows, 4), torch.ones(3, requires_grad=True))


@pytest.mark.parametrize("is_set", [True, False])
def test_what_lies_apart_for_all_sizes_is_one_graph(is_set):
    def program(x):
        y = x * 2
        half = y.shape[1] // 2
        if is_set:
            y[:, :half] += y[:, half:]
        else:
            y[:, :half].add_(y[:, half:])
        return y

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = dynascope.compile(program, backend=backend, dynamic=True)
    for sizes in ((4, 6), (5, 8), (7, 20)):
        x = torch.rand(sizes)
        assert torch.equal(compiled(x), program(x))
    assert len(graphs) == 1


def count_pairs(matrix, pairs):
    for row, column in pairs:
        matrix[row, column] += 1


def move_rows(matrix, pairs):
    for to, of in pairs:
        matrix[to] = matrix[of]


def move_columns(matrix, pairs):
    for to, of in pairs:
        matrix[:, to] = matrix[:, of]


@pytest.mark.expects("varying-number")  # the library writes
@pytest.mark.parametrize("change", [count_pairs, move_rows, move_columns])
def test_what_data_look_up_in_one_table_is_one_place_or_two(change):
    """Which rows these are only the run knows; they never overlap in part, so that no graph ends there."""

    def program(pairs):
        matrix = torch.arange(16.0).reshape(4, 4)
        change(matrix, pairs)
        return matrix

    compiled = dynascope.compile(program)
    for pairs in ([[1, 2], [2, 2], [0, 1]], [[0, 0], [3, 0], [0, 3]], [[-1, 3], [3, -4], [2, 1]]):
        assert torch.equal(compiled(torch.tensor(pairs)), program(torch.tensor(pairs)))


@pytest.mark.parametrize(
    "lookup, holds",
    [
        (lambda table, n: table[n, 2], True),
        (lambda table, n: table[0, n], True),
        (lambda table, n: table[n, :2], False),
        (lambda table, n: table.t()[n, 2], False),
        (lambda table, n: (table * 2)[n, 2], False),
        (lambda table, n: table.view(16)[n], False),
    ],
)
def test_lookups_of_one_table(lookup, holds):
    graph = torch.fx.Graph()
    named = [graph.placeholder("table"), graph.placeholder("n")]
    table = torch.empty(4, 4, device="meta")

    class Described(torch.fx.Interpreter):
        def run_node(self, n):
            n.meta["example_value"] = super().run_node(n)
            return n.meta["example_value"]

    graph.output(lookup(*map(torch.fx.Proxy, named)).node)
    Described(torch.fx.GraphModule({}, graph)).run(table, 3)
    found = next(iter(graph.find_nodes(op="output"))).args[0]
    assert are_lookups_of_one_table(table, (named[1], 1), table[3, 1], found) is holds


def test_lookups_of_a_table_that_lies_on_itself():
    """Rows three apart of four elements each."""
    graph = torch.fx.Graph()
    table, n = graph.placeholder("table"), graph.placeholder("n")
    row = graph.call_function(operator.getitem, (table, n))
    table.meta["example_value"] = torch.empty(20, device="meta").as_strided((4, 4), (3, 1))
    row.meta["example_value"] = table.meta["example_value"][0]
    assert not are_lookups_of_one_table(table.meta["example_value"], n, row.meta["example_value"], row)
