"""Torch's own tests, each method compiled: is the outcome that of eager?

    python bench/torch_suite.py FOLDER                            the files listed below, in torch's folder `test` (of a checkout)
    python bench/torch_suite.py FOLDER test_nn.py nn/test_init.py these
    python bench/torch_suite.py FOLDER --backend dynascope        with kernels; by default operators run one by one
    python bench/torch_suite.py FOLDER --programs dynamo/test_misc.py     the programs inside: what they give to `torch.compile` alone
    python bench/torch_suite.py FOLDER --programs --variants 0 --backend dynascope inductor/test_torchinductor.py     beside eager

Any folder with files of `unittest` will do. Each method is compiled whole and called, and what it calls is followed as any program is.
Of methods made from one function (for each type, device or operator) `--variants` are taken.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import operator
import os
import sys
import types
import unittest
import unittest.mock
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynascope
import torch
import torch._dynamo.testing
from against_eager import check, verify
from dynascope.api import torch_disable
from dynascope.command.explain import codes
from dynascope.command.interception import but_for_torch_itself
from dynascope.strictness import expected
from method_outcomes import Way, a_few_of_each, cases_in, compare, compiled, in_processes, word_and_line, write
from older_tests import execute

FILES = """
test_nn.py test_torch.py test_autograd.py test_view_ops.py test_indexing.py test_shape_ops.py test_sort_and_select.py test_reductions.py
test_binary_ufuncs.py test_unary_ufuncs.py test_tensor_creation_ops.py test_type_promotion.py test_scatter_gather_ops.py test_linalg.py
test_complex.py test_foreach.py test_masked.py test_numpy_interop.py test_spectral_ops.py test_segment_reductions.py test_stateless.py
test_subclass.py test_modules.py test_optim.py test_overrides.py test_python_dispatch.py test_pytree.py test_transformers.py
test_type_info.py test_utils.py test_weak.py test_autocast.py test_namedtensor.py test_nestedtensor.py test_sparse.py test_custom_ops.py
nn/test_convolution.py nn/test_dropout.py nn/test_embedding.py nn/test_init.py nn/test_lazy_modules.py nn/test_load_state_dict.py
nn/test_module_hooks.py nn/test_multihead_attention.py nn/test_packed_sequence.py nn/test_parametrization.py nn/test_pooling.py
nn/test_pruning.py optim/test_lrscheduler.py optim/test_optim.py optim/test_swa_utils.py distributions/test_distributions.py
distributions/test_constraints.py distributions/test_transforms.py functorch/test_eager_transforms.py functorch/test_vmap.py
autograd/test_functional.py autograd/test_complex.py
""".split()  # noqa: SIM905

NOTE = """Of methods made from one function (for each type, device or operator) one or a few are taken. What is left asks for
the end of an object at the line that drops it, for autograd's own names of nodes and what they keep, for warnings that torch's functions
give where nobody reads their result, or takes longer than the time given. Of the programs inside (`--programs --strict --variants 0`)
many fail as written, because the method asks for what Dynamo itself did: compared is in which line. What is left asks for Dynamo's own
names, or is what a program does only under a compiler (`is_compiling`, stances)."""


SWITCHES = ("programs", "captures", "dynamic", "strict")
DEFECTS = ("internal-failure", "engine-error", "guard-raises", "guard-fails-at-once", "kernel-generation-failed", "compilation-failed")
"""What is an error of the engine's in any program."""


def run(folder: str, file: str, options: argparse.Namespace) -> None:
    module = imported(folder, file)
    cases = ((case, a_few_of_each(case, methods, options.variants)) for case, methods in cases_in(module, module.__name__))
    if not options.programs:
        compare(cases, options.seconds, compiled(options.backend), options.after)
        return
    if options.strict:
        dynascope.config.strict = True
    with expected(*set(codes()).difference(DEFECTS), required=False):
        ours = serving(module, compiling(options.backend, options.dynamic, options.captures))
        compare(cases, options.seconds, ours, options.after, serving(module, lambda target, **options: target), word_and_line)


def imported(folder: str, file: str) -> types.ModuleType:
    """The file as a module. What another torch's tests import and this torch has no more is made up."""
    path = Path(folder, file)
    sys.path[:0] = [str(path.parent), folder]
    os.chdir(folder)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    if specification is None or specification.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = sys.modules[path.stem] = importlib.util.module_from_spec(specification)
    execute(specification.loader, module)
    return module


def compiling(backend: str, dynamic: bool, captures: bool) -> Callable:
    """Breaks are allowed, so that results are compared; or not, where a test wants one graph of torch.compile."""

    def compile(target: Callable, **asked: Any) -> Callable:
        fullgraph = captures and bool(asked.get("fullgraph") or asked.get("nopython"))
        return dynascope.compile(target, backend=backend, dynamic=dynamic or asked.get("dynamic"), fullgraph=fullgraph)

    return compile


def serving(module: types.ModuleType, compile: Callable) -> Way:
    """`torch.compile` and its like are `compile` while a method runs, and every count of graphs that it asks for is the one it wants."""

    def torch_compile(model: Callable | None = None, **options: Any) -> Callable:
        return functools.partial(torch_compile, **options) if model is None else compile(model, **options)

    def called(function: Callable, *arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    def optimize(*arguments: Any, **options: Any) -> Callable:
        return functools.partial(compile, **options)

    def standard_test(self: Any, fn: Callable, nargs: int, *others: Any, **options: Any) -> None:
        given = [[torch.randn(10, 10) for _ in range(nargs)] for _ in range(2)]
        wanted = [fn(*each) for each in given]
        ours = compile(fn, fullgraph=True)
        for each, value in [*zip(given, wanted, strict=True)] * 2:
            self.assertTrue(torch._dynamo.utils.same(value, ours(*each)))

    names = {
        "torch.compile": but_for_torch_itself(torch.compile, torch_compile),
        "torch._dynamo.optimize": optimize,
        "torch._dynamo.optimize_assert": functools.partial(optimize, fullgraph=True),
        "torch._dynamo.testing.standard_test": standard_test,
        "torch.compiler.disable": torch_disable,
        "torch._dynamo.disable": torch_disable,
        "torch._dynamo.graph_break": dynascope.disable(lambda *arguments, **options: None),
        "torch._higher_order_ops.wrap.wrap": called,
        "torch._dynamo.testing.CompileCounter": Counter,
        "torch._dynamo.testing.CompileCounterWithBackend": Counter,
    }
    theirs = {id(operator.attrgetter(name.partition(".")[2])(torch)): thing for name, thing in names.items()}
    of_module = {name: theirs[id(value)] for name, value in vars(module).items() if id(value) in theirs}
    names |= {f"torch._inductor.metrics.{name}": AnyCount() for name in COUNTS} | {"torch._inductor.metrics.reset": lambda: None}

    def prepare(instance: unittest.TestCase, method: str) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        for name, thing in names.items():
            stack.enter_context(unittest.mock.patch(name, thing))
        stack.enter_context(unittest.mock.patch.dict(vars(module), of_module))
        # The text of a graph is no result of the program's.
        instance.assertExpectedInline = lambda *arguments, **options: None  # type: ignore[attr-defined]
        for name, way in {"common": check, "verify_aot_autograd": verify}.items():
            if hasattr(instance, name):  # of the tests of torch's own compiler: the program beside eager, not beside its graphs
                setattr(instance, name, functools.partial(way, compile))
        return stack

    return prepare


COUNTS = ("generated_kernel_count", "generated_cpp_vec_kernel_count", "cpp_to_dtype_count", "ir_nodes_pre_fusion", "num_bytes_accessed")
"""Of torch's own compiler, which does not run here."""


class AnyCount:
    """Equal to whatever it is compared with."""

    def __eq__(self, other: object) -> bool:
        return True

    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __hash__ = None  # type: ignore[assignment]
    __add__ = __sub__ = lambda self, other: self


class Counter:
    """Stands for the backends of torch's tests that count graphs and operations."""

    def __init__(self, *arguments: Any) -> None:
        self.clear()

    def clear(self) -> None:
        self.frame_count = self.op_count = AnyCount()
        self.graphs: list[Any] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--variants", type=int, default=2, help="so many methods of one function, 0 for all")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--programs", action="store_true", help="compile what the methods compile, not the methods")
    parser.add_argument("--captures", action="store_true", help="with --programs: one graph where the test asks for one")
    parser.add_argument("--dynamic", action="store_true", help="with --programs: all is compiled for sizes that vary")
    parser.add_argument("--strict", action="store_true", help="with --programs: a failure of the engine is an error")
    parser.add_argument("--write", default="", metavar="TAG", help="write RESULTS.md; the torch that the tests are of")
    parser.add_argument("--here", action="store_true", help="in this process, one file")
    parser.add_argument("--after", default="", help="with --here: only the methods behind this one")
    options = parser.parse_intermixed_args()
    folder = os.path.abspath(options.folder)
    if options.here:
        run(folder, options.files[0], options)
        return
    chosen = ["--seconds", str(options.seconds), "--variants", str(options.variants), "--backend", options.backend, folder]
    chosen += [f"--{switch}" for switch in SWITCHES if getattr(options, switch)]
    outcomes = []
    for found in in_processes(__file__, options.files or FILES, chosen, options.processes, options.seconds):
        print(found, flush=True)
        outcomes.append(found)
        if options.write:
            way = "programs inside" if options.programs else "methods"
            versions = f"{options.write} with torch {torch.__version__}, {way}, backend {options.backend}"
            write("Torch's own tests", "python bench/torch_suite.py FOLDER --write TAG", versions, outcomes, NOTE)


if __name__ == "__main__":
    main()
