"""Random programs over tensors of every type and layout, as text that can be read, shrunk and run.

    program = random_program(7)
    program.text()       a file with make(), program(...) and what the calls change
    program.body         its statements; `shrinking.py` deletes some

A statement is tried on eager tensors before it is taken, so that most statements of most programs succeed: what the first call
would not survive is left out, or kept inside `try`. Numbers, flags, sizes and modes change from call to call.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import tensor_statements as statements
import torch

HEAD = '''\
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

F16, BF16, F32, F64, C64 = torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64
I64, I32, U8, BOOL = torch.int64, torch.int32, torch.uint8, torch.bool
EXACT, NUDGED, DEVICE = False, False, "cpu"


def tensor(seed, sizes, dtype, grad=False):
    """Numbers that every type holds exactly; EXACT computes in float64 with the same ones."""
    generator = torch.Generator().manual_seed(seed)
    eighths = torch.randint(-16, 17, sizes, generator=generator).to(torch.float64) / 8
    if dtype in (I64, I32, U8):
        made = (eighths * 8).abs().to(dtype)
    elif dtype is BOOL:
        made = eighths > 0
    elif dtype is C64:
        made = torch.complex(eighths, eighths.flip(0)).to(torch.complex128 if EXACT else C64)
    else:
        nudges = 2 * torch.finfo(dtype).eps * torch.randint(-1, 2, sizes, generator=generator)
        made = (eighths * (1 + nudges) if NUDGED else eighths).to(F64 if EXACT else dtype)
    return made.to(DEVICE).requires_grad_(grad)


class Net(nn.Module):
    """Shared and frozen parameters, buffers that calls change, and a plain counter."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(width)
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.second.weight = self.first.weight
        self.frozen = nn.Parameter(torch.randn(width, width) / 2, requires_grad=False)
        self.scale, self.unused = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(width))
        self.norm, self.batch, self.drop = nn.LayerNorm(width), nn.BatchNorm1d(width), nn.Dropout(0.5)
        self.table = nn.Embedding(7, width)
        self.register_buffer("seen", torch.zeros(width))
        self.calls = 0


def net(width):
    return Net(width).to(device=DEVICE, dtype=F64 if EXACT else F32)


class Doubled(torch.autograd.Function):
    """The sine, with a derivative that is twice the right one."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0].cos() * 2


class Product(torch.autograd.Function):
    """What is kept on the context, a result without a gradient, and arguments that may need none."""

    @staticmethod
    def forward(ctx, x, y, scale):
        ctx.x, ctx.scale = x, scale
        ctx.save_for_backward(y)
        mask = x > 0.37
        ctx.mark_non_differentiable(mask)
        return x * y * scale, mask

    @staticmethod
    def backward(ctx, gradient, _):
        (y,) = ctx.saved_tensors
        return (gradient * y * ctx.scale if ctx.needs_input_grad[0] else None), (gradient * ctx.x).clamp(-3, 3), None


class Rounded(torch.autograd.Function):
    """A gradient that passes by what the forward pass does; arguments that are kept as attributes."""

    @staticmethod
    def forward(x, steps):
        return (x * steps).floor() / steps

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.steps = inputs

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.steps, None


class Split(torch.autograd.Function):
    """Two results of one operand; gradients of what nobody reads are there as zeros."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x + y, x * y

    @staticmethod
    def backward(ctx, of_sum, of_product):
        x, y = ctx.saved_tensors
        return of_sum + of_product * y, of_sum + of_product * x


class Alone(torch.autograd.Function):
    """Differentiates inside, as a function that keeps its operand and computes again does."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            x = ctx.saved_tensors[0].detach().requires_grad_()
            return torch.autograd.grad(x.tanh() * 2, x, gradient)[0]


class Itself(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Written(torch.autograd.Function):
    """Changes its operand in place."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


class Holder:
    pass


'''
MODES = ("plain", "plain", "plain", "no_grad", "inference", "autocast", "eval")


@dataclass(frozen=True)
class Call:
    """What is different at one call: `rows` is how many rows of the inputs are given, `sizes` are those of inputs of its own."""

    n: int = 2
    flag: bool = True
    rows: int | None = None
    mode: str = "plain"
    sizes: tuple[int, int] | None = None


@dataclass(frozen=True)
class Program:
    """`inputs` are (name, expression), `losses` places among the results that are differentiable, in order."""

    seed: int
    inputs: tuple[tuple[str, str], ...]
    body: tuple[str, ...]
    results: tuple[str, ...]
    calls: tuple[Call, ...]
    losses: tuple[int, ...] = (0,)
    clipped: bool = False
    steps: bool = False
    """Whether the leaves are changed in place after each call, as an optimizer does."""
    sizes: tuple[int, int] = (3, 4)
    """What R and C are in `inputs` where a call does not say."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.inputs)

    def text(self) -> str:
        made = "".join(f"    {name} = {expression}\n" for name, expression in self.inputs)
        names = ", ".join(self.names)
        lines = "".join(f"    {line}\n" for line in self.body)
        ends = f"    return [{', '.join(self.results)}]\n"
        return (
            f"{HEAD}def make(R={self.sizes[0]}, C={self.sizes[1]}):\n{made}"
            f"    return dict({', '.join(f'{n}={n}' for n in self.names)})\n\n\n"
            f"def program({names}{', ' * bool(names)}n, flag, log, holder):\n{lines}{ends}\n\n# {self.words()}\n"
        )

    def words(self) -> str:
        calls = "; ".join(
            f"n={c.n} flag={c.flag} rows={c.rows} {c.mode}" + f" sizes={c.sizes}" * (c.sizes is not None)
            for c in self.calls
        )
        return (
            f"seed {self.seed}: calls {calls}; losses {self.losses}"
            + ", clipped" * self.clipped
            + ", steps" * self.steps
        )


DTYPES = ("F32",) * 9 + ("F64", "BF16", "F16", "I64", "I64", "I32", "U8", "BOOL", "C64")
SIZES = (0, 1, 1, 2, 3, 3, 4, 4, 5, 6)
"""Zero and one sized among them; a program's inputs share rows and columns, so that they meet."""


def with_autograd(seed: int) -> Program:
    """A program that differentiates inside, with custom functions and checkpoints."""
    return random_program(seed, "autograd")


def with_late_numbers(seed: int) -> Program:
    """A program that asks tensors for numbers, and how many of their elements qualify."""
    return random_program(seed, "late")


def with_hooks(seed: int) -> Program:
    """A program with hooks of tensors and modules, writes past autograd, custom functions of all sorts, and parts in inference mode."""
    return random_program(seed, "hooks")


def random_program(seed: int, about: str = "") -> Program:
    choose = random.Random(seed)
    rows, width = choose.choice(SIZES), choose.choice(SIZES[1:])
    inputs = tuple(_inputs(choose))
    writer = _Writer(choose, inputs, (rows, width), about)
    for _ in range(choose.randint(3, 11)):
        writer.statement(depth=0)
    results = tuple(choose.sample(writer.tensors[-6:], min(len(writer.tensors), choose.randint(1, 4))))
    if choose.random() < 0.15:
        results += results[:1]
    return Program(
        seed,
        inputs,
        tuple(writer.lines),
        results,
        tuple(_calls(choose, rows)),
        tuple(choose.sample(range(4), choose.randint(1, 3))),
        clipped=choose.random() < 0.4,
        steps=choose.random() < 0.4,
        sizes=(rows, width),
    )


def of_varying_sizes(seed: int) -> Program:
    """The same program, at calls whose two sizes change; that of its modules does not."""
    program, choose = random_program(seed), random.Random(f"sizes {seed}")
    rows, width = (max(size, 2) for size in program.sizes)
    module = any(name == "m" for name, _ in program.inputs)

    def call(first: int, second: int) -> Call:
        other = choose.choice(program.calls)
        return replace(other, rows=None, sizes=(first, program.sizes[1] if module else second))

    more = [call(choose.randint(2, 9), choose.choice((width, choose.randint(2, 9)))) for _ in range(3)]
    calls = (call(rows, width), call(rows + 1, width + 2), *more, call(choose.choice(SIZES), choose.choice(SIZES)))
    return replace(program, calls=(*calls, calls[0]))


def _inputs(choose: random.Random):
    for number in range(choose.randint(1, 4)):
        dtype = choose.choice(DTYPES)
        grad = dtype in ("F32", "F64", "BF16") and choose.random() < 0.5
        layout = choose.choice(LAYOUTS)
        yield "abcd"[number], layout(f"{choose.randint(0, 99)}", "R", "C", dtype, ", True" * grad)
    if choose.random() < 0.3:
        yield "e", choose.choice(ALIASES)
    if choose.random() < 0.5:
        yield "m", "net(C)"


ALIASES = ("a", "a.detach()", "a * 1", "a.flatten()", "a[1:] if a.dim() else a", "a.mT if a.dim() > 1 else a")
LAYOUTS = (
    lambda s, r, c, d, g: f"tensor({s}, ({r}, {c}), {d}{g})",
    lambda s, r, c, d, g: f"tensor({s}, ({r}, {c}), {d}{g})",
    lambda s, r, c, d, g: f"tensor({s}, ({r}, {c}), {d}{g})",
    lambda s, r, c, d, g: f"tensor({s}, ({c}, {r}), {d}{g}).t()",
    lambda s, r, c, d, g: f"tensor({s}, (1, {c}), {d}{g}).expand({r}, {c})",
    lambda s, r, c, d, g: f"tensor({s}, ({r}, 1), {d}{g}).expand({r}, {c})",
    lambda s, r, c, d, g: f"tensor({s}, ({r}, 2 * {c}), {d}{g})[:, ::2]",
    lambda s, r, c, d, g: f"tensor({s}, ({r} + 2, {c} + 1), {d}{g})[2:, 1:]",
    lambda s, r, c, d, g: f"tensor({s}, ({c},), {d}{g})",
    lambda s, r, c, d, g: f"tensor({s}, (), {d}{g})",
    lambda s, r, c, d, g: f"tensor({s}, (2, {r}, {c}), {d}{g}).permute(1, 2, 0)[..., 1]",
    lambda s, r, c, d, g: f"tensor({s}, (2, {r}, {c}), {d}{g})",
)


def _calls(choose: random.Random, rows: int):
    first = Call(n=choose.choice((1, 2, 3)))
    second = replace(first, n=choose.choice((first.n, 3, 5)), flag=choose.random() < 0.6, mode=choose.choice(MODES))
    smaller = choose.choice((None, None, max(rows - 1, 0), 1))
    yield from (first, second, replace(first, rows=smaller, mode=choose.choice(MODES)))
    if choose.random() < 0.5:
        yield first


class _Writer:
    """Statements so far, and eager's values after them."""

    def __init__(self, choose: random.Random, inputs: tuple[tuple[str, str], ...], sizes: tuple[int, int], about: str) -> None:
        self.choose, self.about = choose, about
        self.space: dict[str, Any] = dict(zip("RC", sizes, strict=True))
        exec(HEAD, self.space)
        for name, expression in inputs:
            exec(f"{name} = {expression}", self.space)
        self.space |= {"n": 2, "flag": True, "log": [], "holder": self.space["Holder"]()}
        self.tensors = [name for name, _ in inputs if name != "m"]
        self.has_net = any(name == "m" for name, _ in inputs)
        self.lines: list[str] = []
        self.counter = 0

    def statement(self, depth: int) -> None:
        """One statement, or a block. At most eight tries to find one that eager takes."""
        if depth < 2 and self.choose.random() < 0.22:
            self.block(depth)
            return
        for _ in range(8):
            kind = statements.of_kind(self.choose, self.has_net, self.about)
            line = self.filled(self.choose.choice(kind))
            if self.runs(line):
                self.lines.append("    " * depth + line)
                return

    def block(self, depth: int) -> None:
        head, *others = self.choose.choice(statements.blocks(self.about))
        for each in (head, *others):
            known = set(self.tensors)
            before = len(self.lines)
            self.lines.append("    " * depth + self.filled(each))
            for _ in range(self.choose.randint(1, 2)):
                self.statement(depth + 1)
            if len(self.lines) == before + 1:
                self.lines.append("    " * (depth + 1) + "log.append(n)")
            # What only one way through the program binds is mostly not read after it.
            self.tensors = [name for name in self.tensors if name in known or self.choose.random() < 0.05]

    def filled(self, template: str) -> str:
        """`{x}` a tensor, `{new}` a name, `{r}` a name that is there already or new, `{k}` a small number, `{d}` a dimension."""
        self.counter += 1
        new = f"t{self.counter}"
        recent = self.tensors[-5:]
        return template.format(
            x=self.choose.choice(recent), y=self.choose.choice(self.tensors), z=self.choose.choice(recent),
            new=new, r=self.choose.choice((new, new, self.choose.choice(recent))), k=self.choose.choice((0, 1, -1, 2)),
            d=self.choose.choice((0, -1, 1)), c=self.choose.choice(("2", "0.5", "-1.5", "n", "3", "True")),
        )  # fmt: skip

    def runs(self, line: str) -> bool:
        """Whether eager takes the statement; its values are then part of what the next ones see."""
        space = dict(self.space)
        hooked = space.get(line.partition(".")[0].partition(" = ")[2] or line.partition(".")[0])
        if ".register_hook" in line and isinstance(hooked, torch.Tensor) and hooked._is_view():
            return False  # torch dies of hooks on views of leaves that were written without gradients
        try:
            exec(line, space)
        except Exception:
            return False
        name = line.partition(" = ")[0]
        if name.isidentifier():
            value = space[name]
            if not isinstance(value, torch.Tensor) or value.numel() > 400 or value.dim() > 4:
                return False
            if value.is_floating_point() and not bool((value.detach().abs() < 1e4).all()):
                return False
            if name not in self.tensors:
                self.tensors.append(name)
        self.space = space
        return True
