"""Kernels read no memory of another device, and no mask is weaker than it says: what can be seen in the text."""

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from dynascope.codegen.module import emit
from dynascope.codegen.target import Target
from dynascope.loops.lower import lower
from dynascope.loops.nodes import Load
from dynascope.schedule.fusion import fuse

sys.path.insert(0, str(Path(__file__).parent.parent / "loops"))

from recording import record  # isort: skip

X, NUMBER, PLACES = torch.arange(12.0).view(3, 4), torch.tensor(2.0), torch.tensor([2, 0])


def on_cuda(function, *inputs, host):
    """The module for inputs on CUDA, but for those at the places `host`."""
    graph = record(function, list(inputs))
    for position, node in enumerate(graph.graph.nodes):
        node.meta["device"] = torch.device("cpu" if position in host else "cuda")
    return emit(fuse(lower(graph, list(inputs))))


def loaded(module):
    return {op.buffer for k in module.kernels if k is not None for op in k.group.body if isinstance(op, Load)}


def test_a_number_on_the_cpu_is_passed():
    module = on_cuda(lambda x, v: (x / v, x.masked_fill(x > 2, v), torch.where(x > 1, x, v) + v), X, NUMBER, host=(1,))
    assert loaded(module) == {"x"}
    assert module.wrapper.count("call_item_of(v)") == 1, module.wrapper


def test_an_index_on_the_cpu_goes_to_the_library():
    module = on_cuda(lambda x, v: x[v] * 2, X, PLACES, host=(1,))
    assert "v" not in loaded(module) and "call_index" in module.wrapper


def test_no_remainders_in_the_text():
    """Of `lane % 6 >= 1` Triton 3.6 says that it is the same for neighbouring lanes."""
    for program in (lambda x: F.pad(x, (1, 1)), lambda x: x.roll(1, 1) + 1, lambda x: (x + 1).repeat(2, 3)):
        module = on_cuda(program, X, host=())
        texts = [k.text for k in module.kernels if k is not None]
        assert texts and not any("%" in line for text in texts for line in text.splitlines() if "#" not in line)


@pytest.mark.parametrize(("width", "lanes"), [(16, 4), (32, 8), (64, 16)])
def test_kernels_are_written_for_the_target_that_is_given(width, lanes):
    program = lower(record(lambda x: x.exp() + 1, [torch.zeros(1000)]))
    module = emit(fuse(program), Target(vector_bytes=width))
    assert module.target.vector_bytes == width and f"using namespace v{lanes};" in module.source


def test_an_input_at_an_odd_place_is_not_read_widely():
    """Of two inputs alike but for where they begin, each has a kernel of its own: what is not aligned is known before the first launch."""
    graph = record(lambda x, y: (x.cumsum(1), y.cumsum(1), x.sum() + y.sum()), [X, X])
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda")
        node.meta["misaligned"] = node.name == "y"
    kernels = [k for k in emit(fuse(lower(graph, [X, X]))).kernels if k is not None]
    narrow = {p.source for k in kernels for p in k.triton.parameters if p.is_pointer and p.name not in dict(k.triton.divisors)}
    assert narrow == {"y"} and len({k.name for k in kernels}) == len(kernels)
