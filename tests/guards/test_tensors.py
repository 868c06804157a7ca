"""Guards on tensors and on torch's state: the C check reads what Python reads, in every mode that torch has."""

import gc
import os
import subprocess
import sys
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")

import dynascope  # noqa: E402
from dynascope.frame import hook  # noqa: E402
from dynascope.guards import check, torch_checks  # noqa: E402
from dynascope.guards.check import compile_guards  # noqa: E402
from dynascope.guards.failure import explain_failure  # noqa: E402
from dynascope.guards.global_state import _PYTHON, GlobalStateIs, _trusted, state_probes  # noqa: E402
from dynascope.guards.guard import Guard, ModuleHasNoHooks  # noqa: E402
from dynascope.guards.source import FrameValues, LocalSource, ModuleMemberSource  # noqa: E402
from dynascope.guards.tensor_guard import NoOverlap, TensorMatches  # noqa: E402
from dynascope.guards.tensor_layout import tensor_layout  # noqa: E402

X, Y = LocalSource("x"), LocalSource("y")


def both(x, y=None):
    return None


def holds(guard, x, y=None):
    values = FrameValues({"x": x, "y": y}, {}, {})
    answers = {guard.holds(values), explain_failure([guard], values) is None}
    answers.add(compile_guards([guard], both.__code__).holds((x, y), both)) if hook.is_native() else None
    assert len(answers) == 1, answers
    return answers.pop()


class Plain(torch.Tensor):
    pass


class Dispatching(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return NotImplemented


def tensors():
    with torch.inference_mode():
        inference = torch.ones(2, 3)
    complex_ones = torch.ones(2, 3, dtype=torch.complex64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compressed = torch.ones(2, 3).to_sparse_csr()
    return {
        "plain": torch.ones(2, 3), "double": torch.ones(2, 3, dtype=torch.float64), "wide": torch.ones(2, 4),
        "transposed": torch.ones(3, 2).t(), "flat": torch.ones(6), "scalar": torch.tensor(1.0), "empty": torch.ones(0),
        "grad": torch.ones(2, 3, requires_grad=True), "graph": torch.ones(2, 3, requires_grad=True) * 2,
        "parameter": torch.nn.Parameter(torch.ones(2, 3)), "inference": inference,
        "meta": torch.ones(2, 3, device="meta"), "complex": complex_ones, "conj": complex_ones.conj(),
        "neg": complex_ones.conj().imag, "sparse": torch.ones(2, 3).to_sparse(), "csr": compressed,
        "subclass": torch.ones(2, 3).as_subclass(Plain), "many": torch.ones(1, 2, 1, 3, 1, 2, 1),
        "dispatching": torch.Tensor._make_subclass(Dispatching, torch.ones(2, 3)),
        "bytes": torch.ones(2, 3, dtype=torch.uint8), "strided": torch.ones(4, 3)[::2],
        "expanded": torch.ones(1, 3).expand(2, 3),
    }  # fmt: skip


def test_every_tensor_matches_itself_and_its_like_alone():
    kinds = tensors()
    alike = {("expanded", "expanded")} | {(name, name) for name in kinds}
    alike |= {(a, b) for a in ("grad", "graph") for b in ("grad", "graph")}
    for name, example in kinds.items():
        guard = Guard((X,), TensorMatches.of(example))
        assert {(name, other) for other, value in kinds.items() if holds(guard, value)} == {
            pair for pair in alike if pair[0] == name
        }


def test_frozen_leaves_are_plain():
    frozen = torch.ones(2, 3, requires_grad=True)
    frozen.requires_grad_(False)
    guard = Guard((X,), TensorMatches.of(torch.ones(2, 3)))
    assert holds(guard, frozen) and holds(guard, torch.ones(2, 3, requires_grad=True).detach())
    assert not holds(guard, frozen.requires_grad_())


def test_the_plain_ones_are_read_in_c():
    if not hook.is_native():
        pytest.skip("no C hook on this machine")
    assert tensor_layout() is not None
    plain = {name for name, tensor in tensors().items() if torch_checks.is_plain(TensorMatches.of(tensor))}
    assert {"plain", "grad", "parameter", "inference", "conj", "neg", "subclass", "many", "meta"} <= plain
    assert not plain & {"sparse", "csr", "dispatching"}


@pytest.mark.parametrize("value", [None, 5, [torch.ones(2, 3)], torch, torch.Tensor], ids=repr)
def test_what_is_no_tensor_is_never_read_as_one(value):
    assert not holds(Guard((X,), TensorMatches.of(torch.ones(2, 3))), value)


def test_open_sizes():
    guard = Guard((X,), TensorMatches.of(torch.ones(2, 3), ("rows", 3), (3, 1)))
    assert holds(guard, torch.ones(2, 3)) and holds(guard, torch.ones(7, 3))
    assert not holds(guard, torch.ones(7, 4)) and not holds(guard, torch.ones(3, 7).t())
    assert not holds(guard, torch.ones(1, 3)) and not holds(guard, torch.ones(0, 3)), "cases of their own"
    inner = Guard((X,), TensorMatches.of(torch.ones(2, 3), (2, "columns"), (None, 1)))
    assert holds(inner, torch.ones(2, 9)) and not holds(inner, torch.ones(4, 9)[:, ::2][:2])
    assert holds(Guard((X,), TensorMatches.of(torch.ones(2, 3), (None, 3), (3, 1))), torch.ones(1, 3))


def test_transforms_of_functorch_do_not_pass_as_plain():
    guard = Guard((X,), TensorMatches.of(torch.ones(3)))
    state = Guard((), GlobalStateIs.now())
    seen = []

    def look(x):
        seen.append((holds(guard, x), holds(state, x)))
        return x.sum()

    torch.func.vmap(look)(torch.ones(2, 3))
    torch.func.grad(look)(torch.ones(3))
    assert seen == [(False, False)] * 2


def test_fake_and_mode_tensors():
    guard = Guard((X,), TensorMatches.of(torch.ones(2, 3)))
    state = Guard((), GlobalStateIs.now())

    class Mode(torch.utils._python_dispatch.TorchDispatchMode):
        @classmethod
        def _should_skip_dynamo(cls):
            return False

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    tensor = torch.ones(2, 3)
    with Mode():
        assert holds(guard, tensor) and not holds(state, tensor)
    with torch.overrides.BaseTorchFunctionMode():
        assert not holds(state, tensor)


CHANGES = {
    "grad mode": lambda: torch.no_grad(),
    "inference mode": lambda: torch.inference_mode(),
    "autocast": lambda: torch.autocast("cpu"),
    "function mode": lambda: torch.device("meta"),
    "function switch": lambda: torch._C.DisableTorchFunctionSubclass(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_state_is_seen_both_ways(change):
    before = Guard((), GlobalStateIs.now())
    program = compile_guards([before], both.__code__)
    manager = change()
    with manager:
        inside = Guard((), GlobalStateIs.now())
        inner_program = compile_guards([inside], both.__code__)
        assert holds(inside, 0) and not holds(before, 0)
        if hook.is_native():
            assert inner_program.holds((0, 0), both) and not program.holds((0, 0), both)
    assert holds(before, 0) and not holds(inside, 0)
    if hook.is_native():
        assert program.holds((0, 0), both) and not inner_program.holds((0, 0), both)


def test_autocast_dtypes_differ():
    with torch.autocast("cpu", torch.bfloat16):
        state = Guard((), GlobalStateIs.now())
        program = compile_guards([state], both.__code__)
    with torch.autocast("cpu", torch.float16):
        assert not holds(state, 0) and not program.holds((0, 0), both)
    with torch.autocast("cpu", torch.bfloat16):
        assert holds(state, 0) and program.holds((0, 0), both)


def test_default_dtype_and_determinism_are_seen():
    state = Guard((), GlobalStateIs.now())
    assert holds(state, 0)
    torch.set_default_dtype(torch.float64)
    try:
        assert not holds(state, 0)
        assert "default dtype is float64, and was float32" in explain_failure([state], FrameValues({}, {}, {}))[1]
    finally:
        torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(True)
    try:
        assert not holds(state, 0)
    finally:
        torch.use_deterministic_algorithms(False)
    assert holds(state, 0)


def test_the_state_is_read_in_c_alone():
    if hook.is_native():
        kinds = {row[0] for row in state_probes(GlobalStateIs.now())}
        assert "dispatch_keys" in _trusted() and _PYTHON not in kinds


def test_other_threads_have_their_own_state():
    from concurrent.futures import ThreadPoolExecutor

    with torch.no_grad():
        state = Guard((), GlobalStateIs.now())
        program = compile_guards([state], both.__code__)
        with ThreadPoolExecutor(1) as pool:
            assert not pool.submit(lambda: program.holds((0, 0), both)).result()
        assert program.holds((0, 0), both)


def test_overlap():
    base = torch.ones(10)
    guard = Guard((X, Y), NoOverlap())
    assert holds(guard, base[:5], base[5:]) and holds(guard, base, torch.ones(3)) and holds(guard, base[:0], base)
    assert not holds(guard, base[:6], base[5:]) and not holds(guard, base, base)


def test_module_hooks_and_members():
    module = torch.nn.Linear(2, 3)
    guards = [Guard((X,), ModuleHasNoHooks())]
    guards += [
        Guard((ModuleMemberSource(X, "_parameters", n),), TensorMatches.of(getattr(module, n)))
        for n in ("weight", "bias")
    ]
    assert all(holds(guard, module) for guard in guards)
    handle = module.register_forward_hook(lambda *_: None)
    assert not holds(guards[0], module)
    assert "forward hooks" in explain_failure(guards, FrameValues({"x": module}, {}, {}))[1]
    handle.remove()
    assert holds(guards[0], module)
    module.bias.requires_grad_(False)
    guard, words = explain_failure(guards, FrameValues({"x": module}, {}, {}))
    assert words == "`x.bias` does not require grad, and did" and guard is guards[2]


def test_the_words():
    example = torch.ones(2, 3)
    guard = Guard((X,), TensorMatches.of(example))
    assert guard.describe() == "`x` is a float32 tensor of shape [2, 3] on cpu"
    for value, words in {
        torch.ones(2, 4): "`x` has shape [2, 4], and had [2, 3]",
        example.double(): "`x` has dtype float64, and had float32",
        example.t().contiguous().t(): "`x` has strides [1, 2], and had [3, 1]",
    }.items():
        assert explain_failure([guard], FrameValues({"x": value}, {}, {}))[1] == words


def test_no_example_is_kept_alive():
    example = torch.ones(2, 3)
    reference = weakref.ref(example)
    program = compile_guards([Guard((X,), TensorMatches.of(example))], both.__code__)
    del example
    gc.collect()
    assert reference() is None and program is not None


def test_guards_do_not_import_the_other_compiler():
    program = (
        "import sys, torch; from dynascope.guards.tensor_layout import tensor_layout; tensor_layout();"
        "from dynascope.guards import global_state as g; g.state_probes(g.GlobalStateIs.now());"
        "sys.exit(any(name in sys.modules for name in ('torch._dynamo', 'torch._inductor', 'sympy')))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0
    assert check is not None


@pytest.mark.parametrize("make", [lambda n: torch.ones(n, 3), lambda n: torch.ones(n, 3, requires_grad=True)])
def test_a_size_varies_also_where_the_tensor_is_of_another_kind(make, compilations):
    """The first call's is made outside of the mode, without a gradient; those of others are entries of one kind together."""
    compiled = dynascope.compile(lambda x: x.sin() * 2, backend="eager")
    first = torch.ones(4, 3)
    with torch.inference_mode():
        compiled(first)
        for n in (2, 5, 7):
            torch.testing.assert_close(compiled(make(n)), make(n).sin() * 2)
    assert len(compilations) == 2
