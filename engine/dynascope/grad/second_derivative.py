"""Second derivatives: the region runs again, as the captured graph and under autograd, from what came in.

    (g,) = torch.autograd.grad(region(x), x, create_graph=True)       g has a history that leads to x and to the tangent
    g.norm().backward()

What the backward pass saves is not enough for this, so that the other inputs are kept beside it: parameters and small inputs
anyway, the rest by weak references once a backward pass without `create_graph` showed that the program wants no second
derivatives. Until then, and from the first second derivative on, they are kept alive. What a region gave another one and is gone by
then is computed again, by the region that gave it.
"""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.grad.inputs import InputFacts
from dynascope.grad.pair import GradPair, InputItself, OutputOf
from dynascope.grad.versions import functions_of_inputs
from dynascope.random_numbers import DRAW_SEED

SMALL = 20
"""Inputs this many times smaller than what is saved anyway are kept alive."""
LARGEST_COPY = 1 << 16
"""Bytes of an input that the region writes to and is copied before: of a running mean, not of a cache."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """`tensors` are (input, whether it is kept alive in any case) of those that are not saved; `values` those that are no tensors;
    `copies` those that the region writes to after it read them: what they held before is copied, as long as anything is kept strongly.

    `obstacle` says why there is no second derivative, where there is none. `draws`: the graph draws random numbers.
    """

    tensors: tuple[tuple[int, bool], ...]
    values: tuple[int, ...]
    copies: tuple[int, ...]
    draws: bool
    obstacle: str
    devices: tuple[torch.device, ...]

    def random_state(self) -> tuple[torch.Tensor, ...]:
        return tuple(_random_state(device) for device in self.devices)


def strongly(tensor: Any) -> Any:
    return tensor


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """With the history that the tensor has before it is written: afterwards nothing else leads there."""
    with torch.enable_grad():
        return tensor.clone(memory_format=torch.preserve_format)


def not_copied(tensor: torch.Tensor) -> None:
    return None


weakly = weakref.ref


def plan_keeping(pair: GradPair) -> Keeping:
    assert pair.program is not None
    saved = {s.origin.index for s in pair.saved if isinstance(s.origin, InputItself) and not s.is_held}
    tensors, values, kept = [], [], pair.saved_bytes
    for index, facts in enumerate(pair.program.inputs):
        if not isinstance(facts, InputFacts) or not facts.counts_versions:
            values.append(index)
        elif index not in saved:
            is_parameter = facts.requires_grad and facts.is_leaf
            tensors.append((index, is_parameter or facts.layout.byte_count * SMALL <= kept))
    rewritten = _rewritten(pair)
    devices = {facts.device for facts in pair.program.inputs if isinstance(facts, InputFacts)} | {torch.device("cpu")}
    devices = {device for device in devices if device.type != "meta"}
    return Keeping(tuple(tensors), tuple(values), rewritten, draws_numbers(pair), _obstacle(pair, rewritten), tuple(devices))


def draws_numbers(pair: GradPair) -> bool:
    """Whether its forward graph draws random numbers; attention without dropout does not, whatever its operator may do."""
    seeded = (n for n in pair.forward.graph.nodes if torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ()))
    return any(_argument(node, "dropout_p") != 0 for node in seeded)


def _argument(node: fx.Node, name: str) -> Any:
    """Of an operator, None where it has none that is called so. Functions that stand for operators have no schema."""
    schema = getattr(node.target, "_schema", None)
    for at, argument in enumerate(() if schema is None else schema.arguments):
        if argument.name == name:
            return node.kwargs.get(name, node.args[at] if at < len(node.args) else argument.default_value)
    return None


def _obstacle(pair: GradPair, rewritten: tuple[int, ...]) -> str:
    assert pair.program is not None
    if any(node.target is DRAW_SEED for node in pair.forward.graph.nodes):
        return 'it draws random numbers with random="device"'
    for index in rewritten:
        facts = pair.program.inputs[index]
        assert isinstance(facts, InputFacts)
        if facts.layout.byte_count > LARGEST_COPY:
            return f"it changes its input `{pair.program.names[index]}` in place"
    return ""


def _rewritten(pair: GradPair) -> tuple[int, ...]:
    """The inputs that are written to, and whose contents before that results depend on."""
    placeholders = [node for node in pair.forward.graph.nodes if node.op == "placeholder"]
    results = set(_results(pair)[: pair.computed_count]) | set(_results(pair)[pair.visible_count :])
    return tuple(
        mutation.input
        for mutation in pair.mutations
        if mutation.records_history or _leads_to(placeholders[mutation.input], results)
    )


def _results(pair: GradPair) -> Any:
    return next(node for node in pair.forward.graph.nodes if node.op == "output").args[0]


def _leads_to(node: Any, results: set) -> bool:
    pending, seen = [node], set()
    while pending:
        current = pending.pop()
        if current in results:
            return True
        if current not in seen:
            seen.add(current)
            pending += current.users
    return False


def differentiate_again(pair: GradPair, keeping: Keeping, ctx: Any, saved: list[Any], given: tuple[Any, ...]) -> tuple:
    """One gradient or None for each input, with a history."""
    program = pair.program
    assert program is not None
    if keeping.obstacle:
        raise _refusal(pair, keeping.obstacle)
    held = ((reference(), version) for reference, version in getattr(ctx, "held", ()))
    if any(result is not None and result._version != version for result, version in held):
        raise _refusal(pair, "a result that a custom function keeps as an attribute was changed in place since")
    mutated = {mutation.input for mutation in pair.mutations}
    inputs = _inputs(pair, keeping, ctx, saved, mutated)
    with torch._C.DisableTorchFunction(), program.state():
        came = [_alike(value) for value in inputs]
        copies = [value.clone() if index in mutated else value for index, value in enumerate(came)]
        results = _run(pair, keeping, ctx, copies)
        wanted = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.requires_grad]
        pairs = [
            (_at(tangent.place, results, copies), grad) for tangent, grad in zip(pair.tangents, given, strict=True)
        ]
        used = [(output, grad) for output, grad in pairs if grad is not None and output.requires_grad]
        found = torch.autograd.grad(
            [output for output, _ in used],
            [came[i] for i in wanted],
            [grad for _, grad in used],
            create_graph=True,
            allow_unused=True,
        )
    gradients: list[Any] = [None] * pair.input_count
    for index, gradient in zip(wanted, found, strict=True):
        gradients[index] = gradient
    return tuple(gradients)


def _inputs(pair: GradPair, keeping: Keeping, ctx: Any, saved: list[Any], mutated: set[int]) -> list[Any]:
    """The region's inputs. Raises RuntimeError where one is gone, or does not hold any more what it held."""
    inputs: list[Any] = [None] * pair.input_count
    for place, value in zip(pair.saved, saved, strict=True):
        if isinstance(place.origin, InputItself) and not place.is_held:
            if value is None:
                name = pair.program.names[place.origin.index]  # type: ignore[union-attr]
                raise _refusal(pair, f"its input `{name}` is gone since an earlier backward pass")
            inputs[place.origin.index] = value
    for index, value in zip(keeping.values, getattr(ctx, "values", ()), strict=True):
        inputs[index] = value
    kept, versions = getattr(ctx, "kept", ()), getattr(ctx, "versions", ())
    for (index, _), value, version in zip(keeping.tensors, kept, versions, strict=True):
        tensor = value() if isinstance(value, weakref.ref) else value
        name = pair.program.names[index]  # type: ignore[union-attr]
        if tensor is None:
            inputs[index] = _given_again(pair, ctx, index)
            if inputs[index] is None:
                raise _refusal(pair, f"its input `{name}` is gone; it is kept from the next call on")
            continue
        if tensor._version != version and index not in mutated:
            raise _refusal(pair, f"its input `{name}` was changed in place since")
        inputs[index] = tensor
    for index, value in zip(keeping.copies, getattr(ctx, "copies", ()), strict=True):
        if value is None:
            name = pair.program.names[index]  # type: ignore[union-attr]
            raise _refusal(pair, f"what its input `{name}` held before is gone; it is kept from the next call on")
        inputs[index] = value
    return inputs


def computed_again(pair: GradPair, keeping: Keeping, ctx: Any, saved: list[Any], number: int) -> torch.Tensor | None:
    """Result `number` of the region's node, with a history of autograd's own functions."""
    tangent = next((each for each in pair.tangents if each.output == number), None)
    if tangent is None or keeping.obstacle:
        return None
    mutated = {mutation.input for mutation in pair.mutations}
    inputs = _inputs(pair, keeping, ctx, saved, mutated)
    with torch._C.DisableTorchFunction(), pair.program.state():  # type: ignore[union-attr]
        inputs = [value.clone() if index in mutated else value for index, value in enumerate(inputs)]
        return _at(tangent.place, _run(pair, keeping, ctx, inputs), inputs)


def _given_again(pair: GradPair, ctx: Any, index: int) -> torch.Tensor | None:
    """An input that an earlier part of the same graph gave, and that nobody holds: that part runs again."""
    function, number = functions_of_inputs(pair, ctx).get(index, (None, 0))
    again = getattr(getattr(function, "_forward_cls", None), "result_again", None)
    return None if again is None else again(function, number)


def _alike(value: Any) -> Any:
    """Another tensor with the same history, so that gradients are taken by what came into this region."""
    return value.view_as(value) if isinstance(value, torch.Tensor) and value.requires_grad else value


def _run(pair: GradPair, keeping: Keeping, ctx: Any, inputs: list[Any]) -> Any:
    graph = pair.program.graph  # type: ignore[union-attr]
    if not keeping.draws:
        return _as_tuple(graph.forward(*inputs))
    now = keeping.random_state()
    for device, state in zip(keeping.devices, ctx.random_state, strict=True):
        _set_random_state(device, state)
    try:
        return _as_tuple(graph.forward(*inputs))
    finally:
        for device, state in zip(keeping.devices, now, strict=True):
            _set_random_state(device, state)


def _as_tuple(results: Any) -> tuple:
    return tuple(results) if isinstance(results, (tuple, list)) else (results,)


def _at(place: OutputOf | InputItself, results: tuple, inputs: list[Any]) -> torch.Tensor:
    if isinstance(place, InputItself):
        return inputs[place.index]
    result = results[place.position]
    return result._base if place.is_base and result._is_view() else result


def _random_state(device: torch.device) -> torch.Tensor:
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def _set_random_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def _refusal(pair: GradPair, cause: str) -> RuntimeError:
    return RuntimeError(
        f"dynascope: {pair.region} cannot be differentiated a second time: {cause}. Run it uncompiled "
        "(dynascope.disable) where a second derivative is taken through it."
    )
