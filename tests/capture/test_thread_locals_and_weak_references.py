"""What a thread keeps for itself, weak references made inside, and what is registered by both: hooks."""

import gc
import threading
import weakref

import dynascope
import pytest
import torch
from dynascope import compile
from harness import graphs_of
from torch import nn

X = torch.tensor([1.0, -2.0, 3.0])
STATE = threading.local()


class Scales(threading.local):
    depth = 2

    def deeper(self):
        self.depth += 1
        return self.depth


def reads(x):
    return x * STATE.scale + len(STATE.names)


def writes(x):
    STATE.calls = getattr(STATE, "calls", 0) + 1
    STATE.last = x + 1
    if hasattr(STATE, "gone"):
        del STATE.gone
    return STATE.last * 2


@pytest.mark.parametrize("program", [reads, writes])
def test_a_thread_finds_its_own(program):
    compiled, made = graphs_of(program, fullgraph=True)

    def runs(function, scale, seen):
        STATE.scale, STATE.names, STATE.gone = scale, ["a"], scale
        seen += [function(X), function(X), {**STATE.__dict__}]

    for scale in (2.0, 5.0):
        seen, expected = [], []
        for function, into in ((program, expected), (compiled, seen)):
            thread = threading.Thread(target=runs, args=(function, scale, into))
            thread.start()
            thread.join()
        assert repr(seen) == repr(expected)
    assert made


def test_methods_of_a_class_of_thread_locals():
    scales = Scales()
    compiled = compile(lambda x: x * scales.deeper(), fullgraph=True)
    assert torch.equal(compiled(X), X * 3) and torch.equal(compiled(X), X * 4) and scales.depth == 4


def test_an_init_that_gives_attributes_runs_in_each_thread():
    class Set(threading.local):
        def __init__(self):
            self.scale, self.names = 3.0, []

    def program(x):
        own.scale += 1
        own.names.append("a")
        return x * own.scale, len(own.names)

    own, found = Set(), []
    compiled = compile(program, fullgraph=True)
    for _ in range(2):
        thread = threading.Thread(target=lambda: found.extend((compiled(X), compiled(X))))
        thread.start()
        thread.join()
    assert [(int(scaled[0]), count) for scaled, count in found] == [(4, 1), (5, 2)] * 2
    assert own.scale == 3.0 and own.names == []


def test_an_init_that_does_more_is_left_to_the_program():
    begun = []

    class Set(threading.local):
        def __init__(self):
            begun.append(1)
            self.scale = 3.0

    own = Set()
    with dynascope.expected("unsupported-attribute"):
        assert torch.equal(compile(lambda x: x * own.scale)(X), X * 3)
    assert begun == [1]


class Child:
    def __init__(self, parent):
        self.parent = weakref.ref(parent)


class Parent:
    def __init__(self, scale):
        self.scale, self.child = scale, Child(self)


def test_weak_references_lead_to_what_is_held():
    layer = nn.Linear(3, 3)

    def program(x):
        parent = Parent(2)
        known = weakref.ref(layer)
        y = known()(x) * parent.child.parent().scale
        result = weakref.ref(x)
        assert known is weakref.ref(layer) and isinstance(known, weakref.ref)
        return y, parent, known, result

    y, parent, known, result = compile(program, fullgraph=True)(X)
    assert torch.equal(y, program(X)[0])
    assert parent.child.parent() is parent and known() is layer and result() is X
    assert known is weakref.ref(layer)


def test_what_is_called_when_an_object_goes_is_pythons():
    said = []

    def program(x):
        thing = Parent(1)
        weakref.ref(thing, said.append)
        return x + 1

    with dynascope.expected("foreign-call"):
        assert torch.equal(compile(program)(X), X + 1)


def test_what_has_no_weak_references_says_so():
    with pytest.raises(TypeError, match="cannot create weak reference to 'list' object"):
        compile(lambda x: (x + 1, weakref.ref([1])))(X)


def make_layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU())


def hooked(layers, x, seen):
    kept = layers[0].register_forward_hook(lambda layer, given, made: seen.append(made) or made * 2)
    passing = layers[1].register_forward_pre_hook(lambda layer, given: (given[0] + 1,))
    y = layers(x)
    passing.remove()
    return y + layers(x) + seen[0], kept


def test_hooks_that_are_registered_inside_run_inside():
    compiled, made = graphs_of(hooked, fullgraph=True)
    mine, eagers = make_layers(), make_layers()
    for _ in range(2):
        expected, seen = [], []
        (wanted, there), (found, kept) = hooked(eagers, X, expected), compiled(mine, X, seen)
        assert torch.equal(found, wanted) and len(seen) == len(expected)
        assert len(mine[0]._forward_hooks) == len(eagers[0]._forward_hooks)
        assert torch.equal(mine(X), eagers(X))
    kept.remove()
    there.remove()
    assert len(mine[0]._forward_hooks) == 1 and not mine[1]._forward_pre_hooks and made


def test_a_hook_that_is_put_into_the_table_runs():
    layers = make_layers()

    def program(x):
        layers[0]._forward_hooks[7] = lambda layer, given, made: made * 5
        return layers(x)

    found = compile(program, fullgraph=True)(X)
    assert torch.equal(found, layers(X))


class Thing:
    def __init__(self):
        self.value = 2


def gone(x):
    thing = Thing()
    known = weakref.ref(thing)
    del thing
    return x, known()


def gone_from_a_list(x):
    things = [Thing()]
    known = weakref.ref(things[0])
    things.clear()
    return x, known()


def gone_behind_a_break(x):
    thing = Thing()
    known = weakref.ref(thing, lambda _: None)
    y, thing = x * thing.value, known
    return y, known()


@pytest.mark.expects("foreign-value")
@pytest.mark.parametrize("program", [gone, gone_from_a_list])
def test_what_is_let_go_is_gone(program):
    with dynascope.expected("foreign-call", required=False):
        assert compile(program, backend="eager")(X)[1] is None


@pytest.mark.expects("foreign-call")
def test_what_is_watched_is_let_go_where_its_name_is_given_to_another():
    assert compile(gone_behind_a_break, backend="eager")(X)[1] is None


class Node:
    pass


def looked_up(cache, x, key, other):
    y = cache[key] * x if key in cache else x - 1
    return y + cache.get(other, 5) + len(cache)


def test_dictionaries_with_weak_keys():
    first, second, node = nn.Linear(2, 2), nn.Linear(2, 2), Node()
    cache = weakref.WeakKeyDictionary({first: torch.ones(2), node: 3.0})
    x = torch.tensor([1.0, 2.0])
    compiled = dynascope.compile(looked_up, backend="eager", fullgraph=True)
    for key, other in ((first, node), (second, node), (first, second), (node, node), (first, node)):
        assert torch.equal(compiled(cache, x, key, other), looked_up(cache, x, key, other))
    compiled = dynascope.compile(looked_up, backend="eager", fullgraph=True)
    for changed in (second, first):
        assert torch.equal(compiled(cache, x, first, node), looked_up(cache, x, first, node))
        cache[changed] = x * 7
        assert torch.equal(compiled(cache, x, second, node), looked_up(cache, x, second, node))
    kept = weakref.ref(first)
    del first, key, changed
    gc.collect()
    assert kept() is None
    assert torch.equal(compiled(cache, x, second, node), looked_up(cache, x, second, node))


def test_dictionaries_with_weak_values():
    layer, node = nn.Linear(2, 2), Node()
    known = weakref.WeakValueDictionary({"layer": layer, "node": node})

    def program(x):
        found = known.get("layer")
        x = x + 1 if "node" in known else x
        return x if found is None else found(x)

    compiled, x = dynascope.compile(program, backend="eager", fullgraph=True), torch.tensor([1.0, 2.0])
    assert torch.equal(compiled(x), program(x))
    del node
    gc.collect()
    assert torch.equal(compiled(x), program(x))
    known["layer"] = layer = nn.Linear(2, 2)
    assert torch.equal(compiled(x), program(x))
    del layer
    gc.collect()
    assert torch.equal(compiled(x), program(x))


def test_a_weak_dictionary_gets_keys_that_go_with_their_objects():
    """Its references call it when an object goes."""
    scales = weakref.WeakKeyDictionary()

    def program(layer, x):
        scales.setdefault(layer, {"calls": 0})["calls"] += 1
        return layer(x) * scales[layer]["calls"]

    layer, other = nn.Linear(3, 3), nn.Linear(3, 3)
    compiled = compile(program, fullgraph=True)
    for each, calls in ((layer, 1), (layer, 2), (other, 1), (layer, 3)):
        torch.testing.assert_close(compiled(each, X), each(X) * calls)
    assert {key: held["calls"] for key, held in scales.items()} == {layer: 3, other: 1}
    del other, each
    gc.collect()
    assert list(scales) == [layer]


def test_what_a_reference_calls_for_what_was_made_inside_is_pythons():
    class Kept:
        pass

    def program(x, gone):
        kept = Kept()
        kept.watch = weakref.ref(kept, gone.append)
        return x * 2

    gone = []
    with dynascope.expected("foreign-call"):
        compile(program)(X, gone)
    assert len(gone) == 1

    def watched(x, gone, references):
        kept = Kept()
        references.append(weakref.ref(kept, gone.append))
        del kept
        return x * 2, len(gone)

    with dynascope.expected("foreign-call"):
        assert compile(watched)(X, [], [])[1] == 1
