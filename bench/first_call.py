"""First call in a fresh process with empty caches: ours against torch.compile (inductor), the import of torch left out.

    python bench/first_call.py [--rounds 3]
    python bench/first_call.py --dynamic [--rounds 3]                     both with `dynamic=True`, into a section of their own
    python bench/first_call.py --networks efficientnet_b0 densenet121     a training step of each, of timm's, into a section of their own

Each trial is a process of its own with cache folders of its own; the two sides take turns. Both sides' Python files are
compiled to bytecode beforehand, as pip does where it installs a package.
"""

from __future__ import annotations

import argparse
import compileall
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

from measure import ratio_of
from results import write_section

CASES = {"MLP of the seeds": "seed_mlp", "2-layer transformer": "transformer2"}
PHASES = ("inference", "training")

TRIAL = """
import json, sys, time
import torch, programs
side, case, phase, charity, dynamic = sys.argv[1:]
dynamic = True if dynamic == "yes" else None
torch.manual_seed(0)
function, arguments = programs.network(case) if phase == "training step" else getattr(programs, case)()
if charity == "yes":
    import torch._dynamo, torch._inductor.compile_fx, torch._inductor.codegen.cpp
start = time.perf_counter()
if side == "ours":
    import dynascope
    compiled = dynascope.compile(function, dynamic=dynamic)
else:
    compiled = torch.compile(function, dynamic=dynamic)
if phase.startswith("training"):
    compiled(*arguments).sum().backward()
else:
    with torch.no_grad():
        compiled(*arguments)
print(json.dumps(time.perf_counter() - start))
"""


def trial(side: str, case: str, phase: str, charity: str, caches: str, dynamic: bool) -> float:
    here = os.path.dirname(os.path.abspath(__file__))
    environment = {
        **os.environ,
        "DYNASCOPE_CACHE_DIR": os.path.join(caches, "ours"),
        "TORCHINDUCTOR_CACHE_DIR": os.path.join(caches, "theirs"),
        "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", TRIAL, side, case, phase, charity, "yes" if dynamic else "no"]
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(f"{side} {case} {phase} failed:\n{answer.stderr[-2000:]}")
    return float(json.loads(answer.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dynamic", action="store_true", help="all sizes vary, on both sides")
    parser.add_argument("--networks", nargs="+", default=[], metavar="NAME")
    options = parser.parse_args()
    rounds = options.rounds
    dynamic, title = (" --dynamic", ", sizes that vary") if options.dynamic else ("", "")
    compileall.compile_dir(os.path.dirname(importlib.util.find_spec("dynascope").origin), quiet=1)
    columns = [
        "case",
        "ours cold, s",
        "torch.compile cold, s",
        "cold ratio",
        "ratio, their imports left out",
        "ours warm cache, s",
        "theirs, s",
        "warm ratio",
    ]
    note = f"Cold: empty caches, our C hook's own build included. Warm: a second process with the caches of the first. Rounds: {rounds}."
    rows: list[list[str]] = []
    for name in options.networks:
        rows.append(row(f"timm {name}", name, "training step", rounds, options.dynamic))
        command = f"python bench/first_call.py --rounds {rounds}{dynamic} --networks {' '.join(options.networks)}"
        write_section(f"First call of networks for images{title}", command, columns, rows, f"{note} Batches of 4, 96 x 96, one thread.")
    for name, case in () if options.networks else CASES.items():
        for phase in PHASES:
            rows.append(row(name, case, phase, rounds, options.dynamic))
            write_section(f"First call{title}", f"python bench/first_call.py --rounds {rounds}{dynamic}", columns, rows, note)


def row(name: str, case: str, phase: str, rounds: int, dynamic: bool) -> list[str]:
    cold: dict[str, list[float]] = {"ours": [], "theirs": [], "charity": []}
    warm: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        for side in ("ours", "theirs"):
            with tempfile.TemporaryDirectory() as caches:
                cold[side].append(trial(side, case, phase, "no", caches, dynamic))
                warm[side].append(trial(side, case, phase, "no", caches, dynamic))
        with tempfile.TemporaryDirectory() as caches:
            cold["charity"].append(trial("theirs", case, phase, "yes", caches, dynamic))
    middle = {side: sorted(values)[len(values) // 2] for side, values in cold.items()}
    middle_warm = {side: sorted(values)[len(values) // 2] for side, values in warm.items()}
    return [
        f"{name}, {phase}",
        f"{middle['ours']:.2f}",
        f"{middle['theirs']:.2f}",
        str(ratio_of(cold["ours"], cold["theirs"])),
        str(ratio_of(cold["ours"], cold["charity"])),
        f"{middle_warm['ours']:.2f}",
        f"{middle_warm['theirs']:.2f}",
        str(ratio_of(warm["ours"], warm["theirs"])),
    ]


if __name__ == "__main__":
    main()
