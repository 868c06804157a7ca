"""Every operator of torch's own database, first samples, against eager: `python tests/grad/sweep.py [--samples N] [names]`.

Prints a count by outcome, then each failure. Needs `PYTHONPATH=engine:tests/grad`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import warnings
from typing import Any

import torch
from compare import compare_gradients, compare_results, compile_graph, flat_graph, fresh, graph_of_call
from dynascope.grad import DifferentiationRefused
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree


def outcome(info: Any, sample: Any) -> str:
    """ "equal", "refused: ...", "eager: ..." where eager itself fails, or "WRONG: ..."."""
    function, args, kwargs = info.op, (sample.input, *sample.args), sample.kwargs
    if not hasattr(function, "__name__"):
        return "skipped: not a function"
    graph, inputs, _ = graph_of_call(function, args, kwargs)
    try:
        torch.manual_seed(42)
        eager_inputs = fresh(inputs)
        eager_result = _call(function, args, kwargs, inputs, eager_inputs)
    except Exception as error:
        return f"eager: {type(error).__name__}"
    expected = list(pytree.tree_leaves(eager_result))
    if any(isinstance(e, torch.Tensor) and e.layout is not torch.strided for e in expected):
        return "skipped: sparse"
    try:
        ours = fresh(inputs)
        _, compiled = compile_graph(flat_graph(graph, eager_result), ours)
    except DifferentiationRefused as refused:
        return f"refused: {refused.reason.message()[:150]}"
    except Exception as error:
        return f"CRASH: {type(error).__name__}: {str(error)[:150]}"
    try:
        torch.manual_seed(42)
        found = compiled(*ours)
        compare_results(list(found), expected, ours, eager_inputs, 1e-4)
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            compare_gradients(list(found), expected, ours, eager_inputs, 1e-4)
    except Exception as error:
        return f"WRONG: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return "equal"


def _call(function: Any, args: Any, kwargs: Any, inputs: list[Any], copies: list[Any]) -> Any:
    by_identity = {id(i): c for i, c in zip(inputs, copies, strict=True)}
    args, kwargs = pytree.tree_map(lambda leaf: by_identity.get(id(leaf), leaf), (args, kwargs))
    return function(*args, **kwargs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--part", default="0/1")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    part, parts = map(int, chosen.part.split("/"))
    for index, info in enumerate(op_db):
        if (
            index % parts != part
            or (chosen.names and info.name not in chosen.names)
            or torch.float32 not in info.dtypes
        ):
            continue
        samples = info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd)
        for number, sample in zip(range(chosen.samples), samples, strict=False):
            try:
                result = outcome(info, sample)
            except Exception as error:
                result = f"HARNESS: {type(error).__name__}: {str(error)[:150]}"
            counts[result.split(":")[0]] += 1
            if result != "equal" and not result.startswith("skipped"):
                print(f"{info.name}.{info.variant_test_name} #{number} {result}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
