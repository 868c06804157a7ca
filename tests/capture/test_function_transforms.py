"""`torch.func`: transformed functions are one node each, with eager's values and gradients."""

import dynascope
import pytest
import torch
from harness import compiled
from torch import func, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

torch.manual_seed(0)
X = torch.randn(4, 4)
LAYER = nn.Linear(4, 2)
NORMED = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.ReLU()).eval()
mapped_outside = torch.vmap(lambda row: row.sin() * row.sum())
jacobian_outside = func.jacrev(lambda t: t.sin() * t.sum())
jacobian_in_chunks = func.jacrev(lambda t: t.sin() * t.sum(), chunk_size=3)


def with_constants(row):
    return torch.cat([row, torch.zeros(2), torch.arange(2.0)])


def changes_its_own(row):
    made = row * 2
    made.add_(1)
    return made


def stops_gradients(a):
    with torch.no_grad():
        scale = a * 2
    return (a * scale).sum()


def loss_of(parameters, row):
    return func.functional_call(LAYER, parameters, (row,)).square().sum()


def value_and_pull(x):
    value, pull = func.vjp(lambda a: a.sin() * 2, x)
    return value, pull(torch.ones_like(x))[0]


def pulled_with_aux(x):
    value, pull, besides = func.vjp(lambda a, b: ((a * b).sin(), a + b), x, x * 2, has_aux=True)
    return value, pull(torch.ones_like(x)), besides


def without_recording(x):
    with torch.no_grad():
        return func.grad(lambda a: (a * a).sum())(x)


def with_closure(x):
    scale = x[0] * 2
    return torch.vmap(lambda row: row * scale + LAYER(row).sum())(x)


def steps_of_two(parameters, row):
    for _ in range(2):
        gradients = func.grad(loss_of)(parameters, row)
        parameters = {name: parameters[name] - 0.1 * gradients[name] for name in parameters}
    return loss_of(parameters, row)


PROGRAMS = {
    "vmap": lambda x: torch.vmap(lambda row: row.sin() * row.sum())(x * 2) + 1,
    "of a structure": lambda x: torch.vmap(lambda a, b: (a @ b, {"sum": a + b}), (0, None))(x, x[0])[1]["sum"],
    "over other dimensions": lambda x: torch.vmap(torch.dot, (0, 1))(x, x),
    "out of another dimension": lambda x: torch.vmap(lambda row: row * 2, out_dims=1)(x),
    "vmap of vmap": lambda x: torch.vmap(torch.vmap(lambda a, b: a * b, (None, 0)), (0, None))(x[0], x[1]),
    "of numbers": lambda x: torch.vmap(lambda number: number * 0.1 + 2)(x[0].double()),
    "vmap in chunks": lambda x: torch.vmap(lambda row: row.sin() * row.sum(), chunk_size=3)(x * 2) + 1,
    "vmap of a structure in chunks": lambda x: torch.vmap(
        lambda p, b: {"sum": p["a"] + b, "number": b @ p["a"]}, ({"a": 1}, None), {"sum": 1, "number": 0}, chunk_size=2
    )({"a": x}, x[0]),
    "vmap row by row": lambda x: func.vmap(func.grad(lambda row: (row**3).sum()), chunk_size=1)(x),
    "vmap made outside": lambda x: mapped_outside(x * 2),
    "with constants": lambda x: torch.vmap(with_constants)(x),
    "changes its own": lambda x: torch.vmap(changes_its_own)(x),
    "with a closure": with_closure,
    "layers at once": lambda x: func.vmap(lambda w, b: F.linear(x, w, b).relu())(
        torch.stack([LAYER.weight] * 3), torch.stack([LAYER.bias] * 3)
    ),
    "grad": lambda x: func.grad(lambda a: (a * a).sum())(x),
    "grad without recording": without_recording,
    "stops gradients": lambda x: func.grad(stops_gradients)(x),
    "grad and value": lambda x: func.grad_and_value(lambda a, b: ((a * b).sum(), a + b), (0, 1), True)(x, x * 2),
    "grad of grad": lambda x: func.grad(lambda a: func.grad(lambda b: (b**3).sum())(a).sum())(x),
    "gradients of each row": lambda x: func.vmap(func.grad(loss_of), in_dims=(None, 0))(
        dict(LAYER.named_parameters()), x
    ),
    "a batch norm that only reads": lambda x: func.vmap(
        func.grad(lambda p, a: func.functional_call(NORMED, p, (a[None],)).square().sum()), (None, 0)
    )(dict(NORMED.named_parameters()), x),
    "steps for each row": lambda x: torch.vmap(lambda row: steps_of_two(dict(LAYER.named_parameters()), row))(x),
    "vjp": value_and_pull,
    "jvp": lambda x: func.jvp(lambda a: a.sin() * 2, (x,), (x * 3,)),
    "jacrev": lambda x: func.jacrev(lambda a: a.sin() * a.sum())(x[0]),
    "jacrev by two": lambda x: func.jacrev(lambda a, b: {"y": a * b}, (0, 1))(x[0], x[1])["y"],
    "jacrev by all of a layer": lambda x: func.jacrev(lambda p, a: func.functional_call(LAYER, p, (a,)))(
        dict(LAYER.named_parameters()), x[0]
    ),
    "jacobians of each row by all of a layer": lambda x: func.vmap(
        func.jacrev(lambda p, a: {"y": func.functional_call(LAYER, p, (a,)), "z": [a.sum() * p["bias"]]}, (0, 1)), (None, 0)
    )(dict(LAYER.named_parameters()), x),
    "jacfwd by a structure": lambda x: func.jacfwd(lambda p: (p["a"].sin() * p["b"][0], p["b"][1].sum()))({"b": [x[0], x[1]], "a": x[2]}),
    "hessian by a structure": lambda x: func.hessian(lambda p: (p["a"].sin() * p["b"]).sum())({"a": x[0], "b": x[1]}),
    "jacrev made outside": lambda x: jacobian_outside(x[0]),
    "jacfwd": lambda x: func.jacfwd(lambda a: a.sin() * a.sum())(x[0]),
    "vjp with something besides": lambda x: pulled_with_aux(x),
    "jvp with something besides": lambda x: func.jvp(lambda a: (a.sin() * 2, a + 1), (x,), (x * 3,), has_aux=True),
    "jacrev in chunks": lambda x: func.jacrev(lambda a: a.sin() * a.sum(), chunk_size=2)(x[0]),
    "jacrev row by row": lambda x: func.jacrev(lambda a, b: (a * b, b.sum()), (0, 1), chunk_size=1)(x[0], x[1]),
    "jacrev with something besides": lambda x: func.jacrev(lambda a, b: (a * b, {"sum": a + b}), -1, has_aux=True)(x[0], x[1]),
    "jacfwd with something besides": lambda x: func.jacfwd(lambda a, b: (a * b, {"sum": a + b}), (0, 1), has_aux=True)(x[0], x[1]),
    "jacrev in chunks made outside": lambda x: func.vmap(jacobian_in_chunks)(x),
    "hessian": lambda x: func.hessian(lambda a: (a**3).sum())(x[0]),
}


def differentiated(function):
    """Results and gradients of two calls."""
    found = []
    for _ in range(2):
        LAYER.zero_grad()
        x = X.clone().requires_grad_()
        results = tree_leaves(function(x))
        recorded = [each.square().sum() for each in results if each.requires_grad]
        if recorded:
            sum(recorded).backward()
        found += [*results, x.grad, *(parameter.grad for parameter in LAYER.parameters())]
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph_with_eagers_values_and_gradients(name):
    program = PROGRAMS[name]
    dispatch = compiled(program)
    for function in (dispatch, dynascope.compile(program)):
        for mine, theirs in zip(differentiated(function), differentiated(program), strict=True):
            if theirs is None:
                assert mine is None
            else:
                torch.testing.assert_close(mine, theirs)
                assert mine.requires_grad == theirs.requires_grad
    assert dispatch.compilation.codes == [] and not dispatch.refused
    assert all(len(captured.graph.module.graph.nodes) for captured in dispatch.captures)


MADE = {
    "jacrev": func.jacrev(lambda t: t.sin() * t.sum()),
    "jacrev by two": func.jacrev(lambda t, u=X[1]: {"y": t * u, "z": t.sum()}),
    "jacrev in chunks": func.jacrev(lambda t: t.sin() * t.sum(), chunk_size=2),
    "jacfwd": func.jacfwd(lambda t: t.sin() * t.sum()),
    "jacfwd with something besides": func.jacfwd(lambda t: (t.sin() * t.sum(), t + 1), has_aux=True),
    "hessian": func.hessian(lambda t: (t.sin() * t.sum()).sum()),
    "jacobian of a jacobian": func.jacrev(func.jacrev(lambda t: t.sin() * t.sum())),
}


@pytest.mark.parametrize("name", MADE)
def test_what_a_transform_gave_is_compiled_itself(name):
    made = MADE[name]
    dispatch = compiled(made)
    for size in (4, 3, 6):
        x = torch.linspace(0.0, 1.0, size)
        x = x if name != "jacrev by two" else X[0]
        for mine, theirs in zip(tree_leaves(dispatch(x)), tree_leaves(made(x)), strict=True):
            torch.testing.assert_close(mine, theirs)
    assert dispatch.compilation.codes == [] and not dispatch.refused


def test_random_numbers_are_eagers():
    def program(x):
        return torch.vmap(lambda row: F.dropout(row, 0.5), randomness="different")(x)

    dispatch = compiled(program)
    for function in (dispatch, program):
        torch.manual_seed(1)
        result = function(X)
        torch.manual_seed(1)
        assert torch.equal(result, program(X))


def test_many_sizes():
    def program(x):
        return torch.vmap(lambda row: row.reshape(-1, 2).sum(0) * row.shape[0])(x)

    function = dynascope.compile(program)
    for size in (4, 6, 8, 10):
        x = torch.arange(float(size * size)).view(size, size)
        torch.testing.assert_close(function(x), program(x))


LOG = []


def logs(row):
    LOG.append(1)
    return row * 2


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.vmap(logs)(x) + 1,
        lambda x: torch.vmap(lambda row: row.add_(1))(x * 1) + 1,
        lambda x: torch.vmap(lambda row: row * 2, randomness="same", chunk_size=2)(x) + 1,
        lambda x: func.grad(lambda a: (a * a.detach().sum().item()).sum())(x) + 1,
        lambda x: func.grad(lambda a: (a[a > 0] * 2).sum())(x) + 1,
    ],
    ids=["effects", "writes to what it is given", "the same numbers in chunks", "a number", "a size"],
)
def test_what_is_left_to_torch_is_one_break(program):
    dispatch = compiled(program)
    for _ in range(2):
        LOG.clear()
        mine = dispatch(X), list(LOG)
        LOG.clear()
        theirs = program(X), list(LOG)
        assert torch.equal(mine[0], theirs[0]) and mine[1] == theirs[1]
    places = {captured.exit.span for captured in dispatch.captures if hasattr(captured.exit, "span")}
    assert len(places) == 1 and not dispatch.refused


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.vmap(lambda row: torch.rand(3) + row.sum())(x),
        lambda x: torch.vmap(lambda row: row if row.sum() > 0 else -row)(x),
        lambda x: func.grad(lambda a: (a * a).sum())(x.long()),
        lambda x: func.grad(lambda a: a * 2)(x),
        lambda x: torch.vmap(torch.mul, [0, 0])(x, x),
    ],
    ids=["random numbers", "a branch", "integers", "no number", "dimensions in a list"],
)
def test_torchs_own_errors(program):
    with pytest.raises((RuntimeError, ValueError)) as theirs:
        program(X)
    with pytest.raises((RuntimeError, ValueError)) as mine:
        compiled(program)(X)
    assert (mine.type, str(mine.value)) == (theirs.type, str(theirs.value))


def test_rows_of_a_jacobian_by_a_map_over_tangents():
    def program(x):
        y = x**2

        def row(tangent):
            return torch.autograd.grad(y, x, tangent)[0]

        return torch.vmap(row)(torch.eye(4)) + y.detach()

    x = torch.arange(4.0, requires_grad=True)
    assert torch.equal(compiled(program)(x), program(x))


@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: func.vmap(lambda row, y: row + y)(x, y=y),
        lambda x, y: func.vmap(lambda row, *, y: row * y.sum())(x, y=y * 2),
        lambda x, y: func.vmap(lambda row, given: row + given["y"], in_dims=1)(x, given={"y": y.t()}),
    ],
)
def test_what_is_given_by_name_is_not_mapped_over(program):
    x, y = torch.ones(2, 3), torch.arange(6.0).reshape(2, 3)
    assert torch.equal(dynascope.compile(program, backend="eager")(x, y), program(x, y))


def test_an_ensemble_over_a_model_without_elements():
    """As torch's own guide has it: the model that is called with each member's parameters is on the meta device."""
    members = [nn.Linear(4, 2) for _ in range(3)]
    parameters, buffers = func.stack_module_state(members)
    base = nn.Linear(4, 2, device="meta")
    kept = dict(base.named_parameters())

    def program(x):
        return torch.vmap(lambda given, held, x: func.functional_call(base, (given, held), (x,)), (0, 0, None))(parameters, buffers, x)

    call = dynascope.compile(program, fullgraph=True)
    for size in (4, 6, 7):
        x = torch.randn(size, 4)
        torch.testing.assert_close(call(x), program(x))
        assert all(parameter is kept[name] for name, parameter in base.named_parameters())


@pytest.mark.may_break
@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.vmap(lambda i: x[i])(torch.tensor([0, 2])),
        lambda x: torch.vmap(lambda q, i: q[i], in_dims=(None, 0))(x, torch.arange(3)),
        lambda x: torch.vmap(lambda i, q: q.masked_fill(i > 1, 0.0))(torch.tensor([0, 2]), x[:2]),
        lambda x: torch.vmap(lambda i: torch.stack([i + 1, i.select(0, 1) if i.dim() else i * 2]))(torch.tensor([1, 5])),
        lambda x: torch.vmap(lambda m: torch.where(m, x[0], -x[0]))(torch.tensor([True, False])),
    ],
)
def test_a_row_of_a_tensor_whose_elements_are_known_is_not_its_first_row(program):
    x = X.clone()
    assert torch.equal(dynascope.compile(program, backend="eager")(x), program(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_mapped_over_no_rows(dtype):
    """As an associative scan does at its last level: eager gives no rows, and other calls have some."""

    def program(x):
        return torch.vmap(lambda row: row + row)(x)

    compiled = dynascope.compile(program, fullgraph=True, dynamic=True, backend="eager")
    for count in (0, 3, 0, 1):
        x = torch.ones(count, 3, dtype=dtype, requires_grad=dtype.is_floating_point)
        ours, theirs = compiled(x), program(x)
        assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype and ours.requires_grad == theirs.requires_grad


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_row_that_outlives_its_transform_raises_as_in_eager(backend):
    def program(x):
        kept = None

        def keep(row):
            nonlocal kept
            kept = row
            return row * 2

        torch.vmap(keep)(x)
        return kept.sin()

    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="may have escaped"):
        program(x)
    compiled = dynascope.compile(program, backend=backend)
    with dynascope.expected("foreign-call", "tensor-subclass", required=False), pytest.raises(RuntimeError, match="may have escaped"):
        compiled(x)
