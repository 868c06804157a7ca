"""`torch.lstm`, `torch.gru`, `torch.rnn_tanh` and `torch.rnn_relu` as one operator with its gradient: torch's library runs all steps.

    torch.lstm(x, [h, c], weights, ...)
    output, hidden, cell, history = dynascope.recurrent("lstm", x, None, [h, c], weights, ..., needed)
    gradients = dynascope.recurrent_backward(history, [x, h, c, *weights], tangents, needed)

Which kernels there are depends on the device, and most take the steps one by one under autograd. So the forward operator runs
what eager runs, and a Python attribute of `history`, a tensor of one element, holds what autograd recorded there: as long as the
backward pass keeps that tensor. `needed` says whose gradients are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

LAYERS = (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
LIBRARY = torch.library.Library("dynascope", "FRAGMENT")
LIBRARY.define(
    "recurrent(str name, Tensor input, Tensor? batch_sizes, Tensor[] hidden, Tensor[] weights, bool has_biases, int layers,"
    " float dropout, bool train, bool bidirectional, bool batch_first, bool[] needed)"
    " -> (Tensor output, Tensor hidden, Tensor cell, Tensor history)",
    tags=(torch.Tag.nondeterministic_seeded,),
)
LIBRARY.define("recurrent_backward(Tensor history, Tensor[] operands, Tensor?[] tangents, bool[] needed) -> Tensor[]")


class Call(NamedTuple):
    """A call of one of the layers, whichever of its forms it has."""

    name: str
    input: Any
    batch_sizes: Any
    hidden: list[Any]
    weights: list[Any]
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    def operands(self) -> list[Any]:
        return [self.input, *self.hidden, *self.weights]

    def results(self) -> int:
        return 3 if self.name == "lstm" else 2


def call_of(function: Any, arguments: Sequence[Any], is_tensor: type = torch.Tensor) -> Call | None:
    """What a call says, packed or not: `(input, hidden, weights, ...)` or `(input, batch_sizes, hidden, weights, ...)`."""
    if len(arguments) != 9:
        return None
    first, second, *rest = arguments
    name = function.__name__
    is_packed = isinstance(rest[0], is_tensor) if name != "lstm" else isinstance(second, is_tensor)
    if not is_packed:
        hidden, (weights, *options) = second, rest
        return Call(name, first, None, _several(hidden), list(weights), *options)
    hidden, weights, *options = rest
    return Call(name, first, second, _several(hidden), list(weights), *options, False)


def _several(hidden: Any) -> list[Any]:
    return list(hidden) if isinstance(hidden, (list, tuple)) else [hidden]


def shapes(call: Call) -> tuple[torch.Tensor, ...]:
    """What the layer gives, without contents."""
    output = [*call.input.shape[:-1], call.hidden[0].shape[-1] * (2 if call.bidirectional else 1)]
    if call.batch_first:
        made = call.input.new_empty((output[1], output[0], output[2])).transpose(0, 1)
    else:
        made = call.input.new_empty(output)
    states = [call.input.new_empty(state.shape) for state in call.hidden]
    return (made, *states)


def fits(call: Call) -> bool:
    """Whether the layer takes these operands: others are for torch to complain about."""
    tensors = call.operands()
    directions = 2 if call.bidirectional else 1
    has_projection = call.name == "lstm" and call.hidden[0].shape[-1] != call.hidden[-1].shape[-1]
    per_layer = (4 if call.has_biases else 2) + has_projection
    width = call.input.shape[-1]
    return (
        len({(tensor.dtype, tensor.device) for tensor in tensors}) == 1
        and call.input.is_floating_point()
        and call.input.dim() == (3 if call.batch_sizes is None else 2)
        and call.input.numel() > 0
        and len(call.hidden) == call.results() - 1
        and all(state.dim() == 3 and state.shape[0] == call.layers * directions for state in call.hidden)
        and (call.batch_sizes is not None or _batch(call) == call.hidden[0].shape[1] == call.hidden[-1].shape[1])
        and len(call.weights) == call.layers * directions * per_layer
        and call.weights[0].dim() == 2
        and call.weights[0].shape[1] == width
        and call.weights[1].shape[1] == call.hidden[0].shape[-1]
    )


def _batch(call: Call) -> int:
    return call.input.shape[0 if call.batch_first else 1]


class _Described(torch.autograd.Function):
    """Tensors without contents that have the layer's history."""

    @staticmethod
    def forward(ctx: Any, call: Call, *operands: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.save_for_backward(*map(torch.empty_like, operands))  # freed with the history, which is then no one's to go back through
        return shapes(call)

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor) -> tuple[Any, ...]:
        return (None, *map(torch.empty_like, ctx.saved_tensors))


def described(call: Call) -> tuple[torch.Tensor, ...]:
    """The results on meta tensors, as autograd sees them."""
    return _Described.apply(call, *call.operands())


def run(call: Call) -> tuple[torch.Tensor, ...]:
    """The layer as torch runs it."""
    hidden = call.hidden if call.name == "lstm" else call.hidden[0]
    options = (call.has_biases, call.layers, call.dropout, call.train, call.bidirectional)
    function = getattr(torch, call.name)
    if call.batch_sizes is None:
        return function(call.input, hidden, call.weights, *options, call.batch_first)
    return function(call.input, call.batch_sizes, hidden, call.weights, *options)


def _forward(name: str, input: torch.Tensor, batch_sizes: Any, hidden: Any, weights: Any, *rest: Any) -> tuple:
    *options, needed = rest
    call = Call(name, input, batch_sizes, list(hidden), list(weights), *options)
    history = input.new_empty(1)
    if not any(needed):
        with torch.no_grad():
            return (*_three(run(call), input), history)
    leaves = [tensor.detach().requires_grad_(wanted) for tensor, wanted in zip(call.operands(), needed, strict=True)]
    states = len(call.hidden)
    inner = call._replace(input=leaves[0], hidden=leaves[1 : 1 + states], weights=leaves[1 + states :])
    with torch.enable_grad():
        results = run(inner)
    history.recorded = results, leaves  # type: ignore[attr-defined]
    return (*_three([result.detach() for result in results], input), history)


def _three(results: Sequence[torch.Tensor], input: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (*results, input.new_empty(0))[:3]


def _forward_meta(name: str, input: torch.Tensor, batch_sizes: Any, hidden: Any, weights: Any, *rest: Any) -> tuple:
    described = shapes(Call(name, input, batch_sizes, list(hidden), list(weights), *rest[:-1]))
    return (*_three(described, input), input.new_empty(1))


def _backward(history: torch.Tensor, operands: Any, tangents: Any, needed: Any) -> list[torch.Tensor]:
    results, leaves = history.recorded  # type: ignore[attr-defined]
    given = [(result, tangent) for result, tangent in zip(results, tangents, strict=True) if tangent is not None]
    wanted = [leaf for leaf, is_needed in zip(leaves, needed, strict=True) if is_needed]
    found = torch.autograd.grad(
        [result for result, _ in given],
        wanted,
        [tangent for _, tangent in given],
        retain_graph=True,
        allow_unused=True,
    )
    return [_laid_out(gradient, leaf) for gradient, leaf in zip(found, wanted, strict=True)]


def _laid_out(gradient: torch.Tensor | None, leaf: torch.Tensor) -> torch.Tensor:
    """As `_backward_meta` says, and in memory of its own."""
    if gradient is None:
        return torch.zeros_like(leaf, requires_grad=False)
    made = torch.empty_like(leaf, requires_grad=False)
    return gradient if gradient.stride() == made.stride() else made.copy_(gradient)


def _backward_meta(history: torch.Tensor, operands: Any, tangents: Any, needed: Any) -> list[torch.Tensor]:
    return [torch.empty_like(operand) for operand, wanted in zip(operands, needed, strict=True) if wanted]


class Layer:
    """What a graph calls: torch's function, which on meta tensors takes no steps, however many there are."""

    def __init__(self, function: Any) -> None:
        self.function, self.__name__, self.__module__ = function, function.__name__, __name__
        self.__qualname__ = f"BY_NAME[{function.__name__!r}]"

    def __call__(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        call = call_of(self.function, arguments)
        if call is not None and call.input.is_meta and fits(call):
            return described(call)
        return self.function(*arguments)


CALLED = {function: Layer(function) for function in LAYERS}
BY_NAME = {layer.__name__: layer for layer in CALLED.values()}
"""As a printed program reaches them."""

LIBRARY.impl("recurrent", _forward, "CompositeExplicitAutograd")
LIBRARY.impl("recurrent", _forward_meta, "Meta")
LIBRARY.impl("recurrent_backward", _backward, "CompositeExplicitAutograd")
LIBRARY.impl("recurrent_backward", _backward_meta, "Meta")

FORWARD = torch.ops.dynascope.recurrent.default
BACKWARD = torch.ops.dynascope.recurrent_backward.default
