"""One run of a program with other texts in place of some of its files, in a process that was forked for it.

The texts stand for the files wherever Python reads them: the program itself, modules that it imports, and tracebacks. Random
numbers begin alike in every trial, so that two trials of one program can be compared.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import importlib.machinery
import importlib.util
import linecache
import os
import random
import sys
import threading
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dynascope.dataclass import dataclass
from dynascope.proving.program_files import encoded, read_program

SEED = 0
TORCHS_COMPILER = "torch._dynamo"


@dataclass(frozen=True, slots=True)
class Trial:
    """What to run. `report`: compiled, and what was captured goes there. `results`: uncompiled, and what it gave goes there."""

    file: str
    arguments: tuple[str, ...]
    texts: Mapping[str, str]
    printed: str
    """Where the program's standard output goes."""
    report: str | None = None
    results: str | None = None
    device: str | None = None
    parts: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Of functions that were compiled before an edit and are no more: the file, the function, and those with its work."""
    module: str | None = None
    """What the file is as a module, where Python runs it only so, and the folder in which it is found."""
    root: str | None = None


def run(trial: Trial) -> None:
    """Never returns: the process ends with the program's exit code. An empty file beside `printed` says that the program had torch
    import its own compiler.
    """
    _redirect(trial.printed)
    sys.argv = [trial.file, *trial.arguments]
    sys.path[:1] = [os.path.dirname(os.path.realpath(trial.file))] if trial.module is None else [os.getcwd(), trial.root or os.getcwd()]
    _read_instead(trial)
    recorder, log = None, None
    if trial.report is not None:
        recorder = _capturing(trial, trial.report)
    if trial.results is not None:
        from dynascope.proving.fakes import watch_fakes
        from dynascope.proving.results import listen

        log = listen([name for _, _, names in trial.parts for name in names])
        watch_fakes()
    _begin_alike()
    code = _execute(trial)
    threading._shutdown()  # type: ignore[attr-defined]
    if log is not None and trial.results is not None:
        # Functions are called once more for it, and operators that the program made are gone after the next line.
        with _muted():
            log.save(Path(trial.results))
    atexit._run_exitfuncs()
    if recorder is not None:
        recorder.finish(code)
    from dynascope.meta_kernels.quiet_torch import compiler_is_loaded

    if compiler_is_loaded():
        Path(f"{trial.printed}.{TORCHS_COMPILER}").touch()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _capturing(trial: Trial, report: str) -> Any:
    from dynascope.backends import GraphCompilers
    from dynascope.command.interception import serve_torch_compile
    from dynascope.recording import Recorder

    recorder = Recorder(trial.file, trial.arguments, Path(report))
    text = _text(trial.texts, trial.file)
    # Captured and differentiated as ever, so that what breaks here breaks in a run; operators in place of kernels.
    serve_torch_compile(encoded(text), trial.file, {"backend": GraphCompilers()}, trial.device, recorder)
    return recorder


def _execute(trial: Trial) -> int:
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=trial.file, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    try:
        if trial.module is not None:
            main.__dict__.update(_as_module(trial.module))
        exec(_code(_text(trial.texts, trial.file), trial.file, trial), main.__dict__)
    except SystemExit as end:
        if end.code is None:
            return 0
        return end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def _as_module(name: str) -> dict[str, Any]:
    """What `python -m NAME` tells the program of where it is. The packages around it are imported for that."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    if spec is None:
        raise ModuleNotFoundError(f"No module named {name}", name=name)
    return {"__spec__": spec, "__loader__": spec.loader, "__package__": spec.parent, "__cached__": spec.cached}


def _text(texts: Mapping[str, str], file: str) -> str:
    return texts[file] if file in texts else read_program(file)


def _redirect(printed: str) -> None:
    for number, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, f"{printed}.errors", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)


@contextlib.contextmanager
def _muted() -> Iterator[None]:
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _begin_alike() -> None:
    import torch

    random.seed(SEED)
    torch.manual_seed(SEED)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(SEED)


def _code(text: str, file: str, trial: Trial) -> types.CodeType:
    """Where results are compared, a function whose work is compiled in parts is listened to as when it was compiled itself."""
    tree = ast.parse(text, file)
    own = {name for _, _, names in trial.parts for name in names}
    outer = {name for where, name, _ in trial.parts if os.path.realpath(where) == os.path.realpath(file)} - own
    if trial.results is not None and outer:
        _listen_to(tree.body, "", outer)
    return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


def _listen_to(block: list[ast.stmt], above: str, names: set[str]) -> None:
    for node in block:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            if above + node.name in names:
                torch = ast.Call(ast.Name("__import__", ast.Load()), [ast.Constant("torch")], [])
                node.decorator_list.insert(0, ast.Attribute(torch, "compile", ast.Load()))
            _listen_to(node.body, f"{above}{node.name}.", names)


def _read_instead(trial: Trial) -> None:
    texts = trial.texts
    real = {os.path.realpath(file): text for file, text in texts.items()}
    for file, text in texts.items():
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    loader = importlib.machinery.SourceFileLoader
    get_code = loader.get_code

    def code_of(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        text = real.get(os.path.realpath(path))
        return get_code(self, fullname) if text is None else _code(text, path, trial)

    loader.get_code = code_of  # type: ignore[method-assign]
