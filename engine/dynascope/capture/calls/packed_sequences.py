"""Packing rows of several lengths, and padding them again: each a node with results of sizes that only the run knows.

    data, batch_sizes = torch._pack_padded_sequence(x, lengths, True)     f32[u0, 8], i64[u1]
    padded, lengths = torch._pad_packed_sequence(data, batch_sizes, True, 0.0, u1)

All rows have at least one step, or torch refuses them: so the first batch size is how many rows there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import late_numbers
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.calls.tensors import Operation
from dynascope.capture.metadata import CPU
from dynascope.capture.values import ConstantValue, TensorValue, TupleValue, Value
from dynascope.meta_kernels.packed import PADDED, packed, padded
from dynascope.sizes import hint_of
from dynascope.sizes.size import relation_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

ROWS, STEPS = 37, 11
"""Values at hand of how many there are."""


@meaning(torch._pack_padded_sequence)
def pack(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    operation = Operation(machine, "call_function", torch._pack_padded_sequence, "_pack_padded_sequence", arguments, keywords)
    if keywords or not can_pack(operation) or not late_numbers.are_served(machine):
        return operation.run()
    given = operation.tensors[0]
    batch, longest = machine.extents.sizes(given)[:2] if operation.examples[2] else machine.extents.sizes(given)[1::-1]
    rows, steps = (machine.sizes.late(int, hint, 1) for hint in (ROWS, min(STEPS, hint_of(longest))))
    example = machine.in_plain_mode(lambda: packed(operation.examples, {}, rows.hint, steps.hint))
    data, batch_sizes = recorded(machine, operation, (torch._pack_padded_sequence, operation.arguments), (rows, steps), packed, example)
    batch_sizes.node.meta["first"] = batch
    for tensor, size in ((data, rows), (batch_sizes, steps)):
        machine.graph.late_root(machine.graph.call("call_method", "size", (tensor.node, 0), {}, str(size)), size)
    machine.sizes.scope.log.add(relation_of("<=", steps, longest), machine.user_stack())
    return TupleValue((data, batch_sizes))


def can_pack(operation: Operation) -> bool:
    """Others are for torch to complain about."""
    if len(operation.examples) != 3 or len(operation.tensors) != 2 or type(operation.examples[2]) is not bool:
        return False
    given, lengths, batch_first = operation.examples
    return bool(
        given.dim() >= 2
        and given.numel()
        and lengths.dim() == 1
        and lengths.dtype == torch.long
        and operation.tensors[1].device == CPU
        and lengths.shape[0] == given.shape[0 if batch_first else 1]
    )


@meaning(torch._pad_packed_sequence)
def pad(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    operation = Operation(machine, "call_function", torch._pad_packed_sequence, "_pad_packed_sequence", arguments, keywords)
    batch = machine.realize(arguments[1]).node.meta.get("first") if can_pad(operation) else None
    if keywords or batch is None or not late_numbers.are_served(machine):
        return operation.run()
    known = machine.sizes.value(batch)
    given = known.value if isinstance(known, ConstantValue) else known.node
    hint = known.value if isinstance(known, ConstantValue) else known.example
    example = machine.in_plain_mode(lambda: padded((*operation.examples, hint), {}))
    return TupleValue(recorded(machine, operation, (PADDED, (*operation.arguments, given)), (), padded, example))


def can_pad(operation: Operation) -> bool:
    """Whether the batch sizes are those that packing gave, unchanged, so that each step has as many rows as the rows have steps."""
    if len(operation.examples) != 5 or len(operation.tensors) != 2:
        return False
    data, batch_sizes, batch_first, padding, steps = operation.examples
    return (
        type(batch_first) is bool
        and type(padding) in (int, float)
        and type(steps) is int
        and data.dim() >= 1
        and batch_sizes._version == 0
    )


def recorded(
    machine: Machine, operation: Operation, called: tuple[Any, tuple], roots: tuple, make: Callable[..., Any], example: Any
) -> tuple[TensorValue, ...]:
    """A node, run as the operator that it is, and one for each of its results: the second lies where lengths lie, on the CPU."""
    result = late_numbers.LateResult(tuple(map(str, roots)), make)
    node = late_numbers.late_node(machine, "call_function", *called, {}, None, None, result)
    return tuple(late_numbers.late_parts(machine, node, zip(example, (operation.tensors[0].device, CPU), strict=True)))
