"""What compiled code assumes of tensors: `TensorMatches` for one, `NoOverlap` for those that it writes and reads.

    TensorMatches.of(x)        check() == "is a float32 tensor of shape [2, 3] on cpu"

The dispatch keys stand for everything else that makes a tensor plain: layout, conj and neg bits, inference tensors,
wrappers of functorch and of Python. None among the sizes or strides means any, a name
(of the number that a size is) any from 2 on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from dynascope.dataclass import dataclass
from dynascope.guards.guard import Predicate, with_article

Extent = int | str | None


@dataclass(frozen=True)
class TensorMatches(Predicate):
    """A tensor of this type, with these facts."""

    type: type
    dtype: torch.dtype
    device: torch.device
    sizes: tuple[Extent, ...]
    strides: tuple[Extent, ...] | None
    requires_grad: bool
    dispatch_keys: int

    @classmethod
    def of(
        cls, tensor: torch.Tensor, sizes: Sequence[Extent] | None = None, strides: Sequence[Extent] | None = None
    ) -> TensorMatches:
        """The facts of a tensor; those of its sizes and strides that are given stand in place of its own."""
        with torch._C.DisableTorchFunction():
            if sizes is None:
                sizes = tuple(tensor.shape)
            if strides is None and tensor.layout == torch.strided:
                strides = tuple(tensor.stride())
            wanted = tuple(sizes), None if strides is None else tuple(strides)
            keys = torch._C._dispatch_keys(tensor).raw_repr()
            return cls(type(tensor), tensor.dtype, tensor.device, *wanted, tensor.requires_grad, keys)

    def differing_extents(self, value: Any) -> list[tuple[Literal["size", "stride"], int]]:
        """Which sizes and strides are others than expected, of a tensor of the same type and device; none where it is no tensor.

        One that does not require a gradient, or was made in inference mode, is an entry of its own, but its size varies all the same.
        """
        if type(value) is not self.type:
            return []
        is_same_kind = value.dtype == self.dtype and value.device == self.device and value.layout == torch.strided
        if not is_same_kind or len(value.shape) != len(self.sizes) or self.strides is None:
            return []
        found: list[tuple[Literal["size", "stride"], int]] = []
        for d, (size, stride) in enumerate(zip(value.shape, value.stride(), strict=True)):
            found += [("size", d)] if not _extent_matches(self.sizes[d], size) else []
            found += [("stride", d)] if not _extent_matches(self.strides[d], stride) else []
        return found

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
    """Whether a tensor that requires grad is a leaf."""

    leaf: bool

    def holds(self, value: torch.Tensor) -> bool:
        return value.is_leaf is self.leaf

    def check(self) -> str:
        return "is a leaf" if self.leaf else "is no leaf"

    def failure(self, expression: str, value: torch.Tensor) -> str:
        return f"{expression} is {'a leaf' if value.is_leaf else 'the result of an operation'} now"


@dataclass(frozen=True)
class WrittenAs(Predicate):
    """What decides whether autograd lets a tensor that requires grad be written: whether it or its base is a leaf, and how
    a view came about (`unbind` and views made under `no_grad` may not be written)."""

    leaf: bool
    base_is_leaf: bool
    creation: str
    base_requires_grad: bool = False
    """A view taken without recording requires grad where its base does, which of a leaf that is a view is another tensor."""

    @classmethod
    def of(cls, tensor: torch.Tensor) -> WrittenAs:
        with torch._C.DisableTorchFunction():
            if not tensor._is_view():
                return cls(tensor.is_leaf, False, "")
            base, creation = tensor._base, str(torch._C._autograd._get_creation_meta(tensor))
            return cls(tensor.is_leaf, base.is_leaf, creation, base.requires_grad)

    def holds(self, value: torch.Tensor) -> bool:
        return WrittenAs.of(value) == self

    def check(self) -> str:
        return f"is {self._words()}"

    def failure(self, expression: str, value: torch.Tensor) -> str:
        return f"{expression} is {WrittenAs.of(value)._words()}, and was {self._words()}"

    def _words(self) -> str:
        if self.leaf or not self.creation:
            words = "a leaf" if self.leaf else "the result of an operation"
            return words if not self.creation else f"{words} and a view of what requires {'grad' if self.base_requires_grad else 'no grad'}"
        kind = {"NO_GRAD_MODE": " made under no_grad", "MULTI_OUTPUT_NODE": " among several"}
        return f"a view{kind.get(self.creation.split('.')[-1], '')} of {'a leaf' if self.base_is_leaf else 'a result'}"


@dataclass(frozen=True)
class NoOverlap(Predicate):
    """No two of these tensors share memory."""

    element_sizes: tuple[int, ...] = ()
    """In bytes, of each: for the check in C, which does not know types."""

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


def _extents_match(expected: Sequence[Extent], found: Sequence[int]) -> bool:
    return len(expected) == len(found) and all(map(_extent_matches, expected, found))


def _extent_matches(expected: Extent, found: int) -> bool:
    return expected is None or expected == found or (isinstance(expected, str) and found >= 2)


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


def _sizes_text(sizes: Sequence[Extent]) -> str:
    return f"[{', '.join('any' if size is None else str(size) for size in sizes)}]"
