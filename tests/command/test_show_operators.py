"""`dynascope show operators`: the table of operators says what the stages do."""

import subprocess
import sys

import dynascope
import pytest
import torch
from dynascope.operator_table import all_operators, counts, describe, shown_operators

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("operator", "way"),
    [
        (aten.add.Tensor, "lowered"),
        (aten.gelu.default, "decomposed"),
        (aten.add_.Tensor, "as aten.add.Tensor"),
        (aten.permute.default, "view"),
        (aten.matmul.default, "decomposed by torch"),
        (aten.mm.default, "library"),
        (aten.cumsum.default, "lowered on GPUs, else library"),
        (aten.nonzero.default, "library, between the parts of a graph"),
        (aten.item.default, "library, between the parts of a graph"),
    ],
)
def test_ways(operator, way):
    assert describe(operator).way == way


def test_effects_are_the_schemas():
    assert describe(aten.add_.Tensor).effects == ("writes self",)
    assert describe(aten.bernoulli.default).effects == ("draws random numbers",)
    assert describe(aten.masked_select.default).effects == ("sizes depend on data",)


def test_every_operator_has_a_line():
    facts = shown_operators()
    assert len(facts) == len(list(all_operators())) > 1500
    assert [fact.name for fact in shown_operators("gelu_backward")][0] == "aten.gelu_backward.default"


def test_each_operator_is_counted_once():
    facts = shown_operators()
    total, _, told = counts(facts).partition(" operators: ")
    assert int(total) == len(facts) == sum(int(part.split()[0]) for part in told.split(", "))


@pytest.mark.compiler
@pytest.mark.parametrize("name", ["exp", "sin", "neg", "relu", "gelu", "softmax", "mm", "cumsum", "sort"])
def test_what_is_said_to_be_the_librarys_is_an_extern_call(name):
    """And nothing else is."""
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    arguments = {"softmax": (0,), "mm": (torch.ones(4, 4),), "cumsum": (0,)}.get(name, ())
    explanation = dynascope.explain(dynascope.compile(lambda x: function(x, *arguments)))(torch.ones(4, 4))
    externs = {extern.operation.removeprefix("aten.") for graph in explanation.report.graphs for extern in graph.externs}
    ways = {describe(getattr(getattr(aten, packet), overload)).way for packet, overload in (e.split(".") for e in externs)}
    assert ways <= {"library", "lowered on GPUs, else library"} and bool(externs) is (name in ("mm", "sort", "cumsum"))


def test_the_command_prints_it():
    command = [sys.executable, "-m", "dynascope", "show", "operators", "aten.nonzero.default"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "sizes depend on data" in done.stdout
    assert subprocess.run(command[:4] + ["loops"], capture_output=True, check=False).returncode == 2
