"""Started by the test: two processes train with and without compilation, and rank 0 prints what they found as JSON.

    python two_ranks.py ddp fsdp-whole [nccl]      a line for each kind, on gloo or on two GPUs of this machine
"""

import json

import torch
from torch import nn
from torch.nn import functional as F
from two_processes import asked_for, start

STEPS = 6


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=16, blocks=2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def made(kind, compile, mesh, device, **sizes):
    """What is called, and the model whose weights are trained."""
    torch.manual_seed(0)
    model = Model(**sizes).to(device)
    if kind == "ddp":
        return compile(nn.parallel.DistributedDataParallel(model)), model
    if kind == "sequence-parallel":
        return compile(in_sequence(model, mesh)), model
    if kind == "pipeline":
        return pipeline(model, compile, mesh, device)
    if kind == "tensor-parallel":
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        for block in model.blocks:
            parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        return compile(model), model
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        fully_shard(block, mesh=mesh)
        if kind == "fsdp-by-block":
            block._compiled_call_impl = compile(block._call_impl)
    fully_shard(model, mesh=mesh)
    return (compile(model) if kind == "fsdp-whole" else model), model


def in_sequence(model, mesh):
    """Each rank has rows of its own; norms give them as DTensors, which the products put together."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

    for block in model.blocks:
        up, down = ColwiseParallel(input_layouts=Shard(0)), RowwiseParallel(output_layouts=Shard(0))
        parallelize_module(block, mesh, {"norm": SequenceParallel(sequence_dim=0), "up": up, "down": down})
    return model


def pipeline(model, compile, mesh, device):
    """Half of the blocks on each rank; each compiles its own. Two parts of the rows are under way at a time."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    half = len(model.blocks) // 2
    own = model.blocks[:half] if mesh.get_local_rank() == 0 else [*model.blocks[half:], model.head]
    part = nn.Sequential(*own)
    stage = PipelineStage(compile(part), mesh.get_local_rank(), 2, device)
    return ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda result, target: result.pow(2).mean()), part


def one_step(kind, call, x):
    """The loss, with gradients. Of a pipeline the last rank's."""
    if kind != "pipeline":
        loss = call(x).pow(2).mean()
        loss.backward()
        return loss.detach()
    found = []
    if call._stage.is_first:
        call.step(x)
    else:
        call.step(target=x, losses=found)
    loss = torch.stack(found).mean().detach() if found else torch.zeros((), device=x.device)
    torch.distributed.broadcast(loss, 1)
    return loss


def losses(kind, compile, mesh, rank, device):
    step, model = made(kind, compile, mesh, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)  # on a GPU no list may mix DTensors with others
    found = []
    for number in range(STEPS):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(number)).to(device)
        loss = one_step(kind, step, x if kind in ("tensor-parallel", "pipeline") else x[rank::2])
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def run(rank, device, *kinds):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(device.type, (2,))
    for kind in kinds:
        found = compared(kind, mesh, rank, device)
        if rank == 0:
            print(json.dumps({"kind": kind, **found}), flush=True)


def compared(kind, mesh, rank, device):
    import dynascope
    from dynascope import recording

    expected = losses(kind, lambda target: target, mesh, rank, device)
    recorder = recording.Recorder()
    recording.use(recorder)
    found = losses(kind, dynascope.compile, mesh, rank, device)
    report = recorder.report()
    breaks = sum(entry.exit == "break" for function in report.functions for entry in function.entries)
    return {"expected": expected, "found": found, "graphs": len(report.graphs), "breaks": breaks}


if __name__ == "__main__":
    backend, kinds = asked_for()
    start(run, *kinds, backend=backend)
