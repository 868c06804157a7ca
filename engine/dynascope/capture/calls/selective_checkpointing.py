"""What of a function under `checkpoint` its program wants kept (`context_fn=partial(create_selective_checkpoint_contexts, policy)`).

    policy = policy_of(machine, context_fn)             the two contexts are made as the program makes them; torch's own say the policy
    to_keep(machine, policy, nodes)                     the nodes among these with an operator that the policy wants kept

Eager asks the policy about each operator at each call. Here it is asked once, when a call is captured, about what each node comes down to
below autograd; what it answers changes what is kept, and no value. So it is followed: one that changes what was there before, or that
asks more of a tensor than an `Operand` knows, is left to Python. Torch refuses to differentiate such a call twice; a graph may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import checkpoint as torchs
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from dynascope.capture.calls.arguments import Arguments, Keywords
from dynascope.capture.calls.registry import meaning
from dynascope.capture.reasons import ForeignCall
from dynascope.capture.signals import Break, Raised
from dynascope.capture.values import FALSE, NONE, ConstantValue, InstanceValue, ListValue, TupleValue, Value

if TYPE_CHECKING:
    from dynascope.capture.machine import Machine

CONTEXTS = torchs._CachingTorchDispatchMode, torchs._CachedTorchDispatchMode
KEPT = torchs.CheckpointPolicy.MUST_SAVE, torchs.CheckpointPolicy.PREFER_SAVE, True
ATTENTION = {
    "cpu": ("_scaled_dot_product_flash_attention_for_cpu",),
    "cuda": (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
    ),
}
"""One of these is what attention comes down to on a device, where meta tensors take it apart."""


class Operand:
    """What stands for a tensor where a policy is asked about an operator with it."""

    def __init__(self, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return self.shape.numel()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


@meaning(Operand.__getattr__)
def other_attribute(machine: Machine, arguments: Arguments, keywords: Keywords) -> Value:
    raise Break(ForeignCall("checkpoint", f"its policy asks for `{machine.object_of(arguments[1])}` of a tensor"))


def policy_of(machine: Machine, context_fn: Value) -> Value | None:
    """The policy; None where the function is torch's that has none."""
    if getattr(machine.realize(context_fn), "object", None) is torchs.noop_context_fn:
        return None
    made = machine.realize(machine.call_now(context_fn, []))
    contexts = list(map(machine.realize, made.items)) if isinstance(made, TupleValue) else []
    if tuple(each.python_type for each in contexts) != CONTEXTS or not all(isinstance(each, InstanceValue) for each in contexts):
        raise Break(ForeignCall("checkpoint", "its contexts are the program's own"))
    return contexts[0].attributes["policy_fn"]  # type: ignore[attr-defined]


def to_keep(machine: Machine, policy: Value, nodes: Iterable[fx.Node]) -> list[fx.Node]:
    before = len(machine.graph.graph.nodes)
    found = [node for node in nodes if any(is_kept(machine, policy, *call) for call in operators_of(node))]
    if len(machine.graph.graph.nodes) != before:
        raise Break(ForeignCall("checkpoint", "its policy computes with tensors"))
    return found


def is_kept(machine: Machine, policy: Value, operator: Any, arguments: tuple, keywords: dict[str, Any], device: torch.device) -> bool:
    context = InstanceValue(torchs.SelectiveCheckpointContext)
    context.attributes.update(is_recompute=FALSE, op_output=NONE)
    given = [value_of(machine, each, device) for each in arguments]
    named = {name: value_of(machine, each, device) for name, each in keywords.items()}
    try:
        answer = machine.call_now(policy, [context, machine.outside.fixed(operator, str(operator)), *given], named)
    except Raised as raised:
        raise Break(ForeignCall("checkpoint", f"its policy raises {raised.value.python_type.__name__}")) from None
    return machine.object_of(answer) in KEPT


def value_of(machine: Machine, item: Any, device: torch.device) -> Value:
    """An argument of an operator, as a policy gets it."""
    if isinstance(item, torch.Tensor):
        operand = InstanceValue(Operand)
        shape = TupleValue(tuple(map(ConstantValue, item.shape)), torch.Size)  # of this call: what is kept is no value, and is not guarded
        operand.attributes.update(shape=shape, dtype=ConstantValue(item.dtype), device=ConstantValue(device))
        return operand
    if isinstance(item, (list, tuple)):
        items = [value_of(machine, each, device) for each in item]
        return ListValue(items) if isinstance(item, list) else TupleValue(tuple(items))
    return ConstantValue(item)


def operators_of(node: fx.Node) -> list[tuple[Any, tuple, dict[str, Any], torch.device]]:
    """What a node comes down to below autograd, with its operands, and the device of its result."""
    if node.op not in ("call_function", "call_method") or not isinstance(node.meta.get("example_value"), torch.Tensor):
        return []
    device = node.meta["device"]
    arguments, keywords = fx.node.map_arg((node.args, node.kwargs), lambda each: each.meta["example_value"])
    arguments, keywords = tree_map_only(torch.Tensor, torch.Tensor.detach, (arguments, keywords))
    function = getattr(torch.Tensor, node.target) if isinstance(node.target, str) else node.target
    listening = Listening()
    with suppress(Exception), torch.no_grad(), torch.random.fork_rng(devices=[]), listening:
        function(*arguments, **keywords)
    if function is torch.nn.functional.scaled_dot_product_attention:
        names = ATTENTION.get(device.type, ())
        listening.calls += [(getattr(torch.ops.aten, name).default, arguments, {}) for name in names]
    return [(*call, device) for call in listening.calls]


class Listening(TorchDispatchMode):
    """Notes the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple, dict[str, Any]]] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        if function not in torchs.SAC_IGNORED_OPS:
            self.calls.append((function, args, kwargs or {}))
        return function(*args, **(kwargs or {}))
