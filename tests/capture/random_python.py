"""Random programs as source text: tensors, numbers, containers, closures, loops, exceptions, prints.

    write(random.Random(7))   ->   "def program(x, y, n, items, box):\n    ..."

Every program ends. What it does may raise; then plain Python raises the same.
"""

from __future__ import annotations

import random

TENSORS = ("x", "y", "t", "u")
NUMBERS = ("n", "m", "k")
KEYS = ("'c'", "'d'", "m")


class Writer:
    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def new_name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def tensor(self, level: int = 0) -> str:
        pick = self.random.choice
        forms = [
            lambda: pick(TENSORS),
            lambda: f"({self.tensor(level + 1)} {pick('+-*')} {self.tensor(level + 1)})",
            lambda: f"({self.tensor(level + 1)} {pick('+-*')} {self.number(level + 1)})",
            lambda: f"torch.{pick(('relu', 'sin', 'neg', 'abs'))}({self.tensor(level + 1)})",
            lambda: f"{self.tensor(level + 1)}.{pick(('clone()', 'sum()', 't()', 'mean(-1)', 'reshape(-1)', 'cos()'))}",
            lambda: f"items[{self.number(level + 1)} % 3]",
            lambda: f"(box['w'] * {self.number(level + 1)})",
            lambda: f"helper({self.tensor(level + 1)}, {self.number(level + 1)})",
        ]
        return pick(forms[:1] if level > 2 else forms)()

    def number(self, level: int = 0) -> str:
        pick = self.random.choice
        forms = [
            lambda: pick(NUMBERS),
            lambda: str(self.random.randint(-3, 4)),
            lambda: f"({self.number(level + 1)} {pick(('+', '-', '*', '//', '%', '&'))} {self.number(level + 1)})",
            lambda: f"len({pick(('items', 'log', 'box', 'x.shape'))})",
            lambda: "x.shape[0]",
            lambda: f"abs({self.number(level + 1)})",
            lambda: f"max({self.number(level + 1)}, {self.number(level + 1)})",
            lambda: "box['c']",
            lambda: "thing.value",
            lambda: f"sum([{self.number(level + 1)} for q in range({self.random.randint(0, 3)})])",
        ]
        return pick(forms[:2] if level > 2 else forms)()

    def condition(self) -> str:
        pick = self.random.choice
        forms = [
            lambda: f"{self.number()} {pick(('<', '>=', '==', '!='))} {self.number()}",
            lambda: f"{self.tensor()}.sum() > {self.number()}",
            lambda: f"{self.number()} in log",
            lambda: f"x.dim() == {self.random.randint(0, 2)}",
            lambda: f"not {self.number()}",
            lambda: f"isinstance(n, {pick(('int', 'float', 'str'))}) and {self.number()} < 3",
        ]
        return self.random.choices([form for form in forms], weights=[6, 1, 2, 2, 2, 2])[0]()

    def block(self, budget: int) -> None:
        self.depth += 1
        for _ in range(self.random.randint(1, 2)):
            self.statement(budget - 1)
        self.depth -= 1

    def statement(self, budget: int) -> None:
        pick = self.random.choice
        simple = [
            lambda: self.line(f"{pick(('t', 'u'))} = {self.tensor()}"),
            lambda: self.line(f"{pick(('m', 'k'))} = {self.number()}"),
            lambda: self.line(f"log.append({pick((self.number(), self.tensor()))})"),
            lambda: self.line(f"items[{self.number()} % 3] = {self.tensor()}"),
            lambda: self.line(f"box[{pick(KEYS)}] = {self.number()}"),
            lambda: self.line(f"thing.{pick(('value', 'other'))} = {self.number()}"),
            lambda: self.line(f"t, u = u, {self.tensor()}"),
            lambda: self.line(f"{pick(('x', 'y', 't'))}.add_({self.number()})"),
            lambda: self.line(f"k += {self.number()}"),
            lambda: self.line(f"print('p', {self.number()})"),
            lambda: self.line(f"m = thing.bump({self.number()})"),
            lambda: self.line(f"box.setdefault('e', []).append({self.number()})"),
            lambda: self.line(f"log[:] = [v for v in log if not isinstance(v, int)] + [{self.number()}]"),
            lambda: self.line(f"m = bump({self.number()})"),
        ]
        compound = [self.branch, self.loop, self.attempt, self.managed, self.early]
        if budget > 0 and self.random.random() < 0.35:
            pick(compound)(budget)
        else:
            self.random.choices(simple, weights=[8, 6, 3, 2, 2, 2, 3, 1, 3, 1, 2, 1, 1, 2])[0]()

    def branch(self, budget: int) -> None:
        self.line(f"if {self.condition()}:")
        self.block(budget)
        if self.random.random() < 0.5:
            self.line("else:")
            self.block(budget)

    def loop(self, budget: int) -> None:
        name = self.new_name("i")
        iterable = self.random.choice(("range(3)", "[1, 2]", "list(box)", "enumerate('ab')", "zip([1], [2])", "items"))
        self.line(f"for {name} in {iterable}:")
        self.block(budget)
        self.depth += 1
        if self.random.random() < 0.3:
            self.line(f"if {self.condition()}: {self.random.choice(('break', 'continue'))}")
        self.depth -= 1

    def attempt(self, budget: int) -> None:
        self.line("try:")
        self.block(budget)
        self.depth += 1
        if self.random.random() < 0.6:
            self.line(
                self.random.choice(("raise ValueError(m)", "m = 1 // (m - m)", "m = box['missing']", "m = log[99]"))
            )
        self.depth -= 1
        if self.random.random() < 0.7:
            self.line(
                f"except {self.random.choice(('ValueError', 'LookupError', 'ZeroDivisionError', 'Exception'))} as error:"
            )
            self.block(budget)
            self.depth += 1
            self.line("log.append(type(error).__name__)")
            self.depth -= 1
        else:
            self.line("finally:")
            self.block(budget)

    def managed(self, budget: int) -> None:
        self.line(f"with {self.random.choice(('torch.no_grad()', 'Manager(log)', 'torch.enable_grad()'))}:")
        self.block(budget)

    def early(self, budget: int) -> None:
        self.line(f"if {self.condition()}: return {self.tensor()}, k")


PRELUDE = """
import torch

class Thing:
    def __init__(self, value): self.value = value; self.other = 0
    def bump(self, by):
        self.value += by
        return self.value

class Manager:
    def __init__(self, log): self.log = log
    def __enter__(self): self.log.append('in'); return self
    def __exit__(self, kind, error, trace): self.log.append('out'); return kind is ValueError

def helper(t, n):
    if n > 2:
        t = t * n
    return t + 1

def program(x, y, n, items, box, thing):
    log = []
    t, u, m, k = x, y, 1, n
    def bump(by):
        nonlocal k
        k = k + by
        return k * 2
"""


def write(source: random.Random, size: int = 7) -> str:
    writer = Writer(source)
    for _ in range(source.randint(2, size)):
        writer.statement(2)
    writer.line("return t, u, m, k, log")
    return PRELUDE + "\n".join(writer.lines) + "\n"
