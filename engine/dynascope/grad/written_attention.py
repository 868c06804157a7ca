"""Attention that a program writes out, computed by the kernel that keeps no scores in memory.

    weights = torch.softmax((q @ k.transpose(-2, -1) / 8).masked_fill(blocked, -inf), -1)
    y = weights @ v                      ->     y = scaled_dot_product_attention(q, k, v, ~blocked, scale=1 / 8)

Only where nobody else reads the scores or the weights, nothing is dropped, and torch has such a kernel for these operands. A mask that
is added stays as it is written: where it blocks a row as a whole, the kernel's backward pass takes other weights. The kernel's result
is kept for its own backward pass, and lies otherwise than a product's: the program gets a copy, which it may write to, as it may to
a product. (That copy and what follows are mostly one kernel.) A row that is blocked as a whole is NaN where minus infinity blocks it, and
has equal weights where a large number does; so it is with gradients.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dynascope.dataclass import dataclass
from dynascope.grad.attention import MATH, attention, choice_of
from dynascope.grad.written_forms import CASTS, is_undisturbed, only_user, target_of

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

FEWEST_KEYS, FEWEST_KEYS_WITH_BACKWARD = 128, 256
"""Below, scores are small, and what is written is as fast."""
FEWEST_KEYS_OF_FLOATS = 1024
"""On a GPU, with a backward pass: of 32 bits its kernel takes longer than what is written, and fewer scores take little memory."""
BLOCKS = -1e8
"""A number this low, filled in, leaves nothing of a weight, and of a row of nothing else equal ones."""
PRODUCTS = {operator.matmul, torch.matmul, torch.bmm, torch.einsum, "matmul", "bmm", "__matmul__"}
EQUATION = re.compile(r"([a-zA-Z]{3,4}),([a-zA-Z]{3,4})->([a-zA-Z]{3,4})")
SCALINGS = {operator.mul, torch.mul, torch.multiply, "mul", "multiply", "__mul__"}
DIVISIONS = {operator.truediv, torch.div, torch.divide, torch.true_divide, "div", "divide", "true_divide", "__truediv__"}
FILLS = {torch.masked_fill, "masked_fill"}
CHOICES = {torch.where}
SOFTMAXES = {torch.softmax, torch.nn.functional.softmax, "softmax"}
DROPOUTS = {torch.dropout, torch.nn.functional.dropout}


@dataclass(frozen=True, slots=True)
class Mask:
    """`fill` takes the place of scores where it is true, or where it is false and `keeps`."""

    node: fx.Node
    fill: float
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class WrittenAttention:
    """`key` is the second factor of the scores: keys are its columns, or its rows where it `is_turned`. `between` are the nodes that
    compute scores and weights."""

    query: fx.Node
    key: fx.Node
    is_turned: bool
    value: fx.Node
    scale: float
    mask: Mask | None
    between: tuple[fx.Node, ...]

    def run(self, load: Callable[[fx.Node], Any], recorder: Recorder) -> torch.Tensor:
        key, mask = load(self.key), self.mask
        operands = map(_Factor.apply, (load(self.query), key.mT if self.is_turned else key, load(self.value)))
        query, key, value = map(_with_rank_4, operands)
        used, lost = (None, None) if mask is None else _used(mask, _with_rank_4(load(mask.node)))
        if mask is not None and math.isfinite(mask.fill):  # equal weights, whose scores no gradient leads to: they are filled in
            query = torch.where(lost, 0.0, query)
        result = attention(recorder, query, key.mT, value, used, scale=self.scale)
        if mask is not None and not math.isfinite(mask.fill):
            result = _Lost.apply(result, value, lost)
        result = result.squeeze(0) if load(self.query).dim() == 3 else result
        return result.clone(memory_format=torch.contiguous_format)


def written_attentions(graph: fx.GraphModule) -> dict[fx.Node, WrittenAttention]:
    """By the product that ends each. None where results are to be the same each time: backward passes of such kernels are not."""
    found: dict[fx.Node, WrittenAttention] = {}
    if torch.are_deterministic_algorithms_enabled():
        return found
    for node in graph.graph.nodes:
        if target_of(node) in SOFTMAXES:
            attention = _Match(node).attention()
            if attention is not None:
                found[attention[0]] = attention[1]
    return found


class _Factor(torch.autograd.Function):
    """The same tensor; its gradient lies in memory as that of a product's factor does, and not as the kernel's."""

    @staticmethod
    def forward(ctx: Any, factor: torch.Tensor) -> torch.Tensor:
        ctx.saves = False
        return factor.view_as(factor)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient.contiguous()


class _Lost(torch.autograd.Function):
    """NaN in rows of which nothing is left. No gradient leads from there to scores that something was filled into, and one of NaN to
    all values: these are multiplied with weights that are NaN."""

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor, value: torch.Tensor, lost: torch.Tensor) -> torch.Tensor:
        ctx.saves, ctx.lost, ctx.shape = False, lost, value.shape
        return torch.where(lost, math.nan, result)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
        of_values = torch.where(ctx.lost.any(-2, keepdim=True), math.nan, 0.0).to(gradient.dtype)
        return torch.where(ctx.lost, 0.0, gradient), of_values.expand(ctx.shape), None


def _used(mask: Mask, tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Which scores the kernel uses, and the rows in which nothing is left. Of these it uses all where they are to be equal."""
    blocked = torch.logical_not(tensor) if mask.keeps else tensor
    lost = blocked.all(-1, keepdim=True)
    used = torch.logical_not(blocked)
    return (used | lost if math.isfinite(mask.fill) else used), lost


class _Match:
    """From a softmax backwards to the scores, and forwards to the product with the values."""

    def __init__(self, softmax: fx.Node) -> None:
        self.softmax = softmax
        self.between = [softmax]
        self.scale = 1.0
        self.mask: Mask | None = None

    def attention(self) -> tuple[fx.Node, WrittenAttention] | None:
        end = self._product_behind()
        scores = self._scores_before() if end is not None and _is_over_columns(self.softmax) else None
        if end is None or scores is None:
            return None
        query, key = _factors(scores)
        value = _factors(end)[1]
        found = WrittenAttention(query, key, scores.target is torch.einsum, value, self.scale, self.mask, tuple(self.between))
        return (end, found) if _fits(found, scores, end) else None

    def _product_behind(self) -> fx.Node | None:
        node = self.softmax
        while (user := only_user(node)) is not None:
            if (factors := _factors(user)) is not None and _is_by_batch(user, turned=False):
                return user if factors[0] is node and factors[1] is not node else None
            if not (_drops_nothing(user, node) or (target_of(user) in CASTS and user.args[0] is node)):
                return None
            self.between.append(user)
            node = user
        return None

    def _scores_before(self) -> fx.Node | None:
        node = self.softmax.args[0]
        while isinstance(node, fx.Node) and only_user(node) in self.between:
            if _factors(node) is not None and _is_by_batch(node, turned=True):
                self.between.append(node)
                return node
            operand = self._scaled(node) or self._masked(node) or self._cast(node)
            if operand is None:
                return None
            self.between.append(node)
            node = operand
        return None

    def _scaled(self, node: fx.Node) -> fx.Node | None:
        target = target_of(node)
        if len(node.args) != 2 or node.kwargs or target not in SCALINGS | DIVISIONS:
            return None
        operand, number = node.args
        if target in SCALINGS and isinstance(number, fx.Node):
            operand, number = number, operand
        if not isinstance(operand, fx.Node) or type(number) not in (int, float) or number == 0 or not math.isfinite(number):
            return None
        self.scale = self.scale / number if target in DIVISIONS else self.scale * number
        return operand

    def _masked(self, node: fx.Node) -> fx.Node | None:
        """Of the operands the one that is masked. There is one mask, on what is scaled already."""
        if self.mask is not None or self.scale != 1.0 or node.kwargs:
            return None
        target, arguments = target_of(node), node.args
        if target in FILLS and len(arguments) == 3 and _blocks(arguments[2]) and isinstance(arguments[1], fx.Node):
            self.mask = Mask(arguments[1], float(arguments[2]))
            return arguments[0] if isinstance(arguments[0], fx.Node) else None
        if target in CHOICES and len(arguments) == 3 and isinstance(arguments[0], fx.Node):
            kept, filled = arguments[1:]
            if isinstance(kept, fx.Node) and _blocks(filled):
                self.mask = Mask(arguments[0], float(filled), keeps=True)
                return kept
            if isinstance(filled, fx.Node) and _blocks(kept):
                self.mask = Mask(arguments[0], float(kept))
                return filled
        return None

    def _cast(self, node: fx.Node) -> fx.Node | None:
        """To a wider type, in which softmax computes anyway."""
        is_wider = target_of(node) in CASTS and node.meta["example_value"].dtype is torch.float32
        return node.args[0] if is_wider and isinstance(node.args[0], fx.Node) else None


def _factors(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """Of a product of matrices by batch, `a[..., i, j] @ b[..., j, k]`."""
    arguments = node.args[1:] if node.target is torch.einsum else node.args
    if node.kwargs or target_of(node) not in PRODUCTS or len(arguments) != 2:
        return None
    return arguments if all(isinstance(each, fx.Node) for each in arguments) else None  # type: ignore[return-value]


def _is_by_batch(node: fx.Node, turned: bool) -> bool:
    """Whether a product is `a @ b` by batch, as all are but an einsum, or an einsum `a @ b.mT` where it is to be turned."""
    if node.target is not torch.einsum:
        return True
    found = EQUATION.fullmatch(str(node.args[0]).replace(" ", ""))
    if found is None:
        return False
    (first, second, result) = found.groups()
    rows, inner, columns = first[-2:-1], first[-1:], second[-2:-1] if turned else second[-1:]
    batch = first[:-2]
    second_ends = columns + inner if turned else inner + columns
    return second == batch + second_ends and result == batch + rows + columns and len(set(batch + rows + inner + columns)) == len(batch) + 3


def _is_over_columns(softmax: fx.Node) -> bool:
    named = dict(softmax.kwargs)
    dimension = softmax.args[1] if len(softmax.args) > 1 else named.pop("dim", None)
    named.pop("_stacklevel", None)
    dtype = named.pop("dtype", None)
    rank = softmax.meta["example_value"].dim()
    return not named and len(softmax.args) <= 2 and dimension in (-1, rank - 1) and dtype in (None, torch.float32)


def _drops_nothing(node: fx.Node, weights: fx.Node) -> bool:
    if target_of(node) not in DROPOUTS or not node.args or node.args[0] is not weights:
        return False
    names = ("input", "p", "training" if node.target is torch.nn.functional.dropout else "train", "inplace")
    given = {"p": 0.5, "training": True, **dict(zip(names, node.args, strict=False)), **node.kwargs}
    return not given.get("inplace") and (given["p"] == 0 or given.get("train", given["training"]) is False)


def _blocks(value: Any) -> bool:
    return type(value) in (int, float) and value <= BLOCKS


def _fits(found: WrittenAttention, scores: fx.Node, end: fx.Node) -> bool:
    """Whether the kernel computes the same of these operands, by their types, shapes and histories."""
    tensors = [node.meta.get("example_value") for node in (found.query, found.key, found.value, scores, end)]
    if not all(isinstance(each, torch.Tensor) for each in tensors):
        return False
    query, key, value, products, result = tensors
    key = key.mT if found.is_turned else key
    rank, size = query.dim(), query.shape[-1]
    same_batch = query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
    if rank not in (3, 4) or not same_batch or value.shape[-1] != size:
        return False
    if key.shape[-1] < (FEWEST_KEYS_WITH_BACKWARD if result.requires_grad else FEWEST_KEYS):
        return False
    if len({each.dtype for each in tensors}) > 1 or not query.dtype.is_floating_point:
        return False
    if not {node.meta["example_value"].dtype for node in found.between} <= {query.dtype, torch.float32}:
        return False  # weights that are rounded to a type between
    if not _have_one_history(tensors) or not is_undisturbed(found.between, end):
        return False
    mask = None if found.mask is None else found.mask.node.meta.get("example_value")
    if found.mask is not None and not _mask_fits(found.mask, mask, products):
        return False
    device = end.meta["device"]
    if device.type == "cuda" and query.dtype is torch.float32 and result.requires_grad and key.shape[-1] < FEWEST_KEYS_OF_FLOATS:
        return False
    if any(node.meta.get("device") != device for node in _operands(found)) or device.type not in ("cpu", "cuda"):
        return False
    options = {"dropout_p": 0.0, "is_causal": False, "scale": found.scale, "enable_gqa": False}
    options["attn_mask"] = None if mask is None else _with_rank_4(mask)
    return choice_of(device, *map(_with_rank_4, (query, key.mT, value)), options) != MATH


def _mask_fits(mask: Mask, example: Any, products: torch.Tensor) -> bool:
    if math.isfinite(mask.fill) and mask.fill < torch.finfo(products.dtype).min:
        return False  # eager raises
    if not isinstance(example, torch.Tensor) or example.dtype is not torch.bool or example.dim() > products.dim():
        return False
    return all(have in (1, wanted) for have, wanted in zip(reversed(example.shape), reversed(products.shape), strict=False))


def _have_one_history(tensors: list[torch.Tensor]) -> bool:
    """The kernel keeps all of its operands for a backward pass: where one needs no gradient, fewer are kept as it is written."""
    *operands, products, result = tensors
    if result.requires_grad:
        return products.requires_grad and all(each.requires_grad for each in operands)
    return not products.requires_grad


def _with_rank_4(tensor: torch.Tensor) -> torch.Tensor:
    """With dimensions of one element before its own."""
    return tensor[(None,) * (4 - tensor.dim())] if tensor.dim() < 4 else tensor


def _operands(found: WrittenAttention) -> Iterator[fx.Node]:
    yield from (found.query, found.key, found.value)
    if found.mask is not None:
        yield found.mask.node
