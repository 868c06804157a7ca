"""Calls of torch with a number that is another at each call: values for which a call does nothing, refuses, or means something else.

    python tests/differential/numbers_in_calls.py [names]        all of them, in several orders; a line for each difference

The first value is compiled for, the second makes the number vary, and the rest must be as eager: results, errors, and the random
numbers that come next.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dynascope
import torch
import torch.nn.functional as F
from comparing import leaves, plain

FLOATS = (0.5, 0.0, 1.0, 0.25, -1.0, 2.0, float("inf"), float("nan"), 1e-8, 3)
INTEGERS = (2, 1, 0, 3, -1, 4, 5, -2, 7)

X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
PLACES, CLASSES = torch.tensor([0, 2, 1]), torch.tensor([0, 1, 2, 3])


def batch_norm(n: float) -> Any:
    mean, variance = torch.zeros(6), torch.ones(6)
    return F.batch_norm(X, mean, variance, training=True, momentum=n), mean, variance


def written(n: Any) -> torch.Tensor:
    y = X.clone()
    y[n] = 0
    return y


BY_FLOATS: dict[str, Callable[[Any], Any]] = {
    "dropout": lambda n: F.dropout(X, n),
    "dropout in evaluation": lambda n: F.dropout(X, n, False),
    "dropout in place": lambda n: F.dropout(X.clone(), n, inplace=True),
    "dropout of channels": lambda n: F.dropout2d(IMAGES, n),
    "alpha dropout": lambda n: F.alpha_dropout(X, n, True),
    "rrelu": lambda n: F.rrelu(X, 0.0, n, True),
    "attention with dropout": lambda n: F.scaled_dot_product_attention(IMAGES, IMAGES, IMAGES, dropout_p=n),
    "attention with a scale": lambda n: F.scaled_dot_product_attention(IMAGES, IMAGES, IMAGES, scale=n),
    "gumbel softmax": lambda n: F.gumbel_softmax(X, tau=n),
    "bernoulli": lambda n: torch.bernoulli(torch.zeros(3), p=n),
    "normal": lambda n: torch.normal(0.0, n, (3,)),
    "uniform": lambda n: torch.empty(3).uniform_(n, n + 1),
    "add": lambda n: torch.add(X, X, alpha=n),
    "subtracted from": lambda n: n - X,
    "mul": lambda n: X * n,
    "div": lambda n: X / n,
    "divided by": lambda n: n / X,
    "floor division": lambda n: X // n,
    "remainder": lambda n: X % n,
    "remainder by": lambda n: torch.remainder(n, X),
    "fmod": lambda n: torch.fmod(X, n),
    "truncated": lambda n: torch.div(X, n, rounding_mode="trunc"),
    "power": lambda n: X.abs() ** n,
    "power of": lambda n: n**X,
    "float power": lambda n: torch.float_power(X.abs(), n),
    "clamp from below": lambda n: X.clamp(min=n),
    "clamp from above": lambda n: X.clamp(max=n),
    "clamp": lambda n: X.clamp(n, 1.0),
    "lerp": lambda n: X.lerp(X * 2, n),
    "addcmul": lambda n: torch.addcmul(X, X, X, value=n),
    "addmm": lambda n: torch.addmm(X[:, :4], X, X.t(), beta=n),
    "baddbmm": lambda n: torch.baddbmm(IMAGES[0], IMAGES[0], IMAGES[0], beta=n, alpha=n),
    "leaky relu": lambda n: F.leaky_relu(X, n),
    "elu": lambda n: F.elu(X, n),
    "celu": lambda n: F.celu(X, n),
    "softplus": lambda n: F.softplus(X, n),
    "softplus with a threshold": lambda n: F.softplus(X, 1, n),
    "hardtanh": lambda n: F.hardtanh(X, -1.0, n),
    "hardshrink": lambda n: F.hardshrink(X, n),
    "softshrink": lambda n: F.softshrink(X, n),
    "threshold": lambda n: F.threshold(X, n, 0.0),
    "where": lambda n: torch.where(n < X, X, n),
    "full": lambda n: torch.full((3,), n),
    "fill": lambda n: X.clone().fill_(n),
    "masked fill": lambda n: X.masked_fill(X > 0, n),
    "equal": lambda n: n == X,
    "smooth l1 loss": lambda n: F.smooth_l1_loss(X, X * 2, beta=n),
    "huber loss": lambda n: F.huber_loss(X, X * 2, delta=n),
    "triplet loss": lambda n: F.triplet_margin_loss(X, X + 1, X - 1, margin=n, p=2),
    "smoothed cross entropy": lambda n: F.cross_entropy(X, CLASSES, label_smoothing=n),
    "norm": lambda n: X.norm(n),
    "norm of rows": lambda n: torch.linalg.vector_norm(X, n, 1),
    "normalize": lambda n: F.normalize(X, p=n),
    "renorm": lambda n: X.renorm(2, 0, n),
    "distances": lambda n: torch.cdist(X, X, p=n),
    "batch norm": batch_norm,
    "layer norm": lambda n: F.layer_norm(X, (6,), eps=n),
    "rms norm": lambda n: F.rms_norm(X, (6,), eps=n),
    "logit": lambda n: X.sigmoid().logit(n),
    "nan to": lambda n: X.log().nan_to_num(n),
    "quantile": lambda n: X.quantile(n),
    "close": lambda n: torch.isclose(X, X + 0.1, atol=n),
    "interpolate": lambda n: F.interpolate(IMAGES, scale_factor=n),
    "linspace": lambda n: torch.linspace(0, n, 5),
    "arange": lambda n: torch.arange(0, n, 0.5),
    "a tensor of it": lambda n: torch.tensor(n) * X,
    "embedding": lambda n: F.embedding(PLACES, X.clone(), max_norm=n),
    "histogram": lambda n: torch.histc(X, 4, -1.0, n),
}
BY_INTEGERS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda n: X.sum(n),
    "softmax": lambda n: X.softmax(n),
    "largest": lambda n: X.max(n),
    "cumsum": lambda n: X.cumsum(n),
    "sort": lambda n: X.sort(n),
    "transpose": lambda n: X.transpose(0, n),
    "permute": lambda n: X.permute(n, 1 - n),
    "flip": lambda n: X.flip(n),
    "roll": lambda n: X.roll(n),
    "roll rows": lambda n: X.roll(1, n),
    "narrow": lambda n: X.narrow(0, n, 1),
    "topk": lambda n: X.topk(n),
    "kthvalue": lambda n: X.kthvalue(n),
    "chunk": lambda n: X.chunk(n),
    "split": lambda n: X.split(n),
    "unbind": lambda n: X.unbind(n),
    "repeat": lambda n: X.repeat(n, 1),
    "tril": lambda n: X.tril(n),
    "diagonal": lambda n: X.diagonal(n),
    "select": lambda n: X.select(0, n),
    "unsqueeze": lambda n: X.unsqueeze(n),
    "squeeze": lambda n: X[None].squeeze(n),
    "flatten": lambda n: IMAGES.flatten(n),
    "flatten up to": lambda n: IMAGES.flatten(0, n),
    "view": lambda n: X.view(n, -1),
    "expand": lambda n: X[:1].expand(n, 6),
    "pad": lambda n: F.pad(X, (n, 0)),
    "pad with it": lambda n: F.pad(X, (1, n), value=n),
    "interpolate to": lambda n: F.interpolate(IMAGES, size=n),
    "pool": lambda n: F.avg_pool2d(IMAGES, n),
    "pool to": lambda n: F.adaptive_avg_pool2d(IMAGES, n),
    "largest of windows": lambda n: F.max_pool2d(IMAGES, n, 1),
    "convolution by strides": lambda n: F.conv2d(IMAGES, IMAGES[:, :, :2, :2], stride=n),
    "padded convolution": lambda n: F.conv2d(IMAGES, IMAGES[:, :, :2, :2], padding=n),
    "dilated convolution": lambda n: F.conv2d(IMAGES, IMAGES[:, :, :2, :2], dilation=n),
    "group norm": lambda n: F.group_norm(IMAGES, n),
    "pixel shuffle": lambda n: F.pixel_shuffle(IMAGES, n),
    "gated": lambda n: F.glu(X, n),
    "one hot": lambda n: F.one_hot(PLACES, n),
    "ignored class": lambda n: F.cross_entropy(X, CLASSES, ignore_index=n),
    "index": lambda n: X[n],
    "list of indices": lambda n: X[[0, n]],
    "slice to": lambda n: X[:n],
    "slice from": lambda n: X[n:],
    "slice by": lambda n: X[::n],
    "window": lambda n: X[:, n : n + 2],
    "slice columns by": lambda n: X[:, ::n],
    "unfold by": lambda n: X.unfold(1, 2, n),
    "divided evenly": lambda n: torch.arange(840.0).view(n, -1) + 1,
    "groups": lambda n: F.group_norm(torch.arange(1680.0).view(2, 840), n),
    "largest of windows by them": lambda n: F.max_pool2d(IMAGES, n) + 1,
    "lower triangle": lambda n: torch.tril_indices(n, n) + 1,
    "upper triangle": lambda n: torch.triu_indices(4, n, n - 2) + 1,
    "one hot summed": lambda n: (F.one_hot(PLACES, n) + 1).sum(),
    "gather": lambda n: X.gather(0, torch.full((1, 6), n)),
    "write": written,
    "write a part": lambda n: written(slice(None, n)),
    "index fill": lambda n: X.index_fill(0, PLACES, n),
    "join": lambda n: torch.cat([X, X], n),
    "stack": lambda n: torch.stack([X, X], n),
    "unfold": lambda n: X.unfold(1, n, 1),
    "zeros": lambda n: torch.zeros(n),
    "arange": lambda n: torch.arange(n),
    "linspace of": lambda n: torch.linspace(0, 1, n),
    "random order": lambda n: torch.randperm(n),
    "eye": lambda n: torch.eye(n),
    "power": lambda n: X**n,
    "power of integers": lambda n: PLACES**n,
    "shift": lambda n: PLACES << n,
    "integer division": lambda n: PLACES // n,
    "integer remainder": lambda n: PLACES % n,
    "bits": lambda n: PLACES & n,
    "corrected variance": lambda n: X.var(1, correction=n),
    "rotate": lambda n: torch.rot90(X, n),
    "repeat each": lambda n: X.repeat_interleave(n, 0),
    "differences": lambda n: X.diff(n),
    "power of a matrix": lambda n: torch.matrix_power(X[:, :4], n),
    "counts": lambda n: torch.bincount(PLACES, minlength=n),
    "window function": lambda n: torch.hann_window(n),
    "several of a tensor": lambda n: [X] * n,
    "added so often": lambda n: torch.add(PLACES, PLACES, alpha=n),
}
CALLS = [(name, call, FLOATS) for name, call in BY_FLOATS.items()] + [
    (f"{name} (int)", call, INTEGERS) for name, call in BY_INTEGERS.items()
]


def differences(call: Callable[[Any], Any], numbers: tuple) -> Iterator[str]:
    """A line for the first number of each order for which the compiled call does something else."""
    for order in (numbers, numbers[2:] + numbers[:2], numbers[::-1]):
        dynascope.reset()
        compiled = dynascope.compile(call, options={"recompile_limit": 50})
        for number in order:
            theirs, ours = _outcome(call, number), _outcome(compiled, number)
            if not _same(ours, theirs):
                yield f"{number} after {order[: order.index(number)]}: {ours}, eager {theirs}"
                break


def _outcome(function: Callable[[Any], Any], number: Any) -> tuple[Any, ...]:
    torch.manual_seed(0)
    try:
        result = function(number)
    except Exception as error:
        return type(error), str(error), torch.rand(()).item()
    return result, None, torch.rand(()).item()


def _same(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    if ours[1:] != theirs[1:] or plain(ours[0]) != plain(theirs[0]):
        return False
    pairs = zip(leaves(ours[0]), leaves(theirs[0]), strict=True)
    return all(
        (a.dtype, a.shape) == (b.dtype, b.shape) and torch.allclose(a, b, equal_nan=True, rtol=1e-4, atol=1e-6)
        for a, b in pairs
    )


def main() -> int:
    warnings.simplefilter("ignore")
    found = 0
    for name, call, numbers in CALLS:
        if not sys.argv[1:] or name in sys.argv[1:]:
            for line in differences(call, numbers):
                found += 1
                print(f"{name}: {' '.join(line.split())[:300]}", flush=True)
    print(f"{len(CALLS)} calls, {found} differences")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
