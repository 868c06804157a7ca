"""Checkpoint and other hooks of saved tensors around compiled functions; what is saved and then changed."""

from __future__ import annotations

from contextlib import nullcontext

import dynascope
import pytest
import torch
import torch.nn.functional as F
from dynascope import recording
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

REENTRANT = [True, False]


def layer():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3), nn.Sigmoid())


def steps(block, around, count=3):
    """Results and gradients of some calls of `around(block, x)`."""
    seen = []
    for _ in range(count):
        x = torch.linspace(0, 1, 6).view(2, 3).requires_grad_()
        y = around(block, x)
        y.pow(2).sum().backward()
        seen += [y.detach(), x.grad]
    return seen


AROUND = {
    "reentrant": lambda f, x: checkpoint(f, x, use_reentrant=True),
    "not reentrant": lambda f, x: checkpoint(f, x, use_reentrant=False),
    "to the end": lambda f, x: checkpoint(f, x, use_reentrant=False, preserve_rng_state=False),
    "twice": lambda f, x: checkpoint(f, checkpoint(f, x, use_reentrant=False), use_reentrant=False),
    "nested": lambda f, x: checkpoint(lambda x: checkpoint(f, x, use_reentrant=False) * 2, x, use_reentrant=False),
    "with work around": lambda f, x: checkpoint(lambda x: f(x.sin()).cos(), x, use_reentrant=False),
    "on the CPU": lambda f, x: saved_on_cpu(f, x),
}


def saved_on_cpu(function, x):
    with torch.autograd.graph.save_on_cpu():
        return function(x)


@pytest.mark.parametrize("first", ["inside", "outside"])
@pytest.mark.parametrize("name", AROUND)
def test_around_a_compiled_block(name, first):
    ours, theirs = layer(), layer()
    compiled = dynascope.compile(ours)
    if first == "outside":
        compiled(torch.ones(2, 3, requires_grad=True)).sum().backward()
        theirs(torch.ones(2, 3, requires_grad=True)).sum().backward()
    torch.testing.assert_close(steps(compiled, AROUND[name]), steps(theirs, AROUND[name]))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_dropout_under_checkpoint():
    program = lambda x: nn.functional.dropout(x * 2, 0.5).exp()  # noqa: E731

    def run(function):
        torch.manual_seed(1)
        return steps(function, AROUND["not reentrant"])

    torch.testing.assert_close(run(dynascope.compile(program)), run(program))


def test_a_sequence_of_compiled_parts():
    def run(wrap):
        parts = [wrap(layer()) for _ in range(3)]
        x = torch.ones(2, 3, requires_grad=True)
        checkpoint_sequential(parts, 2, x, use_reentrant=False).sum().backward()
        return x.grad

    torch.testing.assert_close(run(dynascope.compile), run(lambda part: part))


@pytest.mark.parametrize("when", ["the first call", "later"])
def test_hooks_pack_and_unpack_what_is_kept(when):
    """Each tensor that is kept is halved: the gradients are eager's under the same hooks."""
    program = lambda x, w: (x @ w).exp()  # noqa: E731

    def run(function):
        x, w = torch.full((2, 2), 0.5, requires_grad=True), torch.full((2, 2), 0.25, requires_grad=True)
        if when == "later":
            function(x, w).sum().backward()
            x.grad = w.grad = None
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (t, "kept"), lambda kept: kept[0] * 1.0):
            y = function(x, w)
        y.sum().backward()
        return [y, x.grad, w.grad]

    torch.testing.assert_close(run(dynascope.compile(program)), run(program))


def run_under_hooks(function, program_has_hooks):
    seen = []

    def pack(tensor):
        seen.append(("packed", tuple(tensor.shape), tensor.dtype))
        return tensor.half()

    def unpack(kept):
        seen.append(("unpacked", tuple(kept.shape)))
        return kept.float()

    x, w = torch.full((2, 3), 0.3, requires_grad=True), torch.full((3, 3), 0.7, requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
    if program_has_hooks:
        loss = function(x, w, seen, hooks)
    else:
        with hooks:
            loss = function(x, w, seen, nullcontext())
    seen.append("backward")
    loss.backward()
    return seen, loss.detach(), x.grad, w.grad


@pytest.mark.parametrize("program_has_hooks", [False, True], ids=["around", "inside"])
def test_hooks_of_the_program_are_told_what_eager_tells_them(program_has_hooks):
    """Kernels keep fewer tensors: under such hooks the region runs as it was written, from its start, and compiled again without them."""

    def program(x, w, seen, hooks):
        seen.append("begins")
        h = (x @ w).exp()
        unused = h.tanh()  # noqa: F841 (which keeps a tensor too)
        with hooks:
            y = h.sin().exp() * x
        return (y * x).sum()

    compiled = dynascope.compile(program)
    for _ in range(2):
        with dynascope.expected("foreign-call", required=False):
            found = run_under_hooks(compiled, program_has_hooks)
        wanted = run_under_hooks(program, program_has_hooks)
        assert found[0] == wanted[0]
        torch.testing.assert_close(found[1:], wanted[1:])


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_hooks_of_the_program_are_told_of_what_nobody_reads(backend):
    def program(x):
        seen = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t.shape) or t, lambda t: t):
            unused = x * x
            first = len(seen)
            unused = unused.exp()
        return first, len(seen), unused.shape

    with dynascope.expected("foreign-call", required=False):
        found = dynascope.compile(program, backend=backend)(torch.ones(2, requires_grad=True))
    assert found == program(torch.ones(2, requires_grad=True)) == (2, 3, torch.Size([2]))


def test_only_hooks_of_torch_go_with_kernels():
    function = dynascope.compile(lambda x: x.exp().sin().sum())
    x = torch.ones(3, requires_grad=True)
    (plain,) = names_of_history(function(x))
    with torch.autograd.graph.save_on_cpu():
        assert names_of_history(function(x)) == [plain]
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            assert names_of_history(function(x)) == ["SumBackward0"]
    finally:
        recording.use(before)
    assert [note.code for note in recorder.report().notes] == ["global-state"]
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
        assert names_of_history(function(x)) == ["SumBackward0"]
    assert names_of_history(function(x)) == [plain]


def names_of_history(result):
    return [result.grad_fn.name()]


def test_hooks_may_be_forbidden():
    program = lambda x: x.exp().sin()  # noqa: E731
    with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
        y = dynascope.compile(program)(torch.ones(3, requires_grad=True))
        y.sum().backward()


def test_an_error_of_a_hook_is_raised_once():
    packed = []

    def pack(tensor):
        packed.append(tensor)
        raise ValueError("no room")

    compiled = dynascope.compile(lambda x: torch.linalg.inv(x))
    compiled(torch.eye(2, requires_grad=True))
    with pytest.raises(ValueError, match="no room"), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        compiled(torch.eye(2, requires_grad=True))
    assert len(packed) == 1


# Checkpoint inside a compiled function


def saved_bytes(result):
    return sum(tensor.nbytes for tensor in result.grad_fn.saved_tensors)


def chain(around):
    torch.manual_seed(0)
    blocks = nn.ModuleList(
        nn.Sequential(nn.Linear(32, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 32)) for _ in range(4)
    )

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = blocks

        def forward(self, x):
            for block in self.blocks:
                x = around(block, x) + x
            return x

    return Chain()


def step(function, parameters):
    torch.manual_seed(1)
    x = torch.linspace(-1, 1, 64 * 32).view(64, 32).requires_grad_()
    y = function(x)
    gradients = torch.autograd.grad(y.square().mean(), [x, *parameters])
    return [y.detach(), *gradients, torch.rand(2)]


@pytest.mark.parametrize("name", ["reentrant", "not reentrant", "with work around"])
def test_inside_is_one_graph_and_keeps_no_more_than_eager(name):
    model = chain(AROUND[name])
    compiled = dynascope.compile(model, fullgraph=True)
    plain = dynascope.compile(chain(lambda f, x: f(x)), fullgraph=True)
    if name != "reentrant":  # which refuses `torch.autograd.grad`
        for found, wanted in zip(step(compiled, model.parameters()), step(model, model.parameters()), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    x = torch.ones(64, 32, requires_grad=True)
    weights = sum(parameter.nbytes for parameter in model.parameters())
    mask = block_input = x.nbytes
    assert saved_bytes(compiled(x)) - weights <= 4 * (mask + block_input) + x.nbytes
    assert saved_bytes(plain(x)) - weights > 4 * (mask + block_input) + x.nbytes


@pytest.mark.expects("foreign-call")
def test_inside_with_random_numbers_drawn_anew():
    model = chain(AROUND["to the end"])
    compiled = dynascope.compile(model)
    for found, wanted in zip(step(compiled, model.parameters()), step(model, model.parameters()), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.expects("foreign-call")
def test_inside_with_effects_that_happen_twice():
    def program(norm, x):
        return checkpoint(norm, x, use_reentrant=False) * 2

    results = []
    for function in (program, dynascope.compile(program)):
        norm = nn.BatchNorm1d(3)
        x = torch.linspace(0, 1, 12).view(4, 3).requires_grad_()
        function(norm, x).square().sum().backward()
        results.append([x.grad, norm.running_mean, norm.num_batches_tracked])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.may_break
def test_inside_without_an_argument_that_requires_grad(grad):
    linear = nn.Linear(3, 3)

    def program(x, reentrant):
        return checkpoint(linear, x, use_reentrant=reentrant) * 2

    compiled = dynascope.compile(program)
    for reentrant in REENTRANT:
        with torch.set_grad_enabled(grad), pytest.warns(UserWarning) if grad and reentrant else nullcontext():
            wanted, found = program(torch.ones(3), reentrant), compiled(torch.ones(3), reentrant)
        assert found.requires_grad == wanted.requires_grad
        torch.testing.assert_close(found, wanted)


@pytest.mark.expects("foreign-call")
def test_what_it_reads_is_changed():
    def program(x, scale):
        y = checkpoint(lambda t: (t * scale).tanh(), x, use_reentrant=False)
        scale.mul_(3)
        return y * 2

    found = []
    for function in (program, dynascope.compile(program)):
        x, scale = torch.linspace(0, 1, 4, requires_grad=True), torch.full((4,), 2.0)
        function(x, scale).sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found)


CHANGES_OF_OPERANDS = {
    "written": lambda c: c.add_(1),
    "another view": lambda c: c.transpose_(0, 1),
    "one more dimension": lambda c: c.unsqueeze_(0),
    "without its history": lambda c: c.detach_(),
}


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("is_read", [True, False])
@pytest.mark.parametrize("changes", CHANGES_OF_OPERANDS.values(), ids=CHANGES_OF_OPERANDS)
def test_an_operand_is_changed(changes, is_read):
    """Eager keeps all operands, whether the function reads them or not, and refuses to run it again once they are others."""

    def program(x):
        c = x * 2
        y = checkpoint(lambda a, b: (b if is_read else a).tanh(), x, c, use_reentrant=False)
        changes(c)
        return y

    for function in (program, dynascope.compile(program)):
        y = function(torch.linspace(0, 1, 3, requires_grad=True).reshape(3, 1))
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation|detached in-place"):
            y.sum().backward()


CHANGES = {
    "inside": (lambda y: y.mul_(3), lambda y: None),
    "after the call": (lambda y: None, lambda y: y.mul_(3)),
    "after the call as a view": (lambda y: None, lambda y: y.unsqueeze_(0).mul_(3)),
}


@pytest.mark.parametrize("backend", ["dynascope", "eager"])
@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_its_result_is_changed(changes, backend):
    """What the backward pass reads of it is made again: that the result is another by then is no matter."""
    inside, after = changes

    def program(x):
        y = checkpoint(lambda t: t.sin().tanh(), x, use_reentrant=False)
        inside(y)
        return y

    found = []
    for function in (program, dynascope.compile(program, backend=backend, fullgraph=True)):
        x = torch.linspace(0, 1, 4, requires_grad=True)
        y = function(x)
        after(y)
        y.sum().backward()
        found.append((y, x.grad))
    torch.testing.assert_close(*found)


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("differentiates", [False, True])
def test_a_variable_that_is_another_tensors_by_the_backward_pass(differentiates):
    """Eager's function runs again on what the variable holds then."""

    def program(x):
        x = checkpoint(lambda v: F.dropout(v.sin(), 0.5) * x, x, use_reentrant=False)
        if differentiates:
            x.square().sum().backward()
        return x

    seen = []
    for function in (program, dynascope.compile(program)):
        torch.manual_seed(0)
        x = torch.linspace(0.5, 2, 8).requires_grad_()
        result = function(x)
        if not differentiates:
            result.square().sum().backward()
        seen.append((result.detach(), x.grad))
    torch.testing.assert_close(seen[0], seen[1])


@pytest.mark.expects("foreign-call")
def test_inside_of_inference_mode():
    """What inference mode makes cannot be saved: eager says so, with gradients enabled or not."""

    def function(x):
        y = x * 2
        with torch.enable_grad():
            return checkpoint(torch.tanh, y, use_reentrant=False)

    compiled = dynascope.compile(function)
    for called in (function, compiled, compiled):
        with torch.inference_mode(), pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            called(torch.ones(3))


@pytest.mark.may_break
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_pass_that_does_not_come_to_the_checkpoint_frees_nothing_of_it(backend):
    """So the checkpoint's function runs again later, on what its variable holds then."""

    def program(x):
        y = checkpoint(lambda u: (u.sin() * x).exp(), x, use_reentrant=False)
        x = torch.autograd.grad(y.sum(), y)[0]
        return y * x

    for function in (program, dynascope.compile(program, backend=backend)):
        with pytest.raises(torch.utils.checkpoint.CheckpointError, match="different number of tensors"):
            function(torch.ones(3, requires_grad=True)).sum().backward()


def changed_before(x):
    length, y = torch.hypot(x, x), x.exp()
    length += 1
    return checkpoint(lambda y: y.sin() * length, y, use_reentrant=False)


def freed_before(x):
    y = x.exp() * x
    y.sum().backward()
    return checkpoint(lambda y: y.sin() * 2, y, use_reentrant=False)


@pytest.mark.parametrize("function", [changed_before, freed_before])
def test_a_checkpoint_after_what_autograd_does_not_show_any_more(function):
    """What autograd kept was changed or freed before the checkpoint: it refuses to say what that is."""
    x, y = leaf(), leaf()
    torch.testing.assert_close(dynascope.compile(function, backend="eager")(x), function(y))
    assert (x.grad is None) == (y.grad is None)


def leaf():
    return torch.linspace(0.5, 1.5, 3).requires_grad_()


@pytest.mark.parametrize("around", ["not reentrant", "reentrant", "with work around"])
@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("has_buffers", [False, True])
def test_what_a_block_changes_outside_is_changed_by_both_runs(around, backend, has_buffers):
    """Statistics of a batch norm, a counter and a list: the second run ends inside the block, with the last tensor that it keeps."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.norm, self.layer, self.calls, self.seen = nn.BatchNorm1d(3), nn.Linear(3, 3), 0, []

        def forward(self, x):
            if not has_buffers:
                self.calls += 1
                self.seen.append(self.calls)
                return self.layer(x).tanh()
            return self.layer(self.norm(x)).tanh()

    found = []
    for compile in (dynascope.compile, lambda block, **_: block):
        block = Block()
        call = compile(block, backend=backend)
        seen = steps(call, AROUND[around], 3)
        found.append([seen, list(block.state_dict().values()), [each.grad for each in block.parameters()], block.calls, block.seen])
    torch.testing.assert_close(*found)


def read_behind(model, x):
    total = 0.0
    for part in x.split(2):
        loss = checkpoint(model, part, use_reentrant=False).square().mean()
        loss.backward()
        total += loss.item()
    return total


def read_before(model, x):
    loss = checkpoint(model, x, use_reentrant=False).square().mean()
    number = loss.item()
    loss.backward()
    return number


def read_between(model, x):
    first = checkpoint(model, x, use_reentrant=False)
    second = checkpoint(model, first * first.sum().item(), use_reentrant=False)
    second.square().sum().mul(second.sum().item()).backward()
    return second.detach()


def chosen_between(model, x):
    first = checkpoint(model, x, use_reentrant=False)
    return checkpoint(model, first[first.sum(1) > 0], use_reentrant=False).sum()


@pytest.mark.parametrize("program", [read_behind, read_before, read_between, chosen_between])
def test_numbers_that_only_the_run_knows_beside_what_is_made_again(program):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Dropout(0.2), nn.Linear(8, 4)), torch.linspace(-1, 1, 24).view(6, 4)
    results = []
    for function in (program, dynascope.compile(program, fullgraph=True)):
        model.zero_grad()
        torch.manual_seed(3)
        for _ in range(2):
            result = torch.as_tensor(function(model, x))
            if result.requires_grad:
                result.backward()
        results.append([result, torch.rand(2), *(each.grad for each in model.parameters())])
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def saved_by_all(result):
    """Of all parts of a graph: what each keeps, once."""
    pending, kept = [result.grad_fn], {}
    while pending:
        function = pending.pop()
        kept |= {tensor.data_ptr(): tensor.nbytes for tensor in getattr(function, "saved_tensors", ())}
        pending += [following for following, _ in function.next_functions if following is not None]
    return sum(kept.values())


def test_behind_a_number_what_is_made_again_is_not_kept_either():
    x, kept = torch.ones(64, 32, requires_grad=True), []
    for around in (AROUND["not reentrant"], lambda f, x: f(x)):
        model = chain(around)

        def program(x, model=model):
            y = model(x)
            return model(y * y.sum().item())

        kept.append(saved_by_all(dynascope.compile(program, fullgraph=True)(x)))
    block_input = mask = x.nbytes
    made_again, parameters = kept[0], sum(parameter.nbytes for parameter in model.parameters())
    assert made_again - parameters <= 2 * 4 * (mask + block_input) + 4 * x.nbytes < kept[1] - parameters
