"""Programs of all kinds, each a function and its arguments: compiled, they must do what plain Python does."""

import collections
import enum
import functools
from dataclasses import dataclass

import torch

T = torch.arange(6.0).reshape(2, 3)
CASES = []


def case(*args):
    def reg(f):
        CASES.append((f, args))
        return f

    return reg


@case(T)
def breaks_print(x):
    y = x + 1
    print("hello")
    return y * 2


def scaling(factor):
    def scale(tensor):
        return tensor * factor

    return scale


twice = scaling(2)


@case(T)
def cell_filled_after_a_break(x):
    print("hello")
    late = twice(x)

    def inner():
        return late + 1

    return inner(), late


@case(T)
def print_loop(x):
    for i in range(3):
        x = x + i
        print(i)
    return x * 2


@case(T)
def nested_break(x):
    def g(t, k):
        t = t * k
        print("in g")
        return t + 1

    y = g(x, 2) + g(x, 3)
    return y.sum()


def helper(t):
    u = t * 2
    if u.sum() > 3:
        u = u - 1
    return u + 1


@case(T)
def nested_branch(x):
    a = helper(x + 1)
    b = helper(a)
    return a + b


@case(T)
def try_break(x):
    y = x + 1
    try:
        print("a")
        y = y * 2
        raise ValueError("bad")
    except ValueError as e:
        y = y + 10
        msg = str(e)
    finally:
        y = y - 1
    return y, msg


@case(T)
def nograd(x):
    with torch.no_grad():
        y = x * 2
        print("z", torch.is_grad_enabled())
        y = y + 1
    return y, torch.is_grad_enabled()


@case(T, [1, 2, 3])
def lists(x, l):
    l.append(4)
    l[0] = 9
    d = {"a": x, "b": l}
    d["c"] = [i * 2 for i in l]
    return x + sum(l), d


@case(T, {"k": 2})
def dicts(x, d):
    d["n"] = x + 1
    for k, v in d.items():
        x = x + v
    d.setdefault("zz", 3)
    return x


@dataclass
class P:
    a: int
    t: torch.Tensor

    def scaled(self, k=2):
        return P(self.a * k, self.t * k)


@case(T, P(3, T))
def dc(x, p):
    q = p.scaled().scaled(k=3)
    p.a += 1
    return q.t + p.a + x, q.a


@case(T)
def closures(x):
    n = 0

    def inc(k=1, *, m=2):
        nonlocal n
        n += k * m
        return x * n

    a = inc()
    b = inc(2, m=3)
    return a + b, n


@case(T)
def gens(x):
    def g(n):
        for i in range(n):
            yield x * i

    return sum(g(4)), list(g(2)), [t for t in map(lambda a: a + 1, g(2))]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@case(T, Color.RED)
def enums(x, c):
    if c is Color.RED:
        x = x + c.value
    return x if c == Color.RED else x * 2


class C:
    count = 0
    scale = 2.0

    def __init__(self):
        self.k = 3
        self.hist = []

    @property
    def twice(self):
        return self.k * 2

    @staticmethod
    def st(x):
        return x + 1

    @classmethod
    def cm(cls, x):
        return x * cls.scale

    def __call__(self, x):
        self.k += 1
        self.hist.append(x.sum())
        return self.st(x) * self.twice

    def __getattr__(self, n):
        if n.startswith("dyn_"):
            return len(n)
        raise AttributeError(n)

    def __len__(self):
        return 2

    def __getitem__(self, i):
        if i >= 2:
            raise IndexError
        return i * 10

    def __add__(self, o):
        return o + self.k

    def __enter__(self):
        self.k = 100
        return self

    def __exit__(self, *a):
        self.k = 1
        return True


@case(T, C())
def objs(x, c):
    y = c(x) + c.cm(x) + c.dyn_abc + len(c) + c[1] + (c + x)
    with c as d:
        y = y * d.k
        raise RuntimeError("q")
    return y, c.k, getattr(c, "nope", 5), hasattr(c, "k"), C().k


@case(T)
def exc(x):
    try:
        {}["a"]
    except (KeyError, IndexError):
        x = x + 1
    try:
        try:
            int("zz")
        except ValueError as e:
            raise RuntimeError("w") from e
    except RuntimeError:
        x = x + 2
    else:
        x = x * 0
    return x


@case(T)
def raises(x):
    y = x * 2
    if y.shape[0] == 2:
        raise ValueError("shape", 3)
    return y


@case(T)
def shape_err(x):
    y = x + 1
    return y @ y


@case(T)
def items(x):
    v = x.sum().item()
    return x * v


@case(T)
def fstr(x):
    s = f"{x.shape[0]:>3}-{x.dtype}-{'a'!r}"
    return x, s


@case(T)
def unpackings(x):
    a, *b = x.shape
    (c, d), e = (1, 2), 3
    q = x[..., None, :a, ::2]
    return q, b, c + d + e, {*b, 1}, [*b, 2]


@case(T)
def star(x):
    def f(a, *args, k=1, **kw):
        return a + len(args) + k + kw.get("z", 0)

    return f(x, 1, 2, k=3, z=4), f(*[x, 1], **{"k": 2})


@case(T)
def inplace(x):
    y = x.clone()
    y.add_(1)
    y[0] = 5
    y[:, 1] += 2
    y *= 2
    return y


@case(T)
def part(x):
    f = functools.partial(torch.add, x, alpha=2)
    return (
        f(x),
        sorted([3, 1, 2], key=lambda v: -v),
        max(3, 4),
        min([2, 1]),
        any([0, 1]),
        all([]),
        list(zip([1], [2])),
        list(enumerate(["a"])),
    )


@case(T)
def match(x):
    m = {"a": [1, 2]}
    match m:
        case {"a": [p, q]}:
            x = x + p * q
        case _:
            x = x * 0
    return x


class NT(collections.namedtuple("NT", "u v")):
    def tot(self):
        return self.u + self.v


@case(T)
def nts(x):
    n = NT(x, x * 2)
    return n.tot(), n


G = 1


@case(T)
def globs(x):
    global G
    G = G + 1
    return x * G


@case(T)
def walrus(x):
    if (n := x.numel()) > 3 and n < 10 or False:
        x = x + n
    return x if n else None


@case(T)
def while_break(x):
    i = 0
    while True:
        i += 1
        if i > 4:
            break
        if i == 2:
            continue
        x = x + i
    else:
        x = x * 0
    return x


@case(torch.randn(3, 3, requires_grad=True))
def reqgrad(x):
    with torch.no_grad():
        y = x * 2
    z = x * 3
    return y.requires_grad, z.requires_grad, y, z
