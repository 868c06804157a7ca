"""`types.MappingProxyType` from outside: what it shows may be changed by others, who have the dict itself."""

import collections
import inspect
import types

import pytest
import torch
from dynascope import compile
from harness import graphs_of

X = torch.tensor([1.0, -2.0, 3.0])
BEHIND = {"rate": 2.0, "offset": 1.0}
SHOWN = types.MappingProxyType(BEHIND)
ORDERED = types.MappingProxyType(collections.OrderedDict(a=1, b=2))
SIGNATURE = inspect.signature(lambda x, *y, k=3, **z: 0)


def goes_over_items(x):
    for name, value in SHOWN.items():
        x = x * value + len(name)
    return x, [*ORDERED], list(ORDERED.values()), dict(SHOWN)


def looks_up(x):
    return x * SHOWN["rate"] + SHOWN.get("none", 3) + len(ORDERED) + ("a" in ORDERED) + ("c" in ORDERED)


def asks_parameters(x):
    kinds = [parameter.kind.name for parameter in SIGNATURE.parameters.values()]
    bound = SIGNATURE.bind(1, 2, k=5)
    return x + bound.arguments["k"], kinds, bound.arguments["y"]


def is_changed_behind(x):
    BEHIND["rate"] = SHOWN["rate"] + 1
    BEHIND["new"] = x
    return SHOWN["rate"], SHOWN["new"] * 2


def writes_to_the_proxy(x):
    try:
        SHOWN["rate"] = 1
    except TypeError as error:
        return x + 1, str(error)


def gives_views(x):
    return x + 1, SHOWN.keys(), SHOWN


@pytest.mark.parametrize(
    "program", [goes_over_items, looks_up, asks_parameters, is_changed_behind, writes_to_the_proxy, gives_views]
)
def test_what_a_proxy_shows(program):
    found, expected = [], []
    compiled, made = graphs_of(program, fullgraph=True)
    for function, into in ((program, expected), (compiled, found)):
        BEHIND.clear()
        BEHIND.update(rate=2.0, offset=1.0)
        into += [function(X), function(X), dict(BEHIND)]
    assert repr(found) == repr(expected) and made


def test_a_change_between_calls_is_seen():
    BEHIND.clear()
    BEHIND.update(rate=2.0)
    compiled = compile(lambda x: x * sum(SHOWN.values()), fullgraph=True)
    assert torch.equal(compiled(X), X * 2)
    BEHIND["rate"] = 5.0
    assert torch.equal(compiled(X), X * 5)
    BEHIND["more"] = 1.0
    assert torch.equal(compiled(X), X * 6)


def test_a_proxy_of_another_dict_is_seen():
    class Holder:
        shown = None

    holder = Holder()
    compiled = compile(lambda x: x * holder.shown["rate"], fullgraph=True)
    for rate in (2, 3.5):
        holder.shown = types.MappingProxyType({"rate": rate})
        assert torch.equal(compiled(X), X * rate)


def made_inside(x):
    held = {"a": x}
    shown = types.MappingProxyType(held)
    held["b"] = 2
    return shown["a"] + shown["b"], shown, types.MappingProxyType(BEHIND)["rate"]


def of_a_function(x):
    named = inspect.getfullargspec(made_inside)
    return x + len(named.args), named


@pytest.mark.parametrize("program", [made_inside, of_a_function])
def test_proxies_made_inside(program):
    BEHIND.update(rate=2.0)
    compiled, made = graphs_of(program, fullgraph=True)
    assert repr(compiled(X)) == repr(compiled(X)) == repr(program(X)) and made


def test_a_proxy_made_inside_is_of_the_dict_itself():
    compiled, _ = graphs_of(lambda x: (x + 1, types.MappingProxyType(BEHIND)), fullgraph=True)
    _, shown = compiled(X)
    BEHIND["late"] = 7
    assert shown["late"] == 7
    del BEHIND["late"]
