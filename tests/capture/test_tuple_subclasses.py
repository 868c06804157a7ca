"""Objects of subclasses of tuple with methods of their own: these come first, and the inherited ones see the items."""

import dynascope
import pytest
import torch


class Irrep(tuple):
    """Says nothing of its length, and compares its first item alone."""

    __slots__ = ()

    def __new__(cls, order, parity=None):
        if parity is None:
            if isinstance(order, Irrep):
                return order
            order, parity = order
        return super().__new__(cls, (order, parity))

    @property
    def order(self):
        return self[0]

    @property
    def dim(self):
        return 2 * self.order + 1

    def __mul__(self, other):
        return Irrep(self.order + other.order, self[1] * other[1])

    def __len__(self):
        raise NotImplementedError

    def __lt__(self, other):
        return self.order < other.order


class Irreps(tuple):
    def __new__(cls, items=()):
        if isinstance(items, Irreps):
            return super().__new__(cls, items)
        return super().__new__(cls, [Irrep(item) for item in items])

    @property
    def dim(self):
        return sum(each.dim for each in self)

    def __getitem__(self, at):
        found = super().__getitem__(at)
        return Irreps(found) if isinstance(at, slice) else found

    def __contains__(self, item):
        return tuple.__contains__(self, Irrep(item))

    def __add__(self, other):
        return Irreps(tuple.__add__(self, other))


class Named(tuple):
    """Has a name beside its items."""

    def __new__(cls, items, name="none"):
        made = super().__new__(cls, items)
        made.name = name
        return made

    def __call__(self, x):
        return [each(x) for each in self]


class Counted(tuple):
    def __init__(self, items):
        self.total = sum(items)

    def __bool__(self):
        return self.total > 3


OUTSIDE, PAIR = Irreps([(1, 1), (2, -1)]), Irrep(1, -1)
NAMED, COUNTED = Named([torch.neg, torch.abs], "signs"), Counted((1, 2))
SCALES = Named([torch.full((2,), 2.0), torch.full((2,), 3.0)])

PROGRAMS = {
    "made inside": lambda x: x * Irrep(2, -1).dim * Irrep((1, 1)).order,
    "from outside": lambda x: x * OUTSIDE.dim * PAIR.dim,
    "an operator": lambda x: (x * (PAIR * Irrep(1, 1)).dim, PAIR * PAIR),
    "made of another": lambda x: (x * Irreps(OUTSIDE).dim, Irreps(OUTSIDE)),
    "slices": lambda x: (x * OUTSIDE[1:].dim, OUTSIDE[:1], OUTSIDE[-1]),
    "sums": lambda x: (x, OUTSIDE + Irreps([(0, 1)]), (OUTSIDE + (PAIR,)).dim),
    "contains": lambda x: (x, (1, 1) in OUTSIDE, (3, 1) in OUTSIDE, PAIR in OUTSIDE),
    "length": lambda x: (x, len(OUTSIDE), bool(Irreps()), bool(OUTSIDE)),
    "unpacked": lambda x: [x * order for order, _ in OUTSIDE],
    "plain again": lambda x: (x, tuple(OUTSIDE), list(OUTSIDE), type(tuple(OUTSIDE)) is tuple, isinstance(PAIR, tuple)),
    "a name": lambda x: (NAMED(x), NAMED.name, Named((x, x), name="two").name),
    "tensors in it": lambda x: sum((x * each for each in SCALES), torch.zeros(2)),
    "returned": lambda x: Named((x + 1, x + 2), name="results"),
    "an initializer": lambda x: (x, Counted([3, 4]).total, bool(COUNTED), bool(Counted((4,))), Counted((1,))),
    "a key": lambda x: (x, {Irreps([(1, 1)]): 1}[Irreps([(1, 1)])], len({Irreps(), Irreps(), OUTSIDE})),
    "methods of a tuple": lambda x: (x, OUTSIDE.index((2, -1)), OUTSIDE.count(PAIR)),
}


def described(result):
    if isinstance(result, torch.Tensor):
        return result.tolist()
    if isinstance(result, (tuple, list)):
        return type(result), getattr(result, "name", None), [described(each) for each in type(result).__iter__(result)]
    return result


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    program = PROGRAMS[name]
    compiled = dynascope.compile(program, fullgraph=True)
    for _ in range(2):
        assert described(compiled(torch.ones(2))) == described(program(torch.ones(2)))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x, Irreps(OUTSIDE) == OUTSIDE, PAIR == (1, -1), OUTSIDE != ()),
        lambda x: (x, sorted([Irrep(2, 1), PAIR]), Irrep(2, 1) > PAIR, Irreps() < OUTSIDE, COUNTED >= (1, 1)),
        lambda x: (x, OUTSIDE * 2, hash(PAIR), repr(PAIR)),
        lambda x: (x, {PAIR: 1}[PAIR], {COUNTED: 2}[(1, 2)], {(1, 2): 3}[Counted((1, 2))]),
    ],
    ids=["equality", "order", "other methods", "keys"],
)
def test_what_may_end_a_graph_is_as_eager(program):
    compiled = dynascope.compile(program)
    with dynascope.expected("foreign-call", "foreign-value", "unsupported-attribute", required=False):
        for _ in range(2):
            assert described(compiled(torch.ones(2))) == described(program(torch.ones(2)))


def test_another_object_is_another_case():
    compiled = dynascope.compile(lambda x, irreps: x * irreps.dim, fullgraph=True)
    for irreps in (OUTSIDE, Irreps([(1, 1), (3, 1)]), Irreps([(1, 1)]), Irreps(), OUTSIDE):
        assert compiled(torch.ones(2), irreps).tolist() == [irreps.dim] * 2


def test_whatever_its_length_says_it_is_guarded():
    compiled = dynascope.compile(lambda x, pair: x * pair.dim * pair[1], fullgraph=True)
    for pair in (PAIR, Irrep(1, 1), Irrep(3, -1)):
        assert compiled(torch.ones(2), pair).tolist() == [pair.dim * pair[1]] * 2


@pytest.mark.expects("print-call")
def test_across_a_break(capsys):
    def program(x):
        made = Named((x + 1, x + 2), name="made")
        print(made.name)
        return made[0] * made[1], made

    assert described(dynascope.compile(program)(torch.ones(2))) == described(program(torch.ones(2)))


class Plain(tuple):
    __slots__ = ()


class Initialised(tuple):
    def __init__(self, items, note=""):
        self.note = note


class Rows(list):
    pass


WRONG = {
    "a name": lambda: Plain(a=1),
    "a name to `__new__`": lambda: tuple.__new__(tuple, [1], extra=1),
    "two": lambda: Plain([1], 2),
    "two to an own `__init__`": lambda: Initialised([1], "note"),
    "another class": lambda: tuple.__new__(list, [1]),
    "no class": lambda: list.__new__(3),
    "two to a list": lambda: Rows([1], 2),
    "a name to a list": lambda: Rows(a=1),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_arguments_are_refused_in_pythons_words(wrong):
    def program(x):
        try:
            wrong()
        except TypeError as error:
            return x + 1, str(error)

    assert dynascope.compile(program, fullgraph=True)(torch.ones(2))[1] == program(torch.ones(2))[1]


def test_names_are_for_an_own_init():
    found = dynascope.compile(lambda x: (x + 1, Initialised([1], note="note")), fullgraph=True)(torch.ones(2))[1]
    assert (found, found.note) == ((1,), "note")
