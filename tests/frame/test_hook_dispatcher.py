"""The dispatcher: who serves a call, that arguments bind as Python binds them, and that nothing is kept alive."""

import contextlib
import copy
import gc
import inspect
import itertools
import pickle
import sys
import threading
import types
import weakref

import pytest
from dynascope.frame import hook, hook_fallback
from dynascope.frame.hook import OPERATIONS, Entry, EntryTable, GuardProgram
from dynascope.frame.versions import KNOWS_FRAMES

pytestmark = [pytest.mark.compiler, pytest.mark.skipif(not KNOWS_FRAMES, reason="the fallback serves here")]


def parameters(code):
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


def always(code):
    return GuardProgram(parameters(code), [])


def type_is(code, slot, kind):
    return GuardProgram(parameters(code), [(OPERATIONS["CHECK_TYPE"], slot, 0, kind)])


def entry(function, program=None, owner=None):
    return Entry(program or always(function.__code__), function.__code__, owner)


def compiled(original, specialised, program=None, on_miss=None):
    table = EntryTable(original.__code__, on_miss)
    table.add(entry(specialised, program))
    return table.bind(original)


@pytest.fixture(autouse=True)
def values_as_namespaces():
    def values(*parts):
        return types.SimpleNamespace(**dict(zip(("locals", "globals", "builtins", "cells", "variables"), parts, strict=True)))

    hook.use_values(values)
    hook_fallback.use_values(values)


def test_the_first_entry_that_holds_serves():
    def original(a):
        return "original"

    def of_int(a):
        return "int"

    def of_any(a):
        return "any"

    table = EntryTable(original.__code__)
    first = entry(of_int, type_is(of_int.__code__, 0, int))
    table.add(first)
    call = table.bind(original)
    assert (call(1), call("x"), first.hits) == ("int", "original", 1)
    table.add(entry(of_any))
    assert (call(1), call("x")) == ("int", "any")
    table.remove(first)
    assert call(1) == "any"
    table.clear()
    assert call(1) == "original" and table.entries == ()


SIGNATURES = [
    "a", "a, b", "a, b=2", "a=1, b=2", "a, /, b", "a, /, b=2", "a, *, b", "a, *, b=2", "a, *rest", "a=1, *rest, b=2",
    "*rest", "**more", "a, **more", "a, /, **more", "a, b=2, *rest, c, d=4, **more", "", "*, a=1", "a, b, /, *, c, d=4",
    ", ".join(f"p{i}" for i in range(20)) + ", *rest, **more",
]  # fmt: skip
CALLS = [
    args_and_keywords
    for count in (0, 1, 2, 3, 22)
    for names in ((), ("a",), ("b",), ("a", "b"), ("b", "c"), ("c", "d", "e"), ("z",))
    for args_and_keywords in [(tuple(range(count)), {name: name.upper() for name in names})]
]


@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("kinds", [hook, hook_fallback], ids=["native", "fallback"])
def test_arguments_bind_as_python_binds_them(signature, kinds):
    names = {}
    exec(f"def f({signature}): return ('original', locals())", names)
    original = names["f"]
    exec(f"def f({signature}): return ('compiled', locals())", names)
    seen = []
    table = kinds.EntryTable(original.__code__, lambda table, function, values: seen.append(values.locals))
    call = table.bind(original)
    serving = kinds.EntryTable(original.__code__)
    program = always(names["f"].__code__) if kinds is hook else kinds.GuardProgram(0, lambda values: True)
    serving.add(kinds.Entry(program, names["f"].__code__))
    for args, keywords in CALLS:
        seen.clear()
        try:
            expected = original(*args, **keywords)[1]
        except TypeError as error:
            for attempt in (call, serving.bind(original)):
                with pytest.raises(TypeError) as caught:
                    attempt(*args, **keywords)
                assert str(caught.value) == str(error)
            assert seen == []
        else:
            assert call(*args, **keywords) == ("original", expected)
            assert [dict(values) for values in seen] == [expected]
            assert serving.bind(original)(*args, **keywords) == ("compiled", expected)
            assert serving(original, *args, **keywords) == ("compiled", expected)


def serving(kinds, original, specialised):
    table = kinds.EntryTable(original.__code__)
    program = always(specialised.__code__) if kinds is hook else kinds.GuardProgram(0, lambda values: True)
    table.add(kinds.Entry(program, specialised.__code__))
    return table.bind(original)


KINDS = pytest.mark.parametrize("kinds", [hook, hook_fallback], ids=["native", "fallback"])


@KINDS
def test_tail_calls_take_the_place_of_frames(kinds):
    def countdown(n):
        return (n, depth()) if n == 0 else kinds.tail_call(again, n - 1)

    def depth():
        frame, count = sys._getframe(), 0
        while frame is not None:
            frame, count = frame.f_back, count + (frame.f_code is countdown.__code__)
        return count

    again = kinds.EntryTable(countdown.__code__).bind(countdown)
    assert again(5) == (0, 1)
    assert again(5000) == (0, 1)
    assert kinds.complete(countdown, 5) == (0, 1)


@KINDS
def test_tail_calls_release_what_they_held(kinds):
    class Token:
        pass

    def last(token):
        return None

    def first(token):
        return kinds.tail_call(last, token)

    token = Token()
    alive = weakref.ref(token)
    kinds.complete(first, token)
    del token
    assert alive() is None
    with pytest.raises(TypeError):
        kinds.tail_call()


@KINDS
def test_what_runs_as_written_gets_the_same_arguments(kinds):
    def original(a, /, b, *rest, c=4, **more):
        return sys._getframe().f_back.f_code.co_name, a, b, rest, c, more

    def specialised(a, /, b, *rest, c=4, **more):
        del a, b, rest, more
        return AS_WRITTEN  # noqa: F821 (a global of the function that is made of the code)

    table = kinds.EntryTable(original.__code__)
    program = always(specialised.__code__) if kinds is hook else kinds.GuardProgram(0, lambda values: True)
    table.add(kinds.Entry(program, specialised.__code__))
    model = types.FunctionType(original.__code__, {**globals(), "AS_WRITTEN": kinds.AS_WRITTEN})
    model.__kwdefaults__ = {"c": 4}
    found = table.bind(model)(1, 2, 3, d=5)
    assert found[1:] == (1, 2, (3,), 4, {"d": 5})
    if kinds is hook:
        assert found[0] == "test_what_runs_as_written_gets_the_same_arguments"


@KINDS
@pytest.mark.parametrize("follow", ["settrace", "setprofile"])
def test_a_traced_call_runs_as_it_was_written(kinds, follow):
    def original(a):
        return "original"

    def specialised(a):
        return "compiled"

    call = serving(kinds, original, specialised)
    before = getattr(sys, follow.replace("set", "get"))()
    getattr(sys, follow)(lambda *event: None)
    try:
        traced = call(1)
    finally:
        getattr(sys, follow)(before)
    assert (traced, call(1)) == ("original", "compiled")


def test_a_profiler_in_c_sees_the_compiled_code():
    import cProfile

    def original(a):
        return "original"

    def specialised(a):
        return "compiled"

    call = serving(hook, original, specialised)
    profiler = cProfile.Profile()
    assert profiler.runcall(call, 1) == "compiled"


def test_names_that_are_equal_but_not_interned_still_bind():
    def original(first, second):
        return second

    call = compiled(original, original, type_is(original.__code__, 1, int))
    assert call(1, **{"".join(["sec", "ond"]): 5}) == 5


def test_changed_defaults_are_honoured():
    def original(a=1, *, b=2):
        return None

    def specialised(a=1, *, b=2):
        return a, b

    call = compiled(original, specialised)
    assert call() == (1, 2)
    original.__defaults__ = (10,)
    original.__kwdefaults__ = {"b": 20}
    assert call() == (10, 20)
    original.__kwdefaults__["b"] = 30
    assert call() == (10, 30)


def test_a_function_that_got_another_code_is_left_alone():
    def original():
        return 1

    def specialised():
        return 2

    def other():
        return 3

    call = compiled(original, specialised)
    original.__code__ = other.__code__
    assert call() == 3


def test_a_miss_is_reported_with_the_values_and_may_give_an_entry():
    shared = "cell"

    def original(a, *rest, **more):
        return shared

    def specialised(a, *rest, **more):
        return shared, "specialised"

    def on_miss(table, function, values):
        assert function is original and hook.is_suspended()
        assert values.locals == {"a": 1, "rest": (2,), "more": {"k": 3}}
        assert values.cells["shared"] == "cell" and values.globals is globals()
        assert values.builtins["len"] is len
        return entry(specialised)

    assert EntryTable(original.__code__, on_miss).bind(original)(1, 2, k=3) == ("cell", "specialised")


def test_what_on_miss_raises_reaches_the_caller():
    def original():
        return 1

    def on_miss(table, function, values):
        raise LookupError("full graph")

    with pytest.raises(LookupError, match="full graph"):
        EntryTable(original.__code__, on_miss).bind(original)()


def test_on_miss_must_answer_with_a_fitting_entry():
    def original():
        return 1

    def unfit(a):
        return 2

    for answer in (5, entry(unfit)):
        with pytest.raises(TypeError, match="on_miss"):
            EntryTable(original.__code__, lambda *_, answer=answer: answer).bind(original)()
    with pytest.raises(TypeError):
        EntryTable(original.__code__).add(entry(unfit))


def test_giving_up_reports_no_more_misses():
    def original():
        return 1

    misses = []
    table = EntryTable(original.__code__, lambda *_: misses.append(1))
    call = table.bind(original)
    call()
    table.give_up()
    assert call() == 1 and misses == [1]


def test_suspension_runs_the_original():
    def original():
        return 1

    def specialised():
        return 2

    call = compiled(original, specialised)
    with hook.suspended():
        assert call() == 1
        with hook.suspended():
            pass
        assert call() == 1
    assert call() == 2


def test_methods_bind():
    class Model:
        def forward(self, x):
            return "original"

    def forward(self, x):
        return self, x

    Model.forward = compiled(Model.forward, forward)
    model = Model()
    assert model.forward(1) == (model, 1) == Model.forward(model, 1) == Model.forward(model, x=1)
    bound = model.forward
    assert bound.__self__ is model and bound(2) == (model, 2)
    assert inspect.signature(model.forward) == inspect.Signature([inspect.Parameter("x", 1)])


def documented(a: int, b=2):
    """Words."""
    return a


documented.mark = "kept"


def test_a_dispatcher_looks_like_its_function():
    call = EntryTable(documented.__code__).bind(documented)
    for name in (
        "__name__",
        "__qualname__",
        "__module__",
        "__doc__",
        "__annotations__",
        "__defaults__",
        "mark",
        "__code__",
    ):
        assert getattr(call, name) == getattr(documented, name), name
    assert call.__wrapped__ is documented and inspect.signature(call) == inspect.signature(documented)
    assert inspect.getsource(call) == inspect.getsource(documented)
    assert "documented" in repr(call) and callable(call)
    call.own = 1
    assert call.own == 1 and not hasattr(documented, "own")
    assert copy.deepcopy(call) is call and copy.copy(call) is call
    with pytest.raises(AttributeError):
        call.missing  # noqa: B018
    assert weakref.ref(call)() is call


def test_pickling_goes_by_name(monkeypatch):
    call = EntryTable(documented.__code__).bind(documented)
    monkeypatch.setitem(globals(), "documented", call)
    assert pickle.loads(pickle.dumps(call)) is call


def test_closures_are_each_functions_own():
    def make(value):
        def original():
            return value

        return original

    def make_specialised(value):
        def specialised():
            return value, "specialised"

        return specialised

    table = EntryTable(make(0).__code__)
    table.add(entry(make_specialised(0)))
    calls = [table.bind(make(i)) for i in range(3)]
    assert [call() for call in calls * 2] == [(i, "specialised") for i in (0, 1, 2)] * 2
    assert table(make(7)) == (7, "specialised")


def test_recursion_through_the_dispatcher():
    def original(n):
        return 0 if n == 0 else 1 + call(n - 1)

    def specialised(n):
        return 0 if n == 0 else 1 + call(n - 1)

    call = compiled(original, specialised)
    depth = sys.getrecursionlimit() * 2 // 5
    assert call(depth) == depth
    with pytest.raises(RecursionError):
        call(10**6)


def test_entries_may_change_while_they_run():
    def original(n):
        return "original" if table and call else None

    def specialised(n):
        table.clear()
        gc.collect()
        return n, call(n)

    table = EntryTable(original.__code__)
    table.add(entry(specialised))
    call = table.bind(original)
    assert call(1) == (1, "original")


def test_guards_that_raise_do_not_hold():
    def original(a):
        return "original"

    def raises(value):
        raise ValueError(value)

    program = GuardProgram(1, [(OPERATIONS["CHECK_PYTHON"], 0, 0, (raises, 0))])
    assert compiled(original, lambda a: "compiled", program)(1) == "original"


def test_a_handled_exception_stays_the_current_one():
    def original(a):
        return sys.exc_info()[1]

    program = GuardProgram(1, [(OPERATIONS["CHECK_NO_ATTRIBUTE"], 0, 0, "missing")])
    call = compiled(original, original, program)
    try:
        raise KeyError("mine")
    except KeyError as error:
        assert call(1) is error


def test_exceptions_of_compiled_code_are_the_users():
    def original(a):
        return 1

    def specialised(a):
        raise LookupError(a)

    with pytest.raises(LookupError) as caught:
        compiled(original, specialised)(3)
    assert [frame.name for frame in caught.traceback][-1] == "specialised" and caught.value.args == (3,)


def test_threads_may_call_and_change_at_once():
    def original(a):
        return a

    def specialised(a):
        return a

    table = EntryTable(original.__code__)
    call = table.bind(original)
    wrong = []

    def work():
        for i in range(3000):
            if i % 10 == 0:
                table.add(entry(specialised, type_is(specialised.__code__, 0, int)))
            if i % 100 == 0:
                table.clear()
            if call(i) != i or call(a="x") != "x":
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_reference_is_leaked():
    class Token:
        pass

    def original(a, b=None, *rest, c=None, **more):
        return None

    def specialised(a, b=None, *rest, c=None, **more):
        return None

    table = EntryTable(original.__code__, lambda table, function, values: None)
    table.add(entry(specialised, type_is(specialised.__code__, 0, Token)))
    call = table.bind(original)
    tokens = [Token() for _ in range(5)]

    def use():
        a, b, c, d, e = tokens
        call(a)
        call(a, b, c, c=d, e=e)
        call(1, b, c, c=d, e=e)
        table(original, a, b)
        for wrong in ({"b": a}, {"a": a}):
            with contextlib.suppress(TypeError):
                call(a, b, **wrong)

    use()
    before = [sys.getrefcount(thing) for thing in (*tokens, original, specialised.__code__, table, None.__class__)]
    for _ in range(50):
        use()
    assert [
        sys.getrefcount(thing) for thing in (*tokens, original, specialised.__code__, table, None.__class__)
    ] == before


def test_everything_is_freed_with_the_function():
    class Owner:
        pass

    def build():
        token = Owner()

        def original(a):
            return token

        def specialised(a):
            return token

        owner = Owner()
        table = EntryTable(original.__code__, lambda *_: table)
        table.add(Entry(always(specialised.__code__), specialised.__code__, owner))
        call = table.bind(original)
        owner.call = call
        call.itself = call
        call(1)
        return [weakref.ref(thing) for thing in (table, call, owner, token)]

    references = build()
    gc.collect()
    assert [reference() for reference in references] == [None] * 4


@pytest.mark.parametrize(
    "row", [(99, 0, 0, None), (OPERATIONS.get("CHECK_TYPE"), 5, 0, int), (OPERATIONS.get("CHECK_TYPE"), -1, 0, int)]
)
def test_programs_that_read_nowhere_are_refused(row):
    with pytest.raises(ValueError):
        GuardProgram(1, [row])


def run(rows, *slots, function=lambda: None):
    return GuardProgram(len(slots), [(OPERATIONS[row[0]], *row[1:]) for row in rows]).holds(slots, function)


class Base:
    shared = 1

    def __init__(self):
        self.own = 2


LOADS = [
    ("LOAD_ATTRIBUTE", Base(), "shared", 0, 1),
    ("LOAD_DICTIONARY_ATTRIBUTE", Base(), "own", 0, 2),
    ("LOAD_DICTIONARY_ATTRIBUTE", Base, "shared", 0, 1),
    ("LOAD_DICTIONARY_ATTRIBUTE", types, "__name__", 0, "types"),
    ("LOAD_KEY", {"k": 3}, "k", 0, 3),
    ("LOAD_ITEM", [4, 5], -1, 0, 5),
    ("LOAD_ITEM", (4, 5), 0, 0, 4),
    ("LOAD_ITEM", "text", 1, 0, "e"),
    ("LOAD_GLOBAL", None, "LIMIT", 0, 9),
    ("LOAD_GLOBAL", None, "len", 0, len),
    ("LOAD_MODULE_GLOBAL", None, ("itertools", "count"), 0, itertools.count),
    ("LOAD_CONSTANT", None, "c", 0, "c"),
]  # fmt: skip
LIMIT = 9


@pytest.mark.parametrize("operation, base, operand, number, expected", LOADS)
def test_loads(operation, base, operand, number, expected):
    assert run([(operation, 0, number, operand), ("CHECK_EQUAL", -1, 0, expected)], base)
    assert not run([(operation, 0, number, operand), ("CHECK_EQUAL", -1, 0, "another")], base)


@pytest.mark.parametrize(
    "operation, base, operand, number",
    [
        ("LOAD_ATTRIBUTE", Base(), "missing", 0), ("LOAD_DICTIONARY_ATTRIBUTE", Base(), "shared", 0),
        ("LOAD_DICTIONARY_ATTRIBUTE", 5, "x", 0), ("LOAD_KEY", {}, "k", 0), ("LOAD_KEY", [], "k", 0),
        ("LOAD_ITEM", [], 0, 0), ("LOAD_ITEM", (1,), -2, 0), ("LOAD_ITEM", {}, 0, 0), ("LOAD_ITEM", [1], 10**30, 0),
        ("LOAD_GLOBAL", None, "missing", 0), ("LOAD_MODULE_GLOBAL", None, ("no such module", "x"), 0),
        ("LOAD_CELL", None, None, 0),
    ],
)  # fmt: skip
def test_places_that_do_not_exist_do_not_hold(operation, base, operand, number):
    assert not run([(operation, 0, number, operand)], base)


CONSTANTS = [
    *(0, 1, True, False, 1.0, 0.0, -0.0, float("nan"), 1 + 0j, complex(0.0, -0.0), "1", b"1", None, ..., 10**30),
    *((), (1,), (1.0,), (True,), ((1,), "x"), ((1.0,), "x"), [1], range(3), "longer text"),
]


@pytest.mark.parametrize("left", range(len(CONSTANTS)))
def test_constants_are_equal_to_themselves_alone(left):
    held = [run([("CHECK_EQUAL", 0, 0, CONSTANTS[left])], pickle.loads(pickle.dumps(right))) for right in CONSTANTS]
    assert held == [left == right for right in range(len(CONSTANTS))]


def test_a_dead_weak_identity_never_holds():
    thing = Base()
    row = ("CHECK_WEAK_IDENTITY", 0, 0, weakref.ref(thing))
    assert run([row], thing) and not run([row], Base())
    del thing
    assert not run([row], None)


def test_dictionaries_are_compared_by_keys_in_order():
    row = ("CHECK_KEYS", 0, 0, ("a", 1))
    assert run([row], {"a": 0, 1: 0})
    for other in ({1: 0, "a": 0}, {"a": 0, True: 0}, {"a": 0}, {"a": 0, 1: 0, 2: 0}, [], None):
        assert not run([row], other)
    assert run([("CHECK_NO_KEY", 0, 0, "b")], {"a": 0}) and not run([("CHECK_NO_KEY", 0, 0, "a")], {"a": 0})


def test_many_registers():
    rows = [("LOAD_ITEM", 0, 0, i) for i in range(300)]
    assert run([*rows, ("CHECK_EQUAL", ~299, 0, 299)], list(range(300)))
