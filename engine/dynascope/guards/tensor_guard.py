"""What compiled code assumes of tensors: `TensorMatches` for one, `NoOverlap` for those that it writes and reads.

    TensorMatches.of(x)        check() == "is a float32 tensor of shape [2, 3] on cpu"

The dispatch keys stand for everything else that makes a tensor plain: layout, conj and neg bits, inference tensors,
wrappers of functorch and of Python. None among the sizes or strides means any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from dynascope.guards.guard import Predicate, with_article


@dataclass(frozen=True)
class TensorMatches(Predicate):
    """A tensor of this type, with these facts."""

    type: type
    dtype: torch.dtype
    device: torch.device
    sizes: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    requires_grad: bool
    dispatch_keys: int

    @classmethod
    def of(cls, tensor: torch.Tensor, sizes: Sequence[int | None] | None = None) -> TensorMatches:
        """The facts of a tensor; `sizes` may leave some open: then every stride that depends on them is open too."""
        with torch._C.DisableTorchFunction():
            actual = tuple(tensor.shape)
            strides = tuple(tensor.stride()) if tensor.layout == torch.strided else None
            wanted = actual if sizes is None else tuple(sizes)
            if sizes is not None and strides is not None and None in wanted:
                strides = _open_strides(wanted, strides)
            keys = torch._C._dispatch_keys(tensor).raw_repr()
            return cls(type(tensor), tensor.dtype, tensor.device, wanted, strides, tensor.requires_grad, keys)

    def holds(self, value: Any) -> bool:
        return type(value) is self.type and self._difference(value) is None

    def check(self) -> str:
        grad = " that requires grad" if self.requires_grad else ""
        kind = with_article(_dtype_name(self.dtype))
        return f"is {kind} tensor of shape {_sizes_text(self.sizes)} on {self.device}{grad}"

    def failure(self, expression: str, value: Any) -> str:
        if type(value) is not self.type:
            return f"{expression} is {with_article(type(value).__name__)}, and was {with_article(self.type.__name__)}"
        return f"{expression} {self._difference(value)}"

    def _difference(self, value: torch.Tensor) -> str | None:
        with torch._C.DisableTorchFunction():
            for differs, now, before in self._comparisons(value):
                if differs:
                    return f"{now}, and {before}"
        return None

    def _comparisons(self, value: torch.Tensor):
        """(differs, "has dtype float64", "had float32") for each fact, the most telling first, read one by one."""
        yield value.dtype != self.dtype, f"has dtype {_dtype_name(value.dtype)}", f"had {_dtype_name(self.dtype)}"
        yield value.device != self.device, f"is on {value.device}", f"was on {self.device}"
        shape = tuple(value.shape)
        yield not _extents_match(self.sizes, shape), f"has shape {_sizes_text(shape)}", f"had {_sizes_text(self.sizes)}"
        keys = torch._C._dispatch_keys(value).raw_repr()
        yield keys != self.dispatch_keys, f"is {_kind(value)}", "was of another kind"
        requires = value.requires_grad
        yield requires != self.requires_grad, *_grad_words(requires)
        if self.strides is not None:
            strides = tuple(value.stride())
            differs = not _extents_match(self.strides, strides)
            yield differs, f"has strides {_sizes_text(strides)}", f"had {_sizes_text(self.strides)}"


@dataclass(frozen=True)
class StorageOffsetIs(Predicate):
    """Where in its storage a tensor begins, for programs that ask."""

    offset: int

    def holds(self, value: torch.Tensor) -> bool:
        with torch._C.DisableTorchFunction():
            return value.storage_offset() == self.offset

    def check(self) -> str:
        return f"begins at element {self.offset} of its storage"

    def failure(self, expression: str, value: torch.Tensor) -> str:
        return f"{expression} begins at element {value.storage_offset()} of its storage, and began at {self.offset}"


@dataclass(frozen=True)
class LeafIs(Predicate):
    """Whether a tensor that requires grad is a leaf: what a program asks, and what forbids writing to it."""

    leaf: bool

    def holds(self, value: torch.Tensor) -> bool:
        return value.is_leaf is self.leaf

    def check(self) -> str:
        return "is a leaf" if self.leaf else "is no leaf"

    def failure(self, expression: str, value: torch.Tensor) -> str:
        return f"{expression} is {'a leaf' if value.is_leaf else 'the result of an operation'} now"


@dataclass(frozen=True)
class NoOverlap(Predicate):
    """No two of these tensors share memory."""

    def holds(self, *tensors: torch.Tensor) -> bool:
        with torch._C.DisableTorchFunction():
            ranges = sorted(memory_range(tensor) for tensor in tensors if tensor.numel())
        return all(first[1] <= second[0] for first, second in zip(ranges, ranges[1:], strict=False))

    def check(self) -> str:
        return "share no memory"

    def failure(self, expression: str, *tensors: torch.Tensor) -> str:
        return f"{expression} share memory now, and did not before"


def memory_range(tensor: torch.Tensor) -> tuple[int, int]:
    """The first and the past-the-last byte that the tensor's elements lie in. Strides are never negative in torch."""
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()


def _extents_match(expected: Sequence[int | None], found: Sequence[int]) -> bool:
    return len(expected) == len(found) and all(e is None or e == f for e, f in zip(expected, found, strict=True))


def _open_strides(sizes: tuple[int | None, ...], strides: tuple[int, ...]) -> tuple[int | None, ...]:
    """A stride stays fixed where no open size lies inside it, that is, where no open dimension has one as small."""

    def depends(dimension: int) -> bool:
        others = [other for other in range(len(sizes)) if other != dimension and sizes[other] is None]
        return any(strides[other] <= strides[dimension] for other in others)

    return tuple(None if depends(dimension) else stride for dimension, stride in enumerate(strides))


def _grad_words(requires: bool) -> tuple[str, str]:
    return ("requires grad", "did not") if requires else ("does not require grad", "did")


def _kind(value: torch.Tensor) -> str:
    flags = [
        ("an inference tensor", value.is_inference()),
        ("a conjugate view", value.is_conj()),
        ("a negated view", value.is_neg()),
    ]
    named = [name for name, applies in flags if applies]
    if value.layout != torch.strided:
        named.append(f"a {str(value.layout).removeprefix('torch.')} tensor")
    return " and ".join(named) or "a tensor of another kind"


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _sizes_text(sizes: Sequence[int | None]) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in sizes)}]"
