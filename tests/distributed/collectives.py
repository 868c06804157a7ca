"""Started by the test: two processes run functions with collectives, eagerly and compiled, and rank 0 prints what it found.

    python collectives.py [nccl]      on gloo, or on two GPUs of this machine
"""

import json

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.nn.functional import softsign
from two_processes import asked_for, start


def reduced(x):
    return functional.all_reduce(x * 2, "sum", dist.group.WORLD).cos() + x


def reduced_by_name(x):
    return functional.all_reduce(x.sin(), "SUM", "0") * 3


def reduced_over_ranks(x):
    return functional.all_reduce(x.sin(), "max", [0, 1]) * 3


def gathered(x):
    return functional.all_gather_tensor(x.sin(), 0, dist.group.WORLD).exp()


def gathered_by_columns(x):
    return functional.all_gather_tensor_autograd(x.sin(), 1, dist.group.WORLD) * 2


def scattered(x):
    return functional.reduce_scatter_tensor(x.sin(), "sum", 0, dist.group.WORLD) * 2


def exchanged(x):
    return functional.all_to_all_single(x.sin(), [2, 2], [2, 2], dist.group.WORLD).cos()


def late_wait(x):
    first = torch.ops._c10d_functional.all_reduce(x * 2, "sum", "0")
    between = (x @ x.T).relu()
    second = torch.ops._c10d_functional.all_reduce(between, "sum", "0")
    first = torch.ops._c10d_functional.wait_tensor(first)
    return first.sum() + torch.ops._c10d_functional.wait_tensor(second)


def in_place(x):
    y = x.detach() * 2
    dist.all_reduce(y)
    dist.all_reduce(y, op=dist.ReduceOp.MAX, group=dist.group.WORLD)
    return y + 1


def of_an_argument(x):
    x = x.detach()
    dist.all_reduce(x)
    return x * 2


def into_a_tensor(x):
    y = x.detach().sin()
    found = torch.empty(2 * y.shape[0], y.shape[1], device=y.device)
    dist.all_gather_into_tensor(found, y)
    part = torch.empty_like(y)
    dist.reduce_scatter_tensor(part, found)
    return found.cos(), part


def into_a_list(x):
    y = x.detach().sin()
    found = [torch.empty_like(y) for _ in range(dist.get_world_size())]
    dist.all_gather(found, y)
    return torch.cat(found).cos() * (dist.get_rank() + 1)


def unread(x):
    functional.all_reduce(x, "sum", dist.group.WORLD)
    return x * 2


def norm(x):
    """As programs average a loss: nothing of it is differentiated."""
    with torch.no_grad():
        total = x.square().sum()
        dist.all_reduce(total)
    return x / total.sqrt()


WHOLE = (
    *(reduced, reduced_by_name, reduced_over_ranks, gathered, gathered_by_columns, scattered, exchanged, late_wait),
    *(in_place, of_an_argument, into_a_tensor, into_a_list, unread, norm),
)


def through_gradients(x):
    """Eager's gradients go past what is reduced in place: left to Python."""
    y = x * 2
    dist.all_reduce(y)
    return y.sin()


def later(x):
    y = x.detach().sin()
    work = dist.all_reduce(y, async_op=True)
    z = x.cos()
    work.wait()
    return y + z


def on_a_stride(x):
    y = x.detach().sin()
    dist.broadcast(y, 0)
    dist.barrier()
    return y.cos()


PARTS = (through_gradients, later, on_a_stride)


def outcome(function, rank, device, size, requires_grad):
    x = torch.randn(size, 6, generator=torch.Generator().manual_seed(rank)).to(device).requires_grad_(requires_grad)
    result = function(x)
    results = result if isinstance(result, tuple) else (result,)
    # The loss weighs each result with a number that a rounding of the result hardly moves: a sine of a large sum would.
    if requires_grad and results[0].requires_grad:
        sum((each * softsign(each.detach())).sum() for each in results).backward()
    return [each.detach() + 0 for each in results], x.grad, x.detach()


TOLERANCE = {"cpu": {}, "cuda": dict(rtol=1e-4, atol=1e-3)}
"""A GPU adds up matrix products in another order."""


def compared(function, rank, device, fullgraph):
    import dynascope

    compiled = dynascope.compile(function, fullgraph=fullgraph)
    differs = []
    for size, requires_grad in ((4, False), (4, True), (4, True), (6, False), (8, False), (8, True)):
        if size != 4 and function is exchanged:
            continue
        if requires_grad and function is reduced_over_ranks:
            continue  # only sums have gradients
        expected = outcome(function, rank, device, size, requires_grad)
        found = outcome(compiled, rank, device, size, requires_grad)
        try:
            torch.testing.assert_close(found, expected, **TOLERANCE[device.type])
        except AssertionError as error:
            differs.append(f"{size} {requires_grad}: {error}")
    return differs


KNOWN = torch.__version__ >= "2.12"
"""Before, a process group's methods cannot be told apart, and asking a group is a break."""


def run(rank, device):
    found = {}
    for function in (*WHOLE, *PARTS):
        try:
            found[function.__name__] = compared(function, rank, device, KNOWN and function in WHOLE)
        except Exception as error:
            found[function.__name__] = [f"{type(error).__name__}: {error}"]
    gathered = [None, None]
    dist.all_gather_object(gathered, found)
    if rank == 0:
        print(json.dumps({name: [*gathered[0][name], *gathered[1][name]] for name in found}), flush=True)


if __name__ == "__main__":
    start(run, backend=asked_for()[0])
