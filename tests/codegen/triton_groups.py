"""Fusion groups written by hand, small enough to read: what the Triton tests feed the generator.

g = GroupWriter("softmax", rows=(64,), columns=(1000,))
x = g.load("x", torch.float32, g.index(1000, 1))
m = g.reduce("max", x)
g.store("out", torch.float32, g.compute("subtract", x, m), g.index(1000, 1))
group, buffers = g.finish()
"""

from __future__ import annotations

import torch
from dynascope.loops.index import Symbol, affine, variable
from dynascope.loops.nodes import (
    Buffer,
    CheckIndex,
    Compute,
    Constant,
    IndexValue,
    Load,
    Origin,
    Reduce,
    Store,
)
from dynascope.report.span import Span, UserFrame
from dynascope.schedule.groups import FusionGroup

COMPARISONS = {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "is_nan", "is_infinite"}


class GroupWriter:
    def __init__(self, name, rows, columns=()):
        self.name = name
        self.rows = tuple(Symbol(f"r{i}", n) for i, n in enumerate(rows))
        self.columns = tuple(Symbol(f"c{i}", n) for i, n in enumerate(columns))
        self.body = []
        self.buffers = {}
        self.line = 1

    def index(self, *coefficients, offset=0):
        """Coefficients of the rows' loops, then the columns'."""
        return affine(dict(zip(self.rows + self.columns, coefficients, strict=True)), offset)

    def load(self, buffer, dtype, index, size=None, guard=None):
        """A load, computed in f32 where the buffer is 16 bits wide."""
        self._buffer(buffer, dtype, index, size)
        guards = () if guard is None else (guard,)
        number = self._add(
            Load(dtype, guards + tuple(sorted(index.loaded)), self._origin("load"), buffer, index, guard)
        )
        return self.cast(number, torch.float32) if dtype in (torch.bfloat16, torch.float16) else number

    def compute(self, name, *arguments):
        dtype = self.body[arguments[-1]].dtype
        result = torch.bool if name in COMPARISONS else dtype
        return self._add(Compute(result, arguments, self._origin(name), name))

    def cast(self, value, dtype):
        return self._add(Compute(dtype, (value,), self._origin("cast"), "cast"))

    def constant(self, value, dtype):
        return self._add(Constant(dtype, (), self._origin("constant"), value))

    def index_value(self, index):
        return self._add(IndexValue(torch.int64, (), self._origin("index"), index))

    def check(self, value, extent):
        return self._add(CheckIndex(torch.int64, (value,), self._origin("check"), extent, 0, "negative"))

    def reduce(self, kind, value, dtype=None):
        dtype = dtype or {"argmax": torch.int64, "argmin": torch.int64}.get(kind, self.body[value].dtype)
        return self._add(Reduce(dtype, (value,), self._origin(kind), kind))

    def store(self, buffer, dtype, value, index, size=None, mode="set"):
        self._buffer(buffer, dtype, index, size)
        if self.body[value].dtype != dtype:
            value = self.cast(value, dtype)
        arguments = tuple(sorted(index.loaded)) + (value,)
        return self._add(Store(dtype, arguments, self._origin("store"), buffer, index, mode))

    def next_line(self):
        self.line += 1

    def finish(self):
        reads = tuple(dict.fromkeys(o.buffer for o in self.body if isinstance(o, Load)))
        writes = tuple(dict.fromkeys(o.buffer for o in self.body if isinstance(o, Store)))
        origins = tuple(dict.fromkeys(o.origin for o in self.body))
        group = FusionGroup(
            self.name, torch.device("cuda", 0), self.rows, self.columns, tuple(self.body), reads, writes, (), origins
        )
        return group, self.buffers

    def _buffer(self, name, dtype, index, size):
        size = size or index.bounds[1] + 1
        known = self.buffers.get(name)
        size = max(size, known.sizes[0] if known else 0)
        self.buffers[name] = Buffer(name, dtype, torch.device("cuda", 0), (size,), (1,))

    def _origin(self, operator):
        return Origin(operator, operator, (UserFrame("forward", Span("model.py", self.line)),))

    def _add(self, operation):
        self.body.append(operation)
        return len(self.body) - 1


def loaded(value, extent):
    from dynascope.loops.index import Loaded

    return variable(Loaded(value, extent))


def pointwise(count=1000, dtype=torch.float32):
    g = GroupWriter("gelu_like", (count,))
    x = g.load("x", dtype, g.index(1))
    y = g.load("y", dtype, g.index(1))
    g.next_line()
    s = g.compute("add", x, y)
    g.next_line()
    h = g.compute("multiply", s, g.constant(0.7071067811865476, torch.float32))
    e = g.compute("add", g.compute("erf", h), g.constant(1.0, torch.float32))
    r = g.compute("multiply", g.compute("multiply", s, g.constant(0.5, torch.float32)), e)
    g.store("out", dtype, r, g.index(1))
    return g.finish()


def softmax(rows=64, columns=1000, dtype=torch.float32):
    g = GroupWriter("softmax", (rows,), (columns,))
    x = g.load("x", dtype, g.index(columns, 1))
    m = g.reduce("max", x)
    e = g.compute("exp", g.compute("subtract", x, m))
    g.next_line()
    s = g.reduce("sum", e)
    g.store("out", dtype, g.compute("divide", e, s), g.index(columns, 1))
    return g.finish()


def sum_of_squares_of_softmax(rows=64, columns=1000, dtype=torch.float32):
    """The sum of the squares of a softmax: two passes that store nothing along the row."""
    g = GroupWriter("sum_of_squares_of_softmax", (rows,), (columns,))
    x = g.load("x", dtype, g.index(columns, 1))
    e = g.compute("exp", g.compute("subtract", x, g.reduce("max", x)))
    share = g.compute("divide", e, g.reduce("sum", e))
    g.store("out", dtype, g.reduce("sum", g.compute("multiply", share, share)), g.index(1, 0))
    return g.finish()


def layer_norm(rows=64, columns=1000, dtype=torch.float32):
    g = GroupWriter("layer_norm", (rows,), (columns,))
    x = g.load("x", dtype, g.index(columns, 1))
    n = g.constant(float(columns), torch.float32)
    mean = g.compute("divide", g.reduce("sum", x), n)
    d = g.compute("subtract", x, mean)
    variance = g.compute("divide", g.reduce("sum", g.compute("multiply", d, d)), n)
    scale = g.compute("reciprocal_square_root", g.compute("add", variance, g.constant(1e-5, torch.float32)))
    normal = g.compute("multiply", d, scale)
    w = g.load("weight", dtype, g.index(0, 1))
    b = g.load("bias", dtype, g.index(0, 1))
    g.store("out", dtype, g.compute("add", g.compute("multiply", normal, w), b), g.index(columns, 1))
    return g.finish()


def variance(rows=8, columns=1 << 20):
    g = GroupWriter("variance", (rows,), (columns,))
    x = g.load("x", torch.float32, g.index(columns, 1))
    n = g.constant(float(columns), torch.float32)
    d = g.compute("subtract", x, g.compute("divide", g.reduce("sum", x), n))
    g.store("out", torch.float32, g.compute("divide", g.reduce("sum", g.compute("multiply", d, d)), n), g.index(1, 0))
    return g.finish()


def centred(rows=64, columns=1000):
    """Rows less their means, which are stored too."""
    g = GroupWriter("centred", (rows,), (columns,))
    x = g.load("x", torch.float32, g.index(columns, 1))
    mean = g.compute("divide", g.reduce("sum", x), g.constant(float(columns), torch.float32))
    g.store("mean", torch.float32, mean, g.index(1, 0))
    g.store("out", torch.float32, g.compute("subtract", x, mean), g.index(columns, 1))
    return g.finish()


def reduction(kind, rows=64, columns=1000, dtype=torch.float32, across=False):
    g = GroupWriter(kind, (rows,), (columns,))
    x = g.load("x", dtype, g.index(1, rows) if across else g.index(columns, 1))
    r = g.reduce(kind, x)
    g.store("out", g.body[r].dtype if dtype != torch.bfloat16 else dtype, r, g.index(1, 0))
    return g.finish()


def transpose_add(rows=200, columns=300):
    g = GroupWriter("transpose_add", (rows, columns))
    x = g.load("x", torch.float32, g.index(1, rows))
    y = g.load("y", torch.float32, g.index(columns, 1))
    g.store("out", torch.float32, g.compute("add", x, y), g.index(columns, 1))
    return g.finish()


def embedding(tokens=100, vocabulary=50, width=64):
    g = GroupWriter("embedding", (tokens, width))
    token = g.load("token", torch.int64, g.index(1, 0))
    place = g.check(token, vocabulary)
    index = loaded(place, vocabulary) * width + g.index(0, 1)
    row = g.load("table", torch.float32, index, size=vocabulary * width)
    g.store("out", torch.float32, row, g.index(width, 1))
    return g.finish()


def scatter_add(tokens=100, vocabulary=50, width=64):
    g = GroupWriter("scatter_add", (tokens, width))
    token = g.load("token", torch.int64, g.index(1, 0))
    place = g.check(token, vocabulary)
    value = g.load("source", torch.float32, g.index(width, 1))
    index = loaded(place, vocabulary) * width + g.index(0, 1)
    g.store("table", torch.float32, value, index, size=vocabulary * width, mode="add")
    return g.finish()
