"""Programs bound by memory as people write them, on a GPU or one thread of a processor: ours, torch.compile's and eager's.

    PYTHONPATH=engine python bench/memory_bound.py                     all programs on the GPU, into RESULTS.md
    PYTHONPATH=engine python bench/memory_bound.py --device cpu        the same beside eager, on one thread
    PYTHONPATH=engine python bench/memory_bound.py --symbolic          ours beside ours with static sizes, where all sizes vary
                                                                       (`dynamic=True`), and where the first of each input was another
                                                                       one before (batches, lengths)
    PYTHONPATH=engine python bench/memory_bound.py geglu --dearest 8   one, printed, with its kernels that take the most time

On a GPU: what torch's profiler adds up on the device, forward and backward, which does not depend on how fast the host is. First as
many processes as `--processes` says fill the caches of both compilers. On a processor: the thread's own time, the best of some calls.
Results and gradients are compared with eager's; a program whose results differ is named and counts for nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engine"))

import choosing_programs  # noqa: E402, F401 (registers its programs)
import dynascope  # noqa: E402
import torch  # noqa: E402
from cpu_kernels import geomean  # noqa: E402
from gpu_calls import kernels_of  # noqa: E402
from memory_programs import PROGRAMS, Sizes  # noqa: E402
from results import write_section  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

CALLS, PARTS = 5, 16
Call = Callable[[], list[Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--symbolic", action="store_true", help="ours of sizes that vary beside ours of static ones")
    parser.add_argument("--dearest", type=int, default=0, metavar="N", help="kernels of each side to print")
    parser.add_argument("--processes", type=int, default=14, help="that fill the caches first, on a GPU")
    options = parser.parse_args()
    if unknown := [name for name in options.programs if name not in PROGRAMS]:
        parser.error(f"no program is called {unknown[0]}")
    names = options.programs or [*PROGRAMS]
    is_gpu = options.device == "cuda"
    if options.dearest and not is_gpu:
        parser.error("--dearest: kernels are looked at one by one on a GPU alone; `dynascope profile FILE` shows a processor's")
    if options.symbolic:
        sides = ["all vary", "first vary", "static", "eager"]
        pairs = [("all vary", "static"), ("first vary", "static"), ("first vary", "eager")]
    else:
        sides = ["ours", "torch.compile", "eager"] if is_gpu else ["ours", "eager"]
        pairs = [("ours", other) for other in sides[1:]]
    if is_gpu:
        with multiprocessing.get_context("spawn").Pool(options.processes) as pool:
            pool.map(partial(fill_caches, sides), names, chunksize=1)
    rows: list[list[str]] = []
    ratios: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for name in names:
        try:
            times, wrong = on_gpu(name, sides, options.dearest) if is_gpu else on_processor(name, sides)
        except Exception as error:  # of torch.compile's too: the row says whose
            rows.append([name, f"{type(error).__name__}: {' '.join(str(error).split())[:100]}", *[""] * (len(sides) - 1 + len(pairs))])
            print(" | ".join(rows[-1]), flush=True)
            continue
        beside = {(own, other): times[own] / times[other] for own, other in pairs}
        for pair, ratio in beside.items() if not wrong else ():
            ratios[pair].append(ratio)
        rows.append([name + wrong, *(f"{times[side] * 1e6:.0f}" for side in sides), *(f"{ratio:.2f}" for ratio in beside.values())])
        print(" | ".join(rows[-1]), flush=True)
    rows.append(["geomean", *[""] * len(sides), *(geomean(found) if found else "" for found in ratios.values())])
    print(" | ".join(rows[-1]))
    if not options.programs:
        where = torch.cuda.get_device_name().split()[1] if is_gpu else "one thread"
        columns = ["program", *(f"{side}, us" for side in sides), *(f"{own} / {other}" for own, other in pairs)]
        command = "PYTHONPATH=engine python bench/memory_bound.py" + ("" if is_gpu else " --device cpu") + " --symbolic" * options.symbolic
        note = (
            "Kernel time of a call on the device, with gradients where inputs require them."
            if is_gpu
            else f"The thread's time, the best of {CALLS} calls, with gradients where inputs require them; inputs a {PARTS}th of the GPU's."
        )
        title = "Programs bound by memory" + " at sizes that vary" * options.symbolic
        write_section(f"{title}, {where}", command, columns, rows, note)


def fill_caches(sides: Sequence[str], name: str) -> None:
    torch.set_num_threads(1)
    for side in sides[:-1]:
        try:
            call_of(name, side, Sizes("cuda"))()
        except Exception:  # the measuring process meets it again, and says so
            continue
    torch.cuda.synchronize()


COMPILED = {
    "ours": dynascope.compile,
    "all vary": lambda f: dynascope.compile(f, dynamic=True),
    "first vary": dynascope.compile,
    "static": lambda f: dynascope.compile(f, dynamic=False),
    "torch.compile": lambda f: torch.compile(f, dynamic=False),
    "eager": lambda f: f,
}


def call_of(name: str, side: str, on: Sizes) -> Call:
    """A call with its gradients: the tensors that it gives."""
    program, tangents = PROGRAMS[name], []
    torch.manual_seed(0)
    arguments = program.make(on)
    function = COMPILED[side](program.function)
    if side == "first vary":
        function(*program.make(replace(on, parts=2 * on.parts)))
    wanted = [each for each in tree_leaves(arguments) if each.requires_grad]

    def call() -> list[torch.Tensor]:
        given = tree_leaves(function(*arguments))
        if not wanted:
            return given
        outputs = [each for each in given if each.requires_grad]
        if not tangents:
            generator = torch.Generator(on.device).manual_seed(1)  # of the inputs themselves many gradients are 0
            tangents.extend(torch.randn(each.shape, device=on.device, generator=generator).to(each.dtype) for each in outputs)
        return [*given, *torch.autograd.grad(outputs, wanted, tangents)]

    return call


def compared(calls: dict[str, Call]) -> str:
    """What is wrong with our results, in brackets; nothing where they are eager's."""
    given = {side: call() for side, call in calls.items()}  # the first ones: programs write to their inputs
    wanted = given.pop("eager")
    given.pop("torch.compile", None)
    return next(filter(None, (difference(ours, wanted) for ours in given.values())), "")


def difference(ours: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> str:
    for mine, eagers in zip(ours, wanted, strict=True):
        if (mine.dtype, mine.shape, mine.stride()) != (eagers.dtype, eagers.shape, eagers.stride()):
            return " (another layout)"
        limit = 3e-2 if eagers.dtype in (torch.bfloat16, torch.int8) else 1e-3
        rounding = 1e-6 * eagers.numel() ** 0.5  # where the exact result is 0
        if not (mine.double() - eagers.double()).norm() <= limit * eagers.double().norm() + rounding:
            return " (WRONG)"
    return ""


def on_gpu(name: str, sides: Sequence[str], dearest: int) -> tuple[dict[str, float], str]:
    torch._dynamo.reset()
    calls = {side: call_of(name, side, Sizes("cuda")) for side in sides}
    wrong = compared(calls)
    times = {}
    for side, call in calls.items():
        call(), call()
        kernels = kernels_of(call, CALLS)
        times[side] = sum(milliseconds for milliseconds, _, _ in kernels) / 1e3
        for milliseconds, launches, kernel in kernels[:dearest]:
            print(f"    {side:14s} {milliseconds * 1e3:9.1f} us  x{launches}  {kernel[:100]}")
    torch.cuda.empty_cache()
    return times, wrong


def on_processor(name: str, sides: Sequence[str]) -> tuple[dict[str, float], str]:
    torch.set_num_threads(1)
    calls = {side: call_of(name, side, Sizes("cpu", PARTS)) for side in sides}
    wrong = compared(calls)
    times = {side: [] for side in sides}
    for _ in range(CALLS):
        for side, call in calls.items():
            started = time.thread_time()
            call()
            times[side].append(time.thread_time() - started)
    return {side: min(found) for side, found in times.items()}, wrong


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
