"""Random programs in which numbers that vary lead shapes, and shapes lead numbers: is each answer that of the call?

    python tests/differential/number_programs.py --first 1000 --count 200

A program slices, pads, splits and fills by expressions of two numbers and of the sizes of two tensors, and gives facts of what it
made; eight calls of it have other numbers and sizes. Values, shapes and strides are compared with eager's, and errors.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from typing import Any

import dynascope
import torch

FACTS = ["x.size(0)", "x.shape[-1]", "x.size(1)", "y.numel()", "len(y)", "x.stride(0)", "y.shape[0]", "y.stride(-1)"]
DEEPEST, CALLS, FEWEST_THAT_RUN = 2, 8, 4
STATEMENTS: list[Callable[[random.Random, str, str, str], str]] = [
    lambda r, to, of, d: f"{to} = {of}[:, : {count(r)}]",
    lambda r, to, of, d: f"{to} = {of}[{number(r)} % {of}.shape[0] :]",
    lambda r, to, of, d: f"{to} = {of}[:: {count(r)}]",
    lambda r, to, of, d: f"{to} = torch.cat([{of}, {of}], {d})",
    lambda r, to, of, d: f"{to} = {of}.reshape(-1, {of}.shape[0])",
    lambda r, to, of, d: f"{to} = {of}.t().contiguous()",
    lambda r, to, of, d: f"{to} = torch.nn.functional.pad({of}, (0, {count(r)}))",
    lambda r, to, of, d: f"{to} = {of}.repeat(1, {number(r)} % 3 + 1)",
    lambda r, to, of, d: f"{to} = torch.zeros({count(r)}, {count(r)}) + {number(r)}",
    lambda r, to, of, d: f"{to} = torch.arange({count(r)} * {r.choice('234')}).float().view(-1, {r.choice('12')})",
    lambda r, to, of, d: f"{to} = {of}.roll({number(r)}, {d})",
    lambda r, to, of, d: f"{to} = {of}.narrow(0, 0, min({of}.size(0), {count(r)}))",
    lambda r, to, of, d: f"{to} = {of}.chunk({count(r)}, {d})[0]",
    lambda r, to, of, d: f"{to} = {of}.unfold(0, min(2, {of}.size(0)), {count(r)})[..., 0]",
    lambda r, to, of, d: f"{to} = torch.nn.functional.avg_pool1d({of}[None], 1, {count(r)})[0]",
    lambda r, to, of, d: f"{to} = {of} * {number(r)} + {of}.size({d})",
    lambda r, to, of, d: f"{to} = {of}.sum({d}, keepdim=True) + {of}",
    lambda r, to, of, d: f"{to} = torch.linspace(0, {number(r)}, {count(r)} + 1)[:, None].expand(-1, {count(r)})",
    lambda r, to, of, d: f"{to} = torch.nn.functional.interpolate({of}[None, None], size=({count(r)}, {of}.shape[-1]))[0, 0]",
    lambda r, to, of, d: f"if {number(r)} {r.choice(['<', '==', '>', '!='])} {number(r)}: {to} = {of} + 1",
    lambda r, to, of, d: f"out.append({of}.size({d}))",
    lambda r, to, of, d: f"out.append(tuple({of}.shape))",
    lambda r, to, of, d: f"out.append({number(r)})",
    lambda r, to, of, d: f"out.append({of}.numel() * {number(r)})",
    lambda r, to, of, d: f"out.append(torch.broadcast_shapes({of}.shape, ({number(r)} % 3 + 1, 1, 1)))",
]


def number(r: random.Random, depth: int = 0) -> str:
    """An expression that is an int."""
    if depth == DEEPEST or r.random() < 1 / 3:
        return r.choice(["n", "m", str(r.randint(1, 4)), r.choice(FACTS)])
    one, other = number(r, depth + 1), number(r, depth + 1)
    forms = f"({one} + {other})|({one} - {other})|max({one}, {other})|min({one}, {other})|abs({one} - {other})".split("|")
    return r.choice([*forms, f"({one} * {r.randint(2, 3)})", f"({one} // {r.randint(2, 4)})", f"({one} % {r.randint(2, 5)})"])


def count(r: random.Random) -> str:
    """One from 1 to 7."""
    return f"({number(r)} % 7 + 1)"


def program(seed: int) -> str:
    r = random.Random(seed)
    lines = []
    for _ in range(r.randint(3, 7)):
        dimension = r.choice(["0", "1", "-1", f"{number(r)} % 2", f"-1 - {number(r)} % 2"])
        lines.append(r.choice(STATEMENTS)(r, r.choice("xy"), r.choice("xy"), dimension))
    return written(*lines)


def written(*lines: str) -> str:
    return "\n    ".join(["def f(x, y, n, m):", "out = []", *lines, "return x, y, out"]) + "\n"


def calls(seed: int) -> list[tuple[Any, ...]]:
    r = random.Random(seed)
    found = []
    for i in range(CALLS):
        n, m = r.choice([(i + 2, 3), (2 + i, 5 - i), (r.randint(0, 12), r.randint(1, 9))])
        sizes = r.choice([(3, 4), (4 + i, 4), (r.randint(1, 6), r.randint(1, 6))]), r.choice([(3, 4), (2, 5 + i)])
        found.append((*(torch.arange(float(a * b)).view(a, b) + 1 for a, b in sizes), n, m))
    return found


def outcome(function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    try:
        return described(function(*given))
    except Exception as error:
        return type(error), str(error)


def described(value: Any) -> Any:
    """What is compared: strides where they say something."""
    if isinstance(value, torch.Tensor):
        strides = [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size > 1 and value.numel()]
        return value.dtype, value.shape, strides, value.nan_to_num(-7.0).round(decimals=3).tolist()
    return [described(each) for each in value] if type(value) in (list, tuple) else (type(value), value)


def differences(text: str, backend: str = "eager", seed: int = 0) -> Iterator[str]:
    """A line for the first call that ends otherwise when compiled; none for a program that hardly ever runs."""
    names: dict[str, Any] = {"torch": torch}
    exec(text, names)
    function, given = names["f"], calls(seed)
    wanted = [outcome(function, each) for each in given]
    if sum(type(each) is list for each in wanted) < FEWEST_THAT_RUN:
        return
    dynascope.reset()
    compiled = dynascope.compile(function, backend=backend)
    for each, expected in zip(given, wanted, strict=True):
        if (found := outcome(compiled, each)) != expected:
            yield f"{[tuple(item.shape) if isinstance(item, torch.Tensor) else item for item in each]}: {found}, eager {expected}\n{text}"
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--backend", default="eager")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, options.first + options.count):
        for line in differences(program(seed), options.backend, seed):
            failed += 1
            print(f"seed {seed}, {line}", flush=True)
    print(f"{options.count} programs, {failed} differ")


if __name__ == "__main__":
    main()
