"""The child of `dynascope run` is `python FILE ARGS` itself; the engine is in place before the file is opened.

    environment(settings)      for the child: its interpreter imports `start/sitecustomize.py`, as it would anybody's
    begin()                    called from there: undo what the environment shows of it, serve `torch.compile`

So everything the program can see is as under `python FILE`: `__main__` and its loader, `sys.argv` and `sys.path`, frames and
tracebacks, the words of a SyntaxError, the exit code. The engine is imported before the program's folder is on the path: a file
there may have the name of a module that we need.
"""

from __future__ import annotations

import atexit
import importlib.machinery
import importlib.util
import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

NO_TORCH = 78
SETTINGS = "DYNASCOPE_PROGRAM"
SEED = 0
_START = str(Path(__file__).parent / "start")


def environment(settings: dict[str, Any], variables: dict[str, str] | None = None) -> dict[str, str]:
    """The child's environment variables: those given or ours, with the way to `begin`."""
    given = _inherited() if variables is None else variables
    before, root = given.get("PYTHONPATH"), settings.get("root")
    path = os.pathsep.join([_START, *([root] if root else []), *([before] if before else [])])
    return {**given, "PYTHONPATH": path, SETTINGS: json.dumps({**settings, "python_path": before})}


def _inherited() -> dict[str, str]:
    """Our environment as we were given it. Where that names no locale, this interpreter has put one there (PEP 538), and the child
    would not know that it may do the same: its `sys.flags.utf8_mode` would be another."""
    variables = dict(os.environ)
    try:
        given = dict(each.partition("=")[::2] for each in os.fsdecode(Path("/proc/self/environ").read_bytes()).split("\0"))
    except OSError:
        return variables
    variables.pop("LC_CTYPE", None)
    return variables | ({"LC_CTYPE": given["LC_CTYPE"]} if "LC_CTYPE" in given else {})


def begin(loaded_before: Collection[str] = sys.modules) -> None:
    """`loaded_before`: the modules that every Python program has from the start."""
    settings = json.loads(os.environ.pop(SETTINGS))
    _leave_no_trace(settings["python_path"])
    file, arguments = settings["file"], settings["arguments"]
    from dynascope.recording import Recorder
    from dynascope.report.events import EventStream
    from dynascope.requirements import unmet_requirement

    recorder = Recorder(file, tuple(arguments), Path(settings["report"]), EventStream(settings["events"]))
    if settings.get("keep") is not None and hasattr(os, "fork"):
        recorder.keep_call = _keeping(settings["keep"])
    if settings.get("check"):
        recorder.check = _loaded_later("dynascope.checking.checker", "Checker", recorder)
    elif settings.get("compare"):
        recorder.check = _loaded_later("dynascope.comparing", "Comparer", recorder)
        _draw_alike()
    elif settings.get("profile"):
        recorder.check = _loaded_later("dynascope.costs", "Profiler", recorder)
    unmet = unmet_requirement()
    if unmet is not None:
        recorder.problem(unmet.explain())
        print(f"dynascope: {unmet.message()} {unmet.remedy()}", file=sys.stderr)
    if unmet is not None and unmet.code == "missing-torch":
        recorder.finish(NO_TORCH)
        sys.stderr.flush()
        os._exit(NO_TORCH)
    # What writes the report at the end needs modules of its own, and then it is too late to import them: dataclasses call
    # `exec`, which makes CPython forget that an interrupt ended the program.
    own = ("report.store", "command.reasons", "native.toolchain", "reasons")
    for needed in (*(f"dynascope.{name}" for name in own), "platform"):
        importlib.import_module(needed)
    importlib.import_module("concurrent.futures.thread")
    from dynascope.command.spawned import serve_spawned

    # Registered before the program's own, so called after them.
    atexit.register(_end, recorder)
    serve_spawned(settings, environment)
    if unmet is None:
        _give_way(_serve(settings, recorder), loaded_before)


def _draw_alike() -> None:
    """Each run of a comparison begins with the same random numbers, and torch's own compiler draws them as eager does: what then
    differs is the backend's."""
    from dynascope.command.interception import after_import

    random.seed(SEED)
    after_import("torch", lambda torch: torch.manual_seed(SEED))
    after_import("numpy.random", lambda drawing: drawing.seed(SEED))
    after_import("torch._inductor.config", lambda config: setattr(config, "fallback_random", True))


def _keeping(descriptor: int) -> Callable[[Any, Any], None]:
    """Calls are kept for an editor. Not loaded before torch is."""
    keeper: list[Any] = []

    def keep(state: Any, values: Any) -> None:
        if not keeper:
            from dynascope.live.keeping import Keeper

            keeper.append(Keeper(descriptor))
        keeper[0].keep(state, values)

    return keep


def _loaded_later(module: str, name: str, recorder: Any) -> Callable[..., Callable]:
    """What looks at compiled graphs is not loaded before torch is."""

    def look(*arguments: Any) -> Callable:
        return getattr(importlib.import_module(module), name)(recorder)(*arguments)

    return look


def _give_way(folder: str, loaded_before: Collection[str]) -> None:
    """Names of the program's own files mean those files to it, as if we had not imported others of these names."""
    try:
        names = {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return
    for name in names & sys.modules.keys() - set(loaded_before) - {"dynascope", "torch", "sitecustomize"}:
        del sys.modules[name]


def _leave_no_trace(python_path: str | None) -> None:
    """As if the interpreter had found the `sitecustomize` of this machine, or none."""
    if python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = python_path
    sys.path[:] = [entry for entry in sys.path if entry != _START]
    sys.path_importer_cache.pop(_START, None)
    ours = sys.modules.pop("sitecustomize", None)
    if importlib.util.find_spec("sitecustomize") is not None:
        importlib.import_module("sitecustomize")
    elif ours is not None:
        # The interpreter looks for what it imported.
        sys.modules["sitecustomize"] = ours


def _serve(settings: dict[str, Any], recorder: Any) -> str:
    """Put the engine in place: `torch.compile` becomes ours as soon as the program has imported torch. The program's folder."""
    from dynascope.command.interception import serve_torch_compile

    chosen = {
        name: settings[name]
        for name in ("dynamic", "fullgraph", "backend", "cache", "profile", "levels", "trace")
        if settings.get(name) is not None
    }
    is_named = settings["module"] == settings["file"]
    source = _source_of_module(settings["file"]) if is_named else _source_of_file(settings["file"])
    text = _text_of(source)
    if is_named:
        text = b"\n".join([text, *map(_text_of, _files_given(settings["arguments"]))])
    serve_torch_compile(text, _watched(source) if is_named else source, chosen, settings["device"], recorder)
    return settings["root"] or (os.getcwd() if is_named else os.path.dirname(os.path.realpath(source)))


def _files_given(arguments: Collection[str]) -> list[str]:
    """Python files that the module is asked to run, as pytest and others are: it is these that ask for compilation, or do not."""
    files = [argument.partition("::")[0] for argument in arguments]
    return [file for file in files if file.endswith(".py") and os.path.isfile(file)]


def _watched(source: str) -> str:
    """Of a module that is installed no function is meant, but those of the folder where it is run."""
    from dynascope.watching import ENVIRONMENTS

    is_installed = not set(os.path.abspath(source).split(os.sep)).isdisjoint(ENVIRONMENTS)
    return os.path.join(os.getcwd(), os.path.basename(source)) if is_installed else source


def _text_of(source: str) -> bytes:
    """Empty where there is none to be read, or CPython will have something to say about it."""
    try:
        text = Path(source).read_bytes()
        with warnings.catch_warnings():
            # They are CPython's to give, when it compiles the file.
            warnings.simplefilter("ignore")
            compile(text, source, "exec", dont_inherit=True)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return b""
    return text


def _source_of_file(file: str) -> str:
    return os.path.join(file, "__main__.py") if os.path.isdir(file) else file


def _source_of_module(name: str) -> str:
    """The file that `python -m NAME` runs, found without importing what it is in; the name itself where there is none."""
    folders, found = [os.getcwd(), *sys.path], None
    for part in [*name.split("."), "__main__"]:
        spec = importlib.machinery.PathFinder.find_spec(part, folders)
        if spec is None:
            return name
        found, folders = spec, spec.submodule_search_locations
        if folders is None:
            break
    return found.origin or name


def _end(recorder: Any) -> None:
    """What the program raised, the interpreter has noted before it printed it. The exit code is seen by the parent."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    if error is not None:
        recorder.program_raised(error)
    recorder.finish(None)
