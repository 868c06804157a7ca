"""The programs of `self_check`: between them, all that Python's compiler turns functions into that capture takes whole.

Each takes one tensor and gives what `repr` shows in full. OPERATIONS are those whose meta kernels are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

log: list = []


class Manager:
    """Swallows ValueError."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Manager:
        log.append(f"enter {self.name}")
        return self

    def __exit__(self, kind: type | None, error: object, traceback: object) -> bool:
        log.append(f"exit {self.name} {kind.__name__ if kind else None}")
        return kind is not None and issubclass(kind, ValueError)


class Counter(Manager):
    def __init__(self, name: str, count: int = 0) -> None:
        super().__init__(name)
        self.count = count

    def add(self, number: int, *, times: int = 1) -> Counter:
        self.count += number * times
        return self


def loops(x):
    total, seen = x, []
    for number in [3, 1, 2]:
        if number == 1:
            continue
        for letter, other in zip(("a", "b"), range(5), strict=False):
            if other > number:
                break
            seen.append((letter, other))
        else:
            seen.append(number)
        total = total + number
    count = 0
    while count < 4 and not count > 7:
        count += 2
    for key, value in {"k": 1}.items():
        seen.append([key, value])
    return total, seen, count, -count, count if count else None


def comprehensions(x):
    rows = [[1, 2], [3], []]
    flat = [item * 2 for row in rows for item in row if item != 2]
    lengths = {len(row): tuple(row) for row in rows}
    return x * len(flat), flat, lengths, sorted({n % 2 for n in flat}), sum(n for n in flat), any(not r for r in rows)


def exceptions(x):
    found = []
    things: tuple[Any, ...] = (1, 0, None, "text")
    for thing in things:
        try:
            try:
                found.append(4 / thing)
            except ZeroDivisionError as error:
                found.append(type(error).__name__)
            else:
                found.append("fine")
            finally:
                found.append("finally")
        except TypeError:
            found.append("type")
    try:
        raise KeyError("k") from None
    except (ValueError, KeyError) as error:
        found.append(error.args)
    return x + 1, found


def managers(x):
    with Manager("one") as one, Manager("two"):
        x = x + len(one.name)
    with Manager("three"):
        raise ValueError(x.shape)
    return x


def calls(x):
    def add(a, b=2, *rest, c=3, **more):
        return a + b * c, rest, more

    pairs, named = [1, 5], {"c": 7, "d": 8}
    counter = Counter("c").add(2).add(3, times=2)
    made = [add(1), add(1, c=2), add(*pairs), add(1, 2, 3, 4, k=5), add(*pairs, **named), add(*pairs, 9, **named)]
    return torch.add(x, x, alpha=2), made, counter.count, max(pairs, key=lambda n: -n)


def closures(x):
    total = 0

    def outer(step):
        nonlocal total

        def inner():
            return total + step

        total += step
        return inner

    return x * outer(2)(), outer(3)(), total


def texts_and_items(x):
    items = [4, 5, 6, 7]
    first, *middle, last = items
    items[1:3] = [0]
    items[0] += 1
    del items[-1]
    name = "n"
    return (
        x[1:] * first,
        middle,
        last,
        items,
        f"{name!r:>5}{first:03d}|{last}",
        1 < first <= 4 != last,
        items[0] in middle,
    )


def matching(x):
    found = []
    for thing in ({"a": 1, "b": 2}, [1, 2, 3], 5, "s", None):
        match thing:
            case {"a": a, **rest}:
                found.append((a, rest))
            case [first, *others]:
                found.append((first, others))
            case int(n) if n > 4:
                found.append(n)
            case None:
                found.append("none")
            case _:
                found.append("other")
    return x - 1, found


def generators(x):
    def pairs(limit):
        for n in range(limit):
            yield n, n * n
        yield from ((7, 8), (9, 10))

    return x / 2, list(pairs(2)), [b for _, b in pairs(1)]


def differentiable(x):
    normal = torch.nn.functional.layer_norm(x, (3,))
    return torch.relu(normal * x.sin()) + x[:1].exp().expand(3) / torch.stack([x, x * x]).sum(0).square().add(1)


PROGRAMS = (loops, comprehensions, exceptions, managers, calls, closures, texts_and_items, matching, generators)

OPERATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x.transpose(1, 2) + x.new_ones(8, 3, 8).transpose(0, 1).transpose(0, 1)[:, :, :1],
    "sum": lambda x: x.sum(1, keepdim=True),
    "matmul": lambda x: x @ x.mT,
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: torch.nn.functional.layer_norm(x, (8,)),
    "cat": lambda x: torch.cat([x, x], 1),
    "convolution": lambda x: torch.nn.functional.conv2d(x, x[:, :, :3, :3], padding=1),
    "scaled_dot_product_attention": lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x),
    "embedding": lambda x: torch.nn.functional.embedding(torch.zeros(2, dtype=torch.long, device=x.device), x[0, 0]),
    "gather": lambda x: x.gather(1, torch.zeros(2, 1, 8, 8, dtype=torch.long, device=x.device)),
    "promotion": lambda x: x.half() * torch.ones((), dtype=torch.float64, device=x.device) > 0,
}
