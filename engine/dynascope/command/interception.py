"""Existing programs need no change: `torch.compile` in the program becomes ours, and a file that compiles nothing is watched.

torch is not imported before the program does so, because a program may set environment variables first that torch reads
when it is imported. A finder on `sys.meta_path` waits for it.
"""

from __future__ import annotations

import ast
import atexit
import functools
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable

from dynascope import recording
from dynascope.command.deferred_import import defer
from dynascope.garbage import without_collections
from dynascope.report.syntax import parsed
from dynascope.report.times import compile_times

ASKS_FOR_COMPILATION = frozenset({"compile", "optimize", "aot"})


def serve_torch_compile(text: bytes, file: str, chosen: dict, device: str | None, recorder: recording.Recorder) -> None:
    """Install the engine for the program `text`. `chosen` are options of the command line; they win over the program's."""
    recording.use(recorder)
    if chosen:
        from dynascope.api import overrule

        overrule(chosen)
    after_import("torch", lambda torch: _patch_torch(torch, device))
    # Registered after torch's own, so called before them.
    after_import("torch", lambda torch: atexit.register(recorder.read_levels))
    after_import("torch._dynamo", _patch_dynamo)
    _flush_on_hard_exit(recorder)
    asks = asks_for_compilation(text)
    recorder.program_asks(asks)
    if not asks:
        from dynascope.watching import watch_folder

        reason = watch_folder(os.path.dirname(os.path.abspath(file)))
        if reason is not None:
            recorder.problem(reason.explain())


def asks_for_compilation(text: bytes) -> bool:
    """Whether the program compiles something itself: `torch.compile`, `dynascope.compile`, `model.compile()`, ..."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Attribute) and node.attr in ASKS_FOR_COMPILATION and not _is_regular_expression(node):
            return True
        if isinstance(node, ast.ImportFrom) and node.module in ("torch", "dynascope", "torch._dynamo", "torchdynamo"):
            if any(alias.name in ASKS_FOR_COMPILATION for alias in node.names):
                return True
    return False


def _is_regular_expression(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("re", "regex")


def _patch_torch(torch, device: str | None) -> None:
    if not is_torch(torch):
        return
    from dynascope import api
    from dynascope.capture.layers import note_registrations

    note_registrations()
    torch.compile = torch.compiler.compile = but_for_torch_itself(torch.compile, api.torch_compile)
    torch.compiler.reset = api.reset
    torch.compiler.disable = api.torch_disable
    defer("torch._dynamo", {"graph_break": graph_break, "disable": api.torch_disable})
    if device is not None:
        torch.set_default_device(device)


INSIDE_OF_TORCH = ("torch._higher_order_ops.", "torch.nn.attention.")
"""Where torch compiles functions of its own, about operators that only its compiler knows: `cond`, flex attention."""


def but_for_torch_itself(original: Callable, ours: Callable) -> Callable:
    @functools.wraps(ours)
    def compile(*arguments, **keywords):
        caller = sys._getframe(1).f_globals.get("__name__", "")
        is_torchs = caller == "torch" or caller.startswith(INSIDE_OF_TORCH)
        return (original if is_torchs else ours)(*arguments, **keywords)

    return compile


def is_torch(module) -> bool:
    """Not the program's own `torch.py`."""
    return hasattr(module, "_C") and hasattr(module, "compiler")


def graph_break(msg: str = "") -> None:
    """What ends a graph of torch's compiler, and is an empty function to everybody else, us too."""


def _patch_dynamo(module) -> None:
    from dynascope import api
    from dynascope.backends import list_backends

    module.optimize = but_for_torch_itself(module.optimize, api.optimize)
    module.explain = api.explain
    module.reset = api.reset
    module.disable = api.torch_disable
    if hasattr(module, "skip"):
        module.skip = api.skip
    module.list_backends = lambda *args, **kwargs: list_backends()
    module.utils.compile_times = functools.wraps(module.utils.compile_times)(functools.partial(_compile_times, module.utils.compile_times))


def _compile_times(original: Callable, repr: str = "str", aggregate: bool = False):
    """What the compilations of the program have cost so far, by our stages, in torch's form. What torch's own compiler did comes last."""
    recorder = recording.current()
    if recorder is None or repr not in ("str", "csv"):
        return original(repr, aggregate)
    found = compile_times(recorder.report(), aggregate)
    if repr == "csv":
        names, values = original("csv", aggregate)
        return [*found, *names], [*(", ".join(f"{each:.6f}" for each in seconds) for seconds in found.values()), *values]
    rows = [f"{name}, {', '.join(f'{each:.4f}' for each in seconds)}" for name, seconds in found.items()]
    text = "\n".join(["Dynascope compilation metrics:", "Function, Runtimes (s)", *rows])
    return f"{text}\n\n{original('str', aggregate)}" if original("csv")[0] else text


def _flush_on_hard_exit(recorder: recording.Recorder) -> None:
    """`os._exit` skips everything; the report is written first, in the process that has one."""
    leave = os._exit

    def _exit(status: int) -> None:
        recorder.read_levels()
        recorder.finish(status)
        leave(status)

    os._exit = _exit


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds one module as everybody else would, and calls back when its code has run."""

    def __init__(self, name: str, callback: Callable) -> None:
        self._name, self._callback, self._searching = name, callback, False

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self._name or self._searching:
            return None
        self._searching = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._searching = False
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            with without_collections():
                run(module)
            sys.meta_path.remove(self)
            self._callback(module)

        # Python leaves its own frames of this name and file out of tracebacks and warnings: this one is as little the program's.
        exec_module.__code__ = exec_module.__code__.replace(
            co_filename="<frozen importlib._bootstrap_external>", co_name="_call_with_frames_removed"
        )
        spec.loader.exec_module = exec_module
        return spec


def after_import(name: str, callback: Callable) -> None:
    """Call `callback(module)` once `name` is imported; at once when it is already."""
    if name in sys.modules:
        callback(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, callback))
