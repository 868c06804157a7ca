"""A call of a `torch.autograd.Function` of the program: both of its passes are captured, into graphs of their own.

    y = Sine.apply(x)        forward(ctx, x) is followed as any function, without gradients; then backward(ctx, gradient),
                             with a tensor for each gradient to come; one node stands for the two

The nodes of both are made in the one graph of the capture, where the program's own values are, and copied from there. What was
copied leaves the graph at its end (`GraphBuilder.leave_out`).

A backward pass may be differentiated again. So what has no part in that is said in its graph: a custom function called there is a node,
with its own backward pass, and what is computed under `no_grad` is detached (`Unrecorded`).
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import fx

from dynascope.autograd_functions import CustomFunction, NameRead, OwnBackward, Place
from dynascope.capture.calls.arguments import Arguments, Keywords, is_none
from dynascope.capture.calls.python import bind
from dynascope.capture.calls.registry import class_method_meaning, meaning
from dynascope.capture.calls.tensors import apply_function, apply_method
from dynascope.capture.earlier import Earlier
from dynascope.capture.histories import storage_of
from dynascope.capture.metadata import can_require_grad
from dynascope.capture.protocols import attributes, gradient_requirements
from dynascope.capture.raising import raises_unread
from dynascope.capture.read_later import (
    BY_NAME,
    SUBSCRIPT,
    is_looked_up,
    is_reached_by_name,
    may_change,
    name_read,
    value_given,
)
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    FunctionValue,
    InstanceValue,
    NotConstant,
    SymbolicNumber,
    TensorValue,
    TupleValue,
    Value,
    boolean,
    constant_of,
)
from dynascope.meta_kernels.graph_modules import placeholder

if TYPE_CHECKING:
    from dynascope.capture.frames import Frame
    from dynascope.capture.machine import Machine
    from dynascope.frame.instructions import Instruction

T = TypeVar("T")
FunctionCtx = torch.autograd.function.FunctionCtx
OWN_SETUP = torch.autograd.Function.setup_context


SAVED, ASKED_FOR, ASKED_AT = "what was saved", "saved_tensors", "where it is asked for"
"""Attributes of a context: the first is there for the backward pass, and has a name that no program writes; the others from when that
asks for it."""


OF_THE_CAPTURE = frozenset((SAVED, ASKED_FOR, ASKED_AT, "to_save", "non_differentiable", "dirty_tensors", "materialize_grads"))


class Context(FunctionCtx):
    """What stands for `ctx`: torch's methods of it keep what they are given as attributes, and the rest of it is not known."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


@meaning(Context.__getattr__)
def other_attribute(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    name = machine.object_of(arguments[1])
    attribute = machine.realize(arguments[0]).attributes
    if name == ASKED_FOR and SAVED in attribute:
        attribute[ASKED_FOR], attribute[ASKED_AT] = attribute[SAVED], ConstantValue(machine.user_stack())
        return attribute[SAVED]
    if name in _OF_AUTOGRAD:
        raise Break(ForeignCall(f"ctx.{name}", "only autograd knows the context that it belongs to"))
    raise machine.throw(AttributeError, f"'Function' object has no attribute {name!r}")


_OF_AUTOGRAD = frozenset(
    name for cls in (torch._C._FunctionBase, torch.autograd.function.BackwardCFunction) for name in dir(cls)
)


@class_method_meaning(torch.autograd.Function, "apply")
def apply(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    cls = machine.realize(arguments[0])
    if isinstance(cls, ConstantValue) and cls.value.setup_context is not OWN_SETUP:
        arguments, keywords = [cls, *bound(machine, cls, arguments[1:], keywords)], {}
    given = [machine.realize(argument) for argument in arguments[1:]]
    if keywords or not isinstance(cls, ConstantValue):
        raise Break(ForeignCall("apply", "its arguments are given by name"))
    return Call(machine, cls, given).run()


def bound(machine: Machine, cls: ConstantValue, arguments: Arguments, keywords: Keywords) -> Arguments:
    """What `forward` is called with, and `setup_context` is told of: defaults too, and what is given by name in its place."""
    function = machine.realize(attributes.get_now(machine, cls, "forward"))
    if not isinstance(function, FunctionValue):
        return arguments
    if function.code.co_kwonlyargcount or function.code.co_flags & inspect.CO_VARKEYWORDS:
        raise Break(ForeignCall("apply", "its arguments are given by name"))
    slots = bind(machine, function, arguments, keywords)
    names = function.code.co_varnames[: function.code.co_argcount]
    return [*(slots[name] for name in names), *arguments[len(names) :]]


class Call:
    """One call of a custom function, on its way to being a node."""

    def __init__(self, machine: Machine, cls: ConstantValue, given: list[Value]) -> None:
        self.machine, self.cls, self.given = machine, cls, given
        self.name = cls.value.__name__
        gradient_requirements.check_unchanged(machine, given)
        self.context = InstanceValue(Context)
        self.tangents: list[fx.Node] = []
        self.names: dict[Any, NameRead] = {}
        self.unrecorded, self.ends_here = Unrecorded(self), False
        self.is_once_differentiable = cls.value.backward.__globals__ is vars(torch.autograd.function)
        around: tuple[Call, ...] = machine.backward_passes
        if around and around[-1].unrecorded.depth:
            around = ()
        elif len(around) > 1:
            around[-1].ends_here = True
            around = ()
        self.around = around
        self.may_record = torch.is_grad_enabled() or bool(around)
        self.records = self.may_record and any(map(self.has_history, given))

    def has_history(self, value: Value) -> bool:
        """In a backward pass whatever can have one: it has where that pass is differentiated."""
        return requires_grad(value) or (
            bool(self.around) and isinstance(value, TensorValue) and can_require_grad(value.example)
        )

    def run(self) -> Value:
        needs = [boolean(self.records and self.has_history(value)) for value in self.given]
        self.context.attributes["needs_input_grad"] = TupleValue(tuple(needs))
        start = self.last_node()
        with self.without_gradients():
            with self.backward_passes(()):  # what a forward pass calls is never recorded
                result = self.forward()
            results = [self.machine.realize(item) for item in result.items] if is_tuple(result) else [result]
            if not self.records and self.may_record and any(map(self.is_view_of_argument, results)):
                raise self.cannot("it returns a view of an argument, which autograd lets nobody change in place")
            if not self.records or not any(isinstance(value, TensorValue) for value in results):
                return self.apart(result)
            middle = self.last_node()
            gradients = self.backward(results)
        forward = self.nodes_between(start, middle)
        backward = self.nodes_between(middle, self.last_node())
        custom, operands = self.custom(forward, backward, results, gradients, is_tuple(result))
        self.machine.graph.leave_out([*forward, *self.tangents, *backward])
        made = apply_function(self.machine, custom, operands, {})
        return self.in_place_of(result, results, made)

    # The two passes

    def forward(self) -> Value:
        """The result of `forward`, as the program would get it from a plain call."""
        machine = self.machine
        function = attributes.get_now(machine, self.cls, "forward")
        if self.cls.value.setup_context is OWN_SETUP:
            result = machine.realize(machine.call_now(function, [self.context, *self.given]))
        else:
            result = machine.realize(machine.call_now(function, self.given))
            setup = attributes.get_now(machine, self.cls, "setup_context")
            machine.call_now(setup, [self.context, TupleValue(tuple(self.given)), result])
        if "dirty_tensors" in self.context.attributes:
            raise self.cannot("it marks an argument as changed in place")
        return result

    def backward(self, results: list[Value]) -> list[Value]:
        """The gradients that `backward` gives for those of the results: one for each argument."""
        machine, attribute = self.machine, self.context.attributes
        attribute[SAVED] = self.context_tuple("to_save")
        tensors = [value for value in results if isinstance(value, TensorValue)]
        if not self.materializes() and len(tensors) > 1:
            raise self.cannot("it has several results, and asks in its backward pass whether a gradient is there")
        tangents = [self.tangent(value) if isinstance(value, TensorValue) else NONE for value in results]
        function = attributes.get_now(machine, self.cls, "backward")
        before = Earlier(machine, [self.context, function])
        try:
            with self.backward_passes(() if self.is_once_differentiable else (*self.around, self)), self.reading_later():
                result = machine.realize(machine.call_now(function, [self.context, *tangents]))
        except Raised as raised:
            raise self.cannot(f"its backward pass raises {raised.value.python_type.__name__}") from None
        if before.is_changed(machine):
            raise self.cannot("its backward pass changes objects of the program")
        gradients = [machine.realize(item) for item in (result.items if is_tuple(result) else (result,))]
        if len(gradients) < len(self.given) or not all(map(is_none, gradients[len(self.given) :])):
            raise self.cannot("its backward pass does not return one gradient for each argument")
        for gradient in gradients:
            if not isinstance(gradient, TensorValue) and not is_none(gradient):
                raise self.cannot("its backward pass returns something other than tensors")
        return gradients[: len(self.given)]

    def tangent(self, value: TensorValue) -> TensorValue:
        """A gradient to come: laid out as the result."""
        node = self.machine.graph.call("call_function", torch.empty_like, (value.node,), {}, f"gradient_of_{value.node.name}")
        self.tangents.append(node)
        example = self.machine.in_plain_mode(lambda: torch.empty_like(value.example, requires_grad=False))
        return self.machine.tensor(node, example, value.device)

    def materializes(self) -> bool:
        return self.context.attributes.get("materialize_grads", ConstantValue(True)).value is not False

    def context_tuple(self, name: str) -> TupleValue:
        value = self.context.attributes.get(name, NONE)
        if isinstance(value, ConstantValue):
            return TupleValue(tuple(map(ConstantValue, value.value or ())))
        return value

    def without_gradients(self) -> AbstractContextManager[None]:
        """Both passes run without recording, as autograd runs them."""
        return meanwhile(self.machine, torch._C._set_grad_enabled, torch.is_grad_enabled(), False)

    def backward_passes(self, passes: tuple[Call, ...]) -> AbstractContextManager[None]:
        machine = self.machine
        return meanwhile(machine, partial(setattr, machine, "backward_passes"), machine.backward_passes, passes)

    def reading_later(self) -> AbstractContextManager[None]:
        def check(result: Value | None, frame: Frame, instruction: Instruction) -> None:
            value = value_given(result, frame)
            if value is None:
                return
            kind = value.python_type.__name__
            is_entry = instruction.operation == SUBSCRIPT and frame in looked_up
            if is_entry:
                looked_up.remove(frame)
            if may_change(value):
                if is_looked_up(value, frame) and (is_entry or instruction.operation in BY_NAME):
                    looked_up.append(frame)
                    return
                raise self.cannot(f"its backward pass reads an object of {kind} from outside, which may hold something else by then")
            if is_entry and name_read(value, self.machine.values) is None:
                raise self.cannot("its backward pass reads an entry of a dictionary from outside, which may be another by then")
            if isinstance(value, SymbolicNumber) and value.source is not None and instruction.operation in BY_NAME:
                raise self.cannot(f"its backward pass reads {value.source.expression()}, which changes, and may be another number by then")
            by_name = is_entry or is_reached_by_name(frame)
            if isinstance(value, TensorValue) and not by_name and self.is_held(value):
                return
            if (name := name_read(value, self.machine.values)) is not None:
                self.names.setdefault(value.source, name)

        machine = self.machine
        looked_up: list[Frame] = []  # whose next subscript reads of a dictionary from outside
        return meanwhile(machine, partial(setattr, machine, "check_read"), machine.check_read, check)

    def is_held(self, value: Value) -> bool:
        """Whether the backward pass gets it from the context, as it was given to the function."""
        held = (self.machine.realize(item) for item in self.context.attributes.values())
        return any(value in (item.items if is_tuple(item) else (item,)) for item in held)

    def cannot(self, why: str) -> Break:
        return Break(ForeignCall(f"{self.name}.apply", why))

    # From nodes of the capture's graph to graphs of their own

    def last_node(self) -> fx.Node:
        """The start of the list where the graph is still empty."""
        graph = self.machine.graph.graph
        return next(iter(reversed(graph.nodes)), graph._root)

    def nodes_between(self, start: fx.Node, end: fx.Node) -> list[fx.Node]:
        """The operators made after `start`, up to `end`. Inputs of the graph, and numbers made of them, stay where they are."""
        found, node = [], end
        while node is not start:
            stays = node.op == "placeholder" or "size" in node.meta or node in self.tangents
            if not stays and not self.machine.graph.is_left_out(node):
                found.append(node)
            node = node.prev
        return found[::-1]

    def custom(
        self,
        forward: list[fx.Node],
        backward: list[fx.Node],
        results: list[Value],
        gradients: list[Value],
        has_several: bool,
    ) -> tuple[CustomFunction, list[Value]]:
        """The node's target and its operands: the arguments that are tensors, then what else the two passes read."""
        tensors = [value for value in results if isinstance(value, TensorValue)]
        given = [value for value in self.given if isinstance(value, TensorValue)]
        saved = [
            item
            for item in map(self.machine.realize, self.context_tuple("to_save").items)
            if isinstance(item, TensorValue)
        ]
        own = {*backward, *self.tangents}
        ends = [gradient.node for gradient in gradients if isinstance(gradient, TensorValue)]
        read = list(dict.fromkeys(n for n in (*read_by(backward), *ends) if n not in own))
        # Who asks for what was saved is told where it was freed or changed, all of it, whatever is read of it then.
        asked = [value.node for value in saved] if ASKED_FOR in self.context.attributes else []
        kept = list(dict.fromkeys(asked))
        count = len(kept)
        kept += [n for n in read if n not in kept]
        may_run = bool(self.names) or self.ends_here  # the program's own pass
        if may_run:
            kept += [n for n in dict.fromkeys(value.node for value in (*saved, *self.tensors_on_context())) if n not in kept]
        outside = [*read_by(forward), *(value.node for value in tensors), *kept]
        known = {value.node: value for value in given}
        lifted = [n for n in dict.fromkeys(outside) if n not in forward and n not in known]
        self.check_writes(forward, backward, {*lifted, *(value.node for value in given)})
        operands = [*(value.node for value in given), *lifted]
        by_argument = (g for value, g in zip(self.given, gradients, strict=True) if isinstance(value, TensorValue))
        for_operands = [g.node if isinstance(g, TensorValue) else None for g in by_argument] + [None] * len(lifted)
        if raises_unread(forward, [*(value.node for value in tensors), *kept]):
            raise self.cannot("an operator in it may raise, and nothing reads its result")
        unmarked = [id(self.machine.realize(value)) for value in self.context_tuple("non_differentiable").items]
        own = self.own_backward(results, kept) if may_run else None
        of_tensors = [name.name for name in self.names.values() if name.is_of_tensor]
        if of_tensors and own is not None and own.attributes is None:
            raise self.cannot(f"its backward pass reads the tensor {of_tensors[0]}, whose name may lead to another one by then")
        custom = CustomFunction(
            self.name,
            self.cls.value.__module__,
            copied(forward, operands, [*(value.node for value in tensors), *kept]),
            copied(backward, [*self.tangents, *kept], for_operands, self.unrecorded.nodes),
            len(tensors),
            count,
            has_several,
            tuple(at for at, value in enumerate(tensors) if id(value) in unmarked),
            self.materializes(),
            self.is_once_differentiable,
            self.ends_here,
            self.asked_at(),
            tuple(self.names.values()),
            own,
            weakref.ref(self.cls.value._backward_cls),
        )
        return custom, [known.get(node) or value_of(self, node) for node in operands]

    def tensors_on_context(self) -> list[TensorValue]:
        values = map(self.machine.realize, self.context.attributes.values())
        return [value for value in values if isinstance(value, TensorValue)]

    def own_backward(self, results: list[Value], kept: list[fx.Node]) -> OwnBackward:
        """What a context can be made of again, for the program's own pass."""
        saved = [self.machine.realize(item) for item in self.context_tuple("to_save").items]
        places = [kept.index(item.node) for item in saved if isinstance(item, TensorValue) and item.node in kept]
        attributes: dict[str, int | tuple[Any]] | None = {}
        for name, item in self.context.attributes.items():
            value = self.machine.realize(item)
            if name in OF_THE_CAPTURE:
                continue
            if isinstance(value, TensorValue) and value.node in kept:
                attributes[name] = kept.index(value.node)
            elif (constant := constant_of(value)).__class__ is not NotConstant:
                attributes[name] = (constant,)
            else:
                attributes = None
                break
        arguments = tuple(at for at, value in enumerate(self.given) if isinstance(value, TensorValue))
        are_tensors = tuple(isinstance(value, TensorValue) for value in results)
        known = attributes if len(places) == len(saved) else None
        return OwnBackward(weakref.ref(self.cls.value), tuple(places), known, are_tensors, arguments)

    def asked_at(self) -> tuple[Place, ...]:
        """The program's frames from the backward pass to where it first reads what was saved; none where that is a library's."""
        stack = self.context.attributes.get(ASKED_AT)
        frames = stack.value[len(self.machine.user_stack()) :] if isinstance(stack, ConstantValue) else ()
        spans = [(frame.function, frame.span) for frame in frames]
        if any(span.column is None or span.end_column is None for _, span in spans):
            return ()
        return tuple(Place(s.file, name, s.line, s.last_line, s.column or 0, s.end_column or 0) for name, s in spans)

    def check_writes(self, forward: list[fx.Node], backward: list[fx.Node], outside: set[fx.Node]) -> None:
        """Tensors from outside keep what they hold: a change inside a custom function has rules of its own."""
        storages = {storage_of(node) for node in outside} - {None}
        for tensor in self.machine.tensor_writes:
            if tensor.node in outside or tensor.example.untyped_storage()._cdata in storages:
                if any(node in self.machine.graph.kept for node in (*forward, *backward)):
                    raise self.cannot("it changes a tensor from outside in place")

    # Results

    def apart(self, result: Value) -> Value:
        """Without gradients: what was called is the function, but an argument that it returns comes back as another tensor, and one that
        requires grad as a tensor that does not."""
        if is_tuple(result):
            return TupleValue(tuple(map(self.apart, map(self.machine.realize, result.items))))
        if any(result is value for value in self.given) and isinstance(result, TensorValue):
            if requires_grad(result):
                return apply_method(self.machine, torch.Tensor.detach, [result], {})
            return apply_function(self.machine, torch.Tensor.view_as, [result, result], {})
        return result

    def is_view_of_argument(self, result: Value) -> bool:
        if not isinstance(result, TensorValue) or not result.example._is_view() or any(result is value for value in self.given):
            return False
        memory = storage_of(result.node)
        return any(storage_of(value.node) == memory for value in self.given if isinstance(value, TensorValue))

    def in_place_of(self, result: Value, results: list[Value], made: Value) -> Value:
        """The result with the node's tensors where those of the plain call were."""
        made = self.machine.realize(made)
        if not is_tuple(result):
            return made if isinstance(results[0], TensorValue) else result
        tensors = iter(made.items)
        items = [next(tensors) if isinstance(value, TensorValue) else value for value in results]
        return TupleValue(tuple(items))


@contextmanager
def meanwhile(machine: Machine, change: Callable[[T], Any], before: T, now: T) -> Iterator[None]:
    """What `change` sets is another for a while, also when steps are undone."""
    change(now)
    machine.journal.record(lambda: change(before))
    try:
        yield
    except Break:  # the step is undone as a whole
        raise
    except Raised:
        change(before)
        raise
    change(before)
    machine.journal.record(lambda: change(now))


class Unrecorded:
    """What a backward pass computes under `no_grad`, where it would be recorded if that pass is differentiated."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.depth = self.writes = 0
        self.start: fx.Node | None = None
        self.nodes: set[fx.Node] = set()

    def enter(self) -> None:
        if not self.depth:
            self.start, self.writes = self.call.last_node(), len(self.call.machine.tensor_writes)
        self.depth += 1

    def leave(self) -> None:
        self.depth -= 1
        if self.depth or self.start is None:
            return
        if len(self.call.machine.tensor_writes) != self.writes:
            raise self.call.cannot("its backward pass changes a tensor in place under no_grad")
        self.nodes.update(self.call.nodes_between(self.start, self.call.last_node()))


def copied(
    nodes: list[fx.Node], inputs: list[fx.Node], outputs: Iterable[fx.Node | None], unrecorded: Container[fx.Node] = ()
) -> fx.GraphModule:
    """A graph of these nodes, with the tensors of those that are `unrecorded` detached. An input given twice is the first one."""
    graph, known = fx.Graph(), {}
    for at, node in enumerate(inputs):
        given = placeholder(graph, f"{node.name}_{at}" if node in known else node.name)
        given.meta = dict(node.meta)
        known.setdefault(node, given)
    for node in nodes:
        known[node] = graph.node_copy(node, known.__getitem__)
        if node in unrecorded and isinstance(node.meta.get("example_value"), torch.Tensor):
            known[node] = graph.call_function(torch.Tensor.detach, (known[node],))
            known[node].meta = dict(node.meta)
    graph.output(tuple(None if node is None else known[node] for node in outputs))
    return fx.GraphModule(torch.nn.Module(), graph)


class Followed(Protocol):
    """A function that becomes a graph of its own."""

    machine: Machine

    def cannot(self, why: str) -> Break: ...


def value_of(followed: Followed, node: fx.Node) -> Value:
    """A value for a node of the capture that the function reads and was not given as an argument."""
    if "size" in node.meta:
        return SymbolicNumber(node.meta["size"], followed.machine.graph)
    example = node.meta["example_value"]
    if not isinstance(example, torch.Tensor):
        raise followed.cannot("it reads several results of an operator outside")
    return TensorValue(node, example, node.meta["device"])


def read_by(nodes: list[fx.Node]) -> Iterator[fx.Node]:
    for node in nodes:
        yield from node.all_input_nodes


def requires_grad(value: Value) -> bool:
    return isinstance(value, TensorValue) and value.example.requires_grad


def is_tuple(value: Value) -> bool:
    return isinstance(value, TupleValue) and value.python_type is tuple
