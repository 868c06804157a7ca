"""The examples in torch's docstrings, each as one function: does it leave the same names with the same values, and print the same?

    python bench/docstrings.py                     backend "eager": capture alone
    python bench/docstrings.py dynascope 0/4       a quarter of them, with kernels

An example that fails in eager is cut where it fails; one that is not the same twice in eager is left out.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import linecache
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dynascope
import torch

MODULES = """
torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn torch.nn.utils.parametrize
torch.nn.utils.parametrizations torch.nn.utils.prune torch.optim torch.optim.lr_scheduler torch.optim.swa_utils torch.linalg
torch.fft torch.special torch.signal.windows torch.autograd torch.autograd.functional torch.autograd.function torch.autograd.graph
torch.autograd.forward_ad torch.func torch.distributions torch.utils.checkpoint torch.utils.data torch.masked torch.sparse
torch.nested torch.random torch.overrides torch.nn.attention torch.library torch.testing torch.profiler torch.fx torch.quasirandom
""".split()  # noqa: SIM905
LEFT_OUT = ("cuda", "torch.save", "torch.load", "subprocess", "input(", "exit(")


def examples() -> Iterator[tuple[str, list[str]]]:
    """Names, and statements as text."""
    seen = set()
    for module in map(importlib.import_module, MODULES):
        for name, thing in sorted(vars(module).items()):
            members = vars(thing).items() if isinstance(thing, type) else ()
            for label, each in ((name, thing), *((f"{name}.{member}", value) for member, value in members)):
                text = getattr(each, "__doc__", None)
                if isinstance(text, str) and ">>>" in text and text not in seen:
                    seen.add(text)
                    yield f"{module.__name__}.{label}", statements(text)


def statements(text: str) -> list[str]:
    try:
        sources = [example.source for example in doctest.DocTestParser().get_examples(text)]
    except ValueError:
        return []
    found: list[str] = []
    for source in sources:
        with contextlib.suppress(SyntaxError):
            for statement in ast.parse(source).body:
                line = ast.unparse(statement)
                if not any(word in line for word in LEFT_OUT):
                    found.append(f"result_{len(found)} = {line}" if isinstance(statement, ast.Expr) else line)
    return found


def function_of(lines: list[str]) -> Callable[[], dict[str, Any]] | None:
    text = "def example():\n" + textwrap.indent("\n".join(lines), "    ") + "\n    return dict(locals())\n"
    file = f"<example {len(linecache.cache)}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    scope: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "optim": torch.optim}
    try:
        exec(compile(text, file, "exec"), scope)
    except SyntaxError:
        return None
    return scope["example"]


def outcome(function: Callable[[], dict[str, Any]]) -> tuple[str, Any, str]:
    torch.manual_seed(0)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            return "ended", function(), printed.getvalue()
    except Exception as error:
        return type(error).__name__, str(error), printed.getvalue()


def running(lines: list[str]) -> list[str]:
    """As much of the example as runs."""
    for count in range(len(lines), 0, -1):
        function = function_of(lines[:count])
        if function is not None and outcome(function)[0] == "ended":
            return lines[:count]
    return []


def are_alike(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        facts = [(type(each), each.dtype, each.shape, each.layout, each.requires_grad, each.is_leaf) for each in (one, other)]
        if facts[0] != facts[1]:
            return False
        plain = type(one) in (torch.Tensor, torch.nn.Parameter) and one.layout == torch.strided
        plain = plain and not (one.is_quantized or one.is_nested or one.is_meta)
        return torch.allclose(one, other, 1e-4, 1e-5, equal_nan=True) if plain else str(one) == str(other)
    if isinstance(one, (list, tuple, dict)):
        items = (one.values(), other.values()) if isinstance(one, dict) and isinstance(other, dict) else (one, other)
        return type(one) is type(other) and len(one) == len(other) and all(map(are_alike, *items))
    if isinstance(one, torch.nn.Module):
        return are_alike(dict(one.named_parameters()), dict(other.named_parameters()))
    if isinstance(one, (bool, int, str)):
        return type(one) is type(other) and (one == other or " at 0x" in str(one))
    return type(one) is type(other) or (callable(one) and callable(other))


def main() -> None:
    backend = sys.argv[1] if len(sys.argv) > 1 else "eager"
    part, _, parts = (sys.argv[2] if len(sys.argv) > 2 else "0/1").partition("/")
    warnings.simplefilter("ignore")
    tried = alike = 0
    for index, (name, lines) in enumerate(examples()):
        lines = running(lines) if index % int(parts) == int(part) else []
        expected, again = (outcome(function_of(lines)) for _ in range(2)) if lines else (None, None)  # type: ignore[arg-type]
        if expected is None or not are_alike(list(expected[1].values()), list(again[1].values())):
            continue
        dynascope.reset()
        compiled = dynascope.compile(function_of(lines), backend=backend)
        found = [outcome(compiled) for _ in range(2)]
        tried += 1
        if all(each[0] == "ended" and each[2] == expected[2] and are_alike(expected[1], each[1]) for each in found):
            alike += 1
        else:
            print(name, [each[:2] if each[0] != "ended" else "other values" for each in found], *lines, sep="\n    ", flush=True)
    print(f"{tried} examples, {alike} as in eager")


if __name__ == "__main__":
    main()
