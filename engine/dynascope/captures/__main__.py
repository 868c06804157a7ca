"""`python -m dynascope.captures FORMAT WIDTH FUNCTION FILE ARGS`: runs the program, notes the calls of one function, and compares captures
of it. Nothing of the program is compiled. What `dynascope compare-captures` starts."""

from __future__ import annotations

import gc
import inspect
import json
import os
import runpy
import sys
import types
from typing import Any

from dynascope.command.modules import module_of_file
from dynascope.report.stages import goes_by

MOST = 6
PAUSES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class _Enough(BaseException):
    """The function was called often enough."""


def main() -> int:
    form, width, wanted, file, *arguments = sys.argv[1:]
    import torch

    import dynascope
    from dynascope.captures import compare_calls
    from dynascope.captures.printing import as_json, comparison_markdown, comparison_text

    torch.compile = dynascope.compile = _as_written
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    noted = Calls(wanted, os.path.abspath(file))
    noted.run(file, arguments)
    if not noted.calls:
        known = ", ".join(sorted(noted.seen)) or "none"
        print(f"dynascope: `{wanted}` of {file} was not called. Functions called: {known}.", file=sys.stderr)
        return 1
    del dynascope.compile
    sys.modules["__main__"] = noted.as_module()
    comparison = compare_calls(noted.target, noted.calls)
    forms = {
        "text": lambda each: comparison_text(each, width=int(width)),
        "markdown": comparison_markdown,
        "json": lambda each: json.dumps(as_json(each), indent=1),
    }
    print(forms[form](comparison), file=output, flush=True)
    return 0


def _as_written(target: Any = None, **_: Any) -> Any:
    return (lambda function: function) if target is None else target


class Calls:
    """The calls of the function of a name in a file, as the program runs."""

    def __init__(self, wanted: str, file: str) -> None:
        self.wanted, self.file = wanted, file
        self.calls: list[Any] = []
        self.seen: set[str] = set()
        self.target: Any = None
        self.globals: dict[str, Any] = {}

    def as_module(self) -> types.ModuleType:
        """The program as the module that it was while it ran: who looks for the source of one of its classes asks for that."""
        program = types.ModuleType("__main__")
        vars(program).update(self.globals)
        return program

    def run(self, file: str, arguments: list[str]) -> None:
        sys.argv = [file, *arguments]
        module = module_of_file(self.file)
        sys.path.insert(0, module.root if module is not None and module.root else os.path.dirname(self.file))
        sys.setprofile(self._on_event)
        try:
            if module is None:
                runpy.run_path(file, run_name="__main__")
            else:
                runpy.run_module(module.name, run_name="__main__", alter_sys=True)
        except (SystemExit, _Enough):
            pass
        except Exception as error:
            print(f"dynascope: the program ended with {type(error).__name__}: {error}", file=sys.stderr)
        finally:
            sys.setprofile(None)

    def _on_event(self, frame: types.FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or os.path.abspath(code.co_filename) != self.file or code.co_name.startswith("<"):
            return
        if not code.co_flags & inspect.CO_OPTIMIZED or code.co_flags & PAUSES:
            return  # the body of a class; what is called at every step of it
        self.seen.add(code.co_qualname)
        if not goes_by(code.co_qualname, self.wanted):
            return
        self._note(frame, code)
        if len(self.calls) >= MOST:
            raise _Enough

    def _note(self, frame: types.FrameType, code: types.CodeType) -> None:
        from torch import nn

        from dynascope.captures.calls import Call

        positional = [frame.f_locals[name] for name in code.co_varnames[: code.co_argcount]]
        keywords = {name: frame.f_locals[name] for name in code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]}
        if code.co_flags & inspect.CO_VARARGS:
            positional += frame.f_locals[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
        if code.co_flags & inspect.CO_VARKEYWORDS:
            variadic = bool(code.co_flags & inspect.CO_VARARGS)
            keywords |= frame.f_locals[code.co_varnames[code.co_argcount + code.co_kwonlyargcount + variadic]]
        is_module = positional and isinstance(positional[0], nn.Module) and code.co_name == "forward"
        target = positional.pop(0) if is_module else _function_of(code)
        if self.target is None:
            self.target, self.wanted, self.globals = target, code.co_qualname, frame.f_globals
        if target is self.target and target is not None:
            number = len(self.calls) + 1
            self.calls.append(Call(tuple(positional), keywords, f"call {number} of the program").copied())


def _function_of(code: types.CodeType) -> Any:
    return next((each for each in gc.get_referrers(code) if isinstance(each, types.FunctionType)), None)


if __name__ == "__main__":
    sys.exit(main())
