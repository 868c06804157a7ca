"""Compiled modules inside torch's wrappers for several processes, and these inside compiled code: here one process is all."""

import dynascope
import pytest
import torch
import torch.distributed as dist
from dynascope import recording
from dynascope.report.findings import findings
from torch import nn

if not dist.is_available():
    pytest.skip("torch was built without distributed", allow_module_level=True)


@pytest.fixture(autouse=True)
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def losses(model, call=None):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    found = []
    for step in range(3):
        loss = (call or model)(torch.linspace(-1, 1 + step, 32).reshape(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def sharded(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    return model


def test_fully_shard_over_a_compiled_module():
    expected = losses(sharded(Net()))
    compiled = dynascope.compile(Net(), backend="eager")
    assert losses(sharded(compiled)) == pytest.approx(expected)
    assert isinstance(compiled, torch.distributed.fsdp.FSDPModule)


def test_fully_shard_over_a_compiled_part():
    expected = losses(sharded(Net()))
    model = Net()
    model.first = sharded(dynascope.compile(model.first, backend="eager"))
    assert losses(sharded(model)) == pytest.approx(expected)


def test_a_wrapper_inside_compiled_code_is_one_break():
    expected = losses(Net(), None)
    wrapped = nn.parallel.DistributedDataParallel(Net())

    @dynascope.compile(backend="eager")
    def doubled(x):
        return wrapped(x * 2) / 2 + 0 * x.sum()

    plain = nn.parallel.DistributedDataParallel(Net())
    with dynascope.expected("disabled-function"):
        found = losses(wrapped, doubled)
    assert found == pytest.approx(losses(plain, lambda x: plain(x * 2) / 2 + 0 * x.sum()))
    (reason,) = dynascope.explain(doubled)(torch.ones(4, 8)).break_reasons
    assert reason.message.startswith("`wrapped` is a DistributedDataParallel") and "`torch.compile(wrapped)`" in reason.remedy
    assert losses(dynascope.compile(nn.parallel.DistributedDataParallel(Net()), backend="eager")) == pytest.approx(expected)


def test_sharded_modules_inside_compiled_code_are_one_kind_of_break_in_the_programs_words():
    def model():
        whole = nn.Sequential(Net(), nn.Linear(4, 8))
        sharded(whole[0])
        return sharded(whole)

    expected = losses(model())
    compiled = model()
    recorder = recording.Recorder(__file__)
    before = recording.use(recorder)
    try:
        with dynascope.expected("disabled-function"):
            found = losses(compiled, dynascope.compile(compiled, backend="eager"))
    finally:
        recording.use(before)
    assert found == pytest.approx(expected)
    told = [(finding.code, finding.message) for finding in findings(recorder.report())]
    assert {code for code, _ in told} == {"disabled-function"}
    assert {function.name for function in recorder.report().functions} == {"Sequential.forward", "Module.__call__"}
    assert all("`Net` is sharded by `fully_shard`" in message for _, message in told)
