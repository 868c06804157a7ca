"""What the program depended on changes between two calls: the compiled program follows."""

import collections
import sys
import threading
import types

import pytest
import torch
from harness import compiled
from test_programs import same
from torch import nn

X = torch.arange(6.0).reshape(2, 3)
FACTOR = 2
TABLE = {"a": 1.0, "b": [1, 2]}


def helper(x):
    return x + 1


class Thing:
    scale = 3

    def __init__(self):
        self.value = 1
        self.items = [X, X + 1]

    def apply(self, x):
        return x * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Dropout(1.0)])
        self.mode = "plain"

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x if self.mode == "plain" else x * 2


def check(function, change, *arguments):
    """Equal before and after the change, and back."""
    dispatch = compiled(function)
    assert same(dispatch(*arguments), function(*arguments))
    before = dispatch(*arguments)
    change()
    expected = function(*arguments)
    assert not same(before, expected), "the change must be visible"
    assert same(dispatch(*arguments), expected)


def test_global_number(monkeypatch):
    check(lambda x: x * FACTOR, lambda: monkeypatch.setitem(globals(), "FACTOR", 5), X)


def test_global_function(monkeypatch):
    check(lambda x: helper(x), lambda: monkeypatch.setitem(globals(), "helper", lambda x: x - 1), X)


def test_code_of_a_function(monkeypatch):
    check(lambda x: helper(x), lambda: monkeypatch.setattr(helper, "__code__", (lambda x: x - 1).__code__), X)


def test_hidden_builtin(monkeypatch):
    check(lambda x: x * len(x), lambda: monkeypatch.setitem(globals(), "len", lambda x: 7), X)


def test_item_of_a_global_dictionary(monkeypatch):
    check(lambda x: x * TABLE["a"], lambda: monkeypatch.setitem(TABLE, "a", 4.0), X)


def test_length_of_a_list(monkeypatch):
    check(lambda x: x * sum(TABLE["b"]), lambda: monkeypatch.setitem(TABLE, "b", [1, 2, 3]), X)


def test_instance_attribute():
    thing = Thing()
    check(lambda x: x * thing.value, lambda: setattr(thing, "value", 9), X)


def test_class_attribute(monkeypatch):
    thing = Thing()
    check(lambda x: thing.apply(x), lambda: monkeypatch.setattr(Thing, "scale", 10), X)


def test_class_attribute_hidden_by_the_instance():
    thing = Thing()
    check(lambda x: thing.apply(x), lambda: setattr(thing, "scale", 10), X)


def test_method_of_the_class(monkeypatch):
    thing = Thing()
    check(lambda x: thing.apply(x), lambda: monkeypatch.setattr(Thing, "apply", lambda self, x: x), X)


def test_method_hidden_by_the_instance():
    thing = Thing()
    check(lambda x: thing.apply(x), lambda: setattr(thing, "apply", lambda x: x - 5), X)


def test_other_tensor_in_a_list():
    thing = Thing()
    check(lambda x: x * thing.items[1], lambda: thing.items.__setitem__(1, X.double()), X)


def test_training_flag():
    net = Net()
    check(lambda x: net(x), net.eval, X)


def test_submodule():
    net = Net().eval()
    check(lambda x: net(x), lambda: net.layers.__setitem__(1, nn.Tanh()), X)


def test_more_submodules():
    net = Net().eval()
    check(lambda x: net(x), lambda: net.layers.append(nn.Tanh()), X)


def test_hook():
    net = Net().eval()
    check(lambda x: net(x), lambda: net.layers[0].register_forward_hook(lambda m, i, o: o * 3), X)


def test_hook_of_all_modules():
    net = Net().eval()
    handles = []
    register = nn.modules.module.register_module_forward_hook
    try:
        check(lambda x: net(x), lambda: handles.append(register(lambda m, i, o: o * 3)), X)
    finally:
        for handle in handles:
            handle.remove()


def test_forward_of_the_instance():
    net = Net().eval()
    forward = types.MethodType(lambda self, x: x * 7, net.layers[0])
    check(lambda x: net(x), lambda: setattr(net.layers[0], "forward", forward), X)


def test_parameter_replaced():
    net = Net().eval()
    check(lambda x: net(x), lambda: setattr(net.layers[0], "weight", nn.Parameter(torch.ones(3, 3))), X)


def test_closure():
    n = 2

    def program(x):
        return x * n

    def change():
        nonlocal n
        n = 5

    check(program, change, X)


def test_default_of_a_function(monkeypatch):
    def inner(x, k=2):
        return x * k

    check(lambda x: inner(x), lambda: monkeypatch.setattr(inner, "__defaults__", (9,)), X)


def test_grad_mode():
    weight = torch.ones(3, requires_grad=True)
    dispatch = compiled(lambda x: x * weight)
    assert dispatch(X).requires_grad
    with torch.no_grad():
        assert not dispatch(X).requires_grad


def test_missing_attribute_appears():
    thing = Thing()
    check(lambda x: x * 2 if hasattr(thing, "late") else x, lambda: setattr(thing, "late", 1), X)


def appears(owner, name, value):
    """A program's change and its way back: the name is there, then it is gone."""
    return lambda: setattr(owner, name, value), lambda: delattr(owner, name)


class Empty:
    pass


class Slotted:
    __slots__ = ("late",)


class Answering:
    def __getattr__(self, name):
        return 7


OWNERS = [Thing(), Slotted(), Answering(), Empty, types.ModuleType("own_module"), Net(), helper]


@pytest.mark.parametrize("owner", OWNERS, ids=lambda owner: getattr(owner, "__name__", type(owner).__name__))
def test_names_appear_and_go(owner):
    def with_default(x):
        return x + getattr(owner, "late", 0)

    def asked(x):
        return x * 2 if hasattr(owner, "late") else x

    def handled(x):
        try:
            return x + owner.late
        except AttributeError:
            return x

    for program in (with_default, asked, handled):
        dispatch = compiled(program)
        for change in (lambda: None, *appears(owner, "late", 5), *appears(owner, "late", 3)):
            change()
            assert same(dispatch(X), program(X))


def test_names_appear_in_the_class():
    thing = Empty()

    def program(x):
        return x + getattr(thing, "late", 0)

    dispatch = compiled(program)
    for change in (lambda: None, *appears(Empty, "late", 5)):
        change()
        assert same(dispatch(X), program(X))


def test_buffer_appears():
    net = Net()
    check(lambda x: x if getattr(net, "late", None) is None else x + 5, lambda: net.register_buffer("late", X), X)


def test_attribute_of_a_class(monkeypatch):
    check(lambda x: x * Thing.scale, lambda: monkeypatch.setattr(Thing, "scale", 10), X)


def test_class_held_by_a_class(monkeypatch):
    Thing.kind = list
    check(lambda x: (x, Thing.kind(())), lambda: monkeypatch.setattr(Thing, "kind", tuple), X)


class Base:
    factor = property(lambda self: 3)

    def apply(self, x):
        return x + 1

    @classmethod
    def name(cls):
        return "base"


class Derived(Base):
    factor = property(lambda self: super().factor + 1)

    def apply(self, x):
        return super().apply(x) * 2

    @classmethod
    def name(cls):
        return super().name() + cls.__name__


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("apply", lambda self, x: x * 100),
        ("factor", property(lambda self: 77)),
        ("name", classmethod(lambda cls: "other")),
    ],
)
def test_what_super_finds(monkeypatch, name, entry):
    thing = Derived()
    program = lambda x: (thing.apply(x), thing.factor, thing.name())  # noqa: E731
    check(program, lambda: monkeypatch.setattr(Base, name, entry), X)


def test_module_imported_inside(monkeypatch):
    module = types.ModuleType("dynascope_own_module")
    module.scale = 2
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def program(x):
        import dynascope_own_module

        return x * dynascope_own_module.scale

    check(program, lambda: setattr(module, "scale", 7), X)


def test_values_of_a_thread(monkeypatch):
    local = threading.local()
    local.value = 2
    check(lambda x: x * getattr(local, "value", 100), lambda: setattr(local, "value", 5), X)


def calls_agree(program, *calls):
    """One compiled program for calls with different arguments."""
    dispatch = compiled(program)
    for arguments in calls:
        assert same(dispatch(*arguments), program(*arguments))


@pytest.mark.parametrize("make", [Thing, list, torch.Tensor.clone, Net], ids=["thing", "list", "tensor", "module"])
def test_two_objects_become_one(make):
    one, other = (make(X), make(X)) if make is torch.Tensor.clone else (make(), make())
    calls_agree(lambda a, b: (a is b, a is not b), (one, other), (one, one), (other, one))


def test_items_compared_by_identity():
    one, other = Thing(), Thing()
    calls_agree(
        lambda thing, things: (thing in things, things.count(thing)),
        (one, [other, Thing()]),
        (one, [other, one]),
        (other, [other, one]),
    )


def test_keys_compared_by_identity():
    one, other = Thing(), Thing()
    calls_agree(lambda a, b: (len({a, b}), len({a: 1, b: 2})), (one, other), (one, one), (other, one))


@pytest.mark.parametrize(
    "key", [Thing(), X, helper, (helper, 1), Net()], ids=["thing", "tensor", "function", "tuple", "module"]
)
def test_objects_as_keys_of_a_dictionary_from_outside(key):
    table = collections.defaultdict(dict, {key: {"steps": 0}, Thing: 1, len: 2, "name": 3})

    def program(x, wanted):
        if wanted in table:
            table[wanted]["steps"] += 1
        return x, table.get(wanted, 5), [each == wanted for each in table], table[Thing], table[len]

    calls_agree(program, (X, key), (X, "none"), (X, Thing()), (X, key))
    assert table[key] == {"steps": 4}


def test_optimizer_finds_its_state():
    def train(wrap):
        weight = torch.ones(3, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)

        def step(x):
            (x * weight).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        step = wrap(step)
        for _ in range(3):
            step(X)
        return weight.detach()

    torch.testing.assert_close(train(compiled), train(lambda function: function))


def test_defaults_are_given_later(monkeypatch):
    def inner(x, k, *, j):
        return x * k + j

    def program(x):
        try:
            return inner(x)
        except TypeError as error:
            return str(error).partition("<locals>.")[2]

    dispatch = compiled(program)
    for defaults, keyword_defaults in (
        (None, None),
        ((2,), None),
        ((2,), {"j": 3}),
        (None, {"j": 3}),
        ((4,), {"j": 1}),
    ):
        inner.__defaults__, inner.__kwdefaults__ = defaults, keyword_defaults
        assert same(dispatch(X), program(X))


def test_attribute_of_a_tensor():
    x = X.clone()
    check(lambda x: x + getattr(x, "late", 3), lambda: setattr(x, "late", 9), x)


def test_global_appears(monkeypatch):
    def program(x):
        try:
            return x + LATE  # noqa: F821
        except NameError:
            return x

    check(program, lambda: monkeypatch.setitem(globals(), "LATE", 5), X)


def test_default_device():
    calls = [torch.device("cpu"), torch.device("meta"), torch.device("cpu")]
    dispatch = compiled(lambda: (torch.zeros(2).device.type, torch.get_default_device().type, torch.ones(2)))
    for device in calls:
        with device:
            assert dispatch()[:2] == (device.type, device.type)
            assert dispatch()[2].device == device


def test_arguments_that_become_one_object():
    def program(a, b):
        a.append(1)
        return len(b)

    dispatch = compiled(program)
    one, other = [], []
    assert dispatch(one, other) == 0
    assert dispatch(one, one) == 2


def test_tensors_that_begin_to_share_memory():
    def program(a, b):
        a.add_(1)
        return b * 2

    dispatch = compiled(program)
    one = torch.zeros(3)
    assert same(dispatch(one, torch.zeros(3)), torch.zeros(3))
    assert same(dispatch(one, one), torch.full((3,), 4.0))
    memory = torch.zeros(4)
    assert same(dispatch(memory[:3], memory[1:]), torch.tensor([2.0, 2.0, 0.0]))


@pytest.mark.parametrize("value", [0.0, -0.0, float("nan"), 0, False])
def test_numbers_that_are_nearly_equal(value):
    dispatch = compiled(lambda x, n: (x * n, n))
    for each in (0.0, value, 0, value):
        expected, got = (X * each, each), dispatch(X, each)
        torch.testing.assert_close(got[0], expected[0], rtol=0, atol=0, equal_nan=True)
        assert type(got[1]) is type(each)
        assert str(got[1]) == str(each)


def test_effects_happen_at_every_call():
    thing, seen = Thing(), collections.deque()

    def program(x):
        thing.value += 1
        thing.items.append(x)
        TABLE["n"] = thing.value
        return x

    dispatch = compiled(program)
    for count in (2, 3, 4):
        dispatch(X)
        assert (thing.value, len(thing.items), TABLE["n"]) == (count, count + 1, count)
    assert not seen
