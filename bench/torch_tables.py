"""What torch's own tests run from tables, through `dynascope.compile` with the default backend, beside eager: modules and losses, lists of
tensors (`_foreach_`), operators with functions, custom operators and functions, and steps of optimizers.

    PYTHONPATH=engine python bench/torch_tables.py                       a line for each that differs, breaks or has no kernels
    PYTHONPATH=engine python bench/torch_tables.py lists optimizers      of some tables
    PYTHONPATH=engine python bench/torch_tables.py --write               the counts, into RESULTS.md

Strict mode is on: a break is counted, and the call compared once more without it. The tables of functions are copied to modules of their
own first, because what stands in torch is not read as a program's.
"""

from __future__ import annotations

import argparse
import collections
import copy
import importlib
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import against_eager
import dynascope
import torch
from results import write_section
from torch.testing import _internal

Case = tuple[str, Callable, tuple, dict[str, Any]]
OF_FUNCTIONS = ("hop_db", "custom_op_db", "autograd_function_db")
MOST_SAMPLES = 6


def modules() -> Iterator[Case]:
    from torch.testing._internal import common_nn

    for case in (*common_nn.module_tests, *common_nn.get_new_module_tests(), *common_nn.criterion_tests):
        name = case.get("fullname") or f"{case['module_name']} {case.get('desc', '')}"
        torch.manual_seed(0)
        make = case["constructor"] if "constructor" in case else getattr(torch.nn, case["module_name"])
        arguments = case["constructor_args_fn"]() if "constructor_args_fn" in case else case.get("constructor_args", ())
        given = [part for key in ("input", "target") for part in _given(case, key)]
        yield name, make(*arguments), (*given, *case.get("extra_args", ())), {}


def _given(case: dict[str, Any], key: str) -> tuple:
    if f"{key}_fn" in case:
        made = case[f"{key}_fn"]()
    elif f"{key}_size" in case:
        sizes = case[f"{key}_size"]
        made = tuple(map(torch.randn, sizes)) if sizes and isinstance(sizes[0], tuple) else torch.randn(sizes)
    else:
        return ()
    return made if isinstance(made, tuple) else (made,)


def lists() -> Iterator[Case]:
    from torch.testing._internal import common_methods_invocations as tables

    names = [name for name in dir(tables) if name.startswith("foreach_") and name.endswith("_op_db")]
    for info in (info for name in names for info in getattr(tables, name)):
        for function in filter(None, (info.method_variant, info.inplace_variant)):
            for dtype in {torch.float32, torch.int64, torch.complex64, torch.bool} & set(info.dtypes):
                samples = info.sample_inputs("cpu", dtype, requires_grad=False, num_input_tensors=[3])
                for sample in list(samples)[:MOST_SAMPLES]:
                    yield f"{function.__name__} {dtype}", _calling(function), (sample.input, *sample.args), sample.kwargs


def _calling(function: Callable) -> Callable:
    return lambda *arguments, **keywords: function(*arguments, **keywords)


def functions() -> Iterator[Case]:
    folder = Path(tempfile.mkdtemp())
    for table in OF_FUNCTIONS:
        text = (Path(_internal.__file__).parent / f"{table}.py").read_text(encoding="utf-8")
        text = text.replace("_torch_testing", "tables_of_torch")
        for other in OF_FUNCTIONS:
            text = text.replace(f"torch.testing._internal.{other}", f"copied_{other}")
        (folder / f"copied_{table}.py").write_text(text, encoding="utf-8")
    sys.path.insert(0, str(folder))
    for table in OF_FUNCTIONS:
        for info in getattr(importlib.import_module(f"copied_{table}"), table):
            for trains in (False, True) if info.supports_autograd else (False,):
                dtype = torch.float32 if torch.float32 in info.dtypes else next(iter(info.dtypes), None)
                if dtype is None:  # for GPUs alone
                    continue
                for sample in list(info.sample_inputs("cpu", dtype, requires_grad=trains))[:MOST_SAMPLES]:
                    yield f"{table} {info.name}", _calling(info.op), (sample.input, *sample.args), sample.kwargs


def optimizers() -> Iterator[Case]:
    from torch.testing._internal import common_optimizers as tables

    for info in tables.optim_db:
        dtypes = [torch.float32, torch.complex64] if info.supports_complex else [torch.float32]
        for dtype in dtypes if info.optim_cls is not torch.optim.SparseAdam else ():
            for made in tables._get_optim_inputs_including_global_cliquey_kwargs("cpu", dtype, info, skip=("differentiable",)):
                yield f"{info.optim_cls.__name__} {dtype} {made.kwargs}", Steps(info, made.kwargs, dtype), (), {}


class Steps:
    """Five steps of an optimizer, of which the compiled function is the step: parameters and states afterwards."""

    def __init__(self, info: Any, options: dict[str, Any], dtype: torch.dtype) -> None:
        self.info, self.options, self.dtype = info, options, dtype

    def outcome(self, compile: Callable) -> list[Any] | str:
        """An error of the optimizer's own, too."""
        try:
            return self.run(compile)
        except dynascope.StrictError:
            raise
        except Exception as error:
            return repr(error)

    def run(self, compile: Callable) -> list[Any]:
        torch.manual_seed(0)
        sizes = ((3, 4), (5, 5)) if self.info.optim_cls.__name__ == "Muon" else ((3, 4), (), (2, 3, 2))
        parameters = [torch.randn(size, dtype=self.dtype, requires_grad=True) for size in sizes]
        optimizer = self.info.optim_cls(parameters, **copy.deepcopy(self.options))

        def loss() -> torch.Tensor:
            optimizer.zero_grad()
            value = sum((each - 0.3).abs().square().sum() for each in parameters)
            value.backward()
            return value

        step = compile(lambda: optimizer.step(loss) if self.info.step_requires_closure else optimizer.step())
        for at in range(5):
            if not self.info.step_requires_closure:
                loss()
            if at == 2:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            step()
        states = [part for each in parameters for part in optimizer.state[each].values() if isinstance(part, torch.Tensor)]
        return [*(each.detach() for each in parameters), *states]


TABLES = {"modules": modules, "lists": lists, "functions": functions, "optimizers": optimizers}


def outcome(case: Case, strict: bool) -> str | None:
    """None where it is eager's; else what differs, or what strict mode calls an error."""
    _, model, arguments, keywords = case
    dynascope.reset()

    def compile(function: Callable) -> Callable:
        return dynascope.compile(function, options={"strict": strict})

    try:
        if isinstance(model, Steps):
            found, wanted = model.outcome(compile), model.outcome(lambda step: step)
            if isinstance(found, str) or isinstance(wanted, str):
                assert found == wanted, f"{found}, eager {wanted}"
            else:
                torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
        else:
            against_eager.check(compile, model, arguments, keywords)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="all if none is named")
    parser.add_argument("--write", action="store_true", help="the counts, into RESULTS.md")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows, differed = [], 0
    for table in chosen.tables or TABLES:
        counts: collections.Counter[str] = collections.Counter()
        for case in TABLES[table]():
            counts["cases"] += 1
            if (found := outcome(case, strict=True)) is None:
                continue
            kind, found = ("break", found) if (wrong := outcome(case, strict=False)) is None else ("differ", wrong)
            counts[kind] += 1
            print(f"{kind}  {table}  {case[0]}: {found}", flush=True)
        rows.append([table, str(counts["cases"]), str(counts["differ"]), str(counts["break"])])
        differed += counts["differ"]
    if chosen.write:
        columns = ["table", "cases", "differ", "break, or without kernels"]
        write_section("Torch's tables", "python bench/torch_tables.py --write", columns, rows)
    return 1 if differed else 0


if __name__ == "__main__":
    sys.exit(main())
