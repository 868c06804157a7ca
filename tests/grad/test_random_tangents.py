"""Random programs differentiated, their graphs interpreted: any inputs may require gradients, any results may have a tangent.

Values, layouts, memory shared, what requires gradients and what has none are eager's.
"""

from __future__ import annotations

import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "schedule"))

import pytest
import torch
from compare import compare_results, compare_value, compile_graph, fresh, graph_of_call
from dynascope.grad import GradOptions
from random_loops import RandomProgram

PROGRAMS_IN_EACH = 12
STRIDES_OF_ONE_DIFFER = {90}
"""The gradient of a tensor rewritten through `as_strided` has another stride where there is one element only."""


def gradients(results, inputs, chosen, generator):
    roots = [result for result in results if result.requires_grad]
    used = [root for number, root in enumerate(roots) if chosen >> number & 1] or roots
    wanted = [each for each in inputs if each.requires_grad]
    if not used or not wanted:
        return []
    tangents = [torch.randn(root.shape, generator=generator, dtype=root.dtype) for root in used]
    return torch.autograd.grad(used, wanted, tangents, allow_unused=True)


def check(seed):
    choose, program = random.Random(seed), RandomProgram(seed, statements=7, writes=True)
    inputs = [each.detach().requires_grad_(choose.random() < 0.7) for each in program.inputs]
    given, of_eager = fresh(inputs), fresh(inputs)
    graph, _, _ = graph_of_call(lambda *tensors: program(*tensors), tuple(given), {})
    options = GradOptions(level=choose.choice(("core", "aten", "prims")), saving=choose.choice(("minimum-cut", "everything")))
    _, compiled = compile_graph(graph, given, options)
    found, wanted = list(compiled(*given)), list(program(*of_eager))
    compare_results(found, wanted, given, of_eager)
    chosen = choose.randrange(8)
    pairs = zip(
        gradients(found, given, chosen, torch.Generator().manual_seed(seed)),
        gradients(wanted, of_eager, chosen, torch.Generator().manual_seed(seed)),
        strict=True,
    )
    for number, (one, other) in enumerate(pairs):
        assert (one is None) == (other is None), f"gradient {number}: {one}, eager {other}"
        if other is not None:
            if seed in STRIDES_OF_ONE_DIFFER:
                one, other = one.squeeze(), other.squeeze()
            compare_value(one, other, f"gradient {number}", 1e-8)


@pytest.mark.parametrize("part", range(8))
def test_random_programs(part):
    for seed in range(part * PROGRAMS_IN_EACH, (part + 1) * PROGRAMS_IN_EACH):
        try:
            check(seed)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
