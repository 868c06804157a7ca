"""Text to a shared object: once for each text, by many at once, with words of use when it fails."""

import ctypes
import os
import stat
import subprocess
import sys

import pytest
from dynascope.native import building, cache, toolchain
from dynascope.native.toolchain import ToolchainError, begin_shared_object, build_shared_object, find_compiler

ANSWER = "int answer(void) { return 42; }\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path / "cache"))
    toolchain._probe.cache_clear()
    yield tmp_path / "cache"
    toolchain._probe.cache_clear()


def build(source=ANSWER, flags=("-O1",), language="c"):
    return build_shared_object(source, language=language, flags=flags, name="answer")


@pytest.mark.compiler
def test_text_becomes_code():
    assert ctypes.CDLL(str(build())).answer() == 42


@pytest.mark.compiler
def test_cpp_text_becomes_code():
    path = build('extern "C" int answer() { auto f = [] { return 42; }; return f(); }', language="c++")
    assert ctypes.CDLL(str(path)).answer() == 42
    assert path.with_suffix(".cpp").exists()


@pytest.mark.compiler
def test_the_same_text_is_built_once(monkeypatch):
    first = build()
    monkeypatch.setattr(toolchain, "_run", lambda *_: pytest.fail("built again"))
    assert build() == first


@pytest.mark.compiler
def test_a_build_that_was_begun_is_waited_for_and_not_done_twice(monkeypatch):
    built, run = [], toolchain._run
    monkeypatch.setattr(toolchain, "_run", lambda command, name: (built.append(name), run(command, name)))
    for _ in range(2):
        begin_shared_object(ANSWER, language="c", flags=("-O1",), name="answer")
    assert ctypes.CDLL(str(build())).answer() == 42
    assert built == ["answer"] and (ANSWER, "c", "-O1") not in toolchain._begun


@pytest.mark.compiler
def test_what_goes_wrong_with_a_begun_build_is_said_when_it_is_asked_for():
    begin_shared_object("no C\n", language="c", flags=("-O1",), name="answer")
    with pytest.raises(ToolchainError, match="no C"):
        build("no C\n")


@pytest.mark.compiler
def test_flags_and_text_name_the_file():
    assert len({build(), build(flags=("-O2",)), build(ANSWER + "//")}) == 3


@pytest.mark.compiler
def test_lines_of_comments_do_not_count():
    assert build("// model.py:3\n" + ANSWER) == build("// model.py:4\n  // another\n" + ANSWER) == build()


@pytest.mark.compiler
def test_native_code_is_named_after_the_processor(monkeypatch):
    here = build(flags=("-march=native",))
    monkeypatch.setattr(toolchain, "processor", lambda: "another")
    assert build(flags=("-march=native",)) != here
    assert build() == build()


@pytest.mark.compiler
def test_a_refused_text_says_why_in_the_compilers_words(folder):
    with pytest.raises(ToolchainError) as caught:
        build("int answer(void) { return nonsense; }")
    reason = caught.value.reason
    assert reason.code == "compilation-failed" and "nonsense" in reason.message()
    assert "-shared" in reason.remedy()
    assert not list(folder.rglob("*.so")) and not list(folder.rglob(".build-*"))


@pytest.mark.compiler
def test_a_full_disk_under_the_compiler_is_called_that(tmp_path, monkeypatch):
    fake = tmp_path / "fakecc"
    fake.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo 1 && exit 0\necho "ld: No space left on device" >&2\nexit 1\n'
    )
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(fake))
    with pytest.raises(ToolchainError) as caught:
        build()
    assert caught.value.reason.code == "cache-write-failed" and "No space left" in caught.value.reason.message()


@pytest.mark.compiler
def test_a_full_disk_before_the_compiler_is_called_that(monkeypatch):
    def fill(*_):
        raise OSError(28, "No space left on device")

    assert find_compiler()
    monkeypatch.setattr(cache, "_write", fill)
    with pytest.raises(ToolchainError) as caught:
        build()
    assert caught.value.reason.code == "cache-write-failed"


def test_no_compiler_names_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    assert find_compiler() is None
    with pytest.raises(ToolchainError) as caught:
        build()
    reason = caught.value.reason
    assert reason.code == "compiler-missing"
    assert "gcc" in reason.message() and "apt-get install gcc" in reason.remedy() and "CC" in reason.remedy()


def test_a_compiler_that_never_ends_is_stopped(tmp_path, monkeypatch):
    fake = tmp_path / "slowcc"
    fake.write_text('#!/bin/sh\n[ "$1" = --version ] && echo slow 1 && exit 0\nexec sleep 60\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", str(fake))
    monkeypatch.setenv("DYNASCOPE_COMPILER_TIMEOUT", "0.2")
    with pytest.raises(ToolchainError) as caught:
        build()
    assert caught.value.reason.code == "compiler-timeout"


@pytest.mark.compiler
def test_the_version_is_asked_once_for_all_processes(monkeypatch):
    first = find_compiler()
    toolchain._probe.cache_clear()
    monkeypatch.setattr(toolchain, "_ask_version", lambda _: pytest.fail("asked again"))
    assert find_compiler() == first


@pytest.mark.compiler
def test_processes_that_build_the_same_text_at_once_all_succeed(folder):
    program = (
        "import ctypes; from dynascope.native.toolchain import build_shared_object as b;"
        f"print(ctypes.CDLL(str(b({ANSWER!r}, language='c', flags=('-O1',), name='answer'))).answer())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", program]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [process.communicate()[0].strip() for process in running] == ["42"] * 4
    assert len(list(folder.rglob("*.so"))) == 1 and not list(folder.rglob("*.tmp"))


def test_importing_imports_no_torch():
    program = "import sys, dynascope.native.toolchain; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0


COUNTS = """
import os, sys, time
from dynascope.native import toolchain

run = toolchain._run

def counted(command, name):
    open(os.path.join(sys.argv[1], f"built-{os.getpid()}"), "x").close()
    run(command, name)

toolchain._run = counted
print(toolchain.build_shared_object("int answer(void) { return 7; }", language="c", flags=("-O1",), name="answer"))
"""


@pytest.mark.compiler
def test_of_many_processes_one_builds(tmp_path):
    started = [subprocess.Popen([sys.executable, "-c", COUNTS, tmp_path], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({each.communicate()[0] for each in started}) == 1
    assert all(each.returncode == 0 for each in started)
    assert len(list(tmp_path.glob("built-*"))) == 1


@pytest.mark.compiler
def test_a_process_that_ends_while_it_builds_keeps_nobody_waiting(folder):
    dies = COUNTS.replace("run(command, name)", "os._exit(1)")
    assert subprocess.run([sys.executable, "-c", dies, folder.parent], check=False).returncode == 1
    assert build("int answer(void) { return 7; }").exists()


@pytest.mark.compiler
def test_a_lock_that_is_held_too_long_is_passed_by(monkeypatch, folder):
    path = build()
    path.unlink()
    holds = "import fcntl, sys, time; f = open(sys.argv[1], 'ab'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); time.sleep(600)"
    other = subprocess.Popen([sys.executable, "-c", holds, path.with_suffix(".lock")], stdout=subprocess.PIPE)
    monkeypatch.setattr(building, "PATIENCE", 0.05)
    try:
        other.stdout.readline()
        assert build() == path
    finally:
        other.kill()
        other.wait()
