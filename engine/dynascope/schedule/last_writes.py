"""What only changes inputs, and can wait until nothing allocates any more.

    g = x.T @ t; m = 0.9 * m + g; p -= m        ->     g and all else first; then one kernel that writes m and p where they are

A GPU's memory may end in the middle of a step: a program that catches that and tries a smaller batch must find its parameters as they
were. So an input is changed in place by what runs after every allocation; a kernel that computed gradients too could not wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dynascope.loops.nodes import Buffer, LoopNode, LoopProgram, Node, TensorView
from dynascope.schedule.inline_plan import buffers_seen_outside, iterations, readers_of, views_in
from dynascope.sizes import is_constant, same

Mutations = Sequence[tuple[int, int]]
"""(place of an input, place of the output that is what the input becomes)"""


def targets_of(
    mutations: Mutations, inputs: Sequence[object], outputs: Sequence[object], buffers: Mapping[str, Buffer]
) -> Iterable[tuple[str, Buffer]]:
    """(result, the input that it may be): those of one layout, of which the caller sees nothing else."""
    views = [view.buffer for view in views_in(outputs)]
    for position, output in mutations:
        target, value = inputs[position], outputs[output]
        if not isinstance(target, Buffer) or not isinstance(value, TensorView):
            continue
        result = buffers[value.buffer]
        if result.role != "temporary" or not same_memory(target, result, value):
            continue
        if views.count(result.name) == 1 and target.name not in views:
            yield result.name, target


def same_memory(target: Buffer, result: Buffer, value: TensorView) -> bool:
    """Whether all three have one layout, for all sizes."""
    is_whole = is_constant(value.offset, 0) and same((value.sizes, value.strides), (result.sizes, result.strides))
    return is_whole and same_layout(target, result)


def same_layout(one: Buffer, other: Buffer) -> bool:
    """Whether one's memory may be the other's, for all sizes."""
    return (one.dtype, one.device) == (other.dtype, other.device) and same((one.sizes, one.strides), (other.sizes, other.strides))


def written_last(program: LoopProgram, mutations: Mutations) -> frozenset[str]:
    """The names of the nodes that can wait: pointwise, on a GPU, and read by nothing but one another."""
    targets = {name for name, target in targets_of(mutations, program.inputs, program.outputs, program.buffers)}
    if not any(program.buffers[name].device.type == "cuda" for name in targets):
        return frozenset()
    seen, readers = buffers_seen_outside(program), readers_of(program)
    found: dict[str, LoopNode] = {}
    for node in reversed(program.nodes):
        if not isinstance(node, LoopNode) or node.kind != "pointwise" or node.device.type != "cuda":
            continue
        made = {result.buffer.name for result in node.results}
        using = [reader for name in made for reader in readers.get(name, ())]
        if made & seen <= targets and _waits(node, using, found) and (using or made <= targets):
            found[node.name] = node
    return frozenset(found)


def _waits(node: LoopNode, using: Sequence[Node], found: Mapping[str, LoopNode]) -> bool:
    """Whether all that read it wait, and are no larger: what is kept for them is what they would read anyway."""
    return all(reader.name in found and same(iterations(reader), iterations(node)) for reader in using)
