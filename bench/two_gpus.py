"""On a machine with two GPUs: collectives, training under torch's wrappers, overlap with the backward pass, one build for all ranks.

    NCCL_NVLS_ENABLE=0 PYTHONPATH=engine python bench/two_gpus.py [gloo]      a table a part; about two minutes

With `gloo` the same programs run on the CPU, but for the profiler's part: to try this file. Overlap is the share of the time in which
NCCL's kernels run that other kernels run too, over one step, beside eager's.
"""

from __future__ import annotations

import functools
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "distributed"
sys.path[:0] = [str(ROOT / "engine"), str(PROGRAMS)]

import torch  # noqa: E402
from torch import nn  # noqa: E402
from two_processes import start  # noqa: E402

BACKEND = "gloo" if "gloo" in sys.argv else "nccl"
KINDS = ("ddp", "fsdp-by-block", "fsdp-whole", "tensor-parallel")
ORDERS = ("plain", "tied", "checkpoint", "unused", "autocast", "views", "inside", "sizes", "accumulated")
WIDTH, BLOCKS = 2048, 8


def table(head, rows):
    rows = [[str(cell) for cell in row] for row in rows]
    print("\n| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def lines_of(*words, limit=150, **surroundings):
    """What a program prints, and what it ends with where it does not end well."""
    own = {**os.environ, "DYNASCOPE_STRICT": "0", "OMP_NUM_THREADS": "1", "NCCL_NVLS_ENABLE": "0", **surroundings}
    own["PYTHONPATH"] = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server"), os.environ.get("PYTHONPATH", "")])
    try:
        done = subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, env=own, check=False, timeout=limit)
    except subprocess.TimeoutExpired as error:
        printed, errors = ((text or b"").decode(errors="replace") for text in (error.stdout, error.stderr))
        return printed.splitlines(), f"no end after {limit} s: {errors[-600:]}", 124
    return done.stdout.splitlines(), done.stderr, done.returncode


def json_lines(name, *words):
    lines, errors, code = lines_of(PROGRAMS / name, *words, BACKEND)
    if code:
        print(f"{name} ended with {code}:\n{errors[-3000:]}", flush=True)
    return [json.loads(line) for line in lines if line[:1] in "[{"]


def collectives():
    for found in json_lines("collectives.py"):
        rows = [(name, "equal" if not differs else " ".join(differs[0].split())[:160]) for name, differs in found.items()]
        table(("collective", "with eager's, three sizes, gradients"), rows)


def close(found, expected, within):
    return len(found) == len(expected) and all(math.isclose(a, b, rel_tol=within) for a, b in zip(found, expected, strict=True))


def training():
    rows = []
    for found in json_lines("two_ranks.py", *KINDS):
        equal = "equal" if close(found["found"], found["expected"], 1e-5) else f"{found['found']} for {found['expected']}"
        rows.append((found["kind"], equal, found["graphs"], found["breaks"]))
    table(("training", "losses of six steps", "graphs", "breaks"), rows)


def order():
    rows = []
    for kind, (expected, in_eager), (losses, happened) in json_lines("overlap.py", *ORDERS):
        equal = close(losses, expected, 2e-2 if kind == "autocast" else 1e-4)
        rows.append((kind, equal, sorted(happened) == sorted(in_eager), happened.index("sent"), in_eager.index("sent")))
    table(("DDP", "losses equal", "the same buckets", "first is sent as number", "in eager"), rows)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def wrapped(kind, compile, device):
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = Model().to(device)
    if kind == "ddp":
        return compile(nn.parallel.DistributedDataParallel(model))
    for block in model.blocks:
        fully_shard(block)
        if kind == "fsdp-by-block":
            block._compiled_call_impl = compile(block._call_impl)
    fully_shard(model)
    return compile(model) if kind == "fsdp-whole" else model


def length(spans):
    """How long at least one of the spans lasts, and these as spans that do not meet."""
    apart = []
    for begin, end in sorted(spans):
        if apart and begin <= apart[-1][1]:
            apart[-1][1] = max(end, apart[-1][1])
        else:
            apart.append([begin, end])
    return sum(end - begin for begin, end in apart), apart


def overlap_of(one_step):
    """Milliseconds that a step takes, those of NCCL's kernels, and the share of these in which others run."""
    for _ in range(3):
        one_step()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        one_step()
        torch.cuda.synchronize()
    sent, computed = [], []
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith("Mem"):
            (sent if "nccl" in event.name else computed).append((event.time_range.start, event.time_range.end))
    whole, total, others = length([*sent, *computed])[0], length(sent)[0], length(computed)[0]
    return whole / 1e3, total / 1e3, (total + others - whole) / max(total, 1e-9)


def step(model, x):
    model(x).pow(2).mean().backward()


def measured(rank, device):
    import dynascope

    rows = []
    for kind in ("ddp", "fsdp-by-block", "fsdp-whole"):
        for name, compile in (("eager", lambda target: target), ("ours", dynascope.compile)):
            model = wrapped(kind, compile, device)
            x = torch.randn(2048, WIDTH, device=device)
            whole, total, share = overlap_of(functools.partial(step, model, x))
            rows.append((kind, name, f"{whole:.2f} ms", f"{total:.2f} ms", f"{share:.0%}"))
            del model
            torch.cuda.empty_cache()
    if rank == 0:
        table(("model", "by", "kernels of a step", "NCCL's of these", "in which others run"), rows)


def builds(rank, device):
    """Kernels that this rank compiled itself, of one program that both ranks compile at the same time with an empty cache."""
    import dynascope
    from dynascope.runtime import cuda_compile, kernel_workers

    found = []
    in_workers, here = kernel_workers.compile_all, cuda_compile.compile_here
    kernel_workers.compile_all = lambda missing, *rest: found.extend(missing) or in_workers(missing, *rest)
    cuda_compile.compile_here = lambda key, *rest: found.append(key) or here(key, *rest)
    model = dynascope.compile(Model().to(device))
    torch.distributed.barrier()
    model(torch.randn(64, WIDTH, device=device)).sum().backward()
    gathered = [None, None]
    torch.distributed.all_gather_object(gathered, found)
    if rank == 0:
        first, second = map(set, gathered)
        head = ("kernels", "built by rank 0", "by rank 1", "by both")
        table(head, [(len(first | second), len(first), len(second), len(first & second))])


DIES = """
import torch, torch.distributed as dist
dist.init_process_group()
rank = dist.get_rank()
device = torch.device("cuda", rank) if torch.cuda.is_available() else torch.device("cpu")
f = torch.compile(lambda x: torch.relu(x) * 2, dynamic=False)
f(torch.ones(3, device=device))
if rank == 1:
    f(torch.ones(4, device=device))
dist.barrier(device_ids=[rank] if device.type == "cuda" else None)
if rank == 1:
    raise ValueError("rank one is tired")
dist.all_reduce(torch.ones(3, device=device))
"""


def dies():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(DIES)
        launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "dynascope", "run", path)
        _, errors, code = lines_of(*launcher, limit=90)
    rows = [
        ("ends", code not in (0, 124)),
        ("with the traceback", "ValueError: rank one is tired" in errors),
        ("one report", errors.count("Summary") == 1),
        ("that names the difference", "ranks-differ" in errors),
    ]
    table(("a rank that dies", ""), rows)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DYNASCOPE_CACHE_DIR"] = folder
        if BACKEND == "nccl":
            start(builds, backend=BACKEND)
        training()
        order()
        collectives()
        dies()
        if BACKEND == "nccl":
            start(measured, backend=BACKEND)


if __name__ == "__main__":
    main()
