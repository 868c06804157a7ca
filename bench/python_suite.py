"""Python's own tests, each method compiled: is the outcome that of Python?

    python bench/python_suite.py test_dict test_generators      these modules of the `test` package
    python bench/python_suite.py --processes 2                  those listed below
    python bench/python_suite.py --seconds 20 test_set          no method longer than this

Each test method is compiled whole with the backend "eager" and called; what it calls is followed as any program is. It passes, fails or
raises as the method does in plain Python, or the difference is printed with its traceback. Methods that ask for reference counts, object
identities that Python does not promise, or the end of an object differ for good.
"""

from __future__ import annotations

import argparse
import importlib

from method_outcomes import cases_in, compare, compiled, in_processes

MODULES = """
abc argparse array asyncgen augassign baseexception binop bisect bool builtin bytes calendar call class cmath collections compare complex
configparser contains context contextlib copy coroutines csv dataclasses decorators defaultdict deque descr dict dictcomps dictviews enum
enumerate except_star exception_group exceptions extcall finalization float format fractions fstring funcattrs functools generators global
grammar hash heapq index inspect int isinstance iter itertools keywordonlyarg list long math memoryview metaclass module named_expressions
numbers numeric_tower opcodes operator ordered_dict patma pep479 positional_only_arg pow pprint property raise random range re reprlib
richcmp scope set shlex slice sort statistics string struct subclassinit super textwrap tuple typechecks types typing unpack userdict
userlist userstring weakref weakset with yield_from
""".split()  # noqa: SIM905


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--here", action="store_true", help="in this process, one module")
    parser.add_argument("--after", default="", help="with --here: only the methods behind this one")
    options = parser.parse_args()
    names = [name if name.startswith("test") else f"test_{name}" for name in options.modules or MODULES]
    if options.here:
        module = importlib.import_module(f"test.{names[0]}")
        compare(cases_in(module, module.__name__), options.seconds, compiled("eager"), options.after)
        return
    for found in in_processes(__file__, names, ["--seconds", str(options.seconds)], options.processes, options.seconds):
        print(found, flush=True)


if __name__ == "__main__":
    main()
