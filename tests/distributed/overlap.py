"""Started by the test: two processes train under DistributedDataParallel, and rank 0 prints losses and the order of what happened.

An operator in the model notes when its backward pass runs, the hook of the reducer when a bucket of gradients is sent.

    python overlap.py plain tied [nccl]      a line for each kind, on gloo or on two GPUs of this machine
"""

import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from two_processes import asked_for, start

happened = []


@torch.library.custom_op("probe::seen", mutates_args=())
def seen(x: torch.Tensor, name: str) -> torch.Tensor:
    happened.append(name)
    return x.clone()


@torch.library.custom_op("probe::touch", mutates_args=())
def touch(x: torch.Tensor, name: str) -> torch.Tensor:
    return x.clone()


def keep_name(ctx, inputs, output):
    ctx.name = inputs[1]


seen.register_fake(lambda x, name: torch.empty_like(x))
touch.register_fake(lambda x, name: torch.empty_like(x))
touch.register_autograd(lambda ctx, tangent: (seen(tangent, ctx.name), None), setup_context=keep_name)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.batch_norm = nn.LayerNorm(width), nn.BatchNorm1d(width)
        self.up, self.down, self.drop = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(self.down(F.gelu(self.up(self.batch_norm(self.norm(x))))))


class Model(nn.Module):
    """The head has the weights of the first layer: its gradient comes from the first part and from the last one."""

    def __init__(self, kind, width=64):
        super().__init__()
        self.kind = kind
        self.first = nn.Linear(width, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(4))
        self.head = nn.Linear(width, width)
        if kind == "tied":
            self.head.weight = self.first.weight

    def forward(self, x):
        x = self.first(x)
        pieces = []
        for number, block in enumerate(self.blocks):
            if self.kind == "checkpoint" and number % 2:
                x = checkpoint(block, x, use_reentrant=False)
            elif self.kind == "unused" and number == 1:
                x = x * 2
            elif self.kind == "autocast" and number == 2:
                with torch.autocast(x.device.type, torch.bfloat16):
                    x = block(x).float()
            else:
                x = block(x)
            if self.kind == "views":
                pieces.append(x[:, :8] / 100)
                x = x.transpose(0, 1).contiguous().t()
            x = touch(x, f"backward of {number}")
        return self.head(x) + sum(piece.mean() for piece in pieces)


def train(rank, device, compile, kind):
    torch.manual_seed(0)
    model = Model(kind).to(device)
    reduced = DistributedDataParallel(model, bucket_cap_mb=0.1, find_unused_parameters=kind == "unused")

    def send(state, bucket):
        happened.append("sent")
        return dist.all_reduce(bucket.buffer().div_(2), async_op=True).get_future().then(lambda done: done.value()[0])

    reduced.register_comm_hook(None, send)
    step = compile(model if kind == "inside" else reduced)
    if kind == "inside":
        model._compiled_call_impl = compile(model._call_impl)
        step = reduced
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for number in range(6):
        happened.clear()
        torch.manual_seed(number)
        size = 8 if kind != "sizes" else 6 + 4 * number
        loss = step(torch.randn(size, 64)[rank::2].to(device)).pow(2).mean()
        if kind == "accumulated" and number % 2:
            with reduced.no_sync():
                loss.backward()
        else:
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses, list(happened)


def run(rank, device, *kinds):
    import dynascope

    for kind in kinds:
        expected = train(rank, device, lambda target: target, kind)
        found = train(rank, device, dynascope.compile, kind)
        if rank == 0:
            print(json.dumps([kind, expected, found]), flush=True)


if __name__ == "__main__":
    backend, kinds = asked_for()
    start(run, *kinds, backend=backend)
