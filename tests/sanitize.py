"""A sample of the suite under checkers of memory: `make sanitize`. One line a stage; the output of what fails.

    python tests/sanitize.py [stage ...] [tests ...]        address, debug-malloc, collector; these tests instead of the sample

`address`: the hook and the kernels are built with AddressSanitizer and UndefinedBehaviourSanitizer (by the compiler's command,
which is part of the name of every built file, so that nothing built otherwise is used) and Python allocates by malloc, which
they watch. `debug-malloc`: CPython's own checks around every block. `collector`: a garbage collection at almost every allocation.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHECKS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g"
HOOK = ["tests/frame", "tests/guards/test_check.py", "tests/guards/test_tensors.py"]
PROGRAMS = ["tests/api/test_compile.py", "tests/api/test_modes.py", "tests/api/test_threads_and_processes.py",
            "tests/capture/test_programs.py"]  # fmt: skip
KERNELS = ["tests/runtime/test_kernels.py", "tests/runtime/test_in_place.py", "tests/runtime/test_scatter.py",
           "tests/runtime/test_index_errors.py", "tests/runtime/test_half_numbers.py", "tests/grad/test_bridge.py"]  # fmt: skip


def library(name):
    return subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout.strip()


def address():
    return HOOK + PROGRAMS + KERNELS, {
        "CC": f"gcc {CHECKS}",
        "CXX": f"g++ {CHECKS}",
        # The C++ library too: AddressSanitizer asks it for `__cxa_throw` before torch brings it.
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')} {library('libstdc++.so')}",
        "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:alloc_dealloc_mismatch=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
    }


def debug_malloc():
    return HOOK + PROGRAMS + KERNELS, {"PYTHONMALLOC": "debug"}


def collector():
    return HOOK + PROGRAMS, {"DYNASCOPE_TESTS_COLLECT": "1"}


STAGES = {"address": address, "debug-malloc": debug_malloc, "collector": collector}


def run(name, wanted):
    tests, surroundings = STAGES[name]()
    tests = wanted or tests
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "DYNASCOPE_CACHE_DIR": cache, **surroundings}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "900", *tests]
        answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    said = answer.stdout + answer.stderr
    print(f"{name}: {'ok' if answer.returncode == 0 else f'exit code {answer.returncode}'}", flush=True)
    if answer.returncode:
        print(said[-12_000:])
    return answer.returncode == 0


if __name__ == "__main__":
    tests = [name for name in sys.argv[1:] if name not in STAGES]
    outcomes = [run(name, tests) for name in STAGES if name in sys.argv[1:] or not set(STAGES) & set(sys.argv[1:])]
    sys.exit(not all(outcomes))
