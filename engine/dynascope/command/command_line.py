"""The words after `dynascope`: run, check, profile, compare, fix, show, explain and so on, each with its options."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import dynascope

ARGUMENTS = "the program's own arguments"
SECONDS = "end the program after so many seconds"
GONE = 128 + 13
"""As a shell says it of a program that wrote into a closed pipe."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="dynascope", description="Compile PyTorch programs and see what was done.")
    parser.add_argument("--version", action="version", version=f"dynascope {dynascope.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_check(commands)
    _add_profile(commands)
    _add_compare(commands)
    _add_compare_captures(commands)
    _add_fix(commands)
    _add_show(commands)
    explain = commands.add_parser("explain", help="explain a reason by its code, such as data-dependent-branch")
    explain.add_argument("code", metavar="CODE", nargs="?", help="the code; without one, all codes are listed")
    _add_cache(commands)
    commands.add_parser("lsp", help="the language server on standard input and output, for an editor to start")
    commands.add_parser("doctor", help="check interpreter, torch, compilers, GPU and cache, with the repair of each")
    _complete(commands)
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == ["lsp"]:
        return _lsp(words[1:])
    options = _parse(parser, words)
    try:
        return COMMANDS[options.command](options)
    except BrokenPipeError:
        return _reader_is_gone()


def _complete(commands: argparse._SubParsersAction) -> None:
    """Each command's own help begins with what it does. A program may be given no arguments: argparse calls them missing with FILE."""
    for action in commands._choices_actions:
        command = commands.choices[action.dest]
        command.description = f"{(action.help or '')[:1].upper()}{(action.help or '')[1:]}."
        for each in command._actions:
            each.required = each.required and each.nargs != argparse.REMAINDER


def _reader_is_gone() -> int:
    """`dynascope show kernels FILE | head`: what reads has enough. Nothing is left to be flushed when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return GONE


def _parse(parser: argparse.ArgumentParser, words: list[str]) -> argparse.Namespace:
    """The first `--` ends our own words. argparse is not shown it: it takes out a second one too, the program's."""
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    if options.command in LOOKING:
        options = parser.parse_args(_with_ours_first(parser, options, words[:end]))
    if options.command == "show" and not options.target:
        options = _after_the_stage(options)
    if getattr(options, "action", None) == "export" and not options.file and options.arguments:
        options = _after_the_archive(options)
    programs = words[end:]
    if programs and not hasattr(options, "arguments"):
        parser.error(f"unrecognized arguments: {' '.join(programs)}")
    if programs:
        options.arguments += programs if options.arguments else programs[1:]
    return options


LOOKING = frozenset({"check", "profile", "compare", "compare-captures", "fix"})
"""Commands that a program is given to so that something is found out about it."""


def _with_ours_first(parser: argparse.ArgumentParser, options: argparse.Namespace, words: list[str]) -> list[str]:
    """`fix FILE --write`: argparse gives the program all that follows FILE. What comes right behind it, is an option of this command and
    is not spoken of in the program's text, is ours."""
    target = options.target.partition("::")[0] if hasattr(options, "target") else options.file
    try:
        text = Path(target).read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    known = _own_options(parser, options.command)
    place, rest, ours = len(words) - len(options.arguments) - 1, list(options.arguments), []
    while rest and (name := rest[0].partition("=")[0]) in known and name not in text:
        taken = 1 if not known[name] or "=" in rest[0] else 2
        ours, rest = [*ours, *rest[:taken]], rest[taken:]
    return [*words[:place], *ours, *words[place : place + 1], *rest]


def _own_options(parser: argparse.ArgumentParser, command: str) -> dict[str, bool]:
    """The long options of a command, and whether each takes a value."""
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    actions = commands.choices[command]._actions
    return {name: action.nargs != 0 for action in actions for name in action.option_strings if name.startswith("--")}


def _after_the_stage(options: argparse.Namespace) -> argparse.Namespace:
    """`show STAGE --dynamic FILE`: the options between are ours, though argparse gives all that follows STAGE to the program."""
    parser = argparse.ArgumentParser(prog=f"dynascope show {options.stage}")
    add_program_options(parser)
    _add_target(parser)
    return parser.parse_args(options.arguments, options)


def _add_run(commands: argparse._SubParsersAction) -> None:
    from dynascope.command.output import FAILURES, FORMATS

    run = commands.add_parser("run", help="run a program, compiled, and print what was compiled and what was not")
    add_program_options(run)
    run.add_argument("--guards", action="store_true", help="print what each compilation assumes")
    run.add_argument("--times", action="store_true", help="print what compiling each function cost, and how many calls it served")
    run.add_argument("--annotate", action="store_true", help="print the whole source with what became of each line")
    run.add_argument("--quiet", action="store_true", help="print no report")
    run.add_argument("--json", metavar="PATH", help="write the whole report there, to be opened elsewhere")
    run.add_argument("--output-format", choices=FORMATS, default="text", help="of the report: %(choices)s")
    run.add_argument(
        "--output",
        metavar="PATH",
        help="write the report there (default: standard error; others than text: standard output, and what FILE "
        "prints goes to standard error)",
    )
    run.add_argument(
        "--fail-on", action="extend", type=_failures, default=[], metavar="A,B",
        help=f"exit with 1 where the program has one ({', '.join(FAILURES)}) or, of uncompiled, compiles nothing; may be repeated. "
        "A recompilation that is made once and expected (gradients on and off, a first filling) does not count",
    )  # fmt: skip
    run.add_argument("--timeout", type=float, metavar="SECONDS", help=SECONDS)
    run.add_argument("--events-fd", type=int, help=argparse.SUPPRESS)
    run.add_argument("--keep-fd", type=int, help=argparse.SUPPRESS)
    run.add_argument("--levels", action="store_true", help=argparse.SUPPRESS)
    run.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    run.add_argument("--profile", action="store_true", help=argparse.SUPPRESS)
    run.add_argument("-m", "--module", action="store_true", help="FILE is the name of a module, as for python -m")
    run.add_argument("file", metavar="FILE", help="the Python program, or a folder with a __main__.py")
    run.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", default=[], help=ARGUMENTS)


def _failures(text: str) -> list[str]:
    """`break,recompile`"""
    from dynascope.command.output import FAILURES

    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in FAILURES:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(FAILURES)}")
    return names


def _add_check(commands: argparse._SubParsersAction) -> None:
    check = commands.add_parser("check", help="compare every line's value and the gradients with eager and float64")
    check.add_argument("--all", action="store_true", help="print every line, not only those that differ")
    _add_looked_at(check)


def _add_profile(commands: argparse._SubParsersAction) -> None:
    profile = commands.add_parser("profile", help="what each kernel and line costs, and each function beside eager")
    _add_looked_at(profile)


def _add_looked_at(command: argparse.ArgumentParser) -> None:
    """A program that runs so that something is found out about it."""
    add_program_options(command)
    command.add_argument("--json", metavar="PATH", help="write the whole report there as JSON")
    command.add_argument("--timeout", type=float, metavar="SECONDS", help=SECONDS)
    command.add_argument("file", metavar="FILE", help="the Python program")
    command.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", default=[], help=ARGUMENTS)


def _add_compare(commands: argparse._SubParsersAction) -> None:
    states = commands.add_parser("backends", help="every backend with its state, and what installs it")
    states.add_argument("--json", action="store_true", help="print them as JSON")
    compare = commands.add_parser("compare", help="run a file under several backends and compare results, times and memory")
    add_program_options(compare, backend=False)
    compare.add_argument(
        "--backends", metavar="A,B,C", default="dynascope,inductor", help="their names (default: %(default)s); eager comes first"
    )
    compare.add_argument("--json", metavar="PATH", help="write the comparison there too")
    compare.add_argument("--output-format", choices=("text", "json", "markdown"), default="text", help="what is printed: %(choices)s")
    compare.add_argument("--timeout", type=float, metavar="SECONDS", help="end each run after so many seconds")
    compare.add_argument("file", metavar="FILE", help="the Python program")
    compare.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", default=[], help=ARGUMENTS)


def _add_compare_captures(commands: argparse._SubParsersAction) -> None:
    captures = commands.add_parser("compare-captures", help="one function, captured by TorchScript, fx, export, lazy tensors and ours")
    captures.add_argument("--output-format", choices=("text", "json", "markdown"), default="text", help="what is printed: %(choices)s")
    captures.add_argument("--timeout", type=float, metavar="SECONDS", help=SECONDS)
    captures.add_argument("target", metavar="FILE::FUNCTION", help="the program, and the function that it calls")
    captures.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", default=[], help=ARGUMENTS)


def _add_fix(commands: argparse._SubParsersAction) -> None:
    fix = commands.add_parser("fix", help="mend graph breaks by edits that are proved: fewer breaks, the same results")
    fix.add_argument("--device", help="the default device of the program: cpu, cuda, cuda:1")
    shown = fix.add_mutually_exclusive_group()
    shown.add_argument("--diff", action="store_true", help="print the edits as a patch (the default)")
    shown.add_argument("--write", action="store_true", help="change the files")
    shown.add_argument("--json", action="store_true", help="print every fix with its edits and its proof")
    fix.add_argument(
        "--recompilations",
        action="store_true",
        help="mend what was compiled again too: one compilation for all sizes, a counting number in a buffer",
    )
    fix.add_argument("--texts", action="store_true", help=argparse.SUPPRESS)
    fix.add_argument(
        "--timeout",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="end each run of the program after so many seconds (default: %(default)g), with an edit after five times as long as it "
        "runs without, or 20 s, where that is less",
    )
    fix.add_argument(
        "--within",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="try no other edit after so many seconds, and say so (default: %(default)g)",
    )
    fix.add_argument("file", metavar="FILE", help="the Python program")
    fix.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", default=[], help=ARGUMENTS)


def _add_show(commands: argparse._SubParsersAction) -> None:
    from dynascope.command.show import OPERATORS
    from dynascope.report.stages import STAGES

    shown = "run a file and print what one stage made of one function; `show operators [NAME]`: what becomes of each of torch's"
    show = commands.add_parser("show", help=shown)
    add_program_options(show)
    show.add_argument("stage", choices=sorted([*STAGES, OPERATORS]), metavar="STAGE", help=f"{', '.join(sorted(STAGES))}; or {OPERATORS}")
    _add_target(show)


def _add_cache(commands: argparse._SubParsersAction) -> None:
    cache = commands.add_parser("cache", help="where built kernels are kept and how big they are; export, import, clear")
    cache.set_defaults(action=None)
    actions = cache.add_subparsers(dest="action", metavar="ACTION")
    export = actions.add_parser("export", help="write kernels into a file, for another machine of the same kind")
    _add_exported(export)
    export.add_argument("archive", metavar="FILE", help="the file to write")
    export.add_argument(
        "file", metavar="PROGRAM", nargs="?", help="run this, compiled, and take what is used meanwhile; without it, all kernels"
    )
    export.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", default=[], help=ARGUMENTS)
    export.set_defaults(quiet=True, json=None, events_fd=None, output_format="text", output=None, fail_on=[])
    take = actions.add_parser("import", help="put the kernels of such a file here, but for those that do not fit, with why")
    take.add_argument("archive", metavar="FILE", help="what `dynascope cache export` wrote")
    actions.add_parser("clear", help="remove everything")


def _add_exported(export: argparse.ArgumentParser) -> None:
    add_program_options(export)
    export.add_argument("-m", "--module", action="store_true", help="PROGRAM is the name of a module, as for python -m")
    export.add_argument("--timeout", type=float, metavar="SECONDS", help=SECONDS)


def _after_the_archive(options: argparse.Namespace) -> argparse.Namespace:
    """`cache export FILE -m MODULE`: the options between are ours, though argparse gives all that follows FILE to the program."""
    parser = argparse.ArgumentParser(prog=f"dynascope cache export {options.archive}")
    _add_exported(parser)
    parser.add_argument("file", metavar="PROGRAM")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS")
    return parser.parse_args(options.arguments, options)


def _add_target(show: argparse.ArgumentParser) -> None:
    show.add_argument(
        "target", metavar="FILE[::FUNCTION]", nargs="?", default="",
        help="the program, and the function of which (default: all); after `operators` a part of their names",
    )  # fmt: skip
    show.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGS", default=[], help=ARGUMENTS)


def add_program_options(parser: argparse.ArgumentParser, backend: bool = True) -> None:
    parser.add_argument("--device", help="the default device of the program: cpu, cuda, cuda:1")
    parser.add_argument("--dynamic", action="store_true", help="numbers are inputs of the graph from the first call")
    parser.add_argument("--fullgraph", action="store_true", help="a graph break is an error")
    if backend:
        parser.add_argument("--backend", metavar="NAME", help="a backend other than ours: eager, inductor, aot_eager, ...")
    parser.add_argument("--no-cache", action="store_true", help="build every kernel anew")


def _run(options: argparse.Namespace) -> int:
    from dynascope.command.run import run

    return run(options)


def _check(options: argparse.Namespace) -> int:
    from dynascope.command.check import check

    return check(options)


def _profile(options: argparse.Namespace) -> int:
    from dynascope.command.profile import profile

    return profile(options)


def _compare(options: argparse.Namespace) -> int:
    from dynascope.command.compare import compare

    # `compare FILE --backends a,b` is what people write; the rest is the program's.
    while len(options.arguments) > 1 and options.arguments[0] == "--backends":
        options.backends, options.arguments = options.arguments[1], options.arguments[2:]
    return compare(options)


def _compare_captures(options: argparse.Namespace) -> int:
    from dynascope.command.compare import compare_captures

    return compare_captures(options)


def _backends(options: argparse.Namespace) -> int:
    from dynascope.command.compare import backends

    return backends(options)


def _fix(options: argparse.Namespace) -> int:
    from dynascope.command.fix import fix

    return fix(options)


def _show(options: argparse.Namespace) -> int:
    from dynascope.command.show import show

    return show(options)


def _explain(options: argparse.Namespace) -> int:
    from dynascope.command.explain import explain

    return explain(options.code)


def _doctor(options: argparse.Namespace) -> int:
    from dynascope.command.doctor import doctor

    return doctor()


def _cache(options: argparse.Namespace) -> int:
    from dynascope.command.cache import cache

    return cache(options)


def _lsp(words: list[str]) -> int:
    """The server, with its own options, takes this process's place: an editor that ends what it started ends the server."""
    import importlib.util

    if importlib.util.find_spec("dynascope_server") is None or importlib.util.find_spec("pygls") is None:
        print(
            f"dynascope: the server is not installed here: {sys.executable} -m pip install dynascope", file=sys.stderr
        )
        return 1
    os.execv(sys.executable, [sys.executable, "-m", "dynascope_server", *words])


COMMANDS = {
    "run": _run,
    "check": _check,
    "profile": _profile,
    "compare": _compare,
    "compare-captures": _compare_captures,
    "backends": _backends,
    "fix": _fix,
    "show": _show,
    "explain": _explain,
    "doctor": _doctor,
    "cache": _cache,
}
