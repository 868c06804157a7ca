"""Every ordinary use of an int: at most two compilations for twelve values, and eager's results at each.

What makes as many tensors as the number says, or a text of it, is compiled for each, as it must be.
"""

import math

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope import captured_graphs, graph_compiler
from dynascope.grad import DifferentiationRefused, differentiate
from kept_graphs import kept_in

pytestmark = pytest.mark.turns(3)


def assigned(x, n):
    y = x.clone()
    y[:n] = n
    y[n] = 0
    return y


def cached(x, n):
    cache = torch.zeros(24)
    cache[n] = x[n]
    return cache


def rounds(x, n):
    for _ in range(n):
        x = x * 2 + 1
    return x


class Holder:
    pass


def held(x, n):
    holder = Holder()
    holder.length = n
    return x[: holder.length] * holder.length


def halved(x, n):
    while n > 3:
        n = n // 2
        x = x + n
    return x


USES = {
    "half": lambda x, n: x * (n // 2),
    "number squared": lambda x, n: x * n**2,
    "tensor to the power": lambda x, n: x**n,
    "number to the tensor": lambda x, n: n**x,
    "slice": lambda x, n: x[:n] * 2,
    "slice of four times": lambda x, n: x[: 4 * n],
    "slice from": lambda x, n: x[n:] * 2,
    "slice from the end": lambda x, n: x[-n:] * 2,
    "slice step": lambda x, n: x[::n] * 2,
    "index": lambda x, n: x[n] * 2,
    "math.sqrt": lambda x, n: x * math.sqrt(n),
    "math.log": lambda x, n: x * math.log(n),
    "math.sin": lambda x, n: x * math.sin(n),
    "math.ceil": lambda x, n: x * math.ceil(n / 3),
    "arange": lambda x, n: torch.arange(n) + 1,
    "arange from one": lambda x, n: torch.arange(1, n + 1, dtype=torch.float32) * 2,
    "clamp": lambda x, n: x.clamp(max=n),
    "clamp from both sides": lambda x, n: x.clamp(min=n / 12, max=n),
    "masked_fill": lambda x, n: x.masked_fill(x > 0.5, n),
    "float": lambda x, n: x * float(n),
    "view": lambda x, n: x[: n * 2].view(n, -1) + 1,
    "view with the number last": lambda x, n: x[: n * 2].view(-1, n) + 1,
    "reshape": lambda x, n: x[: n * 4].reshape(2, n, 2).sum(1),
    "expand": lambda x, n: x[:, None].expand(24, n) * 2,
    "repeat": lambda x, n: x.repeat(n) * 2,
    "zeros": lambda x, n: torch.zeros(n, 3) + x[:3],
    "full": lambda x, n: torch.full((3,), n) + 1,
    "as many twos": lambda x, n: torch.full((n,), 2.0) + 1,
    "eye": lambda x, n: torch.eye(n) * 2,
    "ones": lambda x, n: torch.ones(n).sum() * x,
    "tensor": lambda x, n: x * torch.tensor(n),
    "tensor list": lambda x, n: torch.tensor([n, 2 * n]) + 1,
    "divide": lambda x, n: x / n,
    "mod": lambda x, n: x % n,
    "floordiv": lambda x, n: x // n,
    "remainder of the number": lambda x, n: x + n % 3,
    "roll": lambda x, n: x.roll(n) * 2,
    "pad": lambda x, n: F.pad(x, (n, n)) * 2,
    "topk": lambda x, n: x.topk(n)[0] * 2,
    "narrow": lambda x, n: x.narrow(0, 2, n) * 2,
    "linspace": lambda x, n: torch.linspace(0, 1, n) * 2,
    "triu": lambda x, n: torch.ones(5, 5).triu(n) * 2,
    "diagonal": lambda x, n: x.view(4, 6).diagonal(n - 4) * 2,
    "diagonal of a square": lambda x, n: torch.arange(576.0).view(24, 24).diagonal(n) * 2,
    "add alpha": lambda x, n: torch.add(x, x, alpha=n),
    "slice of at most five": lambda x, n: x[: min(n, 5)] * 2,
    "slice of at least five": lambda x, n: x[: max(n, 5)] * 2,
    "round": lambda x, n: x * round(n / 3),
    "int": lambda x, n: x * int(n * 1.5),
    "bool": lambda x, n: x * 2 if n else x,
    "returned": lambda x, n: (x * 2, n, n + 1),
    "compare": lambda x, n: x > n,
    "where": lambda x, n: torch.where(x > 0, x, n),
    "unflatten": lambda x, n: x[: 2 * n].unflatten(0, (n, 2)) * 2,
    "as_strided": lambda x, n: x.as_strided((n, 2), (1, 1)) * 2,
    "cumsum": lambda x, n: x.cumsum(0)[n - 1] * 2,
    "item assign": lambda x, n: torch.zeros(24).index_fill(0, torch.tensor([0]), n),
    "assigned": lambda x, n: assigned(x, n),
    "leaky": lambda x, n: F.leaky_relu(x, n / 10),
    "one_hot": lambda x, n: F.one_hot(torch.tensor([0]), n) * 2,
    "one_hot summed": lambda x, n: (F.one_hot(torch.tensor([0]), n) + 1).sum(),
    "interpolate": lambda x, n: F.interpolate(x.view(1, 1, 24), size=n) * 2,
    "avg_pool": lambda x, n: F.adaptive_avg_pool1d(x.view(1, 1, 24), n) * 2,
    "pool": lambda x, n: F.avg_pool1d(x.view(1, 1, 24), n) * 2,
    "unfold": lambda x, n: x.unfold(0, n, 1) * 2,
    "unfold by steps": lambda x, n: x.unfold(0, 2, n) * 2,
    "columns by steps": lambda x, n: torch.arange(48.0).view(2, 24)[:, ::n] + x[0],
    "divided evenly": lambda x, n: torch.arange(27720.0).view(n, -1) + x[0],
    "divided evenly, last": lambda x, n: torch.arange(27720.0).reshape(-1, n) + x[0],
    "unflatten evenly": lambda x, n: torch.arange(27720.0).unflatten(0, (n, -1)) + x[0],
    "groups": lambda x, n: F.group_norm(torch.arange(2 * 27720.0).view(2, 27720), n),
    "average of windows": lambda x, n: F.avg_pool2d(torch.arange(576.0).view(1, 1, 24, 24), n) * 2,
    "largest of windows": lambda x, n: F.max_pool2d(torch.arange(576.0).view(1, 1, 24, 24), n) * 2,
    "largest of windows by one": lambda x, n: F.max_pool2d(torch.arange(576.0).view(1, 1, 24, 24), n, 1) * 2,
    "matmul of views": lambda x, n: x[: 2 * n].view(2, n) @ x[: 2 * n].view(n, 2),
    "shift": lambda x, n: x * (n << 1) + (1 << n),
    "bitand": lambda x, n: x * (n & 3),
    "neg": lambda x, n: x * -n,
    "abs": lambda x, n: x * abs(n - 5),
    "divmod": lambda x, n: x * divmod(n, 5)[0],
    "while": lambda x, n: halved(x, n),
    "isinstance": lambda x, n: x * n if isinstance(n, int) else x,
    "root of the number": lambda x, n: x * n**0.5,
    "root below one": lambda x, n: x * n**-0.5,
    "power of two": lambda x, n: x * 2**n,
    "norm": lambda x, n: x.norm(p=n),
    "quantile": lambda x, n: x.quantile(n / 12),
    "sum dim": lambda x, n: x.view(4, 6).sum(dim=n % 2, keepdim=True),
    "select": lambda x, n: x.select(0, n) * 2,
    "softmax temp": lambda x, n: F.softmax(x / n, 0),
    "scatter": lambda x, n: x.scatter(0, torch.tensor([1]), float(n)),
    "new_full": lambda x, n: x.new_full((n, 2), n),
    "tril_indices": lambda x, n: torch.tril_indices(n, n),
    "triu_indices": lambda x, n: torch.triu_indices(n, n) + 1,
    "randperm": lambda x, n: torch.randperm(n).sort()[0],
    "meshgrid": lambda x, n: torch.meshgrid(torch.arange(n), torch.arange(3), indexing="ij")[0] + 1,
    "lerp": lambda x, n: torch.lerp(x, x + 1, n / 12),
    "addmm": lambda x, n: torch.addmm(x.view(4, 6), x.view(4, 6), torch.eye(6), alpha=n),
    "branch": lambda x, n: x * n if n > 3 else x - n,
    "branch on a remainder": lambda x, n: x * n if n % 2 == 0 else x - n,
    "one of some": lambda x, n: x * n if n in (3, 4) else x,
    "columns from": lambda x, n: GRID[:, n:] + 1,
    "window": lambda x, n: GRID[:, n : n + 2] + 1,
    "column": lambda x, n: GRID[:, n] + 1,
    "row of some": lambda x, n: GRID[n % 3] + 1,
    "sum of the first": lambda x, n: GRID[:n].sum(),
    "cumsum of the first": lambda x, n: GRID[:n].cumsum(0),
    "rolled rows": lambda x, n: GRID.roll(n, 0) * 2,
    "repeated rows": lambda x, n: GRID.repeat(n, 1) + 1,
    "repeat_interleave": lambda x, n: GRID.repeat_interleave(n, 0),
    "expanded in front": lambda x, n: GRID[None].expand(n, 24, 24) + 1,
    "tril": lambda x, n: GRID.tril(n) + 1,
    "triangle of ones": lambda x, n: torch.ones(n, n).tril() + 1,
    "mask of a triangle": lambda x, n: torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(1) > 0, -1.0),
    "kthvalue": lambda x, n: GRID.kthvalue(n)[0] * 2,
    "conv stride": lambda x, n: F.conv2d(IMAGES, IMAGES[:, :, :2, :2], stride=n),
    "conv padding": lambda x, n: F.conv2d(IMAGES, IMAGES[:, :, :2, :2], padding=n),
    "conv dilation": lambda x, n: F.conv2d(IMAGES, IMAGES[:, :, :2, :2], dilation=n),
    "conv1d padding": lambda x, n: F.conv1d(GRID[None], GRID[:2, :, None], padding=n),
    "channels of a convolution": lambda x, n: F.conv2d(IMAGES[:, :n], IMAGES[:2, :n, :2, :2]),
    "outputs of a layer": lambda x, n: F.linear(GRID, GRID[:n]),
    "heads": lambda x, n: torch.arange(27720.0).view(1, n, -1).transpose(1, 2) + 1,
    "window of largest": lambda x, n: F.max_pool1d(GRID[None], n) * 2,
    "lp_pool": lambda x, n: F.lp_pool2d(IMAGES, 2, n),
    "unfolded images": lambda x, n: F.unfold(IMAGES, n) + 1,
    "adaptive_max_pool": lambda x, n: F.adaptive_max_pool2d(IMAGES, n) + 1,
    "upsampled": lambda x, n: F.interpolate(IMAGES, size=(n, 2 * n), mode="bilinear") + 1,
    "hann_window": lambda x, n: torch.hann_window(n) + 1,
    "diag_embed": lambda x, n: torch.diag_embed(x, n) + 1,
    "diag": lambda x, n: torch.diag(x, n) + 1,
    "variance": lambda x, n: GRID.var(1, correction=n),
    "bits shifted": lambda x, n: torch.arange(5) << n,
    "pixel_shuffle": lambda x, n: F.pixel_shuffle(torch.ones(1, 3600, 2, 2), n) + 1,
    "pixel_unshuffle": lambda x, n: F.pixel_unshuffle(torch.zeros(1, 1, 27720, 1).expand(1, 1, 27720, 27720)[:, :, :n, :n], n),
    "length in an attribute": lambda x, n: held(x, n),
    "length in a dictionary": lambda x, n: x[: {"length": n}["length"]] * 2,
    "sizes as a list": lambda x, n: torch.zeros([n, 3]).expand([2, n, 3]) + 1,
    "range of it summed": lambda x, n: x * (n * (n + 1) // 2),
    "log of two": lambda x, n: x * math.log2(n),
    "formatted": lambda x, n: (x * 2, n if n > 0 else 0),
    "position": lambda x, n: x + torch.sin(torch.tensor(float(n))),
    "learning rate": lambda x, n: x - 0.1 / math.sqrt(n) * x,
    "bias correction": lambda x, n: x / (1 - 0.9**n),
    "warm-up": lambda x, n: x * min(1.0, n / 5),
    "cosine schedule": lambda x, n: x * 0.5 * (1 + math.cos(math.pi * n / 12)),
    "causal offset": lambda x, n: (torch.arange(4)[:, None] + n >= torch.arange(12)[None]).float() + 1,
    "cache filled": lambda x, n: cached(x, n),
    "slice assigned": lambda x, n: cached(x * 2, n)[: n + 1] + 1,
    "list": lambda x, n: torch.stack([x] * n),
    "list of columns": lambda x, n: torch.stack(n * [x.view(4, 6).t()], dim=-1),
    "list of two": lambda x, n: torch.cat([x, x.double() * 2] * (n + 1)).mean() + torch.stack(tensors=[x[:2]] * n).sum(0)[0],
}
PARTS = {
    "list of a loop": lambda x, n: torch.stack([x * i for i in range(n)]),
    "rounds": lambda x, n: rounds(x, n),
    "chunk": lambda x, n: [part + 1 for part in x.chunk(n)],
    "first chunk": lambda x, n: x.chunk(n)[0] + 1,
    "split": lambda x, n: [part + 1 for part in x.split(n)],
    "first of the split": lambda x, n: x.split(n)[0] + 1,
    "tensor_split": lambda x, n: [part + 1 for part in x.tensor_split(n)],
    "unbind": lambda x, n: [part + 1 for part in GRID[:n].unbind(0)],
    "rows": lambda x, n: sum(row.sum() for row in GRID[:n]),
    "diff": lambda x, n: GRID.diff(n) + 1,
    "matrix_power": lambda x, n: torch.matrix_power(GRID / 300, n),
}
"""The number says how many tensors there are, or how many steps: a graph holds as many. What torch.compile makes of them is in
`bench/RESULTS.md`."""
DIFFERENT_PARTS = {"split": 8, "first of the split": 8}
"""Numbers that give equally many parts share a graph."""
MORE = {"slice of four times": 3, "pixel_shuffle": 6, "branch": 3, "branch on a remainder": 3, "one of some": 4, "while": 4, "reshape": 3}
MORE |= {"matmul of views": 3, "norm": 3}
"""An entry for each side, or for where it does not run."""
X = torch.arange(24.0) / 10
GRID = torch.arange(576.0).view(24, 24) / 10
IMAGES = torch.arange(2.0 * 12 * 24 * 24).view(2, 12, 24, 24) / 1000


@pytest.mark.parametrize("name", USES)
def test_twelve_values(name):
    made = []
    compare(name, kept_in(made), range(1, 13))
    assert 0 < len(made) <= MORE.get(name, 2)


@pytest.mark.parametrize("name", PARTS)
def test_as_many_as_there_are_parts(name):
    made = []
    compare(name, kept_in(made), range(1, 13))
    assert 0 < len(made) <= DIFFERENT_PARTS.get(name, 12)


DIFFERENTIATED = ["slice", "slice from the end", "index", "math.log", "math.sin", "quantile", "lerp", "narrow", "zeros", "clamp"]
DIFFERENTIATED += ["slice step", "columns by steps", "unfold by steps", "divided evenly", "divided evenly, last", "unflatten evenly"]
DIFFERENTIATED += ["groups", "average of windows", "largest of windows", "largest of windows by one", "tril_indices", "triu_indices"]
DIFFERENTIATED += ["unfolded images"]
DIFFERENTIATED += ["list", "list of columns", "list of two"]
DIFFERENTIATED += ["matmul of views", "norm"]  # not at the first number: the next ones are tried too
DIFFERENTIATED += ["slice of at least five", "slice of four times", "conv padding", "window of largest", "upsampled"]
DIFFERENTIATED += ["diagonal of a square", "one_hot", "one_hot summed", "pool", "avg_pool", "unflatten", "view", "reshape"]


BOUNDED = {"slice of four times": 1, "reshape": 1, "norm": 1}
"""Graphs more in a mixed order: for where it is cut and where not, for where it does not run."""
MIXED = [5, 7, 12, 11, 10, 9, 8, 6, 4, 3, 2, 1]


@pytest.mark.parametrize("numbers", [range(1, 13), MIXED], ids=["upwards", "mixed"])
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_twelve_values_through_our_own_stages(name, numbers, monkeypatch):
    """Which ask torch at several values, and have to find a form for what it says."""
    made = []

    def compile_graph(graph, inputs, options, region, clock):
        try:
            differentiate(graph, list(inputs))
        except DifferentiationRefused as refused:
            raise graph_compiler.NumberNeeded(graph_compiler._positions(graph, refused.reason.inputs)) from refused
        made.append(graph)
        return graph_compiler.CompiledGraph(graph.forward, graph)

    monkeypatch.setattr(captured_graphs, "compile_graph", compile_graph)
    compare(name, "dynascope", numbers)
    assert 0 < len(made) <= MORE.get(name, 2) + (numbers is MIXED) * (1 + BOUNDED.get(name, 0))


@pytest.mark.parametrize("numbers", [range(1, 13), MIXED], ids=["upwards", "mixed"])
@pytest.mark.parametrize("name", ["split", "first of the split", "chunk", "first chunk"])
def test_equally_many_parts_share_a_graph_through_our_own_stages(name, numbers, monkeypatch):
    """There are 24, 12, 8, 6, 5, 4, 3 or 2 parts; a last part that is as long as the others is no case of its own."""
    made, compile_graph = [], captured_graphs.compile_graph

    def counted(*arguments):
        made.append(compile_graph(*arguments))
        return made[-1]

    monkeypatch.setattr(captured_graphs, "compile_graph", counted)
    compare(name, "dynascope", numbers)
    assert 0 < len(made) <= 8


KERNELS = ["index", "view", "reshape", "narrow", "unfold", "assigned", "power of two", "select", "tensor list", "slice"]
KERNELS += ["columns by steps", "divided evenly", "average of windows", "tril_indices", "list", "list of two"]


@pytest.mark.compiler
@pytest.mark.parametrize("name", KERNELS)
def test_in_kernels(name):
    compare(name, "dynascope", (1, 2, 3, 7, 12, 13, 5))


@pytest.mark.compiler
@pytest.mark.parametrize("numbers", [range(1, 13), MIXED], ids=["upwards", "mixed"])
@pytest.mark.parametrize("name", ["tensor to the power", "columns by steps"])
def test_kernels_that_serve_twelve_values(name, numbers, monkeypatch):
    """Their formulas and strides are those of any of the values: 1 alone may have kernels of its own."""
    made, compile_graph = [], captured_graphs.compile_graph

    def counted(*arguments):
        made.append(compile_graph(*arguments))
        return made[-1]

    monkeypatch.setattr(captured_graphs, "compile_graph", counted)
    compare(name, "dynascope", numbers)
    assert 0 < len(made) <= 2 + (numbers is MIXED)


def compare(name, backend, numbers):
    use = (USES | PARTS)[name]
    dynascope.reset()
    compiled = dynascope.compile(use, backend=backend, options={"recompile_limit": 16})
    for n in numbers:
        with dynascope.expected("torch-call-fails", "program-raises", required=False):
            theirs, ours = outcome(use, n), outcome(compiled, n)
        assert same(ours, theirs), f"{n}: {ours}, eager {theirs}"


def outcome(function, n):
    try:
        return function(X.clone(), n)
    except dynascope.StrictError:
        raise
    except Exception as error:
        return type(error)


def same(ours, theirs):
    if isinstance(theirs, torch.Tensor):
        facts = [(each.dtype, each.shape, each.stride()) for each in (ours, theirs)]
        counts = theirs.is_floating_point() and theirs.numel()
        largest = float(theirs.nan_to_num(0, 0, 0).abs().max()) if counts else 0.0  # sums of many elements round by it
        return facts[0] == facts[1] and torch.allclose(ours, theirs, atol=1e-8 + 1e-5 * largest, equal_nan=True)
    if isinstance(theirs, (tuple, list)):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and ours == theirs


WINDOWS = {
    "as wide": lambda x, n: F.unfold(x * 2, n).sin(),
    "one image": lambda x, n: F.unfold(x[0] * 2, n).sin(),
    "far apart": lambda x, n: F.unfold(x * 2, (2, 3), dilation=n, padding=n, stride=2).sin(),
    "by steps": lambda x, n: F.unfold(x * 2, 3, stride=n).sin(),
    "put back": lambda x, n: F.fold(F.unfold(x * 2, n, stride=n, padding=n // 2).sin(), (12, 12), n, stride=n, padding=n // 2),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_columns_of_windows_and_their_gradients(name, monkeypatch):
    """A graph for the first number, one for the others, one for where a quotient of it is none, one where steps leave one window."""
    program, made, compile_graph = WINDOWS[name], [], captured_graphs.compile_graph

    def compiled_graph(*arguments, **keywords):
        made.append(compile_graph(*arguments, **keywords))
        return made[-1]

    monkeypatch.setattr(captured_graphs, "compile_graph", compiled_graph)
    compiled = dynascope.compile(program)
    for n in (3, 2, 4, 5, 6, 12, 7):
        ours, theirs = (columns_and_gradient(each, n) for each in (compiled, program))
        for each, other in zip(ours, theirs, strict=True):
            assert (each.shape, each.stride()) == (other.shape, other.stride()), n
            torch.testing.assert_close(each, other, msg=lambda text, n=n: f"{n}: {text}")
    assert len(made) <= (4 if name == "by steps" else 3)


def columns_and_gradient(function, n):
    x = (torch.arange(2.0 * 3 * 12 * 12).view(2, 3, 12, 12) / 100).requires_grad_()
    columns = function(x, n)
    columns.sum().backward()
    return columns.detach(), x.grad


NOTHING_DONE = {
    "dropout": lambda x, p: F.dropout(x, p),
    "dropout in place": lambda x, p: F.dropout(x.clone(), p, inplace=True),
    "dropout of channels": lambda x, p: F.dropout1d(x[:, None], p),
    "alpha dropout": lambda x, p: F.alpha_dropout(x, p, training=True),
    "flatten": lambda x, p: x.flatten(int(p)),
}


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("name", NOTHING_DONE)
def test_a_call_that_does_nothing_for_one_number(name, backend):
    """It gives its operand back: for other numbers it does not."""
    program, x = NOTHING_DONE[name], torch.ones(8)
    compiled = dynascope.compile(program, backend=backend)
    for p in (0.5, 0.0, 1.0, 0.25, 0.0) if name != "flatten" else (0.0, -1.0, 0.5):
        torch.manual_seed(0)
        ours = compiled(x, p)
        torch.manual_seed(0)
        assert torch.equal(ours, program(x, p)), p


@pytest.mark.may_break
def test_a_number_in_a_list_of_places():
    """What is made a tensor of is a constant of the graph: it is the number at hand."""
    program, x = lambda x, n: x[[0, n]] * 2, torch.arange(8.0).view(4, 2)
    compiled = dynascope.compile(program)
    for n in (0, 3, 1, -1, 2):
        assert torch.equal(compiled(x, n), program(x, n)), n
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        compiled(x, 4)


def test_no_classes_at_all():
    compiled = dynascope.compile(lambda index, n: F.one_hot(index, n) + 1)
    with pytest.raises(RuntimeError, match="Class values must be smaller"):
        compiled(torch.tensor([0, 1]), 0)


FILLS = {
    "fill": lambda x, n: x.clone().fill_(n),
    "full": lambda x, n: torch.full_like(x, n),
    "masked fill": lambda x, n: x.masked_fill(x > 0, n),
    "write": lambda x, n: x.clone().__setitem__(0, n),
    "add": lambda x, n: x + n,
}


@pytest.mark.may_break
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("name", FILLS)
def test_a_number_that_the_type_does_not_hold(name, dtype):
    """What fills a tensor refuses it; what computes takes it."""
    program, x = FILLS[name], torch.tensor([1, 0, 3], dtype=dtype)
    for numbers in ((1, 2, 300, -300, 2**40, 3), (1.5, 2.5, 1e39, 70000.0, float("inf"), 1e38)):
        compiled = dynascope.compile(program, options={"recompile_limit": 30})
        for n in numbers:
            ours, theirs = outcome_of(compiled, x, n), outcome_of(program, x, n)
            assert ours == theirs, n


def outcome_of(function, x, n):
    try:
        result = function(x, n)
    except RuntimeError as error:
        return str(error)
    return None if result is None else (result.dtype, result.tolist())


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("from_tensor", [True, False])
def test_a_number_that_is_said_to_be_a_size(backend, from_tensor):
    def program(x, number):
        torch._check_is_size(number.item() if from_tensor else number)
        return x + 1

    compiled = dynascope.compile(program, backend=backend)
    for number in (3, 4, 5):
        assert compiled(torch.ones(2), torch.tensor(number) if from_tensor else number).tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="Expected cond to be True"):
        compiled(torch.ones(2), torch.tensor(-2) if from_tensor else -2)
