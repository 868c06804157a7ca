"""What capture follows by Python's protocols, each program beside eager: results, changes that the program sees, and guards.

Each case is a function that makes a program and a list of calls; a call may be preceded by a change of the world, after which the
compiled program must still agree. `breaks` are the codes that capture gives, none where it is one graph throughout.
"""

import collections
import functools
import inspect
import operator
import weakref

import dynascope
import pytest
import torch
from harness import compiled
from torch import nn

X = torch.tensor([1.0, -2.0, 3.0, 0.5])


class Aliased:
    """Attributes under two names, as configurations have them."""

    names = {"width": "size"}  # noqa: RUF012

    def __init__(self):
        self.size, self.asked = 2, 0

    def __getattribute__(self, name):
        if name != "names" and name in super().__getattribute__("names"):
            name = super().__getattribute__("names")[name]
        return super().__getattribute__(name)


class Upper(dict):
    def __getitem__(self, key):
        return super().__getitem__(key.upper())

    def __setitem__(self, key, value):
        super().__setitem__(key.upper(), value)

    def get(self, key):
        return super().get(key.upper()) or 7


class Ordered(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value + 1)


class Missing(dict):
    def __missing__(self, key):
        self[key] = len(key)
        return self[key]


class Stack(list):
    def push(self, item):
        self.append(item)
        return len(self)

    def __getitem__(self, at):
        return super().__getitem__(at) * 2


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.chain = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
        self.count = 2

    def forward(self, x):
        for layer in self.layers[: self.count]:
            x = layer(x).relu()
        return self.chain[:2](x), len(self.layers[::-1]), [type(each).__name__ for each in self.layers[1:]]


class Backwards(nn.Module):
    """A flow's layers, which its sampling goes through the other way."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in reversed(self.layers):
            x = layer(x).relu()
        return x


class Squares:
    def __init__(self, count):
        self.count, self.asked = count, []

    def __len__(self):
        return self.count

    def __getitem__(self, at):
        self.asked.append(at)
        if at == 1:
            raise IndexError(at)
        return at * at


def aliased():
    it = Aliased()
    yield lambda x: (x * it.width, isinstance(it, Aliased), hasattr(it, "none"), getattr(it, "none", 3))
    yield
    it.size = 5
    yield
    it.none = 4
    yield


def backwards():
    torch.manual_seed(0)
    model = Backwards()
    yield lambda x: model(x)
    yield


def backwards_by_items():
    squares = Squares(5)

    def program(x):
        iterator = reversed(squares)
        first = next(iterator)
        return [x * first, *(x + each for each in iterator)], type(iterator).__name__

    yield program
    yield squares.asked
    squares.count = 3
    yield squares.asked


def aliased_written():
    it = Aliased()

    def program(x):
        it.asked += 1
        it.size = it.width + 1
        return x * it.asked

    yield program
    for _ in range(3):
        yield it.asked, it.size


def counted_lookups():
    seen = []

    class Counted:
        def __init__(self):
            self.scale = 2

        def __getattribute__(self, name):
            seen.append(name)
            return super().__getattribute__(name)

    it = Counted()
    yield lambda x: x * it.scale
    yield list(seen)
    it.scale = 3
    yield list(seen)


def upper():
    table = Upper(A=2)

    def program(x):
        table["b"] = table["a"] + 1
        table["a"] = x.shape[0]
        return x * table["b"], table.get("zz"), "A" in table, "a" in table, len(table), list(table), dict(table)

    yield program
    yield dict(table)
    dict.__setitem__(table, "A", 9)
    yield dict(table)
    table["c"] = 1
    yield dict(table)


def ordered():
    table = Ordered(a=1)

    def program(x):
        made = Ordered(a=1, b=2)
        made.update(c=x)
        table.update(d=4)
        table.move_to_end("a")
        return made, made["c"] * table["d"], list(table.items())

    yield program
    yield list(table.items())
    table["e"] = 1
    yield list(table.items())


def missing():
    table = Missing(one=1)
    yield lambda x: (x * table["three"] + table["one"], table.get("none"), Missing()["ab"])
    yield dict(table)
    table.clear()
    yield dict(table)


def stack():
    outside = Stack([1, 2])

    def program(x):
        made = Stack([x])
        made.push(x + 1)
        outside.push(len(made))
        return made, made[0], outside[0], list(outside)

    yield program
    yield list(outside)
    outside.push(5)
    yield list(outside)
    list.__setitem__(outside, 0, 10)
    yield list(outside)


def views():
    made = Upper(a=1)
    yield lambda x: (x + 1, made.keys(), made.items())
    yield dict(made)


def signatures():
    def target(a, b=2, *, flag=None):
        return a

    def wrapped(*args, **kwargs):
        return target(*args, **kwargs)

    wrapped = functools.wraps(target)(wrapped)

    def program(x):
        parameters = inspect.signature(wrapped).parameters
        names = [name for name, each in parameters.items() if each.default is not inspect.Parameter.empty]
        known = "flag" in target.__code__.co_varnames and target.__code__.co_argcount
        return x * len(parameters), names, parameters["b"].default, known, wrapped.__wrapped__ is target

    yield program
    yield
    target.__defaults__ = (5,)
    yield
    target.__code__ = (lambda a, b=2, c=3, *, flag=None: a).__code__
    target.__defaults__ = (1, 2)
    yield


def layers():
    torch.manual_seed(0)
    model = Layers()
    yield model.forward
    yield
    model.count = 1
    yield
    del model.layers[2]
    yield


def slices():
    class Part:
        at = slice(0, 2)

    yield lambda x: x[Part.at]
    yield
    Part.at = slice(1, None, 2)
    yield


def bound_methods():
    log = []
    keep = log.append
    look = {"a": 1}.get

    def program(x):
        keep(x.shape[0])
        return x + look("a", 0) + look("b", 3)

    yield program
    yield list(log)
    keep = [].append
    yield list(log)


@functools.lru_cache
def remembered(text):
    return len(text) * 2


def caches():
    yield lambda x: x * remembered("ab") + remembered("abc")
    yield
    yield


class Recipe:
    def __init__(self, parts):
        self.parts = parts


@functools.lru_cache
def recipe(pattern, *, times=1):
    made.append(pattern)
    return Recipe([len(part) * times for part in pattern.split()])


@functools.lru_cache
def sizes_of(cooked, first):
    return (first, *cooked.parts)


class Positions:
    """Methods that remember, with the object by which they are found."""

    def __init__(self, width):
        self.width, self.asked = width, []

    def __len__(self):
        raise AssertionError("nobody asks whether it is empty")

    @functools.cache  # noqa: B019
    def count(self, rows):
        self.asked.append(rows)
        return rows * self.width

    @functools.lru_cache  # noqa: B019
    def table(self, rows, offset=0):
        return torch.arange(rows * self.width).view(rows, self.width) + offset


def cached_methods():
    positions, other = Positions(4), Positions(2)

    def program(x, at):
        return x * at.count(3) + at.table(1, offset=2).sum(), at.table(1, offset=2) is at.table(1, offset=2)

    yield lambda x: (program(x, positions), program(x, other))
    positions.width = 7  # nobody asks again
    yield positions.asked, other.asked
    yield positions.asked, positions.table(1, offset=2)


made = []


def cached_objects():
    """What a cached function makes is made once, and is one object for compiled and plain code."""
    made.clear()

    def program(x):
        cooked = recipe("a bc def", times=2)
        return x * sum(sizes_of(cooked, 3)), cooked is recipe("a bc def", times=2), cooked

    yield program
    yield list(made), recipe("a bc def", times=2)
    recipe("more")
    yield list(made)


def identities():
    one, other = nn.ReLU(), nn.Tanh()
    table = {id(one): 3, id(other): 5}
    holder = {"it": one}
    yield lambda x: x * table[id(holder["it"])]
    yield
    holder["it"] = other
    yield


def weak():
    kept = [nn.ReLU()]
    reference = weakref.ref(kept[0])
    yield lambda x: x if reference() is None else reference()(x)
    yield
    kept.clear()
    yield


def getters():
    first = operator.itemgetter(0)

    def program(x):
        both = operator.itemgetter(1, -1)([x, 2, 3])
        return first([x + 1, 2]), both, operator.attrgetter("shape", "data.ndim")(x), operator.methodcaller("sum")(x)

    yield program
    yield
    first = operator.itemgetter(1)
    yield


def return_types():
    def program(x):
        values, at = x.max(0).values, torch.topk(x, 2).indices
        return values, at, x.sort().values, torch.linalg.slogdet(torch.eye(2) * x[0]).logabsdet, x.max(0)

    yield program
    yield


def strided_writes():
    def program(x):
        y = x.clone()
        y[::2] *= 2
        y[1:3] = y[1:3]
        return y

    yield program
    yield


def more_iterators():
    import itertools

    def program(x):
        pairs = list(itertools.pairwise([x, 2, 3]))
        odd = list(itertools.filterfalse(lambda i: i % 2 == 0, range(5)))
        turns = itertools.cycle([1, 2])
        taken = [next(turns) for _ in range(5)]
        counts = collections.Counter("abca")
        chosen = list(itertools.compress([x, x + 1, x + 2], [1, 0, 1]))
        return pairs, odd, taken, chosen, counts["a"], counts["z"], "-".join(map(str, taken)), counts

    yield program
    yield


def constructors():
    yield lambda x: (
        torch.LongTensor([2, 3]) + x[:2],
        torch.FloatTensor([1, 2.5]),
        torch.ops.aten.full.default([2], 1.5) + x[:2],
        torch.ops.prims.iota.default(4, start=0, step=1, dtype=torch.int64, device=x.device, requires_grad=False),
    )
    yield


@torch.jit.script
def scripted(x: torch.Tensor, n: int):
    return x * n + 1


def scripts():
    yield lambda x: scripted(x.sin(), 3).cos()
    yield


WHOLE = [aliased, aliased_written, counted_lookups, upper, ordered, missing, stack, views, signatures, layers, slices]
WHOLE += [cached_methods, scripts, backwards, backwards_by_items]
WHOLE += [bound_methods, caches, cached_objects, identities, weak, getters, return_types, strided_writes, more_iterators, constructors]


def played(make, transform):
    """What the program gives and what is seen of the world, call by call."""
    steps = make()
    program = transform(next(steps))
    seen = []
    while True:
        with torch.no_grad():
            given = program(X.clone())
        try:
            seen.append((given, next(steps)))
        except StopIteration:
            return seen, program


@pytest.mark.parametrize("make", WHOLE, ids=lambda make: make.__name__)
def test_the_program_cannot_tell(make):
    for cache in (remembered, recipe, sizes_of):
        cache.cache_clear()
    expected, _ = played(make, lambda program: program)
    if make is cached_objects:
        recipe.cache_clear()
    found, program = played(make, whole)
    assert len(expected) == len(found)
    for wanted, given in zip(expected, found, strict=True):
        assert_same(wanted, given)
    assert program.compilation.codes == []


def whole(program):
    bound = getattr(program, "__self__", None)
    if bound is None:
        return compiled(program)
    function = compiled(program.__func__)
    call = functools.partial(function, bound)
    call.compilation = function.compilation
    return call


def assert_same(wanted, given):
    assert type(wanted) is type(given)
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(given, wanted)
    elif isinstance(wanted, dict):
        assert list(dict.keys(wanted)) == list(dict.keys(given))
        assert_same(list(dict.values(wanted)), list(dict.values(given)))
    elif isinstance(wanted, (list, tuple)):
        assert len(wanted) == len(given)
        for one, other in zip(plain(wanted), plain(given), strict=True):
            assert_same(one, other)
    elif isinstance(wanted, (type({}.keys()), type({}.items()), type(collections.OrderedDict().keys()))):
        assert_same(list(wanted), list(given))
    elif isinstance(wanted, Recipe):
        assert wanted.parts == given.parts
    else:
        assert wanted == given


def plain(sequence):
    """The items, whatever a subclass makes of them."""
    return list(list.__iter__(sequence) if isinstance(sequence, list) else sequence)


def test_a_method_of_a_tensor_is_about_the_tensor_of_each_call():
    def program(method, x):
        return method(x > 0.4, 0)

    function = compiled(program)
    for x in (torch.tensor([0.2, 0.5]), torch.tensor([0.7, 0.1])):
        assert torch.equal(function(x.masked_fill, x), program(x.masked_fill, x))


def test_a_method_of_a_tensor_is_looked_up_before_a_region_ends():
    def program(x, y):
        y.detach().add_(1)
        return x.masked_fill(x > 0.37, 0)

    for function in (program, compiled(program)):
        x = torch.tensor(0.2)
        assert function(x, x.detach().requires_grad_()) == 0


class Told(Exception):
    def __init__(self, told):
        super().__init__("text", 1)
        self.told = told


def told_by_its_class(error, x):
    Told.__init__(error, x)
    return x * 2


def told_by_pythons_class(error, x):
    BaseException.__init__(error, "other", 2)
    return x * 2


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("function", [told_by_its_class, told_by_pythons_class])
def test_an_exception_from_outside_is_given_other_arguments(function):
    def outcome(function):
        error = Told(3)
        error.args = (4,)
        return function(error, torch.ones(2)).tolist(), repr(error), str(error.told)

    assert outcome(dynascope.compile(function, backend="eager")) == outcome(function)
