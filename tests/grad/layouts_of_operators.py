"""Every ATen call that torch's operator database makes on the CPU: its results' layouts against what was predicted.

    python tests/grad/layouts_of_operators.py [--samples N] [--dtype float32] [names]      prints each difference once

Each sample runs as it is, with noncontiguous, transposed and channels-last operands, forward and backward.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import torch
from dynascope.grad.build import StepBuilder
from dynascope.grad.decompose import table_for
from dynascope.grad.operators import traits
from dynascope.grad.options import GradOptions
from dynascope.grad.reasons import DifferentiationRefused
from dynascope.grad.tape import Tape, Value, layout_of, replace
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

DECOMPOSITIONS = table_for(GradOptions())
KNOWN = {
    # Sizes of what only its own backward reads.
    "aten._embedding_bag.default",
}  # fmt: skip


class LayoutAudit(TorchDispatchMode):
    """Compares below autograd; `differences` are (operator, what) -> the first example."""

    def __init__(self, differences: dict[tuple[str, str], str], sample: str) -> None:
        super().__init__()
        self.differences, self.sample = differences, sample

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, kind = kwargs or {}, traits(func).kind
        if kind == "composite":
            with self:
                return func.decompose(*args, **kwargs)
        predicted = predict(func, args, kwargs) if kind == "plain" else ()
        result = func(*args, **kwargs)
        for mine, theirs in zip(predicted, result if isinstance(result, (tuple, list)) else (result,), strict=False):
            if isinstance(mine, Value) and isinstance(theirs, torch.Tensor):
                self.compare(str(func), mine, theirs)
        return result

    def compare(self, name: str, mine: Value, theirs: torch.Tensor) -> None:
        pairs = {
            "sizes": (mine.sizes, tuple(theirs.shape)),
            "dtype": (mine.dtype, theirs.dtype),
            "strides": seen(mine, theirs),
        }
        for what, (ours, eager) in pairs.items():
            if ours != eager:
                self.differences.setdefault((name, what), f"{self.sample}: {ours}, eager has {eager}")
                return


def seen(mine: Value, theirs: torch.Tensor) -> tuple[list[int], list[int]]:
    """Strides of dimensions that have several elements."""
    several = [d for d, size in enumerate(theirs.shape) if size > 1 and theirs.numel()]
    return [mine.strides[d] for d in several if d < mine.rank], [theirs.stride(d) for d in several]


def predict(func: Any, args: Any, kwargs: Any) -> tuple[Any, ...]:
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if any(tensor.layout is not torch.strided for tensor in tensors):
        return ()
    to_value = lambda leaf: Value(layout_of(leaf, leaf.device)) if isinstance(leaf, torch.Tensor) else leaf  # noqa: E731
    try:
        made = StepBuilder(Tape(), DECOMPOSITIONS).op(func, *replace(args, to_value), **replace(kwargs, to_value))
    except DifferentiationRefused:
        return ()
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def variants(sample: Any) -> Iterator[tuple[str, Any]]:
    yield "as it is", sample
    yield "noncontiguous", sample.noncontiguous()
    yield "transposed", sample.transform(transposed)
    yield "rotated", sample.transform(rotated)
    yield "first transposed", first_operand(sample, transposed)
    yield "first rotated", first_operand(sample, rotated)
    yield "holes", sample.transform(with_holes)
    yield "expanded", sample.transform(expanded)
    if isinstance(sample.input, torch.Tensor) and sample.input.dim() in (4, 5):
        yield "channels last", sample.transform(channels_last)


def transposed(leaf: Any) -> Any:
    if not is_strided(leaf, 2):
        return leaf
    return leaf.detach().mT.contiguous().mT.requires_grad_(leaf.requires_grad)


def rotated(leaf: Any) -> Any:
    """Laid out with the last dimension first."""
    if not is_strided(leaf, 3):
        return leaf
    order = (leaf.dim() - 1, *range(leaf.dim() - 1))
    moved = leaf.detach().permute(order).contiguous().permute(*range(1, leaf.dim()), 0)
    return moved.requires_grad_(leaf.requires_grad)


def with_holes(leaf: Any) -> Any:
    """A slice of a wider tensor, transposed where there are two dimensions."""
    if not is_strided(leaf, 1):
        return leaf
    other = leaf.detach().mT if leaf.dim() > 1 else leaf.detach()
    wide = torch.cat([other, other], -1)[..., : other.shape[-1]]
    return (wide.mT if leaf.dim() > 1 else wide).requires_grad_(leaf.requires_grad)


def expanded(leaf: Any) -> Any:
    """Stride 0 in the first dimension."""
    if not is_strided(leaf, 2) or 0 in leaf.shape:
        return leaf
    return leaf.detach()[:1].expand(leaf.shape).requires_grad_(leaf.requires_grad)


def is_strided(leaf: Any, rank: int) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided and leaf.dim() >= rank


def first_operand(sample: Any, change: Any) -> Any:
    changed = sample.transform(lambda leaf: leaf)
    changed.input = change(sample.input)
    return changed


def channels_last(leaf: Any) -> Any:
    like = (
        {4: torch.channels_last, 5: torch.channels_last_3d}.get(leaf.dim()) if isinstance(leaf, torch.Tensor) else None
    )
    return leaf if like is None else leaf.detach().contiguous(memory_format=like).requires_grad_(leaf.requires_grad)


def audit(info: Any, dtype: torch.dtype, samples: int, differences: dict[tuple[str, str], str]) -> None:
    gradient = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
    for number, sample in zip(range(samples), info.sample_inputs("cpu", dtype, requires_grad=gradient), strict=False):
        if any(isinstance(leaf, torch.Tensor) and leaf.layout is not torch.strided for leaf in sample_leaves(sample)):
            continue
        for kind, variant in variants(sample):
            with LayoutAudit(differences, f"{info.name} #{number} {kind}"):
                run(info.op, variant)


def sample_leaves(sample: Any) -> list[Any]:
    return tree_leaves((sample.input, sample.args, sample.kwargs))


def run(operator: Any, sample: Any) -> None:
    try:
        result = operator(sample.input, *sample.args, **sample.kwargs)
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if outputs:
            torch.autograd.backward(outputs, [torch.ones_like(output) for output in outputs])
    except Exception:
        return  # Eager has no answer to compare with.


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--dtype", default="float32")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    dtype, differences = getattr(torch, chosen.dtype), {}
    for info in op_db:
        if dtype in info.supported_dtypes("cpu") and (not chosen.names or info.name in chosen.names):
            audit(info, dtype, chosen.samples, differences)
    for (name, what), example in differences.items():
        print(f"{name} {what}{' (known)' if name in KNOWN else ''}: {example}")


if __name__ == "__main__":
    main()
