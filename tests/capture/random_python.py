"""Random programs: control flow, containers, closures, classes with special methods, generators, exceptions, effects in order.

    program = write(random.Random(7))     a tree of statements and a few classes
    program.text()                        "import torch\\n...\\ndef program(x, y, n, items, box, thing, flag, log):\\n    ..."

Every program ends. What it does may raise, also by intent: then plain Python raises the same, from the same lines. A tree
can be made smaller and stays a program (`smaller`), so that one that fails is brought down to what it fails for.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

TENSORS = ("x", "y", "t", "u")
NUMBERS = ("n", "m", "k")
OBJECTS = ("a", "b", "thing")
LISTS = ("items", "log", "l")
ITERATORS = ("it", "it2")
ERRORS = (
    "ValueError",
    "LookupError",
    "ZeroDivisionError",
    "TypeError",
    "AttributeError",
    "RuntimeError",
    "Exception",
    "Own",
)


@dataclass(frozen=True)
class Node:
    """A statement: its heads, and a block under each head that has one."""

    heads: tuple[str, ...]
    blocks: tuple[tuple[Node, ...], ...] = ()

    def lines(self, depth: int) -> Iterator[str]:
        for at, head in enumerate(self.heads):
            yield "    " * depth + head
            if at < len(self.blocks):
                yield from block_lines(self.blocks[at], depth + 1)


def block_lines(nodes: tuple[Node, ...], depth: int) -> Iterator[str]:
    for node in nodes:
        yield from node.lines(depth)
    if not nodes:
        yield "    " * depth + "pass"


@dataclass(frozen=True)
class Program:
    classes: tuple[Node, ...]
    body: tuple[Node, ...]

    def text(self) -> str:
        classes = "\n".join(line for node in self.classes for line in node.lines(0))
        return f"{PRELUDE}{classes}\n{START}" + "\n".join(block_lines(self.body, 1)) + END


PRELUDE = """import collections, contextlib, functools, itertools, sys
import torch
from dataclasses import dataclass, field
from typing import NamedTuple

LOG = []
G = 1

class Own(Exception):
    pass

class Pair(NamedTuple):
    one: object
    two: object = 2
    def total(self): return self.one * self.two

@dataclass
class Record:
    value: object
    more: list = field(default_factory=list)

def frames():
    found, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == __file__:
            found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found

def helper(t, n):
    if n > 2:
        t = t * n
    return t + 1

def spread(*rest, scale=1, **named):
    LOG.append(("spread", len(rest), scale, sorted(named)))
    return sum(rest) * scale + len(named)

def count_to(n, log):
    try:
        for i in range(n):
            log.append(("gen", i))
            sent = yield i
            if sent is not None: log.append(("sent", sent))
    finally:
        log.append("gen ends")
    return n * 10

def delegate(n, log):
    result = yield from count_to(n, log)
    log.append(("result", result))
    yield result

@contextlib.contextmanager
def managed(log, swallow):
    log.append("enter")
    try:
        yield len(log)
    except Own:
        log.append("swallowed")
        if not swallow: raise
    finally:
        log.append("leave")

"""
START = """
def program(x, y, n, items, box, thing, flag, log):
    global G
    t, u, m, k, s, l = x, y, 1, n, "text", [1, 2]
    a, b, it, it2 = A(1), B(n), iter([1, 2, 3]), iter(())
    def bump(by):
        nonlocal k
        k = k + by
        return k * 2
"""
END = "\n    return t, u, m, k, s, l, a, b, it\n"

# Bodies of special methods; those after the first are answered less often, and some of them are nonsense.
METHODS: dict[str, tuple[str, ...]] = {
    "__bool__(self)": ("LOG.append('bool'); return self.value != 1", "return 2", "return None"),
    "__len__(self)": ("LOG.append('len'); return 2", "return -1", "return 'x'", "return True", "raise Own('len')"),
    "__eq__(self, other)": (
        "LOG.append('eq'); return isinstance(other, type(self)) and self.value == other.value",
        "return NotImplemented",
        "return 5",
    ),
    "__ne__(self, other)": ("LOG.append('ne'); return NotImplemented",),
    "__lt__(self, other)": (
        "LOG.append('lt'); return self.value < getattr(other, 'value', other)",
        "return NotImplemented",
    ),
    "__gt__(self, other)": ("LOG.append('gt'); return True", "return NotImplemented", "raise Own('gt')"),
    "__add__(self, other)": ("LOG.append('add'); return self.value + 1", "return NotImplemented", "return self"),
    "__radd__(self, other)": ("LOG.append('radd'); return other", "return NotImplemented"),
    "__iadd__(self, other)": ("LOG.append('iadd'); self.value = 4; return self", "return NotImplemented", "return 3"),
    "__mul__(self, other)": ("return (self.value, other)",),
    "__rmul__(self, other)": ("LOG.append('rmul'); return other * 2",),
    "__neg__(self)": ("return -1",),
    "__getitem__(self, key)": (
        "LOG.append(('get', key if isinstance(key, int) else 0)); return [5, 6, 7][key]",
        "raise KeyError(1)",
        "return key",
    ),
    "__setitem__(self, key, item)": ("LOG.append('setitem'); self.held = item",),
    "__delitem__(self, key)": ("LOG.append('delitem')",),
    "__contains__(self, item)": ("LOG.append('contains'); return item == 1", "return []", "return 'yes'"),
    "__iter__(self)": (
        "LOG.append('iter'); return iter([7, 8])",
        "yield 1; LOG.append('second'); yield 2",
        "return [1]",
    ),
    "__next__(self)": ("LOG.append('next'); raise StopIteration", "return 4"),
    "__call__(self, *args)": ("LOG.append('call'); return len(args)",),
    "__enter__(self)": ("LOG.append('in'); return self",),
    "__exit__(self, kind, error, trace)": (
        "LOG.append(('out', kind and kind.__name__)); return kind is ValueError",
        "return 0",
        "raise Own('exit')",
    ),
    "__getattr__(self, name)": (
        "if name.startswith('__'): raise AttributeError(name)\n        LOG.append(('getattr', name)); return len(name)",
        "raise AttributeError('no ' + name)",
        "raise Own(name)",
    ),
    "__getattribute__(self, name)": ("LOG.append(('all', name)); return object.__getattribute__(self, name)",),
    "__setattr__(self, name, item)": ("LOG.append(('set', name)); object.__setattr__(self, name, item)",),
    "__delattr__(self, name)": ("LOG.append(('del', name)); object.__delattr__(self, name)",),
    "__str__(self)": ("LOG.append('str'); return 'str!'", "return 5"),
    "__repr__(self)": ("return f'<{type(self).__name__} {self.value}>'",),
    "__format__(self, how)": ("LOG.append(how); return how * 2", "return None"),
    "__hash__(self)": ("LOG.append('hash'); return 3", "return 'x'"),
    "__index__(self)": ("LOG.append('index'); return 1", "return 1.5", "return True"),
    "__int__(self)": ("return 3", "return '3'"),
    "__float__(self)": ("return 2.5", "return 2"),
    "__reversed__(self)": ("LOG.append('reversed'); return iter([2, 1])",),
    "__round__(self, *digits)": ("return digits",),
    "method(self, by=1)": ("self.value += by; LOG.append('method'); return self.value",),
}
# What goes into a class besides methods: each a list of lines.
MEMBERS = (
    ("@property", "def p(self):", "    LOG.append('p'); return self.value"),
    ("@property", "def p(self):", "    raise AttributeError('in p')"),
    ("@property", "def p(self): return self._p", "@p.setter", "def p(self, item): LOG.append('set p'); self._p = item"),
    ("@classmethod", "def build(cls, v=3): return cls(v)"),
    ("@staticmethod", "def fixed(v): return v + 1"),
    ("@functools.cached_property", "def cached(self): LOG.append('cached'); return self.value * 2"),
    ("shared = [1]",),
    ("constant = 4",),
    ("__slots__ = ('value', 'other')",),
)


class Writer:
    """The choices of one program."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.names = 0

    def pick(self, options: tuple | list | str):
        return self.random.choice(options)

    def of(self, forms: list, level: int, plain: int):
        return self.pick(forms[:plain] if level > 2 else forms)()

    def new_name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    # Expressions

    def tensor(self, level: int = 0) -> str:
        pick, n, t = self.pick, lambda: self.number(level + 1), lambda: self.tensor(level + 1)
        return self.of(
            [
                lambda: pick(TENSORS),
                lambda: f"({t()} {pick('+-*')} {t()})",
                lambda: f"({t()} {pick('+-*')} {n()})",
                lambda: f"torch.{pick(('relu', 'sin', 'neg', 'abs'))}({t()})",
                lambda: f"{t()}.{pick(('clone()', 'sum()', 't()', 'mean(-1)', 'reshape(-1)', 'cos()'))}",
                lambda: f"items[{n()} % 3]",
                lambda: f"(box['w'] * {n()})",
                lambda: f"helper({t()}, {n()})",
                lambda: f"{t()}[torch.tensor([{n()}, 0])]",
                lambda: f"({t()} if {self.condition(level + 1)} else {t()})",
            ],
            level,
            1,
        )

    def number(self, level: int = 0) -> str:
        pick, n = self.pick, lambda: self.number(level + 1)
        return self.of(
            [
                lambda: pick(NUMBERS),
                lambda: str(self.random.randint(-3, 4)),
                lambda: f"({n()} {pick(('+', '-', '*', '//', '%', '&', '|'))} {n()})",
                lambda: f"len({pick(('items', 'log', 'box', 'x.shape', 'l', 's', 'a', 'b'))})",
                lambda: "x.shape[0]",
                lambda: f"{pick(('abs', 'int', 'round', 'float'))}({n()})",
                lambda: f"{pick(('max', 'min'))}({n()}, {n()})",
                lambda: "box['c']",
                lambda: f"{pick(OBJECTS)}.value",
                lambda: f"sum([{n()} for q in range({self.random.randint(0, 3)})])",
                lambda: f"next({pick(ITERATORS)}, {n()})",
                lambda: f"bump({n()})",
                lambda: f"spread(*l, {n()}, scale={n()})",
                lambda: f"getattr({pick(OBJECTS)}, 'other', {n()})",
                lambda: "G",
            ],
            level,
            2,
        )

    def condition(self, level: int = 0) -> str:
        pick, n = self.pick, lambda: self.number(level + 1)
        return self.of(
            [
                lambda: f"{n()} {pick(('<', '>=', '==', '!='))} {n()}",
                lambda: "flag",
                lambda: f"{n()} {pick(('in', 'not in'))} {pick(('log', 'l', 'box', 'a', 'b'))}",
                lambda: f"x.dim() == {self.random.randint(0, 2)}",
                lambda: f"not {pick((n(), pick(OBJECTS), pick(LISTS), 's', 'it'))}",
                lambda: f"isinstance({pick(('n', 'k', 'a', 'thing'))}, {pick(('int', 'float', '(A, B)', 'Thing'))})",
                lambda: f"hasattr({pick(OBJECTS)}, {pick(('value', 'p', 'other', 'absent'))!r})",
                lambda: f"{pick(OBJECTS)} {pick(('==', '!=', '<', '>', 'is', 'is not'))} {pick((*OBJECTS, '1', 'n'))}",
                lambda: f"{n()} < {n()} <= {n()}",
                lambda: f"({self.condition(level + 1)} {pick(('and', 'or'))} {self.condition(level + 1)})",
                lambda: f"callable({pick(OBJECTS)})",
                lambda: f"{self.tensor(level + 1)}.sum() > {n()}" if self.random.random() < 0.3 else "flag",
            ],
            level,
            2,
        )

    def any_value(self) -> str:
        """An expression of any kind, about the objects above all."""
        pick, o, n = self.pick, self.pick(OBJECTS), self.number
        return pick(
            [
                lambda: n(),
                lambda: f"{o} {pick(('+', '*', '-', '@'))} {pick((*OBJECTS, n(), 'l'))}",
                lambda: f"{n()} {pick('+*')} {o}",
                lambda: f"{o}[{n()}]",
                lambda: f"[z for z in {pick((o, 'l', 'it', 'box', 's'))}]",
                lambda: f"list({pick((o, 'it', 'zip(l, s)', 'map(bump, l)', 'reversed(l)', 'box.items()'))})",
                lambda: f"{o}({n()})",
                lambda: f"{o}.{pick(('p', 'method()', 'cached', 'constant', 'absent', 'build().value', 'fixed(1)'))}",
                lambda: f"{pick(('str', 'repr', 'len', 'bool', 'callable', 'int', 'float', 'abs', 'round'))}({o})",
                lambda: f"f'{{{o}!s:>5}} {{{n()}}} {{{o}:ab}}'",
                lambda: f"{{{o}: 1}}[{o}]",
                lambda: f"sorted([{o}, {n()}, {n()}], key=lambda q: q == 1, reverse=flag)",
                lambda: f"type({pick((o, 'it', 'l', 'iter(s)', 'map(len, [])'))}).__name__",
                lambda: f"[1, 2, 3][{o}]",
                lambda: f"Pair({n()}, {n()}).total()",
                lambda: f"Pair({o}, 3) {pick(('==', '<', '+'))} ({o}, 3)",
                lambda: f"Record({n()}).more",
                lambda: f"(m := {n()}) + m",
                lambda: f"dict(zip('ab', {pick((o, 'l'))}))",
                lambda: f"{{**box, 'z': {n()}}}['z']",
                lambda: f"any(q > 1 for q in {pick((o, 'l', 'it'))})",
                lambda: f"functools.reduce(lambda p, q: p + q, {pick(('l', 'it'))}, {n()})",
                lambda: f"itertools.{pick(('chain(l, it)', 'islice(it, 1)', 'accumulate(l)', 'takewhile(bool, l)'))}",
                lambda: f"spread(**{{{pick(('s', repr('scale'), repr('q')))}: {n()}}})",
                lambda: f"{pick(('n', 'k', 's'))} is {pick(('n', 'k', 's', 'box[' + repr('c') + ']'))}",
                lambda: (
                    f"isinstance({o}, {pick(('A', 'B', 'dict', 'collections.abc.Iterable', 'collections.abc.Sized'))})"
                ),
                lambda: f"len({o}, {n()})",
                lambda: f"max({o}, {n()})",
                lambda: f"next({pick(ITERATORS)})",
                lambda: f"l.pop({n()})",
                lambda: f"l.index({n()})",
                lambda: f"s.join({pick(('l', repr('ab'), 'map(str, l)'))})",
                lambda: f"box.get({n()}, {n()})",
                lambda: f"super(A, {o}).__repr__",
            ]
        )()

    # Statements

    def simple(self) -> Node:
        pick, n = self.pick, self.number
        line = pick(
            [
                lambda: f"{pick(('t', 'u'))} = {self.tensor()}",
                lambda: f"{pick(('t', 'u'))} = {self.tensor()}",
                lambda: f"{pick(('m', 'k'))} = {n()}",
                lambda: f"log.append({pick((n(), self.tensor(), self.any_value()))})",
                lambda: f"log.append({self.any_value()})",
                lambda: f"LOG.append({self.any_value()})",
                lambda: f"items[{n()} % 3] = {self.tensor()}",
                lambda: f"box[{pick((repr('c'), repr('d'), 'm', '(1, n)'))}] = {n()}",
                lambda: f"{pick(OBJECTS)}.{pick(('value', 'other', 'p'))} = {pick((n(), self.any_value()))}",
                lambda: f"t, u = u, {self.tensor()}",
                lambda: f"{pick(('x', 'y', 't'))}.{pick(('add_', 'mul_'))}({n()})",
                lambda: f"{pick(('k', 'm', 'G', 'l', 'a', 'log'))} += {pick((n(), '[1]', 'l', 's', 'a'))}",
                lambda: f"print('p', {n()})",
                lambda: "log.append(frames())",
                lambda: f"s = {pick((repr('new'), 's + s[:1]', 's.upper()', f'str({n()})'))}",
                lambda: f"{pick(ITERATORS)} = {self.iterator()}",
                lambda: f"log.append(next({pick(ITERATORS)}, None))",
                lambda: (
                    f"l.{pick((f'append({n()})', 'extend(it)', f'insert(0, {n()})', 'reverse()', 'sort()', 'clear()'))}"
                ),
                lambda: f"l.extend(z + len(l) for z in {pick(('[1, 2]', 'a', 'it'))})",
                lambda: f"log.append(bump({n()}))",
                lambda: f"del {pick(('l[0]', 'box[1]', 'a.value', 'b.other', 'a[0]', 't'))}",
                lambda: f"assert {self.condition()}, {n()}",
                lambda: f"{pick(('a', 'b'))} = {pick(('A', 'B', 'A.build', 'Record', 'Pair'))}({n()})",
                lambda: f"(m, *l) = {pick(('l', 'a', 'it', '(1, 2, 3)', 's'))}",
                lambda: f"box.update({pick((f'c={n()}', 'zip(s, l)', '{1: 2}', 'map(lambda q: (q, len(box)), l)'))})",
                lambda: f"box.setdefault('e', []).append({n()})",
                lambda: f"log[:] = [v for v in log if not isinstance(v, int)] + [{n()}]",
                lambda: (
                    f"{pick(('setattr', 'delattr'))}({pick(OBJECTS)}, 'other'{', 3' if self.random.random() < 0.7 else ''})"
                ),
                lambda: f"m = {pick(OBJECTS)}.method({n()})",
                lambda: f"k = {self.tensor()}.sum().item()" if self.random.random() < 0.3 else f"k = {n()}",
            ]
        )()
        return Node((line,))

    def iterator(self) -> str:
        return self.pick(
            (
                "iter(l)",
                "iter(a)",
                "count_to(3, log)",
                "delegate(2, log)",
                "(z + k for z in l)",
                "map(bump, l)",
                "zip(l, 'abc')",
                "enumerate(l, m)",
                "filter(None, l)",
                "reversed(l)",
                "iter(box.items())",
                "zip(itertools.count(k), l)",
                "itertools.chain(l, [k])",
                "iter(range(3))",
                "iter('xyz')",
            )
        )

    def block(self, budget: int) -> tuple[Node, ...]:
        return tuple(self.statement(budget - 1) for _ in range(self.random.randint(1, 2)))

    def statement(self, budget: int) -> Node:
        if budget > 0 and self.random.random() < 0.4:
            compound = (self.branch, self.loop, self.attempt, self.managed, self.early, self.while_, self.function)
            return self.pick((*compound, self.matched))(budget)
        return self.simple()

    def branch(self, budget: int) -> Node:
        if self.random.random() < 0.5:
            return Node((f"if {self.condition()}:", "else:"), (self.block(budget), self.block(budget)))
        return Node((f"if {self.condition()}:",), (self.block(budget),))

    def loop(self, budget: int) -> Node:
        iterable = self.pick(
            ("range(3)", "[1, 2]", "list(box)", "enumerate('ab')", "zip([1], [2])", "items", "a", "it", "box", "l[:2]")
            + ("count_to(2, log)", "map(bump, [1, 2])", "s[:2]", "{1, 2}", "box.values()", "torch.ones(2)")
        )
        body = self.block(budget)
        if self.random.random() < 0.4:
            body += (Node((f"if {self.condition()}: {self.pick(('break', 'continue'))}",)),)
        head = f"for {self.new_name('i')} in {iterable}:"
        if self.random.random() < 0.2:
            return Node((head, "else:"), (body, self.block(budget)))
        return Node((head,), (body,))

    def while_(self, budget: int) -> Node:
        count = self.new_name("c")
        leave = Node((f"if {count} > {self.random.randint(0, 2)} or {self.condition()}: break",))
        return Node((f"for {count} in itertools.count():",), ((leave, *self.block(budget)),))

    def raising(self) -> Node:
        return Node(
            (
                self.pick(
                    (
                        "raise ValueError(m)",
                        "m = 1 // (m - m)",
                        "m = box['missing']",
                        "m = l[99]",
                        "raise Own('mine', k) from KeyError(1)",
                        "raise Own",
                        "m = undefined_name",
                        "m = a.absent",
                        "t = x.view(77)",
                        "t = x[torch.tensor([99])]",
                        "raise 5",
                        "m = m + s",
                        "n()",
                    )
                ),
            )
        )

    def attempt(self, budget: int) -> Node:
        body = self.block(budget)
        if self.random.random() < 0.6:
            body += (self.raising(),)
        heads, blocks = ["try:"], [body]
        if self.random.random() < 0.75:
            name = self.pick(ERRORS)
            heads.append(self.pick((f"except {name} as error:", f"except ({name}, KeyError) as error:")))
            told = self.pick(("type(error).__name__", "str(error)", "error.args", "repr(error.__context__)[:9]"))
            handler = (*self.block(budget), Node((f"log.append({told})",)))
            if self.random.random() < 0.25:
                handler += (Node((self.pick(("raise", "raise Own(1) from error", "raise Own(2)")),)),)
            blocks.append(handler)
            if self.random.random() < 0.3:
                heads.append("else:")
                blocks.append(self.block(budget))
        if len(heads) == 1 or self.random.random() < 0.3:
            heads.append("finally:")
            blocks.append(self.block(budget))
        return Node(tuple(heads), tuple(blocks))

    def managed(self, budget: int) -> Node:
        manager = self.pick(
            ("torch.no_grad()", "a", "b as m", "torch.enable_grad()", "managed(log, flag) as m", "managed(log, True)")
            + ("contextlib.suppress(LookupError)", "contextlib.nullcontext(3) as m")
        )
        body = self.block(budget)
        if self.random.random() < 0.3:
            body += (self.raising(),)
        return Node((f"with {manager}:",), (body,))

    def early(self, budget: int) -> Node:
        return Node((f"if {self.condition()}: return {self.tensor()}, k",))

    def function(self, budget: int) -> Node:
        """A function of its own, called at once: with a closure, or a generator."""
        name = self.new_name("f")
        body = self.block(budget)
        if self.random.random() < 0.4:
            body = (Node((f"yield {self.number()}",)), *body, Node((f"yield {self.any_value()}",)))
            call = f"log.append(list({name}(t)))"
        else:
            body += (Node((f"return {self.any_value()}",)),)
            call = f"log.append({name}(t))"
        head = f"def {name}(t, u=y, m=1, l=l, it=it, it2=it2, a=a, b=b, s=s):"
        made = Node((head,), ((Node(("nonlocal k; global G",)), *body),))
        return Node(("if True:",), ((made, Node((call,))),))

    def matched(self, budget: int) -> Node:
        subject = self.pick(("l", "n", "box", "Pair(n, k)", "s", "(m, k)"))
        cases = (
            "case [p, *q]:",
            "case {'c': p}:",
            "case Pair(p, two=q):",
            "case 1 | 2:",
            "case str() as p:",
            "case (p, q):",
        )
        patterns = self.random.sample(cases, 2)
        heads = (f"match {subject}:",)
        inner = tuple(Node((pattern,), (self.block(budget),)) for pattern in patterns)
        return Node(heads, (inner,))

    # Classes

    def class_(self, name: str, bases: tuple[str, ...]) -> Node:
        chosen = self.random.sample(list(METHODS), self.random.randint(0, 7))
        body = [Node(("def __init__(self, value=1):",), ((Node(("self.value = value",)),),))]
        for signature in chosen:
            variants = METHODS[signature]
            variant = variants[0] if self.random.random() < 0.75 else self.pick(variants)
            lines = tuple(Node((line.strip(),)) for line in variant.split("\n"))
            body.append(Node((f"def {signature}:",), (lines,)))
        for member in self.random.sample(MEMBERS, self.random.randint(0, 3)):
            body.append(Node(member))
        base = self.pick(bases)
        return Node((f"class {name}({base}):",), (tuple(body),))

    def program(self, size: int) -> Program:
        classes = (
            self.class_("A", ("", "", "dict")),
            self.class_("B", ("", "A", "A")),
            Node(
                ("class Thing:",), ((Node(("def __init__(self, value): self.value = value; self.other = 0",)), *THING),)
            ),
        )
        body = tuple(self.statement(2) for _ in range(self.random.randint(2, size)))
        return Program(classes, body)


THING = (
    Node(("def bump(self, by): self.value += by; return self.value",)),
    Node(("def method(self, by=1): LOG.append('thing'); self.value = self.value + by; return self.value",)),
)


def write(source: random.Random, size: int = 8) -> Program:
    """A program that Python's own compiler takes."""
    while True:
        program = Writer(source).program(size)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                compile(program.text(), "<a program>", "exec")
        except SyntaxError:
            continue
        return program
