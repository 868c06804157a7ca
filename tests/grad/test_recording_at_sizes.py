"""One pair of graphs for all sizes: recorded at some, run at others, equal to eager forward and backward."""

import math

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.grad import GradOptions, at_sizes, bridge, differentiate, record_layouts
from dynascope.grad import program as recording
from dynascope.grad.reasons import DifferentiationRefused, VaryingNumberNeeded
from dynascope.grad.record import Recorder
from dynascope.grad.tape import contiguous_strides
from dynascope.grad.trails import Trail
from dynascope.sizes import Scope, Size
from torch import fx

GENERIC = dict(low=2)


def pair_over(function, make, sizes):
    """(pair, scope): `make(*sizes)` gives the inputs; dimensions of the hints' sizes that change with a size are roots."""
    scope = Scope()
    roots = [scope.root(f"s{at}", size, **GENERIC) for at, size in enumerate(sizes)]
    examples = make(*sizes)
    graph = fx.symbolic_trace(function)
    other = [make(*[size + (997 * (k == at)) for k, size in enumerate(sizes)]) for at in range(len(sizes))]
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    for position, node in enumerate(placeholders):
        example = examples[position]
        if not isinstance(example, torch.Tensor):
            continue
        extents = []
        for d, size in enumerate(example.shape):
            for at, root in enumerate(roots):
                rise = (other[at][position].size(d) - example.size(d)) // 997
                size = size + rise * (root - root.hint)
            extents.append(size)
        if any(isinstance(extent, Size) for extent in extents):
            assert example.is_contiguous()
            node.meta["sizes"], node.meta["strides"] = tuple(extents), contiguous_strides(extents)
    last = placeholders[-1]
    with graph.graph.inserting_after(last):
        for root in reversed(roots):
            node = graph.graph.placeholder(str(root))
            node.meta["size"] = root
    graph.recompile()
    pair = differentiate(graph, [*examples, *sizes], GradOptions(region="f"))
    return pair, scope


def check(function, make, hints, others, tolerance=1e-5):
    pair, scope = pair_over(function, make, hints)
    compiled = bridge(pair, pair.forward, pair.backward)
    for sizes in [hints, *others]:
        values = {f"s{at}": size for at, size in enumerate(sizes)}
        assert all(relation.is_true(values) for relation, _ in scope.log), (sizes, [str(r) for r, _ in scope.log])
        torch.manual_seed(0)
        inputs = make(*sizes)
        again = [
            t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, torch.Tensor) else t for t in inputs
        ]
        wanted = function(*inputs)
        found = compiled(*again, *sizes)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        for one, other in zip(wanted, found, strict=True):
            torch.testing.assert_close(other, one, rtol=tolerance, atol=tolerance)
            if isinstance(one, torch.Tensor):
                assert other.stride() == one.stride()
        if any(isinstance(t, torch.Tensor) and t.requires_grad for t in wanted):
            for results in (wanted, found):
                sum(
                    (r * torch.linspace(0.5, 1.5, r.numel()).view(r.shape)).sum()
                    for r in results
                    if isinstance(r, torch.Tensor) and r.requires_grad
                ).backward()
            for one, other in zip(inputs, again, strict=True):
                if isinstance(one, torch.Tensor) and one.requires_grad:
                    torch.testing.assert_close(other.grad, one.grad, rtol=tolerance, atol=tolerance)
                    assert other.grad.stride() == one.grad.stride()
    return scope


def leaf(*sizes):
    return torch.randn(*sizes, requires_grad=True)


PROGRAMS = {
    "pointwise": (lambda x, w: (x * w).tanh() + 1, lambda b: (leaf(b, 4), leaf(4))),
    "mean": (lambda x: x.mean(0), lambda b: (leaf(b, 4),)),
    "mean of all": (lambda x: (x * x).mean(), lambda b: (leaf(b, 4),)),
    "variance": (lambda x: x.var(0) + x.std(1).sum(), lambda b: (leaf(b, 4),)),
    "softmax": (lambda x: x.softmax(0) * x.softmax(1), lambda b: (leaf(b, 4),)),
    "layer norm": (lambda x, w, c: F.layer_norm(x, (6,), w, c), lambda b: (leaf(b, 6), leaf(6), leaf(6))),
    "linear": (lambda x, w, c: F.linear(x, w, c).relu(), lambda b: (leaf(b, 6), leaf(5, 6), leaf(5))),
    "linear of three": (lambda x, w: F.linear(x, w).relu(), lambda b, t: (leaf(b, t, 6), leaf(5, 6))),
    "reshape": (lambda x: x.reshape(-1, 3).sum(1), lambda b: (leaf(b, 6),)),
    "flatten": (lambda x: x.flatten(1).cumsum(1), lambda b, t: (leaf(b, t, 3),)),
    "heads": (
        lambda x: x.view(x.size(0), x.size(1), 2, 3).transpose(1, 2).contiguous() * 2,
        lambda b, t: (leaf(b, t, 6),),
    ),
    "attention": (
        lambda q, k, v: (q @ k.transpose(-1, -2) / math.sqrt(3)).softmax(-1) @ v,
        lambda b, t: (leaf(b, 2, t, 3), leaf(b, 2, t, 3), leaf(b, 2, t, 3)),
    ),
    "fused attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda b, t: (leaf(b, 2, t, 16), leaf(b, 2, t, 16), leaf(b, 2, t, 16)),
    ),
    "embedding": (lambda i, w: F.embedding(i, w).mean(1), lambda b, t: (torch.randint(0, 9, (b, t)), leaf(9, 4))),
    "cat": (lambda x, y: torch.cat([x, y, x], 1) * 2, lambda b, t: (leaf(b, 3), leaf(b, t))),
    "slices": (lambda x: x[:, 1:] - x[:, :-1], lambda b, t: (leaf(b, t),)),
    "half": (lambda x: x[: x.size(0) // 2].sin(), lambda b: (leaf(b, 3),)),
    "causal mask": (
        lambda x: x.masked_fill(torch.ones((x.size(0), x.size(0)), dtype=torch.bool).triu(1), -1e9).softmax(-1),
        lambda t: (leaf(t, t),),
    ),
    "convolution": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1).relu(),
        lambda b, t: (leaf(b, 3, t, t + 1), leaf(4, 3, 3, 3)),
    ),
    "pooling": (lambda x: F.max_pool2d(x, 2) + F.avg_pool2d(x, 2), lambda b, t: (leaf(b, 3, t, t),)),
    "batch norm": (
        lambda x, w, c: F.batch_norm(x, None, None, w, c, training=True),
        lambda b: (leaf(b, 3, 5, 5), leaf(3), leaf(3)),
    ),
    "cross entropy": (lambda x, y: F.cross_entropy(x, y), lambda b: (leaf(b, 7), torch.randint(0, 7, (b,)))),
    "in place": (lambda x: x.clone().add_(1)[1:].mul(3), lambda b: (leaf(b, 4),)),
    "write to a slice": (lambda x: _written(x), lambda b: (leaf(b, 4),)),
    "split": (lambda x: x.split(2, 1)[1] * x.chunk(2, 1)[0], lambda b: (leaf(b, 4),)),
    "positions": (lambda x: x + torch.arange(x.size(1)), lambda b, t: (leaf(b, t),)),
    "rotary": (
        lambda x: torch.cat((-x[..., 2:], x[..., :2]), -1) * torch.outer(torch.arange(x.size(1)), torch.ones(4)),
        lambda b, t: (leaf(b, t, 4),),
    ),
    "numbers out": (lambda x: (x * 2, x.size(0) * 3 + 1, x.shape[1]), lambda b, t: (leaf(b, t),)),
    "gather": (lambda x, i: x.gather(1, i), lambda b, t: (leaf(b, 9), torch.randint(0, 9, (b, t)))),
    "sorted": (lambda x: x.sort(1)[0] + x.topk(2, 1)[0].sum(), lambda b, t: (leaf(b, t),)),
    "einsum": (lambda x, y: torch.einsum("btd,bsd->bts", x, y), lambda b, t: (leaf(b, t, 3), leaf(b, t, 3))),
    "norm": (lambda x: x / x.norm(dim=-1, keepdim=True), lambda b, t: (leaf(b, t),)),
    "expanded": (lambda x: x[:, None].expand(-1, 3, -1) * 2, lambda b, t: (leaf(b, t),)),
    "transposed": (lambda x: x.t() * 2 + 1, lambda b, t: (leaf(b, t),)),
    "outer": (lambda x, y: x[:, None] * y[None, :], lambda b, t: (leaf(b), leaf(t))),
}


def _written(x):
    y = x.clone()
    y[1:, 2].fill_(5.0)
    return y * 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_recording_serves_all_sizes(name):
    function, make = PROGRAMS[name]
    count = make.__code__.co_argcount
    hints, others = [(6,), (6, 10)][count - 1], [(5, 8), (7, 12), (16, 6), (33, 64)]
    check(function, make, hints, [other[:count] for other in others])


MORE_PROGRAMS = {
    "running statistics": (
        lambda x, m, v: F.batch_norm(x * 1.0, m, v, training=True) + m.view(3, 1),
        lambda b: (leaf(b, 3, 5), torch.zeros(3), torch.ones(3)),
    ),
    "written and read": (lambda x: x.clone()[1:].add_(1).t()[:2].mul_(2) + 1, lambda b: (leaf(b, 4),)),
    "a view of what is written": (lambda x: _view_of_written(x), lambda b: (leaf(b, 4),)),
    "conjugates": (lambda x, y: (torch.complex(x, y).conj() * 2).imag + x, lambda b: (leaf(b, 3), leaf(b, 3))),
    "one of several": (lambda x: x.unbind(1)[1] + x.split([1, 3], 1)[1].sum(1), lambda b: (leaf(b, 4),)),
    "twice the same": (lambda x: (x * 2 + 1).tanh() * (x * 2 + 1).tanh(), lambda b: (leaf(b, 4),)),
    "statistics that are written twice": (
        lambda x, w, m, v: _normed_twice(x, w, m, v),
        lambda b: (leaf(b, 3, 5, 5), leaf(3, 3, 3, 3), torch.zeros(3), torch.ones(3)),
    ),
    "laid out otherwise": (
        lambda x: x.clone(memory_format=torch.channels_last).add_(1) + x.contiguous(memory_format=torch.channels_last),
        lambda b: (leaf(b, 3, 5, 4),),
    ),
    "holes that are written": (
        lambda x: x.new_empty((x.size(0), 4))[:, ::2].copy_(x[:, ::2]).exp() + x[:, :2],
        lambda b: (leaf(b, 4),),
    ),
    "of other types": (lambda x: (x.double() * x + (x > 0)).half().float(), lambda b: (leaf(b, 4),)),
}


def _normed_twice(x, w, m, v):
    for _ in range(2):
        x = F.batch_norm(F.conv2d(x, w, padding=1), m, v, training=True).relu()
    return x + m.view(3, 1, 1)


def _view_of_written(x):
    y = x * 1
    z = y[1:]
    y.mul_(2)
    return z.exp() + y.t()[:, 1:].t()


@pytest.mark.parametrize("name", PROGRAMS | MORE_PROGRAMS)
def test_at_other_sizes_the_trail_hears_what_the_long_way_says(name, monkeypatch):
    function, make = (PROGRAMS | MORE_PROGRAMS)[name]
    count = make.__code__.co_argcount
    recorded = at_sizes._run_at
    heard = []

    def by_both(values, program, run, trail):
        long = Trail(trail.worlds, (), trail.most, trail.count)
        with monkeypatch.context() as patched:
            patched.setattr(recording, "LayoutRecorder", Recorder)
            recorded(values, program, run, long)
        recorded(values, program, run, trail)
        assert trail.observations == long.observations
        assert trail.found == long.found
        assert trail.dense == long.dense
        heard.append(len(trail.found))

    monkeypatch.setattr(at_sizes, "_run_at", by_both)
    record_layouts._KNOWN.clear()
    for _ in range(2):  # with nothing known of any operator, and with all of it
        pair_over(function, make, [(6,), (6, 10)][count - 1])
    assert len(heard) >= 4 and min(heard) > 2


def test_what_holds_at_some_sizes_only_is_relied_on():
    pair, scope = pair_over(lambda x: x.view(x.size(0) // 2, 2, 3) * 2, lambda b: (leaf(b, 3),), (6,))
    assert all(relation.is_true({"s0": 8}) for relation, _ in scope.log)
    assert not all(relation.is_true({"s0": 7}) for relation, _ in scope.log)


def test_a_size_that_must_be_a_constant_is_named():
    with pytest.raises(DifferentiationRefused) as refused:
        pair_over(lambda x, w: x @ w, lambda b: (leaf(3, b), leaf(5, 4)), (5,))
    assert isinstance(refused.value.reason, VaryingNumberNeeded)
    assert refused.value.reason.inputs == {"s0"}


def test_steps_that_grow_with_a_size_end(monkeypatch):
    """The gradient of a product of reflections takes steps for each of them: recorded for thousands it would take hours."""
    observed, observe = [], Trail.observe

    def counted(self, data, tape):
        observed.append(None)
        return observe(self, data, tape)

    monkeypatch.setattr(Trail, "observe", counted)
    compiled = dynascope.compile(torch.linalg.householder_product)
    for size in (3, 4, 5):
        found = []
        for function in (compiled, torch.linalg.householder_product):
            a = torch.linspace(-1, 1, size * size).view(size, size).requires_grad_()
            function(a, torch.linspace(0, 1, size)).pow(2).sum().backward()
            found.append(a.grad)
        torch.testing.assert_close(*found)
    assert 0 < len(observed) < 100_000


def test_an_empty_result_has_the_sizes_of_each_call():
    """The power 0 of a batch of none: the gradient of the first call's size was returned at every size."""
    compiled = dynascope.compile(lambda x: torch.linalg.matrix_power(x, 0), dynamic=True)
    for size in (2, 5, 3):
        x = torch.randn(0, size, size, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad is not None
        assert x.grad.shape == x.shape


def test_the_smaller_of_two_sizes_is_not_taken_for_the_first():
    """A diagonal, or steps that fit, are as many as the smaller size says: which one that is differs from call to call."""
    compiled = dynascope.compile(torch.trace)
    for rows, columns in ((7, 5), (2, 5), (5, 5), (3, 6), (6, 3), (9, 2), (2, 9)):
        x = torch.randn(rows, columns, requires_grad=True)
        (ours,), (theirs,) = (torch.autograd.grad(function(x), x) for function in (compiled, torch.trace))
        assert torch.equal(ours, theirs)  # which before torch 2.13 has ones below the square of a tall matrix


def test_what_the_recording_relies_on_binds_the_other_sizes(compilations):
    """Of 64 rows `k[:n]` is n rows where n is 64 at the most. Far above it was 64 of them, and sizes of a transform had no form then."""

    def long(x, k):
        n = x.shape[-1]
        return torch.fft.irfft(torch.fft.rfft(x, n=2 * n) * torch.fft.rfft(k[..., :n], n=2 * n), n=2 * n)[..., :n]

    compiled = dynascope.compile(long)
    for n in (7, 8, 9, 16, 33, 64, 12):
        x, k = leaf(2, n), leaf(2, 64)
        for ours, theirs in zip(*(torch.autograd.grad(f(x, k).square().sum(), (x, k)) for f in (compiled, long)), strict=True):
            torch.testing.assert_close(ours, theirs)
    assert len(compilations) == 2


def test_what_is_relied_on_to_begin_with_stays_where_another_size_is_wanted(monkeypatch):
    """A form may fit too few sizes, so that one more is asked: the relation that they were chosen by is a guard all the same."""
    in_worlds, relied_on = at_sizes._in_worlds, []

    def refuses_once(worlds, program, run):
        bounds = [str(relation) for relation, _ in worlds.scope.log if relation.operator == "<="]
        if bounds and not relied_on:
            worlds.wanted = {"n": worlds.values[-1]["n"] - 1}
            relied_on.append(bounds)
            raise DifferentiationRefused(VaryingNumberNeeded("a size", frozenset()))
        found = in_worlds(worlds, program, run)
        relied_on.append([str(relation) for relation, _ in worlds.scope.log])
        return found

    monkeypatch.setattr(at_sizes, "_in_worlds", refuses_once)
    compiled = dynascope.aot(lambda x, n: x[n].cos(), forward_compiler=lambda graph, inputs: graph)
    x = leaf(24, 3)
    for n in (3, 4):
        torch.testing.assert_close(compiled(x, n), x[n].cos())
    first, second, *_ = relied_on
    assert first[0] in second
