"""Names that programs do replace between two calls, in libraries and on objects: compiled code follows, there and back."""

import enum
import math
import os
import random
import subprocess
import sys
import textwrap
import time
import types
from unittest import mock

import dynascope
import pytest
import torch
import torch.nn.functional as F
from torch import nn

X = torch.tensor([-2.0, -1.0, 0.5, 3.0])


def same(a, b):
    return a.dtype == b.dtype and torch.equal(a, b)


def follows(function, patch, *arguments, visible=True):
    """As eager before, during and after the patch, and again, compiled before it and compiled under it."""
    early, late = (dynascope.compile(function, backend="eager") for _ in range(2))
    outside = function(*arguments)
    assert same(early(*arguments), outside)
    for _ in range(2):
        with patch():
            expected = function(*arguments)
            assert same(expected, outside) is not visible
            assert same(late(*arguments), expected) and same(early(*arguments), expected)
        assert same(early(*arguments), outside) and same(late(*arguments), outside)


def softplus_of_a_wrapper(x, *arguments):
    return x * 0 + 5


softplus_of_a_wrapper.__module__ = "torch.nn.functional"

PATCHES = [
    (lambda x: F.softplus(x), lambda: mock.patch.object(F, "softplus", lambda x: x * 0 + 5)),
    (lambda x: F.softplus(x), lambda: mock.patch.object(F, "softplus", softplus_of_a_wrapper)),
    (lambda x: torch.sin(x), lambda: mock.patch.object(torch, "sin", torch.cos)),
    (lambda x: torch.nn.functional.relu(x), lambda: mock.patch("torch.nn.functional.relu", lambda x: x + 1)),
    (
        lambda x: nn.functional.relu(x),
        lambda: mock.patch.object(torch.nn, "functional", types.SimpleNamespace(relu=torch.sin)),
    ),
    (lambda x: x.relu(), lambda: mock.patch.object(torch.Tensor, "relu", lambda self: self - 3)),
    (lambda x: x.T, lambda: mock.patch.object(torch.Tensor, "T", property(lambda self: self - 3), create=True)),
    (lambda x: x + 1, lambda: mock.patch.object(torch.Tensor, "__add__", lambda self, other: self - other)),
    (lambda x: 1 - x, lambda: mock.patch.object(torch.Tensor, "__rsub__", lambda self, other: self * 7)),
    (lambda x: -x, lambda: mock.patch.object(torch.Tensor, "__neg__", lambda self: self * 7)),
    (lambda x: x * len(x), lambda: mock.patch.object(torch.Tensor, "__len__", lambda self: 7)),
    (lambda x: abs(x), lambda: mock.patch.object(torch.Tensor, "__abs__", lambda self: self * 7)),
    (lambda x: x * math.pi, lambda: mock.patch.object(math, "pi", 3.0)),
    (lambda x: x * math.sqrt(4), lambda: mock.patch.object(math, "sqrt", lambda x: 9)),
    (lambda x: x * len(os.sep), lambda: mock.patch.object(os, "sep", "12345")),
    (lambda x: x * len(os.path.join("a", "b")), lambda: mock.patch.object(os.path, "join", lambda *p: "a")),
    (lambda x: x * len(os.environ.get("A_NAME", "")), lambda: mock.patch.dict(os.environ, A_NAME="abc")),
    (lambda x: x * ("A_NAME" in os.environ), lambda: mock.patch.dict(os.environ, A_NAME="abc")),
    (lambda x: x * len(os.getenv("A_NAME", "")), lambda: mock.patch.dict(os.environ, A_NAME="abc")),
    (lambda x: x * len(bin(3)), lambda: mock.patch("builtins.bin", lambda x: "ab")),
    (lambda x: x * time.time(), lambda: mock.patch.object(time, "time", lambda: 2.0)),
    (lambda x: x * random.random(), lambda: mock.patch.object(random, "random", lambda: 2.0)),
    (lambda x: x * sys.maxsize, lambda: mock.patch.object(sys, "maxsize", 3)),
    (lambda x: x * (2 if torch.backends.cudnn.enabled else 3), lambda: torch.backends.cudnn.flags(enabled=False)),
    (lambda x: x * (2 if torch.backends.mkldnn.enabled else 3), lambda: torch.backends.mkldnn.flags(enabled=False)),
]


@pytest.mark.parametrize("function, patch", PATCHES)
def test_names_of_libraries(function, patch):
    if "time" in function.__code__.co_names or "random" in function.__code__.co_names:
        compiled = dynascope.compile(function, backend="eager")
        compiled(X)
        with patch():
            assert same(compiled(X), X * 2.0)
        assert not same(compiled(X), X * 2.0)
    else:
        follows(function, patch, X)


def test_indexing_that_is_patched():
    """In a process of its own: for CPython the class stays a sequence afterwards, and `torch.tensor` of a list of tensors fails."""
    text = """
        import torch, dynascope
        from unittest import mock

        def f(x):
            return x[1:]

        x, compiled = torch.ones(3), dynascope.compile(f, backend="eager")
        assert torch.equal(compiled(x), f(x))
        with mock.patch.object(torch.Tensor, "__getitem__", lambda self, at: self * 7):
            assert torch.equal(compiled(x), x * 7) and torch.equal(f(x), x * 7)
        assert torch.equal(compiled(x), torch.ones(2))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(text)], check=True)


@pytest.mark.parametrize(
    "name, value",
    [
        ("_conv_forward", lambda input, weight, bias: input * 0 + 5),
        ("forward", lambda input: input * 0 + 6),
        ("_call_impl", lambda input: input * 0 + 7),
        ("padding", (1,)),
    ],
)
def test_attributes_of_a_library_module(name, value):
    convolution = nn.Conv1d(1, 1, 1).requires_grad_(False)
    model, x = nn.Sequential(convolution), torch.ones(1, 1, 4)
    compiled = dynascope.compile(model, backend="eager")
    before = convolution(x)
    assert same(compiled(x), before)
    kept = getattr(convolution, name)
    object.__setattr__(convolution, name, value)
    assert same(compiled(x), model(x)) and not same(model(x), before)
    if name == "padding":
        convolution.padding = kept
    else:
        delattr(convolution, name)
    assert same(compiled(x), before) and same(model(x), before)


@pytest.mark.parametrize("name", ["_call_impl", "__call__", "_wrapped_call_impl", "forward"])
@pytest.mark.parametrize("cls", [nn.Module, nn.Linear])
def test_methods_of_library_classes(cls, name):
    if cls is nn.Module and name == "forward":
        pytest.skip("no class is without one")
    layer = nn.Linear(4, 4).requires_grad_(False)

    def function(x):
        return layer(x) * 2

    def replaced(self, *arguments, **keywords):
        return nn.Linear.forward(self, *arguments) + 1 if name != "forward" else arguments[0] + 1

    # `Module.__call__` is a function of its own: replacing `_wrapped_call_impl` changes nothing.
    follows(
        function, lambda: mock.patch.object(cls, name, replaced, create=True), X, visible=name != "_wrapped_call_impl"
    )


def test_a_subclass_gets_a_method_that_its_base_had():
    class Scaled(nn.Conv1d):
        pass

    layer, x = Scaled(1, 1, 1).requires_grad_(False), torch.ones(1, 1, 4)
    follows(
        lambda x: layer(x),
        lambda: mock.patch.object(Scaled, "_conv_forward", lambda self, *a: a[0] * 3, create=True),
        x,
    )


class Base:
    def scale(self):
        return 2.0


class Middle(Base):
    pass


class Top(Middle):
    def scale(self):
        return super().scale() + 1.0

    @property
    def doubled(self):
        return 2.0

    @staticmethod
    def constant():
        return 5.0

    @classmethod
    def named(cls):
        return float(len(cls.__name__))


TOP = Top()


@pytest.mark.parametrize(
    "function, patch",
    [
        (lambda x: x * TOP.scale(), lambda: mock.patch.object(Base, "scale", lambda self: 7.0)),
        (lambda x: x * TOP.scale(), lambda: mock.patch.object(Middle, "scale", lambda self: 7.0, create=True)),
        (lambda x: x * TOP.scale(), lambda: mock.patch.object(Top, "scale", lambda self: 7.0)),
        (lambda x: x * TOP.scale(), lambda: mock.patch.object(TOP, "scale", lambda: 7.0)),
        (lambda x: x * TOP.doubled, lambda: mock.patch.object(Top, "doubled", property(lambda self: 7.0))),
        (lambda x: x * TOP.doubled, lambda: mock.patch.object(Top, "doubled", 7.0)),
        (lambda x: x * TOP.constant(), lambda: mock.patch.object(Top, "constant", staticmethod(lambda: 7.0))),
        (lambda x: x * TOP.named(), lambda: mock.patch.object(Top, "named", classmethod(lambda cls: 7.0))),
        (lambda x: x * getattr(TOP, "extra", 2.0), lambda: mock.patch.object(Middle, "extra", 7.0, create=True)),
        (lambda x: x * getattr(Top, "extra", 2.0), lambda: mock.patch.object(Base, "extra", 7.0, create=True)),
        (lambda x: x * (3.0 if hasattr(TOP, "__len__") else 2.0), lambda: mock.patch.object(Base, "__len__", lambda s: 1, create=True)),
        (lambda x: x * (3.0 if TOP else 2.0), lambda: mock.patch.object(Base, "__bool__", lambda s: False, create=True)),
        (lambda x: x * (3.0 if TOP == 1 else 2.0), lambda: mock.patch.object(Base, "__eq__", lambda s, o: True, create=True)),
        (lambda x: x * getattr(TOP, "gone", 2.0), lambda: mock.patch.object(Base, "__getattr__", lambda s, n: 7.0, create=True)),
    ],
)  # fmt: skip
def test_classes_of_the_user(function, patch):
    follows(function, patch, X)


def test_a_users_module_with_a_name_of_the_standard_library():
    module = types.ModuleType("profile")
    exec("SCALE = 2.0\ndef h(x): return x + 1\ndef g(x): return h(x) * SCALE * len([1])", module.__dict__)
    function = lambda x: module.g(x) * module.SCALE  # noqa: E731
    follows(function, lambda: mock.patch.object(module, "h", lambda x: x * 3), X)
    follows(function, lambda: mock.patch.object(module, "SCALE", 5.0), X)
    follows(function, lambda: mock.patch.object(module, "len", lambda x: 5.0, create=True), X)


def test_a_module_is_replaced(monkeypatch):
    def function(x):
        import a_module_that_comes_and_goes as found

        return x * found.value

    def module(value):
        made = types.ModuleType("a_module_that_comes_and_goes")
        made.value = value
        return made

    compiled = dynascope.compile(function, backend="eager")
    for value in (1.0, 9.0, 1.0):
        monkeypatch.setitem(sys.modules, "a_module_that_comes_and_goes", module(value))
        assert same(compiled(X), X * value)


def test_functions_of_a_module_that_was_replaced(monkeypatch):
    def module(value):
        made = types.ModuleType("a_module_of_two_lives")
        exec("def apply(x): return x * value", made.__dict__)
        made.value = value
        return made

    first, second = module(2.0), module(3.0)
    monkeypatch.setitem(sys.modules, "a_module_of_two_lives", first)
    compiled = dynascope.compile(lambda x: first.apply(x), backend="eager")
    assert same(compiled(X), X * 2.0)
    monkeypatch.setitem(sys.modules, "a_module_of_two_lives", second)
    first.value = 5.0
    assert same(compiled(X), X * 5.0)
    second.value = 5.0
    first.value = 6.0
    assert same(compiled(X), X * 6.0)


@pytest.mark.may_break  # newer mocks take a lock around each call
def test_a_mock_in_place_of_a_function():
    compiled = dynascope.compile(lambda x: F.relu(x) + 1, backend="eager")
    compiled(X)
    with mock.patch.object(F, "relu", return_value=torch.zeros(4)) as called:
        assert same(compiled(X), torch.ones(4)) and same(compiled(X), torch.ones(4))
    assert called.call_count == 2
    assert same(compiled(X), F.relu(X) + 1)


def test_a_wrapper_is_run_each_time():
    import functools

    calls = []
    original = F.relu

    @functools.wraps(original)
    def counting(x):
        calls.append(1)
        return original(x)

    compiled = dynascope.compile(lambda x: F.relu(x) + 1, backend="eager")
    with mock.patch.object(F, "relu", counting):
        for _ in range(3):
            assert same(compiled(X), original(X) + 1)
    assert len(calls) == 3


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

    def __init__(self, number):
        self.scale = number * 10


@pytest.mark.parametrize("read", [lambda x, mode: x * mode.scale, lambda x, mode: x * Mode.FAST.scale])
def test_what_a_member_of_an_enum_was_given(read):
    compiled = dynascope.compile(read, backend="eager")
    for scale in (10, 3, 10):
        Mode.FAST.scale = scale
        assert same(compiled(X, Mode.FAST), X * scale)
    assert same(compiled(X, Mode.SLOW), read(X, Mode.SLOW))
