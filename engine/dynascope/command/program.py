"""The child of `dynascope run`: the user's file as `__main__`, with the engine serving `torch.compile`.

    python -m dynascope.command.program '{"report": "...", ...}' FILE ARGS

Everything the program can see is as under `python FILE`: `sys.argv`, `sys.path[0]`, `__main__`, tracebacks, exit code.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import signal
import sys
import types
from pathlib import Path

NO_TORCH = 78


def main() -> None:
    settings = json.loads(sys.argv[1])
    file, arguments = sys.argv[2], sys.argv[3:]
    from dynascope.command.requirements import unmet_requirement
    from dynascope.recording import Recorder
    from dynascope.report.events import EventStream

    recorder = Recorder(file, tuple(arguments), Path(settings["report"]), EventStream(settings["events"]))
    unmet = unmet_requirement()
    if unmet is not None:
        recorder.problem(unmet.explain())
        print(f"dynascope: {unmet.message()} {unmet.remedy()}", file=sys.stderr)
        recorder.finish(NO_TORCH)
        sys.exit(NO_TORCH)
    _run_as_main(file, arguments, settings, recorder)


def _run_as_main(file: str, arguments: list[str], settings: dict, recorder) -> None:
    sys.argv[:] = [file, *arguments]
    sys.path[0] = str(Path(file).resolve().parent)
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=file, __builtins__=builtins, __spec__=None, __cached__=None)
    sys.modules["__main__"] = module
    try:
        with io.open_code(file) as stream:
            text = stream.read()
        code = compile(text, file, "exec", dont_inherit=True)
        _serve(text, file, settings, recorder)
        exec(code, module.__dict__)
    except SystemExit as leaving:
        recorder.finish(_exit_code(leaving))
        raise
    except BaseException as error:
        _end_with(error, recorder)
    recorder.finish(0)


def _serve(text: bytes, file: str, settings: dict, recorder) -> None:
    """Put the engine in place: `torch.compile` becomes ours as soon as the program has imported torch."""
    from dynascope.command.interception import serve_torch_compile

    chosen = {
        name: settings[name] for name in ("dynamic", "fullgraph", "backend", "cache") if settings[name] is not None
    }
    serve_torch_compile(text, file, chosen, settings["device"], recorder)


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    return leaving.code if isinstance(leaving.code, int) else 1


def _end_with(error: BaseException, recorder) -> None:
    """Print the traceback that `python FILE` would print, without our frames, and end as it would."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    error.__traceback__ = trace
    recorder.program_raised(error)
    interrupted = isinstance(error, KeyboardInterrupt)
    recorder.finish(None if interrupted else 1, signal.SIGINT if interrupted else None)
    sys.excepthook(type(error), error, trace)
    if not interrupted:
        sys.exit(1)
    import atexit

    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    main()
