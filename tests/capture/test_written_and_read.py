"""What is written by one way and read by another: a class's attribute by `super()`, a dictionary by the object that has it, an iterator by
two names. Each line stands alone and among others, with breaks between, and is compared with eager: what it reads, and what is left."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import random
import re
import types
import weakref

import dynascope
import numpy
import pytest
import torch
from calls_of_python import DEFECTS
from dynascope.command.explain import codes
from torch import nn

LINES = """
    a.a = 5                                     | vars(a)['a'], getattr(a, 'a'), a.__dict__['a']
    vars(a)['a'] = 6                            | a.a, a.__dict__['a']
    vars(a).update(u=2)                         | a.u, 'u' in vars(a)
    a.__dict__ = {'z': 1}                       | a.z, hasattr(a, 'a')
    a.__class__ = B                             | type(a).__name__, a.who()
    A.count += 3                                | a.count, B.count, b.who()
    setattr(A, 'items', [5])                    | a.items, b.items, B.items
    a.push(1).push(2)                           | A.items, a.count, b.items
    b.items = [3]                               | B.items, A.items, b.items
    A.extra = lambda self: self.a + 5           | a.extra(), b.extra()
    A.doubled = property(lambda self: self.a * 2) | a.doubled, b.doubled
    k = a.l; k.append(2); a.l = [0]; k.append(3) | a.l, k
    k = a.d; k['n'] = 1; a.d = dict(a.d); k['o'] = 2 | a.d, k
    k = a.l; k += [1]                           | a.l, k is a.l
    k = copy.copy(a); k.l.append(5); k.a = 9    | a.l, a.a, k.l
    free.__kwdefaults__['z'] = 7                | free(1), free.__kwdefaults__
    free.__defaults__ = (5,)                    | free(1), free.__defaults__
    free.tag = x                                | vars(free)['tag'] is x
    free.__dict__['w'] = 1                      | free.w
    inc(); inc()                                | inc(), [c.cell_contents for c in inc.__closure__]
    inc.__closure__[0].cell_contents = 41       | inc()
    grown(x); grown(x)                          | grown(x), grown.__defaults__
    part.keywords['n'] = 3                      | part(), part.keywords
    k = functools.partial(free, 1); k.keywords['z'] = 4 | k(), k.keywords
    k = a.push; k(4)                            | A.items, k == a.push, k.__self__ is a
    x.tag = 't'                                 | x.tag, vars(x)
    vars(x)['note'] = 1                         | getattr(x, 'note', 0)
    x.add_(y)                                   | x, x._version > 0
    k = x.view(-1); k[0] = 7                    | x, k
    x.grad = torch.ones_like(x); x.grad[0] = 5  | x.grad
    k = torch.from_numpy(n); k.mul_(2)          | n, k
    n[1] = 7                                    | n.sum(), n.tolist()
    m.weight.data.add_(1)                       | m._parameters['weight'], next(iter(m.parameters()))
    m.weight = nn.Parameter(torch.ones(2, 2))   | m.weight is m._parameters['weight'], len(list(m.parameters()))
    del m.weight                                | list(m._parameters), hasattr(m, 'weight')
    m._buffers['n'] = torch.ones(1)             | m.n, len(list(m.buffers()))
    m.sub = nn.ReLU()                           | m._modules['sub'] is m.sub, [name for name, _ in m.named_modules()]
    d['k'] = 3                                  | shown['k'], dict(d), list(shown)
    k = d.keys(); d['new'] = 1; del d['k']      | list(k), list(shown)
    chain['k'] = 5; chain.maps[1]['z'] = 1      | chain.maps, dict(chain)
    chain.maps[1].clear()                       | list(chain), 'z' in chain
    user.data['l'] = 2; user['k'] = [1]         | user.data, len(user), list(user)
    default['n'].append(1); default.get('zz')   | dict(default), 'zz' in default
    ordered.move_to_end('a'); ordered['c'] = 1  | list(ordered), next(iter(ordered))
    counter.update('aab'); del counter['z']     | counter.most_common(1), sum(counter.values())
    held.append(held[0]); held[-1].append(2)    | held, held[0] is held[-1]
    k = held * 2; k[0].append(5)                | held, len(k)
    k = list(held); k[0].append(5); k.append(1) | held
    queue.appendleft(1); queue.rotate(1)        | list(queue), queue.maxlen
    frozen.items.append(1)                      | frozen, dataclasses.asdict(frozen)
    space.a = 1; vars(space)['b'] = 2           | space, space.b
    cached.__dict__['p'] = 'set'                | cached.p, cached.n
    cached.p.append(1)                          | cached.p, cached.n, vars(cached)
    k = next(it)                                | k, list(it)
    k = map(lambda v: v * 2, it); next(k)       | list(it)
    k = list(zip(it, [1, 2]))                   | k, list(it)
    k = 2 in it                                 | k, list(it)
    k = next(gen); gen.close()                  | k, log, list(gen)
    k = log.append; k(1)                        | log, len(log)
    d.update((v, 1) for v in log)               | d
    w = weakref.ref(a)                          | w() is a, w is weakref.ref(a)
    k = {id(x): 1}                              | id(x) in k, x in [x]
"""
TABLE = [tuple(part.strip() for part in line.split("|")) for line in LINES.strip().splitlines()]
FORMS = {
    "alone": "{write}\n    return ({read},)",
    "a break between": "{write}\n    broken()\n    return ({read},)",
    "breaks around": "broken()\n    {write}\n    read = ({read},)\n    broken()\n    return read",
}
ADDRESS = "at 0x[0-9a-f]+"


class Cached:
    def __init__(self):
        self.n = 0

    @functools.cached_property
    def p(self):
        self.n += 1
        return [self.n]


@dataclasses.dataclass(frozen=True)
class Frozen:
    items: list = dataclasses.field(default_factory=list)


def world():
    """New objects, which the lines call by these names."""

    class A:
        items: list = []  # noqa: RUF012
        count = 0

        def __init__(self):
            self.a, self.l, self.d = 1, [1], {"k": 1}

        def push(self, item):
            self.items.append(item)
            type(self).count += 1
            return self

        def who(self):
            return "A", self.count

    class B(A):
        def who(self):
            return "B", super().count, super().who()

    def free(x, y=1, *, z=2):
        return x + y + z

    def grown(x, found=[]):  # noqa: B006
        found.append(1)
        return len(found)

    count = 0

    def inc():
        nonlocal count
        count += 1
        return count

    log: list = []

    def generate():
        try:
            yield 1
            yield 2
        finally:
            log.append("ended")

    model = nn.Linear(2, 2)
    nn.init.ones_(model.weight)
    nn.init.zeros_(model.bias)
    d = {"k": 1}
    return {
        **{"A": A, "B": B, "a": A(), "b": B(), "free": free, "grown": grown, "inc": inc, "part": functools.partial(dict, n=1)},
        **{"x": torch.arange(2.0) + 1, "y": torch.ones(2) * 3, "n": numpy.ones(2, dtype="float32"), "m": model, "log": log, "d": d},
        **{"shown": types.MappingProxyType(d), "chain": collections.ChainMap({"k": 2}, {"z": 0}), "user": collections.UserDict(k=0)},
        **{"default": collections.defaultdict(list), "ordered": collections.OrderedDict(a=1, b=2), "counter": collections.Counter("az")},
        **{"held": [[1], [2]], "queue": collections.deque([1, 2], maxlen=3), "frozen": Frozen(), "space": types.SimpleNamespace(z=0)},
        **{"cached": Cached(), "it": iter([1, 2, 3]), "gen": generate()},
    }


@dynascope.disable
def broken() -> None:
    """A break."""


def outcome(text: str, compile) -> list[str]:
    """What two calls with the same objects give, and what the objects are after each."""
    objects = world()
    names = {each.__name__.rpartition(".")[2]: each for each in (torch, nn, copy, functools, weakref, dataclasses, broken)}
    exec(f"def program({', '.join(objects)}):\n    made = y + 1\n    {text}", names)
    program, found = compile(names["program"]), []
    for _ in range(2):
        try:
            found.append(repr(program(**objects)))
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        found.append(repr({name: vars(each) if name in "abx" or name == "cached" else each for name, each in objects.items()}))
    return [re.sub(ADDRESS, "", each) for each in found]


def compare(text: str) -> None:
    eager = outcome(text, lambda program: program)
    with dynascope.expected(*set(codes()) - set(DEFECTS), required=False):
        assert outcome(text, lambda program: dynascope.compile(program, backend="eager")) == eager


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("line", TABLE, ids=lambda line: line[0])
def test_each_line(line, form):
    compare(FORMS[form].format(write=line[0], read=line[1]))


@pytest.mark.parametrize("seed", range(40))
def test_some_lines(seed):
    chosen = random.Random(seed)
    body = ["reads = []"]
    for write, read in chosen.sample(TABLE, 4):
        body += [write, f"reads.append(({read},))", *(["broken()"] if chosen.random() < 0.4 else [])]
    compare("\n    ".join([*body, "return reads"]))
