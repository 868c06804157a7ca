"""`locals()` of a function that is called inside, `hash` of objects with their own `__hash__`, `in` of constants whose class says it."""

import dataclasses
import enum

import dynascope
import pytest
import torch

X = torch.ones(2)


class Settings:
    def __init__(self, one, two, *, three=3):
        four = one + 1
        self.__dict__.update(locals())
        del self.__dict__["self"]


def described(one, two):
    total = one + two
    return "{one}-{total}".format(**locals())


def of_cells(kept):
    def inner(given):
        found = kept + given
        return locals()

    before = locals()
    kept = 7
    return inner(1), before["kept"], list(before)


def unbound(one):
    if one > 5:
        two = 2
    return locals()


def variables(x):
    settings = Settings(1, x)
    return x * settings.four + settings.two, list(vars(settings)), described(1, 2), unbound(1), of_cells(5)[0], of_cells(5)[1:2]


class Permission(enum.IntFlag):
    READ = 1
    WRITE = 2


class Mode(enum.Enum):
    TRAIN = "train"


@dataclasses.dataclass(frozen=True)
class Frozen:
    one: int = 1
    two: str = "x"


class Hashed:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return self.value


def members(x, given):
    flags = [Permission.WRITE in given, Mode.TRAIN in Mode, hash(Frozen()) == hash((1, "x"))]
    return x * 2, flags + [hash(Hashed(value)) for value in (5, -1, True, 2**61 - 1, 2**63, -(2**70))]


@pytest.mark.parametrize("function, given", [(variables, ()), (members, (Permission.READ,)), (members, (Permission(3),))])
def test_as_in_python(function, given):
    expected, found = function(X, *given), dynascope.compile(function, fullgraph=True)(X, *given)
    assert torch.equal(found[0], expected[0])
    assert found[1:] == expected[1:]


def asked_in_a_loop(x):
    def inner():
        for _ in range(2):
            found = locals()
        return sorted(found)

    return x * 2, inner()


def in_the_function_itself(x):
    y = x * 2
    return y, sorted(locals())


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("function", [asked_in_a_loop, in_the_function_itself])
def test_left_to_python(function):
    expected, found = function(X), dynascope.compile(function)(X)
    assert torch.equal(found[0], expected[0])
    assert found[1] == expected[1]


NAMED = 1


def a_variable():
    held = 1

    def program(x):
        try:
            found = held
        except NameError:
            found = "nothing"
        return x + 1, found

    def drop():
        nonlocal held
        del held

    return program, drop


def a_name_of_the_module():
    def program(x):
        try:
            found = NAMED
        except NameError:
            found = "nothing"
        return x + 1, found

    def drop():
        global NAMED
        del NAMED

    return program, drop


@pytest.mark.parametrize("make", [a_variable, a_name_of_the_module])
def test_a_name_that_is_only_handed_on_is_gone_at_a_later_call(make):
    program, drop = make()
    compiled = dynascope.compile(program, backend="eager")
    assert compiled(torch.ones(1))[1] == 1
    drop()
    assert compiled(torch.ones(1))[1] == program(torch.ones(1))[1] == "nothing"


class WithDefault:
    held = 5


class Answering:
    def __getattr__(self, name):
        return name


@pytest.mark.parametrize("kind", [WithDefault, Answering, type("Plain", (), {}), torch.nn.Module])
def test_an_attribute_that_is_only_handed_on_is_gone_at_a_later_call(kind):
    def program(x, log):
        log.append("called")
        return x + 1, thing.held

    def after_calls(function):
        thing.held, log = torch.nn.Parameter(torch.ones(1)), []
        function(torch.ones(1), log)
        del thing.held
        try:
            return function(torch.ones(1), log)[1], log
        except AttributeError as error:
            return str(error), log

    thing = kind()
    assert after_calls(dynascope.compile(program, backend="eager")) == after_calls(program)
