"""A large dictionary from outside is looked into by key: another key that comes or goes compiles nothing again."""

import sys
import warnings

import pytest
import torch
from harness import compiled

TABLE = {}


@pytest.fixture(autouse=True)
def _filled():
    TABLE.clear()
    TABLE.update({f"name{i}": i for i in range(500)})
    TABLE[5] = "five"


def subscripted(x):
    return x * TABLE["name3"] + TABLE[5.0].count("f")


def asked(x):
    return x * 2 if "later" in TABLE else x * 3 if "name7" not in TABLE else x


def missing(x):
    try:
        return x * TABLE["later"]
    except KeyError as error:
        return x - 1, str(error)


def written_between(x):
    before = TABLE["name3"]
    TABLE["later"] = 4
    return x * before + TABLE["later"] + TABLE["name3"] + len(TABLE)


def changes():
    yield "as it was"
    TABLE["unrelated"] = 0
    yield "another key"
    TABLE["later"] = 8
    yield "a key that was asked for"
    TABLE["name3"], TABLE[5] = 30, "ffff"
    yield "other values"
    del TABLE["later"], TABLE["name7"]
    yield "keys that are gone"


@pytest.mark.parametrize("program", [subscripted, asked, missing, written_between])
def test_what_it_holds_is_seen(program):
    function = compiled(program)
    for change in changes():
        before = dict(TABLE)
        mine, left = function(torch.ones(2)), dict(TABLE)
        TABLE.clear()
        TABLE.update(before)
        wanted = program(torch.ones(2))
        assert repr(mine) == repr(wanted), change
        assert list(left.items()) == list(TABLE.items()), change


def test_other_keys_compile_nothing_again():
    function = compiled(lambda x: x * TABLE["name3"] if "name7" in TABLE and "later" not in TABLE else x)
    for other in range(4):
        TABLE[f"other{other}"] = other
        assert function(torch.ones(1)).item() == 3
    assert len(function.compilation.captures) == 1


def test_an_import_in_between_compiles_nothing_again(monkeypatch):
    function = compiled(lambda x: x * 2 if sys.modules["warnings"] is warnings else x)
    for name in ("one of mine", "another of mine"):
        assert function(torch.ones(1)).item() == 2
        monkeypatch.setitem(sys.modules, name, warnings)
    assert function(torch.ones(1)).item() == 2 and len(function.compilation.captures) == 1
