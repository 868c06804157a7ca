"""Graphs as modules whose Python text is written when somebody calls them or reads it: kernels take the place of most.

    UnwrittenGraphModule(root, graph)      a third of what making an `fx.GraphModule` would take is saved
    add_node(graph, op, target, ...)       a node of such a graph
    placeholder(graph, "X")                an argument of one, by the program's name

Whoever asks for `forward`, of the module or of its class, gets the function that a plain one has, so that people's compilers may keep it,
script it or print it. As of torch.compile's own graphs the text is of the graph as it is then, with what was changed in it since.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from torch import fx


def add_node(
    graph: fx.Graph, op: str, target: Any, arguments: tuple = (), keywords: dict[str, Any] | None = None, name: str | None = None
) -> fx.Node:
    """As `graph.create_node`, which since torch 2.13 looks in every argument for torch's symbols: our graphs hold none, and it was a tenth
    of differentiation."""
    node = graph.create_node(op, target, name=name)
    if arguments:
        _set(node, "args", arguments)
    if keywords:
        _set(node, "kwargs", keywords)
    return node


def placeholder(graph: fx.Graph, name: str) -> fx.Node:
    """An argument of the program's, called as it is there. fx alone would call the node of an argument `X` `x`, one of `x` beside it `x_1`,
    and write `x = X` before it reads the argument `x`."""
    return graph.create_node("placeholder", name, name=name)


_set = object.__setattr__
"""The properties of a node without its own `__setattr__`, which takes it out of the table of targets and puts it back."""


class UnwrittenGraphModule(fx.GraphModule):
    __jit_unused_properties__ = [*getattr(fx.GraphModule, "__jit_unused_properties__", ()), "code"]

    def __init__(self, root: Any, graph: fx.Graph, class_name: str = "GraphModule") -> None:
        super().__init__(root, graph, class_name)  # which ends with `recompile`
        self._is_made = True

    def recompile(self) -> Any:
        if "_is_made" in self.__dict__:
            return super().recompile()
        # fx makes a class for each module.
        type(self).forward = _WhenAsked(self)  # type: ignore[assignment,method-assign]
        return None

    @property
    def code(self) -> str:
        self._write()
        return super().code

    def __str__(self) -> str:
        self._write()
        return super().__str__()

    def __reduce__(self) -> tuple[Any, ...]:
        self._write()
        return super().__reduce__()

    def _write(self) -> None:
        if isinstance(vars(type(self)).get("forward"), _WhenAsked):
            super().recompile()

    def _deepcopy_init(self) -> Callable[..., None]:
        return UnwrittenGraphModule.__init__


class _WhenAsked:
    """Stands for `forward` in the class of a module until that is asked for."""

    def __init__(self, module: UnwrittenGraphModule) -> None:
        self.module = weakref.ref(module)

    def __get__(self, instance: UnwrittenGraphModule | None, owner: type) -> Any:
        module = self.module()
        assert module is not None, "the class of a module that is gone"
        module._write()
        return owner.forward if instance is None else instance.forward  # type: ignore[attr-defined]
