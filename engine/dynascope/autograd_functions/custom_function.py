"""A custom function with both of its passes captured, as the target of one node of a graph.

    class Sine(Function):                          forward    x -> (x.sin(), x)            one result, and what backward reads
        forward:  save x; return x.sin()           backward   (gradient, x) -> (gradient * x.cos(),)
        backward: return gradient * x.cos()

    node.target(x)                                 runs the two as a torch.autograd.Function of the same name

Who wants to see the operators inside says how a graph is run: `target.applied(run, operands)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import torch
from torch import fx
from torch.autograd.function import once_differentiable

from dynascope.autograd_functions.names_read import NameRead, OwnBackward
from dynascope.autograd_functions.standing_at import Place, standing_at
from dynascope.dataclass import dataclass

Run = Callable[[fx.GraphModule, Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True, eq=False)
class CustomFunction:
    """`forward` takes the operands and returns `count` results and then what `backward` reads, saved tensors first; `backward`
    takes the results' gradients and that, and returns a gradient for each operand, or None."""

    name: str
    module: str
    forward: fx.GraphModule
    backward: fx.GraphModule
    count: int
    saved: int
    """How many of the values that `backward` reads were given to `save_for_backward`: that these do not change is checked."""
    returns_tuple: bool
    without_gradient: tuple[int, ...]
    """The results marked as not differentiable."""
    materializes: bool
    """Whether undefined gradients of results are zeros for `backward`."""
    is_once_differentiable: bool
    ends_here: bool = False
    """Its own backward pass was not followed to where it may be differentiated again: the program's own runs then, or, where its context
    cannot be made again, that is an error."""
    asked_at: tuple[Place, ...] = field(default=(), repr=False)
    """Where the program's backward pass reads what was saved, from that function on: there it is told that this was freed or changed."""

    names: tuple[NameRead, ...] = field(default=(), repr=False)
    """Those that `backward` takes for granted, and the program's own backward pass."""
    own: OwnBackward | None = field(default=None, repr=False)
    node_class: Callable[[], Any] = field(default=lambda: None, repr=False)
    """Asked for the class of what the program finds as `grad_fn`, while its function is there."""

    def __post_init__(self) -> None:
        """As fx names what a node calls. What lies in torch's modules fx looks up there by its name: it would find the class."""
        is_torchs = self.module.partition(".")[0] == "torch"
        object.__setattr__(self, "__name__", self.name)
        object.__setattr__(self, "__module__", __name__ if is_torchs else self.module)

    def __call__(self, *operands: Any) -> Any:
        return self._results(self._plain.apply(*operands))

    def applied(self, run: Run, operands: Sequence[Any]) -> Any:
        """The results, differentiable as the program says, of graphs that `run` runs."""
        return self._results(_function_of(self, run).apply(*operands))

    @functools.cached_property
    def _plain(self) -> type[torch.autograd.Function]:
        def run(graph: fx.GraphModule, inputs: Sequence[Any]) -> Sequence[Any]:
            if graph is not self.backward or not self.runs_its_own():
                return graph.forward(*inputs)  # no module of the program's: hooks of all modules are not for it
            gradients, kept = inputs[: self.count], inputs[self.count :]
            return self.own.gradients(self.name, gradients, kept, len(self.backward.graph.output_node().args[0]))

        return _function_of(self, run)

    @property
    def hands_on(self) -> tuple[int, ...] | None:
        """For each result the operand that it is, where it does nothing else: it is there for what comes back."""
        nodes = list(self.forward.graph.nodes)
        if any(node.op not in ("placeholder", "output") for node in nodes):
            return None
        return tuple(nodes.index(each) for each in nodes[-1].args[0][: self.count])

    def runs_its_own(self) -> bool:
        """Whether the program's own backward pass runs, and not what was captured of it."""
        if self.own is None:
            return False
        ends = self.ends_here and self.own.attributes is not None and torch.is_grad_enabled()
        return ends or any(name.is_changed() for name in self.names)

    def _results(self, results: tuple) -> Any:
        return results if self.returns_tuple else results[0]


def names_read(graph: fx.GraphModule) -> tuple[NameRead, ...]:
    """By the backward passes of all custom functions in a graph."""
    found: list[NameRead] = []
    for node in graph.graph.nodes:
        if isinstance(node.target, CustomFunction):
            inside = (names_read(node.target.forward), names_read(node.target.backward))
            found += [*node.target.names, *inside[0], *inside[1]]
        elif isinstance(held := getattr(node.target, "forward", None), fx.GraphModule):
            found += names_read(held)
    return tuple(found)


class DifferentiatedNoFurther(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gradient: torch.Tensor, name: str) -> torch.Tensor:
        ctx.name = name
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(
            f"the backward pass of {ctx.name} calls custom functions in their own backward passes; compiled by Dynascope it can be "
            "differentiated twice, and this is a third derivative. Call it in a function with @dynascope.disable."
        )


def _function_of(custom: CustomFunction, run: Run) -> type[torch.autograd.Function]:
    def forward(ctx: Any, *operands: Any) -> tuple:
        made = run(custom.forward, operands)
        results, kept = tuple(made[: custom.count]), made[custom.count :]
        ctx.save_for_backward(*kept[: custom.saved])
        ctx.kept, ctx.saves = kept[custom.saved :], bool(custom.saved)
        ctx.set_materialize_grads(custom.materializes)
        ctx.mark_non_differentiable(*(results[at] for at in custom.without_gradient))
        return results

    def has_none(ctx: Any, gradients: tuple) -> tuple:
        is_undefined = not custom.materializes and any(gradient is None for gradient in gradients)
        return (None,) * len(ctx.needs_input_grad) if is_undefined else ()

    def followed(ctx: Any, gradients: tuple, saved: tuple) -> tuple:
        made = tuple(run(custom.backward, (*gradients, *saved, *ctx.kept)))
        if not custom.ends_here or not torch.is_grad_enabled() or custom.runs_its_own():
            return made
        return tuple(gradient if gradient is None else DifferentiatedNoFurther.apply(gradient, custom.name) for gradient in made)

    def backward(ctx: Any, *gradients: Any) -> tuple:
        return has_none(ctx, gradients) or followed(ctx, gradients, ctx.saved_tensors if custom.saved else ())

    if custom.saved and custom.asked_at:  # reading them raises after a first pass
        backward = standing_at(custom.asked_at, has_none, followed)
    if custom.is_once_differentiable:
        backward = once_differentiable(backward)
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type(custom.name, (torch.autograd.Function,), methods)
