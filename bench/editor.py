"""What a person waits for in an editor: the server's start, and from the last key to what is known of the edited text.

    python bench/editor.py [FILE]       the examples, or a program of one's own; each edit is made five times

Every edit changes one line of a compiled function of the last run; the time is from the change to the diagnostics and the lens
that say "live". Memory is what the server and the processes of kept calls have for themselves (PSS), when nothing happens.
"""

from __future__ import annotations

import asyncio
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


async def main(files: list[Path]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            await measure(file, Path(folder))


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
    if end["state"] != "exited":
        print(f"{file.name}: {end['message']}")
        return
    old, new = EXAMPLES.get(file.name, ("return ", "return {number}.5 * "))
    waits = [await edited(editor, path, text, text.replace(old, new.format(number=n), 1), n) for n in range(TIMES)]
    await asyncio.sleep(1)
    print(
        f"{file.name}: server {started * 1000:.0f} ms, edit to live {statistics.median(waits) * 1000:.0f} ms "
        f"(longest {max(waits) * 1000:.0f}), {memory(path)}"
    )
    await connection.close()


async def edited(editor: Editor, path: Path, before: str, after: str, number: int) -> float:
    """There, and back again, so that the next edit begins anew."""
    began = time.perf_counter()
    editor.edit(path, after, 2 * number + 2)
    while not any(lens.command.title.startswith("live") for lens in await editor.lenses(path)):
        await asyncio.sleep(0.005)
    wait = time.perf_counter() - began
    editor.edit(path, before, 2 * number + 3)
    while any(lens.command.title.startswith("live") for lens in await editor.lenses(path)):
        await asyncio.sleep(0.005)
    return wait


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
    asyncio.run(main([Path(each) for each in sys.argv[1:]] or sorted((ROOT / "examples").glob("*.py"))))
