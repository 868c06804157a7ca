"""Tensor operations: run on meta tensors for their result's metadata, recorded as one node.

    apply_function(machine, torch.add, [x, y], {})         call_function add
    apply_method(machine, torch.Tensor.sum, [x], {})       call_method sum

What a meta tensor cannot say (a value, a size that depends on values) is a break, and so is a call that raises: plain
PyTorch then raises its own error at the user's line.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from dynascope.autograd_functions import HOLDS_GRAPH
from dynascope.capture import layouts, numpy_numbers
from dynascope.capture.calls import (
    element_counts,
    inference_mode,
    known_tensors,
    late_numbers,
    late_places,
    late_reshapes,
    late_splits,
    libraries,
    numbers_by_schema,
    numbers_in_tensors,
    own_warnings,
    repeated_lists,
    torch_generators,
)
from dynascope.capture.calls.arguments import argument
from dynascope.capture.calls.operands import fixed, numbers_of_size, places_in, tensors_in, to_operand
from dynascope.capture.calls.overlaps import (
    are_lookups_of_one_table,
    overlap_partly,
    places,
    shares_memory,
    writes_unevenly,
)
from dynascope.capture.calls.ranges import keep_in_range
from dynascope.capture.calls.refusals import (
    TypeRefusal,
    check_numbers,
    check_sum,
    check_types,
    is_pointwise,
    single_operator,
    takes_several_devices,
    warns_of_freedom,
)
from dynascope.capture.calls.tensor_metadata import metadata_method, name_of_type, offset_of_input, refuse_layouts
from dynascope.capture.calls.tensor_names import (
    ATTENTION,
    ATTENTION_FLAGS,
    FACTORIES,
    METADATA_FUNCTIONS,
    METADATA_METHODS,
    MOVES,
    NUMBER_METHODS,
    OF_CONTENTS,
    OF_NUMBERS,
    OF_SIZES,
    PLACED_IN_STORAGE,
    PLACED_WRITES,
    RESHAPING_IN_PLACE,
    SUBSCRIPTS,
    UNDECLARED_WRITES,
    VALUE_METHODS,
    WRITE_IF,
)
from dynascope.capture.calls.unwritten import note_birth
from dynascope.capture.distributed_values import DistributedValue, distributed_in
from dynascope.capture.graph import by_object
from dynascope.capture.metadata import (
    DEVICE_METHODS,
    META,
    QUANTIZED,
    missing_device,
    more_than_strides,
    named_device,
    on_meta,
    result_device,
)
from dynascope.capture.operators_called import inside_on_meta
from dynascope.capture.protocols import gradient_requirements, tensor_data
from dynascope.capture.reasons import (
    DataDependentShape,
    DataDependentValue,
    ForeignCall,
    MissingMetaKernel,
    OverlappingWrite,
    ReportingCall,
    TensorAttribute,
    TensorSubclass,
    TorchCallFails,
    UnusualTypes,
)
from dynascope.capture.signals import Break, CaptureAgain, Refusal
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    ListValue,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.guards.state_calls import CallReturns
from dynascope.guards.world import ABSENT, look_up
from dynascope.meta_kernels import (
    autocast,
    known_results,
    sampling,  # noqa: F401 (it registers them)
    torch_warnings,
)
from dynascope.meta_kernels.undefined_results import with_undefined
from dynascope.sizes import fix

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine


def apply_function(machine: Machine, function: Callable[..., Any], arguments: list[Value], keywords: dict) -> Value:
    if "requires_grad" in keywords and (made := of_a_leaf(machine, function, arguments, keywords)) is not None:
        return made
    if function in repeated_lists.JOINING:
        apply = lambda called, given: apply_function(machine, called, given, {})  # noqa: E731
        if (made := repeated_lists.joined(machine, function, arguments, keywords, apply)) is not None:
            return made
    return operation(machine, "call_function", function, name_of(function), arguments, keywords)


def of_a_leaf(machine: Machine, function: Callable[..., Any], arguments: list[Value], keywords: dict) -> Value | None:
    """`torch.zeros(3, requires_grad=True)` as a tensor that is told so when it is there; None where that cannot be a leaf of
    this graph's own."""
    wanted = machine.realize(keywords["requires_grad"])
    if not isinstance(wanted, ConstantValue) or wanted.value is not True or not machine.options.makes_leaves:
        return None
    mark = machine.journal.mark()
    plain = {name: item for name, item in keywords.items() if name != "requires_grad"}
    made = operation(machine, "call_function", function, name_of(function), arguments, plain)
    if isinstance(made, TensorValue) and gradient_requirements.may_be_leaf(machine, made):
        gradient_requirements.make_leaf(machine, made)
        return made
    machine.journal.rollback(mark)
    return None


def operation(
    machine: Machine, kind: str, target: Any, name: str, arguments: list[Value], keywords: dict[str, Value]
) -> Value:
    """One call of torch. Where its C++ asks a tensor for a number that capture knows, it is called with that number."""
    look_at(machine, (*arguments, *keywords.values()))
    if "generator" in keywords and torch_generators.is_generator(machine.realize(keywords["generator"])):
        return torch_generators.drawn(machine, kind, target, name, arguments, keywords, partial(operation, machine))
    if "pin_memory" in keywords and machine.object_of(keywords["pin_memory"]):
        raise Break(TensorAttribute("pin_memory"))  # of memory that a graph makes, none is pinned
    if any(distributed_in((*arguments, *keywords.values()))):
        from dynascope.capture.calls import distributed_tensors

        return distributed_tensors.operation(machine, kind, target, name, arguments, keywords)
    mark = machine.journal.mark()
    try:
        return Operation(machine, kind, target, name, arguments, keywords).run()
    except Break as signal:
        if not isinstance(signal.reason, (DataDependentValue, DataDependentShape)):
            raise
        machine.journal.rollback(mark)

        def narrow(*given: Value) -> Value:
            return operation(machine, "call_method", torch.Tensor.narrow, "narrow", list(given), {})

        if (parts := late_splits.parts(machine, name, arguments, keywords, narrow)) is not None:
            return parts
        call = partial(apply_method, machine, keywords={})
        if (other := late_reshapes.reshaped(machine, name, arguments, keywords, call)) is not None:
            return other
        known = numbers_in_tensors.with_numbers(machine, [*arguments, *keywords.values()])
        if known is None and name.strip("_") == "setitem":
            known = late_numbers.with_numbers_for_places(machine, arguments)
        if known is None and name.strip("_") in SUBSCRIPTS:
            known = late_numbers.with_numbers_for_bounds(machine, arguments)
        if known is None:
            known = numbers_by_schema.with_numbers(machine, name, arguments, keywords)
        if known is None:
            raise
        keywords = dict(zip(keywords, known[len(arguments) :], strict=False))
    return Operation(machine, kind, target, name, known[: len(arguments)], keywords).run()


def look_at(machine: Machine, values: Iterable[Value]) -> None:
    """What comes from outside becomes an input now: one that a call makes which is taken back is none, and is not made again."""
    for value in values:
        value = machine.realize(value)
        if isinstance(value, (ListValue, TupleValue)):
            look_at(machine, value.items)


def apply_method(machine: Machine, method: Any, arguments: list[Value], keywords: dict) -> Value:
    name = name_of(method)
    if isinstance(arguments[0], DistributedValue):
        from dynascope.capture.calls import distributed_tensors

        return distributed_tensors.method(machine, method, name, arguments, keywords)
    if name in ("stride", "is_contiguous", "dim_order"):
        refuse_layouts(machine, name, arguments)
    if name == "type" and len(arguments) == 1 and not keywords:
        return ConstantValue(name_of_type(machine.realize(arguments[0])))
    if name in METADATA_METHODS:
        return metadata_method(machine, method, name, arguments, keywords)
    if name in NUMBER_METHODS and len(arguments) == 1 and not keywords:
        if (found := as_number(machine, name, arguments[0])) is not None:
            return found
    if name in ("numpy", "__array__") and len(arguments) == 1 and (not keywords or is_forced(machine, keywords)):
        from dynascope.capture.calls import numpy_arrays

        return numpy_arrays.of_tensor(machine, on_processor(machine, arguments[0]) if keywords else arguments[0])
    if name == "type" and (dtype := dtype_of_named_class(machine, arguments, keywords)) is not None:
        return apply_method(machine, torch.Tensor.to, [arguments[0], ConstantValue(dtype)], {})
    if name in VALUE_METHODS:
        raise Break(DataDependentValue(machine.expression(), name))
    if name == "requires_grad_":
        wanted = gradient_requirements.asked_for(machine, arguments, keywords)
        gradient_requirements.write(machine, machine.realize(arguments[0]), wanted)
        return arguments[0]
    if name in RESHAPING_IN_PLACE:
        raise Break(TensorAttribute(name))
    if name == "get_device" and len(arguments) == 1 and not keywords:
        index = arguments[0].device.index
        return ConstantValue(-1 if index is None else index)
    return operation(machine, "call_method", method, name, arguments, keywords)


def is_forced(machine: Machine, keywords: dict) -> bool:
    return keywords.keys() == {"force"} and machine.object_of(keywords["force"]) is True


def on_processor(machine: Machine, tensor: Value) -> Value:
    """What `numpy(force=True)` reads."""
    for method in (torch.Tensor.detach, torch.Tensor.cpu, torch.Tensor.resolve_conj, torch.Tensor.resolve_neg):
        tensor = apply_method(machine, method, [tensor], {})
    return tensor


def dtype_of_named_class(machine: Machine, arguments: list[Value], keywords: dict) -> torch.dtype | None:
    """Of `x.type("torch.DoubleTensor")` and `x.type(torch.DoubleTensor)`, where the tensor lies on a processor already."""
    given = [*arguments[1:], *(value for name, value in keywords.items() if name == "dtype")]
    asked = machine.realize(given[0]) if len(given) == 1 and keywords.keys() <= {"dtype", "non_blocking"} else None
    if not isinstance(asked, ConstantValue) or arguments[0].device.type != "cpu":
        return None
    named = getattr(torch, asked.value.removeprefix("torch."), None) if type(asked.value) is str else asked.value
    if type(named) is not type(torch.FloatTensor) or named.is_cuda or named.is_sparse:
        return None
    return None if named.dtype.is_complex else named.dtype


def as_number(machine: Machine, name: str, value: Value) -> Value | None:
    """The number in a tensor, which only the run of the graph knows; None where that is a break."""
    tensor = machine.realize(value)
    if name == "tolist":
        return late_numbers.list_of(machine, tensor)
    found = late_numbers.number_of(machine, tensor)
    if found is None or name == "item":
        return found
    if isinstance(found, ConstantValue):
        return ConstantValue(int(found.value) if name == "__int__" else float(found.value))
    return machine.sizes.compute(int if name == "__int__" else float, (found,))


def name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or str(function)


def now_held(machine: Machine, value: Value) -> Value:
    """A tensor whose `.data` the program has set, as what it holds since, where no gradient leads to it; so in a list."""
    value = machine.realize(value)
    if isinstance(value, (ListValue, TupleValue)):
        items = [now_held(machine, item) for item in value.items]
        return ListValue(items) if any(isinstance(item, TensorValue) and item in machine.assigned for item in items) else value
    known = machine.assigned.get(value)
    if known is None or (known.tensor.example.requires_grad and torch.is_grad_enabled()):
        return value
    held = tensor_data.counting_alone(machine, apply_method(machine, torch.Tensor.detach, [known.content], {}))
    machine.journal.set_item(machine.assigned, held, known)
    return held


def note_warning(machine: Machine, warning: warnings.WarningMessage) -> None:
    """Said when the graph is made. Where warnings are errors the program's own call raises it."""
    own_warnings.check_nothing_said(machine)
    if torch_warnings.raises_errors() or own_warnings.are_looked_at(machine):
        raise Break(TorchCallFails(machine.expression(), str(warning.message).split("\n")[0]))
    machine.guards.add_state(CallReturns(torch_warnings.raises_errors, False))
    machine.journal.append(machine.warnings, (warning, machine.user_stack()))


def late_places_in(machine: Machine, key: Value) -> Value:
    """A tensor's subscript with the tensors that torch makes of lists of places in it, where only the run knows one: kernels read them
    there, as they do a tensor's."""
    if isinstance(key, TupleValue) and key.cls is tuple:
        return TupleValue(tuple(late_places_in(machine, machine.realize(part)) for part in key.items))
    if not isinstance(key, ListValue) or key.is_unread or not any(map(machine.sizes.is_late, key.items)):
        return key
    if any(machine.realize(item).python_type is not int for item in key.items):
        return key
    options = {"dtype": ConstantValue(torch.int64), "device": ConstantValue(torch.device("cpu"))}
    return machine.realize(machine.call_now(ConstantValue(torch.tensor), [key], options))


class Operation:
    """One call of torch, on its way to being a node."""

    def __init__(
        self, machine: Machine, kind: str, target: Any, name: str, arguments: list[Value], keywords: dict[str, Value]
    ) -> None:
        self.machine, self.kind, self.target, self.name = machine, kind, target, name
        prepare = (lambda value: fixed(machine, value)) if name in OF_CONTENTS else machine.realize
        if machine.assigned:
            arguments = [now_held(machine, argument) for argument in arguments]
        if machine.requirements:
            arguments = [gradient_requirements.now_required(machine, argument) for argument in arguments]
        self.values = [prepare(argument) for argument in arguments]
        if name.strip("_") in SUBSCRIPTS:
            self.values[1:2] = [late_places_in(machine, places_in(machine, value)) for value in self.values[1:2]]
        if name == "new":
            self.values = [item for value in self.values for item in numbers_of_size(value)]
        if "from" in keywords and len(arguments) == 1:  # of `random_` and `uniform_`
            keywords = dict(keywords)  # a reserved word cannot be a keyword in a graph's code: it is the first argument
            self.values.append(prepare(keywords.pop("from")))
        self.keyword_values = {key: prepare(item) for key, item in keywords.items()}
        if name in OF_SIZES:
            self.values = [size_in(machine, value) for value in self.values]
        pairs = [to_operand(machine, value) for value in self.values]
        self.arguments = tuple(pair[0] for pair in pairs)
        self.examples = tuple(pair[1] for pair in pairs)
        named = {key: to_operand(machine, item) for key, item in self.keyword_values.items()}
        self.keywords = {key: pair[0] for key, pair in named.items()}
        self.named_examples = {key: pair[1] for key, pair in named.items()}
        self.own_operators = libraries.own_operators(target)
        self.tensors = list(tensors_in((*self.values, *self.keyword_values.values())))
        tensor_data.check_read(machine, self.tensors)
        gradient_requirements.check_read(machine, self.tensors)
        self.name_default_device()

    def name_default_device(self) -> None:
        """A factory without a device gets the program's default by name: graphs do not run under its mode."""
        given = self.keyword_values.get("device", NONE)
        if self.tensors or self.name not in FACTORIES or not (isinstance(given, ConstantValue) and given.value is None):
            return
        default = self.machine.default_device()
        if default.type != "cpu":
            self.keyword_values["device"] = ConstantValue(default)
            self.keywords["device"] = self.named_examples["device"] = default

    def run(self) -> Value:
        self.refuse_gradients([tensor.example for tensor in self.tensors])
        self.refuse_own_operators()
        if self.name in ATTENTION:
            self.guard_attention()
        versions = [tensor.example._version for tensor in self.tensors]
        shapes = [tensor.example.shape for tensor in self.tensors]
        if any(
            item in QUANTIZED
            for item in (*self.examples, *self.named_examples.values())
            if isinstance(item, torch.dtype)
        ):
            raise Break(TensorSubclass("quantized tensor", self.machine.expression()))
        self.refuse_types()
        self.refuse_offsets()
        if (found := late_numbers.recorded(self.machine, self)) is not None:
            return found
        late_places.rely_on_places(self.machine, self)
        element_counts.rely_on_count(self.machine, self.name, self.values)
        example = self.run_on_meta()
        self.refuse_gradients([example])
        self.refuse_places(example)
        if warns_of_freedom(self.name, self.examples, self.named_examples, example):
            raise Break(ReportingCall(self.machine.expression()))
        numbers = (isinstance(value, SymbolicNumber) for value in (*self.values, *self.keyword_values.values()))
        if any(numbers) and not self.own_operators and not isinstance(self.target, HOLDS_GRAPH):
            examples = self.examples, self.named_examples, example
            keep_in_range(self.machine, self.target, self.values, self.keyword_values, examples)
        written = [
            tensor for tensor, version in zip(self.tensors, versions, strict=True) if tensor.example._version != version
        ]
        if any(tensor.example.shape != shape for tensor, shape in zip(self.tensors, shapes, strict=True)):
            raise Break(TensorAttribute(self.name))
        for tensor in self.undeclared_writes():
            self.machine.journal.set(self.machine, "uncounted", self.machine.uncounted + 1)
            known_tensors.forget(self.machine, tensor)
            written += [] if any(each is tensor for each in written) else [tensor]
        tensor_data.count_writes(self.machine, written)
        gradient_requirements.check_unchanged(self.machine, written)
        if inference_mode.are_written(self.machine, written):
            raise Break(TorchCallFails(self.machine.expression(), "an inference tensor is written outside inference mode"))
        if self.writes_unevenly(written) or self.writes_what_it_reads():
            raise Break(OverlappingWrite(self.machine.expression()))
        if self.gives_history_to_integers(written):
            raise Break(ForeignCall(self.machine.expression(), "integers get a gradient's history"))
        node = self.machine.graph.call(*self.graph_target(), self.arguments, self.keywords)
        device = self.device()
        self.machine.graph.describe(node, example if isinstance(example, torch.Tensor) else None, device)
        node.meta["versions"] = (*versions, self.machine.uncounted)
        if inference_mode.is_kept(self.machine, node, example):
            raise Break(TorchCallFails(self.machine.expression(), "an inference tensor is kept for a backward pass"))
        if not written:
            note_birth(node, example)
        if written or self.has_effect():
            self.machine.graph.keep(node)
            node.meta["writes"] = tuple(tensor.node for tensor in written)
            for tensor in written:
                self.machine.note_tensor_write(tensor)
        if isinstance(example, torch.Tensor):
            self.machine.extents.fix_least(node)
        return self.result(node, example, device, written)

    def refuse_gradients(self, examples: list[Any]) -> None:
        """Gradients are on, and were off when the graph began, which then records none: it is called with them on."""
        if self.machine.grad_mode or not torch.is_grad_enabled():
            return
        if any(isinstance(example, torch.Tensor) and example.requires_grad for example in examples):
            raise CaptureAgain(records=True)

    def writes_unevenly(self, written: list[TensorValue]) -> bool:
        """Of `x[key] = y` with a key of numbers and slices only `x[key]` is written, which may be `y` itself (`x[::2] *= 2`)."""
        sets_items = self.name.strip("_") == "setitem"
        if sets_items and written and not any(tensors_in(self.values[1:2])):
            table, key, written_at = self.examples[0], self.examples[1], self.arguments[1]
            others = tensors_in(self.values[2:3])
            try:
                region = self.machine.in_plain_mode(lambda: table[key])
            except NotImplementedError:  # flags in a list: how many are chosen is not for meta tensors to say
                return self.reads_where_it_puts(others) or writes_unevenly(table, (each.example for each in others))
            operands = [each for each in others if not are_lookups_of_one_table(table, written_at, region, each.node)]
            if writes_unevenly(region, (each.example for each in operands)):
                return True
            if not shares_memory(region, table):  # a list of places
                return self.reads_where_it_puts(operands) or writes_unevenly(table, (each.example for each in operands))
            numbers: list[torch.fx.Node] = []
            torch.fx.node.map_arg(written_at, numbers.append)
            if not numbers:
                self.rely_on_places(self.tensors[0], operands, lambda example: example[key])
            elif any(shares_memory(region, each.example) and places(region) != places(each.example) for each in operands):
                for node in numbers:
                    fix(node.meta["size"])
            return False
        if sets_items and written and self.reads_where_it_puts(self.tensors[1:]):
            return True
        if any(writes_unevenly(tensor.example, (other.example for other in self.tensors)) for tensor in written):
            return True
        for tensor in written:
            self.rely_on_places(tensor, [each for each in self.tensors if each.example is not tensor.example], lambda example: example)
        return False

    def reads_where_it_puts(self, operands: list[TensorValue]) -> bool:
        """Of `x[places] = y`: whether `y` is all of `x`, or the places are. A mask is read before."""
        table, masks = self.examples[0], [each for each in tensors_in(self.values[1:2]) if each.example.dtype is torch.bool]
        others = [each.example for each in operands if not any(each is mask for mask in masks)]
        return any(shares_memory(table, other) and places(table) == places(other) for other in others)

    def rely_on_places(
        self, written: TensorValue, operands: list[TensorValue], region: Callable[[torch.Tensor], torch.Tensor]
    ) -> None:
        """What lies apart for the sizes at hand need not for others: these are compared as numbers that vary, which is logged."""
        extents = self.machine.extents
        for each in operands if extents.vary else ():
            if shares_memory(written.example, each.example):
                overlap_partly(extents.ask(written, lambda example: places(region(example))), extents.ask(each, places))

    def gives_history_to_integers(self, written: list[TensorValue]) -> bool:
        """Integers that are filled from a tensor of no dimensions require grad, which makes autograd refuse what reads them. Meta
        tensors are not filled but copied to, and say nothing."""
        integers = (not (each.example.is_floating_point() or each.example.is_complex()) for each in written)
        numbers = (each.example.requires_grad and not each.example.dim() for each in self.tensors)
        return torch.is_grad_enabled() and any(integers) and any(numbers)

    def writes_what_it_reads(self) -> bool:
        """`out=` in the memory of an operand: PyTorch refuses, or the order decides, of operators that are never in place. So it is
        of those that write to chosen places (`x.index_add_(0, i, x)`)."""
        if self.name in PLACED_WRITES and self.tensors:
            return any(shares_memory(self.tensors[0].example, each.example) for each in self.tensors[1:])
        in_place = f"{self.name}_"
        is_ordered = hasattr(torch.ops.aten, in_place) and in_place not in PLACED_WRITES
        if "out" not in self.keyword_values or is_ordered or is_pointwise(self.target):
            return False
        written = tensors_in([self.keyword_values["out"]])
        operands = [tensor.example for tensor in tensors_in(self.values)]
        return any(shares_memory(out.example, operand) for out in written for operand in operands)

    def graph_target(self) -> tuple[str, Any]:
        """How a graph names what is called. A method that the program has replaced is called as the function it was."""
        if self.kind == "call_method" and look_up(torch.Tensor, self.name) in (self.target, ABSENT):
            return self.kind, self.name
        return "call_function", by_object(self.target)

    def guard_attention(self) -> None:
        """Which kernel is right is decided while compiling, by flags that programs set."""
        for flag in ATTENTION_FLAGS:
            self.machine.guards.add_state(CallReturns(flag, flag()))

    def has_effect(self) -> bool:
        return self.name in ("manual_seed", "seed")

    def refuse_own_operators(self) -> None:
        """Breaks where an operator of the program's own would have to run to be understood."""
        if not self.own_operators:
            return
        records = torch.is_grad_enabled() and any(tensor.example.requires_grad for tensor in self.tensors)
        why = libraries.obstacle(self.own_operators, self.machine.options.excluded, records)
        if why is not None:
            raise Break(ForeignCall(self.machine.expression(), why))

    def refuse_offsets(self) -> None:
        """A place in an input's storage is another place in what stands for the input, unless that begins with its storage."""
        at = PLACED_IN_STORAGE.get(self.name)
        if at is None or not self.tensors or (len(self.values) <= at and "storage_offset" not in self.keyword_values):
            return
        if offset_of_input(self.machine, self.tensors[0]):
            raise Break(ForeignCall(self.name, "its operand does not begin where its storage begins"))

    def refuse_places(self, example: Any) -> None:
        """A view that reaches beyond the storage of what was made inside, which meta tensors do not look at, or beyond the part that is
        differentiated: from there autograd leads no gradient back, though the elements are there. Behind a break such a part would
        be a tensor of its own, with nothing beyond it."""
        refusal = check_sum(self.name, self.examples, example)
        if refusal is not None:
            raise Break(TorchCallFails(self.machine.expression(), refusal))
        if self.name != "as_strided" or not isinstance(example, torch.Tensor) or not example.numel():
            return
        given = self.tensors[0].example
        memory = example.untyped_storage()
        is_given = any(each.object is not None and each.example.untyped_storage()._cdata == memory._cdata for each in self.tensors)
        if example.requires_grad and given._base is not None and not _is_within(example, given):
            ended = Break if is_given else Refusal
            raise ended(ForeignCall(self.machine.expression(), "it reaches beyond the view that gradients lead back to"))
        if is_given:
            return
        if _places(example).stop * example.element_size() > memory.nbytes():
            raise Break(TorchCallFails(self.machine.expression(), "it reaches beyond the storage"))

    def refuse_types(self) -> None:
        """Breaks where there is no such device, or it has no such operation for these types, or for tensors of several devices: meta
        tensors tell none of it."""
        if self.name in OF_NUMBERS and not self.tensors:
            refusal = check_numbers(self.target, self.examples, self.named_examples)
            if refusal is not None:
                raise Break(TorchCallFails(self.machine.expression(), refusal))
        if self.name.strip("_") == "setitem" and (refusal := numpy_numbers.refusal_as_item(self.values[-1].python_type)) is not None:
            raise Break(TorchCallFails(self.machine.expression(), refusal))  # a graph would hold a number of Python's in its place
        devices = {tensor.device: None for tensor in self.tensors}
        if (device := self.device()) not in devices and (missing := missing_device(device)) is not None:
            raise Break(TorchCallFails(self.machine.expression(), missing))
        if not self.tensors or self.own_operators or isinstance(self.target, HOLDS_GRAPH):
            return
        first = next(iter(devices))
        refusal = None
        if len(devices) > 1:
            if not self.takes_several_devices():
                refusal = TypeRefusal(f"its tensors are on {' and '.join(map(str, devices))}", raises=True)
        elif first.type in ("cpu", "cuda"):
            refusal = self.machine.in_plain_mode(
                lambda: check_types(self.target, self.examples, self.named_examples, first)
            )
        if refusal is not None:
            reason = TorchCallFails if refusal.raises else UnusualTypes
            raise Break(reason(self.machine.expression(), refusal.text))

    def takes_several_devices(self) -> bool:
        """Of an operator over lists each place is asked for itself: an optimizer's counters are numbers on the CPU."""
        single, places = single_operator(self.target), [self.tensors]
        if single is not None:
            lists = [value.items for value in self.values if isinstance(value, (ListValue, TupleValue))]
            places = [list(tensors_in(map(self.machine.realize, place))) for place in zip(*lists, strict=False)]
        return all(
            takes_several_devices(single or self.target, self.name, [(each.device, each.example) for each in place])
            for place in places
            if len({each.device for each in place}) > 1
        )

    def run_on_meta(self) -> Any:
        """The result on meta tensors. The class of failure says whose fault it is."""
        arguments, keywords = self.examples, self.named_examples
        if self.name in DEVICE_METHODS or "device" in keywords or not self.tensors:
            arguments, keywords = self.without_devices()
        try:
            with (
                autocast.simulated(self.device_type_of),
                torch_warnings.noted() as given,
                inside_on_meta(self.target),
                known_results.used(self.target, given),
            ):
                target = torch.Tensor.to if self.name in MOVES else self.target
                result = self.machine.in_plain_mode(lambda: target(*arguments, **keywords))
        except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError) as error:
            raise Break(self.failure(error)) from None
        except Exception as error:
            raise Break(MissingMetaKernel(self.name, f"{type(error).__name__}: {error}")) from None
        result = with_undefined(self.name, arguments, keywords, result)
        is_followed = isinstance(self.target, HOLDS_GRAPH)  # what its passes warn of was noted there
        for warning in () if is_followed else given:
            note_warning(self.machine, warning)
        return result

    def device_type_of(self, example: torch.Tensor) -> str:
        """Where the tensor lives that a meta tensor stands for; those made on the way live with the result."""
        known = next((tensor.device for tensor in self.tensors if tensor.example is example), None)
        return (known or self.device()).type

    def without_devices(self) -> tuple[tuple, dict]:
        arguments = tuple(map(on_meta, self.examples))
        keywords = {
            key: META if key == "device" and item is not None else on_meta(item)
            for key, item in self.named_examples.items()
        }
        if self.name == "to":
            arguments = tuple(META if isinstance(item, (str, int)) and named_device(item) else item for item in arguments)
        elif self.name in MOVES:
            return (arguments[0], META), {key: item for key, item in keywords.items() if key == "memory_format"}
        elif not self.tensors and self.name in FACTORIES:
            keywords["device"] = META
        return arguments, keywords

    def failure(self, error: Exception) -> Any:
        text = str(error).strip().split("\n")[0]
        about_meta = isinstance(error, NotImplementedError) or "meta" in text.lower() or "Meta" in text
        is_made_up = (
            late_numbers.lead_to([tensor.node for tensor in self.tensors])
            or late_numbers.are_late(self.machine, (*self.values, *self.keyword_values.values()))
            or any(self.machine.sizes.are_late(self.machine.extents.sizes(tensor)) for tensor in self.tensors)
        )
        if not about_meta and is_made_up:
            return DataDependentValue(self.machine.expression(), "item")  # a size or a place that does not fit
        if not about_meta:
            return TorchCallFails(self.machine.expression(), text)
        if late_numbers.has_late_size(self.name):
            return DataDependentShape(self.name, self.machine.expression())
        if self.name in VALUE_METHODS or "item()" in text:
            return DataDependentValue(self.machine.expression(), self.name if self.name in VALUE_METHODS else "item")
        return MissingMetaKernel(self.name, text, "aten::" in text)

    def undeclared_writes(self) -> list[TensorValue]:
        """What is written without a new version: by own operators, `out=` of composite operators, statistics, and some
        of what the schema of an operator says."""
        if self.own_operators:
            return list(tensors_in(libraries.written(self.own_operators, tuple(self.values), self.keyword_values)))
        names = UNDECLARED_WRITES.get(self.name)
        if names is None:
            places = known_tensors.written_places(self.name)
            given = [*(value for at, value in enumerate(self.values) if at in places), self.keyword_values.get("out", NONE)]
            named = [value for name, value in self.keyword_values.items() if name in places]
            return list(tensors_in([*given, *named]))
        name, at, default = WRITE_IF[self.name]
        if constant_of(self.machine.realize(argument(self.values, self.keyword_values, at, name, ConstantValue(default)))) is False:
            return []
        positional = [value for value in self.values[1:3] if isinstance(value, TensorValue)]
        named = [self.keyword_values.get(name) for name in names]
        return positional + [value for value in named if isinstance(value, TensorValue)]

    def device(self) -> torch.device:
        explicit = self.keyword_values.get("device")
        told = named_device(explicit.value) if isinstance(explicit, ConstantValue) else None
        if self.name == "cpu":
            told = torch.device("cpu")
        elif self.name == "cuda" and told is None:
            told = self.told_by_position(torch.device("cuda"))
        elif self.name == "to" and told is None:
            told = self.told_by_position(self.tensors[0].device)
        return result_device(told, (tensor.device for tensor in self.tensors), self.machine.default_device())

    def told_by_position(self, default: torch.device) -> torch.device:
        for value in self.values[1:]:
            if isinstance(value, TensorValue):
                return value.device
            if isinstance(value, ConstantValue) and (device := named_device(value.value)):
                return device
        return default

    def result(
        self, node: torch.fx.Node, example: Any, device: torch.device, written: Sequence[TensorValue] = ()
    ) -> Value:
        """The value of what the meta run gave. What was already a value is that value: in-place operations return it."""
        given = self.keyword_values.get("out")
        if isinstance(given, TensorValue) and isinstance(example, torch.Tensor):
            return given
        if isinstance(example, torch.Tensor):
            for tensor in self.tensors:
                if tensor.example is example and tensor.device == device:
                    if self.asks_for_a_layout() and not layouts.are_known(tensor):
                        break  # `conv(x).contiguous()`: the real tensor may lie otherwise, and is copied then
                    if tensor not in written:
                        self.fix_numbers()
                        self.machine.extents.settle_identity(node, tensor.node)
                    return tensor.instance or gradient_requirements.as_given(self.machine, tensor_data.as_given(self.machine, tensor))
            if (kind := more_than_strides(example)) is not None:
                raise Break(TensorSubclass(kind, self.machine.expression()))
            if example.device.type != "meta":
                raise Break(MissingMetaKernel(self.name, "it makes a tensor of its own"))
            if any(tensor.example is example for tensor in self.tensors):
                example = example.view_as(example)
            return self.machine.tensor(node, example, device)
        if example is None:
            return NONE
        if isinstance(example, (list, tuple)):
            return self.sequence(node, example, device, written)
        if self.name in METADATA_FUNCTIONS or isinstance(example, (torch.dtype, torch.layout)):
            return ConstantValue(example)
        raise Break(DataDependentValue(self.machine.expression(), self.name))

    def asks_for_a_layout(self) -> bool:
        """Whether it gives its operand back where that lies as asked for already."""
        return self.name == "contiguous" or "memory_format" in self.keyword_values

    def fix_numbers(self) -> None:
        """It gave an operand back and did nothing (`dropout(x, 0.0)`), which may be so because of a number."""
        for value in (*self.values, *self.keyword_values.values()):
            fixed(self.machine, value)

    def sequence(self, node: torch.fx.Node, examples: Any, device: torch.device, written: Sequence[TensorValue] = ()) -> Value:
        graph = self.machine.graph
        if self.machine.extents.vary:
            self.machine.extents.settle_length(node, examples)
        items: list[Value] = []
        for at, example in enumerate(examples):
            if example is None or not isinstance(example, (torch.Tensor, list, tuple)):
                is_place = isinstance(example, torch.device) and self.tensors  # `_parse_to(tensor)`
                items.append(ConstantValue(device if is_place else example))
                continue
            item = graph.call("call_function", operator.getitem, (node, at), {})
            graph.describe(item, example if isinstance(example, torch.Tensor) else None, device)
            items.append(self.result(item, example, device, written))
        return ListValue(items) if isinstance(examples, list) else TupleValue(tuple(items), type(examples))


def size_in(machine: Machine, value: Value) -> Value:
    """A size that a tensor holds (`torch.zeros(2, lengths[0])`), which is asked for its number."""
    if isinstance(value, (ListValue, TupleValue)) and any(tensors_in([value])):
        return TupleValue(tuple(size_in(machine, machine.realize(item)) for item in value.items))
    if isinstance(value, TensorValue) and not value.example.dtype.is_floating_point:
        return late_numbers.number_of(machine, value) or value
    return value


def _places(tensor: torch.Tensor) -> range:
    """From the first of its elements in the storage to behind the last; of a tensor that has elements."""
    steps = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return range(tensor.storage_offset(), tensor.storage_offset() + steps + 1)


def _is_within(view: torch.Tensor, tensor: torch.Tensor) -> bool:
    """Whether each element of a view, which has some, is one of the tensor's, as far as their ends and holes tell."""
    if not tensor.numel():
        return False
    own, wanted = _places(tensor), _places(view)
    is_same = view.shape == tensor.shape and view.stride() == tensor.stride()
    return own.start <= wanted.start and wanted.stop <= own.stop and (is_same or len(own) <= tensor.numel())
