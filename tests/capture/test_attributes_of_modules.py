"""`settings.step = 3`: what the program sets in a module of its own is a global of that module, in one graph."""

import types
import warnings

import dynascope
import pytest
import torch

SETTINGS = """
step = 0
scale = 2.0

def scaled(x):
    return x * scale + step

def forwards():
    global step
    step += 1
"""


def module():
    made = types.ModuleType("settings")
    exec(SETTINGS, vars(made))
    return made


def counted(settings, x):
    settings.step += 1
    x = settings.scaled(x)
    settings.scale = x.sum()
    settings.forwards()
    return settings.scaled(x), settings.step


def raised(settings, x):
    settings.step = 5
    settings.found = x * 2
    return x / 0 if settings.step < 5 else settings.nothing


def left_after_a_break(settings, x):
    settings.seen = x + 1
    print(end="")
    settings.seen = settings.seen * settings.scale
    return settings.seen


@pytest.mark.parametrize("dynamic", [None, False])
def test_as_eager(dynamic):
    ours, theirs = module(), module()
    compiled = dynascope.compile(counted, backend="eager", dynamic=dynamic, fullgraph=True)
    for number in range(3):
        x = torch.arange(3.0) + number
        found, expected = compiled(ours, x), counted(theirs, x)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(ours.scale, theirs.scale)
        assert ours.step == theirs.step


def test_another_module_is_another_place():
    compiled = dynascope.compile(counted, backend="eager", fullgraph=True)
    first, second = module(), module()
    for settings, steps in ((first, 2), (second, 2), (first, 4)):
        compiled(settings, torch.ones(2))
        assert settings.step == steps


def test_what_was_set_before_an_error_stays():
    ours = module()
    with pytest.raises(AttributeError, match="module 'settings' has no attribute 'nothing'"):
        dynascope.compile(raised, backend="eager")(ours, torch.ones(2))
    assert ours.step == 5 and torch.equal(ours.found, torch.full((2,), 2.0))


@pytest.mark.expects("print-call")
def test_what_was_set_before_a_break_is_there_behind_it():
    ours = module()
    assert torch.equal(dynascope.compile(left_after_a_break, backend="eager")(ours, torch.ones(2)), torch.full((2,), 4.0))
    assert torch.equal(ours.seen, torch.full((2,), 4.0))


def test_a_librarys_module_is_left_to_python():
    def function(x):
        warnings.dynascope_was_here = 1
        return x + warnings.dynascope_was_here

    try:
        explained = dynascope.explain(dynascope.compile(function, backend="eager"), torch.ones(2))
    finally:
        del warnings.dynascope_was_here
    assert torch.equal(explained.result, torch.full((2,), 2.0))
    (reason,) = explained.break_reasons
    assert "`warnings.dynascope_was_here = ...` changes what a library's module holds" in reason.message
