"""Compiled code under autocast, and autocast inside compiled code: eager's types, values, gradients and state after it."""

import dynascope
import pytest
import torch
from dynascope.capture.calls import refusals
from dynascope.meta_kernels import known_results
from torch.nn import functional as F

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"))]
BACKENDS = ["dynascope", "eager"]


class Block(torch.nn.Module):
    """What a transformer does under autocast: products, attention, norms, a residual in float32, a loss."""

    def __init__(self):
        super().__init__()
        self.norm, self.project, self.out = torch.nn.LayerNorm(16), torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, x, target):
        query, key, value = self.project(self.norm(x)).view(2, 4, 2, 24).transpose(1, 2).chunk(3, dim=-1)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(2, 4, 16))
        probabilities = torch.softmax(x @ x.transpose(1, 2), dim=-1)
        return F.cross_entropy(x.flatten(0, 1), target) + probabilities.sum(), torch.cat([x, probabilities], dim=-1)


def state():
    autocast = [(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda")]
    depth = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    return autocast, depth, torch.is_autocast_cache_enabled()


def check(function, compiled, *arguments, tolerance=2e-2):
    """Same results, types and gradients, twice; the state is left as eager leaves it."""
    for _ in range(2):
        theirs, theirs_state = function(*arguments), state()
        mine, mine_state = compiled(*arguments), state()
        assert mine_state == theirs_state
        for one, other in zip(tensors(mine), tensors(theirs), strict=True):
            assert (one.dtype, one.shape, one.requires_grad) == (other.dtype, other.shape, other.requires_grad)
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    return mine, theirs


def tensors(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_trains_under_autocast(device, backend):
    torch.manual_seed(0)
    model = Block().to(device)
    x, target = torch.randn(2, 4, 16, device=device), torch.randint(16, (8,), device=device)
    compiled = dynascope.compile(model, backend=backend)
    with torch.autocast(device, torch.bfloat16):
        mine, theirs = check(model, compiled, x, target)
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss, _ in (mine, theirs)]
    torch.testing.assert_close(*gradients, rtol=5e-2, atol=5e-2)
    assert {gradient.dtype for gradient in gradients[0]} == {torch.float32}
    check(model, compiled, x, target, tolerance=1e-5)
    assert dynascope.explain(model, x, target).graph_break_count == 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_inside_is_part_of_the_graph(backend):
    linear = torch.nn.Linear(8, 8)

    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            lower = linear(x).relu()
            with torch.autocast("cpu", enabled=False):
                full = linear(lower.float())
            return lower, full, lower @ lower, x @ x

    x = torch.randn(8, 8)
    check(function, dynascope.compile(function, backend=backend, fullgraph=True), x)
    with torch.autocast("cpu", torch.float16):
        check(function, dynascope.compile(function, backend=backend), x)


@pytest.mark.expects("data-dependent-branch")
def test_a_break_inside_an_autocast_block_leaves_and_enters_it_rightly():
    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x
            if y.sum() > 0:
                y = y @ x
            z = y @ x
        return y, z, x @ x

    x = torch.rand(4, 4)
    check(function, dynascope.compile(function), x)
    check(function, dynascope.compile(function, backend="eager"), -x)


def test_an_exception_leaves_the_state_as_python_does():
    def function(x):
        try:
            with torch.autocast("cpu", torch.bfloat16):
                y = x @ x
                raise KeyError("gone")
        except KeyError:
            return y, x @ x

    check(function, dynascope.compile(function), torch.rand(4, 4))


def test_changed_parameters_are_converted_anew():
    """A converted copy must not outlive the parameter's value."""
    linear = torch.nn.Linear(4, 4)

    def function(x):
        with torch.autocast("cpu", torch.bfloat16):
            first = linear(x)
        with torch.no_grad():
            linear.weight.mul_(2)
        with torch.autocast("cpu", torch.bfloat16):
            return first, linear(x)

    x = torch.rand(2, 4)
    start = linear.weight.detach().clone()
    theirs = function(x)
    linear.weight.data.copy_(start)
    for mine, other in zip(dynascope.compile(function)(x), theirs, strict=True):
        torch.testing.assert_close(mine, other)


def changed_inside(x, w):
    first = x @ w
    with torch.no_grad():
        w.mul_(2)
    return first + x @ w


def changed_after_an_inner_block(x, w):
    with torch.autocast("cpu", torch.bfloat16):
        first = x @ w
    with torch.no_grad():
        w.mul_(2)
    return first + x @ w


def first_without_gradient(x, w):
    with torch.no_grad():
        first = x @ w
        w.mul_(2)
    return first + x @ w


def changed_where_copies_are_not_used(x, w):
    first = x @ w
    with torch.no_grad():
        w.mul_(2)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        return first + x @ w


def changed_after_the_copies_are_cleared(x, w):
    first = x @ w
    with torch.no_grad():
        w.mul_(2)
    torch.clear_autocast_cache()
    return first + x @ w


INSIDE = [
    changed_inside,
    changed_after_an_inner_block,
    first_without_gradient,
    changed_where_copies_are_not_used,
    changed_after_the_copies_are_cleared,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", INSIDE, ids=lambda inside: inside.__name__)
def test_a_copy_made_in_a_block_is_used_until_its_end_as_torch_does(inside, backend):
    def function(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return inside(x, w)

    start, results = torch.rand(4, 4), []
    x = torch.rand(4, 4)
    for each in (function, dynascope.compile(function, backend=backend)):
        w = start.clone().requires_grad_()
        y = each(x, w)
        results.append((y, *torch.autograd.grad(y.sum(), w), w.detach()))
    for mine, theirs in zip(*results, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("backend", [pytest.param("dynascope", marks=pytest.mark.expects("operator-failed")), "eager"])
def test_a_copy_of_another_precision_is_an_error_as_in_torch(backend):
    def function(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            first = x @ w
            with torch.autocast("cpu", torch.float16):
                return first @ w

    compiled = dynascope.compile(function, backend=backend)
    for each in (function, compiled):
        with pytest.raises(RuntimeError, match="Half != c10::BFloat16"):
            each(torch.rand(4, 4), torch.rand(4, 4, requires_grad=True))


@pytest.mark.expects("autocast")
def test_parts_that_autocast_converts_out_of_sight_run_as_eager():
    x, y, weight = torch.randn(3, 4), torch.randn(3, 5), torch.randn(2, 4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        check(F.bilinear, dynascope.compile(lambda *a: F.bilinear(*a)), x, y, weight, tolerance=0)


@pytest.mark.expects("autocast")
def test_parts_of_a_kernel_that_autocast_converts_run_as_eager():
    """What it calls inside is converted, the operator itself is on no list of torch's."""
    x = torch.randn(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        mine, _ = check(torch.linalg.pinv, dynascope.compile(lambda x: torch.linalg.pinv(x)), x, tolerance=0)
    assert mine.dtype is torch.bfloat16


def test_a_program_is_told_the_type_that_such_a_kernel_gives():
    def function(x):
        return str(torch.linalg.pinv(x).dtype), x

    known_results._ALL_IN_CXX.discard(torch.linalg.pinv)  # the first call of a process was told another one
    with torch.autocast("cpu", torch.bfloat16):
        for _ in range(2):
            x = torch.randn(4, 4)
            assert dynascope.compile(function, backend="eager")(x)[0] == function(x)[0] == "torch.bfloat16"


@pytest.mark.parametrize("function", [torch.trace, lambda x: torch.ldexp(x, x)])
def test_a_type_that_a_device_gives_otherwise_than_its_meta_kernel_is_seen(function):
    """A GPU's `trace` calls `sum`, which autocast converts there; the meta kernel, which calls it too, is asked without that."""
    before = torch.is_autocast_enabled("cuda")
    torch.set_autocast_enabled("cuda", True)
    try:
        trial = refusals._Trial(function, (torch.zeros(2, 2, dtype=torch.float16),), {}, torch.device("cuda"), refusals._zeros)
        assert trial.is_foreseen([torch.float16]) and not trial.is_foreseen([torch.float32])
    finally:
        torch.set_autocast_enabled("cuda", before)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x @ y,
        lambda x, y: torch.cat([x, y]),
        lambda x, y: torch.stack([x.bfloat16(), y]),
        lambda x, y: F.mse_loss(x.bfloat16(), y),
        lambda x, y: torch.einsum("ij,jk->ik", x, y),
        lambda x, y: torch.tensordot(x, y, 1),
        lambda x, y: (x @ y).softmax(0),
        lambda x, y: (x @ y).sum(),
        lambda x, y: (x @ y).exp() + y,
        lambda x, y: x.double() @ y.double(),
        lambda x, y: torch.linalg.multi_dot([x, y, x]),
        lambda x, y: F.layer_norm(x @ y, (4,)),
        lambda x, y: F.conv1d(x[None], y[:, :, None]),
        lambda x, y: torch.prod(x @ y),
        lambda x, y: torch.cdist(x, y),
        lambda x, y: (x @ y).norm(),
    ],
)
def test_each_kind_of_conversion_is_eagers(function):
    x, y = torch.rand(4, 4), torch.rand(4, 4)
    with torch.autocast("cpu", torch.bfloat16):
        check(function, dynascope.compile(function), x, y)


def test_few_elements_under_autocast():
    """Types that are tried on real tensors are compared with what meta kernels say under autocast."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))

    def step(x):
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(x).float().square().mean()
        return loss

    check(step, dynascope.compile(step, fullgraph=True, backend="eager"), torch.randn(4, 8))


@pytest.mark.filterwarnings("ignore:torch..*autocast:DeprecationWarning")
def test_what_is_asked_about_autocast_inside_it():
    names = ("is_autocast_cpu_enabled", "get_autocast_cpu_dtype", "is_autocast_cache_enabled", "is_autocast_enabled")
    questions = [getattr(torch, name) for name in names if hasattr(torch, name)]

    def function(x):
        before = [ask() for ask in questions]
        with torch.autocast("cpu", torch.float16, cache_enabled=False):
            return x @ x, before, [ask() for ask in questions], torch.get_autocast_dtype("cpu")

    call, x = dynascope.compile(function, fullgraph=True, backend="eager"), torch.ones(2, 2)
    for around in (
        torch.autocast("cpu", enabled=False),
        torch.autocast("cpu", torch.bfloat16),
        torch.autocast("cpu", enabled=False),
    ):
        with around:
            assert call(x)[1:] == function(x)[1:]
