"""What is made of many programs is what was made of them: loops, groups, kernels and wrappers, by the digests of their texts.

No result tells which plan was made, nor one form of an index from another that gives the same; how fast kernels are tells.

    python tests/codegen/test_texts.py                   writes `texts.json` anew; its difference names the programs and stages
    python tests/codegen/test_texts.py .build/texts      leaves the texts themselves in a folder, for a diff with those of another tree

Graphs are recorded by torch. Where another torch records another graph, nothing is compared.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import fields

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "schedule"))

import large_programs
import overload_calls
import pytest
import torch
import varying_programs
from dynascope.codegen.facts import graph_facts, memory_fact, step_facts
from dynascope.codegen.module import KernelModule, emit
from dynascope.codegen.target import Target
from dynascope.codegen.verifying import verify_kernels
from dynascope.loops.lower import lower
from dynascope.loops.lower.repeats import find_repeats
from dynascope.report.span import Span, UserFrame
from dynascope.schedule.fusion import fuse
from random_loops import RandomProgram
from recording import record
from symbolic_graphs import symbolic_graph
from torch import fx

FILE = pathlib.Path(__file__).with_name("texts.json")
SEEDS = range(60)
DEVICES = {"processor": torch.device("cpu"), "GPU": torch.device("cuda", 0)}
TARGET = Target(vector_bytes=32)
STAGES = ("loops", "groups", "kernels", "wrapper")


def random_graph(seed: int) -> fx.GraphModule:
    program = RandomProgram(seed)
    return record(lambda *given: program(*given), program.inputs)


def large_graph(name: str) -> fx.GraphModule:
    function, inputs = large_programs.PROGRAMS[name]
    return record(lambda *given: function(*given), list(inputs))


def overload_graph(name: str) -> fx.GraphModule:
    """Of the first of its calls that eager takes."""
    for call in overload_calls.calls(name, 20):
        try:
            call.program(*call.tensors)
        except overload_calls.ERRORS:
            continue
        return call.graph
    return record(lambda x: x, [torch.ones(1)])


def varying_graph(name: str) -> fx.GraphModule:
    return symbolic_graph(*varying_programs.PROGRAMS[name], {"s0": 7}).module


GROUPS: dict[str, tuple[Callable[..., fx.GraphModule], list]] = {
    "random": (random_graph, list(SEEDS)),
    "large": (large_graph, list(large_programs.PROGRAMS)),
    "overload": (overload_graph, list(overload_calls.OVERLOADS)),
    "varying": (varying_graph, list(varying_programs.PROGRAMS)),
}


def texts_of(graph: fx.GraphModule, device: torch.device) -> dict[str, str]:
    for number, node in enumerate(graph.graph.nodes):
        node.meta["device"] = device
        node.meta["user_stack"] = (UserFrame("program", Span("program.py", number)),)  # where it stands in the tests says nothing
    schedule = fuse(lower(graph, repeats=find_repeats(graph)))
    module = emit(schedule, TARGET)
    verify_kernels(module)
    facts = graph_facts(module, "g0", "forward")
    names = {kernel.name: fact.identifier for kernel, fact in zip(module.distinct, facts.kernels, strict=True)}
    said = [*facts.borders, *facts.externs, memory_fact(schedule, "forward"), *step_facts(module, "forward", names)]
    loops, groups, wrapper = (text.text for text in facts.texts)
    plan = [schedule.allocations, schedule.releases, schedule.held, schedule.outputs]
    return {
        "loops": loops + shown(lowered_values(schedule.program.buffers)),
        "groups": groups + shown([*plan, *said]),
        "kernels": module.source + "\n".join(kernels_of(module)) + shown([fact.links for fact in facts.kernels]),
        "wrapper": wrapper + shown([sorted(module.values), module.wrapper_links]),
    }


def lowered_values(buffers: dict) -> list[str]:
    laid_out = ((name, each.sizes, each.strides, each.role, each.is_aligned) for name, each in sorted(buffers.items()))
    return [" ".join(map(str, parts)) for parts in laid_out]


def kernels_of(module: KernelModule) -> Iterator[str]:
    for kernel in filter(None, module.kernels):
        yield kernel.text
        yield shown(values_of(kernel, "text", "group", "links", "triton"))
        if kernel.triton is not None:
            yield shown([*values_of(kernel.triton, "text", "links", "origins")])


def values_of(made: object, *without: str) -> list[object]:
    return [getattr(made, field.name) for field in fields(made) if field.name not in without]


def shown(items: list) -> str:
    """One a line. Nothing in it has a place in memory, or the order of a set."""
    text = "\n".join(map(str, items))
    assert " at 0x" not in text, text
    return f"\n{text}\n"


def digests_of(graph: fx.GraphModule) -> dict[str, str]:
    """Of the graph itself; by device, for each stage."""
    texts = {device: texts_of(graph, DEVICES[device]) for device in DEVICES}
    return {
        "graph": digest(graph_text(graph)),
        **{device: " ".join(digest(texts[device][stage]) for stage in STAGES) for device in DEVICES},
    }


def graph_text(graph: fx.GraphModule) -> str:
    return shown([(node.name, node.args, node.kwargs, laid_out(node.meta.get("val"))) for node in graph.graph.nodes])


def laid_out(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [laid_out(each) for each in value]
    return (value.dtype, *value.shape, *value.stride()) if isinstance(value, torch.Tensor) else value


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


KNOWN = json.loads(FILE.read_text()) if FILE.exists() else {}
CASES = [(group, name) for group, (_, names) in GROUPS.items() for name in names]


@pytest.mark.parametrize(("group", "name"), CASES, ids=[f"{group} {name}" for group, name in CASES])
def test_what_is_made_is_what_was_made(group, name):
    found, known = digests_of(GROUPS[group][0](name)), KNOWN.get(f"{group} {name}", {})
    if found["graph"] != known.get("graph"):
        pytest.skip(f"torch {torch.__version__} records another graph")
    for device in DEVICES:
        pairs = zip(STAGES, found[device].split(), known[device].split(), strict=True)
        others = [stage for stage, one, other in pairs if one != other]
        assert not others, f"other {' and '.join(others)} for a {device}: is that meant? This file says how to see and to write them"


def test_each_program_is_known():
    """Not each overload: torch decides which there are."""
    known = [name for name in KNOWN if not name.startswith("overload ")]
    assert known == [f"{group} {name}" for group, name in CASES if group != "overload"]


def write_texts(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for group, name in CASES:
        graph = GROUPS[group][0](name)
        for device in DEVICES:
            for stage, text in texts_of(graph, DEVICES[device]).items():
                (folder / f"{group} {name}, {stage} for a {device}.txt").write_text(text)


if __name__ == "__main__":
    if sys.argv[1:]:
        write_texts(pathlib.Path(sys.argv[1]))
    else:
        found = {f"{group} {name}": digests_of(GROUPS[group][0](name)) for group, name in CASES}
        FILE.write_text(json.dumps(found, indent=1) + "\n")
