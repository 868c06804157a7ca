"""The processes that compile kernels: nobody's children, gone when nobody needs them, and never waited for in vain."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from dynascope.runtime import kernel_workers

pytestmark = pytest.mark.turns(2)

ENGINE = Path(__file__).resolve().parent.parent.parent / "engine"
SET_UP = """
import os, signal, sys, time
from pathlib import Path
from dynascope.codegen.triton.kernel import Parameter, TritonKernel
from dynascope.runtime import cuda_compile, kernel_workers
from dynascope.runtime.cubins import KernelError, Target

TEXT = '''import triton
import triton.language as tl


@triton.jit
def kernel(x):
    tl.store(x + tl.program_id(0), NUMBER)
'''


def kernels(*numbers):
    return [TritonKernel("kernel", TEXT.replace("NUMBER", str(n)), (Parameter("x", "*fp32", "x"),), (1, 1, 1), 1) for n in numbers]


here = []
compile_here = cuda_compile.compile_here
cuda_compile.compile_here = lambda *arguments: here.append(arguments) or compile_here(*arguments)


def compiled(*numbers):
    return [len(cubin.binary) > 500 for cubin in cuda_compile.compile_kernels(kernels(*numbers), Target(90))]
"""


@pytest.fixture
def run(tmp_path):
    """A program's last line, in a process of its own and with an empty cache."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed")

    def run(program):
        own = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
        own |= {"DYNASCOPE_CACHE_DIR": str(tmp_path / "cache"), "TRITON_CACHE_DIR": str(tmp_path / "tritons")}
        own["PYTHONPATH"] = os.pathsep.join([str(ENGINE), *sys.path])
        command = [sys.executable, "-c", SET_UP + textwrap.dedent(program)]
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout.splitlines()[-1]

    return run


def test_workers_compile_all_and_are_no_children(run):
    found = run("""
        assert all(compiled(1, 2, 3)) and all(compiled(4)) and not here
        try:
            os.wait()
        except ChildProcessError:
            print("none")
    """)
    assert found == "none"


def test_what_a_worker_cannot_compile_is_compiled_here(run):
    """Its error is that of this process; the others' work is not lost."""
    found = run("""
        try:
            compiled("no_such_value", 5)
        except KernelError as error:
            print(len(here), "no_such_value" in str(error), compiled(5), len(here))
    """)
    assert found == "1 True [True] 1"


def test_a_foreman_that_has_ended_is_followed_by_another(run):
    found = run("""
        kernel_workers._IDLE = 1
        first = compiled(1, 2)
        time.sleep(2.5)
        print(first, compiled(3, 4), len(here))
    """)
    assert found == "[True, True] [True, True] 0"


def test_without_forks_this_process_compiles(run):
    found = run("""
        def refuse():
            raise OSError("no more processes")

        os.fork = refuse
        print(compiled(1, 2), len(here))
    """)
    assert found == "[True, True] 2"


def test_a_program_that_dies_of_broken_pipes_lives_on(run):
    found = run("""
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        kernel_workers._IDLE = 1
        compiled(1)
        time.sleep(2.5)
        print(compiled(2), len(here))
    """)
    assert found == "[True] 0"


def test_a_child_has_workers_of_its_own(run):
    found = run("""
        compiled(1)
        child = os.fork()
        if not child:
            os._exit(0 if all(compiled(2, 3)) and not here else 1)
        print(os.waitpid(child, 0)[1], compiled(4), len(here))
    """)
    assert found == "0 [True] 0"


def test_who_waits_is_answered_though_another_gives_up():
    """A foreman that one thread dismisses still answers the others that have asked it."""
    ours, theirs = socket.socketpair()
    foreman = kernel_workers._Foreman(ours)
    kernel_workers._state.foreman = foreman
    answered = []
    waiting = threading.Thread(target=lambda: answered.append(foreman.wait(1, 20)))
    waiting.start()
    kernel_workers._dismiss(foreman)
    assert kernel_workers._state.foreman is None
    theirs.send(b"1\n")
    waiting.join()
    assert answered == [None]
