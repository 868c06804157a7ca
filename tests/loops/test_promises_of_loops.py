"""Bodies and nodes written by hand: those that keep the promises pass, and each broken promise is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from dynascope.loops.index import Index, Loaded, Symbol, affine, floor_divide, modulo, variable
from dynascope.loops.lower import lower
from dynascope.loops.nodes import (
    Argument,
    Buffer,
    CheckIndex,
    Compute,
    Constant,
    ExternCall,
    IndexValue,
    Load,
    LoopProgram,
    Origin,
    Reduce,
    Scan,
    ScatterNode,
    Store,
)
from dynascope.loops.verifying import POINTS, Invalid, verify_body, verify_program
from recording import record

F32, F64, I64, BOOL = torch.float32, torch.float64, torch.int64, torch.bool
HERE, CPU = Origin("node", "aten.op"), torch.device("cpu")
R, C, LONG = Symbol("r", 4), Symbol("c", 6), Symbol("long", 3 * POINTS)
BUFFERS = {
    "x": Buffer("x", F32, CPU, (4, 6), (6, 1)),
    "i": Buffer("i", I64, CPU, (4,), (1,)),
    "b": Buffer("b", BOOL, CPU, (4, 6), (6, 1)),
    "long": Buffer("long", F32, CPU, (3 * POINTS,), (1,)),
    "nothing": Buffer("nothing", F32, CPU, (0, 6), (6, 1)),
}
AT = affine({R: 6, C: 1})


def load(index=AT, buffer="x", dtype=F32, arguments=(), guard=None):
    return Load(dtype, arguments, HERE, buffer, index, guard)


def compute(name, dtype, *arguments):
    return Compute(dtype, arguments, HERE, name)


def store(value, index=AT, arguments=None):
    return Store(F32, (value,) if arguments is None else arguments, HERE, "x", index)


ROW, CHOSEN = variable(R), Index(((Loaded(1, 4), 6), (C, 1)))
IN_TWO = floor_divide(variable(LONG), 7) * 7 + modulo(variable(LONG), 7)
CHECK = CheckIndex(I64, (0,), HERE, 4, 0, "negative")
RIGHT = {
    "loads": (load(), load(), compute("add", F32, 0, 1)),
    "a guard": (load(AT, "b", BOOL), load(AT + 3, arguments=(0,), guard=0)),
    "chosen rows": (load(ROW, "i", I64), CHECK, load(CHOSEN, arguments=(1,))),
    "numbers": (Constant(F32, (), HERE, 1.5), Constant(I64, (), HERE, 2), Constant(BOOL, (), HERE, True), Argument(F64, (), HERE, "s")),
    "an index": (IndexValue(I64, (), HERE, AT), compute("cast", F32, 0)),
    "a choice": (load(AT, "b", BOOL), load(), compute("where", F32, 0, 1, 1), compute("and", BOOL, 0, 0)),
    "reductions": (load(), Reduce(F32, (0,), HERE, "sum"), Reduce(I64, (0,), HERE, "argmax")),
    "reductions of truth values": (load(AT, "b", BOOL), Reduce(BOOL, (0,), HERE, "any"), Reduce(BOOL, (0,), HERE, "all")),
    "a scan": (load(), Scan(F32, (0,), HERE, "sum")),
    "stores": (load(), store(0)),
    "backwards": (load(affine({R: -6, C: -1}, 23)),),
    "atoms that belong together": (load(floor_divide(AT, 5) * 5 + modulo(AT, 5)),),
    "a long loop": (load(variable(LONG), "long"),),
    "a long loop in two": (load(IN_TWO, "long"),),
}  # fmt: skip
BROKEN = {
    "a value of the future": ((load(), compute("sin", F32, 1)), "not all come before"),
    "a value of before": ((load(), compute("sin", F32, -1)), "not all come before"),
    "no such operation": ((load(), compute("sine", F32, 0)), "no scalar operation"),
    "too many arguments": ((load(), compute("sin", F32, 0, 0)), "the arguments of sin"),
    "the result's type": ((load(), compute("sin", F64, 0)), "the type of sin"),
    "a comparison's type": ((load(), compute("less", F32, 0, 0)), "the type of less"),
    "arguments of two types": ((load(), Constant(F64, (), HERE, 1.0), compute("add", F32, 0, 1)), "the types of add"),
    "a choice by numbers": ((load(), compute("where", F32, 0, 0, 0)), "the condition"),
    "a choice of two types": ((load(AT, "b", BOOL), load(), compute("where", F32, 0, 1, 0)), "the types of where"),
    "a sum of truth values": ((load(AT, "b", BOOL), compute("add", BOOL, 0, 0)), "of truth values"),
    "an int as a float": ((Constant(F32, (), HERE, 1),), "the constant 1"),
    "a float as an int": ((Constant(I64, (), HERE, 1.0),), "the constant 1.0"),
    "an int as a truth value": ((Constant(BOOL, (), HERE, 1),), "the constant 1"),
    "a truth value as an int": ((Constant(I64, (), HERE, True),), "the constant True"),
    "a narrow number": ((Argument(F32, (), HERE, "s"),), "the number s"),
    "another sum": ((load(), Reduce(F64, (0,), HERE, "sum")), "the type of sum"),
    "the place of the greatest": ((load(), Reduce(F32, (0,), HERE, "argmin")), "the type of argmin"),
    "any of numbers": ((load(), Reduce(F32, (0,), HERE, "any")), "what any takes"),
    "all of numbers": ((load(), Reduce(F32, (0,), HERE, "all")), "what all takes"),
    "another scan": ((load(), Scan(F64, (0,), HERE, "prod")), "the type of prod"),
    "a float as an index": ((load(), replace(CHECK)), "the types of an index"),
    "an index as a float": ((load(ROW, "i", I64), replace(CHECK, dtype=F32)), "the types of an index"),
    "an index's value": ((IndexValue(F32, (), HERE, AT),), "an index's value"),
    "a loop from elsewhere": ((load(variable(Symbol("z", 2))),), "is no loop here"),
    "a loop from elsewhere in an index's value": ((IndexValue(I64, (), HERE, variable(Symbol("z", 2))),), "is no loop here"),
    "a guard that is a number": ((load(), load(arguments=(0,), guard=0)), "its guard"),
    "a guard not said": ((load(AT, "b", BOOL), load(guard=0)), "that it depends on"),
    "chosen rows not said": ((load(ROW, "i", I64), CHECK, load(CHOSEN)), "that it depends on"),
    "chosen by a float": ((load(ROW), load(ROW), load(CHOSEN, arguments=(1,))), "its indirect index"),
    "a store's index not said": ((load(ROW, "i", I64), CHECK, load(), store(2, CHOSEN)), "that it depends on"),
    "no buffer": ((load(buffer="y"),), "there is no buffer y"),
    "another element": ((load(dtype=F64),), "the type of an element"),
    "another element stored": ((load(AT, "b", BOOL), store(0)), "the type of an element"),
    "one beyond the end": ((load(AT + 1),), "elements 0 to 23"),
    "one before the beginning": ((load(AT + -1),), "elements 0 to 23"),
    "stored beyond the end": ((load(), store(0, AT + 1)), "elements 0 to 23"),
    "a wide step": ((load(affine({R: 7, C: 1})),), "elements 0 to 23"),
    "a chosen row beyond": ((load(ROW, "i", I64), CHECK, load(CHOSEN + 1, arguments=(1,))), "elements 0 to 23"),
    "of nothing": ((load(AT, "nothing"),), "elements 0 to -1"),
    "a long loop, at its end": ((load(variable(LONG) + 1, "long"),), f"elements 0 to {3 * POINTS - 1}"),
    "a long loop, at its beginning": ((load(variable(LONG) + -1, "long"),), f"elements 0 to {3 * POINTS - 1}"),
    "a long loop in two, at its end": ((load(IN_TWO + 7, "long"),), "and long has"),
}  # fmt: skip
LOOPS = (R, C, LONG)


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_passes(name):
    verify_body(RIGHT[name], LOOPS, BUFFERS, "here")


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named(name):
    body, words = BROKEN[name]
    with pytest.raises(Invalid, match=words):
        verify_body(body, LOOPS, BUFFERS, "here")


def scattered() -> LoopProgram:
    x, i, v = torch.zeros(8, 6), torch.tensor([0, 3, 3]), torch.ones(3, 6)
    return lower(record(lambda x, i, v: (x.index_add(0, i, v), x.sort(0)[0]), [x, i, v]))


def changed(made: LoopProgram, kind: type, change) -> LoopProgram:
    """Its first node of the kind is another, and the program knows what that makes."""
    at = next(number for number, node in enumerate(made.nodes) if isinstance(node, kind))
    node = change(made.nodes[at])
    makes = [node.result] if kind is ScatterNode else [each for each in node.results if each is not None]
    buffers = {**made.buffers, **{buffer.name: buffer for buffer in makes}}
    return replace(made, nodes=(*made.nodes[:at], node, *made.nodes[at + 1 :]), buffers=buffers)


@pytest.mark.parametrize(("kind", "change", "words"), [
    (ScatterNode, lambda n: replace(n, result=replace(n.result, dtype=F64)), "its type"),
    (ScatterNode, lambda n: replace(n, index=n.index + variable(Symbol("z", 2))), "is no loop here"),
    (ScatterNode, lambda n: replace(n, index=n.index + Index(((Loaded(99, 2), 1),))), "a value that is not there"),
    (ScatterNode, lambda n: replace(n, index=n.index + 1), "elements 0 to 47"),
    (ScatterNode, lambda n: replace(n, base="y"), "reads y, which nobody has made"),
    (ScatterNode, lambda n: replace(n, body=(*n.body, store(n.value, Index()))), "a store in the body"),
    (ExternCall, lambda n: replace(n, arguments=(replace(n.arguments[0], offset=1), *n.arguments[1:])), "beyond its end"),
    (ExternCall, lambda n: replace(n, arguments=(replace(n.arguments[0], offset=-1), *n.arguments[1:])), "beyond its end"),
    (ExternCall, lambda n: replace(n, keywords={"out": replace(n.arguments[0], buffer="y")}), "reads y, which nobody has made"),
    (ExternCall, lambda n: replace(n, arguments=([replace(n.arguments[0], sizes=(8, 7))], *n.arguments[1:])), "beyond its end"),
])  # fmt: skip
def test_a_wrong_node(kind, change, words):
    made = scattered()
    verify_program(made)
    with pytest.raises(Invalid, match=words):
        verify_program(changed(made, kind, change))


def test_a_view_of_nothing_lies_anywhere():
    made = scattered()
    verify_program(replace(made, outputs=(replace(made.outputs[0], sizes=(0, 6), offset=99),)))
