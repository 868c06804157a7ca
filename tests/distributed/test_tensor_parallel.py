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
    """Of two ranks; nobody is at the other end."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
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


def test_an_output_that_stays_distributed():
    layer = parallel(nn.Sequential(nn.Linear(8, 8)), **{"0": columns(use_local_output=False)})[0]
    call = dynascope.compile(lambda x: layer(x * 2).to_local())
    with dynascope.expected("tensor-subclass"):
        torch.testing.assert_close(call(torch.ones(4, 8)), layer(torch.full((4, 8), 2.0)).to_local())


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
    """Its gradients reach what the collective was given. Of two ranks; nobody is at the other end."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor, Partial, Replicate
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
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
