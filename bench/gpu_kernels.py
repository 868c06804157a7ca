"""Memory-bound kernels on a GPU, as a user calls them: ours, torch.compile's and eager's, in turn, beside a copy of the same bytes.

    PYTHONPATH=engine python bench/gpu_kernels.py                        all cases, into RESULTS.md
    PYTHONPATH=engine python bench/gpu_kernels.py --symbolic             ours of sizes that all vary (`dynamic=True`) beside ours of static
                                                                         ones, into RESULTS.md
    PYTHONPATH=engine python bench/gpu_kernels.py softmax --no-compile   cases whose name holds a word, ours and eager's, printed

First as many processes as `--processes` says fill the caches of both compilers. Then every contestant is timed in turn by events of the
device, while its queue is full; inputs rotate among sets so that no cache holds them.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engine"))

import dynascope  # noqa: E402
import torch  # noqa: E402
from cpu_kernels import geomean, tensors  # noqa: E402
from gpu_programs import CASES, Case, normal  # noqa: E402
from measure import ratio_of  # noqa: E402
from recorded import recorded  # noqa: E402
from results import write_section  # noqa: E402

COMMAND = "PYTHONPATH=engine python bench/gpu_kernels.py"
CALLS, ROUNDS = 10, 9


def main() -> None:
    options = arguments()
    cases = [case for case in CASES if not options.words or any(word in case.name for word in options.words)]
    if options.fill is not None:
        for case in cases[options.fill :: options.processes]:
            contestants(case, sides_of(case, options))
        return
    fill_caches(options)
    if options.symbolic:
        compare_symbolic(cases, options)
        return
    bandwidth, rows, shares = copy_bandwidth(), [], []
    for case in cases:
        try:
            row, share = measure(case, bandwidth, sides_of(case, options))
        except Exception as error:
            row, share = [case.name, f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"], {}
        print(" | ".join(row), flush=True)
        rows.append(row)
        shares += [share] if share else []
        torch.cuda.empty_cache()
    rows.append(["geomean", *(geomean([each[side] for each in shares]) for side in shares[0]), "", ""])
    print(" | ".join(rows[-1]))
    if is_whole(options):
        columns = ["kernel", "eager", "torch.compile", "ours", "ours, us", "ours: kernels"]
        note = (
            f"Share of the device's copy bandwidth ({bandwidth / 1e9:.0f} GB/s in the same run), of the bytes that must be moved: "
            f"inputs, results and gradients once. Median of {ROUNDS} rounds of {CALLS} calls."
        )
        write_section(f"GPU kernels, {device_name()}", COMMAND, columns, rows, note)


def compare_symbolic(cases: list[Case], options: argparse.Namespace) -> None:
    rows, ratios = [], []
    for case in cases:
        calls, sets, _ = contestants(case, sides_of(case, options))
        del calls["eager"]
        times = times_of(calls, sets)
        ratio = ratio_of(times["static"], times["symbolic"])
        ratios.append(ratio.median)
        rows.append([case.name, *(f"{statistics.median(each) * 1e6:.1f}" for each in times.values()), str(ratio)])
        print(" | ".join(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    rows.append(["geomean", "", "", geomean(ratios)])
    print(" | ".join(rows[-1]))
    if is_whole(options):
        columns = ["kernel", "symbolic, us", "static, us", "static / symbolic"]
        note = f"Symbolic: all sizes vary (`dynamic=True`). Median of {ROUNDS} rounds of {CALLS} calls (quartiles)."
        write_section(f"Symbolic GPU kernels, {device_name()}", f"{COMMAND} --symbolic", columns, rows, note)


def is_whole(options: argparse.Namespace) -> bool:
    return not options.words and not options.no_compile


def device_name() -> str:
    return torch.cuda.get_device_name().split()[1]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--symbolic", action="store_true", help="ours of sizes that vary beside ours of static ones")
    parser.add_argument("--processes", type=int, default=8, help="that fill the caches first")
    parser.add_argument("--fill", type=int, help="only fill caches, as the process of this number")
    return parser.parse_args()


def fill_caches(options: argparse.Namespace) -> None:
    words = [sys.executable, __file__, *sys.argv[1:], "--fill"]
    fillers = [subprocess.Popen([*words, str(number)]) for number in range(options.processes)]
    for filler in fillers:
        filler.wait()


def sides_of(case: Case, options: argparse.Namespace) -> dict[str, Callable]:
    """What is compared, eager first and ours last."""
    if options.symbolic:
        ours = {name: dynascope.compile(case.function, options=case.options, dynamic=name == "symbolic") for name in ("symbolic", "static")}
        return {"eager": case.function, **ours}
    sides = {"eager": case.function}
    if not options.no_compile:
        torch._dynamo.reset()
        sides["torch.compile"] = torch.compile(case.function)
    return {**sides, "ours": dynascope.compile(case.function, options=case.options)}


def contestants(case: Case, sides: dict[str, Callable]) -> tuple[dict, list, int]:
    """What is timed, the arguments of the calls, and how many kernels the last one has. Raises where a result of ours is wrong."""
    torch.manual_seed(0)
    sets = [case.make() for _ in range(case.sets)]
    calls = {name: with_gradients(case, side) if case.backward else side for name, side in sides.items()}
    expected, kernels = calls["eager"](*sets[0]), 0
    for name, call in calls.items():
        found, report, fell_back = recorded(lambda call=call: call(*sets[0]))
        assert not fell_back, fell_back
        if name not in ("eager", "torch.compile") and not case.options:
            check(found, expected)
        kernels = len(report.kernels)
    return calls, sets, kernels


def with_gradients(case: Case, side):
    tangents: list[torch.Tensor] = []

    def call(*inputs):
        wanted = [x.requires_grad_() for x in inputs if x.is_floating_point()]
        result = side(*inputs)
        if not tangents:
            generator = torch.Generator(result.device).manual_seed(0)
            tangents.append(torch.randn(result.shape, device=result.device, generator=generator).to(result.dtype))
        return torch.autograd.grad(result, wanted, tangents[0])

    return call


def check(found, expected) -> None:
    for mine, eagers in zip(tensors(found), tensors(expected), strict=True):
        limit = 3e-2 if eagers.dtype == torch.bfloat16 else 1e-4
        assert (mine.dtype, mine.shape, mine.stride()) == (eagers.dtype, eagers.shape, eagers.stride())
        assert (mine.double() - eagers.double()).norm() <= limit * eagers.double().norm(), "a result is wrong"


def measure(case: Case, bandwidth: float, sides: dict[str, Callable]) -> tuple[list[str], dict[str, float]]:
    calls, sets, kernels = contestants(case, sides)
    size, times = bytes_moved(case, sets[0]), times_of(calls, sets)
    shares = {name: size / statistics.median(each) / bandwidth for name, each in times.items()}
    texts = [f"{share:.3g}" for share in shares.values()]
    return [case.name, *texts, f"{1e6 * statistics.median(times['ours']):.1f}", str(kernels)], shares


def times_of(calls: dict[str, Callable], sets: list) -> dict[str, list[float]]:
    """Seconds of the device a call, of each round."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times[name].append(timed(call, sets))
    return times


def bytes_moved(case: Case, inputs: list) -> int:
    def total(values) -> int:
        return sum(each.numel() * each.element_size() for each in values)

    results = tensors(case.function(*inputs))
    forward = total(inputs) + total(results)
    return forward + (forward + total(x for x in inputs if x.is_floating_point()) if case.backward else 0)


def timed(call, sets: list) -> float:
    """Seconds of the device a call: the queue is filled while the device sleeps."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda._sleep(8_000_000)
    start.record()
    for number in range(CALLS):
        call(*sets[number % len(sets)])
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3 / CALLS


def copy_bandwidth() -> float:
    source, target = normal(1 << 28), normal(1 << 28)
    return 2 * (1 << 30) / statistics.median(timed(target.copy_, [(source,)]) for _ in range(ROUNDS))


if __name__ == "__main__":
    main()
