"""What torch keeps outside the program's arguments: flags, modes, hooks, default device. Compiled code follows, or steps aside."""

import warnings

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope.changes import expected_value
from dynascope.guards.global_state import GlobalStateIs
from dynascope.guards.guard import Guard
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

X = torch.tensor([-2.0, -1.0, 0.5, 3.0])
BACKENDS = ["eager", "dynascope"]


def same(a, b):
    return a.dtype == b.dtype and a.device == b.device and (a.device.type == "meta" or torch.equal(a, b))


# Flags


FLAGS = [
    (lambda x: x * (2 if torch.backends.cuda.matmul.allow_tf32 else 3), "torch.backends.cuda.matmul", "allow_tf32", True),
    (lambda x: x * (2 if torch.backends.cudnn.benchmark else 3), "torch.backends.cudnn", "benchmark", True),
    (lambda x: x * (2 if torch.backends.cudnn.enabled else 3), "torch.backends.cudnn", "enabled", False),
]  # fmt: skip


@pytest.mark.parametrize("function, place, name, value", FLAGS)
def test_flags_of_backends(function, place, name, value):
    owner = torch
    for part in place.split(".")[1:]:
        owner = getattr(owner, part)
    before, compiled = getattr(owner, name), dynascope.compile(function, backend="eager")
    assert before is not value
    try:
        for flag in (before, value, before, value):
            with torch.backends.__allow_nonbracketed_mutation():
                setattr(owner, name, flag)
            assert same(compiled(X), function(X))
    finally:
        with torch.backends.__allow_nonbracketed_mutation():
            setattr(owner, name, before)


def test_precision_of_products():
    def function(x):
        return x * len(torch.get_float32_matmul_precision())

    compiled, before = (
        dynascope.compile(function, backend="eager", fullgraph=True),
        torch.get_float32_matmul_precision(),
    )
    try:
        for precision in ("highest", "medium", "highest"):
            torch.set_float32_matmul_precision(precision)
            assert same(compiled(X), function(X))
    finally:
        torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_that_was_never_written_where_torch_is_to_be_deterministic(backend):
    """It holds NaN then, and the largest integer; NaN in the real part of complex numbers."""

    def function(x):
        made = torch.empty(3), torch.empty_like(x), x.new_empty(2, dtype=torch.bool), torch.empty_strided((2, 3), (1, 2))
        return *made, torch.empty(2, dtype=torch.uint8), x.new_empty(2, dtype=torch.int64)

    compiled = dynascope.compile(function, backend=backend)
    compiled(X)
    torch.use_deterministic_algorithms(True)
    try:
        for ours, theirs in zip(compiled(X), function(X), strict=True):
            assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
            assert torch.equal(ours.nan_to_num(7), theirs.nan_to_num(7)) and (ours != 0).all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_number_of_threads():
    compiled = dynascope.compile(lambda x: x * torch.get_num_threads(), backend="eager", fullgraph=True)
    before = torch.get_num_threads()
    try:
        for count in (1, 3, 1):
            torch.set_num_threads(count)
            assert same(compiled(X), X * count)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_default_dtype(dtype):
    compiled = dynascope.compile(lambda: torch.ones(3) * 2.5)
    assert compiled().dtype == torch.float32
    torch.set_default_dtype(dtype)
    try:
        assert compiled().dtype == dtype
    finally:
        torch.set_default_dtype(torch.float32)
    assert compiled().dtype == torch.float32


@pytest.mark.parametrize("backend", BACKENDS)
def test_default_device(backend):
    compiled = dynascope.compile(lambda: torch.zeros(2) + torch.arange(2), backend=backend)
    try:
        for device in (None, "meta", None, "meta"):
            torch.set_default_device(device)
            assert compiled().device.type == (device or "cpu")
    finally:
        torch.set_default_device(None)
    with torch.device("meta"):
        assert compiled().device.type == "meta"
    assert compiled().device.type == "cpu"


@pytest.mark.parametrize("backend", BACKENDS)
def test_tensors_without_memory_stay_so(backend):
    def function(x):
        return (x @ x).relu() + 1

    expected = function(torch.empty(3, 3, device="meta"))
    compiled = dynascope.compile(function, backend=backend)
    for _ in range(2):
        found = compiled(torch.empty(3, 3, device="meta"))
        assert (found.device, found.shape, found.dtype) == (expected.device, expected.shape, expected.dtype)
    assert same(compiled(torch.eye(3)), function(torch.eye(3)))


def test_attention_is_chosen_again_where_a_kernel_is_switched_off():
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = torch.randn(1, 2, 4, 8)
    compiled = dynascope.compile(lambda q: F.scaled_dot_product_attention(q, q, q))
    compiled(q)
    with sdpa_kernel(SDPBackend.MATH):
        assert torch.allclose(compiled(q), F.scaled_dot_product_attention(q, q, q), atol=1e-6)
    report = dynascope.explain(lambda q: F.scaled_dot_product_attention(q, q, q), q)
    assert any("_get_flash_sdp_enabled" in str(guard) for guard in report.guards)


HAS_LAYOUT = torch._C._dispatch_has_kernel_for_dispatch_key("aten::_transformer_encoder_layer_fwd", "Meta")
"""Torch 2.11 and 2.12 do not say what the layer's kernel gives: the encoder breaks there, and its result is right."""


@pytest.mark.expects(*() if HAS_LAYOUT else ("missing-meta-kernel",))
def test_fast_path_of_the_encoder():
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1).eval()
    x, hidden = torch.randn(2, 5, 8), torch.arange(5)[None].expand(2, -1) > 2
    compiled = dynascope.compile(encoder, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for mode in (torch.no_grad, torch.enable_grad, torch.no_grad):
            with mode():
                # Without gradients eager takes another way, which rounds otherwise.
                assert torch.allclose(compiled(x, src_key_padding_mask=hidden), encoder(x, src_key_padding_mask=hidden), atol=1e-5)


def test_nested_tensors_from_outside():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        compiled = dynascope.compile(lambda x: x * 2)
        assert all(same(a, b) for a, b in zip(compiled(nested).unbind(), (nested * 2).unbind(), strict=True))
        assert same(compiled(X), X * 2)


# Leaves


@pytest.mark.parametrize("leaf_first", [True, False])
def test_leaves(leaf_first):
    compiled = dynascope.compile(lambda x: x * 2 if x.is_leaf else x * 3, backend="eager")
    leaf = torch.ones(2, requires_grad=True)
    cases = [(leaf, 2), (leaf * 1, 3), (torch.ones(2), 2), (leaf.detach(), 2)]
    for tensor, factor in cases if leaf_first else cases[::-1]:
        assert torch.equal(compiled(tensor), tensor * factor)


def test_writing_to_a_leaf_is_refused_after_a_result_was_written():
    def function(x):
        return x.add_(1)

    compiled = dynascope.compile(function)
    leaf = torch.ones(2, requires_grad=True)
    assert torch.equal(compiled(leaf * 1), torch.full((2,), 2.0))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        compiled(leaf)


# Modes


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class Naming(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def function_of_modes(x):
    return (x * 2).sin() + 1


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", [Counting, Naming])
@pytest.mark.parametrize("compiled_before", [True, False])
def test_modes_see_the_program_as_it_was_written(mode, backend, compiled_before):
    table = []
    compiled = dynascope.compile(function_of_modes, backend=backend)
    if compiled_before:
        compiled(X)
    with mode() as wanted:
        expected = function_of_modes(X)
    for _ in range(2):
        with mode() as found:
            result = compiled(X)
        assert same(result, expected)
        assert found.seen == wanted.seen
        table.append(same(compiled(X), expected))
    assert table == [True, True]


def test_compiled_again_after_a_mode():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    compiled = dynascope.compile(function_of_modes, backend=backend)
    with Counting():
        compiled(X)
    assert graphs == []
    compiled(X), compiled(X)
    assert len(graphs) == 1
    with Counting():
        compiled(X)
    assert len(graphs) == 1


def test_flops_are_counted_once():
    compiled, a = dynascope.compile(lambda a, b: (a @ b).relu()), torch.ones(4, 4)
    for _ in range(2):
        with FlopCounterMode(display=False) as counter:
            compiled(a, a)
        assert counter.get_total_flops() == 128
        compiled(a, a)


def test_a_region_after_a_break_steps_aside_too():
    def function(x):
        y = x * 2
        print(end="")
        return y.sin()

    compiled = dynascope.compile(function, backend="eager")
    compiled(X)
    with Counting() as wanted:
        function(X)
    with Counting() as found:
        compiled(X)
    assert found.seen == wanted.seen


@pytest.mark.parametrize("backend", BACKENDS)
def test_transforms(backend):
    compiled = dynascope.compile(lambda x: (x * x).sum(), backend=backend)
    rows = torch.randn(3, 4)
    for _ in range(2):
        assert torch.allclose(torch.vmap(compiled)(rows), (rows * rows).sum(1))
        assert torch.allclose(torch.func.grad(compiled)(X), 2 * X)
        assert torch.allclose(compiled(X), (X * X).sum())


def test_detection_of_anomalies():
    compiled = dynascope.compile(lambda x: (x * 0).sqrt().sum())
    for first in (False, True):
        x = torch.zeros(3, requires_grad=True)
        if not first:
            compiled(x)
        with warnings.catch_warnings(), torch.autograd.detect_anomaly():
            warnings.simplefilter("ignore")
            with pytest.raises(RuntimeError, match="returned nan values"):
                compiled(x).backward()


# Hooks


@pytest.mark.parametrize("backend", BACKENDS)
def test_first_call_inside_checkpoint(backend):
    linear = nn.Linear(3, 3)

    def block(x):
        return linear(x).relu() * 2

    compiled = dynascope.compile(block, backend=backend)
    for _ in range(3):
        x, y = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
        checkpoint(compiled, x, use_reentrant=False).sum().backward()
        block(y).sum().backward()
        assert torch.allclose(x.grad, y.grad)


def test_compilation_saves_nothing_through_the_programs_hooks():
    packed = []
    compiled = dynascope.compile(lambda x: (x.sin() * x).sum())
    x = torch.randn(3, requires_grad=True)
    for _ in range(2):
        packed.clear()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t.shape) or t, lambda t: t):
            result = compiled(x)
        first = len(packed)
        assert 1 <= first <= 3
        result.backward()
    assert torch.allclose(x.grad, 2 * (x.cos() * x + x.sin()).detach())


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_global_hook_comes_and_goes(backend):
    model, calls = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), []
    compiled = dynascope.compile(model, backend=backend)
    expected = model(X)
    assert torch.allclose(compiled(X), expected)
    for register in (
        nn.modules.module.register_module_forward_hook,
        nn.modules.module.register_module_forward_pre_hook,
    ):
        handle = register(lambda module, *arguments: calls.append(type(module).__name__))
        assert torch.allclose(compiled(X), expected)
        # A compiled module is one more module, as with torch.compile; the user's three are called in order.
        assert [name for name in calls if name != "CompiledModule"] and "ReLU" in calls
        handle.remove()
        calls.clear()
        assert torch.allclose(compiled(X), expected) and not calls


def test_what_autocast_changed_is_said_in_its_own_words():
    """Not that something "is different, and was different": the dispatch keys follow from what is said."""
    state = GlobalStateIs.now()
    with torch.autocast("cpu", torch.bfloat16):
        assert state.failure("") == "autocast is to bfloat16 on cpu, and was off"
        inside = GlobalStateIs.now()
        with torch.autocast("cpu", torch.float16):
            assert inside.failure("") == "autocast is to float16 on cpu, and was to bfloat16 on cpu"
    assert inside.failure("") == "autocast is off, and was to bfloat16 on cpu"
    assert expected_value(Guard((), inside)) == "on, autocast to bfloat16 on cpu"
