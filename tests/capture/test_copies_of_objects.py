"""copy.copy and copy.deepcopy of objects, containers and what refers to itself; sets changed in place; addresses as keys."""

import collections
import copy

import dynascope
import pytest
import torch
from harness import compiled
from test_outside_protocols import assert_same

X = torch.ones(2)


class Settings:
    limit = 4

    def __init__(self):
        self.names, self.table, self.kept = ["a", "b"], {"k": (3, [4])}, None


class WithState(Settings):
    def __getstate__(self):
        return {"names": [*self.names, "state"]}

    def __setstate__(self, state):
        self.names = state["names"]


class Reduced(Settings):
    def __reduce__(self):
        return Settings, (), {"names": ["reduced"]}


class Own(Settings):
    def __deepcopy__(self, memo):
        made = Settings()
        made.names = copy.deepcopy(self.names, memo) * 2
        return made


def copies(x, thing):
    one, deep = copy.copy(thing), copy.deepcopy(thing)
    deep.names.append("c")
    one.kept = 5
    return x * len(deep.names), one.names is thing.names, deep.names, type(one).__name__, type(deep).__name__, thing.names, thing.kept


@pytest.mark.parametrize("kind", [Settings, WithState, Reduced, Own], ids=lambda kind: kind.__name__)
def test_objects(kind):
    call = dynascope.compile(copies, fullgraph=True)
    for _ in range(2):
        assert_same(copies(X, kind()), call(X, kind()))


def test_containers_and_what_is_in_them_twice():
    def function(x, given):
        inner = [x.shape[0]]
        made = copy.deepcopy({"one": inner, "two": [inner, (inner, 3)], "given": given})
        made["one"].append(7)
        return x + 1, made, made["one"] is made["two"][0], inner, given

    call = dynascope.compile(function, fullgraph=True)
    assert_same(function(X, {"k": [1, 2]}), call(X, {"k": [1, 2]}))


@pytest.mark.may_break
def test_what_holds_itself():
    def function(x):
        loop = [1]
        loop.append(loop)
        made = copy.deepcopy(loop)
        return x + 1, made[1] is made, made is loop

    assert_same(function(X), dynascope.compile(function)(X))


def test_addresses_find_what_they_are_of():
    def function(x, a, b):
        seen = {id(a): "a", id(x): "x"}
        return x * 2, seen.get(id(b)), seen[id(a)], id(a) == id(b), id(x) in seen

    call = dynascope.compile(function, fullgraph=True)
    one, other = [1], [1]
    for a, b in ((one, other), (one, one), (other, one)):
        assert_same(function(X, a, b), call(X, a, b))


def test_a_copy_of_equal_constants_is_captured_once():
    """The addresses that `copy` looks up are those of None, True and small numbers too: they are the same, at each call."""

    class Options:
        def __init__(self):
            self.first, self.second, self.scale, self.same, self.name = None, None, 2, 2, "a"

    def function(x, options):
        copied = copy.deepcopy(options)
        copied.scale = 3
        return x * copied.scale, copied.second, options.scale

    call = compiled(function)
    given = Options()
    for _ in range(3):
        assert_same(function(X, given), call(X, given))
    assert len(call.captures) == 1


@pytest.mark.may_break
def test_an_address_itself_is_pythons():
    def function(x, a):
        return x * 2, id(a) % 2, id(a) == id(x)

    given = [1]
    assert_same(function(X, given), dynascope.compile(function)(X, given))
    assert dynascope.compile(lambda x, a: (x * 2, id(a)))(X, given)[1] == id(given)


def test_sets_in_place():
    def function(x, given):
        names = {"a", "b"}
        same = names
        names |= {"c"}
        names &= {"a", "c"}
        given -= {1}
        given ^= {5, 2}
        frozen = frozenset({1})
        frozen |= {2}
        return x * len(names), same is names, len(given), len(frozen)

    call = dynascope.compile(function, fullgraph=True)
    mine, theirs = {1, 2, 3}, {1, 2, 3}
    assert_same(function(X, theirs), call(X, mine))
    assert mine == theirs


def tensors_in_containers(x, y):
    first = {"one": x, "again": [x, (x, 2)]}
    made = copy.deepcopy(first)
    made["one"].add_(1)
    return made, made["one"] is made["again"][0], x, copy.deepcopy([x, y * 2])


@pytest.mark.parametrize("backend", ["eager", pytest.param("dynascope", marks=pytest.mark.compiler)])
@pytest.mark.parametrize("shape", [(3,), (2, 3)], ids=str)
def test_tensors_in_containers(shape, backend):
    call = dynascope.compile(tensors_in_containers, backend=backend, fullgraph=True)
    for _ in range(2):
        x = torch.arange(1.0, 1 + torch.Size(shape).numel()).view(shape).t() if len(shape) > 1 else torch.ones(shape)
        assert_same(tensors_in_containers(x, x + 1), call(x, x + 1))


def parts_of_one_memory(x):
    made = copy.deepcopy([x, x[1:]])
    made[1].add_(1)
    return made


def own_notes(x):
    notes = {}
    made = x.__deepcopy__(notes)
    return made, len(notes) > 0


@pytest.mark.expects("foreign-call")
@pytest.mark.parametrize("function", [parts_of_one_memory, own_notes], ids=lambda function: function.__name__)
def test_what_a_graph_does_not_copy_as_python_does(function):
    assert_same(function(torch.ones(3)), dynascope.compile(function)(torch.ones(3)))


def test_a_table_with_other_keys_than_names_is_no_operand():
    def function(x, table):
        try:
            torch.add(x, x, alpha=table)
        except TypeError as error:
            return x + 1, type(error)

    with dynascope.expected("foreign-value"):
        assert dynascope.compile(function)(X, {X: 1})[1] is function(X, {X: 1})[1]


@pytest.mark.may_break
def test_the_gradient_of_a_tensor_is_copied_with_it():
    def program(scale):
        kept = torch.zeros(3)
        kept.grad = torch.ones(3) * scale
        copied = copy.deepcopy(kept)
        return copied.grad, copied.grad is kept.grad, copy.deepcopy(torch.zeros(2)).grad

    found = dynascope.compile(program, backend="eager")(2.0)
    assert found[0].tolist() == [2.0, 2.0, 2.0] and found[1:] == (False, None)


@pytest.mark.may_break
def test_what_is_set_beside_the_items_of_an_ordered_dictionary():
    """As `state_dict()` keeps the versions of modules."""

    def note(found, name):
        if hasattr(found, "versions"):
            found.versions[name] = len(found)

    def program():
        found = collections.OrderedDict()
        found.versions = {}
        note(found, "a")
        found["x"] = 1
        note(found, "b")
        return found.versions, copy.deepcopy(found).versions, copy.copy(found).versions is found.versions, hasattr(found, "other")

    assert dynascope.compile(program, backend="eager")() == program() == ({"a": 0, "b": 1}, {"a": 0, "b": 1}, True, False)


@pytest.mark.may_break
def test_state_of_modules_says_which_version_they_have():
    def program():
        return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).state_dict()

    found = dynascope.compile(program, backend="eager")()
    assert dict(found._metadata) == dict(program()._metadata) and len(found._metadata) == 3


class Configuration:
    """As a dataclass: its defaults are the class's, None among them."""

    kind = None
    width = 4

    def __init__(self, **given):
        self.__dict__.update(given)


configuration = Configuration(kind=None, names=["a"])


def test_a_copy_of_what_has_defaults_of_none():
    def program(x):
        own = copy.deepcopy(configuration)
        own.__dict__["kind"] = 3
        own.names.append("b")
        return x * own.kind * own.width * len(own.names), configuration.kind

    compiled = dynascope.compile(program, fullgraph=True, backend="eager")
    assert torch.equal(compiled(torch.ones(2))[0], torch.full((2,), 24.0))
    assert compiled(torch.ones(2))[1] is None and configuration.names == ["a"]


def test_an_ordered_dict_with_what_lies_beside_it():
    layer = torch.nn.Linear(3, 3)

    def f(x):
        kept = copy.deepcopy(layer.state_dict())
        given = collections.OrderedDict(a=x, b=[x, 2])
        given.tag = [1]
        made = copy.deepcopy(given)
        made["a"] += 1
        made.tag.append(2)
        same = made["a"] is made["b"][0]
        tensors = layer(x), given["a"] * 1, made["a"] * 1
        return *tensors, kept["weight"] is layer.weight, kept._metadata, list(kept), given.tag, made.tag, same

    compiled = dynascope.compile(f, fullgraph=True)
    x = torch.randn(2, 3)
    ours, theirs = compiled(x.clone()), f(x.clone())
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other) if isinstance(one, torch.Tensor) else one == other


class Batch:
    def __init__(self, x, y):
        self.x, self.rows = x, [x, y, y]


class Linked:
    def __init__(self, x):
        self.x, self.me = x, self

    def __deepcopy__(self, memo):
        made = memo[id(self)] = Linked.__new__(Linked)
        made.x, made.me = copy.deepcopy(self.x, memo), copy.deepcopy(self.me, memo)
        made.found = memo.get(id(self.x)) is made.x
        return made


def changed(copied, x):
    x.mul_(3)
    return copied


@pytest.mark.parametrize(
    "function",
    [
        lambda x: changed(copy.deepcopy(x), x) + x,
        lambda x: changed(copy.deepcopy({"x": x, "rows": [x + 1]}), x)["x"] + x,
        lambda x: [rows := copy.deepcopy(Batch(x, x + 1)).rows, rows[1] is rows[2], rows[0] is x, x + rows[1]],
        lambda x: [made := copy.deepcopy(Linked(x)), made.me is made, made.found, changed(made.x, x) + x][1:],
    ],
    ids=["tensor", "dict", "object", "own method"],
)
def test_a_copy_is_one_of_whatever_is_given(function):
    call = compiled(function)
    for turn in range(3):
        assert_same(function(X + turn), call(X + turn))
    assert (len(call.compilation.graphs), call.compilation.codes) == (1, [])


def test_notes_that_the_program_made_are_kept_to():
    def function(x, y):
        notes = {id(x): x}
        one, other = copy.deepcopy([x, y], notes)
        return one is x, other is y, other + one

    call = dynascope.compile(function, fullgraph=True)
    for _ in range(2):
        assert_same(function(X, X + 1), call(X, X + 1))


def test_types_devices_and_sets_of_one():
    given = [torch.float16, torch.device("cpu", 0), {"one"}, frozenset(["one"]), set()]

    def function(x):
        dtype, device, one, frozen, empty = copy.deepcopy(given)
        one.add(x.shape[0])
        empty.add(3)
        return x.to(dtype), device, len(one), frozen, empty, given

    assert_same(function(X), dynascope.compile(function, fullgraph=True)(X))


def test_a_set_from_outside_is_copied_in_its_order():
    def function(x, given):
        return x * len(given), copy.deepcopy(given), list(copy.deepcopy(given))

    grown = set(range(60)) - {*range(60)}.difference({1, 33, 5, 40})
    compiled = dynascope.compile(function, fullgraph=True)
    for given in ({7, "a", 9}, grown, {33, 1, 40, 5}):
        expected, found = function(X, given), compiled(X, given)
        assert_same(expected, found)
        assert list(expected[1]) == list(found[1])
