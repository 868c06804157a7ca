"""The callable that stands for a compiled graph: autograd node, copy-back of mutated inputs, views made again.

The code is generated flat for each graph, so that a call runs no loop and no wrapper of ours:

    class Region(Function):
        def forward(ctx, *inputs):
            outputs = run_forward(*inputs)
            anchor = EMPTY.detach()         # leads to the region from a second derivative
            ctx.save_for_backward(inputs[1], outputs[2], anchor)
            return outputs[0], outputs[1], anchor

    def call(x, w):
        outputs = apply(x, w)
        x.copy_(outputs[1])
        return (outputs[0], x)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from dynascope.grad.pair import Computed, Constant, GradPair, InputItself, Mutation, Saved, ViewOf
from dynascope.grad.partition import root_of
from dynascope.grad.reach import without_unreached
from dynascope.grad.tape import Layout
from dynascope.grad.views import ViewRecipe

aten = torch.ops.aten


def bridge(
    pair: GradPair, forward_callable: Callable[..., Any], backward_callable: Callable[..., Any] | None
) -> Callable[..., Any]:
    """`callable(*flat inputs) -> tuple`, as the captured graph's own."""
    environment = {
        "run_forward": forward_callable,
        "run_backward": backward_callable,
        "Function": torch.autograd.Function,
        "no_grad": torch.no_grad,
        "is_grad_enabled": torch.is_grad_enabled,
        "zeros": _zeros,
        "laid_out": _laid_out,
        "EMPTY": torch.empty(0),
        "refuse_second_derivative": _SecondDerivative.apply,
        "view": _view,
        "REGION": pair.region,
    }
    if pair.backward is not None:
        environment |= {"SOURCES": tuple(t.sources for t in pair.tangents), "without_unreached": without_unreached}
    environment |= {f"layout_{i}": tangent.layout for i, tangent in enumerate(pair.tangents)}
    exec(compile(bridge_source(pair, environment), f"<bridge of {pair.region}>", "exec"), environment)
    return environment["call"]  # type: ignore[return-value]


def bridge_source(pair: GradPair, environment: dict[str, Any]) -> str:
    """The text of the bridge; constants it needs are put into `environment`."""
    lines: list[str] = []
    if pair.backward is not None:
        lines += [*_function_source(pair, environment["SOURCES"]), ""]
    return "\n".join([*lines, *_call_source(pair, environment)]) + "\n"


def _function_source(pair: GradPair, sources: tuple[frozenset[int], ...]) -> list[str]:
    count = pair.visible_count
    views = _view_outputs(pair)
    tensors = [saved for saved in pair.saved if saved.layout is not None]
    numbers = [saved for saved in pair.saved if saved.layout is None]
    plain = [i for i in range(count) if i not in {tangent.output for tangent in pair.tangents} and _is_tensor(pair, i)]
    return [
        "class Region(Function):",
        "    @staticmethod",
        "    def forward(ctx, *inputs):",
        "        outputs = run_forward(*inputs)",
        *(f"        o{i} = outputs[{i}]{'.data' if i in views else ''}" for i in range(count)),
        "        anchor = EMPTY.detach()",
        f"        ctx.save_for_backward({''.join(_saved_source(s, pair, views) + ', ' for s in tensors)}anchor)",
        f"        ctx.numbers = ({''.join(_saved_source(n, pair, views) + ', ' for n in numbers)})",
        *([f"        ctx.mark_non_differentiable({', '.join(f'o{i}' for i in plain)})"] if plain else []),
        "        ctx.set_materialize_grads(False)",
        f"        return ({''.join(f'o{i}, ' for i in range(count))}anchor)",
        "",
        "    @staticmethod",
        "    def backward(ctx, *tangents):",
        *_backward_source(pair, tensors, numbers, sources),
        "",
        "apply = Region.apply",
    ]


def _backward_source(
    pair: GradPair, tensors: list[Saved], numbers: list[Saved], sources: tuple[frozenset[int], ...]
) -> list[str]:
    names = {id(saved): f"saved[{i}]" for i, saved in enumerate(tensors)}
    names |= {id(saved): f"ctx.numbers[{i}]" for i, saved in enumerate(numbers)}
    arguments = [names[id(saved)] for saved in pair.saved] + [f"t{i}" for i in range(len(pair.tangents))]
    lines = ["        saved = ctx.saved_tensors"]
    for i, tangent in enumerate(pair.tangents):
        lines.append(f"        t{i} = tangents[{tangent.output}]")
    lines += _nothing_given_source(pair)
    may_be_unreached = any(found != sources[0] for found in sources)
    if may_be_unreached:
        given = "".join(f"t{i} is not None, " for i in range(len(pair.tangents)))
        lines.append(f"        given = ({given})")
    for i in range(len(pair.tangents)):
        lines.append(f"        if t{i} is None: t{i} = zeros(layout_{i})")
        lines.append(f"        elif t{i}.stride() != layout_{i}.strides: t{i} = laid_out(t{i}, layout_{i})")
    leave_out = "without_unreached({}, given, SOURCES)" if may_be_unreached else "{}"
    run = leave_out.format(f"tuple(run_backward({', '.join(arguments)}))")
    return [
        *lines,
        "        if is_grad_enabled():",
        "            with no_grad():",
        f"                gradients = {run}",
        "            return refuse_second_derivative(REGION, saved[-1], *gradients)",
        f"        return {run}",
    ]


def _nothing_given_source(pair: GradPair) -> list[str]:
    """A later region may use none of these outputs for a gradient, and yet hand its Nones on to this one."""
    none_given = " and ".join(f"t{i} is None" for i in range(len(pair.tangents)))
    return [f"        if {none_given}:", f"            return {'None, ' * pair.input_count}"]


def _saved_source(saved: Saved, pair: GradPair, views: dict[int, fx.Node]) -> str:
    """A saved value that shares memory with an output shares its version counter too, as in eager."""
    if isinstance(saved.origin, InputItself):
        return f"inputs[{saved.origin.index}]"
    index = saved.origin.index
    if index < pair.visible_count:
        return f"o{index}"
    root = root_of(_output_nodes(pair)[index])
    sharing = next(
        (i for i, node in enumerate(_output_nodes(pair)[: pair.visible_count]) if root_of(node) is root), None
    )
    if sharing is None or saved.layout is None:
        return f"outputs[{index}]"
    own = f"outputs[{index}]"
    return f"o{sharing}.as_strided({own}.shape, {own}.stride(), {own}.storage_offset())"


def _view_outputs(pair: GradPair) -> dict[int, fx.Node]:
    """Outputs that are views inside the graph. Autograd forbids changing such outputs in place; eager does not."""
    nodes = _output_nodes(pair)[: pair.visible_count]
    return {i: node for i, node in enumerate(nodes) if root_of(node) is not node}


def _output_nodes(pair: GradPair) -> Any:
    return next(node for node in pair.forward.graph.nodes if node.op == "output").args[0]


def _is_tensor(pair: GradPair, index: int) -> bool:
    return isinstance(_output_nodes(pair)[index].meta["val"], torch.Tensor)


def _call_source(pair: GradPair, environment: dict[str, Any]) -> list[str]:
    parameters = ", ".join(f"i{i}" for i in range(pair.input_count))
    run = "apply" if pair.backward is not None else "run_forward"
    lines = [f"def call({parameters}):"]
    if pair.backward is None and pair.inputs_require_grad:
        lines += ["    with no_grad():", f"        outputs = run_forward({parameters})"]
    else:
        lines.append(f"    outputs = {run}({parameters})")
    for mutation in pair.mutations:
        lines += _copy_back(mutation)
    results = "".join(_output_source(output, environment) + ", " for output in pair.outputs)
    return [*lines, f"    return ({results})"]


def _copy_back(mutation: Mutation) -> list[str]:
    target, value = f"i{mutation.input}", f"outputs[{mutation.output}]"
    if mutation.records_history:
        return [f"    {target}.copy_({value})"]
    if mutation.is_hidden:
        return [f"    {target}.data.copy_({value})"]
    return ["    with no_grad():", f"        {target}.copy_({value})"]


def _output_source(output: Any, environment: dict[str, Any]) -> str:
    if isinstance(output, Computed):
        return f"outputs[{output.index}]"
    if isinstance(output, InputItself):
        return f"i{output.index}"
    if isinstance(output, Constant):
        name = f"constant_{len(environment)}"
        environment[name] = output.value
        return name
    assert isinstance(output, ViewOf)
    name = f"recipes_{len(environment)}"
    environment[name] = output.recipes
    base = _output_source(output.base, environment)
    return f"view({base}{'.detach()' if output.detached else ''}, {name})"


def _view(base: torch.Tensor, recipes: tuple[ViewRecipe, ...]) -> torch.Tensor:
    for recipe in recipes:
        if recipe.operator is aten.as_strided.default and len(recipe.arguments) > 3:
            sizes, strides, offset, _, root_offset = recipe.arguments
            base = base.as_strided(sizes, strides, base.storage_offset() + offset - root_offset)
        else:
            base = recipe.operator(base, *recipe.arguments)
    return base


def _zeros(layout: Layout) -> torch.Tensor:
    return torch.empty_strided(layout.sizes, layout.strides, dtype=layout.dtype, device=layout.device).zero_()


def _laid_out(tangent: torch.Tensor, layout: Layout) -> torch.Tensor:
    """The backward graph was made for one layout; autograd may hand over another, such as an expanded scalar."""
    return torch.empty_strided(layout.sizes, layout.strides, dtype=layout.dtype, device=layout.device).copy_(tangent)


class _SecondDerivative(torch.autograd.Function):
    """Hands the gradients on, with a history that leads through the region and says why it cannot be followed."""

    @staticmethod
    def forward(ctx: Any, region: str, anchor: torch.Tensor, *gradients: Any) -> tuple[Any, ...]:
        ctx.region = region
        return gradients

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(
            f"dynascope: {ctx.region} was compiled for first derivatives; differentiating its gradients again is not "
            "supported. Run it uncompiled (dynascope.disable) where a second derivative is taken through it."
        )
