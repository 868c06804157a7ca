"""On a machine with two GPUs: training under torch's ways to spread a model, collectives, overlap, one build for all ranks.

    NCCL_NVLS_ENABLE=0 PYTHONPATH=engine python bench/two_gpus.py [gloo] [--seconds N]     writes its section of RESULTS.md

It ends after 225 seconds, with what is there.

A row a way: losses of six steps beside eager's, then milliseconds of a step of a larger model in turn with eager and torch.compile,
and the share of the time in which NCCL's kernels run that other kernels run too. What fails, or does not end in time, is said in its row,
and the others go on. With `gloo` all but the profiler's part runs on the CPU with small sizes, and nothing is written: to try this file.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import functools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ROOT / "tests" / "distributed"
sys.path[:0] = [str(ROOT / "engine"), str(PROGRAMS)]

import torch  # noqa: E402
from results import write_section  # noqa: E402
from two_processes import start  # noqa: E402
from two_ranks import Model, compared, made, one_step  # noqa: E402

KINDS = ("ddp", "fsdp-by-block", "fsdp-whole", "tensor-parallel", "sequence-parallel", "pipeline")
ORDERS = ("plain", "tied", "checkpoint", "unused", "autocast", "views", "inside", "sizes", "accumulated")
COLUMNS = ["case", "losses of six steps", "graphs", "breaks", "ours", "torch.compile", "eager", "NCCL in which others run, ours", "eager's"]
IN_CHILD = "DYNASCOPE_BENCH_KINDS"
SAY = "case: "
LIMIT = 45
"""Seconds for a case: then its ranks end, and the next begins in new ones."""


def is_on_gpus() -> bool:
    return "gloo" not in sys.argv


def sizes() -> dict[str, int]:
    return {"width": 2048, "blocks": 4} if is_on_gpus() else {"width": 64, "blocks": 2}


# One rank, over all cases that are left.


def cases(rank: int, device: torch.device, *tasks: str) -> None:
    """Each a way to spread the model, ours beside eager, or with ` torch.compile` behind it torch's alone."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh(device.type, (2,))
    for task in tasks:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        kind, _, theirs = task.partition(" ")
        say(rank, kind=kind, begins=task)
        if not theirs:
            say(rank, kind=kind, **six_steps(kind, mesh, rank, device))
        for side in (theirs,) if theirs else ("eager", "ours"):
            try:
                say(rank, kind=kind, **timed(kind, side, mesh, device))
            except Exception as error:  # on both ranks alike; where one waits for the other, the limit ends them
                say(rank, kind=kind, **{side: f"{type(error).__name__}: {' '.join(str(error).split())[:60]}"})
            if is_on_gpus():
                torch.cuda.empty_cache()
        faulthandler.cancel_dump_traceback_later()
        say(rank, kind=kind, ends=task)


def say(rank: int, **facts: object) -> None:
    if rank == 0:
        print(SAY + json.dumps(facts), flush=True)


def six_steps(kind: str, mesh: object, rank: int, device: torch.device) -> dict[str, object]:
    try:
        found = compared(kind, mesh, rank, device)
    except Exception as error:
        return {"losses": f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"}
    equal = close(found["found"], found["expected"], 1e-5)
    losses = "equal" if equal else f"{found['found']} for {found['expected']}"
    return {"losses": losses, "graphs": found["graphs"], "breaks": found["breaks"]}


def close(found: list[float], expected: list[float], within: float) -> bool:
    return len(found) == len(expected) and all(math.isclose(a, b, rel_tol=within) for a, b in zip(found, expected, strict=True))


def timed(kind: str, side: str, mesh: object, device: torch.device) -> dict[str, object]:
    """Milliseconds of a step, the median of ten, and what the profiler says of NCCL's kernels."""
    import dynascope

    theirs = functools.partial(torch.compile, backend="inductor" if is_on_gpus() else "aot_eager")
    compile = {"eager": lambda target: target, "ours": dynascope.compile, "torch.compile": theirs}[side]
    call, model = made(kind, compile, mesh, device, **sizes())
    x = torch.randn(2048 if is_on_gpus() else 32, sizes()["width"], device=device)

    def step() -> None:
        one_step(kind, call, x)
        for weight in model.parameters():
            weight.grad = None

    for _ in range(3):
        step()
    found = {side: statistics.median(milliseconds(step) for _ in range(10))}
    if is_on_gpus() and side != "torch.compile":
        found[f"overlap of {side}"] = overlap_of(step)
    return found


def milliseconds(step: Callable[[], None]) -> float:
    wait()
    begin = time.perf_counter()
    step()
    wait()
    return (time.perf_counter() - begin) * 1e3


def wait() -> None:
    if is_on_gpus():
        torch.cuda.synchronize()


def length(spans: list[tuple[float, float]]) -> tuple[float, list[list[float]]]:
    """How long at least one of the spans lasts, and these as spans that do not meet."""
    apart = []
    for begin, end in sorted(spans):
        if apart and begin <= apart[-1][1]:
            apart[-1][1] = max(end, apart[-1][1])
        else:
            apart.append([begin, end])
    return sum(end - begin for begin, end in apart), apart


def overlap_of(step: Callable[[], None]) -> float:
    """The share of the time of NCCL's kernels in which others run."""
    wait()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        wait()
    sent, computed = [], []
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith("Mem"):
            (sent if "nccl" in event.name else computed).append((event.time_range.start, event.time_range.end))
    whole, total, others = length([*sent, *computed])[0], length(sent)[0], length(computed)[0]
    return (total + others - whole) / max(total, 1e-9)


def builds(rank: int, device: torch.device) -> None:
    """Kernels that this rank compiled itself, of one program that both ranks compile at the same time with an empty cache."""
    import dynascope
    from dynascope.runtime import cuda_compile, kernel_workers

    found = []
    in_workers, here = kernel_workers.compile_all, cuda_compile.compile_here
    kernel_workers.compile_all = lambda missing, *rest: found.extend(missing) or in_workers(missing, *rest)
    cuda_compile.compile_here = lambda key, *rest: found.append(key) or here(key, *rest)
    model = dynascope.compile(Model(**sizes()).to(device))
    torch.distributed.barrier()
    model(torch.randn(64, sizes()["width"], device=device)).sum().backward()
    gathered = [None, None]
    torch.distributed.all_gather_object(gathered, found)
    first, second = map(set, gathered)
    say(rank, kind="builds", text=f"{len(first)} by the first rank, {len(second)} by the second, {len(first & second)} by both")


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


# The parent: processes that may fail or hang, each with a limit.


def lines_of(*words: object, limit: float, **surroundings: str) -> Iterator[str]:
    """What a program prints, and as the last line how it ended: `ended: 0`. Whoever it has started ends with it."""
    own = {**os.environ, "DYNASCOPE_STRICT": "0", "OMP_NUM_THREADS": "1", "NCCL_NVLS_ENABLE": "0", **surroundings}
    own["PYTHONPATH"] = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server"), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryFile("w+") as printed:
        running = subprocess.Popen([sys.executable, *map(str, words)], stdout=printed, stderr=printed, env=own, start_new_session=True)
        try:
            code: object = running.wait(timeout=max(limit, 1))
        except subprocess.TimeoutExpired:
            code = f"no end after {limit:.0f} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.pid, 9)
            running.wait()
        printed.seek(0)
        yield from printed.read().splitlines()
        yield f"ended: {code}"


def training(tasks: list[str], found: dict[str, dict[str, object]], ends: float) -> None:
    """Adds the facts of each case. One that ends the ranks is named, and the rest begins anew."""
    while tasks and time.monotonic() < ends - 10:
        lines = list(lines_of(__file__, *sys.argv[1:], limit=ends - time.monotonic(), **{IN_CHILD: ",".join(tasks)}))
        last = {}
        for line in lines:
            if line.startswith(SAY):
                facts = json.loads(line.removeprefix(SAY))
                last.update(facts)
                found[facts.pop("kind")].update(facts)
        begun = last.get("begins", tasks[0])
        if last.get("ends") != begun:
            kind, _, theirs = begun.partition(" ")
            why = next((line for line in reversed(lines) if "Error" in line), lines[-1])
            found[kind].setdefault(theirs or "losses", why.strip()[:80])
            print(f"{begun}: {lines[-1]}", *lines[-25:-1], sep="\n", flush=True)
        tasks = tasks[tasks.index(begun) + 1 :]


def row(kind: str, facts: dict[str, object]) -> list[str]:
    overlaps = [facts.get(f"overlap of {side}") for side in ("ours", "eager")]
    times = [facts.get(side, "not run") for side in ("ours", "torch.compile", "eager")]
    cells = [facts.get("losses", "not run"), facts.get("graphs", "-"), facts.get("breaks", "-")]
    cells += [f"{each:.2f} ms" if isinstance(each, float) else each for each in times]
    return [kind, *map(str, cells), *("-" if each is None else f"{each:.0%}" for each in overlaps)]


def built(limit: float) -> str:
    lines = list(lines_of(__file__, *sys.argv[1:], limit=limit, **{IN_CHILD: "builds"}))
    return next((json.loads(line.removeprefix(SAY))["text"] for line in lines if line.startswith(SAY)), str(lines[-2:]))


def collectives(backend: str, limit: float) -> str:
    lines = list(lines_of(PROGRAMS / "collectives.py", backend, limit=limit))
    for found in map(json.loads, filter(lambda line: line.startswith("{"), lines)):
        apart = [f"{name}: {' '.join(differs[0].split())[:100]}" for name, differs in found.items() if differs]
        same = f"{len(found) - len(apart)} of {len(found)} equal eager's, three sizes, with gradients"
        return "; ".join([same, *apart])
    return f"they did not run ({lines[-2:]})"


def order(backend: str, limit: float) -> str:
    lines = list(lines_of(PROGRAMS / "overlap.py", *ORDERS, backend, limit=limit))
    same, apart = [], []
    for kind, (expected, in_eager), (losses, happened) in map(json.loads, filter(lambda line: line.startswith("["), lines)):
        equal = close(losses, expected, 2e-2 if kind == "autocast" else 1e-4) and sorted(happened) == sorted(in_eager)
        first = f"{kind} (first at {happened.index('sent')}, eager's at {in_eager.index('sent')})"
        (same if equal else apart).append(first if happened.index("sent") != in_eager.index("sent") else kind)
    return f"the same in {', '.join(same)}" + f"; otherwise in {', '.join(apart)}" * bool(apart) + f" ({lines[-1]})" * (not same)


def dies(backend: str, limit: float) -> str:
    """On GPUs where there are any, whatever the backend."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.py")
        path.write_text(DIES)
        launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m", "dynascope", "run", path)
        lines = list(lines_of(*launcher, limit=limit))
    text = "\n".join(lines)
    asked = {
        "ends": lines[-1] not in ("ended: 0",) and "no end" not in lines[-1],
        "with its traceback": "ValueError: rank one is tired" in text,
        "one report": text.count("Summary") == 1,
        "the difference named": "ranks-differ" in text,
    }
    return ", ".join(name if holds else f"NOT: {name}" for name, holds in asked.items())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("backend", nargs="?", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--seconds", type=float, default=225, help="what is not done by then is left out")
    given = parser.parse_args()
    if tasks := os.environ.get(IN_CHILD):
        start(*((builds,) if tasks == "builds" else (cases, *tasks.split(","))), backend=given.backend)
        return
    ends, found = time.monotonic() + given.seconds, {kind: {} for kind in KINDS}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DYNASCOPE_CACHE_DIR"] = folder
        notes = [f"Kernels of one program: {built(min(40, given.seconds))}"] if is_on_gpus() else []
        training(list(KINDS), found, ends - 60)
        for name, of in OTHERS:
            limit = ends - time.monotonic()
            notes.append(f"{name}: {of(given.backend, min(limit, 40)) if limit > 5 else 'not run'}")
        training([f"{kind} torch.compile" for kind in KINDS], found, ends)
    rows, note = [row(kind, facts) for kind, facts in found.items()], ".\n".join(notes) + "."
    if is_on_gpus():
        write_section("Two GPUs", "python bench/two_gpus.py", COLUMNS, rows, note)
    else:
        print(*(" | ".join(each) for each in [COLUMNS, *rows]), note, sep="\n")


OTHERS = (("A rank that dies", dies), ("Collectives", collectives), ("Buckets that DDP sends", order))


if __name__ == "__main__":
    main()
