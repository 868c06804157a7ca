"""Layers of tensor parallel are part of the graph, with their collectives in both passes. One process is the whole group here."""

import dynascope
import pytest
import torch
import torch.distributed as dist
from torch import nn

if not dist.is_available():
    pytest.skip("torch was built without distributed", allow_module_level=True)


@pytest.fixture(autouse=True)
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def mesh(ranks=1):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", (ranks,))


def parallel(model, ranks=1, **styles):
    from torch.distributed.tensor.parallel import parallelize_module

    return parallelize_module(model, mesh(ranks), styles)


def columns(**options):
    from torch.distributed.tensor.parallel import ColwiseParallel

    return ColwiseParallel(**options)


def rows(**options):
    from torch.distributed.tensor.parallel import RowwiseParallel

    return RowwiseParallel(**options)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self, ranks=1):
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(parallel(Block(), ranks, up=columns(), down=rows()) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def trained(model, call, sizes=(4, 4, 4, 4, 4, 4)):
    """The losses, and of the last step's gradients how they are placed and what they are."""
    optimizer = torch.optim.AdamW(model.parameters(), 0.05)
    losses = []
    for step, size in enumerate(sizes):
        optimizer.zero_grad()
        loss = call(torch.linspace(-1, 1 + step, size * 8).reshape(size, 8))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, {name: weight.grad for name, weight in model.named_parameters()}


def test_one_graph_with_its_collectives():
    one_of_two()
    explanation = dynascope.explain(Net(ranks=2), torch.ones(4, 8))
    assert len(explanation.graphs) == 1
    forward, backward = explanation.show("core").split("core-backward")
    for text in (forward, backward):
        calls = [line.partition(" = ")[2] for line in text.splitlines() if "_c10d_functional" in line]
        assert [call.partition("(")[0].rpartition("functional.")[2] for call in calls] == ["all_reduce.default", "wait_tensor.default"] * 2


def test_six_steps_are_those_of_eager():
    model, plain = Net(), Net()
    call = dynascope.compile(model)
    losses, gradients = trained(model, call)
    expected, of_eager = trained(plain, plain)
    assert losses == pytest.approx(expected, rel=1e-5)
    for name, gradient in of_eager.items():
        found = gradients[name]
        assert type(found) is type(gradient)
        if hasattr(gradient, "placements"):
            assert found.placements == gradient.placements
            found, gradient = found.to_local(), gradient.to_local()
        torch.testing.assert_close(found, gradient)


def test_sizes_that_vary():
    model, plain = Net(), Net()
    call = dynascope.compile(model, dynamic=True)
    sizes = (4, 7, 5, 9)
    assert trained(model, call, sizes)[0] == pytest.approx(trained(plain, plain, sizes)[0], rel=1e-5)


def test_without_gradients():
    model = Net()
    call = dynascope.compile(model)
    with torch.no_grad():
        torch.testing.assert_close(call(torch.ones(4, 8)), model(torch.ones(4, 8)))


def test_layers_that_are_alike_share_an_entry():
    """A function that gets one layer after the other: each has hooks of its own, which do the same."""
    layers = [parallel(nn.Sequential(nn.Linear(8, 8)), **{"0": columns()})[0] for _ in range(3)]
    compiles = []

    def backend(graph, example_inputs):
        compiles.append(graph)
        return graph.forward

    call = dynascope.compile(lambda layer, x: layer(x) * 2, backend=backend)
    for layer in layers:
        torch.testing.assert_close(call(layer, torch.ones(4, 8)), layer(torch.ones(4, 8)) * 2)
    assert len(compiles) == 1


def test_a_layer_that_is_placed_otherwise_later():
    from torch.distributed.tensor import Replicate, distribute_tensor

    layer = parallel(nn.Sequential(nn.Linear(8, 8)), **{"0": columns()})[0]
    call = dynascope.compile(lambda x: layer(x) * 1)
    call(torch.ones(4, 8))
    layer.weight = nn.Parameter(distribute_tensor(torch.eye(8), mesh(), [Replicate()]))
    torch.testing.assert_close(call(torch.ones(4, 8)), layer(torch.ones(4, 8)))
    call(torch.ones(4, 8)).sum().backward()
    found, layer.weight.grad = layer.weight.grad, None
    layer(torch.ones(4, 8)).sum().backward()
    assert found.placements == layer.weight.grad.placements


class Scale(nn.Module):
    """A norm of the program's own."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


class Words(nn.Module):
    """Embedding, norms of both kinds over parts of the sequence, and a head: between them go DTensors."""

    def __init__(self, ranks):
        from torch.distributed.tensor import Replicate, Shard
        from torch.distributed.tensor.parallel import PrepareModuleInput, SequenceParallel

        super().__init__()
        torch.manual_seed(0)
        layers = nn.Embedding(16, 8), nn.LayerNorm(8), Scale(), Block(), nn.Linear(8, 16)
        self.words, self.norm, self.scale, self.block, self.head = layers
        part, whole = Shard(1), Replicate()
        parallel(
            self,
            ranks,
            words=rows(input_layouts=whole, output_layouts=part),
            norm=SequenceParallel(),
            scale=SequenceParallel(),
            block=PrepareModuleInput(input_layouts=part, desired_input_layouts=whole),
            head=columns(output_layouts=whole),
        )
        parallel(self.block, ranks, norm=SequenceParallel(sequence_dim=0), up=columns(), down=rows(use_local_output=False))

    def forward(self, i):
        return self.head(self.block(self.scale(self.norm(self.words(i)))).to_local())


def one_of_two():
    """Nobody is at the other end."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
@pytest.mark.parametrize("autocast", [False, True])
def test_distributed_tensors_between_layers(backend, autocast):
    """One graph, and every gradient is placed as eager's: whole for the table by rows, sums to come for the norms."""
    one_of_two()
    compiled, plain, graphs = Words(2), Words(2), []

    def counted(graph, example_inputs):
        graphs.append(graph)
        return graph.forward

    call = dynascope.compile(compiled, **({"backend": counted} if backend == "eager" else {}))
    for model in (call, plain):
        with torch.autocast("cpu", enabled=autocast):
            model(torch.arange(8).reshape(2, 4)).square().sum().backward()
    assert len(graphs) == (1 if backend == "eager" else 0)
    for (name, found), expected in zip(compiled.named_parameters(), plain.parameters(), strict=True):
        assert type(found.grad) is type(expected.grad), name
        if hasattr(expected.grad, "placements"):
            assert found.grad.placements == expected.grad.placements, name
    assert str(compiled.words.weight.grad.placements) == "(Replicate(),)" and "Partial" in str(compiled.scale.weight.grad.placements)


def test_six_steps_with_distributed_tensors_between_layers():
    model, plain = Words(1), Words(1)
    call = dynascope.compile(model, backend="eager")
    found, expected = ([], [])
    for losses, forward, own in ((found, call, model), (expected, plain, plain)):
        optimizer = torch.optim.SGD(own.parameters(), 0.05)
        for step in range(6):
            loss = forward((torch.arange(8).reshape(2, 4) + step) % 16).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    assert found == pytest.approx(expected, rel=1e-5)


def test_distributed_tensors_of_the_programs_own():
    """From outside, made inside, asked about, returned: with their gradients."""
    from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

    one_of_two()

    def step(weight, x):
        given = DTensor.from_local(x, weight.device_mesh, [Shard(0)], run_check=False)
        if not (isinstance(given, DTensor) and given.placements[0].is_shard() and given.shape[0] == 2 * x.shape[0]):
            return x
        made = (given @ weight).relu()
        return made, made.redistribute(placements=[Replicate()]).to_local().sum(), weight

    def run(call):
        weight = distribute_tensor(torch.linspace(-1, 1, 32).reshape(8, 4), mesh(2), [Shard(0)]).requires_grad_()
        x = torch.linspace(0, 1, 16).reshape(2, 8).requires_grad_()
        made, total, same = call(weight, x)
        assert same is weight
        (made.to_local().sum() + total).backward()
        placed = made.placements, made.stride(), weight.grad.placements
        return placed, [made.to_local(), total, weight.grad.to_local(), x.grad]

    (placed, found), (expected_places, expected) = run(dynascope.compile(step)), run(step)
    assert placed == expected_places
    torch.testing.assert_close(found, expected)


@pytest.mark.filterwarnings("ignore:DTensor random operators")
def test_a_distributed_tensor_that_is_written_to_or_drawn_for():
    from torch.distributed.tensor import Replicate, distribute_tensor

    given = distribute_tensor(torch.ones(4), mesh(), [Replicate()])

    def written(x):
        y = x * 2
        y += 1
        return y

    with dynascope.expected("foreign-call"):
        assert dynascope.compile(written, backend="eager")(given).to_local().tolist() == [3.0] * 4
    with dynascope.expected("foreign-call"):
        dynascope.compile(lambda x: torch.dropout(x * 2, 0.5, True), backend="eager")(given)
    with dynascope.expected("data-dependent-value"):
        assert dynascope.compile(lambda x: x.sum().item() + 1, backend="eager")(given) == 5


def test_an_output_that_stays_distributed():
    layer = parallel(nn.Sequential(nn.Linear(8, 8)), **{"0": columns(use_local_output=False)})[0]
    call = dynascope.compile(lambda x: layer(x * 2), backend="eager")
    found, expected = call(torch.ones(4, 8)), layer(torch.full((4, 8), 2.0))
    assert found.placements == expected.placements
    torch.testing.assert_close(found.to_local(), expected.to_local())


def test_a_hook_of_the_program_s_own():
    layer, seen = parallel(nn.Sequential(nn.Linear(8, 8)), **{"0": columns()})[0], []
    call = dynascope.compile(lambda x: layer(x * 2))
    call(torch.ones(4, 8))
    layer.register_forward_hook(lambda module, arguments, result: seen.append(result.shape))
    with dynascope.expected("tensor-subclass"):
        call(torch.ones(4, 8))
    assert seen == [(4, 8)]


def test_a_norm_whose_gradients_are_sums_to_come():
    from torch.distributed.tensor.parallel import SequenceParallel

    def made():
        torch.manual_seed(0)
        return parallel(nn.Sequential(nn.LayerNorm(8)), **{"0": SequenceParallel(use_local_output=True)})

    compiled, plain = made(), made()
    weights = torch.arange(32.0).reshape(4, 8)
    called = dynascope.compile(lambda x: compiled(x) * 1)
    for call in (called, plain):
        (call(torch.linspace(-1, 1, 32).reshape(4, 8)) * weights).sum().backward()
    for found, expected in zip(compiled.parameters(), plain.parameters(), strict=True):
        assert found.grad.placements == expected.grad.placements
        torch.testing.assert_close(found.grad.to_local(), expected.grad.to_local())


def test_what_waits_for_a_collective_comes_in_as_a_plain_tensor():
    """Its gradients reach what the collective was given."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor, Partial, Replicate

    one_of_two()
    call = dynascope.compile(lambda x: (x * 2).relu())

    def waiting(x):
        part = DTensor.from_local(x, mesh(2), [Partial()])
        return part.redistribute(placements=[Replicate()], async_op=True).to_local()

    for grows in (False, True):
        x = torch.ones(4, requires_grad=grows)
        given = waiting(x * 3)
        assert type(given) is AsyncCollectiveTensor
        result = call(given)
        torch.testing.assert_close(result, torch.full((4,), 6.0))
        assert type(result) is torch.Tensor and result.requires_grad == given.requires_grad
    result.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((4,), 6.0))
