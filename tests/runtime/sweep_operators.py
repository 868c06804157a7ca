"""torch's operator database through lower, fuse, emit and build, compared with eager. A script: minutes, not seconds.

    python tests/runtime/sweep_operators.py [dtype] [name prefix]

Many graphs share a translation unit, so that the compiler starts once for each fifty.
"""

from __future__ import annotations

import collections
import ctypes
import pathlib
import sys
import traceback
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import compiled  # noqa: F401  (puts the recorder on the path)
import torch
from dynascope.codegen.cpp.unit import unit
from dynascope.codegen.module import emit
from dynascope.loops.lower import lower
from dynascope.loops.nodes import ExternCall
from dynascope.native.toolchain import build_shared_object
from dynascope.runtime import build as building
from dynascope.runtime.launching import launcher
from dynascope.runtime.machine import this_machine
from dynascope.schedule.fusion import fuse
from recording import record
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

SAMPLES = 4
BATCH = 40
SKIPPED = ("empty", "rand", "bernoulli", "multinomial", "normal", "dropout", "uniform", "cauchy", "exponential",
           "geometric", "log_normal", "poisson", "rrelu", "item", "nonzero", "unique", "sparse", "ormqr", "svd_lowrank",
           "pca_lowrank", "eig", "to_sparse", "equal", "allclose", "combinations", "tolist", "masked_select", "argwhere",
           "new_empty", "linalg.lstsq", "as_strided_scatter")  # fmt: skip


class Case:
    """One sample: its flat tensors, how to call it, and what it compiled to."""

    def __init__(self, name, function, tensors):
        self.name, self.function, self.tensors = name, function, tensors
        self.module = emit(fuse(lower(record(function, tensors))))


def sample_case(op, sample):
    leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
    positions = [k for k, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[k].detach() for k in positions]

    def call(*given):
        values = list(leaves)
        for k, tensor in zip(positions, given, strict=True):
            values[k] = tensor
        first, args, kwargs = tree_unflatten(values, spec)
        result = op(first, *args, **kwargs)
        return [r for r in tree_flatten(result)[0] if isinstance(r, torch.Tensor)]

    return Case(op.name, call, tensors)


def run_batch(cases, failures, lowered):
    kernels, renamed = [], {}
    for number, case in enumerate(cases):
        for kernel in case.module.kernels:
            if kernel is not None:
                name = f"c{number}_{kernel.name}"
                renamed[number, kernel.name] = replace(
                    kernel, name=name, text=kernel.text.replace(f"void {kernel.name}(", f"void {name}(")
                )
                kernels.append(renamed[number, kernel.name])
    library = None
    if kernels:
        source = unit(kernels, "sweep")
        path = build_shared_object(source, language="c++", flags=building.flags(this_machine()), name="sweep")
        library = ctypes.CDLL(str(path))
    for number, case in enumerate(cases):
        try:
            compare(case, number, library, renamed)
            steps = case.module.schedule.steps
            lowered[case.name] = lowered.get(case.name, True) and not any(isinstance(s, ExternCall) for s in steps)
        except Exception as error:
            failures.append((case.name, f"{type(error).__name__}: {error}", case))


def compare(case, number, library, renamed):
    module = case.module
    names = dict(module.values) | module.schedule.program.constants
    names |= {
        "empty": building._empty_strided_cpu,
        "view": building._reinterpret_tensor,
        "restrided": building._restrided,
    }
    for kernel in module.kernels:
        if kernel is not None:
            names[kernel.name] = launcher(library, renamed[number, kernel.name])
    call = building._function(module, names)
    with torch.no_grad():
        expected = case.function(*[t.clone() for t in case.tensors])
        actual = call(*case.tensors)
    for a, e in zip(actual, expected, strict=True):
        if e.dtype in (torch.float32,):
            torch.testing.assert_close(a, e, equal_nan=True, rtol=2e-6, atol=2e-6)
        else:
            torch.testing.assert_close(a, e, equal_nan=True)
        assert a.stride() == e.stride() or e.numel() <= 1, f"strides {a.stride()} and not {e.stride()}"


def main():
    dtype = getattr(torch, sys.argv[1]) if len(sys.argv) > 1 else torch.float32
    prefix = sys.argv[2] if len(sys.argv) > 2 else ""
    failures, skipped, lowered, cases, total = [], collections.Counter(), {}, [], 0
    for op in op_db:
        if not op.name.startswith(prefix) or any(s in op.name for s in SKIPPED) or not op.supports_dtype(dtype, "cpu"):
            continue
        try:
            samples = list(op.sample_inputs("cpu", dtype))
        except Exception:
            continue
        step = max(1, len(samples) // SAMPLES)
        for sample in samples[::step][:SAMPLES]:
            try:
                cases.append(sample_case(op, sample))
            except Exception as error:
                kind = (
                    "recording"
                    if "recording.py" in "".join(traceback.format_tb(error.__traceback__)[-3:])
                    else "COMPILING"
                )
                last = traceback.extract_tb(error.__traceback__)[-1]
                skipped[
                    f"{kind} {op.name}: {type(error).__name__} {str(error)[:80]} at {pathlib.Path(last.filename).name}:{last.lineno}"
                ] += 1
        if len(cases) >= BATCH:
            total += len(cases)
            run_batch(cases, failures, lowered)
            cases = []
    total += len(cases)
    run_batch(cases, failures, lowered)
    for line, count in sorted(skipped.items()):
        print(count, line)
    for name, error, _ in failures:
        print("FAIL", name, error.replace("\n", " ")[:160])
    print(
        f"{total} samples, {len(failures)} failures, {sum(lowered.values())} of {len(lowered)} operators without a library call"
    )


if __name__ == "__main__":
    main()
