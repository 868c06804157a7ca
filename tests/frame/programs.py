"""Small functions that use every kind of control flow, each with arguments to call it by.

`PROGRAMS` maps a name to (function, argument tuples). What a program does to the outside it writes to `log`.
"""

# ruff: noqa: B023, C416, B905 - the programs are about the bytecode, not the style

from __future__ import annotations

import contextlib

log: list = []


class Manager:
    """Logs its entering and leaving; `swallow` is what it does with an exception."""

    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        log.append(("enter", self.name))
        return self

    def __exit__(self, kind, value, trace):
        log.append(("exit", self.name, kind and kind.__name__))
        return self.swallow


class Base:
    def scale(self, x):
        return x * 2


class Child(Base):
    factor = 3

    def scale(self, x):
        y = super().scale(x)
        return y * self.factor

    def scale_through_object(self, x):
        parent = super()
        total = x + 1
        return parent.scale(total) + self.factor

    def scale_shared(self, x):
        add = lambda n: n + self.factor  # noqa: E731
        parent = super()
        return add(parent.scale(x))


def straight(a, b):
    c = a + b
    d = [c, a * 2, -b]
    return (c, d, {"a": a, **{"b": b}}, f"{a!r:>5}{b}")


def branches(a, b):
    if a > b and not (b == 3 or a < 0):
        kind = "big"
    elif a is None or b:
        kind = "none" if a is None else "some"
    else:
        kind = "rest"
    return kind, a < b < 10


def loops(n):
    total, seen = 0, []
    for i in range(n):
        if i == 2:
            continue
        for j in range(i):
            if j > 3:
                break
            total += i * j
        else:
            seen.append(i)
    while total > 5:
        total -= 3
        if total == 7:
            break
    return total, seen


def calls(a, b, *rest, key=1, **others):
    x = dict(a=a, b=b, **others)
    y = max(a, b, *rest, key=lambda value: -value)
    z = f"{a}-{b}".upper().replace("-", "+")
    return x, y, z, key, sorted(rest, reverse=True)


def containers(items):
    first, *middle, last = items
    (a, b), c = (first, last), middle[1:]
    items[0] = a
    del items[1]
    items[1:2] = [b, b]
    return {a, b}, c, {k: v for k, v in zip("xyz", items)}, items


def comprehensions(n, k):
    squares = [x * x for x in range(n) if x != k]
    table = {x: [y + k for y in range(x)] for x in squares[:3]}
    makers = [lambda: x + k for x in range(3)]
    return squares, table, [make() for make in makers], {x for x in squares}, sum(x for x in squares)


def shadowed(x):
    inner = [x for x in range(3)]
    callers = [(lambda: x) for x in inner]
    return x, inner, [c() for c in callers]


def _hidden_free_variable():
    x = 1

    def inner(y):
        makers = [(lambda: x) for x in y]
        plain = [x + 1 for x in y]
        return [make() for make in makers], plain, x

    return inner


hidden_free_variable = _hidden_free_variable()


def closures(a):
    count = a

    def bump(by):
        nonlocal count
        count += by
        return count

    bump(2)
    count *= 2
    return bump(1), count, (lambda: a)()


def handlers(a, b):
    result = []
    try:
        result.append(a / b)
    except ZeroDivisionError as error:
        result.append(str(error))
        try:
            result.append(a[0])
        except (TypeError, KeyError) as inner:
            result.append((type(inner).__name__, type(inner.__context__).__name__))
    except TypeError:
        result.append("type")
        raise
    else:
        result.append("fine")
    finally:
        log.append(list(result))
    return result


def reraises(a):
    try:
        try:
            return {1: 2}[a]
        except KeyError:
            log.append("not there")
            raise
        finally:
            log.append("inner finally")
    except LookupError as error:
        raise ValueError("wrapped") from error


def finally_returns(a):
    for i in range(3):
        try:
            if i == a:
                return i, 1 // i
        except ZeroDivisionError:
            continue
        finally:
            log.append(i)
    return "end"


def with_one(a):
    with Manager("one") as manager:
        log.append(manager.name)
        value = 10 // a
    return value


def with_nested(a):
    total = 0
    with Manager("outer", swallow=True), Manager("inner") as inner:
        for i in range(3):
            with Manager(i, swallow=i == 1):
                total += i // (a - i)
                if a == 7:
                    return total, inner.name
    return total


def with_suppress(items):
    found = []
    for item in items:
        with contextlib.suppress(ValueError, TypeError):
            found.append(int(item))
    return found


def matches(value):
    match value:
        case {"kind": kind, **rest}:
            return kind, rest
        case [x, y, *others] if x != y:
            return x, y, others
        case str() | bytes():
            return "text"
        case Manager(name=name):
            return name
        case complex(real=r, imag=0):
            return r
        case _:
            return None


def exception_groups(which):
    try:
        raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        log.append(len(group.exceptions))
    except* TypeError:
        if which:
            raise RuntimeError("again")  # noqa: B904
    return "done"


def unbound(flag):
    if flag:
        late = 1
    log.append("before")
    return late


def deletes(a):
    b = a
    del a
    log.append(b)
    try:
        return a  # noqa: F821
    except UnboundLocalError:
        return "gone"


def asserts(a):
    assert a, "must be true"
    assert a != 2
    return a


def walrus(items):
    if (n := len(items)) > 2 and (last := items[-1]):
        return n, last
    return n


def imports():
    import json.decoder as decoder
    from math import pi, tau

    return decoder.__name__, tau / pi


def defaults(a):
    def inner(x, y=a, *, z: int = 3):
        """Inner text."""
        return x, y, z

    class Local:
        """Class text."""

        attribute = a

        def method(self):
            return self.attribute, a

    return inner(1), inner.__doc__, Local().method(), Local.__doc__


PROGRAMS = {
    "straight": (straight, [(1, 2)]),
    "branches": (branches, [(5, 2), (5, 3), (None, 1), (1, 0), (0, 0)]),
    "loops": (loops, [(0,), (3,), (7,)]),
    "calls": (calls, [(1, 2), (1, 2, 5, 4)]),
    "containers": (containers, [([1, 2, 3, 4],)]),
    "comprehensions": (comprehensions, [(4, 1)]),
    "shadowed": (shadowed, [(9,)]),
    "hidden_free_variable": (hidden_free_variable, [([5, 6],)]),
    "closures": (closures, [(4,)]),
    "handlers": (handlers, [(1, 2), (1, 0), ([], 0), ("a", 1)]),
    "reraises": (reraises, [(1,), (2,)]),
    "finally_returns": (finally_returns, [(0,), (1,), (5,)]),
    "with_one": (with_one, [(2,), (0,)]),
    "with_nested": (with_nested, [(7,), (1,), (0,), (5,)]),
    "with_suppress": (with_suppress, [(["1", "x", None, 4],)]),
    "matches": (matches, [({"kind": 1, "b": 2},), ([1, 2, 3],), ([1, 1],), ("s",), (Manager("m"),), (3j,), (2 + 0j,)]),
    "exception_groups": (exception_groups, [(0,), (1,)]),
    "unbound": (unbound, [(0,), (1,)]),
    "deletes": (deletes, [(1,)]),
    "asserts": (asserts, [(1,), (0,), (2,)]),
    "walrus": (walrus, [([1, 2, 3],), ([1],)]),
    "imports": (imports, [()]),
    "defaults": (defaults, [(5,)]),
    "super": (Child.scale, [(Child(), 5)]),
    "super_object": (Child.scale_through_object, [(Child(), 5)]),
    "super_shared": (Child.scale_shared, [(Child(), 5)]),
}
