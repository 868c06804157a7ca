"""`p.requires_grad_(False)` and `p.requires_grad = False` of a leaf from outside: written when the graph has run.

    for p in d.parameters(): p.requires_grad_(False)      from here on operators are given `p.detach()`
    d(g(z)).mean().backward()                             leads to the leaves of `g` alone
    for p in d.parameters(): p.requires_grad_(True)       as it was: nothing is left to write

A graph is differentiated by what its inputs require when it begins. One that requires no grad then, and is told to before anything
reads it, requires it from the start of the graph on: where it is read, the region is captured again with that (`from_the_start`). Of
one that was read before, nothing is computed in the same graph. A tensor made inside is a leaf inside, where nobody sees its
gradient after the graph:

    d = x.detach().requires_grad_();  torch.autograd.grad(loss(d), d)

One that nothing in the graph reads any more is a leaf when the graph has run:

    return (p - rate * g).detach().requires_grad_()
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import torch
from torch import fx

from dynascope.autograd_functions import HOLDS_GRAPH, gradients
from dynascope.capture import histories
from dynascope.capture.calls import known_tensors
from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.metadata import can_require_grad
from dynascope.capture.protocols.gradients import check_leaf
from dynascope.capture.reasons import TensorAttribute
from dynascope.capture.signals import Break, CaptureAgain, Refusal
from dynascope.capture.told_views import TOLD_AS_VIEW
from dynascope.capture.values import ConstantValue, MutableValue, TensorValue, Value
from dynascope.guards.guard import IdentityIs
from dynascope.guards.source import AttributeSource, Source

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

NAME = "requires_grad"


class RequirementValue(MutableValue):
    """What the program says of `tensor.requires_grad`. With `from_start` the graph begins by telling the tensor so."""

    __slots__ = ("content", "from_start", "is_unread", "tensor", "wanted")
    python_type = bool

    def __init__(self, tensor: TensorValue, from_start: bool = False) -> None:
        super().__init__(tensor.source)
        self.tensor, self.from_start = tensor, from_start
        self.wanted = tensor.example.requires_grad and not from_start
        self.content: TensorValue | None = None if from_start else tensor
        """What operators get in its place; None where nothing could stand for it."""
        self.is_unread = False
        """Whether nothing had read the tensor, which required no grad, when it was told to."""


def requires_grad(machine: Machine, tensor: TensorValue) -> bool:
    known = machine.requirements.get(tensor)
    return tensor.example.requires_grad if known is None else known.wanted


def write(machine: Machine, tensor: TensorValue, wanted: bool) -> None:
    """Of a tensor made inside, one that is computed, or of integers torch or plain Python decides."""
    if tensor.example.requires_grad and tensor.example.is_leaf and tensor.example._is_view():
        raise Break(TensorAttribute(NAME))  # made without recording it says that it does and has no gradient: this gives it one
    if wanted == requires_grad(machine, tensor):
        return
    if wanted and tensor.object is None and tensor.example._is_view():
        tensor.node.meta[TOLD_AS_VIEW] = True
    if wanted and may_be_leaf(machine, tensor):
        make_leaf(machine, tensor)
        return
    if wanted and tensor.example._version and views_of(machine, tensor):
        raise Refusal(TensorAttribute(NAME))  # those made before it was written have a history then, which no graph's results get
    is_leaf = tensor.object is not None and tensor.object.is_leaf
    stays = any(tensor is each for each in machine.parameters_made)
    if not (is_leaf or stays) or tensor in machine.assigned or not can_require_grad(tensor.example):
        raise Break(TensorAttribute(NAME))
    is_unread = wanted and may_begin(machine, tensor)
    if wanted and not tensor.example.requires_grad and not (is_unread or issubclass(tensor.python_type, torch.nn.Parameter)):
        # Data, to differentiate by: what follows reads it, and is one graph when it begins after this.
        raise Break(TensorAttribute(NAME))
    known = machine.requirements.get(tensor)
    if known is None:
        if not stays:
            check_leaf(machine, tensor)
            machine.guards.add(AttributeSource(tensor.source, NAME), IdentityIs(tensor.object.requires_grad))
        known = RequirementValue(tensor)
        machine.journal.set_item(machine.requirements, tensor, known)
    content = tensor if wanted == tensor.example.requires_grad else None
    if content is None and not wanted:
        content = detached(machine, tensor)
        machine.journal.set_item(machine.requirements, content, known)
    machine.journal.set(known, "wanted", wanted)
    machine.journal.set(known, "content", content)
    machine.journal.set(known, "is_unread", is_unread)
    if not stays:  # a parameter made inside has none to write it to
        machine.write(known)


def may_begin(machine: Machine, tensor: TensorValue) -> bool:
    """Whether it could as well have been told when the graph begins: nothing has read it."""
    if not machine.options.begins_leaves or tensor.object is None or tensor.object._is_view() or tensor.object.is_inference():
        return False
    if torch.is_inference_mode_enabled() or torch.distributed.is_available() and torch.distributed.is_initialized():
        return False
    return not tensor.example.requires_grad and not tensor.node.users and tensor not in machine.gradients


def from_the_start(machine: Machine, object: torch.Tensor, source: Source) -> torch.Tensor:
    """What the graph is made for in the place of an input: one that requires grad, where the program tells it so before it is read."""
    return object.detach().requires_grad_() if source in machine.options.leaves_begun else object


def remember_start(machine: Machine, tensor: TensorValue) -> None:
    """Of an input: until the program tells it, it is read as requiring no grad, and by no operator."""
    if tensor.source in machine.options.leaves_begun:
        machine.guards.add(AttributeSource(tensor.source, NAME), IdentityIs(False))
        machine.requirements[tensor] = RequirementValue(tensor, from_start=True)


def begun(machine: Machine) -> frozenset[Source]:
    """The inputs that the graph tells to require grad."""
    known = {id(each): each for each in machine.requirements.values() if each.from_start and each in machine.written}
    return frozenset(each.tensor.source for each in known.values() if each.tensor.source is not None)


def refuse_read(machine: Machine, known: RequirementValue) -> NoReturn:
    """An operator gets a tensor that requires another thing than the graph's input does: is that because it was not told at the start?"""
    if known.from_start:  # it is read before it is told
        raise CaptureAgain(leaves_begun=frozenset(), begins_leaves=False)
    if known.is_unread and known.wanted:
        told = {each.source for each in machine.requirements.values() if each.is_unread and each.wanted and each.source is not None}
        if not told <= machine.options.leaves_begun:
            raise CaptureAgain(leaves_begun=machine.options.leaves_begun | told)
    raise Break(TensorAttribute(NAME))


def views_of(machine: Machine, tensor: TensorValue) -> list[fx.Node]:
    """What the graph made so far that autograd has for views of it."""

    def is_view(node: fx.Node) -> bool:
        example = node.meta.get("example_value")
        return isinstance(example, torch.Tensor) and example._base is tensor.example

    return [node for node in machine.graph.graph.nodes if is_view(node)]


def views_tell(machine: Machine, outputs: Iterable[fx.Node]) -> bool:
    """Whether somebody reads views of a leaf that were made before it became one. Torch has them require grad from then on too, and lead
    to it where they were written."""
    given = set(outputs)
    order = {node: at for at, node in enumerate(machine.graph.graph.nodes)} if machine.leaves_made else {}

    def tells(leaf: TensorValue, view: fx.Node, told: int) -> bool:
        is_given = view in given and leaf.example._version > 0
        return order[view] < told and (is_given or any(order[user] > told for user in view.users))

    told = {leaf: min(order[user] for user in leaf.node.users if user.target == NAME + "_") for leaf in machine.leaves_made}
    return any(tells(leaf, view, at) for leaf, at in told.items() for view in views_of(machine, leaf))


def may_be_leaf(machine: Machine, tensor: TensorValue) -> bool:
    example = tensor.example
    is_plain = tensor.object is None and tensor.python_type is torch.Tensor and tensor.instance is None
    is_held_apart = tensor in machine.requirements or tensor in machine.assigned
    records = machine.grad_mode and not torch.is_inference_mode_enabled() and not example.is_inference()
    is_fit = example.grad_fn is None and can_require_grad(example)
    return machine.options.makes_leaves and is_plain and not is_held_apart and records and is_fit


def make_leaf(machine: Machine, tensor: TensorValue) -> None:
    """From here on a leaf, in the graph too. `Session.finished` sees that after the graph nobody can tell."""
    known_tensors.forget(machine, tensor)
    tell(machine, tensor.node, tensor.example, tensor.device)
    machine.journal.append(machine.leaves_made, tensor)


def tell(machine: Machine, node: fx.Node, example: torch.Tensor, device: torch.device) -> None:
    told = machine.graph.call("call_method", NAME + "_", (node,), {})
    example.requires_grad_()
    machine.journal.record(lambda: example.requires_grad_(False))
    machine.graph.describe(told, example, device)
    machine.graph.keep(told)


def examples_of_leaves(machine: Machine) -> list[torch.Tensor]:
    return [leaf.example for leaf in (*machine.leaves_made, *machine.leaves_left)]


def are_unseen(machine: Machine, outputs: Iterable[fx.Node]) -> bool:
    """Whether nobody can tell of the leaves made inside, though histories of `outputs` end in them: none of them leaves the graph or has
    a hook, what requires grad does so for other leaves as well, and passes that come there raise nothing."""
    leaves = examples_of_leaves(machine)
    examples = [node.meta.get("example_value") for node in outputs]
    tensors = [each for each in examples if isinstance(each, torch.Tensor) and each.requires_grad]
    if histories.have_no_derivative(tensors):
        return False
    if machine.hooked or any(isinstance(node.target, HOLDS_GRAPH) for node in machine.graph.graph.nodes):
        return False
    if any(each is leaf for each in tensors for leaf in leaves):
        return False
    return not any(histories.ends_in_only([each], leaves) for each in tensors)


def leaves_afterwards(machine: Machine, outputs: Iterable[fx.Node]) -> tuple[TensorValue, ...] | None:
    """The results that become leaves when the graph has run, which is then without them: where the histories of results end in no other
    leaf made inside, and nothing reads these, or has put something on them, since they were told to be leaves."""
    given = set(outputs)
    leaves = tuple(leaf for leaf in machine.leaves_made if leaf.node in given)
    others = [leaf.example for leaf in machine.leaves_made if leaf.node not in given]
    order = {node: at for at, node in enumerate(machine.graph.graph.nodes)}
    told = [next(user for user in leaf.node.users if user.target == NAME + "_") for leaf in leaves]
    is_read = any(order[user] > order[node] for node in told for user in node.args[0].users) or any(node.users for node in told)
    has_more = machine.hooked or machine.leaves_left or any(leaf in machine.gradients for leaf in leaves)
    if is_read or has_more or histories.lead_to(outputs, others):
        return None
    machine.graph.leave_out(told)
    for leaf in leaves:
        leaf.example.requires_grad_(False)
    return leaves


def leave_out_leaves(machine: Machine) -> None:
    """The graph without the leaves made inside that nobody can tell of, unless it differentiates."""
    nodes = machine.graph.graph.nodes
    if all(node.target is not gradients for node in nodes):
        made = {leaf.node for leaf in (*machine.leaves_made, *machine.leaves_left)}
        machine.graph.leave_out([node for node in nodes if node.target == NAME + "_" and node.args[0] in made])


def detached(machine: Machine, tensor: TensorValue) -> TensorValue:
    from dynascope.capture.calls.tensors import apply_method

    return machine.realize(apply_method(machine, torch.Tensor.detach, [tensor], {}))


def now_required(machine: Machine, value: Value) -> Value:
    """A tensor as operators get it now."""
    known = machine.requirements.get(machine.realize(value))
    return value if known is None or known.content is None else known.content


def as_given(machine: Machine, tensor: TensorValue) -> TensorValue:
    """The program's tensor, where an operator gives back what it got."""
    known = machine.requirements.get(tensor)
    return tensor if known is None else known.tensor


def check_unchanged(machine: Machine, values: Iterable[Value]) -> None:
    """Of what would have to know that a leaf requires another thing now."""
    for value in values if machine.requirements else ():
        known = machine.requirements.get(value)
        if known is not None and known.content is not known.tensor:
            raise Break(TensorAttribute(NAME))


def check_read(machine: Machine, tensors: list[TensorValue]) -> None:
    """`tensors` are those that an operator is given, after `now_required`: not those in lists."""
    for tensor in tensors if machine.requirements else ():
        known = machine.requirements.get(tensor)
        if known is not None and known.content is not tensor:
            refuse_read(machine, known)


def asked_for(machine: Machine, arguments: Arguments, keywords: Keywords) -> bool:
    """What `requires_grad_` is told."""
    wanted = [*arguments[1:], *keywords.values()]
    return bool(machine.object_of(wanted[0])) if wanted else True


def assign(machine: Machine, tensor: TensorValue, item: Value) -> None:
    """`tensor.requires_grad = item`, which torch takes of a `bool` alone."""
    item = machine.realize(item)
    if not isinstance(item, ConstantValue) or type(item.value) is not bool:
        raise Break(TensorAttribute(NAME))
    write(machine, tensor, item.value)
