"""Programs that write parts of one tensor, one after another, beside eager and torch.compile.

    PYTHONPATH=engine python bench/part_writes.py                               on a processor, into RESULTS.md
    PYTHONPATH=engine python bench/part_writes.py --device cuda --scale 8       on a GPU, into RESULTS.md
    PYTHONPATH=engine python bench/part_writes.py --only heat --no-torch-compile    some of it, printed

Each call works on what the one before left, where a program changes its inputs. Results, and inputs afterwards, are compared with eager's
first, bit for bit on a processor where a program's operators round alone. Milliseconds a call, medians of interleaved rounds.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from results import write_section

F64 = torch.float64
NOTE = "Medians of rounds in turn. Results, and inputs afterwards, are compared with eager's first. Kernels and the first call are ours."


@dataclass(frozen=True)
class Program:
    function: Callable
    make: Callable[[int], tuple[torch.Tensor, ...]]
    is_exact: bool


PROGRAMS: dict[str, Program] = {}


def program(make: Callable[[int], tuple[torch.Tensor, ...]], is_exact: bool = True) -> Callable:
    def register(function: Callable) -> Callable:
        PROGRAMS[function.__name__] = Program(function, make, is_exact)
        return function

    return register


def uniform(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(sizes, generator=torch.Generator().manual_seed(sum(sizes)), dtype=dtype) + 0.5


@program(lambda n: (uniform(512 * n, 512),))
def heat(u):
    for _ in range(4):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


@program(lambda n: (uniform(512 * n, 512), uniform(512 * n, 512)))
def jacobi(u, f):
    for _ in range(4):
        new = u.clone()
        new[1:-1, 1:-1] = 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - f[1:-1, 1:-1])
        u = new
    return u


@program(lambda n: (uniform(514 * n, 514), uniform(514 * n, 514)))
def red_black(u, f):
    for _ in range(2):
        for first in (0, 1):
            for row in (0, 1):
                column = (row + first) % 2
                inner = u[1 + row : -1 : 2, 1 + column : -1 : 2]
                above, below = u[row:-2:2, 1 + column : -1 : 2], u[2 + row :: 2, 1 + column : -1 : 2]
                left, right = u[1 + row : -1 : 2, column:-2:2], u[1 + row : -1 : 2, 2 + column :: 2]
                u[1 + row : -1 : 2, 1 + column : -1 : 2] = inner + 0.3 * (
                    above + below + left + right - 4 * inner - f[1 + row : -1 : 2, 1 + column : -1 : 2]
                )
    return u


@program(lambda n: (uniform(256 * n, 256), uniform(256 * n, 256) * 0.01, uniform(256 * n, 256) * 0.01))
def shallow_water(h, u, v):
    for _ in range(2):
        u[1:-1, :] -= 0.01 * (h[2:, :] - h[:-2, :])
        v[:, 1:-1] -= 0.01 * (h[:, 2:] - h[:, :-2])
        u[0, :], u[-1, :], v[:, 0], v[:, -1] = 0.0, 0.0, 0.0, 0.0
        flow_x, flow_y = torch.zeros_like(h), torch.zeros_like(h)
        flow_x[1:-1, :] = 0.5 * (h[2:, :] * u[2:, :] - h[:-2, :] * u[:-2, :])
        flow_y[:, 1:-1] = 0.5 * (h[:, 2:] * v[:, 2:] - h[:, :-2] * v[:, :-2])
        h[1:-1, 1:-1] -= 0.01 * (flow_x[1:-1, 1:-1] + flow_y[1:-1, 1:-1])
    return h


@program(lambda n: tuple(uniform(64 * n, 64, 26, dtype=F64) + (3 if k == 1 else 0) for k in range(4)))
def thomas(a, b, c, d):
    n = a.shape[-1]
    b, d = b.clone(), d.clone()
    for i in range(1, n):
        w = a[..., i] / b[..., i - 1]
        b[..., i] += -w * c[..., i - 1]
        d[..., i] += -w * d[..., i - 1]
    out = torch.empty_like(a)
    out[..., -1] = d[..., -1] / b[..., -1]
    for i in range(n - 2, -1, -1):
        out[..., i] = (d[..., i] - c[..., i] * out[..., i + 1]) / b[..., i]
    return out


@program(lambda n: (uniform(2048 * n, 8, 8) + 8 * torch.eye(8),))
def lower_upper(a):
    a = a.clone()
    for k in range(7):
        a[:, k + 1 :, k] /= a[:, k, None, k]
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]
    return a


@program(lambda n: (uniform(2048 * n, 6, 6) + 6 * torch.eye(6),), is_exact=False)
def cholesky(a):
    a = a + a.transpose(1, 2)
    low = torch.zeros_like(a)
    for j in range(6):
        low[:, j, j] = torch.sqrt(a[:, j, j] - (low[:, j, :j] ** 2).sum(1))
        for i in range(j + 1, 6):
            low[:, i, j] = (a[:, i, j] - (low[:, i, :j] * low[:, j, :j]).sum(1)) / low[:, j, j]
    return low


@program(lambda n: ((uniform(4096 * n, 12) * 8).long(), (uniform(4096 * n, 12) * 7).long()))
def edit_distance(first, second):
    table = torch.zeros(first.shape[0], 13, 13, dtype=torch.int64, device=first.device)
    table[:, :, 0] = torch.arange(13, device=first.device)
    table[:, 0, :] = torch.arange(13, device=first.device)
    for i in range(1, 13):
        for j in range(1, 13):
            changed = table[:, i - 1, j - 1] + (first[:, i - 1] != second[:, j - 1])
            table[:, i, j] = torch.minimum(torch.minimum(table[:, i - 1, j], table[:, i, j - 1]) + 1, changed)
    return table[:, -1, -1]


@program(lambda n: (uniform(64 * n, 32, 16), uniform(16, 16)))
def viterbi(scores, transitions):
    best = torch.empty_like(scores)
    back = torch.zeros(scores.shape, dtype=torch.int64, device=scores.device)
    best[:, 0] = scores[:, 0]
    for t in range(1, scores.shape[1]):
        values, places = (best[:, t - 1, :, None] + transitions).max(1)
        best[:, t] = values + scores[:, t]
        back[:, t] = places
    return best, back


@program(lambda n: (torch.log_softmax(uniform(32, 64 * n, 16), 2),), is_exact=False)
def ctc(log_probabilities):
    time_steps, batch, states = log_probabilities.shape
    alpha = torch.full((time_steps, batch, states), -1e9, device=log_probabilities.device)
    alpha[0, :, 0] = log_probabilities[0, :, 0]
    alpha[0, :, 1] = log_probabilities[0, :, 1]
    for t in range(1, time_steps):
        stays = alpha[t - 1]
        steps = torch.full_like(stays, -1e9)
        steps[:, 1:] = stays[:, :-1]
        alpha[t] = torch.logaddexp(stays, steps) + log_probabilities[t]
    return torch.logsumexp(alpha[-1], 1)


@program(lambda n: (*(uniform(8 * n, 16, size, 64) for size in (1024, 1, 1024, 1)),), is_exact=False)
def key_value_cache(keys, key, values, value):
    keys[:, :, 700:701] = key * 0.125
    values[:, :, 700:701] = value
    return keys[:, :, 700].sum(-1) + values[:, :, 700].sum(-1)


@program(lambda n: (uniform(4096 * n, 64), uniform(4096 * n, 4)))
def ring_buffer(buffer, new):
    for k in range(4):
        buffer[:, (62 + k) % 64] = new[:, k] * 0.5
    buffer[:, 10:14] += new
    return buffer


@program(lambda n: (uniform(65536 * n, 3), uniform(65536 * n)))
def columns_into_empty(points, angle):
    out = torch.empty_like(points)
    x, y, z = points[:, 0], points[:, 1], points[:, 2]
    out[:, 0] = x * angle - y
    out[:, 1] = x + y * angle
    out[:, 2] = z * 2
    return out


@program(lambda n: (uniform(2048 * n, 128), uniform(2048 * n, 64), uniform(2048 * n, 64)))
def rotated_halves(x, cosine, sine):
    out = torch.empty_like(x)
    out[:, ::2] = x[:, ::2] * cosine - x[:, 1::2] * sine
    out[:, 1::2] = x[:, ::2] * sine + x[:, 1::2] * cosine
    return out


@program(lambda n: tuple(uniform(64 * n, 64, 26, *more, dtype=F64) for more in ((), (), (), (2, 2))), is_exact=False)
def slopes(temperature, mask, thickness, result):
    """As a model of the ocean mixes along layers: each part of the last two dimensions by itself."""
    down, along = torch.zeros_like(temperature), torch.zeros_like(temperature)
    down[:, :, :-1] = mask[:, :, :-1] * (temperature[:, :, 1:] - temperature[:, :, :-1]) / thickness[:, :, :-1]
    along[:-1] = mask[:-1] * (temperature[1:] - temperature[:-1])
    total = torch.zeros_like(temperature)[1:-2, 2:-2]
    for k in range(2):
        first, last = 1 - k, temperature.shape[2] - 1 + k
        for i in range(2):
            slope = -along[1:-2, 2:-2, first:] / (torch.clamp(down[1 + i : -2 + i, 2:-2, :last], max=0.0) - 1e-20)
            share = 0.5 * (1.0 + torch.tanh((0.001 - torch.abs(slope)) / 0.001))
            total[:, :, first:] += thickness[1:-2, 2:-2, :last] * torch.clamp(share, min=0.02)
            result[1:-2, 2:-2, first:, i, k] = share * slope * mask[1:-2, 2:-2, first:]
    return total


def main() -> None:
    options = arguments()
    torch.set_grad_enabled(False)
    rows = []
    for name, each in PROGRAMS.items():
        if options.only in name:
            rows.append(measured(name, each, options))
            print(" | ".join(rows[-1]), flush=True)
    if options.only or options.no_torch_compile:
        return
    columns = ["program", "eager, ms", "torch.compile, ms", "ours, ms", "ours / eager", "ours / torch.compile", "kernels", "first call, s"]
    on_gpu = options.device == "cuda"
    command = f"PYTHONPATH=engine python bench/part_writes.py{' --device cuda' if on_gpu else ''}"
    command += f" --scale {options.scale}" if options.scale != 1 else ""
    write_section(f"Writes into parts, {'a GPU' if on_gpu else 'a processor'}", command, columns, rows, NOTE)


def measured(name: str, each: Program, options: argparse.Namespace) -> list[str]:
    import dynascope

    given = tuple(tensor.to(options.device) for tensor in each.make(options.scale))
    mine = dynascope.compile(each.function)
    started = time.perf_counter()
    mine(*copies(given))
    first = time.perf_counter() - started
    check(name, each, mine, given)
    sides = {"eager": each.function, "ours": mine}
    if not options.no_torch_compile:
        sides["torch.compile"] = torch.compile(each.function)
    states = {side: copies(given) for side in sides}
    times = interleaved({side: (lambda f=f, s=states[side]: f(*s)) for side, f in sides.items()}, options)
    figures = [f"{times[side] * 1e3:.3f}" if side in times else "-" for side in ("eager", "torch.compile", "ours")]
    ratios = [f"{times['ours'] / times[side]:.2f}" if side in times else "-" for side in ("eager", "torch.compile")]
    return [name, *figures, *ratios, str(kernels(each, given)), f"{first:.1f}"]


def check(name: str, each: Program, mine: Callable, given: tuple) -> None:
    for _ in range(2):  # the first call and a warm one
        theirs, ours = copies(given), copies(given)
        wanted, found = each.function(*theirs), mine(*ours)
        for one, other in zip((*listed(wanted), *theirs), (*listed(found), *ours), strict=True):
            is_bit_for_bit = each.is_exact and one.device.type == "cpu"
            is_same = torch.equal(one, other) if is_bit_for_bit else torch.allclose(one, other, rtol=1e-4, atol=1e-5)
            if not is_same or one.stride() != other.stride():
                print(f"{name} DIFFERS by {(one.double() - other.double()).abs().max().item():.3g}")


def kernels(each: Program, given: tuple) -> int:
    import dynascope
    from dynascope import recording

    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        dynascope.compile(lambda *inputs: each.function(*inputs))(*copies(given))
    finally:
        recording.use(before)
    return sum(len(graph.kernels) for graph in recorder.report().graphs)


def copies(tensors: tuple) -> tuple:
    return tuple(tensor.clone() for tensor in tensors)


def listed(value: object) -> tuple:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def interleaved(calls: dict[str, Callable], options: argparse.Namespace) -> dict[str, float]:
    """Seconds a call, the medians of rounds in which all take turns."""
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    counts = {}
    for side, call in calls.items():
        for _ in range(3):
            call()
        wait()
        started = time.perf_counter()
        call()
        wait()
        counts[side] = max(1, int(0.03 / (time.perf_counter() - started)))
    found: dict[str, list[float]] = {side: [] for side in calls}
    for _ in range(options.rounds):
        for side, call in calls.items():
            wait()
            started = time.perf_counter()
            for _ in range(counts[side]):
                call()
            wait()
            found[side].append((time.perf_counter() - started) / counts[side])
    return {side: statistics.median(times) for side, times in found.items()}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--scale", type=int, default=1, help="times the first size")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-torch-compile", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
