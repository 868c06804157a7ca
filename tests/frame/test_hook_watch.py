"""The PEP 523 hook: frames of chosen codes are served wherever they are called from, and no other frame notices."""

import asyncio
import contextlib
import functools
import gc
import inspect
import subprocess
import sys
import threading
import traceback
import types

import pytest
from dynascope.frame import hook
from dynascope.frame.hook import OPERATIONS, Entry, EntryTable, GuardProgram

pytestmark = [pytest.mark.compiler, pytest.mark.skipif(not hook.is_native(), reason="the C hook could not be built")]


@pytest.fixture(autouse=True)
def watch_nothing_afterwards():
    hook.use_values(lambda locals, globals, builtins, cells, variables: types.SimpleNamespace(locals=locals, cells=cells))
    yield
    hook.unwatch()
    assert not hook.foreign_evaluator()


def parameters(code):
    return code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)


def always(code):
    return GuardProgram(parameters(code), [])


def table_with(original, code, program=None):
    table = EntryTable(original.__code__)
    table.add(Entry(program or always(code), code))
    return table


def serve(original, specialised, program=None):
    """A chooser that serves one function with the code of another."""
    table = table_with(original, specialised.__code__, program)
    return lambda function: table if function.__code__ is original.__code__ else None


def watched(choose, call, *args, **keywords):
    hook.watch(choose)
    try:
        return call(*args, **keywords)
    finally:
        hook.unwatch()


def plain(a, b=2, *rest, c=3, **more):
    return "original"


def many_locals(a, b=2, *rest, c=3, **more):
    x, y, z = a, b, c
    values = [x, y, z, *rest]
    first, *others = values
    total = sum(value for value in values)
    return "specialised", first, others, total, more


def test_frames_are_served_from_python_and_from_c():
    choose = serve(plain, many_locals)
    wanted = ("specialised", 1, [2, 3], 6, {})
    assert watched(choose, lambda: plain(1)) == wanted
    assert watched(choose, lambda: list(map(plain, [1, 1]))) == [wanted] * 2
    assert watched(choose, lambda: sorted([1], key=plain)) == [1]
    assert watched(choose, lambda: functools.partial(plain, 1)()) == wanted
    assert plain(1) == "original"


def test_every_way_to_pass_arguments():
    choose = serve(plain, many_locals)
    assert watched(choose, lambda: plain(1, 2, 4, 5, c=6, d=7)) == ("specialised", 1, [2, 6, 4, 5], 18, {"d": 7})
    assert watched(choose, lambda: plain(*[1], **{"b": 5})) == ("specialised", 1, [5, 3], 9, {})


def test_guards_choose_and_misses_are_reported():
    check = GuardProgram(5, [(OPERATIONS["CHECK_TYPE"], 0, 0, int)])
    table = table_with(plain, many_locals.__code__, check)
    missed = []
    table.on_miss = lambda table, function, values: missed.append((function, values.locals))
    hook.forget(plain.__code__)
    choose = lambda function: table if function is plain else None  # noqa: E731
    assert watched(choose, lambda: (plain(1)[0], plain("a"))) == ("specialised", "original")
    assert missed == [(plain, {"a": "a", "b": 2, "rest": (), "c": 3, "more": {}})]
    hook.forget(plain.__code__)


def test_on_miss_gives_the_entry_at_once():
    def original(a):
        return "original"

    def specialised(a):
        return "specialised", a

    table = EntryTable(original.__code__, lambda *_: Entry(always(specialised.__code__), specialised.__code__))
    assert watched(lambda function: table if function is original else None, lambda: original(1)) == ("specialised", 1)


def test_what_on_miss_raises_reaches_the_caller_with_the_right_place():
    def original(a):
        return a

    def on_miss(*_):
        raise LookupError("full graph")

    table = EntryTable(original.__code__, on_miss)
    for _ in range(3):
        with pytest.raises(LookupError, match="full graph") as caught:
            watched(lambda function: table if function is original else None, lambda: original(object()))
        assert "on_miss" in [frame.name for frame in caught.traceback]
    assert original(1) == 1


def test_choosing_happens_once_for_a_code():
    asked = []

    def original():
        return 1

    def choose(function):
        asked.append(function)

    watched(choose, lambda: [original() for _ in range(5)])
    assert asked.count(original) == 1


def test_choose_that_raises_is_shown_and_the_program_goes_on(monkeypatch):
    def original():
        return 1

    shown = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: shown.append(report.exc_type))

    def choose(function):
        raise ArithmeticError

    assert watched(choose, lambda: original()) == 1
    assert ArithmeticError in shown


def test_suspension_serves_nothing():
    def original():
        return 1

    def specialised():
        return 2

    def call():
        with hook.suspended():
            suspended = original()
        return suspended, original()

    assert watched(serve(original, specialised), call) == (1, 2)


def test_closures_cells_and_super():
    outer = "outer"

    class Base:
        def value(self):
            return "base"

    class Derived(Base):
        def value(self, shared):
            def inner():
                return shared, outer

            return super().value(), inner()

    code = Derived.value.__code__
    table = table_with(Derived.value, code.replace(co_stacksize=code.co_stacksize + 7))
    choose = lambda function: table if function.__code__ is code else None  # noqa: E731
    assert watched(choose, lambda: Derived().value("shared")) == ("base", ("shared", "outer"))


def test_deep_recursion_reaches_the_users_limit():
    def original(n):
        return 0 if n == 0 else original(n - 1) + 1

    bigger = original.__code__.replace(co_stacksize=original.__code__.co_stacksize + 3)
    table = table_with(original, bigger)
    choose = lambda function: table if function is original else None  # noqa: E731
    used = len(inspect.stack())
    depth = sys.getrecursionlimit() - used - 20
    assert watched(choose, lambda: original(depth)) == depth

    def forever(n):
        return forever(n + 1)

    with pytest.raises(RecursionError):
        watched(choose, lambda: forever(0))
    assert watched(choose, lambda: original(depth)) == depth


def test_a_full_stack_chunk_takes_the_slow_way():
    def original(n):
        return 0 if n == 0 else original(n - 1) + 1

    def make(n):
        return None

    # A frame much larger than the original's: again and again there is no room for it in the chunk.
    bigger = original.__code__.replace(co_stacksize=500)
    table = table_with(original, bigger)
    assert watched(lambda function: table if function is original else None, lambda: original(400)) == 400


def test_exceptions_pass_through_swapped_frames():
    def original(n):
        if n == 0:
            raise KeyError("bottom")
        try:
            return original(n - 1)
        finally:
            unwound.append(n)

    unwound = []
    table = table_with(original, original.__code__.replace(co_stacksize=40))
    with pytest.raises(KeyError) as caught:
        watched(lambda function: table if function is original else None, lambda: original(5))
    assert unwound == [1, 2, 3, 4, 5]
    first = original.__code__.co_firstlineno
    lines = [  # noqa: E501
        frame.lineno - first for frame in traceback.extract_tb(caught.value.__traceback__) if frame.name == "original"
    ]
    assert lines == [4, 4, 4, 4, 4, 2]


def test_generators_and_coroutines_are_called_not_swapped():
    def original(n):
        received = yield n
        yield received

    def specialised(n):
        local_one, local_two = n * 10, n * 100
        received = yield local_one
        yield received, local_two
        return "done"

    def use():
        generator = original(3)
        return next(generator), generator.send("sent"), list(generator), list(original(1))

    assert watched(serve(original, specialised), use) == (30, ("sent", 300), [], [10, (None, 100)])

    async def coroutine(n):
        return n

    async def specialised_coroutine(n):
        await asyncio.sleep(0)
        return n * 2

    choose = serve(coroutine, specialised_coroutine)
    assert watched(choose, lambda: asyncio.run(coroutine(4))) == 8

    async def stream(n):
        yield n

    async def specialised_stream(n):
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def collect():
        return [item async for item in stream(3)]

    assert watched(serve(stream, specialised_stream), lambda: asyncio.run(collect())) == [0, 1, 2]


def test_a_generator_without_parameters():
    def original():
        yield 1

    def specialised():
        a, b, c, d = range(4)
        yield a
        yield from (b, c, d)

    assert watched(serve(original, specialised), lambda: list(original())) == [0, 1, 2, 3]


def test_each_thread_watches_for_itself():
    def original():
        return "original"

    def specialised():
        return "specialised"

    choose = serve(original, specialised)
    inside, leave, seen = threading.Event(), threading.Event(), {}

    def watcher():
        def work():
            seen["watcher"] = original()
            inside.set()
            leave.wait(10)
            seen["still"] = original()

        watched(choose, work)

    thread = threading.Thread(target=watcher)
    thread.start()
    inside.wait(10)
    seen["main"] = original()
    leave.set()
    thread.join()
    assert seen == {"watcher": "specialised", "main": "original", "still": "specialised"}


def test_threads_recurse_at_once():
    def original(n):
        return 0 if n == 0 else original(n - 1) + 1

    table = table_with(original, original.__code__.replace(co_stacksize=60))
    results = []

    def work():
        for _ in range(50):
            results.append(watched(lambda function: table if function is original else None, lambda: original(150)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [150] * 200


def test_swapped_frames_look_true_to_debuggers():
    def original(a):
        return sys._getframe()

    code = original.__code__
    table = table_with(original, code.replace(co_stacksize=20))
    frame = watched(lambda function: table if function is original else None, lambda: original(7))
    assert (frame.f_code.co_name, frame.f_code.co_filename) == ("original", __file__)
    assert frame.f_lineno == code.co_firstlineno + 1
    assert frame.f_locals == {"a": 7}


@pytest.mark.parametrize("follow", ["settrace", "setprofile"])
def test_while_a_program_is_traced_it_runs_as_it_was_written(follow):
    def original(a):
        return a

    def specialised(a):
        b = a
        return b

    seen = []

    def trace(frame, event, argument):
        if frame.f_code in (original.__code__, specialised.__code__):
            seen.append((frame.f_code is original.__code__, event))
        return trace

    def call():
        before = getattr(sys, follow.replace("set", "get"))()
        getattr(sys, follow)(trace)
        try:
            return original(1)
        finally:
            getattr(sys, follow)(before)

    assert watched(serve(original, specialised), call) == 1
    assert seen and all(is_original for is_original, _ in seen)
    assert ("call" in dict(map(reversed, seen))) and seen[-1][1] == "return"


def names_of_frames(a):
    return [frame.function for frame in inspect.stack()[:2]], a


def fails(a):
    raise KeyError(a)


def leaving(original, specialised):
    """A chooser for code that may return a tail call or AS_WRITTEN."""
    table = EntryTable(original.__code__)
    table.add(Entry(always(specialised.__code__), specialised.__code__, leaves=True))
    return lambda function: table if function.__code__ is original.__code__ else None


def test_a_tail_call_takes_the_place_of_a_watched_frame():
    def original(a):
        return inspect.stack()[1].function

    def specialised(a):
        return hook.tail_call(names_of_frames, a + 1)

    assert watched(leaving(original, specialised), lambda: original(1)) == (["names_of_frames", "<lambda>"], 2)


def test_a_watched_frame_can_run_as_it_was_written():
    def original(a, *rest, b=2, **more):
        names = [frame.function for frame in inspect.stack()[:2]]
        return names, a, rest, b, more

    def specialised(a, *rest, b=2, **more):
        del a, rest, b, more
        return hook.AS_WRITTEN

    found = watched(leaving(original, specialised), lambda: original(1, 3, b=4, c=5))
    assert found == (["original", "<lambda>"], 1, (3,), 4, {"c": 5})


def test_the_exception_of_a_frame_that_is_disposed_of_has_each_frame_once():
    def original(a):
        return a

    def specialised(a):
        return hook.tail_call(fails, a)

    def call():
        return original(3)

    with pytest.raises(KeyError) as caught:
        watched(leaving(original, specialised), call)
    names = [frame.name for frame in caught.traceback]
    assert names[names.index("call") :] == ["call", "fails"]


def test_no_reference_is_leaked():
    class Token:
        pass

    def original(a, *rest, **more):
        return a

    def generator(a):
        yield a

    def raising(a):
        raise KeyError

    def on_miss(*_):
        raise LookupError

    tables = {
        function.__code__: table_with(function, function.__code__.replace(co_stacksize=30))
        for function in (original, generator, raising)
    }

    def missing(a):
        return a

    tables[missing.__code__] = EntryTable(missing.__code__, on_miss)
    token = Token()

    def use():
        original(token, token, k=token)
        list(generator(token))
        for function in (raising, missing):
            with contextlib.suppress(LookupError):
                function(token)

    choose = lambda function: tables.get(function.__code__)  # noqa: E731
    for _ in range(3):
        watched(choose, use)
    codes = [code for table in tables.values() for entry in table.entries for code in [entry.code]]
    gc.collect()
    before = [sys.getrefcount(thing) for thing in (token, original, generator, *codes, *tables.values())]
    for _ in range(20):
        watched(choose, use)
    gc.collect()
    assert [sys.getrefcount(thing) for thing in (token, original, generator, *codes, *tables.values())] == before


def test_tables_die_with_their_code():
    import weakref

    def build():
        names = {}
        exec("def original(a): return a", names)
        original = names["original"]
        table = EntryTable(original.__code__)
        watched(lambda function: table if function is original else None, lambda: original(1))
        return weakref.ref(table)

    reference = build()
    gc.collect()
    assert reference() is None


def test_watching_again_and_leaving_twice():
    def original():
        return 1

    def specialised():
        return 2

    choose = serve(original, specialised)
    hook.watch(choose)
    hook.watch(choose)
    hook.unwatch()
    hook.unwatch()
    assert original() == 1
    with hook.watching(choose):
        assert original() == 2


AT_THE_END = """
import subprocess
import sys
from dynascope.frame import hook

def choose(function):
    if function.__name__ == "late":
        raise AttributeError("asked to choose")

def missed(table, function, values):
    raise AttributeError("asked to compile")

def late(x):
    return x + 1

def served(x):
    return x * 2

class Last:
    call, serve, write = late, hook.EntryTable(served.__code__, missed).bind(served), sys.stdout.write
    def __del__(self):
        type(self).write(f"{type(self).call(1)} {type(self).serve(3)}")

sys.modules["last"] = Last()
del late
hook.watch(choose)
"""


def test_nothing_is_asked_while_the_interpreter_takes_its_modules_down():
    ended = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("2 6", "")
