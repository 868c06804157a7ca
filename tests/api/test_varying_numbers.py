"""Python numbers that vary from call to call: never an earlier call's value, wherever the number stands."""

import collections
import math

import dynascope
import pytest
import torch

pytestmark = pytest.mark.turns(2)

USES_INSIDE_CONTAINERS = {
    "reshape": lambda x, n: x.reshape((n, -1)) + 1,
    "expand": lambda x, n: x.expand((n, 24)) * 2,
    "zeros": lambda x, n: torch.zeros((n, 2)) + x[:1],
    "split": lambda x, n: [part + 1 for part in x.split([n, 24 - n])],
    "repeat": lambda x, n: x.repeat((n, 1)).sum(0),
    "nested_pad": lambda x, n: torch.nn.functional.pad(x, (n, n - 1), value=1.0),
    "keyword_size": lambda x, n: x.new_zeros(size=[n]) + 1,
    "tensor_of_list": lambda x, n: x[:3] * torch.tensor([n, n * 2, 3]),
    "roll": lambda x, n: x.roll((n,), (0,)),
    "slice_in_tuple": lambda x, n: x.view(4, 6)[1, :n] + 1,
    "einsum_of_view": lambda x, n: torch.einsum("i,i->", x, x) * x.view([n, 24 // n]).sum(0),
}


@pytest.mark.parametrize("name", USES_INSIDE_CONTAINERS)
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_a_number_inside_a_container_is_the_call_s_own(name, dynamic):
    use = USES_INSIDE_CONTAINERS[name]
    compiled = dynascope.compile(use, backend="eager", dynamic=dynamic)
    x = torch.arange(24.0)
    for n in (2, 3, 4, 6, 1, 2):
        torch.testing.assert_close(compiled(x, n), use(x, n), rtol=0, atol=0)


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["reshape", "zeros", "tensor_of_list"])
def test_a_number_inside_a_container_with_kernels(name):
    use = USES_INSIDE_CONTAINERS[name]
    compiled = dynascope.compile(use)
    x = torch.arange(24.0)
    for n in (2, 3, 4, 6):
        torch.testing.assert_close(compiled(x, n), use(x, n))


@pytest.mark.compiler
def test_a_number_that_an_operator_needs_as_a_constant_is_fixed_and_the_others_vary():
    def f(x, size, scale):
        return torch.cumsum(x, 0)[:size] * scale

    compiled = dynascope.compile(f)
    x = torch.arange(24.0)
    for size, scale in ((2, 0.5), (3, 0.25), (3, 0.125), (5, 4.0)):
        torch.testing.assert_close(compiled(x, size, scale), f(x, size, scale))


def scaled(x, factor):
    return x * factor + torch.full_like(x, 2 * factor)


def through_aot_autograd(graph, inputs):
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(graph, inputs, fw_compiler=lambda traced, _: traced.forward)


@pytest.mark.parametrize("backend", ["aot_eager", through_aot_autograd])
@pytest.mark.parametrize("values", [(5, 6, 7, 1, 0, -2), (0.5, 0.25, 0.125, 1.0, 0.0)])
def test_other_backends_do_not_bake_a_number_in(backend, values):
    compiled = dynascope.compile(scaled, backend=backend)
    for value in values:
        assert torch.equal(compiled(torch.ones(2), value), scaled(torch.ones(2), value))


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["aot_eager", through_aot_autograd])
def test_other_backends_do_not_bake_a_size_in(backend, dynamic):
    """Gradients of sums are expanded to sizes that no node of the graph names."""

    def weighted(x):
        return (x.softmax(0) * x).sum() + x.mean()

    compiled = dynascope.compile(weighted, backend=backend, dynamic=dynamic)
    for size in (12, 18, 15, 7, 2):
        found = []
        for function in (compiled, weighted):
            x = (torch.arange(6.0 * size).view(size, 6) / 10).requires_grad_()
            function(x).backward()
            found.append(x.grad)
        torch.testing.assert_close(*found)


def test_a_backend_that_reads_its_example_s_size_is_compiled_for_each():
    made = []

    def baking(graph, inputs):
        size = int(inputs[-1].shape[0])
        made.append(size)
        return lambda *given: [each / size for each in graph.forward(*given)]

    compiled = dynascope.compile(lambda x: x.sum(0), backend=baking, dynamic=True)
    for size in (2, 3, 4, 5):
        torch.testing.assert_close(compiled(torch.ones(size, 2)), torch.ones(2))
    assert set(made) >= {2, 3, 4, 5}


def test_a_backend_that_reads_its_example_number_is_compiled_for_each():
    def baking(graph, inputs):
        number = next((int(given) for given in inputs if not isinstance(given, torch.Tensor)), None)
        return graph.forward if number is None else lambda x, _: graph.forward(x, number)

    compiled = dynascope.compile(lambda x, n: x * n, backend=baking)
    for n in (2, 3, 4, 5):
        assert torch.equal(compiled(torch.ones(2), n), torch.ones(2) * n)


@pytest.mark.expects("recompile-limit")
def test_entries_go_on_serving_after_the_recompile_limit():
    ran = []

    def backend(graph, inputs):
        return lambda *arguments: ran.append(len(inputs)) or graph.forward(*arguments)

    compiled = dynascope.compile(lambda x: x.sin() + 1, backend=backend, options={"recompile_limit": 3})
    for size in range(1, 9):
        compiled(torch.ones(size, 2, dtype=torch.float64 if size % 2 else torch.float32))
    ran.clear()
    compiled(torch.ones(1, 2, dtype=torch.float64)), compiled(torch.ones(2, 2))
    assert len(ran) == 2
    compiled(torch.ones(30, 2))
    assert len(ran) == 2


PIECES = {
    "two slices": lambda x, n, m: (x.flatten()[:n] + 1, x.flatten()[:m] * 2, x.flatten()[:n].sum()),
    "a slice that is all": lambda x, n, m: (x[: n - 1].sum(0), x[: n - 1] * 2, x[: m - 2].shape),
    "two views": lambda x, n, m: (x.flatten()[: n * m].view(n, m) * 2, x.flatten()[: n * m].view(m, n).sum(0)),
    "a view and its transpose": lambda x, n, m: (x[:n, :m].t().sum(0), x[:m, :n].sum(0)),
    "written": lambda x, n, m: ((y := x.clone())[:n].mul_(2), y[:m].add_(1), y)[2],
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("what", PIECES)
def test_pieces_that_are_the_same_at_first(what, backend, dynamic):
    """What lies where at the first sizes tells nothing of others: n and m are equal there, and a slice is all of its tensor."""
    compiled = dynascope.compile(PIECES[what], backend=backend, dynamic=dynamic)
    for n, m in ((5, 5), (4, 4), (5, 3), (3, 5), (6, 2), (2, 6)):
        x = torch.arange(36.0).view(6, 6)[: max(n, m)]
        ours, theirs = compiled(x, n, m), PIECES[what](x, n, m)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


ROUNDED = {
    "to tens": lambda n: round(n, -1),
    "of a half": lambda n: round(n * 0.5, 1),
    "of a third": lambda n: round(n / 3, 2),
    "a float": lambda n: n * 0.25,
    "of a float": lambda n: round(n * 0.25),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("what", ROUNDED)
def test_numbers_that_are_rounded(what, dynamic):
    """Torch's own integers that vary take no notice of the digits; floats that Python computes of integers vary too."""

    def program(x, n):
        return x + 1, ROUNDED[what](n), x * ROUNDED[what](n)

    compiled = dynascope.compile(program, dynamic=dynamic)
    for n in (2, 3, 4, 7, 13, 1234):
        torch.testing.assert_close(compiled(torch.ones(2), n), program(torch.ones(2), n))


KEPT = {
    "a list": lambda kept: sum(kept),
    "after another": lambda kept: sum(kept[1:], kept[0]),
    "two": lambda kept: sum(kept[-2:]),
    "floats and ints": lambda kept: sum([*kept, 2, len(kept)]),
    "the mean": lambda kept: sum(kept) / len(kept),
    "squares": lambda kept: sum(number * number for number in kept),
}


@pytest.mark.parametrize("kind", [list, tuple, lambda numbers: collections.deque(numbers, 4)])
@pytest.mark.parametrize("what", KEPT)
@pytest.mark.parametrize("dynamic", [None, True])
def test_floats_that_are_kept_are_summed_as_python_does(what, kind, dynamic):
    """Added one by one, 1e16 + 1.0 + 1.0 - 1e16 is 0.0; Python's own sum says 2.0 since CPython 3.12."""
    given = [(1.5, 2.5, 3.5, 4.5), (1e16, 1.0, 1.0, -1e16), (0.1, 0.2, 0.3, -0.6), (-0.0, -0.0, -0.0, -0.0), (5.0, 1e-3, 1e8, 7.0)]
    use, made = KEPT[what], []

    def run(x, kept):
        total = use(list(kept))
        return x * total, total

    def counting(graph, example_inputs):
        made.append(graph)
        return graph.forward

    counted, compiled = (dynascope.compile(run, backend=backend, dynamic=dynamic) for backend in (counting, "dynascope"))
    for numbers in given:
        x, kept = torch.ones(3, dtype=torch.float64), kind(numbers)
        expected, total = run(x, kept)
        for each in (counted, compiled):
            result, found = each(x, kept)
            assert torch.equal(result, expected)
            assert math.copysign(1, found) == math.copysign(1, total) and found == total
    assert len(made) <= (1 if dynamic else 2)


def test_a_window_of_floats_that_moves_is_one_entry():
    window, made = collections.deque([1.0, 2.0, 3.0], maxlen=3), []

    def step(x):
        window.append(window[-1] * 1.1)
        return x * (sum(window) / len(window))

    def counting(graph, example_inputs):
        made.append(graph)
        return graph.forward

    compiled = dynascope.compile(step, backend=counting)
    for _ in range(8):
        before = list(window)
        result, after = compiled(torch.ones(3)), list(window)
        window.clear()
        window.extend(before)
        assert torch.equal(result, step(torch.ones(3)))
        assert list(window) == after
    assert len(made) <= 2
