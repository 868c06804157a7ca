"""On a machine with a GPU: are the Triton kernels right, how long does a training step take, what does a launch cost?

    PYTHONPATH=engine python bench/gpu_check.py [right|models|host|all]

One JSON object a line. How fast kernels are, `gpu_kernels.py` tells.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "engine"), str(ROOT / "tests" / "codegen"), str(ROOT / "tests" / "loops")]

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from dynascope.loops.lower import lower  # noqa: E402
from dynascope.runtime.cubins import Target  # noqa: E402
from dynascope.runtime.cuda_compile import compile_kernels  # noqa: E402
from dynascope.runtime.cuda_launch import launcher_note, make_launcher  # noqa: E402
from dynascope.schedule.fusion import fuse  # noqa: E402
from recording import record  # noqa: E402
from triton_executor import Executor  # noqa: E402

CUDA = torch.device("cuda", 0)
BF16, F32 = torch.bfloat16, torch.float32


def say(**facts):
    print(json.dumps(facts), flush=True)


def normal(*sizes, dtype=F32):
    return torch.randn(*sizes, device=CUDA).to(dtype)


def tokens(count, high):
    return torch.randint(0, high, (count,), device=CUDA)


def build(function, inputs):
    graph = record(function, list(inputs))
    for node in graph.graph.nodes:
        node.meta["device"] = CUDA
    schedule = fuse(lower(graph, list(inputs)))
    return Executor(schedule, launchers_for)


def launchers_for(kernels, slots):
    compile_kernels(kernels, Target(90))
    return [make_launcher([kernel], names, CUDA) for kernel, names in zip(kernels, slots, strict=True)]


# ---- right ----


def bias_gelu(x, b, r):
    return F.gelu(x + b) + r


def attention(q, k, v):
    return torch.softmax((q @ k.transpose(-1, -2)) * 0.125, -1) @ v


def mlp(x, w1, b1, w2, b2):
    return torch.relu(x @ w1 + b1) @ w2 + b2


def block(x, g, b, w1, w2):
    h = F.layer_norm(x, (x.shape[-1],), g, b)
    return x + F.gelu(h @ w1) @ w2


def rms(x, r, w):
    h = (x + r).float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def cross_entropy(x, t):
    return -torch.log_softmax(x, -1).gather(1, t.unsqueeze(1)).mean()


def truths(x):
    return (x > 3).any(1), (x > -9).all(1)


def everything(x, y):
    return (
        x / y,
        x.sqrt(),
        torch.rsqrt(x),
        x.log(),
        x.tanh(),
        x.sin(),
        torch.pow(x, y),
        torch.sigmoid(x),
        x.exp(),
        x.erf(),
        torch.floor(x),
        torch.round(x),
        x.expm1(),
        x.log1p(),
        torch.atan2(x, y),
        x // y,
        x % y,
    )


def right_cases():
    return [*normalizations(), *reductions(), *movements(), *scalar_functions(), *graphs()]


def normalizations():
    return [
        ("softmax bf16", lambda x: torch.softmax(x, -1), [normal(512, 4096, dtype=BF16)]),
        ("softmax odd", lambda x: torch.softmax(x, -1), [normal(77, 1001)]),
        ("softmax small", lambda x: torch.softmax(x, -1), [normal(5000, 30)]),
        ("softmax long", lambda x: torch.softmax(x, -1), [normal(300, 50304)]),
        ("softmax dim 0", lambda x: torch.softmax(x, 0), [normal(300, 500)]),
        ("softmax dim 1 of 3", lambda x: torch.softmax(x, 1), [normal(30, 400, 64)]),
        (
            "layer norm bf16",
            lambda x, w, b: F.layer_norm(x, (4096,), w, b),
            [normal(512, 4096, dtype=BF16), normal(4096, dtype=BF16), normal(4096, dtype=BF16)],
        ),
        (
            "layer norm f32",
            lambda x, w, b: F.layer_norm(x, (1000,), w, b),
            [normal(300, 1000) + 50, normal(1000), normal(1000)],
        ),
        ("rms norm", rms, [normal(256, 4096, dtype=BF16), normal(256, 4096, dtype=BF16), normal(4096, dtype=BF16)]),
        (
            "bias gelu",
            bias_gelu,
            [normal(333, 1024, dtype=BF16), normal(1024, dtype=BF16), normal(333, 1024, dtype=BF16)],
        ),
    ]


def reductions():
    nan = normal(64, 500)
    nan[3, 70] = float("nan")
    return [
        ("sum", lambda x: x.sum(), [normal(1 << 22) + 1]),  # a sum near zero would say nothing of its error
        ("mean odd", lambda x: x.mean(), [normal(1234567)]),
        ("sum dim 0", lambda x: x.sum(0), [normal(10000, 333)]),
        ("sum dim 0 bf16", lambda x: x.sum(0), [normal(4096, 1024, dtype=BF16)]),
        ("sum dims 0 2", lambda x: x.sum((0, 2)), [normal(64, 100, 900)]),
        ("amax nan", lambda x: (x.amax(1), x.amin(0)), [nan]),
        ("argmax", lambda x: (x.argmax(1), x.argmin(1)), [torch.randint(0, 99, (200, 4096), device=CUDA).float()]),
        ("argmax split", lambda x: x.argmax(1), [normal(3, 100000)]),
        ("argmax all nan", lambda x: x.argmax(), [nan]),
        ("any all", truths, [normal(300, 777)]),
    ]


def movements():
    return [
        ("transpose add", lambda x, y: x.t() + y, [normal(1000, 700), normal(700, 1000)]),
        ("permute", lambda x: x.permute(0, 2, 3, 1) * 2, [normal(4, 30, 20, 50)]),
        ("embedding", lambda w, t: F.embedding(t, w) * 2, [normal(1000, 256), tokens(5000, 1000)]),
        (
            "index put",
            lambda a, i, s: a.index_put((i,), s, accumulate=True),
            [normal(100, 64), tokens(1000, 100), normal(1000, 64)],
        ),
        (
            "index put bf16",
            lambda a, i, s: a.index_put((i,), s, accumulate=True),
            [normal(1000, 64, dtype=BF16), tokens(100, 1000), normal(100, 64, dtype=BF16)],
        ),
        ("cat", lambda x, y: torch.cat([x, y.flip(0)], 1), [normal(100, 30), normal(100, 50)]),
    ]


def scalar_functions():
    positive = torch.rand(3, 1000, device=CUDA) + 0.1
    return [
        ("scalar functions", everything, [positive, positive.flip(1)]),
        ("scalar functions f64", everything, [positive.double(), positive.double().flip(1)]),
        (
            "integers",
            lambda a, b: (a // b, a % b, a & b, a.float() / 3, a.to(torch.int8)),
            [tokens(5000, 1000) - 500, tokens(5000, 9) + 1],
        ),
        ("numbers", lambda x, n, f: x * f + n, [normal(5000), 3, 2.5]),
    ]


def graphs():
    return [
        ("cross entropy", cross_entropy, [normal(512, 50304), tokens(512, 50304)]),
        ("attention", attention, [normal(8, 128, 64) for _ in range(3)]),
        ("mlp", mlp, [normal(64, 256), normal(256, 512), normal(512), normal(512, 128), normal(128)]),
        ("block", block, [normal(64, 256), normal(256), normal(256), normal(256, 1024) / 16, normal(1024, 256) / 32]),
    ]


def exact(inputs):
    return [x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs]


def distance(result, reference):
    """Relative to the whole; infinite where NaNs are in other places."""
    result, reference = result.double(), reference.double()
    if not torch.equal(result.isnan(), reference.isnan()):
        return float("inf")
    result, reference = result.nan_to_num(), reference.nan_to_num()
    return ((result - reference).norm() / reference.norm().clamp_min(1e-30)).item()


def check_right():
    failures = 0
    for name, function, inputs in right_cases():
        try:
            failures += not check_one(name, function, inputs)
        except Exception as error:
            failures += 1
            say(case=name, ok=False, error=f"{type(error).__name__}: {str(error)[-1500:]}")
    say(case="right", failures=failures, note=str(launcher_note(CUDA)))


def check_one(name, function, inputs):
    started = time.perf_counter()
    executor = build(function, inputs)
    seconds = time.perf_counter() - started
    results = executor(*(x.clone() if isinstance(x, torch.Tensor) else x for x in inputs))
    torch.cuda.synchronize()
    eager, reference = as_tuple(function(*inputs)), as_tuple(function(*exact(inputs)))
    ours = [distance(r, e) for r, e in zip(results, reference, strict=True)]
    theirs = [distance(r, e) for r, e in zip(eager, reference, strict=True)]
    floor = {torch.float64: 1e-13, F32: 3e-7, BF16: 4e-3}.get(eager[0].dtype, 1e-7)
    bad = [n for n, (a, b) in enumerate(zip(ours, theirs, strict=True)) if not a <= max(2 * b, floor)]
    bad += [n for n, (a, b) in enumerate(zip(results, eager, strict=True)) if a.dtype != b.dtype or a.shape != b.shape]
    facts = {"worst": [f"{ours[n]:.2g} eager {theirs[n]:.2g}" for n in bad]} if bad else {}
    say(
        case=name,
        ok=not bad,
        kernels=len(executor.kernels),
        seconds=round(seconds, 2),
        error=float(f"{max(ours):.2g}"),
        **facts,
    )
    return not bad


def as_tuple(value):
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def check_circumstances():
    """Odd addresses, other streams, CUDA graphs, determinism, other threads."""
    x = normal(1 << 20)
    add = build(lambda x: x * 2 + 1, [x[1:]])
    say(case="odd address", ok=torch.equal(add(x[1:])[0], x[1:] * 2 + 1))
    total = build(lambda x: x.sum(), [x])
    first = total(x)[0]
    say(case="deterministic", ok=all(torch.equal(total(x)[0], first) for _ in range(20)))
    streams = [torch.cuda.Stream() for _ in range(3)]
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(total(x)[0])
    torch.cuda.synchronize()
    say(case="streams", ok=all(torch.equal(r, first) for r in results))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = total(x)[0]
    graph.replay()
    torch.cuda.synchronize()
    say(case="cuda graph", ok=torch.equal(kept, first))
    import threading

    found = []
    thread = threading.Thread(target=lambda: found.append(total(x)[0]))
    thread.start()
    thread.join()
    say(case="thread", ok=bool(found) and torch.equal(found[0], first))


class Block(torch.nn.Module):
    """A transformer block, written out."""

    def __init__(self, width=256, heads=4):
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.mix, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(self.first(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5, -1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Classifier(torch.nn.Module):
    def __init__(self, words=1000, width=256):
        super().__init__()
        self.table = torch.nn.Embedding(words, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(2))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, words)

    def forward(self, tokens, target):
        x = self.table(tokens)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


class Convolution(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 32, 3, padding=1, bias=False),
            torch.nn.BatchNorm2d(32),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(32, 64, 3, padding=1),
            torch.nn.GroupNorm(8, 64),
            torch.nn.SiLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(64 * 16 * 16, 10),
        )

    def forward(self, x, target):
        return F.cross_entropy(self.layers(x), target)


def model_cases():
    return [
        ("mlp", Mlp(), lambda: (normal(128, 256), normal(128, 64))),
        (
            "transformer",
            Classifier(),
            lambda: (torch.randint(0, 1000, (8, 64), device=CUDA), torch.randint(0, 1000, (8, 64), device=CUDA)),
        ),
        ("convolution", Convolution(), lambda: (normal(8, 3, 32, 32), tokens(8, 10))),
    ]


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 64))

    def forward(self, x, target):
        return F.mse_loss(self.layers(x), target)


def check_models(compiled):
    """The whole engine: loss and every gradient against eager, and the wall time of a training step."""
    for name, model, make in model_cases():
        try:
            check_model(name, model.to(CUDA), make, compiled)
        except Exception as error:
            import traceback

            where = traceback.format_exc().splitlines()[-7:]
            say(model=name, ok=False, error=f"{type(error).__name__}: {str(error)[-700:]}", where=where)


def check_model(name, model, make, compiled):
    import dynascope
    from dynascope import recording

    recorder = recording.Recorder()
    before = recording.use(recorder)
    ours = dynascope.compile(model)
    worst = 0.0
    started = time.perf_counter()
    for _ in range(3):
        inputs = make()
        wanted = gradients(model, model, inputs)
        found = gradients(model, ours, inputs)
        worst = max(worst, *(distance(a, b) for a, b in zip(found, wanted, strict=True)))
    seconds = time.perf_counter() - started
    recording.use(before)
    rivals = {"eager": model, "dynascope": ours}
    if compiled:
        torch._dynamo.reset()
        rivals["compile"] = torch.compile(model)
    inputs = make()
    times = {}
    for rival, call in rivals.items():
        for _ in range(3):
            gradients(model, call, inputs)
        times[rival] = round(1e6 * statistics.median(stepped(model, call, inputs) for _ in range(7)))
    report = recorder.report()
    kernels = [kernel.language for kernel in report.kernels]
    statuses = [entry.status for function in report.functions for entry in function.entries]
    say(
        model=name,
        ok=worst < 1e-4,
        error=float(f"{worst:.2g}"),
        seconds=round(seconds, 2),
        step=times,
        kernels=len(kernels),
        triton=kernels.count("triton"),
        entries=statuses,
        notes=[n.code for g in report.graphs for n in g.notes][:4] + [n.message[:300] for n in report.notes][:2],
    )


def gradients(model, call, inputs):
    model.zero_grad(set_to_none=True)
    loss = call(*inputs)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters())]


def stepped(model, call, inputs, steps=20):
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(steps):
        model.zero_grad(set_to_none=True)
        call(*inputs).backward()
    torch.cuda.synchronize()
    return (time.perf_counter() - started) / steps


def check_assertion():
    """Last: it ends the CUDA context."""
    look = build(lambda w, t: F.embedding(t, w), [normal(10, 64), tokens(5, 10)])
    try:
        look(normal(10, 64), torch.tensor([1, 2, 10, 3, 4], device=CUDA))
        torch.cuda.synchronize()
        say(case="index out of range", ok=False)
    except Exception as error:
        say(case="index out of range", ok="assert" in str(error), error=str(error).splitlines()[0])


# ---- host ----


def measure_host():
    x = normal(1000)
    make = build(lambda x: x * 2 + 1, [x])
    out = torch.empty_like(x)
    kernel, names = make.kernels[0], make.slots[0]
    values = {name: x if name == names[0] else out for name in names}
    arguments = [values[name] for name in names]
    one = make_launcher([kernel], names, CUDA)
    say(host="one kernel", microseconds=host_cost(lambda: one(*arguments)))
    many = make_launcher([kernel] * 20, names, CUDA)
    say(host="twenty kernels", microseconds=host_cost(lambda: many(*arguments)))
    say(host="eager add", microseconds=host_cost(lambda: torch.add(x, x, out=out)))
    measure_build()


def host_cost(call, calls=400):
    best = []
    for _ in range(7):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(calls):
            call()
        best.append((time.perf_counter() - started) / calls)
        torch.cuda.synchronize()
    return round(1e6 * statistics.median(best), 2)


def measure_build():
    kernels = []
    for number in range(20):
        executor_kernels = KernelsOnly(
            lambda x, n=number: torch.softmax(x * (n + 1.25), -1), [normal(64, 1000 + number)]
        )
        kernels += executor_kernels.kernels
    started = time.perf_counter()
    compile_kernels(kernels, Target(90))
    say(host="build of 20 kernels", seconds=round(time.perf_counter() - started, 2))
    started = time.perf_counter()
    compile_kernels(kernels, Target(90))
    say(host="20 kernels from disk", seconds=round(time.perf_counter() - started, 4))


def KernelsOnly(function, inputs):
    graph = record(function, list(inputs))
    for node in graph.graph.nodes:
        node.meta["device"] = CUDA
    return Executor(fuse(lower(graph, list(inputs))), lambda kernels, slots: [])


def main():
    import triton

    wanted = sys.argv[1] if len(sys.argv) > 1 else "all"
    say(
        torch=torch.__version__,
        triton=triton.__version__,
        python=sys.version.split()[0],
        device=torch.cuda.get_device_name(),
    )
    if wanted in ("host", "all"):
        measure_host()
    if wanted in ("right", "all"):
        check_right()
        check_circumstances()
    if wanted in ("models", "all"):
        check_models(compiled="--no-compile" not in sys.argv)
    if wanted in ("right", "all"):
        check_assertion()


if __name__ == "__main__":
    main()
