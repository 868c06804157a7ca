"""Many random programs, compiled against plain Python: of tensors (`tests/differential/tensor_programs.py`, compared with eager
and float64 too) and of Python itself (`tests/capture/random_python.py`).

    python bench/campaign.py capture --first 100000 --count 20000 --processes 15   tensors; graphs run as they are
    python bench/campaign.py kernels --first 100000 --seconds 600 --processes 15   generated kernels, with backward
    python bench/campaign.py sizes --seconds 60                                    two sizes change from call to call (sizes-kernels)
    python bench/campaign.py shapes --seconds 60                                   numbers and shapes that lead each other (shapes-kernels)
    python bench/campaign.py autograd --seconds 60                                 custom functions, gradients inside (autograd-kernels)
    python bench/campaign.py hooks --seconds 60                                    hooks, writes past autograd, inference (hooks-kernels)
    python bench/campaign.py late-kernels --seconds 60                             numbers out of tensors, sizes that depend on data
    python bench/campaign.py triton --seconds 60                                   kernels for a GPU built too, without one; needs Triton
    python bench/campaign.py interpreted --seconds 60                              these run too, in Triton's interpreter
    python bench/campaign.py gpu --count 1000                                      the same on a CUDA device (sizes-gpu)
    python bench/campaign.py python --first 100000 --seconds 600 --processes 15    Python alone
    python bench/campaign.py calls --first 100000 --seconds 60                     methods and functions of Python's own, by reflection
    python bench/campaign.py torch-calls --first 100000 --seconds 60               torch's (torch-calls-kernels)

Prints a line for each failure, with its smallest program in `out/campaign/<name>/<seed>.py`. A process that dies or hangs is a
failure of the seed that it was at. What is done is remembered in `out/campaign/<name>/done.jsonl`, a line a seed: the same command
goes on where it was ended, by `--seconds` or by hand. At the end the totals stand in RESULTS.md (`--record`). It needs torch
and the repository; any Python and torch that Dynascope serves.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WAYS = {
    "capture": ("eager", "cpu"),
    "kernels": ("dynascope", "cpu"),
    "sizes": ("eager", "cpu"),
    "sizes-kernels": ("dynascope", "cpu"),
    "shapes": ("eager", "cpu"),
    "shapes-kernels": ("dynascope", "cpu"),
    "autograd": ("eager", "cpu"),
    "autograd-kernels": ("dynascope", "cpu"),
    "hooks": ("eager", "cpu"),
    "hooks-kernels": ("dynascope", "cpu"),
    "late-kernels": ("dynascope", "cpu"),
    "gpu": ("dynascope", "cuda"),
    "sizes-gpu": ("dynascope", "cuda"),
    "triton": ("dynascope", "cpu"),
    "interpreted": ("dynascope", "cpu"),
    "python": ("eager", ""),
    "calls": ("eager", ""),
    "torch-calls": ("eager", "cpu"),
    "torch-calls-kernels": ("dynascope", "cpu"),
}
SILENCE = 180
"""Seconds without a word after which a process counts as hanging; compiling for a GPU takes its time."""
SHRINK = 40
"""Seconds for making a failure smaller."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=0, help="of seeds; without it 200, or what the seconds allow")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=0, help="no new seed is begun after them")
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "campaign")
    parser.add_argument("--record", action="store_true", help="write the totals into RESULTS.md")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folders = ("engine", "tests/differential", "tests/capture", "bench")
    sys.path[:0] = [str(ROOT / folder) for folder in folders]
    options.count = options.count or (1000000 if options.seconds else 200)
    if options.worker:
        Worker(options.way, options.folder).serve()
        return
    done = Campaign(options).run()
    failed = {seed: kind for seed, kind in done.items() if kind}
    kinds = collections.Counter(failed.values())
    print(f"{len(done)} programs, {len(failed)} failed: {dict(kinds.most_common())}")
    if options.record:
        record(options, done, kinds)
    sys.exit(bool(failed))


class Campaign:
    """Seeds handed to processes one at a time; an answer a line."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.folder = options.folder / options.way
        self.folder.mkdir(parents=True, exist_ok=True)
        self.file = self.folder / "done.jsonl"
        wanted = range(options.first, options.first + options.count)
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        known = {fact["seed"]: fact["kind"] for fact in map(json.loads, lines)}
        self.done: dict[int, str] = {seed: known[seed] for seed in wanted if seed in known}
        self.waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for seed in wanted:
            if seed not in known:
                self.waiting.put(seed)
        self.end = time.monotonic() + (options.seconds or float("inf"))
        self.lock = threading.Lock()

    def run(self) -> dict[int, str]:
        """The kind of failure of each seed that was tried, empty for none."""
        threads = [threading.Thread(target=self.keep_one_busy) for _ in range(self.options.processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return self.done

    def keep_one_busy(self) -> None:
        worker = None
        while time.monotonic() < self.end:
            try:
                seed = self.waiting.get_nowait()
            except queue.Empty:
                break
            worker = worker if worker is not None and worker.poll() is None else self.start()
            worker.stdin.write(f"{seed}\n")
            worker.stdin.flush()
            timer = threading.Timer(SILENCE, worker.kill)
            timer.start()
            answer = worker.stdout.readline()
            over = not timer.is_alive()
            timer.cancel()
            self.note(seed, *self.read(answer, worker, over))
        if worker is not None:
            worker.kill()
            worker.wait()

    @staticmethod
    def read(answer: str, worker: subprocess.Popen, over: bool) -> tuple[str, str]:
        if answer:
            fact = json.loads(answer)
            return fact["kind"], fact["text"]
        code = worker.wait()
        return ("hangs", f"no word for {SILENCE} seconds") if over else ("dies", f"exit code {code}")

    def start(self) -> subprocess.Popen:
        command = [sys.executable, __file__, self.options.way, "--worker", "--folder", str(self.folder)]
        surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=surroundings,
        )

    def note(self, seed: int, kind: str, text: str) -> None:
        with self.lock, self.file.open("a") as file:
            self.done[seed] = kind
            file.write(json.dumps({"seed": seed, "kind": kind, "text": text}) + "\n")
            if kind:
                print(f"seed {seed}: {kind}: {text[:300]}".replace("\n", " "), flush=True)


class Worker:
    """Reads seeds, answers with what failed; shrinks it first."""

    def __init__(self, way: str, folder: Path) -> None:
        import torch

        torch.set_num_threads(1)
        self.backend, self.device = WAYS[way]
        self.folder = folder
        self.way = way
        outcomes = {"python": self.of_python, "calls": self.of_calls, "torch": self.of_torch_calls, "shapes": self.of_shapes}
        self.outcome = outcomes.get(way.partition("-")[0], self.of_tensors)
        if way == "triton":
            from building_for_gpu import build_also_for_gpu

            build_also_for_gpu()
        if way == "interpreted":
            from interpreting_for_gpu import run_as_on_a_gpu

            run_as_on_a_gpu()

    def serve(self) -> None:
        answers = os.fdopen(os.dup(1), "w")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        for line in iter(sys.stdin.readline, ""):
            kind, text = self.outcome(int(line))
            stopped = "device-side assert" in text  # eager stops the GPU too where an index is out of range
            ended = stopped or "InterpreterError: AssertionError('an index is out of range" in text
            print(json.dumps({"kind": "" if ended else kind, "text": text}), file=answers, flush=True)
            if stopped:  # and it serves this process no more
                os.dup2(answers.fileno(), 1)
                os.execv(sys.executable, [sys.executable, *sys.argv])

    def of_shapes(self, seed: int) -> tuple[str, str]:
        from number_programs import differences, program

        text = next(differences(program(seed), self.backend, seed), "")
        if text:
            (self.folder / f"{seed}.py").write_text(text)
        return ("differs" if text else ""), text

    def of_python(self, seed: int) -> tuple[str, str]:
        from python_checking import examine

        report = examine(seed)
        if report is None:
            return "", ""
        (self.folder / f"{seed}.py").write_text(report)
        found = report.partition("return t, u, m, k, s, l, a, b, it")[2].strip() or report
        return found.partition(":")[0], found

    def of_calls(self, seed: int) -> tuple[str, str]:
        from calls_of_python import differs

        found = differs(seed)
        return ("differs", found) if found else ("", "")

    def of_torch_calls(self, seed: int) -> tuple[str, str]:
        from calls_of_torch import differs

        found = differs(seed, self.backend)
        return ("differs", found) if found else ("", "")

    def of_tensors(self, seed: int) -> tuple[str, str]:
        import dynascope
        from shrinking import shrink
        from tensor_programs import of_varying_sizes, random_program, with_autograd, with_hooks, with_late_numbers

        ways = {"sizes": of_varying_sizes, "autograd": with_autograd, "hooks": with_hooks, "late": with_late_numbers}
        write = ways.get(self.way.partition("-")[0], random_program)
        program = write(seed)
        failure = self.fails(program)
        if failure is None:
            return "", ""
        kind, text = failure
        small = shrink(program, lambda each: (self.fails(each) or (None,))[0], SHRINK)
        (self.folder / f"{seed}.py").write_text(small.text() + f"# {kind}: {text[:1000]}".replace("\n", "\n# ") + "\n")
        dynascope.reset()
        return kind, text

    def fails(self, program) -> tuple[str, str] | None:
        from tensor_checking import Different, check

        with tempfile.TemporaryDirectory() as folder:
            try:
                check(program, Path(folder), self.backend, self.device)
            except Different as error:
                return error.kind, str(error)
            except Exception as error:
                return f"harness {type(error).__name__}", str(error)
            except BaseException as error:
                if self.way not in ("triton", "interpreted"):
                    raise
                return "not built", str(error)
        return None


def record(options: argparse.Namespace, done: dict[int, str], kinds: collections.Counter) -> None:
    from results import write_section

    found = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()) or "none"
    row = [options.way, str(len(done)), str(sum(kinds.values())), found]
    command = f"python bench/campaign.py {options.way} --first {options.first} --count {options.count} --record"
    columns = ["way", "programs", "failed", "kinds"]
    write_section(f"Random tensor programs: {options.way}", command, columns, [row])


if __name__ == "__main__":
    main()
