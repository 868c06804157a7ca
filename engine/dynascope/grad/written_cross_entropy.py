"""Cross entropy of a linear layer over many classes, a few rows at a time: scores over a whole vocabulary are never in memory at once.

    logits = hidden @ weight.T                              (rows, classes)
    loss = F.cross_entropy(logits.view(-1, classes), target)

Only where nobody else reads the scores. They, their loss and what it leads back to them are computed for some rows, and the gradients of
hidden states and weights from these, before the next rows come. The loss is a sum, so its gradient is a factor of all: the
backward pass multiplies with it. (The order is that of Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training", 2024.)
Gradients in float16 could leave its range before they are multiplied: there it stays as written. So it does where sizes vary, or a
derivative is differentiated again.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import fx
from torch.autograd.function import once_differentiable

from dynascope.dataclass import dataclass
from dynascope.grad.written_forms import CASTS, is_undisturbed, only_user, target_of
from dynascope.meta_kernels import autocast
from dynascope.sizes import Size

if TYPE_CHECKING:
    from dynascope.grad.record import Recorder

aten = torch.ops.aten
MOST_PIECES = 4
FEWEST_BYTES = 1 << 27
"""Of all scores: below, what a piece saves is little, and time counts for more (a tenth of it on a processor)."""
FEWEST_ROWS = {"cpu": 256, "cuda": 512}
"""Of a piece: below, products of matrices become slower."""
PRODUCTS = {operator.matmul, torch.matmul, torch.mm, "matmul", "mm", "__matmul__"}
RESHAPES = {torch.reshape, torch.flatten, "view", "reshape", "flatten"}
WIDE = (torch.float32, torch.float64)
SUM = 2
"""ATen's number of the reduction."""
Operands = tuple[fx.Node, fx.Node, bool, fx.Node | None]
"""(hidden, weight, whether it is (features, classes), bias)"""


@dataclass(frozen=True, slots=True)
class WrittenCrossEntropy:
    """`weight` is (classes, features), or where it `is_turned` (features, classes). `moves` are what the program does to the rows of
    scores between, of which each is done to the rows of `hidden` in its place."""

    hidden: fx.Node
    weight: fx.Node
    is_turned: bool
    bias: fx.Node | None
    target: fx.Node
    moves: tuple[fx.Node, ...]
    ignored: int
    is_mean: bool
    dtype: torch.dtype
    pieces: int
    between: tuple[fx.Node, ...]

    def run(self, load: Callable[[fx.Node], Any], recorder: Recorder) -> torch.Tensor:
        hidden, weight = load(self.hidden), load(self.weight)
        bias = None if self.bias is None else load(self.bias)
        hidden, weight, bias = autocast.converted(aten.linear.default, (hidden, weight, bias))
        for move in self.moves:
            hidden = _moved(hidden, move)
        return _InPieces.apply(hidden, weight if self.is_turned else weight.mT, bias, load(self.target), self, recorder)


def written_cross_entropies(graph: fx.GraphModule) -> dict[fx.Node, WrittenCrossEntropy]:
    """By the loss that ends each."""
    losses = [node for node in graph.graph.nodes if node.target is F.cross_entropy]
    if not losses or any(map(_varies, graph.graph.nodes)):
        return {}
    found = ((node, _written(node)) for node in losses)
    return {node: form for node, form in found if form is not None}


class _InPieces(torch.autograd.Function):
    """rows (count, features), factor (features, classes), bias (classes) or None, target (count,) -> the loss."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        factor: torch.Tensor,
        bias: torch.Tensor | None,
        target: torch.Tensor,
        form: WrittenCrossEntropy,
        recorder: Recorder,
    ) -> torch.Tensor:
        is_by_column = factor.stride(0) == 1 and factor.stride(1) == factor.size(0)
        of_rows, of_factor, of_bias, total, count = [], None, None, None, None
        classes = torch.arange(factor.size(1), device=target.device)
        size = -(-rows.shape[0] // form.pieces)
        for part, wanted in _one_after_another(zip(rows.split(size), torch.split_copy(target, size), strict=True), recorder):
            scores = torch.mm(part, factor) if bias is None else torch.addmm(bias, part, factor)
            wide = scores if scores.dtype in WIDE else scores.float()
            logarithms = aten._log_softmax(wide, 1, False)
            loss, valid = aten.nll_loss_forward(logarithms, wanted, None, SUM, form.ignored)
            total, count = (loss, valid) if total is None else (total + loss, count + valid)
            if not any(ctx.needs_input_grad):
                continue
            chosen, counts = classes == wanted.unsqueeze(1), (wanted != form.ignored).unsqueeze(1)
            to_scores = ((logarithms.exp() - chosen.to(wide.dtype)) * counts.to(wide.dtype)).to(scores.dtype)
            if ctx.needs_input_grad[0]:
                of_rows.append(torch.mm(to_scores, factor.mT))
            if ctx.needs_input_grad[1]:  # as the gradient of a product of matrices lies in memory
                first, second = (to_scores.mT, part) if is_by_column else (part.mT, to_scores)
                of_factor = torch.mm(first, second) if of_factor is None else torch.addmm(of_factor, first, second)
            if ctx.needs_input_grad[2]:
                summed = to_scores.sum(0, dtype=wide.dtype)
                of_bias = summed if of_bias is None else of_bias + summed
        gradients = [torch.cat(of_rows) if of_rows else None, of_factor, of_bias]
        # Eager keeps the operands: who changes them before the backward pass is told so.
        kept = [rows if ctx.needs_input_grad[1] else None, factor if ctx.needs_input_grad[0] else None]
        ctx.save_for_backward(target, count, *gradients, *kept)
        ctx.is_mean, ctx.is_by_column, ctx.dtype = form.is_mean, is_by_column, rows.dtype
        return (total / count if form.is_mean else total).to(form.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple:
        _, count, of_rows, of_factor, of_bias, *_ = ctx.saved_tensors
        scale = gradient.to(count.dtype)
        if ctx.is_mean:  # of no rows at all the loss is NaN, and no gradient leads from it
            scale = torch.where(count == 0, 0.0, scale / count)
        scaled = [None if each is None else (each.to(scale.dtype) * scale).to(ctx.dtype) for each in (of_rows, of_factor, of_bias)]
        if ctx.is_by_column and scaled[1] is not None:
            scaled[1] = scaled[1].mT
        return (*scaled, None, None, None)


def _one_after_another(pieces: Any, recorder: Recorder) -> Iterator[Any]:
    """Each has kernels of its own, which run before those of the next."""
    origin = recorder.tape.origin
    for number, piece in enumerate(pieces, start=1):
        recorder.tape.origin = replace(origin, piece=number)
        yield piece
    recorder.tape.origin = origin


def _written(loss: fx.Node) -> WrittenCrossEntropy | None:
    scores, target, weight, size_average, ignored, reduce, reduction, smoothing = _arguments(loss)
    if not isinstance(scores, fx.Node) or not isinstance(target, fx.Node) or type(ignored) is not int:
        return None
    if (weight, size_average, reduce) != (None, None, None) or smoothing != 0 or reduction not in ("mean", "sum"):
        return None
    between, moves, operands = _back_to_product(scores, loss)
    if operands is None or not is_undisturbed(between, loss) or not _types_fit(between, loss):
        return None
    hidden, factor, is_turned, bias = operands
    if len({each.meta.get("device") for each in (*between, loss, hidden, factor, bias, target) if each is not None}) > 1:
        return None
    pieces = _pieces(between[-1], scores.meta["example_value"], hidden.meta["example_value"], target.meta["example_value"])
    if not pieces:
        return None
    dtype = loss.meta["example_value"].dtype
    return WrittenCrossEntropy(
        hidden, factor, is_turned, bias, target, tuple(moves), ignored, reduction == "mean", dtype, pieces, tuple(between)
    )


def _back_to_product(scores: fx.Node, loss: fx.Node) -> tuple[list[fx.Node], list[fx.Node], Operands | None]:
    """The nodes from the loss back to the product of matrices, which is the last; in the program's order those that move rows; and what
    is multiplied."""
    between: list[fx.Node] = []
    moves: list[fx.Node] = []
    node, user = scores, loss
    while only_user(node) is user:
        between.append(node)
        if (operands := _operands(node)) is not None:
            return between, moves[::-1], operands
        if _moves_rows(node):
            moves.append(node)
        elif target_of(node) not in CASTS:
            break
        node, user = node.args[0], node  # type: ignore[assignment]
    return between, moves, None


def _arguments(loss: fx.Node) -> tuple[Any, ...]:
    defaults = {"input": None, "target": None, "weight": None, "size_average": None, "ignore_index": -100, "reduce": None}
    given = {**defaults, "reduction": "mean", "label_smoothing": 0.0}
    return tuple({**given, **dict(zip(given, loss.args, strict=False)), **loss.kwargs}.values())


def _operands(node: fx.Node) -> Operands | None:
    """Of a linear layer or a product with a matrix."""
    target, arguments = target_of(node), node.args
    if node.kwargs or not all(isinstance(each, fx.Node) or each is None for each in arguments):
        return None
    if target is F.linear and len(arguments) in (2, 3):
        found = arguments[0], arguments[1], False, arguments[2] if len(arguments) == 3 else None
    elif target in PRODUCTS and len(arguments) == 2:
        found = arguments[0], arguments[1], True, None
    else:
        return None
    examples = [each.meta.get("example_value") for each in found if isinstance(each, fx.Node)]
    is_fit = all(isinstance(example, torch.Tensor) for example in examples) and examples[0].dim() > 1 and examples[1].dim() == 2
    return found if is_fit else None  # type: ignore[return-value]


def _moves_rows(node: fx.Node) -> bool:
    """Whether it leaves each row as it is: a view, a choice of some rows, or a copy of all."""
    operand = node.args[0] if node.args else None
    if not isinstance(operand, fx.Node) or not isinstance(example := operand.meta.get("example_value"), torch.Tensor):
        return False
    result, target = node.meta["example_value"], target_of(node)
    if example.dim() < 2 or not result.dim() or result.shape[-1] != example.shape[-1]:
        return False
    if target == "contiguous" or target in RESHAPES:
        return not any(isinstance(each, torch.memory_format) for each in (*node.args, *node.kwargs.values()))
    index = node.args[1] if target is operator.getitem else None
    places = index if isinstance(index, tuple) else (index,)
    if index is None or not all(type(each) in (int, slice) or each is Ellipsis for each in places):
        return False
    if any(isinstance(bound, fx.Node) for each in places if type(each) is slice for bound in (each.start, each.stop, each.step)):
        return False
    reaches_last = Ellipsis in places or len(places) == example.dim()
    return not reaches_last or places[-1] in (Ellipsis, slice(None))


def _moved(hidden: torch.Tensor, move: fx.Node) -> torch.Tensor:
    """The move of rows of scores, done to rows of as many features."""
    if move.target is operator.getitem:
        return hidden[move.args[1]]
    if move.target == "contiguous":
        return hidden
    return hidden.reshape(*move.meta["example_value"].shape[:-1], hidden.shape[-1])


def _pieces(product: fx.Node, scores: torch.Tensor, hidden: torch.Tensor, target: torch.Tensor) -> int:
    """In how many pieces the rows come; 0 where they come at once."""
    device = product.meta["device"].type
    if scores.dim() != 2 or target.dim() != 1 or target.dtype is not torch.int64 or device not in FEWEST_ROWS:
        return 0
    rows, features = scores.shape[0], hidden.shape[-1]
    pieces = min(MOST_PIECES, rows // FEWEST_ROWS[device])
    byte_count = scores.numel() * product.meta["example_value"].element_size()
    # A gradient of all weights is written once for each piece: that must be little beside the scores.
    return pieces if pieces > 1 and byte_count >= FEWEST_BYTES and 2 * rows >= features else 0


def _types_fit(between: list[fx.Node], loss: fx.Node) -> bool:
    """Scores in a type that the kernels have, and between them and the loss none that is narrower."""
    types = [node.meta["example_value"].dtype for node in (*reversed(between), loss)]
    if types[0] not in (torch.bfloat16, *WIDE) or types[-1] not in (types[0], torch.float32):
        return False
    return all(after in (before, torch.float32) for before, after in zip(types, types[1:], strict=False))


def _varies(node: fx.Node) -> bool:
    """Whether it brings sizes that vary, or a number that sizes may come of."""
    size = node.meta.get("size")
    return "late" in node.meta or "sizes" in node.meta or (isinstance(size, Size) and size.kind is int)
