"""What a program sees and how it ends: `dynascope run FILE` against `python FILE`, output for output."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.turns(3)
ENGINE = Path(__file__).parents[2] / "engine"
OURS = [sys.executable, "-P", "-m", "dynascope", "run", "--quiet"]


def ends(command, folder, text="", environment=()):
    answer = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        input=text.encode(),
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ENGINE), **dict(environment)},
    )
    streams = (
        re.sub(rb"0x[0-9a-f]+", b"0x", stream).decode(errors="replace") for stream in (answer.stdout, answer.stderr)
    )
    return answer.returncode, *streams


def same_as_python(folder, *words, text="", expect=None, environment=()):
    theirs = ends([sys.executable, *words], folder, text, environment)
    ours = ends([*OURS, *words], folder, text, environment)
    assert ours == theirs
    if expect is not None and expect not in theirs[1] + theirs[2]:
        # Where an installation imports modules as Python starts, a file beside the program comes too late.
        assert "has no attribute" in theirs[2]
        pytest.skip(f"{sys.executable} has imported it before the program starts")
    return theirs


def write(folder, name, text):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


FACES = """
'''documented'''
import sys, inspect
number: int = 1
def function(): return sys._getframe().f_code.co_filename
class Thing: pass
print(__name__, __file__, __package__, __spec__, __doc__, __builtins__, __annotations__, __cached__)
print(type(__loader__), __loader__.name, __loader__.path, __loader__.get_source('__main__')[:8])
print(sorted(n for n in globals()), list(globals())[:9])
print(sys.argv, sys.orig_argv[1:], sys.path[0], sys.flags)
print(function(), inspect.getsource(function), inspect.getfile(Thing), inspect.getsourcelines(Thing))
print(sys.modules['__main__'].__dict__ is globals(), Thing.__module__, sys._getframe().f_back)
"""


@pytest.mark.parametrize(
    "name", ["program.py", "./program.py", "../here/program.py", "absolute", "sub folder/a b.py", "noext"]
)
def test_what_main_has(tmp_path, name):
    folder = tmp_path / "here"
    folder.mkdir()
    if name == "absolute":
        name = str(folder / "program.py")
    write(folder, name, FACES)
    same_as_python(folder, name, "--x", "1", "-m")


def test_a_link_to_the_program(tmp_path):
    write(tmp_path, "real/program.py", FACES)
    write(tmp_path, "real/beside.py", "")
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "program.py")
    same_as_python(tmp_path, "link.py")


@pytest.mark.parametrize("name", [b"caf\xe9.py", "\u4e2d\u6587.py".encode(), b"tab\tname.py"])
def test_names_of_files_that_are_no_utf_8(tmp_path, name):
    name = os.fsdecode(name)
    Path(os.path.join(tmp_path, name)).write_text(
        "import sys\nprint(ascii(sys.argv), ascii(__file__), ascii(sys.path[0]))\n1 / 0\n"
    )
    same_as_python(tmp_path, name, "arg", expect="ZeroDivisionError")


LOCALES = {
    "none": {"LANG": "", "LC_ALL": "", "LC_CTYPE": ""},
    "C": {"LANG": "C", "LC_ALL": ""},
    "all C": {"LC_ALL": "C"},
    "UTF-8": {"LANG": "", "LC_ALL": "", "LC_CTYPE": "C.UTF-8"},
    "not there": {"LC_ALL": "xx_XX.UTF-8"},
    "its own mode": {"LANG": "C", "LC_ALL": "", "PYTHONUTF8": "0"},
}


@pytest.mark.parametrize("name", LOCALES)
def test_locales(tmp_path, name):
    """A machine without one (a container) has Python put one into the environment, of which a child knows nothing."""
    text = "import locale, os, sys\nprint(sys.flags.utf8_mode, sys.stdout.encoding, sys.stdout.errors, locale.getpreferredencoding())\n"
    write(tmp_path, "program.py", text + "print({n: os.environ.get(n) for n in ('LANG', 'LC_ALL', 'LC_CTYPE')}, ascii('\u00e9'))\n")
    same_as_python(tmp_path, "program.py", environment=LOCALES[name].items())


ENDS = {
    "exit code": "import sys; sys.exit(7)",
    "exit text": "raise SystemExit('gone wrong')",
    "exit none": "raise SystemExit",
    "exit false": "import sys; sys.exit(False)",
    "exit large": "import sys; sys.exit(300)",
    "exit tuple": "import sys; sys.exit((1, 2))",
    "hard exit": "import os; print('before', flush=True); os._exit(9)",
    "signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupt": "raise KeyboardInterrupt",
    "raises": "def f(n):\n    if n: f(n - 1)\n    raise ValueError('deep')\nf(2)",
    "raises from": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "raises while": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    undefined",
    "group": "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    "own hook": "import sys\nsys.excepthook = lambda *a: print('hook', a[0].__name__, a[2].tb_frame.f_code.co_name)\n1 / 0",
    "at exit": "import atexit, sys\natexit.register(lambda: print('bye', sys.last_type.__name__))\n1 / 0",
    "thread": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()\nt.join()\nprint('on')",
    "recursion": "def f(): return f()\ntry: f()\nexcept RecursionError as e: print(e)",
    "import error": "import a_module_that_is_not_there",
    "assert": "x = 3\nassert x == 4, f'{x} is not 4'",
    "unraisable": "class A:\n    def __del__(self): 1 / 0\nA()",
    "stdin": "print(input('name: '), input())",
    "end of input": "input(); input(); input()",
    "warning": "import warnings\nwarnings.warn('careful')\ndef f(): warnings.warn('twice', stacklevel=2)\nf()",
    "traceback": "import traceback\ndef f(): traceback.print_stack()\nf()",
    "main again": "import __main__\nprint(__main__.__name__, __main__.__file__)",
    "spawn": "import multiprocessing as m\ndef f(x): return x * 2\n"
    "if __name__ == '__main__': print(m.get_context('spawn').Pool(1).map(f, [1, 2]))",
    "while torch is imported": "import sys\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n"
    "        if name == 'torch.nn': raise KeyError('stop')\nsys.meta_path.insert(0, Finder())\nimport torch",
    "pickle": "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A, A.__qualname__)",
}  # fmt: skip


@pytest.mark.turns(6)
@pytest.mark.parametrize("name", ENDS)
def test_how_it_ends(tmp_path, name):
    write(tmp_path, "program.py", ENDS[name] + "\n")
    same_as_python(tmp_path, "program.py", text="one\ntwo\n")


SYNTAX = {
    "missing bracket": b"x = (1,\ny = 2\n",
    "bad indent": b"if True:\nx = 1\n",
    "tabs": b"if True:\n\tx = 1\n        y = 2\n",
    "not utf-8": b"x = '\xe9'\n",
    "wrong encoding": b"# -*- coding: nonsense -*-\nx = 1\n",
    "null byte": b"x = 1\n\x00\n",
    "return outside": b"x = 1\nreturn x\n",
    "future late": b"x = 1\nfrom __future__ import annotations\n",
    "print": b"print 'hello'\n",
    "f-string": b"x = f'{1 +}'\n",
    "warning": b"x = 1\nif x is 1: print('\\d')\n",
}


@pytest.mark.parametrize("name", SYNTAX)
def test_syntax_errors_have_the_words_of_python(tmp_path, name):
    write(tmp_path, "program.py", SYNTAX[name])
    same_as_python(tmp_path, "program.py", "argument")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path, encoding):
    header = "# coding: latin-1\n" if encoding == "latin-1" else ""
    write(tmp_path, "program.py", (header + "print(ascii('\u00e9'), __file__)\n").encode(encoding))
    same_as_python(tmp_path, "program.py")


def test_folders_archives_and_modules(tmp_path):
    main = "import sys\nprint(__name__, __file__, __package__, __spec__.name, sys.argv, sys.path[0], list(globals())[:8])\n"
    write(tmp_path, "folder/__main__.py", main + "import helper\n")
    write(tmp_path, "folder/helper.py", "print('helper', __name__)\n")
    write(tmp_path, "package/__init__.py", "print('package')\n")
    write(tmp_path, "package/__main__.py", main + "from . import part\n")
    write(tmp_path, "package/part.py", main.replace("__spec__.name", "__spec__ and __spec__.name"))
    with zipfile.ZipFile(tmp_path / "archive.pyz", "w") as archive:
        archive.writestr("__main__.py", main)
    same_as_python(tmp_path, "folder", "a", "b", expect="helper helper")
    same_as_python(tmp_path, "archive.pyz", "a")
    same_as_python(tmp_path, "-m", "package", "a", expect="package.__main__")
    same_as_python(tmp_path, "-m", "package.part", "a")
    same_as_python(tmp_path, "-m", "no_such_module_at_all", expect="No module named")


@pytest.mark.parametrize("name", ["torch.py", "json.py", "random.py", "dis.py", "inspect.py"])
def test_files_beside_the_program_named_as_modules_that_we_need(tmp_path, name):
    write(tmp_path, name, "value = 42\n")
    module = name.removesuffix(".py")
    write(
        tmp_path, "program.py", f"import {module}\nprint({module}.value)\ndef f(x): return x + 1\nprint(f(1), f(2))\n"
    )
    same_as_python(tmp_path, "program.py", expect="42")


DEBUGGED = """
import torch
def helper(x):
    inside = x * 3
    {stop}
    return inside
def function(x, scale=2):
    local = x * scale
    {where}
    return local + 1
print(function(torch.ones(2)).sum().item())
"""


@pytest.mark.parametrize(("stop", "inner"), [("breakpoint()", False), ("import pdb; pdb.set_trace()", True)])
def test_the_debugger_stops_in_the_users_frame(tmp_path, stop, inner):
    text = DEBUGGED.format(stop=stop if inner else "pass", where="local = helper(local)" if inner else stop)
    write(tmp_path, "program.py", text)
    commands = "where\nargs\np sorted(locals())\nnext\np local if 'local' in locals() else inside\nup\np sorted(locals())[:2]\ncontinue\n"
    same_as_python(tmp_path, "program.py", text=commands, expect="function")


def test_the_hook_of_breakpoint_sees_the_users_frame(tmp_path):
    text = DEBUGGED.format(stop="pass", where="breakpoint()")
    hook = "import sys\nsys.breakpointhook = lambda: print(sys._getframe(1).f_code.co_name, sorted(sys._getframe(1).f_locals))\n"
    write(tmp_path, "program.py", hook + text)
    same_as_python(tmp_path, "program.py", expect="function ['local', 'scale', 'x']")


def test_what_torch_compiles_itself(tmp_path):
    """`torch.cond` calls torch.compile for an operator that only torch's compiler knows."""
    write(
        tmp_path,
        "program.py",
        "import torch\n"
        "def f(x): return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))\n"
        "print(f(torch.ones(2)), f(-torch.ones(2)))\n",
    )
    # What else this machine's torch has to say is in both.
    expect, lenient = "tensor([2., 2.]) tensor([-2., -2.])\n", {"DYNASCOPE_STRICT": "0"}
    same_as_python(tmp_path, "program.py", expect=expect, environment=lenient.items())
