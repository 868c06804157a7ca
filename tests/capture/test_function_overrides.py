"""`__torch_function__`: classes of tensors, objects that are no tensors, and modes are read like any method of the program's."""

import os
import pathlib
import subprocess
import sys

import dynascope
import pytest
import torch
from torch.overrides import TorchFunctionMode, handle_torch_function, has_torch_function


def values(*sizes):
    return torch.arange(1.0, 1 + torch.Size(sizes).numel()).reshape(sizes)


class Named(torch.Tensor):
    """Torch's own `__torch_function__`."""


class Counted(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class Derived(Counted):
    pass


class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale):
        made = data.as_subclass(cls)
        made.scale = scale
        return made

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        if isinstance(result, Scaled):
            result.scale = next(each.scale for each in args if isinstance(each, Scaled)) * 2
        return result


class Own(torch.Tensor):
    def double(self):
        return self * 2

    @property
    def first(self):
        return self[0]

    def __add__(self, other):
        return self.double().as_subclass(torch.Tensor) - other


class Refuses(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented


class Parameter(torch.nn.Parameter):
    pass


HANDLED = {}


def implements(function):
    return lambda implementation: HANDLED.setdefault(function, implementation)


class Measured:
    """No tensor: it holds one."""

    def __init__(self, data, unit):
        self._data, self.unit = data, unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in HANDLED:
            return HANDLED[func](*args, **(kwargs or {}))
        args = [each._data if isinstance(each, Measured) else each for each in args]
        return Measured(func(*args, **(kwargs or {})), "?")


@implements(torch.mean)
def mean(x, *arguments):
    return Measured(torch.mean(x._data, *arguments), x.unit)


@implements(torch.stack)
def stack(items, dim=0):
    return Measured(torch.stack([each._data for each in items], dim), items[0].unit)


@implements(torch.Tensor.add)
def add(left, right):
    data = [each._data if isinstance(each, Measured) else each for each in (left, right)]
    return Measured(data[0] + data[1], "sum")


class Counting(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Subtracting(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return (torch.sub if func is torch.add else func)(*args, **(kwargs or {}))


def operators(x, y):
    z = (x + y).relu() * 2 - y
    largest, at = z.max(dim=1)
    return z, largest, at, z.shape, z.T, torch.cat([x, y]), x[0], len(x), x.split(1), -z, 1 - z, z**2, 2 / z


def in_place(x, y):
    x += y
    x[0] = 7
    z = x.add_(1)
    return z is x, x, y.add_(x), torch.mul(x, y, out=torch.empty(2, 3))


def counted(x, y):
    z = torch.nn.functional.linear(x, y)
    z += 1
    return z.mul_(2), Counted.calls, type(z) is Counted, isinstance(z, torch.Tensor)


def attributes(x, y):
    return x * y + 1, (y - x).scale, x.scale


def made_inside(x, n):
    scaled, named = Scaled(x * 2, n), Named(x)
    return scaled + x, scaled.scale, named * 2, torch.Tensor._make_subclass(Named, x), type(named).__name__


def own_methods(x, y):
    return x.double(), x.first, x + y, hasattr(x, "double")


def rows(x):
    return [row * 2 for row in x], x.size(0), x.dtype, x.device, x.data, x.detach()


def switched_off(x, y):
    with torch._C.DisableTorchFunctionSubclass():
        z = x + y
    return z, x + y


def overridable(a, b):
    if has_torch_function((a, b)):
        return handle_torch_function(overridable, (a, b), a, b)
    return a * b + 1


def handled(x, y):
    return overridable(x, y), overridable(y, y), Counted.calls


def measured(a, b, t):
    return torch.mean(a), torch.add(t, a), torch.exp(a), t + a, torch.stack([a, b])


def under_a_mode(x, y):
    with Counting() as mode:
        z = torch.nn.functional.relu(x) + y
        z = z.view(3, 1)[0] * 2
        size, one = z.shape, torch.ones(3)
    return z, one, size, mode.names


def under_two(x, y):
    with Counting() as mode, Subtracting():
        z = torch.add(x, y) * 3
    return z, mode.names, torch.add(x, y)


def mode_and_class(x, y):
    with Counting() as mode:
        z = x + y
    return z, mode.names, Counted.calls


def linear(x, bias):
    return torch.nn.functional.linear(x, torch.eye(3), bias), type(bias).__name__


CASES = {
    "operators": (operators, lambda: (values(2, 3).as_subclass(Named), values(2, 3))),
    "in place": (in_place, lambda: (values(2, 3).as_subclass(Named), values(2, 3))),
    "counted": (counted, lambda: (values(2, 3).as_subclass(Counted), values(2, 3))),
    "a class and its base": (handled, lambda: (values(3).as_subclass(Derived), values(3).as_subclass(Counted))),
    "attributes": (attributes, lambda: (Scaled(values(3), 2.0), values(3))),
    "made inside": (made_inside, lambda: (values(3), 4)),
    "own methods": (own_methods, lambda: (values(3).as_subclass(Own), values(3))),
    "rows": (rows, lambda: (values(2, 3).as_subclass(Named),)),
    "switched off": (switched_off, lambda: (values(3).as_subclass(Counted), values(3))),
    "handled": (handled, lambda: (values(3).as_subclass(Counted), values(3))),
    "measured": (measured, lambda: (Measured(values(4), "m"), Measured(values(4), "s"), values(4))),
    "a mode": (under_a_mode, lambda: (values(3), values(3))),
    "two modes": (under_two, lambda: (values(3), values(3))),
    "a mode and a class": (mode_and_class, lambda: (values(3).as_subclass(Counted), values(3))),
    "a parameter of a class": (linear, lambda: (values(2, 3), Parameter(values(3)))),
}


def shown(result):
    """What can be compared: classes, contents and attributes."""
    if isinstance(result, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return type(result), result.detach().as_subclass(torch.Tensor).tolist(), vars(result), result.requires_grad
    if isinstance(result, Measured):
        return shown(result._data), result.unit
    if isinstance(result, (list, tuple)):
        return type(result), [shown(item) for item in result]
    return result


def outcome(function, make):
    Counted.calls = 0
    given = make()
    return shown(function(*given)), shown(given), Counted.calls


@pytest.mark.parametrize("name", CASES)
def test_is_read(name):
    function, make = CASES[name]
    compiled = dynascope.compile(function, backend="eager")
    for _ in range(3):
        assert outcome(compiled, make) == outcome(function, make)


def test_gradients_reach_the_tensor_of_the_class():
    def loss(x, y):
        return (x * y).square().sum()

    found = []
    for call in (loss, dynascope.compile(loss)):
        x = values(3).as_subclass(Named).requires_grad_()
        result = call(x, values(3))
        result.backward()
        found.append((type(result), shown(x.grad), x.is_leaf))
    assert found[0] == found[1]


def entered(x, y):
    return torch.add(x, y) * 2 - y.sum()


def test_a_mode_that_is_on_at_the_call_is_read_and_sees_nothing_else():
    compiled = dynascope.compile(entered, backend="eager")
    for _ in range(3):
        seen = []
        for call in (entered, compiled):
            with Counting() as mode, Subtracting():
                seen.append((shown(call(values(3), values(3))), mode.names))
        assert seen[0] == seen[1]
    assert torch.equal(compiled(values(3), values(3)), entered(values(3), values(3)))


FIRST = """
import torch, dynascope
from torch.overrides import TorchFunctionMode

class Noting(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), keywords=None):
        told.append(function.__name__)
        return function(*arguments, **(keywords or {}))

told = []
with Noting():
    x = torch.ones(2)
    dynascope.compile(lambda x: torch.add(x, 1), backend="eager")(x)
print(told)
"""


def test_a_mode_that_is_on_when_the_engine_is_imported_sees_nothing_of_it():
    """Its modules make devices and types."""
    engine = str(pathlib.Path(dynascope.__file__).parent.parent)
    ended = subprocess.run([sys.executable, "-c", FIRST], env={**os.environ, "PYTHONPATH": engine}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "['ones', 'add']"


def modes_exchanged(x, first, second):
    first.__exit__(None, None, None)
    second.__enter__()
    return torch.add(x, 1)


@pytest.mark.parametrize("backend", ["eager", "dynascope"])
def test_a_mode_that_takes_the_place_of_another(backend):
    told = []
    for call in (modes_exchanged, dynascope.compile(modes_exchanged, backend=backend)):
        first, second = Counting(), Counting()
        first.__enter__()
        result = shown(call(values(3), first, second))
        torch.mul(values(3), 2)
        second.__exit__(None, None, None)
        told.append((result, first.names, second.names))
    assert told[0] == told[1]


class Telling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        print(func.__name__)
        return func(*args, **(kwargs or {}))


def broken(x, y, mode):
    w = x * 2
    with mode as on:
        z = torch.add(x, y)
        print("inside")
        z = torch.relu(z) * 2
    return z * 3, w, getattr(on, "names", None)


@pytest.mark.expects("print-call")
@pytest.mark.parametrize("mode", [Counting, Telling])
def test_a_break_under_a_mode(mode, capsys):
    compiled = dynascope.compile(broken, backend="eager")
    for _ in range(2):
        said = []
        for call in (broken, compiled):
            found = shown(call(values(3), values(3), mode()))
            said.append((found, capsys.readouterr().out))
        assert said[0] == said[1]


def test_who_refuses_raises():
    def total(x, y):
        return x + y

    with pytest.raises(TypeError, match="unsupported operand"):
        dynascope.compile(total, backend="eager")(values(3).as_subclass(Refuses), values(3).as_subclass(Named))


class Dispatching(torch.Tensor):
    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype)

    def __init__(self, data):
        self.data_inside = data

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [each.data_inside if isinstance(each, Dispatching) else each for each in args]
        return cls(func(*plain, **(kwargs or {})))


@pytest.mark.expects("tensor-subclass")
def test_a_class_below_the_dispatcher_is_left_alone():
    def double(x):
        return x * 2

    result = dynascope.compile(double, backend="eager")(Dispatching(values(3)))
    assert type(result) is Dispatching and result.data_inside.tolist() == [2, 4, 6]


class Tally:
    total = 0


def test_an_attribute_of_a_class_is_written():
    def tallied(x):
        Tally.total += x.shape[0]
        return x * Tally.total, Tally().total

    compiled = dynascope.compile(tallied, backend="eager")
    found = []
    for call in (tallied, compiled):
        Tally.total = 0
        found.append([shown(call(values(size))) for size in (2, 2, 3, 2)] + [Tally.total])
    assert found[0] == found[1]


@torch.no_grad()
def without_gradients(x):
    return x + 1


def gradients_switched(x, mode):
    with mode:
        with torch.no_grad():
            y = x + 1
        torch.set_grad_enabled(True)
        y = without_gradients(y)
    return y * x


def test_a_mode_sees_gradients_switched_on_and_off():
    told = []
    for function in (gradients_switched, dynascope.compile(gradients_switched)):
        for is_around in (False, True):
            inside, around = Counting(), Counting()
            x = torch.ones(3, requires_grad=True)
            with around if is_around else torch.enable_grad():
                result = function(x, inside)
            told.append((inside.names, around.names, result.requires_grad))
    assert told[:2] == told[2:]
    assert told[0][0].count("_set_grad_enabled") > 3


@pytest.mark.may_break
@pytest.mark.parametrize("switch", [torch._C.DisableTorchFunctionSubclass, torch._C.DisableTorchFunction])
def test_a_break_where_nobody_is_asked(switch):
    def program(x):
        context = switch()
        with context:
            print(end="")
            inside = type(x + 1)
            with switch():
                print(end="")
            print(end="")
        return inside, type(x + 1)

    x = torch.ones(2).as_subclass(Named)
    state = torch._C._get_torch_function_state()
    assert dynascope.compile(lambda x: program(x), backend="eager")(x) == program(x)
    assert torch._C._get_torch_function_state() == state


def test_a_class_sees_nothing_of_a_compilation():
    """Of its calls none is the engine's own: also where kernels are made, which asks on what devices the arguments are."""

    class Noting(torch.Tensor):
        seen = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    def program(x):
        return x + 1, x.sum(), x[0]

    for function in (program, dynascope.compile(program), dynascope.compile(program, dynamic=True)):
        for count in (3, 3, 4):
            Noting.seen.clear()
            function(values(count, 2).as_subclass(Noting))
            assert Noting.seen == ["add", "sum", "__getitem__"]
