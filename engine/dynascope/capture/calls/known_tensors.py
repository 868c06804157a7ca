"""Tensors whose elements are known at capture: constants that operators made of constants.

    n = torch.div(x.size(0), 2, rounding_mode="trunc")     n is 3: `x.view(n, -1)`, `range(n)`
    ids = torch.tensor([2, 5]); (ids < 0).any()             False: a branch may ask
    x[~torch.eye(4, dtype=torch.bool)].view(4, -1)          of 12 elements at each call (`known_counts.py`)

What reaches no input, draws no numbers and was never written to is the same at each call. It is computed for real, once, by the
operators themselves; of floats only what lies on the CPU, where eager computes it with the same kernels.
"""

from __future__ import annotations

import operator
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynascope.capture.calls import drawn_ranges
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.unwritten import is_unwritten
from dynascope.capture.values import ConstantValue, TensorValue, constant_of
from dynascope.guards.source import ExtentSource
from dynascope.meta_kernels import autocast
from dynascope.sizes import Size, fix, roots_of

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

MOST_NODES, MOST_ELEMENTS = 64, 4096
MADE_OF_NUMBERS = frozenset({"tensor", "as_tensor", "scalar_tensor", "getitem"})
TYPES = frozenset({"bool", "byte", "char", "short", "int", "long", "half", "bfloat16", "float", "double", "type", "cpu"})
"""Functions and methods without an operator of their name."""
PYTHONS = {
    operator.truediv: "true_divide",
    operator.floordiv: "floor_divide",
    operator.mod: "remainder",
    operator.and_: "bitwise_and",
    operator.or_: "bitwise_or",
    operator.xor: "bitwise_xor",
    operator.lshift: "bitwise_left_shift",
    operator.rshift: "bitwise_right_shift",
    operator.inv: "bitwise_not",
    operator.invert: "bitwise_not",
    operator.pos: "positive",
}
"""Python's operators whose names torch's have not."""
NUMBERS = (bool, int, float)
UNKNOWN = frozenset({"late", "size", "sizes", "written", "stands_in"})
"""Marks of nodes whose elements nobody knows now. `stands_in`: for each row that a transform maps over, not for the first."""
COUNTED = "counted"
"""Marks nodes that look for elements, of which as many are found at each call."""


def known_number(machine: Machine, tensor: TensorValue, fixes: bool = False) -> ConstantValue | None:
    """What `tensor.item()` gives, where capture can tell."""
    if tensor.example.numel() != 1 or tensor.example.dtype.is_complex:
        return None
    elements = elements_of(machine, tensor, fixes=fixes)
    if elements is not None:
        return ConstantValue(elements.item())
    decided = drawn_ranges.decided(tensor.node) if tensor.instance is None else None
    return None if decided is None else ConstantValue(decided)


def elements_of(machine: Machine, tensor: TensorValue, most: int = MOST_ELEMENTS, fixes: bool = False) -> torch.Tensor | None:
    """With `fixes` also where they are computed of sizes of tensors that vary, which then are what they are in this call: the program
    goes another way by them. Other numbers may be another one in each call."""
    is_held = tensor.instance is None and not machine.assigned and not autocast.active_devices()
    sizes: dict[fx.Node, Size] = {}
    extents = {name for name, (place, _) in machine.sizes.places.items() if isinstance(place, ExtentSource)} if fixes else set()
    nodes = behind(tensor.node, most, extents, sizes) if is_held else []
    if not nodes:
        return None
    made: dict[fx.Node, Any] = {node: size.hint for node, size in sizes.items()}
    try:
        with torch.no_grad():
            for node in nodes:
                made[node] = computed(node, made)
                if not is_as_described(made[node], node):
                    return None
    except Exception:  # the call says itself what is wrong
        return None
    for size in sizes.values():
        fix(size)
    return made[tensor.node]


def behind(node: fx.Node, most: int, extents: Collection[str], sizes: dict[fx.Node, Size]) -> list[fx.Node]:
    """All nodes that it is computed from, itself the last; none where one of them is not known. Numbers of `extents` alone are put
    into `sizes`."""
    found: dict[fx.Node, None] = {}
    pending = [node]
    while pending:
        wanted = pending[-1]
        size = wanted.meta.get("size") if extents else None
        if size is not None and all(root.name in extents for root in roots_of([size])):
            sizes[wanted] = size
            found[pending.pop()] = None
            continue
        missing = [each for each in wanted.all_input_nodes if each not in found]
        if wanted in found or not missing:
            found[pending.pop()] = None
            if len(found) > MOST_NODES or not is_known(wanted, most):
                return []
        pending += missing
    return [each for each in found if each not in sizes]


def is_known(node: fx.Node, most: int = MOST_ELEMENTS) -> bool:
    """Whether an operator gives the same elements for the same operands, and nobody has written there since."""
    example, device = node.meta.get("example_value"), node.meta.get("device")
    if example is None and node.op in ("call_function", "call_method"):  # `x.unbind()`: each of its tensors is a node, which is asked
        return is_same_at_each_call(node)
    if not isinstance(example, torch.Tensor) or not is_unwritten(node) or example.requires_grad or example.numel() > most:
        return False
    if device is None or (device.type != "cpu" and (example.dtype.is_floating_point or example.dtype.is_complex)):
        return False
    return node.op in ("call_function", "call_method") and is_same_at_each_call(node)


def is_same_at_each_call(node: fx.Node) -> bool:
    """Whether the operator gives the same for the same operands, as many elements too."""
    if node.meta.get(COUNTED):
        return (UNKNOWN - {"late"}).isdisjoint(node.meta)
    return UNKNOWN.isdisjoint(node.meta) and "out" not in node.kwargs and repeats(node.target)


def repeats(target: Any) -> bool:
    name = target if isinstance(target, str) else PYTHONS.get(target) or getattr(target, "__name__", "")
    if name in MADE_OF_NUMBERS or (isinstance(target, str) and name in TYPES):
        return True
    overloads = overloads_of(name)
    uncertain = (torch.Tag.nondeterministic_seeded, torch.Tag.dynamic_output_shape)
    return bool(overloads) and not any(
        each._schema.is_mutable and name.endswith("_") or any(tag in each.tags for tag in uncertain) for each in overloads
    )


def expression_of(node: Any) -> tuple:
    """The same for nodes that compute the same elements: `labels != -1` written twice, of what nobody wrote to in between.

    One line for each computation, which names those before it by their places: what is used many times is said once."""
    lines: dict[Any, int] = {}
    return part_of(node, lines, {}), *lines


def part_of(node: Any, lines: dict[Any, int], known: dict[fx.Node, Any]) -> Any:
    if isinstance(node, (list, tuple)):
        return type(node), tuple(part_of(each, lines, known) for each in node)
    if isinstance(node, slice):
        return slice, *(part_of(each, lines, known) for each in (node.start, node.stop, node.step))
    if not isinstance(node, fx.Node):
        return type(node), repr(node)
    is_computed = node.op in ("call_function", "call_method") and "versions" in node.meta and "out" not in node.kwargs
    if not is_computed or node.meta.keys() & (UNKNOWN | {"writes"}) - {"sizes"} or not repeats(node.target):
        return node
    if node not in known:
        named = tuple((name, part_of(each, lines, known)) for name, each in sorted(node.kwargs.items()))
        line = node.target, part_of(tuple(node.args), lines, known), named, node.meta["versions"]
        known[node] = fx.Node, lines.setdefault(line, len(lines))
    return known[node]


def forget(machine: Machine, tensor: TensorValue) -> None:
    """Something is written there whose kernel for meta tensors counts no version."""
    if not is_known(tensor.node):
        return
    memory = tensor.example.untyped_storage()._cdata
    for node in machine.graph.graph.nodes:
        example = node.meta.get("example_value")
        if isinstance(example, torch.Tensor) and example.untyped_storage()._cdata == memory:
            node.meta["written"] = True


@cache
def written_places(name: str) -> frozenset[int | str]:
    """Positions and names of the arguments that an in-place function writes to, by the schemas of its operator."""
    if not name.endswith("_") or name.endswith("__"):
        return frozenset()
    found: set[int | str] = set()
    for overload in overloads_of(name):
        for at, argument in enumerate(overload._schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                found |= {argument.name} if argument.kwarg_only else {at, argument.name}
    return frozenset(found)


def overloads_of(name: str) -> list[torch._ops.OpOverload]:
    """The operators behind a function of torch, a method, or a function of `operator`; none for memory that nothing has filled."""
    packet = getattr(torch.ops.aten, name.strip("_") if name.startswith("__") else name, None)
    if packet is None or "empty" in name or name.startswith(("resize", "new", "set_")):
        return []
    return [getattr(packet, overload) for overload in packet.overloads()]


def computed(node: fx.Node, made: dict[fx.Node, Any]) -> Any:
    arguments, keywords = fx.node.map_arg((node.args, dict(node.kwargs)), made.__getitem__)
    arguments = tuple(on_cpu(each) for each in arguments)
    keywords = {name: on_cpu(each) if name == "device" else each for name, each in keywords.items()}
    if isinstance(node.target, str):
        return getattr(arguments[0], node.target)(*arguments[1:], **keywords)
    return node.target(*arguments, **keywords)


def on_cpu(argument: Any) -> Any:
    return torch.device("cpu") if isinstance(argument, torch.device) else argument


def is_as_described(found: Any, node: fx.Node) -> bool:
    example = node.meta.get("example_value")
    if example is None:
        return isinstance(found, (list, tuple)) and all(isinstance(each, torch.Tensor) for each in found)
    return isinstance(found, torch.Tensor) and (found.shape, found.dtype) == (example.shape, example.dtype)


# Functions of numbers


def of_numbers(machine: Machine, function: Any, arguments: Arguments, keywords: Keywords) -> tuple[Any, torch.dtype] | None:
    """The number and type of what an operator of torch makes of numbers (`torch.div(7, 2)`); None where it is no such call."""
    name = getattr(function, "__name__", "")
    if getattr(torch, name, None) is not function or not repeats(function) or not arguments or autocast.active_devices():
        return None
    known = [constant_of(each) for each in arguments]
    named = {key: constant_of(each) for key, each in keywords.items()}
    words = (str, type(None), torch.dtype)
    if not all(type(each) in NUMBERS for each in known) or not all(type(e) in NUMBERS or isinstance(e, words) for e in named.values()):
        return None
    try:
        made = function(*known, **named)
    except Exception:  # which Python then says itself
        return None
    is_number = isinstance(made, torch.Tensor) and made.dim() == 0 and made.device.type == "cpu" and not made.dtype.is_complex
    return (made.item(), made.dtype) if is_number else None
