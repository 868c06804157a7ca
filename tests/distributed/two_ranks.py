"""Started by the test: two processes on gloo train with and without compilation, and rank 0 prints what they found as JSON."""

import datetime
import json
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional as F

STEPS = 6


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def made(kind, compile, mesh):
    torch.manual_seed(0)
    model = Model()
    if kind == "ddp":
        return compile(nn.parallel.DistributedDataParallel(model)), model
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


def losses(kind, compile, mesh, rank):
    step, model = made(kind, compile, mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for number in range(STEPS):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(number))
        loss = step(x if kind == "tensor-parallel" else x[rank::2]).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def run(rank, kind, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "RANK": str(rank), "WORLD_SIZE": "2"}
    dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=5))
    import dynascope
    from dynascope import recording
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    expected = losses(kind, lambda target: target, mesh, rank)
    recorder = recording.Recorder()
    recording.use(recorder)
    found = losses(kind, dynascope.compile, mesh, rank)
    report = recorder.report()
    breaks = sum(entry.exit == "break" for function in report.functions for entry in function.entries)
    if rank == 0:
        print(json.dumps({"expected": expected, "found": found, "graphs": len(report.graphs), "breaks": breaks}))
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    mp.spawn(run, (sys.argv[1], port), nprocs=2)
