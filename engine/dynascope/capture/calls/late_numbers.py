"""Numbers that only the run of a graph knows: what `.item()` gives, and how many elements `nonzero` finds.

    n = x.argmax().item(); y = x * n      item: u0, mul(x, u0)
    y = x[x > 0]; y.sum() / y.shape[0]    getitem: f32[u0], size: u0, sum, truediv

Such a number is a root of the scope that no guard is asked about: the node that finds it gives it its value, and what is compiled
after it checks then what it relies on (`graph_parts.py`). Python may compute with it; where it has to decide, capture breaks,
unless the program said the answer before with `torch._check`. The sizes of results that depend on data are made up from
tensors of indices in place of masks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from dynascope.capture.calls import known_counts, known_tensors, numbers_in_tensors
from dynascope.capture.calls.pure import value_of
from dynascope.capture.calls.unwritten import is_unwritten
from dynascope.capture.clocks import clock_among
from dynascope.capture.metadata import META
from dynascope.capture.reasons import TIME_DECIDES, DataDependentValue, ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.torch_state import TorchState
from dynascope.capture.values import (
    NONE,
    ArrayValue,
    ConditionValue,
    ConstantValue,
    ListValue,
    SliceValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
)
from dynascope.dataclass import dataclass
from dynascope.sizes import Relation, Size, fix
from dynascope.sizes.expression import INFINITY
from dynascope.sizes.size import relation_of

if TYPE_CHECKING:
    from dynascope.capture.calls.tensors import Operation
    from dynascope.capture.machine import Machine

MOST_NUMBERS = 64
"""The longest list that `tolist` gives as numbers of their own."""
COUNT, INDEX, NUMBER = 37, 3, 0.375
"""Values at hand: of how many are found, of an int that a tensor holds, and of a float. Few tensors have 37 of anything."""
Make = Callable[..., Any]
"""Takes the call's arguments, its keywords, and each of the late sizes."""


@dataclass(frozen=True)
class LateResult:
    """A result whose sizes are the roots `names`: `make` gives it as a meta tensor for each value of those."""

    names: tuple[str, ...]
    make: Make

    def made(self, arguments: tuple, keywords: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
        return self.make(arguments, keywords, *(values[name] for name in self.names))


def has_late_size(name: str) -> bool:
    """Whether how many elements the function gives may depend on what tensors hold: torch's tags say so, of overloads."""
    packet = getattr(torch.ops.aten, name.strip("_"), None)
    overloads = [getattr(packet, overload) for overload in packet.overloads()] if packet is not None else []
    return name in RULES or any(torch.Tag.dynamic_output_shape in each.tags for each in overloads)


def lead_to(nodes: Iterable[torch.fx.Node]) -> bool:
    """Whether the number of elements of any of these nodes may hang on one that only the run knows."""
    pending, seen = list(nodes), set()
    while pending:
        node = pending.pop()
        if "late_result" in node.meta:
            return True
        if node not in seen:
            seen.add(node)
            pending += node.all_input_nodes
    return False


def are_late(machine: Machine, values: Iterable[Value]) -> bool:
    """Whether only the run knows one of these numbers, or of those in a subscript or a list."""
    parts = [part for value in values for part in (value.items if isinstance(value, (TupleValue, ListValue)) else [value])]
    numbers = [each.size for each in map(machine.realize, parts) if isinstance(each, SymbolicNumber)]
    return machine.sizes.are_late(numbers)


def are_served(machine: Machine) -> bool:
    """What compiles the graph must understand it, and no state of torch's but grad mode may be another between its parts."""
    return bool(
        machine.options.differentiates
        and machine.options.late
        and replace(TorchState.now(), grad_mode=machine.state_at_entry.grad_mode) == machine.state_at_entry
    )


# One number


def number_of_array(machine: Machine, value: ArrayValue) -> Value | None:
    """What torch takes a number of NumPy's for, or an array of one element; None where it stays a break."""
    return machine.outside.number_of(value) or number_of(machine, value.tensor)


def number_of(machine: Machine, tensor: TensorValue, below: int = INDEX + 1) -> Value | None:
    """What `tensor.item()` gives, which probably is `below` some number; None where it stays a break."""
    if (known := numbers_in_tensors.held(machine, tensor)) is not None:
        return known
    dtype = tensor.example.dtype
    is_truth = dtype is torch.bool
    kind = int if is_truth else kind_of_items(dtype)
    if kind is None or tensor.example.numel() != 1 or not are_served(machine):
        return None
    if (known := counted_number(machine, tensor)) is not None:
        return known
    found = read_before(machine, tensor, below)
    if found is None:
        node = machine.graph.call("call_method", "item", (tensor.node,), {})
        found = number_at(machine, node, kind, dtype, 1 if is_truth else min(INDEX, max(0, below - 1)))
        machine.journal.set_item(machine.read_from, str(found.size), (tensor, tensor.example._version, machine.uncounted))
        machine.journal.set_item(machine.numbers_read, tensor.node, found)
    return truth_of(machine, found) if is_truth else found


def truth_of(machine: Machine, number: SymbolicNumber) -> ConditionValue:
    """Whether it is not 0: a truth that was read from a tensor."""
    return ConditionValue(operator.ne, (number, ConstantValue(0)), relation_of("!=", number.size, 0), machine.graph)


def with_tensors_for_places(machine: Machine, container: TensorValue, key: Value) -> Value:
    """A subscript whose numbers, where what they are taken to be lies outside the table, are the tensors that they were read from."""
    places = [machine.realize(item) for item in key.items] if isinstance(key, TupleValue) else [key]
    found = [
        tensor_read(machine, place) if isinstance(place, SymbolicNumber) and place.size.hint >= extent else place
        for place, extent in zip(places, container.example.shape, strict=False)
    ]
    found += places[len(found) :]
    return TupleValue(tuple(found)) if isinstance(key, TupleValue) else found[0]


def tensor_read(machine: Machine, number: SymbolicNumber) -> Value:
    """The tensor of integers that a number was read from, where it still holds it; else the number."""
    tensor = still_held(machine, number)
    return tensor if tensor is not None and is_place(tensor.example) else number


def read_before(machine: Machine, tensor: TensorValue, below: int) -> SymbolicNumber | None:
    """The number in a tensor that was read already and has not been written since: however often it is read, it is one. What it is taken
    to be has to be `below` what is asked for."""
    number = machine.numbers_read.get(tensor.node)
    if number is None or still_held(machine, number) is None:
        return None
    return number if number.python_type is float or number.size.hint < max(below, 1) else None


def still_held(machine: Machine, number: SymbolicNumber) -> TensorValue | None:
    """The tensor that a number was read from; None where something may have been written to it since."""
    tensor, *then = machine.read_from.get(str(number.size), (None,))
    return tensor if tensor is not None and [tensor.example._version, machine.uncounted] == then else None


def with_numbers_for_places(machine: Machine, arguments: list[Value]) -> list[Value] | None:
    """A subscript whose tensors without dimensions are the numbers in them, as torch reads them (`table[t]` is a view of the table); None
    where there is none, or it stays a break."""
    container, key, *rest = arguments
    container, key = machine.realize(container), machine.realize(key)
    below = min(container.example.shape, default=1) if isinstance(container, TensorValue) else 1
    places = [machine.realize(item) for item in key.items] if isinstance(key, TupleValue) else [key]
    is_number = [isinstance(place, TensorValue) and is_place(place.example) for place in places]
    found = [number_of(machine, place, below) if is_one else place for place, is_one in zip(places, is_number, strict=True)]
    if None in found or all(one is other for one, other in zip(found, places, strict=True)):
        return None
    return [container, TupleValue(tuple(found)) if isinstance(key, TupleValue) else found[0], *rest]


def with_numbers_for_bounds(machine: Machine, arguments: list[Value]) -> list[Value] | None:
    """A subscript whose slices have numbers for their bounds where the program has tensors without dimensions (`x[i : i + 4]`), as torch
    reads them; None where there is none, or it stays a break."""
    container, key, *rest = arguments
    found = number_key(machine, key)
    return None if found is None else [container, found, *rest]


def number_key(machine: Machine, key: Value, of_places: bool = False) -> Value | None:
    """The subscript with numbers for tensors in its slices; with `of_places` for those that stand alone too."""
    key, read = machine.realize(key), {}

    def number(value: Value) -> Value:
        value = machine.realize(value)
        return read_number(machine, value, read) if isinstance(value, TensorValue) and is_place(value.example) else value

    def part(value: Value) -> Value:
        value = machine.realize(value)
        if isinstance(value, SliceValue):
            return SliceValue(tuple(map(number, value.parts)))
        return number(value) if of_places else value

    made = TupleValue(tuple(map(part, key.items))) if isinstance(key, TupleValue) else part(key)
    return made if read and None not in read.values() else None


def read_number(machine: Machine, tensor: TensorValue, read: dict[torch.fx.Node, Value | None]) -> Value:
    """What `int(tensor)` gives. Of `i` and `i + 4` one is read, so that how far they lie apart is known; `read` has what was read."""
    node, offset = tensor.node, 0
    while (earlier := moved_from(node)) is not None:
        node, offset = earlier[0], offset + earlier[1]
    if node not in read:
        base = tensor if node is tensor.node else TensorValue(node, node.meta["example_value"], tensor.device)
        read[node] = number_of(machine, base)
    found = read[node]
    if found is None or not offset:
        return found or NONE
    return machine.sizes.compute(operator.add, (found, ConstantValue(offset))) or ConstantValue(machine.object_of(found) + offset)


def moved_from(node: torch.fx.Node) -> tuple[torch.fx.Node, int] | None:
    """The tensor that an integer was added to, with the integer; None of others, and of what has been written since."""
    if node.target not in (operator.add, operator.sub) or not is_unwritten(node):
        return None
    one, other = node.args if node.target is operator.sub or isinstance(node.args[0], torch.fx.Node) else node.args[::-1]
    if type(other) is not int or not isinstance(one, torch.fx.Node) or not is_unwritten(one):
        return None
    example = one.meta["example_value"]
    is_sum = example.dim() == 0 and example.dtype is torch.int64 and abs(other) < 2**32
    return (one, other if node.target is operator.add else -other) if is_sum else None


def counted_number(machine: Machine, tensor: TensorValue) -> Value | None:
    """The first element of a tensor of which an operator has said it: how many rows a packed batch has."""
    node = tensor.node
    if node.target is not operator.getitem or node.args[1] != 0 or tensor.example._base is None:
        return None
    first = node.args[0].meta.get("first")
    return machine.sizes.value(first) if first is not None and tensor.example._version == 0 else None


def kind_of_items(dtype: torch.dtype) -> type | None:
    if dtype.is_floating_point:
        return float
    return None if dtype.is_complex or dtype in (torch.bool, torch.uint64) else int


def number_at(
    machine: Machine, node: torch.fx.Node, kind: type, dtype: torch.dtype, hint: int = INDEX
) -> SymbolicNumber:
    low = -INFINITY if kind is float or dtype.is_signed else 0
    size = machine.sizes.late(kind, NUMBER if kind is float else hint, low)
    machine.sizes.scope.undecided = lambda relation: undecided(machine, relation)
    machine.graph.late_root(node, size)
    return SymbolicNumber(size, machine.graph)


def undecided(machine: Machine, relation: Relation) -> None:
    """Where a count must be what it is at least (`torch.bincount(x, minlength=n).view(n)`), or what something is divided by is not zero
    (`right.sum().item() / n.item()`), the graph asks, and raises otherwise."""
    roots = relation.roots()
    if (divisor := machine.sizes.divisor) is not None:
        assume(machine, relation, machine.graph.late_number(operator.ne, (divisor.node, 0), True))
        return
    if len(roots) == 1 and roots[0].low > 1 and relation == relation_of("==", machine.sizes.scope.size(relation.left), roots[0].low):
        number = SymbolicNumber(machine.sizes.scope.size(relation.left), machine.graph)
        assume(machine, relation, machine.graph.late_number(operator.eq, (number.node, roots[0].low), True))
        return
    if clock := clock_among(machine.graph.numbers, relation):
        raise Break(ForeignCall(clock, TIME_DECIDES))
    raise Break(DataDependentValue(machine.expression(), "item"))


def list_of(machine: Machine, tensor: TensorValue) -> Value | None:
    """What `tensor.tolist()` gives."""
    example = tensor.example
    if not example.dtype.is_complex and (known := known_tensors.elements_of(machine, tensor)) is not None:
        return value_of(known.tolist())
    if example.dim() == 0:
        return number_of(machine, tensor)
    kind = kind_of_items(example.dtype)
    if example.numel() > MOST_NUMBERS or kind is None or not are_served(machine):
        return None
    if machine.extents.vary:
        for size in machine.extents.sizes(tensor):
            fix(size)
    node = list_at(machine, machine.graph.call("call_method", "tolist", (tensor.node,), {}))
    return items_of(machine, node, example.shape, kind, example.dtype)


def items_of(machine: Machine, node: torch.fx.Node, shape: Sequence[int], kind: type, dtype: torch.dtype) -> ListValue:
    """The numbers of a list of lists that the graph finds."""
    items: list[Value] = []
    for at in range(shape[0]):
        item = machine.graph.call("call_function", operator.getitem, (node, at), {})
        is_row = len(shape) > 1
        made = items_of(machine, list_at(machine, item), shape[1:], kind, dtype) if is_row else number_at(machine, item, kind, dtype)
        items.append(made)
    return ListValue(items)


def list_at(machine: Machine, node: torch.fx.Node) -> torch.fx.Node:
    machine.graph.describe(node, None, None)
    node.meta["late"] = True
    return node


# Results of sizes that depend on data


def recorded(machine: Machine, operation: Operation) -> Value | None:
    """The call as a node whose result has a late size; None where it is no such call."""
    rule = RULES.get(operation.name)
    if rule is None or not operation.tensors:
        return None
    if has_places(operation):
        return looked_up(machine, operation)
    try:
        found = rule(operation.examples, operation.named_examples)
        if found is None or not are_served(machine) or not same_devices(operation):
            return None
        make, item, dimension, counted = found
        if (same := known_counts.count(machine, operation, counted)) is not None:
            return of_known_size(machine, operation, make, same)
        least = least_count(operation)
        example = machine.in_plain_mode(lambda: make(operation.examples, operation.named_examples, least or COUNT))
    except (RuntimeError, IndexError):
        return None  # the operator itself says what is wrong
    known = counted_before(machine, operation, counted)
    size = machine.sizes.late(int, least or COUNT, least) if known is None else known
    node = late_node(machine, *called(operation), example, operation.device(), LateResult((str(size),), make))
    value = results(machine, node, example, operation.device())
    if known is not None:
        return value
    tensor = node if item is None else value.items[item].node
    if counted is not None:
        machine.graph.journal.set_item(machine.sizes.counts, key_of(operation, counted), size)
    machine.graph.late_root(machine.graph.call("call_method", "size", (tensor, dimension), {}, str(size)), size)
    return value


def of_known_size(machine: Machine, operation: Operation, make: Make, count: int) -> Value:
    """A call that finds as many at each call."""

    def made(arguments: tuple, keywords: Mapping[str, Any]) -> Any:
        return make(arguments, keywords, count)

    example = machine.in_plain_mode(lambda: made(operation.examples, operation.named_examples))
    node = late_node(machine, *called(operation), example, operation.device(), LateResult((), made))
    value = results(machine, node, example, operation.device())
    known_counts.mark(operation, [node] if isinstance(value, TensorValue) else [node, *(each.node for each in value.items)])
    return value


def called(operation: Operation) -> tuple[str, Any, tuple, dict[str, Any]]:
    kind, target = operation.graph_target()
    return kind, target, operation.arguments, operation.keywords


def late_node(
    machine: Machine, kind: str, target: Any, arguments: tuple, keywords: dict[str, Any], example: Any, device: Any, result: LateResult
) -> torch.fx.Node:
    """A call that runs between the kernels, as the operator that it is. Of several results `late_parts` says what each is."""
    node = machine.graph.call(kind, target, arguments, keywords)
    machine.sizes.scope.undecided = lambda relation: undecided(machine, relation)
    machine.graph.describe(node, example if isinstance(example, torch.Tensor) else None, device)
    node.meta["late"], node.meta["late_result"] = True, result
    return node


def late_parts(machine: Machine, node: torch.fx.Node, parts: Iterable[tuple[torch.Tensor, torch.device]]) -> list[TensorValue]:
    """Its results, in order, each with its device."""
    values = []
    for at, (part, device) in enumerate(parts):
        item = machine.graph.call("call_function", operator.getitem, (node, at), {})
        machine.graph.describe(item, part, device)
        item.meta["late"] = True
        values.append(machine.tensor(item, part, device))
    return values


def has_places(operation: Operation) -> bool:
    """Whether it is a subscript that tensors without dimensions take part in as numbers."""
    return operation.name.strip("_") == "getitem" and any(map(is_place, as_tuple(operation.examples[-1])))


def looked_up(machine: Machine, operation: Operation) -> Value | None:
    """`table[t]`: as large wherever it is, and a view of the table, as torch reads the number for it. None for other subscripts."""
    if not are_served(machine) or any(isinstance(part, torch.Tensor) and not is_place(part) for part in as_tuple(operation.examples[-1])):
        return None
    try:
        example = machine.in_plain_mode(lambda: at_first_place(operation.examples, {}))
    except (RuntimeError, IndexError):
        return None  # the operator itself says what is wrong
    node = late_node(machine, *called(operation), example, operation.device(), LateResult((), at_first_place))
    return machine.tensor(node, example, operation.device())


def at_first_place(arguments: tuple, keywords: Mapping[str, Any]) -> torch.Tensor:
    tensor, key = arguments
    return tensor[tuple(0 if is_place(part) else part for part in as_tuple(key))]


def is_place(part: Any) -> bool:
    """Bytes and truth values are masks."""
    if not isinstance(part, torch.Tensor) or part.dim():
        return False
    return not (part.is_floating_point() or part.is_complex() or part.dtype in (torch.bool, torch.uint8))


def counted_before(machine: Machine, operation: Operation, counted: torch.Tensor | None) -> Size | None:
    """How many are true in a mask is one number, however often the mask is used."""
    return None if counted is None else machine.sizes.counts.get(key_of(operation, counted))


def key_of(operation: Operation, counted: torch.Tensor) -> tuple:
    """How a mask is computed, and how often it had been written to."""
    node = next(tensor.node for tensor in operation.tensors if tensor.example is counted)
    return known_tensors.expression_of(node), counted._version


def same_devices(operation: Operation) -> bool:
    return len({tensor.device for tensor in operation.tensors}) == 1


def results(machine: Machine, node: torch.fx.Node, example: Any, device: torch.device) -> Any:
    if isinstance(example, torch.Tensor):
        return machine.tensor(node, example, device)
    return TupleValue(tuple(late_parts(machine, node, ((part, device) for part in example))))


def of_nonzero(arguments: tuple, keywords: Mapping[str, Any]) -> Found | None:
    as_tuple = keywords.get("as_tuple", False)
    if len(arguments) != 1 or not keywords.keys() <= {"as_tuple"} or (as_tuple and not arguments[0].dim()):
        return None
    return (places_in_each_dimension, 0, 0, arguments[0]) if as_tuple else (places, None, 0, arguments[0])


def of_where(arguments: tuple, keywords: Mapping[str, Any]) -> Found | None:
    """`torch.where(mask)`, which is `nonzero` with a tensor for each dimension."""
    return of_nonzero(arguments, {"as_tuple": True}) if len(arguments) == 1 and not keywords else None


def places(arguments: tuple, keywords: Mapping[str, Any], count: int) -> torch.Tensor:
    """Column by column, as kernels write it."""
    rank = arguments[0].dim()
    return torch.empty_strided((count, rank), (1, max(count, 1)), dtype=torch.long, device=META)


def places_in_each_dimension(arguments: tuple, keywords: Mapping[str, Any], count: int) -> tuple[torch.Tensor, ...]:
    return places(arguments, keywords, count).unbind(1)


def of_masked_select(arguments: tuple, keywords: Mapping[str, Any]) -> Found | None:
    if keywords or len(arguments) != 2 or not isinstance(arguments[1], torch.Tensor) or arguments[1].dtype != torch.bool:
        return None
    tensor, mask = arguments
    return selected, None, 0, mask if tensor.shape == mask.shape else None


def selected(arguments: tuple, keywords: Mapping[str, Any], count: int) -> torch.Tensor:
    return torch.broadcast_tensors(*arguments)[0].reshape(-1).index_select(0, indices(count))


def indices(count: int) -> torch.Tensor:
    return torch.empty(count, dtype=torch.long, device=META)


def of_item(arguments: tuple, keywords: Mapping[str, Any]) -> Found | None:
    """`x[mask]`, `x[:, mask]`, `x[0, mask]`: one mask, and besides it nothing that holds elements."""
    if len(arguments) != 2:
        return None
    tensor, key = arguments[0], as_tuple(arguments[1])
    masks = [at for at, part in enumerate(key) if isinstance(part, torch.Tensor)]
    if len(masks) != 1 or key[masks[0]].dtype != torch.bool or not key[masks[0]].dim():
        return None
    before = key[: masks[0]]
    if not all(part is None or type(part) in (int, slice) for part in before):
        return None
    begin = sum(part is not None for part in before)
    taken = tensor[tuple(before)].shape[sum(type(part) is not int for part in before) :] if before else tensor.shape
    mask = key[masks[0]]
    if begin + mask.dim() > tensor.dim() or taken[: mask.dim()] != mask.shape:
        return None
    return item, None, sum(type(part) is not int for part in before), mask


def item(arguments: tuple, keywords: Mapping[str, Any], count: int) -> torch.Tensor:
    tensor, key = arguments[0], as_tuple(arguments[1])
    parts: list[Any] = []
    for part in key:
        is_mask = isinstance(part, torch.Tensor) and part.dtype == torch.bool
        parts += [indices(count)] * part.dim() if is_mask else [part]
    return tensor[tuple(parts)]


def as_tuple(key: Any) -> tuple:
    return key if isinstance(key, tuple) else (key,)


def of_repeat_interleave(arguments: tuple, keywords: Mapping[str, Any]) -> Found | None:
    given = [*arguments, *keywords.values()]
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    if len(given) == len(tensors) == 1 and tensors[0].dim() == 1 and tensors[0].dtype is torch.long:  # each place as often as it says
        return (lambda arguments, keywords, count: indices(count)), None, 0, None
    if len(tensors) != 2 or len(arguments) < 2 or tensors[1] is not arguments[1] or not keywords.keys() <= {"dim"}:
        return None
    if len(arguments) > 3 or tensors[1].dtype not in (torch.long, torch.int32):
        return None
    dim = repeated_dimension(arguments, keywords)
    return repeated, None, 0 if dim is None else dim % max(tensors[0].dim(), 1), None


def repeated(arguments: tuple, keywords: Mapping[str, Any], count: int) -> torch.Tensor:
    dim = repeated_dimension(arguments, keywords)
    if dim is None:
        return arguments[0].flatten().index_select(0, indices(count))
    return arguments[0].index_select(dim, indices(count))


def repeated_dimension(arguments: tuple, keywords: Mapping[str, Any]) -> int | None:
    return arguments[2] if len(arguments) > 2 else keywords.get("dim")


def of_unique(arguments: tuple, keywords: Mapping[str, Any], names: tuple[str, ...]) -> Found | None:
    """Of all elements; of rows (`dim`) it stays a break, and of complex numbers, which torch refuses to sort."""
    given = dict(zip(names, arguments[1:], strict=False)) | dict(keywords)
    tensor = arguments[0]
    if given.pop("dim", None) is not None or not given.keys() <= set(names) or not tensor.dim() or tensor.requires_grad:
        return None
    if tensor.is_complex():
        return None
    if not all(type(each) is bool for each in given.values()):
        return None
    has_inverse, has_counts = bool(given.get("return_inverse")), bool(given.get("return_counts"))

    def made(arguments: tuple, keywords: Mapping[str, Any], count: int) -> Any:
        values = torch.empty(count, dtype=arguments[0].dtype, device=META)
        inverse = [torch.empty(arguments[0].shape, dtype=torch.long, device=META)] if has_inverse else []
        found = (values, *inverse, *([indices(count)] if has_counts else []))
        return found if len(found) > 1 else values

    return made, 0 if has_inverse or has_counts else None, 0, None


def of_bincount(arguments: tuple, keywords: Mapping[str, Any]) -> Found | None:
    weights, least = told_of_counts(arguments, keywords)
    if len(arguments) > 3 or not keywords.keys() <= {"minlength", "weights"} or not isinstance(least, int):
        return None
    if weights is None or isinstance(weights, torch.Tensor) and not weights.requires_grad:  # a gradient is an error in the backward pass
        return weighed, None, 0, None
    return None


def told_of_counts(arguments: Sequence[Any], keywords: Mapping[str, Any], default: Any = 0) -> tuple[Any, Any]:
    """The weights and the least length."""
    told = dict(zip(("weights", "minlength"), arguments[1:], strict=False)) | dict(keywords)
    return told.get("weights"), told.get("minlength", default)


def weighed(arguments: tuple, keywords: Mapping[str, Any], count: int) -> torch.Tensor:
    weights, _ = told_of_counts(arguments, keywords)
    kind = torch.long if weights is None else torch.float32 if weights.dtype is torch.float32 else torch.float64
    return torch.empty(count, dtype=kind, device=META)


def least_count(operation: Operation) -> int:
    """How long its result is at least, and probably is: `torch.bincount(x, minlength=n * n).reshape(n, n)`."""
    _, given = told_of_counts(operation.values, operation.keyword_values, NONE) if operation.name == "bincount" else (None, NONE)
    return given.value if isinstance(given, ConstantValue) and type(given.value) is int and given.value > 1 else 0


Found = tuple[Make, int | None, int, torch.Tensor | None]
"""How the result is made, which of several tensors tells the size, in which dimension, and what is counted."""
RULES: dict[str, Callable[[tuple, Mapping[str, Any]], Found | None]] = {
    "nonzero": of_nonzero,
    "argwhere": lambda arguments, keywords: of_nonzero(arguments, {}) if not keywords else None,
    "where": of_where,
    "masked_select": of_masked_select,
    "getitem": of_item,
    "__getitem__": of_item,
    "unique": lambda arguments, keywords: of_unique(
        arguments, keywords, ("sorted", "return_inverse", "return_counts", "dim")
    ),
    "unique_consecutive": lambda arguments, keywords: of_unique(
        arguments, keywords, ("return_inverse", "return_counts", "dim")
    ),
    "bincount": of_bincount,
    "repeat_interleave": of_repeat_interleave,
}


# What is taken to be so


def assume(machine: Machine, relation: Relation, node: torch.fx.Node) -> None:
    """From now on it is known: the graph raises where it is not so."""
    machine.sizes.scope.log.add(relation, machine.user_stack())
    check_late(machine, node)


def check_late(machine: Machine, node: torch.fx.Node) -> None:
    """The graph raises where the node does not hold; nothing is relied on."""
    checked = machine.graph.call("call_function", torch._check, (node,), {})
    machine.graph.describe(checked, None, None)
    checked.meta["late"] = True
    machine.graph.keep(checked)
