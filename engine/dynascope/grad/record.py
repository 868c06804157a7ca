"""The recorder: every ATen operator that runs below it becomes steps on a tape.

    with recorder:                       tape:
        y = x.view(8, 4)                   (nothing: a geometry of x)
        y.mul_(2)                          aten.view, aten.mul, aten.view
        torch.autograd.grad(...)           the same, phase "backward"

The program runs on meta tensors: autograd above the recorder is torch's own, with its in-place rules and its formulas; what
arrives here is only operators. Tensors are handles; `storage.py` knows which value each stands for at this moment.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from dynascope.grad import written_operators
from dynascope.grad.build import StepBuilder
from dynascope.grad.metadata import call_meta_kernel
from dynascope.grad.mutations import MUTATIONS, store
from dynascope.grad.numbers import number_of, refuse_symbols
from dynascope.grad.operators import Traits, has_no_such_dimension, traits, with_known_dimensions
from dynascope.grad.pair import Overwritten
from dynascope.grad.reasons import (
    AutocastActive,
    DataDependentResult,
    DifferentiationRefused,
    OperatorFailed,
    UnsupportedMutation,
    VaryingNumberNeeded,
)
from dynascope.grad.storage import Contents, Memory
from dynascope.grad.tape import (
    META,
    PLAIN,
    Layout,
    Origin,
    Tape,
    Value,
    elements_spanned,
    is_of_program,
    layout_of,
    names_of,
    sizes_in,
)
from dynascope.grad.trails import Trail
from dynascope.grad.views import ViewRecipe, single_views
from dynascope.grad.written_lists import write_what_others_have
from dynascope.meta_kernels import autocast
from dynascope.meta_kernels.quiet_torch import without_messages
from dynascope.random_numbers import filling, is_filling

aten = torch.ops.aten
FAKE = torch._C._TorchDispatchModeKey.FAKE
PLAIN_DISPATCH = torch.Tensor.__torch_dispatch__
IN_FLIGHT = "_c10d_functional::_wrap_tensor_autograd"
"""Makes of a collective's result a tensor that waits where it is first read. So do waits in graphs."""

_PHASES_CHECKED = (aten.linalg_eig.default, aten._linalg_eigh.default, aten._linalg_svd.default)
"""Vectors that are complex are given but for a phase: eager's backward pass raises for a loss that depends on it, which only the
values of the tangents tell."""


_CONVERSION = aten._to_copy.default
WIDEST: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}
"""Types that hold a number of Python's as it is."""


Writes = tuple[tuple[int, int], ...]
"""How often inputs were written: numbers of inputs, with counts."""


def comes_down_itself(value: Any) -> bool:
    """Whether it is a tensor of torch's that comes down to plain ones below autograd: a DTensor to its part and collectives."""
    return isinstance(value, torch.Tensor) and _has_behaviour(type(value))


def _has_behaviour(cls: Any) -> bool:
    return issubclass(cls, torch.Tensor) and cls.__torch_dispatch__ is not PLAIN_DISPATCH


class Recorder(TorchDispatchMode):
    """One recording. `origins` gives a backward step the place of the forward step whose gradient it is part of."""

    make_builder: type[StepBuilder] = StepBuilder
    make_memory: type[Memory] = Memory

    def __init__(
        self,
        decompositions: dict[Any, Any],
        main_device: torch.device,
        trail: Trail | None = None,
        of_tensors: Mapping[Any, Callable] | None = None,
    ) -> None:
        super().__init__()
        self.trail = trail
        self.of_tensors = dict(of_tensors or {})
        """Decompositions as torch has them: functions of tensors."""
        self.inside: set[Any] = set()
        """Operators whose own decomposition of this kind runs."""
        self.tape = Tape()
        self.is_at_hand = trail is None or bool(trail.others)
        """Whether this is the recording that counts, at the sizes of the call that is compiled."""
        rules = {func: self._rule_of(func, decompositions.get(func)) for func in self.of_tensors}
        self.builder = self.make_builder(self.tape, decompositions | rules)
        self.memory = self.make_memory(self.builder, self.observe, self.tell_apart, trail is not None and trail.worlds.views_vary)
        self.main_device = main_device
        self.draws_seeds = aten.native_dropout.default in decompositions
        """Whether random operators are recorded as functions of a seed."""
        self.kept: dict[int, int] = {}
        self.counted: list[tuple[int, torch.Tensor, int]] = []
        """Inputs that share a storage with others, and so perhaps a version: number, stand-in, version at the start."""
        self.first_kept: dict[int, Writes] = {}
        """By storage, how often those had been written when autograd first kept something of it."""
        self.held: list[torch.Tensor] = []
        """What contexts of custom functions keep as attributes: their backward passes read it as it is then."""
        self.viewed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """By its number, each view that the backward pass made, and what of."""
        self.overwritten: list[tuple[Overwritten, Any]] = []
        """What the backward pass read of what was written to since autograd kept it, with autograd's function that read it."""
        self.read: set[int] = set()
        """The storages that autograd keeps something of, and how often each had been written to then."""
        self.lower_precision_copies: autocast.Copies = {}
        """What autocast made of parameters, which it converts once."""
        self.origins: list[Origin] = []
        """By autograd sequence number, counted from `_sequence_start`."""
        self._sequence_start = torch._C._autograd._get_sequence_nr()
        self.says_its_places = False
        """Whether a graph of the program runs, whose nodes have places of their own in the backward pass too."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch._C._get_dispatch_mode(FAKE) is not None:
            with without_messages():
                return func(*args, **(kwargs or {}))  # how a DTensor asks for the layout of a result
        if types and any(map(_has_behaviour, types)):
            return NotImplemented  # a DTensor comes down to its parts and collectives, which arrive here
        if self.tape.phase == "backward" and not self.says_its_places:
            self._place_backward_step()
        with torch._C._AutoDispatchBelowAutograd():
            if autocast.converts_inside(func, args, kwargs or {}):
                raise DifferentiationRefused(AutocastActive(str(func).removesuffix(".default")))
            with autocast.suspended():
                return self._record(func, args, kwargs or {})

    def observe(self, numbers: Any) -> Any:
        """Numbers that torch computed, as the sizes that they are for every call. Of nested data the numbers in it."""
        return numbers if self.trail is None else self.trail.observe(numbers, self.tape)

    def layout(self, tensor: torch.Tensor) -> tuple[Any, Any]:
        """Its sizes and strides, as those that they are for every call."""
        sizes, strides = tuple(tensor.shape), tensor.stride()
        return (sizes, strides) if self.trail is None else self.trail.observe_layout(sizes, strides, self.tape)

    def tell_apart(self, are_different: bool, is_sure: bool) -> None:
        """Raises `DifferentiationRefused` where what is one thing here is not at other sizes."""
        if self.trail is not None:
            self.trail.tell_apart(are_different, is_sure)

    def enter_node(self, origin: Origin) -> None:
        """The operators that follow come from this Torch IR node."""
        self._cover_sequence_numbers()
        self.tape.origin = origin

    def start_backward(self) -> None:
        self._cover_sequence_numbers()
        self.tape.phase = "backward"
        self.read.clear()  # what a backward pass of the program's own read is not read again

    def _cover_sequence_numbers(self) -> None:
        missing = torch._C._autograd._get_sequence_nr() - self._sequence_start - len(self.origins)
        self.origins += [self.tape.origin] * missing

    def _place_backward_step(self) -> None:
        node = torch._C._current_autograd_node()
        if node is not None:
            position = node._sequence_nr() - self._sequence_start
            if 0 <= position < len(self.origins):
                self.tape.origin = self.origins[position]

    def note_kept(self, tensor: torch.Tensor) -> tuple[torch.Tensor, int, Contents | None]:
        """Autograd keeps this tensor for its backward pass: it must not be changed until then. With what it holds now."""
        cell, contents = self.memory.cell(tensor), None
        if cell is not None:
            self.kept[id(cell)] = cell.writes
            if self.counted:
                self.first_kept.setdefault(id(cell), tuple((i, h._version - start) for i, h, start in self.counted))
            contents = self.memory.contents(tensor)
        return tensor, tensor._version, contents

    def note_read(self, kept: tuple[torch.Tensor, int, Contents | None]) -> torch.Tensor:
        """The backward pass reads what autograd kept. Hooks take the place of autograd's look at versions: what was changed in
        place since is given as it was, and noted: eager raises. What wrote through `.data` counts no version, and is read as in eager."""
        tensor, version, contents = kept
        cell = self.memory.cell(tensor)
        if cell is not None:
            self.read.add(id(cell))
        if contents is None or tensor._version == version:
            return tensor
        if self.tape.phase == "forward":
            raise DifferentiationRefused(OperatorFailed("backward", "what it reads was written to since"))
        self.overwritten.append((self._overwritten(tensor, version, contents), torch._C._current_autograd_node()))
        return self.wrap(self.memory.read_then(contents))

    def _overwritten(self, tensor: torch.Tensor, version: int, contents: Contents) -> Overwritten:
        """A function that keeps its own result is the one that the error names, else the one that the tensor comes of by now."""
        node = torch._C._current_autograd_node()
        is_own = node is not None and node._sequence_nr() == contents.maker
        function = node if is_own else tensor.grad_fn
        name = "" if function is None else type(function).name(function)
        layout = replace(self.memory.read_then(contents).layout, sizes=self.layout(tensor)[0])
        return Overwritten(layout, name, tensor.output_nr, version, tensor._version, contents.cell.input_index)

    def is_read(self, tensor: torch.Tensor) -> bool:
        return id(self.memory.cell(tensor)) in self.read

    def is_kept(self, tensor: torch.Tensor) -> bool:
        """Whether eager's backward pass reads the memory of `tensor`, as it is now."""
        cell = self.memory.cell(tensor)
        return cell is not None and self.kept.get(id(cell)) == cell.writes

    def writes_when_kept(self, tensor: torch.Tensor) -> Writes:
        return self.first_kept.get(id(self.memory.cell(tensor)), ())

    # -- recording one operator

    def _record(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        facts = traits(func)
        if facts.kind == "about sizes":
            with torch.utils._python_dispatch._disable_current_modes():
                return func(*args, **kwargs)
        if self.of_tensors and func in self.of_tensors and func not in self.inside:
            result = self._by_given(func, args, kwargs)
            if result is not NotImplemented:
                return result
        if func.namespace == "_c10d_functional" and func.name() == IN_FLIGHT:
            func = torch.ops._c10d_functional.wait_tensor.default
            facts = traits(func)
        concrete = args, kwargs
        args, kwargs = self.observe(concrete)
        if self.trail is not None and self.trail.others:  # elsewhere numbers are numbers
            args, kwargs = with_known_dimensions(func, args, kwargs)
        mutate = MUTATIONS.get(func)
        if mutate is not None:
            return mutate(self, *args, **kwargs)
        if facts.kind == "plain":
            if func in _PHASES_CHECKED and _has_phases(func, concrete[0][0]):
                raise DifferentiationRefused(DataDependentResult(func.name().replace("::", ".")))
            if has_no_such_dimension(func, concrete[0]):
                raise DifferentiationRefused(OperatorFailed(str(func).removesuffix(".default"), "a dimension is out of range"))
            if func is _CONVERSION and type(args[0]) in WIDEST:  # `vmap` gives a number its type
                args = (self._number_as_tensor(args[0], WIDEST[type(args[0])]), *args[1:])
            result = self.builder.op(func, *self.values(args), **self.keywords(kwargs))
            if self.trail is not None:
                self.trail.step(func, result)
            return self.wrap(result)
        if facts.kind in ("view", "same"):
            return self._view(func, facts, args, kwargs)
        if facts.kind == "mutating" and is_filling(func):
            return self._fill(func, facts.functional, args[0], args[1:], kwargs)
        if facts.kind == "mutating" and facts.functional is None and is_of_program(func):
            return written_operators.written(self, func, facts, args, kwargs)
        if facts.kind == "mutating":
            return self._mutate(func, facts, args, kwargs)
        if facts.kind == "reading":
            raise DifferentiationRefused(DataDependentResult(func.name().replace("::", ".")))
        with self:
            result = func.decompose(*concrete[0], **concrete[1])
        if result is NotImplemented:
            raise DifferentiationRefused(OperatorFailed(str(func), "it has no decomposition"))
        return result

    def _rule_of(self, func: Any, otherwise: Callable[..., Any] | None) -> Callable[..., Any]:
        """A decomposition of tensors, for an operator that another one is decomposed into."""

        def decompose(builder: StepBuilder, *arguments: Any, **keywords: Any) -> Any:
            result = NotImplemented
            if func not in self.inside:
                named = {name: self.wrap(value) for name, value in keywords.items()}
                result = self._by_given(func, self.wrap(arguments), named)
            if result is NotImplemented:
                return NotImplemented if otherwise is None else otherwise(builder, *arguments, **keywords)
            return self.value(result) if isinstance(result, torch.Tensor) else tuple(self.values(result))

        return decompose

    def _by_given(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """By the decomposition that was given for it; what leads back to the operator itself is left to ours."""
        self.inside.add(func)
        try:
            with self:
                return self.of_tensors[func](*args, **kwargs)
        finally:
            self.inside.discard(func)

    def _view(self, func: Any, facts: Traits, args: Any, kwargs: dict[str, Any]) -> Any:
        source = self._known(args[0]) if isinstance(args[0], torch.Tensor) else self._number_as_tensor(args[0])
        refuse_symbols(func, (args[1:], kwargs))
        result = call_meta_kernel(func, (source, *args[1:]), kwargs)
        arguments = in_order(func, args, kwargs)[1:]
        if self.tape.phase == "backward":
            self.viewed |= {id(view): (view, source) for view in ([result] if isinstance(result, torch.Tensor) else result)}
        if isinstance(result, torch.Tensor):
            if facts.kind == "same":
                self.memory.add_same(result, source)
            elif func is not aten.as_strided.default:  # relative to the storage, not to `source`
                self.memory.add_view(result, source, ViewRecipe(func, arguments))
            return result
        recipe = single_views(func, self.observe(tuple(source.shape)), arguments)
        for index, view in enumerate(result):
            if recipe is not None:
                self.memory.add_view(view, source, recipe(index))
        return result

    def _fill(self, func: Any, functional: Any, target: torch.Tensor, arguments: Any, kwargs: dict[str, Any]) -> Any:
        """An in-place random operator, as new contents of its target: from a seed where they are, else eager's own."""
        rest, named = self.values(arguments), self.keywords(kwargs)
        decompose = self.builder.decompositions.get(functional)
        value = NotImplemented if decompose is None else decompose(self.builder, self.value(target), *rest, **named)
        if value is NotImplemented:
            device = self.value(target).device
            sizes, strides = self.layout(target)
            layout = Layout(tuple(sizes), tuple(strides), target.dtype, device)
            place = (list(sizes), list(strides), target.dtype, device)
            (value,) = self.builder.write(filling(func), (*place, *rest), named, [layout])
        store(self, target, value, func.name().replace("::", "."))
        return target

    def _mutate(self, func: Any, facts: Traits, args: Any, kwargs: dict[str, Any]) -> Any:
        names = [argument.name for argument in func._schema.arguments]
        defaults = {a.name: a.default_value for a in func._schema.arguments if a.default_value is not None}
        bound = defaults | dict(zip(names, args, strict=False)) | kwargs
        if facts.functional is None:
            raise DifferentiationRefused(
                UnsupportedMutation(func.name().replace("::", "."), "it has no functional form")
            )
        targets = [bound[name] for name in facts.writes]
        lists = len(targets) == 1 and isinstance(targets[0], (list, tuple))
        if lists and len(targets[0]) > 1 and write_what_others_have(bound.values(), targets[0]):
            return self._mutate_in_turn(func, facts, bound, targets[0])
        inputs = {n: v for n, v in bound.items() if not (facts.is_out and n in facts.writes)}
        if facts.is_out and "dtype" in names and inputs.get("dtype") is None:
            inputs["dtype"] = targets[0].dtype  # what is summed is of the type that it is written to
        positional, keywords = _split(facts.functional, inputs)
        if facts.is_out:
            keywords |= self._told_by(targets[0], facts.functional, names)
        result = self.builder.op(facts.functional, *self.values(positional), **self.keywords(keywords))
        results = result if isinstance(result, tuple) else (result,)
        own = sum(each.alias_info is None for each in func._schema.returns)
        results, made = results[own:], self.wrap(results[:own])
        for target, value in zip(targets[0] if lists else targets, results, strict=True):
            store(self, target, value, func.name().replace("::", "."))
        if lists:  # the kernels count these writes, and autograd above them does not
            torch.autograd.graph.increment_version(targets[0])
            return None
        returned = (made or tuple(targets))[: len(func._schema.returns)]
        return returned[0] if len(returned) == 1 else returned

    def _mutate_in_turn(self, func: Any, facts: Traits, bound: dict[str, Any], targets: list[torch.Tensor]) -> None:
        """Of lists of tensors that lie in each other: one is written before the next is read, as eager's loop over them does."""
        count = len(targets)
        if any(isinstance(value, torch.Tensor) and value.dim() for value in bound.values()):
            raise DifferentiationRefused(UnsupportedMutation(func.name().replace("::", "."), "numbers for its tensors lie in one tensor"))
        for at in range(count):
            own = {n: [v[at]] if isinstance(v, (list, tuple)) and len(v) == count else v for n, v in bound.items()}
            self._mutate(func, facts, (), own)

    def _told_by(self, target: Any, functional: Any, names: list[str]) -> dict[str, Any]:
        """What a function that makes a tensor is told, where it fills one that is there."""
        asked = {argument.name for argument in functional._schema.arguments}.difference(names)
        return {name: getattr(self.value(target), name) for name in ("dtype", "device") if name in asked}

    def keywords(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        kwargs = {
            name: self.values(value) for name, value in kwargs.items() if name not in ("pin_memory", "non_blocking")
        }
        if kwargs.get("device") == META:
            kwargs["device"] = self.main_device
        return kwargs

    # -- handles and values

    def values(self, data: Any) -> Any:
        """Values in place of tensors, numbers in place of symbols."""
        if isinstance(data, torch.Tensor):
            return self.memory.read(self._known(data))
        if isinstance(data, (list, tuple)):
            return [item if type(item) in PLAIN else self.values(item) for item in data]
        return number_of(data)

    def value(self, tensor: torch.Tensor) -> Value:
        return self.memory.read(self._known(tensor))

    def device_type_of(self, tensor: torch.Tensor) -> str:
        part = getattr(tensor, "_local_tensor", tensor) if comes_down_itself(tensor) else tensor
        return self.value(part).device.type

    def wrap(self, result: Any) -> Any:
        """Tensors of their own memory, holding the values given."""
        if isinstance(result, (tuple, list)):
            return tuple(self.wrap(item) for item in result)
        if not isinstance(result, Value):
            return result
        if self.trail is None and result.layout.varies:  # the stand-in would say the sizes at hand
            raise DifferentiationRefused(VaryingNumberNeeded("a size", names_of(sizes_in(result))))
        with torch._C._DisableTorchDispatch():  # it is no operator of the program's
            tensor = result.meta()
        self.memory.add(tensor, result)
        return tensor

    def _known(self, tensor: torch.Tensor) -> torch.Tensor:
        if self.memory.cell(tensor) is None:
            if tensor.device == META:
                raise DifferentiationRefused(OperatorFailed("a meta tensor", "it was made outside the graph"))
            return self.constant(tensor)
        return tensor

    def _number_as_tensor(self, number: complex, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Autograd takes views of numbers that were operands (the conjugate of `1j * x`), which come here as Python's own."""
        with torch.utils._python_dispatch._disable_current_modes():
            tensor = torch.scalar_tensor(number, dtype=torch.complex128 if isinstance(number, complex) else dtype)
        return self.constant(tensor)

    def constant(self, tensor: torch.Tensor) -> torch.Tensor:
        """A real tensor that is part of the program, such as `torch.tensor([1, 2])`. It is the same for every call."""
        name = f"constant_{len(self.tape.constants)}"
        with torch.utils._python_dispatch._disable_current_modes():
            constant = self.tape.constants[name] = tensor.detach().clone()
            contents = None if self.trail is None else _sum_of_contents(constant)
        varying = names_of(sizes_in(self.observe([contents])))
        if varying:
            raise DifferentiationRefused(VaryingNumberNeeded("what a tensor holds", varying))
        value = Value(layout_of(self.tape.constants[name], tensor.device), name=name)
        return self.wrap(value)

    def placeholder(self, layout: Layout, offset: int, name: str) -> tuple[Value, torch.Tensor]:
        """The value of an input, and the meta tensor that stands for it."""
        value = Value(layout if layout.device != META else replace(layout, device=self.main_device), name=name)
        if not offset:
            return value, self.wrap(value)
        sizes, strides = layout.at_hand().sizes, layout.at_hand().strides
        extent = elements_spanned(sizes, strides)
        with torch.utils._python_dispatch._disable_current_modes():
            storage = torch.empty(offset + extent, dtype=value.dtype, device=META).untyped_storage()
            handle = torch.empty(0, dtype=value.dtype, device=META)
            handle.set_(storage, offset, sizes, strides)
        self.memory.add(handle, value)
        return value, handle

    def as_view(self, handle: torch.Tensor) -> torch.Tensor:
        """All of what an input stands for, as a view to autograd. It is no operator of the program's."""
        with torch._C._DisableTorchDispatch(), torch.utils._python_dispatch._disable_current_modes():
            return torch.ops.aten.alias(handle)


def in_order(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """All arguments in the schema's order, as far as any is given by name."""
    if not kwargs:
        return tuple(args)
    rest = func._schema.arguments[len(args) :]
    return (*args, *(kwargs.get(argument.name, argument.default_value) for argument in rest))


def _split(func: Any, bound: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    positional, keywords = [], {}
    for argument in func._schema.arguments:
        if argument.name in bound:
            if argument.kwarg_only:
                keywords[argument.name] = bound[argument.name]
            else:
                positional.append(bound[argument.name])
    return positional, keywords


def _sum_of_contents(tensor: torch.Tensor) -> int:
    """Differs as good as always where contents do."""
    octets = tensor.reshape(-1).view(torch.uint8).long()
    return int((octets * torch.arange(1, len(octets) + 1, device=octets.device)).sum())


def _has_phases(func: Any, matrix: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and matrix.requires_grad and (func is aten.linalg_eig.default or matrix.is_complex())
