"""What a pass may break is found: programs, schedules and wrappers that are right, with one thing made wrong in each."""

from __future__ import annotations

import pathlib
import sys
from dataclasses import replace

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "loops"))

import pytest
import torch
from dynascope.codegen.module import emit
from dynascope.codegen.verifying import verify_kernels, verify_wrapper
from dynascope.loops.index import Index, Symbol, variable
from dynascope.loops.lower import lower
from dynascope.loops.nodes import Argument, Compute, ExternCall, Load, LoopNode, LoopProgram, Reduce, Scan, Store
from dynascope.loops.verifying import Invalid, verify_program
from dynascope.schedule.fusion import fuse
from dynascope.schedule.groups import Allocation, FusionGroup, Schedule
from dynascope.schedule.verifying import verify_schedule
from recording import record

X, W = torch.randn(16, 32), torch.randn(32, 8)


def mixed(x, w):
    a = x.sin() + 1
    b = a @ w
    c = b.softmax(-1) * a.sum(1, keepdim=True)
    return c @ w.t(), c.exp()


def chain(x):
    """Library calls between kernels, so that memory is taken over."""
    for _ in range(4):
        x = (x @ x).tanh()
    return x


def program(function=mixed, *inputs) -> LoopProgram:
    return lower(record(function, list(inputs or (X, W))))


def schedule(function=mixed, *inputs) -> Schedule:
    return fuse(program(function, *inputs))


def first(items, kind):
    return next(number for number, item in enumerate(items) if isinstance(item, kind))


def exchanged(items, number, item):
    return (*items[:number], item, *items[number + 1 :])


def with_operation(node, kind, change):
    """The node or group in which the first operation of a kind is another."""
    at = first(node.body, kind)
    return replace(node, body=exchanged(node.body, at, change(node.body[at])))


def test_what_is_right_passes():
    for function, inputs in ((mixed, (X, W)), (chain, (torch.randn(8, 8),))):
        made = program(function, *inputs)
        verify_program(made)
        verify_schedule(fuse(made))
        verify_wrapper(emit(fuse(made)))


OUTSIDE = Symbol("strange", 4)


@pytest.mark.parametrize(("kind", "change", "words"), [
    (Compute, lambda op: replace(op, arguments=(99,)), "not all come before it"),
    (Compute, lambda op: replace(op, name="atan2"), "arguments of atan2"),
    (Compute, lambda op: replace(op, name="sine"), "no scalar operation is named sine"),
    (Compute, lambda op: replace(op, dtype=torch.float64), "the type of sin"),
    (Load, lambda op: replace(op, dtype=torch.float64), "the type of an element of x"),
    (Load, lambda op: replace(op, buffer="nothing"), "reads nothing, which nobody has made"),
    (Load, lambda op: replace(op, index=op.index + 1), "x has elements 0 to 511"),
    (Load, lambda op: replace(op, index=op.index + -1), "x has elements 0 to 511"),
    (Load, lambda op: replace(op, index=variable(OUTSIDE)), "strange (of 4) is no loop here"),
    (Load, lambda op: replace(op, arguments=(0,)), "not all come before it"),
])  # fmt: skip
def test_a_wrong_operation_of_a_node(kind, change, words):
    made = program()
    at = first(made.nodes, LoopNode)
    broken = replace(made, nodes=exchanged(made.nodes, at, with_operation(made.nodes[at], kind, change)))
    with pytest.raises(Invalid, match=words.replace("(", r"\(").replace(")", r"\)")):
        verify_program(broken)


def result(change):
    def changed(made):
        at = first(made.nodes, LoopNode)
        node = made.nodes[at]
        return replace(made, nodes=exchanged(made.nodes, at, replace(node, results=(change(node.results[0]),))))

    return changed


@pytest.mark.parametrize(("change", "words"), [
    (lambda made: replace(made, nodes=made.nodes[::-1]), "which nobody has made"),
    (lambda made: replace(made, nodes=made.nodes[1:]), "which nobody has made"),
    (lambda made: replace(made, nodes=(made.nodes[0], *made.nodes)), "which is there already"),
    (lambda made: replace(made, outputs=(replace(made.outputs[0], offset=1),)), "beyond its end"),
    (lambda made: replace(made, outputs=(replace(made.outputs[0], buffer="nothing"),)), "nothing is returned"),
    (result(lambda r: replace(r, value=77)), "there is none"),
    (result(lambda r: replace(r, strides=(r.strides[0], 0))), "the elements that are written"),
    (result(lambda r: replace(r, strides=tuple(2 * stride for stride in r.strides))), "beyond its end"),
    (result(lambda r: replace(r, buffer=replace(r.buffer, sizes=(3,)))), "knows otherwise"),
])  # fmt: skip
def test_a_wrong_program(change, words):
    with pytest.raises(Invalid, match=words):
        verify_program(change(program()))


def group_of(kind, made):
    return next(n for n, step in enumerate(made.steps) if isinstance(step, FusionGroup) and any(isinstance(op, kind) for op in step.body))


def with_group(made, change, kind=Store):
    at = group_of(kind, made)
    return replace(made, steps=exchanged(made.steps, at, change(made.steps[at])))


@pytest.mark.parametrize(("change", "words"), [
    (lambda g: replace(g, reads=()), "reads x and is said to: nothing"),
    (lambda g: replace(g, writes=(*g.writes, "x")), "is said to"),
    (lambda g: replace(g, checks_indices=True), "checks_indices is True"),
    (lambda g: replace(g, rows=(*g.rows, *g.rows)), "a loop stands twice"),
    (lambda g: replace(g, body=(*g.body, g.body[first(g.body, Store)])), "elements of sin.* are written|elements of add.* are written"),
    (lambda g: replace(g, body=(*g.body, Argument(torch.float64, (), g.origins[0], "scale"))), "takes scale, which is not among its"),
    (lambda g: with_operation(g, Store, lambda op: replace(op, index=Index())), "more than once"),
    (lambda g: with_operation(g, Store, lambda op: replace(op, index=op.index * 2)), "has elements 0 to"),
])  # fmt: skip
def test_a_wrong_group(change, words):
    with pytest.raises(Invalid, match=words):
        verify_schedule(with_group(schedule(lambda x: x.sin() + 1, X), change))


def test_a_value_of_each_element_is_not_written_once_a_row():
    made = schedule(lambda x: x.softmax(-1), X)
    at = group_of(Reduce, made)
    group = made.steps[at]
    stored = with_operation(group, Store, lambda op: replace(op, index=variable(group.rows[0]) * 32))
    with pytest.raises(Invalid, match="once a row"):
        verify_schedule(replace(made, steps=exchanged(made.steps, at, stored)))
    with pytest.raises(Invalid, match="has no columns"):
        verify_schedule(replace(made, steps=exchanged(made.steps, at, replace(group, rows=(*group.rows, *group.columns), columns=()))))


def test_a_scan_is_a_value_of_each_element_and_on_gpus_only():
    made = schedule(lambda x: x.sum(1), X)
    group = made.steps[group_of(Reduce, made)]
    at = first(group.body, Reduce)
    reduce = group.body[at]
    scan = Scan(reduce.dtype, reduce.arguments, reduce.origin, "sum")
    broken = replace(group, body=exchanged(group.body, at, scan))
    with pytest.raises(Invalid, match="a scan on cpu"):
        verify_schedule(replace(made, steps=(broken,)))


def test_memory_is_not_taken_before_the_step_that_reads_it_last():
    made = schedule(chain, torch.randn(8, 8))
    taken = next(a for a in made.allocations if a.reuses)
    earlier = tuple(replace(a, before=a.before - 1) if a is taken else a for a in made.allocations)
    with pytest.raises(Invalid, match="needed after"):
        verify_schedule(replace(made, allocations=earlier))


def test_what_is_read_and_written_is_read_first_and_at_the_same_place():
    made = schedule(lambda x: x.sin() + 1, X)
    written = made.steps[0].writes[0]

    def reading(change):
        load = next(op for op in made.steps[0].body if isinstance(op, Load))
        return replace(made.steps[0], body=change(replace(load, buffer=written)), reads=("x", written))

    body = made.steps[0].body
    before = reading(lambda load: (load, *(replace(op, arguments=tuple(a + 1 for a in op.arguments)) for op in body)))
    present = (*made.program.inputs, made.buffers[written])
    at_hand = replace(made, program=replace(made.program, inputs=present), allocations=())
    with pytest.raises(Invalid, match="does not say so"):
        verify_schedule(replace(at_hand, steps=(before,)))
    verify_schedule(replace(at_hand, steps=(replace(before, in_place=frozenset({written})),)))
    after = replace(reading(lambda load: (*body, load)), in_place=frozenset({written}))
    with pytest.raises(Invalid, match="after it was written"):
        verify_schedule(replace(at_hand, steps=(after,)))
    elsewhere = replace(reading(lambda load: (replace(load, index=load.index * 0), *before.body[1:])), in_place=frozenset({written}))
    with pytest.raises(Invalid, match="where another iteration writes"):
        verify_schedule(replace(at_hand, steps=(elsewhere,)))


def taking(made, name, old):
    return replace(made, allocations=tuple(replace(a, reuses=old) if a.buffer == name else a for a in made.allocations))


def test_memory():
    """Released too early, twice or never made; taken over while it is needed; allocated twice or not at all."""
    made = schedule(chain, torch.randn(8, 8))
    verify_schedule(made)
    taken = next(a for a in made.allocations if a.reuses)
    (number, name), *others = made.releases
    returned = made.outputs[0].buffer
    last = made.allocations[-1].buffer
    for broken, words in (
        (replace(made, releases=((number - 1, name), *others)), f"released|reads {name}, whose memory"),
        (replace(made, releases=(*made.releases, (len(made.steps) - 1, returned))), "is still needed"),
        (replace(made, releases=((0, "x"), *made.releases)), "is still needed"),
        (replace(made, allocations=made.allocations[1:]), "for which there is no memory"),
        (replace(made, allocations=(*made.allocations, Allocation(last, len(made.steps) - 1))), "allocated twice"),
        (taking(made, taken.buffer, "x"), "takes the memory of x, which is needed"),
        (replace(made, releases=tuple(r for r in made.releases if r[1] != taken.reuses)), "which is needed after"),
        (replace(made, steps=made.steps[1:]), "which nobody has made|is still needed"),
    ):
        with pytest.raises(Invalid, match=words):
            verify_schedule(broken)


def test_memory_of_another_layout():
    made = schedule(chain, torch.randn(8, 8))
    taken = next(a for a in made.allocations if a.reuses)
    other = replace(made.buffers[taken.reuses], strides=(1, 8))
    with pytest.raises(Invalid, match="laid out otherwise"):
        verify_schedule(replace(made, buffers={**made.buffers, taken.reuses: other}))


def test_a_library_call_takes_what_lies_in_its_operand():
    made = schedule()
    at = first(made.steps, ExternCall)
    call = made.steps[at]
    beyond = replace(call, arguments=(replace(call.arguments[0], offset=5), *call.arguments[1:]))
    with pytest.raises(Invalid, match="beyond its end"):
        verify_schedule(replace(made, steps=exchanged(made.steps, at, beyond)))


def test_a_wrapper():
    made = emit(schedule(chain, torch.randn(8, 8)))
    lines = made.wrapper.splitlines()
    verify_wrapper(made)
    returned = lines[-1].split("(")[1].split(",")[0]
    for broken, words in (
        ([*lines[:-1], f"    del {returned}", lines[-1]], f"uses {returned}, which is not there"),
        ([lines[0], "    y = missing(x)", *lines[1:]], "uses missing"),
        ([lines[0], "    while x: pass", *lines[1:]], "a statement of another kind"),
    ):
        with pytest.raises(Invalid, match=words):
            verify_wrapper(replace(made, wrapper="\n".join(broken) + "\n"))
    with pytest.raises(Invalid, match="has a kernel where"):
        verify_wrapper(replace(made, kernels=(None,) * len(made.kernels)))


def test_a_kernel_of_a_gpu():
    graph = record(chain, [torch.randn(8, 8)])
    for node in graph.graph.nodes:
        node.meta["device"] = torch.device("cuda", 0)
    made = emit(fuse(lower(graph)))
    verify_kernels(made)
    at, kernel = next((at, kernel) for at, kernel in enumerate(made.kernels) if kernel is not None)
    broken = replace(kernel, text=kernel.text.replace("tl.store(", "tl.store(missing + "))
    with pytest.raises(Invalid, match="uses missing"):
        verify_kernels(replace(made, kernels=exchanged(made.kernels, at, broken)))
