"""`dynascope cache`: kernels leave one cache folder in a file and arrive in another, where they fit and are what they say they are."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest
from dynascope.codegen.triton.kernel import Parameter, TritonKernel
from dynascope.command.command_line import main
from dynascope.kernel_archive import cubins as gpu_kernels
from dynascope.kernel_archive import shared_objects
from dynascope.kernel_archive.archive import ArchiveUnreadable, read_archive, write_archive
from dynascope.kernel_archive.entry import Entry
from dynascope.kernel_archive.moving import export, take
from dynascope.native import recipes
from dynascope.native.cache import cache_folder
from dynascope.native.toolchain import build_shared_object
from dynascope.runtime import cubins

pytestmark = pytest.mark.turns(2)

ENGINE = pathlib.Path(__file__).parents[2] / "engine"
ANSWER = "int answer(void) { return 42; }\n"
KERNEL = TritonKernel(
    name="twice", text="import triton\n\ndef twice(x):\n    y = x\n", parameters=(Parameter("x", "*fp32", "x"),), grid=(1, 1, 1), warps=4
)


@pytest.fixture
def caches(tmp_path, monkeypatch):
    """Goes from one cache folder to another: `caches("there")`."""

    def into(name: str) -> pathlib.Path:
        monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path / name))
        return cache_folder()

    into("here")
    return into


def build(text=ANSWER, flags=("-O1",)):
    return build_shared_object(text, language="c", flags=flags, name="answer")


@pytest.fixture
def gpu_kernel(monkeypatch):
    """One in the cache as if Triton had built it for sm_90."""

    def keep():
        monkeypatch.setattr(cubins, "triton_version", lambda: "3.6.0")
        path = str(cubins.text_path(KERNEL))
        monkeypatch.setattr(cubins, "compile_kernel", lambda *_: cubins.Cubin("twice", b"machine code", 0, 128, 2, path))
        key = cubins.key_of(KERNEL, cubins.Target(90), "3.6.0")
        cubins.compile_here(key, KERNEL, cubins.Target(90), cache_folder())
        return key

    return keep


def change(archive, part, change_data):
    """One part of an archive is another, its place in the table of contents too where `change_data` gives text for it."""
    with zipfile.ZipFile(archive) as file:
        held = {info.filename: file.read(info) for info in file.infolist()}
    held[part] = change_data(held[part])
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in held.items():
            file.writestr(name, data)


@pytest.mark.compiler
def test_a_kernel_that_arrived_is_found_and_not_built(caches, tmp_path, monkeypatch):
    built = build()
    exported = export(tmp_path / "k.zip", cache_folder())
    assert [entry.name for entry in exported.entries] == [built.stem] and not exported.refused
    there = caches("there")
    imported = take(tmp_path / "k.zip", there)
    assert [entry.name for entry in imported.placed] == [built.stem]
    monkeypatch.setattr("dynascope.native.toolchain._run", lambda *_: pytest.fail("it was built again"))
    assert build() == there / "native" / built.name
    again = take(tmp_path / "k.zip", there)
    assert not again.placed and len(again.here_already) == 1


@pytest.mark.compiler
def test_equal_caches_make_equal_files(caches, tmp_path):
    build()
    export(tmp_path / "a.zip", cache_folder())
    export(tmp_path / "b.zip", cache_folder())
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


@pytest.mark.compiler
@pytest.mark.parametrize("what, value, words", [
    ("compiler", "gcc 99.1", "the compiler here is gcc 99.1"),
    ("machine", "riscv64", "this is riscv64"),
    ("processor", "model name : Other", "this is Other"),
    ("arguments", ("-m32",), "with no arguments"),
])  # fmt: skip
def test_what_another_machine_would_build_otherwise_does_not_fit(caches, tmp_path, monkeypatch, what, value, words):
    name = build(flags=("-O1", "-march=native")).stem
    export(tmp_path / "k.zip", cache_folder())
    there = caches("there")
    here = shared_objects.recipe_here
    monkeypatch.setattr(shared_objects, "recipe_here", lambda *asked: replace(here(*asked), **{what: value}))
    imported = take(tmp_path / "k.zip", there)
    assert not imported.placed and not list(there.rglob("*.so"))
    [refused] = imported.refused
    assert refused.name == name and words in refused.why and not refused.damaged


@pytest.mark.compiler
def test_a_newer_c_library_does_not_fit(caches, tmp_path, monkeypatch):
    monkeypatch.setattr(recipes, "c_library", lambda: "glibc 9.99")
    build()
    export(tmp_path / "k.zip", cache_folder())
    monkeypatch.setattr(recipes, "c_library", lambda: "glibc 9.100")
    assert take(tmp_path / "k.zip", caches("newer")).placed
    monkeypatch.setattr(recipes, "c_library", lambda: "glibc 9.10")
    [refused] = take(tmp_path / "k.zip", caches("older")).refused
    assert "built beside glibc 9.99" in refused.why


@pytest.mark.compiler
def test_what_includes_python_fits_that_python_alone(caches, tmp_path, monkeypatch):
    build(flags=("-O1", "-I/headers/of/another"))
    export(tmp_path / "k.zip", cache_folder())
    [refused] = take(tmp_path / "k.zip", caches("there")).refused
    assert "headers lay in /headers/of/another" in refused.why
    monkeypatch.setattr(recipes, "python", lambda: "cpython-99")
    [refused] = take(tmp_path / "k.zip", caches("there")).refused
    assert "this is cpython-99" in refused.why


@pytest.mark.compiler
@pytest.mark.parametrize("part", ["0.so", "0.text", "0.record"])
def test_a_part_that_changed_is_damaged(caches, tmp_path, part):
    build()
    export(tmp_path / "k.zip", cache_folder())
    change(tmp_path / "k.zip", part, lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    there = caches("there")
    imported = take(tmp_path / "k.zip", there)
    assert [each.damaged for each in imported.refused] == [True] and not imported.placed
    assert not (there / "native").exists()


@pytest.mark.compiler
@pytest.mark.parametrize("part, words", [("so", "machine code is not the one"), ("text", "not the key of its text")])
def test_a_part_that_was_exchanged_hash_and_all_does_not_pass_for_another(caches, tmp_path, part, words):
    """Two kernels whose parts changed places."""
    build()
    build(ANSWER.replace("42", "43"))
    one, other = export(tmp_path / "k.zip", cache_folder()).entries
    write_archive(tmp_path / "k.zip", [Entry("processor", one.name, {**one.parts, part: other.parts[part]})])
    [refused] = take(tmp_path / "k.zip", caches("there")).refused
    assert refused.damaged and words in refused.why


@pytest.mark.parametrize("name", ["../../outside-0123", "/etc/outside-0123", "a/b-0123", "..", "", 7, None])
def test_names_are_no_paths(caches, tmp_path, name):
    parts = {suffix: {"file": suffix, "sha256": hashlib.sha256(b"").hexdigest()} for suffix in ("so", "text", "record")}
    contents = {"title": "dynascope kernels", "format": 1, "entries": [{"kind": "processor", "name": name, "parts": parts}]}
    with zipfile.ZipFile(tmp_path / "k.zip", "w") as file:
        file.writestr("contents.json", json.dumps(contents))
        for suffix in parts:
            file.writestr(suffix, b"")
    there = caches("there")
    imported = take(tmp_path / "k.zip", there)
    assert [each.damaged for each in imported.refused] == [True]
    assert not list(tmp_path.rglob("*outside*")) and not list(there.rglob("*.so"))


@pytest.mark.parametrize("contents", [b"", b"[]", b"{}", b'{"title": "dynascope kernels", "format": 99}', b"{"])
def test_another_file_is_no_archive(caches, tmp_path, contents):
    (tmp_path / "a.zip").write_bytes(contents)
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("contents.json", contents)
    for path in (tmp_path / "a.zip", tmp_path / "b.zip", tmp_path / "missing.zip"):
        with pytest.raises(ArchiveUnreadable, match=path.name):
            read_archive(path)
    assert main(["cache", "import", str(tmp_path / "a.zip")]) == 2


@pytest.mark.compiler
def test_what_is_unpacked_has_a_bound(caches, tmp_path, monkeypatch):
    build()
    export(tmp_path / "k.zip", cache_folder())
    monkeypatch.setattr("dynascope.kernel_archive.archive._LARGEST_PART", 100)
    entries, refused = read_archive(tmp_path / "k.zip")
    assert not entries and refused[0].damaged


@pytest.mark.compiler
def test_what_lost_its_record_or_is_broken_is_left_out(caches, tmp_path):
    lost, broken = build(), build(ANSWER.replace("42", "43"))
    lost.with_suffix(".json").unlink()
    broken.write_bytes(b"no code")
    exported = export(tmp_path / "k.zip", cache_folder())
    assert not exported.entries and {each.name for each in exported.refused} == {lost.stem, broken.stem}


def test_a_gpu_kernel_goes_where_its_gpu_is(caches, tmp_path, monkeypatch, gpu_kernel):
    key = gpu_kernel()
    export(tmp_path / "k.zip", cache_folder())
    for here, words in [
        (gpu_kernels.Here("3.6.0", {80}), "it is for sm_90, and here is sm_80"),
        (gpu_kernels.Here("3.6.0", set()), "here is no GPU"),
        (gpu_kernels.Here("3.7.0", {90}), "built by Triton 3.6.0"),
        (gpu_kernels.Here(None, {90}), "here is none"),
    ]:
        monkeypatch.setattr(gpu_kernels, "here", lambda here=here: here)
        [refused] = take(tmp_path / "k.zip", caches("elsewhere")).refused
        assert refused.name == key and words in refused.why and not refused.damaged
    monkeypatch.setattr(gpu_kernels, "here", lambda: gpu_kernels.Here("3.6.0", {80, 90}))
    there = caches("there")
    [placed] = take(tmp_path / "k.zip", there).placed
    assert placed.name == key
    cubin = cubins.load(key, there)
    assert cubin.binary == b"machine code" and cubin.threads == 128
    assert pathlib.Path(cubin.path).is_relative_to(there) and "def twice" in pathlib.Path(cubin.path).read_text()
    assert [entry.name for entry in take(tmp_path / "k.zip", there).here_already] == [key]


def test_a_gpu_kernel_under_another_key_is_damaged(caches, tmp_path, monkeypatch, gpu_kernel):
    gpu_kernel()
    [entry] = export(tmp_path / "k.zip", cache_folder()).entries
    monkeypatch.setattr(gpu_kernels, "here", lambda: gpu_kernels.Here("3.6.0", {90}))
    facts = json.loads(entry.parts["facts"])
    forged = json.dumps({**facts, "identity": facts["identity"].replace("90", "80")}).encode()
    for name, parts in [("0" * 32, entry.parts), (entry.name, {**entry.parts, "facts": forged}),
                        (entry.name, {**entry.parts, "cubin": b"other code"})]:  # fmt: skip
        write_archive(tmp_path / "k.zip", [Entry("gpu", name, parts)])
        [refused] = take(tmp_path / "k.zip", caches("there")).refused
        assert refused.damaged


PROGRAM = "import sys\nimport torch\nf = torch.compile(lambda x: torch.tanh(x) * 2)\nprint(f(torch.ones(8)).shape, sys.argv[1:])\n"


@pytest.mark.compiler
def test_the_kernels_of_one_program(caches, tmp_path, capfd):
    """What else is in the cache stays there. In the other folder the program then builds nothing."""
    stranger = build()
    os.utime(stranger, (1, 1))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    assert command("export", str(tmp_path / "k.zip"), str(program), "--steps", "3") == 0
    assert "['--steps', '3']" in capfd.readouterr().out
    names = {entry.name for entry in read_archive(tmp_path / "k.zip")[0]}
    assert stranger.stem not in names and any(name.startswith("graph-") for name in names)
    there = caches("there")
    assert command("import", str(tmp_path / "k.zip")) == 0
    before = {path: path.stat().st_ino for path in (there / "native").glob("*.so")}
    assert command("export", str(tmp_path / "again.zip"), str(program)) == 0
    assert {path: path.stat().st_ino for path in (there / "native").glob("*.so")} == before


def command(*words):
    environment = {**os.environ, "PYTHONPATH": str(ENGINE)}
    return subprocess.run([sys.executable, "-m", "dynascope", "cache", *words], env=environment, timeout=120, check=False).returncode


@pytest.mark.compiler
def test_words_of_each(caches, tmp_path, capsys, monkeypatch):
    name = build().stem
    assert main(["cache"]) == 0
    told = capsys.readouterr().out
    assert str(cache_folder()) in told and "of 4.0 GiB" in told and "kernels for the processor" in told
    assert main(["cache", "export", str(tmp_path / "k.zip")]) == 0
    assert "1 for the processor" in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "freed" in capsys.readouterr().out and not list(cache_folder().rglob("*.so"))
    monkeypatch.setattr(shared_objects, "recipe_here", lambda *_: None)
    assert main(["cache", "import", str(tmp_path / "k.zip")]) == 1, "nothing of it was of use"
    told = capsys.readouterr().out
    assert f"does not fit: {name}: no c compiler was found here" in told
    assert main(["cache", "export", str(tmp_path / "missing" / "k.zip")]) == 1
    assert "cannot be written" in capsys.readouterr().err
