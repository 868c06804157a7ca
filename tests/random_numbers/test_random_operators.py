"""`random="device"`: dropout and friends as functions of a seed, fused, repeatable, the same mask forward and backward."""

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.codegen.module import emit
from dynascope.grad import GradOptions, bridge, differentiate
from dynascope.loops.lower import lower
from dynascope.random_numbers import DRAW_SEED, UNIFORM
from dynascope.random_numbers.operators import draw_seed
from dynascope.schedule.fusion import fuse
from torch import fx

DEVICE = {"random": "device"}


def compiled(function):
    return dynascope.compile(function, options=DEVICE)


def pair_of(function, *inputs):
    return differentiate(fx.symbolic_trace(function), list(inputs), GradOptions(random="device"))


def targets(graph):
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


def kernels_of(graph, inputs=None):
    return [kernel for kernel in emit(fuse(lower(graph, inputs))).kernels if kernel is not None]


def test_runs_repeat_after_manual_seed_and_calls_differ():
    function = compiled(lambda x: F.dropout(x, 0.5, True))
    x = torch.ones(1000)
    torch.manual_seed(1)
    first, second = function(x), function(x)
    torch.manual_seed(1)
    assert torch.equal(function(x), first)
    assert torch.equal(function(x), second)
    assert not torch.equal(first, second)


def test_a_call_takes_one_number_of_the_generator():
    function = compiled(lambda x: F.dropout(F.dropout(x, 0.5, True) + torch.rand_like(x), 0.1, True))
    x = torch.ones(1000)
    function(x)
    torch.manual_seed(1)
    function(x)
    after = torch.rand(4)
    torch.manual_seed(1)
    draw_seed(torch.device("cpu"))
    assert torch.equal(torch.rand(4), after)


def test_compiling_takes_nothing_of_the_generator():
    def run():
        torch.manual_seed(1)
        return compiled(lambda x: F.dropout(x, 0.5, True))(torch.ones(100)), torch.rand(3)

    function = compiled(lambda x: F.dropout(x, 0.5, True))
    function(torch.ones(100))
    torch.manual_seed(1)
    again, later = function(torch.ones(100)), torch.rand(3)
    for a, b in zip(run(), (again, later), strict=True):
        assert torch.equal(a, b)


DRAWN_FROM_NUMBERS = {
    "normal": lambda x: torch.normal(0.0, 1.0, (2,)),
    "normal of a size": lambda x: torch.normal(0.0, 1.0, (x.shape[0], 2)),
    "randperm": lambda x: torch.randperm(x.shape[0]),
    "bernoulli": lambda x: torch.bernoulli(torch.tensor([0.5, 0.25])),
    "multinomial": lambda x: torch.multinomial(torch.ones(4), 2),
    "initialised": lambda x: torch.nn.init.xavier_uniform_(torch.empty(x.shape[0], 2)),
}


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("name", DRAWN_FROM_NUMBERS)
def test_asking_about_other_sizes_takes_nothing_of_the_generator(name, backend):
    def program(x):
        return DRAWN_FROM_NUMBERS[name](x), x + 1

    def play(function):
        torch.manual_seed(1)
        return [function(torch.ones(n, 2)) for n in (3, 4, 5)], torch.rand(3)

    torch.testing.assert_close(play(dynascope.compile(program, backend=backend)), play(program), rtol=0, atol=0)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_dropout_keeps_and_scales(p, dtype):
    torch.manual_seed(0)
    x = torch.ones(400, 500, dtype=dtype)
    y = compiled(lambda x: F.dropout(x, p, True))(x)
    assert y.dtype == dtype
    assert (y != 0).double().mean().item() == pytest.approx(1 - p, abs=0.005)
    torch.testing.assert_close(y[y != 0].unique(), torch.tensor([1 / (1 - p)], dtype=dtype))


@pytest.mark.parametrize("form", ["functional", "module", "in-place", "native", "torch"])
def test_gradient_is_zero_exactly_where_the_output_is(form):
    module = torch.nn.Dropout(0.3)
    forms = {
        "functional": lambda x: F.dropout(x * 2, 0.3, True),
        "module": lambda x: module(x * 2),
        "in-place": lambda x: F.dropout(x * 2, 0.3, True, True),
        "native": lambda x: torch.native_dropout(x * 2, 0.3, True)[0],
        "torch": lambda x: torch.dropout(x * 2, 0.3, True),
    }
    x = (torch.rand(100, 130) + 1).requires_grad_()
    y = compiled(forms[form])(x)
    (y * torch.full_like(y, 3.0)).sum().backward()
    assert 0.6 < (y != 0).double().mean() < 0.8
    assert torch.equal(y == 0, x.grad == 0)
    torch.testing.assert_close(x.grad, torch.where(y == 0, 0.0, 6 / 0.7))


def test_gradients_match_the_mask_through_a_network():
    torch.manual_seed(3)
    x, w, v = (torch.randn(s, requires_grad=True) for s in ((32, 16), (16, 64), (64, 8)))

    def network(x, w, v):
        hidden = torch.relu(x @ w)
        dropped, mask = torch.native_dropout(hidden, 0.4, True)
        return torch.softmax(dropped @ v, -1), mask

    y, mask = compiled(network)(x, w, v)
    weights = torch.randn(32, 8)
    found = torch.autograd.grad((y * weights).sum(), (x, w, v))
    expected_y = torch.softmax(torch.relu(x @ w) * mask / 0.6 @ v, -1)
    expected = torch.autograd.grad((expected_y * weights).sum(), (x, w, v))
    torch.testing.assert_close(y, expected_y)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_the_seed_is_kept_and_the_mask_is_not():
    x, r = torch.randn(64, 32, requires_grad=True), torch.randn(64, 32, requires_grad=True)
    pair = pair_of(lambda x, r: F.dropout(x, 0.5, True) + r, x, r)
    assert pair.saved_bytes == 0
    assert [saved.layout for saved in pair.saved] == [None]
    assert targets(pair.forward).count(DRAW_SEED) == 1
    assert DRAW_SEED not in targets(pair.backward)
    assert targets(pair.forward).count(UNIFORM) == targets(pair.backward).count(UNIFORM) == 1


def test_dropout_and_residual_are_one_kernel_that_reads_each_tensor_once():
    x, r = torch.randn(64, 32, requires_grad=True), torch.randn(64, 32, requires_grad=True)
    pair = pair_of(lambda x, r: F.dropout(x, 0.5, True) + r, x, r)
    (forward,), (backward,) = kernels_of(pair.forward, [x, r]), kernels_of(pair.backward)
    assert (forward.bytes_read, forward.bytes_written) == (2 * 64 * 32 * 4, 64 * 32 * 4)
    assert (backward.bytes_read, backward.bytes_written) == (64 * 32 * 4, 64 * 32 * 4)


def test_the_recorded_graphs_run_without_a_compiler():
    x = torch.ones(50, 40, requires_grad=True)
    pair = pair_of(lambda x: F.dropout(x, 0.25, True), x)
    (y,) = bridge(pair, pair.forward, pair.backward)(x)
    y.sum().backward()
    assert torch.equal(y.detach(), x.grad)
    assert 0.7 < (y != 0).double().mean() < 0.8


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (1.0, True), (0.5, False), (0.0, False), (1.0, False)])
def test_nothing_random_where_nothing_is_left_to_chance(p, training):
    x = torch.randn(33, 5, requires_grad=True)
    torch.manual_seed(2)
    y = compiled(lambda x: F.dropout(x, p, training) * 2)(x)
    later = torch.rand(2)
    torch.manual_seed(2)
    assert torch.equal(torch.rand(2), later)
    torch.testing.assert_close(y, F.dropout(x, p, training) * 2)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.full_like(x, 0.0 if training and p == 1 else 2.0))


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_native_dropout_at_its_ends(p):
    x = torch.randn(100)
    y, mask = compiled(lambda x: torch.native_dropout(x, p, True))(x)
    torch.testing.assert_close(y, x * (1 - p))
    assert bool(mask.all()) == (p == 0)
    assert bool(mask.any()) == (p == 0)


def test_nan_and_infinity_pass_as_in_eager():
    x = torch.tensor([float("nan"), float("inf")] * 500)
    y = compiled(lambda x: F.dropout(x, 0.5, True))(x)
    assert y[::2].isnan().all()
    assert (y[1::2].isnan() | y[1::2].isinf()).all()


def test_empty_tensors():
    assert compiled(lambda x: F.dropout(x, 0.5, True))(torch.zeros(0, 3)).shape == (0, 3)


SAMPLES = {
    "rand": (lambda x: torch.rand(300, 400), 0.5, 1 / 12),
    "rand_like": (torch.rand_like, 0.5, 1 / 12),
    "rand f64": (lambda x: torch.rand(300, 400, dtype=torch.float64), 0.5, 1 / 12),
    "rand bf16": (lambda x: torch.rand(300, 400, dtype=torch.bfloat16), 0.498, 1 / 12),
    "rand f16": (lambda x: torch.rand_like(x, dtype=torch.float16), 0.5, 1 / 12),
    "randn": (lambda x: torch.randn(300, 400), 0, 1),
    "randn_like": (torch.randn_like, 0, 1),
    "randn f64": (lambda x: torch.randn(300, 400, dtype=torch.float64), 0, 1),
    "bernoulli": (lambda x: torch.bernoulli(torch.full_like(x, 0.3)), 0.3, 0.21),
    "bernoulli p": (lambda x: torch.bernoulli(x, 0.3), 0.3, 0.21),
    "bernoulli_": (lambda x: torch.empty_like(x).bernoulli_(0.3), 0.3, 0.21),
    "uniform_": (lambda x: torch.empty_like(x).uniform_(-2, 4), 1, 3),
    "normal_": (lambda x: torch.empty_like(x).normal_(3, 2), 3, 4),
    "dropout2d": (lambda x: F.dropout2d(x.view(40, 3000, 1, 1) * 0 + 1, 0.5), 1, 1),
    "alpha_dropout": (lambda x: F.alpha_dropout(torch.randn_like(x), 0.2, True), 0, 1),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_mean_and_variance(name):
    function, mean, variance = SAMPLES[name]
    x = torch.zeros(300, 400)
    ours = compiled(function)
    torch.manual_seed(4)
    sample = ours(x)
    torch.manual_seed(4)
    assert torch.equal(ours(x), sample)
    assert not torch.equal(ours(x), sample)
    eager = function(x)
    assert (sample.dtype, sample.shape, sample.stride()) == (eager.dtype, eager.shape, eager.stride())
    assert sample.double().mean().item() == pytest.approx(mean, abs=0.015)
    assert sample.double().var().item() == pytest.approx(variance, rel=0.03)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_uniform_numbers_stay_below_one(dtype):
    sample = compiled(lambda x: torch.rand(2000, 2000, dtype=dtype))(torch.zeros(1))
    assert sample.min() >= 0
    assert sample.max() < 1
    assert sample.isfinite().all()


def test_normal_numbers_pass_a_test_of_their_distribution():
    torch.manual_seed(0)
    sample = compiled(lambda x: torch.randn(400_000))(torch.zeros(1)).double().sort().values
    expected = 0.5 * (1 + torch.erf(sample / 2**0.5))
    steps = torch.arange(1, len(sample) + 1) / len(sample)
    assert (expected - steps).abs().max() < 1.95 / len(sample) ** 0.5


def test_other_random_operators_stay_eagers():
    function = compiled(lambda x: (torch.randint(0, 10, (50,)) + x, torch.randperm(20)))
    x = torch.zeros(50)
    torch.manual_seed(6)
    found = function(x)
    torch.manual_seed(6)
    for a, b in zip(found, (torch.randint(0, 10, (50,)) + x, torch.randperm(20)), strict=True):
        assert torch.equal(a, b)


def test_a_training_loop_repeats():
    def train():
        torch.manual_seed(9)
        model = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(32, 1)
        )
        step = dynascope.compile(model, options=DEVICE)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            loss = step(torch.ones(16, 8)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    assert train() == train()


def test_eager_is_the_default():
    function = dynascope.compile(lambda x: F.dropout(x, 0.5, True))
    x = torch.ones(100)
    torch.manual_seed(1)
    found = function(x)
    torch.manual_seed(1)
    assert torch.equal(found, F.dropout(x, 0.5, True))


@pytest.mark.parametrize("later", [lambda t: t.bernoulli_(0.5), lambda t: t.uniform_(), lambda t: torch.rand_like(t)])
def test_library_calls_draw_in_the_order_of_the_program(later):
    """Also where a kernel would like to have the second's numbers before it makes what the first reads."""

    def program(x):
        part = x.chunk(2, -1)[-1]
        chosen = torch.multinomial(x.abs() + 1, 1)
        return chosen, later(part) + x[:1] * 2

    seen = []
    for function in (program, dynascope.compile(program)):
        torch.manual_seed(3)
        seen.append(function(torch.ones(6)))
    torch.testing.assert_close(seen[0], seen[1], rtol=0, atol=0)
