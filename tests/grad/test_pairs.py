"""Pairs are what they were: graphs at each level, what is kept for the backward pass, how ends meet the user's values; by digests.

Gradients that are right do not tell whether more was kept or computed than before, nor what the bridge is told of versions and views.

    python tests/grad/test_pairs.py               writes `pairs.json` anew; its difference names the programs and levels
    python tests/grad/test_pairs.py .build/pairs  leaves the texts themselves in a folder, for a diff with those of another tree

Autograd makes the graphs: those of another torch are others, and are not compared.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import sys
from dataclasses import fields

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import pair_programs
import pytest
import torch
from dynascope.grad import DifferentiationRefused, GradOptions, GradPair, differentiate
from dynascope.grad.printing import print_graph
from torch import fx

FILE = pathlib.Path(__file__).with_name("pairs.json")
OPTIONS = {
    "core": GradOptions(),
    "aten": GradOptions(level="aten", random="device"),
    "prims": GradOptions(level="prims"),
    "all kept": GradOptions(saving="everything"),
    "no gradients": GradOptions(gradients="never"),
}
NO_PLAN = {"forward", "backward", "program", "steps"}


def text_of(name: str, options: GradOptions) -> str:
    function, inputs = pair_programs.PROGRAMS[name]
    copies = [each.detach().clone(memory_format=torch.preserve_format).requires_grad_(each.requires_grad) for each in inputs]
    try:
        pair = differentiate(fx.symbolic_trace(function), copies, options)
    except DifferentiationRefused as refused:
        return refused.reason.message()
    graphs = [print_graph(graph)[0] for graph in (pair.forward, pair.backward) if graph is not None]
    text = "\n".join([*graphs, *plan_of(pair)])
    assert " at 0x" not in text, text
    return text


def plan_of(pair: GradPair) -> list[str]:
    """Sets have no order of their own."""
    values = ((field.name, getattr(pair, field.name)) for field in fields(pair) if field.name not in NO_PLAN)
    return [f"{name} = {sorted(value) if isinstance(value, frozenset) else value}" for name, value in values if value is not None]


def digests_of(name: str) -> dict[str, str]:
    return {level: hashlib.sha256(text_of(name, OPTIONS[level]).encode()).hexdigest()[:8] for level in OPTIONS}


def torch_release() -> str:
    return re.match(r"\d+\.\d+", torch.__version__).group()


KNOWN = json.loads(FILE.read_text()) if FILE.exists() else {}


@pytest.mark.skipif(KNOWN.get("torch") != torch_release(), reason="autograd of another torch")
@pytest.mark.parametrize("name", pair_programs.PROGRAMS)
def test_the_pair_is_what_it_was(name):
    found, known = digests_of(name), KNOWN["digests"][name]
    others = [level for level in OPTIONS if found[level] != known[level]]
    assert not others, f"another pair at {' and '.join(others)}: is that meant? This file says how to see and to write them"


def test_each_program_is_known():
    assert list(KNOWN["digests"]) == list(pair_programs.PROGRAMS)


if __name__ == "__main__":
    if sys.argv[1:]:
        folder = pathlib.Path(sys.argv[1])
        folder.mkdir(parents=True, exist_ok=True)
        for name in pair_programs.PROGRAMS:
            for level, options in OPTIONS.items():
                (folder / f"{name}, {level}.txt").write_text(text_of(name, options))
    else:
        found = {name: digests_of(name) for name in pair_programs.PROGRAMS}
        FILE.write_text(json.dumps({"torch": torch_release(), "digests": found}, indent=1) + "\n")
