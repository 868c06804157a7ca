"""Calls of every overload that a rule is for, drawn from its schema: arguments left out or given, of all types, tensors and numbers.

    for call in calls("aten.sum.dim_IntList", 10):
        call.graph, call.tensors        recorded on meta tensors, and what it was recorded of
        call.program(*call.tensors)     eager, which may raise
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from dynascope.loops.lower.rules import RULES
from recording import record
from torch import fx
from torch.utils._pytree import tree_leaves, tree_map

ERRORS = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError, AssertionError, AttributeError, OverflowError,
          ZeroDivisionError)  # fmt: skip
NOT_GIVEN = {"layout", "device", "pin_memory", "memory_format", "generator", "out"}
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


def takes_tensors(overload: Any) -> bool:
    kinds = [str(argument.type) for argument in overload._schema.arguments]
    makes = [str(result.type) for result in overload._schema.returns]
    return overload.namespace == "aten" and any("Tensor" in kind for kind in kinds) and any("Tensor" in kind for kind in makes)


OVERLOADS = {str(overload): overload for overload in RULES if takes_tensors(overload)}


@dataclass(frozen=True)
class Call:
    said: str
    program: Callable[..., list[Any]]
    tensors: list[torch.Tensor]
    graph: fx.GraphModule


def calls(name: str, count: int) -> Iterator[Call]:
    """Of so many drawn those that can be recorded."""
    overload, choose = OVERLOADS[name], random.Random(zlib.crc32(name.encode()))
    for _ in range(count):
        arguments, keywords = called(overload, choose)
        tensors = [each for each in tree_leaves((arguments, keywords)) if isinstance(each, torch.Tensor)]
        program = calling(overload, arguments, keywords, tensors)
        try:
            graph = record(program, tensors)
        except ERRORS:
            continue
        yield Call(f"{name} of {arguments}, {keywords}", program, tensors, graph)


def calling(overload: Any, arguments: list[Any], keywords: dict[str, Any], tensors: list[torch.Tensor]) -> Callable[..., list[Any]]:
    def program(*given: torch.Tensor) -> list[Any]:
        place = {id(tensor): other for tensor, other in zip(tensors, given, strict=True)}
        positional, named = tree_map(lambda each: place.get(id(each), each), (arguments, keywords))
        results = overload(*positional, **named)
        return list(results) if isinstance(results, (list, tuple)) else [results]

    return program


def drawn(argument: Any, choose: random.Random) -> Any:
    kind = str(argument.type)
    if argument.name == "dtype":
        return choose.choice((*DTYPES, None))
    if kind.startswith("Optional["):
        if choose.random() < 0.4:
            return None
        kind = kind.removeprefix("Optional[").removesuffix("]")
    match kind:
        case "Tensor":
            return drawn_tensor(choose)
        case "List[Tensor]":
            return [drawn_tensor(choose) for _ in range(choose.randint(1, 3))]
        case "List[Optional[Tensor]]":
            return [torch.tensor([0, 2, -1])]
        case "number":
            return choose.choice((2, 0, -1, 3, 0.5, -2.5, 300, float("inf"), True))
        case "int":
            return choose.randint(-2, 3)
        case "float":
            return choose.choice((0.0, 0.5, 2.0, -1.5))
        case "bool":
            return choose.random() < 0.5
        case "List[int]":
            return [choose.randint(-1, 3) for _ in range(choose.randint(0, 3))]
        case "List[bool]":
            return [choose.random() < 0.5 for _ in range(3)]
        case "str":
            return choose.choice(("none", "tanh"))
    raise TypeError(f"no value of {kind}")


def drawn_tensor(choose: random.Random) -> torch.Tensor:
    dtype = choose.choice((torch.float32, torch.float32, *DTYPES))
    sizes = choose.choice(((3, 4), (3, 4), (4,), (3, 1), (), (2, 3, 4), (1, 2, 5, 6), (0, 4)))
    whole = torch.randint(-6, 7, sizes, generator=torch.Generator().manual_seed(choose.randrange(99)))
    made = (whole.abs() if dtype == torch.uint8 else whole).to(torch.float32).div(2).to(dtype)
    return choose.choice((made, made, made.mT.contiguous().mT if made.dim() > 1 else made, made[..., ::2] if made.dim() else made))


def called(overload: Any, choose: random.Random) -> tuple[list[Any], dict[str, Any]]:
    arguments, keywords, others_by_name = [], {}, False
    for argument in overload._schema.arguments:
        if argument.has_default_value() and (argument.name in NOT_GIVEN or choose.random() < 0.5):
            others_by_name = True
            continue
        value = drawn(argument, choose)
        if argument.kwarg_only or others_by_name:
            keywords[argument.name] = value
        else:
            arguments.append(value)
    return arguments, keywords
