"""What a call through the dispatcher costs over a direct call of the same function, in nanoseconds.

    PYTHONPATH=engine python bench/dispatch_cost.py

Each pair is timed in turns, and the median of the differences is printed.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from dynascope.frame import hook
from dynascope.guards.check import compile_guards
from dynascope.guards.global_state import GlobalStateIs
from dynascope.guards.guard import Guard, ModuleHasNoHooks, TypeIs
from dynascope.guards.source import DictionaryAttributeSource, LocalSource, ModuleMemberSource
from dynascope.guards.tensor_guard import TensorMatches


def main() -> None:
    a, b = torch.ones(8), torch.ones(8)
    state = Guard((), GlobalStateIs.now())
    report("no guards", nothing, (), [])
    report("no guards, 2 arguments", add, (a, b), [])
    report("the state of torch", nothing, (), [state])
    report("add(a, b): 2 tensors, state", add, (a, b), [state, *tensor_guards(("a", a), ("b", b))])
    report("add(a, b=b): the same by keyword", add, (a,), [state, *tensor_guards(("a", a), ("b", b))], {"b": b})
    many = [torch.ones(8) for _ in range(50)]
    guards = [state, *tensor_guards(*[(f"p{i}", tensor) for i, tensor in enumerate(many)])]
    report("50 tensors, state", fifty, tuple(many), guards)
    model = Layers()
    guards = [state, *tensor_guards(("x", a)), *module_guards(model)]
    report("10 linear layers, 20 parameters", forward, (model, a), guards)


def nothing():
    return None


def add(a, b):
    return None


def forward(self, x):
    return None


_names: dict = {}
exec(f"def fifty({', '.join(f'p{i}' for i in range(50))}): return None", _names)
fifty = _names["fifty"]


class Layers(torch.nn.Module):
    """A stack of linear layers, each reached as an attribute of its own."""

    def __init__(self) -> None:
        super().__init__()
        for i in range(10):
            self.add_module(f"layer{i}", torch.nn.Linear(8, 8))


def tensor_guards(*named: tuple[str, torch.Tensor]) -> list[Guard]:
    return [Guard((LocalSource(name),), TensorMatches.of(tensor)) for name, tensor in named]


def module_guards(model: torch.nn.Module) -> list[Guard]:
    this = LocalSource("self")
    guards = [Guard((this,), TypeIs(type(model))), Guard((DictionaryAttributeSource(this, "training"),), TypeIs(bool))]
    for name, layer in model.named_children():
        place = ModuleMemberSource(this, "_modules", name)
        guards += [Guard((place,), TypeIs(type(layer))), Guard((place,), ModuleHasNoHooks())]
        for kind in ("weight", "bias"):
            member = ModuleMemberSource(place, "_parameters", kind)
            guards.append(Guard((member,), TensorMatches.of(getattr(layer, kind))))
    return guards


def report(title: str, function: Callable, args: tuple, guards: list[Guard], keywords: dict | None = None) -> None:
    table = hook.EntryTable(function.__code__)
    entry = hook.Entry(compile_guards(guards, function.__code__), function.__code__.replace(), None)
    table.add(entry)
    compiled = table.bind(function)
    keywords = keywords or {}
    compiled(*args, **keywords)
    assert entry.hits == 1, title
    differences = [nanoseconds(compiled, args, keywords) - nanoseconds(function, args, keywords) for _ in range(25)]
    print(f"{title:36} {statistics.median(differences):8.0f} ns over a direct call ({len(guards)} guards)")


def nanoseconds(function: Callable, args: tuple, keywords: dict, repetitions: int = 4000) -> float:
    start = time.perf_counter_ns()
    for _ in range(repetitions):
        function(*args, **keywords)
    return (time.perf_counter_ns() - start) / repetitions


if __name__ == "__main__":
    main()
