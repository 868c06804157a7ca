"""One random program, compiled and called with arguments that change, against plain Python: `in_child(program, seed)`.

    examine(700)       None, or a report with the smallest program that differs in the same way

Compared after each call: the result or the exception with its message, its causes and the lines of its traceback; arguments,
globals and logs in their order; what is shared among them; what was printed; the modes of torch.
"""

import contextlib
import io
import linecache
import os
import random
import re
import resource
import signal
import traceback

import dynascope
import torch
from dynascope import pipeline
from dynascope.capture import session
from random_python import Program, write
from smaller_programs import smaller

CALLS = (0, 0, 1, 2, 3, 0)
MEMORY = 4 << 30


class Failures(list):
    """Internal failures of the compiler while it is watched: right answers, and defects all the same."""

    @contextlib.contextmanager
    def watched(self):
        before = session.InternalFailure, pipeline.EngineError.of

        def failure(text):
            self.append(text)
            return before[0](text)

        def error(stage, name, raised):
            self.append(f"{stage}: {traceback.format_exception(raised)[-3:]}")
            return before[1](stage, name, raised)

        session.InternalFailure, pipeline.EngineError.of = failure, error
        try:
            yield self
        finally:
            session.InternalFailure, pipeline.EngineError.of = before


def load(text):
    name = f"<random program {abs(hash(text))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {"__name__": "programs", "__file__": name}
    exec(compile(text, name, "exec"), space)
    return space


def arguments_of(space, seed):
    source = random.Random(seed)
    torch.manual_seed(seed)
    shape = source.choice([(2, 2), (2, 2), (2, 2), (3,), (2, 3)])
    number = source.choice([0, 1, 2, 3, 5, 2.5])
    items = [torch.rand(shape) for _ in range(3)]
    box = {"w": torch.rand(shape), "c": number}
    return [torch.rand(shape), torch.rand(shape), number, items, box, space["Thing"](1), source.random() < 0.5, []]


def observe(space, function, arguments):
    """What a call shows to the outside, as plain data."""
    space["LOG"].clear()
    space["G"] = 1
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = ("gives", function(*arguments))
        except Exception as error:
            result = ("raises", *described(space, error))
        shown = show(space, [result, arguments, list(space["LOG"]), space["G"]], {})
    state = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    return shown, printed.getvalue(), state


def described(space, error, depth=0):
    if error is None or depth > 3:
        return None
    lines = [
        (frame.name, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == space["__file__"]
    ]
    causes = [described(space, each, depth + 1) for each in (error.__cause__, error.__context__)]
    return type(error).__name__, str(error), lines, causes


def show(space, value, seen):
    """Plain data that is equal for equal values; an object met again is its number."""
    kind = type(value)
    if kind in (int, float, str, bool, type(None), bytes, range, slice):
        return (kind.__name__, re.sub(r" at 0x[0-9a-f]+", "", repr(value)))
    if id(value) in seen:
        return ("again", seen[id(value)][0])
    seen[id(value)] = (len(seen), value)
    if isinstance(value, torch.Tensor):
        return ("tensor", str(value.dtype), tuple(value.shape), value.stride(), value.tolist(), value.requires_grad)
    parts = [kind.__name__]
    if isinstance(value, dict):
        parts.append([(show(space, key, seen), show(space, item, seen)) for key, item in dict.items(value)])
    elif isinstance(value, (list, tuple)):
        base = list if isinstance(value, list) else tuple
        parts.append([show(space, item, seen) for item in base.__iter__(value)])
    elif isinstance(value, (set, frozenset)):
        parts.append(sorted(map(repr, value)))
    elif isinstance(value, BaseException):
        parts.append(str(value))
    elif kind.__module__ in ("builtins", "itertools") and hasattr(kind, "__next__"):
        parts.append(rest_of(space, value, seen))
    with contextlib.suppress(AttributeError):
        state = object.__getattribute__(value, "__dict__")
        parts.append(show(space, state, seen) if isinstance(state, dict) and kind.__module__ == "programs" else None)
    for name in getattr(kind, "__slots__", ()) if kind.__module__ == "programs" else ():
        with contextlib.suppress(AttributeError):
            parts.append((name, show(space, object.__getattribute__(value, name), seen)))
    return parts


def rest_of(space, iterator, seen):
    taken = []
    try:
        for item in iterator:
            taken.append(show(space, item, seen))
            if len(taken) > 5:
                break
    except Exception as error:
        taken.append(type(error).__name__)
    return taken


def first_difference(program: Program, seed: int) -> str | None:
    """How a program's calls differ from plain Python's; None where they do not."""
    text = program.text()
    plain, captured = load(text), load(text)
    compiled = dynascope.compile(captured["program"], backend="eager", options={"strict": False})
    failures = Failures()
    with failures.watched():
        for call in CALLS:
            expected = observe(plain, plain["program"], arguments_of(plain, seed * 10 + call))
            got = observe(captured, compiled, arguments_of(captured, seed * 10 + call))
            if expected != got:
                return f"call {call}: {brief(expected)} and {brief(got)}\n  plain    {expected}\n  compiled {got}"
    return f"internal: {failures[0]}" if failures else None


def brief(shown) -> str:
    """Whether a call gave something or raised, and what."""
    result = shown[0][1][0][1]
    return " ".join(str(part[1]) for part in result[: 2 if result[0][1] == "'raises'" else 1])


def is_program(program: Program) -> bool:
    try:
        compile(program.text(), "<a program>", "exec")
    except SyntaxError:
        return False
    return True


def kind_of(difference: str) -> str:
    """What a smaller program must share with the one that failed, so that it is not another failure."""
    first = difference.partition("\n")[0]
    return first.partition(": ")[2] if first.startswith("call") else first.partition(":")[0]


def ends(program: Program, seed: int) -> None:
    """The calls of plain Python alone: not every program stays small."""
    space = load(program.text())
    for call in CALLS:
        observe(space, space["program"], arguments_of(space, seed * 10 + call))


def in_child(program: Program, seed: int, run=None, seconds: int = 20) -> str | None:
    """`first_difference`, where a crash or a hang is a difference too; None for a program that plain Python cannot end."""
    found = run_in_child(run or first_difference, program, seed, seconds)
    if found is not None and ("killed" in found or "MemoryError" in found) and run is None:
        return None if run_in_child(ends, program, seed, seconds // 4) else found
    return found


def run_in_child(run, program: Program, seed: int, seconds: int) -> str | None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            silence = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silence, 1)
            os.dup2(silence, 2)
            signal.setitimer(signal.ITIMER_PROF, seconds)  # of computing: a busy machine is no failure
            signal.alarm(10 * seconds)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            torch.set_num_threads(1)
            found = run(program, seed)
            os.write(writer, (found or "")[:60000].encode())
            code = 0
        except BaseException as error:
            with contextlib.suppress(Exception):
                os.write(writer, f"harness: {traceback.format_exc()[-2000:]} {error}".encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"killed: by signal {os.WTERMSIG(status)}"
    return found or None


def shrunk(program: Program, seed: int, found: str, tries: int = 150) -> tuple[Program, str]:
    """The smallest program found that still differs in the same kind of way."""
    again = True
    while again and tries > 0:
        again = False
        for candidate in smaller(program):
            if tries <= 0:
                break
            if not is_program(candidate):
                continue
            tries -= 1
            difference = in_child(candidate, seed)
            if difference is not None and kind_of(difference) == kind_of(found):
                program, found, again = candidate, difference, True
                break
    return program, found


def examine(seed: int) -> str | None:
    """A report of a seed that fails, with its smallest program."""
    program = write(random.Random(seed))
    found = in_child(program, seed)
    if found is None:
        return None
    program, found = shrunk(program, seed, found)
    body = program.text().partition('log.append("leave")')[2].lstrip("\n")
    return f"SEED {seed}\n{body}\n{found[:3000]}\n"
