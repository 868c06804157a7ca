"""Whole models on a GPU: GPT-2's training step, one of 16 blocks at batch 1 and a decode step, ours, torch.compile's and eager's.

    PYTHONPATH=engine python bench/gpu_models.py                  all models, into RESULTS.md
    PYTHONPATH=engine python bench/gpu_models.py token --warm     those whose name holds a word, their steps alone, printed

Each contestant's first call is timed in a process of its own with empty caches, and once more in a second one. The warm steps are then
timed in turn in one process: a round of each after the other. Peak memory is of one step, above what is held before it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "engine"))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from gpu_calls import in_turn, peak_megabytes  # noqa: E402
from programs import Block  # noqa: E402
from results import write_section  # noqa: E402
from torch import nn  # noqa: E402

COMMAND = "PYTHONPATH=engine python bench/gpu_models.py"
SIDES = ("eager", "torch.compile", "torch.compile reduce-overhead", "ours", "ours reduce-overhead")


class Gpt(nn.Module):
    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 50304) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens, target):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


class Decoder(nn.Module):
    """Blocks over one token, whose keys and values stand in a cache."""

    def __init__(self, layers: int = 16, width: int = 1024, heads: int = 16, length: int = 256) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.register_buffer("cache", torch.randn(layers, 2, 1, heads, length, width // heads))

    def forward(self, x):
        for block, (keys, values) in zip(self.blocks, self.cache, strict=True):
            q, k, v = block.qkv(block.norm1(x)).view(1, 1, 3, block.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, torch.cat((keys, k), 2), torch.cat((values, v), 2))
            x = x + block.out(y.transpose(1, 2).reshape(x.shape))
            x = x + block.down(F.gelu(block.up(block.norm2(x))))
        return x


def compiled(model: nn.Module, side: str):
    import dynascope

    mode = {"mode": "reduce-overhead"} if side.endswith("reduce-overhead") else {}
    if side == "eager":
        return model
    return torch.compile(model, **mode) if side.startswith("torch") else dynascope.compile(model, **mode)


def training(layers: int = 12, batch: int = 8, length: int = 1024, **sizes: int):
    torch.manual_seed(0)
    model = Gpt(layers, **sizes).cuda()
    tokens = torch.randint(0, model.words.num_embeddings, (batch, length + 1), device="cuda")

    def step_of(side: str):
        call = compiled(model, side)

        def step():
            model.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = call(tokens[:, :-1], tokens[:, 1:])
            loss.backward()
            return loss

        return step

    return step_of


def decoding():
    torch.manual_seed(0)
    model = Decoder().cuda().to(torch.bfloat16).eval()
    x = torch.randn(1, 1, 1024, device="cuda", dtype=torch.bfloat16)

    def step_of(side: str):
        call = compiled(model, side)

        def step():
            with torch.no_grad():
                return call(x)

        return step

    return step_of


MODELS = {
    "GPT-2, 12 layers, training step": training,
    "GPT-2, 48 layers, training step": lambda: training(48),
    "16 blocks, training step at batch 1": lambda: training(16, 1, 128, width=512, heads=8, words=8192),
    "16 decoder blocks, one token": decoding,
}
FIRST = {name: ("torch.compile", "ours") if "48" not in name else ("ours",) for name in MODELS}
SMALL = ("16 blocks, training step at batch 1", "16 decoder blocks, one token")
WARM = {name: SIDES if name in SMALL else ("eager", "torch.compile", "ours") for name in MODELS if "48" not in name}
"""Deep models are here for what a first call costs."""


def first_call(name: str, side: str) -> float:
    """Seconds in this process, after the same model has run in eager."""
    step_of = MODELS[name]()
    step_of("eager")()
    step = step_of(side)
    torch.cuda.synchronize()
    started = time.perf_counter()
    step()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def first_calls(name: str, side: str) -> list[float]:
    """Of a process with empty caches, and of the next."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"DYNASCOPE_CACHE_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        words = [sys.executable, __file__, "--first", name, side]
        runs = [subprocess.run(words, env={**os.environ, **caches}, capture_output=True, text=True, check=False) for _ in range(2)]
    return [json.loads(run.stdout.splitlines()[-1]) if run.returncode == 0 else float("nan") for run in runs]


def warm(name: str, sides: tuple[str, ...], rounds: int = 15, calls: int = 8) -> dict[str, tuple[float, float]]:
    """Milliseconds of a step and megabytes of its peak, of each contestant."""
    step_of = MODELS[name]()
    steps, peaks = {}, {}
    for side in sides:
        steps[side] = step = step_of(side)
        for _ in range(4):
            step()
        peaks[side] = peak_megabytes(step)
    times = in_turn(steps, rounds, calls)
    return {side: (times[side], peaks[side]) for side in sides}


def main() -> None:
    options = arguments()
    if options.first:
        print(json.dumps(first_call(*options.first)))
        return
    rows = []
    for name in MODELS:
        if options.words and not any(word in name for word in options.words):
            continue
        firsts = {} if options.warm else {side: first_calls(name, side) for side in FIRST[name]}
        steps = warm(name, WARM[name]) if name in WARM else {}
        for side in steps or firsts:
            first = [f"{each:.2f}" for each in firsts.get(side, [])] or ["", ""]
            milliseconds, peak = (f"{steps[side][0]:.3f}", f"{steps[side][1]:.0f}") if steps else ("", "")
            rows.append([name, side, milliseconds, peak, *first])
            print(" | ".join(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    if options.words or options.warm:
        return
    columns = ["model", "by", "step, ms", "peak above what is held, MB", "first call, s", "in a second process, s"]
    section = f"GPU models, {torch.cuda.get_device_name().split()[1]}"
    sizes = "GPT-2 at batch 8 of 1,024 tokens, the 16 blocks (512 wide) at batch 1 of 128"
    write_section(section, COMMAND, columns, rows, f"Training under bfloat16 autocast: {sizes}. Decoding in bfloat16.")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--warm", action="store_true", help="no first calls")
    parser.add_argument("--first", nargs=2, metavar=("MODEL", "SIDE"), help="one first call, in this process")
    return parser.parse_args()


if __name__ == "__main__":
    main()
