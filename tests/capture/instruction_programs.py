"""Programs for instructions that came with CPython 3.12 and 3.13, or changed there. Every version runs all of them."""

# The odd ways of writing are what is tested.
# ruff: noqa: B007, B018, B023, B905, C408, C416, E731, F821, F841, SIM223, UP008

import contextlib
import functools
from typing import NamedTuple

import torch

T = torch.arange(6.0).reshape(2, 3)
CASES = []
# Those of which some part is left to Python.
REFUSED = set()


def case(*arguments):
    def register(function):
        CASES.append((function, arguments))
        return function

    return register


def left_to_python(function):
    REFUSED.add(function)
    return function


# Comprehensions: inlined since 3.12 (LOAD_FAST_AND_CLEAR, and cells made and put aside in the middle of a function)


@case(T)
def comprehension_hides_the_outer_name(x):
    i = 5
    squares = [i * i for i in range(3)]
    return x + i, squares


@case(T)
def comprehension_of_an_unbound_name(x):
    squares = [i * i for i in range(3)]
    try:
        i
    except UnboundLocalError as error:
        squares.append(type(error).__name__)
    i = 1
    return x + i, squares


@case(T)
def comprehension_makes_closures(x):
    functions = [lambda t, i=i: t * i + j for i in range(3) for j in [i]]
    return [f(x) for f in functions]


@case(T)
def comprehension_shares_its_cell(x):
    functions = [lambda: i for i in range(3)]
    return x, [f() for f in functions]


@case(T)
def comprehension_over_an_outer_cell(x):
    i = 10
    outer = lambda: i
    functions = [lambda: i for i in range(3)]
    i += 1
    return x + outer(), [f() for f in functions], i


@case(T)
def break_before_a_comprehension_over_an_outer_cell(x):
    i = 10
    outer = lambda: i
    print("before")
    functions = [lambda: i for i in range(3)]
    i += 1
    return x + outer(), [f() for f in functions], i


@case(T)
def break_after_a_comprehension_over_an_outer_cell(x):
    i = 10
    outer = lambda: i
    functions = [lambda: i for i in range(3)]
    print("after")
    i += 1
    return x + outer(), [f() for f in functions], i


@case(T)
def break_inside_a_comprehension(x):
    i = 7
    y = x + 1
    parts = [print("part", i) or y * i for i in range(3)]
    return parts, i


@case(T)
def break_inside_a_comprehension_of_an_unbound_name(x):
    y = x + 1
    parts = [print("part", i) or y * i for i in range(3)]
    return parts


@case(T)
def break_inside_a_comprehension_with_closures(x):
    y = x + 1
    functions = [print("part", i) or (lambda: y * i) for i in range(3)]
    return [f() for f in functions]


@case(T)
def break_inside_a_comprehension_over_an_outer_cell(x):
    i = 10
    outer = lambda: i
    functions = [print("part", i) or (lambda: i) for i in range(3)]
    return x + outer(), [f() for f in functions]


@case(T)
def branch_on_data_inside_a_comprehension(x):
    return [t * 2 for t in x if t.sum() > 3]


@case(T)
def break_in_the_function_that_a_comprehension_calls(x):
    def scaled(t, k):
        print("scaled", k)
        return t * k

    k = 4
    return [scaled(x, k) + 1 for k in range(2)], k


@case(T)
def nested_comprehensions(x):
    table = [[x[i, j] * k for j in range(3)] for i, k in enumerate((1, 2))]
    return table, {i: {j for j in range(i)} for i in range(3)}, {a: b for a, b in zip("ab", x)}


@case(T)
def nested_comprehensions_with_breaks(x):
    return [[print(i, j) or x[i, j] for j in range(2)] for i in range(2)]


@case(T)
def comprehension_that_raises(x):
    i = 3
    try:
        return [x / (1 // i) for i in (1, 0)]
    except ZeroDivisionError:
        return x + i


@case(T)
def comprehension_that_raises_after_a_break(x):
    i = 3
    try:
        return [print(i) or 1 // i for i in (1, 0)]
    except ZeroDivisionError:
        return x + i


@case(T)
def comprehension_with_walrus(x):
    kept = [last := x * i for i in range(3)]
    return kept, last


@case(T)
def comprehension_in_a_loop(x):
    total = x
    for i in range(3):
        total = total + sum([i * j for j in range(i)])
        total = total + i
    return total


@case(T)
def comprehension_of_a_method_call(x):
    return [row.mul(2).add_(i) for i, row in enumerate(x.unbind())]


@case(T)
def dictionary_comprehension_with_break(x):
    return {k: print(k) or x * k for k in range(2)}, {print(k) or k for k in range(2)}


@case(T)
def generator_expression_with_closure(x):
    scale = 3
    return sum(t * scale for t in x), tuple(i * scale for i in range(3))


@case(T)
def locals_around_a_comprehension(x):
    a = 1
    b = [k for k in range(2)]
    return x, sorted(locals())


# super(): LOAD_SUPER_ATTR since 3.12


class Base:
    size = 2

    def __init__(self, k):
        self.k = k

    def scaled(self, t, *, extra=0):
        return t * self.k + extra

    @classmethod
    def made(cls, k):
        return cls(k)

    @staticmethod
    def plain(t):
        return t + 1

    @property
    def double(self):
        return self.k * 2


class Derived(Base):
    size = 3

    def __init__(self, k):
        super().__init__(k + 1)

    def scaled(self, t, *, extra=0):
        return super().scaled(t, extra=extra + 1) + super().plain(t)

    @classmethod
    def made(cls, k):
        return super().made(k * 2)

    @property
    def double(self):
        return super().double + super(Derived, self).size

    def explicit(self, t):
        method = super(Derived, self).scaled
        return method(t, extra=2)

    def from_closure(self, t):
        def inner():
            return super(Derived, self).scaled(t)

        return inner()

    def first_argument_in_a_cell(self, t):
        result = super().scaled(t)
        return result + (lambda: self.k)()

    def with_a_break(self, t):
        print("in method")
        return super().scaled(t, extra=1)

    def missing(self):
        return super().nothing


class Further(Derived):
    def scaled(self, t, *, extra=0):
        print("further")
        return super().scaled(t, extra=extra)


@case(T)
def super_calls(x):
    d = Derived(2)
    made = Derived.made(1)
    return d.scaled(x), d.double, made.k, d.explicit(x), d.from_closure(x), d.first_argument_in_a_cell(x)


@case(T)
def super_calls_with_breaks(x):
    f = Further(1)
    return f.scaled(x, extra=2), f.with_a_break(x), f.explicit(x)


@case(T)
def super_of_a_missing_name(x):
    try:
        return Derived(1).missing()
    except AttributeError:
        return x + 1


class Layer(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, t):
        return super().train(self.training).inner * t

    def extra_repr(self):
        return super().extra_repr() + "layer"


@case(T)
def super_of_a_module(x):
    return x + len(LAYER.extra_repr())


LAYER = Layer(2)


# Loops: END_FOR and POP_TOP after an iterator, in every way a loop can end


@case(T)
def loops_that_end_in_every_way(x):
    for i in []:
        x = x + 100
    else:
        x = x + 1
    for i in range(3):
        if i == 1:
            break
    else:
        x = x + 100
    for i in range(2):
        for j in range(2):
            if j:
                continue
            x = x + i + j
    return x


@case(T)
def break_at_the_end_of_a_loop(x):
    for i in range(2):
        x = x + i
        if x.sum() > 15:
            x = x - 1
    for row in x:
        print(row.sum().item())
    return x


@case(T)
def return_from_inside_loops(x):
    for i in range(3):
        with torch.no_grad():
            for j in range(3):
                if i + j == 3:
                    return x * i + j
                print(i, j)
    return x


# Slices: BINARY_SLICE and STORE_SLICE


@case(T, [1, 2, 3, 4])
def slices(x, numbers):
    y = x.clone()
    y[1:] = 7
    y[:1] = y[:1] * 2
    numbers[1:3] = [8, 9, 10]
    a, b = 1, None
    part = numbers[a:b]
    y[:, a:b] += 1
    del numbers[:1]
    return y[a:], part, "text"[a:3], (1, 2, 3)[:-1], numbers


@case(T)
def slices_by_shape(x):
    n = x.shape[1] // 2
    return x[:, n:], x[..., :n], x[0][n : n + 1]


# Truth: TO_BOOL, and COMPARE_OP that makes a bool


@case(T, [], {}, "", 0.0)
def truths(x, empty_list, empty_dictionary, empty_text, zero):
    found = [not empty_list, not empty_dictionary, bool(empty_text), not zero, not x.sum().shape]
    if not (empty_list or empty_dictionary):
        x = x + 1
    while not zero:
        zero = zero + 1
    return x if empty_text or found else -x, found, empty_list or 3, x.shape and 4, None and x


@case(T)
def truth_of_tensors(x):
    found = []
    if x.sum():
        found.append(1)
    if not x[0, 0]:
        found.append(2)
    if x.sum() > 3 and x[0, 0] == 0:
        found.append(3)
    while x[0, 0] < 2:
        x = x + 1
    y = x.sum() > 2 or x
    return x * 2, found, y, not x.sum() < 0, 1 if x.mean() else 2


@case(T)
def chained_comparisons(x):
    n = x.shape[0]
    found = [1 < n < 3, 1 < n < 2, 0 <= n != 3]
    if 0 < x.sum() < 100:
        x = x + 1
    return x, found


class Truthful:
    def __init__(self, answer):
        self.answer = answer

    def __bool__(self):
        return self.answer

    def __len__(self):
        return 0

    def __eq__(self, other):
        return [1]

    def __lt__(self, other):
        return ""


@case(T)
def truths_of_objects(x):
    one, other = Truthful(True), Truthful(False)
    if one == other and not other:
        x = x + 1
    if one < other:
        x = x + 100
    return x, (one == other), (one < other), bool(one), not other, [k for k in (one, other) if k].__len__()


@case(T)
def truth_that_breaks(x):
    class Loud:
        def __bool__(self):
            print("asked")
            return True

    if Loud():
        x = x + 1
    return x


# Text: FORMAT_SIMPLE, FORMAT_WITH_SPEC, CONVERT_VALUE


@case(T)
def formatted_texts(x):
    n, width, name = x.shape[0], 6, "näme"
    return (
        f"{n}{n!s}{name!r}{name!a}",
        f"{n:{width}d}|{name!r:>{width + 4}}|{3.14159:.{n}f}",
        f"{x.shape} {n=} {n = :3}",
    )


@case(T)
def formatted_text_of_a_tensor(x):
    y = x + 1
    text = f"{y.sum()} {y.sum():.2f} {y.dtype!r}"
    return y, text


# Functions: SET_FUNCTION_ATTRIBUTE, calls with keywords and with everything unpacked


@case(T)
def functions_with_everything(x):
    scale = 2

    def inner(t, /, a, b=2, *rest, c: int = 3, d, **more) -> torch.Tensor:
        return t * scale + a + b + sum(rest) + c + d + sum(more.values())

    numbers, names = (1, 2, 3), {"d": 4, "e": 5}
    return inner(x, 1, d=1), inner(x, *numbers, **names), inner(x, *numbers, c=0, **names), inner.__name__


@case(T)
def functions_with_everything_and_breaks(x):
    scale = 2

    def inner(t, a=1, *rest, c=3, **more):
        print(a, rest, c, more)
        return t * scale + a

    return inner(x, 5, 6, c=7, e=8), inner(*(x, 5), **{"c": print("early")})


@case(T)
def calls_with_keywords(x):
    return (
        x.sum(dim=1, keepdim=True),
        torch.add(x, 1, alpha=3),
        torch.cat(tensors=[x, x], dim=0),
        torch.full(size=(2,), fill_value=3.0),
        dict(a=1, b=2),
        sorted([1, 2], key=lambda v: -v, reverse=True),
    )


@case(T)
def duplicate_keywords(x):
    def inner(t, a=1, b=2):
        return t + a + b

    try:
        return inner(x, a=1, **{"a": 2})
    except TypeError as error:
        return x, str(error)


@case(T)
def unpacked_calls_inside_methods(x):
    parts = [x, x * 2]
    return torch.stack(*[parts], **{"dim": 1}), x.permute(*[1, 0]), x.reshape(*x.shape, 1), max(*[1, 2])


# Unbound names: LOAD_FAST_CHECK, DELETE_FAST


@case(T)
def deleted_names(x):
    y = x + 1
    del y
    try:
        return y
    except UnboundLocalError as error:
        return x, str(error)


@case(T)
def deleted_name_across_a_break(x):
    y = x + 1
    if x.shape[0] == 2:
        del y
    print("deleted")
    try:
        return y
    except NameError as error:
        return x, str(error)


@case(T)
def deleted_cell(x):
    y = 2

    def inner():
        return y

    before = inner()
    del y
    try:
        return inner()
    except NameError as error:
        return x + before, str(error)


@case(T)
def an_unbound_name_that_a_function_shares(x):
    def inner():
        return y

    try:
        y
    except UnboundLocalError as error:
        text = str(error)
    y = x + 1
    return inner(), text


@case(T)
def perhaps_unbound(x):
    for k in range(x.shape[0] - 2):
        y = k
    try:
        print(y)
    except UnboundLocalError as error:
        return x, str(error)


# Fused loads and stores, swaps


@case(T, T + 1)
def many_locals(x, y):
    a = x
    b = y
    c, d = a, b
    c, d = d, c
    a, b, c, d = d, c, b, a
    e = f = g = a
    e = e + f * g
    x, y = y, x
    return a, b, c, d, e, x, y


# Exceptions and `with`


@case(T)
def exceptions_in_handlers(x):
    log = []
    try:
        try:
            raise ValueError("one")
        except ValueError as error:
            log.append(str(error))
            raise KeyError("two") from error
        finally:
            log.append("finally")
    except KeyError as error:
        log.append((str(error), type(error.__cause__).__name__, type(error.__context__).__name__))
    return x + len(log), log


@case(T)
def break_in_finally(x):
    try:
        y = x + 1
        return y * 2
    finally:
        print("finally")


@left_to_python
@case(T)
def break_in_except(x):
    try:
        raise ValueError(3)
    except ValueError as error:
        print("caught", error)
        x = x + error.args[0]
    return x


@case(T)
def break_under_with(x):
    with torch.no_grad():
        y = x + 1
        print(torch.is_grad_enabled())
        y = y * 2
    print(torch.is_grad_enabled())
    return y


@case(T)
def several_managers(x):
    log = []

    class Noted:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)
            return self

        def __exit__(self, kind, error, trace):
            log.append((self.name, kind is None))
            return self.name == "b"

    with Noted("a") as a, Noted("b") as b, torch.no_grad():
        x = x + len(a.name + b.name)
        raise ValueError
    with Noted("c"):
        for i in range(3):
            with Noted(i):
                if i == 1:
                    break
    return x, log


@case(T)
def manager_that_breaks(x):
    class Loud:
        def __enter__(self):
            print("in")
            return 3

        def __exit__(self, kind, error, trace):
            print("out", kind)

    with Loud() as k:
        x = x * k
    return x


@case(T)
def suppressed_exception(x):
    with contextlib.suppress(ValueError):
        x = x + 1
        raise ValueError
    return x


@contextlib.contextmanager
def managed(log):
    log.append("in")
    try:
        yield 5
    finally:
        log.append("out")


@case(T)
def generator_as_manager(x):
    log = []
    with managed(log) as k:
        x = x * k
    return x, log


@left_to_python
@case(T)
def exception_group(x):
    log = []
    try:
        raise ExceptionGroup("many", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        log.append(len(group.exceptions))
    except* KeyError as group:
        log.append(str(group.exceptions[0]))
    return x + 1, log


# Generators: RETURN_GENERATOR, SEND and END_SEND, CALL_INTRINSIC_1 for a StopIteration that gets out


def counted(n):
    total = 0
    for i in range(n):
        got = yield i
        total += i if got is None else got
    return total


def delegating(n):
    first = yield from counted(n)
    second = yield from [7, 8]
    yield first
    return second


@case(T)
def generators(x):
    return x + sum(counted(3)), list(delegating(3)), next(counted(0), "none")


@case(T)
def generator_that_is_sent_values(x):
    g = counted(3)
    found = [next(g), g.send(10), g.send(20)]
    try:
        g.send(30)
    except StopIteration as stop:
        found.append(stop.value)
    return x, found


@left_to_python
@case(T)
def generator_that_stops_wrongly(x):
    def wrong():
        yield 1
        raise StopIteration

    try:
        return x, list(wrong())
    except RuntimeError as error:
        return x, str(error)


@left_to_python
@case(T)
def generator_with_break(x):
    def loud():
        for i in range(2):
            print("made", i)
            yield x * i

    return [t + 1 for t in loud()]


# Classes, imports, matches, annotations


@case(T)
def class_inside(x):
    k = 3

    class Point(NamedTuple):
        a: int
        b: int = k

    class Inner:
        size = k
        sizes = [k for _ in range(2)]

        def total(self):
            return self.size + k

    return x + Inner().total(), Inner.sizes, Point(1).b


@case(T)
def imports_inside(x):
    import math
    from functools import partial as bound
    from os import path

    return x + math.floor(2.5), bound(torch.add, x)(1), path.join("a", "b")


@case(T, {"kind": "scale", "by": [2, 3, 4]})
def patterns(x, what):
    match what:
        case {"kind": "shift"}:
            return x + 1
        case {"kind": "scale", "by": [first, *rest], **others} if first:
            x = x * first + len(rest) + len(others)
    match x.shape:
        case (a, b):
            x = x + a * b
    match Derived(2):
        case Base(k=1):
            return x
        case Derived(k=k):
            return x + k


@case(T)
def annotated(x):
    count: int = 3
    total: float
    total = count + 0.5
    return x * total


@case(T)
def assertions(x):
    assert x.shape[0] == 2, "two"
    try:
        assert x.dim() == 3, f"not {x.dim()}"
    except AssertionError as error:
        return x, str(error)


@case(T)
def unary_operators(x):
    n = x.shape[0]
    return +x, -x, ~(x > 1), +n, ~n, -True, not n


@case(T)
def sums_of_floats(x):
    return x, sum([0.1] * 10), sum((1e100, 1.0, -1e100)), sum([1, 0.5, True]), sum([[1], [2]], [])


@case(T, 0.1)
def sum_of_a_number_from_outside(x, n):
    return x, sum([n] * 10), sum([n, 1e100, 1.0, -1e100])


@case(T)
def unpacking_of_the_wrong_length(x):
    found = []
    for values in ((1,), (1, 2, 3), [1]):
        try:
            a, b = values
        except ValueError as error:
            found.append(str(error))
    try:
        a, *b, c = x.shape[:1]
    except ValueError as error:
        found.append(str(error))
    return x, found


# What the standard library's own Python code does differently by version


class Cached:
    def __init__(self, k):
        self.k = k

    @functools.cached_property
    def twice(self):
        return self.k * 2


@case(T, Cached(4))
def cached_property_of_objects(x, outside):
    inside = Cached(3)
    total = x * inside.twice + inside.twice + outside.twice
    return total, sorted(vars(inside)), sorted(vars(outside)), vars(inside)["twice"]


@case(T, Cached(4))
def dictionaries_of_objects(x, outside):
    inside = Cached(3)
    dictionary = inside.__dict__
    dictionary["other"] = x
    outside.__dict__["new"] = 5
    return inside.other + outside.new, sorted(outside.__dict__), dictionary is inside.__dict__


class Meta(type):
    def __call__(cls, *arguments):
        made = super().__call__(*arguments)
        made.noted = True
        return made


class WithMeta(metaclass=Meta):
    def __init__(self, k):
        self.k = k


@case(T)
def super_of_a_metaclass(x):
    made = WithMeta(3)
    return x * made.k, made.noted


class Unreadable:
    @property
    def value(self):
        print("read")
        return 3


class ReadsByBreaking(Unreadable):
    def total(self, t):
        later = t + 1
        return later * super().value


@case(T)
def super_of_a_name_that_breaks(x):
    return ReadsByBreaking().total(x)


@case(T)
def break_inside_comprehensions_under_blocks(x):
    with torch.no_grad():
        rows = [print(i) or x * i for i in range(2)]
        with contextlib.suppress(KeyError):
            missing = [{}[i] if i else print("zero") for i in range(2)]
    return rows, {print(i) or i // 2 for i in range(4)}, {i // 2: print(i) or i for i in range(4)}


@case(T)
def documented_functions(x):
    scale = 2

    def documented(t):
        "What it does."
        return t * scale

    def plain(t):
        return "text"

    @functools.wraps(documented)
    def wrapped(t):
        return documented(t)

    return wrapped(x), wrapped.__doc__, documented.__doc__, plain.__doc__, (lambda: "text").__doc__
