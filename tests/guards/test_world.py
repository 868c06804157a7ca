"""Names of namespaces, checked by version: the C program and the reference in Python agree after every kind of change."""

import types

import pytest
from dynascope.frame import hook
from dynascope.guards.check import compile_guards
from dynascope.guards.failure import explain_failure
from dynascope.guards.guard import Guard
from dynascope.guards.source import FrameValues
from dynascope.guards.state_calls import CallReturns
from dynascope.guards.world import ABSENT, WorldIs, WorldLog, look_up


def function():
    return None


VALUES = FrameValues({}, globals(), vars(__import__("builtins")))


class Checked:
    """The guard over what was noted, asked in C and in Python."""

    def __init__(self, *notes):
        log = WorldLog()
        for space, name in notes:
            log.note(space, name, look_up(space, name))
        self.guard = Guard((), WorldIs(log.spaces()))
        self.program = compile_guards([self.guard], function.__code__)

    def holds(self):
        answers = {self.guard.holds(VALUES), explain_failure([self.guard], VALUES) is None}
        if hook.is_native():
            # Twice: the second time by version alone, if the first one held.
            answers |= {self.program.holds((), function), self.program.holds((), function)}
        assert len(answers) == 1, (self.guard.describe(), answers)
        return answers.pop()


def module():
    made = types.ModuleType("a_library")
    exec("def f(x): return x\nPI = 3.5\nNAMES = ['a']", made.__dict__)
    return made


def test_a_name_of_a_module_is_replaced_and_put_back():
    library = module()
    before, checked = library.f, Checked((vars(library), "f"))
    assert checked.holds() and checked.holds()
    library.f = lambda x: -x
    assert not checked.holds() and not checked.holds()
    library.f = before
    assert checked.holds()
    del library.f
    assert not checked.holds()


def test_other_names_may_change():
    library = module()
    checked = Checked((vars(library), "f"), (vars(library), "PI"), (vars(library), "absent"))
    for number in range(5):
        library.counter = number
        assert checked.holds()
    library.absent = 1
    assert not checked.holds()


@pytest.mark.parametrize("value, equal", [(3.5, True), (float("3.5"), True), (3, False), ("3.5", False), (None, False)])
def test_constants_are_compared_by_value(value, equal):
    library = module()
    checked = Checked((vars(library), "PI"))
    library.PI = value
    assert checked.holds() is equal


def test_negative_zero_is_another_constant():
    library = module()
    library.PI = 0.0
    checked = Checked((vars(library), "PI"))
    library.PI = -0.0
    assert not checked.holds()


def test_objects_are_compared_by_identity():
    library = module()
    checked = Checked((vars(library), "NAMES"))
    assert checked.holds()
    library.NAMES = ["a"]
    assert not checked.holds()


class Base:
    def method(self):
        return 1


class Derived(Base):
    value = 3


def test_a_class_sees_its_bases(monkeypatch):
    checked = Checked((Derived, "method"), (Derived, "absent"))
    assert checked.holds()
    monkeypatch.setattr(Derived, "value", 4)
    assert checked.holds()
    monkeypatch.setattr(Base, "method", lambda self: 2)
    assert not checked.holds()
    monkeypatch.undo()
    assert checked.holds()
    monkeypatch.setattr(Derived, "method", lambda self: 3, raising=False)
    assert not checked.holds()
    monkeypatch.undo()
    assert checked.holds()
    monkeypatch.setattr(Base, "absent", None, raising=False)
    assert not checked.holds()


def test_bases_are_exchanged():
    class Other:
        def method(self):
            return 5

    class One(Base):
        pass

    class Two(One):
        pass

    checked = Checked((Two, "method"))
    assert checked.holds()
    One.__bases__ = (Other,)
    assert not checked.holds()
    One.__bases__ = (Base,)
    assert checked.holds()


def test_bases_come_in_another_order():
    """The name leads where it led; what `super()` finds behind it does not."""

    class Other(Base):
        def method(self):
            return 5

    class Another(Base):
        def method(self):
            return 6

    class Last(Other, Another):
        def method(self):
            return super().method()

    checked = Checked((Last, "method"))
    assert checked.holds()
    Last.__bases__ = (Another, Other)
    assert not checked.holds()
    Last.__bases__ = (Other, Another)
    assert checked.holds()
    Other.__bases__ = (Derived,)
    assert not checked.holds()


def test_a_class_that_changes_all_the_time():
    class Counted(Base):
        calls = 0

    checked = Checked((Counted, "method"))
    for _ in range(3000):
        Counted.calls += 1
        assert checked.program.holds((), function)
    Counted.method = None
    assert not checked.holds()


def test_dictionary_operations_of_every_kind():
    library = module()
    names = vars(library)
    checked = Checked((names, "f"))
    for change in (
        lambda: names.update(other=1),
        lambda: names.pop("other"),
        lambda: names.setdefault("more", 1),
        lambda: names.__setitem__("f", names["f"]),
        lambda: names.__ior__({"y": 2}),
        lambda: [names.__setitem__(f"n{i}", i) for i in range(200)],
    ):
        change()
        assert checked.holds()
    kept = dict(names)
    names.clear()
    assert not checked.holds()
    names.update(kept)
    assert checked.holds()


def test_keys_that_are_no_strings():
    library = module()
    names = vars(library)
    checked = Checked((names, "f"))
    assert checked.holds()
    names[1] = 2
    answer = checked.guard.holds(VALUES)
    # The C check may refuse what it cannot answer without running code; it may not say that the guard holds.
    assert answer
    names["f"] = None
    assert not checked.holds()


def test_classes_that_nobody_can_change_are_not_noted():
    log = WorldLog()
    log.note(int, "__add__", int.__add__)
    log.note(dict, "absent", ABSENT)
    assert log.spaces() == ()


def test_many_programs_over_one_dictionary_come_and_go():
    library = module()
    checks = [Checked((vars(library), "f")) for _ in range(50)]
    assert all(check.holds() for check in checks)
    del checks[::2]
    library.f = None
    assert not any(check.holds() for check in checks)
    del checks[:]
    library.f = 1
    assert Checked((vars(library), "f")).holds()


def test_nothing_noted_is_kept_alive():
    import gc
    import weakref

    library = module()
    library.f = lambda x: x
    gone = weakref.ref(library.f)
    checked = Checked((vars(library), "f"))
    library.f = None
    gc.collect()
    assert gone() is None and not checked.holds()


def test_words():
    library = module()
    checked = Checked((vars(library), "f"), (Derived, "method"))
    assert checked.guard.describe() == "Derived, a_library: nothing in them was replaced (2 names looked up)"
    library.f, kept = len, library.f  # kept alive, so that it has a name
    assert checked.guard.failure(VALUES) == "`a_library.f` is another one (the function len), and was the function f"
    assert kept is not None


def test_what_a_function_returns():
    cells = iter([1, 1, 2, 2, 2])
    guard = Guard((), CallReturns(cells.__next__, 1))
    assert guard.holds(VALUES)
    program = compile_guards([guard], function.__code__)
    if hook.is_native():
        assert program.holds((), function) and not program.holds((), function)
    assert guard.describe() == "`__next__()` is 1"
