"""Programs whose sizes vary, one idea each: with what they take, as `symbolic_graphs` makes it."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from symbolic_graphs import number, tensor

aten = torch.ops.aten
SIZES = (2, 3, 7, 8, 16, 17, 63, 64, 100, 1000, 4097)
ONE = [{"s0": size} for size in SIZES]
TWO = [{"s0": a, "s1": b} for a, b in ((2, 3), (3, 2), (7, 64), (64, 7), (17, 100), (33, 16), (2, 1000), (300, 5), (65, 129))]
INDEX = {"dtype": torch.int64}


def transposed(x):
    return x.transpose(0, 1)


def every_other(x):
    return x[:, ::2]


PROGRAMS = {
    "one dimension": (lambda x: x.exp() + 1, [tensor("s0")]),
    "broadcast static": (lambda x, y: (x * 2 + y).relu(), [tensor("s0", 64), tensor(64)]),
    "broadcast column": (lambda x, y: x + y, [tensor("s0", 64), tensor("s0", 1)]),
    "broadcast of varying": (lambda x, y: x * y, [tensor(3, "s0"), tensor("s0")]),
    "transposed operand": (lambda x, y: x.t() + y, [tensor("s0", 64), tensor(64, "s0")]),
    "transposed input": (lambda x: x.sigmoid(), [tensor("s0", 6, build=transposed)]),
    "strided input": (lambda x: x.sin() + x, [tensor("s0", 10, build=every_other)]),
    "half": (lambda x: (x * 3).exp(), [tensor("s0", 5, dtype=torch.bfloat16)]),
    "double": (lambda x: x.log1p(), [tensor("s0", 5, dtype=torch.float64)]),
    "integers": (lambda x: x * 3 - 1, [tensor("s0", 5, below=9, **INDEX)]),
    "comparison": (lambda x, y: torch.where(x > y, x, y), [tensor("s0", 5), tensor(5)]),
    "sum of columns": (lambda x: x.sum(1), [tensor("s0", 64)]),
    "sum of varying columns": (lambda x: x.sum(1), [tensor(64, "s0")]),
    "sum of rows": (lambda x: x.sum(0), [tensor("s0", 64)]),
    "sum of static rows": (lambda x: x.sum(0), [tensor(7, "s0")]),
    "sum of all": (lambda x: x.sum(), [tensor("s0", 64)]),
    "sum of all, long rows": (lambda x: x.sum(), [tensor("s0", 1024)]),
    "mean": (lambda x: x.mean(1), [tensor(8, "s0")]),
    "mean of all": (lambda x: x.mean(), [tensor(8, "s0")]),
    "middle dimension": (lambda x: x.sum(1), [tensor(3, "s0", 5)]),
    "two outer dimensions": (lambda x: x.amax((0, 2)), [tensor(3, "s0", 5)]),
    "variance": (lambda x: x.var(1), [tensor(5, "s0")]),
    "deviation": (lambda x: x.std(0, correction=0), [tensor("s0", 5)]),
    "argmax": (lambda x: x.argmax(1), [tensor(5, "s0")]),
    "argmin of rows": (lambda x: x.argmin(0), [tensor("s0", 40)]),
    "max with place": (lambda x: x.max(1), [tensor("s0", 9)]),
    "all": (lambda x: (x < 9).all(1), [tensor(5, "s0")]),
    "product": (lambda x: x.tanh().prod(1), [tensor(5, "s0")]),
    "logsumexp": (lambda x: x.logsumexp(1), [tensor(5, "s0")]),
    "softmax": (lambda x: x.softmax(-1), [tensor(5, "s0")]),
    "softmax of rows": (lambda x: x.softmax(0), [tensor("s0", 40)]),
    "softmax of static": (lambda x: x.softmax(-1), [tensor("s0", 40)]),
    "log softmax": (lambda x: x.log_softmax(-1), [tensor(5, "s0")]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (64,), w, b), [tensor("s0", 64), tensor(64), tensor(64)]),
    "layer norm of varying": (lambda x: F.layer_norm(x, (x.shape[-1],)), [tensor(5, "s0")]),
    "group norm": (lambda x: F.group_norm(x, 2), [tensor("s0", 4, 3, 3)]),
    "view that splits": (lambda x: x.view(-1, 8).sum(1), [tensor("s0", 64)]),
    "view that merges": (lambda x: (x + 1).view(-1).exp(), [tensor("s0", 64)]),
    "view of heads": (lambda x: x.view(2, x.shape[1], 4, 8).transpose(1, 2).softmax(-1), [tensor(2, "s0", 32)]),
    "merged after transposition": (lambda x: x.transpose(0, 1).reshape(-1, 6) + 1, [tensor("s0", 4, 6)]),
    "expanded": (lambda x: x.unsqueeze(0).expand(3, -1, -1).reshape(-1, 6) + 1, [tensor("s0", 6)]),
    "slice from one": (lambda x: x[:, 1:].exp(), [tensor(4, "s0")]),
    "slice to the last": (lambda x: x[:, :-1].exp(), [tensor(4, "s0")]),
    "last": (lambda x: x[:, -1] * 2, [tensor(4, "s0")]),
    "difference of neighbours": (lambda x: x[1:] - x[:-1], [tensor("s0", 5)]),
    "cat of rows": (lambda x, y: torch.cat([x, y], 0) * 2, [tensor("s0", 16), tensor(5, 16)]),
    "cat of columns": (lambda x, y: torch.cat([x, y], 1) * 2, [tensor(4, "s0"), tensor(4, "s0")]),
    "split and back": (lambda x: torch.cat(x.split(8, 1)[::-1], 1) + 1, [tensor("s0", 24)]),
    "pad": (lambda x: F.pad(x, (1, 2, 3, 4)), [tensor(4, "s0")]),
    "flip": (lambda x: x.flip(1), [tensor(4, "s0")]),
    "roll": (lambda x: x.roll(1, 1), [tensor(4, "s0")]),
    "roll the other way": (lambda x: x.roll(-2, 0), [tensor("s0", 4)]),
    "triangle": (lambda x: x.tril(), [tensor("s0", "s0")]),
    "mask": (lambda x: x.masked_fill(torch.ones_like(x).triu(1) > 0, -1.0), [tensor("s0", "s0")]),
    "repeat": (lambda x: x.repeat(3, 2), [tensor("s0", 6)]),
    "arange": (lambda x: torch.arange(x.shape[0]).float() * x, [tensor("s0")]),
    "zeros": (lambda x: torch.zeros(x.shape[0], 3), [tensor("s0")]),
    "full": (lambda x: torch.full((x.shape[0], 3), x.shape[0]), [tensor("s0")]),
    "a size as a number": (lambda x: x / x.shape[0] + x.shape[1], [tensor("s0", 5)]),
    "embedding": (lambda w, t: F.embedding(t, w) * 2, [tensor(50, 16), tensor("s0", 7, below=50, **INDEX)]),
    "embedding of a varying table": (lambda w, t: F.embedding(t, w), [tensor("s0", 6), tensor(9, below="s0", **INDEX)]),
    "index": (lambda x, t: x[t] * 2, [tensor("s0", 16), tensor(9, below="s0", **INDEX)]),
    "negative index": (lambda x, t: x[t - 1] * 2, [tensor("s0", 16), tensor(9, below="s0", **INDEX)]),
    "gather": (lambda x, t: x.gather(1, t), [tensor("s0", 16), tensor("s0", 3, below=16, **INDEX)]),
    "index select": (lambda x, t: x.index_select(1, t), [tensor(4, "s0"), tensor(5, below="s0", **INDEX)]),
    "index put": (lambda x, t, v: x.index_put((t,), v, True), [tensor(50, 6), tensor("s0", below=50, **INDEX), tensor("s0", 6)]),
    "index add": (lambda x, t, v: x.index_add(0, t, v), [tensor("s0", 6), tensor(9, below="s0", **INDEX), tensor(9, 6)]),
    "one hot": (lambda t: F.one_hot(t, 7), [tensor("s0", below=7, **INDEX)]),
    "slice scatter": (lambda x, y: x.slice_scatter(y, 0, 1), [tensor("s0 + 1", 5), tensor("s0", 5)]),
    "select scatter": (lambda x, y: x.select_scatter(y, 0, -1), [tensor("s0", 5), tensor(5)]),
    "matrix product": (lambda x, w: (x @ w).relu(), [tensor("s0", 16), tensor(16, 8)]),
    "linear": (lambda x, w, b: F.linear(x, w, b).sum(1), [tensor("s0", 16), tensor(8, 16), tensor(8)]),
    "batched product": (lambda x, y: torch.bmm(x, y) + 1, [tensor("s0", 4, 6), tensor("s0", 6, 5)]),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1).relu(), [tensor("s0", 3, 6, 6), tensor(4, 3, 3, 3)]),
    "attention": (lambda q, k: aten._scaled_dot_product_flash_attention_for_cpu(q, k, k)[0] * 2, [tensor(2, 3, "s0", 8)] * 2),
    "whole input returned": (lambda x: (x, x.t(), x + 1), [tensor("s0", 3)]),
    "size returned": (lambda x: (x.relu(), x.shape[0] * 2), [tensor("s0", 3)]),
}  # fmt: skip

TWO_ROOTS = {
    "pointwise": (lambda x, y: x * y + 1, [tensor("s0", "s1"), tensor("s1")]),
    "outer": (lambda x, y: x.unsqueeze(1) * y, [tensor("s0"), tensor("s1")]),
    "transposed": (lambda x, y: x.t() + y, [tensor("s0", "s1"), tensor("s1", "s0")]),
    "softmax": (lambda x: x.softmax(-1), [tensor("s0", "s1")]),
    "softmax of rows": (lambda x: x.softmax(0), [tensor("s0", "s1")]),
    "sum of rows": (lambda x: x.sum(0), [tensor("s0", "s1")]),
    "sum of columns": (lambda x: x.sum(1), [tensor("s0", "s1")]),
    "sum of all": (lambda x: x.sum(), [tensor("s0", "s1", 4)]),
    "merged": (lambda x: x.transpose(0, 1).reshape(-1, 6).exp(), [tensor("s0", "s1", 6)]),
    "flat": (lambda x: (x + 1).view(-1) * 2, [tensor("s0", "s1")]),
    "heads": (lambda x: x.view(x.shape[0], x.shape[1], 4, 8).transpose(1, 2).reshape(-1, x.shape[1], 8) + 1, [tensor("s0", "s1", 32)]),
    "cat": (lambda x, y: torch.cat([x, y], 0).relu(), [tensor("s0", 6), tensor("s1", 6)]),
    "cache": (lambda x, y: torch.cat([x, y], 1).softmax(1), [tensor(3, "s0", 6), tensor(3, "s1", 6)]),
    "embedding": (lambda w, t: F.embedding(t, w) + 1, [tensor(50, 16), tensor("s0", "s1", below=50, **INDEX)]),
    "layer norm": (lambda x, w: F.layer_norm(x, (16,), w), [tensor("s0", "s1", 16), tensor(16)]),
    "scores": (lambda q, k: (q @ k.transpose(-1, -2) / math.sqrt(8)).softmax(-1), [tensor("s0", 4, "s1", 8)] * 2),
}  # fmt: skip

NUMBERS = {
    "slice": (lambda x, n: x[:n] * 2, [tensor(60, 4), number("n")]),
    "slice from": (lambda x, n: x[n:].sum(0), [tensor(60, 4), number("n")]),
    "select": (lambda x, n: x[:, n] + 1, [tensor(4, 60), number("n")]),
    "zeros": (lambda x, n: torch.zeros(n, 4) + x, [tensor(4), number("n")]),
    "arange": (lambda x, n: torch.arange(n) * 2, [tensor(4), number("n")]),
    "arange from": (lambda x, n: torch.arange(n, 70, 3), [tensor(4), number("n")]),
    "multiply": (lambda x, n: x * n, [tensor(40), number("n")]),
    "add to integers": (lambda x, n: x + n, [tensor(40, below=9, **INDEX), number("n")]),
    "divide integers": (lambda x, n: x // n, [tensor(40, below=90, **INDEX), number("n")]),
    "half": (lambda x, n: x + n, [tensor(40, dtype=torch.float16), number("n")]),
    "clamp": (lambda x, n: x.clamp(max=n), [tensor(40), number("n")]),
    "compare": (lambda x, n: x < n, [tensor(40), number("n")]),
    "fill": (lambda x, n: x.masked_fill(x > 0, n), [tensor(40), number("n")]),
    "split": (lambda x, n: [part + 1 for part in x.split([n, 60 - n])], [tensor(60, 4), number("n")]),
    "view": (lambda x, n: x.sum(1).unsqueeze(0).expand(n, -1) * 2, [tensor(6, 4), number("n")]),
    "pad": (lambda x, n: F.pad(x, (n, 0)), [tensor(6, 4), number("n")]),
    "triangle": (lambda x, n: x.tril(n), [tensor(60, 60), number("n")]),
    "narrow": (lambda x, n: x.narrow(0, n, 2).exp(), [tensor(60, 4), number("n")]),
}  # fmt: skip
