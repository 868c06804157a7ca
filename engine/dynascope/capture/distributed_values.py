"""Tensors of several ranks (torch's DTensor) as the program has them: a tensor in the graph, and this rank's part of it.

    x = DTensor.from_local(part, mesh, [Shard(0)])
    y = x.relu() * 2                                   two nodes between DTensors

Who is not made for them takes them for no tensor, and breaks. What the program gets is made of the part when the graph has run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dynascope.autograd_functions.distributed_parts import Made
from dynascope.capture.values import ListValue, SliceValue, TensorValue, TupleValue, Value

Layout = Callable[[], tuple[Value, Value]]


class DistributedValue(Value):
    """`tensor` is the graph's, whose example is a DTensor over a meta tensor. `part` is this rank's part, and `layout` says the
    sizes and strides of all of it; both are None for one from outside. `object` is the real one of the call that is captured, of inputs."""

    __slots__ = ("known", "layout", "object", "part", "tensor")

    def __init__(self, tensor: TensorValue, part: TensorValue | None = None, layout: Layout | None = None) -> None:
        self.tensor, self.part, self.layout = tensor, part, layout
        self.source, self.object = None, None
        self.known: tuple[Value, ...] = ()

    @property
    def python_type(self) -> type:
        return type(self.tensor.example)

    def around(self) -> Callable[..., Any]:
        return Made(self.tensor.example._spec)

    def parts(self) -> tuple[Value, ...]:
        """What it is made of where it leaves: asked first while the program is followed, and the same at later times."""
        if self.part is None or self.layout is None:
            return ()
        self.known = self.known or (self.part, *self.layout())
        return self.known


MODULE = "torch.distributed.tensor"
"""Where the program has not loaded it there are none."""


def is_distributed(cls: type) -> bool:
    return cls is getattr(sys.modules.get(MODULE), "DTensor", None)


def is_placement(object: Any) -> bool:
    return is_placement_class(type(object))


def is_placement_class(cls: Any) -> bool:
    module = sys.modules.get(MODULE)
    return module is not None and isinstance(cls, type) and cls in (module.Shard, module.Replicate, module.Partial)


def is_mesh(object: Any) -> bool:
    return type(object) is getattr(sys.modules.get("torch.distributed.device_mesh"), "DeviceMesh", None)


def distributed_in(values: Iterable[Any]) -> Iterator[DistributedValue]:
    """Of what was realized already."""
    for value in values if MODULE in sys.modules else ():
        value = value.realize() if hasattr(value, "realize") else value
        if isinstance(value, DistributedValue):
            yield value
        elif isinstance(value, (ListValue, TupleValue)):
            yield from distributed_in(value.items)
        elif isinstance(value, SliceValue):
            yield from distributed_in(value.parts)
