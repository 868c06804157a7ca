"""What a person waits for in an editor: the server's start, the results of a run, and from the last key to what is known of the text.

    python bench/editor.py [FILE]       the examples and a model of GPT-2's size, or a program of one's own; five edits each

Every edit changes one line of a compiled function of the last run; the time is from the change to the diagnostics and the lens
that say "live". "Run to results" begins when the report was written for the last time, which is before Python has taken itself down.
Memory is what the server and the processes of kept calls have for themselves (PSS), when nothing happens. Times of the server's
own processor are beside those of the clock: on a busy machine only they say something.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "server"))

from editor_client import Connection, Editor  # noqa: E402

EXAMPLES = {
    "quickstart.py": ("x + self.down(hidden)", "x + self.down(hidden) * {number}.5"),
    "graph_breaks.py": ("y = torch.relu(x)", "y = torch.relu(x) + {number}.5"),
    "train_transformer.py": ("return x + ", "return x * {number}.5 + "),
    "plain.py": ("return ", "return {number}.5 * "),
}
TIMES = 5


PATIENCE = 60
GPT = """
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.down(F.gelu(self.up(self.second(x))))


class GPT(nn.Module):
    def __init__(self, layers=12, width=768, heads=12, words=50304):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


model = torch.compile(GPT())
print(model(torch.randint(0, 50304, (1, 64))).sum().item())
"""


async def main(files: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if not files:
            gpt = Path(folder) / "gpt_size" / "gpt.py"
            gpt.parent.mkdir()
            gpt.write_text(GPT)
            files = [*(ROOT / "examples" / name for name in EXAMPLES), gpt]
        for file in files:
            with contextlib.suppress(NotLive):
                await measure(file, Path(folder))


class NotLive(Exception):
    """What was edited is not captured again on its own."""


async def measure(file: Path, folder: Path) -> None:
    connection = Connection(folder)
    editor = Editor(connection, folder)
    began = time.perf_counter()
    await connection.open("visual-studio-code", {"enginePath": str(ROOT / "engine"), "storagePath": str(folder / "s")})
    started = time.perf_counter() - began
    text = file.read_text(encoding="utf-8")
    path = folder / file.name
    path.write_text(text, encoding="utf-8")
    editor.open(path)
    end = await editor.run(path)
    finished = time.time() - Path(end["reportFile"]).stat().st_mtime
    try:
        if end["state"] != "exited":
            print(f"{file.name}: {end['message']}", flush=True)
            return
        old, new = EXAMPLES.get(file.name, ("return x + ", "return x * {number}.5 + "))
        waits = [await edited(editor, path, text, text.replace(old, new.format(number=n), 1), n) for n in range(TIMES)]
        used = [cpu for _, cpu in waits]
        await asyncio.sleep(1)
        print(
            f"{file.name}: server {started * 1000:.0f} ms, run to results {finished * 1000:.0f} ms, edit to live "
            f"{statistics.median(wait for wait, _ in waits) * 1000:.0f} ms (longest {max(waits)[0] * 1000:.0f}; processor "
            f"{statistics.median(used) * 1000:.0f}), {memory(path)}",
            flush=True,
        )
    except TimeoutError:
        print(f"{file.name}: no live answer in {PATIENCE} s", flush=True)
        raise NotLive from None
    finally:
        await connection.close()


async def edited(editor: Editor, path: Path, before: str, after: str, number: int) -> tuple[float, float]:
    """Seconds of the clock and of the processors of the server and its children. There, and back again."""
    began, used = time.perf_counter(), processor_seconds(path)
    async with asyncio.timeout(PATIENCE):
        editor.edit(path, after, 2 * number + 2)
        while not any(lens.command.title.startswith("live") for lens in await editor.lenses(path)):
            await asyncio.sleep(0.02)
        wait, cpu = time.perf_counter() - began, processor_seconds(path) - used
        editor.edit(path, before, 2 * number + 3)
        while any(lens.command.title.startswith("live") for lens in await editor.lenses(path)):
            await asyncio.sleep(0.02)
    return wait, cpu


def processor_seconds(program: Path) -> float:
    """Of the server and of the processes of kept calls with those that they have waited for."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if str(program).encode() in command[1:2] or b"dynascope_server" in command:
            total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def memory(program: Path) -> str:
    kept, server = [], []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            size = next(
                int(line.split()[1])
                for line in (process / "smaps_rollup").read_text().splitlines()
                if line.startswith("Pss:")
            )
        except (OSError, StopIteration):
            continue
        if str(program).encode() in command[1:2]:
            kept.append(size)
        elif b"dynascope_server" in command:
            server.append(size)
    return f"server {sum(server) // 1024} MiB, {len(kept)} kept calls {sum(kept) // 1024} MiB"


if __name__ == "__main__":
    asyncio.run(main([Path(each) for each in sys.argv[1:]]))
