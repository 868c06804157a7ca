"""GPT-2 and T5 of transformers: capture alone, guards and dispatch, and the first call, ours beside torch.compile.

    python bench/language_models.py [--rounds 3]

Each trial is a fresh process with cache folders of its own; the two sides take turns. Times are the process's own (with its
children's for the first call, whose compilers are processes), so that others on the machine disturb less.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

from results import write_section

TRIAL = """
import json, resource, statistics, sys, time, warnings
warnings.simplefilter("ignore")
import torch, transformers
side, model, layers, what = sys.argv[1:]
torch.manual_seed(0)
tokens = torch.arange(24).reshape(2, 12) * 7 % 90
if model == "GPT-2":
    made = transformers.GPT2Model(transformers.GPT2Config(vocab_size=96, n_embd=32, n_layer=int(layers), n_head=4))
    inputs = dict(input_ids=tokens, use_cache=False)
else:
    sizes = dict(vocab_size=96, d_model=32, d_ff=64, d_kv=8, num_layers=int(layers), num_heads=4)
    made = transformers.T5Model(transformers.T5Config(**sizes))
    inputs = dict(input_ids=tokens, decoder_input_ids=tokens, use_cache=False)
made.eval()

def used():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))

def known_answer(graph, example_inputs):
    result = graph.forward(*example_inputs)
    return lambda *inputs: result

torch.set_grad_enabled(False)
before = used()
if side == "ours":
    import dynascope
    compile = dynascope.compile
else:
    compile = torch.compile
    if what != "first":
        import torch._dynamo
        before = used()
if side == "ours" and what != "first":
    dynascope.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    before = used()
if what == "warm":
    compiled = compile(made, backend=known_answer)
    for _ in range(30):
        compiled(**inputs)
    rounds = []
    for _ in range(15):
        start = time.thread_time()
        for _ in range(60):
            compiled(**inputs)
        rounds.append((time.thread_time() - start) / 60)
    print(json.dumps(statistics.median(rounds)))
else:
    compile(made, **({} if what == "first" else {"backend": "eager"}))(**inputs)
    print(json.dumps(used() - before))
"""
COLUMNS = ["what", "ours", "torch.compile", "ours / torch.compile", "wanted at most"]


def trial(side: str, model: str, layers: int, what: str) -> float:
    with tempfile.TemporaryDirectory() as caches:
        folders = dict(DYNASCOPE_CACHE_DIR=os.path.join(caches, "ours"), TORCHINDUCTOR_CACHE_DIR=os.path.join(caches, "theirs"))
        answer = subprocess.run(
            [sys.executable, "-c", TRIAL, side, model, str(layers), what],
            env={**os.environ, **folders},
            capture_output=True,
            text=True,
            check=False,
        )
    if answer.returncode:
        raise SystemExit(f"{side} {model} {what} failed:\n{answer.stderr[-2000:]}")
    return float(answer.stdout.strip().splitlines()[-1])


def both(model: str, layers: int, what: str, rounds: int) -> tuple[float, float]:
    found = [[trial(side, model, layers, what) for side in ("ours", "theirs")] for _ in range(rounds)]
    ours, theirs = (statistics.median(each) for each in zip(*found, strict=True))
    return ours, theirs


def row(name: str, times: tuple[float, float], wanted: str, unit: str) -> list[str]:
    scale = 1e6 if unit == "us" else 1
    figures = [f"{each * scale:.3g} {unit}" for each in times]
    return [name, *figures, f"{times[0] / times[1]:.3g}", wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description="GPT-2 and T5, ours beside torch.compile.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    rows: list[list[str]] = []
    for model in ("GPT-2", "T5"):
        rows.append(row(f"{model}, 2 layers: capture alone", both(model, 2, "capture", rounds), "0.5", "s"))
        few, many = (both(model, layers, "warm", rounds) for layers in (2, 8))
        rows.append(row(f"{model}, 2 layers: guards and dispatch", few, "0.15", "us"))
        rows.append(row(f"{model}, 8 layers: guards and dispatch", many, "0.15", "us"))
        each = tuple((after - before) / 6 for before, after in zip(few, many, strict=True))
        rows.append(row(f"{model}: guards of one layer more", (each[0], each[1]), "1 us", "us"))
    rows.append(row("GPT-2, 2 layers: first call", both("GPT-2", 2, "first", rounds), "0.15", "s"))
    note = f"Processor times, the median of {rounds} rounds, each trial a fresh process with empty caches."
    write_section("Language models", f"python bench/language_models.py --rounds {rounds}", COLUMNS, rows, note)


if __name__ == "__main__":
    main()
