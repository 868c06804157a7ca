"""Random tensor programs in Python: control flow, containers, closures, in-place operations, views, reductions.

    source = random_program(7)      def program(a, b, n): ...

A program is text, so that a failing one can be read and kept. `python tests/differential/random_programs.py --count 2000`
runs many and prints the failing seeds.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

UNARY = ["relu", "tanh", "sigmoid", "exp", "neg", "abs", "sin", "cos", "square", "erf", "floor", "sign"]
BINARY = ("+", "-", "*")
REDUCTIONS = ("sum", "mean", "amax", "amin", "prod", "logsumexp")


class Writer:
    """Writes one program. Every variable it names is a float tensor of ROWS x COLUMNS unless its name says otherwise."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.depth = 1
        self.names = ["a", "b"]
        self.counter = 0

    def say(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, prefix: str = "t") -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def tensor(self) -> str:
        return self.random.choice(self.names[-6:])

    def define(self, expression: str) -> None:
        name = self.fresh() if self.depth == 1 else self.random.choice(self.names[2:] or [self.names[0]])
        self.say(f"{name} = {expression}")
        if name not in self.names:
            self.names.append(name)

    def expression(self) -> str:
        return self.random.choice(EXPRESSIONS)(self)

    def statement(self) -> None:
        self.random.choice(STATEMENTS if self.depth == 1 else SIMPLE)(self)

    def block(self, count: int) -> None:
        self.depth += 1
        for _ in range(count):
            self.define(self.expression())
        self.depth -= 1


def unary(w: Writer) -> str:
    return f"torch.{w.random.choice(UNARY)}({w.tensor()})"


def binary(w: Writer) -> str:
    return f"{w.tensor()} {w.random.choice(BINARY)} {w.tensor()}"


def with_scalar(w: Writer) -> str:
    return f"{w.tensor()} {w.random.choice(BINARY)} {w.random.choice(['2', '0.5', 'n', '-1', 'k'])}"


def divided(w: Writer) -> str:
    return f"{w.tensor()} / ({w.tensor()}.abs() + 1)"


def reduced(w: Writer) -> str:
    kind, dim = w.random.choice(REDUCTIONS), w.random.choice((0, 1, -1))
    return f"{w.tensor()} * torch.tanh({w.tensor()}.{kind}(dim={dim}, keepdim=True))"


def normalised(w: Writer) -> str:
    kind = w.random.choice(("F.softmax({}, dim=-1)", "F.log_softmax({}, dim=0)", "F.layer_norm({}, ({}.shape[-1],))"))
    name = w.tensor()
    return kind.format(name, name)


def transposed(w: Writer) -> str:
    return f"torch.tanh({w.tensor()} @ {w.tensor()}.t()) @ {w.tensor()}"


def chosen(w: Writer) -> str:
    return f"torch.where({w.tensor()} > {w.tensor()}, {w.tensor()}, {w.tensor()} * 0.5)"


def pieces(w: Writer) -> str:
    return f"torch.cat([{w.tensor()}[:, :2], {w.tensor()}[:, 2:]], dim=1)"


def stacked(w: Writer) -> str:
    return f"torch.stack([{w.tensor()}, {w.tensor()}]).mean(0)"


def reshaped(w: Writer) -> str:
    name = w.tensor()
    return f"{name}.reshape(-1).flip(0).reshape({name}.shape)"


def rolled(w: Writer) -> str:
    return f"{w.tensor()}.roll({w.random.randint(-2, 2)}, {w.random.choice((0, 1))})"


def half(w: Writer) -> str:
    return f"{w.tensor()}.to(torch.float64).{w.random.choice(('sin', 'cos', 'tanh'))}().float()"


def counted(w: Writer) -> str:
    return f"{w.tensor()} * ({w.tensor()} > 0).sum() / 7"


EXPRESSIONS: tuple[Callable[[Writer], str], ...] = (
    unary, unary, binary, binary, with_scalar, divided, reduced, normalised, transposed, chosen, pieces, stacked,
    reshaped, rolled, half, counted,
)  # fmt: skip


def simple(w: Writer) -> None:
    w.define(w.expression())


def in_place(w: Writer) -> None:
    name = w.fresh()
    w.say(f"{name} = {w.tensor()}.clone()")
    w.names.append(name)
    target = w.random.choice((name, f"{name}[0]", f"{name}[:, 1]", f"{name}.t()"))
    w.say(w.random.choice((f"{target}.mul_(0.5)", f"{target}.add_(1)")))


def assigned_item(w: Writer) -> None:
    name = w.fresh()
    w.say(f"{name} = {w.tensor()} * 1")
    w.say(f"{name}[{w.random.choice(('0', ':, 0', '..., -1', '1:3'))}] = {w.random.choice(('0', 'n', '1.5'))}")
    w.names.append(name)


def loop(w: Writer) -> None:
    w.say(f"for i in range({w.random.randint(1, 3)}):")
    w.block(w.random.randint(1, 2))
    if w.random.random() < 0.3:
        w.say(f"    {w.names[-1]} = {w.names[-1]} * (i + 1)")


def known_branch(w: Writer) -> None:
    condition = w.random.choice(("n > 2", "a.shape[0] > 3", "a.dtype == torch.float32", "k", "len(parts) % 2"))
    w.say(f"if {condition}:")
    w.block(1)
    w.say("else:")
    w.block(1)


def tensor_branch(w: Writer) -> None:
    """Not against 0: normalised rows add up to rounding errors, whose sign is nobody's promise."""
    w.say(f"if {w.tensor()}.sum() > 0.37:")
    w.block(1)


def container(w: Writer) -> None:
    w.say(f"parts.append({w.tensor()})")
    w.say(f"table['x{len(w.lines)}'] = {w.tensor()}")
    if w.random.random() < 0.5:
        w.define("sum(parts) / len(parts)")
    else:
        w.define("sum(table.values()) * 0.5")


def closure(w: Writer) -> None:
    name = w.fresh("helper")
    w.say(f"def {name}(x, scale={w.tensor()}):")
    w.say(f"    return torch.tanh(x) * scale + {w.tensor()}")
    w.define(f"{name}({w.tensor()})")


def caught(w: Writer) -> None:
    w.say("try:")
    w.block(1)
    w.say(f"    if {w.random.choice(('n > 3', 'k', 'n == 2'))}:")
    w.say("        raise ValueError('on purpose')")
    w.say(f"except {w.random.choice(('ValueError', 'Exception', '(KeyError, ValueError)'))}:")
    w.block(1)


def comprehension(w: Writer) -> None:
    w.define(f"sum([p * (j + 1) for j, p in enumerate([{w.tensor()}, {w.tensor()}, {w.tensor()}]) if j != n])")


def without_gradient(w: Writer) -> None:
    name = w.fresh()
    w.say("with torch.no_grad():")
    w.say(f"    {name} = {w.expression()}")
    w.names.append(name)


def outside_effect(w: Writer) -> None:
    w.say(f"log.append(({len(w.lines)}, n))")


def printed(w: Writer) -> None:
    w.say("sink.write(str(n))")


SIMPLE = (simple,)
STATEMENTS: tuple[Callable[[Writer], None], ...] = (
    simple, simple, simple, simple, in_place, assigned_item, loop, known_branch, tensor_branch, container, closure, caught,
    comprehension, without_gradient, outside_effect, printed,
)  # fmt: skip


def random_program(seed: int) -> str:
    """The text of `def program(a, b, n, k, log)`, the same for the same seed."""
    writer = Writer(seed)
    writer.say("parts, table = [a], {'b': b}")
    for _ in range(writer.random.randint(3, 12)):
        writer.statement()
    results = ", ".join(writer.names[-3:])
    writer.say(f"return {results}, {{'n': n, 'parts': len(parts)}}")
    head = "import io\nimport torch\nimport torch.nn.functional as F\n\nsink = io.StringIO()\n\n\n"
    return head + "def program(a, b, n, k, log):\n" + "\n".join(writer.lines) + "\n"


def load(source: str, folder: Path, seed: int) -> Callable:
    """The program from a file of its own, so that places in messages are real."""
    file = folder / f"program_{seed}.py"
    file.write_text(source)
    namespace: dict = {}
    exec(compile(source, str(file), "exec"), namespace)
    return namespace["program"]


def calls(seed: int) -> list[tuple]:
    """Arguments that change sizes, signs, numbers and flags from call to call, and come back."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    gradient = seed % 2 == 0

    def tensor(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator).requires_grad_(gradient)

    first = (tensor(4, 5), tensor(4, 5), 2, True, [])
    return [first, (-first[0].detach(), first[1], 3, False, []), (tensor(3, 6), tensor(3, 6), 5, True, ["x"]), first]


def check_seed(seed: int, folder: Path, **options) -> None:
    """Raises `AssertionError` where compiled and eager differ on any call."""
    import dynascope
    from comparing import check

    with dynascope.expected("data-dependent-branch", "foreign-call", required=False):
        check(load(random_program(seed), folder, seed), *calls(seed), rtol=2e-4, atol=2e-4, **options)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--backend", default="dynascope")
    options = parser.parse_args()
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.count):
            try:
                check_seed(seed, Path(folder), backend=options.backend)
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    break
                failed.append(seed)
                print(f"--- seed {seed}: {type(error).__name__}: {str(error)[:400]}", flush=True)
                if len(failed) <= 3:
                    traceback.print_exc(limit=-4)
    from comparing import REASONS

    print(", ".join(f"{code} {count}" for code, count in REASONS.most_common()))
    print(f"{options.count - len(failed)} passed, {len(failed)} failed: {failed[:60]}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
