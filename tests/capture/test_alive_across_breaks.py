"""What is alive across a break: iterators, generators and context managers are made again, and the rest is compiled on.

The break is `is_nonzero()`, in the middle of each program; eager's results decide, and what the program sees of its own iterators.
"""

import collections
import collections.abc
import contextlib
import heapq
import io
import itertools
import sys
import threading

import dynascope
import pytest
import torch
from dynascope import recording
from harness import compiled
from test_outside_protocols import assert_same
from torch import nn

X = torch.tensor([[1.0, -2.0, 3.0, 0.5]] * 2)
LAYERS = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))


def value_of(x):
    return x.sum().is_nonzero() > 0


def over_enumerate(x):
    for at, layer in enumerate(LAYERS, 5):
        x = layer(x) * at
        x = x + x.sum().is_nonzero()
    return x, at


def over_zip(x):
    for at, layer, other in zip(range(9), LAYERS, list(LAYERS)[::-1], strict=False):
        x = layer(x) + other(x) * at
        x = x + x.sum().is_nonzero()
    return x


def over_children(x):
    for name, layer in LAYERS.named_children():
        x = layer(x) * len(name)
        x = x + x.sum().is_nonzero()
    return x


def over_layers_backwards(x):
    for layer in reversed(LAYERS):
        x = layer(x)
        x = x + x.sum().is_nonzero()
    return x


def over_items(x):
    table = {"a": torch.sin, "b": torch.cos, "c": torch.tanh}
    for name, function in table.items():
        x = function(x)
        x = x + x.sum().is_nonzero() * ord(name)
    return x


def shared_iterator(x):
    """One iterator twice in a zip, and its rest afterwards."""
    it = iter([torch.sin, torch.cos, torch.tanh, torch.exp, torch.neg])
    for one, other in zip(it, it, strict=False):
        x = other(one(x))
        x = x + x.sum().is_nonzero()
        break
    return x, [f(x) for f in it], next(it, None)


def grows_while_it_runs(x):
    functions = [torch.sin]
    for at, function in enumerate(functions):
        x = function(x)
        if at < 3:
            functions.append(torch.cos)
        x = x + x.sum().is_nonzero()
    return x, len(functions)


def left_early(x):
    it = iter(LAYERS)
    for layer in it:
        x = layer(x)
        if value_of(x) is None:
            return x
        break
    return x, len(list(it))


def exhausted(x):
    it = iter([torch.sin, torch.cos])
    for function in it:
        x = function(x)
        x = x + x.sum().is_nonzero()
    return x, next(it, "end"), list(it)


def a_generator_expression(x):
    g = (x * k for k in range(4))
    y = next(g)
    n = y.sum().is_nonzero()
    return y + next(g) + n, list(g)


def a_map(x):
    m = map(lambda k: x * k, [1, 2, 3])  # noqa: C417
    y = next(m) + 1
    n = y.sum().is_nonzero()
    return y + next(m) + n, type(m), len(list(m))


def a_filter(x):
    f = filter(lambda k: k % 2, itertools.count())
    y = x * next(f)
    n = y.sum().is_nonzero()
    return y + next(f) + n


def counted(limit):
    memo = set()
    for at in range(limit):
        memo.add(at)
        yield len(memo)


def a_generator_function(x):
    g = counted(4)
    y = x * next(g) + next(g)
    n = y.sum().is_nonzero()
    return y + next(g) * n, list(g)


def told(log):
    for at in range(3):
        log.append(at)
        yield at


def a_generator_that_does_something(x):
    log = []
    g = told(log)
    y = x + next(g)
    n = y.sum().is_nonzero()
    return y * n, log, next(g), log


@contextlib.contextmanager
def managed(scale):
    yield scale + 1


def inside_a_context_manager(x):
    with managed(3) as k:
        y = x.sin() * k
        y = y + y.sum().is_nonzero()
    return y * 2


def inside_with_an_error(x):
    try:
        with managed(3) as k:
            y = x.sin() * k
            if y.sum().is_nonzero() < 1e9:
                raise KeyError("a")
    except KeyError as error:
        return x * k, error.args
    return x


@contextlib.contextmanager
def noted(name, *more, log, **options):
    log.append(("in", name, more, options))
    try:
        with torch.no_grad():
            yield len(options)
    except KeyError as error:
        log.append(error.args)
    finally:
        log.append(("out", name))


def inside_a_context_manager_that_does_something(x):
    log = []
    with noted("a", 1, 2, log=log, scale=3) as k:
        y = x.sin() * k
        y = y + y.sum().is_nonzero()
        log.append(torch.is_grad_enabled())
    return y * 2, log


def inside_two_context_managers(x):
    log = []
    with noted("a", log=log, scale=3) as k, noted("b", log=log) as n:
        y = x.sin() * k + n
        y = y + y.sum().is_nonzero()
    return y * 2, log


def a_context_manager_that_takes_an_error(x):
    log = []
    with noted("a", log=log):
        if x.sum().is_nonzero():
            raise KeyError("a")
    return x * 2, log, torch.is_grad_enabled()


def in_a_context_manager_not_yet_entered(x):
    log = []
    manager = noted("a", 1, log=log, scale=3)
    y = x + x.sum().is_nonzero()
    with manager as k:
        y = y * k
    return y, log


def asked(limit, log):
    total = 0
    for at in range(limit):
        log.append(at)
        total += (yield at * 2) or 0
    return total


def delegating(limit, log):
    try:
        result = yield from asked(limit, log)
    except ValueError as error:
        result = error.args
    log.append(("result", result))
    yield result


def a_generator_that_is_sent_values(x):
    log = []
    g = delegating(3, log)
    y = x * next(g)
    y = y + y.sum().is_nonzero()
    y = y + g.send(5)
    y = y + y.sum().is_nonzero()
    return y, list(g), log


def a_generator_that_is_thrown_into(x):
    log = []
    g = delegating(3, log)
    y = x * next(g)
    y = y + y.sum().is_nonzero()
    return y, g.throw(ValueError("a")), log


def a_generator_that_is_closed(x):
    log = []
    g = delegating(3, log)
    y = x * next(g)
    y = y + y.sum().is_nonzero()
    g.close()
    return y, list(g), log


def breaking(x):
    for at in range(3):
        yield x.sum().is_nonzero() + at


def a_generator_that_breaks(x):
    y = x
    for k in breaking(x):
        y = (y * k).sin()
    return y.cos()


def a_generator_with_a_cell(x):
    def inner(limit):
        add = lambda k: k + at  # noqa: E731
        for at in range(limit):
            yield add(at)

    g = inner(3)
    y = x * next(g)
    y = y + y.sum().is_nonzero()
    return y, list(g)


class Base:
    def scales(self):
        yield 2
        yield 3


class Derived(Base):
    def scales(self):
        yield from super().scales()
        for scale in super().scales():
            yield scale * 2


def a_generator_that_asks_its_base(x):
    g = Derived().scales()
    y = x * next(g)
    y = y + y.sum().is_nonzero()
    return y, list(g)


def waits_inside_except(log):
    try:
        raise KeyError("a")
    except KeyError as error:
        yield error.args
        log.append("b")


def a_generator_that_handles_an_error(x):
    log = []
    g = waits_inside_except(log)
    y = x * len(next(g))
    y = y + y.sum().is_nonzero()
    return y, list(g), log


def a_bound_method(x):
    log = []
    add = log.append
    add(x.sum().is_nonzero())
    add(2)
    return x * len(log), log


def in_a_comprehension(x):
    return x + sum([t.sum().is_nonzero() for t in (x * 2, x * 3)])


PROGRAMS = {
    over_enumerate: 4,
    over_zip: 4,
    over_children: 5,
    over_layers_backwards: None,
    over_items: 4,
    shared_iterator: 2,
    grows_while_it_runs: 5,
    left_early: 3,
    exhausted: 3,
    a_generator_expression: 4,
    a_map: 4,
    a_filter: 3,
    a_generator_function: 4,
    a_generator_that_does_something: 3,
    inside_a_context_manager: 2,
    inside_with_an_error: None,
    inside_a_context_manager_that_does_something: 2,
    inside_two_context_managers: 2,
    a_context_manager_that_takes_an_error: None,
    in_a_context_manager_not_yet_entered: 5,
    a_generator_that_is_sent_values: 5,
    a_generator_that_is_thrown_into: 3,
    a_generator_that_is_closed: 4,
    a_generator_that_breaks: 5,
    a_generator_with_a_cell: 3,
    a_generator_that_asks_its_base: 3,
    a_generator_that_handles_an_error: None,
    a_bound_method: 2,
    in_a_comprehension: 4 if sys.version_info < (3, 12) else 3,  # a function of its own, then a loop of the function
}
"""How many pieces a first call makes; None where a part is left to Python."""


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda function: function.__name__)
def test_the_rest_is_compiled(function):
    with torch.no_grad():
        expected = function(X.clone())
        program = compiled(function)
        for _ in range(3):
            assert_same(expected, program(X.clone()))
        pieces = len(program.captures)
        assert_same(function(X * 2), program(X * 2))
    wanted = PROGRAMS[function]
    if wanted is not None:
        assert (pieces, program.refused) == (wanted, [])


def test_another_loop_at_the_next_call():
    """The loop's place is guarded: other layers, and another number of them."""

    def program(x, layers):
        for at, layer in enumerate(layers):
            x = layer(x) + at
            x = x + x.sum().is_nonzero()
        return x

    function = compiled(program)
    for layers in (list(LAYERS), list(LAYERS)[::-1], list(LAYERS)[:1], [], list(LAYERS), [nn.ReLU(), *LAYERS]):
        with torch.no_grad():
            torch.testing.assert_close(function(X, layers), program(X, layers))


class Rows(collections.abc.Sequence):
    """Iterated by the generator of `Sequence`, which waits inside its `try` when a `zip` ends before it."""

    def __getitem__(self, at):
        return (2, 3, 4)[at]

    def __len__(self):
        return 3


def cleans_up(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


def test_a_generator_that_is_dropped_and_has_nothing_to_clean_up():
    def program(x):
        return [x * scale for _, scale in zip([1, 2], Rows(), strict=False)]

    function = compiled(program)
    assert_same(program(X), function(X))
    assert function.compilation.codes == [] and function.refused == []


def test_a_generator_that_cleans_up_is_left_to_python():
    def program(x, log):
        for _, scale in zip([1], cleans_up(log), strict=False):
            x = x * scale
        return x + 1

    logs = [], []
    assert_same(program(X, logs[0]), compiled(program)(X, logs[1]))
    assert logs == (["closed"], ["closed"])


def test_an_error_out_of_a_librarys_function_finds_the_handler():
    """The break is at the call in the user's function, and what is called is Python code that CPython runs in the same loop."""

    def program(x, most):
        try:
            found = heapq.nlargest(most, [1, 2])
        except TypeError as error:
            found = str(error)
        return x + 1, found

    with dynascope.expected("foreign-call"):
        found = dynascope.compile(program, backend="eager")(torch.ones(2), lambda value: value)
    assert found[1] == "'>=' not supported between instances of 'function' and 'int'"


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_lock_is_not_met_anew_at_each_call(make):
    """What `with` keeps of a lock across a break is a bound method, made at each call: the lock is what is guarded."""
    lock, state = make(), {"calls": 0}

    def program(x):
        with lock:
            state["calls"] += 1
            print(end="")
            x = x * 2
        return x + 1

    function = dynascope.compile(program, backend="eager")
    recorder = recording.Recorder()
    before = recording.use(recorder)
    try:
        with dynascope.expected("print-call"):
            for _ in range(12):
                assert_same(X * 2 + 1, function(X))
    finally:
        recording.use(before)
    assert state["calls"] == 12
    assert not recorder.report().notes  # of the limit of compilations


def over_a_list_that_grew(items, iterator, x):
    items.append(1)
    for each in items:
        found = next(iterator)
        x = x + x.sum().is_nonzero() * each
    return found, x


def an_iterator_over_what_grew(items, iterator, x):
    items.extend([1, 2, 3])
    next(iterator)
    known = next(iterator)
    x = x + x.sum().is_nonzero()
    items.append(4)
    return known, list(iterator), x


def an_iterator_over_what_grew_and_shrank(items, iterator, x):
    items.extend([1, 2, 3])
    at = iter(items)
    next(at), next(at)
    del items[1:]
    x = x + x.sum().is_nonzero()
    items.extend([4, 5, 6])
    return list(at), x


@pytest.mark.may_break
@pytest.mark.parametrize("program", [over_a_list_that_grew, an_iterator_over_what_grew, an_iterator_over_what_grew_and_shrank])
def test_iterators_over_what_a_list_got_before_the_break(program):
    """Python puts an iterator no further than at the end of its list, which gets its items when the effects are replayed."""
    function = dynascope.compile(program, backend="eager")
    for _ in range(2):
        ours, theirs = [], []
        assert_same(program(theirs, iter([7]) if program is over_a_list_that_grew else iter(theirs), X),
                    function(ours, iter([7]) if program is over_a_list_that_grew else iter(ours), X))  # fmt: skip
        assert ours == theirs


@pytest.mark.may_break
def test_a_method_that_waits_for_its_argument_is_known_by_its_object():
    """Each call binds it anew: told by its identity it would be compiled again each time."""
    window, written = collections.deque(maxlen=3), io.StringIO()

    def function(x):
        window.append(print(end="") or x.shape[0])
        written.write(str(print(end="")))
        return x * len(window)

    recorder = recording.Recorder()
    recording.use(recorder)
    try:
        call = dynascope.compile(function, backend="eager")
        results = [call(X).sum().item() for _ in range(9)]
    finally:
        recording.use(None)
    assert results[2:] == [X.sum().item() * 3] * 7 and list(window) == [2, 2, 2]
    assert sum(len(function.entries) for function in recorder.report().functions) <= 7


def a_key_behind_the_others(found, x):
    left = iter(found)
    first = next(left)
    x.is_nonzero()
    found[first] = found.pop(first) + 1
    return x * 2, first, list(left)


def the_last_key_once_more(found, x):
    left = iter(found.items())
    taken = [next(left), next(left), next(left)]
    x.is_nonzero()
    found["c"] = found.pop("c") + 1
    return x * 2, taken, list(left)


def all_of_them_anew(found, x):
    left = iter(found.values())
    taken = next(left)
    x.is_nonzero()
    held = dict(found)
    found.clear()
    found.update(held)
    return x * 2, taken, list(left)


@pytest.mark.may_break
@pytest.mark.parametrize("program", [a_key_behind_the_others, the_last_key_once_more, all_of_them_anew])
@pytest.mark.parametrize("cls", [dict, collections.defaultdict, collections.OrderedDict], ids=lambda cls: cls.__name__)
def test_a_dictionary_whose_keys_go_and_come_below_its_iterator(program, cls):
    def outcome(function):
        found = cls(int) if cls is collections.defaultdict else cls()
        found.update(a=1, b=2, c=3)
        try:
            return function(found, torch.ones(())), found
        except RuntimeError as error:
            return str(error), found

    function = dynascope.compile(program, backend="eager")
    for _ in range(2):
        assert_same(outcome(program), outcome(function))
