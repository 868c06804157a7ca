"""What `locals()`, `dir()` and `eval` find where they are called: nothing of what is bound later, also where a function inside reads it."""

import sys
import types

import dynascope
import pytest
import torch
from harness import compiled

X = torch.ones(2)


def names_now(x):
    first = 1
    listed = sorted(locals()), dir()
    second = 2

    def later():
        return second, third

    third = first + 2
    return x + 1, listed, later(), sorted(locals())


def names_after_a_break(x):
    print("said")
    listed = dir()
    third = 3

    def later():
        return third

    print(sorted(locals()))
    return x * later(), listed


def names_of_a_called_function(x):
    return x + 1, names_now(x)[1:]


def names_of_the_frame(x):
    listed = sorted(sys._getframe().f_locals)

    def later():
        return third

    third = 4
    return x + later(), listed


def text_that_reads(x):
    known = 2

    def later():
        return third + known

    found = eval("known + 1")
    third = 5
    return x + later(), found


@pytest.mark.may_break
@pytest.mark.parametrize(
    "program", [names_now, names_after_a_break, names_of_a_called_function, names_of_the_frame, text_that_reads]
)
def test_names_as_in_python(program, capsys):
    expected, said = program(X), capsys.readouterr().out
    fast = compiled(program)
    for _ in range(2):
        found = fast(X)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
        assert capsys.readouterr().out == said


def names_asked_before_a_break(x, model, given=2):
    if given > 5:
        given = len(locals())
    model.eval()
    print("said")
    third = given + 1

    def later():
        return third + given

    return x * later() + model(x)


@pytest.mark.may_break
def test_what_lists_no_names_any_more_is_compiled(capsys):
    model = torch.nn.Linear(2, 2)
    fast = compiled(names_asked_before_a_break)
    for _ in range(2):
        assert torch.equal(fast(X, model), names_asked_before_a_break(X, model))
    assert len(fast.graphs) == 1


def test_a_part_of_torch_that_a_function_of_torchs_loads_at_its_first_call(monkeypatch):
    """As `torch.save` does: no break that only a process's first call has."""
    import torch.utils.serialization  # noqa: F401

    monkeypatch.delitem(sys.modules, "torch.utils.serialization")

    def loads(x):
        from torch.utils.serialization import config

        return x + (1 if config is not None else 2)

    function = types.FunctionType(loads.__code__, vars(torch.serialization))
    assert dynascope.compile(lambda x: function(x) * 2, backend="eager")(torch.ones(2)).tolist() == [4.0, 4.0]
