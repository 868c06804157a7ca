"""`torch.func`: what a transform is applied to is followed once (in chunks, for each), and becomes the graph of one node.

    vmap(f)(x)       f is followed for a row of x; the node maps its graph over all rows
    grad(f)(x)       f is followed for x; the node differentiates its graph

A transformed function that the program makes is a partial one; those made outside are Python that ends in torch's `vmap_impl` and its
like. What f makes in the graph of the capture leaves it at the end, as of a custom function. It changes nothing outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import fx
from torch._functorch import eager_transforms
from torch._functorch import vmap as mapping
from torch.utils._pytree import tree_flatten, tree_unflatten

from dynascope.autograd_functions import gradients as gradients_of
from dynascope.autograd_functions.transforms import Differentiated, Jacobian, Mapped, Pulled, Pushed
from dynascope.capture.calls import equivalents, late_numbers, python
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.autograd_functions import copied, read_by, value_of
from dynascope.capture.calls.registry import MEANINGS_OF_CODE, meaning, object_meaning
from dynascope.capture.calls.tensors import apply_function
from dynascope.capture.effects import changed_tail, changes_of
from dynascope.capture.histories import storage_of
from dynascope.capture.raising import raises_unread
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break
from dynascope.capture.values import (
    NONE,
    ConstantValue,
    DictValue,
    FunctionValue,
    ListValue,
    NotConstant,
    PartialValue,
    TensorValue,
    TupleValue,
    Value,
    constant_of,
)
from dynascope.guards.source import ConstantSource

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

Leaf = Callable[[Value, Any], Value]


class Described(Protocol):
    """What a node calls that says of meta tensors what it gives."""

    def described(self, arguments: Sequence[Any], keywords: Any) -> tuple[torch.Tensor, ...]: ...


def _row_of_none(tensor: torch.Tensor, dim: int, _: int) -> torch.Tensor:
    """What a row would be of a tensor that has none, with the history that it would have."""
    row = tensor.new_zeros([size for at, size in enumerate(tensor.shape) if at != dim % tensor.dim()])
    return row + tensor.sum(dim) if tensor.requires_grad else row


class Body:
    """A function that a transform is applied to, on its way to being a graph."""

    place = "torch.func"

    def __init__(self, machine: Machine, name: str) -> None:
        self.machine, self.name = machine, name
        self.start = next(iter(reversed(machine.graph.graph.nodes)), None)
        self.inputs: list[TensorValue] = []
        """What the transform is about, and what stands for each inside."""
        self.inner: list[TensorValue] = []
        self.nodes: list[fx.Node] = []

    def cannot(self, why: str) -> Break:
        return Break(ForeignCall(f"{self.place}.{self.name}", why))

    # Arguments

    def row(self, value: Value, dim: Any) -> Value:
        """One of what a tensor is mapped over."""
        if not isinstance(value, TensorValue) or not -value.example.dim() <= dim < value.example.dim():
            raise self.cannot("it is mapped over something that has no such dimension")
        first = torch.select if value.example.shape[dim] else _row_of_none
        return self.stand_in(value, first, (value.node, dim, 0), lambda: first(value.example, dim, 0))

    def variable(self, value: Value, _: Any) -> Value:
        """A tensor that is differentiated."""
        if not isinstance(value, TensorValue) or not value.example.is_floating_point():
            raise self.cannot("it differentiates by something other than tensors of floats")
        return self.stand_in(
            value, torch.empty_like, (value.node,), lambda: torch.empty_like(value.example, requires_grad=True)
        )

    def stand_in(self, value: TensorValue, function: Any, arguments: tuple, make: Callable[[], torch.Tensor]) -> Value:
        graph = self.machine.graph
        node = graph.call("call_function", function, arguments, {}, f"inside_{value.node.name}")
        graph.keep(node)
        node.meta["stands_in"] = True
        inside = self.machine.tensor(node, self.machine.in_plain_mode(make), value.device)
        self.inputs.append(value)
        self.inner.append(inside)
        return inside

    # Following

    def follow(self, function: Value, arguments: list[Value], keywords: Keywords | None = None) -> Value:
        machine = self.machine
        written, rewritten = len(machine.written), len(machine.rewritten)
        before, decided = (dict(machine.global_writes), len(machine.said)), machine.both_ways
        earlier = {id(value): held_in(value) for value in machine.written}
        result = machine.realize(machine.call_now(function, arguments, keywords or {}))
        touched = [*machine.written[written:], *machine.rewritten[rewritten:]]
        is_again = self.name == "vjp"  # it was followed for its value before
        as_before = not touched if is_again else all(is_as_before(value, earlier) for value in touched)
        if before != (machine.global_writes, len(machine.said)) or not as_before:
            raise self.cannot("its function changes objects of the program")
        if machine.both_ways != decided:
            raise self.cannot("a tensor decides which way its function goes")
        self.nodes = self.nodes_made()
        self.check_numbers()
        self.check_histories()
        return result

    def nodes_made(self) -> list[fx.Node]:
        graph = self.machine.graph
        own = {value.node for value in self.inner}
        found = []
        for node in reversed(graph.graph.nodes):
            if node is self.start:
                break
            if node.op != "placeholder" and "size" not in node.meta and node not in own and not graph.is_left_out(node):
                found.append(node)
        return found[::-1]

    def check_histories(self) -> None:
        """What comes from outside is without its history in the graph of its own that this becomes."""
        inside = {*self.nodes, *(value.node for value in self.inner)}
        for node in self.nodes:
            if node.target is gradients_of and not inside.issuperset(node.args[0]):
                raise self.cannot("its function differentiates what was made before it")

    def check_numbers(self) -> None:
        """A number out of a tensor stays in the graph of the capture, where what is inside has no contents."""
        inside = {*self.nodes, *(value.node for value in self.inner)}
        for node in inside:
            if any("size" in user.meta or user.op == "placeholder" for user in node.users if user not in inside):
                raise self.cannot("its function takes a number out of a tensor")

    def lifted(self, results: list[TensorValue]) -> list[fx.Node]:
        """What the function reads besides its arguments."""
        own = {*self.nodes, *(value.node for value in self.inner)}
        read = dict.fromkeys((*read_by(self.nodes), *(value.node for value in results)))
        return [node for node in read if node not in own]

    def made(
        self, results: list[TensorValue], target: Callable[[fx.GraphModule, int], Any], more: list[Value]
    ) -> list[Value]:
        """The results of the node. `more` are inputs of the transform that the function does not see."""
        lifted = self.lifted(results)
        graph, operands = self.graph_of(results, lifted), [*self.inputs, *more]
        found = apply_function(
            self.machine, target(graph, len(operands)), [*operands, *(value_of(self, node) for node in lifted)], {}
        )
        return list(self.machine.realize(found).items)

    def graph_of(self, results: list[TensorValue], lifted: list[fx.Node]) -> fx.GraphModule:
        """As a graph of its own, which does all that the function does."""
        self.check_writes(lifted)
        if raises_unread(self.nodes, [value.node for value in results]):
            raise self.cannot("an operator in it may raise, and nothing reads its result")
        return self.taken_out([*(value.node for value in self.inner), *lifted], results)

    def taken_out(self, inputs: list[fx.Node], results: list[TensorValue]) -> fx.GraphModule:
        """Its nodes, which leave the graph of the capture."""
        taken = copied(self.nodes, inputs, [value.node for value in results])
        for node in self.nodes:
            self.machine.graph.keep(node)
        self.machine.graph.leave_out([*(value.node for value in self.inner), *self.nodes])
        return taken

    def between_kernels(self, target: Described, operands: list[Value], results: list[TensorValue]) -> list[Value]:
        """What a node gives that runs as torch's operators, on the devices of these results."""
        machine = self.machine
        examples = machine.in_plain_mode(lambda: target.described([value.example for value in operands], {}))
        nodes, late = tuple(value.node for value in operands), late_numbers.LateResult((), target.described)
        node = late_numbers.late_node(machine, "call_function", target, nodes, {}, None, None, late)
        devices = (result.device for result in results)
        return list(late_numbers.late_parts(machine, node, zip(examples, devices, strict=True)))

    def check_writes(self, lifted: list[fx.Node]) -> None:
        storages = {storage_of(node) for node in (*lifted, *(value.node for value in (*self.inner, *self.inputs)))} - {None}
        written = {node for node in self.nodes if node in self.machine.graph.kept}
        for tensor in self.machine.tensor_writes if written else ():
            if tensor.example.untyped_storage()._cdata in storages:
                raise self.cannot("its function changes a tensor from outside in place")

    def tensors(self, value: Value) -> list[TensorValue]:
        """The tensors in a result, in order."""
        found: list[TensorValue] = []
        rebuilt(self.machine, value, None, lambda leaf, _: found.append(self.checked(leaf)) or leaf)
        return found

    def checked(self, leaf: Value) -> TensorValue:
        if not isinstance(leaf, TensorValue):
            raise self.cannot("its function returns something other than tensors")
        return leaf

    def filled(self, value: Value, items: Iterator[Value]) -> Value:
        """The same structure, with other tensors."""
        return rebuilt(self.machine, value, None, lambda leaf, _: next(items))


def held_in(value: Value) -> list[tuple[Any, Value]] | None:
    """What a dict holds now, in order; None for other things."""
    return [(key, item) for key, (_, item) in value.items.items()] if isinstance(value, DictValue) else None


def is_as_before(value: Value, earlier: dict[int, list[tuple[Any, Value]] | None]) -> bool:
    """Whether an object is the function's own, or holds what it held: `functional_call` puts tensors into a module and back.
    `earlier` is what those held at the start that the program had changed by then."""
    if id(value) in earlier:
        held, now = earlier[id(value)], held_in(value)
        pairs = zip(held or (), now or (), strict=False)
        is_same = all(key == other and one is two for (key, one), (other, two) in pairs)
        return held is not None and now is not None and len(held) == len(now) and is_same
    if value.source is None:
        return True
    if isinstance(value, DictValue):
        return changes_of(value) == ([], [])
    return isinstance(value, ListValue) and changed_tail(value) == []


def rebuilt(machine: Machine, value: Value, told: Any, leaf: Leaf) -> Value:
    """A structure of tuples, lists and dicts with each leaf as `leaf(value, told)` gives it; `told` is a constant of the same
    structure, or one for all of a part."""
    value = machine.realize(value)
    if isinstance(value, (TupleValue, ListValue)):
        each = told if isinstance(told, (tuple, list)) else [told] * len(value.items)
        if len(each) != len(value.items):
            raise Break(ForeignCall("torch.func", "what it is told has another structure than its arguments"))
        items = [rebuilt(machine, item, part, leaf) for item, part in zip(value.items, each, strict=True)]
        return ListValue(items) if isinstance(value, ListValue) else TupleValue(tuple(items), value.cls)
    if isinstance(value, DictValue) and value.instance is None:
        made = DictValue({}, value.cls)
        for key, (known, item) in value.items.items():
            part = told.get(key) if isinstance(told, dict) else told
            made.items[key] = (known, rebuilt(machine, item, part, leaf))
        return made
    return leaf(value, told)


@contextmanager
def with_gradients(machine: Machine) -> Iterator[None]:
    """Inside, gradients are recorded, whatever the program has set outside."""
    before = torch.is_grad_enabled()
    torch._C._set_grad_enabled(True)
    machine.journal.record(lambda: torch._C._set_grad_enabled(before))
    yield
    torch._C._set_grad_enabled(before)
    machine.journal.record(lambda: torch._C._set_grad_enabled(True))


def known(machine: Machine, value: Value) -> Any:
    found = constant_of(machine.known(value))
    if type(found) is NotConstant:
        raise Break(ForeignCall("torch.func", "it is told something that is no constant"))
    return found


# vmap


@meaning(mapping.vmap_impl)
def vmap_impl(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
    function, in_dims, out_dims, randomness, chunk_size, *given = arguments
    if known(machine, chunk_size) is not None:
        if known(machine, randomness) == "same":  # each chunk begins with the same state of the generator
            raise Break(ForeignCall("torch.func.vmap", "it draws the same numbers for each chunk"))
        return equivalents.enter(machine, mapped_in_chunks, arguments, keywords)
    body = Body(machine, "vmap")
    dims = known(machine, in_dims)
    if not isinstance(dims, (int, tuple)):  # lists are taken inside of it alone
        raise body.cannot("it is told dimensions in something other than a tuple")

    def opened(value: Value, dim: Any) -> Value:
        return value if dim is None else body.row(value, dim)

    rows = rebuilt(machine, TupleValue(tuple(given)), dims, opened)
    if not body.inputs:
        raise body.cannot("nothing is mapped over")
    in_dims_of_inputs = tuple(dims_of(machine, TupleValue(tuple(given)), dims))
    result = body.follow(function, list(rows.items), keywords)  # what is given by name is not mapped over
    outs: list[Any] = []
    results: list[TensorValue] = []
    rebuilt(
        machine,
        result,
        known(machine, out_dims),
        lambda leaf, dim: outs.append(dim) or results.append(body.checked(leaf)) or leaf,
    )
    chosen = known(machine, randomness)
    made = body.made(
        results, lambda graph, count: Mapped("vmap", graph, count, in_dims_of_inputs, tuple(outs), chosen), []
    )
    return body.filled(result, iter(made))


def mapped_in_chunks(function, in_dims, out_dims, randomness, chunk_size, *given, **named):
    count, flat_dims, flat, structure = mapping._process_batched_inputs(in_dims, given, function)
    dims = tree_unflatten(flat_dims, structure)
    start, results = 0, []
    for length in mapping.get_chunk_sizes(count, chunk_size):
        parts = [item if dim is None else item.narrow(dim, start, length) for item, dim in zip(flat, flat_dims, strict=True)]
        made = mapping.vmap_impl(function, dims, out_dims, randomness, None, *tree_unflatten(parts, structure), **named)
        found, structure_of_results = tree_flatten(made)
        results.append(found)
        start += length
    if not results:
        raise AssertionError("arg_spec must not be None")
    out = mapping._broadcast_to_and_flatten(out_dims, structure_of_results)
    joined = [torch.cat(parts, dim) for parts, dim in zip(zip(*results, strict=True), out, strict=True)]
    return tree_unflatten(joined, structure_of_results)


def dims_of(machine: Machine, value: Value, dims: Any) -> list[int]:
    found: list[int] = []
    rebuilt(machine, value, dims, lambda leaf, dim: leaf if dim is None else found.append(dim) or leaf)
    return found


# grad


def gradient(machine: Machine, function: Value, argnums: Any, has_aux: bool, given: list[Value], named: Keywords) -> Any:
    """The gradients by the arguments, the value, and what the function gives besides."""
    body = Body(machine, "grad")
    with with_gradients(machine):
        places = argnums if isinstance(argnums, tuple) else (argnums,)
        places = tuple(place + len(given) if place < 0 else place for place in places)
        if not all(0 <= place < len(given) for place in places) or len(set(places)) != len(places):
            raise body.cannot("it has no such argument")
        variables = {place: rebuilt(machine, given[place], None, body.variable) for place in places}
        result = body.follow(function, [variables.get(at, value) for at, value in enumerate(given)], named)
    aux: Value | None = None
    value = result
    if has_aux:
        if not isinstance(result, TupleValue) or len(result.items) != 2:
            raise body.cannot("its function does not return two things")
        value, aux = (machine.realize(item) for item in result.items)
    results = [body.checked(value), *(body.tensors(aux) if aux is not None else [])]
    made = iter(body.made(results, lambda graph, count: Differentiated("grad", graph, count), []))
    by_place = [body.filled(given[place], made) for place in places]
    gradients = TupleValue(tuple(by_place)) if isinstance(argnums, tuple) else by_place[0]
    return gradients, next(made), None if aux is None else body.filled(aux, made)


@meaning(eager_transforms.grad_impl)
def grad_impl(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    gradients, _, aux = gradient_of(machine, arguments)
    return gradients if aux is None else TupleValue((gradients, aux))


@meaning(eager_transforms.grad_and_value_impl)
def grad_and_value_impl(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    gradients, value, aux = gradient_of(machine, arguments)
    return TupleValue((gradients, value if aux is None else TupleValue((value, aux))))


def gradient_of(machine: Machine, arguments: Arguments) -> Any:
    function, argnums, has_aux, given, named = (machine.realize(each) for each in arguments)
    options = known(machine, argnums), bool(known(machine, has_aux))
    return gradient(machine, function, *options, list(given.items), {key: item for key, (_, item) in named.items.items()})


# vjp and jvp


@meaning(eager_transforms._vjp_with_argnums)
def vjp(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    """The function's value, and what pulls cotangents back: a node each time it is called."""
    argnums, has_aux = options_of(machine, keywords)
    function, *primals = arguments
    value, aux = parts(machine, machine.call_now(function, primals), has_aux, "vjp")
    pull = PartialValue(
        ConstantValue(Pullback()), (function, TupleValue(tuple(primals)), ConstantValue(argnums), ConstantValue(has_aux)), {}
    )
    return TupleValue((value, pull) if aux is None else (value, pull, aux))


def options_of(machine: Machine, keywords: Keywords) -> tuple[Any, bool]:
    """By which arguments it differentiates (None: all), and whether the function gives something besides."""
    if not keywords.keys() <= {"argnums", "has_aux", "strict"} or ("strict" in keywords and known(machine, keywords["strict"])):
        raise Break(ForeignCall("torch.func", "it is told something that is not known"))
    argnums, has_aux = (known(machine, keywords.get(name, NONE)) for name in ("argnums", "has_aux"))
    return argnums, bool(has_aux)


def parts(machine: Machine, result: Value, has_aux: bool, name: str) -> tuple[Value, Value | None]:
    """What the function gives: its value, and what it gives besides."""
    result = machine.realize(result)
    if not has_aux:
        return result, None
    if not isinstance(result, TupleValue) or len(result.items) != 2:
        raise Break(ForeignCall(f"torch.func.{name}", "its function does not return two things"))
    value, aux = map(machine.realize, result.items)
    return value, aux


def differentiated_by(body: Body, given: list[Value], argnums: Any) -> tuple[Value, list[Value]]:
    """The arguments that it differentiates by, as torch tells them apart, with a variable for each, and all arguments with these."""
    if argnums is None:
        variables = rebuilt(body.machine, TupleValue(tuple(given)), None, body.variable)
        return variables, list(variables.items)
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    places = tuple(place + len(given) if type(place) is int and place < 0 else place for place in places)
    if not all(type(place) is int and 0 <= place < len(given) for place in places) or len(set(places)) != len(places):
        raise body.cannot("it has no such argument")
    by_place = {place: rebuilt(body.machine, given[place], None, body.variable) for place in places}
    variables = TupleValue(tuple(by_place.values())) if isinstance(argnums, tuple) else by_place[places[0]]
    return variables, [by_place.get(at, value) for at, value in enumerate(given)]


class Pullback:
    """What `vjp` gives, as the program may keep it."""

    def __call__(self, function: Any, primals: tuple, argnums: Any, has_aux: bool, cotangents: Any) -> Any:
        given = {"argnums": argnums} if argnums is not None else {}
        return eager_transforms._vjp_with_argnums(function, *primals, has_aux=has_aux, **given)[1](cotangents)


@object_meaning(Pullback)
def pulled(machine: Machine, thing: Any, arguments: Arguments, keywords: Keywords) -> Value:
    function, primals, argnums, has_aux, cotangents = (machine.realize(each) for each in arguments[:5])
    body = Body(machine, "vjp")
    with with_gradients(machine):
        variables, given = differentiated_by(body, list(primals.items), known(machine, argnums))
        value, _ = parts(machine, body.follow(function, given), known(machine, has_aux), "vjp")
    results, tangents = body.tensors(value), body.tensors(cotangents)
    if len(tangents) != len(results):
        raise body.cannot("there is not one cotangent for each result")
    made = body.made(results, lambda graph, count: Pulled("vjp", graph, count, len(results)), list(tangents))
    return body.filled(variables, iter(made))


@meaning(eager_transforms._jvp_with_argnums)
def jvp(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    function, primals, tangents, *rest = (machine.realize(each) for each in arguments)
    argnums, has_aux = options_of(machine, {**keywords, "argnums": rest[0]} if rest else keywords)
    if not isinstance(primals, TupleValue):
        raise Break(ForeignCall("torch.func.jvp", "its arguments are no tuple"))
    body = Body(machine, "jvp")
    _, given = differentiated_by(body, list(primals.items), argnums)
    value, aux = parts(machine, body.follow(function, given), has_aux, "jvp")
    directions = body.tensors(tangents)
    if len(directions) != len(body.inputs):
        raise body.cannot("there is not one tangent for each argument")
    besides = [] if aux is None else body.tensors(aux)
    made = iter(body.made([*body.tensors(value), *besides], lambda graph, count: Pushed("jvp", graph, count), list(directions)))
    found = body.filled(value, made)
    filled = None if aux is None else body.filled(aux, made)
    pushed = body.filled(value, made)
    return TupleValue((found, pushed) if filled is None else (found, pushed, filled))


# jacrev, jacfwd


def jacobian(machine: Machine, transform: Any, function: Value, argnums: Any, given: list[Value]) -> Value:
    body = Body(machine, transform.__name__)
    with with_gradients(machine):
        places = argnums if isinstance(argnums, tuple) else (argnums,)
        if not all(type(place) is int and 0 <= place < len(given) for place in places):
            raise body.cannot("it has no such argument")
        variables = {place: rebuilt(machine, given[place], None, body.variable) for place in places}
        result = body.follow(function, [variables.get(at, value) for at, value in enumerate(given)])
    results = body.tensors(result)
    made = iter(body.made(results, lambda graph, count: Jacobian(transform.__name__, graph, count, transform), []))

    def matrices(leaf: Value, _: Any) -> Value:
        parts = tuple(body.filled(given[place], made) for place in places)
        return TupleValue(parts) if isinstance(argnums, tuple) else parts[0]

    return rebuilt(machine, result, None, matrices)


# Transformed functions


def mapped_function(
    function: Any, in_dims: Any, out_dims: Any, randomness: Any, chunks: Any, *given: Any, **named: Any
) -> Any:
    return torch.func.vmap(function, in_dims, out_dims, randomness, chunk_size=chunks)(*given, **named)


def gradient_function(function: Any, argnums: Any, has_aux: Any, *given: Any, **named: Any) -> Any:
    return torch.func.grad(function, argnums, has_aux)(*given, **named)


def value_function(function: Any, argnums: Any, has_aux: Any, *given: Any, **named: Any) -> Any:
    return torch.func.grad_and_value(function, argnums, has_aux)(*given, **named)


def reverse_function(function: Any, argnums: Any, has_aux: Any, chunks: Any, *given: Any) -> Any:
    return torch.func.jacrev(function, argnums, has_aux=has_aux, chunk_size=chunks)(*given)


def forward_function(function: Any, argnums: Any, has_aux: Any, randomness: Any, *given: Any) -> Any:
    return torch.func.jacfwd(function, argnums, has_aux, randomness=randomness)(*given)


meaning(mapped_function)(vmap_impl)


@meaning(gradient_function)
def call_gradient(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return grad_impl(machine, [*arguments[:3], *packed(arguments[3:], keywords)], {})


@meaning(value_function)
def call_value(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    return grad_and_value_impl(machine, [*arguments[:3], *packed(arguments[3:], keywords)], {})


def packed(given: list[Value], named: Keywords) -> tuple[Value, Value]:
    return TupleValue(tuple(given)), DictValue({name: (ConstantValue(name), value) for name, value in named.items()})


def _jacobian(function: Any, transform: Any, plain: dict[str, Any]) -> None:
    """One node where it is told nothing but the arguments; else torch's own Python is followed, which works by `vjp` or `jvp`."""

    @meaning(function)
    def call(machine: Machine, arguments: Arguments, keywords: Keywords) -> Any:
        inside, argnums, *rest = arguments
        options, given = rest[: len(plain)], rest[len(plain) :]
        if not keywords and [known(machine, option) for option in options] == list(plain.values()):
            return jacobian(machine, transform, inside, known(machine, argnums), given)
        maker = machine.outside.function(transform, ConstantSource(transform.__name__, transform))
        told = {"argnums": argnums, **dict(zip(plain, options, strict=True))}
        return machine.call(machine.finish(python.enter(machine, maker, [inside], told)), given, keywords)


_jacobian(reverse_function, torch.func.jacrev, {"has_aux": False, "chunk_size": None})
_jacobian(forward_function, torch.func.jacfwd, {"has_aux": False, "randomness": "error"})


def _transform(makers: tuple, function: Any, **options: Any) -> None:
    """Making a transformed function: a partial one, told all that the transform is told."""

    def make(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
        told = {**dict(zip(("func", *options), arguments, strict=False)), **keywords}
        if "func" not in told or not told.keys() <= {"func", *options}:
            raise Break(ForeignCall("torch.func", "it is told something that is not known"))
        given = [told.get(name, ConstantValue(default)) for name, default in options.items()]
        return PartialValue(machine.outside.fixed(function, function.__name__), (told["func"], *given), {})

    meaning(*dict.fromkeys(makers))(make)


_transform(
    (torch.vmap, torch.func.vmap), mapped_function, in_dims=0, out_dims=0, randomness="error", chunk_size=None
)
_transform((torch.func.grad,), gradient_function, argnums=0, has_aux=False)
_transform((torch.func.grad_and_value,), value_function, argnums=0, has_aux=False)
_transform((torch.func.jacrev,), reverse_function, argnums=0, has_aux=False, chunk_size=None)
_transform((torch.func.jacfwd,), forward_function, argnums=0, has_aux=False, randomness="error")


@meaning(torch.func.hessian)
def hessian(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    argnums = keywords.get("argnums") or (arguments[1] if len(arguments) > 1 else ConstantValue(0))
    inner = machine.call_now(ConstantValue(torch.func.jacrev), [arguments[0], argnums])
    return machine.call_now(ConstantValue(torch.func.jacfwd), [inner, argnums])


def _made_outside(transform: Any) -> None:
    """A function that `jacrev` or `jacfwd` gave to the program before, where another calls it. Of one that is compiled itself the Python is
    followed."""
    code = next((each for each in transform.__code__.co_consts if getattr(each, "co_name", "") == "wrapper_fn"), None)
    if code is None:
        return

    def call(machine: Machine, function: FunctionValue, arguments: Arguments, keywords: Keywords) -> Any:
        cells = {cell.name: machine.realize(cell.content) for cell in function.closure if cell.content is not None}
        plain = all(known(machine, cells[name]) in (None, False) for name in ("has_aux", "chunk_size") if name in cells)
        if keywords or not plain:
            return python.enter(machine, function, arguments, keywords)
        return jacobian(machine, transform, cells["func"], known(machine, cells["argnums"]), arguments)

    MEANINGS_OF_CODE[code] = call


_made_outside(torch.func.jacrev)
_made_outside(torch.func.jacfwd)
