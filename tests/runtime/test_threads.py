"""Kernels write all of their rows whatever number of threads OpenMP gives: fewer than asked for, one inside a parallel
region of somebody else, none after a fork."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.compiler, pytest.mark.turns(2)]

PROGRAM = """
import os, signal, sys, dynascope, torch
torch.set_num_threads(4)
functions = [
    (lambda x: torch.softmax(x.sin() * 2, -1) + 1, torch.ones(1000, 300).cumsum(0)),
    (lambda x: (x * 2 + 1).exp(), torch.linspace(-1, 1, 300_001)),
    (lambda x: x.sum(0), torch.ones(900, 1100)),
    (lambda x: x.sum() + x.amax(), torch.linspace(0, 1, 1 << 19).view(1 << 9, -1)),
    (lambda x: x.t() + x.t().mean(), torch.ones(1024, 700).cumsum(1)),
]
def check():
    for function, x in functions:
        torch.testing.assert_close(dynascope.compile(function)(x), function(x))
"""
IN_A_CHILD = """
compiled = [dynascope.compile(function) for function, x in functions]
expected = [one(x).numpy().tobytes() for one, (_, x) in zip(compiled, functions)]
child = os.fork()
if not child:
    signal.alarm(20)
    same = all(one(x).numpy().tobytes() == e for one, (_, x), e in zip(compiled, functions, expected))
    os._exit(0 if same else 3)
assert os.waitpid(child, 0)[1] == 0
"""
IN_A_REGION = """
import ctypes
from dynascope.runtime.launching import _address
check()
softmax, x = functions[0]
compiled, expected = dynascope.compile(softmax), softmax(x)
parallel = ctypes.CFUNCTYPE(None, ctypes.CFUNCTYPE(None, ctypes.c_void_p), ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
compiled(x)
results = []
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def region(_):
    results.append(compiled(x))
parallel(_address("GOMP_parallel"))(region, None, 2, 0)
assert results
for result in results:
    torch.testing.assert_close(result, expected)
"""


def run(program: str, **environment: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "environment",
    [{"OMP_THREAD_LIMIT": "2"}, {"OMP_DYNAMIC": "true", "OMP_THREAD_LIMIT": "3"}, {"OMP_NUM_THREADS": "1"}, {}],
    ids=str,
)
def test_fewer_threads_than_asked_for(environment: dict[str, str]) -> None:
    run(PROGRAM + "check()\n", **environment)


def test_inside_another_parallel_region() -> None:
    run(PROGRAM + IN_A_REGION)


def test_after_a_fork() -> None:
    run(PROGRAM + IN_A_CHILD)
