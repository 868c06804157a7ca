"""The cache folder: never half a file, never another folder's fault, never without bound."""

import errno
import os
import stat
import subprocess
import sys
import time

import pytest
from dynascope.native import cache
from dynascope.native.cache import CacheError, cache_folder, cache_note, clear, mark_used, publish, trim


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_named_folder_is_made_for_this_user_alone(folder):
    assert cache_folder() == folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert cache_note() is None


def test_xdg_names_the_default(tmp_path, monkeypatch):
    monkeypatch.delenv("DYNASCOPE_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "dynascope"


def test_a_file_in_the_way_gives_a_private_folder_and_a_note(tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("not a folder")
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path / "taken"))
    assert cache_folder() != tmp_path / "taken"
    assert publish(cache_folder() / "a", b"1").read_bytes() == b"1"
    note = cache_note()
    assert note.code == "cache-unusable"
    assert str(tmp_path / "taken") in note.message and "DYNASCOPE_CACHE_DIR" in note.remedy


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_gives_a_private_one(tmp_path, monkeypatch):
    tmp_path.chmod(0o500)
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path / "cache"))
    assert cache_folder().stat().st_mode & 0o777 == 0o700
    assert cache_note() is not None


def test_a_read_only_disk_gives_a_private_folder(tmp_path, monkeypatch):
    def refuse(self, *_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache.Path, "touch", refuse)
    assert cache_folder() != tmp_path / "cache"
    assert "Read-only file system" in cache_note().message


def test_a_folder_that_everybody_can_write_is_not_trusted(tmp_path, monkeypatch):
    tmp_path.chmod(0o777)
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path))
    assert cache_folder() != tmp_path
    assert "everybody" in cache_note().message


def test_the_private_folder_ends_with_the_process(tmp_path):
    (tmp_path / "taken").write_text("")
    program = "from dynascope.native.cache import cache_folder; print(cache_folder())"
    environment = {**os.environ, "DYNASCOPE_CACHE_DIR": str(tmp_path / "taken"), "PYTHONPATH": ":".join(sys.path)}
    private = subprocess.check_output([sys.executable, "-c", program], env=environment, text=True).strip()
    assert private and not os.path.exists(private)


def test_a_full_disk_leaves_nothing_behind(folder, monkeypatch):
    def fill(path, data):
        path.write_bytes(data[:1])
        raise OSError(errno.ENOSPC, "No space left on device")

    target = cache_folder() / "a.so"
    monkeypatch.setattr(cache, "_write", fill)
    with pytest.raises(CacheError) as caught:
        publish(target, b"whole")
    assert caught.value.reason.code == "cache-write-failed"
    assert "No space left" in caught.value.reason.message() and "DYNASCOPE_CACHE_DIR" in caught.value.reason.remedy()
    assert list(folder.iterdir()) == []


def test_clear_leaves_what_a_compiler_is_at_work_on(folder):
    publish(cache_folder() / "native" / ".build-1" / "a.so", b"half")
    publish(cache_folder() / "native" / "b.so", b"1")
    clear()
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["a.so"]


def test_a_second_write_replaces_the_first_in_one_step(folder):
    target = cache_folder() / "deep" / "a"
    publish(target, b"1")
    with open(target, "rb") as reader:
        publish(target, b"22")
        assert reader.read() == b"1"
    assert target.read_bytes() == b"22"


def test_the_least_recently_used_files_go_first(folder):
    old = time.time() - 10_000
    for age, name in enumerate(["oldest", "old", "used"]):
        publish(cache_folder() / name, b"x" * 100)
        os.utime(folder / name, (old + age, old + age))
    publish(cache_folder() / "new", b"x" * 100)
    mark_used(folder / "oldest")
    assert trim(folder, 300) == 300
    assert {path.name for path in folder.iterdir()} == {"oldest", "used", "new"}


def test_young_files_are_never_evicted(folder):
    publish(cache_folder() / "young", b"x" * 100)
    assert trim(folder, 0) == 100


def test_the_limit_is_kept_while_writing(folder, monkeypatch):
    monkeypatch.setenv("DYNASCOPE_CACHE_LIMIT_MB", "0")
    monkeypatch.setattr(cache, "_SAFE_SECONDS", -1.0)
    publish(cache_folder() / "a", b"x")
    assert not (folder / "a").exists()


def test_clear_empties_the_folder(folder):
    publish(cache_folder() / "sub" / "a", b"1")
    publish(cache_folder() / "b", b"1")
    clear()
    assert list(folder.iterdir()) == []


# Whose the files are


def refused(folder):
    assert cache_folder() != folder
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700
    return cache_note().message


@pytest.mark.parametrize("mode", [0o777, 0o757, 0o1777, 0o703])
def test_a_folder_that_everybody_may_write_is_refused(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    assert "everybody may write there" in refused(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_a_folder_of_another_user_is_refused(folder):
    folder.mkdir(mode=0o755)
    os.chown(folder, 12345, 12345)
    assert "it belongs to the user 12345" in refused(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a folder away")
def test_a_folder_that_a_group_may_write_is_refused(folder):
    folder.mkdir()
    folder.chmod(0o775)
    os.chown(folder, -1, 12345)
    assert "the group 12345 may write there" in refused(folder)


def test_the_group_of_the_user_alone_may_write(folder, monkeypatch):
    folder.mkdir()
    folder.chmod(0o775)
    monkeypatch.setattr(cache, "_is_own_group", lambda number: number == folder.stat().st_gid)
    assert cache_folder() == folder and cache_note() is None


def test_a_folder_that_others_can_put_another_in_the_place_of_is_refused(tmp_path, monkeypatch):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path / "open" / "cache"))
    assert f"everybody may write to {tmp_path / 'open'}" in refused(tmp_path / "open" / "cache")
    (tmp_path / "open").chmod(0o1777)
    monkeypatch.setenv("DYNASCOPE_CACHE_DIR", str(tmp_path / "open" / "another"))
    assert cache_folder() == tmp_path / "open" / "another"


@pytest.mark.parametrize("change", ["everybody", "another user", "link"])
def test_machine_code_that_others_may_have_written_is_built_again(folder, change):
    import ctypes

    from dynascope.native.toolchain import build_shared_object

    def answer():
        path = build_shared_object(
            f"int answer(void) {{ return {len(change)}; }}", language="c", flags=(), name="whose"
        )
        return path, ctypes.CDLL(str(path)).answer()

    path, found = answer()
    assert found == len(change) and cache.is_own_file(path)
    if change == "everybody":
        path.chmod(0o777)
    elif change == "another user":
        if os.geteuid() != 0:
            pytest.skip("needs root to give a file away")
        os.chown(path, 12345, 12345)
    else:
        (folder / "elsewhere.so").write_bytes(path.read_bytes())
        path.unlink()
        path.symlink_to(folder / "elsewhere.so")
    assert not cache.is_own_file(path)
    again, found = answer()
    assert (again, found) == (path, len(change)) and cache.is_own_file(path)
