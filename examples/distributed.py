"""Two processes train one model, each on its half of every batch; gradients are averaged while the backward pass runs.

    dynascope run examples/distributed.py              starts both ranks itself
    torchrun --nproc-per-node 2 -m dynascope run examples/distributed.py
"""

import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(rank, world, address=""):
    if address:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": address, "RANK": str(rank), "WORLD_SIZE": str(world)}
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 1)))
    step = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for number in range(4):
        x = torch.randn(8, 16, generator=torch.Generator().manual_seed(number))[rank::world]
        loss = (step(x) - x.sum(-1, keepdim=True)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total = loss.detach()
        dist.all_reduce(total)
        if rank == 0:
            print(f"step {number}: loss {total.item() / world:.4f}", flush=True)
    dist.destroy_process_group()


def main():
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    mp.spawn(train, (2, port), nprocs=2)


if __name__ == "__main__":
    main()
