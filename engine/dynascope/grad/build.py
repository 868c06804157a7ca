"""Writing steps: one operator in, the steps of its core form out.

    builder.op(aten.gelu.default, x)  ->  Value      after writing mul, erf, add, mul

An operator that has a decomposition is never written itself; views go through `views.APPLY`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import isfinite
from typing import Any

import torch

from dynascope.grad import convolution_layouts, window_layouts  # noqa: F401  (register their rules)
from dynascope.grad.eager_layouts import laid_out_as_eager
from dynascope.grad.metadata import output_layouts
from dynascope.grad.tape import Layout, Tape, Value, leaves
from dynascope.grad.views import APPLY

aten = torch.ops.aten
Decomposition = Callable[..., Any]


class StepBuilder:
    """Writes to a tape. `decompositions` is a plain dictionary: an operator that is not in it stays."""

    def __init__(self, tape: Tape, decompositions: dict[Any, Decomposition]) -> None:
        self.tape = tape
        self.decompositions = decompositions

    def op(self, target: Any, *arguments: Any, **keywords: Any) -> Any:
        """The operator's result: a value, or a tuple of values where it returns several."""
        if target in APPLY:
            return APPLY[target](self, *arguments, **keywords)
        decompose = self.decompositions.get(target)
        if decompose is not None and not overflows(arguments, keywords):
            result = decompose(self, *arguments, **keywords)
            if result is not NotImplemented:
                return laid_out_as_eager(self, target, result, arguments, keywords)
        return self.undecomposed(target, *arguments, **keywords)

    def undecomposed(self, target: Any, *arguments: Any, **keywords: Any) -> Any:
        """The same of the operator itself, whether or not it has a decomposition."""
        layouts = output_layouts(target, arguments, keywords)
        written = [layout if isinstance(layout, Layout) else None for layout in layouts]
        outputs = self.tape.write(target, arguments, keywords, written).outputs
        outputs = tuple(
            layout if isinstance(layout, int) else out for layout, out in zip(layouts, outputs, strict=True)
        )
        if not target._schema.returns:
            return None
        return outputs if len(target._schema.returns) > 1 or _returns_list(target) else outputs[0]

    def write_view(self, target: Any, source: Value, arguments: tuple[Any, ...], layout: Layout) -> Value:
        return self.tape.write(target, (source, *arguments), {}, [layout]).outputs[0]  # type: ignore[return-value]

    def write(
        self, target: Any, arguments: tuple[Any, ...], keywords: dict[str, Any], layouts: list[Layout | None]
    ) -> Any:
        return self.tape.write(target, arguments, keywords, layouts).outputs

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """`b.mul(x, y)` is `b.op(aten.mul.Tensor, x, y)`; see `SHORT`."""
        target = SHORT.get(name)
        if target is None:
            raise AttributeError(name)
        return lambda *arguments, **keywords: self.op(target, *arguments, **keywords)

    def convert(self, value: Value, dtype: torch.dtype) -> Value:
        return value if value.dtype is dtype else self.op(aten._to_copy.default, value, dtype=dtype)

    def full(self, sizes: Any, number: Any, like: Value, dtype: torch.dtype | None = None) -> Value:
        return self.op(aten.full.default, list(sizes), number, dtype=dtype or like.dtype, device=like.device)

    def compare(self, name: str, a: Value, b: Any) -> Value:
        return self.op(getattr(getattr(aten, name), "Tensor" if isinstance(b, Value) else "Scalar"), a, b)


def overflows(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Whether a number is out of the range of the first operand's type. The operator itself knows if that is an error."""
    numbers = [n for n in (*arguments, *keywords.values()) if type(n) in (int, float) and not -1 <= n <= 127]
    if not numbers:
        return False
    dtype = next((leaf.dtype for leaf in leaves(arguments) if isinstance(leaf, Value)), keywords.get("dtype"))
    if dtype is None or dtype.is_complex or dtype is torch.bool:
        return False
    limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    return any(isfinite(number) and not limits.min <= number <= limits.max for number in numbers)


@functools.cache
def _returns_list(target: Any) -> bool:
    returns = target._schema.returns
    return len(returns) == 1 and str(returns[0].type).startswith("List")


SHORT: dict[str, Any] = {
    "add": aten.add.Tensor,
    "sub": aten.sub.Tensor,
    "mul": aten.mul.Tensor,
    "div": aten.div.Tensor,
    "power": aten.pow.Tensor_Scalar,
    "where": aten.where.self,
    "sum": aten.sum.dim_IntList,
    "mean": aten.mean.dim,
    "amax": aten.amax.default,
    "amin": aten.amin.default,
    "view": aten.view.default,
    "expand": aten.expand.default,
    "unsqueeze": aten.unsqueeze.default,
    "squeeze": aten.squeeze.dims,
    "permute": aten.permute.default,
    "transpose": aten.transpose.int,
    "select": aten.select.int,
    "slice": aten.slice.Tensor,
    "gather": aten.gather.default,
    "mm": aten.mm.default,
    "bmm": aten.bmm.default,
    "clone": aten.clone.default,
    "logical_and": aten.logical_and.default,
    "logical_not": aten.logical_not.default,
    "maximum": aten.maximum.default,
    "minimum": aten.minimum.default,
    "var_mean": aten.var_mean.correction,
    **{
        name: getattr(aten, name).default
        for name in (
            *("exp", "exp2", "log", "log1p", "sqrt", "rsqrt", "sin", "tanh", "sigmoid", "erf"),
            *("abs", "neg", "isnan", "isinf", "clamp_max"),
        )
    },
}
